//! The sessions of a root that have commits in common, as one source.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use hashbrown::{HashMap, HashSet};

use super::{DiskContents, LOG, ReasonixSession, is_session_dir};
use crate::{
    dialect::reasonix::{
        Trouble, ids,
        render::{self, Member},
    },
    refusal::{Error, Fault, FaultCode, Result},
    store::{atomic, file::FileSource},
    transcript::{PrefixDigest, Source},
};

/// Which sessions a source shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one that is named, and all that are related to it by inherited commits.
    Family,
    /// The one that is named.
    Alone,
}

/// The log of a session, as far as it was read.
#[derive(Debug)]
pub struct PartFile {
    /// The session.
    pub session_id: String,
    /// Its log, which ends with its last complete commit.
    pub log: FileSource,
    /// The length of the file when it was opened.
    pub file_len: u64,
}

/// Reads a session and what belongs to it.
///
/// # Errors
/// As for [`ReasonixSession::open`] and [`ReasonixSession::project`], for the session that is named. Others that cannot be
/// read are left out, which the source says.
pub fn open_rendered(path: &Path, scope: Scope) -> Result<FileSource> {
    let asked = ReasonixSession::open(path)?;
    let members = if scope == Scope::Family { others(&asked)? } else { Vec::new() };
    rendered(asked, members)
}

/// The sessions that are related to one, as far as they can be opened.
pub(super) fn others(asked: &ReasonixSession) -> Result<Vec<ReasonixSession>> {
    let dirs = related(asked.root(), &asked.id)?;
    // Gone, or of another version: no part of what can be read.
    Ok(dirs.iter().filter_map(|dir| ReasonixSession::open(dir).ok()).collect())
}

/// Reads the same sessions as before, each up to the length that it had; none if one of them is not there so far.
///
/// # Errors
/// As for [`open_rendered`].
pub fn open_rendered_at(path: &Path, parts: &[(String, u64)]) -> Result<Option<FileSource>> {
    let mut asked = ReasonixSession::open(path)?;
    let mut members = Vec::new();
    for (id, bytes) in parts {
        if *id == asked.id {
            if asked.log.len() < *bytes {
                return Ok(None);
            }
            asked.log.truncate_to(*bytes);
            continue;
        }
        let dir = asked.root().join(id);
        if !ids::is_session_id(id) || !is_session_dir(&dir) {
            return Ok(None);
        }
        let mut member = ReasonixSession::open(&dir)?;
        if member.log.len() < *bytes {
            return Ok(None);
        }
        member.log.truncate_to(*bytes);
        members.push(member);
    }
    rendered(asked, members).map(Some)
}

/// Reads a child under its temporary name.
pub(super) fn open_staged(dir: &Path, id: &str) -> Result<FileSource> {
    rendered(ReasonixSession::open_as(dir, id)?, Vec::new())
}

/// What a session and others are read as.
pub(super) fn rendered(asked: ReasonixSession, others: Vec<ReasonixSession>) -> Result<FileSource> {
    let contents = DiskContents::of_root(asked.root());
    let sessions: Vec<&ReasonixSession> = std::iter::once(&asked).chain(&others).collect();
    let members: Vec<Member<'_>> = sessions
        .iter()
        .map(|s| Member {
            id: &s.id,
            cwd: s.header.as_ref().map(|h| h.cwd.as_str()).filter(|cwd| !cwd.is_empty()),
            log: &s.log,
            contents: &contents,
        })
        .collect();
    let mut text = atomic::unnamed()?;
    let mut out = BufWriter::with_capacity(256 * 1024, Written { file: &mut text, failed: false });
    let rendered = render::render(&asked.id, &members, &mut out);
    let flushed = out.flush();
    let failed = out.get_ref().failed;
    drop(out);
    let write_failed = |e| Error::io("write a temporary file in", &std::env::temp_dir())(e);
    let parts = match rendered {
        Err(Trouble::Io(e)) if failed => return Err(write_failed(e)),
        rendered => rendered.map_err(|t| t.into_error(asked.log.path()))?,
    };
    flushed.map_err(write_failed)?;
    let (path, dir_file) = (asked.dir.clone(), asked.log.file().try_clone());
    let handle = dir_file.map_err(Error::io("open", &path))?;
    let mut logs: HashMap<String, FileSource> =
        std::iter::once(asked).chain(others).map(|s| (s.id, s.log)).collect();
    let mut files = Vec::new();
    for part in parts {
        let Some(mut log) = logs.remove(&part.session_id) else { continue };
        let file_len = log.len();
        log.truncate_to(part.bytes);
        files.push(PartFile { session_id: part.session_id, log, file_len });
    }
    FileSource::rendered(path, handle, text, files)
}

