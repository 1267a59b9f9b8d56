//! `redact`: a transcript of the same structure without a word of the conversation, proved by inspecting it.

use std::{io::Write, process::ExitCode};

use serde_json::Value;

use super::{
    args::{Global, RedactArgs},
    output,
    session::{self, Digest, Opened},
};
use crate::{
    dialect::Client,
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    store::redact::Redacted,
    topology,
    transcript::{Source, Transcript},
};

/// Writes the redacted transcript to stdout, or to a file that must be new.
pub fn run(global: &Global, args: &RedactArgs) -> Result<ExitCode> {
    let opened = session::open(global, args.session.as_deref(), Digest::Skip)?;
    let Some(redactor) = opened.dialect.redactor() else {
        return Err(Refusal::new(Code::SeedUnsupported, "sessions of this agent cannot be redacted").into());
    };
    let redacted = Redacted::of(&opened.path, redactor)?;
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

/// Nothing is handed out that would show another trouble than the one it is made for.
fn prove(opened: &Opened, redacted: &Redacted) -> Result<()> {
    let read = |e| Error::io("read", redacted.source().path())(e);
    let t = opened.dialect.read(redacted.source()).map_err(read)?;
    let theirs = structure(opened, &opened.snapshot.transcript, &opened.snapshot)
        .map_err(Error::io("read", &opened.path))?;
    let ours = structure(opened, &t, redacted.source()).map_err(read)?;
    // The file may have grown between the two readings.
    let same = opened.snapshot.transcript.bytes == t.bytes;
    if same && theirs != ours {
        let name = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
        let differs: Vec<String> =
            name(&theirs).unwrap_or_default().into_iter().filter(|key| theirs[key] != ours[key]).collect();
        let fault = Fault::new(
            FaultCode::Damaged,
            format!(
                "the redacted transcript would be inspected otherwise than `{}`: {} differ; this is a defect of offshoot",
                opened.path.display(),
                differs.join(", ")
            ),
        );
        return Err(fault.into());
    }
    Ok(())
}

/// The inspection without texts, names of places, and the name of the file.
fn structure(opened: &Opened, t: &Transcript, source: &dyn Source) -> std::io::Result<Value> {
    // As if it stood outside of any project, where the redacted one will.
    let client = Client { version: opened.client.version.clone(), project: None, runtime_dir: None };
    let mut inspection = topology::inspect(t, source, opened.dialect, &client)?;
    super::inspect::redact(&mut inspection);
    inspection.transcript.clear();
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
