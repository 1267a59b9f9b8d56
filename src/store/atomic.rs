//! Writes that a crash cannot leave half done.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{
    faults,
    file::{identity, require_regular},
};
use crate::{
    parallel,
    refusal::{Error, Fault, Result},
};

/// What came of publishing a file under a name that must be new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The file stands under its final name, durably.
    Published(PathBuf),
    /// Something else has that name; nothing was changed.
    Exists(PathBuf),
}

/// A file under a temporary name, removed again unless it is published.
#[must_use = "dropping it removes the temporary file"]
#[derive(Debug)]
pub struct Staged {
    dir: PathBuf,
    path: PathBuf,
    file: File,
}

impl Staged {
    /// Creates `dir/name` with mode 0600. The name must be free.
    ///
    /// # Errors
    /// `io`, also if the name is taken.
    pub fn create(dir: &Path, name: &str) -> Result<Staged> {
        let path = dir.join(name);
        let file = create_new(&path)?;
        Ok(Staged { dir: dir.to_owned(), path, file })
    }

    /// The temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, at its end.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Makes the content durable. The name is not published yet.
    ///
    /// # Errors
    /// `io`.
    pub fn finish(&mut self) -> Result<()> {
        self.file.flush().and_then(|()| self.file.sync_all()).map_err(Error::io("sync", &self.path))
    }

    /// [`Self::finish`] while `work` reads the file, which does not change any more.
    ///
    /// # Errors
    /// `io`, else what `work` reports.
    pub fn finish_while<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let file = &mut self.file;
        file.flush().map_err(Error::io("sync", &self.path))?;
        let (synced, done) = parallel::join(|| file.sync_all(), work);
        synced.map_err(Error::io("sync", &self.path))?;
        done
    }

    /// Gives the file its final name in the same folder, if nothing has it, and makes that durable.
    ///
    /// A hard link is used because it never replaces anything. A crash after the link leaves the whole file under
    /// both names; the temporary one is then only litter.
    ///
    /// # Errors
    /// `io`; the final name may then exist, if it was only the folder that could not be synced.
    pub fn publish(self, final_name: &str) -> Result<PublishOutcome> {
        let target = self.dir.join(final_name);
        if let Err(e) = fs::hard_link(&self.path, &target) {
            // Over NFS a link whose answer was lost is made all the same.
            if !self.is_same_file(&target)
                && !self.rename_if_links_are_missing(&e, &target).map_err(Error::io("publish", &target))?
            {
                return Ok(PublishOutcome::Exists(target));
            }
        }
        faults::point("publish.linked").map_err(Error::io("publish", &target))?;
        let dir = self.dir.clone();
        drop(self);
        sync_dir(&dir)?;
        Ok(PublishOutcome::Published(target))
    }

    /// Gives the file the name of another one in the same folder, which is let go. Not durable until the folder is
    /// synced.
    ///
    /// # Errors
    /// `io`; the other file is then still there.
    pub fn rename_over(self, target: &Path) -> Result<()> {
        // The temporary name is gone then, and dropping this removes nothing.
        fs::rename(&self.path, target).map_err(Error::io("replace", target))
    }

    #[cfg(unix)]
    fn is_same_file(&self, target: &Path) -> bool {
        match (self.file.metadata(), fs::symlink_metadata(target)) {
            (Ok(ours), Ok(theirs)) => identity(&ours) == identity(&theirs),
            _ => false,
        }
    }

    #[cfg(not(unix))]
    fn is_same_file(&self, target: &Path) -> bool {
        let _ = (identity, target);
        false
    }

    /// Where the file system knows no hard links: a rename that refuses to replace. False if the name is taken.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename_if_links_are_missing(&self, link: &io::Error, target: &Path) -> io::Result<bool> {
        use rustix::{
            fs::{CWD, RenameFlags, renameat_with},
            io::Errno,
        };
        let missing = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK, Errno::ACCESS];
        match Errno::from_io_error(link) {
            Some(Errno::EXIST) => Ok(false),
            Some(errno) if missing.contains(&errno) => {
                match renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
                    Ok(()) => Ok(true),
                    Err(Errno::EXIST) => Ok(false),
                    Err(e) => Err(e.into()),
                }
            }
            _ => Err(io::Error::new(link.kind(), link.to_string())),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn rename_if_links_are_missing(&self, link: &io::Error, _: &Path) -> io::Result<bool> {
        match link.kind() {
            io::ErrorKind::AlreadyExists => Ok(false),
            kind => Err(io::Error::new(kind, link.to_string())),
        }
    }
}

