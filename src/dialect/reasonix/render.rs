//! The sessions of a family as one tree of records.
//!
//! A log of this format is linear; the tree is in the family: a child repeats commits of its parent and goes on by
//! itself. So that everything that is said of a tree of records can be said of it, a family is rendered as lines of JSON,
//! one record a line, by nothing but its logs: messages and what changes them, in the order of their logs, parents before
//! children, and behind the records of a session one record that bears the session's id. Those are the leaves. What a
//! child repeats is there once. The rendering is never written anywhere; [`super::Reasonix`] reads it.
//!
//! A commit counts as repeated where its operation id names the commit of the parent, its own id is the one derived from
//! it, its events are the same bytes, and it stands where that commit stands. Whatever fails one of these is the child's
//! own.

use std::io::Write;

use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    commit::{Commit, Commits},
    content::Contents,
    event::{Fact, Message, Role},
    ids,
    projection::Projection,
    record::EventRecord,
    trouble::Trouble,
};
use crate::{refusal::Code, transcript::Source};

/// Names the form of the rendering, in its first line.
pub const SCHEMA: &str = "offshoot.reasonix/1";

/// A session of the family.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its working directory, where something says which.
    pub cwd: Option<&'a str>,
    /// Its log.
    pub log: &'a dyn Source,
    /// Its payloads.
    pub contents: &'a dyn Contents,
}

/// How much of a session's log was rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The session.
    pub session_id: String,
    /// Up to the end of its last complete commit, in bytes.
    pub bytes: u64,
    /// What is behind that.
    pub torn: u64,
}

/// One line of the rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Line {
    /// The first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// In the first line: the session that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// In the first line: its working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A session that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes behind the last complete commit of `session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<u64>,
    /// A record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The record before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The session that it was first written in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// When its commit was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The title that it sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool calls in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// What is called by them, as far as the message says it; as many as `calls`, or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Called>,
    /// The tool call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// Whether the client wrote it in the user's name.
    #[serde(skip_serializing_if = "is_false")]
    pub host: bool,
}

/// A tool that is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Called {
    /// Its name; empty if the message does not say it.
    pub name: String,
    /// Its arguments, as JSON.
    pub input: String,
}

impl Called {
    /// Of a call as it stands in a message: its name and arguments in it, or in its `function`.
    fn of(call: &Value) -> Called {
        let member = |name: &str| call.get(name).or_else(|| call.get("function")?.get(name));
        let input = match member("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        Called { name: member("name").and_then(Value::as_str).unwrap_or_default().to_owned(), input }
    }
}

fn is_false(b: &bool) -> bool {
    !b
}

/// What a rendered record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A prompt.
    User,
    /// An answer.
    Assistant,
    /// What a tool gave back.
    Tool,
    /// Any other message, and what changes the history.
    System,
    /// A title.
    Title,
    /// The history was replaced by an earlier one.
    Rewind,
    /// What the model is given was replaced.
    Compaction,
    /// The end of a session, named by its id.
    End,
}

