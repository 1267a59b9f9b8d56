//! What belongs to a chain without standing on it: parallel siblings and their results, and the notes behind its leaf.

use hashbrown::HashSet;

use crate::{
    record::RecordKind,
    topology::Chain,
    transcript::{Flags, IdIx, KeptIndex, RecordIx, Transcript, units::UnitIx},
};

/// What belongs to a chain, by id.
pub(super) struct Attached {
    /// The other records of the steps that the chain goes through, and what those hang on; and the rest of what
    /// a compaction on the chain keeps. In file order.
    pub parts: Vec<IdIx>,
    /// The attachments and system records that hang below the leaf through nothing but such records. In file order.
    pub notes: Vec<IdIx>,
}

impl Attached {
    /// All of them, in file order.
    pub fn all(self, t: &Transcript) -> Vec<IdIx> {
        let mut ids = self.parts;
        ids.extend(self.notes);
        ids.sort_unstable_by_key(|&id| t.first(id));
        ids
    }
}

/// What belongs to a chain. Copies of a message in another branch are another step, and do not.
pub(super) fn attached(t: &Transcript, chain: &Chain) -> Attached {
    let mut attached = Attached { parts: Vec::new(), notes: Vec::new() };
    let (Some(units), Some(&leaf)) = (&t.units, chain.uuids.last()) else { return attached };
    let mut kept: HashSet<IdIx> = chain.uuids.iter().copied().collect();
    // A chain that goes through a compaction that keeps records needs all of these, or its note is void. No other record
    // from before it is loaded.
    let told = KeptIndex::new(t).and_then(|index| index.told_on(&kept));
    let (from, told) = told.unwrap_or((0, Vec::new()));
    attached.parts.extend(told.into_iter().filter(|id| kept.insert(*id)));
    let steps: HashSet<UnitIx> = chain.uuids.iter().filter_map(|id| units.of[id.ix()]).collect();
    let mut notes = Notes { t, leaf, known: vec![None; t.records.len()] };
    for (record, id) in (0..).zip(t.records.iter().map(|r| r.id)) {
        if t.first(id) != Some(record) || kept.contains(&id) || record < from {
            continue;
        }
        if units.of[id.ix()].is_some_and(|unit| steps.contains(&unit)) {
            attached.parts.push(id);
        } else if notes.holds(record) {
            attached.notes.push(id);
        }
    }
    kept.extend(attached.parts.iter().chain(&attached.notes).copied());
    for id in attached.parts.clone() {
        let between = between(t, &kept, id);
        kept.extend(between.iter().copied());
        attached.parts.extend(between);
    }
    attached.parts.sort_unstable_by_key(|&id| t.first(id));
    attached
}

/// The records without a step of their own that stand between a record and what is kept; none of a subagent.
fn between(t: &Transcript, kept: &HashSet<IdIx>, id: IdIx) -> Vec<IdIx> {
    let up = |id: IdIx| t.first(id).and_then(|record| t.record(record).parent);
    let (mut path, mut seen) = (Vec::new(), HashSet::new());
    let mut at = up(id);
    while let Some(id) = at {
        if kept.contains(&id) {
            return path;
        }
        let neutral = |r: u32| {
            let flags = t.record(r).flags;
            flags.has(Flags::NEUTRAL) && !flags.has(Flags::SIDECHAIN)
        };
        if !seen.insert(id) || !t.first(id).is_some_and(neutral) {
            break;
        }
        path.push(id);
        at = up(id);
    }
    Vec::new()
}

/// Which records are notes behind the leaf.
struct Notes<'a> {
    t: &'a Transcript,
    leaf: IdIx,
    known: Vec<Option<bool>>,
}

impl Notes<'_> {
    fn holds(&mut self, record: RecordIx) -> bool {
        let mut path = Vec::new();
        let mut at = record;
        let holds = loop {
            if let Some(known) = self.known[at as usize] {
                break known;
            }
            let r = self.t.record(at);
            let barred = r.flags.has(Flags::SIDECHAIN) || r.flags.has(Flags::PROGRESS);
            if r.kind != RecordKind::System || barred {
                break false;
            }
            self.known[at as usize] = Some(false);
            path.push(at);
            let Some(parent) = r.parent else { break false };
            if parent == self.leaf {
                break true;
            }
            let Some(up) = self.t.first(parent) else { break false };
            at = up;
        };
        path.into_iter().for_each(|at| self.known[at as usize] = Some(holds));
        holds
    }
}
