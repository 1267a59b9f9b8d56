//! The operations of forks: taken up, answered from the ledger, settled, acknowledged.

use std::{path::Path, time::Duration};

use serde_json::json;

use super::{
    ForkAt, ForkRequest, Forked, child,
    found::{self, Found},
    perform, stale,
};
use crate::{
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{
        Host,
        operation::{conflict, in_flight},
        pending, settle as settling,
    },
    store::{
        faults, file,
        ledger::{
            Ledger, Selection,
            entry::{Body, CutRecord, State},
        },
        operations::{self, Claim, OperationLock},
    },
};

/// What came of taking up an operation.
pub(super) enum Taken {
    /// Its child.
    Answer(Box<Forked>),
    /// It has a child that was taken up already, or that is gone. Only where no operation id was given.
    UsedUp,
}

/// What an earlier call left.
enum Earlier {
    /// Nothing that counts.
    Nothing,
    /// It stopped between `pending` and its end.
    Pending,
    /// Recovery abandoned it: it is performed as it was recorded.
    Abandoned(Box<Body>),
    /// It was completed.
    Completed { forked: Box<Forked>, cut: CutRecord },
}

/// Takes the operation's lock, settles what an earlier call left, and answers or performs. `found`: the caller named no
/// operation, and this is the place that is meant.
pub(super) fn take(request: &ForkRequest, host: &Host<'_>, id: &str, found: Option<&Found>) -> Result<Taken> {
    let root = host.state.root();
    let _lock = OperationLock::acquire(root, id, request.wait)?;
    let mut claim = operations::find_claim(root, id)?;
    let mut earlier = look_back(host, id, claim.as_ref())?;
    if let (Earlier::Pending, Some(stopped)) = (&earlier, &claim) {
        settling::settle_claim(host, stopped, request.wait)?;
        claim = operations::find_claim(root, id)?;
        earlier = look_back(host, id, claim.as_ref())?;
    }
    let recorded = match &earlier {
        Earlier::Nothing | Earlier::Pending => None,
        Earlier::Abandoned(body) => body.cut.as_ref(),
        Earlier::Completed { cut, .. } => Some(cut),
    };
    let looked;
    let found = match (recorded.and_then(|cut| found::recorded_name(request, cut)), found) {
        (Some(_), found) => found,
        (None, Some(found)) => Some(found),
        (None, None) => {
            looked = found::find(request)?;
            Some(&looked)
        }
    };
    let digest = digest_of(request, recorded, found);
    if let Some(claim) = claim.as_ref().filter(|_| !matches!(earlier, Earlier::Nothing))
        && claim.request_digest != digest
    {
        return Err(conflict(id, claim));
    }
    match earlier {
        Earlier::Completed { forked, .. } => replay(host, id, *forked, request.operation_id.is_none()),
        Earlier::Pending => Err(in_flight(id)),
        Earlier::Abandoned(body) => {
            let session = claim.as_ref().map(|claim| claim.session_id.as_str());
            let found = session.and_then(|session| child::recorded(session, &body));
            let found = found.ok_or_else(|| stale(id, "its entry names no place"))?;
            let forked = perform(request, host, id, &digest, &found).map_err(|error| match error {
                Error::Refusal(r) if r.code == Code::SnapshotChanged => {
                    stale(id, "the bytes that it was to be made from are not there any more")
                }
                other => other,
            })?;
            Ok(Taken::Answer(Box::new(forked)))
        }
        Earlier::Nothing => {
            let found = found.expect("BUG: what was never recorded was looked for");
            perform(request, host, id, &digest, found).map(|forked| Taken::Answer(Box::new(forked)))
        }
    }
}

/// All that makes two requests the same; see [`operations::Request`].
fn digest_of(request: &ForkRequest, recorded: Option<&CutRecord>, found: Option<&Found>) -> String {
    let name = recorded.and_then(|cut| found::recorded_name(request, cut).map(str::to_owned)).or_else(|| {
        let cut = &found?.cut;
        cut.turn_id.clone().or_else(|| cut.asked.as_ref().map(ToString::to_string))
    });
    let is_turn = matches!(request.at, ForkAt::Turn(_));
    operations::request_digest(&operations::Request {
        agent: request.target.agent,
        allow_gap: false,
        path: &request.target.path.display().to_string(),
        record: name.as_deref().filter(|_| !is_turn),
        seed: Some(crate::selection::SeedMode::Fork),
        selector: operations::Selector::Any,
        turn: name.as_deref().filter(|_| is_turn),
    })
}

fn look_back(host: &Host<'_>, id: &str, claim: Option<&Claim>) -> Result<Earlier> {
    let Some(claim) = claim else { return Ok(Earlier::Nothing) };
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(id) else { return Ok(Earlier::Nothing) };
    let body = &selection.pending.body;
    let Some(cut) = &body.cut else { return Err(conflict(id, claim)) };
    Ok(match selection.closing {
        None => Earlier::Pending,
        Some(closing) if closing.body.state == State::Completed => {
            // Whoever wrote it may have been stopped before it was durable and had its head.
            if !read.newer {
                ledger.mend()?;
                ledger.take_notes().iter().for_each(|note| host.note(note));
            }
            let forked = answer_of(&ledger, &selection)?;
            Earlier::Completed { forked: Box::new(forked), cut: cut.clone() }
        }
        Some(closing) if closing.body.recovered == Some(true) => Earlier::Abandoned(Box::new(body.clone())),
        // Closed by a refusal: a retry decides afresh.
        Some(_) => Earlier::Nothing,
    })
}

