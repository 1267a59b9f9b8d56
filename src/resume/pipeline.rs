//! The order of work of a resume.

use hashbrown::HashSet;
use serde_json::json;

use crate::{
    dialect::{self, Dialect},
    policy::{self, Continued},
    record::{Agent, RecordId},
    refusal::{Code, Error, Refusal, Result},
    resume::{
        Answer, ContinuedChoice, Host, Request, Resumed, Selector, Target,
        annotate::{self, Context},
        answer,
        chain::{self, Seedable},
        choose::{Choice, choose},
        fork, line,
        operation::{self, Earlier, Operation, Recorded},
        pending, seed, settle,
        write::{self, ResumedWriter},
    },
    selection::{DecidedBy, SeedMode, SeedReport},
    store::{
        faults,
        lease::{Lease, LeaseOptions},
        operations::OperationLock,
        snapshot::Snapshot,
        then::open_then,
    },
    topology::{self, Inspection},
};

/// A transcript under its lease, read and inspected.
pub(super) struct Session {
    pub target: Target,
    pub lease: Lease,
    pub snapshot: Snapshot,
    pub inspection: Inspection,
    pub context: Context,
}

impl Session {
    pub(super) fn dialect(&self) -> &'static dyn Dialect {
        dialect::of(self.target.agent)
    }
}

/// Everything decided, nothing written.
pub(super) struct Decided {
    pub session: Session,
    pub choice: Choice,
    pub chain: Seedable,
    pub mode: SeedMode,
    pub followed: Vec<String>,
    pub warnings: Vec<String>,
}

/// Chooses a leaf, records the choice, and seeds the session that goes on.
///
/// # Errors
/// Every refusal of the contract; a refusal never follows a write to a transcript or a child. Faults name what
/// was written.
pub fn resume(request: &Request, host: &mut Host<'_>) -> Result<Resumed> {
    check_request(request)?;
    if matches!(request.selector, Selector::Pick) {
        host.person.require_terminal()?;
    }
    let mut operation = operation::begin(request, host)?;
    if let Earlier::Pending(claim) = &operation.earlier {
        // It stopped half way. Settled first, it is either complete or free to be performed again.
        settle::settle_claim(host, claim, request.wait)?;
        drop(operation);
        operation = operation::begin(request, host)?;
    }
    match std::mem::replace(&mut operation.earlier, Earlier::Nothing) {
        Earlier::Completed(answer) => replay(request, host, operation, *answer),
        Earlier::Abandoned(recorded) => {
            let decided = decide_again(request, host, *recorded)?;
            perform(request, host, operation, decided)
        }
        Earlier::Pending(_) | Earlier::Foreign => Err(operation::in_flight(&operation.id)),
        Earlier::Nothing => {
            let decided = decide(request, host)?;
            perform(request, host, operation, decided)
        }
    }
}

/// The seed that is asked for: the command line wins over the policy.
fn wanted_mode(request: &Request) -> Result<SeedMode> {
    if let Some(mode) = request.seed {
        return Ok(mode);
    }
    if let Selector::Policy(file) = &request.selector {
        let policy = policy::parse(&file.text, &file.path.display().to_string()).map_err(Refusal::from)?;
        return Ok(policy.seed.mode.unwrap_or(SeedMode::Fork));
    }
    Ok(SeedMode::Fork)
}

fn check_request(request: &Request) -> Result<()> {
    if request.target.agent == Agent::Reasonix {
        if request.write {
            return Err(dialect::reasonix::unsupported("writer (`--write`)").into());
        }
        if matches!(request.selector, Selector::Undo) {
            return Err(dialect::reasonix::unsupported("`undo`").into());
        }
        if wanted_mode(request)? == SeedMode::InPlace {
            return Err(dialect::reasonix::unsupported("anchor in place").into());
        }
    }
    if request.write && wanted_mode(request)? == SeedMode::Fork {
        return Err(Refusal::new(
            Code::Usage,
            "`--write` appends to the same session, and a fork makes another one",
        )
        .hint("add `--seed in-place` or `--seed none`")
        .into());
    }
    Ok(())
}

