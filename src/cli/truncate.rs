//! `truncate` and `restore`.

use std::process::ExitCode;

use super::{
    args::{Global, ReplaceArgs, RestoreArgs, TruncateArgs},
    host::{self, Outside},
    output, prompt,
    session::{self, Glance},
    text::{argument, clean, counted},
};
use crate::{
    refusal::Result,
    resume::{self, Agree, Host, Replaced, RestoreRequest, Target, TruncateRequest},
    store::snapshot::Seen,
};

/// Runs `truncate`; `looked_at` is what the record was chosen on, where a person chose it by looking.
pub fn run(global: &Global, args: &TruncateArgs, looked_at: Option<Seen>) -> Result<ExitCode> {
    let seen = session::glance(global, args.session.as_deref(), None)?;
    let request = TruncateRequest {
        target: Target { agent: seen.agent, path: seen.path.clone() },
        after: args.after.clone(),
        operation_id: args.how.operation_id.clone(),
        wait: host::duration("--wait", &args.how.wait)?,
        dry_run: args.how.dry_run,
        client: seen.client.clone(),
        seen: looked_at,
    };
    call(global, &args.how, &seen, |host, agree| resume::truncate(&request, host, agree))
}

/// Runs `restore`.
pub fn restore(global: &Global, args: &RestoreArgs) -> Result<ExitCode> {
    let seen = session::glance(global, args.session.as_deref(), None)?;
    let request = RestoreRequest {
        target: Target { agent: seen.agent, path: seen.path.clone() },
        operation_id: args.how.operation_id.clone(),
        wait: host::duration("--wait", &args.how.wait)?,
        dry_run: args.how.dry_run,
        client: seen.client.clone(),
    };
    call(global, &args.how, &seen, |host, agree| resume::restore(&request, host, agree))
}

fn call(
    global: &Global,
    how: &ReplaceArgs,
    seen: &Glance,
    work: impl FnOnce(&mut Host<'_>, Agree<'_>) -> Result<Replaced>,
) -> Result<ExitCode> {
    let mut outside = Outside::open(global, Some(&seen.path))?;
    host::take_signals()?;
    // Without a person nobody can be asked, and the command itself is the word that counts.
    let asks = !how.yes && prompt::require_terminal().is_ok();
    let mut agree = |answer: &Replaced| if asks { ask(global, answer) } else { Ok(()) };
    let answer = outside.with_host(|host| work(host, &mut agree))?;
    answer.warnings.iter().for_each(|w| output::warn(global, w));
    if global.json { output::json(&answer) } else { output::text(&describe(&answer)) }?;
    Ok(ExitCode::SUCCESS)
}

fn ask(global: &Global, answer: &Replaced) -> Result<()> {
    answer.warnings.iter().for_each(|w| output::warn(global, w));
    match (&answer.record_uuid, &answer.removed) {
        (Some(record), Some(removed)) => {
            let (what, them) = match removed.records {
                1 => ("record".to_owned(), "it"),
                n => (format!("{n} records"), "them"),
            };
            prompt::agree(
                &format!("Remove the {what} below {record}?"),
                &format!("removes {them}, and keeps a backup"),
            )
        }
        _ => {
            let question = format!("Put {} back?", answer.restored_from.as_deref().unwrap_or("the backup"));
            prompt::agree(&question, "puts it back, and keeps a backup of what stands there now")
        }
    }
}

fn describe(answer: &Replaced) -> String {
    let mut lines = Vec::new();
    if let (Some(record), Some(removed)) = (&answer.record_uuid, &answer.removed) {
        let besides = match removed.lines {
            0 => String::new(),
            n => format!(", and {} that belonged to them", counted(n, "other line", "other lines")),
        };
        lines.push(format!("after      {record}"));
        lines.push(format!("removed    {}{besides}", counted(removed.records, "record", "records")));
    }
    if let Some(from) = &answer.restored_from {
        lines.push(format!("restored   {from}"));
    }
    if let Some(undoes) = &answer.undoes {
        lines.push(format!("undoes     {undoes}"));
    }
    lines.push(match &answer.anchor {
        Some(anchor) => {
            format!("kept       {}, and anchor {anchor}", counted(answer.records - 1, "record", "records"))
        }
        None => format!("kept       {}", counted(answer.records, "record", "records")),
    });
    lines.push(format!("transcript {}", answer.transcript));
    lines.push(format!("backup     {}", answer.backup));
    lines.push(format!(
        "operation  {}{}",
        answer.operation_id,
        if answer.replayed { " (answered from the ledger)" } else { "" }
    ));
    let command = resume::resume_command(answer.agent, &answer.session_id);
    lines.push(format!("resume it  {}", command.join(" ")));
    if answer.record_uuid.is_some() && !answer.dry_run {
        // Without a name it would be the newest session's.
        lines.push(format!("undo it    offshoot restore {}", argument(&answer.transcript)));
    }
    if answer.dry_run {
        lines.push("dry run    nothing was written but the lock file, where it was missing".to_owned());
    }
    lines.iter().map(|l| clean(l) + "\n").collect()
}
