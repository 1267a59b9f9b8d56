//! What belongs to a chain without standing on it: parallel siblings and their results, and the notes behind its leaf.

use hashbrown::HashSet;

use crate::{
    record::RecordKind,
    topology::Chain,
    transcript::{Flags, IdIx, RecordIx, Transcript},
};

/// The other records of the steps that the chain goes through, and the attachments and system records that hang below
/// its leaf through nothing but such records; in file order. Copies of a message in another branch are another step.
pub(super) fn attached(t: &Transcript, chain: &Chain) -> Vec<IdIx> {
    let (Some(units), Some(&leaf)) = (&t.units, chain.uuids.last()) else { return Vec::new() };
    let on_chain: HashSet<IdIx> = chain.uuids.iter().copied().collect();
    let steps: HashSet<u32> = chain.uuids.iter().filter_map(|id| units.of[id.ix()]).collect();
    let mut notes = Notes { t, leaf, known: vec![None; t.records.len()] };
    let mut belongs = |&(record, id): &(RecordIx, IdIx)| {
        t.first(id) == Some(record)
            && !on_chain.contains(&id)
            && (units.of[id.ix()].is_some_and(|u| steps.contains(&u)) || notes.holds(record))
    };
    (0..).zip(t.records.iter().map(|r| r.id)).filter(|pair| belongs(pair)).map(|(_, id)| id).collect()
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
