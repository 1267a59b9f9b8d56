//! `truncate` and `restore`, which alone put another file in a transcript's place (I6).
//!
//! lease -> settle -> snapshot -> plan (the new bytes, over which the client is simulated) -> ask -> pending -> the
//! agent's own lease -> backup -> staged file -> one rename -> replaced.

mod answer;
mod begin;
mod perform;
mod plan;
mod restore;
mod settle;
mod truncate;

pub use answer::Replaced;
pub use perform::Agree;
pub use restore::{RestoreRequest, restore};
pub(super) use settle::{remove_temporaries, settle};
pub use truncate::{TruncateRequest, truncate};
