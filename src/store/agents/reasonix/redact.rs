//! A folder of sessions without a word of their conversations: the session that is named and those related to it, with
//! what stands for their large payloads, published whole.

use std::{
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use super::{
    DiskContents, LOG, ReasonixSession, family,
    folder::{Staged, make_folder, new_folder, write_file},
};
use crate::{
    dialect::reasonix::{
        Trouble,
        commit::Commits,
        content::Contents,
        projection::{Projection, Turn},
        redact::{Payloads, Redacted, Redaction},
    },
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    store::{
        atomic, faults,
        file::{self, FileSource},
        state::unsafe_path,
    },
    transcript::Source,
};

/// What was published.
#[derive(Debug)]
pub struct RedactedSessions {
    /// The folder of the session that was named.
    pub session: PathBuf,
    /// How many sessions there are in all.
    pub sessions: usize,
    /// Why the session that was named cannot be read, before and after.
    pub trouble: Option<Error>,
}

/// Redacts the session at `path` and those related to it into the folder `target`, which must be new.
///
/// `confirm` is given what the family is read as, before and after, where it can be read at all. Files that a reader
/// does not need are left out.
///
/// # Errors
/// As for [`ReasonixSession::open`]; `unsafe-path` if the name is taken or is none; `io`; the fault `damaged` where what
/// was written is not read as the sessions are; `seed-unsupported` where it is not, because two events of one id
/// differ in their words alone; what `confirm` reports. Nothing is left then.
pub fn publish_redacted(
    path: &Path,
    target: &Path,
    confirm: impl FnOnce(&FileSource, &FileSource) -> Result<()>,
) -> Result<RedactedSessions> {
    let (dir, staged) = stage(target)?;
    let asked = ReasonixSession::open(path)?;
    let others = family::others(&asked)?;
    let contents = asked.contents();
    let mut payloads = NewContents { root: staged.dir.join(".content-v1") };
    let mut redaction = Redaction::new(&contents, &mut payloads);
    let mut places = Vec::new();
    for session in std::iter::once(&asked).chain(&others) {
        places.push(write(&mut redaction, session, &staged.dir.join(&session.id))?);
    }
    let confused = redaction.confused().map(str::to_owned);
    drop(redaction);
    faults::at("redacted-staged", &staged.dir)?;
    atomic::sync_dir(&staged.dir)?;
    let new_contents = DiskContents::of_root(&staged.dir);
    let mut trouble = None;
    for (session, written) in std::iter::once(&asked).chain(&others).zip(&places) {
        let log = FileSource::open_file(&staged.dir.join(&session.id).join(LOG))?;
        let before = account(&session.log, &contents);
        if !alike(&before, &account(&log, &new_contents), written) {
            return Err(not_the_same(session));
        }
        if session.id == asked.id {
            trouble = before.err().map(|trouble| trouble.into_error(session.log.path()));
        }
    }
    let (id, sessions) = (asked.id.clone(), 1 + others.len());
    if trouble.is_none() {
        let before = family::rendered(asked, others)?;
        let after = family::open_rendered(&staged.dir.join(&id), family::Scope::Family)?;
        confirm(&before, &after).map_err(|e| confused.map_or(e, |event| one_and_the_same(&id, &event)))?;
    }
    if !staged.publish(target)? {
        return Err(unsafe_path(target, "exists already and is not overwritten"));
    }
    atomic::sync_dir(&dir)?;
    Ok(RedactedSessions { session: target.join(id), sessions, trouble })
}

/// A folder beside `target`, and the one that both stand in.
fn stage(target: &Path) -> Result<(PathBuf, Staged)> {
    let Some(name) = target.file_name() else { return Err(unsafe_path(target, "is no name of a folder")) };
    let Some(name) = name.to_str() else { return Err(unsafe_path(target, "is no name in UTF-8")) };
    if file::exists(target) {
        return Err(unsafe_path(target, "exists already and is not overwritten"));
    }
    let dir = match target.parent() {
        Some(dir) if dir != Path::new("") => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let staged = Staged::new(dir.join(format!(".{name}.offshoot-{}", std::process::id())))?;
    Ok((dir, staged.removed_by_signals()))
}

fn write(redaction: &mut Redaction<'_>, session: &ReasonixSession, dir: &Path) -> Result<Redacted> {
    let trouble = |t: Trouble| t.into_error(session.log.path());
    new_folder(dir)?;
    let path = dir.join(LOG);
    let mut out = BufWriter::with_capacity(256 * 1024, atomic::create_new(&path)?);
    let written = redaction.log(&session.id, &session.log, &mut out).map_err(trouble)?;
    let log = out.into_inner().map_err(|e| Fault::io("write", &path, e.into_error()))?;
    log.sync_all().map_err(Error::io("sync", &path))?;
    let manifest = redaction.manifest(&session.manifest, &session.log, &written).map_err(trouble)?;
    write_file(&dir.join("manifest.json"), &manifest)?;
    if let Some(header) = &session.header {
        write_file(&dir.join("header.json"), &redaction.header(header))?;
    }
    atomic::sync_dir(dir)?;
    Ok(written)
}

/// The content store that goes with the sessions.
struct NewContents {
    root: PathBuf,
}

impl NewContents {
    fn keep(&self, kind: &str, digest: &str, extension: &str, bytes: &[u8]) -> io::Result<()> {
        let mut folder = self.root.clone();
        make_folder(&folder)?;
        for name in [kind, &digest[..2], &digest[2..4]] {
            folder.push(name);
            make_folder(&folder)?;
        }
        let path = folder.join(format!("{digest}{extension}"));
        if file::exists(&path) {
            return Ok(());
        }
        write_file(&path, bytes).map_err(|e| match e {
            Error::Fault(fault) => match fault.source {
                Some(e) => e,
                None => io::Error::other(fault.message),
            },
            Error::Refusal(refusal) => io::Error::other(refusal.message),
        })
    }
}

impl Payloads for NewContents {
    fn object(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()> {
        self.keep("objects", digest, "", bytes)
    }

    fn index(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()> {
        self.keep("indexes", digest, ".json", bytes)
    }
}

/// What a reader makes of a log.
#[derive(PartialEq, Eq)]
struct Account {
    turns: Vec<Turn>,
    hidden: Vec<String>,
    verifiable: bool,
    commits: u64,
    last_seq: u64,
    /// Whether anything stands behind the last commit; it may be longer than it was.
    torn: bool,
}

fn account(log: &dyn Source, contents: &dyn Contents) -> Result<Account, Trouble> {
    let mut reader = Commits::new(log, contents);
    let mut projection = Projection::default();
    let mut commits = 0;
    while let Some(commit) = reader.next_commit()? {
        projection.apply(&commit);
        commits += 1;
    }
    let mut turns = projection.turns();
    for closing in turns.iter_mut().filter_map(|turn| turn.closed_by.as_mut()) {
        // Of the bytes, which are other ones.
        closing.sha256.clear();
        closing.end = 0;
    }
    Ok(Account {
        turns,
        hidden: projection.hidden_turns(),
        verifiable: projection.is_verifiable(),
        commits,
        last_seq: reader.last_seq(),
        torn: log.len() > reader.end(),
    })
}

/// Whether both are read alike, or cannot be read for the same reason at the same place.
fn alike(before: &Result<Account, Trouble>, after: &Result<Account, Trouble>, written: &Redacted) -> bool {
    match (before, after) {
        (Ok(before), Ok(after)) => before == after,
        (
            Err(Trouble::Damaged { offset, reason }),
            Err(Trouble::Damaged { offset: place, reason: other }),
        )
        | (
            Err(Trouble::Unsupported { offset, what: reason }),
            Err(Trouble::Unsupported { offset: place, what: other }),
        ) => written.place(*offset) == Some(*place) && told(reason) == told(other),
        _ => false,
    }
}

/// A reason without what it quotes, what a lost header says of lengths, and what the decompressor says.
fn told(reason: &str) -> String {
    let quoted = reason.split('`').step_by(2).collect::<Vec<_>>().join("``");
    if let Some((before, rest)) = quoted.split_once(" length of ")
        && let Some((length, behind)) = rest.split_once(',')
    {
        return format!("{before} {} length,{behind}", if length == "0" { "no" } else { "another" });
    }
    match quoted.split_once("zstd frame: ") {
        Some((before, _)) => before.to_owned(),
        None => quoted,
    }
}

fn not_the_same(session: &ReasonixSession) -> Error {
    let path = session.dir.display();
    Fault::new(
        FaultCode::Damaged,
        format!(
            "the redacted form of `{path}` would be read otherwise than it is; this is a defect of offshoot"
        ),
    )
    .into()
}

fn one_and_the_same(session: &str, event: &str) -> Error {
    let message = format!(
        "`{session}` has relatives with other events of the same id (`{event}`), and without their words nothing tells \
         them apart"
    );
    Refusal::new(Code::SeedUnsupported, message)
        .hint("one of them may be forged or damaged; alone in a folder, a session can be redacted")
        .into()
}
