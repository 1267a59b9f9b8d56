//! `restore`: the last truncate that stands is undone from its backup.

use std::{path::Path, time::Duration};

use serde_json::json;

use crate::{
    dialect::{self, Client, Simulated},
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{Host, Target},
    store::{
        file::{self, FileSource},
        ledger::{
            Read,
            entry::{Body, ReplaceKind, ReplaceRecord},
        },
        replace,
    },
};

use super::{
    answer::Replaced,
    begin::Call,
    perform::{Agree, Planning, run},
    plan::{Ours, Plan, content_of, plan, whole},
};

/// One call of `restore`.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The transcript.
    pub target: Target,
    /// The caller's retry key.
    pub operation_id: Option<String>,
    /// How long to wait for locks.
    pub wait: Duration,
    /// Decide and show, write nothing.
    pub dry_run: bool,
    /// Which client is simulated.
    pub client: Client,
}

/// Puts back what the last truncate that stands has replaced; what stands there is backed up in its turn. `agree` is
/// asked once everything is known and nothing is written.
///
/// # Errors
/// `nothing-to-undo`; `stale-source` if the transcript is not what the truncate left; `lease-held` and the like;
/// `snapshot-changed`. Faults, `damaged` among them for a backup that was altered.
pub fn restore(request: &RestoreRequest, host: &mut Host<'_>, agree: Agree<'_>) -> Result<Replaced> {
    let call = Call {
        kind: ReplaceKind::Restore,
        target: &request.target,
        record: None,
        operation_id: request.operation_id.as_deref(),
        wait: request.wait,
        dry_run: request.dry_run,
        seen: None,
    };
    run(&call, host, agree, &|planning| plan_back(request, &call, planning))
}

fn plan_back(request: &RestoreRequest, call: &Call<'_>, p: &Planning<'_, '_>) -> Result<Plan> {
    let path = &p.snapshot.path;
    let transcript = path.display().to_string();
    let Some((body, last)) = standing(p.read, &transcript) else {
        return Err(Refusal::new(Code::NothingToUndo, format!("no truncate of `{transcript}` stands"))
            .hint("`offshoot audit list` shows what was done to it; backups are `.bak.` files beside it")
            .into());
    };
    let detail =
        || json!({"operationId": body.operation_id, "backup": last.backup, "transcript": transcript});
    let now = content_of(&whole(p.snapshot)?, path)?;
    if now != last.new {
        let has =
            if replace::begins_with(path, last.new.bytes, &last.new.digest)? { "grown" } else { "changed" };
        return Err(Refusal::new(
            Code::StaleSource,
            format!("`{transcript}` has {has} since it was truncated; what came since would be lost"),
        )
        .hint(format!("what it was before is in `{}`", last.backup))
        .detail(detail())
        .into());
    }
    let backup = Path::new(&last.backup);
    if !file::exists(backup) {
        return Err(Refusal::new(Code::NothingToUndo, format!("the backup `{}` is gone", last.backup))
            .detail(detail())
            .into());
    }
    if !replace::is(backup, last.old.bytes, &last.old.digest)? {
        let message = format!("the backup `{}` is not what was kept in it", last.backup);
        return Err(Fault::new(FaultCode::Damaged, message).detail(detail()).into());
    }
    let content = FileSource::open(backup)?;
    let dialect = dialect::of(request.target.agent);
    let t = dialect.read(&content).map_err(Error::io("read", backup))?;
    let simulated = dialect.simulate(&t, &content, &request.client).map_err(Error::io("read", backup))?;
    let parent_uuid = match simulated {
        Simulated::Resumes(resumed) => Some(t.id(resumed.tail)),
        Simulated::Refuses(_) => None,
    };
    let ours = Ours {
        record_uuid: None,
        undoes: Some(body.operation_id.clone()),
        restored_from: Some(last.backup.clone()),
        removed: None,
        records: t.records.len() as u64,
        parent_uuid,
        anchor: None,
        warnings: Vec::new(),
    };
    plan(call, p.host, (p.operation_id, p.session_id), p.snapshot, Box::new(content), ours)
}

/// The last truncate that no restore has undone.
fn standing<'a>(read: &'a Read, transcript: &str) -> Option<(&'a Body, &'a ReplaceRecord)> {
    let mut standing = Vec::new();
    for (_, body, replaced) in read.replacements(transcript) {
        match replaced.kind {
            ReplaceKind::Truncate => standing.push((body, replaced)),
            ReplaceKind::Restore => drop(standing.pop()),
        }
    }
    standing.pop()
}
