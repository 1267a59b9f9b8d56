//! The ordered chain of a leaf: what the resumed writer is seeded with.

use super::GapIds;
use crate::{
    record::RecordId,
    transcript::{Flags, IdIx, KeptIndex, Transcript},
};

/// A record on a chain whose parent is in no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The record.
    pub child: IdIx,
    /// The parent it names.
    pub missing: IdIx,
}

impl Gap {
    /// The same by ids.
    pub fn ids(self, t: &Transcript) -> GapIds {
        GapIds { child_uuid: t.id(self.child), missing_parent_uuid: t.id(self.missing) }
    }
}

/// The uuids from a root to a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Root first.
    pub uuids: Vec<IdIx>,
    /// At most one: a chain stops at its first missing parent.
    pub gaps: Vec<Gap>,
    /// The uuid at which the walk met itself.
    pub cycle: Option<IdIx>,
}

impl Chain {
    /// The chain without the records that the client cannot see.
    pub fn visible(&self, t: &Transcript) -> Vec<IdIx> {
        self.uuids.iter().copied().filter(|&id| !has(t, id, Flags::UNSEEN)).collect()
    }

    /// The history that the client builds of it: what it sees, without a terminal run of neutral records.
    pub fn history(&self, t: &Transcript) -> Vec<RecordId> {
        let mut ids = self.visible(t);
        trim_neutral(t, &mut ids);
        ids.into_iter().map(|id| t.id(id)).collect()
    }

    /// BLAKE3 (bare hex) of its ids joined by a newline: what the ledger keeps of a chain.
    pub fn digest(&self, t: &Transcript) -> String {
        let mut hasher = blake3::Hasher::new();
        for (i, id) in self.uuids.iter().enumerate() {
            if i > 0 {
                hasher.update(b"\n");
            }
            hasher.update(t.ids.text(*id).as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Removes neutral records from the end: titles, anchors.
pub fn trim_neutral(t: &Transcript, ids: &mut Vec<IdIx>) {
    while ids.last().is_some_and(|&id| has(t, id, Flags::NEUTRAL)) {
        ids.pop();
    }
}

/// Where the records end that a child must begin with, copies of a record not counted again; none if the records that
/// the client sees do not begin with these.
pub fn end_of_seed(child: &Transcript, begins: &[RecordId]) -> Option<u64> {
    let mut seen = vec![false; child.ids.len()];
    let mut records = child
        .records
        .iter()
        .filter(|r| !std::mem::replace(&mut seen[r.id.ix()], true) && !r.flags.has(Flags::UNSEEN));
    let mut end = 0;
    for id in begins {
        let record = records.next().filter(|r| child.id(r.id) == *id)?;
        end = end.max(record.span.range().end);
    }
    Some(end)
}

fn has(t: &Transcript, id: IdIx, flag: Flags) -> bool {
    t.first(id).is_some_and(|r| t.record(r).flags.has(flag))
}

/// Walks from `leaf_uuid` to its root and returns the chain root first.
///
/// The first physical record of a uuid defines its parent (I3). The walk ends at a null parent, at a parent
/// that is in no record (a gap: history before it is never reconnected, I4), or where it meets itself. This
/// is the rule of the client's own walker, given all records (Qwen Code 0.24.4, `buildOrderedUuidChain`).
/// Behind the summary of a compaction that keeps records stand those, whatever their parents are ([`KeptIndex`]).
/// A leaf that is in no record gives an empty chain. Linear in the length of the chain; in the transcript, where a
/// compaction keeps records.
pub fn build_ordered_uuid_chain(records: &Transcript, leaf_uuid: IdIx) -> Chain {
    let mut chain = Chain::default();
    let kept = KeptIndex::new(records);
    let mut seen = hashbrown::HashSet::new();
    let mut at = leaf_uuid;
    'walk: while let Some(first) = records.first(at) {
        if !seen.insert(at) {
            chain.cycle = Some(at);
            break;
        }
        chain.uuids.push(at);
        let Some(parent) = records.record(first).parent else { break };
        if records.first(parent).is_none() {
            chain.gaps.push(Gap { child: at, missing: parent });
            break;
        }
        let told = kept.as_ref().and_then(|kept| kept.between(at, parent));
        let (told, next) = told.unwrap_or((Vec::new(), parent));
        for id in told {
            if !seen.insert(id) {
                chain.cycle = Some(id);
                break 'walk;
            }
            chain.uuids.push(id);
        }
        at = next;
    }
    chain.uuids.reverse();
    chain
}
