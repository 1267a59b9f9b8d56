//! Settling what a crash left pending: by `recover`, by the next run on the transcript, and before a retry.
//!
//! Recovery never performs a seed (I5). Under the operation's lock and the transcript's lease it completes an
//! entry whose seed is found whole, and abandons it otherwise.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde::Serialize;
use serde_json::json;

use crate::{
    dialect::{self, Client, Simulated},
    record::{Agent, RecordId},
    refusal::{Code, Error, Refusal, Result},
    resume::{
        Answer, Host, Target, annotate,
        answer::{self, resume_command},
        chain::{self, Seedable},
        fork,
        operation::NO_WAIT,
        owners, pending, replace, seed,
    },
    selection::{SeedMode, SeedReport},
    store::{
        agents::{
            backups::{Backups, remove_backups},
            qwen, reasonix,
        },
        atomic, faults, file,
        file::FileSource,
        lease::{Lease, LeaseOptions},
        ledger::{
            Ledger, Read,
            entry::{Body, Reason, SeedRecord, State},
            ledgers,
        },
        operations::{Claim, OperationLock},
        snapshot,
        then::open_then,
        writer::Appender,
    },
    topology::end_of_seed,
    transcript::{Flags, Source, Transcript},
};

/// What became of one pending operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// The operation.
    pub operation_id: String,
    /// Its transcript.
    pub transcript: String,
    /// `completed`, `abandoned`, or `left` with a reason.
    pub outcome: String,
    /// Why, in words.
    pub reason: String,
}

impl Settled {
    /// One line for a person.
    pub fn line(&self) -> String {
        format!("operation `{}`: {}, {}", self.operation_id, self.outcome, self.reason)
    }
}

/// Settles everything that is pending, in all ledgers.
///
/// # Errors
/// Faults. An operation or a transcript that is busy is left alone, which is said.
pub fn recover(host: &Host<'_>) -> Result<Vec<Settled>> {
    let mut settled = Vec::new();
    let mut failed = None;
    for ledger in ledgers(host.state.root())? {
        // One damaged ledger is no reason to leave the others unsettled.
        if let Err(error) = recover_ledger(host, &ledger, &mut settled) {
            host.note(format!("`{}`: {error}", ledger.path().display()));
            failed.get_or_insert(error);
        }
    }
    let Some(error) = failed else { return Ok(settled) };
    settled.iter().for_each(|s| host.note(s.line()));
    Err(error)
}

fn recover_ledger(host: &Host<'_>, ledger: &Ledger, settled: &mut Vec<Settled>) -> Result<()> {
    ledger.mend()?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    let read = ledger.read()?;
    for selection in read.pending() {
        settled.push(recover_one(host, ledger, selection.pending.body.clone())?);
    }
    // Writers and seeds that were stopped behind their completed entry.
    let written = read.all_selections();
    let written = written.iter().filter(|s| lock_owner_of(&s.pending.body).is_some());
    let paths: BTreeSet<&str> = written.map(|s| s.pending.body.transcript.as_str()).collect();
    paths.into_iter().try_for_each(|path| tidy_if_free(host, &target_of(ledger.agent(), path)))
}

fn target_of(agent: Agent, path: &str) -> Target {
    Target { agent, path: path.into() }
}

fn lock_owner_of(body: &Body) -> Option<&str> {
    let of_seed = body.seed.as_ref().and_then(|s| s.agent_lock_owner.as_deref());
    of_seed.or_else(|| body.replace.as_ref().map(|r| r.agent_lock_owner.as_str()))
}

fn recover_one(host: &Host<'_>, ledger: &Ledger, body: Body) -> Result<Settled> {
    let left = |reason: String| Settled {
        operation_id: body.operation_id.clone(),
        transcript: body.transcript.clone(),
        outcome: "left".to_owned(),
        reason,
    };
    let root = host.state.root();
    let _operation = match OperationLock::acquire(root, &body.operation_id, NO_WAIT) {
        Ok(lock) => lock,
        Err(Error::Refusal(r)) => return Ok(left(r.message)),
        Err(fault) => return Err(fault),
    };
    if !ledger.read()?.operation(&body.operation_id).is_some_and(|s| s.is_pending()) {
        return Ok(left("somebody else settled it".to_owned()));
    }
    let path = Path::new(&body.transcript);
    if !file::exists(path) {
        return settle_gone(host, ledger, &body);
    }
    if body.cut.is_some() {
        return match settle_cut(host, ledger, &body) {
            Err(Error::Refusal(r)) => Ok(left(r.message)),
            settled => settled,
        };
    }
    let options = LeaseOptions { state: host.state, wait: NO_WAIT, purpose: "recover", now: host.now() };
    let lease = match Lease::acquire(path, &options) {
        Ok(lease) => lease,
        Err(Error::Refusal(r)) => return Ok(left(r.message)),
        Err(fault) => return Err(fault),
    };
    let settled =
        mend_writer(host, ledger.agent(), &lease).and_then(|()| settle(host, ledger, &body, &lease));
    match settled {
        Err(Error::Refusal(r)) => Ok(left(r.message)),
        settled => settled,
    }
}

