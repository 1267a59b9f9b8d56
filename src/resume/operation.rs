//! Operation ids: the same id with the same request gives the same result, however often (I9).

use std::time::Duration;

use serde_json::json;

use crate::{
    dialect,
    record::{RecordId, can_mean},
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{Answer, Host, Request, Selector},
    selection::SeedMode,
    store::{
        ledger::{
            Ledger,
            entry::{Entry, SnapshotRef, State, VerdictRecord},
        },
        operations::{self, Claim, OperationLock},
        snapshot::Snapshot,
    },
    topology::{Tree, resolve_leaf},
};

/// The operation of this call, and what is known of it from before.
pub(super) struct Operation {
    pub id: String,
    pub request_digest: String,
    pub lock: Option<OperationLock>,
    pub earlier: Earlier,
}

/// What an earlier call with the same id left.
pub(super) enum Earlier {
    /// Nothing that counts.
    Nothing,
    /// It stopped between `pending` and its end; the claim says where.
    Pending(Claim),
    /// Recovery abandoned it: it is performed with the verdict that was recorded.
    Abandoned(Box<Recorded>),
    /// It was completed.
    Completed(Box<Answer>),
    /// It was no resume.
    Foreign,
}

/// A verdict to be performed again, and the snapshot that it was made for.
pub(super) struct Recorded {
    pub claim: Claim,
    pub verdict: VerdictRecord,
    pub snapshot: SnapshotRef,
    pub mode: SeedMode,
    pub followed: Vec<String>,
}

/// Takes the operation's lock and finds out what is known of it.
///
/// # Errors
/// `operation-in-flight`, `operation-conflict`, `usage` for an id that is none.
pub(super) fn begin(request: &Request, host: &Host<'_>) -> Result<Operation> {
    let Some(id) = request.operation_id.clone() else {
        // Nobody else knows a new id: its lock is taken when there is something to write under it.
        let request_digest = digest(request, resolved_leaf(request, None)?);
        let id = (host.new_id)();
        return Ok(Operation { id, request_digest, lock: None, earlier: Earlier::Nothing });
    };
    operations::validate_operation_id(&id)?;
    let root = host.state.root();
    let claim = operations::find_claim(root, &id)?;
    if request.dry_run && claim.is_none() {
        let request_digest = digest(request, resolved_leaf(request, None)?);
        return Ok(Operation { id, request_digest, lock: None, earlier: Earlier::Nothing });
    }
    let lock = OperationLock::acquire(root, &id, request.wait)?;
    // Only under the lock is the claim's state settled.
    let claim = operations::find_claim(root, &id)?;
    let (earlier, recorded_leaf) = match claim.clone() {
        None => (Earlier::Nothing, None),
        Some(claim) => look_back(host, &id, claim)?,
    };
    let request_digest = digest(request, resolved_leaf(request, recorded_leaf)?);
    if let Some(claim) = claim
        && !matches!(earlier, Earlier::Nothing)
        && (claim.request_digest != request_digest || matches!(earlier, Earlier::Foreign))
    {
        return Err(conflict(&id, &claim));
    }
    Ok(Operation { id, request_digest, lock: Some(lock), earlier })
}

/// The refusal of an id that something else was done under.
pub(super) fn conflict(id: &str, claim: &Claim) -> Error {
    Refusal::new(Code::OperationConflict, format!("operation id `{id}` was used for another request"))
        .hint("give a new operation id; `offshoot audit show` tells what this one did")
        .detail(json!({"operationId": id, "transcript": claim.transcript}))
        .into()
}

/// The refusal of an operation that neither this call nor another one could bring to its end.
pub(super) fn in_flight(id: &str) -> Error {
    Refusal::new(Code::OperationInFlight, format!("operation `{id}` could not be settled yet"))
        .hint("`offshoot recover` says what stands in the way")
        .detail(json!({"operationId": id}))
        .into()
}