/// Takes the lease, settles what a crash left, and inspects a stable snapshot.
pub(super) fn open(target: &Target, request: &Request, host: &Host<'_>) -> Result<Session> {
    let options = LeaseOptions { state: host.state, wait: request.wait, purpose: "resume", now: host.now() };
    let lease = Lease::acquire(&target.path, &options)?;
    lease.notes().iter().for_each(|note| host.note(note));
    faults::at("leased", &target.path)?;
    if !request.dry_run {
        settle::settle_under(host, target, &lease)?;
    }
    let dialect = dialect::of(target.agent);
    let snapshot = lease.snapshot(dialect)?;
    request.seen.as_ref().map_or(Ok(()), |seen| seen.require(&snapshot))?;
    let (inspection, context) = inspect(target, &snapshot, request, host)?;
    faults::at("inspected", &target.path)?;
    Ok(Session { target: target.clone(), lease, snapshot, inspection, context })
}

fn inspect(
    target: &Target,
    snapshot: &Snapshot,
    request: &Request,
    host: &Host<'_>,
) -> Result<(Inspection, Context)> {
    let t = &snapshot.transcript;
    let dialect = dialect::of(target.agent);
    let mut inspection = topology::inspect(t, snapshot, dialect, &request.client)
        .map_err(Error::io("read", &snapshot.path))?;
    inspection.transcript = snapshot.path.display().to_string();
    inspection.snapshot.digest.clone_from(&snapshot.digest);
    let context = annotate::annotate(host.state.root(), target.agent, &snapshot.path, t, &mut inspection)?;
    Ok((inspection, context))
}

fn decide(request: &Request, host: &mut Host<'_>) -> Result<Decided> {
    let wanted = wanted_mode(request)?;
    let mut target = request.target.clone();
    let mut followed = Vec::new();
    let mut seen: HashSet<std::path::PathBuf> = HashSet::new();
    loop {
        let session = in_line(open(&target, request, host)?, request, host)?;
        let t = &session.snapshot.transcript;
        let choice = choose(request, host, t, &session.inspection, &session.context)?;
        seen.insert(session.snapshot.path.clone());
        if wanted == SeedMode::Fork
            && let Some(child) = next_in_line(request, host, &session, &choice)?
        {
            let name = session.inspection.session_id.clone();
            if !seen.contains(&child.path) {
                let name_of = |path: &std::path::Path| match target.agent {
                    // A folder's name has no extension, only dots.
                    Agent::Reasonix => path.file_name().map(std::ffi::OsStr::to_owned),
                    Agent::Claude | Agent::Qwen => path.file_stem().map(std::ffi::OsStr::to_owned),
                };
                let id = name_of(&child.path).unwrap_or_default().display().to_string();
                host.note(format!("`{}` went on in session `{id}`", choice.leaf));
                followed.push(name);
                target = child;
                continue;
            }
        }
        return finish_decision(request, session, choice, wanted, followed);
    }
}

/// The session as who is going to choose sees it.
fn in_line(session: Session, request: &Request, host: &Host<'_>) -> Result<Session> {
    if !matches!(request.selector, Selector::Auto | Selector::Policy(_)) {
        return Ok(session);
    }
    let seen = line::for_rules(host.state.root(), &session.snapshot, session.dialect())?;
    let Some(snapshot) = seen else { return Ok(session) };
    let (inspection, context) = inspect(&session.target, &snapshot, request, host)?;
    Ok(Session { snapshot, inspection, context, ..session })
}

/// The child in which the chosen leaf went on, if this call is to follow it there.
fn next_in_line(
    request: &Request,
    host: &mut Host<'_>,
    session: &Session,
    choice: &Choice,
) -> Result<Option<Target>> {
    let branch = session.inspection.branch(&choice.leaf);
    let Some((branch, child)) = branch.and_then(|b| Some((b, b.continued_in.as_ref()?))) else {
        if let Some(gone) = gone_child(session, &choice.leaf) {
            host.note(format!("`{}` was forked to `{gone}` before, which is gone", choice.leaf));
        }
        return Ok(None);
    };
    let continued = match &request.selector {
        Selector::Leaf(_) => return Ok(None),
        _ if request.no_follow => return Ok(None),
        Selector::Policy(file) => {
            policy::parse(&file.text, &file.path.display().to_string()).map_err(Refusal::from)?.seed.continued
        }
        _ if choice.decided_by.kind == crate::selection::DecidedKind::Prompt => {
            match host.person.continued(branch, child)? {
                ContinuedChoice::Follow => Continued::Follow,
                ContinuedChoice::ForkAgain => Continued::ForkAgain,
            }
        }
        _ => Continued::Follow,
    };
    match continued {
        Continued::Follow => {
            let name = match session.target.agent {
                Agent::Reasonix => child.session_id.clone(),
                Agent::Claude | Agent::Qwen => format!("{}.jsonl", child.session_id),
            };
            let path = session.snapshot.path.with_file_name(name);
            Ok(Some(Target { agent: session.target.agent, path }))
        }
        Continued::ForkAgain => Ok(None),
        Continued::Refuse => Err(Refusal::new(
            Code::ContinuedElsewhere,
            format!("`{}` was forked before and went on in session `{}`", choice.leaf, child.session_id),
        )
        .hint("resume that session, or fork again with `--no-follow`")
        .detail(json!({"leafUuid": choice.leaf, "sessionId": child.session_id, "turns": child.turns}))
        .into()),
    }
}

