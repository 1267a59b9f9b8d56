//! Bytes of which nobody knows what they are: cut into tokens as JSON is, and filled.
//!
//! What is wrong with them, and where, must be found in the same place: names of members by which the readers go stay, since
//! a reader says in other words what is wrong below one that it enters. All of them are on the list (`rules`), and stand before a colon.

use super::{
    keys::{self, Rule, Rules},
    words::{self, Fill},
};
use crate::dialect::jsonl::{
    json::{Cursor, Field},
    scan::{any_string_end, blank_end},
};

/// Appends what stands for `bytes`.
pub(super) fn fill(bytes: &[u8], rules: Rules, out: &mut Vec<u8>) {
    let mut at = 0;
    // Whether the key of a type came last.
    let mut kind = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                out.push(byte);
                let Some(end) = any_string_end(bytes, at + 1) else {
                    return Fill::default().string(&bytes[at + 1..], out);
                };
                let (raw, text) = (&bytes[at + 1..end - 1], Cursor::new(&bytes[at..end]).field());
                let text = match &text {
                    Ok(Field::Str(text)) => Some(text.text()),
                    _ => None,
                };
                let key = bytes.get(blank_end(bytes, end)) == Some(&b':');
                let kept = text.as_ref().is_some_and(|text| match key {
                    true => rules(text).is_some_and(|rule| rule != Rule::Strict),
                    false => kind && keys::is_kind(text),
                });
                match kept {
                    true => out.extend_from_slice(raw),
                    false => Fill::default().string(raw, out),
                }
                kind = key && text.is_some_and(|text| text == "type");
                out.push(b'"');
                at = end;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => {
                kind &= byte == b':';
                out.push(byte);
                at += 1;
            }
            _ if words::is_blank(byte) => {
                out.push(byte);
                at += 1;
            }
            _ => {
                kind = false;
                let word = words::word(&bytes[at..]);
                words::mask(word, out);
                at += word.len();
            }
        }
    }
}