fn look_back(host: &Host<'_>, id: &str, claim: Claim) -> Result<(Earlier, Option<RecordId>)> {
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(id) else { return Ok((Earlier::Nothing, None)) };
    let body = &selection.pending.body;
    if body.cut.is_some() {
        return Ok((Earlier::Foreign, None));
    }
    let leaf = body.verdict.as_ref().map(|v| v.leaf_uuid.clone());
    let damaged = |what: &str| {
        Fault::new(
            FaultCode::Damaged,
            format!("the entry of operation `{id}` in `{}` has no {what}", ledger.path().display()),
        )
    };
    let refused = |c: &&Entry| c.body.state == State::Abandoned && c.body.recovered != Some(true);
    let earlier = match selection.closing {
        // Another verb's, which the digest of its request says; only after a refusal its id is free.
        closing if body.replace.is_some() && !closing.as_ref().is_some_and(refused) => {
            Earlier::Pending(claim)
        }
        None => Earlier::Pending(claim),
        Some(closing) if closing.body.state == State::Completed => {
            let result = closing.body.result.clone().ok_or_else(|| damaged("result"))?;
            let answer = serde_json::from_value(result).map_err(|_| damaged("readable result"))?;
            // Whoever wrote it may have been stopped before it was durable and had its head.
            if !read.newer {
                ledger.mend()?;
                ledger.take_notes().iter().for_each(|note| host.note(note));
            }
            Earlier::Completed(Box::new(answer))
        }
        Some(closing) if closing.body.recovered == Some(true) => {
            let verdict = body.verdict.clone().ok_or_else(|| damaged("verdict"))?;
            let snapshot = body.snapshot.clone().ok_or_else(|| damaged("snapshot"))?;
            let seed = body.seed.as_ref().ok_or_else(|| damaged("seed"))?;
            let recorded =
                Recorded { claim, verdict, snapshot, mode: seed.mode, followed: body.followed.clone() };
            Earlier::Abandoned(Box::new(recorded))
        }
        // Closed by a refusal: a retry decides afresh.
        Some(_) => Earlier::Nothing,
    };
    Ok((earlier, leaf))
}

/// The leaf of `--leaf` in full, so that two spellings of one request are one request.
fn resolved_leaf(request: &Request, recorded: Option<RecordId>) -> Result<Option<String>> {
    let Selector::Leaf(text) = &request.selector else { return Ok(None) };
    if let Some(leaf) = recorded
        && can_mean(text, leaf.as_str())
    {
        return Ok(Some(leaf.to_string()));
    }
    // A whole UUID needs no look at the transcript, which is read once more under the lease.
    if uuid::Uuid::try_parse(text).is_ok_and(|id| id.to_string() == *text) {
        return Ok(Some(text.clone()));
    }
    let dialect = dialect::of(request.target.agent);
    let snapshot = Snapshot::take(&request.target.path, dialect, request.seen.is_some())?;
    // Before the leaf is looked for among records that nobody saw.
    request.seen.as_ref().map_or(Ok(()), |seen| seen.require(&snapshot))?;
    let t = &snapshot.transcript;
    let leaf = resolve_leaf(t, &Tree::new(t), Some(text))?;
    Ok(Some(t.ids.text(leaf)))
}

fn digest(request: &Request, leaf: Option<String>) -> String {
    let selector = match &request.selector {
        Selector::Auto => operations::Selector::Any,
        Selector::Undo => operations::Selector::Undo,
        Selector::Pick => operations::Selector::Pick,
        Selector::Policy(file) => operations::Selector::Policy { digest: file.digest.clone() },
        Selector::Leaf(_) => operations::Selector::Leaf { leaf: leaf.unwrap_or_default() },
    };
    operations::request_digest(&operations::Request {
        agent: request.target.agent,
        allow_gap: request.allow_gap,
        path: &request.target.path.display().to_string(),
        record: None,
        seed: request.seed,
        selector,
        turn: None,
    })
}

/// How long an operation that is not ours is waited for while others are settled: not at all.
pub(super) const NO_WAIT: Duration = Duration::ZERO;
