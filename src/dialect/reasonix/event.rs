//! What an event means for turns and messages: its payload, as strict as the client is about it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::{EventRecord, place};

/// Kinds that the client requires a reader to know.
const KNOWN: &[&str] = &[
    "message/complete",
    "message/upsert",
    "message/retract",
    "assistant/attempt",
    "tool/call",
    "tool/start",
    "tool/result",
    "turn/start",
    "turn/end",
    "step/start",
    "step/end",
    "todo/write",
    "interaction/created",
    "interaction/resolved",
    "plan/state",
    "goal/state",
    "session/title",
    "session/config",
    "session/permission-preset",
    "model/context-replace",
    "history/replace",
    "compaction",
    "runtime/recovery",
    "legacy/import",
    "diagnostic",
];

/// How a turn ended, by the client's own words; any other makes the client refuse the whole session.
const TERMINAL: [&str; 5] = ["completed", "interrupted", "failed", "recovery_required", "protocol_failed"];

/// What an event changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A turn begins. Which one is the commit's business.
    TurnStart,
    /// The open turn ends, with this status.
    TurnEnd(String),
    /// A message is there for good; the first of its id counts.
    Message(Message),
    /// A message is there, or there anew.
    Upsert(Message),
    /// Messages are gone.
    Retract(Vec<String>),
    /// These messages are the history now.
    Replace(Vec<Message>),
    /// A tool has something to do.
    ToolOpen(String),
    /// It has done it.
    ToolDone(String),
    /// The person was asked something.
    Asked(String),
    /// That is settled.
    Settled(String),
    /// The session's title.
    Title(String),
    /// Nothing that turns or messages depend on.
    Other,
}

/// What turns and branches need of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// Who it speaks for.
    pub role: Role,
    /// Whether it is an answer that a person reads: the assistant's, with text, not for display alone.
    pub is_reply: bool,
    /// Whether the model never sees it.
    pub local_only: bool,
    /// Whether the client wrote it by itself.
    pub from_host: bool,
    /// Ids of the tool calls in it.
    pub calls: Vec<String>,
    /// The tool call it answers.
    pub answers: Option<String>,
}

/// Who a message speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person, or the client in their name.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// The client.
    System,
    /// Nobody we know.
    Other,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneMessage<'a> {
    #[serde(borrow)]
    message: Option<RawMessage<'a>>,
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    id: Option<Cow<'a, str>>,
    role: Option<Cow<'a, str>>,
    origin: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    raw_content: Option<&'a RawValue>,
    tool_calls: Option<Vec<RawCall<'a>>>,
    tool_call_id: Option<Cow<'a, str>>,
    local_only: Option<bool>,
}

