//! Whose transcript a file is, by what stands in it.

use std::io;

use super::jsonl::json::{Cursor, Field, Result};
use crate::{record::Agent, transcript::Source};

/// How much is looked at first, in bytes; twice as much each time that nothing was found.
const WINDOW: u64 = 64 << 10;

/// How much is looked at at most: whatever the agent, its first records stand before.
const MOST: u64 = 256 << 20;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// Only this agent writes such a line.
    Only(Agent),
    /// A record of Qwen Code's form without anything that is its alone.
    Perhaps,
    Nothing,
}

/// Tells the agent by the first line that only one agent writes. A file of bare records (ids, a type, a session, no
/// message) is taken for Qwen Code's, which has no more in some of its own. None if no line is a record of either.
///
/// # Errors
/// Only what `source` reports.
pub fn recognise(source: &dyn Source) -> io::Result<Option<Agent>> {
    let len = source.len().min(MOST);
    let mut window = WINDOW;
    loop {
        let read = window.min(len);
        let mut bytes = vec![0; usize::try_from(read).map_err(|_| io::ErrorKind::FileTooLarge)?];
        source.read_exact_at(0, &mut bytes)?;
        let whole = if read == len { bytes.len() } else { memchr::memrchr(b'\n', &bytes).unwrap_or(0) };
        let mut perhaps = false;
        for line in bytes[..whole].split(|&b| b == b'\n') {
            match sign(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)) {
                Sign::Only(agent) => return Ok(Some(agent)),
                Sign::Perhaps => perhaps = true,
                Sign::Nothing => {}
            }
        }
        if read == len {
            return Ok(perhaps.then_some(Agent::Qwen));
        }
        window = window.saturating_mul(2);
    }
}

#[derive(Default)]
struct Signs<'a> {
    kind: Field<'a>,
    uuid: Field<'a>,
    parent: bool,
    session: bool,
    /// Names something by a uuid without being a record.
    names: bool,
    user_type: bool,
    content: bool,
    parts: bool,
    payload: bool,
}

fn sign(line: &[u8]) -> Sign {
    let mut s = Signs::default();
    let mut cursor = Cursor::new(line);
    if cursor.peek() != Some(b'{') {
        return Sign::Nothing;
    }
    let read = cursor.members(|key, value| {
        match key.text().as_ref() {
            "type" => s.kind = value.field()?,
            "uuid" => s.uuid = value.field()?,
            "message" => return message(value, &mut s),
            name => {
                match name {
                    "parentUuid" => s.parent = true,
                    "sessionId" => s.session = true,
                    "leafUuid" | "messageId" => s.names = true,
                    "userType" => s.user_type = true,
                    "systemPayload" => s.payload = true,
                    _ => {}
                }
                value.skip()?;
            }
        }
        Ok(())
    });
    // A second object may be glued to the first; what stands in the first one was read.
    if read.is_err() { Sign::Nothing } else { s.sign() }
}

fn message<'a>(value: &mut Cursor<'a>, s: &mut Signs<'a>) -> Result {
    if value.peek() != Some(b'{') {
        return value.skip().map(drop);
    }
    value.members(|key, value| {
        match key.text().as_ref() {
            "content" => s.content = true,
            "parts" => s.parts = true,
            _ => {}
        }
        value.skip().map(drop)
    })
}

impl Signs<'_> {
    fn sign(&self) -> Sign {
        let Some(kind) = self.kind.text() else { return Sign::Nothing };
        if !matches!(self.uuid, Field::Str(s) if !s.is_empty()) {
            let aside = super::claude::is_aside(kind.as_bytes()) && (self.session || self.names);
            return if aside { Sign::Only(Agent::Claude) } else { Sign::Nothing };
        }
        match kind.as_ref() {
            "tool_result" => Sign::Only(Agent::Qwen),
            "attachment" | "progress" => Sign::Only(Agent::Claude),
            "user" | "assistant" | "system" => {
                if self.parts || self.payload {
                    Sign::Only(Agent::Qwen)
                } else if self.content || self.user_type {
                    Sign::Only(Agent::Claude)
                } else if self.parent && self.session {
                    Sign::Perhaps
                } else {
                    Sign::Nothing
                }
            }
            _ => Sign::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(text: &str) -> Option<Agent> {
        recognise(&text.as_bytes()).unwrap()
    }

    #[test]
    fn the_first_telling_line_decides() {
        let bare = r#"{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user"}"#;
        let qwen = r#"{"uuid":"b","parentUuid":"a","sessionId":"s","type":"user","message":{"parts":[]}}"#;
        let claude =
            r#"{"uuid":"b","parentUuid":"a","sessionId":"s","type":"user","message":{"content":"x"}}"#;
        assert_eq!(agent(bare), Some(Agent::Qwen));
        assert_eq!(agent(qwen), Some(Agent::Qwen));
        assert_eq!(agent(claude), Some(Agent::Claude));
        assert_eq!(agent(&format!("{bare}\n{claude}\n{qwen}")), Some(Agent::Claude));
        assert_eq!(agent(&format!("\u{feff}{claude}")), Some(Agent::Claude));
        assert_eq!(agent(&format!("not JSON\n{}\n{claude}", " ".repeat(200_000))), Some(Agent::Claude));
        assert_eq!(agent(r#"{"type":"last-prompt","leafUuid":"a","sessionId":"s"}"#), Some(Agent::Claude));
    }

    #[test]
    fn other_json_is_nobodys() {
        for text in
            ["", "\n", "{}", "[]", "null", r#"{"type":"user"}"#, r#"{"type":"mode"}"#, "{\"type\":\"us"]
        {
            assert_eq!(agent(text), None, "{text}");
        }
        assert_eq!(agent(r#"{"type":"event","uuid":"a","parentUuid":null,"sessionId":"s"}"#), None);
    }
}
