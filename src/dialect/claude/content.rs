//! The `message` of a record: text, calls and answers, and what it tells of who made it.

use smallvec::SmallVec;

use crate::dialect::jsonl::{
    json::{Cursor, Field, RawStr, Result},
    lines,
};

/// How the first text of a user record begins that no person wrote: echoes of slash commands, and notifications.
pub(super) const ECHOES: &[&str] = &[
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<task-notification>",
];

/// What the client writes itself where a prompt got no reply.
pub(super) const FILLER: &str = "No response requested.";

/// A `message`.
#[derive(Default)]
pub(super) struct Message<'a> {
    pub id: Field<'a>,
    pub model: Field<'a>,
    pub content: Content<'a>,
}

/// Its `content`: one text, or blocks.
#[derive(Default)]
pub(super) struct Content<'a> {
    /// Texts that are shown, in order: no thoughts, no arguments of tools, nothing from within a tool's result.
    pub texts: SmallVec<[RawStr<'a>; 1]>,
    /// Ids of the `tool_use` blocks; empty where one has none.
    pub calls: SmallVec<[RawStr<'a>; 1]>,
    /// Ids of the calls that `tool_result` blocks answer; empty where one has none.
    pub answers: SmallVec<[RawStr<'a>; 1]>,
    /// How many blocks there are; a bare text is one.
    blocks: usize,
}

impl<'a> Message<'a> {
    /// Steps over a `message`. Anything but an object gives nothing.
    pub fn read(value: &mut Cursor<'a>) -> Result<Self> {
        let mut message = Message::default();
        if value.peek() != Some(b'{') {
            return value.skip().map(|_| message);
        }
        value.members(|key, value| {
            match key.name().as_ref() {
                b"id" => message.id = value.field()?,
                b"model" => message.model = value.field()?,
                // Where it is given again, the last one wins.
                b"content" => message.content = Content::read(value)?,
                _ => drop(value.skip()?),
            }
            Ok(())
        })?;
        Ok(message)
    }

    /// Whether an assistant record was made by the client, not by the model.
    pub fn is_filler(&self) -> bool {
        let synthetic = matches!(self.model, Field::Str(s) if s.is("<synthetic>"));
        let made_here = matches!(self.id, Field::Str(s) if is_uuid(&s.name()));
        let alone = self.content.blocks == 1 && self.content.texts.iter().any(|t| t.is(FILLER));
        synthetic || made_here || alone
    }
}

impl<'a> Content<'a> {
    fn read(value: &mut Cursor<'a>) -> Result<Self> {
        let mut content = Content::default();
        match value.peek() {
            Some(b'[') => value.elements(|block| content.block(block))?,
            _ => {
                if let Field::Str(text) = value.field()? {
                    content.texts.push(text);
                    content.blocks = 1;
                }
            }
        }
        Ok(content)
    }

    fn block(&mut self, block: &mut Cursor<'a>) -> Result {
        self.blocks += 1;
        if block.peek() != Some(b'{') {
            return block.skip().map(drop);
        }
        let (mut kind, mut text, mut call, mut answer) =
            (Field::Absent, Field::Absent, Field::Absent, Field::Absent);
        block.members(|key, value| {
            let field = match key.name().as_ref() {
                b"type" => &mut kind,
                b"text" => &mut text,
                b"id" => &mut call,
                b"tool_use_id" => &mut answer,
                _ => return value.skip().map(drop),
            };
            *field = value.field()?;
            Ok(())
        })?;
        let Field::Str(kind) = kind else { return Ok(()) };
        match kind.name().as_ref() {
            b"text" => self.texts.extend(text.string()),
            b"tool_use" => self.calls.push(call.string().unwrap_or_default()),
            b"tool_result" => self.answers.push(answer.string().unwrap_or_default()),
            _ => {}
        }
        Ok(())
    }

    /// Whether the first text of a user record is an echo or a notification.
    pub fn is_echo(&self) -> bool {
        let Some(first) = self.texts.first() else { return false };
        if first.begins_otherwise(b'<') {
            return false;
        }
        let text = first.text();
        let text = text.trim_start_matches(lines::is_js_space);
        ECHOES.iter().any(|echo| text.starts_with(echo))
    }
}

/// Whether an id has the form of a UUID. Ids of the model's own messages have not.
fn is_uuid(id: &[u8]) -> bool {
    id.len() == 36 && uuid::Uuid::try_parse_ascii(id).is_ok()
}
