//! The policy: a durable TOML file that says which leaf an unattended resume takes, and why. Pure.
//!
//! [`parse()`] reads it with spans and reports every mistake; [`evaluate()`] judges an inspection and keeps a
//! trace of what each rule did. `docs/policy.md` is the reference for people who write one.

pub mod duration;
mod evaluate;
pub mod examples;
mod glob;
mod parse;
mod reader;
mod render;
mod rule;
mod trace;
mod verdict;

pub use evaluate::{Inputs, evaluate, evaluate_listing};
pub use parse::parse;
pub use render::{PolicyErrors, Problem};
pub use rule::{
    BranchPattern, Continued, Example, Expected, Fallback, Filter, Margin, Order, Policy, Rule, SeedPolicy,
    Tie, Transcript, When,
};
pub use trace::{FilterTrace, Listed, Ranked, RuleResult, RuleTrace};
pub use verdict::{Outcome, Verdict, verdict_refusal};
