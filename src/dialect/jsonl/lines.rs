//! Where the client sees lines, and what it trims from them.
//!
//! Node's `readline` ends a line at LF, CRLF and a lone CR. Node 24 and later also end one at U+2028 and U+2029,
//! which `JSON.stringify` leaves as they are in strings; Node 20 and 22 do not (all four were run). The client
//! asks for Node 22, and its cases were measured with it, so those two do not end a line here; a file that holds
//! one is marked ([`crate::transcript::Transcript::separator_line`]).

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The pieces of a physical line (without its line feed) that are lines for the client, with their offsets.
pub(in crate::dialect) fn pieces(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut ends = memchr::memchr_iter(b'\r', line);
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = ends.next();
        next = end.map(|at| at + 1);
        Some((start, &line[start..end.unwrap_or(line.len())]))
    })
}

/// Whether there is a carriage return.
pub(in crate::dialect) fn holds_return(lines: &[u8]) -> bool {
    memchr::memchr(b'\r', lines).is_some()
}

/// Whether a line holds U+2028 or U+2029.
pub(in crate::dialect) fn holds_separator(line: &[u8]) -> bool {
    static FIRST_TWO: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\xe2\x80"));
    FIRST_TWO.find_iter(line).any(|at| matches!(line.get(at + 2), Some(0xa8 | 0xa9)))
}

/// What JavaScript takes for white space, line ends included. Rust's `is_whitespace` has U+0085 and lacks U+FEFF.
pub(in crate::dialect) fn is_js_space(c: char) -> bool {
    matches!(c, '\u{feff}') || (c.is_whitespace() && c != '\u{85}')
}

/// How many bytes of white space of one character stand at the start.
pub(in crate::dialect) fn space_at(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    if first.is_ascii() {
        return is_js_space(first.into()).then_some(1);
    }
    // All of JavaScript's other white space takes two or three bytes in UTF-8.
    (2..=3).find(|&n| {
        bytes.get(..n).and_then(|b| std::str::from_utf8(b).ok()).is_some_and(|s| s.chars().all(is_js_space))
    })
}

/// Trims as `String.prototype.trim` does; returns how much went at the start, and the rest.
pub(in crate::dialect) fn trim(bytes: &[u8]) -> (usize, &[u8]) {
    let mut from = 0;
    while let Some(n) = space_at(&bytes[from..]) {
        from += n;
    }
    let mut to = bytes.len();
    // UTF-8 can be read backwards: no white space is the end of another valid sequence.
    while let Some(n) = (1..=3).find(|&n| to >= from + n && space_at(&bytes[to - n..to]) == Some(n)) {
        to -= n;
    }
    (from, &bytes[from..to])
}
