//! A transcript as it was read, and the question whether it still is what was read.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use serde_json::json;

use super::{
    agents::{agent_of_place, reasonix},
    file::{FileSource, identity},
    ledger::entry::{PartRef, SnapshotRef},
};
use crate::{
    dialect::{self, Dialect},
    record::Agent,
    refusal::{Code, Error, Fault, Refusal, Result},
    transcript::{PrefixDigest, Source, Transcript},
};

mod seen;

pub use seen::{Change, Seen};

/// How long a file must have been left alone before its times prove that it was not changed: file systems keep times
/// in steps of up to two seconds, so a write soon after another one may leave no trace in them.
const TIMES_ARE_COARSE: Duration = Duration::from_secs(3);

/// Whether new bytes behind the old ones count as a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// They do: the source is about to be written.
    Refuse,
    /// They do not: only the bytes of the snapshot are used (forks, and choices that are only recorded).
    AllowAtEnd,
}

/// The bytes of a transcript up to its last whole line, read once.
///
/// As a [`Source`] it ends where the snapshot ends, whatever has been appended since.
#[derive(Debug)]
pub struct Snapshot {
    /// The canonical path.
    pub path: PathBuf,
    /// What was read.
    pub transcript: Transcript,
    /// The length of the snapshot; a torn last line is not part of it.
    pub bytes: u64,
    /// `blake3:<hex>` of those bytes, if it was asked for.
    pub digest: Option<String>,
    /// The device that the file is on.
    pub device: u64,
    /// The file's inode.
    pub inode: u64,
    /// When it was last written.
    pub mtime: Timestamp,
    /// Its permission bits; 0 where there are none.
    pub mode: u32,
    /// What a session of several files was read from, if the digest was asked for; empty for a single file.
    pub parts: Vec<PartRef>,
    source: FileSource,
    opened: Times,
    settled: bool,
}

/// What changes when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    len: u64,
    modified: Option<SystemTime>,
    changed: (i64, i64),
}

impl Times {
    fn of(meta: &fs::Metadata) -> Times {
        #[cfg(unix)]
        let changed = {
            use std::os::unix::fs::MetadataExt;
            (meta.ctime(), meta.ctime_nsec())
        };
        #[cfg(not(unix))]
        let changed = (0, 0);
        Times { len: meta.len(), modified: meta.modified().ok(), changed }
    }

    /// Whether a write from `now` on would certainly move the times.
    fn settled(&self, now: SystemTime) -> bool {
        let changed = u64::try_from(self.changed.0).map(Duration::from_secs).unwrap_or_default();
        let latest = self.modified.unwrap_or(now).max(SystemTime::UNIX_EPOCH + changed);
        now.duration_since(latest).is_ok_and(|quiet| quiet > TIMES_ARE_COARSE)
    }
}

/// How much of a transcript says whose it is.
const HEAD: u64 = 256 * 1024;

/// What the first records say of a transcript (session id, working directory), without reading a large file to its
/// end: its first 256 KiB, or all of it where no record ends in there.
///
/// # Errors
/// `unsafe-path` for anything but a regular file; `io`.
pub fn head(path: &Path, dialect: &dyn Dialect) -> Result<Transcript> {
    let mut source = FileSource::open_alone(path)?;
    let whole = source.len();
    source.truncate_to(HEAD);
    let t = dialect.read(&source).map_err(|e| read_error(path, e))?;
    if !t.records.is_empty() || whole <= HEAD {
        return Ok(t);
    }
    dialect.read(&FileSource::open_alone(path)?).map_err(|e| read_error(path, e))
}

/// How long a transcript has not been written to: since its modification time, zero if that lies ahead.
///
/// # Errors
/// `io`.
pub fn quiet_for(path: &Path, now: Timestamp) -> Result<Duration> {
    let modified = fs::metadata(path).and_then(|m| m.modified()).map_err(Error::io("inspect", path))?;
    let since = Timestamp::try_from(modified).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(now.duration_since(since).try_into().unwrap_or_default())
}

