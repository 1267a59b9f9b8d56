//! One line of a ledger, schema `offshoot.ledger/1`. It holds no text of any conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    record::{Agent, Classification, RecordId, Turn},
    selection::{DecidedBy, SeedMode},
    topology::{Branch, ClientPick, GapIds},
};

/// The schema that this version writes.
pub const SCHEMA: &str = "offshoot.ledger/1";

/// One entry. Fields that a state does not need are absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `offshoot.ledger/1`.
    pub schema: String,
    /// From 0, without holes.
    pub seq: u64,
    /// The predecessor's `hash`; 64 zeros in the first entry.
    pub prev: String,
    /// RFC 3339, UTC, milliseconds.
    pub at: String,
    /// Whose ledger it is: an entry that is carried into another ledger does not verify there.
    pub agent: Agent,
    /// The session of the ledger.
    pub session_id: String,
    /// The rest.
    #[serde(flatten)]
    pub body: Body,
    /// BLAKE3 (bare hex) of the entry's bytes without this field.
    pub hash: String,
}

/// What the caller fills in of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Body {
    /// The caller's retry key.
    pub operation_id: String,
    /// BLAKE3 of the request (bare hex).
    pub request_digest: String,
    /// Where the operation stands.
    pub state: State,
    /// The transcript's canonical path.
    pub transcript: String,
    /// What was read of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotRef>,
    /// `pending`: every leaf that was there to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
    /// `pending`: which leaf, by whom, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictRecord>,
    /// `pending`: what the client would have resumed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_pick: Option<ClientPick>,
    /// Who ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// `pending`: what is going to be written; `completed`: what was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<SeedRecord>,
    /// `pending` of a fork at a turn or a record: where it cuts. Such an operation is no selection of a leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutRecord>,
    /// `pending`: sessions that were passed on the way to this one, the one that was named first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<String>,
    /// `pending`: what is going to stand in the transcript's place, and what is kept of it; `replaced`: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<ReplaceRecord>,
    /// `completed`: the answer that a replay gives again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// `abandoned`: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// `observed`: whether the agent continued below the chosen leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Set by recovery, where it closed the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<bool>,
}

impl Body {
    /// The record that the seed ends with: the chosen leaf, or where a fork cuts.
    pub fn leaf(&self) -> Option<&RecordId> {
        let chosen = self.verdict.as_ref().map(|v| &v.leaf_uuid);
        chosen.or_else(|| self.cut.as_ref().map(|cut| &cut.record))
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Decided; bytes may follow.
    Pending,
    /// The seed is durable.
    Completed,
    /// Nothing was seeded.
    Abandoned,
    /// The child was taken up.
    Acknowledged,
    /// The command after `--` has ended.
    Observed,
    /// `truncate` or `restore` replaced the transcript.
    Replaced,
}

impl State {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Completed => "completed",
            State::Abandoned => "abandoned",
            State::Acknowledged => "acknowledged",
            State::Observed => "observed",
            State::Replaced => "replaced",
        }
    }
}

/// Identity of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// Length.
    pub bytes: u64,
    /// `blake3:<hex>` of those bytes.
    pub digest: String,
    /// Records in them.
    pub records: u64,
    /// For a session of several files, what it was read from; the bytes above are those that the files are read as.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRef>,
}

/// Identity of one file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartRef {
    /// Whose log it is.
    pub session_id: String,
    /// Up to its last complete commit.
    pub bytes: u64,
    /// `blake3:<hex>` of those bytes.
    pub digest: String,
}

/// The leaves that were offered: in full once a ledger, then by digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// BLAKE3 (bare hex) of the JSON array of leaves.
    pub digest: String,
    /// The leaves, where this digest appears for the first time in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Vec<OfferedLeaf>>,
}

/// One leaf as it was offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedLeaf {
    /// The leaf.
    pub leaf_uuid: RecordId,
    /// Its branch point.
    pub branch_point_uuid: Option<RecordId>,
    /// Its relation to rewinds.
    pub classification: Classification,
    /// Its last turn.
    pub turn: Turn,
    /// Its times, as in the inspection.
    pub started_at: String,
    /// See `startedAt`.
    pub updated_at: String,
    /// See `startedAt`.
    pub last_message_at: Option<String>,
}

