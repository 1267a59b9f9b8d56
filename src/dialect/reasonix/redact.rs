//! A log without a word of its conversation: frame by frame, each record in as many bytes as before, with the digests made
//! anew where they were right.
//!
//! What is wrong with a log stays wrong: a digest that vouches for nothing (another one stands for it, as it may be that of
//! a text that was there), an operation hash of something else, a frame
//! that cannot be inflated, the place where no frame begins. A torn tail stays as long as it was. Frames are compressed or
//! stored, whichever keeps the log about as long as it was; the offsets of frames are told, since they may move.

use std::io::{self, Write};

use hashbrown::HashMap;
use sha2::{Digest, Sha256};

use self::log::Writer;
use super::{
    content::{Contents, Missing, PayloadRef, blocks_of, index_of},
    ids::{hex, unhex},
    manifest::{CONTENT_ROOT, Header, Manifest},
    trouble::Trouble,
};
use crate::{dialect::Redactor, transcript::Source};

mod filler;
mod log;

/// Where payloads go that are not to stand in a log.
pub trait Payloads {
    /// Keeps an object under its name, 64 hex digits. One of that name may be there; it is the same then.
    ///
    /// # Errors
    /// What the file system says.
    fn object(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()>;

    /// Keeps the integrity index of an object.
    ///
    /// # Errors
    /// What the file system says.
    fn index(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()>;
}

/// What was written for a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redacted {
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// Offsets of frames: in the log, and in what was written.
    pub places: Vec<(u64, u64)>,
}

impl Redacted {
    /// Where that which stands at `offset` in the log was written.
    pub fn place(&self, offset: u64) -> Option<u64> {
        let at = self.places.binary_search_by_key(&offset, |&(from, _)| from).ok()?;
        Some(self.places[at].1)
    }
}

/// What redacts the logs of a family. Commits that one repeats of another are repeated in what is written too.
pub struct Redaction<'a> {
    redactor: Redactor,
    contents: &'a dyn Contents,
    payloads: &'a mut dyn Payloads,
    /// What stands for the digests of a payload and its index.
    known: HashMap<PayloadRef, Vec<(String, String)>>,
    /// Of each event what it was and what stands for it, as digests, to tell where two became one.
    events: HashMap<String, (blake3::Hash, blake3::Hash)>,
    /// An event that became the same as another one of its id.
    confused: Option<String>,
}

impl<'a> Redaction<'a> {
    /// One that finds payloads in `contents` and keeps what stands for them in `payloads`.
    pub fn new(contents: &'a dyn Contents, payloads: &'a mut dyn Payloads) -> Self {
        Redaction {
            redactor: Redactor::of_reasonix(),
            contents,
            payloads,
            known: HashMap::new(),
            events: HashMap::new(),
            confused: None,
        }
    }

    /// Writes the log of a session, all of it.
    ///
    /// # Errors
    /// What the source, the contents, the payloads or `out` report; a record that is too large for a frame.
    pub fn log(&mut self, session: &str, log: &dyn Source, out: &mut dyn Write) -> Result<Redacted, Trouble> {
        Writer::new(self, session, log, out).whole()
    }

    /// The id of two events that differed in their words alone, and are one and the same now; none if there are no such.
    /// Who takes one for the other may see another family.
    pub fn confused(&self) -> Option<&str> {
        self.confused.as_deref()
    }

    /// Notes an event.
    fn note(&mut self, id: &str, was: &[u8], is: &[u8]) {
        let now = (blake3::hash(was), blake3::hash(is));
        let before = *self.events.entry_ref(id).or_insert(now);
        if before.1 == now.1 && before.0 != now.0 {
            self.confused.get_or_insert_with(|| id.to_owned());
        }
    }

    /// The manifest of a session whose log was written so. Of its source stays what is right of the log.
    ///
    /// # Errors
    /// What the log reports.
    pub fn manifest(
        &mut self,
        manifest: &Manifest,
        log: &dyn Source,
        written: &Redacted,
    ) -> Result<Vec<u8>, Trouble> {
        let mut manifest = manifest.clone();
        if manifest.content_root != CONTENT_ROOT {
            // Nobody goes by it: the store is the sibling.
            manifest.content_root = self.redactor.token(&manifest.content_root);
        }
        manifest.created_at = self.redactor.token(&manifest.created_at);
        if let Some(source) = &mut manifest.source {
            source.path = self.redactor.name(&source.path);
            source.version = self.redactor.token(&source.version);
            if source.size == log.len() && source.sha256 == sha256_of(log)? {
                (source.size, source.sha256) = (written.bytes, written.sha256.clone());
            } else {
                source.sha256 = self.redactor.digest(&source.sha256);
            }
        }
        Ok(manifest.to_json())
    }

