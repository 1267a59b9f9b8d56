//! The inspector's answer, in the shape of `inspect --json` (`offshoot.inspection/1`).

use serde::{Deserialize, Serialize};

use crate::{
    record::{Agent, Classification, RecordId, Turn},
    transcript::LineDiagnostic,
};

/// What stands in a transcript: all of its branches, and nothing that depends on who asks.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// `offshoot.inspection/1`.
    pub schema: &'static str,
    /// Whose transcript it is.
    pub agent: Agent,
    /// The session id of its records; empty if it has none.
    pub session_id: String,
    /// The file, as the caller named it (filled in by the caller).
    pub transcript: String,
    /// Size and identity of what was read.
    pub snapshot: SnapshotInfo,
    /// What the agent itself would resume; null where it would refuse the file.
    pub client_pick: Option<ClientPick>,
    /// All leaves, in the order of their first physical record.
    pub branches: Vec<Branch>,
    /// Topology first, by first appearance, cycles last; then what was found on single lines.
    pub diagnostics: Vec<TopologyDiagnostic>,
    /// Whether the id lists of the branches are there.
    pub lists: Lists,
    /// All rewinds by component, where the branches carry counts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewinds: Option<Vec<RewindRef>>,
}

/// Size and identity of the snapshot that was inspected.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotInfo {
    /// Length in bytes.
    pub bytes: u64,
    /// Lines, blank ones included.
    pub lines: u64,
    /// Records.
    pub records: u64,
    /// `blake3:<hex>` of the bytes, where it was computed.
    pub digest: Option<String>,
    /// Whether an unfinished line follows.
    pub torn_tail: bool,
}

/// The leaf that the agent itself would resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientPick {
    /// The record it would continue below.
    pub tail_uuid: RecordId,
    /// The reported leaf that this record is or normalises to.
    pub leaf_uuid: Option<RecordId>,
    /// By which of its rules, in words.
    pub rule: String,
    /// Whose rules were simulated; empty if the transcript names no version.
    pub client_version: String,
    /// How many records of history the model would get.
    pub records: u64,
    /// Where its walk ends early.
    pub gap: Option<GapIds>,
    /// Whether a pin in the file decided it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// The leaf that the agent's own SDK lists, which does not look at pins; only where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sdk_leaf_uuid: Option<RecordId>,
}

/// A record whose parent is in no record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GapIds {
    /// The record.
    pub child_uuid: RecordId,
    /// The parent it names.
    pub missing_parent_uuid: RecordId,
}

/// Records of a chain by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// User records.
    pub user: u64,
    /// Assistant records.
    pub assistant: u64,
    /// Tool results.
    pub tool_result: u64,
    /// System records.
    pub system: u64,
}

/// One leaf and the way to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// The leaf.
    pub leaf_uuid: RecordId,
    /// The nearest strict ancestor that another leaf shares.
    pub branch_point_uuid: Option<RecordId>,
    /// Relation to the rewinds of its component.
    pub classification: Classification,
    /// Rewinds on its chain, root to leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains_rewind_uuids: Option<Vec<RecordId>>,
    /// Rewinds of its component that are not on its chain, by first physical record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sibling_rewind_uuids: Option<Vec<RecordId>>,
    /// The first real user text after the branch point, folded and cut at 200 UTF-16 units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_user_text_after_branch_point: Option<String>,
    /// The latest real user text of the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user_text: Option<String>,
    /// The latest assistant text of the chain that is no thought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_assistant_text: Option<String>,
    /// Records of the whole chain by kind.
    pub record_counts: Counts,
    /// Timestamp of the chain's first record, as it stands there.
    pub started_at: String,
    /// Timestamp of the last physical terminal that was normalised into the leaf.
    pub updated_at: String,
    /// Timestamp of the last user, assistant or tool-result record of the chain.
    pub last_message_at: Option<String>,
    /// Records after the branch point by kind.
    pub distinct_counts: Counts,
    /// State of its last turn.
    pub turn: Turn,
    /// The first physical record of its connected component.
    pub component_uuid: RecordId,
    /// How many rewinds are on the chain.
    pub contains_rewind_count: u64,
    /// How many rewinds of the component are not.
    pub sibling_rewind_count: u64,
    /// With how many leaves its distinct part overlaps in file order.
    pub interleaved_count: u64,
    /// Those leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved_with: Option<Vec<RecordId>>,
    /// Whether the agent itself would resume it.
    pub client_pick: bool,
    /// Whether the last completed selection chose it (filled in from the ledger).
    pub recorded: bool,
    /// The person's name for it (filled in from the state directory).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A child session that was forked from it (filled in from the ledger).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_in: Option<ContinuedIn>,
    /// `gitBranch` of the leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// `cwd` of the leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Kinds of topology diagnostics on its own chain (`missing-parent`, `conflicting-parent`, `parent-cycle`).
    #[serde(skip)]
    pub chain_diagnostics: Vec<&'static str>,
    /// Records of the chain, all kinds; the order `deepest` compares it.
    #[serde(skip)]
    pub chain_len: u64,
    /// Position of the leaf's first physical record, from 0; the order `file-last` compares it.
    #[serde(skip)]
    pub position: u64,
}

/// The child session in which a leaf went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContinuedIn {
    /// The child.
    pub session_id: String,
    /// Prompts in it that the parent does not have.
    pub turns: u64,
}

/// Whether id lists that could grow with leaves times rewinds are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ListMode {
    /// All ids are there.
    Full,
    /// More than 100,000 ids in the document: counts only.
    Counts,
}

/// How each kind of list is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lists {
    /// `containsRewindUuids` and `siblingRewindUuids`, together.
    pub rewinds: ListMode,
    /// `interleavedWith`.
    pub interleaved: ListMode,
}

/// A rewind and its component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindRef {
    /// The rewind.
    pub uuid: RecordId,
    /// The first physical record of its component.
    pub component_uuid: RecordId,
}

/// Something about the tree, or about one line, that a reader must be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum TopologyDiagnostic {
    /// The chain stops here.
    MissingParent {
        /// The record.
        child_uuid: RecordId,
        /// The parent it names, which is in no record.
        missing_parent_uuid: RecordId,
    },
    /// Records of one uuid name different parents.
    ConflictingParent {
        /// The uuid.
        uuid: RecordId,
        /// In order of appearance, null included.
        parent_uuids: Vec<Option<RecordId>>,
    },
    /// Parents that form a ring.
    ParentCycle {
        /// From where the walk of the earliest physical record enters it, child to parent.
        uuids: Vec<RecordId>,
    },
    /// Something about a line.
    #[serde(untagged)]
    Line(LineDiagnostic),
}

impl Inspection {
    /// The branch of a leaf.
    pub fn branch(&self, leaf: &RecordId) -> Option<&Branch> {
        self.branches.iter().find(|b| &b.leaf_uuid == leaf)
    }
}
