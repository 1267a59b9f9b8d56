//! Which clients are known.

use crate::dialect::jsonl::version::Version;

/// The newest client whose rules are known; a newer one is simulated by these rules.
pub const KNOWN: &str = "0.24.4";

/// Whether a client is newer than the newest that is known. What is no version is not.
pub fn is_newer_than_known(version: &str) -> bool {
    Version::parse(version) > Version::parse(KNOWN)
}
