//! What is going to stand in a transcript's place, fixed before the pending entry.

use std::path::Path;

use crate::{
    record::RecordId,
    refusal::{Error, Result},
    resume::{Host, seed},
    store::{
        file::FileSource,
        ledger::entry::{Content, Removed, ReplaceKind, ReplaceRecord},
        replace,
        snapshot::Snapshot,
    },
    transcript::{PrefixDigest, Source},
};

use super::begin::Call;

/// The new bytes, and what is recorded of them.
pub(super) struct Plan {
    pub record: ReplaceRecord,
    pub content: Box<dyn Source>,
    /// The file as it stands, of the length that the snapshot knows.
    pub old: FileSource,
}

/// What the two verbs say themselves of a plan.
pub(super) struct Ours {
    pub record_uuid: Option<RecordId>,
    pub undoes: Option<String>,
    pub restored_from: Option<String>,
    pub removed: Option<Removed>,
    pub records: u64,
    pub parent_uuid: Option<RecordId>,
    pub anchor: Option<String>,
    pub warnings: Vec<String>,
}

/// The whole file of a snapshot, an unfinished last line included, as it was when the snapshot was taken.
pub(super) fn whole(snapshot: &Snapshot) -> Result<FileSource> {
    let mut whole = FileSource::open(&snapshot.path)?;
    whole.truncate_to(snapshot.file_len());
    Ok(whole)
}

/// What a source holds, by length and digest.
pub(super) fn content_of(source: &dyn Source, path: &Path) -> Result<Content> {
    let digest = PrefixDigest::of(source, source.len()).map_err(Error::io("read", path))?;
    Ok(Content { bytes: source.len(), digest: digest.stated() })
}

/// Puts a plan together.
pub(super) fn plan(
    call: &Call<'_>,
    host: &Host<'_>,
    (operation_id, session_id): (&str, &str),
    snapshot: &Snapshot,
    content: Box<dyn Source>,
    mut ours: Ours,
) -> Result<Plan> {
    let path = &snapshot.path;
    let old = whole(snapshot)?;
    // A rename asks no mode, and the agents append: somebody took the right to write away on purpose.
    if old.metadata().permissions().readonly() {
        ours.warnings.push(
            "the transcript is read-only, which its agent does not make it; it is replaced all the same, and stays \
             read-only"
                .to_owned(),
        );
    }
    let old_content = match &snapshot.digest {
        Some(digest) if snapshot.bytes == snapshot.file_len() => {
            Content { bytes: snapshot.bytes, digest: digest.clone() }
        }
        _ => content_of(&old, path)?,
    };
    let time = host.now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let agent = call.target.agent;
    let lock = seed::lock_owner(agent, session_id, operation_id);
    let hidden =
        |what: &str| path.with_file_name(format!(".{lock}.{what}.offshoot.tmp")).display().to_string();
    let record = ReplaceRecord {
        kind: call.kind,
        record_uuid: ours.record_uuid,
        undoes: ours.undoes,
        restored_from: ours.restored_from,
        backup: replace::backup_path(path, &time).display().to_string(),
        old: old_content,
        new: content_of(content.as_ref(), path)?,
        removed: ours.removed,
        records: ours.records,
        parent_uuid: ours.parent_uuid,
        anchor: ours.anchor,
        warnings: ours.warnings,
        temporaries: vec![hidden("backup"), hidden(ReplaceKind::name(call.kind))],
        agent_lock_owner: lock,
    };
    Ok(Plan { record, content, old })
}
