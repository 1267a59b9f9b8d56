//! How leaves relate to rewinds: structure only. Descendant: on the chain. Sibling: in the component, off the chain.

use super::{
    nodes::{NONE, Node, Nodes},
    segments::{SegIx, Segments},
};
use crate::{record::Classification, transcript::Flags};

/// All rewinds, by component.
pub(super) struct Rewinds {
    /// (component, rewind), sorted: within a component by first physical record.
    by_component: Vec<(u32, Node)>,
    /// Where each component's rewinds begin in it; one more at the end.
    starts: Vec<u32>,
}

impl Rewinds {
    pub fn new(nodes: &Nodes<'_>) -> Self {
        let mut by_component: Vec<(u32, Node)> = (0..nodes.len() as u32)
            .filter(|&n| nodes.has(n, Flags::REWIND))
            .map(|n| (nodes.component(n), n))
            .collect();
        by_component.sort_unstable();
        let mut starts = vec![0u32; nodes.components.len() + 1];
        for &(c, _) in &by_component {
            starts[c as usize + 1] += 1;
        }
        for c in 1..starts.len() {
            starts[c] += starts[c - 1];
        }
        Rewinds { by_component, starts }
    }

    /// All rewinds of a component, by first physical record.
    pub fn of(&self, component: u32) -> impl ExactSizeIterator<Item = Node> + '_ {
        let (from, to) = (self.starts[component as usize], self.starts[component as usize + 1]);
        self.by_component[from as usize..to as usize].iter().map(|&(_, n)| n)
    }

    /// All rewinds by component, in the order of the components' first records.
    pub fn all(&self) -> impl Iterator<Item = (u32, Node)> + '_ {
        self.by_component.iter().copied()
    }
}

/// The label for so many rewinds on the chain and so many beside it.
pub(super) fn classify(contains: u32, siblings: u32) -> Classification {
    match (contains > 0, siblings > 0) {
        (false, false) => Classification::Ordinary,
        (true, false) => Classification::RewindDescendant,
        (false, true) => Classification::RewindSibling,
        (true, true) => Classification::MixedRewind,
    }
}

/// Rewinds by segment, to list those of a chain without stepping on segments that have none.
pub(super) struct ChainRewinds<'a> {
    nodes: &'a Nodes<'a>,
    segments: &'a Segments,
    /// (segment, rewind), root first within a segment; of a cycle in the order of its members.
    in_segment: Vec<(SegIx, Node)>,
    /// The nearest segment at or above that has a rewind, or `NONE`.
    near: Vec<SegIx>,
}

impl<'a> ChainRewinds<'a> {
    pub fn new(nodes: &'a Nodes<'a>, segments: &'a Segments) -> Self {
        let mut in_segment: Vec<(SegIx, Node)> = nodes
            .in_order()
            .filter(|&n| nodes.has(n, Flags::REWIND))
            .filter_map(|n| segments.of(n).map(|s| (s, n)))
            .collect();
        // Stable: the order within a segment stays.
        in_segment.sort_by_key(|&(s, _)| s);
        let mut near: Vec<SegIx> = Vec::with_capacity(segments.all.len());
        for (ix, seg) in (0..).zip(&segments.all) {
            let above = if seg.parent == NONE { NONE } else { near[seg.parent as usize] };
            near.push(if segments.own(ix).rewinds > 0 { ix } else { above });
        }
        ChainRewinds { nodes, segments, in_segment, near }
    }

    /// The rewinds of the chain that ends with segment `ix`, root first. Linear in their number.
    pub fn of(&self, ix: SegIx) -> Vec<Node> {
        let mut found = Vec::new();
        let mut at = self.near[ix as usize];
        while at != NONE {
            let seg = self.segments.get(at);
            let list = self.in_segment(at);
            if seg.cycle.is_some() {
                let entry = self.nodes.cycle_index(self.segments.get(ix).root);
                let split = list.partition_point(|&(_, n)| self.nodes.cycle_index(n) < entry);
                found.extend(list[split..].iter().chain(&list[..split]).map(|&(_, n)| n));
            } else {
                found.extend(list.iter().rev().map(|&(_, n)| n));
            }
            at = if seg.parent == NONE { NONE } else { self.near[seg.parent as usize] };
        }
        found.reverse();
        found
    }

    fn in_segment(&self, ix: SegIx) -> &[(SegIx, Node)] {
        let from = self.in_segment.partition_point(|&(s, _)| s < ix);
        let len = self.in_segment[from..].partition_point(|&(s, _)| s == ix);
        &self.in_segment[from..from + len]
    }
}
