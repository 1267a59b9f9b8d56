//! Whether the agent went on below the chosen leaf, once a command has ended.

use serde::Serialize;

use crate::{
    dialect::{self, Client, Simulated},
    record::{Agent, RecordId},
    refusal::{Error, Result},
    resume::{Answer, Host, pending},
    store::{
        ledger::{
            Ledger,
            entry::{Body, Observed, State},
        },
        operations,
        snapshot::Snapshot,
    },
    transcript::{Source, Transcript},
};

/// Where the session went after the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Below the chosen leaf.
    Followed,
    /// Elsewhere.
    NotFollowed,
    /// Nothing was added yet.
    NotYet,
}

impl Outcome {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Followed => "followed",
            Outcome::NotFollowed => "not-followed",
            Outcome::NotYet => "not-yet",
        }
    }
}

/// Compares where the client stands now with `parent`, the record below which its next one was to hang.
///
/// # Errors
/// What `source` reports.
pub fn outcome(
    agent: Agent,
    t: &Transcript,
    source: &dyn Source,
    parent: &RecordId,
) -> std::io::Result<Outcome> {
    let resumed = match dialect::of(agent).simulate(t, source, &Client::default())? {
        Simulated::Resumes(resumed) => resumed,
        Simulated::Refuses(_) => return Ok(Outcome::NotFollowed),
    };
    let Some(parent) = t.ids.find(parent.as_str()) else { return Ok(Outcome::NotFollowed) };
    Ok(if resumed.tail == parent {
        Outcome::NotYet
    } else if resumed.history.contains(&parent) {
        Outcome::Followed
    } else {
        Outcome::NotFollowed
    })
}

/// Records what was seen after the command of this answer ended.
///
/// # Errors
/// Faults of the transcript and the ledger.
pub fn observe(host: &Host<'_>, agent: Agent, answer: &Answer, exit_code: i32) -> Result<Outcome> {
    let path = std::path::Path::new(&answer.seed.transcript);
    let snapshot = Snapshot::take(path, dialect::of(agent), false)?;
    let seen = outcome(agent, &snapshot.transcript, &snapshot, &answer.seed.parent_uuid)
        .map_err(Error::io("read", path))?;
    if let Some((ledger, body)) = find_pending(host, answer)? {
        let mut later = pending::later(&body, State::Observed);
        later.observed = Some(Observed { outcome: seen.name().to_owned(), exit_code });
        ledger.append(later, host.now())?;
    }
    Ok(seen)
}

/// The entry of the operation, in the ledger that its claim names.
fn find_pending(host: &Host<'_>, answer: &Answer) -> Result<Option<(Ledger, Body)>> {
    let claim = operations::find_claim(host.state.root(), &answer.operation_id)?;
    let Some(claim) = claim else { return Ok(None) };
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let body = ledger.read()?.operation(&answer.operation_id).map(|s| s.pending.body.clone());
    Ok(body.map(|body| (ledger, body)))
}
