//! What a row says: whose it is, and a preview of its text. Everything that leaves here has gone through `clean`.

use std::{borrow::Cow, io};

use serde_json::Value;

use super::{
    agents::Aside,
    doc::{Doc, Mark},
    outline::{ItemIx, Kind},
    page::Row,
};
use crate::{
    cli::text::{self, clean, width},
    dialect::{Part, View},
    record::RecordKind,
    store::agents::claude::Subagent,
    transcript::{Flags, RecordIx},
};

/// The longest preview, in characters, the `...` of a cut one not counted.
pub const PREVIEW: usize = 80;
/// What stands where a text is left out.
const LEFT_OUT: &str = "(text left out)";
/// At most so many records of a group are decoded for its one line.
const LOOKED_AT: usize = 24;
/// More of a text than this is not looked at for a preview.
const SCANNED: usize = 4096;

/// Whose a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person.
    User,
    /// The model.
    Assistant,
    /// A subagent.
    Sidechain,
    /// Tools.
    Tool,
    /// The client.
    System,
}

impl Role {
    /// What tells it without colour.
    pub fn badge(self) -> &'static str {
        match self {
            Role::User => "[U]",
            Role::Assistant => "[A]",
            Role::Sidechain => "[S]",
            Role::Tool => "[T]",
            Role::System => "[i]",
        }
    }

    /// Its name, in JSON and where there is room.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Sidechain => "sidechain",
            Role::Tool => "tool",
            Role::System => "system",
        }
    }
}

/// What a row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Whose it is.
    pub role: Role,
    /// Cleaned, folded, at most [`PREVIEW`] characters and `...`.
    pub preview: String,
}

/// What a row says.
///
/// # Errors
/// What the file system says.
pub fn words(doc: &Doc, row: Row) -> io::Result<Words> {
    let (role, text) = text(doc, row)?;
    Ok(Words { role, preview: preview(&text) })
}

/// Whose a row is, and what it says, neither cut nor cleaned.
///
/// # Errors
/// What the file system says.
pub fn text(doc: &Doc, row: Row) -> io::Result<(Role, String)> {
    let records = doc.outline.records(row.item);
    if row.member > 0 {
        return match (doc.aside(row.item).map(Aside::read), doc.record_of(row)) {
            (Some(Ok(read)), _) => match read.record(row.member) {
                Some(record) => {
                    let kind = read.snapshot().transcript.record(record).kind;
                    Ok(record_text(doc, kind, &read.view(record)?))
                }
                None => Ok((Role::System, String::new())),
            },
            (None, Some(record)) => {
                Ok(record_text(doc, doc.transcript().record(record).kind, &doc.view(record)?))
            }
            (Some(Err(_)), _) | (None, None) => Ok((Role::System, String::new())),
        };
    }
    if let Some(aside) = doc.aside(row.item) {
        return Ok((Role::Sidechain, subagent(doc, &aside.of)));
    }
    Ok(match doc.outline.item(row.item).kind {
        Kind::User => (Role::User, message(doc, records)?),
        Kind::Assistant => (Role::Assistant, message(doc, records)?),
        Kind::Event => (Role::System, event(doc, records)?),
        Kind::Tools => (Role::Tool, tools(doc, records)?),
        Kind::Notes => (Role::System, notes(doc, records)?),
        Kind::Sidechain | Kind::Agent(_) => (Role::Sidechain, sidechain(doc, records)?),
    })
}

