//! One node a uuid, numbered by first physical record, with its parent, component and cycle.

use hashbrown::HashMap;

use crate::{
    record::{RecordId, RecordKind},
    transcript::{Flags, IdIx, Record, RecordIx, Transcript},
};

/// A node, in the order of first physical records.
pub(super) type Node = u32;

/// The parent of a root.
pub(super) const ROOT: u32 = u32::MAX;
/// The parent of a record that names one which is in no record.
pub(super) const MISSING: u32 = u32::MAX - 1;
/// No node, segment or leaf.
pub(super) const NONE: u32 = u32::MAX;

const UNSEEN: u32 = u32::MAX;
const ON_PATH: u32 = u32::MAX - 1;

/// Parents that form a ring.
pub(super) struct Cycle {
    /// Child to parent, from where the walk from the component's first record enters.
    pub members: Vec<Node>,
}

/// A tree, or a cycle with all that hangs off it.
pub(super) struct Component {
    /// Its first physical record.
    pub first: Node,
    /// Its cycle, as an index.
    pub cycle: Option<u32>,
}

/// The graph of uuids.
pub(super) struct Nodes<'a> {
    pub t: &'a Transcript,
    /// The record that defines each node: its first one, or its last one where the format says so.
    first: Vec<RecordIx>,
    /// Node of each id, or `NONE`.
    of_id: Vec<u32>,
    /// Parent node of each node, or `ROOT`, or `MISSING`.
    parent: Vec<u32>,
    /// Where it is not simply the order of first records; see [`Nodes::in_order`].
    order: Option<Vec<Node>>,
    /// Component of each node.
    component: Vec<u32>,
    /// By first physical record.
    pub components: Vec<Component>,
    /// By the first physical record that walks into them.
    pub cycles: Vec<Cycle>,
    /// Of a cycle's members, their index in it.
    cycle_index: HashMap<Node, u32>,
    on_cycle: Bits,
    /// Records that do not define their uuid, by node, then by position.
    repeats: Vec<(Node, RecordIx)>,
}

impl<'a> Nodes<'a> {
    pub fn new(t: &'a Transcript) -> Self {
        let mut n = Nodes {
            t,
            first: Vec::new(),
            of_id: vec![NONE; t.ids.len()],
            parent: Vec::new(),
            order: None,
            component: Vec::new(),
            components: Vec::new(),
            cycles: Vec::new(),
            cycle_index: HashMap::new(),
            on_cycle: Bits::default(),
            repeats: Vec::new(),
        };
        n.number();
        n.link();
        n
    }

    fn number(&mut self) {
        let distinct = self.t.ids.iter().filter(|&id| self.t.first(id).is_some()).count();
        self.first.reserve_exact(distinct);
        for (ix, r) in (0..).zip(&self.t.records) {
            let node = &mut self.of_id[r.id.ix()];
            if *node == NONE {
                *node = self.first.len() as u32;
                self.first.push(ix);
            } else {
                let mut other = ix;
                if self.t.last_wins {
                    std::mem::swap(&mut other, &mut self.first[*node as usize]);
                }
                self.repeats.push((*node, other));
            }
        }
        self.repeats.sort_unstable();
        self.parent = self
            .first
            .iter()
            .map(|&ix| match self.t.record(ix).parent {
                None => ROOT,
                Some(id) if self.of_id[id.ix()] == NONE => MISSING,
                Some(id) => self.of_id[id.ix()],
            })
            .collect();
    }