#[derive(Deserialize)]
struct RawCall<'a> {
    id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Retracted {
    message_ids: Option<Vec<String>>,
    #[serde(rename = "reason")]
    _reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replaced<'a> {
    #[serde(borrow)]
    messages: Option<Vec<RawMessage<'a>>>,
    #[serde(rename = "reason")]
    _reason: Option<String>,
    #[serde(rename = "sourceSequences")]
    _sources: Option<Vec<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Imported<'a> {
    #[serde(borrow)]
    messages: Option<Vec<RawMessage<'a>>>,
    #[serde(borrow, rename = "source")]
    _source: Option<&'a RawValue>,
    #[serde(borrow, rename = "goal")]
    _goal: Option<&'a RawValue>,
    #[serde(rename = "modelRef")]
    _model: Option<String>,
    #[serde(rename = "modelIdentity")]
    _identity: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartedTool {
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Interaction {
    id: Option<String>,
    state: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolution {
    id: Option<String>,
    state: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Title {
    title: Option<String>,
}

/// Whether a reader knows this kind.
pub fn is_known(kind: &str) -> bool {
    KNOWN.contains(&kind)
}

/// Whether what the event means depends on its payload here.
pub(super) fn needs_payload(kind: &str) -> bool {
    matches!(
        kind,
        "turn/end"
            | "message/complete"
            | "message/upsert"
            | "message/retract"
            | "history/replace"
            | "legacy/import"
            | "tool/call"
            | "tool/start"
            | "tool/result"
            | "interaction/created"
            | "interaction/resolved"
            | "session/title"
    )
}

/// What an event means. An unknown kind means nothing here; whether that is allowed is decided at the end of its
/// commit. `Err` says in words what is wrong with the payload.
pub(super) fn fact(event: &EventRecord, payload: &[u8]) -> Result<Fact, String> {
    let invalid =
        |what: &str| format!("an invalid payload of `{}` at sequence {}: {what}", event.kind, event.seq);
    // The client's decoder takes bytes that are no UTF-8 for U+FFFD.
    let text = String::from_utf8_lossy(payload);
    parse(&event.kind, &text).map_err(|wrong| match wrong {
        Wrong::Json(e) => invalid(&place(&e)),
        Wrong::Value(what) => invalid(what),
    })
}

enum Wrong {
    Json(serde_json::Error),
    Value(&'static str),
}

impl From<serde_json::Error> for Wrong {
    fn from(e: serde_json::Error) -> Wrong {
        Wrong::Json(e)
    }
}

fn parse(kind: &str, text: &str) -> Result<Fact, Wrong> {
    Ok(match kind {
        "turn/start" => Fact::TurnStart,
        "turn/end" => {
            let status = serde_json::from_str::<Status>(text)?.status.unwrap_or_default();
            if !TERMINAL.contains(&status.as_str()) {
                return Err(Wrong::Value("a status that ends no turn"));
            }
            Fact::TurnEnd(status)
        }
        "message/complete" => Fact::Message(one_message(text)?),
        "message/upsert" => Fact::Upsert(one_message(text)?),
        "message/retract" => {
            let ids = serde_json::from_str::<Retracted>(text)?.message_ids.unwrap_or_default();
            let distinct = ids.iter().collect::<hashbrown::HashSet<_>>().len();
            let plain = ids.iter().all(|id| !id.is_empty() && id.trim() == id);
            if ids.is_empty() || !plain || distinct != ids.len() {
                return Err(Wrong::Value("no list of distinct message ids"));
            }
            Fact::Retract(ids)
        }
        "history/replace" => Fact::Replace(messages(serde_json::from_str::<Replaced<'_>>(text)?.messages)?),
        "legacy/import" => Fact::Replace(messages(serde_json::from_str::<Imported<'_>>(text)?.messages)?),
        "tool/call" | "tool/result" => {
            let tool: Tool = serde_json::from_str(text)?;
            let id = named(tool.id, tool.name)?;
            if kind == "tool/call" { Fact::ToolOpen(id) } else { Fact::ToolDone(id) }
        }
        "tool/start" => {
            let tool: StartedTool = serde_json::from_str(text)?;
            Fact::ToolOpen(named(tool.id, tool.name)?)
        }
        "interaction/created" => {
            let asked: Interaction = serde_json::from_str(text)?;
            match (asked.id.filter(|id| !id.is_empty()), asked.state.as_deref()) {
                (Some(id), None | Some("" | "pending")) => Fact::Asked(id),
                _ => return Err(Wrong::Value("no pending interaction")),
            }
        }
        "interaction/resolved" => {
            let settled: Resolution = serde_json::from_str(text)?;
            match (settled.id.filter(|id| !id.is_empty()), settled.state.as_deref()) {
                (Some(id), Some("answered" | "rejected" | "cancelled" | "unavailable")) => Fact::Settled(id),
                _ => return Err(Wrong::Value("no settled interaction")),
            }
        }
        "session/title" => Fact::Title(serde_json::from_str::<Title>(text)?.title.unwrap_or_default()),
        _ => Fact::Other,
    })
}

fn named(id: Option<String>, name: Option<String>) -> Result<String, Wrong> {
    match (id.filter(|id| !id.is_empty()), name.filter(|name| !name.is_empty())) {
        (Some(id), Some(_)) => Ok(id),
        _ => Err(Wrong::Value("a tool without id or name")),
    }
}

fn one_message(text: &str) -> Result<Message, Wrong> {
    let message = serde_json::from_str::<OneMessage<'_>>(text)?.message;
    let message = message.ok_or(Wrong::Value("no message"))?.message()?;
    if message.id.is_empty() { Err(Wrong::Value("a message without id")) } else { Ok(message) }
}

/// The first of each id; those without one all count.
fn messages(list: Option<Vec<RawMessage<'_>>>) -> Result<Vec<Message>, Wrong> {
    let list = list.ok_or(Wrong::Value("no list of messages"))?;
    let mut seen = hashbrown::HashSet::new();
    let mut out = Vec::new();
    for raw in list {
        let message = raw.message()?;
        if message.id.is_empty() || seen.insert(message.id.clone()) {
            out.push(message);
        }
    }
    Ok(out)
}

impl RawMessage<'_> {
    fn message(self) -> Result<Message, Wrong> {
        let role = match self.role.as_deref().unwrap_or_default() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            "system" => Role::System,
            _ => Role::Other,
        };
        let local_only = self.local_only.unwrap_or_default();
        let mut has_text = false;
        for text in [self.raw_content, self.content].into_iter().flatten() {
            has_text |= !is_blank(text)?;
        }
        Ok(Message {
            id: self.id.unwrap_or_default().into_owned(),
            role,
            is_reply: role == Role::Assistant && !local_only && has_text,
            local_only,
            from_host: self.origin.as_deref() == Some("host"),
            calls: self
                .tool_calls
                .unwrap_or_default()
                .into_iter()
                .map(|call| call.id.unwrap_or_default().into_owned())
                .collect(),
            answers: self.tool_call_id.map(Cow::into_owned).filter(|id| !id.is_empty()),
        })
    }
}

fn is_blank(text: &RawValue) -> Result<bool, Wrong> {
    if text.get() == "null" {
        return Ok(true);
    }
    if !text.get().starts_with('"') {
        return Err(Wrong::Value("a content that is no text"));
    }
    // Half of a surrogate pair, which the client reads as U+FFFD, is no blank.
    Ok(serde_json::from_str::<String>(text.get()).is_ok_and(|text| text.trim().is_empty()))
}
