//! Seeds of Reasonix: a fork is a folder beside its parent, and a leaf is the end of one session of the family.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::json;

use crate::{
    dialect::reasonix::end_reason,
    refusal::{Code, Error, Refusal, Result},
    resume::{
        pipeline::Decided,
        seed::{Child, already_there},
    },
    store::{
        agents::reasonix::{Published, ReasonixSession, publish_child, staged_path},
        file::FileSource,
        ledger::entry::SeedRecord,
    },
};

/// The folder of the session that the chosen leaf is the end of.
pub(super) fn session_of_leaf(decided: &Decided) -> PathBuf {
    decided.session.snapshot.path.with_file_name(decided.choice.leaf.as_str())
}

/// A child of a leaf holds the whole log of its session, so nothing may be open at its end.
///
/// # Errors
/// `turn-open`, `active-authority`, `history-unverifiable`.
pub(super) fn check_end(decided: &Decided) -> Result<()> {
    let snapshot = &decided.session.snapshot;
    let reason = end_reason(&snapshot.transcript, snapshot, decided.chain.leaf)
        .map_err(Error::io("read", &snapshot.path))?;
    reason.map_or(Ok(()), |code| Err(not_at_a_boundary(code, decided).into()))
}

fn not_at_a_boundary(code: Code, decided: &Decided) -> Refusal {
    let leaf = &decided.choice.leaf;
    let why = match code {
        Code::TurnOpen => "its last turn has not ended",
        Code::ActiveAuthority => "a tool call or a question to the user is open",
        _ => "no record proves where a turn of it ended",
    };
    Refusal::new(code, format!("session `{leaf}` cannot be forked at its end: {why}"))
        .hint(match code {
            Code::HistoryUnverifiable => "`--seed none` hands the session over as it is",
            _ => "`offshoot targets` lists the turns that it can be forked at",
        })
        .detail(json!({"leafUuid": leaf}))
}

/// Gives a fork the names of its child, which lies beside `path`.
pub(super) fn name_child(path: &Path, child: String, record: &mut SeedRecord) {
    let root = path.parent().expect("BUG: a session folder has a parent");
    record.temporary = Some(staged_path(root, &child).display().to_string());
    record.transcript = root.join(&child).display().to_string();
    record.session_id = child;
}

/// Makes and publishes a child of the session that `child.leaf` is the end of, as far as the snapshot has it. `confirm` is
/// given it as it will be read, right before it is published, and says whether the source has grown.
pub(super) fn publish(
    child: &Child<'_>,
    now: Timestamp,
    confirm: impl FnOnce(&FileSource) -> Result<bool>,
) -> Result<bool> {
    let snapshot = child.snapshot;
    let mut parent = ReasonixSession::open(&snapshot.path.with_file_name(child.leaf.as_str()))?;
    let part = snapshot.parts.iter().find(|p| p.session_id == parent.id);
    parent.log.truncate_to(part.expect("BUG: a leaf is the end of a part of the snapshot").bytes);
    let through = parent.project()?.last_seq();
    let mut grew = false;
    let published = publish_child(&parent, &child.record.session_id, through, now, |made| {
        grew = confirm(made)?;
        Ok(())
    })?;
    match published {
        Published::New(_) => Ok(grew),
        Published::Exists(path) => Err(already_there(child.operation_id, &path).into()),
    }
}