    /// Walks up from each node to something known; every node is stepped on once.
    fn link(&mut self) {
        let len = self.first.len();
        self.component = vec![UNSEEN; len];
        self.on_cycle = Bits::new(len);
        let mut path: Vec<Node> = Vec::new();
        for start in 0..len as u32 {
            if self.component[start as usize] != UNSEEN {
                continue;
            }
            let mut at = start;
            while at < MISSING && self.component[at as usize] == UNSEEN {
                self.component[at as usize] = ON_PATH;
                path.push(at);
                at = self.parent[at as usize];
            }
            if self.order.is_none() && (path.len() > 1 || at == start) {
                // So far every parent stood before its child.
                let mut order = Vec::with_capacity(len);
                order.extend(0..start);
                self.order = Some(order);
            }
            let mut component = self.components.len() as u32;
            if at < MISSING && self.component[at as usize] == ON_PATH {
                let entry = path.iter().rposition(|&n| n == at).expect("BUG: the path holds its nodes");
                let members = path.split_off(entry);
                for (ix, &m) in (0..).zip(&members) {
                    self.component[m as usize] = component;
                    self.on_cycle.set(m);
                    self.cycle_index.insert(m, ix);
                }
                self.order.as_mut().expect("BUG: a cycle has no order of its own").extend(&members);
                self.components.push(Component { first: start, cycle: Some(self.cycles.len() as u32) });
                self.cycles.push(Cycle { members });
            } else if at < MISSING {
                component = self.component[at as usize];
            } else {
                self.components.push(Component { first: start, cycle: None });
            }
            while let Some(n) = path.pop() {
                self.component[n as usize] = component;
                if let Some(order) = &mut self.order {
                    order.push(n);
                }
            }
        }
    }

    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Nodes with parents before children; the members of a cycle stand together, before all that hangs off it.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = Node> + '_ {
        let (listed, rest) = match &self.order {
            Some(order) => (order.as_slice(), 0),
            None => (&[][..], self.len() as u32),
        };
        listed.iter().copied().chain(0..rest)
    }

    pub fn first(&self, n: Node) -> RecordIx {
        self.first[n as usize]
    }

    pub fn record(&self, n: Node) -> &'a Record {
        self.t.record(self.first(n))
    }

    pub fn kind(&self, n: Node) -> RecordKind {
        self.record(n).kind
    }

    pub fn has(&self, n: Node, flag: Flags) -> bool {
        self.record(n).flags.has(flag)
    }

    /// A user record that a person wrote, with or without text.
    pub fn is_prompt(&self, n: Node) -> bool {
        let r = self.record(n);
        r.kind == RecordKind::User && !r.flags.has(Flags::SYNTHETIC)
    }

    /// A record of the conversation; what only looks like one (a client's filler) is neutral.
    pub fn is_message(&self, n: Node) -> bool {
        matches!(self.kind(n), RecordKind::User | RecordKind::Assistant | RecordKind::ToolResult)
            && !self.has(n, Flags::NEUTRAL)
    }

    pub fn of_id(&self, id: IdIx) -> Option<Node> {
        self.of_id.get(id.ix()).copied().filter(|&n| n != NONE)
    }

    /// The parent, `ROOT` or `MISSING`.
    pub fn raw_parent(&self, n: Node) -> u32 {
        self.parent[n as usize]
    }

    pub fn parent(&self, n: Node) -> Option<Node> {
        Some(self.parent[n as usize]).filter(|&p| p < MISSING)
    }

    pub fn on_cycle(&self, n: Node) -> bool {
        self.on_cycle.get(n)
    }

    /// The index of a cycle's member in `Cycle::members`.
    pub fn cycle_index(&self, n: Node) -> usize {
        self.cycle_index[&n] as usize
    }

    pub fn component(&self, n: Node) -> u32 {
        self.component[n as usize]
    }

    /// Records of the node beside the one that defines it, by position.
    pub fn repeats(&self, n: Node) -> &[(Node, RecordIx)] {
        let from = self.repeats.partition_point(|&(m, _)| m < n);
        let len = self.repeats[from..].partition_point(|&(m, _)| m == n);
        &self.repeats[from..from + len]
    }

    /// Nodes that have more than one record, with those that do not define them.
    pub fn repeated(&self) -> impl Iterator<Item = &[(Node, RecordIx)]> {
        self.repeats.chunk_by(|a, b| a.0 == b.0)
    }

    /// All records of the node that speak in its first record's role, by position: what the client merges. Where the
    /// last one wins, it is the only one.
    pub fn voices(&self, n: Node) -> impl Iterator<Item = RecordIx> + '_ {
        let first = self.record(n);
        let merged = move |r: &Record| {
            !self.t.last_wins
                && r.kind == first.kind
                && !(r.kind == RecordKind::User && r.flags.has(Flags::SYNTHETIC))
        };
        std::iter::once(self.first(n))
            .chain(self.repeats(n).iter().map(|&(_, ix)| ix).filter(move |&ix| merged(self.t.record(ix))))
    }

    pub fn id(&self, n: Node) -> RecordId {
        self.t.id(self.record(n).id)
    }
}

/// One bit a node.
#[derive(Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(len: usize) -> Self {
        Bits(vec![0; len.div_ceil(64)])
    }

    pub fn set(&mut self, n: u32) {
        self.0[n as usize / 64] |= 1 << (n % 64);
    }

    pub fn get(&self, n: u32) -> bool {
        self.0[n as usize / 64] >> (n % 64) & 1 == 1
    }
}