/// Whose transcript a file is, by its content; where that tells nothing, as of an empty file, by its place. None if it is
/// nobody's that we know.
///
/// # Errors
/// `unsafe-path` for anything but a regular file; `io`.
pub fn agent_of(path: &Path) -> Result<Option<Agent>> {
    if reasonix::is_session_dir(path) {
        return Ok(Some(Agent::Reasonix));
    }
    let source = FileSource::open(path)?;
    let told = dialect::recognise(&source).map_err(|e| read_error(path, e))?;
    Ok(told.or_else(|| agent_of_place(path)))
}

impl Snapshot {
    /// Opens the file once and reads it, up to the length it had when it was opened.
    ///
    /// # Errors
    /// `unsafe-path` for anything but a regular file; `snapshot-changed` if the file was cut while it was read; `io`.
    pub fn take(path: &Path, dialect: &dyn Dialect, digest: bool) -> Result<Snapshot> {
        Snapshot::of(FileSource::open(path)?, path, dialect, digest, None)
    }

    /// [`Snapshot::take`] for who waits for it: `read` grows by the bytes that have been read. What is read twice counts
    /// twice.
    ///
    /// # Errors
    /// As for [`Snapshot::take`].
    pub fn take_watched(
        path: &Path,
        dialect: &dyn Dialect,
        digest: bool,
        read: &AtomicU64,
    ) -> Result<Snapshot> {
        Snapshot::of(FileSource::open(path)?, path, dialect, digest, Some(read))
    }

    /// [`Snapshot::take`] without the sessions that are related to this one, where they are read as one source with it. What
    /// is asked of a single log must not cost more with every child that was made of it.
    ///
    /// # Errors
    /// As for [`Snapshot::take`].
    pub fn take_alone(path: &Path, dialect: &dyn Dialect, digest: bool) -> Result<Snapshot> {
        Snapshot::of(FileSource::open_alone(path)?, path, dialect, digest, None)
    }

    /// Reads the file as if it ended after `bytes` bytes, with their digest.
    ///
    /// # Errors
    /// As for [`Snapshot::take`]; `snapshot-changed` if the file has not so many bytes, or no line ends there.
    pub fn take_up_to(path: &Path, dialect: &dyn Dialect, bytes: u64) -> Result<Snapshot> {
        if reasonix::is_session_dir(path) {
            let id = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let cut = || changed(path, "was cut", json!({}));
            let source = reasonix::open_rendered_at(path, &[(id, bytes)])?.ok_or_else(cut)?;
            let snapshot = Snapshot::of(source, path, dialect, true, None)?;
            // Of a single log, up to the end of a commit.
            let whole = snapshot.parts.first().is_some_and(|part| part.bytes == bytes);
            return if whole { Ok(snapshot) } else { Err(snapshot.was_rewritten()) };
        }
        let mut source = FileSource::open(path)?;
        source.truncate_to(bytes);
        let snapshot = Snapshot::of(source, path, dialect, true, None)?;
        if snapshot.opened.len < bytes {
            return Err(snapshot.changed("was cut", snapshot.opened.len));
        }
        if snapshot.bytes != bytes {
            return Err(snapshot.was_rewritten());
        }
        Ok(snapshot)
    }

    /// The same session without some of those that are related to it. The others are read as far as they were.
    ///
    /// # Errors
    /// As for [`Snapshot::take`].
    pub fn without(&self, left_out: impl Fn(&str) -> bool, dialect: &dyn Dialect) -> Result<Snapshot> {
        let parts = self.parts.iter().filter(|part| !left_out(&part.session_id));
        let parts: Vec<(String, u64)> = parts.map(|part| (part.session_id.clone(), part.bytes)).collect();
        let source = reasonix::open_rendered_at(&self.path, &parts)?;
        let source = source.ok_or_else(|| changed(&self.path, "was cut", json!({})))?;
        Snapshot::of(source, &self.path, dialect, true, None)
    }

