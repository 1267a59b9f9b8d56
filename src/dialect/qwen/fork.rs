//! The child transcript of a fork: exactly the chain, and what the format needs beside it.
//!
//! Every physical record of each chain uuid is written in chain order, its side artifacts behind it. Bytes are
//! carried over verbatim (I10) but for: `sessionId`, `parentUuid` (a linear chain over records that the client
//! cannot see, as its own fork makes it), `forkedFrom`, the payload fields that name the session
//! ([`super::payload`]), and the first record's `cwd` where the client would not find the child by it. Unlike
//! the client's fork no record of the chain is dropped, but for `session_sources_snapshot`.

use std::io::{self, Write};

use serde_json::json;

use super::{
    artifacts::{SideArtifact, side_artifacts},
    payload,
};
use crate::{
    dialect::{
        ForkReport, ForkSpec, derived_uuid,
        jsonl::members::{Edit, apply, last, members, string},
    },
    record::Agent,
    topology::Chain,
    transcript::{Flags, IdIx, RecordIx, Source, Transcript, Window},
};

pub(super) fn attached(t: &Transcript, chain: &Chain) -> Vec<IdIx> {
    let mut ids: Vec<_> = off_chain(t, chain, side_artifacts(t, &chain.visible(t)))
        .iter()
        .map(|a| t.record(a.record).id)
        .collect();
    ids.dedup();
    ids
}

fn off_chain(t: &Transcript, chain: &Chain, mut side: Vec<SideArtifact>) -> Vec<SideArtifact> {
    let mut on_chain = vec![false; t.ids.len()];
    for id in &chain.uuids {
        on_chain[id.ix()] = true;
    }
    side.retain(|a| !on_chain[t.record(a.record).id.ix()]);
    side
}

pub(super) fn write(
    t: &Transcript,
    source: &dyn Source,
    chain: &Chain,
    spec: &ForkSpec,
    out: &mut dyn Write,
) -> io::Result<ForkReport> {
    let side = off_chain(t, chain, side_artifacts(t, &chain.visible(t)));
    let physical = physical_records(t, chain);
    let mut writer = Writer::new(t, source, spec, out);
    let (mut side, mut tail) = (side.into_iter().peekable(), None::<IdIx>);
    while let Some(a) = side.next_if(|a| a.behind.is_none()) {
        writer.record(a.record, Parent::Verbatim)?;
    }
    // Artifacts come by the chain record they stand behind; in file order that need not be chain order.
    let mut behind: hashbrown::HashMap<IdIx, Vec<RecordIx>> = hashbrown::HashMap::new();
    for a in side {
        if let Some(id) = a.behind {
            behind.entry(id).or_default().push(a.record);
        }
    }
    for (id, records) in chain.uuids.iter().zip(&physical) {
        let Some(first) = t.first(*id) else { continue };
        let flags = t.record(first).flags;
        let hidden = flags.has(Flags::UNSEEN);
        if hidden && !flags.has(Flags::ARTIFACT) {
            writer.dropped(*id, tail);
            continue;
        }
        let parent = match t.record(first).parent {
            Some(parent) if hidden && writer.retained(parent) => Parent::Verbatim,
            _ => Parent::Linear(tail),
        };
        for &record in records {
            writer.record(record, parent)?;
        }
        if !hidden {
            tail = Some(*id);
        }
        for record in behind.remove(id).unwrap_or_default() {
            writer.record(record, Parent::Verbatim)?;
        }
    }
    writer.finish(tail)
}

/// For each uuid of the chain all of its records, in file order.
fn physical_records(t: &Transcript, chain: &Chain) -> Vec<Vec<RecordIx>> {
    let mut place = vec![u32::MAX; t.ids.len()];
    for (at, id) in chain.uuids.iter().enumerate() {
        place[id.ix()] = at as u32;
    }
    let mut physical = vec![Vec::new(); chain.uuids.len()];
    for (ix, record) in t.records.iter().enumerate() {
        if let Some(slot) = physical.get_mut(place[record.id.ix()] as usize) {
            slot.push(ix as RecordIx);
        }
    }
    physical
}

#[derive(Clone, Copy)]
enum Parent {
    /// As it stands: the parent is in the child too.
    Verbatim,
    /// The last record written that the client sees.
    Linear(Option<IdIx>),
}

