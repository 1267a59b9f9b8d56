//! What the client takes from a line that is not JSON: every object whose braces close, by a scanner that knows
//! strings and nothing else of JSON. It repairs records that were glued together; a fragment that ends inside a
//! string turns the scanner's idea of strings over, and good records behind it are lost. So do we.

use std::ops::Range;

use crate::dialect::jsonl::{lines::space_at, scan::any_string_end};

/// What the scanner met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// Braces that close; whether they hold JSON is not yet known.
    Closed(Range<usize>),
    /// Bytes that belong to no object, from here.
    Stray(usize),
    /// An object or a string that does not end, from here.
    Open(usize),
}

/// Scans a trimmed line. Stray bytes are reported once for each run.
pub(super) fn scan(line: &[u8], found: &mut dyn FnMut(Scanned)) {
    let mut depth = 0usize;
    let mut start = 0;
    let mut stray = false;
    let mut at = 0;
    let mut open = None;
    while at < line.len() {
        if depth > 0 {
            // Inside an object only quotes and braces matter.
            let Some(next) = line[at..].iter().position(|b| matches!(b, b'"' | b'{' | b'}')) else { break };
            at += next;
        }
        match line[at] {
            b'"' => {
                if depth == 0 && !std::mem::replace(&mut stray, true) {
                    found(Scanned::Stray(at));
                }
                let Some(end) = any_string_end(line, at + 1) else {
                    open = Some(if depth > 0 { start } else { at });
                    break;
                };
                at = end;
                continue;
            }
            b'{' => {
                if depth == 0 {
                    start = at;
                    stray = false;
                }
                depth += 1;
            }
            b'}' if depth == 0 => {
                if !std::mem::replace(&mut stray, true) {
                    found(Scanned::Stray(at));
                }
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    found(Scanned::Closed(start..at + 1));
                }
            }
            _ => match space_at(&line[at..]) {
                Some(space) => {
                    at += space;
                    continue;
                }
                None => {
                    if !std::mem::replace(&mut stray, true) {
                        found(Scanned::Stray(at));
                    }
                }
            },
        }
        at += 1;
    }
    if let Some(from) = open.or((depth > 0).then_some(start)) {
        found(Scanned::Open(from));
    }
}
