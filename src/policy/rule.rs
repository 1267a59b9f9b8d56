//! What a policy says, once it is known to be valid. Pure data.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::glob::Glob;
use crate::{
    record::{Classification, RecordId, Turn},
    selection::SeedMode,
};

/// A valid policy, version 1.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Always 1.
    pub version: u32,
    /// Its name; the file's, without extension, where the policy gives none.
    pub name: String,
    /// Why it is as it is; never blank.
    pub reason: String,
    /// Tried in order.
    pub rules: Vec<Rule>,
    /// What a resume starts from.
    pub seed: SeedPolicy,
    /// What happens after the last rule.
    pub fallback: Fallback,
    /// What the policy promises of itself; run by `policy check` and `policy test` only.
    pub examples: Vec<Example>,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unique in its policy.
    pub name: String,
    /// Never blank.
    pub reason: String,
    /// Whether the rule applies at all.
    pub when: When,
    /// All must hold of a leaf; applied in the order of [`Filter`]'s variants.
    pub keep: Vec<Filter>,
    /// What decides between several kept leaves.
    pub order: Order,
    /// By how much the winner must lead.
    pub margin: Option<Margin>,
    /// What happens where the order does not tell leaves apart.
    pub tie: Tie,
}

/// The conditions of a rule; all that are given must hold.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// Names of agents; empty means any.
    pub agent: Vec<String>,
    /// At least so many leaves.
    pub min_leaves: Option<u64>,
    /// At most so many leaves.
    pub max_leaves: Option<u64>,
    /// Globs over the session id; one must match; empty means any.
    pub session: Vec<Glob>,
    /// Globs over the project's folder; one must match; empty means any.
    pub cwd: Vec<Glob>,
}

/// A filter of a rule.
#[derive(Clone, Debug)]
pub enum Filter {
    /// The leaf is, or is not, the recorded one.
    Recorded(bool),
    /// The leaf is, or is not, what the agent itself would resume.
    ClientPick(bool),
    /// Its relation to rewinds is one of these.
    Classification(Vec<Classification>),
    /// Its last turn is in one of these states.
    Turn(Vec<Turn>),
    /// Its last message is at most so old.
    MaxAge(Duration),
    /// Its last message is at least so old.
    MinAge(Duration),
    /// At least so many user records on its chain.
    MinUser(u64),
    /// At least so many user and assistant records on its chain.
    MinMessages(u64),
    /// At least so many user and assistant records after its branch point.
    DistinctMessages(u64),
    /// It overlaps, or does not overlap, with another leaf in file order.
    Interleaved(bool),
    /// None of these kinds of diagnostics is on its chain.
    Diagnostics(Vec<String>),
    /// Its git branch matches one of these.
    GitBranch(Vec<BranchPattern>),
    /// Its label is one of these.
    Label(Vec<String>),
    /// One of its summaries contains one of these (lower case).
    Contains(Vec<String>),
    /// It is one of these.
    Leaf(Vec<RecordId>),
}

impl Filter {
    /// Its key in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Filter::Recorded(_) => "recorded",
            Filter::ClientPick(_) => "client_pick",
            Filter::Classification(_) => "classification",
            Filter::Turn(_) => "turn",
            Filter::MaxAge(_) => "max_age",
            Filter::MinAge(_) => "min_age",
            Filter::MinUser(_) => "min_user",
            Filter::MinMessages(_) => "min_messages",
            Filter::DistinctMessages(_) => "distinct_messages",
            Filter::Interleaved(_) => "interleaved",
            Filter::Diagnostics(_) => "diagnostics",
            Filter::GitBranch(_) => "git_branch",
            Filter::Label(_) => "label",
            Filter::Contains(_) => "contains",
            Filter::Leaf(_) => "leaf",
        }
    }
}

/// What a git branch is compared with.
#[derive(Clone, Debug)]
pub enum BranchPattern {
    /// The project's current branch; matches nothing where there is none.
    Current,
    /// A glob.
    Glob(Glob),
}

/// What decides between several leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Nothing: several leaves always tie.
    #[default]
    Only,
    /// The latest last message.
    Newest,
    /// The earliest last message.
    Oldest,
    /// The most user and assistant records on the chain.
    MostMessages,
    /// The longest chain.
    Deepest,
    /// The leaf that stands last in the file.
    FileLast,
    /// What the agent itself would resume, if it was kept.
    ClientPick,
}

impl Order {
    /// The names in the file.
    pub(super) const NAMES: [(&'static str, Order); 7] = [
        ("only", Order::Only),
        ("newest", Order::Newest),
        ("oldest", Order::Oldest),
        ("most-messages", Order::MostMessages),
        ("deepest", Order::Deepest),
        ("file-last", Order::FileLast),
        ("client-pick", Order::ClientPick),
    ];

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, o)| *o == self).map_or("only", |(name, _)| name)
    }
}

/// By how much the winner must lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// For the orders by time.
    Time(Duration),
    /// For the orders by count.
    Count(u64),
}

/// What a rule does with leaves that its order does not tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tie {
    /// Refuse at once.
    #[default]
    Refuse,
    /// Go on to the next rule.
    Next,
    /// Ask, among the tied rule's kept leaves.
    Prompt,
}

/// What a resume by this policy starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeedPolicy {
    /// The mode, where the policy gives one; the command line wins.
    pub mode: Option<SeedMode>,
    /// What happens to a leaf that was forked before.
    pub continued: Continued,
}

/// What happens to a leaf from which a child was forked before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Continued {
    /// The policy is applied to the child.
    #[default]
    Follow,
    /// `continued-elsewhere`.
    Refuse,
    /// Another child is made.
    ForkAgain,
}

/// What happens after the last rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Refuse.
    #[default]
    Refuse,
    /// Ask, among all leaves.
    Prompt,
}

/// A promise of a policy about one transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The line of its `[[example]]`, from 1.
    pub line: usize,
    /// The transcript.
    pub transcript: Transcript,
    /// The time of evaluation; absent only where no rule reads it.
    pub now: Option<Timestamp>,
    /// The recorded leaf.
    pub recorded: Option<RecordId>,
    /// The project's folder.
    pub cwd: Option<String>,
    /// The project's current branch.
    pub git_branch: Option<String>,
    /// Names of branches by leaf.
    pub labels: BTreeMap<RecordId, String>,
    /// What must come out.
    pub expected: Expected,
}

/// Where the transcript of an example is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transcript {
    /// A file, relative to the policy's folder.
    File(String),
    /// In the policy itself.
    Inline(String),
}

/// What must come out of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This leaf.
    Leaf(RecordId),
    /// A refusal with this code; a prompt is `not-a-terminal`.
    Refusal(String),
}
