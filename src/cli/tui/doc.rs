//! A session that is looked at: what was read of it, how it is laid out, and what its places are marked with.

use std::io;

use hashbrown::HashMap;

use super::{
    agents::{self, Aside},
    outline::{ItemIx, Kind, Outline, Part},
    page::Row,
    turns::{self, Ends},
};
use crate::{
    cli::{
        args::Global,
        inspect,
        session::{self, Digest, Opened},
    },
    dialect::View,
    parallel,
    record::{Agent, RecordId, RecordKind},
    refusal::{Error, Result},
    topology::{Branch, Inspection, TopologyDiagnostic, Tree, strictly_below},
    transcript::{Flags, LineDiagnostic, RecordIx, Source, Transcript},
};

/// What a place is marked with, the most telling first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The agent itself would continue here.
    ClientPick,
    /// The last completed selection chose the branch that ends here.
    Recorded,
    /// A person's name for the branch that ends here.
    Label(String),
    /// The branch that ends here went on in another session.
    WentOn(String),
    /// A branch ends here.
    Leaf,
    /// It names a parent that is in no record.
    Gap,
    /// So many branches leave below.
    Branches(u32),
}

/// A session that was read.
pub struct Doc {
    /// The transcript.
    pub opened: Opened,
    /// What is known of its branches.
    pub inspection: Inspection,
    /// How it is laid out.
    pub outline: Outline,
    /// The conversations of subagents in files of their own, as `Kind::Agent` counts them.
    pub asides: Vec<Aside>,
    /// Whether texts of the conversation are left out.
    pub redact: bool,
    /// The turns that end with a record, where a session is forked at those.
    ends: HashMap<RecordIx, Ends>,
    /// By record that defines an id, the later ones that add to it.
    copies: HashMap<RecordIx, Vec<RecordIx>>,
    marks: Marks,
    /// The items that leaves stand in, in the order of the page, and the leaves.
    leaves: Vec<(ItemIx, RecordId)>,
}

impl Doc {
    /// Opens the session that was named.
    ///
    /// # Errors
    /// As for [`session::open`].
    pub fn open(global: &Global, session: Option<&str>) -> Result<Doc> {
        Doc::of(global, session::open(global, session, Digest::Skip)?)
    }

    /// Lays out a transcript that was opened.
    ///
    /// # Errors
    /// Faults of the ledger and the labels; `io`.
    pub fn of(global: &Global, opened: Opened) -> Result<Doc> {
        let t = &opened.snapshot.transcript;
        let (asides, below) = agents::find(&opened).map_err(Error::io("read", &opened.path))?;
        let (outline, inspection) =
            parallel::join(|| Outline::new(t, &Tree::new(t), &below), || opened.inspect());
        let mut inspection = inspection?;
        inspect::recall(global, &opened, &mut inspection)?;
        let ends = turns::ends(&opened)?;
        let copies = if t.last_wins { HashMap::new() } else { copies(t) };
        let (marks, leaves) = marks(t, &inspection, &outline, global.redact);
        Ok(Doc { inspection, outline, asides, redact: global.redact, ends, copies, marks, leaves, opened })
    }

    /// What was read.
    pub fn transcript(&self) -> &Transcript {
        &self.opened.snapshot.transcript
    }

    /// Whether anybody said anything, a subagent included.
    pub fn has_messages(&self) -> bool {
        self.outline.items().iter().any(|item| !matches!(item.kind, Kind::Notes | Kind::Event))
    }

    /// The record that an action on an item is about: the one that it ends with.
    pub fn target(&self, item: ItemIx) -> Option<RecordIx> {
        self.outline.end(item)
    }

    /// The conversation that an item stands for, if it lies in a file of its own.
    pub fn aside(&self, item: ItemIx) -> Option<&Aside> {
        match self.outline.item(item).kind {
            Kind::Agent(number) => self.asides.get(number as usize),
            _ => None,
        }
    }

    /// Whether an item shows its records when it is opened.
    pub fn opens(&self, item: ItemIx) -> bool {
        self.outline.opens(item) || self.aside(item).is_some()
    }

    /// How many records an item shows when it is opened. For that the file of a subagent is read.
    pub fn members(&self, item: ItemIx) -> u32 {
        match self.aside(item) {
            Some(aside) => aside.read().map_or(0, |read| read.len() as u32),
            None if self.outline.opens(item) => self.outline.records(item).len() as u32,
            None => 0,
        }
    }

    /// The record of this session that a row is about: of a group the last one.
    pub fn record_of(&self, row: Row) -> Option<RecordIx> {
        match row.member {
            0 => self.target(row.item),
            n => self.outline.records(row.item).get(n as usize - 1).copied(),
        }
    }

