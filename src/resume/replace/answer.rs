//! What `truncate` and `restore` answer (`offshoot.truncate/1`, `offshoot.restore/1`).

use serde::Serialize;

use crate::{
    record::{Agent, RecordId},
    store::ledger::entry::{Body, Content, Removed, ReplaceKind, ReplaceRecord},
};

/// The result of a truncate or a restore.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// `offshoot.truncate/1` or `offshoot.restore/1`.
    pub schema: &'static str,
    /// The operation, to be given again for a retry.
    pub operation_id: String,
    /// Whose session.
    pub agent: Agent,
    /// Which.
    pub session_id: String,
    /// Its file.
    pub transcript: String,
    /// Truncate: the record that nothing stands below any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_uuid: Option<RecordId>,
    /// Restore: the truncate that was undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Restore: the backup that was put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<String>,
    /// Where the bytes that stood there before are.
    pub backup: String,
    /// Those bytes.
    pub old: Content,
    /// The bytes that stand there now.
    pub new: Content,
    /// Truncate: what went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
    /// Records that stand there now, copies counted.
    pub records: u64,
    /// Below which the client's next record hangs; null where the client would refuse the file.
    pub parent_uuid: Option<RecordId>,
    /// Truncate: the anchor; null where the client lands on the record by itself.
    pub anchor: Option<String>,
    /// Whether this was answered from the ledger.
    pub replayed: bool,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
}

impl Replaced {
    /// As the entry of an operation says.
    pub(super) fn of(agent: Agent, session_id: &str, body: &Body, r: &ReplaceRecord) -> Replaced {
        Replaced {
            schema: match r.kind {
                ReplaceKind::Truncate => "offshoot.truncate/1",
                ReplaceKind::Restore => "offshoot.restore/1",
            },
            operation_id: body.operation_id.clone(),
            agent,
            session_id: session_id.to_owned(),
            transcript: body.transcript.clone(),
            record_uuid: r.record_uuid.clone(),
            undoes: r.undoes.clone(),
            restored_from: r.restored_from.clone(),
            backup: r.backup.clone(),
            old: r.old.clone(),
            new: r.new.clone(),
            removed: r.removed,
            records: r.records,
            parent_uuid: r.parent_uuid.clone(),
            anchor: r.anchor.clone(),
            replayed: false,
            warnings: r.warnings.clone(),
            dry_run: false,
        }
    }
}