/// Takes the lease of a session that was chosen before, and settles what others left on it.
///
/// # Errors
/// As for [`Lease::acquire`]; faults.
pub(super) fn take_over(host: &Host<'_>, session: &Target, wait: Duration) -> Result<Lease> {
    let options = LeaseOptions { state: host.state, wait, purpose: "resume", now: host.now() };
    let lease = Lease::acquire(&session.path, &options)?;
    settle_under(host, session, &lease)?;
    Ok(lease)
}

/// Settles what a claimed operation left, so that its retry can go on. Its lock is held by the caller.
pub(super) fn settle_claim(host: &Host<'_>, claim: &Claim, wait: Duration) -> Result<()> {
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(&claim.operation_id).filter(|s| s.is_pending()) else {
        return Ok(());
    };
    let body = &selection.pending.body;
    let path = Path::new(&body.transcript);
    if !file::exists(path) {
        return settle_gone(host, &ledger, body).map(drop);
    }
    if body.cut.is_some() {
        let settled = settle_cut(host, &ledger, body)?;
        host.note(settled.line());
        return Ok(());
    }
    let options = LeaseOptions { state: host.state, wait, purpose: "recover", now: host.now() };
    let lease = Lease::acquire(path, &options)?;
    mend_writer(host, claim.agent, &lease)?;
    let settled = settle(host, &ledger, body, &lease)?;
    host.note(settled.line());
    Ok(())
}