    /// The refusal for bytes that are not what they were.
    pub fn was_rewritten(&self) -> Error {
        self.changed("was rewritten", self.opened.len)
    }

    fn of(
        mut source: FileSource,
        path: &Path,
        dialect: &dyn Dialect,
        digest: bool,
        watched: Option<&AtomicU64>,
    ) -> Result<Snapshot> {
        let (device, inode) = identity(source.metadata());
        let opened = Times::of(source.metadata());
        let settled = opened.settled(SystemTime::now());
        let tee = Tee::new(&source, digest, watched);
        let transcript = dialect.read(&tee).map_err(|e| read_error(path, e))?;
        let bytes = transcript.bytes;
        let digest = tee.finish(bytes).map_err(|e| read_error(path, e))?;
        source.truncate_to(bytes);
        let parts = if digest.is_some() { part_refs(&source)? } else { Vec::new() };
        Ok(Snapshot {
            parts,
            path: path.to_owned(),
            bytes,
            digest,
            device,
            inode,
            mtime: opened.modified.and_then(|t| Timestamp::try_from(t).ok()).unwrap_or(Timestamp::UNIX_EPOCH),
            mode: mode(source.metadata()),
            transcript,
            source,
            opened,
            settled,
        })
    }

    /// What the ledger knows it by.
    ///
    /// # Panics
    /// If it was taken without digest: such a one is for reading only.
    pub fn identity(&self) -> SnapshotRef {
        SnapshotRef {
            bytes: self.bytes,
            digest: self.digest.clone().expect("BUG: a snapshot without a digest is only read from"),
            records: self.transcript.records.len() as u64,
            parts: self.parts.clone(),
        }
    }

    /// The length of the file when it was opened, a torn last line included.
    pub fn file_len(&self) -> u64 {
        self.opened.len
    }

    /// The files that were read, with the length that each had when it was opened: the transcript, or the logs of a
    /// session and of those that are related to it.
    pub fn files(&self) -> Vec<(&Path, u64)> {
        match self.source.parts() {
            [] => vec![(&self.path, self.opened.len)],
            parts => parts.iter().map(|part| (part.log.path(), part.file_len)).collect(),
        }
    }

    /// How long before `now` the file was last written. Zero if its time lies in the future.
    pub fn quiet_for(&self, now: Timestamp) -> Duration {
        now.duration_since(self.mtime).try_into().unwrap_or_default()
    }

    /// Checks that the path still names this file and that the snapshot's bytes are still there; says whether bytes
    /// were appended since. To be called right before anything is written.
    ///
    /// The bytes are compared by digest, except where length and times prove that nobody has written.
    ///
    /// # Panics
    /// If the snapshot was taken without digest: such a one is for reading only.
    ///
    /// # Errors
    /// `snapshot-changed` with what changed; `io`.
    pub fn check(&self, growth: Growth) -> Result<bool> {
        if !self.source.parts().is_empty() {
            return self.check_parts(growth);
        }
        let before = self.look(growth)?;
        if !(self.settled && before == self.opened) {
            let expected = self.digest.as_ref().expect("BUG: a snapshot without a digest is only read from");
            let found = PrefixDigest::of(&self.source, self.bytes).map_err(|e| read_error(&self.path, e))?;
            if *expected != found.stated() {
                return Err(self.changed("was rewritten", before.len));
            }
        }
        // A second look, because the digest takes time.
        Ok(self.look(growth)?.len > self.opened.len)
    }

