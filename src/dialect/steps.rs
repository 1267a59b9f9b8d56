//! Turns of a conversation that is a tree of records, found from steps and from the records that close them.
//!
//! A turn begins with a prompt and holds everything that hangs below it up to the next prompts. It belongs to the tree,
//! not to a leaf: the turns of all branches are listed, in the order in which their prompts stand in the file. Its *last
//! step* is the step of it that stands last in the file: a turn that was answered twice (a retry, two writers) ended, if
//! it did, with the answer that came last.
//!
//! Only records prove an end. A *closing* record of the client behind the last step does (each dialect knows its own);
//! and where the last step is an answer with no tool call open, so does a prompt that hangs below it, for the client
//! takes no prompt into a turn that goes on, or a mark that the record was copied from another session, for nobody
//! goes on with a copy. All of this reads the tree alone: that file order puts another turn behind this one proves
//! nothing, because two clients can write one file.

use std::io;

use serde_json::json;

use crate::{
    record::RecordId,
    refusal::{Code, Refusal},
    transcript::{IdIx, RecordIx, Source, Transcript},
    turns::{Cut, Status, Turn, Turns},
};

/// A step, by number.
pub(super) type StepIx = u32;

/// What a step is to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It begins a turn.
    Prompt,
    /// An answer that waits for nothing of its own.
    Answer,
    /// Any other part of a turn: a round of tool calls, a text that the client put in.
    Work,
    /// Bookkeeping, which is looked through.
    Aside,
}

/// A step of the conversation.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The step that it hangs below.
    pub parent: Option<StepIx>,
    pub kind: Kind,
    /// Its record that the child of a fork would end with.
    pub leaf: RecordIx,
    /// The last of its records, and of those that its chain goes through, in file order.
    pub reach: RecordIx,
    /// Whether a tool call is open here that was made since the prompt.
    pub open: bool,
    /// A record of the message, if it is one.
    pub message: Option<RecordIx>,
}

/// A record of the client that says that a turn ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    /// The step behind which it stands.
    pub behind: StepIx,
    /// Its last position.
    pub record: RecordIx,
    /// The record that the child of a fork would end with, if it is not the step's own.
    pub leaf: Option<RecordIx>,
    /// How the turn ended, if the record says that. One that does not closes answers alone.
    pub status: Option<Status>,
}

/// The steps of a transcript, and what closes them.
pub(super) struct Log<'a> {
    pub t: &'a Transcript,
    pub source: &'a dyn Source,
    pub steps: Vec<Step>,
    /// In file order.
    pub closings: Vec<Closing>,
    /// What names the message that a record is a part of, by the log.
    pub message_id: &'a dyn Fn(RecordIx) -> io::Result<Option<String>>,
}

/// What is known of the turn of a prompt.
struct Found {
    prompt: StepIx,
    last: StepIx,
    /// Whether another prompt hangs below any step of it.
    passed: bool,
    closings: Vec<Closing>,
}

