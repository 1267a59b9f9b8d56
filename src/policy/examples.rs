//! The examples of a policy, run. Pure: the caller reads the transcripts.

use jiff::Timestamp;

use super::{
    evaluate::{Inputs, evaluate},
    rule::{Example, Expected, Policy, Transcript},
    verdict::{Outcome, Verdict, verdict_refusal},
};
use crate::{
    dialect::{self, Client},
    record::Agent,
    refusal::{Code, Result},
    topology::inspect,
    transcript::LineDiagnostic,
};

/// What one example came to.
#[derive(Clone, Debug)]
pub struct ExampleRun {
    /// The line of its `[[example]]`, from 1.
    pub line: usize,
    /// What the policy promises.
    pub expected: Expected,
    /// What came out; none if the transcript could not be read.
    pub found: Option<Expected>,
    /// How it came out; none where no rule was asked.
    pub verdict: Option<Verdict>,
    /// Why its transcript could not be read.
    pub problem: Option<String>,
    /// What may explain a promise that was not kept, in words.
    pub notes: Vec<String>,
}

impl ExampleRun {
    /// Whether the promise was kept.
    pub fn passed(&self) -> bool {
        self.problem.is_none() && self.found.as_ref() == Some(&self.expected)
    }
}

/// Runs every example. `read` gives the bytes of a transcript by its path as the policy names it.
pub fn run(policy: &Policy, mut read: impl FnMut(&str) -> Result<Vec<u8>>) -> Vec<ExampleRun> {
    policy.examples.iter().map(|example| run_one(policy, example, &mut read)).collect()
}

fn run_one(policy: &Policy, example: &Example, read: &mut impl FnMut(&str) -> Result<Vec<u8>>) -> ExampleRun {
    let mut run = ExampleRun {
        line: example.line,
        expected: example.expected.clone(),
        found: None,
        verdict: None,
        problem: None,
        notes: Vec::new(),
    };
    let bytes = match &example.transcript {
        Transcript::Inline(text) => Ok(text.clone().into_bytes()),
        Transcript::File(path) => read(path),
    };
    match bytes {
        Ok(bytes) => judge(policy, example, &bytes, &mut run),
        Err(e) => run.problem = Some(e.to_string()),
    }
    run
}

fn judge(policy: &Policy, example: &Example, bytes: &[u8], run: &mut ExampleRun) {
    let source = bytes.to_vec();
    let agent = dialect::recognise(&source).ok().flatten().unwrap_or(Agent::Qwen);
    let dialect = dialect::of(agent);
    let client = Client { project: example.cwd.clone(), ..Client::default() };
    let read = dialect.read(&source).and_then(|t| Ok((inspect(&t, &source, dialect, &client)?, t)));
    let (inspection, transcript) = match read {
        Ok(both) => both,
        Err(e) => {
            run.problem = Some(format!("cannot read the transcript: {e}"));
            return;
        }
    };
    // A mistyped record makes this an example of something else; a transcript may also be meant to be damaged.
    run.notes.extend(transcript.diagnostics.iter().take(3).filter_map(|d| match d {
        LineDiagnostic::MalformedLine { line, reason } | LineDiagnostic::SkippedRecord { line, reason } => {
            Some(format!("line {line} of its transcript is no record: {reason}"))
        }
        _ => None,
    }));
    let expected = if let Expected::Leaf(leaf) = &example.expected { Some(leaf) } else { None };
    for (what, leaf) in [("leaf", expected), ("recorded", example.recorded.as_ref())] {
        if let Some(leaf) = leaf.filter(|leaf| inspection.branch(leaf).is_none()) {
            run.notes.push(format!("`{what}` = `{leaf}` is no leaf of its transcript"));
        }
    }
    if inspection.branches.is_empty() {
        run.found = Some(Expected::Refusal(Code::NoLeaf.as_str().to_owned()));
        return;
    }
    let inputs = Inputs {
        // Where an example may leave the time out, no rule reads it.
        now: example.now.unwrap_or(Timestamp::UNIX_EPOCH),
        agent,
        session_id: inspection.session_id.clone(),
        cwd: example.cwd.clone().or_else(|| transcript.first_cwd.clone()),
        git_branch: example.git_branch.clone(),
        recorded: example.recorded.clone(),
        labels: example.labels.clone(),
        client_version: inspection.client_pick.as_ref().map(|p| p.client_version.clone()),
    };
    let verdict = evaluate(policy, &inspection, &inputs);
    run.found = Some(match &verdict.outcome {
        Outcome::Leaf { leaf_uuid, .. } => Expected::Leaf(leaf_uuid.clone()),
        _ => {
            let refusal =
                verdict_refusal(policy, &verdict).expect("BUG: a verdict without a leaf is refused");
            Expected::Refusal(refusal.code.as_str().to_owned())
        }
    });
    run.verdict = Some(verdict);
}
