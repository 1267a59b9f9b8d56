//! `policy check`, `test`, `explain` and `trust`. Each gives its output and exit status back; `run` prints.

mod check;
mod explain;
mod trust;

pub use check::{check, test};
pub use explain::{Explain, explain};
pub use trust::trust;

use std::{fmt, path::Path, process::ExitCode};

use serde_json::Value;

use super::{
    args::{Global, PolicyCommand},
    host::{self, Outside},
    output,
    session::{self, Digest},
    text::clean,
};
use crate::{
    policy::{self, Expected, RuleResult, RuleTrace, Tie},
    record::RecordId,
    refusal::{Code, Refusal, Result},
    resume,
    store::{lease, policy_file},
};

/// Runs one of the commands.
pub fn run(global: &Global, command: &PolicyCommand) -> Result<ExitCode> {
    let report = match command {
        PolicyCommand::Check { file } => check(file, global.json)?,
        PolicyCommand::Test { files } => test(files, global.json)?,
        PolicyCommand::Trust { file, revoke } => {
            let state = host::state_dir(global, &host::environment())?;
            let file = file.clone().unwrap_or_else(|| policy_file::of_project(Path::new("")));
            trust(state.root(), &file, *revoke, global.json)?
        }
        PolicyCommand::Explain { file, session } => explain_session(global, file, session.as_deref())?,
    };
    match &report.stdout {
        Stdout::Text(text) => output::text(text)?,
        Stdout::Json(document) => output::json(document)?,
    }
    Ok(ExitCode::from(report.code))
}

/// Gathers what `resume` would judge by, under no lease, and explains it.
fn explain_session(global: &Global, file: &Path, session: Option<&str>) -> Result<Report> {
    let (text, digest) = policy_file::read(file)?;
    let path = file.display().to_string();
    let policy = policy::parse(&text, &path)?;
    let mut opened = session::open(global, session, Digest::Compute)?;
    let transcript = lease::canonical(&opened.path)?;
    let mut outside = Outside::open(global, Some(&transcript))?;
    if let Some(seen) = resume::for_rules(outside.state().root(), &opened.snapshot, opened.dialect)? {
        opened.snapshot = seen;
    }
    let mut inspection = opened.inspect()?;
    if inspection.branches.is_empty() {
        return Err(Refusal::new(Code::NoLeaf, "the session has no leaf to judge").into());
    }
    let t = &opened.snapshot.transcript;
    let context =
        resume::annotate(outside.state().root(), opened.dialect.agent(), &transcript, t, &mut inspection)?;
    let inputs =
        outside.with_host(|host| Ok(host.policy_inputs(t, &inspection, &context, &opened.client)))?;
    Ok(explain(&Explain {
        path: &path,
        digest: &digest,
        policy: &policy,
        inspection: &inspection,
        inputs: &inputs,
        json: global.json,
        redact: global.redact,
    }))
}

/// What a command prints on stdout, and its exit status.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What.
    pub stdout: Stdout,
    /// 0, or 2 where a policy is not valid or an example fails.
    pub code: u8,
}

/// Text for a person, or one document for a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Stdout {
    /// Whole lines, cleaned.
    Text(String),
    /// As it is.
    Json(Value),
}

impl fmt::Display for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stdout::Text(text) => f.write_str(text),
            Stdout::Json(document) => document.fmt(f),
        }
    }
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
