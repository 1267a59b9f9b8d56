//! Sessions of one family of which one goes on in the other, by the ledgers of both.
//!
//! A child that `resume` forked from a leaf is no other branch of the same tree: it is that leaf, gone on. In an agent
//! whose sessions are single files the child is not among the leaves of its parent at all. Where all sessions of a
//! family are one tree it is, and would make of every session that was resumed once one with two leaves.

use std::path::Path;

use hashbrown::{HashMap, HashSet};

use crate::{
    dialect::{self, Client, Dialect},
    record::{Agent, RecordId},
    refusal::Result,
    resume::annotate::session_key,
    selection::SeedMode,
    store::{
        ledger::{Ledger, entry::SeedRecord},
        snapshot::Snapshot,
    },
    topology::build_ordered_uuid_chain,
    transcript::Transcript,
};

/// Whether a leaf still ends where the child of `seed` was forked from it. A leaf that is named by its last record has
/// another name once it has grown; one that is named by its session has not.
pub(super) fn still_ends(agent: Agent, t: &Transcript, leaf: &RecordId, seed: &SeedRecord) -> bool {
    match agent {
        Agent::Claude | Agent::Qwen => true,
        Agent::Reasonix => t.ids.find(leaf.as_str()).is_some_and(|ix| {
            let chain = build_ordered_uuid_chain(t, ix);
            let history = dialect::of(agent).expected(t, &chain, &Client::default()).history;
            history.last().unwrap_or(leaf) == &seed.parent_uuid
        }),
    }
}

/// A session as a rule is to see it: without the leaves of those that others went on in. Whoever names a leaf, or looks
/// at all of them, sees them all. None if that is what the snapshot has already.
///
/// # Errors
/// Faults of the ledgers; as for [`Snapshot::take`].
pub fn for_rules(root: &Path, snapshot: &Snapshot, dialect: &dyn Dialect) -> Result<Option<Snapshot>> {
    let left_out = left_out(root, snapshot)?;
    if left_out.is_empty() {
        return Ok(None);
    }
    snapshot.without(|id| left_out.contains(id), dialect).map(Some)
}

/// The sessions whose leaves are no branches of their own for whoever resumes the session of this snapshot: those that
/// another leaf of it went on in, and those that it went on from. Empty for a session that is one file.
///
/// # Errors
/// Faults of the ledgers.
fn left_out(root: &Path, snapshot: &Snapshot) -> Result<HashSet<String>> {
    let t = &snapshot.transcript;
    let here: HashSet<&str> = snapshot.parts.iter().map(|p| p.session_id.as_str()).collect();
    if here.len() < 2 {
        return Ok(HashSet::new());
    }
    let mut from: HashMap<String, String> = HashMap::new();
    for session in &here {
        let path = snapshot.path.with_file_name(session);
        let read = Ledger::open(root, Agent::Reasonix, session).read()?;
        for selection in read.selections(&path.display().to_string()).iter().filter(|s| s.is_completed()) {
            let body = &selection.pending.body;
            let (Some(verdict), Some(seed)) = (&body.verdict, &body.seed) else { continue };
            let leaf = &verdict.leaf_uuid;
            if seed.mode == SeedMode::Fork
                && Path::new(&seed.transcript).parent() == snapshot.path.parent()
                && here.contains(seed.session_id.as_str())
                && here.contains(leaf.as_str())
                && still_ends(Agent::Reasonix, t, leaf, seed)
            {
                from.insert(seed.session_id.clone(), leaf.to_string());
            }
        }
    }
    let mut out: HashSet<String> = from.keys().cloned().collect();
    let asked = session_key(t, &snapshot.path);
    let mut at = &asked;
    let mut seen = HashSet::new();
    while let Some(leaf) = from.get(at).filter(|leaf| seen.insert(leaf.as_str())) {
        out.insert(leaf.clone());
        at = leaf;
    }
    out.remove(&asked);
    Ok(out)
}