/// Renders the family of `asked`: `members` in any order, `asked` among them.
///
/// A member that cannot be read is left out, which is said in a line; not so `asked`.
///
/// # Errors
/// What stands in the way of reading `asked`, and what `out` reports.
pub fn render(asked: &str, members: &[Member<'_>], out: &mut dyn Write) -> Result<Vec<Part>, Trouble> {
    let cwd = members.iter().find(|m| m.id == asked).and_then(|m| m.cwd);
    let first = Line {
        schema: Some(SCHEMA.to_owned()),
        asked: Some(asked.to_owned()),
        cwd: cwd.map(str::to_owned),
        ..Line::default()
    };
    put(out, &first)?;
    let mut tree = Family::default();
    let mut parts = Vec::new();
    for member in parents_first(members) {
        let before = tree.mark();
        match tree.member(member) {
            Ok((lines, part)) => {
                out.write_all(&lines)?;
                if part.torn > 0 {
                    let torn = Some(part.torn);
                    put(out, &Line { torn, session: Some(member.id.to_owned()), ..Line::default() })?;
                }
                parts.push(part);
            }
            Err(trouble) if member.id == asked => return Err(trouble),
            Err(trouble) => {
                tree.back_to(before);
                let (skipped, reason) = (Some(member.id.to_owned()), Some(trouble.to_string()));
                put(out, &Line { skipped, reason, ..Line::default() })?;
            }
        }
    }
    Ok(parts)
}

/// The session that the log of `id` was forked from, by its first commit; none if it was not.
///
/// # Errors
/// What the source reports. A log that cannot be read was forked from nothing.
pub fn parent_of(log: &dyn Source) -> std::io::Result<Option<String>> {
    let first = match super::frame::read(log, 0) {
        Ok(Some(frame)) => frame,
        Ok(None) => return Ok(None),
        Err(Trouble::Io(e)) => return Err(e),
        Err(_) => return Ok(None),
    };
    let Ok(super::record::Record::Begin(begin)) = super::record::Record::parse(&first.json, 0) else {
        return Ok(None);
    };
    Ok(ids::inherited_from(&begin.operation_id).map(|(session, _)| session.to_owned()))
}

fn put(out: &mut dyn Write, line: &Line) -> Result<(), Trouble> {
    let mut bytes = serde_json::to_vec(line).expect("BUG: a line is always JSON");
    bytes.push(b'\n');
    out.write_all(&bytes).map_err(Trouble::Io)
}

/// Parents before children, and else by id. In a circle of parents the smallest id is first.
fn parents_first<'a, 'b>(members: &'b [Member<'a>]) -> Vec<&'b Member<'a>> {
    let mut sorted: Vec<(&Member<'_>, Option<String>)> =
        members.iter().map(|m| (m, parent_of(m.log).ok().flatten())).collect();
    sorted.sort_by_key(|(m, _)| m.id);
    let at: HashMap<&str, usize> = sorted.iter().enumerate().map(|(i, (m, _))| (m.id, i)).collect();
    let parent: Vec<Option<usize>> =
        sorted.iter().map(|(_, p)| p.as_deref().and_then(|p| at.get(p)).copied()).collect();
    let mut placed = vec![false; sorted.len()];
    let mut order = Vec::with_capacity(sorted.len());
    for start in 0..sorted.len() {
        let mut line = Vec::new();
        let mut next = Some(start);
        while let Some(i) = next.filter(|&i| !placed[i]) {
            placed[i] = true;
            line.push(i);
            next = parent[i];
        }
        order.extend(line.into_iter().rev());
    }
    order.into_iter().map(|i| sorted[i].0).collect()
}

/// A commit that is there once, whoever repeats it.
struct Root {
    /// Digest of its events.
    events: blake3::Hash,
    /// The record before it.
    before: Option<String>,
    /// The last record behind it.
    last: Option<String>,
}

/// What was rendered so far.
#[derive(Default)]
struct Family {
    roots: Vec<Root>,
    /// By session and commit.
    known: HashMap<(String, String), usize>,
    uuids: HashSet<String>,
    /// What was added last to the maps, to be taken back.
    added: Vec<Added>,
}

enum Added {
    Known((String, String)),
    Uuid(String),
}

struct Mark {
    roots: usize,
    added: usize,
}

impl Family {
    fn mark(&self) -> Mark {
        Mark { roots: self.roots.len(), added: self.added.len() }
    }

    fn back_to(&mut self, mark: Mark) {
        self.roots.truncate(mark.roots);
        for added in self.added.drain(mark.added..) {
            match added {
                Added::Known(key) => drop(self.known.remove(&key)),
                Added::Uuid(uuid) => drop(self.uuids.remove(&uuid)),
            }
        }
    }

    fn know(&mut self, session: &str, commit: &str, root: usize) {
        let key = (session.to_owned(), commit.to_owned());
        if !self.known.contains_key(&key) {
            self.known.insert(key.clone(), root);
            self.added.push(Added::Known(key));
        }
    }

    /// An id for a record: the event's, which children repeat, unless another record has it.
    fn name(&mut self, session: &str, id: &str) -> String {
        let mut name = id.to_owned();
        let mut n = 1;
        while !self.uuids.insert(name.clone()) {
            name = if n == 1 { format!("{session}/{id}") } else { format!("{session}/{id}#{n}") };
            n += 1;
        }
        self.added.push(Added::Uuid(name.clone()));
        name
    }

    fn member(&mut self, member: &Member<'_>) -> Result<(Vec<u8>, Part), Trouble> {
        let mut lines = Vec::new();
        let mut own = Own { session: member.id, last: None, messages: HashSet::new(), time: None };
        let mut commits = Commits::new(member.log, member.contents);
        let mut projection = Projection::default();
        loop {
            let mut events = blake3::Hasher::new();
            let mut told: Vec<Told> = Vec::new();
            let commit = commits.next_with(Some(&mut |_, event, payload| {
                let json = event.to_json();
                events.update(&(json.len() as u64).to_le_bytes()).update(&json);
                told.push(Told::of(event, payload));
                Ok(())
            }))?;
            let Some(commit) = commit else { break };
            projection.apply(&commit);
            let events = events.finalize();
            if let Some(root) = self.repeated(&own, &commit, &events) {
                self.know(own.session, &commit.begin.commit_id, root);
                own.last.clone_from(&self.roots[root].last);
                own.note(&commit);
                continue;
            }
            let before = own.last.clone();
            self.own(&mut own, &commit, told, &mut lines)?;
            let root = self.roots.len();
            self.roots.push(Root { events, before, last: own.last.clone() });
            self.know(own.session, &commit.begin.commit_id, root);
            // So that two children of a session that is gone still share what they have of it.
            if let Some((parent, theirs)) = origin(own.session, &commit) {
                self.know(parent, theirs, root);
            }
        }
        let end = Line {
            uuid: Some(self.name("session", member.id)),
            parent: own.last,
            session: Some(member.id.to_owned()),
            kind: Some(Kind::End),
            time: own.time,
            reason: end_of(&projection).map(|code| code.as_str().to_owned()),
            ..Line::default()
        };
        put(&mut lines, &end)?;
        let (bytes, torn) = (commits.end(), member.log.len() - commits.end());
        Ok((lines, Part { session_id: member.id.to_owned(), bytes, torn }))
    }

    fn repeated(&self, own: &Own<'_>, commit: &Commit, events: &blake3::Hash) -> Option<usize> {
        let (session, theirs) = origin(own.session, commit)?;
        let root = *self.known.get(&(session.to_owned(), theirs.to_owned()))?;
        let found = &self.roots[root];
        (found.events == *events && found.before == own.last).then_some(root)
    }

    /// Renders a commit that is a session's own.
    fn own(
        &mut self,
        own: &mut Own<'_>,
        commit: &Commit,
        told: Vec<Told>,
        lines: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        own.time = Some(commit.begin.created_at.clone());
        for (event, told) in commit.events.iter().zip(told) {
            for mut line in own.lines(&event.fact, told) {
                let id = line.uuid.take().unwrap_or_else(|| event.id.clone());
                let uuid = self.name(own.session, &id);
                line.uuid = Some(uuid.clone());
                line.parent = own.last.replace(uuid);
                line.session = Some(own.session.to_owned());
                line.time.clone_from(&own.time);
                put(lines, &line)?;
            }
        }
        Ok(())
    }
}

/// Which commit of which session a commit of `session` repeats, by its ids.
fn origin<'a>(session: &str, commit: &'a Commit) -> Option<(&'a str, &'a str)> {
    let (parent, theirs) = ids::inherited_from(&commit.begin.operation_id)?;
    (commit.begin.commit_id == ids::inherited_commit(session, theirs)).then_some((parent, theirs))
}

