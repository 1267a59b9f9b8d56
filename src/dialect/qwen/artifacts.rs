//! Side artifacts: records that the client keeps by their place in the file, not by parents alone.

use crate::transcript::{Flags, IdIx, RecordIx, Transcript};

/// A side artifact of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SideArtifact {
    /// The record.
    pub record: RecordIx,
    /// The chain record behind which it stands in the file; none for one in front of the whole chain.
    pub behind: Option<IdIx>,
}

/// The artifacts off the chain that the client would keep with it, in file order.
///
/// The rule (0.24.4, read in the bundle): an artifact counts if its parent is the chain record last seen in file
/// order, or another kept artifact, and no foreign conversation record stands between it and the next chain
/// record; titles and source snapshots are not foreign. One without parent counts only in front of the chain.
/// `visible` is the chain as the client sees it.
pub(super) fn side_artifacts(t: &Transcript, visible: &[IdIx]) -> Vec<SideArtifact> {
    let Some(first_active) = visible.first().and_then(|&id| t.first(id)) else { return Vec::new() };
    let mut active = vec![false; t.ids.len()];
    for id in visible {
        active[id.ix()] = true;
    }

    // Going backwards: whether a foreign record stands between here and the next chain record (or the end).
    let mut blocked = vec![false; t.records.len()];
    let mut next_active = vec![false; t.records.len()];
    let (mut blocking, mut seen_active) = (false, false);
    for (ix, record) in t.records.iter().enumerate().rev() {
        blocked[ix] = blocking;
        next_active[ix] = seen_active;
        if active[record.id.ix()] {
            (blocking, seen_active) = (false, true);
        } else if !transparent(record.flags) {
            blocking = true;
        }
    }

    let mut kept = vec![false; t.ids.len()];
    let mut selected = Vec::new();
    let mut behind = None;
    for (ix, record) in t.records.iter().enumerate() {
        if active[record.id.ix()] {
            behind = Some(record.id);
            continue;
        }
        if !record.flags.has(Flags::ARTIFACT) {
            continue;
        }
        let in_segment = !blocked[ix] && (next_active[ix] || behind.is_some());
        let belongs = match record.parent {
            Some(parent) => behind == Some(parent) || kept[parent.ix()],
            None => (ix as RecordIx) < first_active,
        };
        if in_segment && belongs {
            kept[record.id.ix()] = true;
            selected.push(SideArtifact { record: ix as RecordIx, behind });
        }
    }
    selected
}

/// Records that may stand between a chain and its artifacts.
fn transparent(flags: Flags) -> bool {
    flags.has(Flags::ARTIFACT)
        || flags.has(Flags::TITLE)
        || (flags.has(Flags::UNSEEN) && !flags.has(Flags::MANAGED))
}
