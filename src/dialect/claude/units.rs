//! Which records are one step of the conversation.
//!
//! One message of the model is several records, its calls are answered by records that hang on any of them, and the
//! client hangs notes, attachments and fillers between and behind. A step is a person's prompt, a compact boundary, a
//! compact summary, or a *round*: all records of one message below one record, with the results that were hung into
//! it. Records that carry no step (passive ones, `Flags::NEUTRAL`) are looked through.
//!
//! Everything here is linear but for hashing; each record is asked once for what is above it.

use hashbrown::{HashMap, HashSet};

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
    /// Which message makes which call: (call, message).
    holders: HashSet<(IdIx, IdIx)>,
    /// By message, the calls that it makes.
    calls_of: HashMap<IdIx, Vec<IdIx>>,
    /// Which record answers which call: (record, call).
    answered: HashSet<(IdIx, IdIx)>,
    /// What an assistant's round hangs below, where it was asked for already; `None` within is none.
    entries: HashMap<(IdIx, IdIx), Option<IdIx>>,
}

impl<'a> Grouping<'a> {
    fn new(t: &'a Transcript, rounds: &'a Rounds) -> Self {
        let mut g = Grouping {
            t,
            rounds,
            above: Vec::new(),
            holders: HashSet::new(),
            calls_of: HashMap::new(),
            answered: HashSet::new(),
            entries: HashMap::new(),
        };
        for &(record, call) in &rounds.calls {
            if let (Some(_), Some(message)) = (g.defined(record), rounds.message[record as usize])
                && g.holders.insert((call, message))
            {
                g.calls_of.entry(message).or_default().push(call);
            }
        }
        for &(record, call) in &rounds.answers {
            if let Some(id) = g.defined(record) {
                g.answered.insert((id, call));
            }
        }
        g
    }

    /// The id of a record that defines its id.
    fn defined(&self, record: RecordIx) -> Option<IdIx> {
        let id = self.t.record(record).id;
        (self.t.first(id) == Some(record)).then_some(id)
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
            Known(Option<IdIx>),
        }
        let mut state = vec![State::Unasked; self.t.ids.len()];
        let mut path = Vec::new();
        for (start, _) in self.ids() {
            let mut at = start;
            let found = loop {
                match state[at.ix()] {
                    State::Known(found) => break found,
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
            path.drain(..).for_each(|id| state[id.ix()] = State::Known(found));
        }
        let known = |s| if let State::Known(found) = s { found } else { None };
        state.into_iter().map(known).collect()
    }

    /// Whether a record's tool results answer a call of a message.
    fn answers(&self, result: IdIx, message: IdIx) -> bool {
        let Some(record) = self.t.first(result) else { return false };
        let source = of_record(&self.rounds.sources, record).first().map(|&(_, source)| source);
        if source.is_some_and(|source| self.message(source) == Some(message)) {
            return true;
        }
        let own = of_record(&self.rounds.answers, record);
        let calls = self.calls_of.get(&message).map_or(&[][..], Vec::as_slice);
        // The shorter list is gone through, so that a wide fan of either kind costs no square.
        if own.len() <= calls.len() {
            own.iter().any(|&(_, call)| self.holders.contains(&(call, message)))
        } else {
            calls.iter().any(|&call| self.answered.contains(&(result, call)))
        }
    }

    /// The first record above that belongs to no part of the message: no other record of it, no result of its calls.
    fn entry(&mut self, assistant: IdIx, message: IdIx) -> Option<IdIx> {
        let mut path = Vec::new();
        let mut at = assistant;
        let found = loop {
            if let Some(&known) = self.entries.get(&(at, message)) {
                // Of a ring that is being walked none is known yet, and it has none.
                break known;
            }
            self.entries.insert((at, message), None);
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
            self.entries.insert((id, message), found);
        }
        found
    }

    fn is_result(&self, id: IdIx) -> bool {
        self.record(id).is_some_and(|r| r.kind == RecordKind::ToolResult)
    }

    /// By id of a result, the first record above that is no result.
    fn callers(&self) -> HashMap<IdIx, Option<IdIx>> {
        let mut callers: HashMap<IdIx, Option<IdIx>> = HashMap::new();
        let mut path = Vec::new();
        for (start, _) in self.ids().filter(|&(id, _)| self.is_result(id)) {
            let mut at = start;
            let found = loop {
                if let Some(&known) = callers.get(&at) {
                    break known;
                }
                callers.insert(at, None);
                path.push(at);
                match self.above[at.ix()] {
                    Some(up) if self.is_result(up) => at = up,
                    up => break up,
                }
            };
            for id in path.drain(..) {
                callers.insert(id, found);
            }
        }
        callers
    }

    fn group(mut self) -> Units {
        let mut units = Units { of: vec![None; self.t.ids.len()], ..Units::default() };
        // What each unit hangs below, as a record.
        let mut below: Vec<Option<IdIx>> = Vec::new();
        let mut rounds: HashMap<(IdIx, Option<IdIx>), UnitIx> = HashMap::new();
        for (id, _) in self.ids() {
            if let Some(message) = self.message(id).filter(|_| self.is_significant(id)) {
                let entry = self.entry(id, message);
                let unit = *rounds.entry((message, entry)).or_insert_with(|| {
                    below.push(entry);
                    below.len() as UnitIx - 1
                });
                units.of[id.ix()] = Some(unit);
            }
        }
        let callers = self.callers();
        for (id, _) in self.ids().filter(|&(id, _)| self.is_significant(id)) {
            if units.of[id.ix()].is_some() {
                continue;
            }
            let caller = callers.get(&id).copied().flatten();
            let joined = caller.filter(|&c| self.message(c).is_some_and(|m| self.answers(id, m)));
            units.of[id.ix()] = match joined {
                Some(caller) => units.of[caller.ix()],
                None => {
                    below.push(self.above[id.ix()]);
                    Some(below.len() as UnitIx - 1)
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
                RecordKind::Assistant => turns[unit as usize] = Turn::Complete,
                _ if record.flags.has(Flags::COMPRESSION) || record.flags.has(Flags::SUMMARY) => {
                    turns[unit as usize] = Turn::None;
                }
                _ => {}
            }
        }
        let unit_of = |record| self.defined(record).and_then(|id| units.of[id.ix()]);
        let answered: HashSet<(UnitIx, IdIx)> =
            self.rounds.answers.iter().filter_map(|&(r, call)| Some((unit_of(r)?, call))).collect();
        for &(record, call) in &self.rounds.calls {
            let Some(unit) = unit_of(record) else { continue };
            let turn = &mut turns[unit as usize];
            if !answered.contains(&(unit, call)) {
                *turn = Turn::OpenToolCall;
            } else if *turn == Turn::Complete {
                *turn = Turn::AwaitingReply;
            }
        }
        turns
    }
}
