//! The redacted form of a transcript, all of the file: what stands behind its last whole line as well.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use super::{atomic::PublishOutcome, file::FileSource, new_file, state::unsafe_path};
use crate::{
    dialect::Redactor,
    refusal::{Error, Result},
    transcript::Source,
};

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;

/// A redacted transcript in a temporary file without a name.
pub struct Redacted {
    source: FileSource,
}

impl Redacted {
    /// Redacts a file, up to the length it had when it was opened. It takes its place in the folder of `target`, where it is
    /// to be published, if there is such, else in the system's folder for temporary files.
    ///
    /// # Errors
    /// `unsafe-path` for anything but a regular file, and where `target` is taken or is none; `io`.
    pub fn of(path: &Path, mut redactor: Redactor, target: Option<&Path>) -> Result<Redacted> {
        let source = FileSource::open(path)?;
        let dir = match target {
            Some(target) => free(target)?.0,
            None => std::env::temp_dir(),
        };
        let file = tempfile::tempfile_in(&dir).map_err(Error::io("create a temporary file in", &dir))?;
        let failed = |e| Error::io("write a temporary file in", &dir)(e);
        let mut out = BufWriter::new(file);
        lines(&source, path, &mut |line| {
            let mut redacted = Vec::with_capacity(line.len());
            redactor.line(line, &mut redacted);
            out.write_all(&redacted).map_err(failed)
        })?;
        let file = out.into_inner().map_err(|e| failed(e.into_error()))?;
        Ok(Redacted { source: FileSource::of(file, &dir.join("(temporary)"))? })
    }

    /// Its bytes.
    pub fn source(&self) -> &FileSource {
        &self.source
    }

    /// Hands out its bytes in pieces.
    ///
    /// # Errors
    /// `io`; what `write` says.
    pub fn copy(&self, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let path = self.source.path();
        self.pieces(|read| write(read.map_err(Error::io("read", path))?))
    }

    /// Puts it under a name that must be new, whole or not at all.
    ///
    /// # Errors
    /// `unsafe-path` if the name is taken; `io`.
    pub fn publish(&self, path: &Path) -> Result<()> {
        publish(path, &mut |out| self.pieces(|read| out.write_all(read?)))
    }

    fn pieces<E>(&self, mut each: impl FnMut(io::Result<&[u8]>) -> Result<(), E>) -> Result<(), E> {
        let (len, mut chunk, mut at) = (self.source.len(), vec![0; CHUNK], 0);
        while at < len {
            let n = (len - at).min(CHUNK as u64) as usize;
            let read = self.source.read_exact_at(at, &mut chunk[..n]);
            each(read.map(|()| &chunk[..n]))?;
            at += n as u64;
        }
        Ok(())
    }
}

/// Puts these bytes under a name that must be new, whole or not at all.
///
/// # Errors
/// `unsafe-path` if the name is taken or is none; `io`.
pub fn publish_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    publish(path, &mut |out| out.write_all(bytes))
}

fn publish(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let (dir, name) = free(path)?;
    match new_file::publish(&dir, name, fill)? {
        PublishOutcome::Published(_) => Ok(()),
        PublishOutcome::Exists(path) => Err(unsafe_path(&path, "exists already and is not overwritten")),
    }
}

/// The folder of a name that must be new, and the name in it.
fn free(path: &Path) -> Result<(PathBuf, &str)> {
    let Some(name) = path.file_name() else { return Err(unsafe_path(path, "is no name of a file")) };
    if fs::symlink_metadata(path).is_ok() {
        return Err(unsafe_path(path, "exists already and is not overwritten"));
    }
    let Some(name) = name.to_str() else { return Err(unsafe_path(path, "is no name in UTF-8")) };
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((dir, name))
}

/// Hands out each line with its line feed, and what stands behind the last one.
fn lines(source: &FileSource, path: &Path, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (len, mut chunk, mut at) = (source.len(), vec![0; CHUNK], 0u64);
    let mut line: Vec<u8> = Vec::new();
    while at < len {
        let n = (len - at).min(CHUNK as u64) as usize;
        source.read_exact_at(at, &mut chunk[..n]).map_err(Error::io("read", path))?;
        for piece in chunk[..n].split_inclusive(|&b| b == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                each(&line)?;
                line.clear();
            }
        }
        at += n as u64;
    }
    if line.is_empty() { Ok(()) } else { each(&line) }
}