impl Log<'_> {
    /// The turns, in the order of their prompts.
    ///
    /// # Errors
    /// Only what the source reports.
    pub fn turns(&self) -> io::Result<Turns> {
        // Of each step its turn, and the step that counts at or above it: the way up, memoised.
        let turn_of = self.upward(|step| step.kind == Kind::Prompt);
        let carrier = self.upward(|step| step.kind != Kind::Aside);
        let mut found: Vec<Option<Found>> = self.steps.iter().map(|_| None).collect();
        for (ix, step) in (0..).zip(&self.steps) {
            let Some(prompt) = turn_of[ix as usize] else { continue };
            let turn = found[prompt as usize].get_or_insert_with(|| Found {
                prompt,
                last: prompt,
                passed: false,
                closings: Vec::new(),
            });
            let end = |ix: StepIx| self.steps[ix as usize].leaf;
            if step.kind != Kind::Aside && end(ix) > end(turn.last) {
                turn.last = ix;
            }
        }
        let mut followed = vec![false; self.steps.len()];
        for step in self.steps.iter().filter(|step| step.kind == Kind::Prompt) {
            let Some(parent) = step.parent else { continue };
            if let Some(above) = carrier[parent as usize] {
                followed[above as usize] = true;
            }
            if let Some(turn) = turn_of[parent as usize].and_then(|p| found[p as usize].as_mut()) {
                turn.passed = true;
            }
        }
        for closing in &self.closings {
            let above = carrier[closing.behind as usize];
            let turn = turn_of[closing.behind as usize].and_then(|p| found[p as usize].as_mut());
            if let Some(turn) = turn.filter(|turn| above == Some(turn.last)) {
                turn.closings.push(*closing);
            }
        }
        let mut turns: Vec<Found> = found.into_iter().flatten().collect();
        turns.sort_unstable_by_key(|turn| self.steps[turn.prompt as usize].leaf);
        let turns: io::Result<Vec<Turn>> =
            turns.iter().map(|turn| self.turn(turn, followed[turn.last as usize])).collect();
        let turns = turns?;
        Ok(Turns { verifiable: !turns.is_empty(), turns, hidden: Vec::new() })
    }

    /// By step, the nearest step at or above that is wanted; none on a way that runs in circles.
    fn upward(&self, wanted: impl Fn(&Step) -> bool) -> Vec<Option<StepIx>> {
        #[derive(Clone, Copy)]
        enum State {
            Unasked,
            Asked,
            Known(Option<StepIx>),
        }
        let mut state = vec![State::Unasked; self.steps.len()];
        let mut path = Vec::new();
        for start in 0..self.steps.len() as StepIx {
            let mut at = start;
            let found = loop {
                match state[at as usize] {
                    State::Known(found) => break found,
                    State::Asked => break None,
                    State::Unasked => {}
                }
                state[at as usize] = State::Asked;
                path.push(at);
                let step = &self.steps[at as usize];
                if wanted(step) {
                    break Some(at);
                }
                match step.parent {
                    Some(up) => at = up,
                    None => break None,
                }
            };
            path.drain(..).for_each(|ix| state[ix as usize] = State::Known(found));
        }
        state.into_iter().map(|s| if let State::Known(found) = s { found } else { None }).collect()
    }

    fn turn(&self, found: &Found, followed: bool) -> io::Result<Turn> {
        let (prompt, last) = (&self.steps[found.prompt as usize], &self.steps[found.last as usize]);
        let answered = last.kind == Kind::Answer && !last.open;
        // The first that counts, so that records which are appended later do not move the boundary.
        let closing = found.closings.iter().find(|c| answered || c.status.is_some());
        let stated = found.closings.iter().find_map(|c| c.status);
        let (leaf, end) = match closing {
            Some(closing) => (closing.leaf.unwrap_or(last.leaf), closing.record.max(last.reach)),
            None if answered && (followed || self.is_copy(last.leaf)?) => (last.leaf, last.reach),
            None => return Ok(self.unproved(prompt, found.passed)),
        };
        let (boundary, prefix) = self.line_end(end)?;
        let cut = Cut { record: self.id(leaf), prefix };
        Ok(Turn {
            id: self.id(prompt.leaf).to_string(),
            start: self.line(prompt.leaf),
            end: self.line(last.leaf),
            boundary,
            status: stated.unwrap_or(Status::Completed),
            message_id: match last.message.filter(|_| last.kind == Kind::Answer) {
                Some(record) => (self.message_id)(record)?,
                None => None,
            },
            available: if last.open { Err(Code::ActiveAuthority) } else { Ok(cut) },
        })
    }

    fn unproved(&self, prompt: &Step, passed: bool) -> Turn {
        let (status, reason) = match passed {
            true => (Status::Unclosed, Code::TurnUnclosed),
            false => (Status::InProgress, Code::TurnOpen),
        };
        Turn {
            id: self.id(prompt.leaf).to_string(),
            start: self.line(prompt.leaf),
            end: 0,
            boundary: 0,
            status,
            message_id: None,
            available: Err(reason),
        }
    }

    fn id(&self, record: RecordIx) -> RecordId {
        self.t.id(self.t.record(record).id)
    }

    fn line(&self, record: RecordIx) -> u64 {
        self.t.line(record).into()
    }

    /// Whether a record says that it was copied from another session, as forks of both clients and ours mark it.
    fn is_copy(&self, record: RecordIx) -> io::Result<bool> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Marked {
            forked_from: Option<From>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct From {
            #[serde(rename = "sessionId")]
            _session_id: String,
        }
        let line = self.source.bytes(self.t.record(record).span)?;
        Ok(serde_json::from_slice::<Marked>(&line).is_ok_and(|m| m.forked_from.is_some()))
    }

    /// The line of a record, and the bytes of the file up to its end.
    fn line_end(&self, record: RecordIx) -> io::Result<(u64, u64)> {
        Ok((self.line(record), line_end(self.t, self.source, record)?))
    }
}

/// Why there is no child that ends at a record: it is not there.
pub(super) fn unknown(t: &Transcript, id: IdIx) -> Box<Refusal> {
    let name = t.id(id);
    Box::new(
        Refusal::new(Code::LeafUnknown, format!("`{name}` is in no record"))
            .hint("`offshoot inspect` lists the branches")
            .detail(json!({"uuid": name})),
    )
}

/// Why there is none: nothing that the model was told stands there.
pub(super) fn nothing_above(t: &Transcript, id: IdIx) -> Box<Refusal> {
    let name = t.id(id);
    Box::new(
        Refusal::new(Code::NoLeaf, format!("no record of the conversation stands at or above `{name}`"))
            .hint("`offshoot inspect` lists the branches")
            .detail(json!({"uuid": name})),
    )
}

/// Why there is none: calls and results belong together.
pub(super) fn inside_round(t: &Transcript, id: IdIx) -> Box<Refusal> {
    let name = t.id(id);
    Box::new(
        Refusal::new(Code::InsideToolRound, format!("`{name}` stands inside a round of tool calls"))
            .hint("fork at the reply behind the round, or at the prompt before it")
            .detail(json!({"uuid": name})),
    )
}

/// Visits each of `count` numbers behind the one above it, which the visit is given. Of numbers in a ring one is visited
/// first, and is given one that has not been.
pub(super) fn top_down(
    count: usize,
    up: impl Fn(usize) -> Option<usize>,
    mut visit: impl FnMut(usize, Option<usize>),
) {
    let mut known = vec![false; count];
    let mut path = Vec::new();
    for start in 0..count {
        let mut above = Some(start);
        while let Some(ix) = above.filter(|&ix| !known[ix]) {
            known[ix] = true;
            path.push(ix);
            above = up(ix);
        }
        for ix in path.drain(..).rev() {
            visit(ix, above);
            above = Some(ix);
        }
    }
}

/// The bytes of the file up to the end of a record's line.
pub(super) fn line_end(t: &Transcript, source: &dyn Source, record: RecordIx) -> io::Result<u64> {
    let mut at = t.record(record).span.range().end;
    let mut chunk = [0; 4096];
    while at < t.bytes {
        let n = (t.bytes - at).min(chunk.len() as u64) as usize;
        source.read_exact_at(at, &mut chunk[..n])?;
        if let Some(end) = memchr::memchr(b'\n', &chunk[..n]) {
            return Ok(at + end as u64 + 1);
        }
        at += n as u64;
    }
    Ok(t.bytes)
}
