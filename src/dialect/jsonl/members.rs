//! Where the members of a JSON object stand in its bytes, so that single values can be replaced and everything
//! else carried over verbatim (I10).

use std::{borrow::Cow, ops::Range};

use super::json::{Cursor, Result};

/// One member of an object.
pub(in crate::dialect) struct Member<'a> {
    /// The key, as [`super::json::RawStr::text`] has it: one with a lone surrogate is no key of ours.
    pub key: Cow<'a, str>,
    /// The value's bytes.
    pub value: Range<usize>,
}

/// The members of the object that `json` begins with, in order, repeated keys included. None if it is no object.
pub(in crate::dialect) fn members(json: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut found = Vec::new();
    Cursor::new(json)
        .members(|key, value| {
            found.push(Member { key: key.text(), value: range(value)? });
            Ok(())
        })
        .ok()?;
    Some(found)
}

/// The elements of the array that `json` begins with. None if it is no array.
pub(in crate::dialect) fn elements(json: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    Cursor::new(json)
        .elements(|value| {
            found.push(range(value)?);
            Ok(())
        })
        .ok()?;
    Some(found)
}

/// Where the value stands that is stepped over.
pub(in crate::dialect) fn range(value: &mut Cursor<'_>) -> Result<Range<usize>> {
    let len = value.skip()?.len();
    Ok(value.at() - len..value.at())
}

/// The value of the last member called `key`: the one that `JSON.parse` keeps.
pub(in crate::dialect) fn last<'m>(members: &'m [Member<'_>], key: &str) -> Option<&'m Range<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(json: &[u8]) -> Vec<(String, Vec<u8>)> {
        members(json).unwrap().into_iter().map(|m| (m.key.into_owned(), json[m.value].to_vec())).collect()
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
        assert_eq!(found[1].0, "\u{fffd}");
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
