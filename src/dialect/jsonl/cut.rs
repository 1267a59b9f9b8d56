//! A transcript without some of its records: which of its bytes remain.

use std::{io, ops::Range};

use super::{
    json::{Cursor, Field},
    lines,
};
use crate::{
    dialect::Remains,
    transcript::{RecordIx, Source, Transcript},
};

/// Members of an object that is no record by which it belongs to one: pins, summaries, file snapshots, and records of
/// types that the client passes over.
const BELONGS: &[&str] = &["leafUuid", "messageId", "messageUuid", "parentUuid"];

/// The longest line without a record that is looked into; a longer one is kept.
const LONGEST: u64 = 64 << 20;

pub(in crate::dialect) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Cuts the records of the ids in `removed` out of `source`, which is what `t` was read from and may have more bytes
/// behind. With `first_only` one record of a line counts and the client loses the rest, which must not come to life,
/// so that the whole line goes; else the other objects of a line stay.
pub(in crate::dialect) fn cut(
    t: &Transcript,
    source: &dyn Source,
    removed: &[bool],
    first_only: bool,
) -> io::Result<Remains> {
    let mut cutter = Cutter { t, source, removed, first_only, next: 0, cut: Remains::default() };
    let len = source.len();
    let (mut chunk, mut at, mut start) = (vec![0; 256 << 10], 0u64, 0u64);
    while at < len {
        let n = (len - at).min(chunk.len() as u64) as usize;
        source.read_exact_at(at, &mut chunk[..n])?;
        for end in memchr::memchr_iter(b'\n', &chunk[..n]) {
            let end = at + end as u64 + 1;
            cutter.line(start..end)?;
            start = end;
        }
        at += n as u64;
    }
    if start < len {
        cutter.line(start..len)?;
    }
    Ok(cutter.cut)
}

struct Cutter<'a> {
    t: &'a Transcript,
    source: &'a dyn Source,
    removed: &'a [bool],
    first_only: bool,
    /// The first record that has not been met.
    next: RecordIx,
    cut: Remains,
}

impl Cutter<'_> {
    fn line(&mut self, line: Range<u64>) -> io::Result<()> {
        let from = self.next;
        while self.t.records.get(self.next as usize).is_some_and(|r| r.span.range().start < line.end) {
            self.next += 1;
        }
        let records = &self.t.records[from as usize..self.next as usize];
        if records.is_empty() {
            let goes = self.belongs(&line)?;
            if goes {
                self.cut.lines += 1;
            } else {
                self.keep(line);
            }
            return Ok(());
        }
        let goes = |r: &crate::transcript::Record| self.removed[r.id.ix()];
        let going = records.iter().filter(|r| goes(r)).count();
        self.cut.records += going as u64;
        if going == 0 {
            self.keep(line);
        } else if !self.first_only {
            let mut rest = Vec::new();
            let mut at = line.start;
            for record in records.iter().filter(|r| goes(r)) {
                let span = record.span.range();
                rest.push(at..span.start);
                at = span.end;
            }
            rest.push(at..line.end);
            rest.retain(|r| !r.is_empty());
            if going < records.len() || !self.is_blank(&rest)? {
                rest.into_iter().for_each(|r| self.keep(r));
            }
        }
        Ok(())
    }

    fn keep(&mut self, range: Range<u64>) {
        match self.cut.kept.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.cut.kept.push(range),
        }
    }

    fn read(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.source.read_exact_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    fn is_blank(&self, parts: &[Range<u64>]) -> io::Result<bool> {
        for part in parts {
            if !lines::trim(&self.read(part)?).1.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a line without a record is an object that belongs to a record that goes.
    fn belongs(&self, line: &Range<u64>) -> io::Result<bool> {
        if line.end - line.start > LONGEST {
            return Ok(false);
        }
        let bytes = self.read(line)?;
        let text = if line.start == 0 { bytes.strip_prefix(BOM).unwrap_or(&bytes) } else { &bytes };
        let mut cursor = Cursor::new(text);
        if cursor.peek() != Some(b'{') {
            return Ok(false);
        }
        let mut names = [Field::Absent; BELONGS.len()];
        let read = cursor.members(|key, value| {
            match BELONGS.iter().position(|name| key.is(name)) {
                Some(at) => names[at] = value.field()?,
                None => drop(value.skip()?),
            }
            Ok(())
        });
        // What the client takes for no object stays, whatever it was to be.
        if read.is_err() || (!self.first_only && cursor.end().is_err()) {
            return Ok(false);
        }
        let goes = |name: &Field<'_>| {
            let id = name.text().and_then(|text| self.t.ids.find(&text));
            id.is_some_and(|id| self.removed[id.ix()])
        };
        Ok(names.iter().any(goes))
    }
}