    /// The header of a session.
    pub fn header(&mut self, header: &Header) -> Vec<u8> {
        let mut header = header.clone();
        header.created_at = self.redactor.token(&header.created_at);
        if !header.cwd.is_empty() {
            header.cwd = self.redactor.name(&header.cwd);
        }
        header.to_json()
    }

    /// Keeps what stands for a payload, and the digests that stand for those in the reference. None where the payload is
    /// not what the reference says.
    fn elsewhere(&mut self, at: &PayloadRef) -> Result<Option<Both>, Trouble> {
        let mut bytes = Vec::new();
        match at.verify(self.contents, |block| bytes.extend_from_slice(block)) {
            Ok(()) => {}
            Err(Missing::Io(e)) => return Err(Trouble::Io(e)),
            Err(Missing::Wrong(_)) => {
                if !self.known.contains_key(at) {
                    let digests = self.wrong(at)?;
                    self.known.insert(at.clone(), digests);
                }
                return Ok(None);
            }
        }
        let redacted = self.redactor.payload(&bytes);
        if !self.known.contains_key(at) {
            let digest = hex(&Sha256::digest(&redacted));
            self.payloads.object(&digest, &redacted)?;
            let mut digests = vec![(at.digest.clone(), digest.clone())];
            if let Some(old) = at.index_digest.as_ref().filter(|d| !d.is_empty()) {
                let index = index_of(&digest, &redacted);
                self.payloads.index(&digest, &index)?;
                digests.push((old.clone(), hex(&Sha256::digest(&index))));
            }
            self.known.insert(at.clone(), digests);
        }
        Ok(Some(Both { was: bytes, is: redacted }))
    }

    /// Keeps what is there of a payload that is not what the reference says, so that it is as wrong as before: under
    /// another name, since that may be the digest of the text that was there.
    fn wrong(&mut self, at: &PayloadRef) -> Result<Vec<(String, String)>, Trouble> {
        if unhex(&at.digest).is_none() {
            return Ok(Vec::new());
        }
        let name = self.redactor.digest(&at.digest);
        let mut digests = vec![(at.digest.clone(), name.clone())];
        let mut blocks = digests.clone();
        if let Some(object) = self.contents.object(&at.digest)? {
            let object = whole(&*object)?;
            let redacted = self.redactor.payload(&object);
            self.payloads.object(&name, &redacted)?;
            // A block that is right in the index is right in what stands for that.
            let digests =
                |bytes: &[u8]| blocks_of(bytes).map(|b| hex(&Sha256::digest(b))).collect::<Vec<_>>();
            blocks.extend(digests(&object).into_iter().zip(digests(&redacted)));
        }
        let Some(index) = self.contents.index(&at.digest)? else { return Ok(digests) };
        let index = whole(&*index)?;
        let redacted = self.redactor.index(&index, blocks);
        self.payloads.index(&name, &redacted)?;
        let (old, new) = (hex(&Sha256::digest(&index)), hex(&Sha256::digest(&redacted)));
        if at.index_digest.as_ref() == Some(&old) {
            digests.push((old, new));
        }
        Ok(digests)
    }
}

/// A payload and what stands for it.
#[derive(Default)]
struct Both {
    was: Vec<u8>,
    is: Vec<u8>,
}

/// SHA-256 of all bytes, in hex.
fn sha256_of(source: &dyn Source) -> io::Result<String> {
    const CHUNK: u64 = 256 << 10;
    let (mut digest, mut chunk, mut at) = (Sha256::new(), vec![0; CHUNK as usize], 0);
    while at < source.len() {
        let n = (source.len() - at).min(CHUNK);
        source.read_exact_at(at, &mut chunk[..n as usize])?;
        digest.update(&chunk[..n as usize]);
        at += n;
    }
    Ok(hex(&digest.finalize()))
}

fn whole(source: &dyn Source) -> io::Result<Vec<u8>> {
    let len = usize::try_from(source.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; len];
    source.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}
