//! The policy: a durable TOML file that says which leaf an unattended resume takes, and why. Pure.
//!
//! [`parse`] reads it with spans and reports every mistake.

pub mod duration;
mod glob;
mod parse;
mod reader;
mod render;
mod rule;

pub use parse::parse;
pub use render::{PolicyErrors, Problem};
pub use rule::{
    BranchPattern, Continued, Example, Expected, Fallback, Filter, Margin, Order, Policy, Rule, SeedPolicy,
    Tie, Transcript, When,
};
