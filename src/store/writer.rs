//! Appends whole lines to a transcript that others may write too, and notices when they do.
//!
//! Before each write the path must still name the file that was read, with the length that we know. Content is
//! read again only when the file's times moved without us: a rolling digest then tells whether a byte changed.
//! Work is linear in what is written, as long as nobody else touches the file.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{
    faults,
    file::{identity, require_regular},
    signals,
    snapshot::Snapshot,
};
use crate::refusal::{Code, Error, Fault, FaultCode, Refusal, Result};

/// The open end of a transcript.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    len: u64,
    times: Times,
    digest: blake3::Hasher,
    /// Bytes of ours that are there for good. From the first one on a change is a fault, never a refusal.
    written: u64,
    /// Whether the last byte ends a line; so does the beginning of an empty file.
    line_ended: bool,
    /// An append was begun and not confirmed: what is on disk is not known, so nothing is added to it.
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    modified: Option<std::time::SystemTime>,
    changed: (i64, i64),
}

impl Times {
    fn of(meta: &Metadata) -> Times {
        #[cfg(unix)]
        let changed = {
            use std::os::unix::fs::MetadataExt;
            (meta.ctime(), meta.ctime_nsec())
        };
        #[cfg(not(unix))]
        let changed = (0, 0);
        Times { modified: meta.modified().ok(), changed }
    }
}

/// The fault of a write beside which somebody else wrote: what is ours and where.
pub fn raced(path: &Path, why: &str, offset: u64, bytes: u64) -> Fault {
    Fault::new(
        FaultCode::Raced,
        format!(
            "somebody else wrote to `{}` at the same time: {why}; our {bytes} bytes went to offset {offset}",
            path.display()
        ),
    )
    .detail(json!({"path": path.display().to_string(), "offset": offset, "bytes": bytes, "reason": why}))
}