/// One record of an opened group.
fn record_text(doc: &Doc, kind: RecordKind, view: &View) -> (Role, String) {
    let calls = calls(view);
    let said = said(view);
    let (role, text) = match kind {
        RecordKind::User => (Role::User, said),
        RecordKind::Assistant if !said.is_empty() && !doc.redact => {
            let calls = calls.into_iter().map(|c| format!(" -> {}", c.0)).collect::<String>();
            (Role::Assistant, said + &calls)
        }
        RecordKind::Assistant if calls.is_empty() => (Role::Assistant, silent(view).to_owned()),
        RecordKind::Assistant => {
            let calls: Vec<String> =
                calls.iter().map(|(name, input)| format!("{} {}", named(name), argument(input))).collect();
            (Role::Tool, format!("-> {}", if doc.redact { "a call".to_owned() } else { calls.join(", ") }))
        }
        RecordKind::ToolResult => {
            let result = view.parts.iter().find_map(|p| match p {
                Part::Result { text, .. } => Some(text.as_str()),
                _ => None,
            });
            let text = beginning(result.unwrap_or_default());
            (Role::Tool, format!("<- {}", if doc.redact { LEFT_OUT } else { text }))
        }
        RecordKind::System | RecordKind::Other => (Role::System, note(doc, view)),
    };
    let hidden = doc.redact && matches!(role, Role::User | Role::Assistant);
    (role, if hidden { LEFT_OUT.to_owned() } else { text })
}

/// The first text of a message's records that is not blank.
fn message(doc: &Doc, records: &[RecordIx]) -> io::Result<String> {
    if doc.redact {
        return Ok(LEFT_OUT.to_owned());
    }
    let mut nothing = "(no text)";
    for &record in records.iter().take(LOOKED_AT) {
        let view = doc.view(record)?;
        let said = said(&view);
        if !said.trim().is_empty() {
            return Ok(said);
        }
        nothing = silent(&view);
    }
    Ok(nothing.to_owned())
}

fn event(doc: &Doc, records: &[RecordIx]) -> io::Result<String> {
    let Some(&record) = records.first() else { return Ok(String::new()) };
    let view = doc.view(record)?;
    let flags = doc.transcript().record(record).flags;
    let what = if flags.has(Flags::SUMMARY) {
        "summary of what was compacted"
    } else if flags.has(Flags::REWIND) {
        "rewind"
    } else if flags.has(Flags::COMPRESSION) {
        "compaction"
    } else {
        "notification"
    };
    let text = said(&view);
    Ok(if doc.redact || text.trim().is_empty() { what.to_owned() } else { format!("{what}: {text}") })
}

/// How many calls of what, and what the model said to it.
fn tools(doc: &Doc, records: &[RecordIx]) -> io::Result<String> {
    let mut names = Tally::default();
    let (mut only, mut said_first) = (None, None);
    for &record in records.iter().take(LOOKED_AT) {
        let view = doc.view(record)?;
        for (name, input) in calls(&view) {
            only = Some(format!("{} {}", named(name), argument(input)));
            names.add(named(name));
        }
        if doc.transcript().record(record).kind == RecordKind::Assistant && said_first.is_none() {
            said_first = Some(said(&view)).filter(|said| !said.trim().is_empty());
        }
    }
    let more = records.len() > LOOKED_AT;
    let called = |r: &&RecordIx| doc.transcript().record(**r).flags.has(Flags::CALL);
    // A record may make several calls; those that were not looked at count as one each.
    let rest = records.iter().skip(LOOKED_AT).filter(called).count();
    let count = names.total + rest;
    let plural = if count == 1 { "call" } else { "calls" };
    if doc.redact {
        return Ok(format!("{count} {plural}"));
    }
    let mut text = match (only, count) {
        (Some(only), 1) => only,
        (None, _) if count == 0 => "results without a call".to_owned(),
        _ => format!("{count} {plural}: {}{}", names.text(), if more { ", ..." } else { "" }),
    };
    if let Some(said) = said_first {
        text = format!("{text}; {said}");
    }
    Ok(text)
}

fn notes(doc: &Doc, records: &[RecordIx]) -> io::Result<String> {
    if let [record] = records {
        return Ok(note(doc, &doc.view(*record)?));
    }
    let mut names = Tally::default();
    for &record in records.iter().take(LOOKED_AT) {
        let view = doc.view(record)?;
        names.add(view.note.as_deref().filter(|_| !doc.redact).unwrap_or("record"));
    }
    let more = if records.len() > LOOKED_AT { ", ..." } else { "" };
    Ok(format!("{} records: {}{more}", records.len(), names.text()))
}

