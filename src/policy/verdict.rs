//! What came out of a policy, and how it is refused where it is no leaf.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    rule::Policy,
    trace::{Listed, RuleResult, RuleTrace},
};
use crate::{
    record::RecordId,
    refusal::{Code, Refusal},
};

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// Exactly one leaf.
    Leaf {
        /// The leaf.
        leaf_uuid: RecordId,
        /// The rule that chose it.
        rule: String,
        /// That rule's reason.
        reason: String,
    },
    /// A person must choose.
    Prompt {
        /// The rule that handed over; none where the fallback did.
        rule: Option<String>,
        /// All that may be offered: what the rule kept, or every leaf.
        leaves: Vec<RecordId>,
    },
    /// Every rule that applied kept no leaf.
    NoMatch,
    /// A tie stood.
    Ambiguous {
        /// The rule that refused it, or the last one that passed it on.
        rule: String,
        /// The tied leaves.
        leaves: Listed,
    },
}

/// The outcome and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What came out.
    pub outcome: Outcome,
    /// One entry a rule, in order.
    pub trace: Vec<RuleTrace>,
}

/// The refusal of a verdict: none for a leaf, `not-a-terminal` for a prompt (for callers that cannot ask).
pub fn verdict_refusal(policy: &Policy, verdict: &Verdict) -> Option<Refusal> {
    let name = &policy.name;
    let (refusal, leaves, rule) = match &verdict.outcome {
        Outcome::Leaf { .. } => return None,
        Outcome::Prompt { rule, leaves } => {
            let who = rule.as_ref().map_or("its fallback".to_owned(), |r| format!("rule `{r}`"));
            let message = format!("policy `{name}` asks at the prompt ({who}), and there is no terminal");
            let listed =
                Listed { count: leaves.len() as u64, leaves: leaves.iter().take(50).cloned().collect() };
            let hint = "run it on a terminal, or choose with `offshoot resume --leaf ID`";
            (Refusal::new(Code::NotATerminal, message).hint(hint), listed, rule.as_ref())
        }
        Outcome::NoMatch => {
            let message = format!("policy `{name}` chose no leaf: {}", why_none(&verdict.trace));
            let hint = "see what each rule did with `offshoot policy explain`, or choose with `offshoot resume --leaf ID`";
            (Refusal::new(Code::PolicyNoMatch, message).hint(hint), Listed::default(), None)
        }
        Outcome::Ambiguous { rule, leaves } => {
            let message = format!(
                "policy `{name}` chose no leaf: rule `{rule}` left {} leaves{}",
                leaves.count,
                why_tied(verdict.trace.iter().find(|t| &t.name == rule)),
            );
            let hint = "see what each rule did with `offshoot policy explain`, or choose with `offshoot resume --leaf ID`";
            (Refusal::new(Code::PolicyAmbiguous, message).hint(hint), leaves.clone(), Some(rule))
        }
    };
    Some(refusal.detail(json!({
        "policy": name,
        "rule": rule,
        "leaves": leaves.leaves,
        "leavesNotListed": leaves.count - leaves.leaves.len() as u64,
        "trace": verdict.trace,
    })))
}

/// Why no rule kept a leaf: each rule with the filter that removed the last of them.
fn why_none(trace: &[RuleTrace]) -> String {
    let mut parts: Vec<String> = trace
        .iter()
        .take(5)
        .map(|rule| match (&rule.not_applied, rule.filters.iter().rev().find(|f| f.removed.count > 0)) {
            (Some(why), _) => format!("rule `{}` did not apply ({why})", rule.name),
            (None, Some(last)) => {
                format!("rule `{}` kept none (the last fell to `{}`)", rule.name, last.filter)
            }
            (None, None) => format!("rule `{}` kept none", rule.name),
        })
        .collect();
    if trace.len() > 5 {
        parts.push(format!("and {} rules more", trace.len() - 5));
    }
    if parts.is_empty() { "it has no rules".to_owned() } else { parts.join(", ") }
}

/// Why the order of a rule did not tell its leaves apart.
fn why_tied(rule: Option<&RuleTrace>) -> String {
    let Some(rule) = rule.filter(|r| r.result == RuleResult::Tie) else { return String::new() };
    let Some(order) = rule.order else { return String::new() };
    match (&rule.margin, &rule.lead) {
        (Some(margin), Some(lead)) => {
            format!(", and by `{}` the first leads by {lead}, less than the margin of {margin}", order.name())
        }
        _ => format!(", which the order `{}` does not tell apart", order.name()),
    }
}
