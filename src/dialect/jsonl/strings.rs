//! Where a JSON string ends: many bytes at once, since strings are nearly all of a transcript.
//!
//! The bytes of a block become bits, the lowest for the first, and what is asked of them is asked of all at once:
//! texts of programs hold an escape in every line, and a branch for each would cost more than the text. Which
//! characters are escaped is worked out as simdjson does (Langdale and Lemire, "Parsing gigabytes of JSON per
//! second", 2019, section 3.1.1).

use wide::u8x16;

use super::blocks::{BLOCK, Block, is, is_control};

/// The end of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dialect) struct StringEnd {
    /// The offset behind its closing quote.
    pub end: usize,
    /// Whether it holds no escape.
    pub plain: bool,
}

/// The end of the string whose content begins at `at`, if it is valid and ends before `bytes` do or with them.
#[inline]
pub(super) fn string_end(bytes: &[u8], at: usize) -> Option<StringEnd> {
    // Keys, ids and most other values end here.
    let rest = bytes.get(at..)?;
    if let Some(first) = rest.first_chunk() {
        let block = u8x16::new(*first);
        let quote = is(block, b'"');
        let first = quote | is(block, b'\\') | is_control(block);
        if first != 0 && quote >> first.trailing_zeros() & 1 == 1 {
            return Some(StringEnd { end: at + first.trailing_zeros() as usize + 1, plain: true });
        }
    }
    by_blocks(bytes, at)
}

fn by_blocks(bytes: &[u8], mut at: usize) -> Option<StringEnd> {
    let mut plain = true;
    // Whether the block before ended within an escape. The next block must not wait for where this one ends.
    let mut open = false;
    while let Some(block) = bytes.get(at..)?.first_chunk::<BLOCK>() {
        let special = Block::of(block);
        if special.backslash == 0 && !open {
            if special.control & before(special.quote) != 0 {
                return None;
            }
            if special.quote != 0 {
                return Some(StringEnd { end: behind(at, special.quote), plain });
            }
            at += BLOCK;
            continue;
        }
        let (escaped, goes_on) = escaped(special.backslash, open);
        let end = special.quote & !escaped;
        plain &= special.backslash & before(end) == 0;
        if special.control & before(end) != 0 {
            return None;
        }
        let simple = special.quote | special.backslash | special.letter;
        let other = escaped & before(end) & !simple;
        if other != 0 {
            at = escape_end(bytes, at + other.trailing_zeros() as usize)?;
            open = false;
            continue;
        }
        if end != 0 {
            return Some(StringEnd { end: behind(at, end), plain });
        }
        open = goes_on;
        at += BLOCK;
    }
    by_bytes(bytes, at - usize::from(open), plain)
}

/// [`by_blocks`] for what is left.
fn by_bytes(bytes: &[u8], mut at: usize, mut plain: bool) -> Option<StringEnd> {
    loop {
        match *bytes.get(at)? {
            b'"' => return Some(StringEnd { end: at + 1, plain }),
            b'\\' => {
                plain = false;
                at = escape_end(bytes, at + 1)?;
            }
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// The offset behind an escape whose backslash stands before `at`, if it is one.
pub(super) fn escape_end(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' if bytes.get(at + 1..at + 5)?.iter().all(u8::is_ascii_hexdigit) => Some(at + 5),
        _ => None,
    }
}

/// The bytes that a backslash escapes, and whether the last one is a backslash that escapes what follows. `open`: the
/// first byte is escaped by what stands before it.
#[inline(always)]
pub(super) fn escaped(backslash: u64, open: bool) -> (u64, bool) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let open = u64::from(open);
    let backslash = backslash & !open;
    let follows = backslash << 1 | open;
    let odd_starts = backslash & !EVEN & !follows;
    // The carry of the sum runs through each run of backslashes that begins at an odd place.
    let (even_runs, goes_on) = odd_starts.overflowing_add(backslash);
    ((EVEN ^ (even_runs << 1)) & follows, goes_on)
}

/// The bits below the lowest one; all if there is none.
#[inline(always)]
pub(super) fn before(bits: u64) -> u64 {
    (bits & bits.wrapping_neg()).wrapping_sub(1)
}

/// The offset behind the lowest bit of a block at `at`.
#[inline]
fn behind(at: usize, bits: u64) -> usize {
    at + bits.trailing_zeros() as usize + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(bytes: &[u8]) {
        for at in 0..=bytes.len().min(2) {
            assert_eq!(string_end(bytes, at), by_bytes(bytes, at, true), "of {bytes:?} from {at}");
        }
    }

    #[test]
    fn every_byte_beside_every_seam() {
        for byte in 0..=u8::MAX {
            for at in [0, 1, 14, 15, 16, 17, 40, 62, 63, 64, 65, 126, 127, 128, 129, 147] {
                for behind in [b'x', b'"', b'n', b'\\', 0, 0xff] {
                    let mut bytes = [b'x'; 150];
                    bytes[at] = byte;
                    bytes[at + 1..].fill(behind);
                    bytes[149] = b'"';
                    same(&bytes);
                    bytes[at.saturating_sub(1)] = b'\\';
                    same(&bytes);
                }
            }
        }
    }

    #[test]
    fn runs_of_backslashes_over_the_ends_of_blocks() {
        for before in 50..80 {
            for run in (0..9).chain(60..70) {
                for behind in ["\"", "n\"", "u00e9\"", "u00g9\"", "\"\"", "x\"", "", "/\"\\"] {
                    let text = "x".repeat(before) + &"\\".repeat(run) + behind;
                    same(text.as_bytes());
                    same((text + &"y".repeat(90)).as_bytes());
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

        #[test]
        fn texts_of_telling_bytes(text in "([\\\\\"ntu/bfr0-9a-f\u{1f}é]|[ -~]{1,9}){0,200}") {
            same(text.as_bytes());
        }
    }
}
