//! The three seeds: a fork, an anchor in place, none.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    dialect::{self, AnchorSpec, Client, ForkReport, ForkSpec, derived_uuid},
    record::{Agent, RecordId},
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{
        Host, Request, Selector, annotate,
        chain::{self, Landing, Seedable},
        owners::refuse_live_owner,
        pending,
        pipeline::{Decided, Session},
        reasonix,
    },
    selection::{SeedMode, SeedReport},
    store::{
        agents::{
            backups::{Backups, Copied, copy_backups},
            qwen::{self, AgentLease, AgentLeaseOptions},
        },
        atomic::{PublishOutcome, Staged},
        faults,
        file::{self, FileSource},
        ledger::entry::{AnchorRecord, SeedRecord},
        signals,
        snapshot::{Growth, Snapshot},
        writer::{Appender, raced},
    },
    topology::Chain,
    transcript::{Appended, Source, Transcript},
};

/// What is going to be written, fixed before the pending entry.
pub(super) struct Plan {
    pub record: SeedRecord,
    /// The policy's text, to be kept.
    pub policy_text: Option<String>,
    /// The visible chain, which the client must come to.
    expected: Vec<RecordId>,
    /// In place: where the client stands already.
    standing: Option<Landing>,
}

/// A seed that is durable.
pub(super) struct Seeded {
    pub report: SeedReport,
    /// In place: the agent's own lease, still held.
    pub agent_lease: Option<AgentLease>,
    /// In place: the open end of the transcript.
    pub appender: Option<Appender>,
}

/// The client that is simulated over every seed of a transcript: a child may not say itself which one made it.
fn client_of(request: &Request, t: &Transcript) -> Client {
    let version = request.client.version.clone().or_else(|| t.client_version.clone());
    Client { version, ..request.client.clone() }
}

/// Where the client lands by itself, if that is the chosen chain.
fn lands_already(session: &Session, request: &Request, chain: &Seedable) -> Result<Option<Landing>> {
    let t = &session.snapshot.transcript;
    let client = client_of(request, t);
    let expected = session.dialect().expected(t, &chain.chain, &client).history;
    if expected.is_empty() {
        return Ok(None);
    }
    let (dialect, snapshot) = (session.dialect(), &session.snapshot);
    let landed = chain::land_on(dialect, t, snapshot, &client, &expected, request.allow_gap)
        .map_err(Error::io("read", &snapshot.path))?;
    Ok(landed.ok())
}

/// Where the client lands by itself, if it is also safe to let it write there. Below an unfinished last line it is not:
/// the client glues its next record to it, and one resume later the record is lost with all that stood before it. And
/// what we write there ourselves must be what it goes on below, which a pin beside the chain can prevent.
pub(super) fn stands(session: &Session, request: &Request, chain: &Seedable) -> Result<Option<Landing>> {
    if session.snapshot.transcript.torn_bytes > 0 {
        return Ok(None);
    }
    Ok(lands_already(session, request, chain)?.filter(|landing| landing.grows || !request.write))
}

/// The record below which a child goes on. A log of Reasonix can have turns without a single message; what is read of
/// it then ends with its leaf.
pub(super) fn below(agent: Agent, expected: &[RecordId], leaf: &RecordId) -> Result<RecordId> {
    match (expected.last(), agent) {
        (Some(last), _) => Ok(last.clone()),
        (None, Agent::Reasonix) => Ok(leaf.clone()),
        (None, Agent::Claude | Agent::Qwen) => {
            Err(chain::unreachable(leaf, "the client can see no record of the chain").into())
        }
    }
}

