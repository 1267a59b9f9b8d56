//! The conversation as it is drawn: items in the order of the page, and the runs that they stand in.
//!
//! A *step* is what a person would call one: a record, or where the format groups them ([`Units`]) a unit. Steps form
//! a forest. A *run* is a longest way down without a branch point; its steps stand below each other at one depth, so
//! that depth grows only at branch points. Consecutive steps in which tools are at work make one *item*, as do
//! consecutive records of bookkeeping; any other step is an item of its own.
//!
//! Runs are laid out before the runs that branch off their end, so the items below an item always follow it at once
//! and hiding them is stepping over a range. Pure, linear, and without recursion: no text is decoded here.

use std::mem;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    record::RecordKind,
    topology::Tree,
    transcript::{Flags, IdIx, Record, RecordIx, Transcript, Units, units::UnitIx},
};

/// An item, by its place on the page.
pub type ItemIx = u32;
/// A run, by its place on the page.
pub type RunIx = u32;
type Step = u32;

const NONE: u32 = u32::MAX;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user record: a person's prompt.
    User,
    /// What the model said, without calling a tool.
    Assistant,
    /// Steps in which tools were called and answered.
    Tools,
    /// Bookkeeping of the client that tells something: a rewind, a compaction, a summary, a notification.
    Event,
    /// Other bookkeeping.
    Notes,
    /// The conversation of a subagent, within the file.
    Sidechain,
    /// The conversation of a subagent, in a file of its own: which one, as the caller counts them.
    Agent(u32),
}

impl Kind {
    /// Whether the item shows its records only when it is opened.
    pub fn opens(self) -> bool {
        matches!(self, Kind::Tools | Kind::Notes | Kind::Sidechain | Kind::Agent(_))
    }
}

/// How a record of an item stands to the way through the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Beside it: nothing that is drawn below follows it.
    Beside,
    /// On it, in a step that goes on with the next record.
    Step,
    /// On it, the last record of its step.
    End,
}

/// One line of the page, before anything is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The run that it stands in.
    pub run: RunIx,
    from: u32,
    to: u32,
}

/// A way without branch points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The run that it branches off.
    pub parent: Option<RunIx>,
    /// How many branch points lie above.
    pub depth: u32,
    /// Whether it is the last of those that branch off there.
    pub last: bool,
    /// How many runs branch off its last step.
    pub branches: u32,
    /// The item of that step. Bookkeeping and subagents that hang beside the step may follow it.
    pub point: ItemIx,
    /// Its first item.
    pub from: ItemIx,
    /// Where its own items end.
    pub to: ItemIx,
    /// Where the items of all that branches off it end.
    pub end: ItemIx,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    items: Vec<Item>,
    runs: Vec<Run>,
    /// The records of the items, one after another.
    records: Vec<RecordIx>,
    /// How each of them stands.
    parts: Vec<Part>,
    /// By record the item that it stands in, or `NONE`.
    item_of: Vec<ItemIx>,
    several_roots: bool,
}

impl Outline {
    /// Lays a transcript out. `agents` are conversations in other files: each hangs below the record given for it, or
    /// below the last record of all.
    pub fn new(t: &Transcript, tree: &Tree<'_>, agents: &[Option<RecordIx>]) -> Self {
        let steps = Steps::new(t, tree, agents);
        let mut layout = Layout {
            t,
            steps: &steps,
            out: Outline { item_of: vec![NONE; t.records.len()], ..Outline::default() },
            open: None,
            held: Vec::new(),
        };
        layout.all();
        layout.out
    }

    /// The items, in the order of the page.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The runs, in the order of the page.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// One item.
    pub fn item(&self, at: ItemIx) -> Item {
        self.items[at as usize]
    }

    /// The run of an item.
    pub fn run_of(&self, at: ItemIx) -> Run {
        self.runs[self.item(at).run as usize]
    }

    /// The records of an item, in the order of the conversation.
    pub fn records(&self, at: ItemIx) -> &[RecordIx] {
        let item = self.item(at);
        &self.records[item.from as usize..item.to as usize]
    }

    /// How each of them stands to the way through the conversation.
    pub fn parts(&self, at: ItemIx) -> &[Part] {
        let item = self.item(at);
        &self.parts[item.from as usize..item.to as usize]
    }

