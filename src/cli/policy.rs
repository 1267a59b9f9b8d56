//! `policy check`, `test`, `explain` and `trust`. Each gives its text and exit status back; the caller prints.

mod check;
mod explain;
mod trust;

pub use check::{check, test};
pub use explain::{Explain, explain};
pub use trust::trust;

use super::text::clean;
use crate::{
    policy::{Expected, RuleResult, RuleTrace, Tie},
    record::RecordId,
};

/// What a command prints on stdout, and its exit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whole lines.
    pub stdout: String,
    /// 0, or 2 where a policy is not valid or an example fails.
    pub code: u8,
}

/// What came out, or should have, in words.
fn outcome(expected: &Expected) -> String {
    match expected {
        Expected::Leaf(leaf) => format!("leaf `{}`", clean(leaf.as_str())),
        Expected::Refusal(code) => format!("`{code}`"),
    }
}

/// What one rule did, in one line without its name.
fn summary(rule: &RuleTrace) -> String {
    let mut parts = Vec::new();
    if let Some(why) = &rule.not_applied {
        parts.push(format!("did not apply: {}", clean(why)));
    }
    for filter in rule.filters.iter().filter(|f| f.removed.count > 0) {
        parts.push(format!("`{}` removed {}", filter.filter, filter.removed.count));
    }
    if let Some(kept) = &rule.kept {
        parts.push(match kept.count {
            0 => "kept none".to_owned(),
            n => format!("kept {n}"),
        });
    }
    if let Some(order) = rule.order {
        let mut by = format!("order `{}`", order.name());
        if let Some(lead) = &rule.lead {
            by += &format!(" with a lead of {lead}");
        }
        if let Some(margin) = &rule.margin {
            by += &format!(" (margin {margin})");
        }
        parts.push(by);
    }
    parts.push(match (rule.result, rule.tie) {
        (RuleResult::NotReached, _) => "not reached".to_owned(),
        (RuleResult::NotApplied | RuleResult::NoneKept, _) => return parts.join(", "),
        (RuleResult::Chosen, _) => "chose".to_owned(),
        (RuleResult::Tie, tie) => {
            let count = rule.tied.as_ref().map_or(0, |t| t.count);
            match tie {
                Some(Tie::Next) => format!("{count} tie: next rule"),
                Some(Tie::Prompt) => format!("{count} tie: prompt"),
                Some(Tie::Refuse) | None => format!("{count} tie: refused"),
            }
        }
    });
    parts.join(", ")
}

/// The shortest length of at least 8 characters at which the ids differ from each other.
fn id_length(ids: &[&RecordId]) -> usize {
    let mut sorted: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    sorted.sort_unstable();
    let shared = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    sorted.windows(2).map(|pair| shared(pair[0], pair[1]) + 1).max().unwrap_or(0).max(8)
}
