//! The turns that one may fork at: one query for every way to read a source. No lease is taken, so the answer is the same
//! for a source that is being written, one that another process owns, and one that nobody has open.

use std::path::Path;

use crate::{
    dialect::{Dialect, reasonix::turns_of},
    record::Agent,
    refusal::{Error, Result},
    resume::session_key,
    store::{agents::reasonix::ReasonixSession, snapshot::Snapshot},
    turns::Targets,
};

/// The fork targets of a source.
///
/// # Errors
/// `io`.
pub fn targets(dialect: &dyn Dialect, snapshot: &Snapshot) -> Result<Targets> {
    let t = &snapshot.transcript;
    if dialect.agent() == Agent::Reasonix {
        return of_session(&snapshot.path);
    }
    let turns = dialect.turns(t, snapshot).map_err(Error::io("read", &snapshot.path))?;
    Targets::of(turns, &session_key(t, &snapshot.path), snapshot).map_err(Error::io("read", &snapshot.path))
}

/// Those of a Reasonix session: of its own log alone, whose bytes they are bound to. What is related to it has its own.
fn of_session(path: &Path) -> Result<Targets> {
    let session = ReasonixSession::open(path)?;
    let turns = turns_of(&session.project()?, &session.id);
    Targets::of(turns, &session.id, &session.log).map_err(Error::io("read", session.log.path()))
}
