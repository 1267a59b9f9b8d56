//! `offshoot` chooses the branch that a coding agent resumes from, and is able to say why.
//!
//! # Pipeline
//!
//! lease -> snapshot -> inspect -> choose -> record (pending) -> seed -> record (completed) -> hand over
//!
//! # Invariants
//!
//! - I1 The inspector is a pure function of the records: same bytes in, same bytes out.
//! - I2 The leaves are an antichain: none is an ancestor of another.
//! - I3 The first physical record of a uuid defines its parent (Qwen Code), or the last one (Claude Code). Conflicts are
//!   diagnosed.
//! - I4 The read side never reconnects missing history, and never calls a branch active or abandoned.
//! - I5 No seed without a pending entry; no success without a completed one; no entry is ever rewritten;
//!   recovery never performs a seed, it completes what is whole or abandons it.
//! - I6 A source transcript only ever grows at its end, by whole lines, and only by the in-place seed and the
//!   writer. A fork leaves it byte-identical.
//! - I7 A crash at any point leaves the source readable and complete, the selection recorded once or not at
//!   all, and never a half-written child under its final name; `recover` or the next run settles the rest.
//! - I8 Of any number of processes that ask to write one transcript, at most one writes.
//! - I9 The same operation id with the same request gives the same result, across restarts; with another
//!   request it is `operation-conflict`.
//! - I10 Raw bytes of records that we did not author are carried over verbatim but for the fields that a fork
//!   must rewrite.
//! - I11 Text from a transcript is hostile: control characters never reach a terminal, ids never reach a path
//!   unchecked.
//! - I12 Nothing of ours enters a message that the model gets, nor the agent's screen.

pub mod audit;
pub mod cli;
pub mod dialect;
mod parallel;
pub mod policy;
pub mod probe;
pub mod reading;
pub mod record;
pub mod refusal;
pub mod resume;
pub mod selection;
pub mod store;
pub mod topology;
pub mod transcript;
pub mod turns;
