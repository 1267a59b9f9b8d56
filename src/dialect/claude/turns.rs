//! Which records of a Claude Code session begin, answer and close turns (2.1.197 and 2.1.332, measured).
//!
//! - A turn begins with a step that is a person's prompt: no text that the client put in, no echo of a command, no
//!   summary of a compaction.
//! - An answer is a step that is one message of the model without a tool call. All calls of a round before it have
//!   their results, wherever the client hung them.
//! - `system/turn_duration`, which the client writes after each turn on a terminal, closes the turn whatever came of
//!   it. Without an answer before it the log does not say how the turn ended.
//! - A `last-prompt` line that names an answer, behind it in the file, closes the turn of that answer: the client
//!   writes it at the end of a turn and when it ends. The one that 2.1.332 writes within a turn names a tool call, and
//!   one that is `explicit` was not written by a client at the end of anything.
//!
//! A compact boundary and its summary are looked through: a turn that is compacted on the way goes on behind them.
//! `stop_reason` proves nothing: it is what the model says of a message, and hooks can make it go on.

use std::io;

use memchr::memmem;

use super::head::{self, Object};
use crate::{
    dialect::jsonl::json::Cursor,
    dialect::steps::{Closing, Kind, Log, Step, inside_round, line_end, nothing_above, top_down, unknown},
    record::{RecordKind, Turn},
    refusal::Refusal,
    transcript::{Flags, IdIx, RecordIx, Source, Transcript, Units, units::UnitIx},
    turns::{Cut, Status, Turns},
};

pub(super) fn turns(t: &Transcript, source: &dyn Source) -> io::Result<Turns> {
    let Some(units) = &t.units else { return Ok(Turns::default()) };
    let steps = steps(t, units);
    let closings = closings(t, source, units, &steps)?;
    let message_id = |record| Ok(message_id(&source.bytes(t.record(record).span)?));
    Log { t, source, steps, closings, message_id: &message_id }.turns()
}

/// The message that a record is a part of, if it is an assistant's.
fn message_id(record: &[u8]) -> Option<String> {
    match head::object(&mut Cursor::new(record)).ok()? {
        Object::Record(head) => head.message.map(|id| id.text().into_owned()),
        _ => None,
    }
}

/// Where a child ends that is forked at a record, or why it cannot be.
pub(super) fn cut_at(t: &Transcript, source: &dyn Source, id: IdIx) -> io::Result<Result<Cut, Box<Refusal>>> {
    let Some(asked) = t.first(id) else { return Ok(Err(unknown(t, id))) };
    if let Err(refusal) = t.require_conversation(id) {
        return Ok(Err(refusal));
    }
    let unit = t.units.as_ref().and_then(|units| Some((units, units.at_or_above(id)?)));
    let Some((units, unit)) = unit else { return Ok(Err(nothing_above(t, id))) };
    let steps = steps(t, units);
    let step = &steps[unit.ix()];
    // A round is inside until the reply behind it, all results or not.
    let is_round = step.kind == Kind::Work && t.record(step.leaf).kind != RecordKind::User;
    if step.open || is_round {
        return Ok(Err(inside_round(t, id)));
    }
    let end = step.reach.max(asked);
    Ok(Ok(Cut { record: t.id(t.record(step.leaf).id), prefix: line_end(t, source, end)? }))
}

