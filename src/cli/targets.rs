//! `targets`: the turns that one may fork at.

use std::{fmt::Write as _, process::ExitCode};

use serde_json::json;

use super::{
    args::{Global, TargetsArgs},
    output::{self, Paint},
    session::{self, Opened},
    text::{clean, fit},
};
use crate::{
    refusal::{Error, Result},
    resume,
    transcript::Source,
    turns::{Target, Targets},
};

const COLUMNS: usize = 80;

/// Prints them.
pub fn run(global: &Global, args: &TargetsArgs) -> Result<ExitCode> {
    let opened = session::open_alone(global, args.session.as_deref())?;
    let targets = resume::targets(opened.dialect, &opened.snapshot)?;
    if global.json {
        output::json(&json!({
            "schema": "offshoot.targets/1",
            "agent": opened.dialect.agent(),
            "sessionId": targets.session_id,
            "verifiable": targets.verifiable,
            "targets": targets.to_json(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if targets.verifiable {
        output::text(&lines(global, &opened, &targets)?)?;
    } else {
        output::note(
            global,
            "no record of this session proves where a turn ended; there is nothing to fork at",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Two lines a turn: its id and state, and how its prompt begins.
fn lines(global: &Global, opened: &Opened, targets: &Targets) -> Result<String> {
    let paint = Paint::stdout(global);
    let mut out = String::new();
    let digits = targets.targets.len().to_string().len();
    for target in &targets.targets {
        let turn = &target.turn;
        let head = format!("{:>digits$}  {}", target.number, clean(&turn.id));
        let state = match &turn.available {
            Ok(_) => paint.green(turn.status.name()),
            Err(code) => paint.dim(&format!("{}, {}", turn.status.name(), code.as_str())),
        };
        let place = match turn.boundary {
            0 => format!("from {}", turn.start),
            boundary => format!("{} to {boundary}", turn.start),
        };
        let _ = writeln!(out, "{}  {state}  {}", paint.bold(&head), paint.dim(&place));
        if let Some(text) = prompt(global, opened, target)? {
            let _ = writeln!(out, "{:digits$}  {}", "", fit(&text, COLUMNS - digits - 2));
        }
    }
    Ok(out)
}

/// What a turn was asked, where its id is that of a record.
fn prompt(global: &Global, opened: &Opened, target: &Target) -> Result<Option<String>> {
    let t = &opened.snapshot.transcript;
    let record = t.ids.find(&target.turn.id).and_then(|id| t.first(id)).filter(|_| !global.redact);
    let Some(record) = record else { return Ok(None) };
    let bytes = opened.snapshot.bytes(t.record(record).span).map_err(Error::io("read", &opened.path))?;
    let text = opened.dialect.decode(&bytes).texts.join(" ");
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Some(folded).filter(|text| !text.is_empty()))
}
