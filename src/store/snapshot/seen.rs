//! What a person was shown of a transcript, and whether it still stands there: a write that was decided by looking is
//! made on what was looked at, and on nothing else.

use std::{fs, io};

use serde_json::json;

use super::{Snapshot, changed, read_error};
use crate::{
    refusal::{Error, Result},
    store::{
        file::{FileSource, identity},
        ledger::entry::PartRef,
    },
    transcript::{PrefixDigest, Source},
};

/// The bytes that were shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The bytes up to the last whole line.
    pub bytes: u64,
    /// The length of the file.
    file_len: u64,
    digest: String,
    /// Of a session of several files its logs.
    parts: Vec<PartRef>,
}

/// What has become of a file since it was read, as far as its name, identity, length and time tell. The worst is the
/// greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It is as long as it was, and was written to, or only touched.
    Touched,
    /// It is longer, by so many bytes.
    Grew(u64),
    /// It is shorter.
    Cut,
    /// Another file has its name, or what is no file.
    Replaced,
    /// Nothing has its name.
    Gone,
}

impl Change {
    /// What happened to the file, in words.
    pub fn what(self) -> String {
        match self {
            Change::Touched => "was written to".to_owned(),
            Change::Grew(1) => "grew by 1 byte".to_owned(),
            Change::Grew(bytes) => format!("grew by {bytes} bytes"),
            Change::Cut => "was cut".to_owned(),
            Change::Replaced => "was replaced".to_owned(),
            Change::Gone => "is gone".to_owned(),
        }
    }
}

impl Snapshot {
    /// What was read of it; none if it was taken without digest, for reading only.
    pub fn seen(&self) -> Option<Seen> {
        let digest = self.digest.clone()?;
        Some(Seen { bytes: self.bytes, file_len: self.opened.len, digest, parts: self.parts.clone() })
    }

    /// What has become of the file since it was read; of several files the worst. To be asked often: nothing is read.
    pub fn change(&self) -> Option<Change> {
        let parts = self.source.parts();
        if parts.is_empty() {
            return change_of(&self.source, self.opened.len);
        }
        let found = parts.iter().filter_map(|part| change_of(&part.log, part.file_len));
        found.reduce(|a, b| match (a, b) {
            (Change::Grew(a), Change::Grew(b)) => Change::Grew(a.saturating_add(b)),
            (a, b) => a.max(b),
        })
    }

    /// The refusal for what [`Snapshot::change`] has found.
    pub fn has_changed(&self, change: Change) -> Error {
        looked_at(changed(&self.path, &change.what(), json!({})))
    }
}

fn change_of(file: &FileSource, len: u64) -> Option<Change> {
    let then = file.metadata();
    let now = match fs::symlink_metadata(file.path()) {
        Ok(now) => now,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Some(Change::Gone);
        }
        // Nothing can be told of it.
        Err(_) => return None,
    };
    if !now.is_file() || identity(&now) != identity(then) {
        return Some(Change::Replaced);
    }
    match now.len().checked_sub(len) {
        None => Some(Change::Cut),
        Some(0) => (now.modified().ok() != then.modified().ok()).then_some(Change::Touched),
        Some(more) => Some(Change::Grew(more)),
    }
}

impl Seen {
    /// Refuses unless a snapshot, which was taken later and with its digest, is of exactly what was shown. For what
    /// writes to the source.
    ///
    /// # Errors
    /// `snapshot-changed`; `io`.
    pub fn require(&self, now: &Snapshot) -> Result<()> {
        if (now.bytes, now.opened.len) == (self.bytes, self.file_len)
            && now.digest.as_ref() == Some(&self.digest)
        {
            return Ok(());
        }
        let what = if now.opened.len < self.file_len {
            "was cut"
        } else if now.bytes >= self.bytes && self.begins(now)? {
            "has grown"
        } else {
            "was rewritten"
        };
        Err(looked_at(now.changed(what, now.opened.len)))
    }

    fn begins(&self, now: &Snapshot) -> Result<bool> {
        let digest = PrefixDigest::of(now, self.bytes).map_err(|e| read_error(&now.path, e))?;
        Ok(digest.stated() == self.digest)
    }

    /// Refuses unless a snapshot of the beginning of the source is the beginning of what was shown, all of which still
    /// stands in the file. For forks, to which it is nothing what came behind it.
    ///
    /// # Errors
    /// `snapshot-changed`; `io`.
    pub fn require_beginning(&self, beginning: &Snapshot) -> Result<()> {
        let own = beginning.parts.first();
        let shown = match own {
            Some(own) => self.parts.iter().find(|p| p.session_id == own.session_id),
            None => None,
        };
        let (bytes, digest) = shown.map_or((self.bytes, &self.digest), |p| (p.bytes, &p.digest));
        let (own_bytes, own_digest) = match own {
            Some(own) => (own.bytes, Some(&own.digest)),
            None => (beginning.bytes, beginning.digest.as_ref()),
        };
        let path = beginning.files().first().map_or(beginning.path.clone(), |(path, _)| (*path).to_owned());
        let refuse = |what: &str| Err(looked_at(changed(&path, what, json!({}))));
        if own.is_some() != shown.is_some() {
            return refuse("was replaced by another file");
        }
        if own_bytes > bytes {
            return refuse("has grown");
        }
        let file = FileSource::open_file(&path)?;
        if Source::len(&file) < bytes {
            return refuse("was cut");
        }
        // In one pass, so that both are of the same bytes.
        let read = |e| read_error(&path, e);
        let mut found = PrefixDigest::of(&file, own_bytes).map_err(read)?;
        let same = own_digest == Some(&found.stated());
        found.carry_on(&file, bytes).map_err(read)?;
        if same && found.stated() == *digest { Ok(()) } else { refuse("was rewritten") }
    }
}

/// Who decided by looking has to look again: the same command would be refused again.
fn looked_at(error: Error) -> Error {
    match error {
        Error::Refusal(mut refusal) => {
            refusal.hint =
                Some("look at it again (`offshoot tree`), and choose on what stands there now".to_owned());
            Error::Refusal(refusal)
        }
        fault => fault,
    }
}