    /// The record that an item ends with: the last on the way through the conversation, which is what the rows below
    /// follow; where all of it hangs beside, the last.
    pub fn end(&self, at: ItemIx) -> Option<RecordIx> {
        let (records, parts) = (self.records(at), self.parts(at));
        parts.iter().rposition(|part| *part == Part::End).map_or(records.last(), |n| records.get(n)).copied()
    }

    /// The item that a record stands in; none for a repeated record that defines nothing.
    pub fn item_of(&self, record: RecordIx) -> Option<ItemIx> {
        self.item_of.get(record as usize).copied().filter(|&at| at != NONE)
    }

    /// Whether the item shows its records when it is opened: one record is shown as it is.
    pub fn opens(&self, at: ItemIx) -> bool {
        let item = self.item(at);
        item.kind.opens() && item.to - item.from > 1
    }

    /// Whether branches leave below the item.
    pub fn is_branch_point(&self, at: ItemIx) -> bool {
        let run = self.run_of(at);
        run.branches > 0 && at == run.point
    }

    /// Whether what follows the item may be hidden: it begins a branch, or branches leave below it.
    pub fn folds(&self, at: ItemIx) -> bool {
        let run = self.run_of(at);
        let begins = run.from == at && (run.parent.is_some() || self.several_roots);
        (begins && at + 1 < run.end) || self.is_branch_point(at)
    }

    /// The items that are hidden below a folded one.
    pub fn below(&self, at: ItemIx) -> std::ops::Range<ItemIx> {
        at + 1..self.run_of(at).end
    }

    /// Whether several runs branch off nothing.
    pub fn has_several_roots(&self) -> bool {
        self.several_roots
    }
}

/// Records or steps: mostly one.
type Few = SmallVec<[u32; 2]>;

/// The forest of steps, and what hangs beside them.
struct Steps {
    /// By step: its records. Steps are in the order of their first record.
    records: Vec<Few>,
    kind: Vec<Kind>,
    children: Vec<Few>,
    /// Steps that nothing is above.
    roots: Vec<Step>,
    /// By step, what hangs beside it: bookkeeping and subagents.
    beside: HashMap<Step, Vec<Beside>>,
    /// What hangs beside nothing.
    top: Vec<Beside>,
    /// Whether a branch ends with the step.
    leaf: Vec<bool>,
}

/// What hangs beside a step.
struct Beside {
    kind: Kind,
    records: Vec<RecordIx>,
}

impl Steps {
    fn new(t: &Transcript, tree: &Tree<'_>, agents: &[Option<RecordIx>]) -> Self {
        let (of, parent) = match &t.units {
            Some(units) => of_units(t, units),
            None => of_records(t),
        };
        let mut steps = Steps {
            records: vec![Few::new(); parent.len()],
            kind: Vec::new(),
            children: vec![Few::new(); parent.len()],
            roots: Vec::new(),
            beside: HashMap::new(),
            top: Vec::new(),
            leaf: vec![false; parent.len()],
        };
        for (ix, record) in (0..).zip(&t.records) {
            if let Some(step) = of[record.id.ix()].filter(|_| t.first(record.id) == Some(ix)) {
                steps.records[step as usize].push(ix);
            }
        }
        steps.kind = steps.records.iter().map(|records| kind_of(t, records)).collect();
        steps.link(&parent);
        steps.fold_notes(t, tree, &of);
        steps.hang(t, &of, agents);
        steps
    }

    /// Children and roots. A ring is cut above its first step.
    fn link(&mut self, parent: &[Option<Step>]) {
        const UNSEEN: u32 = 0;
        let mut seen = vec![UNSEEN; parent.len()];
        let mut cut = vec![false; parent.len()];
        for start in 0..parent.len() as Step {
            let mark = start + 1;
            let mut at = Some(start);
            while let Some(step) = at.filter(|&s| seen[s as usize] == UNSEEN) {
                seen[step as usize] = mark;
                at = parent[step as usize];
            }
            if let Some(met) = at.filter(|&s| seen[s as usize] == mark && !cut[s as usize]) {
                let (mut first, mut step) = (met, met);
                while let Some(up) = parent[step as usize].filter(|&up| up != met) {
                    first = first.min(up);
                    step = up;
                }
                cut[first as usize] = true;
            }
        }
        for (step, up) in (0..).zip(parent) {
            match up.filter(|_| !cut[step as usize]) {
                Some(up) => self.children[up as usize].push(step),
                None => self.roots.push(step),
            }
        }
    }

