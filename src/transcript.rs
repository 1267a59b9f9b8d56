//! Bytes in, ordered records and line diagnostics out. Pure: bytes come through [`Source`].
//!
//! Only what topology needs is kept of a record (24 bytes and its id); texts and times are decoded
//! later, by [`Span`], for what is reported.

use std::{io, ops::Range};

use serde::Serialize;
use serde_json::json;

use crate::{
    record::{RecordId, RecordKind},
    refusal::{Code, Refusal},
};

mod digest;
mod ids;
pub mod kept;
mod number;
mod pieces;
pub mod rounds;
pub mod units;
mod window;

pub use digest::PrefixDigest;
pub use ids::{IdIx, IdTable};
pub use kept::{KeptIndex, KeptNote, KeptRecords};
pub use pieces::Pieces;
pub use rounds::Rounds;
pub use units::Units;
pub use window::Window;

/// Bytes that can be read at any offset: a slice, or a file behind a snapshot.
pub trait Source: Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` past the end, or what the file system says.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Is told by a reader which bytes it has read and taken for a part of the snapshot, in the order of the file, so
    /// that a digest needs no second reading. Bytes may be left out.
    fn passed(&self, offset: u64, bytes: &[u8]) {
        let _ = (offset, bytes);
    }

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of one record.
    ///
    /// # Errors
    /// As for [`Source::read_exact_at`].
    fn bytes(&self, span: Span) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; span.len as usize];
        self.read_exact_at(span.offset, &mut buf)?;
        Ok(buf)
    }
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let from = start
            .checked_add(buf.len())
            .and_then(|end| self.get(start..end))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(from);
        Ok(())
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        Source::len(self.as_slice())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buf)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn len(&self) -> u64 {
        S::len(self)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        S::read_exact_at(self, offset, buf)
    }

    fn passed(&self, offset: u64, bytes: &[u8]) {
        S::passed(self, offset, bytes);
    }
}

/// Two sources, one behind the other: a snapshot and the bytes about to be appended to it.
pub struct Appended<'a> {
    /// What is there.
    pub head: &'a dyn Source,
    /// What would follow.
    pub tail: &'a [u8],
}

impl Source for Appended<'_> {
    fn len(&self) -> u64 {
        self.head.len() + self.tail.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let head = self.head.len();
        let in_head = head.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (first, second) = buf.split_at_mut(in_head);
        if !first.is_empty() {
            self.head.read_exact_at(offset, first)?;
        }
        if !second.is_empty() {
            self.tail.read_exact_at((offset + in_head as u64) - head, second)?;
        }
        Ok(())
    }
}

/// Where a record's own bytes stand (one JSON object, without line end).
///
/// Packed, so that a [`Record`] takes 24 bytes: there can be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Span {
    /// From the start of the file, in bytes.
    pub offset: u64,
    /// In bytes.
    pub len: u32,
}

impl Span {
    /// The byte range.
    pub fn range(self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.len)
    }
}

/// Position of a record in file order, from 0.
pub type RecordIx = u32;

/// What the dialect says of a record beyond its kind. Bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// A terminal run of these collapses into the nearest other ancestor.
    pub const NEUTRAL: Flags = Flags(1);
    /// A rewind.
    pub const REWIND: Flags = Flags(1 << 1);
    /// A user record that is no prompt of a person (its text is never a summary).
    pub const SYNTHETIC: Flags = Flags(1 << 2);
    /// The client takes this record for absent when it walks parents.
    pub const UNSEEN: Flags = Flags(1 << 3);
    /// Calls a tool.
    pub const CALL: Flags = Flags(1 << 4);
    /// Answers a tool call.
    pub const RESPONSE: Flags = Flags(1 << 5);
    /// Our own anchor.
    pub const ANCHOR: Flags = Flags(1 << 6);
    /// Replaces the history before it for the model.
    pub const COMPRESSION: Flags = Flags(1 << 7);
    /// Belongs to another storage format in the same directory.
    pub const MANAGED: Flags = Flags(1 << 8);
    /// A title.
    pub const TITLE: Flags = Flags(1 << 9);
    /// An artifact that is kept by its file position (Qwen's `session_artifact_*`).
    pub const ARTIFACT: Flags = Flags(1 << 10);
    /// Belongs to a conversation of a subagent.
    pub const SIDECHAIN: Flags = Flags(1 << 11);
    /// A sign of progress, no part of the history.
    pub const PROGRESS: Flags = Flags(1 << 12);
    /// Text that the client attached for the model.
    pub const ATTACHMENT: Flags = Flags(1 << 13);
    /// Stands for the history that was compressed.
    pub const SUMMARY: Flags = Flags(1 << 14);

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One record, as far as topology needs it.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its uuid.
    pub id: IdIx,
    /// Its parent's uuid, which may belong to no record; `None` is a root.
    pub parent: Option<IdIx>,
    /// Where its bytes stand.
    pub span: Span,
    /// Who it speaks for.
    pub kind: RecordKind,
    /// What the dialect says of it.
    pub flags: Flags,
}

/// Something about a line that a reader must be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LineDiagnostic {
    /// The line is no record and nothing could be salvaged from it (or only a part).
    MalformedLine {
        /// From 1.
        line: u64,
        /// Why, in words.
        reason: String,
    },
    /// The last line has no line end and is not complete.
    TornTail {
        /// From 1.
        line: u64,
        /// How many bytes are not part of the snapshot.
        bytes: u64,
    },
    /// Valid JSON that the client skips.
    SkippedRecord {
        /// From 1.
        line: u64,
        /// Why, in words.
        reason: String,
    },
    /// Several records on one line; all of them count.
    GluedRecords {
        /// From 1.
        line: u64,
        /// How many.
        records: u64,
    },
}

/// What was read of one transcript.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// Whether the last record of a uuid defines its parent and content, not the first (I3). Set before the first
    /// record is pushed.
    pub last_wins: bool,
    /// What a format adds whose messages are several records.
    pub rounds: Option<Box<Rounds>>,
    /// The steps that leaves are found over, where they are not the records themselves.
    pub units: Option<Box<Units>>,
    /// All ids that records have or name as their parent.
    pub ids: IdTable,
    /// In file order.
    pub records: Vec<Record>,
    /// The records that do not stand on the line behind the one before, and the lines that they stand on.
    breaks: Vec<(RecordIx, u32)>,
    /// In file order.
    pub diagnostics: Vec<LineDiagnostic>,
    /// Distinct session ids of the records, in order of appearance; at most the first eight.
    pub session_ids: Vec<String>,
    /// JSON objects that the client gets out of the file, records or not.
    pub objects: u64,
    /// The `cwd` of the first JSON object of the file, whether it is a record or not; none if it has none that
    /// is a string.
    pub first_cwd: Option<String>,
    /// The highest `version` of the client that wrote here, by number.
    pub client_version: Option<String>,
    /// The first line that holds U+2028 or U+2029 unescaped. Clients run by some versions of their runtime end a
    /// line there (Qwen Code with Node 24 or later, not with Node 22), and then lose the record.
    pub separator_line: Option<u64>,
    /// Bytes of the snapshot: to the end of the last whole line, or of the last complete record of an
    /// unfinished line.
    pub bytes: u64,
    /// Lines within `bytes`, an unfinished last one included.
    pub lines: u64,
    /// Bytes behind the snapshot (an unfinished line).
    pub torn_bytes: u64,
    /// Whether the last byte of the snapshot is a line feed (true for an empty file).
    pub ends_in_newline: bool,
}

impl Transcript {
    /// The text of an id.
    pub fn id(&self, ix: IdIx) -> RecordId {
        RecordId::new(self.ids.text(ix))
    }

    /// The record of a uuid that defines its parent (I3), the first one unless [`Transcript::last_wins`]; none if the
    /// id is only named as a parent.
    pub fn first(&self, ix: IdIx) -> Option<RecordIx> {
        self.ids.first_record(ix)
    }

    /// A record by its position.
    pub fn record(&self, ix: RecordIx) -> &Record {
        &self.records[ix as usize]
    }

    /// Refuses a record of a subagent: no conversation ends or goes on there.
    ///
    /// # Errors
    /// `sidechain-leaf`.
    pub fn require_conversation(&self, ix: IdIx) -> Result<(), Box<Refusal>> {
        if !self.first(ix).is_some_and(|record| self.record(record).flags.has(Flags::SIDECHAIN)) {
            return Ok(());
        }
        let id = self.id(ix);
        Err(Box::new(
            Refusal::new(
                Code::SidechainLeaf,
                format!("`{id}` belongs to a subagent; the client resumes no such record"),
            )
            .hint("`offshoot inspect` lists the branches of the conversation")
            .detail(json!({"uuid": id})),
        ))
    }

    /// Makes room for as many more records, each with an id of its own, where there is as much.
    pub fn foresee(&mut self, more: usize) {
        let _ = self.records.try_reserve(more);
        self.ids.foresee(more);
    }

    /// The line that a record stands on, from 1. Glued records share one.
    pub fn line(&self, ix: RecordIx) -> u32 {
        let behind = self.breaks.partition_point(|&(record, _)| record <= ix);
        line_behind(self.breaks[..behind].last(), ix)
    }

    /// Appends a record that stands on a line, which is none before that of the last one, and keeps the id table's column of
    /// defining records right.
    pub fn push(&mut self, record: Record, line: u32) {
        let ix = RecordIx::try_from(self.records.len()).expect("BUG: more than 2^32 records");
        if line_behind(self.breaks.last(), ix) != line {
            self.breaks.push((ix, line));
        }
        self.ids.note_record(record.id, ix, self.last_wins);
        self.records.push(record);
    }
}

/// The line of a record behind the last break before it.
fn line_behind(last: Option<&(RecordIx, u32)>, ix: RecordIx) -> u32 {
    let &(record, line) = last.unwrap_or(&(0, 1));
    line.saturating_add(ix - record)
}