/// What a completed operation answered.
fn answer_of(ledger: &Ledger, selection: &Selection<'_>) -> Result<Forked> {
    let result = selection.closing.and_then(|closing| closing.body.result.clone());
    let forked = result.and_then(|result| serde_json::from_value::<Forked>(result).ok());
    let Some(mut forked) = forked else {
        let message = format!(
            "the entry of operation `{}` in `{}` has no readable result",
            selection.operation_id(),
            ledger.path().display()
        );
        return Err(Fault::new(FaultCode::Damaged, message).into());
    };
    forked.acknowledged = is_acknowledged(selection);
    Ok(forked)
}

fn is_acknowledged(selection: &Selection<'_>) -> bool {
    selection.later.iter().any(|entry| entry.body.state == State::Acknowledged)
}

fn replay(host: &Host<'_>, id: &str, mut forked: Forked, implicit: bool) -> Result<Taken> {
    forked.replayed = true;
    let path = Path::new(&forked.transcript);
    if !file::exists(path) {
        if implicit {
            return Ok(Taken::UsedUp);
        }
        return Err(Refusal::new(
            Code::StaleSource,
            format!("session `{}`, which operation `{id}` made, is gone", forked.session_id),
        )
        .hint("fork again with a new operation id")
        .detail(json!({"operationId": id, "transcript": forked.transcript}))
        .into());
    }
    if implicit {
        if forked.acknowledged {
            return Ok(Taken::UsedUp);
        }
        // The agent has gone on in it: it was taken up, and nobody told us.
        if forked.bytes.is_some() && file::length(path)? != forked.bytes {
            if let Some(claim) = operations::find_claim(host.state.root(), id)? {
                record_acknowledgement(host, &claim)?;
            }
            return Ok(Taken::UsedUp);
        }
    }
    Ok(Taken::Answer(Box::new(forked)))
}

/// Operations on the same source, turn and boundary that nobody has acknowledged, the last first.
pub(super) fn unacknowledged(request: &ForkRequest, host: &Host<'_>, found: &Found) -> Result<Vec<String>> {
    let ledger = Ledger::open(host.state.root(), request.target.agent, &found.session_id);
    let read = ledger.read()?;
    let transcript = request.target.path.display().to_string();
    let same = |cut: &CutRecord| {
        cut.turn_id == found.cut.turn_id && cut.asked == found.cut.asked && cut.boundary == found.cut.boundary
    };
    let wanted = |s: &Selection<'_>| {
        let open = s.is_pending() || s.is_completed();
        open && !is_acknowledged(s) && s.pending.body.cut.as_ref().is_some_and(same)
    };
    let mut ids: Vec<String> = read
        .selections(&transcript)
        .iter()
        .filter(|s| wanted(s))
        .map(|s| s.operation_id().to_owned())
        .collect();
    ids.reverse();
    Ok(ids)
}

/// Claims the id, and notes whose child the child will be.
pub(super) fn claim(
    request: &ForkRequest,
    host: &Host<'_>,
    id: &str,
    digest: &str,
    found: &Found,
    ledger: &Ledger,
    planned: &child::Planned,
) -> Result<()> {
    let root = host.state.root();
    let claim = Claim {
        operation_id: id.to_owned(),
        request_digest: digest.to_owned(),
        agent: request.target.agent,
        session_id: found.session_id.clone(),
        ledger: ledger.path().display().to_string(),
        transcript: request.target.path.display().to_string(),
    };
    pending::make_claim(host, &claim)?;
    operations::note_child(root, planned.child(), id)?;
    faults::at("claimed", &request.target.path)
}

/// See [`super::acknowledge`].
pub(super) fn acknowledge(id: &str, wait: Duration, host: &Host<'_>) -> Result<Forked> {
    let root = host.state.root();
    let unknown = |why: &str| {
        Error::from(
            Refusal::new(Code::OperationUnknown, format!("operation `{id}` {why}"))
                .hint("`offshoot audit list` shows what is recorded")
                .detail(json!({"operationId": id})),
        )
    };
    if operations::find_claim(root, id)?.is_none() {
        return Err(unknown("is not recorded"));
    }
    let _lock = OperationLock::acquire(root, id, wait)?;
    let claim = operations::find_claim(root, id)?.ok_or_else(|| unknown("is not recorded"))?;
    settling::settle_claim(host, &claim, wait)?;
    record_acknowledgement(host, &claim)?.ok_or_else(|| unknown("made no child"))
}

/// Appends that the child of an operation was taken up, unless the ledger says so already. None if it made none.
fn record_acknowledgement(host: &Host<'_>, claim: &Claim) -> Result<Option<Forked>> {
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(&claim.operation_id) else { return Ok(None) };
    let body = &selection.pending.body;
    if body.cut.is_none() || !selection.is_completed() {
        return Ok(None);
    }
    let mut forked = answer_of(&ledger, &selection)?;
    forked.replayed = true;
    if !forked.acknowledged {
        ledger.append(pending::later(body, State::Acknowledged), host.now())?;
        ledger.take_notes().iter().for_each(|note| host.note(note));
        forked.acknowledged = true;
    }
    Ok(Some(forked))
}

/// A session was resumed: if it is the child of a fork, that fork is acknowledged. Busy operations are left alone.
pub(in crate::resume) fn acknowledge_child(host: &Host<'_>, child: &Path) -> Result<()> {
    let root = host.state.root();
    let Some(id) = operations::operation_of_child(root, child)? else { return Ok(()) };
    let _lock = match OperationLock::acquire(root, &id, Duration::ZERO) {
        Ok(lock) => lock,
        Err(Error::Refusal(_)) => return Ok(()),
        Err(fault) => return Err(fault),
    };
    let Some(claim) = operations::find_claim(root, &id)? else { return Ok(()) };
    record_acknowledgement(host, &claim).map(drop)
}
