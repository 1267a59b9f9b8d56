//! Where the members of a JSON object stand in its bytes, so that single values can be replaced and everything
//! else carried over verbatim (I10).

use std::{borrow::Cow, ops::Range};

use serde::{
    Deserializer as _,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// One member of an object.
pub(in crate::dialect) struct Member {
    /// The key; empty where it cannot be decoded (a lone surrogate), which is no key of ours.
    pub key: String,
    /// The value's bytes.
    pub value: Range<usize>,
}

/// The members of the object that `json` holds, in order, repeated keys included. None if it is no object.
pub(in crate::dialect) fn members(json: &[u8]) -> Option<Vec<Member>> {
    let text = ascii_shadow(json);
    let mut de = serde_json::Deserializer::from_str(&text);
    de.deserialize_map(Members { base: text.as_ptr() as usize }).ok()
}

/// The elements of the array that `json` holds. None if it is no array.
pub(in crate::dialect) fn elements(json: &[u8]) -> Option<Vec<Range<usize>>> {
    let text = ascii_shadow(json);
    let mut de = serde_json::Deserializer::from_str(&text);
    de.deserialize_seq(Elements { base: text.as_ptr() as usize }).ok()
}

/// The value of the last member called `key`: the one that `JSON.parse` keeps.
pub(in crate::dialect) fn last<'m>(members: &'m [Member], key: &str) -> Option<&'m Range<usize>> {
    members.iter().rev().find(|m| m.key == key).map(|m| &m.value)
}

/// The decoded string at `range`, if it is one. Lone surrogates make it none: no id of ours has them.
pub(in crate::dialect) fn string(json: &[u8], range: &Range<usize>) -> Option<String> {
    serde_json::from_slice(&json[range.clone()]).ok()
}

/// A value to be replaced, or a place to insert at.
pub(in crate::dialect) struct Edit {
    pub at: Range<usize>,
    pub with: Vec<u8>,
}

/// Applies edits that do not overlap, in any order.
pub(in crate::dialect) fn apply(json: &[u8], mut edits: Vec<Edit>, out: &mut Vec<u8>) {
    edits.sort_by_key(|e| e.at.start);
    let mut done = 0;
    for edit in edits {
        out.extend_from_slice(&json[done..edit.at.start]);
        out.extend_from_slice(&edit.with);
        done = edit.at.end;
    }
    out.extend_from_slice(&json[done..]);
}

/// The same bytes with every non-ASCII byte replaced: positions stay, and invalid UTF-8 (which the client
/// reads as U+FFFD) cannot stop the scan. Non-ASCII bytes stand inside strings only.
fn ascii_shadow(json: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(json) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(
            json.iter().map(|&b| if b.is_ascii() { char::from(b) } else { '~' }).collect::<String>(),
        ),
    }
}

fn range_of(raw: &RawValue, base: usize) -> Range<usize> {
    let start = raw.get().as_ptr() as usize - base;
    start..start + raw.get().len()
}

struct Members {
    base: usize,
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let key = serde_json::from_str(key.get()).unwrap_or_default();
            found.push(Member { key, value: range_of(value, self.base) });
        }
        Ok(found)
    }
}

struct Elements {
    base: usize,
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<Range<usize>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(value) = seq.next_element::<&RawValue>()? {
            found.push(range_of(value, self.base));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(json: &[u8]) -> Vec<(String, Vec<u8>)> {
        members(json).unwrap().into_iter().map(|m| (m.key, json[m.value].to_vec())).collect()
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let json = br#" { "a" : [1, {"b":2}] ,"\u0061":"x\"y","":null } "#;
        assert_eq!(
            spans(json),
            [
                ("a".into(), br#"[1, {"b":2}]"#.to_vec()),
                ("a".into(), br#""x\"y""#.to_vec()),
                (String::new(), b"null".to_vec())
            ]
        );
    }

    #[test]
    fn bad_utf8_and_lone_surrogates_do_not_move_anything() {
        let json = b"{\"t\":\"\xff\xe2\x82\",\"\\ud800\":1,\"u\":\"\\ud800\"}";
        let found = spans(json);
        assert_eq!(found[0], ("t".into(), b"\"\xff\xe2\x82\"".to_vec()));
        assert_eq!(found[1].0, "");
        assert_eq!(found[2], ("u".into(), b"\"\\ud800\"".to_vec()));
    }

    #[test]
    fn depth_is_no_limit() {
        let deep = format!("{{\"d\":{}{},\"e\":1}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(members(deep.as_bytes()).unwrap().len(), 2);
        assert_eq!(elements(b"[1, [2,3] ,\"x\"]").unwrap(), [1..2, 4..9, 11..14]);
        assert!(members(b"[1]").is_none() && elements(b"{}").is_none() && members(b"{").is_none());
    }

    #[test]
    fn edits_replace_and_insert() {
        let mut out = Vec::new();
        let edits = vec![
            Edit { at: 4..5, with: b"E".to_vec() },
            Edit { at: 1..3, with: Vec::new() },
            Edit { at: 6..6, with: b"!".to_vec() },
        ];
        apply(b"abcdef", edits, &mut out);
        assert_eq!(out, b"adEf!");
    }
}