/// Fixes names and bytes.
pub(super) fn plan(
    request: &Request,
    host: &Host<'_>,
    operation_id: &str,
    decided: &Decided,
) -> Result<Plan> {
    let session = &decided.session;
    let (t, path) = (&session.snapshot.transcript, &session.snapshot.path);
    let expected = session.dialect().expected(t, &decided.chain.chain, &client_of(request, t)).history;
    let leaf = &decided.choice.leaf;
    let last = below(session.target.agent, &expected, leaf)?;
    let session_id = annotate::session_key(t, path);
    let mut record = SeedRecord {
        mode: decided.mode,
        session_id,
        transcript: path.display().to_string(),
        parent_uuid: last,
        chain: decided.chain.chain.uuids.len() as u64,
        chain_digest: decided.chain.chain.digest(t),
        gaps: decided.chain.gaps(t),
        anchor: None,
        temporary: None,
        backups: None,
        agent_lock_owner: None,
        write: request.write,
    };
    let mut standing = None;
    match decided.mode {
        SeedMode::Fork => {
            if is_reasonix(decided) {
                reasonix::check_end(decided)?;
            }
            name_child(host, session.target.agent, path, operation_id, &mut record);
        }
        SeedMode::InPlace => {
            standing = stands(session, request, &decided.chain)?;
            plan_in_place(request, host, operation_id, decided, (standing.as_ref(), &expected), &mut record)?;
        }
        SeedMode::None => {
            if is_reasonix(decided) {
                record.session_id = leaf.to_string();
                record.transcript = reasonix::session_of_leaf(decided).display().to_string();
            } else if let Some(landing) = lands_already(session, request, &decided.chain)? {
                record.parent_uuid = landing.tail;
            }
            if request.write {
                let owner = lock_owner(session.target.agent, &record.session_id, operation_id);
                record.agent_lock_owner = Some(owner);
            }
        }
    }
    let policy_text = match &request.selector {
        Selector::Policy(file) => Some(file.text.clone()),
        _ => None,
    };
    Ok(Plan { record, policy_text, expected, standing })
}

fn is_reasonix(decided: &Decided) -> bool {
    decided.session.target.agent == Agent::Reasonix
}

/// Both the agent's lock and our recovery of it go by this id.
pub(super) fn lock_owner(agent: Agent, session_id: &str, operation_id: &str) -> String {
    derived_uuid("lock", agent, session_id, operation_id)
}

/// Gives a fork the names of its child; `record` has those of its source.
pub(super) fn name_child(
    host: &Host<'_>,
    agent: Agent,
    path: &Path,
    operation_id: &str,
    record: &mut SeedRecord,
) {
    let child = derived_uuid("fork", agent, &record.session_id, operation_id);
    if agent == Agent::Reasonix {
        return reasonix::name_child(path, child, record);
    }
    let file = path.with_file_name(format!("{child}.jsonl"));
    record.temporary = Some(path.with_file_name(temporary_name(&child)).display().to_string());
    let backups = Backups::of(agent, &file, &child, host.qwen);
    record.backups = backups.and_then(|b| b.folder().ok()).map(|p| p.display().to_string());
    record.transcript = file.display().to_string();
    record.session_id = child;
}

/// Hidden, and no session file by the client's pattern.
fn temporary_name(child: &str) -> String {
    format!(".{child}.offshoot.tmp")
}