    /// The id that a row is known by, also where it is none of this session.
    pub fn id_of(&self, row: Row) -> Option<RecordId> {
        if let Some(aside) = self.aside(row.item) {
            let read = aside.known()?;
            return read.record(row.member).map(|record| read.id(record));
        }
        self.record_of(row).map(|record| self.id(record))
    }

    /// The id of a record.
    pub fn id(&self, record: RecordIx) -> RecordId {
        let t = self.transcript();
        t.id(t.record(record).id)
    }

    /// The marks of an item.
    pub fn marks(&self, item: ItemIx) -> &[Mark] {
        self.marks.of_item.get(&item).map_or(&[], Vec::as_slice)
    }

    /// The marks that are a record's own; branches leave below an item.
    pub fn marks_of(&self, record: RecordIx) -> &[Mark] {
        self.marks.of_record.get(&record).map_or(&[], Vec::as_slice)
    }

    /// The items that leaves stand in, in the order of the page.
    pub fn leaves(&self) -> &[(ItemIx, RecordId)] {
        &self.leaves
    }

    /// Whether a branch ends with a record of an item, bookkeeping behind it aside.
    pub fn ends_branch(&self, item: ItemIx, record: RecordIx) -> bool {
        let run = self.outline.run_of(item);
        let from = self.leaves.partition_point(|(at, _)| *at < run.from);
        let leaf = self.leaves[from..].iter().take_while(|(at, _)| *at <= item).last();
        run.branches == 0 && leaf.is_some() && self.target(item) == Some(record)
    }

    /// The item that the agent itself would continue at.
    pub fn pick(&self) -> Option<ItemIx> {
        let picked =
            |(item, marks): (&ItemIx, &Vec<Mark>)| marks.contains(&Mark::ClientPick).then_some(*item);
        self.marks.of_item.iter().find_map(picked)
    }

    /// Whether a record is part of a round of tool calls, or bookkeeping within one: no child can end there.
    pub fn inside_round(&self, record: RecordIx) -> bool {
        let t = self.transcript();
        let mut at = Some(record);
        // A way up that is longer than the session goes round.
        for _ in 0..t.records.len() {
            let Some(item) = at.and_then(|at| self.outline.item_of(at)) else { return false };
            match self.outline.item(item).kind {
                Kind::Tools => return true,
                Kind::Notes => at = at.and_then(|at| t.first(t.record(at).parent?)),
                _ => return false,
            }
        }
        false
    }

    /// Whether the session is forked at ends of turns and at nothing else, and nothing is written to it.
    pub fn is_of_turns(&self) -> bool {
        self.opened.dialect.agent() == Agent::Reasonix
    }

    /// The turn that ends with a record, where a session is forked at those.
    pub fn turn_at(&self, record: RecordIx) -> Option<&Ends> {
        self.ends.get(&record)
    }

    /// Whether a record hangs beside the conversation: nothing that is drawn below it follows it.
    pub fn is_beside(&self, record: RecordIx) -> bool {
        let Some(item) = self.outline.item_of(record) else { return false };
        let at = self.outline.records(item).iter().position(|&r| r == record);
        at.is_some_and(|at| self.outline.parts(item)[at] == Part::Beside)
    }

    /// Whether the conversation is drawn to go on below an item.
    pub fn goes_on(&self, item: ItemIx) -> bool {
        let run = self.outline.run_of(item);
        run.branches > 0 || (item + 1..run.to).any(|item| self.outline.parts(item).contains(&Part::End))
    }

    /// Whether anything hangs below a record.
    pub fn has_descendants(&self, record: RecordIx) -> bool {
        let t = self.transcript();
        let id = t.record(record).id;
        t.records.iter().any(|r| r.parent == Some(id))
    }

    /// What descends from a record: records, copies counted, and branches. An overwrite drops it.
    pub fn below(&self, record: RecordIx) -> (usize, usize) {
        let t = self.transcript();
        let below = strictly_below(t, t.record(record).id);
        let records = t.records.iter().filter(|r| below[r.id.ix()]).count();
        let ends = |branch: &&Branch| t.ids.find(branch.leaf_uuid.as_str()).is_some_and(|id| below[id.ix()]);
        (records, self.inspection.branches.iter().filter(ends).count())
    }

    /// The branch whose leaf stands in an item, if exactly one does.
    pub fn branch_at(&self, item: ItemIx) -> Option<&Branch> {
        let from = self.leaves.partition_point(|(at, _)| *at < item);
        match &self.leaves[from..] {
            [(at, leaf), rest @ ..] if *at == item && rest.first().is_none_or(|(next, _)| *next != item) => {
                self.inspection.branch(leaf)
            }
            _ => None,
        }
    }

