//! A transcript as it was when something was recorded of it.

use std::path::Path;

use super::{agents::reasonix, file::FileSource, ledger::entry::SnapshotRef};
use crate::{
    refusal::{Error, Result},
    transcript::{PrefixDigest, Source},
};

/// The bytes that a snapshot was taken of; none if they are not there any more. What was appended since is left out: of a
/// single file what follows them, of a session of several files what follows in each.
///
/// # Errors
/// `io`, `unsafe-path`; for a session of several files also `damaged` and `unsupported-version`.
pub fn open_then(path: &Path, snapshot: &SnapshotRef) -> Result<Option<FileSource>> {
    let source = if snapshot.parts.is_empty() {
        Some(FileSource::open_file(path)?)
    } else {
        let parts: Vec<(String, u64)> =
            snapshot.parts.iter().map(|p| (p.session_id.clone(), p.bytes)).collect();
        reasonix::open_rendered_at(path, &parts)?
    };
    let Some(mut source) = source.filter(|s| s.len() >= snapshot.bytes) else { return Ok(None) };
    source.truncate_to(snapshot.bytes);
    let digest = PrefixDigest::of(&source, snapshot.bytes).map_err(Error::io("read", path))?;
    Ok((digest.stated() == snapshot.digest).then_some(source))
}
