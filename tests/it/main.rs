//! All integration tests, in one binary.

mod arrows;
mod ledger;
mod operations;
mod policy_evaluate;
mod policy_parse;
mod prompt;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod pty;
mod state;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod support;
