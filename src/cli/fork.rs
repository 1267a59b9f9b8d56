//! `fork`: a child at a turn or a record, or the acknowledgement of one.

use std::process::ExitCode;

use super::{
    args::{ForkArgs, Global},
    host::{self, Outside},
    output,
    session::{self, Glance},
    text::clean,
};
use crate::{
    dialect::Client,
    refusal::Result,
    resume::{self, ForkAt, ForkRequest, Forked, Target},
    store::snapshot::Seen,
    turns::Anchor,
};

/// Runs it; `looked_at` is what the place was chosen on, where a person chose it by looking.
pub fn run(global: &Global, args: &ForkArgs, looked_at: Option<Seen>) -> Result<ExitCode> {
    let wait = host::duration("--wait", &args.wait)?;
    let expect = args.expect.as_deref().map(Anchor::parse).transpose()?;
    if let Some(operation) = &args.ack {
        let mut outside = Outside::open(global, None)?;
        host::take_signals()?;
        let forked = outside.with_host(|host| resume::acknowledge(operation, wait, host))?;
        return say(global, &forked);
    }
    let at = match (&args.turn, &args.at) {
        (Some(turn), _) => ForkAt::Turn(turn.clone()),
        (None, at) => ForkAt::Record(at.clone().unwrap_or_default()),
    };
    let seen = session::glance(global, args.session.as_deref(), None)?;
    host::take_signals()?;
    let forked = make(global, seen, |target, client| ForkRequest {
        target,
        at,
        expect,
        operation_id: args.operation_id.clone(),
        new: args.new,
        wait,
        client,
        seen: looked_at,
    })?;
    say(global, &forked)
}

/// Makes the fork that `request` wants of a session.
///
/// # Errors
/// As for [`resume::fork`].
pub fn make(
    global: &Global,
    seen: Glance,
    request: impl FnOnce(Target, Client) -> ForkRequest,
) -> Result<Forked> {
    let mut outside = Outside::open(global, Some(&seen.path))?;
    let request = request(Target { agent: seen.agent, path: seen.path }, seen.client);
    outside.with_host(|host| resume::fork(&request, host))
}

fn say(global: &Global, forked: &Forked) -> Result<ExitCode> {
    forked.warnings.iter().for_each(|warning| output::warn(global, warning));
    if global.json {
        // What is for the ledger stays there.
        output::json(&Forked { bytes: None, ..forked.clone() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = match (&forked.turn_id, forked.turn_number) {
        (Some(turn), Some(number)) => format!("turn {number} (`{turn}`)"),
        (Some(turn), None) => format!("turn `{turn}`"),
        (None, _) => format!("record `{}`", forked.record),
    };
    let place = clean(&place);
    let again = match (forked.acknowledged, forked.replayed) {
        (true, _) => ", acknowledged",
        (false, true) => ", made before",
        (false, false) => "",
    };
    let text = format!(
        "session {} ends with {place}{again}\n  file       {}\n  operation  {}\n  resume by  {}\n",
        clean(&forked.session_id),
        clean(&forked.transcript),
        clean(&forked.operation_id),
        clean(&forked.command.join(" ")),
    );
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