impl From<&Branch> for OfferedLeaf {
    fn from(b: &Branch) -> Self {
        OfferedLeaf {
            leaf_uuid: b.leaf_uuid.clone(),
            branch_point_uuid: b.branch_point_uuid.clone(),
            classification: b.classification,
            turn: b.turn,
            started_at: b.started_at.clone(),
            updated_at: b.updated_at.clone(),
            last_message_at: b.last_message_at.clone(),
        }
    }
}

/// The choice and what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictRecord {
    /// The chosen leaf.
    pub leaf_uuid: RecordId,
    /// By whom.
    pub decided_by: DecidedBy,
    /// What the policy did, rule by rule; null without one.
    pub trace: Value,
    /// Everything that the policy read beside the transcript; null without one.
    pub inputs: Value,
}

/// Who ran an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Who {
    /// User name, or the numeric id where it has none.
    pub user: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Our version.
    pub version: String,
}

/// A seed, before or after it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeedRecord {
    /// Which kind.
    pub mode: SeedMode,
    /// The session to resume.
    pub session_id: String,
    /// Its file.
    pub transcript: String,
    /// Below which the client's next record hangs.
    pub parent_uuid: RecordId,
    /// Records of the chain.
    pub chain: u64,
    /// BLAKE3 (bare hex) of the chain's ids joined by a newline.
    pub chain_digest: String,
    /// Where the chain ends early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<GapIds>,
    /// In place: what is appended; absent for a no-op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<AnchorRecord>,
    /// Fork: a temporary file that a crash may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary: Option<String>,
    /// Fork: the folder of copied backups that a crash may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backups: Option<String>,
    /// In place: the owner id in the agent's own lock, so that recovery can remove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_lock_owner: Option<String>,
    /// Whether records are appended afterwards (`--write`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write: bool,
}

/// Where a fork cuts its source. The snapshot of its entry ends there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CutRecord {
    /// The turn that the child ends with; none where it was forked at a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The turn's number among its source's, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_number: Option<u64>,
    /// The record that was named; none where it was forked at a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<RecordId>,
    /// The last record that the child has of its source.
    pub record: RecordId,
    /// The last position of what closed the turn; of a record the bytes up to its end.
    pub boundary: u64,
}

/// The exact bytes of an anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnchorRecord {
    /// The uuid below which the client's next record hangs.
    pub uuid: String,
    /// Where the bytes begin: the length of the file before the append.
    pub offset: u64,
    /// The bytes, a repairing newline in front included.
    pub bytes: String,
}

/// Which operation replaces a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplaceKind {
    /// What descends from a record goes.
    Truncate,
    /// A truncate is undone.
    Restore,
}

impl ReplaceKind {
    /// The subcommand.
    pub fn name(self) -> &'static str {
        match self {
            ReplaceKind::Truncate => "truncate",
            ReplaceKind::Restore => "restore",
        }
    }
}

/// A replacement of the transcript, before or after it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplaceRecord {
    /// Which kind.
    pub kind: ReplaceKind,
    /// Truncate: the record that is kept, and nothing below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_uuid: Option<RecordId>,
    /// Restore: the truncate that is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Restore: the backup that is put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
    /// Where the bytes that stood there before are kept.
    pub backup: String,
    /// Those bytes, which are the backup's.
    pub old: Content,
    /// The bytes that stand there afterwards.
    pub new: Content,
    /// Truncate: what goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
    /// Records that stand there afterwards, copies counted.
    pub records: u64,
    /// Below which the client's next record hangs; null where the client would refuse the file.
    pub parent_uuid: Option<RecordId>,
    /// Truncate: the anchor, where one was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// What a person should know, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Files that a crash may leave.
    pub temporaries: Vec<String>,
    /// The owner id in the agent's own lock, so that recovery can remove it.
    pub agent_lock_owner: String,
}

/// Identity of a whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Length.
    pub bytes: u64,
    /// `blake3:<hex>`.
    pub digest: String,
}

/// What a truncate takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Records, copies counted.
    pub records: u64,
    /// Lines that belonged to them: pins, summaries, file snapshots.
    pub lines: u64,
}

/// Why an operation was abandoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A refusal or fault code.
    pub code: String,
    /// In words.
    pub message: String,
}

/// What was seen after the command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// `followed`, `not-followed` or `not-yet`.
    pub outcome: String,
    /// Exit status of the command, 128+n after a signal.
    pub exit_code: i32,
}