fn plan_in_place(
    request: &Request,
    host: &Host<'_>,
    operation_id: &str,
    decided: &Decided,
    (standing, expected): (Option<&Landing>, &[RecordId]),
    record: &mut SeedRecord,
) -> Result<()> {
    let session = &decided.session;
    let (t, path) = (&session.snapshot.transcript, &session.snapshot.path);
    refuse_live_owner(host, path)?;
    // Both the agent's lock and our recovery of it go by this id.
    record.agent_lock_owner =
        Some(derived_uuid("lock", session.target.agent, &record.session_id, operation_id));
    if let Some(landing) = standing {
        record.parent_uuid = landing.tail.clone();
        return Ok(());
    }
    let spec = AnchorSpec {
        uuid: derived_uuid("anchor", session.target.agent, &record.session_id, operation_id),
        operation_id: operation_id.to_owned(),
        now: host.now(),
        version: request.client.version.clone(),
    };
    let anchor = session
        .dialect()
        .anchor(t, &session.snapshot, decided.chain.leaf, &spec)
        .map_err(Error::io("read", path))?;
    let offset = session.snapshot.file_len();
    let mut bytes = Vec::new();
    // Without it the client would lose our line together with the unfinished one.
    if offset > 0 && !(session.snapshot.bytes == offset && t.ends_in_newline) {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(&anchor.bytes);
    // Up to where the anchor would go: what somebody appended since is the business of the check before the write.
    let mut whole = FileSource::open(path)?;
    whole.truncate_to(offset);
    let appended = Appended { head: &whole, tail: &bytes };
    let client = client_of(request, t);
    let landed = chain::land(session.dialect(), &appended, &client, expected, request.allow_gap)
        .map_err(Error::io("read", path))?;
    let landing = match landed {
        Ok(landing) => landing,
        Err(why) => {
            // A file that changed meanwhile says nothing of the leaf, and to try again helps.
            session.snapshot.check(Growth::Refuse)?;
            return Err(chain::unreachable(&decided.choice.leaf, &why)
                .hint("a fork can reach it (`offshoot resume --leaf ID --seed fork`): it holds the chain and nothing else")
                .into());
        }
    };
    let bytes = String::from_utf8(bytes).expect("BUG: anchors are UTF-8");
    record.parent_uuid = landing.tail;
    record.anchor = Some(AnchorRecord { uuid: anchor.uuid, offset, bytes });
    Ok(())
}

/// Runs a plan without leaving anything: a fork goes to an unnamed file, an anchor was simulated already.
pub(super) fn rehearse(
    request: &Request,
    host: &Host<'_>,
    operation_id: &str,
    decided: &Decided,
    plan: &Plan,
) -> Result<SeedReport> {
    if plan.record.mode != SeedMode::Fork {
        return Ok(report(plan, None, false));
    }
    let mut file = crate::store::atomic::unnamed()?;
    let child = child_of(request, operation_id, decided, plan);
    let mut fork = child.write(host, &mut file)?;
    let source = FileSource::of(file, Path::new("(rehearsal)"))?;
    let landing = child.confirm(&source, Path::new("(rehearsal)"))?;
    if !is_reasonix(decided) {
        fork.tail = landing.tail.to_string();
    }
    Ok(report(plan, Some(&fork), false))
}

/// Writes the seed and makes it durable.
pub(super) fn perform(
    request: &Request,
    host: &Host<'_>,
    operation_id: &str,
    decided: &Decided,
    plan: &Plan,
) -> Result<Seeded> {
    match plan.record.mode {
        SeedMode::Fork => {
            let session = &decided.session;
            let (written, grew) = child_of(request, operation_id, decided, plan).publish(host, || {
                session.lease.verify()?;
                session.snapshot.check(Growth::AllowAtEnd)
            })?;
            let report = report(plan, Some(&written), grew);
            Ok(Seeded { report, agent_lease: None, appender: None })
        }
        SeedMode::InPlace => in_place(request, host, decided, plan),
        SeedMode::None => {
            let mut seeded = Seeded { report: report(plan, None, false), agent_lease: None, appender: None };
            let growth = if request.write { Growth::Refuse } else { Growth::AllowAtEnd };
            if request.write {
                refuse_live_owner(host, &decided.session.snapshot.path)?;
                seeded.agent_lease = agent_lease_of(host, decided, plan)?;
            }
            seeded.report.source_grew = decided.session.snapshot.check(growth)?;
            if request.write {
                seeded.appender = Some(Appender::open(&decided.session.snapshot)?);
            }
            Ok(seeded)
        }
    }
}

fn report(plan: &Plan, fork: Option<&ForkReport>, source_grew: bool) -> SeedReport {
    let r = &plan.record;
    SeedReport {
        mode: r.mode,
        session_id: r.session_id.clone(),
        transcript: r.transcript.clone(),
        parent_uuid: fork.map_or_else(|| r.parent_uuid.clone(), |f| RecordId::new(f.tail.clone())),
        anchor: r.anchor.as_ref().map(|a| a.uuid.clone()),
        chain: r.chain,
        gaps: r.gaps.clone(),
        source_grew,
    }
}

/// The child of a fork, fixed and not yet written.
pub(super) struct Child<'a> {
    pub agent: Agent,
    /// The source, as far as the child is made from it.
    pub snapshot: &'a Snapshot,
    /// The source's session id.
    pub session_id: &'a str,
    pub chain: &'a Chain,
    pub leaf: &'a RecordId,
    /// The history that the client must come to.
    pub expected: &'a [RecordId],
    pub client: Client,
    pub record: &'a SeedRecord,
    pub operation_id: &'a str,
}

