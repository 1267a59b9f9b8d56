//! The pipeline: lease -> snapshot -> inspect -> choose -> record -> seed -> record -> hand over.
//!
//! Everything that it needs from outside (clock, ids, the person at the prompt) comes in through [`Host`];
//! what it writes goes through `store`.

mod annotate;
mod answer;
mod body;
mod chain;
mod choose;
mod fork;
mod hold;
mod inputs;
mod line;
mod observe;
mod operation;
mod owners;
mod pending;
mod pipeline;
mod reasonix;
mod replace;
mod seed;
mod settle;
mod targets;
mod undo;
mod write;

use std::{path::PathBuf, time::Duration};

use jiff::Timestamp;

use crate::{
    dialect::Client,
    record::{Agent, RecordId},
    refusal::Result,
    selection::SeedMode,
    store::{agents::qwen::QwenDirs, ledger::entry::Who, snapshot::Seen, state::StateDir},
    topology::{Branch, ContinuedIn, Inspection},
};

pub use annotate::{Context as AnnotateContext, annotate, session_key};
pub use answer::{Answer, Resumed, resume_command};
pub use chain::{Landing, Seedable, land, seedable};
pub use fork::{ForkAt, ForkRequest, Forked, acknowledge, fork};
pub use hold::hold;
pub use line::for_rules;
pub use observe::observe;
pub use owners::{live_owner, live_owners};
pub use pipeline::resume;
pub use replace::{Agree, Replaced, RestoreRequest, TruncateRequest, restore, truncate};
pub use settle::{Settled, recover};
pub use targets::targets;
pub use write::{Acknowledgement, ResumedWriter};

/// A transcript to resume.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose.
    pub agent: Agent,
    /// Canonical path.
    pub path: PathBuf,
}

/// Who chooses the leaf.
#[derive(Clone, Debug)]
pub enum Selector {
    /// The person at the prompt.
    Pick,
    /// This leaf, by its id or a prefix of it.
    Leaf(String),
    /// A policy.
    Policy(PolicyFile),
    /// What the client would have resumed before the last in-place selection (`undo`).
    Undo,
    /// The one leaf there is; several are asked about where there is a person, and refused where there is none.
    Auto,
}

/// A policy as it was read.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    /// Where.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// `blake3:<hex>` of the text.
    pub digest: String,
}

/// One call of `resume`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The transcript.
    pub target: Target,
    /// Who chooses.
    pub selector: Selector,
    /// `--seed`; else the policy's, else a fork.
    pub seed: Option<SeedMode>,
    /// Whether the caller then appends records below the leaf.
    pub write: bool,
    /// Whether a command is started afterwards, under the lease of the session it writes.
    pub hold: bool,
    /// The caller's retry key.
    pub operation_id: Option<String>,
    /// How long to wait for locks.
    pub wait: Duration,
    /// Decide and show, write nothing.
    pub dry_run: bool,
    /// Accept a chain that ends at a missing parent.
    pub allow_gap: bool,
    /// Stay with the leaf, even if it went on in a child.
    pub no_follow: bool,
    /// Which client is simulated.
    pub client: Client,
    /// What the choice was made on by looking, if it was.
    pub seen: Option<Seen>,
}

/// What a person says about a leaf that already went on in a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinuedChoice {
    /// Go on in the child.
    Follow,
    /// Fork the leaf again.
    ForkAgain,
}

/// The person, where there is one.
pub trait Person {
    /// Whether a prompt can be shown (stdin and stderr are a terminal).
    ///
    /// # Errors
    /// `not-a-terminal`.
    fn require_terminal(&self) -> Result<()>;

    /// Asks for one of the leaves; only those in `among` are offered, if it is given.
    ///
    /// # Errors
    /// `prompt-cancelled`.
    fn pick(&mut self, inspection: &Inspection, among: Option<&[RecordId]>) -> Result<RecordId>;

    /// Asks what to do with a leaf that went on in a child.
    ///
    /// # Errors
    /// `prompt-cancelled`.
    fn continued(&mut self, branch: &Branch, child: &ContinuedIn) -> Result<ContinuedChoice>;
}

/// What the pipeline needs from outside.
pub struct Host<'a> {
    /// Ledgers, operations, labels.
    pub state: &'a StateDir,
    /// Where Qwen keeps things.
    pub qwen: &'a QwenDirs,
    /// The time.
    pub clock: &'a dyn Fn() -> Timestamp,
    /// A new operation id.
    pub new_id: &'a dyn Fn() -> String,
    /// Who runs this.
    pub who: Who,
    /// The person.
    pub person: &'a mut dyn Person,
    /// The branch that a project folder is on.
    pub git_branch: &'a dyn Fn(&str) -> Option<String>,
    /// What is worth saying while it runs: one line each, without text of the conversation.
    pub note: &'a dyn Fn(&str),
}

impl Host<'_> {
    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn note(&self, line: impl AsRef<str>) {
        (self.note)(line.as_ref());
    }
}
