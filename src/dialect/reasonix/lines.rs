//! The dialect over a rendered family ([`super::render`]).

use std::io::{self, BufWriter, Write};

use serde_json::json;

use super::{
    projection::{Projection, State},
    render::{Called, Kind, Line, SCHEMA},
};
use crate::{
    dialect::{
        Anchor, AnchorSpec, Client, Decoded, Dialect, Expected, ForkReport, ForkSpec, Part, Resumed,
        Simulated, View,
        jsonl::{
            marked::Marked,
            read::{self, Limits, Outcome, Rules},
        },
    },
    record::{Agent, RecordId, RecordKind},
    refusal::{Code, Refusal},
    topology::{Chain, build_ordered_uuid_chain, trim_neutral},
    transcript::{Flags, IdIx, LineDiagnostic, Record, Source, Span, Transcript},
    turns::{self, Cut, Status, Turns},
};

/// The newest client whose rules are known.
const KNOWN: &str = "1.38.11";

/// By which rule the client picks.
const RULE: &str = "the session that was asked for, to its last complete commit";

/// The dialect of Reasonix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reasonix;

impl Dialect for Reasonix {
    fn agent(&self) -> Agent {
        Agent::Reasonix
    }

    fn known_version(&self) -> &'static str {
        KNOWN
    }

    fn read(&self, source: &dyn Source) -> io::Result<Transcript> {
        read::read(source, Limits::default(), &mut Lines)
    }

    fn decode(&self, bytes: &[u8]) -> Decoded {
        let Ok(line) = serde_json::from_slice::<Line>(bytes) else { return Decoded::default() };
        Decoded {
            timestamp: line.time,
            texts: line.text.into_iter().collect(),
            calls: line.calls,
            responses: line.answers.into_iter().collect(),
            git_branch: None,
            cwd: None,
            title: line.title,
        }
    }

    fn view(&self, bytes: &[u8]) -> View {
        let Ok(line) = serde_json::from_slice::<Line>(bytes) else { return View::default() };
        let mut parts = Vec::new();
        parts.extend(line.text.map(|text| match line.kind {
            Some(Kind::Tool) => Part::Result { name: String::new(), text },
            _ => Part::Text(text),
        }));
        let mut tools = line.tools.into_iter();
        // A call is shown, whether or not the message says what it calls.
        parts.extend(line.calls.iter().map(|_| {
            let Called { name, input } = tools.next().unwrap_or_default();
            Part::Call { name, input }
        }));
        let note = match line.kind {
            Some(Kind::End) => Some(format!("end of session {}", line.session.unwrap_or_default())),
            Some(Kind::Title) => line.title.map(|title| format!("title: {title}")),
            _ => None,
        };
        View { timestamp: line.time, parts, note }
    }

    /// The client opens the session that it is told to, to the end of its log.
    fn simulate(&self, t: &Transcript, _: &dyn Source, client: &Client) -> io::Result<Simulated> {
        let asked = t.session_ids.first();
        let Some(tail) = asked.and_then(|id| t.ids.find(id)).filter(|&id| t.first(id).is_some()) else {
            return Ok(Simulated::Refuses("the session is not there".to_owned()));
        };
        let mut history = build_ordered_uuid_chain(t, tail).uuids;
        history.retain(|&id| id != tail);
        Ok(Simulated::Resumes(Resumed {
            tail,
            history,
            gap: None,
            cycle: false,
            rule: RULE.to_owned(),
            version: client.version.clone().unwrap_or_else(|| KNOWN.to_owned()),
            pinned: false,
            unpinned: None,
            grows: true,
        }))
    }

    fn attached(&self, _: &Transcript, _: &dyn Source, _: &Chain) -> io::Result<Vec<IdIx>> {
        Ok(Vec::new())
    }

    /// The records of the chain without the one that stands for the end of its session: a child has its own.
    fn expected(&self, t: &Transcript, chain: &Chain, _: &Client) -> Expected {
        let mut ids = chain.uuids.clone();
        ids.retain(|&id| !is_end(t, id));
        trim_neutral(t, &mut ids);
        let history: Vec<RecordId> = ids.into_iter().map(|id| t.id(id)).collect();
        Expected { begins: history.clone(), tail: history.last().cloned(), history }
    }

    /// The rendering of the child. The child itself is a folder, which the store writes from the log.
    fn write_fork(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        fork: &ForkSpec,
        out: &mut (dyn Write + Send),
    ) -> io::Result<ForkReport> {
        let mut out = BufWriter::new(out);
        let first = json!({"schema": SCHEMA, "asked": fork.session_id});
        writeln!(out, "{first}")?;
        let mut report = ForkReport::default();
        for &id in chain.uuids.iter().filter(|&&id| !is_end(t, id)) {
            let Some(ix) = t.first(id) else { continue };
            out.write_all(&source.bytes(t.record(ix).span)?)?;
            out.write_all(b"\n")?;
            report.tail = t.id(id).to_string();
            report.records += 1;
        }
        let parent = Some(&report.tail).filter(|id| !id.is_empty());
        let end =
            json!({"uuid": fork.session_id, "parent": parent, "session": fork.session_id, "kind": "end"});
        writeln!(out, "{end}")?;
        out.flush()?;
        Ok(report)
    }

    fn anchor(&self, _: &Transcript, _: &dyn Source, _: IdIx, _: &AnchorSpec) -> io::Result<Anchor> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn check_seed(
        &self,
        _: &Transcript,
        _: &dyn Source,
        _: &Chain,
        in_place: bool,
    ) -> io::Result<Result<Vec<String>, Box<Refusal>>> {
        if in_place {
            return Ok(Err(Box::new(unsupported("anchor in place"))));
        }
        Ok(Ok(Vec::new()))
    }
}