fn child_of<'a>(request: &Request, operation_id: &'a str, decided: &'a Decided, plan: &'a Plan) -> Child<'a> {
    let session = &decided.session;
    Child {
        agent: session.target.agent,
        snapshot: &session.snapshot,
        session_id: &session.inspection.session_id,
        chain: &decided.chain.chain,
        leaf: &decided.choice.leaf,
        expected: &plan.expected,
        client: client_of(request, &session.snapshot.transcript),
        record: &plan.record,
        operation_id,
    }
}

impl Child<'_> {
    fn write(&self, host: &Host<'_>, out: &mut (dyn std::io::Write + Send)) -> Result<ForkReport> {
        let (snapshot, dialect) = (self.snapshot, dialect::of(self.agent));
        let t = &snapshot.transcript;
        let title = pending::twin_title(dialect, t, snapshot, self.session_id, self.leaf)
            .map_err(Error::io("read", &snapshot.path))?;
        let spec = ForkSpec {
            session_id: self.record.session_id.clone(),
            title: Some(title),
            now: host.now(),
            operation_id: self.operation_id.to_owned(),
            version: self.client.version.clone(),
        };
        let written = dialect.write_fork(t, snapshot, self.chain, &spec, out);
        written.map_err(Error::io("write", Path::new(&self.record.transcript)))
    }

    /// The client simulation over the final bytes, read anew.
    fn confirm(&self, bytes: &dyn Source, path: &Path) -> Result<Landing> {
        // A fork that begins below a gap has no gap: its first record is a root.
        let landed = chain::land(dialect::of(self.agent), bytes, &self.client, self.expected, false)
            .map_err(Error::io("read", path))?;
        landed.map_err(|why| chain::unreachable(self.leaf, &why).into())
    }

    /// Writes it under a temporary name, proves it by the client simulation, and gives it its own name. `check` runs
    /// right before that, and says whether the source has grown.
    pub(super) fn publish(
        &self,
        host: &Host<'_>,
        check: impl FnOnce() -> Result<bool>,
    ) -> Result<(ForkReport, bool)> {
        let path = &self.snapshot.path;
        let dir = path.parent().expect("BUG: a canonical file has a parent");
        let child = &self.record.session_id;
        // Before anything of that name is touched: it may be in use, if the operation was forgotten (pruned, or another
        // state directory).
        if file::exists(Path::new(&self.record.transcript)) {
            return Err(already_there(self.operation_id, Path::new(&self.record.transcript)).into());
        }
        if self.agent == Agent::Reasonix {
            let grew = reasonix::publish(self, host.now(), |made| {
                self.confirm(made, made.path())?;
                let grew = check()?;
                signals::finish_first();
                Ok(grew)
            })?;
            let tail = self.record.parent_uuid.to_string();
            return Ok((ForkReport { tail, ..ForkReport::default() }, grew));
        }
        // A crash of an earlier try of this operation may have left it.
        crate::store::atomic::remove_if_there(&dir.join(temporary_name(child)))?;
        let mut staged = Staged::create(dir, &temporary_name(child))?;
        let mut written = self.write(host, &mut staged)?;
        faults::halfway("fork-half", b"", |_| {
            let file = staged.file();
            file.set_len(file.metadata()?.len() / 2)
        })
        .map_err(Error::io("write", staged.path()))?;
        faults::at("fork-staged", path)?;
        let staged_at = staged.path().to_owned();
        let source = FileSource::open(&staged_at)?;
        let landing = staged.finish_while(|| self.confirm(&source, &staged_at))?;
        written.tail = landing.tail.to_string();
        let copied = self.copy_sidecars(host, &written.backups)?;
        copied.notes.iter().for_each(|note| host.note(note));
        faults::at("fork-backups", path)?;
        let published = (|| {
            let grew = check()?;
            signals::finish_first();
            match staged.publish(&format!("{child}.jsonl"))? {
                PublishOutcome::Published(_) => Ok(grew),
                PublishOutcome::Exists(file) => Err(already_there(self.operation_id, &file).into()),
            }
        })();
        match published {
            Ok(grew) => {
                copied.keep();
                Ok((written, grew))
            }
            Err(error) => {
                // A fault behind the link: the child is there, and recovery will find it whole.
                if matches!(error, Error::Fault(_)) && file::exists(Path::new(&self.record.transcript)) {
                    copied.keep();
                }
                Err(error)
            }
        }
    }

    /// What the client needs beside a child to take back the changes of files that the child's records tell of.
    fn copy_sidecars(&self, host: &Host<'_>, names: &[String]) -> Result<Copied> {
        let of = |path: &Path, id: &str| Backups::of(self.agent, path, id, host.qwen);
        let from = of(&self.snapshot.path, self.session_id);
        let to = of(Path::new(&self.record.transcript), &self.record.session_id);
        if let (Some(from), Some(to)) = (from, to) {
            return copy_backups(&from, &to, names);
        }
        let mut copied = Copied::default();
        if !names.is_empty() {
            copied.notes.push(
                "the transcript is not in its agent's folder; changes to files cannot be taken back in the child"
                    .to_owned(),
            );
        }
        Ok(copied)
    }
}

