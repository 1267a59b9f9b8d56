//! The content store of a root.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    dialect::reasonix::content::Contents, refusal::Error, store::file::FileSource, transcript::Source,
};

/// The content store beside the sessions of a root.
#[derive(Clone, Debug)]
pub struct DiskContents {
    root: PathBuf,
}

impl DiskContents {
    /// That of the root in which the sessions lie. What else a manifest may name is not honoured, as by the client.
    pub fn of_root(root: &Path) -> DiskContents {
        DiskContents { root: root.join(".content-v1") }
    }

    fn open(&self, kind: &str, digest: &str, extension: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        let hex =
            digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !hex {
            return Ok(None);
        }
        let folder = self.root.join(kind).join(&digest[..2]).join(&digest[2..4]);
        match FileSource::open_file(&folder.join(format!("{digest}{extension}"))) {
            Ok(source) => Ok(Some(Box::new(source))),
            Err(Error::Fault(fault)) => match fault.source {
                Some(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
                Some(e) => Err(e),
                None => Err(io::Error::other(fault.message)),
            },
            // No regular file: not what the log means.
            Err(Error::Refusal(_)) => Ok(None),
        }
    }
}

impl Contents for DiskContents {
    fn object(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        self.open("objects", digest, "")
    }

    fn index(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        self.open("indexes", digest, ".json")
    }
}
