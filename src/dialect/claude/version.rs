//! Which clients are known, and where their rules differ.

use crate::dialect::jsonl::version::Version;

/// The newest client whose rules are known; a newer one is simulated by these rules.
pub const KNOWN: &str = "2.1.332";

/// What a client of some version does when it resumes. Where versions between two measured ones were not run, they
/// are taken to be like the older one, but all after 2.1.197 like the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Era {
    /// The newest record by timestamp, not the last one in file order (2.0.76 to 2.1.92).
    pub by_time: bool,
    /// `last-prompt` lines are honoured (2.1.121 and later).
    pub pins: bool,
    /// Other records of a message on the chain, and results of its calls, are added (2.1.91 and later).
    pub siblings: bool,
    /// What was measured with 2.1.332, where it differs from 2.1.197.
    pub newest: bool,
}

impl Era {
    /// The rules of `version`; of the newest known client if that is none.
    pub fn of(version: &str) -> Era {
        let version = Version::parse(version);
        let from = |first: &str| version.is_none() || version >= Version::parse(first);
        Era {
            by_time: !from("2.1.101"),
            pins: from("2.1.121"),
            siblings: from("2.1.91"),
            newest: from("2.1.198"),
        }
    }
}
