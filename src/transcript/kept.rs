//! What a compaction keeps: records from before a boundary that are told again behind its summary.
//!
//! A boundary may carry a note of it ([`KeptNote`]). The records of a note are told one after another between its
//! anchor (the summary) and the anchor's children, whatever their own parents are. A note whose records are not all
//! there is void. Measured with Claude Code 2.1.197 and 2.1.332.

use std::cell::OnceCell;

use hashbrown::{HashMap, HashSet};

use super::{Flags, IdIx, RecordIx, Transcript};

/// The note of one boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptNote {
    /// The boundary.
    pub boundary: RecordIx,
    /// The record behind which the kept ones are told; none if it is not named.
    pub anchor: Option<IdIx>,
    /// Which records.
    pub records: KeptRecords,
}

/// Which records a note keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptRecords {
    /// These, in this order.
    List(Vec<IdIx>),
    /// Those from `head` down to `tail`.
    Segment {
        /// The highest.
        head: IdIx,
        /// The lowest.
        tail: IdIx,
    },
    /// The note is none that can be read.
    Void,
}

impl KeptNote {
    /// The records, in the order in which they are told, by what is `known` of a file; none if the note is void.
    pub fn resolve(&self, t: &Transcript, known: &dyn Fn(IdIx) -> Option<RecordIx>) -> Option<Vec<IdIx>> {
        match &self.records {
            KeptRecords::List(list) => list.iter().all(|&id| told(t, known(id))).then(|| list.clone()),
            KeptRecords::Segment { head, tail } => {
                let mut ids = Vec::new();
                let mut at = *tail;
                // A ring is left after as many steps as there are records, whatever it is made of.
                for _ in 0..=t.records.len() {
                    let record = known(at)?;
                    if told(t, Some(record)) {
                        ids.push(at);
                    }
                    if at == *head {
                        ids.reverse();
                        return Some(ids);
                    }
                    at = t.record(record).parent?;
                }
                None
            }
            KeptRecords::Void => None,
        }
    }
}

/// Signs of progress are none that can be told.
fn told(t: &Transcript, record: Option<RecordIx>) -> bool {
    record.is_some_and(|r| !t.record(r).flags.has(Flags::PROGRESS))
}

/// The kept records of a whole transcript, for walks over its chains. Linear in the transcript, and what is asked of it
/// is answered in constant time but for the records that are returned.
#[derive(Debug)]
pub struct KeptIndex<'a> {
    t: &'a Transcript,
    notes: &'a [KeptNote],
    /// By anchor the last note.
    by_anchor: HashMap<IdIx, usize>,
    /// By note and record, the record's last place in a list.
    places: HashMap<(usize, IdIx), usize>,
    /// Which lists are void.
    void: Vec<bool>,
    depths: OnceCell<Depths>,
}

impl<'a> KeptIndex<'a> {
    /// The index; none if no boundary of the transcript keeps anything.
    pub fn new(t: &'a Transcript) -> Option<Self> {
        let notes = t.rounds.as_ref().map_or(&[][..], |rounds| &rounds.kept);
        if notes.is_empty() {
            return None;
        }
        let mut index = KeptIndex {
            t,
            notes,
            by_anchor: HashMap::new(),
            places: HashMap::new(),
            void: Vec::new(),
            depths: OnceCell::new(),
        };
        for (n, note) in notes.iter().enumerate() {
            // One that stands before the boundary is not loaded, and then nothing is told behind it.
            let is_loaded = |&anchor: &IdIx| t.first(anchor).is_some_and(|record| record >= note.boundary);
            if let Some(anchor) = note.anchor.filter(is_loaded) {
                index.by_anchor.insert(anchor, n);
            }
            let void = match &note.records {
                KeptRecords::List(list) => {
                    index.places.extend(list.iter().enumerate().map(|(place, &id)| ((n, id), place)));
                    !list.iter().all(|&id| told(t, t.first(id)))
                }
                KeptRecords::Segment { .. } => false,
                KeptRecords::Void => true,
            };
            index.void.push(void);
        }
        Some(index)
    }

