//! The only module that touches the file system. Every error names its path.

pub mod atomic;
pub mod env;
pub mod faults;
pub mod file;
pub mod ledger;
pub mod operations;
pub mod private;
pub mod process;
pub mod state;
