//! Lines with marks at which their strings may end, made for many lines at once.
//!
//! A string of a transcript is short as a key or an id, or it is a text with an escape in every line: to search each one for
//! its end costs more to begin and to go on than the bytes themselves. So the bytes of a region are looked over once,
//! without a branch, and a string then takes the next mark. Which characters are escaped, and so where a mark stands,
//! does not depend on where strings begin: within a string, a run of backslashes begins within it too.

use multiversion::{multiversion, target::match_target};

use super::{
    blocks::{self, BLOCK, Block},
    strings::{self, StringEnd},
};

/// The marks of some lines. Made again for others, it keeps its memory.
#[derive(Default)]
pub(in crate::dialect) struct StringMarks {
    words: Vec<Word>,
    line_feeds: Vec<usize>,
}

/// The marks of a block, the lowest bit for its first byte.
#[derive(Clone, Copy)]
struct Word {
    /// At what a string cannot simply go over: a quote that is not escaped, a control character, an escaped character of
    /// which not every one makes an escape.
    stop: u64,
    backslash: u64,
}

impl StringMarks {
    /// Makes the marks of `bytes`, which must begin a line.
    pub fn of(&mut self, bytes: &[u8]) -> &Self {
        mark_all(bytes, &mut self.words, &mut self.line_feeds);
        self
    }

    /// The offsets of the line feeds.
    pub fn line_feeds(&self) -> &[usize] {
        &self.line_feeds
    }

    /// What was marked, with its marks.
    pub fn text<'a>(&'a self, bytes: &'a [u8]) -> Marked<'a> {
        Marked { bytes, words: &self.words, base: 0 }
    }
}

/// On the newest vectors that the machine has.
#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn mark_all(bytes: &[u8], words: &mut Vec<Word>, line_feeds: &mut Vec<usize>) {
    match_target! {
        "x86_64+avx2" => mark_by(|block| Block::of_avx2(block), bytes, words, line_feeds),
        _ => mark_by(Block::of, bytes, words, line_feeds),
    }
}

#[inline(always)]
fn mark_by(
    of: impl Fn(&[u8; BLOCK]) -> Block,
    bytes: &[u8],
    words: &mut Vec<Word>,
    line_feeds: &mut Vec<usize>,
) {
    line_feeds.clear();
    words.resize(bytes.len().div_ceil(BLOCK), Word { stop: 0, backslash: 0 });
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut open = false;
    let mut at = 0;
    for (word, block) in words.iter_mut().zip(blocks) {
        let meaning = of(block);
        open = mark(word, meaning, open);
        if meaning.control != 0 {
            note_line_feeds(block, at, line_feeds);
        }
        at += BLOCK;
    }
    if !rest.is_empty() {
        // White space has no marks.
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        let last = words.last_mut().expect("BUG: there is a word for each block");
        mark(last, of(&block), open);
        note_line_feeds(&block, at, line_feeds);
    }
}

/// Makes the marks of a block; `open` and what is returned: whether a backslash at its end escapes what follows.
#[inline(always)]
fn mark(word: &mut Word, block: Block, open: bool) -> bool {
    let Block { quote, backslash, control, letter } = block;
    let (escaped, goes_on) = strings::escaped(backslash, open);
    let simple = quote | backslash | letter;
    *word = Word { stop: quote & !escaped | control | escaped & !simple, backslash };
    goes_on
}

#[cold]
fn note_line_feeds(block: &[u8; BLOCK], at: usize, line_feeds: &mut Vec<usize>) {
    let mut feeds = blocks::line_feeds(block);
    while feeds != 0 {
        line_feeds.push(at + feeds.trailing_zeros() as usize);
        feeds &= feeds - 1;
    }
}

/// A text, with marks if they were made.
#[derive(Clone, Copy)]
pub(in crate::dialect) struct Marked<'a> {
    bytes: &'a [u8],
    words: &'a [Word],
    /// Where `bytes` begins in what was marked.
    base: usize,
}

impl<'a> From<&'a [u8]> for Marked<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Marked { bytes, words: &[], base: 0 }
    }
}

