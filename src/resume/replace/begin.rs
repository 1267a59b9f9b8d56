//! The operation of a truncate or restore, and what is known of it from before (I9).

use std::time::Duration;

use crate::{
    dialect,
    record::{Agent, can_mean},
    refusal::Result,
    resume::{Host, Target, operation, settle},
    store::{
        ledger::{
            Ledger,
            entry::{Body, Content, ReplaceKind, State},
        },
        operations::{self, Claim, OperationLock, Selector},
        snapshot::Seen,
    },
};

use super::answer::Replaced;

/// What a caller asked for.
pub(super) struct Call<'a> {
    pub kind: ReplaceKind,
    pub target: &'a Target,
    /// Truncate: the record, as it was typed.
    pub record: Option<&'a str>,
    pub operation_id: Option<&'a str>,
    pub wait: Duration,
    pub dry_run: bool,
    /// What the record was chosen on by looking.
    pub seen: Option<&'a Seen>,
}

impl Call<'_> {
    /// BLAKE3 of the request, with the record in full.
    pub fn digest(&self, record: Option<&str>) -> String {
        operations::request_digest(&operations::Request {
            agent: self.target.agent,
            allow_gap: false,
            path: &self.target.path.display().to_string(),
            record,
            seed: None,
            selector: match self.kind {
                ReplaceKind::Truncate => Selector::Truncate,
                ReplaceKind::Restore => Selector::Restore,
            },
            turn: None,
        })
    }
}

/// The operation of a call.
pub(super) struct Operation {
    pub id: String,
    pub lock: Option<OperationLock>,
    /// Answered from the ledger.
    pub replay: Option<Box<Replaced>>,
    /// What it was to replace when recovery abandoned it. Only the same bytes may be replaced by a retry: what others
    /// wrote since was not there when the caller decided.
    pub abandoned: Option<Content>,
}

/// Takes the operation's lock and finds out what is known of it.
///
/// # Errors
/// `seed-unsupported`, `operation-in-flight`, `operation-conflict`, `usage` for an id that is none.
pub(super) fn begin(call: &Call<'_>, host: &Host<'_>) -> Result<Operation> {
    if call.target.agent == Agent::Reasonix {
        return Err(dialect::reasonix::unsupported("truncate or restore").into());
    }
    let fresh = |id: String| Operation { id, lock: None, replay: None, abandoned: None };
    let Some(id) = call.operation_id else { return Ok(fresh((host.new_id)())) };
    operations::validate_operation_id(id)?;
    let root = host.state.root();
    if call.dry_run && operations::find_claim(root, id)?.is_none() {
        return Ok(fresh(id.to_owned()));
    }
    let lock = OperationLock::acquire(root, id, call.wait)?;
    let mut operation = Operation { lock: Some(lock), ..fresh(id.to_owned()) };
    // Only under the lock is the claim's state settled.
    let Some(claim) = operations::find_claim(root, id)? else { return Ok(operation) };
    let Some((body, mut state)) = entry_of(host, id, &claim)? else { return Ok(operation) };
    if state.is_none() {
        // It stopped half way. Settled first, it was either made or is free to be made again.
        settle::settle_claim(host, &claim, call.wait)?;
        state = entry_of(host, id, &claim)?.and_then(|(_, state)| state);
    }
    let Some((state, recovered)) = state else {
        return Err(operation::in_flight(id));
    };
    if state == State::Abandoned && !recovered {
        // Closed by a refusal: a retry decides afresh.
        return Ok(operation);
    }
    let record = body.replace.as_ref().and_then(|r| r.record_uuid.as_ref()).map(|r| r.as_str());
    let typed = |full: &&str| call.record.is_some_and(|typed| can_mean(typed, full));
    if call.digest(record.filter(typed).or(call.record)) != claim.request_digest {
        return Err(operation::conflict(id, &claim));
    }
    let replace = body.replace.as_ref();
    match state {
        State::Replaced => {
            let answer = replace.map(|r| Replaced::of(claim.agent, &claim.session_id, &body, r));
            operation.replay = answer.map(|answer| Box::new(Replaced { replayed: true, ..answer }));
        }
        _ => operation.abandoned = replace.map(|r| r.old.clone()),
    }
    Ok(operation)
}

/// The pending entry of the operation's last attempt, and how it was closed: in which state, and whether by recovery.
type Closed = (Body, Option<(State, bool)>);

fn entry_of(host: &Host<'_>, id: &str, claim: &Claim) -> Result<Option<Closed>> {
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(id) else { return Ok(None) };
    let closing = selection.closing.map(|c| (c.body.state, c.body.recovered == Some(true)));
    if closing.is_some_and(|(state, _)| state == State::Replaced) && !read.newer {
        // Whoever wrote it may have been stopped before it was durable and had its head.
        ledger.mend()?;
        ledger.take_notes().iter().for_each(|note| host.note(note));
    }
    Ok(Some((selection.pending.body.clone(), closing)))
}
