//! The only module that touches the file system. Every error names its path.

pub mod ledger;
pub mod operations;
pub mod private;