    /// Steps from the leaves to the roots.
    fn bottom_up(&self) -> Vec<Step> {
        let mut order = self.roots.clone();
        let mut done = 0;
        while let Some(&step) = order.get(done) {
            done += 1;
            order.extend(&self.children[step as usize]);
        }
        order.reverse();
        order
    }

    /// Bookkeeping that ends in no leaf makes no branch: it hangs beside the step that it is below.
    fn fold_notes(&mut self, t: &Transcript, tree: &Tree<'_>, of: &[Option<Step>]) {
        for step in tree.leaves().filter_map(|leaf| of[leaf.ix()]) {
            self.leaf[step as usize] = true;
        }
        let mut kept = self.leaf.clone();
        for step in self.bottom_up() {
            let s = step as usize;
            kept[s] |=
                self.kind[s] != Kind::Notes || self.children[s].iter().any(|&child| kept[child as usize]);
            if !kept[s] {
                continue;
            }
            let goes = |child: &Step| !kept[*child as usize];
            let go: Vec<Step> = self.children[s].iter().copied().filter(goes).collect();
            if !go.is_empty() {
                self.children[s].retain(|child| kept[*child as usize]);
                let records = self.take_all(go);
                self.beside.entry(step).or_default().push(Beside { kind: Kind::Notes, records });
            }
        }
        let go: Vec<Step> = self.roots.iter().copied().filter(|root| !kept[*root as usize]).collect();
        if !go.is_empty() {
            self.roots.retain(|root| kept[*root as usize]);
            let records = self.take_all(go);
            self.top.push(Beside { kind: Kind::Notes, records });
        }
        debug_assert!(t.records.len() >= self.records.len());
    }

    /// All records at and below some steps, in file order.
    fn take_all(&mut self, mut steps: Vec<Step>) -> Vec<RecordIx> {
        let mut records = Vec::new();
        while let Some(step) = steps.pop() {
            records.extend(mem::take(&mut self.records[step as usize]));
            steps.extend(mem::take(&mut self.children[step as usize]));
        }
        records.sort_unstable();
        records
    }

    /// Hangs records that belong to no step beside one: bookkeeping below the step above it, the conversation of a
    /// subagent below the record that it names, or below the one that stood before it in the file.
    fn hang(&mut self, t: &Transcript, of: &[Option<Step>], agents: &[Option<RecordIx>]) {
        let Some(units) = &t.units else { return self.hang_agents(t, of, agents) };
        let unit_step = |id: IdIx| {
            let id = if of[id.ix()].is_some() { id } else { units.above[id.ix()]? };
            of[id.ix()]
        };
        let mut last = None;
        // Where each record of a sidechain went.
        let mut chains: HashMap<IdIx, (Option<Step>, usize)> = HashMap::new();
        for (ix, record) in (0..).zip(&t.records) {
            let id = record.id;
            if t.first(id) != Some(ix) {
                continue;
            }
            if of[id.ix()].is_some() {
                last = of[id.ix()];
                continue;
            }
            if !record.flags.has(Flags::SIDECHAIN) {
                let place = self.place(unit_step(id));
                match place.last_mut().filter(|b| b.kind == Kind::Notes) {
                    Some(notes) => notes.records.push(ix),
                    None => place.push(Beside { kind: Kind::Notes, records: vec![ix] }),
                }
                continue;
            }
            let known = record.parent.and_then(|up| chains.get(&up).copied());
            let (step, number) = known.unwrap_or_else(|| {
                let named = record.parent.filter(|&up| t.first(up).is_some()).and_then(unit_step);
                let step = named.or(last);
                let place = self.place(step);
                place.push(Beside { kind: Kind::Sidechain, records: Vec::new() });
                (step, place.len() - 1)
            });
            self.place(step)[number].records.push(ix);
            chains.insert(id, (step, number));
        }
        self.hang_agents(t, of, agents);
    }

