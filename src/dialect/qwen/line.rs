//! One line of the file to what the client gets out of it. Knows nothing of the file around it, so that lines
//! could be read in any order.

use std::ops::Range;

use super::{
    head::{self, Object},
    salvage::{self, Scanned},
};
use crate::dialect::jsonl::{
    json::{self, JsonError},
    lines,
    marked::Marked,
    redact::Known,
};

/// Something on a line; offsets count from the start of the line.
pub(super) enum Found<'a> {
    /// A JSON object: a record, or one that the client skips.
    Object(Range<usize>, Object<'a>),
    /// A JSON value that is no object; the client drops the whole of it.
    NoObject(Range<usize>, &'static str),
    /// Bytes that the client drops, from here.
    Malformed(usize, String),
}

/// Reads one line without its line feed, and says whether a carriage return within it ends a line for the client.
/// `returns`: whether it may hold one.
pub(super) fn read<'a>(line: Marked<'a>, returns: bool, found: &mut dyn FnMut(Found<'a>)) -> bool {
    if !returns {
        let (blank, text) = lines::trim(line.bytes());
        if !text.is_empty() {
            read_piece(line.slice(blank..blank + text.len()), blank, found);
        }
        return false;
    }
    let mut texts = 0;
    for (offset, piece) in lines::pieces(line.bytes()) {
        let (blank, text) = lines::trim(piece);
        if !text.is_empty() {
            texts += 1;
            let from = offset + blank;
            read_piece(line.slice(from..from + text.len()), from, found);
        }
    }
    texts > 1
}

/// What the redacted form of a line without a carriage return keeps: an object that stands alone, and records.
pub(super) fn known(line: &[u8], _: bool) -> Vec<Known> {
    let (blank, text) = lines::trim(line);
    let mut known = Vec::new();
    read(line.into(), false, &mut |found| {
        if let Found::Object(range, object) = found {
            let alone = range == (blank..blank + text.len());
            known.extend((alone || object.record.is_ok()).then_some(Known { range, alone }));
        }
    });
    known
}

fn read_piece<'a>(marked: Marked<'a>, base: usize, found: &mut dyn FnMut(Found<'a>)) {
    let text = marked.bytes();
    let whole = base..base + text.len();
    if text[0] == b'{' {
        match head::object(marked) {
            Ok(object) => found(Found::Object(whole, object)),
            Err(e) => salvage_piece(text, base, &e, found),
        }
        return;
    }
    match json::check(text) {
        Ok(()) => {
            let what = match text[0] {
                b'[' => "an array is no record",
                b'"' => "a string is no record",
                b't' | b'f' => "a boolean is no record",
                b'n' => "null is no record",
                _ => "a number is no record",
            };
            found(Found::NoObject(whole, what));
        }
        Err(e) => salvage_piece(text, base, &e, found),
    }
}

fn salvage_piece<'a>(text: &'a [u8], base: usize, e: &JsonError, found: &mut dyn FnMut(Found<'a>)) {
    // The scanner takes the whole of every object that stands alone, so a line of well-formed objects has
    // nothing but `Closed`; all else is lost for the client.
    salvage::scan(text, &mut |scanned| match scanned {
        Scanned::Closed(range) => {
            let at = base + range.start;
            match head::object(text[range.clone()].into()) {
                Ok(object) => found(Found::Object(at..base + range.end, object)),
                Err(e) => found(Found::Malformed(at, reason(&e, at))),
            }
        }
        Scanned::Stray(0) => found(Found::Malformed(base, reason(e, base))),
        Scanned::Stray(at) => {
            found(Found::Malformed(base + at, format!("stray bytes at byte {} of the line", base + at)));
        }
        Scanned::Open(at) => {
            found(Found::Malformed(base + at, format!("what begins at byte {} has no end", base + at)));
        }
    });
}

fn reason(e: &JsonError, base: usize) -> String {
    format!("{} at byte {} of the line", e.what, base + e.at)
}
