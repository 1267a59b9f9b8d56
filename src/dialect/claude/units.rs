//! Which records are one step of the conversation.
//!
//! One message of the model is several records, its calls are answered by records that hang on any of them, and the
//! client hangs notes, attachments and fillers between and behind. A step is a person's prompt, a compact boundary, a
//! compact summary, or a *round*: all records of one message below one record, with the results that were hung into
//! it. Records that carry no step (passive ones, `Flags::NEUTRAL`) are looked through.
//!
//! Everything here is linear but for the sorting of calls and answers; each record is asked once for what is above it.

use super::pairs::{Pairs, Sorted, sorted};
use crate::{
    record::{RecordKind, Turn},
    transcript::{
        Flags, IdIx, Record, RecordIx, Rounds, Transcript, Units, rounds::of_record, units::UnitIx,
    },
};

/// Groups the records of a transcript.
pub(super) fn units(t: &Transcript, rounds: &Rounds) -> Units {
    let mut g = Grouping::new(t, rounds);
    let above = g.above();
    g.above = above;
    g.group()
}

struct Grouping<'a> {
    t: &'a Transcript,
    rounds: &'a Rounds,
    /// By id.
    above: Vec<Option<IdIx>>,
    /// Which message makes which call.
    calls: Sorted,
    /// Which record answers which call.
    answered: Sorted,
    /// What the round of (record, message) hangs below, where it was asked for already; `None` within is none.
    entries: Pairs<Option<IdIx>>,
}

impl<'a> Grouping<'a> {
    fn new(t: &'a Transcript, rounds: &'a Rounds) -> Self {
        let call = |&(record, call): &(RecordIx, IdIx)| {
            defined(t, record).and(rounds.message[record as usize]).map(|message| (message, call))
        };
        let answer = |&(record, call): &(RecordIx, IdIx)| defined(t, record).map(|id| (id, call));
        Grouping {
            t,
            rounds,
            above: Vec::new(),
            calls: Sorted::new(rounds.calls.iter().filter_map(call).collect()),
            answered: Sorted::new(rounds.answers.iter().filter_map(answer).collect()),
            entries: Pairs::new(t.ids.len()),
        }
    }

