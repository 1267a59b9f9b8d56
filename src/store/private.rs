//! Files and folders of the state directory: ours alone (0600 and 0700), never reached through a link, locked
//! while they are changed, durable when a function returns.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{atomic::sync_dir, faults, state::unsafe_path};
use crate::refusal::{Error, Fault, Result};

/// How long a lock that is held for single appends only is waited for.
pub const SHORT: Duration = Duration::from_secs(30);

/// Creates `dir` and its missing parents with mode 0700, synced, and refuses one that others could write.
///
/// # Errors
/// `unsafe-path` for a link, a special file, a foreign owner or a world-writable folder; else `io`.
pub fn ensure_dir(dir: &Path) -> Result<()> {
    match fs::symlink_metadata(dir) {
        Ok(meta) => return check_dir(dir, &meta),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("look at", dir)(e)),
    }
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(parent) = parent
        && fs::symlink_metadata(parent).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    {
        ensure_dir(parent)?;
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(dir) {
        Ok(()) => {}
        // Somebody else made it in between; it is checked like one that was there.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Error::io("create folder", dir)(e)),
    }
    check_dir(dir, &fs::symlink_metadata(dir).map_err(Error::io("look at", dir))?)?;
    parent.map_or(Ok(()), sync_dir)
}

/// The folder `relative` below the state directory `root`: made where it is missing, and each folder on the way to
/// it is checked, since whoever owns one of them decides what stands under the others.
///
/// # Errors
/// As for [`ensure_dir`].
pub fn ensure_below(root: &Path, relative: impl AsRef<Path>) -> Result<PathBuf> {
    let mut dir = root.to_owned();
    for part in relative.as_ref() {
        dir.push(part);
        ensure_dir(&dir)?;
    }
    Ok(dir)
}

/// Refuses what is no folder, and one that others own or can write.
///
/// # Errors
/// `unsafe-path`.
pub(super) fn check_dir(dir: &Path, meta: &fs::Metadata) -> Result<()> {
    if !meta.is_dir() {
        return Err(unsafe_path(dir, "is not a folder"));
    }
    check_owner(dir, meta)
}

fn check_owner(path: &Path, meta: &fs::Metadata) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(unsafe_path(path, "belongs to another user"));
        }
        if meta.mode() & 0o002 != 0 {
            return Err(unsafe_path(path, "can be written by everybody"));
        }
    }
    #[cfg(not(unix))]
    let _ = (path, meta);
    Ok(())
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To read; it must exist.
    Read,
    /// To read, and to write at its end only; created if missing.
    Append,
    /// To read and write; created if missing.
    Write,
}

/// Opens a file of ours without following a link and without hanging on a pipe.
///
/// # Errors
/// `unsafe-path` for a link, a special file, a foreign owner or a world-writable file; else `io`.
pub fn open(path: &Path, mode: Mode) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        Mode::Read => {}
        Mode::Append => {
            options.append(true).create(true);
        }
        Mode::Write => {
            options.write(true).create(true).truncate(false);
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = match options.open(path) {
        Ok(file) => file,
        // The error of a refused link differs between systems (ELOOP, EMLINK): look instead.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|m| !m.is_file()) => {
            return Err(unsafe_path(path, "is not a regular file"));
        }
        Err(e) => return Err(Error::io("open", path)(e)),
    };
    let meta = file.metadata().map_err(Error::io("look at", path))?;
    if !meta.is_file() {
        return Err(unsafe_path(path, "is not a regular file"));
    }
    check_owner(path, &meta)?;
    Ok(file)
}

/// All bytes of a file of ours; `None` if there is none.
///
/// # Errors
/// As for [`open`].
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    // A missing folder above counts as a missing file: nothing was recorded yet.
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let mut file = match open(path, Mode::Read) {
        Err(Error::Fault(f)) if is_not_found(&f) => return Ok(None),
        other => other?,
    };
    read_all(&mut file, path).map(Some)
}

fn is_not_found(fault: &Fault) -> bool {
    fault.source.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::NotFound)
}

/// All bytes of an open file, from its start.
///
/// # Errors
/// `io`.
pub fn read_all(file: &mut File, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .map_err(Error::io("read", path))?;
    Ok(bytes)
}

/// Makes the folder of a file durable.
///
/// # Errors
/// `io`.
pub fn sync_parent(path: &Path) -> Result<()> {
    sync_dir(path.parent().expect("BUG: a state file without a folder"))
}

/// An exclusive lock on a file of its own, given back when dropped. The file is never removed.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would not be enough: a process that another thread starts has the file too until it runs its own
        // program, and the lock with it.
        let _ = fs4::FileExt::unlock(&self.file);
    }
}

