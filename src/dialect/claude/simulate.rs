//! The client simulation: what `claude --resume` would do with exactly these bytes. All rules were measured with the
//! released clients as black boxes; where versions differ, see [`super::version::Era`].

use hashbrown::HashSet;

use super::{
    history::{History, Walk, with_siblings},
    told::Told,
    version::{Era, KNOWN},
};
use crate::{
    dialect::{Client, Resumed, Simulated},
    transcript::{Flags, IdIx, RecordIx, Rounds, Transcript, rounds::Pin},
};

/// Above this size (in bytes) the client loads nothing that stands before the last boundary. Bracketed between
/// 5,240,880 and 5,244,880 with 2.1.197 and 2.1.332.
const LARGE: u64 = 5 << 20;

/// The first record that a client loads: in a large file the last boundary, unless that one says that it keeps records.
fn first_loaded(t: &Transcript, rounds: &Rounds) -> RecordIx {
    let boundary = t.records.iter().rposition(|r| r.flags.has(Flags::COMPRESSION)).unwrap_or(0) as RecordIx;
    let large = t.bytes + t.torn_bytes > LARGE;
    let keeps = rounds.kept.last().is_some_and(|note| note.boundary == boundary);
    if large && !keeps { boundary } else { 0 }
}

pub(super) fn simulate(t: &Transcript, client: &Client) -> Simulated {
    let version = client.version.clone().or_else(|| t.client_version.clone()).unwrap_or_default();
    let (Some(rounds), era) = (&t.rounds, Era::of(&version)) else { return nothing("nothing was read") };
    if let Some(line) = rounds.null_line.filter(|_| !era.newest) {
        return Simulated::Refuses(format!("the client fails on line {line}, which is `null`"));
    }
    let view = View::new(t, rounds, era);
    let Some(picked) = view.pick() else { return nothing("the file holds no conversation record") };
    let record = t.first(picked.at).expect("BUG: what is picked is a record");
    if t.record(record).flags.has(Flags::SIDECHAIN) {
        return nothing("the pin names a record of a subagent");
    }
    if rounds.time(record).is_none() && !era.newest {
        return nothing("the record that it picks has no timestamp");
    }
    let history = History::build(&view, picked.at);
    let mut rule = picked.rule;
    if history.walk.bridged {
        rule.push_str("; a missing parent is bridged by time");
    }
    if view.from > 0 {
        rule.push_str("; the file is over 5 MiB, so that nothing before its last compact boundary is loaded");
    }
    if view.told.is_some() {
        rule.push_str(
            "; a compaction says which messages it keeps, and nothing else before the last one is loaded",
        );
    }
    if history.tail != picked.at {
        rule.push_str("; it continues at the end of what hangs together with that record");
    }
    Simulated::Resumes(Resumed {
        tail: history.tail,
        history: history.ids,
        gap: history.walk.gap,
        cycle: history.walk.cycle,
        rule,
        version: if version.is_empty() { KNOWN.to_owned() } else { version },
        pinned: picked.pinned,
        unpinned: view.unpinned().map(|(at, _)| at),
        grows: view.would_follow(history.tail),
    })
}

fn nothing(why: &str) -> Simulated {
    Simulated::Refuses(format!("no conversation found: {why}"))
}

struct Picked {
    at: IdIx,
    rule: String,
    pinned: bool,
}

/// The transcript as a client of some version has it in memory.
pub(super) struct View<'a> {
    pub t: &'a Transcript,
    pub rounds: &'a Rounds,
    pub era: Era,
    /// The first record that is loaded.
    pub from: RecordIx,
    /// By id: what a seed holds, where only that is looked at.
    pub kept: Option<&'a [bool]>,
    /// What a compaction keeps of what stands before it, where one does.
    pub told: Option<Told>,
}

impl<'a> View<'a> {
    pub fn new(t: &'a Transcript, rounds: &'a Rounds, era: Era) -> Self {
        View { t, rounds, era, from: first_loaded(t, rounds), kept: None, told: None }.telling()
    }