/// A file that has the child's name and is not known to be the child.
pub(super) fn already_there(operation_id: &str, file: &Path) -> Refusal {
    Refusal::new(
        Code::OperationConflict,
        format!("`{}`, the name of this operation's child, belongs to another file", file.display()),
    )
    .hint("give a new operation id")
    .detail(json!({"operationId": operation_id, "transcript": file.display().to_string()}))
}

/// The client's own lock, for a transcript in its place.
pub(super) fn agent_lease(
    host: &Host<'_>,
    path: &Path,
    owner_id: &str,
    client_version: Option<&str>,
) -> Result<Option<AgentLease>> {
    let Some(place) = qwen::place_of(path) else { return Ok(None) };
    let options = AgentLeaseOptions { owner_id, now: host.now(), client_version };
    AgentLease::acquire(&place, &options).map(Some)
}

fn agent_lease_of(host: &Host<'_>, decided: &Decided, plan: &Plan) -> Result<Option<AgentLease>> {
    let snapshot = &decided.session.snapshot;
    let owner =
        plan.record.agent_lock_owner.as_ref().expect("BUG: a plan that writes the source has an owner id");
    agent_lease(host, &snapshot.path, owner, snapshot.transcript.client_version.as_deref())
}

fn in_place(request: &Request, host: &Host<'_>, decided: &Decided, plan: &Plan) -> Result<Seeded> {
    let snapshot: &Snapshot = &decided.session.snapshot;
    let path: &PathBuf = &snapshot.path;
    let agent_lease = agent_lease_of(host, decided, plan)?;
    faults::at("agent-leased", path)?;
    // From the last look to the confirmation no signal may give the agent's lock back.
    let _writing = signals::uninterrupted();
    let verify = || {
        decided.session.lease.verify()?;
        agent_lease.as_ref().map_or(Ok(()), AgentLease::verify)
    };
    verify()?;
    refuse_live_owner(host, path)?;
    snapshot.check(Growth::Refuse)?;
    let mut appender = Appender::open(snapshot)?;
    if let Some(anchor) = &plan.record.anchor {
        faults::at("in-place-checked", path)?;
        signals::finish_first();
        appender.append(anchor.bytes.as_bytes(), &verify)?;
        faults::at("in-place-appended", path)?;
        let source = FileSource::open(path)?;
        let landed = chain::land(
            decided.session.dialect(),
            &source,
            &client_of(request, &snapshot.transcript),
            &plan.expected,
            request.allow_gap,
        )
        .map_err(Error::io("read", path))?;
        if let Err(why) = landed {
            let bytes = anchor.bytes.len() as u64;
            return Err(raced(path, &why, anchor.offset, bytes).into());
        }
    } else if plan.standing.is_none() {
        return Err(Fault::new(FaultCode::Damaged, "an in-place plan without an anchor").into());
    }
    Ok(Seeded { report: report(plan, None, false), agent_lease, appender: Some(appender) })
}
