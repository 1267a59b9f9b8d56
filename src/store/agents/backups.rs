//! File-history backups: a fork that refers to them gets copies under its own session id, as the clients' own forks do.
//! Both agents keep them in `file-history/<session id>/` below their home.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::{
    claude,
    qwen::{QwenDirs, home::checked},
};
use crate::{
    record::Agent,
    refusal::{Error, Result},
    store::{
        atomic::{create_new, remove_dir_if_there, sync_dir},
        faults,
    },
};

/// The backups of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backups {
    /// The folder of all sessions' backups.
    pub root: PathBuf,
    /// The session.
    pub session_id: String,
}

impl Backups {
    /// Those of the session whose transcript is at a canonical `path`, and whose records call it `session_id`. None
    /// where the client does not look for the transcript either: of Claude Code, which knows a session by the name
    /// of its file, outside of its place.
    pub fn of(agent: Agent, path: &Path, session_id: &str, qwen: &QwenDirs) -> Option<Backups> {
        let (home, session_id) = match agent {
            Agent::Qwen => (qwen.home.clone(), session_id.to_owned()),
            Agent::Claude => claude::place_of(path).map(|place| (place.config, place.session_id))?,
            // What is a session's own lies in its folder.
            Agent::Reasonix => return None,
        };
        Some(Backups { root: home.join("file-history"), session_id })
    }

    /// The folder of the session.
    ///
    /// # Errors
    /// `unsafe-path` if the id could lead elsewhere.
    pub fn folder(&self) -> Result<PathBuf> {
        Ok(self.root.join(checked(&self.session_id)?))
    }
}

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

/// Copies the named backups of one session to another. One that is missing, or is no regular file, is noted and left out: the
/// client then cannot take back the changes of that file in the child, and goes on. Links are never followed.
///
/// # Errors
/// `unsafe-path` for ids that are none; `io`.
pub fn copy_backups(from: &Backups, to: &Backups, names: &[String]) -> Result<Copied> {
    let mut copied = Copied::default();
    if names.is_empty() {
        return Ok(copied);
    }
    let (source, target) = (from.folder()?, to.folder()?);
    remove_backups(to)?;
    // What is no folder of its own holds none of them.
    let held = fs::symlink_metadata(&source).is_ok_and(|m| m.is_dir());
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&to.root).map_err(Error::io("create", &to.root))?;
    builder.recursive(false).create(&target).map_err(Error::io("create", &target))?;
    copied.folder = Some(target.clone());
    for name in names {
        // The dialects give plain names; a slip there must not lead out of the folder.
        let plain = Path::new(name).file_name().is_some_and(|n| n == name.as_str());
        let missing = match plain && held {
            true => copy(&source.join(name), &target.join(name))?,
            false => Some("missing"),
        };
        match missing {
            None => faults::point("backup-copied").map_err(Error::io("copy to", &target))?,
            Some(why) => copied.notes.push(format!(
                "backup `{name}` is {why}; changes to that file cannot be taken back in the child"
            )),
        }
    }
    sync_dir(&target)?;
    sync_dir(&to.root)?;
    Ok(copied)
}

/// Says why there is nothing to copy, if so.
///
/// The copy has the permissions of the original: the clients give a file that they restore those of its backup
/// (measured with Claude Code). The folder is private.
fn copy(from: &Path, to: &Path) -> Result<Option<&'static str>> {
    const IRREGULAR: &str = "no regular file";
    match fs::symlink_metadata(from) {
        Ok(meta) if !meta.is_file() => return Ok(Some(IRREGULAR)),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Some("missing")),
        Err(e) => return Err(Error::io("inspect", from)(e)),
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NOFOLLOW.bits() as i32 | rustix::fs::OFlags::NONBLOCK.bits() as i32,
    );
    let mut source = options.open(from).map_err(Error::io("open", from))?;
    let meta = source.metadata().map_err(Error::io("inspect", from))?;
    if !meta.is_file() {
        return Ok(Some(IRREGULAR));
    }
    let mut target = create_new(to)?;
    io::copy(&mut source, &mut target)
        .and_then(|_| permissions(&target, &meta))
        .and_then(|()| target.sync_all())
        .map_err(Error::io("copy to", to))?;
    Ok(None)
}

#[cfg(unix)]
fn permissions(file: &File, of: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(of.permissions().mode() & 0o777))
}

#[cfg(not(unix))]
fn permissions(_: &File, _: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Removes the copies made for a child that was not published.
///
/// # Errors
/// `unsafe-path` for an id that is none; `io`.
pub fn remove_backups(child: &Backups) -> Result<()> {
    remove_dir_if_there(&child.folder()?)
}