impl<'a> Marked<'a> {
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// A part of it.
    pub fn slice(self, range: std::ops::Range<usize>) -> Self {
        Marked { base: self.base + range.start, bytes: &self.bytes[range], words: self.words }
    }

    /// [`strings::string_end`].
    #[inline(always)]
    pub fn string_end(self, at: usize) -> Option<StringEnd> {
        let from = self.base + at;
        if let Some(word) = self.words.get(from / BLOCK) {
            let behind = u64::MAX << (from % BLOCK);
            let stop = word.stop & behind;
            if stop != 0 {
                let end = from / BLOCK * BLOCK + stop.trailing_zeros() as usize - self.base;
                if self.bytes.get(end) == Some(&b'"') {
                    let plain = word.backslash & behind & strings::before(stop) == 0;
                    return Some(StringEnd { end: end + 1, plain });
                }
            }
        }
        self.long_end(at)
    }

    /// The same for a string that does not end in the block it begins in, or where no marks were made.
    #[inline(never)]
    fn long_end(self, at: usize) -> Option<StringEnd> {
        if self.words.is_empty() { strings::string_end(self.bytes, at) } else { self.by_words(at) }
    }

    fn by_words(self, mut at: usize) -> Option<StringEnd> {
        let mut backslash = 0;
        loop {
            let from = self.base + at;
            let mut behind = u64::MAX << (from % BLOCK);
            let mut block = from / BLOCK;
            let mut word = self.words.get(block)?;
            while word.stop & behind == 0 {
                backslash |= word.backslash & behind;
                behind = u64::MAX;
                block += 1;
                word = self.words.get(block)?;
            }
            let stop = word.stop & behind;
            backslash |= word.backslash & behind & strings::before(stop);
            let end = block * BLOCK + stop.trailing_zeros() as usize - self.base;
            match *self.bytes.get(end)? {
                b'"' => return Some(StringEnd { end: end + 1, plain: backslash == 0 }),
                0..0x20 => return None,
                // What is escaped.
                _ => at = strings::escape_end(self.bytes, end)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of the string behind each quote, what the marks say and what its own bytes say, in every line and in a part of it.
    fn same(bytes: &[u8], cut: usize) {
        let mut marks = StringMarks::default();
        // What was marked before leaves nothing.
        marks.of(&b"\\\"\n".repeat(100));
        let marks = marks.of(bytes);
        let feeds: Vec<usize> = memchr::memchr_iter(b'\n', bytes).collect();
        assert_eq!(marks.line_feeds(), feeds);
        let mut start = 0;
        for end in feeds.into_iter().chain([bytes.len()]) {
            for to in [end, end.saturating_sub(cut).max(start)] {
                let line = marks.text(bytes).slice(start..to);
                let of_line = line.bytes();
                for quote in memchr::memchr_iter(b'"', of_line) {
                    let by_marks = line.string_end(quote + 1);
                    assert_eq!(by_marks, strings::string_end(of_line, quote + 1), "{quote} of {of_line:?}");
                }
            }
            start = end + 1;
        }
    }

    #[test]
    fn strings_that_end_beside_every_seam() {
        for before in (0..70).chain(120..140) {
            for run in (0..5).chain(62..68) {
                for behind in
                    ["\"", "n\"", "\\u00e9\"", "\\u00g9\"", "\"\"", "x\"", "", "/\"\\", "\n\"", "\u{1f}\""]
                {
                    let text = "\"".to_owned() + &"x".repeat(before) + &"\\".repeat(run) + behind;
                    same(text.as_bytes(), 1);
                    same((text + &"y\"".repeat(40)).as_bytes(), 2);
                }
            }
        }
    }

    #[test]
    fn a_string_of_unicode_escapes_takes_no_stack() {
        let text = format!("\"{}\"", r"\u5b57".repeat(200_000));
        let mut marks = StringMarks::default();
        let end = marks.of(text.as_bytes()).text(text.as_bytes()).string_end(1);
        assert_eq!(end, Some(StringEnd { end: text.len(), plain: false }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn lines_of_telling_bytes(text in "([\\\\\"ntu/bfr0-9a-f\u{1f}\né]|[ -~]{1,9}){0,200}", cut in 0usize..40) {
            same(text.as_bytes(), cut);
        }
    }
}