/// A file that says whether it was the one that failed, where others are read meanwhile.
struct Written<'a> {
    file: &'a mut fs::File,
    failed: bool,
}

impl Write for Written<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|e| self.failed |= e.kind() != io::ErrorKind::Interrupted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().inspect_err(|_| self.failed = true)
    }
}

/// How many other sessions are related to one, by the first records of their logs. They may be unreadable behind that.
///
/// # Errors
/// As for [`ReasonixSession::open`]; `io`.
pub fn relatives(path: &Path) -> Result<u64> {
    let asked = ReasonixSession::open(path)?;
    Ok(related(asked.root(), &asked.id)?.len() as u64)
}

/// The folders of the sessions that are related to `asked`, without its own. Only the first record of each log is read.
fn related(root: &Path, asked: &str) -> Result<Vec<PathBuf>> {
    let mut links: Vec<(String, Option<String>)> = Vec::new();
    for entry in fs::read_dir(root).map_err(Error::io("list", root))? {
        let entry = entry.map_err(Error::io("list", root))?;
        let Some(id) = entry.file_name().to_str().filter(|id| ids::is_session_id(id)).map(str::to_owned)
        else {
            continue;
        };
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let Ok(log) = FileSource::open_file(&entry.path().join(LOG)) else { continue };
        let parent = render::parent_of(&log).unwrap_or_default();
        links.push((id, parent));
    }
    // Sessions that are gone still tie their children together.
    let mut near: HashMap<&str, Vec<&str>> = HashMap::new();
    for (id, parent) in &links {
        if let Some(parent) = parent {
            near.entry(id).or_default().push(parent);
            near.entry(parent).or_default().push(id);
        }
    }
    let mut seen: HashSet<&str> = std::iter::once(asked).collect();
    let mut next = vec![asked];
    while let Some(id) = next.pop() {
        next.extend(near.get(id).into_iter().flatten().copied().filter(|&other| seen.insert(other)));
    }
    let mut found: Vec<&String> =
        links.iter().map(|(id, _)| id).filter(|id| *id != asked && seen.contains(id.as_str())).collect();
    found.sort();
    Ok(found.into_iter().map(|id| root.join(id)).collect())
}

impl PartFile {
    /// Whether the path still names this log and its bytes are still there, judged by `digest` (`blake3:<hex>`).
    /// `Err` says in words what happened to it; `Ok` whether it has grown.
    pub(crate) fn check(&self, digest: &str) -> Result<std::result::Result<bool, &'static str>> {
        let path = self.log.path();
        let Ok(now) = FileSource::open_file(path) else { return Ok(Err("is gone")) };
        if crate::store::file::identity(now.metadata()) != crate::store::file::identity(self.log.metadata()) {
            return Ok(Err("was replaced by another file"));
        }
        if now.len() < self.log.len() {
            return Ok(Err("was cut"));
        }
        if self.digest()? != digest {
            return Ok(Err("was rewritten"));
        }
        Ok(Ok(now.len() > self.file_len))
    }

    /// `blake3:<hex>` of its bytes up to the last complete commit.
    pub(crate) fn digest(&self) -> Result<String> {
        let digest = PrefixDigest::of(&self.log, self.log.len());
        Ok(digest.map_err(Error::io("read", self.log.path()))?.stated())
    }
}

/// The fault for a session folder that names itself otherwise than what was made.
pub(super) fn not_what_was_made(path: &Path, why: &str) -> Error {
    Fault::new(
        FaultCode::Damaged,
        format!("`{}` is not the child that was to be made: {why}", path.display()),
    )
    .into()
}