/// The steps that leaves are found over, numbered as they are.
fn steps(t: &Transcript, units: &Units) -> Vec<Step> {
    let records = by_unit(t, units);
    let reach = reach(t);
    let mut steps: Vec<Step> = Vec::with_capacity(units.parent.len());
    for (unit, records) in records.iter().enumerate() {
        // A unit has a record at least: it was made for one.
        let leaf = records.iter().copied().max().unwrap_or_default();
        let record = t.record(leaf);
        let assistant = records.iter().find(|&&r| t.record(r).kind == RecordKind::Assistant);
        let kind = match (units.turn[unit], record.kind) {
            (Turn::None, _) => Kind::Aside,
            (Turn::Complete, _) => Kind::Answer,
            (_, RecordKind::User) if !record.flags.has(Flags::SYNTHETIC) => Kind::Prompt,
            _ => Kind::Work,
        };
        steps.push(Step {
            parent: units.parent[unit].map(UnitIx::number),
            kind,
            leaf,
            reach: records.iter().map(|&r| reach[r as usize].max(r)).max().unwrap_or_default(),
            open: units.turn[unit] == Turn::OpenToolCall,
            message: assistant.copied(),
        });
    }
    hand_down(units, &mut steps);
    steps
}

/// The defining records of each unit.
fn by_unit(t: &Transcript, units: &Units) -> Vec<Vec<RecordIx>> {
    let mut records = vec![Vec::new(); units.parent.len()];
    for (ix, record) in (0..).zip(&t.records) {
        if t.first(record.id) == Some(ix)
            && let Some(unit) = units.of[record.id.ix()]
        {
            records[unit.ix()].push(ix);
        }
    }
    records
}

/// By record, the last record in file order of those on its way up.
fn reach(t: &Transcript) -> Vec<RecordIx> {
    let mut reach: Vec<RecordIx> = (0..t.records.len() as RecordIx).collect();
    let up = |ix: usize| Some(t.first(t.records[ix].parent?)? as usize);
    top_down(t.records.len(), up, |ix, above| {
        reach[ix] = reach[ix].max(above.map_or(0, |above| reach[above]));
    });
    reach
}

/// A call that a round lacks the result of stays open for the rest of its turn, and what a round reaches, all that comes
/// behind it reaches too.
fn hand_down(units: &Units, steps: &mut [Step]) {
    let up = |ix: usize| units.parent[ix].map(UnitIx::ix);
    top_down(steps.len(), up, |ix, above| {
        let Some((open, reach)) = above.map(|above| (steps[above].open, steps[above].reach)) else { return };
        let step = &mut steps[ix];
        step.open |= open && step.kind != Kind::Prompt;
        step.reach = step.reach.max(reach);
    });
}

/// The closing records and lines, in file order.
fn closings(t: &Transcript, source: &dyn Source, units: &Units, steps: &[Step]) -> io::Result<Vec<Closing>> {
    let mut closings = Vec::new();
    for (ix, record) in (0..).zip(&t.records) {
        let barred = [Flags::SIDECHAIN, Flags::PROGRESS, Flags::ATTACHMENT, Flags::COMPRESSION];
        let beside = record.kind != RecordKind::System || barred.into_iter().any(|f| record.flags.has(f));
        if beside || t.first(record.id) != Some(ix) {
            continue;
        }
        let Some(behind) = units.at_or_above(record.id).map(UnitIx::number) else { continue };
        if is_turn_duration(&source.bytes(record.span)?) {
            let answered = steps[behind as usize].kind == Kind::Answer;
            let status = if answered { Status::Completed } else { Status::Unknown };
            closings.push(Closing { behind, record: ix, leaf: None, status: Some(status) });
        }
    }
    for pin in t.rounds.iter().flat_map(|rounds| &rounds.pins).filter(|pin| !pin.explicit) {
        let Some(named) = t.first(pin.target) else { continue };
        let Some(behind) = units.at_or_above(pin.target).map(UnitIx::number) else { continue };
        let step = &steps[behind as usize];
        if step.kind == Kind::Answer && step.leaf.max(named) < pin.before {
            closings.push(Closing { behind, record: named, leaf: None, status: None });
        }
    }
    closings.sort_by_key(|closing| closing.record);
    Ok(closings)
}

fn is_turn_duration(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct System {
        subtype: String,
    }
    memmem::find(line, b"turn_duration").is_some()
        && serde_json::from_slice::<System>(line).is_ok_and(|s| s.subtype == "turn_duration")
}
