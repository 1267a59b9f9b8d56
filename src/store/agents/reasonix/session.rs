//! One session folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::DiskContents;
use crate::{
    dialect::reasonix::{
        commit::Commits,
        ids,
        manifest::{self, Header, Manifest},
        projection::Projection,
    },
    refusal::{Error, Result},
    store::{
        file::{self, FileSource},
        lease,
        state::unsafe_path,
    },
};

/// The log of a session.
pub const LOG: &str = "events.frames";
const MANIFEST: &str = "manifest.json";
const HEADER: &str = "header.json";

/// The largest manifest or header that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// A session folder that is open for reading.
#[derive(Debug)]
pub struct ReasonixSession {
    /// The folder, without symlinks.
    pub dir: PathBuf,
    /// Its name.
    pub id: String,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Whose it is, if it is one of the desktop application.
    pub header: Option<Header>,
    /// Its log, of the length that it had.
    pub log: FileSource,
}

/// Whether a path is a folder with a manifest of Reasonix, of whatever version.
pub fn is_session_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_dir())
        && file::read_small(&path.join(MANIFEST), LARGEST).is_ok_and(|bytes| manifest::is_manifest(&bytes))
}

/// The session folder that a path means: itself, or the folder of its log or manifest.
pub fn session_dir_of(path: &Path) -> Option<PathBuf> {
    if is_session_dir(path) {
        return Some(path.to_owned());
    }
    let name = path.file_name()?;
    let parent = path.parent()?;
    let inside = [LOG, MANIFEST, "events.jsonl"].iter().any(|file| name == *file);
    (inside && is_session_dir(parent)).then(|| parent.to_owned())
}

impl ReasonixSession {
    /// Opens a session folder. No lock is taken.
    ///
    /// # Errors
    /// `unsafe-path` for a symlink, or a name that no session has; `unsupported-version`; the fault `damaged`; `io`.
    pub fn open(path: &Path) -> Result<ReasonixSession> {
        let dir = lease::canonical(path)?;
        let name = dir.file_name().and_then(|name| name.to_str()).filter(|name| ids::is_session_id(name));
        let Some(id) = name.map(str::to_owned) else {
            return Err(unsafe_path(&dir, "has a name that no session of Reasonix has"));
        };
        ReasonixSession::open_as(&dir, &id)
    }

    /// Opens a folder that is going to have the name `id`.
    pub(super) fn open_as(dir: &Path, id: &str) -> Result<ReasonixSession> {
        let path = dir.join(MANIFEST);
        let bytes = file::read_small(&path, LARGEST).map_err(Error::io("read", &path))?;
        let manifest = Manifest::parse(&bytes, &path.display().to_string(), id)?;
        let path = dir.join(HEADER);
        let header = match file::exists(&path) {
            true => {
                let bytes = file::read_small(&path, LARGEST).map_err(Error::io("read", &path))?;
                Some(Header::parse(&bytes, &path.display().to_string(), id)?)
            }
            false => None,
        };
        let log = FileSource::open_file(&dir.join(LOG))?;
        Ok(ReasonixSession { dir: dir.to_owned(), id: id.to_owned(), manifest, header, log })
    }

    /// The folder that holds the sessions.
    pub fn root(&self) -> &Path {
        self.dir.parent().expect("BUG: a session folder has a parent")
    }

    /// Where its large payloads are.
    pub fn contents(&self) -> DiskContents {
        DiskContents::of_root(self.root())
    }

    /// The state at the end of its last complete commit.
    ///
    /// # Errors
    /// The fault `damaged` with file, offset and reason; `unsupported-version`; `io`.
    pub fn project(&self) -> Result<Projection> {
        let contents = self.contents();
        let mut commits = Commits::new(&self.log, &contents);
        let mut projection = Projection::default();
        while let Some(commit) = commits.next_commit().map_err(|t| t.into_error(self.log.path()))? {
            projection.apply(&commit);
        }
        Ok(projection)
    }
}