    /// What a client would have in memory of a file that holds these records only (by id).
    pub fn of_seed(t: &'a Transcript, rounds: &'a Rounds, era: Era, kept: &'a [bool]) -> Self {
        View { t, rounds, era, from: 0, kept: Some(kept), told: None }.telling()
    }

    fn telling(mut self) -> Self {
        self.told = Told::of(&self);
        self
    }

    /// Whether the file holds a record, loaded or not.
    pub fn holds(&self, record: RecordIx) -> bool {
        let id = self.t.record(record).id;
        self.kept.is_none_or(|kept| kept[id.ix()] && self.t.first(id) == Some(record))
    }

    /// The record that defines an id, if the file holds it.
    pub fn in_file(&self, id: IdIx) -> Option<RecordIx> {
        self.t.first(id).filter(|_| self.kept.is_none_or(|kept| kept[id.ix()]))
    }

    /// The record that defines an id, if it is loaded.
    pub fn record(&self, id: IdIx) -> Option<RecordIx> {
        let is_told = |&record: &RecordIx| self.told.as_ref().is_none_or(|told| told.loads(record, id));
        self.in_file(id).filter(|&record| record >= self.from).filter(is_told)
    }

    pub fn has(&self, record: RecordIx, flag: Flags) -> bool {
        self.t.record(record).flags.has(flag)
    }

