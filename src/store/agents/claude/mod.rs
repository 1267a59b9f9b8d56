//! Claude Code on disk, as measured with 2.1.197 and 2.1.332.

pub mod home;
pub mod live;
pub mod subagents;

pub use home::{ClaudeDirs, Place, place_of};
pub use live::live_owner;
pub use subagents::Subagent;
