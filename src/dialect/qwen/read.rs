//! The file to records: which objects of each line count for the client.

use std::io;

use smallvec::SmallVec;

use super::{
    head::Head,
    line::{self, Found},
};
use crate::{
    dialect::jsonl::{
        lines,
        marked::Marked,
        read::{self, Limits, Marks, Outcome, Rules, skipped, span},
    },
    transcript::{LineDiagnostic, Record, Source, Span, Transcript},
};

pub(super) fn read(source: &dyn Source) -> io::Result<Transcript> {
    read_with(source, Limits::default())
}

pub(super) fn read_with(source: &dyn Source, limits: Limits) -> io::Result<Transcript> {
    let mut lines = Lines::default();
    let mut t = read::read(source, limits, &mut lines)?;
    t.client_version = lines.marks.highest();
    Ok(t)
}

#[derive(Default)]
struct Lines {
    marks: Marks,
}

/// What the client gets out of one line.
pub(super) struct Line<'a> {
    found: SmallVec<[Found<'a>; 1]>,
    /// Whether a carriage return within it ends a line for the client.
    broken: bool,
    /// Whether it holds U+2028 or U+2029.
    separator: bool,
}

/// What some of a region's lines hold.
#[derive(Clone, Copy)]
pub(super) struct Survey {
    returns: bool,
    separators: bool,
}

impl Rules for Lines {
    type Line<'a> = Line<'a>;

    type Survey = Survey;

    fn survey(lines: &[u8]) -> Survey {
        Survey { returns: lines::holds_return(lines), separators: lines::holds_separator(lines) }
    }

    fn parse(line: Marked<'_>, _: u64, survey: Survey) -> Line<'_> {
        let mut found = SmallVec::new();
        let broken = line::read(line, survey.returns, &mut |f| found.push(f));
        Line { found, broken, separator: survey.separators && lines::holds_separator(line.bytes()) }
    }

    fn apply(&mut self, t: &mut Transcript, line: &mut Line<'_>, offset: u64) -> Outcome {
        let mut out = Outcome::default();
        let number = t.lines;
        if t.separator_line.is_none() && line.separator {
            t.separator_line = Some(number);
        }
        let mut malformed: Option<(usize, String)> = None;
        for found in line.found.drain(..) {
            match found {
                Found::Object(range, object) => {
                    out.objects_end = range.end;
                    if t.objects == 0 {
                        t.first_cwd = object.cwd.text().map(|t| t.into_owned());
                    }
                    t.objects += 1;
                    match object.record {
                        Ok(head) => {
                            out.records += 1;
                            self.record(t, &head, span(offset, &range));
                        }
                        Err(reason) => out.findings.push((range.start, skipped(number, reason))),
                    }
                }
                Found::NoObject(range, reason) => out.findings.push((range.start, skipped(number, reason))),
                Found::Malformed(at, reason) => drop(malformed.get_or_insert((at, reason))),
            }
        }
        if let Some((at, mut reason)) = malformed {
            if out.objects_end > 0 {
                reason.push_str("; only the complete objects of the line count");
            }
            if line.broken {
                reason.push_str("; the client ends a line at each lone carriage return");
            }
            out.findings.push((at, LineDiagnostic::MalformedLine { line: number, reason }));
            out.findings.sort_by_key(|(at, _)| *at);
        }
        out
    }
}

impl Lines {
    fn record(&mut self, t: &mut Transcript, head: &Head<'_>, span: Span) {
        self.marks.session(t, head.session);
        self.marks.version(head.version);
        let before = t.records.last().map(|record| record.id);
        let id = head.uuid.intern(&mut t.ids);
        let parent = head.parent.map(|p| p.intern_near(&mut t.ids, before));
        let line = read::line_number(t);
        t.push(Record { id, parent, span, kind: head.kind, flags: head.flags }, line);
    }
}
