#![doc = include_str!("../ledger.md")]

pub mod entry;
mod file;
mod hash;
mod heads;
mod name;
mod offered;
mod policies;
mod prune;
mod read;
mod selections;
mod states;
mod verify;

pub use file::{Ledger, ledgers};
pub use heads::{Head, Heads};
pub use name::session_file_name;
pub use offered::{offered_for, resolve_offered};
pub use policies::{keep_policy, kept_policy};
pub use prune::Pruned;
pub use read::{Problem, Read};
pub use selections::{Selection, first_attempt};
pub use states::follows;
pub use verify::{Finding, Findings, Looked, Scope, verify};
