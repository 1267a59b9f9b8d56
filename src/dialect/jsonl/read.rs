//! The file to records: in chunks, several at a time, never as a whole.
//!
//! # Where the snapshot ends
//!
//! At the last line feed; or, if a line without one follows, behind the last JSON object that the client gets out
//! of that line, since it sees that object now and whatever is appended. White space that follows is part of it.
//! What is left is torn: it may be the first half of a record that a writer is busy with, so it is not part of the
//! snapshot, and is reported with its length.

use std::io;

use super::{
    json::{Field, RawStr},
    lines,
    marked::{Marked, StringMarks},
    region::{self, Region},
    version::Version,
};
use crate::{
    parallel::{self, Stage},
    transcript::{LineDiagnostic, Source, Span, Transcript},
};

/// How the file is cut up, and how much of it is held in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::dialect) struct Limits {
    /// Bytes that a worker takes at a time.
    pub chunk: usize,
    /// The longest line that is looked at; at most `u32::MAX`. (Node's strings end at 2^29 UTF-16 units.)
    pub line: usize,
    /// How many workers there are at most, this thread included.
    pub workers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { chunk: 256 << 10, line: 1 << 30, workers: parallel::workers() }
    }
}

/// How many distinct session ids are kept; more than one is a refusal anyway.
const SESSION_IDS: usize = 8;

/// What a dialect makes of a line, in two steps, so that the first can be taken for many lines at once.
pub(in crate::dialect) trait Rules: Send {
    /// What a line holds by itself.
    type Line<'a>;

    /// What is asked of many lines at once, so that not each must be searched for it.
    type Survey: Copy;

    /// Looks over lines that stand one behind the other.
    fn survey(lines: &[u8]) -> Self::Survey;

    /// Looks at one line (without its line feed) of those that `survey` was made of, which begins at `offset` of the
    /// file.
    fn parse(line: Marked<'_>, offset: u64, survey: Self::Survey) -> Self::Line<'_>;

    /// Adds the records of line number `t.lines`, which begins at `offset`. Lines come in the order of the file.
    fn apply(&mut self, t: &mut Transcript, line: &mut Self::Line<'_>, offset: u64) -> Outcome;
}

/// What came of one line.
#[derive(Default)]
pub(in crate::dialect) struct Outcome {
    /// Offset in the line behind the last object that counts.
    pub objects_end: usize,
    /// How many records were added.
    pub records: u64,
    /// What else there was, by offset in the line, in order.
    pub findings: Vec<(usize, LineDiagnostic)>,
}

/// Reads the whole of `source`. The result does not depend on how the work is cut up.
///
/// # Errors
/// Only what `source` reports.
pub(in crate::dialect) fn read<R: Rules>(
    source: &dyn Source,
    limits: Limits,
    rules: &mut R,
) -> io::Result<Transcript> {
    let mut t = Transcript::default();
    t.ends_in_newline = true;
    let mut reader = Reader { t, rules, total: source.len(), foreseen: false };
    let chunk = limits.chunk.max(1) as u64;
    let chunks = source.len().div_ceil(chunk);
    parallel::run(
        chunks,
        limits.workers,
        &mut reader,
        &|| (Vec::new(), StringMarks::default()),
        &|stage: Stage<'_, Reader<'_, R>>, (buf, marks)| {
            let region = region::load(source, stage.step(), chunk, limits.line, buf);
            let region = match region {
                Ok(region) => region,
                // An earlier chunk may have failed as well: the first one tells.
                Err(e) => return stage.turn(|_| Err(e)),
            };
            let lines = Lines::<R>::parse(&region, marks, limits.line);
            stage.turn(|reader| {
                let kept = reader.region(&region, lines);
                // A region may lie behind the snapshot: what an unfinished line goes on in. Nothing was passed up to there.
                if kept > 0 {
                    source.passed(region.offset, &region.bytes[..kept]);
                }
                Ok(())
            })
        },
    )?;
    Ok(reader.t)
}

/// For how many lines of a region there is room at once; those of a record are longer mostly.
const ROOM: usize = 1 << 10;

/// The lines of a region.
struct Lines<'a, R: Rules> {
    /// Each line with a line feed and its length with it; none if it is too long.
    whole: Vec<(usize, Option<R::Line<'a>>)>,
    /// What follows the last line feed.
    rest: &'a [u8],
}

impl<'a, R: Rules> Lines<'a, R> {
    fn parse(region: &Region<'a>, marks: &'a mut StringMarks, longest: usize) -> Self {
        let survey = R::survey(region.bytes);
        let marks = marks.of(region.bytes);
        let text = marks.text(region.bytes);
        let mut whole = Vec::with_capacity(marks.line_feeds().len().min(ROOM));
        let mut start = 0;
        for &end in marks.line_feeds() {
            let offset = region.offset + start as u64;
            let line = (end - start <= longest).then(|| R::parse(text.slice(start..end), offset, survey));
            whole.push((end + 1 - start, line));
            start = end + 1;
        }
        Lines { whole, rest: &region.bytes[start..] }
    }
}

struct Reader<'a, R> {
    t: Transcript,
    rules: &'a mut R,
    /// Bytes of the whole source.
    total: u64,
    /// Whether it was looked ahead already to how many records there will be.
    foreseen: bool,
}

/// How much of a file tells how many records the rest has: enough that a file of another kind behind it takes no more
/// than this many times the memory that it needs.
const FORESEEN: u64 = 16;

impl<R: Rules> Reader<'_, R> {
    /// Adds the next lines of the file; returns how many of the region's bytes are part of the snapshot.
    fn region(&mut self, region: &Region<'_>, mut lines: Lines<'_, R>) -> usize {
        let mut offset = region.offset;
        for (len, line) in &mut lines.whole {
            self.line(line.as_mut(), offset);
            offset += *len as u64;
        }
        if offset > region.offset {
            self.t.bytes = offset;
            self.foresee();
        }
        match region.overlong {
            Some(line) if line.ended => {
                self.line(None, offset);
                self.t.bytes = offset + line.bytes + 1;
            }
            Some(line) => self.torn(self.t.lines + 1, line.bytes),
            None if !lines.rest.is_empty() => self.unfinished(lines.rest, offset),
            None => {}
        }
        usize::try_from(self.t.bytes.saturating_sub(region.offset))
            .map_or(region.bytes.len(), |kept| kept.min(region.bytes.len()))
    }