struct Writer<'a> {
    t: &'a Transcript,
    source: Window<'a>,
    spec: &'a ForkSpec,
    /// The session ids of the child and of its source, as JSON.
    sessions: [String; 2],
    out: &'a mut dyn Write,
    ids: payload::Remap<'a>,
    report: ForkReport,
    /// Uuids that the child holds so far.
    written: Vec<bool>,
    /// Uuids left out, and the visible record before each: checkpoints may name them.
    dropped: hashbrown::HashMap<String, Option<String>>,
    line: Vec<u8>,
    rewritten: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(t: &'a Transcript, source: &'a dyn Source, spec: &'a ForkSpec, out: &'a mut dyn Write) -> Self {
        let parent_session = t.session_ids.first().map_or("", String::as_str);
        Writer {
            t,
            source: Window::new(source),
            spec,
            sessions: [json!(spec.session_id).to_string(), json!(t.session_ids.first()).to_string()],
            out,
            ids: payload::Remap::new(parent_session, &spec.session_id),
            report: ForkReport::default(),
            written: vec![false; t.ids.len()],
            dropped: hashbrown::HashMap::new(),
            line: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    fn retained(&self, id: IdIx) -> bool {
        self.written[id.ix()]
    }

    fn dropped(&mut self, id: IdIx, before: Option<IdIx>) {
        self.dropped.insert(self.t.ids.text(id), before.map(|b| self.t.ids.text(b)));
    }

    fn record(&mut self, ix: RecordIx, parent: Parent) -> io::Result<()> {
        let record = self.t.record(ix);
        self.line.clear();
        self.line.extend_from_slice(self.source.bytes(record.span)?);
        let edits = self.edits(record.id, parent).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {} is no longer the record that was read", self.t.line(ix)),
            )
        })?;
        self.rewritten.clear();
        apply(&self.line, edits, &mut self.rewritten);
        self.rewritten.push(b'\n');
        self.out.write_all(&self.rewritten)?;
        self.written[record.id.ix()] = true;
        self.report.records += 1;
        Ok(())
    }

    fn edits(&mut self, id: IdIx, parent: Parent) -> Option<Vec<Edit>> {
        let found = members(&self.line)?;
        let mut edits = Vec::with_capacity(4);
        // `with` is JSON.
        let mut set = |key: &str, with: &str| {
            let before = edits.len();
            let named = found.iter().filter(|m| m.key == key);
            edits.extend(named.map(|m| Edit { at: m.value.clone(), with: with.into() }));
            edits.len() > before
        };
        let [child, source] = &self.sessions;
        let quoted = |id: IdIx| json!(self.t.ids.text(id)).to_string();
        set("sessionId", child);
        if let Parent::Linear(to) = parent {
            set("parentUuid", &to.map_or_else(|| "null".to_owned(), quoted));
        }
        let mut added = String::new();
        // The client looks the child up by the first record's folder.
        let cwd = last(&found, "cwd").and_then(|r| string(&self.line, r));
        if self.report.records == 0
            && cwd != self.t.first_cwd
            && let Some(project) = &self.t.first_cwd
        {
            let project = json!(project).to_string();
            if !set("cwd", &project) {
                added += &format!(",\"cwd\":{project}");
            }
        }
        let from = format!("{{\"sessionId\":{source},\"messageUuid\":{}}}", quoted(id));
        if !set("forkedFrom", &from) {
            added += &format!(",\"forkedFrom\":{from}");
        }
        if !added.is_empty() {
            let end = self.line.iter().rposition(|&b| b == b'}')?;
            edits.push(Edit { at: end..end, with: added.into_bytes() });
        }
        if let Some(range) = last(&found, "systemPayload") {
            let text = |key: &str| last(&found, key).and_then(|r| string(&self.line, r));
            if text("type").as_deref() == Some("system")
                && let Some(subtype) = text("subtype")
            {
                let payload = &self.line[range.clone()];
                let rewritten = self.ids.rewrite(&subtype, payload, &self.dropped, &mut self.report.backups);
                edits.extend(
                    rewritten
                        .into_iter()
                        .map(|e| Edit { at: range.start + e.at.start..range.start + e.at.end, with: e.with }),
                );
            }
        }
        Some(edits)
    }

    fn finish(mut self, tail: Option<IdIx>) -> io::Result<ForkReport> {
        self.report.tail = tail.map(|id| self.t.ids.text(id)).unwrap_or_default();
        if let Some(title) = &self.spec.title {
            let uuid = derived_uuid("title", Agent::Qwen, &self.spec.session_id, &self.spec.operation_id);
            let mut record = json!({
                "uuid": uuid, "parentUuid": tail.map(|id| self.t.ids.text(id)),
                "sessionId": self.spec.session_id, "timestamp": super::timestamp(self.spec.now),
                "type": "system", "provenance": "system",
            });
            let optional = [
                ("cwd", &self.t.first_cwd),
                ("version", &self.spec.version.clone().or(self.t.client_version.clone())),
            ];
            for (key, value) in optional {
                if let Some(value) = value {
                    record[key] = json!(value);
                }
            }
            record["subtype"] = json!("custom_title");
            record["systemPayload"] = json!({"customTitle": title, "titleSource": "manual"});
            writeln!(self.out, "{record}")?;
            self.report.records += 1;
            self.report.tail = uuid;
        }
        self.report.backups.sort();
        self.report.backups.dedup();
        Ok(self.report)
    }
}