/// What stands in the way of a child of the whole log; none if nothing does.
fn end_of(projection: &Projection) -> Option<Code> {
    if !projection.is_verifiable() {
        return Some(Code::HistoryUnverifiable);
    }
    if projection.is_open() {
        return Some(Code::TurnOpen);
    }
    projection.has_authority().then_some(Code::ActiveAuthority)
}

/// What is kept of a payload for its line.
struct Told {
    kind: String,
    shown: Vec<Shown>,
    reason: Option<String>,
}

/// What a person sees of a message.
#[derive(Default)]
struct Shown {
    text: String,
    tools: Vec<Called>,
}

#[derive(Deserialize)]
struct Payload {
    message: Option<Text>,
    messages: Option<Vec<Text>>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Text {
    content: Option<String>,
    raw_content: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

impl Text {
    /// What the person typed, where the client has both.
    fn shown(self) -> Shown {
        let typed = self.raw_content.filter(|text| !text.trim().is_empty());
        let tools = self.tool_calls.iter().flatten().map(Called::of).collect();
        Shown { text: typed.or(self.content).unwrap_or_default(), tools }
    }
}

impl Told {
    fn of(event: &EventRecord, payload: &[u8]) -> Told {
        let mut told = Told { kind: event.kind.clone(), shown: Vec::new(), reason: None };
        let wanted = matches!(
            event.kind.as_str(),
            "message/complete" | "message/upsert" | "history/replace" | "legacy/import"
        );
        if !wanted {
            return told;
        }
        let text = String::from_utf8_lossy(payload);
        if let Ok(payload) = serde_json::from_str::<Payload>(&text) {
            let messages = payload.message.into_iter().chain(payload.messages.into_iter().flatten());
            told.shown = messages.map(Text::shown).collect();
            told.reason = payload.reason;
        }
        told
    }
}

/// A session while it is rendered.
struct Own<'a> {
    session: &'a str,
    last: Option<String>,
    messages: HashSet<String>,
    time: Option<String>,
}

impl Own<'_> {
    /// Notes the messages of a commit that is there already.
    fn note(&mut self, commit: &Commit) {
        self.time = Some(commit.begin.created_at.clone());
        for event in &commit.events {
            match &event.fact {
                Fact::Message(m) | Fact::Upsert(m) => drop(self.messages.insert(m.id.clone())),
                Fact::Replace(messages) => self.messages.extend(messages.iter().map(|m| m.id.clone())),
                _ => {}
            }
        }
    }

