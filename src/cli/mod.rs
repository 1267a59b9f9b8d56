//! The command line: arguments in, stdout for data, stderr for messages. The only module that prints.

pub mod args;
pub mod completions;
pub mod man;
pub mod policy;
pub mod prompt;
