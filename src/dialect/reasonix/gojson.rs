//! JSON as the client writes it (Go's `encoding/json`): which characters are escaped decides digests.

/// Appends `text` as a JSON string.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped(out, c),
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends a JSON value without the white space between its tokens, with the escapes that embedding gives it.
///
/// `value` is valid JSON.
pub(super) fn compact(out: &mut Vec<u8>, value: &[u8]) {
    let (mut in_string, mut escape) = (false, false);
    let mut at = 0;
    while let Some(&b) = value.get(at) {
        match b {
            b'<' | b'>' | b'&' => escaped(out, char::from(b)),
            0xe2 if matches!(value.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => {
                escaped(out, if value[at + 2] == 0xa8 { '\u{2028}' } else { '\u{2029}' });
                at += 2;
            }
            b' ' | b'\t' | b'\r' | b'\n' if !in_string => {}
            _ => out.push(b),
        }
        if in_string {
            in_string = escape || b != b'"';
            escape = !escape && b == b'\\';
        } else {
            in_string = b == b'"';
        }
        at += 1;
    }
}

fn escaped(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
}

/// A time of RFC 3339 as it is written again: a fraction without trailing zeros. None if it is no such time.
pub(super) fn time(text: &str) -> Option<String> {
    text.parse::<jiff::Timestamp>().ok()?;
    let (head, tail) = text.split_once('.').map_or((text, ""), |(head, tail)| (head, tail));
    if head.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    if tail.is_empty() {
        return Some(head.to_owned());
    }
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = tail.split_at(digits);
    let fraction = fraction.trim_end_matches('0');
    Some(if fraction.is_empty() { format!("{head}{zone}") } else { format!("{head}.{fraction}{zone}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_go_does() {
        let shown =
            text(|out| string(out, "a\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}<>&\u{2028}\u{2029}ü\u{1f600}"));
        assert_eq!(
            shown,
            "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}\\u003c\\u003e\\u0026\\u2028\\u2029ü\u{1f600}\""
        );
    }

    #[test]
    fn values_are_compacted_as_go_does() {
        let shown = text(|out| {
            compact(out, " { \"a b\\\" c\\\\\" : [ 1 , \"<\u{2029} \\u00fc\u{2027}\" ] }\n".as_bytes());
        });
        assert_eq!(shown, "{\"a b\\\" c\\\\\":[1,\"\\u003c\\u2029 \\u00fc\u{2027}\"]}");
    }

    #[test]
    fn times_are_written_without_trailing_zeros() {
        for (read, written) in [
            ("2026-11-30T16:10:29.881070Z", Some("2026-11-30T16:10:29.88107Z")),
            ("2026-11-30T16:10:29.000Z", Some("2026-11-30T16:10:29Z")),
            ("2026-11-30T16:10:29Z", Some("2026-11-30T16:10:29Z")),
            ("2026-11-30T16:10:29.120000001+02:00", Some("2026-11-30T16:10:29.120000001+02:00")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("2026-11-30 16:10:29Z", None),
            ("yesterday", None),
        ] {
            assert_eq!(time(read).as_deref(), written, "{read}");
        }
    }
}