    /// The loaded records that define their id, in file order.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = (RecordIx, IdIx)> + use<'_, 'a> {
        (self.from..self.t.records.len() as RecordIx)
            .map(|ix| (ix, self.t.record(ix).id))
            .filter(|&(ix, id)| self.record(id) == Some(ix))
    }

    /// Whether the client could continue at a record that no pin names.
    pub fn is_candidate(&self, record: RecordIx) -> bool {
        !self.has(record, Flags::SIDECHAIN) && !self.has(record, Flags::PROGRESS)
    }

    /// The record that one hangs on for the client, loaded or not.
    pub fn above(&self, record: RecordIx) -> Option<IdIx> {
        match &self.told {
            Some(told) => told.above(self, record),
            None => self.t.record(record).parent,
        }
    }

    /// The same, if it is loaded.
    pub fn parent(&self, record: RecordIx) -> Option<RecordIx> {
        self.above(record).and_then(|p| self.record(p))
    }

    /// The message that a loaded record is a part of.
    pub fn message(&self, record: RecordIx) -> Option<IdIx> {
        self.record(self.t.record(record).id).filter(|&r| r == record)?;
        self.rounds.message[record as usize]
    }

    /// What the client takes without looking at pins, which is also what its SDK lists.
    fn unpinned(&self) -> Option<(IdIx, &'static str)> {
        let candidates = || self.records().filter(|&(ix, _)| self.is_candidate(ix));
        if self.era.by_time {
            // Of equal times the last one.
            let newest = candidates().max_by_key(|&(ix, _)| self.rounds.time(ix))?;
            return Some((newest.1, "newest record by timestamp"));
        }
        let (last, id) = self.last(candidates())?;
        // Only a copy of an inner record, or a parent behind its child, has anything below it. The client goes on to
        // what is newest there, unless the copy itself is.
        if self.era.newest && self.rounds.pins.is_empty() {
            let below = self.below(id);
            let newest = candidates().filter(|&(ix, _)| ix == last || below[ix as usize]);
            if let Some((_, newest)) =
                newest.max_by_key(|&(ix, _)| self.rounds.time(ix)).filter(|&(ix, _)| ix != last)
            {
                return Some((newest, "newest record by timestamp below the last one in file order"));
            }
        }
        Some((id, "last conversation record in file order"))
    }

    /// The last of the records that the client could continue at. What a compaction keeps stands behind its anchor,
    /// unless the anchor was written a second time.
    fn last(
        &self,
        mut candidates: impl DoubleEndedIterator<Item = (RecordIx, IdIx)>,
    ) -> Option<(RecordIx, IdIx)> {
        let Some(told) = self.told.as_ref().filter(|told| told.anchor.is_some()) else {
            return candidates.next_back();
        };
        let (last, id) = candidates.rfind(|&(_, id)| !told.keeps(id))?;
        let twice = || self.t.records.iter().filter(|r| r.id == id).count() > 1;
        if Some(id) != told.anchor || twice() {
            return Some((last, id));
        }
        let kept = told.list.iter().filter_map(|&id| Some((self.record(id)?, id)));
        kept.rev().find(|&(ix, _)| self.is_candidate(ix)).or(Some((last, id)))
    }

    fn pick(&self) -> Option<Picked> {
        let (tail, rule) = self.unpinned()?;
        let by_tail = |why: &str| Picked { at: tail, rule: format!("{rule}{why}"), pinned: false };
        let by_pin = |pin: &Pin, what: &str| Picked { at: pin.target, rule: what.to_owned(), pinned: true };
        let Some(pin) = self.rounds.pin().filter(|_| self.era.pins) else { return Some(by_tail("")) };
        let later = &self.t.records[pin.before as usize..];
        Some(if later.iter().any(|r| r.flags.has(Flags::COMPRESSION)) {
            by_tail("; a compact boundary behind the pin makes it void")
        } else if self.record(pin.target).is_none_or(|r| self.has(r, Flags::PROGRESS)) {
            by_tail("; the pin names no record that the client knows")
        } else if pin.target == tail {
            by_pin(&pin, "pin, which is the last record too")
        } else if !self.ancestors(tail).contains(&pin.target) {
            by_pin(
                &pin,
                if pin.explicit { "explicit pin on another branch" } else { "pin on another branch" },
            )
        } else if !pin.explicit {
            by_tail("; the pin names an ancestor of it")
        } else if self.grown_since(&pin) {
            by_tail("; something has grown below the explicit pin since")
        } else {
            by_pin(&pin, "explicit pin on an ancestor of the last record")
        })
    }

    /// Whether a record that is appended below this one would be gone on below: no pin leads elsewhere.
    fn would_follow(&self, tail: IdIx) -> bool {
        let Some(pin) = self.rounds.pin().filter(|_| self.era.pins) else { return true };
        let later = &self.t.records[pin.before as usize..];
        later.iter().any(|r| r.flags.has(Flags::COMPRESSION))
            || self.record(pin.target).is_none_or(|r| self.has(r, Flags::PROGRESS))
            || pin.target == tail
            || self.ancestors(tail).contains(&pin.target)
    }

    /// What counts as an ancestor of a record. The newest client builds its chain with the records it adds; no gap
    /// is bridged for this.
    fn ancestors(&self, tail: IdIx) -> HashSet<IdIx> {
        let walk = Walk::up(self, tail, None);
        let ids = if self.era.newest { with_siblings(self, &walk) } else { walk.ids };
        ids.into_iter().filter(|&id| id != tail).collect()
    }

    /// Whether a record behind the pin's line descends from the pin.
    fn grown_since(&self, pin: &Pin) -> bool {
        let below = self.below(pin.target);
        self.records().any(|(ix, _)| ix >= pin.before && below[ix as usize])
    }

    /// By record: whether it descends from `top`.
    fn below(&self, top: IdIx) -> Vec<bool> {
        let mut known: Vec<Option<bool>> = vec![None; self.t.records.len()];
        let mut path = Vec::new();
        for (start, _) in self.records() {
            let mut at = start;
            let is_below = loop {
                if let Some(known) = known[at as usize] {
                    break known;
                }
                // A ring that is being walked holds nothing below `top` unless `top` lies on it.
                known[at as usize] = Some(false);
                path.push(at);
                match self.parent(at) {
                    Some(up) if self.t.record(up).id == top => break true,
                    Some(up) => at = up,
                    None => break false,
                }
            };
            path.drain(..).for_each(|at| known[at as usize] = Some(is_below));
        }
        known.into_iter().map(|k| k == Some(true)).collect()
    }
}
