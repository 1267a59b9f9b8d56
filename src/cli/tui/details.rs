//! All that a row stands for, as lines of text: time, id, marks, and the full text.

use std::io;

use serde_json::Value;

use super::{agents::Aside, doc::Doc, page::Row, words};
use crate::{
    cli::text::{beginning, clean, counted, width},
    dialect::{Part, View},
    record::{RecordId, RecordKind},
    transcript::{RecordIx, Transcript},
};

/// More bytes of text than this are not shown; the end says how to see them.
const MOST: usize = 256 * 1024;
/// More records of one row than this are not shown.
const MOST_RECORDS: usize = 200;

/// One line: what kind it is, and its text, not cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// About the record.
    Head(String),
    /// What the record holds.
    Text(String),
    /// Of tools, and what the model thought.
    Aside(String),
}

/// What a row stands for.
///
/// # Errors
/// What the file system says.
pub fn details(doc: &Doc, row: Row) -> io::Result<Vec<Line>> {
    if let Some(aside) = doc.aside(row.item) {
        return subagent(doc, aside, row);
    }
    let all = doc.outline.records(row.item);
    let records = match row.member {
        0 => all,
        n => all.get(n as usize - 1..n as usize).unwrap_or_default(),
    };
    let mut out = Vec::new();
    let marks: Vec<String> = doc.marks(row.item).iter().map(|mark| words::mark(mark, false)).collect();
    if !marks.is_empty() && row.member == 0 {
        out.push(Line::Head(marks.join(", ")));
    }
    let mut room = MOST;
    for (number, &record) in records.iter().enumerate() {
        if number == MOST_RECORDS || room == 0 {
            out.push(Line::Head(format!(
                "{} more records: open the row to see them",
                records.len() - number
            )));
            break;
        }
        if number > 0 {
            out.push(Line::Text(String::new()));
        }
        let shown = Shown::of(doc.transcript(), record, doc.view(record)?);
        one(doc, shown, &mut room, &mut out);
    }
    Ok(out)
}

/// A conversation in a file of its own, or one record of it.
fn subagent(doc: &Doc, aside: &Aside, row: Row) -> io::Result<Vec<Line>> {
    let mut out = Vec::new();
    if let Some(read) = aside.known().filter(|_| row.member > 0) {
        if let Some(record) = read.record(row.member) {
            let shown = Shown::of(&read.snapshot().transcript, record, read.view(record)?);
            one(doc, shown, &mut { MOST }, &mut out);
        }
        return Ok(out);
    }
    let of = &aside.of;
    out.push(Line::Head(format!("the conversation of subagent {}", of.agent_id)));
    out.push(Line::Head(format!("{}, {}", of.path.display(), counted(of.bytes, "byte", "bytes"))));
    out.extend(of.began.as_deref().map(|began| Line::Head(format!("began {}", time(began)))));
    if doc.redact {
        out.push(Line::Aside("(text left out)".to_owned()));
        return Ok(out);
    }
    if let Some((kind, what)) = &of.noted {
        out.push(Line::Text(format!("{kind}: {what}")));
    }
    let mut room = MOST;
    of.prompt.iter().for_each(|prompt| lines(prompt, "", Line::Text, &mut room, &mut out));
    Ok(out)
}

/// One record, to be shown.
struct Shown {
    id: RecordId,
    kind: RecordKind,
    line: u32,
    view: View,
}

impl Shown {
    fn of(t: &Transcript, record: RecordIx, view: View) -> Self {
        let r = t.record(record);
        Shown { id: t.id(r.id), kind: r.kind, line: t.line(record), view }
    }
}

