//! `fork`: a child of a source, cut at a turn or at a record, while the source goes on.
//!
//! operation lock -> look at the source -> prefix -> claim -> pending -> child -> completed
//!
//! No lease of the source is taken and nothing is written to it: the child is made from the bytes up to the end of what
//! closed the turn, read as if the file ended there. Who forks twice without saying so wants one child: an operation on
//! the same source, turn and boundary that nobody has acknowledged is taken up again. An operation is acknowledged by
//! [`acknowledge`], by a resume of its child through us, or by the agent having gone on in the child.

mod child;
mod found;
mod operation;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    dialect::Client,
    record::{Agent, RecordId},
    refusal::{Code, Error, Refusal, Result},
    resume::{Host, Target, operation::in_flight, pending, resume_command},
    store::{
        faults,
        ledger::{
            Ledger,
            entry::{Body, CutRecord, SeedRecord, State},
        },
        operations,
        snapshot::Seen,
    },
    turns::Anchor,
};
use operation::Taken;

pub(super) use operation::acknowledge_child;

/// The schema of [`Forked`].
pub const SCHEMA: &str = "offshoot.fork/1";

/// Where to fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForkAt {
    /// At the end of this turn, by its id or a prefix of it.
    Turn(String),
    /// At this record, by its id or a prefix of it.
    Record(String),
}

/// One call of `fork`.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The source.
    pub target: Target,
    /// Where.
    pub at: ForkAt,
    /// What the source must still be.
    pub expect: Option<Anchor>,
    /// The caller's retry key.
    pub operation_id: Option<String>,
    /// Make another child, even if there is one that nobody has taken up yet.
    pub new: bool,
    /// How long to wait for the operation's lock.
    pub wait: Duration,
    /// Which client is simulated.
    pub client: Client,
    /// What the place was chosen on by looking, if it was.
    pub seen: Option<Seen>,
}

/// The identity of a child, in the shape of `fork --json` (`offshoot.fork/1`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forked {
    /// `offshoot.fork/1`.
    pub schema: String,
    /// The child.
    pub session_id: String,
    /// Its file, or its folder.
    pub transcript: String,
    /// The turn that it ends with, where it was forked at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The number of that turn in its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_number: Option<u64>,
    /// The last record that it has of its source.
    pub record: RecordId,
    /// The operation, to be given again for a retry, or to `--ack`.
    pub operation_id: String,
    /// What resumes the child.
    pub command: Vec<String>,
    /// Whether this was answered from the ledger.
    pub replayed: bool,
    /// Whether somebody has taken the child up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledged: bool,
    /// Bytes of the child as it was made, by which it is seen whether somebody has gone on in it. For the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Creates a child, or finds the one that the same operation created.
///
/// # Errors
/// The reasons why one cannot fork there (`turn-open`, `turn-unclosed`, `active-authority`, `boundary-shared`,
/// `history-unverifiable`, `unknown-turn`, `inside-tool-round`, `sidechain-leaf`, `leaf-unknown`, `id-ambiguous`), what
/// a seed of the chain refuses, `stale-source`, `operation-in-flight`, `operation-conflict`; faults.
pub fn fork(request: &ForkRequest, host: &Host<'_>) -> Result<Forked> {
    if let Some(id) = &request.operation_id {
        operations::validate_operation_id(id)?;
        return match operation::take(request, host, id, None)? {
            Taken::Answer(forked) => Ok(*forked),
            Taken::UsedUp => Err(in_flight(id)),
        };
    }
    let found = found::find(request)?;
    if request.new {
        let id = (host.new_id)();
        return match operation::take(request, host, &id, Some(&found))? {
            Taken::Answer(forked) => Ok(*forked),
            Taken::UsedUp => Err(in_flight(&id)),
        };
    }
    for id in operation::unacknowledged(request, host, &found)? {
        if let Taken::Answer(forked) = operation::take(request, host, &id, Some(&found))? {
            return Ok(*forked);
        }
    }
    // Two callers at once must meet at one operation, so its id follows from what is asked for, and from how many
    // children of it were taken up before.
    for nth in 0u64.. {
        let id = found.derived_id(request, nth);
        if let Taken::Answer(forked) = operation::take(request, host, &id, Some(&found))? {
            return Ok(*forked);
        }
    }
    unreachable!("BUG: an operation that was never made is taken")
}

/// Acknowledges an operation: its child was taken up, and the next fork at the same place makes another. To acknowledge
/// it again changes nothing.
///
/// # Errors
/// `operation-unknown` if there is no such fork or it made no child, `operation-in-flight`; faults.
pub fn acknowledge(operation_id: &str, wait: Duration, host: &Host<'_>) -> Result<Forked> {
    operations::validate_operation_id(operation_id)?;
    operation::acknowledge(operation_id, wait, host)
}

impl Forked {
    fn new(agent: Agent, operation_id: &str, cut: &CutRecord, seed: &SeedRecord) -> Forked {
        Forked {
            schema: SCHEMA.to_owned(),
            session_id: seed.session_id.clone(),
            transcript: seed.transcript.clone(),
            turn_id: cut.turn_id.clone(),
            turn_number: cut.turn_number,
            record: cut.record.clone(),
            operation_id: operation_id.to_owned(),
            command: resume_command(agent, &seed.session_id),
            replayed: false,
            acknowledged: false,
            bytes: None,
            warnings: Vec::new(),
        }
    }
}

/// The answer to a fork whose child recovery found whole; none for an entry that is no fork at a turn or a record.
pub(super) fn recovered_answer(agent: Agent, body: &Body) -> Option<Forked> {
    Some(Forked::new(agent, &body.operation_id, body.cut.as_ref()?, body.seed.as_ref()?))
}

/// Makes the child of an operation whose lock is held and that was not made before.
fn perform(
    request: &ForkRequest,
    host: &Host<'_>,
    operation_id: &str,
    digest: &str,
    found: &found::Found,
) -> Result<Forked> {
    let path = &request.target.path;
    let planned = child::plan(request, host, operation_id, found)?;
    let ledger = Ledger::open(host.state.root(), request.target.agent, &found.session_id);
    operation::claim(request, host, operation_id, digest, found, &ledger, &planned)?;
    let body = planned.body(host, operation_id, digest, found);
    ledger.append(body.clone(), host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("pending", path)?;
    let made = match planned.publish(request, host, operation_id) {
        Ok(made) => made,
        Err(error) => {
            if let Error::Refusal(refusal) = &error {
                pending::abandon(host, &ledger, operation_id, &body, refusal)?;
            }
            return Err(error);
        }
    };
    faults::at("seeded", path)?;
    let forked = Forked {
        bytes: made.bytes,
        warnings: made.warnings,
        ..Forked::new(request.target.agent, operation_id, &found.cut, planned.seed())
    };
    let mut done = pending::later(&body, State::Completed);
    done.result = Some(serde_json::to_value(&forked).expect("BUG: an answer is always JSON"));
    ledger.append(done, host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("completed", path)?;
    Ok(forked)
}

/// For a retry of an operation that recovery abandoned.
fn stale(operation_id: &str, why: &str) -> Error {
    Refusal::new(Code::StaleSource, format!("the recorded fork no longer fits its source: {why}"))
        .hint("fork again with a new operation id")
        .detail(json!({"operationId": operation_id}))
        .into()
}
