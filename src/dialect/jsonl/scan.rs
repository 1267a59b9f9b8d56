//! Where a JSON value ends, for the loop that every byte of every transcript goes through.
//!
//! This and [`super::strings`] are what does not leave JSON to `serde_json`, and they leave it the last word: only a value
//! that is found valid here is stepped over here, everything else (also what is merely nested too deep) is `None`, and
//! [`super::json::Cursor::skip`] asks `serde_json`. A test holds the two to one answer.

use super::marked::Marked;

/// The deepest nesting that is followed: one bit of a word a level.
const DEEPEST: u32 = 64;

/// The offset behind the value that begins at `at`, white space aside, if it is valid and ends before `bytes` do or
/// with them.
#[inline]
pub(super) fn value_end(text: Marked<'_>, mut at: usize) -> Option<usize> {
    let bytes = text.bytes();
    // The lowest bit is set if the innermost container is an object.
    let (mut nest, mut depth) = (0u64, 0u32);
    loop {
        at = blank_end(bytes, at);
        match *bytes.get(at)? {
            b'"' => at = text.string_end(at + 1)?.end,
            open @ (b'{' | b'[') => {
                at = blank_end(bytes, at + 1);
                let close = if open == b'{' { b'}' } else { b']' };
                if *bytes.get(at)? != close {
                    if depth == DEEPEST {
                        return None;
                    }
                    depth += 1;
                    nest = nest << 1 | u64::from(open == b'{');
                    if open == b'{' {
                        at = key_end(text, at)?;
                    }
                    continue;
                }
                at += 1;
            }
            b't' => at = word_end(bytes, at, b"true")?,
            b'f' => at = word_end(bytes, at, b"false")?,
            b'n' => at = word_end(bytes, at, b"null")?,
            _ => at = number_end(bytes, at)?,
        }
        // A value has ended: go on in what holds it.
        loop {
            if depth == 0 {
                return Some(at);
            }
            at = blank_end(bytes, at);
            let object = nest & 1 == 1;
            match (*bytes.get(at)?, object) {
                (b',', true) => {
                    at = key_end(text, blank_end(bytes, at + 1))?;
                    break;
                }
                (b',', false) => {
                    at += 1;
                    break;
                }
                (b'}', true) | (b']', false) => {
                    nest >>= 1;
                    depth -= 1;
                    at += 1;
                }
                _ => return None,
            }
        }
    }
}

/// The offset of the first byte that is no white space.
#[inline]
pub(super) fn blank_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The offset behind the colon of the key whose quote stands at `at`.
#[inline]
fn key_end(text: Marked<'_>, at: usize) -> Option<usize> {
    let bytes = text.bytes();
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let at = blank_end(bytes, text.string_end(at + 1)?.end);
    (*bytes.get(at)? == b':').then_some(at + 1)
}

/// As [`super::strings::string_end`], whatever the string holds.
pub(in crate::dialect) fn any_string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[inline]
fn word_end(bytes: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    if bytes.get(at..end)? == word { delimited(bytes, end) } else { None }
}

/// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`, of any size.
fn number_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|b| wanted.contains(b));
    let digits = |from: usize| {
        let n = bytes.get(from..)?.iter().take_while(|b| b.is_ascii_digit()).count();
        (n > 0).then_some(from + n)
    };
    at += usize::from(is(at, b"-"));
    at = if is(at, b"0") { at + 1 } else { digits(at)? };
    if is(at, b".") {
        at = digits(at + 1)?;
    }
    if is(at, b"eE") {
        at += 1;
        at = digits(at + usize::from(is(at, b"+-")))?;
    }
    delimited(bytes, at)
}

/// What has no closing sign of its own must be followed by one that ends it.
#[inline]
fn delimited(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at) {
        None | Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'"' | b'[' | b']' | b'{' | b'}') => {
            Some(at)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;
    use crate::dialect::jsonl::marked::StringMarks;

    /// What `serde_json` says of the value at the start.
    fn by_serde(bytes: &[u8]) -> Option<usize> {
        let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        Some(values.byte_offset())
    }

    fn same(bytes: &[u8]) {
        let (found, told) = (by_serde(bytes), String::from_utf8_lossy(bytes));
        assert_eq!(value_end(bytes.into(), 0), found, "of {told:?}");
        let mut marks = StringMarks::default();
        assert_eq!(value_end(marks.of(bytes).text(bytes), 0), found, "of {told:?}, marked");
    }

    #[test]
    fn every_short_text_of_telling_bytes() {
        // All texts of up to six of these: every state of the scanner with everything that may follow.
        let telling = b"\"\\{}[],:-+.01eEtu \x1f\xc3";
        for len in 0..=4usize {
            for n in 0..telling.len().pow(len as u32) {
                let text: Vec<u8> =
                    (0..len as u32).map(|i| telling[n / telling.len().pow(i) % telling.len()]).collect();
                same(&text);
            }
        }
    }

    #[test]
    fn words_numbers_and_escapes() {
        for value in [
            "true",
            "false",
            "null",
            "tru",
            "nul",
            "falsee",
            "0",
            "-0",
            "00",
            "01",
            "-",
            "1.",
            "1.5",
            ".5",
            "1e",
            "1e5",
            "1e+",
            "1E-07",
            "-1.25e+300",
            "123456789012345678901234567890",
            "\"\\u00e9\"",
            "\"\\ud800\"",
            "\"\\u12g4\"",
            "\"\\u123\"",
            "\"\\x\"",
            "\"\\/\"",
            "\"\\\"",
            "\"\t\"",
            "\"\u{7f}\u{80}\"",
            "{}",
            "[]",
            "{ }",
            "[ ]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\" : 1 , \"b\" : [ 1 , 2 ] }",
            "{,}",
            "[,]",
            "[1,]",
            "{\"a\":1,}",
            "{1:2}",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "]",
            "}",
        ] {
            for tail in ["", " ", "x", "\"", ",", "1", "}", "]", "{", "[", ":", "\n{}", "e", "."] {
                same(format!("{value}{tail}").as_bytes());
                same(format!(" [{value}{tail}] ").as_bytes());
                same(format!("{{\"k\":{value}{tail}}}").as_bytes());
            }
        }
    }

    #[test]
    fn strings_end_at_any_place_of_a_block() {
        for len in 0..100 {
            for end in ["\"", "\\n\"", "\\", "\n\"", "\u{1f}", "\\u00", ""] {
                same(format!("\"{}{end}", "é".repeat(len)).as_bytes());
                same(format!("\"{}{end} ", "x".repeat(len)).as_bytes());
            }
        }
    }

    #[test]
    fn what_is_nested_too_deep_is_left_to_serde_json() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        same(nested(64).as_bytes());
        assert_eq!(
            (value_end(nested(65).as_bytes().into(), 0), by_serde(nested(65).as_bytes())),
            (None, Some(131))
        );
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-12.5e3".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
            "[a-z\u{e9}]{0,70}".prop_map(|s| format!("\"{s}\\n\"")),
        ];
        leaf.prop_recursive(5, 60, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|v| format!("[{}]", v.join(" ,"))),
                prop::collection::vec(("[a-z\"\\\\]{0,9}", inner), 0..5).prop_map(|v| {
                    let members: Vec<_> = v
                        .iter()
                        .map(|(k, v)| format!("{}: {v}", serde_json::to_string(k).unwrap()))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn valid_and_mutated_texts(text in json(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
            let mut bytes = text.into_bytes();
            prop_assert_eq!(value_end(bytes[..].into(), 0), Some(bytes.len()));
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            same(&bytes);
        }
    }
}
