//! What a resume answers, in the shape of `resume --json` (`offshoot.resume/1`).

use serde::{Deserialize, Serialize};

use crate::{
    record::{Agent, RecordId},
    resume::{Target, write::ResumedWriter},
    selection::{DecidedBy, SeedReport},
    store::{lease::Lease, operations::OperationLock},
};

/// The schema of [`Answer`].
pub const SCHEMA: &str = "offshoot.resume/1";

/// The result of a resume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// `offshoot.resume/1`.
    pub schema: String,
    /// The operation, to be given again for a retry.
    pub operation_id: String,
    /// The chosen leaf.
    pub leaf_uuid: RecordId,
    /// Sessions that were passed on the way, the one that was named first.
    pub followed: Vec<String>,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// What the resumed session starts from.
    pub seed: SeedReport,
    /// What resumes it.
    pub command: Vec<String>,
    /// Whether this was answered from the ledger.
    pub replayed: bool,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether nothing was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A finished resume, with what is still held.
#[derive(Debug)]
pub struct Resumed {
    /// The answer.
    pub answer: Answer,
    /// The session that goes on.
    pub session: Target,
    /// Its lease, where a command is going to write it.
    pub lease: Option<Lease>,
    /// The writer, with `--write`.
    pub writer: Option<ResumedWriter>,
    /// Held until the whole call is over, so that a retry meets `operation-in-flight` and not half a result.
    pub lock: Option<OperationLock>,
}

/// The command line that resumes a session of this agent.
pub fn resume_command(agent: Agent, session_id: &str) -> Vec<String> {
    let program = match agent {
        Agent::Claude => "claude",
        Agent::Qwen => "qwen",
        Agent::Reasonix => "reasonix",
    };
    [program, "--resume", session_id].map(str::to_owned).to_vec()
}
