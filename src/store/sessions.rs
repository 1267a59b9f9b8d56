//! Which sessions there are, and which one is meant by a path, an id, the beginning of an id, or nothing.
//!
//! An id is only ever compared with the names of files that were found; it never becomes part of a path.

use std::{
    cmp::Reverse,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use hashbrown::HashSet;
use jiff::Timestamp;
use serde_json::json;

use super::{
    agents::{
        claude::{ClaudeDirs, home::Project},
        qwen::{
            QwenDirs,
            home::{self, SessionFile},
        },
        reasonix::{self, ReasonixDirs},
    },
    env::Env,
    file::FileSource,
    lease, snapshot,
};
use crate::{
    dialect::{self, Dialect},
    record::{Agent, RecordKind, may_abbreviate},
    refusal::{Code, Error, Fault, Refusal, Result},
    transcript::{Flags, Source},
};

/// How many of several sessions a message names.
const SHOWN: usize = 3;

/// As the client does, titles and prompts are looked for in this many bytes at either end of a file.
const WINDOW: u64 = 64 * 1024;
/// At most this many candidates are listed in a refusal.
const MAX_LISTED: usize = 50;
/// At most this many characters are kept of a prompt.
const MAX_PROMPT: usize = 200;

/// From where a session is looked for.
#[derive(Clone, Copy, Debug)]
pub struct SessionContext<'a> {
    /// The environment.
    pub env: &'a Env,
    /// The working directory, which is the current project.
    pub cwd: &'a Path,
    /// Only sessions of this agent; of all that are known if it is none.
    pub agent: Option<Agent>,
    /// Whether there is a person who sees which session was taken. Without one, nothing is taken that was not named,
    /// unless there is only one.
    pub interactive: bool,
}

/// A session that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// Whose session it is, by where it lies or by its records; none if they say nothing.
    pub agent: Option<Agent>,
    /// The transcript, without symlinks in its folders.
    pub path: PathBuf,
    /// The id by the file's name; none if the name is no id (what the records say is another matter).
    pub session_id: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Whose session it is.
    pub agent: Agent,
    /// Its id.
    pub session_id: String,
    /// The transcript.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: Timestamp,
    /// The length of the file.
    pub bytes: u64,
    /// Whether it lies in the archive, where the client does not resume it.
    pub archived: bool,
}

/// What a session is about, by the two ends of its file. Text of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionText {
    /// The last title given to it.
    pub title: Option<String>,
    /// The first prompt, blanks folded, cut.
    pub first_prompt: Option<String>,
    /// The working directory of the first record.
    pub cwd: Option<String>,
}

/// The sessions of the current project, or of all projects of this user, newest first.
///
/// Qwen Code's are of the project whose folder they lie in, Claude Code's of that which their records name ([`Project`]).
///
/// # Errors
/// `usage` if nothing says where sessions lie; `io`.
pub fn list(ctx: &SessionContext<'_>, all: bool) -> Result<Vec<SessionInfo>> {
    let mut found = candidates(ctx, all)?;
    if !all {
        let here = Here::of(ctx);
        found.retain(|session| here.has(session));
    }
    Ok(found)
}

/// The sessions of all projects, newest first; without `all` those of Qwen Code in other folders may be left out.
fn candidates(ctx: &SessionContext<'_>, all: bool) -> Result<Vec<SessionInfo>> {
    let wanted = |agent| ctx.agent.is_none_or(|only| only == agent);
    let mut found = Vec::new();
    // Gone since the folder was read: no meta data.
    let mut add = |agent, session_id, path: PathBuf, archived| {
        let log = (agent == Agent::Reasonix).then(|| fs::symlink_metadata(path.join(reasonix::LOG)).ok());
        if let Some(meta) = log.flatten().or_else(|| fs::symlink_metadata(&path).ok()) {
            let (modified, bytes) = (modified(&meta), meta.len());
            found.push(SessionInfo { agent, session_id, path, modified, bytes, archived });
        }
    };
    let claude = ClaudeDirs::from_env(ctx.env, ctx.cwd).filter(|_| wanted(Agent::Claude));
    if let Some(dirs) = &claude {
        for session in dirs.sessions()? {
            add(Agent::Claude, session.session_id, session.path, false);
        }
    }
    let reasonix = ReasonixDirs::from_env(ctx.env).filter(|_| wanted(Agent::Reasonix));
    if let Some(dirs) = &reasonix {
        for session in dirs.sessions()? {
            add(Agent::Reasonix, session.session_id, session.path, false);
        }
    }
    match QwenDirs::from_env(ctx.env, ctx.cwd) {
        _ if !wanted(Agent::Qwen) => {}
        Ok(dirs) => {
            let folders =
                if all { home::all_chats(&dirs.projects())? } else { vec![dirs.chats_dir(ctx.cwd)] };
            for folder in folders {
                for SessionFile { session_id, path, archived } in home::sessions_in(&folder)? {
                    add(Agent::Qwen, session_id, path, archived);
                }
            }
        }
        Err(e) if claude.is_none() => return Err(e),
        // Claude Code's home is known by its own variable.
        Err(_) => {}
    }
    found.sort_by(|a, b| {
        (Reverse(a.modified), &a.session_id, &a.path).cmp(&(Reverse(b.modified), &b.session_id, &b.path))
    });
    Ok(found)
}

