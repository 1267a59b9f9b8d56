//! A folder that is published whole, by one rename, or not at all.

use std::{
    fs::{self, DirBuilder},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    refusal::{Error, Result},
    store::{
        atomic, file,
        signals::{self, Cleanup},
    },
};

/// A folder under its temporary name, removed again unless it is published.
#[must_use = "dropping it removes the folder"]
pub(super) struct Staged {
    pub dir: PathBuf,
    cleanup: Option<Cleanup>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = atomic::remove_dir_if_there(&self.dir);
    }
}

impl Staged {
    /// An empty folder; what an earlier try left under the name is removed.
    pub fn new(dir: PathBuf) -> Result<Staged> {
        atomic::remove_dir_if_there(&dir)?;
        new_folder(&dir)?;
        Ok(Staged { dir, cleanup: None })
    }

    /// Removes it also where a signal ends the process. Whoever fills it must make no folder above those within it again.
    pub fn removed_by_signals(mut self) -> Staged {
        let dir = self.dir.clone();
        self.cleanup = Some(signals::on_exit(move || remove_for_good(&dir)));
        self
    }

    /// Gives it a name that must be free; false if it is not. Not durable until the folder around it is synced.
    pub fn publish(mut self, target: &Path) -> Result<bool> {
        // What is being removed must not get a name.
        let _writing = signals::uninterrupted();
        let published = rename_new(&self.dir, target).map_err(Error::io("publish", target))?;
        if published {
            drop(self.cleanup.take());
            // There is nothing left under the temporary name.
            std::mem::forget(self);
        }
        Ok(published)
    }
}

/// Another thread may still make files in the folder; it can no more once the folder that they stand in is gone.
fn remove_for_good(dir: &Path) {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        if atomic::remove_dir_if_there(dir).is_ok() && !file::exists(dir) {
            return;
        }
    }
}

pub(super) fn new_folder(path: &Path) -> Result<()> {
    make(path).map_err(Error::io("create", path))
}

/// A folder that may be there; the one that it stands in is not made again where a signal had it removed.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match make(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn make(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = atomic::create_new(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::io("write", path))
}

/// Renames a folder to a name that must be free. False if it is not.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // Not on every file system.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_unless_there(from, to),
        Err(e) => Err(e.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    rename_unless_there(from, to)
}

/// A rename replaces no folder that has anything in it, and a session folder has.
fn rename_unless_there(from: &Path, to: &Path) -> io::Result<bool> {
    if file::exists(to) {
        return Ok(false);
    }
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(_) if file::exists(to) => Ok(false),
        Err(e) => Err(e),
    }
}
