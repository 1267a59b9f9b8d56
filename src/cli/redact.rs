//! `redact`: a transcript of the same structure without a word of the conversation, proved by inspecting it.

use std::{io::Write, path::Path, process::ExitCode};

use serde_json::Value;

use super::{
    args::{Global, RedactArgs},
    host, output,
    session::{self, Digest, Opened, Surroundings},
};
use crate::{
    dialect::{self, Client, Dialect},
    record::Agent,
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    store::{agents::reasonix, redact::Redacted},
    topology,
    transcript::{LineDiagnostic, Source, Transcript},
    turns::Turns,
};

/// Writes the redacted transcript to stdout, or to a file that must be new; a session that is a folder to a new folder.
pub fn run(global: &Global, args: &RedactArgs) -> Result<ExitCode> {
    let found = Surroundings::new(global)?.resolve(args.session.as_deref())?;
    if session::agent(global.agent, &found.path)? == Agent::Reasonix {
        return folder(global, &found.path, args.output.as_deref());
    }
    let opened = session::open_at(global, found.path, Digest::Skip)?;
    let Some(redactor) = opened.dialect.redactor() else {
        return Err(Refusal::new(Code::SeedUnsupported, "sessions of this agent cannot be redacted").into());
    };
    let redacted = Redacted::of(&opened.path, redactor, args.output.as_deref())?;
    prove(&opened, &redacted)?;
    match &args.output {
        Some(path) => {
            redacted.publish(path)?;
            output::note(global, &format!("written to `{}`", path.display()));
        }
        None => {
            let mut out = std::io::stdout().lock();
            redacted.copy(&mut |bytes| out.write_all(bytes).map_err(output::stdout_fault))?;
            out.flush().map_err(output::stdout_fault)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A session of several files, with those that are read together with it.
fn folder(global: &Global, path: &Path, output: Option<&Path>) -> Result<ExitCode> {
    let Some(target) = output else {
        let message =
            "a session of Reasonix is a folder, and so is its redacted form: say where it is to be made";
        return Err(Refusal::new(Code::Usage, message).hint("`-o FOLDER`, which must be new").into());
    };
    // What is half made must be removed.
    host::take_signals()?;
    let dialect = dialect::of(Agent::Reasonix);
    let client = Client { version: global.client_version.clone(), ..Client::default() };
    let written = reasonix::publish_redacted(path, target, |before, after| {
        let read = |source: &dyn Source| structure(dialect, &client, &dialect.read(source)?, source);
        let theirs = read(before).map_err(Error::io("read", path))?;
        let ours = read(after).map_err(Error::io("read", target))?;
        same(path, &theirs, &ours)
    })?;
    let others = match written.sessions - 1 {
        0 => String::new(),
        1 => ", with a session that is related to it".to_owned(),
        n => format!(", with {n} sessions that are related to it"),
    };
    output::note(global, &format!("written to `{}`{others}", written.session.display()));
    if let Some(trouble) = written.trouble {
        output::warn(global, &format!("it cannot be read, as before: {trouble}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Nothing is handed out that would show another trouble than the one it is made for.
fn prove(opened: &Opened, redacted: &Redacted) -> Result<()> {
    let read = |e| Error::io("read", redacted.source().path())(e);
    let t = opened.dialect.read(redacted.source()).map_err(read)?;
    let Opened { dialect, client, snapshot, .. } = opened;
    // As if it stood outside of any project, where the redacted one will.
    let client = Client { version: client.version.clone(), ..Client::default() };
    let theirs = structure(*dialect, &client, &snapshot.transcript, snapshot)
        .map_err(Error::io("read", &opened.path))?;
    let ours = structure(*dialect, &client, &t, redacted.source()).map_err(read)?;
    // The file may have grown between the two readings.
    if snapshot.transcript.bytes != t.bytes {
        return Ok(());
    }
    same(&opened.path, &theirs, &ours)?;
    let theirs = turns(*dialect, &snapshot.transcript, snapshot).map_err(Error::io("read", &opened.path))?;
    let ours = turns(*dialect, &t, redacted.source()).map_err(read)?;
    if theirs == ours { Ok(()) } else { Err(differ(&opened.path, "turns")) }
}

/// The turns, without what names their replies: that has a stand-in where it is no id.
fn turns(dialect: &dyn Dialect, t: &Transcript, source: &dyn Source) -> std::io::Result<Turns> {
    let mut turns = dialect.turns(t, source)?;
    for turn in &mut turns.turns {
        turn.message_id = turn.message_id.take().map(|_| String::new());
    }
    Ok(turns)
}

fn same(path: &Path, theirs: &Value, ours: &Value) -> Result<()> {
    if theirs == ours {
        return Ok(());
    }
    let name = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    let differs: Vec<String> =
        name(theirs).unwrap_or_default().into_iter().filter(|key| theirs[key] != ours[key]).collect();
    Err(differ(path, &differs.join(", ")))
}

fn differ(path: &Path, what: &str) -> Error {
    let message = format!(
        "the redacted transcript would be inspected otherwise than `{}`: {what} differ; this is a defect of offshoot",
        path.display()
    );
    Fault::new(FaultCode::Damaged, message).into()
}

/// The inspection without texts, names of places, and the name of the file.
fn structure(
    dialect: &dyn Dialect,
    client: &Client,
    t: &Transcript,
    source: &dyn Source,
) -> std::io::Result<Value> {
    let mut inspection = topology::inspect(t, source, dialect, client)?;
    super::inspect::redact(&mut inspection);
    inspection.transcript.clear();
    if dialect.agent() == Agent::Reasonix {
        // Of what the logs are read as, where an escape of a text may be one that is longer.
        inspection.snapshot.bytes = 0;
        for diagnostic in &mut inspection.diagnostics {
            match diagnostic {
                // Why a session is left out names a place in its log, which may move. It was compared before.
                topology::TopologyDiagnostic::Line(LineDiagnostic::SkippedRecord { reason, .. }) => {
                    reason.truncate(reason.find(": ").unwrap_or(reason.len()));
                }
                // Whole records in it may be longer than they were.
                topology::TopologyDiagnostic::Line(LineDiagnostic::TornTail { bytes, .. }) => *bytes = 0,
                _ => {}
            }
        }
    }
    for branch in &mut inspection.branches {
        // What is no time is filled as any text.
        let is_time = |time: &str| time.parse::<jiff::Timestamp>().is_ok();
        let last = &mut branch.last_message_at;
        *last = last.take().filter(|time| is_time(time));
        for time in [&mut branch.started_at, &mut branch.updated_at] {
            if !is_time(time) {
                time.clear();
            }
        }
    }
    Ok(serde_json::to_value(&inspection).unwrap_or_default())
}
