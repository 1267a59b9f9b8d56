//! A file that somebody named, and that is there whole or not at all.
//!
//! Where the system knows files without a name, it has none before it is whole: however the process ends, nothing is left
//! beside it. Elsewhere it stands under a temporary name, which a kill leaves behind.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use super::atomic::{PublishOutcome, Staged, sync_dir};
use crate::refusal::{Error, Result};

/// Puts what `fill` writes under `dir/name`, which must be free. `fill` may be called a second time, with another file.
///
/// # Errors
/// What `fill` says; `io`.
pub fn publish(
    dir: &Path,
    name: &str,
    fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<PublishOutcome> {
    let target = dir.join(name);
    if let Some(mut file) = unnamed(dir) {
        fill(&mut file).map_err(Error::io("write", &target))?;
        file.sync_all().map_err(Error::io("sync", &target))?;
        match link(&file, &target) {
            Ok(()) => {
                sync_dir(dir)?;
                return Ok(PublishOutcome::Published(target));
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(PublishOutcome::Exists(target)),
            // No `/proc`, or a file system that gives such a file no name: the other way may be open.
            Err(_) => {}
        }
    }
    let mut staged = Staged::create(dir, &format!(".{name}.offshoot-{}", std::process::id()))?;
    fill(staged.file()).map_err(Error::io("write", &target))?;
    staged.finish()?;
    staged.publish(name)
}

/// A file without a name in a folder, of mode 0600, if there is such a thing.
#[cfg(target_os = "linux")]
fn unnamed(dir: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(OFlags::TMPFILE.bits() as i32);
    options.open(dir).ok()
}

#[cfg(target_os = "linux")]
fn link(file: &File, target: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};

    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, target, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn it_is_whole_and_new_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &'static [u8]| publish(dir.path(), "f", &mut |out| out.write_all(text)).unwrap();
        assert_eq!(write(b"one"), PublishOutcome::Published(dir.path().join("f")));
        assert_eq!(write(b"two"), PublishOutcome::Exists(dir.path().join("f")));
        assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"one");
        let failed = publish(dir.path(), "g", &mut |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!((failed.code(), failed.to_string().contains("/g`")), ("io", true), "{failed}");
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn it_has_no_name_before_it_is_whole() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        if unnamed(dir.path()).is_none() {
            // A file system that knows no such files: nothing to be seen here.
            return;
        }
        publish(dir.path(), "f", &mut |out| {
            assert!(names(dir.path()).is_empty());
            out.write_all(b"x")
        })
        .unwrap();
        assert_eq!(fs::metadata(dir.path().join("f")).unwrap().mode() & 0o777, 0o600);
    }
}