impl Lock {
    /// Takes the lock; `None` if it is still busy after `wait`. The folder must exist.
    ///
    /// # Errors
    /// As for [`open`].
    pub fn acquire(path: &Path, wait: Duration) -> Result<Option<Lock>> {
        let until = Instant::now() + wait;
        loop {
            let file = open(path, Mode::Write)?;
            match fs4::FileExt::try_lock(&file) {
                // If somebody removed the file meanwhile, this lock excludes nobody who comes later.
                Ok(()) if same_file(&file, path) => return Ok(Some(Lock { file })),
                Ok(()) => continue,
                Err(fs4::TryLockError::WouldBlock) => {}
                Err(fs4::TryLockError::Error(e)) => return Err(Error::io("lock", path)(e)),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    /// Takes a lock that is only ever held for moments.
    ///
    /// # Errors
    /// As for [`Lock::acquire`]; `io` (timed out) after [`SHORT`].
    pub fn short(path: &Path) -> Result<Lock> {
        Lock::acquire(path, SHORT)?
            .ok_or_else(|| Error::io("lock", path)(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

/// Whether `path` still names the open file.
#[cfg(unix)]
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same_file(_: &File, path: &Path) -> bool {
    // An open file cannot be removed there.
    path.exists()
}

/// Whether [`publish`] may replace what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clobber {
    /// The new file takes the place of the old one at once.
    Replace,
    /// What is there stays, and the answer is `false`.
    Keep,
}

/// Publishes a whole, synced file under `path` (its folder must exist); `false` if one was there and is kept.
///
/// # Errors
/// `io`.
pub fn publish(path: &Path, bytes: &[u8], clobber: Clobber) -> Result<bool> {
    let dir = path.parent().expect("BUG: a state file without a folder");
    let mut temporary = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(dir)
        .map_err(Error::io("create a temporary file in", dir))?;
    temporary
        .write_all(bytes)
        .and_then(|()| temporary.as_file().sync_all())
        .map_err(Error::io("write", temporary.path()))?;
    let published = match clobber {
        Clobber::Replace => temporary.persist(path).map(|_| true).map_err(|e| e.error),
        Clobber::Keep => match temporary.persist_noclobber(path) {
            Ok(_) => Ok(true),
            Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.error),
        },
    };
    let published = published.map_err(Error::io("publish", path))?;
    sync_dir(dir)?;
    Ok(published)
}

/// The last line of an append-only file that a crash left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// The whole lines of an append-only file (without line ends), and what is torn of the last one.
///
/// A last line that holds a NUL byte is torn even if it ends in a line feed: a power cut may leave blocks of
/// zeros where an append was going on, and no line of ours has such a byte.
pub fn whole_lines(bytes: &[u8]) -> (Vec<&[u8]>, Option<Torn>) {
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let mut lines: Vec<&[u8]> = bytes[..end].split(|b| *b == b'\n').collect();
    // What stands behind the last line feed is an empty piece.
    lines.pop();
    let mut start = end;
    if start == bytes.len()
        && let Some(last) = lines.last()
        && memchr::memchr(0, last).is_some()
    {
        start -= last.len() + 1;
        lines.pop();
    }
    let torn =
        (start < bytes.len()).then(|| Torn { offset: start as u64, bytes: (bytes.len() - start) as u64 });
    (lines, torn)
}

/// Moves a torn last line to `<file>.torn-<n>`, under the file's lock; returns where it went.
///
/// The copy is durable before the original is cut: a crash in between leaves the bytes twice, never not at all.
///
/// # Errors
/// `io`.
pub fn move_torn(file: &File, path: &Path, torn_bytes: &[u8], offset: u64) -> Result<PathBuf> {
    for n in 1u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{n}"));
        let aside = PathBuf::from(name);
        if publish(&aside, torn_bytes, Clobber::Keep)? {
            faults::point("torn-copied").map_err(Error::io("cut", path))?;
            file.set_len(offset).and_then(|()| file.sync_all()).map_err(Error::io("cut", path))?;
            return Ok(aside);
        }
    }
    unreachable!("BUG: more than 2^32 torn lines")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Code;

    #[test]
    fn torn_last_lines_are_told_from_whole_ones() {
        let torn = |offset, bytes| Some(Torn { offset, bytes });
        assert_eq!(whole_lines(b""), (vec![], None));
        assert_eq!(whole_lines(b"a\n"), (vec![b"a".as_slice()], None));
        assert_eq!(whole_lines(b"a\nbc"), (vec![b"a".as_slice()], torn(2, 2)));
        assert_eq!(whole_lines(b"bc"), (vec![], torn(0, 2)));
        assert_eq!(whole_lines(b"a\nb\0\n"), (vec![b"a".as_slice()], torn(2, 3)));
        assert_eq!(whole_lines(b"a\n\n"), (vec![b"a".as_slice(), b""], None));
        // A NUL inside an earlier line is damage, not a torn append.
        assert_eq!(whole_lines(b"\0\na\n"), (vec![b"\0".as_slice(), b"a"], None));
    }

    #[test]
    fn published_files_are_kept_or_replaced_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert!(publish(&path, b"1", Clobber::Keep).unwrap());
        assert!(!publish(&path, b"2", Clobber::Keep).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"1");
        assert!(publish(&path, b"3", Clobber::Replace).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"3");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_open_folders_are_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let refused = |r: Result<()>, what: &str| {
            assert_eq!(r.unwrap_err().refusal(), Some(Code::UnsafePath), "{what}");
        };
        fs::write(dir.path().join("real"), b"").unwrap();
        symlink(dir.path().join("real"), dir.path().join("link")).unwrap();
        refused(open(&dir.path().join("link"), Mode::Append).map(drop), "a link");
        symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
        refused(open(&dir.path().join("dangling"), Mode::Append).map(drop), "a dangling link");
        refused(read(&dir.path().join("dangling")).map(drop), "a dangling link, to read");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        refused(open(&pipe, Mode::Read).map(drop), "a pipe");
        let open_dir = dir.path().join("open");
        fs::create_dir(&open_dir).unwrap();
        fs::set_permissions(&open_dir, fs::Permissions::from_mode(0o777)).unwrap();
        refused(ensure_dir(&open_dir), "a folder of everybody");
        symlink(dir.path(), dir.path().join("dirlink")).unwrap();
        refused(ensure_dir(&dir.path().join("dirlink")), "a linked folder");
        ensure_dir(&dir.path().join("a/b")).unwrap();
        let mode = fs::metadata(dir.path().join("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
