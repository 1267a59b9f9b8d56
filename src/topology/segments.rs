//! Maximal unbranched runs of the tree of leaves, with what is summed up over them.
//!
//! There are at most twice as many segments as leaves (and one a cycle), so whatever is carried from root to leaf is
//! carried over segments; the records themselves are stepped on once.

use super::{
    leaves::Leaves,
    nodes::{NONE, Node, Nodes},
};
use crate::{
    record::RecordKind,
    topology::Counts,
    transcript::{Flags, RecordIx},
};

/// A segment, by number; parents have smaller numbers than their children.
pub(super) type SegIx = u32;

/// A run of nodes that belong to the same leaves.
pub(super) struct Segment {
    /// The segment above, or `NONE`.
    pub parent: SegIx,
    /// The node that the top hangs on, or `NONE`.
    pub attach: Node,
    /// The node nearest to the root. For a cycle: its first member.
    pub top: Node,
    /// The node farthest from the root. For a cycle: its first member.
    pub bottom: Node,
    /// Where the way up leaves the tree: its root, or the member at which it enters a cycle.
    pub root: Node,
    /// How many leaves have it on their chain.
    pub leaves: u32,
    /// Its cycle, if it is one.
    pub cycle: Option<u32>,
    /// The numbers of the leaves at or below it are `leaf_from..leaf_from + leaves`, in `Segments::by_place`.
    pub leaf_from: u32,
    /// Whether the parents of one of its nodes conflict.
    pub conflict: bool,
    /// Whether a prompt stands in it.
    pub prompt: bool,
    /// The last message in it, or `NONE` (not for a cycle: there it depends on where one enters).
    pub last_message: Node,
    /// The smallest and the largest node in it, which is the order of first records.
    pub range: (Node, Node),
    /// From the root to its bottom.
    pub total: Sums,
}

/// What is added up along a chain.
#[derive(Clone, Copy, Default)]
pub(super) struct Sums {
    pub counts: [u32; 4],
    pub records: u32,
    pub rewinds: u32,
}

impl Sums {
    pub fn plus(mut self, other: &Sums) -> Sums {
        self.counts.iter_mut().zip(other.counts).for_each(|(a, b)| *a += b);
        self.records += other.records;
        self.rewinds += other.rewinds;
        self
    }

    /// What is left without those of an ancestor.
    pub fn minus(mut self, above: &Sums) -> Sums {
        self.counts.iter_mut().zip(above.counts).for_each(|(a, b)| *a -= b);
        self.records -= above.records;
        self.rewinds -= above.rewinds;
        self
    }

    pub fn counts(&self) -> Counts {
        let [user, assistant, tool_result, system] = self.counts.map(u64::from);
        Counts { user, assistant, tool_result, system }
    }
}

/// The tree of leaves, run by run.
pub(super) struct Segments {
    pub all: Vec<Segment>,
    /// Segment of each node; `NONE` for what no leaf has on its chain.
    of: Vec<SegIx>,
    /// Leaf numbers so that those below any segment stand together.
    pub by_place: Vec<u32>,
}

impl Segments {
    pub fn new(nodes: &Nodes<'_>, leaves: &Leaves) -> Self {
        let mut s = Segments { all: Vec::new(), of: vec![NONE; nodes.len()], by_place: Vec::new() };
        for n in nodes.in_order().filter(|&n| leaves.below[n as usize] > 0) {
            let ix = s.place(nodes, leaves, n);
            s.of[n as usize] = ix;
            s.all[ix as usize].add(nodes, n);
        }
        for repeats in nodes.repeated() {
            let n = repeats[0].0;
            if s.of[n as usize] != NONE && conflicts(nodes, n, repeats) {
                s.all[s.of[n as usize] as usize].conflict = true;
            }
        }
        s.carry();
        s.place_leaves(leaves);
        s
    }

