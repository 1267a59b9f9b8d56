//! Which nodes are leaves: childless nodes, normalised over neutral tails, or the last records of childless units;
//! without strict ancestors of others.

use hashbrown::HashMap;

use super::{
    nodes::{Bits, NONE, Node, Nodes},
    steps,
};
use crate::transcript::Flags;

/// The reported leaves.
pub(super) struct Leaves {
    /// By first physical record.
    pub leaves: Vec<Node>,
    /// For each leaf the childless node, last by first record, that was normalised into it.
    pub terminals: Vec<Node>,
    /// How many leaves stand at or below each node; empty once the segments know it.
    pub below: Vec<u32>,
    /// For each unit without a child the record that it ends with, or `NONE`; empty where there are no units.
    pub of_unit: Vec<Node>,
}

impl Leaves {
    pub fn new(nodes: &Nodes<'_>) -> Self {
        let len = nodes.len();
        let (terminal, of_unit) = match &nodes.t.units {
            Some(units) => steps::candidates(nodes, units),
            None => (candidates(nodes), Vec::new()),
        };
        // Children before parents: what has a leaf below it is a strict ancestor of that leaf and is none itself.
        let mut below = vec![0u32; len];
        let mut leaves = Vec::new();
        for n in nodes.in_order().rev().filter(|&n| !nodes.on_cycle(n)) {
            if below[n as usize] == 0 && terminal[n as usize] != NONE {
                below[n as usize] = 1;
                leaves.push(n);
            }
            if let Some(p) = nodes.parent(n) {
                below[p as usize] += below[n as usize];
            }
        }
        for cycle in &nodes.cycles {
            let all = cycle.members.iter().map(|&m| below[m as usize]).sum();
            cycle.members.iter().for_each(|&m| below[m as usize] = all);
        }
        leaves.sort_unstable();
        let terminals = leaves.iter().map(|&n| terminal[n as usize]).collect();
        Leaves { leaves, terminals, below, of_unit }
    }
}

/// The last childless node that normalises into each node; `NONE` for what is no candidate.
fn candidates(nodes: &Nodes<'_>) -> Vec<Node> {
    let len = nodes.len();
    let inner = inner(nodes);
    let normal = normalised(nodes);
    let mut terminal = vec![NONE; len];
    for n in (0..len as u32).filter(|&n| !inner.get(n)) {
        let candidate = normal.get(&n).copied().unwrap_or(n);
        if candidate != NONE && !nodes.on_cycle(n) {
            terminal[candidate as usize] = n;
        }
    }
    terminal
}

/// Which nodes have a child.
pub(super) fn inner(nodes: &Nodes<'_>) -> Bits {
    let mut inner = Bits::new(nodes.len());
    for n in 0..nodes.len() as u32 {
        if let Some(p) = nodes.parent(n) {
            inner.set(p);
        }
    }
    inner
}

/// Of each neutral node, of which there are few, the nearest ancestor that is not neutral, or `NONE`. A candidate on a cycle
/// is its own strict ancestor, so whatever is normalised to one has none.
fn normalised(nodes: &Nodes<'_>) -> HashMap<Node, Node> {
    let mut normal = HashMap::new();
    for n in nodes.in_order().filter(|&n| nodes.has(n, Flags::NEUTRAL) && !nodes.on_cycle(n)) {
        let above = nodes.parent(n).filter(|&p| !nodes.on_cycle(p));
        let nearest = above.map_or(NONE, |p| normal.get(&p).copied().unwrap_or(p));
        normal.insert(n, nearest);
    }
    normal
}