    fn ids(&self) -> impl Iterator<Item = (IdIx, RecordIx)> + use<'a> {
        let t = self.t;
        t.ids.iter().filter_map(move |id| t.first(id).map(|record| (id, record)))
    }

    fn record(&self, id: IdIx) -> Option<&'a Record> {
        self.t.first(id).map(|record| self.t.record(record))
    }

    fn is_significant(&self, id: IdIx) -> bool {
        self.record(id).is_some_and(|r| !r.flags.has(Flags::NEUTRAL))
    }

    /// The message of an assistant.
    fn message(&self, id: IdIx) -> Option<IdIx> {
        self.rounds.message[self.t.first(id)? as usize]
    }

    /// The id to look at next on the way up: the parent, or what a boundary without one continues.
    fn next_up(&self, id: IdIx) -> Option<IdIx> {
        let record = self.record(id)?;
        let parent = record.parent.filter(|&p| self.t.first(p).is_some());
        parent.or_else(|| {
            if !record.flags.has(Flags::COMPRESSION) {
                return None;
            }
            let logical = of_record(&self.rounds.logical, self.t.first(id)?);
            logical.first().map(|&(_, up)| up).filter(|&up| self.t.first(up).is_some())
        })
    }

    /// By id, the first significant record above; none where the way up ends or runs in circles before.
    fn above(&self) -> Vec<Option<IdIx>> {
        #[derive(Clone, Copy)]
        enum State {
            Unasked,
            Asked,
            Known,
        }
        let mut above = vec![None; self.t.ids.len()];
        let mut state = vec![State::Unasked; self.t.ids.len()];
        let mut path = Vec::new();
        for (start, _) in self.ids() {
            let mut at = start;
            let found = loop {
                match state[at.ix()] {
                    State::Known => break above[at.ix()],
                    State::Asked => break None,
                    State::Unasked => {}
                }
                state[at.ix()] = State::Asked;
                path.push(at);
                match self.next_up(at) {
                    None => break None,
                    Some(up) if self.is_significant(up) => break Some(up),
                    Some(up) => at = up,
                }
            };
            for id in path.drain(..) {
                state[id.ix()] = State::Known;
                above[id.ix()] = found;
            }
        }
        above
    }

    /// Whether a record's tool results answer a call of a message.
    fn answers(&self, result: IdIx, message: IdIx) -> bool {
        let Some(record) = self.t.first(result) else { return false };
        let source = of_record(&self.rounds.sources, record).first().map(|&(_, source)| source);
        if source.is_some_and(|source| self.message(source) == Some(message)) {
            return true;
        }
        let own = self.answered.of(result);
        let calls = self.calls.of(message);
        // The shorter list is gone through, so that a wide fan of either kind costs no square.
        let (short, long) = if own.len() <= calls.len() { (own, calls) } else { (calls, own) };
        short.iter().any(|(_, call)| long.binary_search_by_key(call, |&(_, call)| call).is_ok())
    }

    /// The first record above that belongs to no part of the message: no other record of it, no result of its calls.
    fn entry(&mut self, assistant: IdIx, message: IdIx) -> Option<IdIx> {
        let mut path = Vec::new();
        let mut at = assistant;
        let found = loop {
            if let Some(known) = self.entries.get(at, Some(message)) {
                // Of a ring that is being walked none is known yet, and it has none.
                break known;
            }
            self.entries.set(at, Some(message), None);
            path.push(at);
            let Some(up) = self.above[at.ix()] else { break None };
            let within =
                self.message(up) == Some(message) || (self.is_result(up) && self.answers(up, message));
            if !within {
                break Some(up);
            }
            at = up;
        };
        for id in path {
            self.entries.set(id, Some(message), found);
        }
        found
    }

    fn is_result(&self, id: IdIx) -> bool {
        self.record(id).is_some_and(|r| r.kind == RecordKind::ToolResult)
    }

    /// By id of a result, the first record above that is no result; none for any other id.
    fn callers(&self) -> Vec<Option<IdIx>> {
        let mut callers = vec![None; self.t.ids.len()];
        let mut asked = vec![false; self.t.ids.len()];
        let mut path = Vec::new();
        for (start, _) in self.ids().filter(|&(id, _)| self.is_result(id)) {
            let mut at = start;
            let found = loop {
                if asked[at.ix()] {
                    break callers[at.ix()];
                }
                asked[at.ix()] = true;
                path.push(at);
                match self.above[at.ix()] {
                    Some(up) if self.is_result(up) => at = up,
                    up => break up,
                }
            };
            path.drain(..).for_each(|id| callers[id.ix()] = found);
        }
        callers
    }

    fn group(mut self) -> Units {
        let mut units = Units { of: vec![None; self.t.ids.len()], ..Units::default() };
        // What each unit hangs below, as a record.
        let mut below: Vec<Option<IdIx>> = Vec::new();
        // By message and what its round hangs below.
        let mut rounds: Pairs<UnitIx> = Pairs::new(self.rounds.names);
        for (id, _) in self.ids() {
            if let Some(message) = self.message(id).filter(|_| self.is_significant(id)) {
                let entry = self.entry(id, message);
                let unit = rounds.get(message, entry).unwrap_or_else(|| {
                    let unit = UnitIx::new(below.len() as u32);
                    below.push(entry);
                    rounds.set(message, entry, unit);
                    unit
                });
                units.of[id.ix()] = Some(unit);
            }
        }
        let callers = self.callers();
        for (id, _) in self.ids().filter(|&(id, _)| self.is_significant(id)) {
            if units.of[id.ix()].is_some() {
                continue;
            }
            let joined = callers[id.ix()].filter(|&c| self.message(c).is_some_and(|m| self.answers(id, m)));
            units.of[id.ix()] = match joined {
                Some(caller) => units.of[caller.ix()],
                None => {
                    below.push(self.above[id.ix()]);
                    Some(UnitIx::new(below.len() as u32 - 1))
                }
            };
        }
        units.parent = below.iter().map(|up| up.and_then(|up| units.of[up.ix()])).collect();
        units.turn = self.turns(&units);
        units.above = self.above;
        units
    }

    fn turns(&self, units: &Units) -> Vec<Turn> {
        let mut turns = vec![Turn::AwaitingReply; units.parent.len()];
        for (id, record) in self.ids() {
            let Some(unit) = units.of[id.ix()] else { continue };
            let record = self.t.record(record);
            match record.kind {
                RecordKind::Assistant => turns[unit.ix()] = Turn::Complete,
                _ if record.flags.has(Flags::COMPRESSION) || record.flags.has(Flags::SUMMARY) => {
                    turns[unit.ix()] = Turn::None;
                }
                _ => {}
            }
        }
        let unit_of = |record| defined(self.t, record).and_then(|id| units.of[id.ix()]);
        let answers = self.rounds.answers.iter().filter_map(|&(r, call)| Some((unit_of(r)?, call)));
        let answered = sorted(answers.collect());
        for &(record, call) in &self.rounds.calls {
            let Some(unit) = unit_of(record) else { continue };
            let turn = &mut turns[unit.ix()];
            if answered.binary_search(&(unit, call)).is_err() {
                *turn = Turn::OpenToolCall;
            } else if *turn == Turn::Complete {
                *turn = Turn::AwaitingReply;
            }
        }
        turns
    }
}

/// The id of a record that defines its id.
fn defined(t: &Transcript, record: RecordIx) -> Option<IdIx> {
    let id = t.record(record).id;
    (t.first(id) == Some(record)).then_some(id)
}
