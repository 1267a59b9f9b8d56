//! Where Reasonix keeps sessions: one folder each, in roots that share a content store.
//!
//! Nothing here writes to a session that is there, nor to any of the client's caches, locks or manifests, and no lock of
//! the client is taken: a log is read to its last complete commit, and a child is a folder of its own.

mod child;
mod contents;
mod family;
mod folder;
pub mod home;
mod older;
mod redact;
mod session;

pub use child::{Published, publish_child, remove_staged, staged_path};
pub use contents::DiskContents;
pub use family::{PartFile, Scope, open_rendered, open_rendered_at, relatives};
pub use home::ReasonixDirs;
pub use older::refuse_older;
pub use redact::{RedactedSessions, publish_redacted};
pub use session::{LOG, ReasonixSession, is_session_dir, session_dir_of};