    /// What a chain goes through between a record and its parent: the kept records, lowest first, and behind them the
    /// anchor, where it goes on. None if the record simply hangs on its parent.
    pub fn between(&self, child: IdIx, parent: IdIx) -> Option<(Vec<IdIx>, IdIx)> {
        if let Some((n, list)) = self.told_behind(parent)
            && !self.holds(n, child)
        {
            return Some((list, parent));
        }
        let record = self.t.first(child)?;
        let n = self.notes.partition_point(|note| note.boundary < record).checked_sub(1)?;
        let anchor = self.notes[n].anchor.filter(|anchor| self.by_anchor.get(anchor) == Some(&n))?;
        let in_force = !self.holds(n, child) && self.holds(n, parent) && child != anchor;
        in_force.then(|| (self.from(n, parent), anchor))
    }

    /// The last boundary with a note among some records, and what the note keeps; none if that is void.
    pub fn told_on(&self, records: &HashSet<IdIx>) -> Option<(RecordIx, Vec<IdIx>)> {
        let is_there = |note: &KeptNote| records.contains(&self.t.record(note.boundary).id);
        let n = (0..self.notes.len()).rfind(|&n| is_there(&self.notes[n]))?;
        let kept = self.all(n)?;
        Some((self.notes[n].boundary, kept))
    }

    /// What is told behind a record, lowest first, and by which note.
    fn told_behind(&self, anchor: IdIx) -> Option<(usize, Vec<IdIx>)> {
        let &n = self.by_anchor.get(&anchor)?;
        self.all(n).filter(|list| !list.is_empty()).map(|list| (n, list))
    }

    /// All that a note keeps, lowest first; none if it is void.
    fn all(&self, n: usize) -> Option<Vec<IdIx>> {
        let last = match &self.notes[n].records {
            KeptRecords::List(list) if list.is_empty() => return Some(Vec::new()),
            KeptRecords::List(list) => *list.last()?,
            KeptRecords::Segment { tail, .. } => *tail,
            KeptRecords::Void => return None,
        };
        self.holds(n, last).then(|| self.from(n, last))
    }

    /// Whether a note that is not void keeps a record.
    fn holds(&self, n: usize, id: IdIx) -> bool {
        match &self.notes[n].records {
            _ if self.void[n] => false,
            KeptRecords::Segment { head, tail } => {
                let depths = self.depths.get_or_init(|| Depths::of(self.t));
                depths.is_at_or_below(*tail, id) && depths.is_at_or_below(id, *head)
            }
            _ => self.places.contains_key(&(n, id)),
        }
    }

    /// The kept records from one of them up to the first.
    fn from(&self, n: usize, id: IdIx) -> Vec<IdIx> {
        match &self.notes[n].records {
            KeptRecords::List(list) => list[..=self.places[&(n, id)]].iter().rev().copied().collect(),
            KeptRecords::Segment { head, .. } => {
                let up = |at: &IdIx| (at != head).then(|| self.t.record(self.t.first(*at)?).parent).flatten();
                let all = std::iter::successors(Some(id), up);
                all.filter(|&id| told(self.t, self.t.first(id))).collect()
            }
            KeptRecords::Void => Vec::new(),
        }
    }
}

/// Who is above whom, over parents alone. Nothing is above or below what hangs off a ring.
#[derive(Debug)]
struct Depths {
    /// By id, when a walk over all trees enters and leaves a record.
    spans: Vec<Option<(u32, u32)>>,
}

impl Depths {
    fn of(t: &Transcript) -> Self {
        let mut children: Vec<Vec<IdIx>> = vec![Vec::new(); t.ids.len()];
        let mut stack = Vec::new();
        for id in t.ids.iter() {
            let Some(record) = t.first(id) else { continue };
            match t.record(record).parent.filter(|&p| t.first(p).is_some()) {
                Some(parent) => children[parent.ix()].push(id),
                None => stack.push((id, false)),
            }
        }
        let mut spans = vec![None; t.ids.len()];
        let mut clock = 0;
        while let Some((id, done)) = stack.pop() {
            clock += 1;
            if done {
                spans[id.ix()] = spans[id.ix()].map(|(from, _)| (from, clock));
                continue;
            }
            spans[id.ix()] = Some((clock, clock));
            stack.push((id, true));
            stack.extend(children[id.ix()].drain(..).map(|child| (child, false)));
        }
        Depths { spans }
    }

    fn is_at_or_below(&self, low: IdIx, high: IdIx) -> bool {
        let (Some((from, to)), Some((first, last))) = (self.spans[low.ix()], self.spans[high.ix()]) else {
            return false;
        };
        first <= from && to <= last
    }
}
