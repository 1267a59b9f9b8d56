//! `undo` and `recover`.

use std::process::ExitCode;

use serde_json::json;

use super::{
    args::{Global, UndoArgs},
    host::{self, Outside},
    output,
    resume::say,
    session,
    text::clean,
};
use crate::{
    refusal::Result,
    resume::{self, Request, Selector, Target},
    selection::SeedMode,
    store::command,
};

/// Runs `undo`.
pub fn run(global: &Global, args: &UndoArgs) -> Result<ExitCode> {
    let seen = session::glance(global, args.session.as_deref(), None)?;
    let mut outside = Outside::open(global, Some(&seen.path))?;
    let request = Request {
        target: Target { agent: seen.agent, path: seen.path },
        selector: Selector::Undo,
        seed: Some(SeedMode::InPlace),
        write: false,
        hold: false,
        operation_id: args.operation_id.clone(),
        wait: host::duration("--wait", &args.wait)?,
        dry_run: args.dry_run,
        allow_gap: true,
        no_follow: true,
        client: seen.client,
        seen: None,
    };
    host::take_signals()?;
    let resumed = outside.with_host(|host| resume::resume(&request, host))?;
    resumed.answer.warnings.iter().for_each(|w| output::warn(global, w));
    say(global, &resumed.answer, false)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `recover`.
pub fn recover(global: &Global) -> Result<ExitCode> {
    host::take_signals()?;
    let mut outside = Outside::open(global, None)?;
    command::sweep(&outside.state().path("run"))?;
    let settled = outside.with_host(|host| resume::recover(host))?;
    if global.json {
        output::json(&json!({"schema": "offshoot.recover/1", "settled": settled}))?;
    } else if settled.is_empty() {
        output::text("nothing is pending\n")?;
    } else {
        output::text(&settled.iter().map(|s| clean(&s.line()) + "\n").collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}
