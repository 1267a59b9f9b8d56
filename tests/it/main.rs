//! All integration tests, in one binary.

mod arrows;
#[allow(dead_code, reason = "each helper is used by some tests")]
mod support;
