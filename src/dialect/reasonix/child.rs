//! The log of a child: whole commits of its parent, bound to the child, and nothing else. Every record is byte for
//! byte what the client itself writes for a child of that id (checked against children that it made).

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::{
    commit::Commits,
    content::Contents,
    frame, gojson,
    ids::{self, hex},
    operation::OperationHash,
    record::{Begin, End, EventRecord, Record},
    trouble::Trouble,
};
use crate::transcript::Source;

/// The writer generation of commits that a child inherits.
const GENERATION: u64 = 1;

/// Payloads that are larger go to the content store, in bytes.
const INLINE: u64 = 65_536;

/// What a child is made of.
#[derive(Clone, Debug)]
pub struct ChildSpec<'a> {
    /// The parent's session id.
    pub parent: &'a str,
    /// The child's.
    pub child: &'a str,
    /// The last sequence that it inherits: the last one of a commit.
    pub through: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildLog {
    /// The length of the log.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// How many commits it holds.
    pub commits: u64,
}

/// Writes the log of a child: the commits of `source` up to the cut. One frame is in memory at a time, and one payload
/// that stands elsewhere.
///
/// # Errors
/// What the source or `out` report; damage in the part that is inherited, a cut inside of a commit included.
pub fn write(
    source: &dyn Source,
    contents: &dyn Contents,
    spec: &ChildSpec<'_>,
    out: &mut dyn Write,
) -> Result<ChildLog, Trouble> {
    let mut out = Counted::new(out);
    let mut commits = Commits::new(source, contents);
    let mut written = 0;
    while commits.last_seq() < spec.through {
        let (mut hash, start) = (OperationHash::new(true), commits.end());
        let commit = commits.next_with(Some(&mut |begin, event, payload| {
            hash.event(spec.child, begin, event, payload);
            if hash.is_valid() {
                Ok(())
            } else {
                Err(Trouble::damaged(start, format!("the payload at sequence {} is no JSON", event.seq)))
            }
        }))?;
        let Some(commit) = commit.filter(|c| c.last_seq() <= spec.through) else {
            return Err(Trouble::damaged(start, format!("no commit ends at sequence {}", spec.through)));
        };
        let begin = Begin {
            commit_id: ids::inherited_commit(spec.child, &commit.begin.commit_id),
            operation_id: ids::inherited_operation(spec.parent, &commit.begin.commit_id),
            operation_hash: hash.finish(),
            writer_generation: GENERATION,
            created_at: gojson::time(&commit.begin.created_at)
                .ok_or_else(|| Trouble::damaged(commit.start, "a commit without a time"))?,
            ..commit.begin
        };
        let mut digest = Sha256::new();
        let mut put = |json: Vec<u8>, digest: Option<&mut Sha256>| {
            if let Some(digest) = digest {
                digest.update(&json);
                digest.update([0]);
            }
            let frame = frame::write(&json)
                .ok_or_else(|| Trouble::damaged(commit.start, "a record that is too large to be repeated"))?;
            out.write_all(&frame).map_err(Trouble::Io)
        };
        put(begin.to_json(), Some(&mut digest))?;
        for event in &commit.events {
            put(repeated(source, contents, event.offset)?.to_json(), Some(&mut digest))?;
        }
        let end = End {
            commit_id: begin.commit_id,
            first_seq: begin.first_seq,
            event_count: begin.event_count,
            sha256: hex(&digest.finalize()),
        };
        put(end.to_json(), None)?;
        written += 1;
    }
    Ok(ChildLog { bytes: out.bytes, sha256: out.sha256(), commits: written })
}

/// An event of the parent as the child has it: a payload that need not stand elsewhere does not.
fn repeated(source: &dyn Source, contents: &dyn Contents, offset: u64) -> Result<EventRecord, Trouble> {
    let gone = || Trouble::damaged(offset, "the event was there and is not any more");
    let frame = frame::read(source, offset)?.ok_or_else(gone)?;
    let Record::Event(mut event) = Record::parse(&frame.json, offset)? else { return Err(gone()) };
    if let Some(at) = event.payload_ref.take_if(|at| at.bytes <= INLINE) {
        let mut payload = Vec::new();
        at.verify(contents, |block| payload.extend_from_slice(block)).map_err(|_| gone())?;
        event.payload = Some(payload);
    }
    Ok(event)
}

/// Hands on, and counts and digests what it hands on.
pub(super) struct Counted<'a> {
    out: &'a mut dyn Write,
    digest: Sha256,
    /// How many bytes that was.
    pub bytes: u64,
}

impl<'a> Counted<'a> {
    pub fn new(out: &'a mut dyn Write) -> Self {
        Counted { out, digest: Sha256::new(), bytes: 0 }
    }

    /// SHA-256 of them, in hex.
    pub fn sha256(self) -> String {
        hex(&self.digest.finalize())
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = self.out.write(buf)?;
        self.digest.update(&buf[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