    /// [`Snapshot::check`] of a session of several files: each must still begin with its bytes.
    fn check_parts(&self, growth: Growth) -> Result<bool> {
        assert!(!self.parts.is_empty(), "BUG: a snapshot without a digest is only read from");
        let mut grew = false;
        for (file, part) in self.source.parts().iter().zip(&self.parts) {
            match file.check(&part.digest)? {
                Err(what) => return Err(changed(file.log.path(), what, json!({}))),
                Ok(true) if growth == Growth::Refuse => {
                    return Err(changed(file.log.path(), "has grown", json!({})));
                }
                Ok(more) => grew |= more,
            }
        }
        Ok(grew)
    }

    fn look(&self, growth: Growth) -> Result<Times> {
        let path = &self.path;
        let named = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.changed("is gone", 0)),
            Err(e) => return Err(Fault::io("inspect", path, e).into()),
        };
        let handle = self.source.file().metadata().map_err(Error::io("inspect", path))?;
        if !named.is_file() || identity(&named) != identity(&handle) {
            return Err(self.changed("was replaced by another file", named.len()));
        }
        let now = Times::of(&handle);
        if now.len < self.opened.len {
            return Err(self.changed("was cut", now.len));
        }
        if now.len > self.opened.len && growth == Growth::Refuse {
            return Err(self.changed("has grown", now.len));
        }
        Ok(now)
    }

    fn changed(&self, what: &str, len: u64) -> Error {
        changed(&self.path, what, json!({"bytesThen": self.opened.len, "bytesNow": len}))
    }
}

impl Source for Snapshot {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.source.read_exact_at(offset, buf)
    }
}

#[cfg(unix)]
fn mode(meta: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(meta) & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> u32 {
    0
}

fn changed(path: &Path, what: &str, mut detail: serde_json::Value) -> Error {
    detail["path"] = json!(path.display().to_string());
    detail["what"] = json!(what);
    Refusal::new(Code::SnapshotChanged, format!("`{}` {what} since it was read", path.display()))
        .hint("run the same command again")
        .detail(detail)
        .into()
}

/// The end of the file where there was none when it was opened means that somebody cut it in between.
fn read_error(path: &Path, e: io::Error) -> Error {
    if e.kind() == io::ErrorKind::UnexpectedEof {
        return changed(path, "was cut", json!({}));
    }
    Fault::io("read", path, e).into()
}

fn part_refs(source: &FileSource) -> Result<Vec<PartRef>> {
    let parts = source.parts().iter();
    let part = |p: &reasonix::PartFile| {
        Ok(PartRef { session_id: p.session_id.clone(), bytes: p.log.len(), digest: p.digest()? })
    };
    parts.map(part).collect()
}

/// Passes reads through and digests what the reader says it has passed, so that a file is read only once.
struct Tee<'a> {
    source: &'a FileSource,
    rolling: Option<Mutex<PrefixDigest>>,
    /// Counts the bytes that were read.
    watched: Option<&'a AtomicU64>,
}

impl<'a> Tee<'a> {
    fn new(source: &'a FileSource, digest: bool, watched: Option<&'a AtomicU64>) -> Self {
        Tee { source, rolling: digest.then(Mutex::default), watched }
    }

    /// The digest of the first `bytes` bytes.
    fn finish(self, bytes: u64) -> io::Result<Option<String>> {
        let Some(rolling) = self.rolling else { return Ok(None) };
        let mut rolling = rolling.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert!(rolling.end() <= bytes, "BUG: bytes behind the snapshot were taken for a part of it");
        rolling.carry_on(self.source, bytes)?;
        Ok(Some(rolling.stated()))
    }
}

impl Source for Tee<'_> {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.source.read_exact_at(offset, buf)?;
        if let Some(watched) = self.watched {
            watched.fetch_add(buf.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn passed(&self, offset: u64, bytes: &[u8]) {
        let Some(rolling) = &self.rolling else { return };
        let mut rolling = rolling.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // What was left out is read again here; an error comes up again in `finish`.
        if rolling.end() == offset || rolling.carry_on(self.source, offset).is_ok() {
            rolling.update(bytes);
        }
    }
}
