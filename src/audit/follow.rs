//! Whether the agent continued below the chosen leaf.

use std::path::Path;

use hashbrown::HashSet;

use crate::{
    audit::source::{chain_of, open},
    dialect,
    record::{Agent, RecordId, RecordKind},
    refusal::{Error, Result},
    selection::SeedMode,
    store::{ledger::entry::Body, then::open_then},
    topology::build_ordered_uuid_chain,
    transcript::{IdIx, Record, Transcript},
};

/// What was appended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The first message appended continues below the chosen leaf.
    Followed,
    /// It hangs elsewhere.
    NotFollowed,
    /// No message was appended.
    NotYet,
}

impl Follow {
    /// The name used in the ledger and in findings.
    pub fn name(self) -> &'static str {
        match self {
            Follow::Followed => "followed",
            Follow::NotFollowed => "not-followed",
            Follow::NotYet => "not-yet",
        }
    }
}

/// Judges the session that a selection seeded, by the first message (of user, model or tool) that was appended
/// since: what comes later may be a rewind that somebody wanted. `pending` is the selection's pending entry.
/// `None` if the session's file is gone or the entry names no seed.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn follow(agent: Agent, pending: &Body) -> Result<Option<Follow>> {
    follow_in(agent, pending, Path::new(&pending.transcript))
}

/// [`follow`], with the source's bytes in another file than under its name.
pub(super) fn follow_in(agent: Agent, pending: &Body, source: &Path) -> Result<Option<Follow>> {
    let (Some(seed), Some(verdict)) = (&pending.seed, &pending.verdict) else { return Ok(None) };
    let path = if seed.mode == SeedMode::Fork { Path::new(&seed.transcript) } else { source };
    let Some(source) = open(path)? else { return Ok(None) };
    let t = dialect::of(agent).read(&source).map_err(Error::io("read", path))?;
    let leaf = &verdict.leaf_uuid;
    let first = match seed.mode {
        SeedMode::Fork => {
            // A session of Reasonix can end without a message: then every message of the child came later.
            if agent == Agent::Reasonix && seed.parent_uuid == *leaf {
                let any = t.records.iter().any(is_message);
                return Ok(Some(if any { Follow::Followed } else { Follow::NotYet }));
            }
            // The chain and what belongs to it came with the fork; whatever else is a message came later.
            let Some(chain) = chain_of(&t, leaf).or_else(|| chain_of(&t, &seed.parent_uuid)) else {
                return Ok(Some(Follow::NotFollowed));
            };
            let attached =
                dialect::of(agent).attached(&t, &source, &chain).map_err(Error::io("read", path))?;
            let seeded: HashSet<IdIx> = chain.uuids.into_iter().chain(attached).collect();
            t.records.iter().find(|r| is_message(r) && !seeded.contains(&r.id))
        }
        SeedMode::None if agent == Agent::Reasonix => {
            let Some(snapshot) = &pending.snapshot else { return Ok(None) };
            let Some(then) = open_then(Path::new(&pending.transcript), snapshot)? else {
                return Ok(Some(Follow::NotFollowed));
            };
            let then = dialect::of(agent).read(&then).map_err(Error::io("read", path))?;
            let is_new = |id: IdIx| then.ids.find(&t.ids.text(id)).is_none();
            t.records.iter().find(|r| is_message(r) && is_new(r.id))
        }
        SeedMode::InPlace | SeedMode::None => {
            let from = match (&seed.anchor, &pending.snapshot) {
                (Some(anchor), _) => anchor.offset + anchor.bytes.len() as u64,
                (None, Some(snapshot)) => snapshot.bytes,
                (None, None) => return Ok(None),
            };
            t.records.iter().find(|r| is_message(r) && r.span.offset >= from)
        }
    };
    Ok(Some(match first {
        None => Follow::NotYet,
        Some(record) if hangs_below(&t, record, leaf) || hangs_below(&t, record, &seed.parent_uuid) => {
            Follow::Followed
        }
        Some(_) => Follow::NotFollowed,
    }))
}

fn is_message(record: &Record) -> bool {
    matches!(record.kind, RecordKind::User | RecordKind::Assistant | RecordKind::ToolResult)
}

fn hangs_below(t: &Transcript, record: &Record, above: &RecordId) -> bool {
    let Some(above) = t.ids.find(above.as_str()) else { return false };
    record.id != above && build_ordered_uuid_chain(t, record.id).uuids.contains(&above)
}
