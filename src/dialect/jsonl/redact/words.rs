//! Bytes that stand for other bytes: as many, of the same kind, and no word of them.

use crate::{
    dialect::jsonl::{json::unescape, lines},
    record::is_hazard,
};

/// What stands for characters of two, three and four bytes.
const WIDE: [&str; 3] = ["é", "字", "😀"];

/// Letters of filled text before a space, so that it can be broken into lines as text can.
const WORD: usize = 5;

/// Fills one string.
#[derive(Default)]
pub(super) struct Fill {
    /// Letters since the last space.
    run: usize,
}

impl Fill {
    /// Appends what stands for the content of a string, quotes aside. Escapes stay escapes of the same kind, valid
    /// ones valid; white space that ends a line and what could steer a terminal stay; white space at either end too.
    pub fn string(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let (before, body) = lines::trim(raw);
        out.extend_from_slice(&raw[..before]);
        for chunk in body.utf8_chunks() {
            self.valid(chunk.valid(), out);
            invalid(chunk.invalid(), out);
        }
        out.extend_from_slice(&raw[before + body.len()..]);
    }

    fn valid(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let used = match c {
                '\\' => self.escape(rest.as_bytes(), out),
                ' '..='~' => {
                    self.letter(rest[1..].starts_with(|next| matches!(next, ' '..='~')), out);
                    1
                }
                c => {
                    wide(c, out);
                    c.len_utf8()
                }
            };
            rest = &rest[used..];
        }
    }

    /// A space comes only where a letter follows (`within`): what is trimmed from the end must stay as long as it is.
    fn letter(&mut self, within: bool, out: &mut Vec<u8>) {
        if self.run >= WORD && within {
            self.run = 0;
            out.push(b' ');
        } else {
            self.run += 1;
            out.push(b'x');
        }
    }

    /// The escape at the start; returns how many bytes it takes. It never ends within a character.
    fn escape(&mut self, s: &[u8], out: &mut Vec<u8>) -> usize {
        self.run = 1;
        match s.get(1) {
            None => {
                out.push(b'\\');
                1
            }
            Some(b'u') => {
                out.extend_from_slice(b"\\u");
                let digits: Vec<u8> =
                    s[2..].iter().take(4).take_while(|b| b.is_ascii_hexdigit()).copied().collect();
                if digits.len() < 4 {
                    out.extend(digits.iter().map(|_| b'0'));
                } else {
                    out.extend_from_slice(unit(&digits));
                }
                2 + digits.len()
            }
            Some(&kept @ (b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                out.extend([b'\\', kept]);
                2
            }
            // Not valid, and neither is what stands for it.
            Some(b) if b.is_ascii_graphic() => {
                out.extend_from_slice(b"\\x");
                2
            }
            Some(_) => {
                out.push(b'\\');
                1
            }
        }
    }
}

/// What stands for the four digits of a `\u`.
fn unit(digits: &[u8]) -> &[u8] {
    let code =
        std::str::from_utf8(digits).ok().and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0x78);
    match code {
        0xd800..=0xdbff => b"d83d",
        0xdc00..=0xdfff => b"de00",
        _ => match char::from_u32(code) {
            Some(c) if c.is_whitespace() || c == '\u{feff}' || is_hazard(c) => digits,
            _ => b"0078",
        },
    }
}

/// A character outside of printable ASCII.
fn wide(c: char, out: &mut Vec<u8>) {
    let stand_in = match c {
        // Tags spell words that nobody sees.
        '\u{e0020}'..='\u{e007f}' => '\u{e0078}',
        c if c.is_control() || c.is_whitespace() || is_hazard(c) => c,
        c => return out.extend_from_slice(WIDE[c.len_utf8() - 2].as_bytes()),
    };
    out.extend_from_slice(stand_in.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Bytes that are no UTF-8. The beginning of a character stays one: a reader may wait for its end.
fn invalid(bytes: &[u8], out: &mut Vec<u8>) {
    let Some(&lead) = bytes.first() else { return };
    let cut = match lead {
        0xc2..=0xdf => Some(WIDE[0]),
        0xe1..=0xef => Some(WIDE[1]),
        0xf1..=0xf3 => Some(WIDE[2]),
        _ => None,
    };
    match cut {
        Some(whole) if bytes.len() < whole.len() => out.extend_from_slice(&whole.as_bytes()[..bytes.len()]),
        // A lead that allows not every second byte.
        _ if matches!(lead, 0xe0 | 0xf0 | 0xf4) => out.extend_from_slice(bytes),
        _ => out.extend(bytes.iter().map(|_| 0xff)),
    }
}

/// Whether a byte separates words.
pub(super) fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

/// What stands at the start, up to what has a meaning of its own.
pub(super) fn word(bytes: &[u8]) -> &[u8] {
    let ends = |b: &u8| is_blank(*b) || b"\"{}[],:".contains(b);
    &bytes[..bytes.iter().position(ends).unwrap_or(bytes.len())]
}

/// Where white space ends at the start of a valid string, however it is spelled.
pub(super) fn blanks_end(raw: &str) -> usize {
    let mut at = 0;
    while let Some(first) = raw[at..].chars().next() {
        let (c, used) = match first {
            '\\' => unescape(&raw.as_bytes()[at..]),
            c => (c, c.len_utf8()),
        };
        if !lines::is_js_space(c) {
            break;
        }
        at += used;
    }
    at
}

/// Appends what stands for a word outside of strings. A number stays a number of the same form, zeros included, since
/// no other digit may come first; what JSON would read before it gives up stays.
pub(super) fn mask(word: &[u8], out: &mut Vec<u8>) {
    let literal = ["true", "false", "null"].into_iter().map(|literal| common(literal.as_bytes(), word)).max();
    let kept = literal.unwrap_or_default();
    out.extend_from_slice(&word[..kept]);
    let numeric = word.first().is_some_and(|b| b.is_ascii_digit() || *b == b'-');
    let mut exponent = numeric;
    for chunk in word[kept..].utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '0' => out.push(b'0'),
                '1'..='9' => out.push(b'1'),
                'e' | 'E' if exponent => {
                    exponent = false;
                    out.push(c as u8);
                }
                c if c.is_ascii_alphabetic() => {
                    exponent = false;
                    // A space would end the word.
                    out.push(b'x');
                }
                c if c.is_ascii() => out.push(c as u8),
                c => wide(c, out),
            }
        }
        invalid(chunk.invalid(), out);
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
