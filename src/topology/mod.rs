//! The branch inspector: leaves, branch points, relations and summaries of a transcript. Pure and linear.

pub mod chain;
mod inspection;

pub use chain::{Chain, Gap, build_ordered_uuid_chain};
pub use inspection::{
    Branch, ClientPick, ContinuedIn, Counts, GapIds, Inspection, ListMode, Lists, RewindRef, SnapshotInfo,
    TopologyDiagnostic,
};
