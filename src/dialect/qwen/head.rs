//! One JSON object to the few things that topology needs, by the client's own rule of what is a record.

use crate::{
    dialect::jsonl::{
        json::{Cursor, Field, RawStr, Result},
        marked::Marked,
    },
    record::RecordKind,
    transcript::Flags,
};

/// What an object of the file is.
pub(super) struct Object<'a> {
    /// Its `cwd`; the first object's decides whose session it is, whether it is a record or not.
    pub cwd: Field<'a>,
    /// The record, or why the client skips it.
    pub record: Result<Head<'a>, &'static str>,
}

/// A record.
pub(super) struct Head<'a> {
    pub uuid: RawStr<'a>,
    pub parent: Option<RawStr<'a>>,
    pub session: RawStr<'a>,
    pub version: Field<'a>,
    pub kind: RecordKind,
    pub flags: Flags,
}

/// Reads a text that must be one JSON object.
pub(super) fn object(text: Marked<'_>) -> Result<Object<'_>> {
    let mut f = Fields::default();
    let mut cursor = Cursor::new(text);
    cursor.members(|key, value| f.member(key, value))?;
    cursor.end()?;
    Ok(Object { cwd: f.cwd, record: f.head() })
}

#[derive(Default)]
struct Fields<'a> {
    uuid: Field<'a>,
    parent: Field<'a>,
    session: Field<'a>,
    kind: Field<'a>,
    subtype: Field<'a>,
    version: Field<'a>,
    cwd: Field<'a>,
    external: Field<'a>,
    anchor: bool,
    parts: Flags,
}

impl<'a> Fields<'a> {
    fn member(&mut self, key: RawStr<'a>, value: &mut Cursor<'a>) -> Result {
        let field = match key.name().as_ref() {
            b"uuid" => &mut self.uuid,
            b"parentUuid" => &mut self.parent,
            b"sessionId" => &mut self.session,
            b"type" => &mut self.kind,
            b"subtype" => &mut self.subtype,
            b"version" => &mut self.version,
            b"cwd" => &mut self.cwd,
            b"externalInputKind" => &mut self.external,
            b"systemPayload" => {
                self.anchor = anchor(value)?;
                return Ok(());
            }
            b"message" => {
                self.parts = message(value)?;
                return Ok(());
            }
            _ => return value.skip().map(drop),
        };
        *field = value.field()?;
        Ok(())
    }

    /// The client's checks, in its order (0.24.4, `validateTranscriptRecord`).
    fn head(&self) -> Result<Head<'a>, &'static str> {
        let uuid = match self.uuid {
            Field::Str(s) if s.is_empty() => return Err("`uuid` is empty"),
            Field::Str(s) => s,
            Field::Absent => return Err("`uuid` is missing"),
            _ => return Err("`uuid` is not a string"),
        };
        let parent = match self.parent {
            Field::Str(s) => Some(s),
            Field::Null => None,
            Field::Absent => return Err("`parentUuid` is missing"),
            Field::Other(_) => return Err("`parentUuid` is neither a string nor null"),
        };
        let session = match self.session {
            Field::Str(s) if s.is_empty() => return Err("`sessionId` is empty"),
            Field::Str(s) => s,
            Field::Absent => return Err("`sessionId` is missing"),
            _ => return Err("`sessionId` is not a string"),
        };
        let kind = match self.kind {
            Field::Str(s) => match s.text().as_ref() {
                "user" => RecordKind::User,
                "assistant" => RecordKind::Assistant,
                "tool_result" => RecordKind::ToolResult,
                "system" => RecordKind::System,
                _ => return Err("`type` is none that the client knows"),
            },
            Field::Absent => return Err("`type` is missing"),
            _ => return Err("`type` is not a string"),
        };
        Ok(Head { uuid, parent, session, version: self.version, kind, flags: self.flags(kind) })
    }