fn note(doc: &Doc, view: &View) -> String {
    let text = said(view);
    let name = view.note.as_deref().unwrap_or("record");
    match (doc.redact, text.trim().is_empty()) {
        (true, _) => name.split(':').next().unwrap_or_default().to_owned(),
        (false, true) => name.to_owned(),
        (false, false) if view.note.is_none() => text,
        (false, false) => format!("{name}: {text}"),
    }
}

fn sidechain(doc: &Doc, records: &[RecordIx]) -> io::Result<String> {
    let count = match records.len() {
        1 => "1 record of a subagent".to_owned(),
        n => format!("{n} records of a subagent"),
    };
    if doc.redact {
        return Ok(count);
    }
    let text = message(doc, &records[..records.len().min(1)])?;
    Ok(format!("{count}: {text}"))
}

/// What is known of a conversation in a file of its own, before it is read.
fn subagent(doc: &Doc, of: &Subagent) -> String {
    let (unit, name) = text::unit(of.bytes);
    let size = format!("{} {name}", of.bytes / unit);
    let about = match (&of.noted, &of.prompt) {
        _ if doc.redact => return format!("subagent, {size}"),
        (Some((kind, what)), _) if !kind.is_empty() && !what.is_empty() => format!("{kind}: {what}"),
        (_, Some(prompt)) => prompt.clone(),
        (Some((kind, what)), None) => format!("{kind}{what}"),
        (None, None) => of.agent_id.clone(),
    };
    format!("subagent, {size}: {}", beginning(&about))
}

/// The texts that a record shows, with placeholders for what is no text.
fn said(view: &View) -> String {
    let mut out = String::new();
    for part in &view.parts {
        let text = match part {
            Part::Text(text) => beginning(text),
            Part::Image => "[image]",
            Part::Binary => "[binary content]",
            Part::Thought(_) | Part::Call { .. } | Part::Result { .. } => continue,
        };
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(text);
        if out.len() > SCANNED {
            break;
        }
    }
    out
}

/// Why a message says nothing.
fn silent(view: &View) -> &'static str {
    let thinks = view.parts.iter().any(|p| matches!(p, Part::Thought(_)));
    if thinks { "(thinking only)" } else { "(no text)" }
}

fn calls(view: &View) -> Vec<(&str, &str)> {
    let mut calls = Vec::new();
    for part in &view.parts {
        if let Part::Call { name, input } = part {
            calls.push((name.as_str(), input.as_str()));
        }
    }
    calls
}

/// What a call is about: of its arguments the one that tells most, else the first text, else all as they stand.
fn argument(input: &str) -> Cow<'_, str> {
    const TELLING: [&str; 7] = ["command", "file_path", "path", "pattern", "query", "url", "description"];
    let Ok(Value::Object(arguments)) = serde_json::from_str(input) else { return beginning(input).into() };
    let telling = TELLING.iter().filter_map(|name| arguments.get(*name));
    match telling.chain(arguments.values()).find_map(Value::as_str) {
        Some(text) => beginning(text).to_owned().into(),
        None => beginning(input).into(),
    }
}

fn named(name: &str) -> &str {
    if name.is_empty() { "a tool" } else { name }
}

/// As much of a text as a preview can need.
fn beginning(text: &str) -> &str {
    text::beginning(text, SCANNED)
}

/// Names and how often each came, in the order in which they came first.
#[derive(Default)]
struct Tally {
    total: usize,
    names: Vec<(String, usize)>,
}

