//! The deep audit: recorded selections against what they were made from and what came of them.
//!
//! The ledgers' own checks ([`crate::store::ledger::verify`]) rest on hashes that anybody who can write the state
//! directory could recompute. Here the transcript, the kept policy and the seed are asked as well: they must give
//! again what was recorded.
//!
//! For every completed selection whose transcript is there:
//!
//! | finding | means |
//! |---|---|
//! | `transcript-changed` | the transcript's first bytes no longer have the recorded digest, or are not there |
//! | `snapshot-differs` | those bytes do not hold as many records as recorded |
//! | `session-differs` | the transcript belongs to the ledger of another session |
//! | `offered-differ` | inspecting those bytes again gives other leaves than those offered |
//! | `client-pick-differs` | the client would not have resumed what is recorded as its own pick |
//! | `chain-differs` | the chain of the chosen leaf has another digest, length or gap |
//! | `policy-gone`, `policy-altered` | the text of the policy that decided is not kept, or is another one |
//! | `policy-unreadable` | the kept text is not a policy to this version |
//! | `inputs-unreadable` | the recorded inputs are not what a policy reads |
//! | `inputs-differ` | an input contradicts the ledger or the transcript |
//! | `verdict-differs` | the kept policy, given the recorded inputs, gives another leaf, rule or reason |
//! | `trace-differs` | it gives that leaf in another way than recorded |
//! | `seed-gone` | the seed is not there |
//! | `seed-differs` | the seed is not that chain, or not the one that this operation makes |
//! | `backup-changed` | the backup of a replaced transcript is not what was kept in it |
//! | `not-followed` | what was appended since does not continue below the chosen leaf |
//!
//! A fork at a turn or a record (`fork`) is held to the bytes that it was made from, its chain and its child; it
//! supersedes nothing.
//!
//! Notes: `followed`, `not-yet`, `superseded` (a later selection of the transcript was completed; what was appended
//! is not judged, and a fork that is gone is a note as well), `transcript-gone`, `backup-gone`, `pending`.
//!
//! What was chosen before the transcript was replaced (`truncate`, `restore`) is held to the backup that was kept then.

mod deep;
mod follow;
mod policy;
mod seed;
mod source;

pub use deep::deep;
pub use follow::{Follow, follow};
