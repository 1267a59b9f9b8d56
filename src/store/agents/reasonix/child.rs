//! A child: a new session folder in its parent's root, made beside its place, replayed, and published by one rename.

use std::{
    fs,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    LOG, ReasonixSession,
    family::{self, not_what_was_made},
    folder::{Staged, new_folder, write_file},
};
use crate::{
    dialect::reasonix::{
        child::{self, ChildSpec},
        commit::Commits,
        ids,
        manifest::{Manifest, Source},
        record::CODEC,
    },
    refusal::{Error, Fault, Result},
    store::{
        atomic, faults,
        file::{self, FileSource},
        state::unsafe_path,
    },
};

/// Folders of a session whose files are its own.
const OWNED: [&str; 3] = ["attachments", "assets", "legacy"];

/// What came of publishing a child.
#[derive(Debug, PartialEq, Eq)]
pub enum Published {
    /// It is there, durably.
    New(PathBuf),
    /// Something has its name; nothing was changed.
    Exists(PathBuf),
}

/// Where a child stands before it is published. A dot-name is no session to the client.
pub fn staged_path(root: &Path, child: &str) -> PathBuf {
    root.join(format!(".{child}.fork-offshoot"))
}

/// Makes a child that holds the parent's commits up to the sequence `through`, and publishes it. The parent is only read.
///
/// `confirm` is given the whole child, as it will be read, before it is published.
///
/// # Errors
/// `unsafe-path` for an id that is no folder name, or an owned file that is no regular file; the fault `damaged`; `io`;
/// what `confirm` reports. Nothing is left then, except where a crash stops this half way: [`remove_staged`].
pub fn publish_child(
    parent: &ReasonixSession,
    child: &str,
    through: u64,
    now: Timestamp,
    confirm: impl FnOnce(&FileSource) -> Result<()>,
) -> Result<Published> {
    let root = parent.root();
    if !ids::is_session_id(child) {
        return Err(unsafe_path(Path::new(child), "is no id that a session can have"));
    }
    let target = root.join(child);
    if file::exists(&target) {
        return Ok(Published::Exists(target));
    }
    // A crash of an earlier try of the same operation may have left it.
    let staged = Staged::new(staged_path(root, child))?;
    let commits = write(&staged.dir, parent, child, through, now)?;
    faults::at("reasonix-staged", &staged.dir)?;
    let made = ReasonixSession::open_as(&staged.dir, child)?;
    let contents = parent.contents();
    let mut replay = Commits::new(&made.log, &contents);
    let mut replayed = 0;
    while replay.next_commit().map_err(|t| t.into_error(made.log.path()))?.is_some() {
        replayed += 1;
    }
    if replayed != commits || replay.last_seq() != through {
        return Err(not_what_was_made(&staged.dir, "its log is not what was written"));
    }
    confirm(&family::open_staged(&staged.dir, child)?)?;
    if !staged.publish(&target)? {
        return Ok(Published::Exists(target));
    }
    faults::point("reasonix-renamed").map_err(Error::io("publish", &target))?;
    atomic::sync_dir(root)?;
    Ok(Published::New(target))
}

/// Removes what a crash left of a child that was not published.
///
/// # Errors
/// `io`.
pub fn remove_staged(staged: &Path) -> Result<()> {
    atomic::remove_dir_if_there(staged)
}

/// Writes everything that the child has, durably. How many commits that is.
fn write(dir: &Path, parent: &ReasonixSession, child: &str, through: u64, now: Timestamp) -> Result<u64> {
    let log_path = dir.join(LOG);
    let contents = parent.contents();
    let spec = ChildSpec { parent: &parent.id, child, through };
    let mut out = BufWriter::with_capacity(256 * 1024, atomic::create_new(&log_path)?);
    let log =
        child::write(&parent.log, &contents, &spec, &mut out).map_err(|t| t.into_error(parent.log.path()))?;
    faults::point("reasonix-log-written").map_err(Error::io("write", &log_path))?;
    let log_file = out.into_inner().map_err(|e| Fault::io("write", &log_path, e.into_error()))?;
    log_file.sync_all().map_err(Error::io("sync", &log_path))?;
    let created_at = now.to_string();
    let source = Source {
        path: parent.dir.display().to_string(),
        size: log.bytes,
        sha256: log.sha256,
        version: CODEC.to_owned(),
        legacy_head_id: None,
    };
    let manifest = Manifest::of_child(child, created_at.clone(), through, source);
    write_file(&dir.join("manifest.json"), &manifest.to_json())?;
    if let Some(header) = &parent.header {
        write_file(&dir.join("header.json"), &header.of_child(child, &created_at).to_json())?;
    }
    for owned in OWNED {
        copy_folder(&parent.dir.join(owned), &dir.join(owned))?;
    }
    atomic::sync_dir(dir)?;
    Ok(log.commits)
}

/// Copies a folder of a session's own files, if it is there, as real files. A link would be a way out of the session.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    match fs::symlink_metadata(from) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Fault::io("inspect", from, e).into()),
        Ok(meta) if !meta.is_dir() => return Err(unsafe_path(from, "is no folder")),
        Ok(_) => {}
    }
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    let mut made = Vec::new();
    while let Some((from, to)) = folders.pop() {
        new_folder(&to)?;
        for entry in fs::read_dir(&from).map_err(Error::io("list", &from))? {
            let entry = entry.map_err(Error::io("list", &from))?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type().map_err(Error::io("inspect", &source))?;
            if kind.is_dir() {
                folders.push((source, target));
            } else if kind.is_file() {
                copy_file(&source, &target)?;
            } else {
                return Err(unsafe_path(&source, "is no regular file, and a child has copies of its own"));
            }
        }
        made.push(to);
    }
    made.iter().rev().try_for_each(|folder| atomic::sync_dir(folder))
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let source = FileSource::open_file(from)?;
    let mut file = atomic::create_new(to)?;
    io::copy(&mut source.file(), &mut file).map_err(Error::io("copy", from))?;
    file.sync_all().map_err(Error::io("sync", to))
}
