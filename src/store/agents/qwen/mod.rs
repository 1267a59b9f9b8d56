//! Qwen Code on disk, as measured with 0.24.4.

mod client;
pub mod home;
pub mod lease;
pub mod live;
mod record;

pub use client::client_of;
pub use home::{Place, QwenDirs, place_of};
pub use lease::{AgentLease, AgentLeaseOptions, lock_owner, lock_remains, recover_lock};
pub use live::{LiveCheck, live_owner};