/// The refusal of what this format has no place for.
pub fn unsupported(what: &str) -> Refusal {
    Refusal::new(
        Code::SeedUnsupported,
        format!("Reasonix has no {what}: nothing but the client appends to a session of it"),
    )
    .hint("fork (`offshoot fork --turn ID`, `offshoot resume --seed fork`), which makes a session of its own")
}

fn is_end(t: &Transcript, id: IdIx) -> bool {
    t.first(id).is_some_and(|ix| t.record(ix).flags.has(END))
}

/// The record that stands for the end of a session. No record of the format has what this flag is else for.
const END: Flags = Flags::PROGRESS;

/// What stands in the way of a child at the end of a session; the id is that of its last record.
///
/// # Errors
/// Only what `source` reports.
pub fn end_reason(t: &Transcript, source: &dyn Source, end: IdIx) -> io::Result<Option<Code>> {
    let Some(ix) = t.first(end).filter(|_| is_end(t, end)) else { return Ok(None) };
    let line: Option<Line> = serde_json::from_slice(&source.bytes(t.record(ix).span)?).ok();
    let codes = [Code::TurnOpen, Code::ActiveAuthority, Code::HistoryUnverifiable];
    let reason = line.and_then(|line| line.reason);
    Ok(codes.into_iter().find(|code| reason.as_deref() == Some(code.as_str())))
}

/// The turns of one log, as targets need them. Positions are sequences, `prefix` bytes of the log; the record of a cut is
/// the end of the session, read as if it ended there.
pub fn turns_of(projection: &Projection, session_id: &str) -> Turns {
    let turn = |t: super::projection::Turn| {
        let prefix = t.closed_by.as_ref().map_or(0, |c| c.end);
        let record = RecordId::new(session_id);
        let available = match t.state {
            State::Available => Ok(Cut { record, prefix }),
            State::Open => Err(Code::TurnOpen),
            State::Unclosed => Err(Code::TurnUnclosed),
            State::ActiveAuthority => Err(Code::ActiveAuthority),
            State::BoundaryShared => Err(Code::BoundaryShared),
        };
        let status = match (t.state, t.status.as_str()) {
            (State::Unclosed, _) => Status::Unclosed,
            (_, "completed") => Status::Completed,
            (_, "interrupted") => Status::Interrupted,
            (_, "failed") => Status::Failed,
            (_, "recovery_required") => Status::RecoveryRequired,
            (_, "protocol_failed") => Status::ProtocolFailed,
            (_, "in_progress") => Status::InProgress,
            _ => Status::Unknown,
        };
        turns::Turn {
            id: t.id,
            start: t.start,
            end: t.end,
            boundary: t.boundary,
            status,
            message_id: t.message_id,
            available,
        }
    };
    Turns {
        verifiable: projection.is_verifiable(),
        turns: projection.turns().into_iter().map(turn).collect(),
        hidden: projection.hidden_turns(),
    }
}

struct Lines;

impl Rules for Lines {
    type Line<'a> = (usize, Option<Line>);

    type Survey = ();

    fn survey(_: &[u8]) {}

    fn parse(line: Marked<'_>, _: u64, (): ()) -> (usize, Option<Line>) {
        let line = line.bytes();
        (line.len(), serde_json::from_slice(line).ok())
    }

    fn apply(&mut self, t: &mut Transcript, line: &mut (usize, Option<Line>), offset: u64) -> Outcome {
        let (len, line) = (line.0, line.1.take());
        let mut out = Outcome { objects_end: len, ..Outcome::default() };
        let number = t.lines;
        let Some(line) = line else {
            let reason = "no line of a rendered session".to_owned();
            out.findings.push((0, LineDiagnostic::MalformedLine { line: number, reason }));
            return out;
        };
        t.objects += 1;
        if line.schema.is_some() {
            t.session_ids.extend(line.asked);
            t.first_cwd = line.cwd;
            return out;
        }
        if let Some(session) = line.skipped {
            let reason = format!("session `{session}` is left out: {}", line.reason.unwrap_or_default());
            out.findings.push((0, LineDiagnostic::SkippedRecord { line: number, reason }));
            return out;
        }
        if let Some(bytes) = line.torn {
            if line.session.as_ref() == t.session_ids.first() {
                t.torn_bytes = bytes;
            }
            out.findings.push((0, LineDiagnostic::TornTail { line: number, bytes }));
            return out;
        }
        let (Some(uuid), Some(kind)) = (line.uuid, line.kind) else { return out };
        let (kind, mut flags) = match kind {
            Kind::User if line.host => (RecordKind::User, Flags::SYNTHETIC),
            Kind::User => (RecordKind::User, Flags::default()),
            Kind::Assistant => (RecordKind::Assistant, Flags::default()),
            Kind::Tool => (RecordKind::ToolResult, Flags::default()),
            Kind::System => (RecordKind::System, Flags::default()),
            Kind::Title => (RecordKind::System, Flags::TITLE.with(Flags::NEUTRAL)),
            Kind::Rewind => (RecordKind::System, Flags::REWIND),
            Kind::Compaction => (RecordKind::System, Flags::COMPRESSION),
            Kind::End => (RecordKind::System, END),
        };
        if !line.calls.is_empty() {
            flags = flags.with(Flags::CALL);
        }
        if line.answers.is_some() {
            flags = flags.with(Flags::RESPONSE);
        }
        let id = t.ids.intern(&uuid);
        let parent = line.parent.map(|parent| t.ids.intern(&parent));
        let span = Span { offset, len: len as u32 };
        let line = read::line_number(t);
        t.push(Record { id, parent, span, kind, flags }, line);
        out.records = 1;
        out
    }
}
