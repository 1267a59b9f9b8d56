//! The state directory: ledgers, operations, labels, kept policies, and locks that could not lie elsewhere.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{env::Env, private};
use crate::refusal::{Code, Error, Refusal, Result};

/// An existing directory that nobody else can write to. Folders in it are made with mode 0700.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Where the state lies unless the command line says otherwise: `OFFSHOOT_STATE_DIR`, else
    /// `$XDG_STATE_HOME/offshoot`, else `~/.local/state/offshoot`.
    ///
    /// # Errors
    /// `usage` if none of the three variables is set.
    pub fn default_root(env: &Env) -> Result<PathBuf> {
        if let Some(dir) = &env.state_dir {
            return Ok(dir.clone());
        }
        if let Some(base) = &env.xdg_state_home {
            return Ok(base.join("offshoot"));
        }
        if let Some(home) = &env.home {
            return Ok(home.join(".local/state/offshoot"));
        }
        Err(Refusal::new(Code::Usage, "there is no place for the state directory: `HOME` is not set")
            .hint("set `OFFSHOOT_STATE_DIR` or pass `--state-dir`")
            .into())
    }

    /// Opens the directory and creates it, with mode 0700, if it is not there.
    ///
    /// A symlink is followed if it is the user's own; the directory must be theirs too, and not writable for all,
    /// since whoever can write here can forge a recorded choice.
    ///
    /// # Errors
    /// `unsafe-path` for what is said above; `io`.
    pub fn open(root: PathBuf) -> Result<StateDir> {
        create_private(&root)?;
        let link = fs::symlink_metadata(&root).map_err(Error::io("inspect", &root))?;
        let real = fs::canonicalize(&root).map_err(Error::io("resolve", &root))?;
        let meta = fs::metadata(&real).map_err(Error::io("inspect", &real))?;
        if !meta.is_dir() {
            return Err(unsafe_path(&real, "is not a directory"));
        }
        check_private(&root, &link, &real, &meta)?;
        Ok(StateDir { root: real })
    }

    /// The directory itself, without symlinks.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the directory. `relative` is ours: fixed names, or ids that were encoded before.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A folder below the directory, created with mode 0700 if it is not there.
    ///
    /// # Errors
    /// `unsafe-path` for a link, a foreign owner or a world-writable folder; `io`.
    pub fn folder(&self, relative: impl AsRef<Path>) -> Result<PathBuf> {
        private::ensure_below(&self.root, relative)
    }
}

/// Creates a folder and what is missing above it with mode 0700; what exists is left alone.
fn create_private(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(unsafe_path(path, "is not a directory")),
        other => other.map_err(Error::io("create", path)),
    }
}

#[cfg(unix)]
fn check_private(root: &Path, link: &fs::Metadata, real: &Path, meta: &fs::Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    if link.uid() != me && link.file_type().is_symlink() {
        return Err(unsafe_path(root, "is a symlink that belongs to another user"));
    }
    if meta.uid() != me {
        return Err(unsafe_path(real, "belongs to another user"));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(unsafe_path(real, "can be written by everybody"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path, _: &fs::Metadata, _: &Path, _: &fs::Metadata) -> Result<()> {
    Ok(())
}

/// The refusal for a path that must not be used; `why` completes "`path` ...".
pub fn unsafe_path(path: &Path, why: &str) -> Error {
    Refusal::new(Code::UnsafePath, format!("`{}` {why}", path.display()))
        .detail(json!({"path": path.display().to_string(), "reason": why}))
        .into()
}
