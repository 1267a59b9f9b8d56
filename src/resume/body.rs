//! A record body of the caller's, and the line that it becomes.
//!
//! Values are carried over as they were written, numbers and escapes included: a caller that is a JavaScript program
//! may hand over halves of surrogate pairs, which the client reads and `serde_json`'s own strings refuse.

use std::fmt;

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// What the writer fills in.
pub(super) struct Fill<'a> {
    pub uuid: &'a str,
    pub parent: &'a str,
    pub session_id: &'a str,
    /// Where the body has none.
    pub timestamp: &'a str,
}

/// The members of an object in order; of a repeated key the last one, as in `JSON.parse`.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &'de RawValue)> = Vec::new();
                let mut seen: hashbrown::HashMap<String, usize> = hashbrown::HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    match seen.get(&key) {
                        Some(&at) => members[at].1 = value,
                        None => {
                            seen.insert(key.clone(), members.len());
                            members.push((key, value));
                        }
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// The line for a body, with its line feed. `Err` completes "a record body ...".
pub(super) fn line(body: &[u8], fill: &Fill<'_>) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(body).map_err(|e| format!("is no UTF-8: {e}"))?;
    let Members(members) =
        serde_json::from_str(text).map_err(|e| format!("is no JSON object: {}", without_quotes(&e)))?;
    let given = |key: &str| members.iter().find(|(k, _)| k == key).map(|(_, v)| *v);
    for key in ["uuid", "parentUuid"] {
        if given(key).is_some() {
            return Err(format!("names `{key}`, which the writer fills in"));
        }
    }
    let session = given("sessionId").map(|raw| serde_json::from_str::<String>(raw.get()).ok());
    if session.is_some_and(|id| id.as_deref() != Some(fill.session_id)) {
        return Err("names another `sessionId`".to_owned());
    }
    let mut line = Vec::with_capacity(body.len() + 256);
    line.push(b'{');
    member(&mut line, "uuid", &quoted(fill.uuid));
    member(&mut line, "parentUuid", &quoted(fill.parent));
    member(&mut line, "sessionId", &quoted(fill.session_id));
    if given("timestamp").is_none() {
        member(&mut line, "timestamp", &quoted(fill.timestamp));
    }
    for (key, value) in members.iter().filter(|(key, _)| key != "sessionId") {
        member(&mut line, key, value.get());
    }
    line.extend_from_slice(b"}\n");
    Ok(one_line_everywhere(line))
}

fn member(line: &mut Vec<u8>, key: &str, value: &str) {
    if line.len() > 1 {
        line.push(b',');
    }
    line.extend_from_slice(quoted(key).as_bytes());
    line.push(b':');
    line.extend_from_slice(value.as_bytes());
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("BUG: a string is always JSON")
}

/// What the parser says, without its habit of quoting what it met.
fn without_quotes(e: &serde_json::Error) -> String {
    match e.classify() {
        serde_json::error::Category::Data => format!("another value at column {}", e.column()),
        _ => e.to_string(),
    }
}

/// Newer versions of Node end a line at U+2028 and U+2029. In JSON they can only stand in strings, where an escape
/// means the same.
fn one_line_everywhere(line: Vec<u8>) -> Vec<u8> {
    let separator = |at: &usize| matches!(line.get(at + 2), Some(0xa8 | 0xa9));
    let found: Vec<usize> = memchr::memmem::find_iter(&line, b"\xe2\x80").filter(separator).collect();
    if found.is_empty() {
        return line;
    }
    let mut out = Vec::with_capacity(line.len() + 3 * found.len());
    let mut from = 0;
    for at in found {
        out.extend_from_slice(&line[from..at]);
        out.extend_from_slice(if line[at + 2] == 0xa8 { b"\\u2028" } else { b"\\u2029" });
        from = at + 3;
    }
    out.extend_from_slice(&line[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(body: &str) -> Result<String, String> {
        let fill = Fill { uuid: "u", parent: "p", session_id: "s", timestamp: "t" };
        line(body.as_bytes(), &fill).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn values_are_carried_over_as_they_were_written() {
        assert_eq!(
            line_of(r#"{"type":"user","n":1.50,"big":123456789012345678901,"half":"\ud83d","type":"x"}"#)
                .unwrap(),
            concat!(
                r#"{"uuid":"u","parentUuid":"p","sessionId":"s","timestamp":"t","#,
                r#""type":"x","n":1.50,"big":123456789012345678901,"half":"\ud83d"}"#,
                "\n"
            )
        );
        assert!(
            line_of(r#"{"sessionId":"s","timestamp":"mine"}"#)
                .unwrap()
                .ends_with("\"sessionId\":\"s\",\"timestamp\":\"mine\"}\n")
        );
        assert!(
            line_of("{\"a\":\"x\u{2028}y\u{2029}\u{2027}\"}")
                .unwrap()
                .ends_with("\"a\":\"x\\u2028y\\u2029\u{2027}\"}\n")
        );
    }

    #[test]
    fn what_is_no_body_is_refused() {
        for bad in [
            "",
            "null",
            "[]",
            "1",
            "\"x\"",
            "{",
            "{}{}",
            "{\"a\":}",
            "{\"a\":\"\0\"}",
            "{\"a\":nul}",
            r#"{"uuid":"u"}"#,
            r#"{"parentUuid":null}"#,
            r#"{"sessionId":"other"}"#,
            r#"{"sessionId":1}"#,
        ] {
            assert!(line_of(bad).is_err(), "{bad}");
        }
        let fill = Fill { uuid: "u", parent: "p", session_id: "s", timestamp: "t" };
        assert!(line(b"{\"a\":\"\xff\"}", &fill).is_err());
    }
}