fn one(doc: &Doc, shown: Shown, room: &mut usize, out: &mut Vec<Line>) {
    let Shown { id, kind, line, view } = shown;
    let kind = match kind {
        RecordKind::User => "user",
        RecordKind::Assistant => "assistant",
        RecordKind::ToolResult => "tool result",
        RecordKind::System => "system",
        RecordKind::Other => "other",
    };
    let note = view.note.as_deref().map(|note| note.split(':').next().unwrap_or_default());
    let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
    let at = view.timestamp.as_deref().map_or_else(String::new, |t| format!(", {}", time(t)));
    out.push(Line::Head(format!("{kind}{note}{at}, line {line}")));
    out.push(Line::Head(id.to_string()));
    if doc.redact {
        out.push(Line::Aside("(text left out)".to_owned()));
        return;
    }
    if let Some(title) = view.note.as_deref().and_then(|note| note.strip_prefix("title: ")) {
        out.push(Line::Text(title.to_owned()));
    }
    for part in &view.parts {
        match part {
            Part::Text(text) => lines(text, "", Line::Text, room, out),
            Part::Thought(text) => lines(text, "(thinking) ", Line::Aside, room, out),
            Part::Call { name, input } => {
                lines(&pretty(input), &format!("-> {name} "), Line::Aside, room, out);
            }
            Part::Result { text, .. } => lines(text, "<- ", Line::Aside, room, out),
            Part::Image => out.push(Line::Aside("[image]".to_owned())),
            Part::Binary => out.push(Line::Aside("[binary content]".to_owned())),
        }
    }
}

/// A time as it is read most easily; as it stands where it is none.
fn time(text: &str) -> String {
    match text.parse::<jiff::Timestamp>() {
        Ok(t) => t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => text.to_owned(),
    }
}

fn pretty(input: &str) -> String {
    match serde_json::from_str::<Value>(input) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
        Err(_) => input.to_owned(),
    }
}

fn lines(text: &str, begin: &str, kind: fn(String) -> Line, room: &mut usize, out: &mut Vec<Line>) {
    let mut begin = begin;
    for line in text.lines() {
        let line = beginning(line, *room);
        *room -= line.len().max(1).min(*room);
        out.push(kind(format!("{begin}{line}")));
        begin = "";
        if *room == 0 {
            out.push(Line::Head(format!("{} KiB and more: the rest is not shown", MOST / 1024)));
            return;
        }
    }
}

/// The lines broken to a width, cleaned. A word that is wider is cut.
pub fn wrap(lines: &[Line], columns: usize) -> Vec<Line> {
    let mut out = Vec::new();
    for line in lines {
        let (text, kind): (_, fn(String) -> Line) = match line {
            Line::Head(text) => (text, Line::Head),
            Line::Text(text) => (text, Line::Text),
            Line::Aside(text) => (text, Line::Aside),
        };
        broken(&clean(&text.replace('\t', "    ")), columns.max(4))
            .into_iter()
            .for_each(|l| out.push(kind(l)));
    }
    out
}

/// Lines after the first are indented as the first is, so that lists and code keep their form.
fn broken(text: &str, columns: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let indent = if indent <= columns / 2 { &text[..indent] } else { "" };
    let mut out = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    // Where the line may be broken: behind its last blank.
    let mut blank = None;
    for c in text.chars() {
        let wide = width(c.encode_utf8(&mut [0; 4]));
        // What goes on to the next line can leave too little room there, too.
        while used + wide > columns && line.len() > indent.len() {
            let rest = match blank {
                Some(at) if c != ' ' => line.split_off(at),
                _ => String::new(),
            };
            out.push(line.trim_end().to_owned());
            line = format!("{indent}{rest}");
            used = width(&line);
            blank = None;
        }
        // Blanks at a break stand on neither side of it.
        if c == ' ' && !out.is_empty() && line.len() == indent.len() {
            continue;
        }
        line.push(c);
        used += wide;
        if c == ' ' && line.len() > indent.len() {
            blank = Some(line.len());
        }
    }
    out.push(line);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(broken("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(broken("    indented text", 12), ["    indented", "    text"]);
        assert_eq!(broken("abcdefghijkl", 5), ["abcde", "fghij", "kl"]);
        assert_eq!(broken("", 5), [""]);
        assert_eq!(broken("東京都の天気", 5), ["東京", "都の", "天気"]);
        assert_eq!(broken("東 a東   a東東", 4), ["東", "a東", "a東", "東"]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(text in "[a-c \u{6771}]{0,60}", columns in 4usize..20) {
            let lines = broken(&text, columns);
            for line in &lines {
                prop_assert!(width(line) <= columns, "{line:?}");
            }
            let solid = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(solid(&lines.concat()), solid(&text));
        }
    }
}
