//! `audit`: recorded selections, listed, shown, verified, pruned.

mod list;
mod prune;
mod show;
mod verify;

use std::{path::Path, process::ExitCode};

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use serde_json::json;

use super::{
    args::{AuditCommand, Global},
    host,
};
use crate::{
    policy::duration,
    record::can_mean,
    refusal::{Code, Error, Refusal, Result},
    store::ledger::{Ledger, Read, Scope, entry::State, ledgers},
};

/// Runs one of the `audit` commands.
pub fn run(global: &Global, command: &AuditCommand) -> Result<ExitCode> {
    let state = host::state_dir(global, &host::environment())?;
    let now = Timestamp::now();
    match command {
        AuditCommand::List(args) => list::run(global, state.root(), args, now),
        AuditCommand::Show { operation } => show::run(global, state.root(), operation),
        AuditCommand::Verify(args) => verify::run(global, state.root(), args),
        AuditCommand::Prune { before } => prune::run(global, state.root(), before, now),
    }
}

/// Which ledgers are meant: by `--agent`, and by a session's path, its id, or a prefix of one of 4 or more
/// characters. The session itself need not be there any more.
fn scope(global: &Global, root: &Path, session: Option<&str>) -> Result<Scope> {
    let agent = global.agent.agent();
    let Some(session) = session else { return Ok(Scope { agent, ..Scope::default() }) };
    let path = Path::new(session);
    if path.exists() {
        let path = std::fs::canonicalize(path).map_err(Error::io("resolve", path))?;
        return Ok(Scope { agent, transcript: Some(path.display().to_string()), ..Scope::default() });
    }
    let mut known = Vec::new();
    for ledger in ledgers(root)?.into_iter().filter(|l| agent.is_none_or(|a| a == l.agent())) {
        // A transcript that is gone is still known by its path.
        let of_path = || -> Result<bool> {
            Ok(path.is_absolute() && ledger.scan()?.entries.iter().any(|e| e.body.transcript == session))
        };
        if of_path()? {
            return Ok(Scope { agent, transcript: Some(session.to_owned()), ..Scope::default() });
        }
        known.push(ledger.session_id().to_owned());
    }
    let by_id = |session: String| Ok(Scope { agent, session: Some(session), ..Scope::default() });
    if known.iter().any(|id| id == session) {
        return by_id(session.to_owned());
    }
    let fits: Vec<&String> = known.iter().filter(|id| can_mean(session, id)).collect();
    match fits[..] {
        [one] => by_id(one.clone()),
        [] => Err(Refusal::new(
            Code::SessionUnknown,
            format!("no selection of session `{session}` is recorded"),
        )
        .hint("`offshoot audit list` shows what is recorded")
        .detail(json!({"session": session}))
        .into()),
        _ => Err(Refusal::new(
            Code::SessionAmbiguous,
            format!("{} sessions begin with `{session}`", fits.len()),
        )
        .hint("give more characters")
        .detail(json!({"session": session, "sessions": fits.iter().take(50).collect::<Vec<_>>()}))
        .into()),
    }
}

/// A point in time: RFC 3339, a date or a time without zone (both in UTC), or an age such as `7d`.
fn moment(flag: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    let utc = |at: civil::DateTime| TimeZone::UTC.to_timestamp(at);
    let ago = |text: &str| {
        let age = SignedDuration::try_from(duration::parse(text).ok()?).ok()?;
        now.checked_sub(age).ok()
    };
    let at = ago(text)
        .or_else(|| text.parse::<Timestamp>().ok())
        .or_else(|| text.parse::<civil::DateTime>().ok().and_then(|t| utc(t).ok()))
        .or_else(|| text.parse::<civil::Date>().ok().and_then(|d| utc(d.at(0, 0, 0, 0)).ok()));
    at.ok_or_else(|| {
        Refusal::new(Code::Usage, format!("`{flag} {text}` is neither a date, nor a time, nor an age"))
            .hint("for example `2026-03-01`, `2026-03-01T12:00:00Z`, or `7d`")
            .into()
    })
}

/// The state of a selection as people see it: `superseded` is derived, by a later completed selection of the same
/// transcript.
fn state_name(read: &Read, selection: &crate::store::ledger::Selection<'_>) -> &'static str {
    let superseded = selection.is_completed()
        && !selection.is_cut()
        && selection.state() != State::Replaced
        && read
            .latest_completed(&selection.pending.body.transcript)
            .is_some_and(|latest| latest.pending.seq != selection.pending.seq);
    if superseded { "superseded" } else { selection.state().name() }
}

/// What a reader of a ledger should be told before its entries.
fn warnings(ledger: &Ledger, read: &Read) -> Vec<String> {
    let path = ledger.path().display();
    let mut all = Vec::new();
    if read.newer {
        all.push(format!(
            "ledger `{path}` was written by a newer version; it is shown as far as it can be read"
        ));
    }
    if !read.problems.is_empty() {
        all.push(format!("ledger `{path}` is damaged; `offshoot audit verify` says where"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_times_and_ages() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let is = |text: &str, expected: &str| {
            assert_eq!(
                moment("--since", text, now).unwrap(),
                expected.parse::<Timestamp>().unwrap(),
                "{text}"
            );
        };
        is("7d", "2026-03-03T12:00:00Z");
        is("0", "2026-03-10T12:00:00Z");
        is("2026-03-01", "2026-03-01T00:00:00Z");
        is("2026-03-01T10:30", "2026-03-01T10:30:00Z");
        is("2026-03-01T10:30:00+02:00", "2026-03-01T08:30:00Z");
        for bad in ["", "yesterday", "7", "2026-13-01", "99999999999w"] {
            assert_eq!(moment("--since", bad, now).unwrap_err().refusal(), Some(Code::Usage), "{bad}");
        }
    }
}
