//! File-history backups: a fork that refers to them gets copies under its own session id, as the client's own
//! fork does.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::home::QwenDirs;
use crate::{
    refusal::{Error, Result},
    store::{atomic::sync_dir, faults, file::require_regular},
};

/// Copies that are removed again unless they are kept.
#[must_use = "dropping it removes the copies"]
#[derive(Debug, Default)]
pub struct Copied {
    /// What could not be copied, in words.
    pub notes: Vec<String>,
    folder: Option<PathBuf>,
}

impl Copied {
    /// Keeps the copies: the child that refers to them is published.
    pub fn keep(mut self) {
        self.folder = None;
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Copies the named backups of one session to another. A backup that is missing is noted: the client then cannot
/// rewind that file in the child, and goes on.
///
/// # Errors
/// `unsafe-path` for ids that are none; `io`.
pub fn copy_backups(dirs: &QwenDirs, from: &str, to: &str, names: &[String]) -> Result<Copied> {
    let mut copied = Copied::default();
    if names.is_empty() {
        return Ok(copied);
    }
    let source = dirs.file_history(from)?;
    let target = dirs.file_history(to)?;
    remove_backups(dirs, to)?;
    let root = target.parent().expect("BUG: a session's folder has a parent");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(root).map_err(Error::io("create", root))?;
    builder.recursive(false).create(&target).map_err(Error::io("create", &target))?;
    copied.folder = Some(target.clone());
    for name in names {
        match copy(&source.join(name), &target.join(name)) {
            Ok(true) => faults::point("backup-copied").map_err(Error::io("copy to", &target))?,
            Ok(false) => copied
                .notes
                .push(format!("backup `{name}` is missing; that file cannot be rewound in the child")),
            Err(error) => return Err(error),
        }
    }
    sync_dir(&target)?;
    sync_dir(root)?;
    Ok(copied)
}

/// False if there is no such file.
fn copy(from: &Path, to: &Path) -> Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NOFOLLOW.bits() as i32 | rustix::fs::OFlags::NONBLOCK.bits() as i32,
    );
    let mut source = match options.open(from) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(Error::io("open", from)(e)),
    };
    require_regular(from, &source.metadata().map_err(Error::io("inspect", from))?)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut target = options.open(to).map_err(Error::io("create", to))?;
    io::copy(&mut source, &mut target).and_then(|_| target.sync_all()).map_err(Error::io("copy to", to))?;
    Ok(true)
}

/// Removes the copies made for a child that was not published.
///
/// # Errors
/// `unsafe-path` for an id that is none; `io`.
pub fn remove_backups(dirs: &QwenDirs, child: &str) -> Result<()> {
    let folder = dirs.file_history(child)?;
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &folder)(e)),
        _ => Ok(()),
    }
}