    /// What a record holds, with what the client adds to it of later records of the same id.
    ///
    /// # Errors
    /// What the file system says.
    pub fn view(&self, record: RecordIx) -> io::Result<View> {
        let view = |record: RecordIx| {
            let bytes = self.opened.snapshot.bytes(self.transcript().record(record).span)?;
            io::Result::Ok(self.opened.dialect.view(&bytes))
        };
        let mut shown = view(record)?;
        for &copy in self.copies.get(&record).into_iter().flatten() {
            shown.parts.extend(view(copy)?.parts);
        }
        Ok(shown)
    }

    /// Lines that hold no record, or not only.
    pub fn bad_lines(&self) -> usize {
        let bad = |d: &&LineDiagnostic| matches!(d, LineDiagnostic::MalformedLine { .. });
        self.transcript().diagnostics.iter().filter(bad).count()
    }

    /// What there is to say of [`Doc::bad_lines`].
    pub fn said_of_lines(&self) -> Option<String> {
        let lines = match self.bad_lines() {
            0 => return None,
            1 => "1 line holds".to_owned(),
            n => format!("{n} lines hold"),
        };
        Some(format!("{lines} no record and was passed over; `offshoot inspect` says which and why"))
    }
}

/// Where the first record of an id defines it, the client joins the others to it: those of its kind that no machine
/// wrote in the user's name.
fn copies(t: &Transcript) -> HashMap<RecordIx, Vec<RecordIx>> {
    let mut copies: HashMap<RecordIx, Vec<RecordIx>> = HashMap::new();
    for (ix, record) in (0..).zip(&t.records) {
        let Some(first) = t.first(record.id).filter(|&first| first != ix) else { continue };
        let by_machine = record.kind == RecordKind::User && record.flags.has(Flags::SYNTHETIC);
        if t.record(first).kind == record.kind && !by_machine {
            copies.entry(first).or_default().push(ix);
        }
    }
    copies
}

/// What places are marked with.
#[derive(Default)]
struct Marks {
    of_item: HashMap<ItemIx, Vec<Mark>>,
    of_record: HashMap<RecordIx, Vec<Mark>>,
}

impl Marks {
    fn add(&mut self, outline: &Outline, record: RecordIx, mark: &Mark) {
        let Some(item) = outline.item_of(record) else { return };
        // Several branches may end in an item.
        for list in [self.of_item.entry(item).or_default(), self.of_record.entry(record).or_default()] {
            if !(*mark == Mark::Leaf && list.contains(mark)) {
                list.push(mark.clone());
            }
        }
    }
}

fn marks(
    t: &Transcript,
    inspection: &Inspection,
    outline: &Outline,
    redact: bool,
) -> (Marks, Vec<(ItemIx, RecordId)>) {
    let defining = |id: &RecordId| t.first(t.ids.find(id.as_str())?);
    let mut marks = Marks::default();
    let mut leaves = Vec::new();
    // The most telling first.
    let picked = inspection.branches.iter().find(|branch| branch.client_pick);
    let pick = inspection.client_pick.as_ref().map(|pick| &pick.tail_uuid);
    if let Some(record) = picked.map(|branch| &branch.leaf_uuid).or(pick).and_then(defining) {
        marks.add(outline, record, &Mark::ClientPick);
    }
    for branch in &inspection.branches {
        let Some(record) = defining(&branch.leaf_uuid) else { continue };
        let Some(item) = outline.item_of(record) else { continue };
        leaves.push((item, branch.leaf_uuid.clone()));
        let label = branch.label.clone().filter(|_| !redact);
        let child = branch.continued_in.as_ref();
        let list = [
            branch.recorded.then_some(Mark::Recorded),
            label.map(Mark::Label),
            child.map(|child| Mark::WentOn(child.session_id.clone())),
            Some(Mark::Leaf),
        ];
        list.iter().flatten().for_each(|mark| marks.add(outline, record, mark));
    }
    leaves.sort();
    for diagnostic in &inspection.diagnostics {
        if let TopologyDiagnostic::MissingParent { child_uuid, .. } = diagnostic
            && let Some(record) = defining(child_uuid)
        {
            marks.add(outline, record, &Mark::Gap);
        }
    }
    for run in outline.runs().iter().filter(|run| run.branches > 0) {
        marks.of_item.entry(run.point).or_default().push(Mark::Branches(run.branches));
    }
    (marks, leaves)
}
