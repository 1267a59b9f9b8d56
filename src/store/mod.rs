//! The only module that touches the file system. Every error names its path.

pub mod agents;
pub mod atomic;
pub mod command;
pub mod command_file;
pub mod env;
pub mod faults;
pub mod file;
pub mod git;
pub mod labels;
pub mod lease;
pub mod ledger;
pub mod new_file;
pub mod operations;
pub mod owner;
pub mod policy_file;
pub mod private;
pub mod process;
pub mod redact;
pub mod replace;
pub mod sessions;
pub mod signals;
pub mod snapshot;
pub mod state;
pub mod then;
pub mod trust;
pub mod writer;
