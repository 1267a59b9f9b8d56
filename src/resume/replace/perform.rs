//! The order of work of a replacement.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    dialect,
    refusal::{Code, Error, Refusal, Result},
    resume::{Host, annotate::session_key, owners::refuse_live_owner, pending, seed::agent_lease, settle},
    store::{
        agents::qwen::AgentLease,
        atomic, faults,
        lease::{Lease, LeaseOptions},
        ledger::{
            Ledger, Read,
            entry::{Body, State},
        },
        operations::{Claim, OperationLock},
        replace, signals,
        snapshot::{Growth, Snapshot},
    },
    transcript::Source,
};

use super::{
    answer::Replaced,
    begin::{Call, Operation, begin},
    plan::{Plan, content_of, whole},
};

/// Asked before anything is written, with what would be done.
pub type Agree<'a> = &'a mut dyn FnMut(&Replaced) -> Result<()>;

/// What a plan is made from.
pub(super) struct Planning<'a, 'h> {
    pub host: &'a Host<'h>,
    pub snapshot: &'a Snapshot,
    pub read: &'a Read,
    pub operation_id: &'a str,
    pub session_id: &'a str,
}

/// Runs one of the two verbs.
pub(super) fn run(
    call: &Call<'_>,
    host: &mut Host<'_>,
    agree: Agree<'_>,
    make: &dyn Fn(&Planning<'_, '_>) -> Result<Plan>,
) -> Result<Replaced> {
    let mut operation = begin(call, host)?;
    if let Some(answer) = operation.replay.take() {
        // A kill behind the last entry may have left the agent's lock.
        settle::tidy_if_free(host, call.target)?;
        return Ok(*answer);
    }
    let path = &call.target.path;
    let options =
        LeaseOptions { state: host.state, wait: call.wait, purpose: call.kind.name(), now: host.now() };
    let lease = Lease::acquire(path, &options)?;
    lease.notes().iter().for_each(|note| host.note(note));
    faults::at("leased", path)?;
    if !call.dry_run {
        settle::settle_under(host, call.target, &lease)?;
    }
    let snapshot = lease.snapshot(dialect::of(call.target.agent))?;
    call.seen.map_or(Ok(()), |seen| seen.require(&snapshot))?;
    let session_id = session_key(&snapshot.transcript, &snapshot.path);
    let ledger = Ledger::open(host.state.root(), call.target.agent, &session_id);
    if let Some(then) = &operation.abandoned
        && content_of(&whole(&snapshot)?, path)? != *then
    {
        return Err(Refusal::new(
            Code::StaleSource,
            format!("`{}` is not what it was when operation `{}` was begun", path.display(), operation.id),
        )
        .hint("look at it again, then start over with a new operation id")
        .detail(json!({"operationId": operation.id, "transcript": path.display().to_string()}))
        .into());
    }
    refuse_live_owner(host, path)?;
    let read = ledger.read()?;
    let planning = Planning {
        host,
        snapshot: &snapshot,
        read: &read,
        operation_id: &operation.id,
        session_id: &session_id,
    };
    let plan = make(&planning)?;
    let record = plan.record.record_uuid.as_ref().map(|r| r.as_str().to_owned());
    let body = body(host, call, &operation.id, &snapshot, &plan, call.digest(record.as_deref()));
    let answer = Replaced {
        dry_run: call.dry_run,
        ..Replaced::of(call.target.agent, &session_id, &body, &plan.record)
    };
    if call.dry_run {
        return Ok(answer);
    }
    agree(&answer)?;
    claim(host, call, &mut operation, &body, &ledger)?;
    ledger.append(body.clone(), host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("pending", path)?;
    let held = match put(host, &plan, &lease, &snapshot) {
        Ok(held) => held,
        Err(error) => {
            if let Error::Refusal(refusal) = &error {
                pending::abandon(host, &ledger, &operation.id, &body, refusal)?;
            }
            return Err(error);
        }
    };
    faults::at("seeded", path)?;
    let done = Body { replace: body.replace.clone(), ..pending::later(&body, State::Replaced) };
    ledger.append(done, host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("completed", path)?;
    drop(held);
    Ok(answer)
}

fn body(
    host: &Host<'_>,
    call: &Call<'_>,
    operation_id: &str,
    snapshot: &Snapshot,
    plan: &Plan,
    request_digest: String,
) -> Body {
    let transcript = call.target.path.display().to_string();
    Body {
        snapshot: Some(snapshot.identity()),
        who: Some(host.who.clone()),
        replace: Some(plan.record.clone()),
        ..pending::empty(operation_id, &request_digest, State::Pending, &transcript)
    }
}

/// Claims the operation id, under its lock.
fn claim(
    host: &Host<'_>,
    call: &Call<'_>,
    operation: &mut Operation,
    body: &Body,
    ledger: &Ledger,
) -> Result<()> {
    let root = host.state.root();
    if operation.lock.is_none() {
        operation.lock = Some(OperationLock::acquire(root, &operation.id, call.wait)?);
    }
    let claim = Claim {
        operation_id: operation.id.clone(),
        request_digest: body.request_digest.clone(),
        agent: call.target.agent,
        session_id: ledger.session_id().to_owned(),
        ledger: ledger.path().display().to_string(),
        transcript: body.transcript.clone(),
    };
    pending::make_claim(host, &claim)?;
    faults::at("claimed", &call.target.path)
}

/// Backs the transcript up and puts the new bytes in its place. The agent's own lease is given back by dropping it.
fn put(host: &Host<'_>, plan: &Plan, lease: &Lease, snapshot: &Snapshot) -> Result<Option<AgentLease>> {
    let (r, path) = (&plan.record, &snapshot.path);
    let version = snapshot.transcript.client_version.as_deref();
    let agent_lease = agent_lease(host, path, &r.agent_lock_owner, version)?;
    faults::at("agent-leased", path)?;
    // From the last look to the rename no signal may give the agent's lock back.
    let _writing = signals::uninterrupted();
    let check = || {
        lease.verify()?;
        agent_lease.as_ref().map_or(Ok(()), AgentLease::verify)?;
        refuse_live_owner(host, path)?;
        snapshot.check(Growth::Refuse)
    };
    check()?;
    let [for_backup, for_new] = &r.temporaries[..] else {
        unreachable!("BUG: a plan has two temporary files");
    };
    let (for_backup, for_new): (PathBuf, PathBuf) = (for_backup.into(), for_new.into());
    let backup = Path::new(&r.backup);
    for left in [&for_backup, &for_new] {
        // A crash of an earlier try of this operation may have left it.
        atomic::remove_if_there(left)?;
    }
    let staged = replace::stage(&plan.old, path, &for_backup, &r.old.digest, "backup-half")?;
    faults::at("backup-staged", path)?;
    replace::publish_backup(staged, backup)?;
    let replaced = (|| {
        faults::at("backed-up", path)?;
        let content: &dyn Source = plan.content.as_ref();
        let mut staged = replace::stage(content, path, &for_new, &r.new.digest, "replace-half")?;
        replace::dress(&mut staged, plan.old.metadata())?;
        faults::at("replace-staged", path)?;
        check()?;
        faults::at("replace-checked", path)?;
        Ok(staged)
    })();
    let staged = match replaced {
        Ok(staged) => staged,
        Err(error) => {
            // Nothing was replaced: the backup is a copy of what stands there.
            atomic::remove_if_there(backup)?;
            return Err(error);
        }
    };
    // Whoever is told 130 believes that nothing was replaced.
    signals::finish_first();
    replace::put_in_place(staged, path, &plan.old, backup)?;
    faults::at("replaced", path)?;
    Ok(agent_lease)
}
