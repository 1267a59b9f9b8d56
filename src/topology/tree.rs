//! The tree of leaves without any body: which leaves there are, and which of them a record belongs to.

use std::sync::OnceLock;

use super::{
    leaves::Leaves,
    nodes::{NONE, Node, Nodes},
    segments::{SegIx, Segments},
    steps,
};
use crate::transcript::{Flags, IdIx, Transcript};

/// The reported leaves of a transcript and what hangs together. Building it is linear and reads no body.
pub struct Tree<'a> {
    pub(super) nodes: Nodes<'a>,
    pub(super) leaves: Leaves,
    pub(super) segments: Segments,
    /// Of each unit the segment nearest to the root that one of its records is in, once it was asked for.
    of_unit: OnceLock<Vec<SegIx>>,
}

impl<'a> Tree<'a> {
    /// Links all records.
    pub fn new(t: &'a Transcript) -> Self {
        let nodes = Nodes::new(t);
        let mut leaves = Leaves::new(&nodes);
        let segments = Segments::new(&nodes, &leaves);
        leaves.below = Vec::new();
        Tree { nodes, leaves, segments, of_unit: OnceLock::new() }
    }

    /// The reported leaves, in the order of their first physical record.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = IdIx> + '_ {
        self.leaves.leaves.iter().map(|&n| self.nodes.record(n).id)
    }

    /// The reported leaf that a record is or normalises to: a neutral tail belongs to the record it ends below. None
    /// for inner records, for what lies on a cycle, and for ids of no record.
    pub fn leaf_of(&self, id: IdIx) -> Option<IdIx> {
        self.leaf_node(id).map(|n| self.nodes.record(n).id)
    }

    /// How many reported leaves have a record on their chain, or normalise from it, or have its unit on their chain.
    pub fn count_with(&self, id: IdIx) -> usize {
        self.places(id).len()
    }

    /// Those leaves, in the order of their first physical record. Linear in their number, but for sorting.
    pub fn leaves_with(&self, id: IdIx) -> Vec<IdIx> {
        let mut numbers = self.places(id).to_vec();
        numbers.sort_unstable();
        numbers.into_iter().map(|l| self.nodes.record(self.leaves.leaves[l as usize]).id).collect()
    }

    pub(super) fn leaf_node(&self, id: IdIx) -> Option<Node> {
        if let Some(units) = &self.nodes.t.units {
            self.nodes.of_id(id)?;
            let leaf = self.leaves.of_unit[units.at_or_above(id)?.ix()];
            return self.leaves.leaves.binary_search(&leaf).is_ok().then_some(leaf);
        }
        let mut at = self.nodes.of_id(id)?;
        while self.nodes.has(at, Flags::NEUTRAL) {
            if self.nodes.on_cycle(at) {
                return None;
            }
            at = self.nodes.parent(at)?;
        }
        self.leaves.leaves.binary_search(&at).is_ok().then_some(at)
    }

    fn places(&self, id: IdIx) -> &[u32] {
        let on_chain = self.nodes.of_id(id).and_then(|n| self.segments.of(n));
        let beside = || {
            let units = self.nodes.t.units.as_ref()?;
            let of_unit = self.of_unit.get_or_init(|| steps::places(&self.nodes, units, &self.segments));
            Some(of_unit[units.of[id.ix()]?.ix()]).filter(|&ix| ix != NONE)
        };
        let place = on_chain.or_else(beside).or_else(|| self.segments.of(self.leaf_node(id)?));
        let Some(ix) = place else { return &[] };
        let seg = self.segments.get(ix);
        let from = seg.leaf_from as usize;
        &self.segments.by_place[from..from + seg.leaves as usize]
    }
}
