//! The branch inspector: leaves, branch points, relations and summaries of a transcript. Pure and linear.

mod below;
pub mod chain;
mod diagnostic;
mod fold;
mod inspect;
mod inspection;
mod interleave;
mod leaves;
mod nodes;
mod resolve;
mod rewind;
mod segments;
mod steps;
mod summary;
mod tree;
mod turn;

pub use below::{above, strictly_below};
pub use chain::{Chain, Gap, build_ordered_uuid_chain, end_of_seed, trim_neutral};
pub use inspect::{MAX_LISTED, inspect};
pub use inspection::{
    Branch, ClientPick, ContinuedIn, Counts, GapIds, Inspection, ListMode, Lists, RewindRef, SnapshotInfo,
    TopologyDiagnostic,
};
pub use resolve::{grown_from, resolve_leaf, resolve_record};
pub use tree::Tree;
