//! Which records of a Qwen Code session begin, answer and close turns (0.24.4, read in the published bundle).
//!
//! - A turn begins with a user record that is a person's prompt (no notification, cron or mid-turn message).
//! - An answer is an assistant record with visible text and without a function call, below which no call that was made
//!   since the prompt lacks its response: the client's own rule for a completed turn
//!   (`resolveCompletedTurnBranchCandidate`), applied to the answer that came last.
//! - Closing records, behind an answer through system records alone: `branch_checkpoint` (written at `end_turn`),
//!   and `ui_telemetry` of the event `qwen-code.api_response` (written when the request that gave the answer is over;
//!   an answer without calls is the last one of its turn).
//! - `turn_result` closes a turn whatever came of it, and says how: `completed`, `cancelled` or `error`.
//!
//! An `attribution_snapshot` proves nothing: the client writes it at the beginning of a turn.

use std::{io, rc::Rc};

use hashbrown::{HashMap, HashSet};
use serde::Deserialize;
use serde_json::Value;

use super::decode::decode;
use crate::{
    dialect::{
        Decoded,
        steps::{Closing, Kind, Log, Step, StepIx, inside_round, line_end, nothing_above, top_down, unknown},
    },
    record::RecordKind,
    refusal::Refusal,
    transcript::{Flags, IdIx, RecordIx, Source, Transcript},
    turns::{Cut, Status, Turns},
};

pub(super) fn turns(t: &Transcript, source: &dyn Source) -> io::Result<Turns> {
    let message_id = |record| Ok(Some(t.ids.text(t.record(record).id)));
    let steps = Steps::new(t, source).all()?;
    let log = Log { t, source, steps, closings: Vec::new(), message_id: &message_id };
    let closings = closings(t, source, &log.steps)?;
    Log { closings, ..log }.turns()
}

/// Where a child ends that is forked at a record, or why it cannot be.
pub(super) fn cut_at(t: &Transcript, source: &dyn Source, id: IdIx) -> io::Result<Result<Cut, Box<Refusal>>> {
    let steps = Steps::new(t, source).all()?;
    let Some(asked) = t.first(id) else { return Ok(Err(unknown(t, id))) };
    // What the client sees and counts as a part of the conversation; a title, an anchor or an artifact stands for it.
    let (mut at, mut seen) = (id, HashSet::new());
    let record = loop {
        let Some(record) = t.first(at).filter(|_| seen.insert(at)) else {
            return Ok(Err(nothing_above(t, id)));
        };
        let flags = t.record(record).flags;
        if !flags.has(Flags::UNSEEN) && !flags.has(Flags::NEUTRAL) {
            break record;
        }
        let Some(parent) = t.record(record).parent else { return Ok(Err(nothing_above(t, id))) };
        at = parent;
    };
    let step = &steps[at.ix()];
    let (mut message, mut seen) = (Some(at), HashSet::new());
    while let Some(up) = message.filter(|&up| steps[up.ix()].kind == Kind::Aside && seen.insert(up)) {
        message = t.first(up).and_then(|r| t.record(r).parent);
    }
    let part_of_round = |id: IdIx| {
        t.first(id).is_some_and(|r| {
            let r = t.record(r);
            r.kind == RecordKind::ToolResult || r.flags.has(Flags::CALL) || r.flags.has(Flags::RESPONSE)
        })
    };
    if step.open || message.is_some_and(part_of_round) {
        return Ok(Err(inside_round(t, id)));
    }
    let end = step.reach.max(asked).max(record);
    Ok(Ok(Cut { record: t.id(at), prefix: line_end(t, source, end)? }))
}

/// Every uuid is a step, numbered as the id table numbers it.
struct Steps<'a> {
    t: &'a Transcript,
    source: &'a dyn Source,
    /// Records of a uuid behind its first one: the client merges them.
    more: HashMap<IdIx, Vec<RecordIx>>,
    children: Vec<Vec<IdIx>>,
}

impl<'a> Steps<'a> {
    fn new(t: &'a Transcript, source: &'a dyn Source) -> Self {
        let mut steps = Steps { t, source, more: HashMap::new(), children: vec![Vec::new(); t.ids.len()] };
        for (ix, record) in (0..).zip(&t.records) {
            if t.first(record.id) != Some(ix) {
                steps.more.entry(record.id).or_default().push(ix);
            } else if let Some(parent) = steps.parent(record.id) {
                steps.children[parent.ix()].push(record.id);
            }
        }
        steps
    }

    fn parent(&self, id: IdIx) -> Option<IdIx> {
        let parent = self.t.record(self.t.first(id)?).parent?;
        self.t.first(parent).map(|_| parent)
    }

