//! What each rule did, as it is shown, refused with, and kept in the ledger.

use serde::{Deserialize, Serialize};

use super::rule::{Order, Tie};
use crate::record::RecordId;

/// Leaves by id: all of them counted, the first of them named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// How many.
    pub count: u64,
    /// The first of them in the inspection's order; fewer than `count` where there are many.
    pub leaves: Vec<RecordId>,
}

/// What a rule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleResult {
    /// An earlier rule had decided.
    NotReached,
    /// Its `when` did not hold.
    NotApplied,
    /// Its filters kept no leaf.
    NoneKept,
    /// It chose a leaf.
    Chosen,
    /// Several leaves that its order does not tell apart; its `tie` says what happened.
    Tie,
}

/// What one filter of a rule removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilterTrace {
    /// Its key in the policy.
    pub filter: String,
    /// The leaves that the filters before it had kept and this one did not.
    pub removed: Listed,
}

/// A leaf and what it was ordered by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranked {
    /// The leaf.
    pub leaf_uuid: RecordId,
    /// A time, a count or a position; null where the leaf has none.
    pub value: Option<String>,
}

/// What one rule did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleTrace {
    /// The rule.
    pub name: String,
    /// Its reason.
    pub reason: String,
    /// What it came to.
    pub result: RuleResult,
    /// Which condition of its `when` did not hold, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_applied: Option<String>,
    /// Its filters in the order in which they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterTrace>,
    /// What its filters kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Listed>,
    /// The order, where several leaves were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The first leaves by that order, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<Ranked>,
    /// By how much the first had to lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<String>,
    /// By how much it did lead; absent where one of the two has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// The leaves that its order did not tell apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tied: Option<Listed>,
    /// What was done about the tie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Tie>,
}

impl RuleTrace {
    /// The trace of a rule of which nothing is known yet.
    pub(super) fn new(name: &str, reason: &str, result: RuleResult) -> Self {
        RuleTrace {
            name: name.to_owned(),
            reason: reason.to_owned(),
            result,
            not_applied: None,
            filters: Vec::new(),
            kept: None,
            order: None,
            ranking: Vec::new(),
            margin: None,
            lead: None,
            tied: None,
            tie: None,
        }
    }
}
