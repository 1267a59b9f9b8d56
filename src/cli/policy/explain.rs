//! `policy explain`: what each rule did to each leaf.

use hashbrown::{HashMap, HashSet};
use serde_json::{Value, json};

use super::{Report, Stdout, id_length, summary};
use crate::{
    cli::text::{clean, pad, width},
    policy::{Inputs, Outcome, Policy, RuleResult, RuleTrace, evaluate_listing},
    record::RecordId,
    topology::Inspection,
};

/// How wide the table may be, in columns.
const COLUMNS: usize = 80;

/// What is explained. No text of the conversation is in any of its outputs.
pub struct Explain<'a> {
    /// Where the policy was read.
    pub path: &'a str,
    /// `blake3:<hex>` of its text.
    pub digest: &'a str,
    /// The policy.
    pub policy: &'a Policy,
    /// The session.
    pub inspection: &'a Inspection,
    /// What evaluation reads beside it.
    pub inputs: &'a Inputs,
    /// One JSON document instead of text.
    pub json: bool,
    /// Leave out what says where the conversation took place, and the person's names for branches.
    pub redact: bool,
}

/// `policy explain FILE [SESSION]`.
pub fn explain(e: &Explain<'_>) -> Report {
    let verdict = evaluate_listing(e.policy, e.inspection, e.inputs, usize::MAX);
    let leaves: Vec<&RecordId> = e.inspection.branches.iter().map(|b| &b.leaf_uuid).collect();
    let columns: Vec<Column<'_>> =
        verdict.trace.iter().map(|rule| Column::new(rule, &verdict.outcome)).collect();
    let stdout = if e.json {
        let rows: Vec<Value> = leaves
            .iter()
            .map(|leaf| {
                let did: Vec<Value> = columns.iter().map(|c| c.of(leaf).json(c.rule)).collect();
                json!({"leafUuid": leaf, "rules": did})
            })
            .collect();
        Stdout::Json(json!({
            "schema": "offshoot.policy-explain/1",
            "policy": {"path": e.path, "digest": e.digest, "name": e.policy.name, "reason": e.policy.reason},
            "sessionId": e.inspection.session_id,
            "inputs": shown_inputs(e),
            "outcome": verdict.outcome,
            "rules": verdict.trace,
            "leaves": rows,
        }))
    } else {
        Stdout::Text(text(e, &verdict.trace, &verdict.outcome, &leaves, &columns))
    };
    Report { stdout, code: 0 }
}

fn shown_inputs(e: &Explain<'_>) -> Inputs {
    let mut inputs = e.inputs.clone();
    if e.redact {
        (inputs.cwd, inputs.git_branch) = (None, None);
        inputs.labels.clear();
    }
    inputs
}

/// What a rule did to one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did<'a> {
    NotReached,
    NotApplied,
    Removed(&'a str),
    Kept,
    Tied,
    Chosen,
}

impl Did<'_> {
    fn name(self) -> &'static str {
        match self {
            Did::NotReached => "not-reached",
            Did::NotApplied => "not-applied",
            Did::Removed(_) => "removed",
            Did::Kept => "kept",
            Did::Tied => "tied",
            Did::Chosen => "chosen",
        }
    }

    fn json(self, rule: &RuleTrace) -> Value {
        match self {
            Did::Removed(filter) => json!({"rule": rule.name, "did": self.name(), "filter": filter}),
            _ => json!({"rule": rule.name, "did": self.name()}),
        }
    }

    fn cell(self) -> String {
        match self {
            Did::NotReached | Did::NotApplied => ".".to_owned(),
            Did::Removed(filter) => format!("- {filter}"),
            Did::Kept => "kept".to_owned(),
            Did::Tied => "tied".to_owned(),
            Did::Chosen => "CHOSEN".to_owned(),
        }
    }
}

/// A rule, ready to say what it did to any leaf.
struct Column<'a> {
    rule: &'a RuleTrace,
    removed: HashMap<&'a RecordId, &'a str>,
    tied: HashSet<&'a RecordId>,
    chosen: Option<&'a RecordId>,
}