/// A child that the ledger knows and the disk does not.
fn gone_child(session: &Session, leaf: &RecordId) -> Option<String> {
    let canonical = session.snapshot.path.display().to_string();
    session.context.read.selections(&canonical).iter().filter(|s| s.is_completed()).find_map(|s| {
        let body = &s.pending.body;
        let seed = body.seed.as_ref().filter(|seed| seed.mode == SeedMode::Fork)?;
        (body.verdict.as_ref()?.leaf_uuid == *leaf).then(|| seed.session_id.clone())
    })
}

fn finish_decision(
    request: &Request,
    session: Session,
    choice: Choice,
    wanted: SeedMode,
    followed: Vec<String>,
) -> Result<Decided> {
    let t = &session.snapshot.transcript;
    let chain = chain::seedable(
        session.dialect(),
        t,
        &session.snapshot,
        &choice.leaf,
        request.allow_gap,
        wanted == SeedMode::InPlace,
    )
    .map_err(Error::io("read", &session.snapshot.path))??;
    let mode = if followed.is_empty() || wanted != SeedMode::Fork {
        wanted
    } else if seed::stands(&session, request, &chain)?.is_some() {
        // The session that was reached goes on from there by itself: it is handed over.
        SeedMode::None
    } else {
        wanted
    };
    let mut warnings = chain.warnings.clone();
    warnings.extend(pending::turn_warning(&session.inspection, &choice.leaf));
    Ok(Decided { session, choice, chain, mode, followed, warnings })
}

/// The verdict that recovery abandoned, on the snapshot that it was made for.
fn decide_again(request: &Request, host: &mut Host<'_>, recorded: Recorded) -> Result<Decided> {
    let target = Target { agent: recorded.claim.agent, path: recorded.claim.transcript.clone().into() };
    let session = open(&target, request, host)?;
    let stale = |why: &str| {
        Error::from(
            Refusal::new(
                Code::StaleSource,
                format!("the recorded choice no longer fits the transcript: {why}"),
            )
            .hint("start over with a new operation id")
            .detail(json!({"leafUuid": recorded.verdict.leaf_uuid, "bytes": recorded.snapshot.bytes})),
        )
    };
    let there = if recorded.snapshot.parts.is_empty() {
        let digest = pending::prefix_digest(&session.snapshot, recorded.snapshot.bytes);
        let digest = digest.map_err(Error::io("read", &session.snapshot.path))?;
        digest.as_ref() == Some(&recorded.snapshot.digest)
    } else {
        open_then(&session.snapshot.path, &recorded.snapshot)?.is_some()
    };
    if !there {
        return Err(stale("the bytes that it was made from are not there any more"));
    }
    if recorded.mode == SeedMode::InPlace && session.inspection.branch(&recorded.verdict.leaf_uuid).is_none()
    {
        return Err(stale("the chosen leaf is no leaf any more"));
    }
    let choice = Choice {
        leaf: recorded.verdict.leaf_uuid,
        decided_by: recorded.verdict.decided_by,
        trace: recorded.verdict.trace,
        inputs: recorded.verdict.inputs,
    };
    finish_decision(request, session, choice, recorded.mode, Vec::new())
        .map(|decided| Decided { followed: recorded.followed, ..decided })
}

