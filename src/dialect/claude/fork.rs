//! The child transcript of a fork.
//!
//! The chain, the other parts of its messages with the results of their calls, and the notes behind its leaf
//! ([`Slice`]): one line each, in the order of the file, with the bytes of the copy that counts but for `sessionId`,
//! `forkedFrom`, and a `parentUuid` that names a record outside. Of the lines that are no records the child has the
//! file history of its own messages, so that the client can take back the changes of files there; everything else (pins,
//! queues, modes, titles, cost) is about the session as it was, or about another branch. Then a title, and one pin
//! that names the leaf.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::slice::{Slice, expected};
use crate::{
    dialect::{
        Client, ForkReport, ForkSpec,
        jsonl::{
            backups,
            members::{Edit, Member, apply, last, members},
        },
    },
    topology::Chain,
    transcript::{RecordIx, Source, Span, Transcript, Window},
};

pub(super) fn write(
    t: &Transcript,
    source: &dyn Source,
    chain: &Chain,
    spec: &ForkSpec,
    out: &mut dyn Write,
) -> io::Result<ForkReport> {
    let slice = Slice::of(t, chain);
    let source = Window::new(source);
    let sessions = [json!(spec.session_id).to_string(), json!(t.session_ids.first()).to_string()];
    let mut writer = Writer { t, source, sessions, out, slice: &slice, report: ForkReport::default() };
    let asides = t.rounds.as_ref().map_or(&[][..], |rounds| &rounds.snapshots);
    let mut asides = asides.iter().filter(|s| slice.kept[s.message.ix()]).peekable();
    for &ix in &slice.order {
        while let Some(aside) = asides.next_if(|s| s.before <= ix) {
            writer.aside(aside.span)?;
        }
        writer.record(ix)?;
    }
    for aside in asides {
        writer.aside(aside.span)?;
    }
    if let Some(title) = &spec.title {
        writer.line(&json!({"type": "custom-title", "customTitle": title, "sessionId": spec.session_id}))?;
    }
    let leaf = chain.uuids.last().map(|&id| t.ids.text(id));
    writer.line(&json!({"type": "last-prompt", "leafUuid": leaf, "sessionId": spec.session_id}))?;
    let client = Client { version: spec.version.clone(), ..Client::default() };
    let tail = expected(t, chain, &client).tail;
    writer.report.backups.sort();
    writer.report.backups.dedup();
    Ok(ForkReport { tail: tail.map(|id| id.to_string()).unwrap_or_default(), ..writer.report })
}

struct Writer<'a> {
    t: &'a Transcript,
    source: Window<'a>,
    /// The session ids of the child and of its source, as JSON.
    sessions: [String; 2],
    out: &'a mut dyn Write,
    slice: &'a Slice,
    report: ForkReport,
}

impl Writer<'_> {
    fn line(&mut self, line: &Value) -> io::Result<()> {
        self.report.records += 1;
        writeln!(self.out, "{line}")
    }

    fn aside(&mut self, span: Span) -> io::Result<()> {
        let line = self.source.bytes(span)?;
        let found = members(line).unwrap_or_default();
        // A snapshot names the backups of all files (2.1.197 adds one for each change), a delta that of one (2.1.332).
        if let Some(at) = last(&found, "snapshot") {
            let snapshot = &line[at.clone()];
            if let Some(at) = last(&members(snapshot).unwrap_or_default(), "trackedFileBackups") {
                backups::tracked(&snapshot[at.clone()], &mut self.report.backups);
            }
        }
        if let Some(at) = last(&found, "backup") {
            backups::backup(&line[at.clone()], &mut self.report.backups);
        }
        self.rewrite(span, Vec::new(), None)
    }

    fn record(&mut self, ix: RecordIx) -> io::Result<()> {
        let record = self.t.record(ix);
        let outside = record.parent.filter(|p| !self.slice.kept[p.ix()] || self.t.first(*p).is_none());
        let mut values = Vec::new();
        if outside.is_some() {
            // Of the chain only its first record has such a parent. A part that hung below records of a subagent goes
            // below the next record above that is here.
            let above = self.t.units.as_ref().and_then(|units| units.above[record.id.ix()]);
            let above = above.filter(|id| self.slice.kept[id.ix()]).map(|id| self.t.ids.text(id));
            values.push(("parentUuid", json!(above).to_string()));
        }
        let uuid = json!(self.t.ids.text(record.id));
        let from = format!("{{\"sessionId\":{},\"messageUuid\":{uuid}}}", self.sessions[1]);
        self.rewrite(record.span, values, Some(from))
    }

    /// Writes the object that stands at `span`, with the members in `values` replaced by JSON.
    fn rewrite(
        &mut self,
        span: Span,
        mut values: Vec<(&str, String)>,
        forked_from: Option<String>,
    ) -> io::Result<()> {
        let line = self.source.bytes(span)?;
        let changed =
            || io::Error::new(io::ErrorKind::InvalidData, "a line is no longer the record that was read");
        let found = members(line).ok_or_else(changed)?;
        values.push(("sessionId", self.sessions[0].clone()));
        let mut edits: Vec<Edit> =
            values.iter().flat_map(|(key, value)| replaced(&found, key, value)).collect();
        if let Some(from) = forked_from {
            let before = edits.len();
            edits.extend(replaced(&found, "forkedFrom", &from));
            if edits.len() == before {
                let end = line.iter().rposition(|&b| b == b'}').ok_or_else(changed)?;
                edits.push(Edit { at: end..end, with: format!(",\"forkedFrom\":{from}").into_bytes() });
            }
        }
        let mut rewritten = Vec::with_capacity(line.len() + 160);
        apply(line, edits, &mut rewritten);
        rewritten.push(b'\n');
        self.report.records += 1;
        self.out.write_all(&rewritten)
    }
}

/// All members of that name: which of them counts is for the reader to say.
fn replaced(found: &[Member<'_>], key: &str, with: &str) -> Vec<Edit> {
    let named = found.iter().filter(|m| m.key == key);
    named.map(|m| Edit { at: m.value.clone(), with: with.into() }).collect()
}