impl Write for Staged {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Gone already after a rename; nothing better can be done with another failure.
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a new file whole: temporary name, content, sync, final name without clobbering, sync of the folder.
///
/// # Errors
/// What `write` reports; `io`.
pub fn publish_new(
    dir: &Path,
    temporary: &str,
    final_name: &str,
    write: impl FnOnce(&mut File) -> Result<()>,
) -> Result<PublishOutcome> {
    let mut staged = Staged::create(dir, temporary)?;
    write(staged.file())?;
    staged.finish()?;
    staged.publish(final_name)
}

/// Replaces a file of ours atomically and durably: readers see the old bytes or the new ones. A file that was
/// there keeps its mode; a new one has 0600.
///
/// # Errors
/// `unsafe-path` if something other than a regular file has the name; `io`.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().expect("BUG: a file to replace has a folder");
    let old = match fs::symlink_metadata(path) {
        Ok(meta) => {
            require_regular(path, &meta)?;
            Some(meta.permissions())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(Fault::io("inspect", path, e).into()),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".offshoot-")
        .suffix(".tmp")
        .tempfile_in(dir)
        .map_err(Error::io("create a temporary file in", dir))?;
    temporary.write_all(bytes).map_err(Error::io("write", temporary.path()))?;
    if let Some(mode) = old {
        temporary.as_file().set_permissions(mode).map_err(Error::io("set the mode of", temporary.path()))?;
    }
    temporary.as_file().sync_all().map_err(Error::io("sync", temporary.path()))?;
    temporary.persist(path).map_err(|e| Fault::io("replace", path, e.error))?;
    sync_dir(dir)
}

/// Appends bytes with a single `write`, so that a process that appends at the same time lands before or after
/// them and never inside. The file must have been opened for appending.
///
/// # Errors
/// `io`; after a short write (a full disk) `detail.written` says how many bytes are there.
pub fn append_once(file: &File, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut writer: &File = file;
    let written = loop {
        match writer.write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other.map_err(Error::io("append to", path))?,
        }
    };
    if written == bytes.len() {
        return Ok(());
    }
    let short = io::Error::new(
        io::ErrorKind::WriteZero,
        format!("only {written} of {} bytes were written", bytes.len()),
    );
    let mut fault = Fault::io("append to", path, short);
    fault.detail["written"] = json!(written);
    Err(fault.into())
}

/// Creates a file with mode 0600 under a name that is free.
///
/// # Errors
/// `io`, also if the name is taken.
pub fn create_new(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).read(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(Error::io("create", path))
}

/// Removes a folder of ours and all that is in it, if it is there.
///
/// # Errors
/// `io`.
pub fn remove_dir_if_there(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Removes a file of ours, if it is there.
///
/// # Errors
/// `io`.
pub fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(e)),
        _ => Ok(()),
    }
}

/// A file without a name, in the system's folder for such; it is gone when it is closed.
///
/// # Errors
/// `io`.
pub fn unnamed() -> Result<File> {
    tempfile::tempfile().map_err(Error::io("create a file in", &std::env::temp_dir()))
}

/// Makes the names in a folder durable.
///
/// # Errors
/// `io`.
#[cfg(unix)]
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(Error::io("sync the folder", dir))
}

/// Makes the names in a folder durable: not possible here, and not needed on the file systems in use.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn sync_dir(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_published_file_replaces_nothing_and_leaves_no_temporary_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &'static [u8]| {
            publish_new(dir.path(), "t.tmp", "final", |f| {
                f.write_all(text).map_err(Error::io("write", dir.path()))
            })
        };
        assert_eq!(write(b"one").unwrap(), PublishOutcome::Published(dir.path().join("final")));
        assert_eq!(write(b"two").unwrap(), PublishOutcome::Exists(dir.path().join("final")));
        assert_eq!(fs::read(dir.path().join("final")).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["final"]);
    }

    #[test]
    #[cfg(unix)]
    fn new_files_are_private_and_a_symlink_in_the_way_is_not_followed() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join("final")).unwrap();
        let outcome = publish_new(dir.path(), "t.tmp", "final", |_| Ok(())).unwrap();
        assert_eq!(outcome, PublishOutcome::Exists(dir.path().join("final")));
        assert_eq!(names(dir.path()), ["final"]);
        publish_new(dir.path(), "t.tmp", "other", |_| Ok(())).unwrap();
        assert_eq!(fs::metadata(dir.path().join("other")).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_staged_file_that_is_dropped_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut staged = Staged::create(dir.path(), "t.tmp").unwrap();
        staged.write_all(b"x").unwrap();
        assert!(Staged::create(dir.path(), "t.tmp").is_err(), "the name is taken");
        assert_eq!(names(dir.path()), ["t.tmp"]);
        drop(staged);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    #[cfg(unix)]
    fn replacing_keeps_the_mode_and_refuses_a_symlink() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(replace(&link, b"three").unwrap_err().code(), "unsafe-path");
        assert_eq!(names(dir.path()), ["f", "link"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_a_fault_that_names_the_file() {
        let path = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(path).unwrap();
        let error = append_once(&file, path, b"line\n").unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("/dev/full")), ("io", true));
    }
}
