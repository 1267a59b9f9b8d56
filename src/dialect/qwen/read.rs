//! The file to records: in chunks, never as a whole.
//!
//! # Where the snapshot ends
//!
//! At the last line feed; or, if a line without one follows, behind the last JSON object that the client gets out
//! of that line, since it sees that object now and whatever is appended. White space that follows is part of it.
//! What is left is torn: it may be the first half of a record that a writer is busy with, so it is not part of the
//! snapshot, and is reported with its length.

use std::io;

use super::{
    json::Field,
    line::{self, Found},
    lines,
    version::Version,
};
use crate::transcript::{LineDiagnostic, Record, Source, Span, Transcript};

/// How much is held in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes read at a time.
    pub chunk: usize,
    /// The longest line that is looked at; at most `u32::MAX`. (Node's strings end at 2^29 UTF-16 units.)
    pub line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { chunk: 256 << 10, line: 1 << 30 }
    }
}

/// How many distinct session ids are kept; more than one is a refusal anyway.
const SESSION_IDS: usize = 8;

pub(super) fn read(source: &dyn Source) -> io::Result<Transcript> {
    read_with(source, Limits::default())
}

pub(super) fn read_with(source: &dyn Source, limits: Limits) -> io::Result<Transcript> {
    let mut reader = Reader {
        t: Transcript { ends_in_newline: true, ..Transcript::default() },
        session: Vec::new(),
        version: None,
        seen_version: Vec::new(),
    };
    let len = source.len();
    // `buf` holds the file from `base`; the current line starts at `start` in it, and `overlong` counts the bytes
    // of that line that were let go.
    let (mut buf, mut base, mut start, mut overlong) = (Vec::new(), 0u64, 0usize, 0u64);
    let mut at = 0u64;
    while at < len {
        buf.drain(..start);
        base += start as u64;
        start = 0;
        let scanned = buf.len();
        let n = (len - at).min(limits.chunk.max(1) as u64) as usize;
        buf.resize(scanned + n, 0);
        source.read_exact_at(at, &mut buf[scanned..])?;
        at += n as u64;
        for end in memchr::memchr_iter(b'\n', &buf[scanned..]).map(|i| scanned + i) {
            let line = (overlong == 0 && end - start <= limits.line).then(|| &buf[start..end]);
            reader.line(line, base + start as u64);
            start = end + 1;
            overlong = 0;
        }
        if buf.len() - start > limits.line {
            overlong += (buf.len() - start) as u64;
            base += (buf.len() - start) as u64;
            buf.truncate(start);
        }
    }
    let line_end = base + start as u64 - overlong;
    reader.t.bytes = line_end;
    if overlong > 0 {
        reader.torn(reader.t.lines + 1, len - line_end);
    } else if start < buf.len() {
        reader.unfinished(&buf[start..], line_end);
    }
    reader.t.client_version = reader.version.map(|v| v.text().to_owned());
    Ok(reader.t)
}

struct Reader {
    t: Transcript,
    /// The last session id as it stood there: almost always the next one's too.
    session: Vec<u8>,
    version: Option<Version>,
    /// The last version as it stood there.
    seen_version: Vec<u8>,
}

/// What came of one line.
#[derive(Default)]
struct Outcome {
    /// Offset behind the last object.
    objects_end: usize,
    records: u64,
    /// What else there was, in order.
    findings: Vec<(usize, LineDiagnostic)>,
}

impl Reader {
    fn line(&mut self, line: Option<&[u8]>, offset: u64) {
        self.t.lines += 1;
        let Some(line) = line else {
            let reason = "the line is too long to be read".to_owned();
            self.t.diagnostics.push(LineDiagnostic::MalformedLine { line: self.t.lines, reason });
            return;
        };
        let outcome = self.objects(line, offset);
        self.report(outcome);
    }

    /// The last line, which has no line feed.
    fn unfinished(&mut self, line: &[u8], offset: u64) {
        self.t.lines += 1;
        // Node's decoder drops a character that the end of the file cuts off.
        let whole = without_cut_character(line);
        let mut outcome = self.objects(whole, offset);
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

    fn objects(&mut self, line: &[u8], offset: u64) -> Outcome {
        let mut out = Outcome::default();
        let number = self.t.lines;
        if self.t.separator_line.is_none() && lines::holds_separator(line) {
            self.t.separator_line = Some(number);
        }
        let mut malformed: Option<(usize, String)> = None;
        let broken = line::read(line, &mut |found| match found {
            Found::Object(range, object) => {
                out.objects_end = range.end;
                if self.t.objects == 0 {
                    self.t.first_cwd = object.cwd.text().map(|t| t.into_owned());
                }
                self.t.objects += 1;
                match object.record {
                    Ok(head) => {
                        out.records += 1;
                        let span = Span {
                            offset: offset + range.start as u64,
                            len: u32::try_from(range.len()).expect("BUG: a line within the limit"),
                        };
                        self.record(&head, span);
                    }
                    Err(reason) => out.findings.push((range.start, skipped(number, reason))),
                }
            }
            Found::NoObject(range, reason) => out.findings.push((range.start, skipped(number, reason))),
            Found::Malformed(at, reason) => drop(malformed.get_or_insert((at, reason))),
        });
        if let Some((at, mut reason)) = malformed {
            if out.objects_end > 0 {
                reason.push_str("; only the complete objects of the line count");
            }
            if broken {
                reason.push_str("; the client ends a line at each lone carriage return");
            }
            out.findings.push((at, LineDiagnostic::MalformedLine { line: number, reason }));
            out.findings.sort_by_key(|(at, _)| *at);
        }
        out
    }

    fn record(&mut self, head: &super::head::Head<'_>, span: Span) {
        if self.session != head.session.raw() {
            self.session = head.session.raw().to_owned();
            let text = head.session.text();
            let ids = &mut self.t.session_ids;
            if ids.len() < SESSION_IDS && !ids.iter().any(|id| *id == text) {
                ids.push(text.into_owned());
            }
        }
        if let Field::Str(version) = head.version
            && self.seen_version != version.raw()
        {
            self.seen_version = version.raw().to_owned();
            self.version = self.version.take().max(Version::parse(&version.text()));
        }
        let id = self.t.ids.intern(&head.uuid.text());
        let parent = head.parent.map(|p| self.t.ids.intern(&p.text()));
        let line = u32::try_from(self.t.lines).unwrap_or(u32::MAX);
        self.t.push(Record { id, parent, span, line, kind: head.kind, flags: head.flags });
    }

    fn report(&mut self, outcome: Outcome) {
        let line = self.t.lines;
        if outcome.records > 1 {
            self.t.diagnostics.push(LineDiagnostic::GluedRecords { line, records: outcome.records });
        }
        self.t.diagnostics.extend(outcome.findings.into_iter().map(|(_, d)| d));
    }
}

fn skipped(line: u64, reason: &str) -> LineDiagnostic {
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
