//! Another file in a transcript's place: a backup first, then one rename.
//!
//! A crash leaves the old file or the new one under the transcript's name, each of them whole and durable, and the
//! backup from before the rename on. Access lists and extended attributes are not carried over; mode and owner are.

use std::{
    fs::{self, Metadata},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{
    atomic::{PublishOutcome, Staged, sync_dir},
    faults,
    file::{FileSource, exists},
    writer::raced,
};
use crate::{
    refusal::{Error, Fault, Result},
    transcript::{PrefixDigest, Source},
};

const BLOCK: usize = 256 << 10;

/// A name for a backup of `path` made at a time (`20261130T164353Z`) that nothing has.
pub fn backup_path(path: &Path, time: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let with = |suffix: &str| path.with_file_name(format!("{name}.bak.{time}{suffix}"));
    let free = (1u32..).map(|n| if n == 1 { with("") } else { with(&format!(".{n}")) });
    free.into_iter().find(|p| !exists(p)).expect("BUG: not all names are taken")
}

fn each_block(content: &dyn Source, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let len = content.len();
    let mut block = vec![0; BLOCK.min(usize::try_from(len).unwrap_or(BLOCK))];
    let mut at = 0;
    while at < len {
        let n = (len - at).min(BLOCK as u64) as usize;
        content.read_exact_at(at, &mut block[..n])?;
        take(&block[..n])?;
        at += n as u64;
    }
    Ok(())
}

/// Writes a file under a temporary name, mode 0600, durable, and reads it back: its digest is `expected`.
///
/// # Errors
/// `io`; the temporary file is then gone.
pub fn stage(
    content: &dyn Source,
    from: &Path,
    temporary: &Path,
    expected: &str,
    half: &'static str,
) -> Result<Staged> {
    let dir = temporary.parent().expect("BUG: a temporary file has a folder");
    let name = temporary.file_name().expect("BUG: a temporary file has a name").to_string_lossy();
    let mut staged = Staged::create(dir, &name)?;
    let mut failed = None;
    let written =
        each_block(content, &mut |block| staged.write_all(block).inspect_err(|e| failed = Some(e.kind())));
    // The two sides of a copy fail for different reasons, and are to be named.
    written.map_err(Error::io(
        if failed.is_some() { "write" } else { "read" },
        if failed.is_some() { temporary } else { from },
    ))?;
    faults::halfway(half, b"", |_| {
        let file = staged.file();
        file.set_len(file.metadata()?.len() / 2)
    })
    .map_err(Error::io("write", temporary))?;
    staged.finish()?;
    let there = FileSource::open(temporary)?;
    if PrefixDigest::of(&there, there.len()).map_err(Error::io("read", temporary))?.stated() != expected {
        let other = io::Error::new(io::ErrorKind::InvalidData, "what was written is not what was to be");
        return Err(Fault::io("write", temporary, other).into());
    }
    Ok(staged)
}

/// Gives a staged backup its name.
///
/// # Errors
/// `io`, also if something has that name.
pub fn publish_backup(staged: Staged, backup: &Path) -> Result<()> {
    let name = backup.file_name().expect("BUG: a backup has a name").to_string_lossy();
    match staged.publish(&name)? {
        PublishOutcome::Published(_) => Ok(()),
        PublishOutcome::Exists(path) => {
            Err(Fault::io("create", &path, io::ErrorKind::AlreadyExists.into()).into())
        }
    }
}

/// Gives a staged file the mode and owner of the file that it is to replace.
///
/// # Errors
/// `io`.
pub fn dress(staged: &mut Staged, like: &Metadata) -> Result<()> {
    let path = staged.path().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let ours = staged.file().metadata().map_err(Error::io("inspect", &path))?;
        if (ours.uid(), ours.gid()) != (like.uid(), like.gid()) {
            fchown(staged.file(), Some(like.uid()), Some(like.gid()))
                .map_err(Error::io("give the owner of the transcript to", &path))?;
        }
    }
    // Behind the owner: a change of owner may take mode bits away.
    staged.file().set_permissions(like.permissions()).map_err(Error::io("set the mode of", &path))?;
    staged.file().sync_all().map_err(Error::io("sync", &path))
}

/// Puts a staged file in the place of `old`, whose open handle is given, and makes that durable.
///
/// # Errors
/// `io`; the fault `raced` if somebody wrote to the old file up to the last moment: those bytes are then kept beside
/// the backup.
pub fn put_in_place(staged: Staged, path: &Path, old: &FileSource, backup: &Path) -> Result<()> {
    staged.rename_over(path)?;
    faults::point("replace-renamed").map_err(Error::io("replace", path))?;
    sync_dir(path.parent().expect("BUG: a file to replace has a folder"))?;
    let now = old.file().metadata().map_err(Error::io("inspect", path))?.len();
    if now <= Source::len(old) {
        return Ok(());
    }
    let late = rescue(old, now, backup)?;
    let why = format!("{} bytes came while it was replaced; they are in `{}`", now - Source::len(old), late);
    Err(raced(path, &why, 0, Source::len(old)).into())
}

/// Keeps what was appended to a file that has lost its name.
fn rescue(old: &FileSource, now: u64, backup: &Path) -> Result<String> {
    let from = Source::len(old);
    let name = backup.file_name().unwrap_or_default().to_string_lossy();
    let path = backup.with_file_name(format!("{name}.late"));
    let dir = path.parent().expect("BUG: a backup has a folder");
    let mut staged = Staged::create(dir, &format!(".{name}.late.offshoot.tmp"))?;
    let mut late = vec![0; usize::try_from(now - from).unwrap_or(usize::MAX)];
    super::file::read_exact_at(old.file(), from, &mut late).map_err(Error::io("read", old.path()))?;
    staged.write_all(&late).map_err(Error::io("write", &path))?;
    staged.finish()?;
    publish_backup(staged, &path)?;
    Ok(path.display().to_string())
}

/// Whether a file begins with these bytes.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn begins_with(path: &Path, bytes: u64, expected: &str) -> Result<bool> {
    let source = FileSource::open(path)?;
    if source.len() < bytes {
        return Ok(false);
    }
    Ok(PrefixDigest::of(&source, bytes).map_err(Error::io("read", path))?.stated() == expected)
}

/// Whether a file is exactly these bytes. False if it is not there.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn is(path: &Path, bytes: u64, expected: &str) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Fault::io("inspect", path, e).into()),
        Ok(meta) => Ok(meta.len() == bytes && begins_with(path, bytes, expected)?),
    }
}
