//! `tree`: the navigator, or its page printed once.

use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    sync::{Arc, atomic::AtomicU64},
};

use serde::Serialize;

use super::{
    args::{ForkArgs, Global, ReplaceArgs, ResumeArgs, SeedArg, TreeArgs, TruncateArgs},
    fork,
    host::Outside,
    output::{self, Paint},
    prompt, resume,
    session::{self, Digest},
    truncate,
    tui::{self, Action, Doc, Ended, Loaded, Options, Outcome, Reader, print},
};
use crate::{
    record::RecordId,
    refusal::{Error, Result},
    resume::live_owner,
    store::{file, lease, snapshot::Seen},
};

/// Columns of a page that goes nowhere in particular: an id, a role and a preview fit.
const COLUMNS: usize = 100;
/// The exit status of Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Draws the tree, or lets a person walk through it.
pub fn run(global: &Global, args: &TreeArgs) -> Result<ExitCode> {
    if args.print {
        return print_once(global, args);
    }
    let done = walk(global, args);
    match done {
        // Whoever waits for a choice is told 0, 1 or 130, and nothing finer.
        Err(error) if args.emit => {
            output::report(&error, global, false);
            Ok(ExitCode::FAILURE)
        }
        done => done,
    }
}

fn print_once(global: &Global, args: &TreeArgs) -> Result<ExitCode> {
    let doc = Doc::open(global, args.session.as_deref())?;
    warn_of_lines(global, &doc);
    let fault = Error::io("read", &doc.opened.path);
    if global.json {
        output::json(&print::document(&doc).map_err(fault)?)?;
    } else {
        output::text(&print::page(&doc, output::columns(COLUMNS), Paint::stdout(global)).map_err(fault)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn walk(global: &Global, args: &TreeArgs) -> Result<ExitCode> {
    prompt::require_terminal().map_err(|error| match error {
        Error::Refusal(refusal) => {
            refusal.hint("`offshoot tree --print` draws the tree once, without a terminal").into()
        }
        fault => fault,
    })?;
    let path = session::Surroundings::new(global)?.resolve(args.session.as_deref())?.path;
    // What is chosen inside an agent is forked at once, so that must be possible.
    let emit = args.emit && args.inside.is_none();
    let options = Options { color: Paint::stderr(global).is_on(), emit, live: None };
    // Whoever only wants to be told writes nothing.
    let digest = if args.emit { Digest::Skip } else { Digest::Compute };
    let ended = tui::navigate(&reader(global, &path, args.inside.as_deref(), digest)?, options)?;
    // Nothing may be said while the screen is taken.
    if let Some(later) = &ended.afterwards {
        output::note(global, later);
    }
    if let Some(doc) = &ended.doc {
        session::warn_of_client(global, &doc.opened);
        warn_of_lines(global, doc);
        if !doc.has_messages() {
            output::note(global, print::EMPTY);
        }
    }
    let id = match &ended.doc {
        Some(doc) => Some(doc.inspection.session_id.clone()),
        None => session::id_at(global, &path),
    };
    let session = Session { id: id.unwrap_or_default(), file: path.display().to_string() };
    let Ended { outcome, doc, .. } = ended;
    match outcome {
        Outcome::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
        Outcome::Leave | Outcome::Reload if args.emit => print_choice(&session, "cancel", None, None),
        Outcome::Leave | Outcome::Reload => Ok(ExitCode::SUCCESS),
        Outcome::Act(action, record, turn) if args.emit => {
            print_choice(&session, action.name(), Some(&record), turn.as_deref())
        }
        Outcome::Act(action, record, turn) => {
            let seen = still_there(doc, action)?;
            act(global, &session.file, seen, action, record, turn).map_err(|error| of_command(error, action))
        }
    }
}

/// What was shown, by which the action knows whether it still stands there. What can be told at once is told at once: a
/// file that is gone has no name to be looked for any more.
fn still_there(doc: Option<Doc>, action: Action) -> Result<Option<Seen>> {
    let Some(doc) = doc else { return Ok(None) };
    let snapshot = &doc.opened.snapshot;
    match snapshot.change().filter(|change| action.is_stopped_by(*change)) {
        Some(change) => Err(snapshot.has_changed(change)),
        None => Ok(snapshot.seen()),
    }
}

/// Reads the session, as often as it is asked to, without a word. `inside` is an agent that is known to have it open.
fn reader(global: &Global, path: &Path, inside: Option<&str>, digest: Digest) -> Result<Reader> {
    let quiet = Global { quiet: true, verbose: false, ..global.clone() };
    let (file, inside) = (path.to_owned(), inside.map(str::to_owned));
    let read = move |read: &AtomicU64| {
        let doc = Doc::of(&quiet, session::open_watched(&quiet, file.clone(), digest, read)?)?;
        let live = live(&quiet, &doc)?.or_else(|| inside.clone());
        Ok(Loaded { doc, live })
    };
    Ok(Reader {
        name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        total: file::length(path)?.unwrap_or(0),
        read: Arc::new(read),
    })
}

/// Who has the session open now, in words.
fn live(global: &Global, doc: &Doc) -> Result<Option<String>> {
    let Ok(path) = lease::canonical(&doc.opened.path) else { return Ok(None) };
    let mut outside = Outside::open(global, Some(&path))?;
    let owner = outside.with_host(|host| live_owner(host, &path))?.and_then(|(_, check)| check.owner);
    Ok(owner.map(|owner| owner.what))
}

struct Session {
    id: String,
    file: String,
}

#[derive(Serialize)]
struct Choice<'a> {
    action: &'a str,
    node_uuid: Option<&'a RecordId>,
    /// Where a session is forked at turns: the one that ends there.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'a str>,
    session_id: &'a str,
    session_file: &'a str,
}

fn print_choice(
    session: &Session,
    action: &str,
    record: Option<&RecordId>,
    turn_id: Option<&str>,
) -> Result<ExitCode> {
    let choice =
        Choice { action, node_uuid: record, turn_id, session_id: &session.id, session_file: &session.file };
    output::json(&choice).map(|()| ExitCode::SUCCESS)
}

/// Does what was chosen, as the command would, on what was seen.
fn act(
    global: &Global,
    file: &str,
    seen: Option<Seen>,
    action: Action,
    record: RecordId,
    turn: Option<String>,
) -> Result<ExitCode> {
    let (session, wait) = (Some(file.to_owned()), "0".to_owned());
    match action {
        Action::Fork => {
            let at = turn.is_none().then(|| record.to_string());
            let args =
                ForkArgs { session, turn, at, expect: None, operation_id: None, new: false, ack: None, wait };
            fork::run(global, &args, seen)
        }
        Action::Resume => {
            let args = ResumeArgs {
                session,
                pick: false,
                leaf: Some(record.to_string()),
                policy: None,
                seed: Some(SeedArg::InPlace),
                write: false,
                operation_id: None,
                wait,
                dry_run: false,
                allow_gap: false,
                no_follow: true,
                command: Vec::new(),
            };
            resume::run(global, &args, seen)
        }
        Action::Overwrite => {
            // The navigator has asked already.
            let how = ReplaceArgs { yes: true, operation_id: None, wait, dry_run: false };
            truncate::run(global, &TruncateArgs { session, after: record.to_string(), how }, seen)
        }
    }
}

/// What a hint says of options is said of those of the command that was run here.
fn of_command(error: Error, action: Action) -> Error {
    match error {
        Error::Refusal(mut refusal) => {
            if let Some(hint) = refusal.hint.as_mut().filter(|hint| hint.contains("`--")) {
                let _ = write!(hint, " (an option of `offshoot {}`)", action.verb());
            }
            Error::Refusal(refusal)
        }
        fault => fault,
    }
}

fn warn_of_lines(global: &Global, doc: &Doc) {
    if let Some(what) = doc.said_of_lines() {
        output::warn(global, &what);
    }
}
