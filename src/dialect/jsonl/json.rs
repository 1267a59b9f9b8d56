//! A cursor over one JSON text that judges it as `JSON.parse` does.
//!
//! Values nobody asks for are checked and stepped over by a scanner of our own ([`super::scan`]), and where that one
//! does not, by `serde_json`, which does it without recursion, at any depth and for numbers of any size. Strings stay
//! raw until they are wanted: `serde`'s `str` refuses lone surrogates and bytes that are not UTF-8, while the client
//! reads both. Of a repeated key the callers let the last win, by assigning each time.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::{marked::Marked, scan};
use crate::transcript::{IdIx, IdTable};

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::dialect) struct JsonError {
    /// In words; never holds any of the text.
    pub what: String,
    /// Offset in bytes.
    pub at: usize,
}

pub(in crate::dialect) type Result<T = (), E = JsonError> = std::result::Result<T, E>;

/// A value as far as it matters to most readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::dialect) enum Field<'a> {
    #[default]
    Absent,
    Null,
    Str(RawStr<'a>),
    /// Anything else, as it stands.
    Other(&'a [u8]),
}

impl<'a> Field<'a> {
    /// The string that it is.
    pub fn string(self) -> Option<RawStr<'a>> {
        match self {
            Field::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        self.string().map(RawStr::text)
    }
}

/// What stands between the quotes of a valid string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::dialect) struct RawStr<'a> {
    raw: &'a [u8],
    /// Whether there is no escape in it.
    plain: bool,
}

impl<'a> RawStr<'a> {
    fn new(raw: &'a [u8]) -> Self {
        RawStr { raw, plain: !raw.contains(&b'\\') }
    }

    pub fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Whether it is spelled without escapes.
    pub fn is_plain(self) -> bool {
        self.plain
    }

    /// The bytes of the text if it is spelled without escapes, else of the text. For comparison with known names.
    pub fn name(self) -> Cow<'a, [u8]> {
        if self.plain { Cow::Borrowed(self.raw) } else { Cow::Owned(self.text().into_owned().into_bytes()) }
    }

    /// The number of the id that it is.
    pub fn intern(self, ids: &mut IdTable) -> IdIx {
        self.intern_near(ids, None)
    }

    /// The number of the id that it is, which is likely to be `guess`.
    pub fn intern_near(self, ids: &mut IdTable, guess: Option<IdIx>) -> IdIx {
        ids.intern_uuid(self.raw, guess).unwrap_or_else(|| ids.intern(&self.text()))
    }

    /// Compares with a text of printable ASCII, whichever way the string spells it.
    pub fn is(self, ascii: &str) -> bool {
        // No spelling of a character takes more than six bytes; long texts need not be decoded.
        self.raw == ascii.as_bytes()
            || (!self.plain && self.raw.len() <= 6 * ascii.len() && self.text() == ascii)
    }

    /// Whether the first character that is no white space is surely another one than this of printable ASCII. For
    /// a text that begins with an escape or outside of ASCII it may be false all the same.
    pub fn begins_otherwise(self, ascii: u8) -> bool {
        match self.raw.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(&first) => first.is_ascii_graphic() && first != b'\\' && first != ascii,
            None => true,
        }
    }

    /// It, or a beginning of at most `most` bytes, whose text is a beginning of its own.
    pub fn beginning(self, most: usize) -> RawStr<'a> {
        if self.raw.len() <= most {
            return self;
        }
        let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
        let mut end = most;
        // Not within a character.
        while end > 0 && is_continuation(self.raw[end]) {
            end -= 1;
        }
        // Nor within an escape, nor between those of a surrogate pair.
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'\\', &self.raw[at..end]) {
            let escape = at + found;
            at = escape + unescape(&self.raw[escape..]).1;
            if at > end {
                end = escape;
                break;
            }
        }
        RawStr::new(&self.raw[..end])
    }

    /// The text: each lone surrogate and each maximal invalid sequence of bytes is U+FFFD.
    pub fn text(self) -> Cow<'a, str> {
        let text = match std::str::from_utf8(self.raw) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.raw),
        };
        if self.plain {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            out.push_str(&rest[..at]);
            let (c, used) = unescape(&rest.as_bytes()[at..]);
            out.push(c);
            rest = &rest[at + used..];
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
}