/// What the current project is to each agent.
struct Here {
    chats: Option<PathBuf>,
    reasonix: Option<PathBuf>,
    project: Project,
}

impl Here {
    fn of(ctx: &SessionContext<'_>) -> Here {
        let chats = QwenDirs::from_env(ctx.env, ctx.cwd).ok().map(|dirs| dirs.chats_dir(ctx.cwd));
        let reasonix = ReasonixDirs::from_env(ctx.env).map(|dirs| dirs.project_root(ctx.cwd));
        let reasonix = reasonix.and_then(|root| root.canonicalize().ok());
        Here { chats, reasonix, project: Project::of(ctx.cwd) }
    }

    fn has(&self, session: &SessionInfo) -> bool {
        match session.agent {
            Agent::Claude => self.project.has_session(&session.path),
            Agent::Reasonix => {
                let root = session.path.parent().and_then(|root| root.canonicalize().ok());
                root.is_some() && root == self.reasonix
            }
            Agent::Qwen => self.chats.as_ref().is_some_and(|chats| session.path.starts_with(chats)),
        }
    }
}

/// Finds the session that is meant: an existing path, else an id, else an unambiguous beginning of one with 4 or more
/// characters; without any, the newest session of the current project.
///
/// Ids are looked for in the current project first, then in all; archived sessions only where no other has the id. An id
/// that two files have (of two agents, or in two project folders) is ambiguous wherever they lie.
///
/// # Errors
/// `session-unknown`, `session-ambiguous` with the candidates, `unsafe-path`, `usage`, `io`.
pub fn resolve(arg: Option<&str>, ctx: &SessionContext<'_>) -> Result<SessionRef> {
    let Some(arg) = arg else { return newest(ctx) };
    let path = Path::new(arg);
    // A folder may have the name of an id by chance; a file is meant.
    match fs::symlink_metadata(ctx.cwd.join(path)) {
        Ok(meta) if !meta.is_dir() || reasonix::is_session_dir(&ctx.cwd.join(path)) => {
            by_path(&ctx.cwd.join(path))
        }
        Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(Fault::io("inspect", path, e).into())
        }
        found => match by_id(arg, ctx)? {
            Some(session) => Ok(session),
            None if found.is_ok() && !arg.is_empty() => by_path(&ctx.cwd.join(path)),
            None => Err(unknown(arg)),
        },
    }
}

/// Reads what a session is about. Empty where the file cannot be read: this is for lists.
pub fn text_of(path: &Path, agent: Agent) -> SessionText {
    let Ok(source) = FileSource::open_alone(path) else { return SessionText::default() };
    let dialect = dialect::of(agent);
    let head = Window::read(&source, 0, dialect);
    let tail = Window::read(&source, Source::len(&source).saturating_sub(WINDOW), dialect);
    let title = |w: &Option<Window>| w.as_ref().and_then(|w| dialect.title(&w.transcript, &w.bytes).ok()?);
    SessionText {
        title: title(&tail).or_else(|| title(&head)),
        first_prompt: head.as_ref().and_then(|w| w.first_prompt(dialect)),
        cwd: head.and_then(|w| w.transcript.first_cwd),
    }
}

fn by_path(path: &Path) -> Result<SessionRef> {
    if let Some(dir) = reasonix::session_dir_of(path) {
        let path = lease::canonical(&dir)?;
        let session_id = path.file_name().and_then(|n| n.to_str()).map(str::to_owned);
        return Ok(SessionRef { agent: Some(Agent::Reasonix), path, session_id });
    }
    let path = lease::canonical(path)?;
    let name = path.file_name().and_then(|n| n.to_str());
    let session_id = name.and_then(home::session_of_file_name).map(str::to_owned);
    Ok(SessionRef { agent: snapshot::agent_of(&path)?, path, session_id })
}

fn by_id(arg: &str, ctx: &SessionContext<'_>) -> Result<Option<SessionRef>> {
    if !dialect::reasonix::ids::is_session_id(arg) {
        return Ok(None);
    }
    let mut sessions = candidates(ctx, true)?;
    sessions.retain(|s| s.session_id.starts_with(arg));
    let here = Here::of(ctx);
    let exact = |s: &SessionInfo| s.session_id == arg;
    // An id may be shorter than the beginning of one has to be.
    let begins = |_: &SessionInfo| may_abbreviate(arg);
    let tests: [&dyn Fn(&SessionInfo) -> bool; 2] = [&exact, &begins];
    for test in tests {
        for archived in [false, true] {
            let named: Vec<_> = sessions.iter().filter(|s| s.archived == archived && test(s)).collect();
            let of_project: Vec<_> = named.iter().copied().filter(|s| here.has(s)).collect();
            let pool = if of_project.is_empty() { &named } else { &of_project };
            let Some(first) = pool.first() else { continue };
            if pool.iter().any(|s| s.session_id != first.session_id) {
                let message = format!("`{arg}` could be any of {} sessions", pool.len());
                return Err(ambiguous(message, pool));
            }
            let places: Vec<_> = named.iter().copied().filter(|s| s.session_id == first.session_id).collect();
            return if places.len() == 1 { reference(first).map(Some) } else { Err(several_places(&places)) };
        }
    }
    Ok(None)
}