    fn hang_agents(&mut self, t: &Transcript, of: &[Option<Step>], agents: &[Option<RecordIx>]) {
        // A step without records was folded into what hangs beside another one.
        let stands = |step: &Step| !self.records[*step as usize].is_empty();
        let last = (0..self.records.len() as Step).rev().find(stands);
        let step_of = |record| of[t.record(record).id.ix()].filter(stands);
        let steps: Vec<_> = agents.iter().map(|below| below.and_then(step_of).or(last)).collect();
        for (number, step) in (0..).zip(steps) {
            self.place(step).push(Beside { kind: Kind::Agent(number), records: Vec::new() });
        }
    }

    fn place(&mut self, step: Option<Step>) -> &mut Vec<Beside> {
        match step {
            Some(step) => self.beside.entry(step).or_default(),
            None => &mut self.top,
        }
    }
}

/// By id its step, and by step the one above: each record is a step.
fn of_records(t: &Transcript) -> (Vec<Option<Step>>, Vec<Option<Step>>) {
    let mut of = vec![None; t.ids.len()];
    let mut parent = Vec::new();
    let mut defining = Vec::new();
    for (ix, record) in (0..).zip(&t.records) {
        if t.first(record.id) == Some(ix) {
            of[record.id.ix()] = Some(defining.len() as Step);
            defining.push(record);
        }
    }
    parent.extend(defining.into_iter().map(|record: &Record| of[record.parent?.ix()]));
    (of, parent)
}

/// The same where the format groups records.
fn of_units(t: &Transcript, units: &Units) -> (Vec<Option<Step>>, Vec<Option<Step>>) {
    let mut number = vec![NONE; units.parent.len()];
    let mut order = Vec::new();
    for (ix, record) in (0..).zip(&t.records) {
        if t.first(record.id) == Some(ix)
            && let Some(unit) = units.of[record.id.ix()]
            && number[unit.ix()] == NONE
        {
            number[unit.ix()] = order.len() as Step;
            order.push(unit);
        }
    }
    let step = |unit: UnitIx| Some(number[unit.ix()]).filter(|&s| s != NONE);
    let of = units.of.iter().map(|unit| step((*unit)?)).collect();
    let parent = order.iter().map(|&unit| step(units.parent[unit.ix()]?)).collect();
    (of, parent)
}

fn kind_of(t: &Transcript, records: &[RecordIx]) -> Kind {
    let records = || records.iter().map(|&ix| t.record(ix));
    let any = |flag| records().any(|r| r.flags.has(flag));
    let is = |kind| records().any(|r| r.kind == kind);
    if any(Flags::CALL) || any(Flags::RESPONSE) || is(RecordKind::ToolResult) {
        Kind::Tools
    } else if any(Flags::SUMMARY) || any(Flags::SYNTHETIC) || any(Flags::REWIND) || any(Flags::COMPRESSION) {
        Kind::Event
    } else if is(RecordKind::User) {
        Kind::User
    } else if is(RecordKind::Assistant) {
        Kind::Assistant
    } else {
        Kind::Notes
    }
}

/// Writes runs and items in the order of the page.
struct Layout<'a> {
    t: &'a Transcript,
    steps: &'a Steps,
    out: Outline,
    /// The group that is being filled: what it is, and its records so far.
    open: Option<(Kind, Group)>,
    /// Bookkeeping behind an open group of tools: part of it if more tools follow.
    held: Group,
}

type Group = Vec<(RecordIx, Part)>;

/// The records of a step, in order.
fn on_the_way(records: &[RecordIx]) -> impl Iterator<Item = (RecordIx, Part)> {
    let last = records.len().saturating_sub(1);
    let part = move |n| if n == last { Part::End } else { Part::Step };
    records.iter().enumerate().map(move |(n, &record)| (record, part(n)))
}

fn beside(records: &[RecordIx]) -> impl Iterator<Item = (RecordIx, Part)> {
    records.iter().map(|&record| (record, Part::Beside))
}