/// Settles what others left on a transcript whose lease we hold.
pub(super) fn settle_under(host: &Host<'_>, target: &Target, lease: &Lease) -> Result<()> {
    mend_writer(host, target.agent, lease)?;
    let ledger = Ledger::open(host.state.root(), target.agent, &session_of(target)?);
    let read = ledger.read()?;
    let path = lease.transcript().display().to_string();
    give_locks_back(&read, lease)?;
    for selection in read.selections(&path).iter().filter(|s| s.is_pending()) {
        let body = &selection.pending.body;
        match OperationLock::acquire(host.state.root(), &body.operation_id, NO_WAIT) {
            Ok(_operation) => match settle(host, &ledger, body, lease) {
                Ok(settled) => host.note(settled.line()),
                Err(Error::Refusal(r)) => host.note(format!("left pending: {}", r.message)),
                Err(fault) => return Err(fault),
            },
            Err(Error::Refusal(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// What a kill behind a completed entry leaves on a transcript: the agent's lock, a torn line of a writer. Nothing is
/// done, and no lock is taken, where there is no trace of either, nor where somebody is at work.
pub(super) fn tidy_if_free(host: &Host<'_>, target: &Target) -> Result<()> {
    let remains = qwen::place_of(&target.path).map(|place| qwen::lock_remains(&place)).transpose()?;
    if !file::exists(&target.path)
        || !(remains == Some(true) || Lease::marked_by_writer(&target.path, host.state))
    {
        return Ok(());
    }
    let options = LeaseOptions { state: host.state, wait: NO_WAIT, purpose: "recover", now: host.now() };
    match Lease::acquire(&target.path, &options) {
        Ok(lease) => {
            mend_writer(host, target.agent, &lease)?;
            let ledger = Ledger::open(host.state.root(), target.agent, &session_of(target)?);
            give_locks_back(&ledger.read()?, &lease)
        }
        Err(Error::Refusal(_)) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Removes the agent's lock wherever it is one of ours. Who holds the lease knows that its owner is gone: ours are
/// taken under the lease only.
fn give_locks_back(read: &Read, lease: &Lease) -> Result<()> {
    let Some(place) = qwen::place_of(lease.transcript()) else { return Ok(()) };
    if !qwen::lock_remains(&place)? {
        return Ok(());
    }
    let path = lease.transcript().display().to_string();
    for selection in read.selections(&path) {
        if let Some(owner) = lock_owner_of(&selection.pending.body) {
            qwen::recover_lock(&place, owner)?;
        }
    }
    Ok(())
}

fn session_of(target: &Target) -> Result<String> {
    let t = snapshot::head(&target.path, dialect::of(target.agent))?;
    Ok(annotate::session_key(&t, &target.path))
}

/// A writer that died may have left a torn line; the next record must not be glued to it.
fn mend_writer(host: &Host<'_>, agent: Agent, lease: &Lease) -> Result<()> {
    if lease.previous_writer_died() && end_fragment(host, agent, lease)? {
        lease.mended();
    }
    Ok(())
}

/// Ends an unfinished last line with a newline, if there is one. False if a live agent may be writing it.
fn end_fragment(host: &Host<'_>, agent: Agent, lease: &Lease) -> Result<bool> {
    let path = lease.transcript();
    let snapshot = lease.snapshot(dialect::of(agent))?;
    let whole = snapshot.file_len() == 0
        || (snapshot.transcript.torn_bytes == 0 && snapshot.transcript.ends_in_newline);
    if whole {
        return Ok(true);
    }
    if owners::live_owner(host, path)?.is_some_and(|(_, live)| live.owner.is_some()) {
        host.note(format!("`{}` ends in an unfinished line; its live agent was left to it", path.display()));
        return Ok(false);
    }
    Appender::open(&snapshot)?.append(b"\n", &|| lease.verify())?;
    host.note(format!("ended the unfinished last line of `{}`", path.display()));
    Ok(true)
}

/// What is found of a seed.
enum Found {
    /// All of it, and below which record the client goes on.
    Whole(Box<SeedReport>, String),
    /// Nothing that counts, and why.
    Nothing(String),
}

/// There is nothing to take a lease on; what the operation put beside the transcript is removed all the same.
fn settle_gone(host: &Host<'_>, ledger: &Ledger, body: &Body) -> Result<Settled> {
    let path = Path::new(&body.transcript);
    if let (Some(owner), Some(place)) = (lock_owner_of(body), qwen::place_of(path)) {
        qwen::recover_lock(&place, owner)?;
    }
    if let Some(replace) = &body.replace {
        replace::remove_temporaries(replace)?;
    }
    if let Some(seed) = body.seed.as_ref().filter(|s| s.mode == SeedMode::Fork) {
        remove_staged(host, ledger.agent(), seed)?;
    }
    close(host, ledger, body, Found::Nothing("its transcript is gone".to_owned()))
}

fn remove_temporary(agent: Agent, temporary: &Path) -> Result<()> {
    match agent {
        Agent::Reasonix => reasonix::remove_staged(temporary),
        Agent::Claude | Agent::Qwen => atomic::remove_if_there(temporary),
    }
}

/// Removes what a fork put beside its child, which must not be there: the child's name is what counts.
fn remove_staged(host: &Host<'_>, agent: Agent, seed: &SeedRecord) -> Result<()> {
    if file::exists(Path::new(&seed.transcript)) {
        return Ok(());
    }
    if let Some(temporary) = &seed.temporary {
        remove_temporary(agent, Path::new(temporary))?;
    }
    let backups = Backups::of(agent, Path::new(&seed.transcript), &seed.session_id, host.qwen);
    backups.map_or(Ok(()), |backups| remove_backups(&backups))
}

/// Settles a fork at a turn or a record. Nothing of it concerns the source, so no lease is needed.
fn settle_cut(host: &Host<'_>, ledger: &Ledger, body: &Body) -> Result<Settled> {
    let Some(seed) = &body.seed else {
        return close(host, ledger, body, Found::Nothing("its entry names no seed".to_owned()));
    };
    let found = forked(host, ledger.agent(), body, seed)?;
    faults::at("settle-found", Path::new(&body.transcript))?;
    close(host, ledger, body, found)
}

fn settle(host: &Host<'_>, ledger: &Ledger, body: &Body, lease: &Lease) -> Result<Settled> {
    if body.cut.is_some() {
        return settle_cut(host, ledger, body);
    }
    if let (Some(owner), Some(place)) = (lock_owner_of(body), qwen::place_of(lease.transcript())) {
        qwen::recover_lock(&place, owner)?;
    }
    if let Some(replace) = &body.replace {
        return replace::settle(host, ledger, body, replace);
    }
    let Some(seed) = &body.seed else {
        return close(host, ledger, body, Found::Nothing("its entry names no seed".to_owned()));
    };
    let agent = ledger.agent();
    let found = match seed.mode {
        SeedMode::None => whole(body, seed, seed.parent_uuid.clone(), "there was nothing to write"),
        SeedMode::Fork => forked(host, agent, body, seed)?,
        SeedMode::InPlace => in_place(host, agent, body, seed, lease)?,
    };
    faults::at("settle-found", lease.transcript())?;
    close(host, ledger, body, found)
}

fn whole(_: &Body, seed: &SeedRecord, parent_uuid: RecordId, why: &str) -> Found {
    let report = SeedReport {
        mode: seed.mode,
        session_id: seed.session_id.clone(),
        transcript: seed.transcript.clone(),
        parent_uuid,
        anchor: seed.anchor.as_ref().map(|a| a.uuid.clone()),
        chain: seed.chain,
        gaps: seed.gaps.clone(),
        source_grew: false,
    };
    Found::Whole(Box::new(report), why.to_owned())
}

/// The recorded chain, from the bytes that it was made from.
fn recorded_chain(
    agent: Agent,
    body: &Body,
    seed: &SeedRecord,
) -> Result<std::result::Result<(FileSource, Transcript, Seedable), String>> {
    let path = Path::new(&body.transcript);
    let (Some(snapshot), Some(leaf)) = (&body.snapshot, body.leaf()) else {
        return Ok(Err("its entry names no snapshot".to_owned()));
    };
    let Some(source) = open_then(path, snapshot)? else {
        return Ok(Err("the bytes that it was made from are not there any more".to_owned()));
    };
    let dialect = dialect::of(agent);
    let t = dialect.read(&source).map_err(Error::io("read", path))?;
    let chain =
        chain::seedable(dialect, &t, &source, leaf, !seed.gaps.is_empty(), seed.mode == SeedMode::InPlace)
            .map_err(Error::io("read", path))?;
    Ok(match chain {
        Ok(chain) if chain.chain.digest(&t) == seed.chain_digest => Ok((source, t, chain)),
        Ok(_) => Err("the chain of the chosen leaf is another one".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

fn forked(host: &Host<'_>, agent: Agent, body: &Body, seed: &SeedRecord) -> Result<Found> {
    let child = Path::new(&seed.transcript);
    let temporary = seed.temporary.as_ref().map(Path::new);
    if !file::exists(child) {
        remove_staged(host, agent, seed)?;
        return Ok(Found::Nothing("its child was not published".to_owned()));
    }
    let (_, t, chain) = match recorded_chain(agent, body, seed)? {
        Ok(recorded) => recorded,
        Err(why) => return Ok(Found::Nothing(why)),
    };
    let expected = dialect::of(agent).expected(&t, &chain.chain, &Client::default());
    let source = FileSource::open_alone(child)?;
    let c = dialect::of(agent).read(&source).map_err(Error::io("read", child))?;
    if end_of_seed(&c, &expected.begins).is_none() {
        return Err(seed::already_there(&body.operation_id, child).into());
    }
    if let Some(temporary) = temporary {
        remove_temporary(agent, temporary)?;
    }
    // Its name may not be durable yet: whoever linked it was stopped before it could say so.
    atomic::sync_dir(child.parent().expect("BUG: a child lies in a folder"))?;
    // The title that the fork ends with, unless the child has grown since.
    let leaf = expected.tail.as_ref().and_then(|id| c.ids.find(id.as_str()));
    let title =
        c.records.iter().find(|r| r.flags.has(Flags::TITLE) && r.parent.is_some() && r.parent == leaf);
    let tail = title.map(|r| c.id(r.id)).or(expected.tail);
    let tail = tail.unwrap_or_else(|| seed.parent_uuid.clone());
    Ok(whole(body, seed, tail, "its child is there and whole"))
}

fn in_place(host: &Host<'_>, agent: Agent, body: &Body, seed: &SeedRecord, lease: &Lease) -> Result<Found> {
    let path = lease.transcript();
    let (_, t, chain) = match recorded_chain(agent, body, seed)? {
        Ok(recorded) => recorded,
        Err(why) => return Ok(Found::Nothing(why)),
    };
    let expected = dialect::of(agent).expected(&t, &chain.chain, &Client::default()).history;
    let mut source = FileSource::open(path)?;
    let Some(anchor) = &seed.anchor else {
        return Ok(match lands_below(agent, &source, path, &expected, None)? {
            Ok(()) => whole(body, seed, seed.parent_uuid.clone(), "the client still lands on the leaf"),
            Err(why) => Found::Nothing(why),
        });
    };
    let read = |source: &FileSource| {
        read_up_to(source, anchor.offset, anchor.bytes.len()).map_err(Error::io("read", path))
    };
    let mut there = read(&source)?;
    let fragment = !there.is_empty()
        && there.len() < anchor.bytes.len()
        && anchor.bytes.as_bytes().starts_with(&there)
        && source.len() == anchor.offset + there.len() as u64;
    if fragment {
        if !end_fragment(host, agent, lease)? {
            return Err(fragment_held(body, path).into());
        }
        // Where the newline alone was missing the anchor is whole now.
        source = FileSource::open(path)?;
        there = read(&source)?;
    }
    if there == anchor.bytes.as_bytes() {
        return Ok(match lands_below(agent, &source, path, &expected, Some(&anchor.uuid))? {
            Ok(()) => {
                // It may not be durable yet: whoever wrote it was stopped before it could say so.
                source.file().sync_all().map_err(Error::io("sync", path))?;
                whole(body, seed, seed.parent_uuid.clone(), "its anchor is there and whole")
            }
            Err(why) => Found::Nothing(why),
        });
    }
    if fragment {
        return Ok(Found::Nothing("only a part of its anchor was written; the part was ended".to_owned()));
    }
    Ok(Found::Nothing("its anchor was not written".to_owned()))
}

fn fragment_held(body: &Body, path: &Path) -> Refusal {
    Refusal::new(
        Code::LeaseHeld,
        format!(
            "`{}` ends in a part of the anchor of operation `{}`, and a live agent has the session open",
            path.display(),
            body.operation_id
        ),
    )
    .hint("end that agent, then run `offshoot recover`")
    .detail(json!({"operationId": body.operation_id, "transcript": body.transcript}))
}

/// Whether the client continues the chain: by itself, or below what it has added since.
fn lands_below(
    agent: Agent,
    source: &dyn Source,
    path: &Path,
    expected: &[RecordId],
    anchor: Option<&str>,
) -> Result<std::result::Result<(), String>> {
    let dialect = dialect::of(agent);
    let t = dialect.read(source).map_err(Error::io("read", path))?;
    let simulated = dialect.simulate(&t, source, &Client::default()).map_err(Error::io("read", path))?;
    let resumed = match simulated {
        Simulated::Resumes(resumed) => resumed,
        Simulated::Refuses(why) => return Ok(Err(format!("the client refuses the file: {why}"))),
    };
    let begins = resumed.history.len() >= expected.len()
        && resumed.history.iter().zip(expected).all(|(id, e)| t.ids.find(e.as_str()) == Some(*id));
    let through = anchor.is_none_or(|a| t.ids.find(a).is_some_and(|a| resumed.history.contains(&a)));
    Ok(if begins && through { Ok(()) } else { Err("the client goes on at another branch".to_owned()) })
}

fn read_up_to(source: &dyn Source, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let n = source.len().saturating_sub(offset).min(len as u64) as usize;
    let mut bytes = vec![0; n];
    source.read_exact_at(offset.min(source.len()), &mut bytes)?;
    Ok(bytes)
}

fn close(host: &Host<'_>, ledger: &Ledger, body: &Body, found: Found) -> Result<Settled> {
    let (outcome, reason) = match found {
        Found::Whole(report, why) => {
            let mut done = pending::later(body, State::Completed);
            done.recovered = Some(true);
            done.result = Some(match fork::recovered_answer(ledger.agent(), body) {
                Some(forked) => serde_json::to_value(&forked),
                None => serde_json::to_value(&recovered_answer(ledger.agent(), body, *report)?),
            })
            .map(|answer| answer.expect("BUG: an answer is always JSON"));
            ledger.append(done, host.now())?;
            ("completed", why)
        }
        Found::Nothing(why) => {
            let mut done = pending::later(body, State::Abandoned);
            done.recovered = Some(true);
            done.reason = Some(Reason { code: "recovered".to_owned(), message: why.clone() });
            ledger.append(done, host.now())?;
            ("abandoned", why)
        }
    };
    ledger.take_notes().iter().for_each(|note| host.note(note));
    Ok(Settled {
        operation_id: body.operation_id.clone(),
        transcript: body.transcript.clone(),
        outcome: outcome.to_owned(),
        reason,
    })
}

fn recovered_answer(agent: Agent, body: &Body, seed: SeedReport) -> Result<Answer> {
    let Some(verdict) = &body.verdict else {
        return Err(Refusal::new(Code::StaleSource, "the pending entry names no leaf").into());
    };
    Ok(Answer {
        schema: answer::SCHEMA.to_owned(),
        operation_id: body.operation_id.clone(),
        leaf_uuid: verdict.leaf_uuid.clone(),
        followed: body.followed.clone(),
        decided_by: verdict.decided_by.clone(),
        command: resume_command(agent, &seed.session_id),
        seed,
        replayed: false,
        warnings: Vec::new(),
        dry_run: false,
    })
}
