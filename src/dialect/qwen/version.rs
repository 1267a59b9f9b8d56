//! Which clients are known.

/// The newest client whose rules are known; a newer one is simulated by these rules.
pub const KNOWN: &str = "0.24.4";
