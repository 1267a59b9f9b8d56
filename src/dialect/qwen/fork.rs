//! The child transcript of a fork: exactly the chain, and what the format needs beside it.
//!
//! Every physical record of each chain uuid is written in chain order, its side artifacts behind it. Bytes are
//! carried over verbatim (I10) but for: `sessionId`, `parentUuid` (a linear chain over records that the client
//! cannot see, as its own fork makes it), `forkedFrom`, the payload fields that name the session
//! ([`super::payload`]), and the first record's `cwd` where the client would not find the child by it. Unlike
//! the client's fork no record of the chain is dropped, but for `session_sources_snapshot`.

use std::{
    io::{self, BufWriter, Write},
    ops::Range,
};

use hashbrown::HashMap;
use serde_json::json;

use super::{
    artifacts::{SideArtifact, side_artifacts},
    payload,
};
use crate::{
    dialect::{ForkReport, ForkSpec, derived_uuid, jsonl::members::apply},
    parallel::{self, Stage},
    record::Agent,
    topology::Chain,
    transcript::{Flags, IdIx, RecordIx, Source, Transcript, Window},
};

mod line;

use line::Lines;

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
    out: &mut (dyn Write + Send),
) -> io::Result<ForkReport> {
    let Plan { records, dropped, tail } = Plan::new(t, chain);
    let batches = batches(t, &records);
    let lines = Lines::new(t, spec);
    let parent_session = t.session_ids.first().map_or("", String::as_str);
    let ids = payload::Remap::new(parent_session, &spec.session_id);
    let mut out = BufWriter::with_capacity(AT_LEAST, out);
    let mut child =
        Child { out: &mut out, ids, dropped: &dropped, report: ForkReport::default(), payload: Vec::new() };
    parallel::run(
        batches.len() as u64,
        parallel::workers(),
        &mut child,
        &|| (Window::new(source), Vec::new()),
        &|stage: Stage<'_, Child<'_>>, (window, bytes)| {
            let batch = batches[stage.step() as usize].clone();
            bytes.clear();
            match rewrite(&lines, window, &records, batch, bytes) {
                Ok(payloads) => stage.turn(|child| child.take(bytes, payloads)),
                Err(e) => stage.turn(|_| Err(e)),
            }
        },
    )?;
    child.report.records = records.len() as u64;
    let report = child.finish(t, spec, tail)?;
    out.flush()?;
    Ok(report)
}

/// The lines of some records, and where payloads stand in them that are rewritten when their turn has come.
fn rewrite(
    lines: &Lines<'_>,
    source: &mut Window<'_>,
    records: &[(RecordIx, Parent)],
    batch: Range<usize>,
    bytes: &mut Vec<u8>,
) -> io::Result<Vec<Waiting>> {
    let mut waiting = Vec::new();
    for at in batch {
        let (ix, parent) = records[at];
        let record = lines.t.record(ix);
        let line = source.bytes(record.span)?;
        let changed = lines.changed(line, record.id, parent, at == 0).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("line {} is no longer the record that was read", lines.t.line(ix)),
            )
        })?;
        let payload = changed.write(bytes);
        bytes.push(b'\n');
        if let (Some(subtype), Some(payload)) = (changed.subtype, payload) {
            waiting.push(Waiting { at, subtype, payload });
        }
    }
    Ok(waiting)
}

/// A system record whose payload may name what the records before it do.
struct Waiting {
    /// Its place in the child.
    at: usize,
    subtype: String,
    /// Where its payload stands in the bytes of its batch.
    payload: Range<usize>,
}

/// What is written at once, in bytes. Batches are longer mostly, and are written from where they stand.
const AT_LEAST: usize = 64 << 10;

/// How many bytes of records are rewritten at a time, if they are more than one.
const BATCH: u64 = 256 << 10;

/// Records that stand one behind the other in the child, by their places.
fn batches(t: &Transcript, records: &[(RecordIx, Parent)]) -> Vec<Range<usize>> {
    let (mut batches, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, &(ix, _)) in records.iter().enumerate() {
        let len = u64::from(t.record(ix).span.len);
        if bytes + len > BATCH && at > from {
            batches.push(from..at);
            (from, bytes) = (at, 0);
        }
        bytes += len;
    }
    if from < records.len() {
        batches.push(from..records.len());
    }
    batches
}

