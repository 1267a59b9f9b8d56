//! The turns that one may fork at: one query for every way to read a source. No lease is taken, so the answer is the same
//! for a source that is being written, one that another process owns, and one that nobody has open.

use crate::{
    dialect::Dialect,
    refusal::{Error, Result},
    resume::session_key,
    store::snapshot::Snapshot,
    turns::Targets,
};

/// The fork targets of a source.
///
/// # Errors
/// `io`.
pub fn targets(dialect: &dyn Dialect, snapshot: &Snapshot) -> Result<Targets> {
    let t = &snapshot.transcript;
    let read = Error::io("read", &snapshot.path);
    let turns = match dialect.turns(t, snapshot) {
        Ok(turns) => turns,
        Err(e) => return Err(read(e)),
    };
    Targets::of(turns, &session_key(t, &snapshot.path), snapshot).map_err(Error::io("read", &snapshot.path))
}