    /// A subtype that is no string counts as absent, as it does for the client.
    fn flags(&self, kind: RecordKind) -> Flags {
        let subtype = self.subtype.text();
        let of_subtype = match (kind, subtype.as_deref()) {
            (RecordKind::System, Some(name)) => system(name),
            (RecordKind::System, None) if self.anchor => Flags::ANCHOR.with(Flags::NEUTRAL),
            (RecordKind::User, Some("notification" | "cron" | "mid_turn_user_message")) => Flags::SYNTHETIC,
            (RecordKind::User, _) if matches!(self.external, Field::Str(s) if s.is("notification")) => {
                Flags::SYNTHETIC
            }
            _ => Flags::default(),
        };
        of_subtype.with(self.parts)
    }
}

/// Subtypes of system records. UNSEEN is the client's own list; a name that it does not know is an ordinary record
/// for it, also one that begins like those of a managed log.
fn system(subtype: &str) -> Flags {
    match subtype {
        "custom_title" => Flags::NEUTRAL.with(Flags::TITLE),
        "session_artifact_event" | "session_artifact_snapshot" => {
            Flags::NEUTRAL.with(Flags::ARTIFACT).with(Flags::UNSEEN)
        }
        "session_sources_snapshot" => Flags::UNSEEN,
        "managed_session_header_v1" | "managed_session_event_v1" | "managed_session_commit_v1" => {
            Flags::MANAGED.with(Flags::UNSEEN)
        }
        "rewind" => Flags::REWIND,
        "chat_compression" => Flags::COMPRESSION,
        other if other.starts_with("managed_session_") => Flags::MANAGED,
        _ => Flags::default(),
    }
}

/// Whether a `systemPayload` is that of our own anchor: an object whose `offshoot` is an integer.
pub(super) fn anchor(value: &mut Cursor<'_>) -> Result<bool> {
    let mut ours = false;
    if value.peek() != Some(b'{') {
        return value.skip().map(|_| false);
    }
    value.members(|key, value| {
        if !key.is("offshoot") {
            return value.skip().map(drop);
        }
        ours = match value.field()? {
            Field::Other(n) => {
                let digits = n.strip_prefix(b"-").unwrap_or(n);
                digits.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        };
        Ok(())
    })?;
    Ok(ours)
}

/// CALL and RESPONSE of a `message`.
fn message(value: &mut Cursor<'_>) -> Result<Flags> {
    let mut flags = Flags::default();
    each_part(value, &mut |given| {
        flags = match given {
            Some(value) => flags.with(part(value)?),
            None => Flags::default(),
        };
        Ok(())
    })?;
    Ok(flags)
}

fn part(value: &mut Cursor<'_>) -> Result<Flags> {
    let (mut call, mut response) = (false, false);
    value.members(|key, value| {
        let object = value.peek() == Some(b'{');
        match key.name().as_ref() {
            b"functionCall" => call = object,
            b"functionResponse" => response = object,
            _ => {}
        }
        value.skip().map(drop)
    })?;
    let mut flags = Flags::default();
    if call {
        flags = flags.with(Flags::CALL);
    }
    if response {
        flags = flags.with(Flags::RESPONSE);
    }
    Ok(flags)
}

/// Steps over a `message` and hands out each object of its `parts`, and `None` before the first: where `parts` is
/// given again, the last one wins.
pub(super) fn each_part<'a>(
    value: &mut Cursor<'a>,
    part: &mut dyn FnMut(Option<&mut Cursor<'a>>) -> Result,
) -> Result {
    if value.peek() != Some(b'{') {
        return value.skip().map(drop);
    }
    value.members(|key, value| {
        if !key.is("parts") {
            return value.skip().map(drop);
        }
        part(None)?;
        if value.peek() != Some(b'[') {
            return value.skip().map(drop);
        }
        value.elements(|element| match element.peek() {
            Some(b'{') => part(Some(element)),
            _ => element.skip().map(drop),
        })
    })
}
