//! Sessions from before the folders: files of one chat message a line (0.x, 1.x), and the logs of events beside them.
//!
//! They are recognised so that they can be refused by name; nothing is read of them. A chat message a line is a form that
//! many programs write, so a file is only taken for one of Reasonix if a line has what Reasonix alone writes, or if the
//! caller knows better from where it lies.

use std::io;

use serde_json::{Map, Value};

use crate::transcript::Source;

/// How much of a file is looked at, in bytes: the first line of a session is its whole system prompt.
const WINDOW: u64 = 1 << 20;

/// How many lines are looked at.
const LINES: usize = 64;

/// Members of a message that no other program is known to write.
const OWN: [&str; 5] =
    ["raw_content", "workDurationMs", "tool_run_state", "tool_execution", "reasoning_signature"];

/// What a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// One of Reasonix: messages with members of its own, or its log of events.
    Certain,
    /// A chat message a line: Reasonix's if it lies where Reasonix keeps its sessions.
    Messages,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event,
    OwnMessage,
    Message,
}

/// Looks at the beginning of a file. None if a line of it is neither a message nor an event.
///
/// # Errors
/// Only what `source` reports.
pub fn older(source: &dyn Source) -> io::Result<Option<Older>> {
    let mut bytes = vec![0; source.len().min(WINDOW) as usize];
    source.read_exact_at(0, &mut bytes)?;
    // A last line may be unfinished, or go on behind the window.
    let whole = memchr::memrchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1);
    let lines = bytes[..whole].split(|&b| b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let mut kinds = Vec::new();
    for line in lines.take(LINES) {
        match kind(line) {
            Some(kind) => kinds.push(kind),
            None => return Ok(None),
        }
    }
    let events = kinds.iter().filter(|&&kind| kind == Kind::Event).count();
    Ok(match events {
        _ if kinds.is_empty() => None,
        0 if kinds.contains(&Kind::OwnMessage) => Some(Older::Certain),
        0 => Some(Older::Messages),
        n if n == kinds.len() => Some(Older::Certain),
        _ => None,
    })
}

fn kind(line: &[u8]) -> Option<Kind> {
    let line: Map<String, Value> = serde_json::from_slice(line).ok()?;
    if ["uuid", "parentUuid", "sessionId"].iter().any(|key| line.contains_key(*key)) {
        return None;
    }
    let text = |key: &str| line.get(key).and_then(Value::as_str);
    if line.get("schema_version").is_some_and(Value::is_u64) {
        return (text("type").is_some() && text("writer").is_some()).then_some(Kind::Event);
    }
    let message =
        matches!(text("role"), Some("system" | "user" | "assistant" | "tool")) && !line.contains_key("type");
    let own = OWN.iter().any(|key| line.contains_key(*key));
    message.then_some(if own { Kind::OwnMessage } else { Kind::Message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Older> {
        older(&text.as_bytes()).unwrap()
    }

    #[test]
    fn messages_are_certain_by_members_that_only_this_client_writes() {
        let plain = r#"{"role":"user","content":"x"}"#;
        let own = r#"{"role":"assistant","id":"01M3","content":"y","workDurationMs":3}"#;
        assert_eq!(of(plain), Some(Older::Messages));
        assert_eq!(of(&format!("{plain}\n{own}\n")), Some(Older::Certain));
        assert_eq!(of(&format!("{plain}\n\n{own}\n{{\"role\":\"us")), Some(Older::Certain), "a torn end");
        let event = r#"{"schema_version":2,"type":"log","writer":"h-1-a","at":"2026-09-29T04:39:58Z"}"#;
        assert_eq!(of(event), Some(Older::Certain));
        assert_eq!(of(&format!("{event}\n{own}\n")), None, "no file has both");
    }

    #[test]
    fn other_files_are_none() {
        for text in [
            "",
            "\n",
            "no JSON",
            "{}",
            "[]",
            r#"{"role":"reviewer","content":"x"}"#,
            r#"{"role":"user","type":"message"}"#,
            r#"{"role":"user","uuid":"a"}"#,
            r#"{"schema_version":2,"type":"log"}"#,
            "{\"role\":\"user\"}\n{\"user\":1}\n",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
