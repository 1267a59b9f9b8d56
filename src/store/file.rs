//! A transcript file behind [`Source`]: opened once, without following a symlink, and of the length it had then.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{
    agents::reasonix::{self, PartFile, Scope},
    state::unsafe_path,
};
use crate::{
    refusal::{Error, Result},
    transcript::Source,
};

/// A regular file, cut at the length it had when it was opened; or what a session of several files is read as.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    path: PathBuf,
    meta: Metadata,
    len: u64,
    rendered: Option<Box<Rendered>>,
}

/// What a session of several files is read as.
#[derive(Debug)]
struct Rendered {
    text: File,
    parts: Vec<PartFile>,
}

impl FileSource {
    /// Opens a regular file for reading. A symlink as the last component is refused: two names of one file would have two locks.
    ///
    /// # Errors
    /// `unsafe-path` for anything but a regular file; `io`.
    pub fn open(path: &Path) -> Result<FileSource> {
        if reasonix::is_session_dir(path) {
            return reasonix::open_rendered(path, Scope::Family);
        }
        FileSource::open_file(path)
    }

    /// Opens a transcript without the sessions that are related to it, where the format has several in one place.
    ///
    /// # Errors
    /// As for [`FileSource::open`].
    pub fn open_alone(path: &Path) -> Result<FileSource> {
        if reasonix::is_session_dir(path) {
            return reasonix::open_rendered(path, Scope::Alone);
        }
        FileSource::open_file(path)
    }

    /// A session of several files: `text` is what they are read as, `log` the one that is named.
    pub(crate) fn rendered(path: PathBuf, log: File, text: File, parts: Vec<PartFile>) -> Result<FileSource> {
        let meta = log.metadata().map_err(Error::io("inspect", &path))?;
        let len = text.metadata().map_err(Error::io("inspect", &path))?.len();
        Ok(FileSource { file: log, path, meta, len, rendered: Some(Box::new(Rendered { text, parts })) })
    }

    /// The logs that a session of several files was read from; empty for a single file.
    pub fn parts(&self) -> &[PartFile] {
        self.rendered.as_ref().map_or(&[], |r| &r.parts)
    }

    /// Opens a regular file, and nothing else. A symlink as the last component is refused.
    ///
    /// # Errors
    /// `unsafe-path` for anything but a regular file; `io`.
    pub fn open_file(path: &Path) -> Result<FileSource> {
        // Looked at before it is opened, because opening some devices does something.
        let found = fs::symlink_metadata(path).map_err(Error::io("inspect", path))?;
        require_regular(path, &found)?;
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, no_surprises());
        let file = options.open(path).map_err(Error::io("open", path))?;
        let meta = file.metadata().map_err(Error::io("inspect", path))?;
        require_regular(path, &meta)?;
        let len = meta.len();
        Ok(FileSource { file, path: path.to_owned(), meta, len, rendered: None })
    }

    /// An open file of ours, such as one without a name; `path` is what errors call it.
    ///
    /// # Errors
    /// `io`.
    pub fn of(file: File, path: &Path) -> Result<FileSource> {
        let meta = file.metadata().map_err(Error::io("inspect", path))?;
        let len = meta.len();
        Ok(FileSource { file, path: path.to_owned(), meta, len, rendered: None })
    }

    /// Makes the source end earlier.
    pub fn truncate_to(&mut self, len: u64) {
        self.len = self.len.min(len);
    }

    /// As it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What the system said of the file when it was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.meta
    }
}

/// All bytes of a small file that others wrote: a setting, a record of the agent, a `HEAD`. Symlinks are followed.
///
/// # Errors
/// `InvalidInput` for what is no regular file, so that a pipe keeps nobody waiting and a device gives no endless
/// answer; `FileTooLarge` for more than `largest` bytes; else what the system says.
pub(crate) fn read_small(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits() as i32);
    }
    // Looked at before it is opened, because opening some devices does something.
    let regular = |meta: Metadata| if meta.is_file() { Ok(()) } else { Err(io::ErrorKind::InvalidInput) };
    regular(fs::metadata(path)?)?;
    let file = options.open(path)?;
    regular(file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Whether something has this name, whatever it is.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The length of a file, or of the log in a session folder; none if nothing has its name.
///
/// # Errors
/// `io`.
pub fn length(path: &Path) -> Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        // What grows of a session of several files is its log.
        Ok(meta) if meta.is_dir() => length(&path.join(reasonix::LOG)),
        Ok(meta) => Ok(Some(meta.len())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("inspect", path)(e)),
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let file = self.rendered.as_ref().map_or(&self.file, |r| &r.text);
        read_exact_at(file, offset, buf)
    }
}

/// Refuses what is no regular file, and says what it is.
pub(crate) fn require_regular(path: &Path, meta: &Metadata) -> Result<()> {
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(());
    }
    Err(unsafe_path(
        path,
        if kind.is_symlink() {
            "is a symlink"
        } else if kind.is_dir() {
            "is a directory"
        } else {
            "is not a regular file"
        },
    ))
}

/// Flags that keep an open from following a last symlink and from waiting for the other end of a pipe.
#[cfg(unix)]
pub(crate) fn no_surprises() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32
}

/// Reads at an offset without moving a cursor that threads might share.
#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, offset: u64, buf: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buf, offset)
}

/// Reads at an offset. `seek_read` moves the cursor, which nobody uses here.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
    while !buf.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buf, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                offset += n as u64;
                buf = &mut buf[n..];
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Which file it is, whatever its name: device and inode. Zero where the system does not say.
#[cfg(unix)]
pub(crate) fn identity(meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// Which file it is: not known here, so that all files look alike and only content is compared.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