impl<'a> Column<'a> {
    fn new(rule: &'a RuleTrace, outcome: &'a Outcome) -> Self {
        let removed = rule
            .filters
            .iter()
            .flat_map(|f| f.removed.leaves.iter().map(|leaf| (leaf, f.filter.as_str())))
            .collect();
        let chosen = match outcome {
            Outcome::Leaf { leaf_uuid, .. } if rule.result == RuleResult::Chosen => Some(leaf_uuid),
            _ => None,
        };
        Column { rule, removed, tied: rule.tied.iter().flat_map(|t| &t.leaves).collect(), chosen }
    }

    fn of(&self, leaf: &RecordId) -> Did<'a> {
        match self.rule.result {
            RuleResult::NotReached => Did::NotReached,
            RuleResult::NotApplied => Did::NotApplied,
            _ => match self.removed.get(leaf) {
                Some(filter) => Did::Removed(filter),
                None if self.chosen == Some(leaf) => Did::Chosen,
                None if self.tied.contains(leaf) => Did::Tied,
                None => Did::Kept,
            },
        }
    }
}

fn text(
    e: &Explain<'_>,
    trace: &[RuleTrace],
    outcome: &Outcome,
    leaves: &[&RecordId],
    columns: &[Column<'_>],
) -> String {
    let mut out = format!("policy `{}` ({}, {})\n", clean(&e.policy.name), clean(e.path), e.digest);
    let session = clean(&e.inspection.session_id);
    out += &format!("session `{session}`: {} leaves, now {}\n\n", leaves.len(), e.inputs.now);
    for (i, rule) in trace.iter().enumerate() {
        out += &format!("{} {}: {}\n", i + 1, clean(&rule.name), summary(rule));
    }
    let length = id_length(leaves);
    let short = |leaf: &RecordId| clean(&leaf.as_str().chars().take(length).collect::<String>());
    let id_width = leaves.iter().map(|l| width(&short(l))).max().unwrap_or(0).clamp(4, 36);
    let cells: Vec<Vec<String>> =
        columns.iter().map(|c| leaves.iter().map(|leaf| c.of(leaf).cell()).collect()).collect();
    let widths: Vec<usize> =
        cells.iter().map(|c| c.iter().map(|t| t.len()).max().unwrap_or(0).max(2)).collect();
    // As many rules side by side as fit; the others follow below in the same manner.
    let mut from = 0;
    while from < columns.len() && !leaves.is_empty() {
        let mut to = from;
        let mut used = id_width;
        while to < columns.len() && (to == from || used + 2 + widths[to] <= COLUMNS) {
            used += 2 + widths[to];
            to += 1;
        }
        let row = |id: &str, cell: &dyn Fn(usize) -> String| {
            let mut line = pad(id, id_width);
            for (at, &columns) in widths.iter().enumerate().take(to).skip(from) {
                line += &format!("  {}", pad(&cell(at), columns));
            }
            format!("{}\n", line.trim_end())
        };
        out.push('\n');
        out += &row("leaf", &|at| (at + 1).to_string());
        for (n, leaf) in leaves.iter().enumerate() {
            out += &row(&short(leaf), &|at| cells[at][n].clone());
        }
        from = to;
    }
    out += "\nverdict: ";
    out += &match outcome {
        Outcome::Leaf { leaf_uuid, rule, reason } => {
            format!("leaf `{}` by rule `{}`: {}", clean(leaf_uuid.as_str()), clean(rule), clean(reason))
        }
        Outcome::Prompt { rule: Some(rule), leaves } => {
            format!("rule `{}` asks at the prompt, among {} leaves", clean(rule), leaves.len())
        }
        Outcome::Prompt { rule: None, leaves } => {
            format!("the fallback asks at the prompt, among {} leaves", leaves.len())
        }
        Outcome::NoMatch => "`policy-no-match`, no rule kept a leaf".to_owned(),
        Outcome::Ambiguous { rule, leaves } => {
            format!("`policy-ambiguous`, rule `{}` left {} leaves", clean(rule), leaves.count)
        }
    };
    out.push('\n');
    if let Some(mode) = e.policy.seed.mode {
        out += &format!("seed: {}\n", mode.name());
    }
    out
}
