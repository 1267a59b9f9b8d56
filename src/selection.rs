//! A choice, who made it, and what was seeded. Pure data, as it stands in `resume --json` and the ledger.

use serde::{Deserialize, Serialize};

use crate::record::RecordId;

/// Who chose the leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedBy {
    /// How.
    pub kind: DecidedKind,
    /// The policy and the rule of it, for `policy` (also where it handed over to the prompt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRef>,
}

/// How a leaf was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedKind {
    /// By a rule of a policy.
    Policy,
    /// By the person at the prompt.
    Prompt,
    /// By `--leaf`.
    Leaf,
    /// There was only one.
    OnlyLeaf,
    /// By `undo`.
    Undo,
}

impl DecidedKind {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DecidedKind::Policy => "policy",
            DecidedKind::Prompt => "prompt",
            DecidedKind::Leaf => "leaf",
            DecidedKind::OnlyLeaf => "only-leaf",
            DecidedKind::Undo => "undo",
        }
    }
}

/// A policy file and the rule that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRef {
    /// Where it was read.
    pub path: String,
    /// `blake3:<hex>` of its text.
    pub digest: String,
    /// The rule that decided; null where the fallback did.
    pub rule: Option<String>,
    /// That rule's reason.
    pub reason: Option<String>,
}

/// What the resumed writer starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedMode {
    /// A new session that holds exactly the chain.
    Fork,
    /// An anchor that makes the client's own rule land on the leaf.
    InPlace,
    /// The choice is recorded, no more.
    None,
}

impl SeedMode {
    /// The name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SeedMode::Fork => "fork",
            SeedMode::InPlace => "in-place",
            SeedMode::None => "none",
        }
    }
}

/// A seed as `resume --json` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedReport {
    /// Which kind.
    pub mode: SeedMode,
    /// The session to resume.
    pub session_id: String,
    /// Its file.
    pub transcript: String,
    /// The record below which the client's next record will hang.
    pub parent_uuid: RecordId,
    /// The anchor's uuid; null where nothing was written in place.
    pub anchor: Option<String>,
    /// Records of the chain.
    pub chain: u64,
    /// Where the chain ends early (accepted with `--allow-gap`).
    pub gaps: Vec<crate::topology::GapIds>,
    /// Whether the source had grown behind the snapshot when the seed was published.
    pub source_grew: bool,
}

impl SeedReport {
    /// The record below which a writer's first record belongs: the anchor, which the client's own next record may stand
    /// beside where the leaf is a prompt.
    pub fn first_parent(&self) -> RecordId {
        self.anchor.as_ref().map_or_else(|| self.parent_uuid.clone(), |anchor| RecordId::new(anchor.clone()))
    }
}