    /// Makes room for the rest at once: to grow by doubling would move everything several times.
    fn foresee(&mut self) {
        if !self.foreseen && self.t.bytes >= self.total / FORESEEN {
            self.foreseen = true;
            let records = self.t.records.len() as u64;
            let rest = self.total.saturating_sub(self.t.bytes);
            let more = u128::from(records + records / 64) * u128::from(rest) / u128::from(self.t.bytes);
            self.t.foresee(usize::try_from(more).unwrap_or_default());
        }
    }

    fn line(&mut self, line: Option<&mut R::Line<'_>>, offset: u64) {
        self.t.lines += 1;
        let Some(line) = line else {
            let reason = "the line is too long to be read".to_owned();
            self.t.diagnostics.push(LineDiagnostic::MalformedLine { line: self.t.lines, reason });
            return;
        };
        let outcome = self.rules.apply(&mut self.t, line, offset);
        self.report(outcome);
    }

    /// The last line, which has no line feed.
    fn unfinished(&mut self, line: &[u8], offset: u64) {
        self.t.lines += 1;
        // Node's decoder drops a character that the end of the file cuts off.
        let whole = without_cut_character(line);
        let mut parsed = R::parse(whole.into(), offset, R::survey(whole));
        let mut outcome = self.rules.apply(&mut self.t, &mut parsed, offset);
        let rest = &line[outcome.objects_end..];
        let torn = if lines::trim(rest).1.is_empty() { 0 } else { rest.len() };
        let kept = line.len() - torn;
        if torn > 0 {
            outcome.findings.retain(|(at, _)| *at < outcome.objects_end);
        }
        self.report(outcome);
        self.t.bytes = offset + kept as u64;
        self.t.ends_in_newline = kept == 0;
        if torn > 0 {
            self.torn(self.t.lines, torn as u64);
        }
        if kept == 0 {
            self.t.lines -= 1;
        }
    }

    /// Bytes of an unfinished line that are not part of the snapshot.
    fn torn(&mut self, line: u64, bytes: u64) {
        self.t.torn_bytes = bytes;
        self.t.diagnostics.push(LineDiagnostic::TornTail { line, bytes });
    }

    fn report(&mut self, outcome: Outcome) {
        let line = self.t.lines;
        if outcome.records > 1 {
            self.t.diagnostics.push(LineDiagnostic::GluedRecords { line, records: outcome.records });
        }
        self.t.diagnostics.extend(outcome.findings.into_iter().map(|(_, d)| d));
    }
}

/// What the records of a file say of its session and of the clients that wrote it: almost always what the record
/// before said.
#[derive(Default)]
pub(in crate::dialect) struct Marks {
    session: Vec<u8>,
    version: Option<Version>,
    seen_version: Vec<u8>,
}

impl Marks {
    /// Notes the session id of a record.
    pub fn session(&mut self, t: &mut Transcript, session: RawStr<'_>) {
        if self.session != session.raw() {
            self.session = session.raw().to_owned();
            let text = session.text();
            if t.session_ids.len() < SESSION_IDS && !t.session_ids.iter().any(|id| *id == text) {
                t.session_ids.push(text.into_owned());
            }
        }
    }

    /// Notes the client version of a record.
    pub fn version(&mut self, version: Field<'_>) {
        if let Field::Str(version) = version
            && self.seen_version != version.raw()
        {
            self.seen_version = version.raw().to_owned();
            self.version = self.version.take().max(Version::parse(&version.text()));
        }
    }

    /// The highest version.
    pub fn highest(self) -> Option<String> {
        self.version.map(|v| v.text().to_owned())
    }
}

/// Where a record's bytes stand, if its line begins at `offset`.
pub(in crate::dialect) fn span(offset: u64, range: &std::ops::Range<usize>) -> Span {
    Span {
        offset: offset + range.start as u64,
        len: u32::try_from(range.len()).expect("BUG: a line within the limit"),
    }
}

/// The number of the current line, as records hold it.
pub(in crate::dialect) fn line_number(t: &Transcript) -> u32 {
    u32::try_from(t.lines).unwrap_or(u32::MAX)
}

/// The diagnostic of valid JSON that the client skips.
pub(in crate::dialect) fn skipped(line: u64, reason: &str) -> LineDiagnostic {
    LineDiagnostic::SkippedRecord { line, reason: reason.to_owned() }
}

/// The bytes without a UTF-8 sequence that has begun well and lacks its end.
fn without_cut_character(bytes: &[u8]) -> &[u8] {
    let tail = bytes.len().saturating_sub(3);
    // Where a continuation byte stands first, the check begins behind it.
    let from = (tail..bytes.len()).find(|&i| bytes[i] & 0xc0 != 0x80).unwrap_or(bytes.len());
    let mut rest = &bytes[from..];
    while let Err(e) = std::str::from_utf8(rest) {
        match e.error_len() {
            None => return &bytes[..bytes.len() - (rest.len() - e.valid_up_to())],
            Some(n) => rest = &rest[e.valid_up_to() + n..],
        }
    }
    bytes
}