/// Records the choice, seeds, records that it is done.
pub(super) fn perform(
    request: &Request,
    host: &mut Host<'_>,
    mut operation: Operation,
    decided: Decided,
) -> Result<Resumed> {
    let session_id =
        annotate::session_key(&decided.session.snapshot.transcript, &decided.session.snapshot.path);
    let plan = seed::plan(request, host, &operation.id, &decided)?;
    if request.dry_run {
        let report = seed::rehearse(request, host, &operation.id, &decided, &plan)?;
        return finish(request, operation, decided, report, None, true);
    }
    if operation.lock.is_none() {
        operation.lock = Some(OperationLock::acquire(host.state.root(), &operation.id, request.wait)?);
    }
    pending::claim(host, &operation, &decided, &session_id)?;
    let body = pending::body(host, &operation, &decided, &plan)?;
    let ledger = &decided.session.context.ledger;
    ledger.append(body.clone(), host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("pending", &decided.session.snapshot.path)?;
    let seeded = match seed::perform(request, host, &operation.id, &decided, &plan) {
        Ok(seeded) => seeded,
        Err(error) => {
            if let Error::Refusal(refusal) = &error {
                pending::abandon(host, ledger, &operation.id, &body, refusal)?;
            }
            return Err(error);
        }
    };
    faults::at("seeded", &decided.session.snapshot.path)?;
    let result = answer_of(&operation.id, &decided, seeded.report.clone(), false);
    pending::complete(host, ledger, &body, &result)?;
    faults::at("completed", &decided.session.snapshot.path)?;
    fork::acknowledge_child(host, &decided.session.snapshot.path)?;
    finish(request, operation, decided, seeded.report.clone(), Some(seeded), false)
}

fn answer_of(id: &str, decided: &Decided, seed: SeedReport, dry_run: bool) -> Answer {
    Answer {
        schema: answer::SCHEMA.to_owned(),
        operation_id: id.to_owned(),
        leaf_uuid: decided.choice.leaf.clone(),
        followed: decided.followed.clone(),
        decided_by: DecidedBy::clone(&decided.choice.decided_by),
        command: answer::resume_command(decided.session.target.agent, &seed.session_id),
        seed,
        replayed: false,
        warnings: decided.warnings.clone(),
        dry_run,
    }
}

fn finish(
    request: &Request,
    operation: Operation,
    decided: Decided,
    report: SeedReport,
    seeded: Option<seed::Seeded>,
    dry_run: bool,
) -> Result<Resumed> {
    let agent = decided.session.target.agent;
    let session = Target { agent, path: report.transcript.clone().into() };
    let answer = answer_of(&operation.id, &decided, report, dry_run);
    let mut resumed = Resumed { answer, session, lease: None, writer: None, lock: operation.lock };
    let Some(seeded) = seeded else { return Ok(resumed) };
    if let Some(appender) = seeded.appender.filter(|_| request.write) {
        resumed.writer = Some(ResumedWriter::begin(write::Start {
            lease: decided.session.lease,
            agent_lease: seeded.agent_lease,
            appender,
            agent,
            session_id: decided.session.inspection.session_id,
            operation_id: operation.id,
            parent: resumed.answer.seed.first_parent(),
            written: 0,
        })?);
    } else if request.hold && resumed.answer.seed.mode != SeedMode::Fork {
        // A fork writes its child; the source's lease is kept only where a command is going to write the source.
        // The agent's own lease is given back here, before its process starts.
        resumed.lease = Some(decided.session.lease);
    }
    Ok(resumed)
}

/// Answers from the ledger, without a lease; a command or a writer takes it and starts again.
fn replay(
    request: &Request,
    host: &mut Host<'_>,
    operation: Operation,
    mut answer: Answer,
) -> Result<Resumed> {
    answer.replayed = true;
    let session = Target { agent: request.target.agent, path: answer.seed.transcript.clone().into() };
    if !crate::store::file::exists(&session.path) {
        return Err(Refusal::new(
            Code::StaleSource,
            format!("session `{}`, which operation `{}` made, is gone", answer.seed.session_id, operation.id),
        )
        .hint("start over with a new operation id")
        .detail(json!({"operationId": operation.id, "transcript": answer.seed.transcript}))
        .into());
    }
    // A kill behind the completed entry may have left the agent's lock.
    settle::tidy_if_free(host, &session)?;
    let writer = match request.write {
        true => Some(ResumedWriter::again(request, host, &operation.id, &session, &answer)?),
        false => None,
    };
    Ok(Resumed { answer, session, lease: None, writer, lock: operation.lock })
}