/// What the child holds.
struct Plan {
    /// The records in their order, and what each hangs below.
    records: Vec<(RecordIx, Parent)>,
    /// Uuids left out, before which of `records`, and the visible record before each: checkpoints behind them may name them.
    dropped: HashMap<String, (usize, Option<String>)>,
    /// The last record that the client sees.
    tail: Option<IdIx>,
}

impl Plan {
    fn new(t: &Transcript, chain: &Chain) -> Self {
        let side = off_chain(t, chain, side_artifacts(t, &chain.visible(t)));
        let physical = physical_records(t, chain);
        let mut plan = Plan { records: Vec::new(), dropped: HashMap::new(), tail: None };
        let mut retained = vec![false; t.ids.len()];
        let mut side = side.into_iter().peekable();
        while let Some(a) = side.next_if(|a| a.behind.is_none()) {
            plan.add(t, a.record, Parent::Verbatim, &mut retained);
        }
        // Artifacts come by the chain record they stand behind; in file order that need not be chain order.
        let mut behind: HashMap<IdIx, Vec<RecordIx>> = HashMap::new();
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
                let before = plan.tail.map(|before| t.ids.text(before));
                plan.dropped.insert(t.ids.text(*id), (plan.records.len(), before));
                continue;
            }
            let parent = match t.record(first).parent {
                Some(parent) if hidden && retained[parent.ix()] => Parent::Verbatim,
                _ => Parent::Linear(plan.tail),
            };
            for &record in records {
                plan.add(t, record, parent, &mut retained);
            }
            if !hidden {
                plan.tail = Some(*id);
            }
            for record in behind.remove(id).unwrap_or_default() {
                plan.add(t, record, Parent::Verbatim, &mut retained);
            }
        }
        plan
    }

    fn add(&mut self, t: &Transcript, record: RecordIx, parent: Parent, retained: &mut [bool]) {
        self.records.push((record, parent));
        retained[t.record(record).id.ix()] = true;
    }
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

/// The parent of a record in the child.
#[derive(Clone, Copy)]
enum Parent {
    /// As it stands: the parent is in the child too.
    Verbatim,
    /// The last record written that the client sees.
    Linear(Option<IdIx>),
}

/// The child as far as it is written.
struct Child<'a> {
    out: &'a mut (dyn Write + Send),
    ids: payload::Remap<'a>,
    dropped: &'a HashMap<String, (usize, Option<String>)>,
    report: ForkReport,
    /// Room for a payload.
    payload: Vec<u8>,
}

impl Child<'_> {
    /// Adds the next records.
    fn take(&mut self, bytes: &[u8], waiting: Vec<Waiting>) -> io::Result<()> {
        let mut done = 0;
        for Waiting { at, subtype, payload } in waiting {
            let dropped = |uuid: &str| {
                let (behind, before) = self.dropped.get(uuid)?;
                (*behind <= at).then(|| before.clone())
            };
            let backups = &mut self.report.backups;
            let edits = self.ids.rewrite(&subtype, &bytes[payload.clone()], &dropped, backups);
            if !edits.is_empty() {
                self.payload.clear();
                apply(&bytes[payload.clone()], edits, &mut self.payload);
                self.out.write_all(&bytes[done..payload.start])?;
                self.out.write_all(&self.payload)?;
                done = payload.end;
            }
        }
        self.out.write_all(&bytes[done..])
    }

    fn finish(mut self, t: &Transcript, spec: &ForkSpec, tail: Option<IdIx>) -> io::Result<ForkReport> {
        self.report.tail = tail.map(|id| t.ids.text(id)).unwrap_or_default();
        if let Some(title) = &spec.title {
            let uuid = derived_uuid("title", Agent::Qwen, &spec.session_id, &spec.operation_id);
            let mut record = json!({
                "uuid": uuid, "parentUuid": tail.map(|id| t.ids.text(id)),
                "sessionId": spec.session_id, "timestamp": super::timestamp(spec.now),
                "type": "system", "provenance": "system",
            });
            let optional =
                [("cwd", &t.first_cwd), ("version", &spec.version.clone().or(t.client_version.clone()))];
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