fn newest(ctx: &SessionContext<'_>) -> Result<SessionRef> {
    let sessions = list(ctx, false)?;
    let found: Vec<_> = sessions.iter().filter(|s| !s.archived).collect();
    match found.as_slice() {
        [] => {
            let project = ctx.cwd.display().to_string();
            Err(Refusal::new(Code::SessionUnknown, format!("the project `{project}` has no session"))
                .hint(
                    "go to the folder that the agent was started in, or name a session; \
                     `offshoot sessions --all` lists them",
                )
                .detail(json!({"project": project}))
                .into())
        }
        [first, rest @ ..] if rest.is_empty() || ctx.interactive => reference(first),
        several => {
            let message = format!("this project has {} sessions, and none was named", several.len());
            Err(ambiguous(message, several))
        }
    }
}

fn reference(session: &SessionInfo) -> Result<SessionRef> {
    let path = lease::canonical(&session.path)?;
    Ok(SessionRef { agent: Some(session.agent), path, session_id: Some(session.session_id.clone()) })
}

fn unknown(arg: &str) -> Error {
    let hint = if !may_abbreviate(arg) {
        "name a transcript file, an id, or at least its first 4 characters"
    } else {
        "name a transcript file or an id; `offshoot sessions --all` lists them"
    };
    Refusal::new(Code::SessionUnknown, format!("there is no session `{arg}`"))
        .hint(hint)
        .detail(json!({"session": arg}))
        .into()
}

fn ambiguous(message: String, candidates: &[&SessionInfo]) -> Error {
    // An id that two of them have names neither.
    let ids: HashSet<&str> = candidates.iter().map(|s| s.session_id.as_str()).collect();
    if ids.len() < candidates.len() {
        return several(message, &places(candidates), "name one of them by its path", candidates);
    }
    let first: Vec<_> = candidates.iter().take(SHOWN).map(|s| format!("`{}`", s.session_id)).collect();
    several(message, &first, "name one of them by its id", candidates)
}

/// Where the first of them lie.
fn places(of: &[&SessionInfo]) -> Vec<String> {
    of.iter().take(SHOWN).map(|s| format!("`{}` ({})", s.path.display(), s.agent.name())).collect()
}

/// One id, several files.
fn several_places(found: &[&SessionInfo]) -> Error {
    let message = format!("session `{}` exists in {} places", found[0].session_id, found.len());
    let agents = found.iter().any(|s| s.agent != found[0].agent);
    let hint = if agents {
        "name one of them by its path, or the agent with `--agent`"
    } else {
        "name one of them by its path"
    };
    several(message, &places(found), hint, found)
}

fn several(message: String, first: &[String], hint: &str, candidates: &[&SessionInfo]) -> Error {
    let listed: Vec<_> = candidates
        .iter()
        .take(MAX_LISTED)
        .map(|s| {
            json!({"agent": s.agent, "sessionId": s.session_id, "transcript": s.path.display().to_string(),
                "modifiedAt": s.modified.to_string()})
        })
        .collect();
    let more = candidates.len().saturating_sub(first.len());
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Refusal::new(Code::SessionAmbiguous, format!("{message}: {}{and_more}", first.join(", ")))
        .hint(hint)
        .detail(json!({"candidates": listed, "more": candidates.len().saturating_sub(MAX_LISTED)}))
        .into()
}

fn modified(meta: &Metadata) -> Timestamp {
    meta.modified().ok().and_then(|t| Timestamp::try_from(t).ok()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A part of a transcript, from the first whole line in it.
struct Window {
    bytes: Vec<u8>,
    transcript: crate::transcript::Transcript,
}

impl Window {
    fn read(source: &FileSource, from: u64, dialect: &dyn Dialect) -> Option<Window> {
        let len = WINDOW.min(Source::len(source).saturating_sub(from));
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        source.read_exact_at(from, &mut bytes).ok()?;
        if from > 0 {
            let line = memchr::memchr(b'\n', &bytes)? + 1;
            bytes.drain(..line);
        }
        let transcript = dialect.read(&bytes).ok()?;
        Some(Window { bytes, transcript })
    }

    fn decode(&self, record: &crate::transcript::Record, dialect: &dyn Dialect) -> Option<dialect::Decoded> {
        Some(dialect.decode(&self.bytes.bytes(record.span).ok()?))
    }

    fn first_prompt(&self, dialect: &dyn Dialect) -> Option<String> {
        let prompts = self
            .transcript
            .records
            .iter()
            .filter(|r| r.kind == RecordKind::User && !r.flags.has(Flags::SYNTHETIC));
        prompts
            .filter_map(|r| {
                let text = self.decode(r, dialect)?.texts.join(" ");
                let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(folded.chars().take(MAX_PROMPT).collect::<String>())
            })
            .find(|t| !t.is_empty())
    }
}