    /// The segment of `n`, whose parent has been placed: the parent's, unless the leaves part there.
    fn place(&mut self, nodes: &Nodes<'_>, leaves: &Leaves, n: Node) -> SegIx {
        let cycle = nodes.on_cycle(n).then(|| nodes.components[nodes.component(n) as usize].cycle).flatten();
        let count = leaves.below[n as usize];
        let above = if let Some(c) = cycle {
            // Members stand together in the order, the first one first.
            let first = nodes.cycles[c as usize].members[0];
            if first != n {
                return self.of[first as usize];
            }
            NONE
        } else {
            nodes.parent(n).map_or(NONE, |p| self.of[p as usize])
        };
        if above != NONE {
            let seg = &self.all[above as usize];
            if seg.cycle.is_none() && seg.leaves == count {
                return above;
            }
        }
        let root = match above {
            NONE => n,
            _ if self.all[above as usize].cycle.is_some() => nodes.raw_parent(n),
            _ => self.all[above as usize].root,
        };
        self.all.push(Segment {
            root,
            parent: above,
            attach: if above == NONE { NONE } else { nodes.raw_parent(n) },
            top: n,
            bottom: n,
            leaves: count,
            cycle,
            leaf_from: 0,
            conflict: false,
            prompt: false,
            last_message: NONE,
            range: (n, n),
            total: Sums::default(),
        });
        self.all.len() as u32 - 1
    }

    fn carry(&mut self) {
        for ix in 0..self.all.len() {
            let parent = self.all[ix].parent;
            if parent != NONE {
                let (above, conflict) = (self.all[parent as usize].total, self.all[parent as usize].conflict);
                self.all[ix].total = self.all[ix].total.plus(&above);
                self.all[ix].conflict |= conflict;
            }
        }
    }

    /// Gives every segment a range of places for its leaves, within its parent's range.
    fn place_leaves(&mut self, leaves: &Leaves) {
        let mut next = 0;
        let mut free = vec![0u32; self.all.len()];
        for ix in 0..self.all.len() {
            let (parent, count) = (self.all[ix].parent, self.all[ix].leaves);
            let slot = if parent == NONE { &mut next } else { &mut free[parent as usize] };
            let from = *slot;
            *slot += count;
            self.all[ix].leaf_from = from;
            free[ix] = from;
        }
        self.by_place = vec![NONE; leaves.leaves.len()];
        for (number, &leaf) in (0..).zip(&leaves.leaves) {
            self.by_place[self.all[self.of[leaf as usize] as usize].leaf_from as usize] = number;
        }
    }

    /// The segment of a node that some leaf has on its chain.
    pub fn of(&self, n: Node) -> Option<SegIx> {
        Some(self.of[n as usize]).filter(|&s| s != NONE)
    }

    pub fn get(&self, ix: SegIx) -> &Segment {
        &self.all[ix as usize]
    }

    /// What the segment alone adds to its chain.
    pub fn own(&self, ix: SegIx) -> Sums {
        let seg = self.get(ix);
        if seg.parent == NONE { seg.total } else { seg.total.minus(&self.get(seg.parent).total) }
    }

    /// The segment and those above it, up to the root.
    pub fn up(&self, ix: SegIx) -> impl Iterator<Item = SegIx> + '_ {
        std::iter::successors(Some(ix), |&s| Some(self.get(s).parent).filter(|&p| p != NONE))
    }

    /// The segments that belong to this leaf's segment alone: itself, and a cycle that nobody else hangs off.
    pub fn distinct(&self, ix: SegIx) -> impl Iterator<Item = SegIx> + '_ {
        self.up(ix).take_while(|&s| self.get(s).leaves == 1)
    }
}

impl Segment {
    fn add(&mut self, nodes: &Nodes<'_>, n: Node) {
        if self.cycle.is_none() {
            self.bottom = n;
            if nodes.is_message(n) {
                self.last_message = n;
            }
        }
        self.prompt |= nodes.is_prompt(n);
        self.range = (self.range.0.min(n), self.range.1.max(n));
        self.total.records += 1;
        let column = match nodes.kind(n) {
            RecordKind::User => Some(0),
            RecordKind::Assistant => Some(1),
            RecordKind::ToolResult => Some(2),
            RecordKind::System => Some(3),
            RecordKind::Other => None,
        };
        if let Some(column) = column {
            self.total.counts[column] += 1;
        }
        self.total.rewinds += u32::from(nodes.has(n, Flags::REWIND));
    }

    /// Its nodes from the bottom up (not for a cycle).
    pub fn upward<'a>(&self, nodes: &'a Nodes<'_>) -> impl Iterator<Item = Node> + use<'a> {
        let top = self.top;
        std::iter::successors(Some(self.bottom), move |&n| if n == top { None } else { nodes.parent(n) })
    }
}

fn conflicts(nodes: &Nodes<'_>, n: Node, repeats: &[(Node, RecordIx)]) -> bool {
    let parent = nodes.record(n).parent;
    repeats.iter().any(|&(_, ix)| nodes.t.record(ix).parent != parent)
}
