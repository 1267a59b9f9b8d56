//! `resume`: arguments in, the pipeline, and what it says.

use std::{
    ffi::OsString,
    io::BufRead,
    path::{Path, PathBuf},
    process::ExitCode,
};

use jiff::Timestamp;
use serde_json::json;

use super::{
    args::{Global, ResumeArgs, SeedArg},
    host::{self, Outside},
    output, prompt, session, sessions,
    text::{clean, counted},
};
use crate::{
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{self, Answer, PolicyFile, Request, Resumed, ResumedWriter, Selector, Target},
    selection::{DecidedBy, DecidedKind, SeedMode},
    store::{
        command::Waiting,
        faults,
        lease::Lease,
        policy_file, signals,
        snapshot::{self, Seen},
    },
};

/// Runs it; `looked_at` is what the leaf was chosen on, where a person chose it by looking.
pub fn run(global: &Global, args: &ResumeArgs, looked_at: Option<Seen>) -> Result<ExitCode> {
    if args.pick {
        // Before anything is opened or locked.
        prompt::require_terminal()?;
    }
    let asked = if args.pick && args.session.is_none() { Some(sessions::ask(global)?) } else { None };
    let seen = session::glance(global, args.session.as_deref(), asked)?;
    let mut outside = Outside::open(global, Some(&seen.path))?;
    let selector = selector(global, args, &outside, &seen)?;
    let cwd = if args.command.is_empty() { None } else { working_dir_of(&seen)? };
    quiet_note(global, args, &seen)?;
    let request = Request {
        target: Target { agent: seen.agent, path: seen.path },
        selector,
        seed: args.seed.map(mode),
        write: args.write,
        hold: !args.command.is_empty(),
        operation_id: args.operation_id.clone(),
        wait: host::duration("--wait", &args.wait)?,
        dry_run: args.dry_run,
        allow_gap: args.allow_gap,
        no_follow: args.no_follow,
        client: seen.client,
        seen: looked_at,
    };
    host::take_signals()?;
    outside.with_host(|host| {
        let resumed = resume::resume(&request, host)?;
        resumed.answer.warnings.iter().for_each(|w| output::warn(global, w));
        if request.write && !request.dry_run {
            say(global, &resumed.answer, true)?;
            signals::finished();
            return write_records(global, resumed);
        }
        if args.command.is_empty() || request.dry_run {
            say(global, &resumed.answer, false)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(global, &resumed.answer, true)?;
        signals::finished();
        run_command(global, &request, host, resumed, &args.command, cwd.as_deref())
    })
}

fn mode(arg: SeedArg) -> SeedMode {
    match arg {
        SeedArg::Fork => SeedMode::Fork,
        SeedArg::InPlace => SeedMode::InPlace,
        SeedArg::None => SeedMode::None,
    }
}

/// Who chooses: the command line, else a policy that is found, else the one leaf or the person.
fn selector(
    global: &Global,
    args: &ResumeArgs,
    outside: &Outside,
    seen: &session::Glance,
) -> Result<Selector> {
    if args.pick {
        return Ok(Selector::Pick);
    }
    if let Some(leaf) = &args.leaf {
        return Ok(Selector::Leaf(leaf.clone()));
    }
    if let Some(path) = &args.policy {
        let (text, digest) = policy_file::read(path)?;
        return Ok(Selector::Policy(PolicyFile { path: path.clone(), text, digest }));
    }
    let env = host::environment();
    let config = env.config_dir();
    let places = policy_file::Places {
        environment: env.policy.as_deref(),
        project: seen.first_cwd.as_deref(),
        config: config.as_deref(),
        interactive: prompt::require_terminal().is_ok(),
    };
    let found = policy_file::lookup(&places, outside.state().root())?;
    if let Some(skipped) = &found.skipped_untrusted {
        output::note(
            global,
            &format!(
                "policy `{}` is not trusted and was not used; see `offshoot policy trust`",
                skipped.display()
            ),
        );
    }
    let Some(policy) = found.found else { return Ok(Selector::Auto) };
    output::note(
        global,
        &format!("policy `{}` ({}, {})", policy.path.display(), policy.origin.name(), policy.digest),
    );
    Ok(Selector::Policy(PolicyFile { path: policy.path, text: policy.text, digest: policy.digest }))
}

/// A client that takes no lock could be writing right now; how long it has been quiet is all that can be said.
fn quiet_note(global: &Global, args: &ResumeArgs, seen: &session::Glance) -> Result<()> {
    let writes_source = args.write || matches!(args.seed, Some(SeedArg::InPlace));
    if writes_source {
        let quiet = snapshot::quiet_for(&seen.path, Timestamp::now())?;
        output::note(
            global,
            &format!(
                "the transcript has been quiet for {}; a client that takes no lock cannot be seen",
                span(quiet)
            ),
        );
    }
    Ok(())
}

/// In whole seconds, as in `3m 20s`.
fn span(duration: std::time::Duration) -> String {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    format!("{:#}", jiff::SignedDuration::from_secs(seconds))
}

/// Says the result: JSON or a few lines on stdout, or on stderr where stdout belongs to a command or the writer.
pub(super) fn say(global: &Global, answer: &Answer, on_stderr: bool) -> Result<()> {
    if global.json {
        if !on_stderr {
            return output::json(answer);
        }
        let mut line = Vec::new();
        output::write_json(&mut line, answer).map_err(Error::io("write to", Path::new("standard error")))?;
        output::stderr_line(&String::from_utf8_lossy(&line));
        return Ok(());
    }
    let text = describe(answer);
    if on_stderr {
        if !global.quiet {
            output::stderr_line(text.trim_end());
        }
        return Ok(());
    }
    output::text(&text)
}

fn describe(answer: &Answer) -> String {
    let seed = &answer.seed;
    let mut lines = vec![
        format!("leaf       {}", answer.leaf_uuid),
        format!("decided by {}", decided(&answer.decided_by)),
    ];
    if let Some(policy) = &answer.decided_by.policy {
        lines.push(format!("policy     {}", policy.digest));
    }
    if !answer.followed.is_empty() {
        lines.push(format!("followed   {}", answer.followed.join(" -> ")));
    }
    let what = match (seed.mode, &seed.anchor) {
        (SeedMode::Fork, _) => {
            format!("fork, {} in new session {}", counted(seed.chain, "record", "records"), seed.session_id)
        }
        (SeedMode::InPlace, Some(anchor)) => format!("in place, anchor {anchor}"),
        (SeedMode::InPlace, None) => {
            "in place, nothing to write: the client lands there by itself".to_owned()
        }
        (SeedMode::None, _) => "none, only recorded".to_owned(),
    };
    lines.push(format!("seed       {what}"));
    if !seed.gaps.is_empty() {
        lines.push(format!("gap        below missing {}", seed.gaps[0].missing_parent_uuid));
    }
    if seed.source_grew {
        lines.push("source     grew meanwhile; the seed is what was read".to_owned());
    }
    lines.push(format!("transcript {}", seed.transcript));
    lines.push(format!(
        "operation  {}{}",
        answer.operation_id,
        if answer.replayed { " (answered from the ledger)" } else { "" }
    ));
    lines.push(format!("resume it  {}", answer.command.join(" ")));
    if answer.dry_run {
        lines.push("dry run    nothing was written but the lock file, where it was missing".to_owned());
    }
    lines.iter().map(|l| clean(l) + "\n").collect()
}

fn decided(by: &DecidedBy) -> String {
    match (&by.kind, &by.policy) {
        (DecidedKind::Policy, Some(p)) => format!(
            "policy {} rule {}: {}",
            p.path,
            p.rule.as_deref().unwrap_or("-"),
            p.reason.as_deref().unwrap_or("-")
        ),
        (DecidedKind::OnlyLeaf, _) => "there was only one leaf".to_owned(),
        (DecidedKind::Prompt, _) => "you, at the prompt".to_owned(),
        (DecidedKind::Leaf, _) => "--leaf".to_owned(),
        (kind, _) => kind.name().to_owned(),
    }
}

/// The longest line of stdin: the client can hold no string of 2^29 units, and input without a line end is not to
/// fill the memory.
const MAX_BODY: u64 = 512 << 20;

/// `--write`: one record body a line from stdin, one acknowledgement a line to stdout.
fn write_records(global: &Global, resumed: Resumed) -> Result<ExitCode> {
    let mut writer: ResumedWriter = resumed.writer.expect("BUG: `--write` makes a writer");
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = std::io::Read::take(&mut input, MAX_BODY + 1).read_until(b'\n', &mut line);
        if read.map_err(Error::io("read", Path::new("standard input")))? == 0 {
            break;
        }
        if line.len() as u64 > MAX_BODY {
            let message = format!("a record body is longer than {} MiB", MAX_BODY >> 20);
            return Err(Refusal::new(Code::RecordInvalid, message).into());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let acknowledged = writer.append(line.trim_ascii(), Timestamp::now())?;
        output::json(&acknowledged)?;
    }
    output::note(
        global,
        &format!(
            "{} written to `{}`",
            counted(writer.written(), "record", "records"),
            writer.transcript().display()
        ),
    );
    Ok(ExitCode::SUCCESS)
}

/// `-- COMMAND`: started once the lease of the session that it writes names it.
fn run_command(
    global: &Global,
    request: &Request,
    host: &mut resume::Host<'_>,
    mut resumed: Resumed,
    command: &[OsString],
    cwd: Option<&Path>,
) -> Result<ExitCode> {
    let lease = resume::hold(request, host, &mut resumed);
    let answer = &resumed.answer;
    let command = command_line(command, &answer.seed.session_id);
    let scratch = host.state.folder("run")?;
    let unique = blake3::hash(answer.operation_id.as_bytes()).to_hex();
    let kept = |error: Error| match error {
        Error::Fault(mut fault) => {
            fault.message = format!("{}; session `{}` is kept", fault.message, answer.seed.session_id);
            fault.detail["sessionId"] = json!(answer.seed.session_id);
            fault.detail["transcript"] = json!(answer.seed.transcript);
            Error::Fault(fault)
        }
        refusal => refusal,
    };
    let mut lease: Lease = lease.map_err(kept)?;
    let waiting = Waiting::start(&scratch, &unique[..16], &command, cwd).map_err(kept)?;
    let forwarding = signals::forward_to(waiting.pid());
    let point = |name| faults::at(name, &resumed.session.path);
    point("command-waiting")?;
    lease.set_command(waiting.pid(), waiting.name())?;
    point("command-named")?;
    let running = waiting.open_gate()?;
    point("command-running")?;
    let code = running.wait().map_err(kept)?;
    forwarding.ended();
    point("command-ended")?;
    // Whatever goes wrong from here on, the exit status is the command's.
    let why = match lease.set_process("resume").and_then(|()| resume::observe(host, answer, code)) {
        Ok(Some(_)) => None,
        Ok(None) => Some("the session is gone".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        output::warn(global, &format!("what the command did could not be recorded: {why}"));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// `{session}` in the arguments is the id; if no argument has it, `--resume <id>` is appended.
fn command_line(command: &[OsString], session_id: &str) -> Vec<OsString> {
    let mut replaced = false;
    let mut line: Vec<OsString> = command
        .iter()
        .map(|argument| match argument.to_str() {
            Some(text) if text.contains("{session}") => {
                replaced = true;
                text.replace("{session}", session_id).into()
            }
            _ => argument.clone(),
        })
        .collect();
    if !replaced {
        line.extend(["--resume".into(), session_id.into()]);
    }
    line
}

/// The folder in which the session was recorded, in which the command is started: clients look sessions up by it.
/// Asked before anything is written.
fn working_dir_of(seen: &session::Glance) -> Result<Option<PathBuf>> {
    let Some(cwd) = seen.first_cwd.clone() else { return Ok(None) };
    if cwd.is_dir() {
        return Ok(Some(cwd));
    }
    let message = format!(
        "the command cannot be started in the session's working directory `{}`, which is not there; nothing was \
         written; without `-- COMMAND` the session is made, and how to resume it is said",
        cwd.display()
    );
    let detail = json!({"path": cwd.display().to_string()});
    Err(Fault::new(FaultCode::CommandFailedToStart, message).detail(detail).into())
}