/// Decodes the escape at the start of `s` (validated before) and says how many bytes it takes.
pub(in crate::dialect) fn unescape(s: &[u8]) -> (char, usize) {
    let simple = |c| (c, 2);
    match s.get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => match unit(s) {
            Some(high @ 0xd800..=0xdbff) => match s.get(6..).and_then(unit) {
                Some(low @ 0xdc00..=0xdfff) => {
                    let c = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    (char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
                }
                _ => (char::REPLACEMENT_CHARACTER, 6),
            },
            unit => (unit.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
        },
        Some(&c) => simple(c.into()),
        None => (char::REPLACEMENT_CHARACTER, 1),
    }
}

/// The code unit of a `\uXXXX` at the start of `s`.
fn unit(s: &[u8]) -> Option<u32> {
    let hex = s.strip_prefix(b"\\u")?.get(..4)?;
    hex.iter().try_fold(0, |n, &b| Some(n << 4 | (b as char).to_digit(16)?))
}

/// A place in a JSON text.
pub(in crate::dialect) struct Cursor<'a> {
    text: Marked<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: impl Into<Marked<'a>>) -> Self {
        Cursor { text: text.into(), at: 0 }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.bytes()
    }

    /// The first byte of what comes next, white space aside.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        self.at = scan::blank_end(self.bytes(), self.at);
        self.bytes().get(self.at).copied()
    }

    /// How many bytes have been stepped over.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Steps over one value and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8]> {
        let from = scan::blank_end(self.bytes(), self.at);
        if let Some(end) = scan::value_end(self.text, from) {
            self.at = end;
            return Ok(&self.bytes()[from..end]);
        }
        self.skip_by_serde()
    }

    #[cold]
    fn skip_by_serde(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes()[self.at..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let value = &rest[..values.byte_offset()];
                self.at += value.len();
                Ok(value.trim_ascii_start())
            }
            // A record stands on one line, so that the column is the offset, counted from 1.
            Some(Err(e)) => Err(JsonError { what: words(&e), at: self.at + e.column().saturating_sub(1) }),
            None => Err(self.error("the text ends where a value must stand")),
        }
    }

    /// Steps over one value and says what it is.
    #[inline]
    pub fn field(&mut self) -> Result<Field<'a>> {
        if self.peek() == Some(b'"')
            && let Some(found) = self.text.string_end(self.at + 1)
        {
            let raw = &self.bytes()[self.at + 1..found.end - 1];
            self.at = found.end;
            return Ok(Field::Str(RawStr { raw, plain: found.plain }));
        }
        self.other_field()
    }

    fn other_field(&mut self) -> Result<Field<'a>> {
        let value = self.skip()?;
        Ok(match value {
            [b'"', inner @ .., b'"'] => Field::Str(RawStr::new(inner)),
            b"null" => Field::Null,
            other => Field::Other(other),
        })
    }

    /// Reads an object; `member` is given each key and must step over its value.
    #[inline]
    pub fn members(&mut self, mut member: impl FnMut(RawStr<'a>, &mut Cursor<'a>) -> Result) -> Result {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("a key must stand here"));
            }
            let Field::Str(key) = self.field()? else { return Err(self.error("a key must stand here")) };
            self.expect(b':')?;
            member(key, self)?;
            if !self.goes_on(b'}')? {
                return Ok(());
            }
        }
    }

    /// Reads an array; `element` must step over each value.
    #[inline]
    pub fn elements(&mut self, mut element: impl FnMut(&mut Cursor<'a>) -> Result) -> Result {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    /// Whether nothing but white space is left.
    pub fn end(&mut self) -> Result {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("something follows the value")),
        }
    }

    /// Steps over the comma before the next member, or over the `close` that ends them all.
    #[inline]
    fn goes_on(&mut self, close: u8) -> Result<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.missing(b',')),
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result {
        if self.take(byte) { Ok(()) } else { Err(self.missing(byte)) }
    }

    #[cold]
    fn missing(&self, byte: u8) -> JsonError {
        self.error(&format!("`{}` must stand here", byte as char))
    }

    fn error(&self, what: &str) -> JsonError {
        JsonError { what: what.to_owned(), at: self.at }
    }
}

/// The message without its position, which counts from the start of a value.
fn words(e: &serde_json::Error) -> String {
    let text = e.to_string();
    match text.find(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Whether a text is one JSON value.
pub(in crate::dialect) fn check(bytes: &[u8]) -> Result {
    let mut cursor = Cursor::new(bytes);
    cursor.skip()?;
    cursor.end()
}

/// One member of the object that comes next; absent if it is no object.
pub(in crate::dialect) fn member_of<'a>(value: &mut Cursor<'a>, name: &str) -> Result<Field<'a>> {
    let mut found = Field::Absent;
    if value.peek() != Some(b'{') {
        value.skip()?;
        return Ok(found);
    }
    value.members(|key, value| {
        if key.is(name) {
            found = value.field()?;
        } else {
            value.skip()?;
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_beginning_of_a_text_is_a_beginning_of_it(
            pieces in prop::collection::vec(prop::sample::select(vec![
                &b"a"[..], "é".as_bytes(), "字".as_bytes(), "😀".as_bytes(), b"\\n", br"\\", br#"\""#, br"\u0041",
                br"\ud83d\ude00", br"\ud83d", br"\ude00", b"\x80", b"\xe5\xad", b"\xf0\x9f\x98", b"\xff",
            ]), 0..12),
        ) {
            let raw = pieces.concat();
            let text = RawStr::new(&raw);
            for most in 0..=raw.len() + 1 {
                let begin = text.beginning(most);
                prop_assert!(begin.raw.len() <= most);
                prop_assert!(text.text().starts_with(&*begin.text()), "{:?} of {:?}", begin.text(), text.text());
                prop_assert_eq!(begin == text, most >= raw.len());
            }
        }
    }

    #[test]
    fn no_more_is_left_out_than_a_character() {
        let raw = r"é\ud83d\ude00\n".repeat(50);
        let text = RawStr::new(raw.as_bytes());
        for most in 0..raw.len() {
            assert!(most - text.beginning(most).raw.len() < 12);
        }
    }
}