impl Appender {
    /// Opens the transcript of a snapshot for appending. The snapshot was checked just before.
    ///
    /// # Errors
    /// `snapshot-changed` if the file is another one or longer than it was; `unsafe-path`; `io`.
    pub fn open(snapshot: &Snapshot) -> Result<Appender> {
        let path = &snapshot.path;
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NOFOLLOW.bits() as i32 | rustix::fs::OFlags::NONBLOCK.bits() as i32,
        );
        let file = options.open(path).map_err(Error::io("open", path))?;
        let meta = file.metadata().map_err(Error::io("inspect", path))?;
        require_regular(path, &meta)?;
        let mut appender = Appender {
            path: path.clone(),
            identity: (snapshot.device, snapshot.inode),
            len: snapshot.file_len(),
            times: Times::of(&meta),
            digest: blake3::Hasher::new(),
            file,
            written: 0,
            line_ended: true,
            failed: false,
        };
        appender.digest = appender.digest_of_content()?;
        appender.check()?;
        appender.line_ended = match appender.len {
            0 => true,
            len => appender.read_from(len - 1)?.first() == Some(&b'\n'),
        };
        Ok(appender)
    }

    /// The transcript.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length as we know it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a line (with its line feed) as [`Appender::append`] does. Where the file ends in an unfinished line,
    /// that one is ended first, in the same write, so that the two are not glued together.
    ///
    /// # Errors
    /// As for [`Appender::append`].
    pub fn append_line(&mut self, line: &[u8], still_ours: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.line_ended {
            return self.append(line, still_ours);
        }
        self.append(&[b"\n", line].concat(), still_ours)
    }

    /// Appends `bytes` in one write and makes them durable before it returns. A signal that would end the process
    /// waits meanwhile, so that no lock is given back under a write.
    ///
    /// `still_ours` is asked right before the write. After an append that failed behind that point there is no
    /// further one: the transcript has to be opened and read anew.
    ///
    /// # Errors
    /// `snapshot-changed` if somebody wrote before the first append, the fault `raced` later and where foreign
    /// bytes landed beside ours; what `still_ours` says; `io`.
    pub fn append(&mut self, bytes: &[u8], still_ours: &dyn Fn() -> Result<()>) -> Result<()> {
        let _writing = signals::uninterrupted();
        if self.failed {
            return Err(self.failed_before());
        }
        still_ours()?;
        self.check()?;
        let offset = self.len;
        self.failed = true;
        faults::halfway("append-half", bytes, |half| self.file.write_all(half))
            .map_err(Error::io("append to", &self.path))?;
        let written = self.write_once(bytes)?;
        if written != bytes.len() {
            return Err(self.cut_short(offset, written, bytes.len()));
        }
        self.len += bytes.len() as u64;
        self.written += bytes.len() as u64;
        self.line_ended = bytes.last().map_or(self.line_ended, |b| *b == b'\n');
        faults::point("append-unsynced").map_err(Error::io("sync", &self.path))?;
        self.file.sync_data().map_err(Error::io("sync", &self.path))?;
        self.digest.update(bytes);
        let meta = self.file.metadata().map_err(Error::io("inspect", &self.path))?;
        self.times = Times::of(&meta);
        let there = self.read_from(offset)?;
        if there != bytes {
            return Err(match memchr::memmem::find(&there, bytes) {
                Some(0) => self.raced("foreign bytes follow ours", offset, bytes.len() as u64),
                Some(at) => {
                    self.raced("foreign bytes stand before ours", offset + at as u64, bytes.len() as u64)
                }
                None => self.raced("ours are not there any more", offset, bytes.len() as u64),
            });
        }
        self.still_named()?;
        self.failed = false;
        Ok(())
    }

    fn failed_before(&self) -> Error {
        let path = self.path.display().to_string();
        Fault::new(FaultCode::Io, format!("cannot append to `{path}`: an earlier append to it failed"))
            .detail(json!({"path": path}))
            .into()
    }

    /// One write, so that whoever appends at the same time lands before or after it and never inside.
    fn write_once(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                written => return written.map_err(Error::io("append to", &self.path)),
            }
        }
    }

    /// A write that the disk had no room for: our fragment is taken back if nothing stands behind it.
    fn cut_short(&mut self, offset: u64, written: usize, wanted: usize) -> Error {
        let end = offset + written as u64;
        let alone = self.file.metadata().is_ok_and(|m| m.len() == end);
        let taken_back = alone && self.file.set_len(offset).and_then(|()| self.file.sync_all()).is_ok();
        let after = if taken_back { "and was taken back" } else { "and stands there as an unfinished line" };
        Fault::new(
            FaultCode::Io,
            format!(
                "cannot append to `{}`: only {written} of {wanted} bytes were written at offset {offset}, {after}",
                self.path.display()
            ),
        )
        .detail(json!({"path": self.path.display().to_string(), "offset": offset, "written": written}))
        .into()
    }

    fn check(&mut self) -> Result<()> {
        self.still_named()?;
        let meta = self.file.metadata().map_err(Error::io("inspect", &self.path))?;
        if meta.len() != self.len {
            return Err(self.changed(&format!("it has {} bytes, not {}", meta.len(), self.len)));
        }
        let times = Times::of(&meta);
        if times != self.times {
            if self.digest_of_content()?.finalize() != self.digest.finalize() {
                return Err(self.changed("bytes that were read before are different now"));
            }
            self.times = times;
        }
        Ok(())
    }

    fn still_named(&self) -> Result<()> {
        let meta = fs::symlink_metadata(&self.path).map_err(Error::io("inspect", &self.path))?;
        if identity(&meta) == self.identity {
            return Ok(());
        }
        Err(self.changed("another file has its name now"))
    }

    /// Before our first byte a change is a refusal, and nothing was done; afterwards it is a fault.
    fn changed(&self, why: &str) -> Error {
        if self.written > 0 {
            return self.raced(why, self.len - self.written, self.written);
        }
        Refusal::new(
            Code::SnapshotChanged,
            format!("`{}` changed since it was read: {why}", self.path.display()),
        )
        .hint("somebody else writes this session; try again when it is quiet, or fork")
        .detail(json!({"path": self.path.display().to_string(), "reason": why}))
        .into()
    }

    fn raced(&self, why: &str, offset: u64, bytes: u64) -> Error {
        raced(&self.path, why, offset, bytes).into()
    }

    fn digest_of_content(&self) -> Result<blake3::Hasher> {
        let mut file = &self.file;
        let mut hasher = blake3::Hasher::new();
        file.seek(SeekFrom::Start(0)).map_err(Error::io("read", &self.path))?;
        io::copy(&mut file.take(self.len), &mut hasher).map_err(Error::io("read", &self.path))?;
        Ok(hasher)
    }

    fn read_from(&self, offset: u64) -> Result<Vec<u8>> {
        let mut file = &self.file;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(Error::io("read", &self.path))?;
        Ok(bytes)
    }
}