impl Layout<'_> {
    fn all(&mut self) {
        // What hangs beside nothing stands above the one root, or by itself.
        let mut top = &self.steps.top[..];
        if self.steps.roots.len() != 1 && !top.is_empty() {
            let run = self.begin(None, self.steps.roots.is_empty());
            self.beside(std::mem::take(&mut top));
            self.end(run);
        }
        let mut waiting: Vec<(Step, Option<RunIx>, bool)> = Vec::new();
        let roots = self.steps.roots.iter().rev().enumerate();
        waiting.extend(roots.map(|(i, &root)| (root, None, i == 0)));
        while let Some((first, parent, last)) = waiting.pop() {
            let run = self.begin(parent, last);
            self.beside(std::mem::take(&mut top));
            let mut step = first;
            let branches = loop {
                self.step(step);
                match &self.steps.children[step as usize][..] {
                    [only] => step = *only,
                    others => break others,
                }
            };
            self.end(run);
            let end = self.steps.records[step as usize].last();
            let run_made = &mut self.out.runs[run as usize];
            run_made.branches = branches.len() as u32;
            run_made.point = end.map_or(run_made.to - 1, |&record| self.out.item_of[record as usize]);
            let branches = branches.iter().rev().enumerate();
            waiting.extend(branches.map(|(i, &child)| (child, Some(run), i == 0)));
        }
        self.out.several_roots = self.out.runs.iter().filter(|r| r.parent.is_none()).count() > 1;
        for run in (0..self.out.runs.len()).rev() {
            let Run { parent, end, .. } = self.out.runs[run];
            if let Some(parent) = parent {
                let above = &mut self.out.runs[parent as usize];
                above.end = above.end.max(end);
            }
        }
    }

    fn begin(&mut self, parent: Option<RunIx>, last: bool) -> RunIx {
        let depth = parent.map_or(0, |p| self.out.runs[p as usize].depth + 1);
        let from = self.out.items.len() as ItemIx;
        self.out.runs.push(Run { parent, depth, last, branches: 0, point: from, from, to: from, end: from });
        self.out.runs.len() as RunIx - 1
    }

    fn end(&mut self, run: RunIx) {
        self.close();
        let to = self.out.items.len() as ItemIx;
        let run = &mut self.out.runs[run as usize];
        (run.to, run.end) = (to, to);
    }

    fn step(&mut self, step: Step) {
        let records = &self.steps.records[step as usize];
        match self.steps.kind[step as usize] {
            Kind::Notes => self.notes(on_the_way(records)),
            Kind::Tools => {
                match &mut self.open {
                    Some((Kind::Tools, open)) => open.append(&mut self.held),
                    _ => {
                        self.close();
                        self.open = Some((Kind::Tools, Vec::new()));
                    }
                }
                if let Some((_, open)) = &mut self.open {
                    open.extend(on_the_way(records));
                }
            }
            kind => {
                self.close();
                self.item(kind, on_the_way(records));
            }
        }
        if let Some(beside) = self.steps.beside.get(&step) {
            self.beside(beside);
        }
        // What follows a leaf for the client's sake is no part of the item that ends with it.
        if self.steps.leaf[step as usize] {
            self.close();
        }
    }

    fn beside(&mut self, hanging: &[Beside]) {
        for b in hanging {
            if b.kind == Kind::Notes {
                self.notes(beside(&b.records));
            } else {
                self.close();
                self.item(b.kind, beside(&b.records));
            }
        }
    }

    fn notes(&mut self, records: impl Iterator<Item = (RecordIx, Part)>) {
        match &mut self.open {
            Some((Kind::Tools, _)) => self.held.extend(records),
            Some((_, open)) => open.extend(records),
            None => self.open = Some((Kind::Notes, records.collect())),
        }
    }

    fn close(&mut self) {
        if let Some((kind, records)) = self.open.take() {
            self.item(kind, records.into_iter());
        }
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.item(Kind::Notes, held.into_iter());
        }
    }

    fn item(&mut self, kind: Kind, records: impl Iterator<Item = (RecordIx, Part)>) {
        let at = self.out.items.len() as ItemIx;
        let from = self.out.records.len() as u32;
        for (record, part) in records {
            self.out.records.push(record);
            self.out.parts.push(part);
            self.out.item_of[record as usize] = at;
        }
        let run = self.out.runs.len() as RunIx - 1;
        self.out.items.push(Item { kind, run, from, to: self.out.records.len() as u32 });
        debug_assert!(self.t.records.len() >= self.out.records.len(), "no record stands twice");
    }
}
