//! The parts of a record that a summary needs, decoded from its own bytes.

use super::head::each_part;
use crate::dialect::{
    Decoded,
    jsonl::json::{Cursor, Field, Result, member_of},
};

/// Decodes one record. Bytes that are no JSON object give nothing.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    beginning(bytes, usize::MAX).0
}

/// The same with at most `most` bytes of a text as it is spelled and none behind one that is longer, and whether that was
/// all.
pub(super) fn beginning(bytes: &[u8], most: usize) -> (Decoded, bool) {
    let mut read = Read { most, whole: true, ..Read::default() };
    let mut cursor = Cursor::new(bytes);
    match cursor.members(|key, value| read.member(key.text().as_ref(), value)) {
        Ok(()) => read.finish(),
        Err(_) => (Decoded::default(), true),
    }
}

#[derive(Default)]
struct Read<'a> {
    most: usize,
    /// Whether no text is longer.
    whole: bool,
    decoded: Decoded,
    kind: Field<'a>,
    subtype: Field<'a>,
    title: Field<'a>,
}

impl<'a> Read<'a> {
    fn member(&mut self, key: &str, value: &mut Cursor<'a>) -> Result {
        let text = |value: &mut Cursor<'a>| Ok(value.field()?.text().map(|t| t.into_owned()));
        match key {
            "timestamp" => self.decoded.timestamp = text(value)?,
            "gitBranch" => self.decoded.git_branch = text(value)?,
            "cwd" => self.decoded.cwd = text(value)?,
            "type" => self.kind = value.field()?,
            "subtype" => self.subtype = value.field()?,
            "systemPayload" => self.title = member_of(value, "customTitle")?,
            "message" => self.message(value)?,
            _ => drop(value.skip()?),
        }
        Ok(())
    }

    fn message(&mut self, value: &mut Cursor<'a>) -> Result {
        let mut parts = Vec::new();
        each_part(value, &mut |given| {
            match given {
                Some(part) => parts.push(Part::read(part)?),
                None => parts.clear(),
            }
            Ok(())
        })?;
        let Decoded { texts, calls, responses, .. } = &mut self.decoded;
        texts.clear();
        calls.clear();
        responses.clear();
        self.whole = true;
        for part in parts {
            if let (Field::Str(text), false, true) = (part.text, part.thought, self.whole) {
                let begin = text.beginning(self.most);
                self.whole &= begin == text;
                texts.push(begin.text().into_owned());
            }
            calls.extend(part.call);
            responses.extend(part.response);
        }
        Ok(())
    }

    fn finish(mut self) -> (Decoded, bool) {
        let is = |field: Field<'_>, name| matches!(field, Field::Str(s) if s.is(name));
        if is(self.kind, "system") && is(self.subtype, "custom_title") {
            self.decoded.title = self.title.text().map(|t| t.into_owned());
        }
        (self.decoded, self.whole)
    }
}

/// One element of `message.parts`.
#[derive(Default)]
struct Part<'a> {
    text: Field<'a>,
    thought: bool,
    /// The id of a tool call, empty if it has none.
    call: Option<String>,
    response: Option<String>,
}

impl<'a> Part<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let mut part = Part::default();
        cursor.members(|key, value| {
            match key.text().as_ref() {
                "text" => part.text = value.field()?,
                // Only `true` itself hides a part; `1` or `"true"` do not.
                "thought" => part.thought = value.field()? == Field::Other(b"true"),
                "functionCall" => part.call = id(value)?,
                "functionResponse" => part.response = id(value)?,
                _ => drop(value.skip()?),
            }
            Ok(())
        })?;
        Ok(part)
    }
}

fn id(value: &mut Cursor<'_>) -> Result<Option<String>> {
    let object = value.peek() == Some(b'{');
    let id = member_of(value, "id")?;
    Ok(object.then(|| id.text().unwrap_or_default().into_owned()))
}