impl Tally {
    fn add(&mut self, name: &str) {
        self.total += 1;
        match self.names.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => self.names.push((name.to_owned(), 1)),
        }
    }

    fn text(&self) -> String {
        let one = |(name, count): &(String, usize)| match count {
            1 => name.clone(),
            n => format!("{name} x{n}"),
        };
        self.names.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Blanks folded, cleaned, cut after [`PREVIEW`] characters with `...`.
pub fn preview(text: &str) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let word = clean(word);
        for c in (count > 0).then_some(' ').into_iter().chain(word.chars()) {
            if count == PREVIEW {
                out.truncate(out.trim_end().len());
                return out + "...";
            }
            out.push(c);
            count += 1;
        }
    }
    out
}

/// `text`, which is clean, in at most `columns` columns; what is cut is shown as `...`.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mark = &"..."[..columns.min(3)];
    let text = text.strip_suffix("...").unwrap_or(text);
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > columns - mark.len() {
            break;
        }
        kept.push(c);
    }
    kept.truncate(kept.trim_end().len());
    kept + mark
}

/// What a place is marked with, in words; `short` where there is little room.
pub fn mark(mark: &Mark, short: bool) -> String {
    match (mark, short) {
        (Mark::ClientPick, false) => "client's pick".to_owned(),
        (Mark::ClientPick, true) => "pick".to_owned(),
        (Mark::Recorded, false) => "recorded".to_owned(),
        (Mark::Recorded, true) => "rec".to_owned(),
        (Mark::Label(label), _) => format!("\"{}\"", preview(label)),
        (Mark::WentOn(child), false) => {
            format!("went on in {}", crate::cli::prompt::fit_id(child))
        }
        (Mark::WentOn(_), true) => "went on".to_owned(),
        (Mark::Leaf, _) => "leaf".to_owned(),
        (Mark::Gap, false) => "parent missing".to_owned(),
        (Mark::Gap, true) => "gap".to_owned(),
        (Mark::Branches(n), false) => format!("{n} branches"),
        (Mark::Branches(n), true) => format!("x{n}"),
    }
}

/// All marks of an item in brackets, the most telling first, for a row with `room` for them and for a text of `text`
/// columns: in full where they fit what the text leaves, or half of the room; else short, for which the text gives way,
/// since nothing else in the row tells them. Empty if there are none, or no room.
pub fn marks(doc: &Doc, item: ItemIx, text: usize, room: usize) -> String {
    let most = room.saturating_sub(1);
    let columns = room.saturating_sub(text + 1).max(room / 2).min(most);
    let list = doc.marks(item);
    for short in [false, true] {
        let all = list.iter().map(|m| mark(m, short)).collect::<Vec<_>>().join(", ");
        if all.is_empty() {
            return all;
        }
        if width(&all) + 2 <= columns || (short && most >= 6) {
            return cut(&format!("({all})"), most);
        }
    }
    String::new()
}

/// The lines that lead to a row: how it hangs below the branch points above it. Levels above `from` are left out, which
/// is shown as `...`.
pub fn guides(doc: &Doc, row: Row, from: u32) -> String {
    let outline = &doc.outline;
    let runs = outline.runs();
    let mut run = runs[outline.item(row.item).run as usize];
    let mut begins = run.from == row.item && row.member == 0;
    let mut parts = Vec::new();
    while let Some(parent) = run.parent.filter(|_| run.depth > from) {
        parts.push(match (begins, run.last) {
            (true, false) => "├─ ",
            (true, true) => "└─ ",
            (false, false) => "│  ",
            (false, true) => "   ",
        });
        begins = false;
        run = runs[parent as usize];
    }
    // Several beginnings: each is told from the end of the one above it.
    parts.push(match (run.depth > 0 || from > 0, outline.has_several_roots(), begins) {
        (true, ..) => "... ",
        (_, false, _) => "",
        (_, true, true) => "┌─ ",
        (_, true, false) => "│  ",
    });
    parts.reverse();
    let mut out = parts.concat();
    if row.member > 0 {
        let last = row.member == doc.members(row.item);
        out += if last { "  ╰ " } else { "  │ " };
    }
    out
}
