//! One JSON object of the file to what the rules need of it.

use jiff::fmt::temporal::DateTimeParser;
use smallvec::SmallVec;

use super::{content::Message, metadata::Kept};
use crate::{
    dialect::jsonl::json::{Cursor, Field, RawStr, Result},
    record::RecordKind,
    transcript::Flags,
};

/// What an object of the file is.
pub(super) enum Object<'a> {
    /// A record of the chain.
    Record(Box<Head<'a>>),
    /// A `last-prompt` that names a leaf.
    Pin { target: RawStr<'a>, explicit: bool },
    /// A `file-history-snapshot` or `file-history-delta`, and the record that it is for.
    Snapshot(RawStr<'a>),
    /// A line that gives the session a title, and how much its kind counts, from 0.
    Title(usize),
    /// An object of a known type that is never a record.
    Aside,
    /// The client passes over it, and why.
    Skipped(&'static str),
}

/// A record.
pub(super) struct Head<'a> {
    pub uuid: RawStr<'a>,
    pub parent: Option<RawStr<'a>>,
    pub session: Field<'a>,
    pub version: Field<'a>,
    pub cwd: Field<'a>,
    /// `timestamp`, in milliseconds since 1970.
    pub time: Option<i64>,
    pub kind: RecordKind,
    pub flags: Flags,
    /// Of an assistant: the message that it is a part of.
    pub message: Option<RawStr<'a>>,
    /// Ids of the calls that it makes, and of those that it answers; empty where one has none.
    pub calls: SmallVec<[RawStr<'a>; 1]>,
    pub answers: SmallVec<[RawStr<'a>; 1]>,
    /// `sourceToolAssistantUUID`.
    pub source: Field<'a>,
    /// `logicalParentUuid`, of a boundary.
    pub logical: Option<RawStr<'a>>,
    /// What a boundary says that it keeps.
    pub kept: Option<Box<Kept<'a>>>,
}

/// Types that have no uuid and are no records (2.1.197 and 2.1.332).
const ASIDES: &[&str] = &[
    "last-prompt",
    "queue-operation",
    "mode",
    "permission-mode",
    "custom-title",
    "ai-title",
    "agent-name",
    "tag",
    "pr-link",
    "summary",
    "file-history-snapshot",
    "file-history-delta",
    "relocated",
    "worktree-state",
    "content-replacement",
    "atis-latch",
    "cost-state",
    "tools-used",
    "api-request",
    "api-request-blob",
    "api-request-shape",
];

/// Types of lines that give the session a title, by how much they count, with the member that holds it: what a person
/// chose, what a model made of the first prompts, what older clients wrote.
pub(super) const TITLES: [(&str, &str); 3] =
    [("custom-title", "customTitle"), ("ai-title", "aiTitle"), ("summary", "summary")];

/// Whether a type is one of those that have no uuid and are no records.
pub(in crate::dialect) fn is_aside(kind: &[u8]) -> bool {
    ASIDES.iter().any(|aside| aside.as_bytes() == kind)
}

/// Reads the object that comes next; what follows it is not looked at.
pub(super) fn object<'a>(cursor: &mut Cursor<'a>) -> Result<Object<'a>> {
    let mut f = Fields::default();
    cursor.members(|key, value| f.member(key, value))?;
    Ok(f.object())
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
    timestamp: Field<'a>,
    source: Field<'a>,
    logical: Field<'a>,
    leaf: Field<'a>,
    message_id: Field<'a>,
    explicit: bool,
    sidechain: bool,
    meta: bool,
    summary: bool,
    message: Message<'a>,
    kept: Option<Kept<'a>>,
}

impl<'a> Fields<'a> {
    fn member(&mut self, key: RawStr<'a>, value: &mut Cursor<'a>) -> Result {
        let is_true = |value: &mut Cursor<'a>| Ok(value.field()? == Field::Other(b"true"));
        let field = match key.name().as_ref() {
            b"uuid" => &mut self.uuid,
            b"parentUuid" => &mut self.parent,
            b"sessionId" => &mut self.session,
            b"type" => &mut self.kind,
            b"subtype" => &mut self.subtype,
            b"version" => &mut self.version,
            b"cwd" => &mut self.cwd,
            b"timestamp" => &mut self.timestamp,
            b"sourceToolAssistantUUID" => &mut self.source,
            b"logicalParentUuid" => &mut self.logical,
            b"leafUuid" => &mut self.leaf,
            b"messageId" => &mut self.message_id,
            b"explicit" => return is_true(value).map(|is| self.explicit = is),
            b"isSidechain" => return is_true(value).map(|is| self.sidechain = is),
            b"isMeta" => return is_true(value).map(|is| self.meta = is),
            b"isCompactSummary" => return is_true(value).map(|is| self.summary = is),
            b"compactMetadata" => return Kept::read(value).map(|kept| self.kept = kept),
            b"message" => return Message::read(value).map(|message| self.message = message),
            _ => return value.skip().map(drop),
        };
        *field = value.field()?;
        Ok(())
    }

    fn object(self) -> Object<'a> {
        let Some(name) = self.kind.string().map(RawStr::name) else {
            return Object::Skipped("`type` is not a string");
        };
        if name.as_ref() == b"last-prompt"
            && let Some(target) = id(self.leaf)
        {
            return Object::Pin { target, explicit: self.explicit };
        }
        if matches!(name.as_ref(), b"file-history-snapshot" | b"file-history-delta")
            && let Some(message) = id(self.message_id)
        {
            return Object::Snapshot(message);
        }
        let kind = match name.as_ref() {
            b"user" if self.message.content.answers.is_empty() => RecordKind::User,
            b"user" => RecordKind::ToolResult,
            b"assistant" => RecordKind::Assistant,
            b"system" | b"attachment" | b"progress" => RecordKind::System,
            name if is_aside(name) => {
                let title = TITLES.iter().position(|(kind, _)| kind.as_bytes() == name);
                return title.map_or(Object::Aside, Object::Title);
            }
            _ => return Object::Skipped("`type` is none that the client knows"),
        };
        let Some(uuid) = id(self.uuid) else { return Object::Skipped("it has no `uuid`") };
        let flags = self.flags(&name, kind);
        let message = (kind == RecordKind::Assistant).then(|| id(self.message.id).unwrap_or(uuid));
        Object::Record(Box::new(Head {
            uuid,
            parent: id(self.parent),
            session: self.session,
            version: self.version,
            cwd: self.cwd,
            time: self.timestamp.string().and_then(|time| milliseconds(&time.name())),
            kind,
            flags,
            message,
            calls: self.message.content.calls,
            answers: self.message.content.answers,
            source: self.source,
            logical: id(self.logical).filter(|_| flags.has(Flags::COMPRESSION)),
            kept: self.kept.filter(|_| flags.has(Flags::COMPRESSION)).map(Box::new),
        }))
    }

    fn flags(&self, name: &[u8], kind: RecordKind) -> Flags {
        let content = &self.message.content;
        let mut flags = Flags::default();
        let mut add = |when: bool, flag: Flags| {
            if when {
                flags = flags.with(flag);
            }
        };
        let boundary = name == b"system" && matches!(self.subtype, Field::Str(s) if s.is("compact_boundary"));
        let passive = match kind {
            RecordKind::System => !boundary,
            RecordKind::Assistant => self.message.is_filler(),
            RecordKind::User => self.meta || content.is_echo(),
            RecordKind::ToolResult | RecordKind::Other => false,
        };
        add(self.sidechain || passive, Flags::NEUTRAL);
        add(self.sidechain, Flags::SIDECHAIN);
        add(boundary, Flags::COMPRESSION);
        add(name == b"progress", Flags::PROGRESS);
        add(name == b"attachment", Flags::ATTACHMENT);
        add(kind == RecordKind::Assistant && !content.calls.is_empty(), Flags::CALL);
        add(kind == RecordKind::ToolResult, Flags::RESPONSE);
        if kind == RecordKind::User {
            add(self.summary, Flags::SUMMARY);
            add(self.sidechain || passive || self.summary, Flags::SYNTHETIC);
        }
        flags
    }
}

/// An id: a string that is not empty. The client takes an empty one for none.
fn id(field: Field<'_>) -> Option<RawStr<'_>> {
    match field {
        Field::Str(s) if !s.is_empty() => Some(s),
        _ => None,
    }
}

fn milliseconds(time: &[u8]) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(time).ok().map(|t| t.as_millisecond())
}
