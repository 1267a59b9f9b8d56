//! All integration tests, in one binary.

mod arrows;
mod ledger;
mod operations;
mod prompt;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod pty;
mod policy_parse;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod support;
