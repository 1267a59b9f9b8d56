//! What is wrong with the tree: conflicting and missing parents by first appearance, then cycles.

use hashbrown::HashSet;

use super::{
    TopologyDiagnostic,
    nodes::{MISSING, Node, Nodes},
};
use crate::{record::RecordId, transcript::RecordIx};

/// Topology first, then what the reader found on single lines.
pub(super) fn all(nodes: &Nodes<'_>) -> Vec<TopologyDiagnostic> {
    let mut found = Vec::new();
    let mut repeated = nodes.repeated().peekable();
    for n in 0..nodes.len() as u32 {
        if let Some(repeats) = repeated.next_if(|r| r[0].0 == n) {
            found.extend(conflict(nodes, n, repeats));
        }
        if nodes.raw_parent(n) == MISSING {
            let missing = nodes.record(n).parent.expect("BUG: a missing parent has an id");
            found.push(TopologyDiagnostic::MissingParent {
                child_uuid: nodes.id(n),
                missing_parent_uuid: nodes.t.id(missing),
            });
        }
    }
    for cycle in &nodes.cycles {
        let uuids = cycle.members.iter().map(|&m| nodes.id(m)).collect();
        found.push(TopologyDiagnostic::ParentCycle { uuids });
    }
    found.extend(nodes.t.diagnostics.iter().cloned().map(TopologyDiagnostic::Line));
    found
}

fn conflict(nodes: &Nodes<'_>, n: Node, repeats: &[(Node, RecordIx)]) -> Option<TopologyDiagnostic> {
    let mut seen = HashSet::new();
    let mut parents: Vec<Option<RecordId>> = Vec::new();
    let mut records: Vec<RecordIx> = repeats.iter().map(|&(_, ix)| ix).collect();
    records.insert(records.partition_point(|&ix| ix < nodes.first(n)), nodes.first(n));
    for parent in records.into_iter().map(|ix| nodes.t.record(ix).parent) {
        if seen.insert(parent) {
            parents.push(parent.map(|p| nodes.t.id(p)));
        }
    }
    (parents.len() > 1)
        .then(|| TopologyDiagnostic::ConflictingParent { uuid: nodes.id(n), parent_uuids: parents })
}