    /// The records that an event makes.
    fn lines(&mut self, fact: &Fact, told: Told) -> Vec<Line> {
        let mut shown = told.shown.into_iter();
        match fact {
            Fact::Message(m) | Fact::Upsert(m) if self.messages.insert(m.id.clone()) => {
                vec![message(m, shown.next())]
            }
            Fact::Title(title) => {
                vec![Line { kind: Some(Kind::Title), title: Some(title.clone()), ..Line::default() }]
            }
            Fact::Replace(messages) => {
                let mut lines = Vec::new();
                if told.kind == "history/replace" {
                    let rewind = told.reason.as_deref() == Some("rewind");
                    let kind = Some(if rewind { Kind::Rewind } else { Kind::System });
                    lines.push(Line { kind, ..Line::default() });
                }
                // The list may hold fewer messages than the payload: the first of each id.
                let listed = messages.len() == shown.len();
                for m in messages {
                    let shown = shown.next().filter(|_| listed);
                    if self.messages.insert(m.id.clone()) {
                        let uuid = Some(m.id.clone()).filter(|id| !id.is_empty());
                        lines.push(Line { uuid, ..message(m, shown) });
                    }
                }
                lines
            }
            _ if matches!(told.kind.as_str(), "compaction" | "model/context-replace") => {
                vec![Line { kind: Some(Kind::Compaction), ..Line::default() }]
            }
            _ => Vec::new(),
        }
    }
}

fn message(m: &Message, shown: Option<Shown>) -> Line {
    let Shown { text, tools } = shown.unwrap_or_default();
    let kind = match m.role {
        Role::User => Kind::User,
        Role::Assistant if !m.local_only => Kind::Assistant,
        Role::Tool => Kind::Tool,
        Role::Assistant | Role::System | Role::Other => Kind::System,
    };
    Line {
        kind: Some(kind),
        text: Some(text).filter(|text| !text.is_empty()),
        tools: if tools.len() == m.calls.len() { tools } else { Vec::new() },
        calls: m.calls.clone(),
        answers: m.answers.clone(),
        host: m.from_host,
        ..Line::default()
    }
}
