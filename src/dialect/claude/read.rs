//! The file to records, pins and the facts that leaves and the simulation are found from.
//!
//! Of a line only its first JSON value counts (measured: an object with anything behind it is read and the rest is
//! lost; a line with anything in front is lost). The last record of a uuid defines its parent and content.

use std::io;

use super::{
    head::{self, Head, Object},
    names::Names,
    units,
};
use crate::{
    dialect::jsonl::{
        cut::BOM,
        json::{Cursor, Field, JsonError},
        marked::Marked,
        read::{self, Limits, Marks, Outcome, Rules, skipped, span},
        redact::Known,
    },
    record::RecordKind,
    transcript::{
        LineDiagnostic, Record, RecordIx, Rounds, Source, Span, Transcript,
        rounds::{FileSnapshot, Pin},
    },
};

pub(super) fn read(source: &dyn Source) -> io::Result<Transcript> {
    read_with(source, Limits::default())
}

pub(super) fn read_with(source: &dyn Source, limits: Limits) -> io::Result<Transcript> {
    let mut lines = Lines::default();
    let mut t = read::read(source, limits, &mut lines)?;
    t.last_wins = true;
    let Lines { marks, names, mut rounds } = lines;
    t.client_version = marks.highest();
    rounds.names = names.len();
    // Each is a part of the memory that the next step needs too.
    drop(names);
    t.units = Some(Box::new(units::units(&t, &rounds)));
    t.rounds = Some(Box::new(rounds));
    Ok(t)
}

#[derive(Default)]
struct Lines {
    marks: Marks,
    names: Names,
    rounds: Rounds,
}

/// What the client gets out of one line.
pub(super) struct Line<'a> {
    /// Offset of what stands first in it; the line's end if it is blank.
    from: usize,
    /// Offset behind that.
    end: usize,
    /// None if the line is blank.
    first: Option<First<'a>>,
    /// Whether something follows.
    more: bool,
}

/// The first JSON value of a line.
enum First<'a> {
    Object(Object<'a>),
    Null,
    NoObject,
    /// Not JSON, and why.
    Malformed(String),
}

impl Line<'_> {
    fn blank() -> Self {
        Line { from: 0, end: 0, first: None, more: false }
    }
}

fn first<'a>(cursor: &mut Cursor<'a>, byte: u8) -> Result<First<'a>, JsonError> {
    if byte == b'{' {
        return head::object(cursor).map(First::Object);
    }
    Ok(if cursor.skip()? == b"null" { First::Null } else { First::NoObject })
}

/// What the redacted form of a line keeps: the object that counts, unless it is a fragment that the client passes over.
pub(super) fn known(line: &[u8], begins_file: bool) -> Vec<Known> {
    let Line { from, end, first, more } = Lines::parse(line.into(), u64::from(!begins_file), ());
    let counts = match first {
        Some(First::Object(Object::Skipped(_))) => !more,
        Some(First::Object(_)) => true,
        _ => false,
    };
    counts.then_some(Known { range: from..end, alone: !more }).into_iter().collect()
}

impl Rules for Lines {
    type Line<'a> = Line<'a>;

    type Survey = ();

    fn survey(_: &[u8]) {}

    fn parse(line: Marked<'_>, offset: u64, (): ()) -> Line<'_> {
        let start = if offset == 0 && line.bytes().starts_with(BOM) { BOM.len() } else { 0 };
        let mut cursor = Cursor::new(line.slice(start..line.bytes().len()));
        let Some(byte) = cursor.peek() else { return Line::blank() };
        let from = start + cursor.at();
        let first = first(&mut cursor, byte)
            .unwrap_or_else(|e| First::Malformed(format!("{} at byte {} of the line", e.what, start + e.at)));
        Line { from, end: start + cursor.at(), first: Some(first), more: cursor.peek().is_some() }
    }

    fn apply(&mut self, t: &mut Transcript, line: &mut Line<'_>, offset: u64) -> Outcome {
        t.last_wins = true;
        let mut out = Outcome::default();
        let number = t.lines;
        let &mut Line { from, end, ref mut first, more } = line;
        let object = match first {
            None => return out,
            Some(First::Object(object)) => object,
            Some(First::Null) => {
                self.rounds.null_line.get_or_insert(number);
                out.findings.push((from, skipped(number, "the line is no JSON object")));
                return out;
            }
            Some(First::NoObject) => {
                out.findings.push((from, skipped(number, "the line is no JSON object")));
                return out;
            }
            Some(First::Malformed(reason)) => {
                out.findings.push((
                    from,
                    LineDiagnostic::MalformedLine { line: number, reason: std::mem::take(reason) },
                ));
                return out;
            }
        };
        t.objects += 1;
        out.objects_end = end;
        let place = span(offset, &(from..end));
        match object {
            Object::Record(head) => {
                out.records = 1;
                self.record(t, head, place);
            }
            &mut Object::Pin { target, explicit } => {
                let target = target.intern(&mut t.ids);
                let before = t.records.len() as RecordIx;
                self.rounds.pins.push(Pin { target, explicit, before });
            }
            Object::Snapshot(message) => {
                let message = message.intern(&mut t.ids);
                let before = t.records.len() as RecordIx;
                self.rounds.snapshots.push(FileSnapshot { message, before, span: place });
            }
            Object::Title(rank) => self.rounds.titles[*rank] = Some(place),
            Object::Aside => {}
            Object::Skipped(why) => out.findings.push((from, skipped(number, why))),
        }
        if more {
            let reason = format!(
                "something follows the first object, at byte {end} of the line; it is lost for the client"
            );
            out.findings.push((end, LineDiagnostic::MalformedLine { line: number, reason }));
        }
        out
    }
}

impl Lines {
    fn record(&mut self, t: &mut Transcript, head: &Head<'_>, span: Span) {
        if let Field::Str(session) = head.session {
            self.marks.session(t, session);
        }
        self.marks.version(head.version);
        if t.first_cwd.is_none() {
            t.first_cwd = head.cwd.text().map(|cwd| cwd.into_owned());
        }
        let ix = t.records.len() as RecordIx;
        let before = t.records.last().map(|record| record.id);
        let id = head.uuid.intern(&mut t.ids);
        let parent = head.parent.map(|p| p.intern_near(&mut t.ids, before));
        let (rounds, names) = (&mut self.rounds, &mut self.names);
        rounds.message.push(head.message.map(|m| names.intern(m)));
        rounds.push_time(head.time);
        if head.kind == RecordKind::Assistant {
            rounds.calls.extend(head.calls.iter().map(|c| (ix, names.intern(*c))));
        }
        if head.kind == RecordKind::ToolResult {
            rounds.answers.extend(head.answers.iter().map(|c| (ix, names.intern(*c))));
            if let Field::Str(source) = head.source {
                rounds.sources.push((ix, source.intern(&mut t.ids)));
            }
        }
        if let Some(logical) = head.logical {
            rounds.logical.push((ix, logical.intern(&mut t.ids)));
        }
        if let Some(kept) = &head.kept {
            rounds.kept.push(kept.note(ix, &mut t.ids));
        }
        let line = read::line_number(t);
        t.push(Record { id, parent, span, kind: head.kind, flags: head.flags }, line);
    }
}