    fn records(&self, id: IdIx) -> impl Iterator<Item = RecordIx> + '_ {
        self.t.first(id).into_iter().chain(self.more.get(&id).into_iter().flatten().copied())
    }

    fn decoded(&self, id: IdIx) -> io::Result<Vec<Decoded>> {
        self.records(id).map(|r| Ok(decode(&self.source.bytes(self.t.record(r).span)?))).collect()
    }

    fn all(self) -> io::Result<Vec<Step>> {
        let mut steps: Vec<Step> = Vec::with_capacity(self.t.ids.len());
        for id in self.t.ids.iter() {
            let record = self.t.first(id);
            steps.push(Step {
                parent: self.parent(id).map(|p| p.ix() as StepIx),
                kind: self.kind(id)?,
                leaf: record.unwrap_or_default(),
                reach: self.records(id).max().unwrap_or_default(),
                open: false,
                message: record,
            });
        }
        // What a step reaches, all that hang below it reach too.
        let parents: Vec<Option<StepIx>> = steps.iter().map(|step| step.parent).collect();
        top_down(
            steps.len(),
            |ix| parents[ix].map(|up| up as usize),
            |ix, above| steps[ix].reach = steps[ix].reach.max(above.map_or(0, |above| steps[above].reach)),
        );
        for id in self.t.ids.iter() {
            if steps[id.ix()].kind == Kind::Prompt {
                self.open_calls(id, &mut steps)?;
            }
        }
        Ok(steps)
    }

    fn kind(&self, id: IdIx) -> io::Result<Kind> {
        let Some(record) = self.t.first(id) else { return Ok(Kind::Aside) };
        let record = self.t.record(record);
        Ok(match record.kind {
            RecordKind::User if record.flags.has(Flags::SYNTHETIC) => Kind::Work,
            RecordKind::User => Kind::Prompt,
            RecordKind::Assistant => {
                let calls = self.records(id).any(|r| self.t.record(r).flags.has(Flags::CALL));
                let visible = |d: &Decoded| d.texts.iter().any(|text| !text.trim().is_empty());
                if !calls && self.decoded(id)?.iter().any(visible) { Kind::Answer } else { Kind::Work }
            }
            RecordKind::ToolResult => Kind::Work,
            RecordKind::System | RecordKind::Other => Kind::Aside,
        })
    }

    /// Goes through a turn depth first, with the calls that are open; what a record changed is taken back behind it.
    fn open_calls(&self, prompt: IdIx, steps: &mut [Step]) -> io::Result<()> {
        enum Go {
            In(IdIx),
            Back(usize),
        }
        let mut open: HashSet<Rc<str>> = HashSet::new();
        let mut undo: Vec<(bool, Rc<str>)> = Vec::new();
        let mut stack = vec![Go::In(prompt)];
        while let Some(go) = stack.pop() {
            match go {
                Go::Back(keep) => {
                    for (inserted, id) in undo.drain(keep..).rev() {
                        if inserted {
                            open.remove(&id);
                        } else {
                            open.insert(id);
                        }
                    }
                }
                Go::In(id) => {
                    stack.push(Go::Back(undo.len()));
                    let of_round = |flags: Flags| flags.has(Flags::CALL) || flags.has(Flags::RESPONSE);
                    if self.records(id).any(|r| of_round(self.t.record(r).flags)) {
                        let bodies = self.decoded(id)?;
                        for call in bodies.iter().flat_map(|b| &b.calls) {
                            let call: Rc<str> = call.as_str().into();
                            if open.insert(Rc::clone(&call)) {
                                undo.push((true, call));
                            }
                        }
                        for response in bodies.iter().flat_map(|b| &b.responses) {
                            // A response closes every call without an id.
                            for id in [response.as_str(), ""] {
                                undo.extend(open.take(id).map(|id| (false, id)));
                            }
                        }
                    }
                    steps[id.ix()].open = !open.is_empty();
                    let below = self.children[id.ix()].iter().filter(|c| steps[c.ix()].kind != Kind::Prompt);
                    stack.extend(below.map(|&c| Go::In(c)));
                }
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct System {
    subtype: Option<String>,
    system_payload: Option<Value>,
}

/// The closing records, in file order.
fn closings(t: &Transcript, source: &dyn Source, steps: &[Step]) -> io::Result<Vec<Closing>> {
    let mut closings = Vec::new();
    for (ix, record) in (0..).zip(&t.records) {
        let hidden = record.flags.has(Flags::UNSEEN) || record.flags.has(Flags::NEUTRAL);
        let (RecordKind::System, Some(behind)) = (record.kind, steps[record.id.ix()].parent) else {
            continue;
        };
        if hidden || t.first(record.id) != Some(ix) {
            continue;
        }
        let line = source.bytes(record.span)?;
        let Ok(System { subtype: Some(subtype), system_payload: Some(payload) }) =
            serde_json::from_slice(&line)
        else {
            continue;
        };
        let status = match subtype.as_str() {
            "turn_result" => match payload["state"].as_str() {
                Some("completed") => Some(Status::Completed),
                Some("cancelled") => Some(Status::Interrupted),
                Some("error") => Some(Status::Failed),
                _ => continue,
            },
            "branch_checkpoint" if payload["v"] == 1 && payload["assistantRecordUuid"].is_string() => None,
            "ui_telemetry" if payload["uiEvent"]["event.name"] == "qwen-code.api_response" => None,
            _ => continue,
        };
        closings.push(Closing { behind, record: ix, leaf: Some(ix), status });
    }
    Ok(closings)
}
