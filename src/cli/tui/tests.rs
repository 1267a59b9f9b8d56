//! The layout held to a plain recursive one, on random forests and on all shipped transcripts.

use std::{fs, path::Path};

use clap::Parser;
use proptest::prelude::*;

use super::{
    Doc,
    outline::{ItemIx, Kind, Outline},
    page::{Page, Row, siblings, up},
};
use crate::{
    cli::{
        args::Cli,
        session::{self, Digest},
    },
    dialect,
    record::{Agent, RecordKind},
    refusal::Code,
    topology::Tree,
    transcript::{Flags, Record, RecordIx, Span, Transcript},
};

/// A record of a made-up transcript: what kind it is, and which record it names as its parent.
#[derive(Clone, Debug)]
struct Made {
    kind: u8,
    parent: Option<usize>,
}

/// Parents may stand later, be the record itself, or be in no record.
fn made(most: usize) -> impl Strategy<Value = Vec<Made>> {
    let record = |at: usize| {
        let parent = prop_oneof![
            1 => Just(None),
            8 => (0..at.max(1)).prop_map(Some),
            6 => Just(at.checked_sub(1)),
            1 => (0..at + 4).prop_map(Some),
        ];
        (0u8..7, parent).prop_map(|(kind, parent)| Made { kind, parent })
    };
    (1..most).prop_flat_map(move |n| (0..n).map(record).collect::<Vec<_>>())
}

fn transcript(made: &[Made]) -> Transcript {
    let mut t = Transcript::default();
    for (at, m) in made.iter().enumerate() {
        let (kind, flags) = match m.kind {
            0 | 1 => (RecordKind::User, Flags::default()),
            2 => (RecordKind::Assistant, Flags::default()),
            3 => (RecordKind::Assistant, Flags::CALL),
            4 => (RecordKind::ToolResult, Flags::RESPONSE),
            5 => (RecordKind::System, Flags::NEUTRAL),
            _ => (RecordKind::System, Flags::default()),
        };
        let id = t.ids.intern(&format!("r{at}"));
        let parent = m.parent.map(|p| t.ids.intern(&format!("r{p}")));
        let span = Span { offset: 0, len: 0 };
        t.push(Record { id, parent, span, line: at as u32 + 1, kind, flags });
    }
    t
}

/// The same page, made recursively over single records.
struct Oracle<'a> {
    t: &'a Transcript,
    parent: Vec<Option<usize>>,
    leaf: Vec<bool>,
    /// (depth, kind, records)
    items: Vec<(u32, Kind, Vec<RecordIx>)>,
}

impl<'a> Oracle<'a> {
    fn new(t: &'a Transcript, tree: &Tree<'_>) -> Self {
        let at = |id| t.first(id).map(|r| r as usize);
        let mut parent: Vec<Option<usize>> = t.records.iter().map(|r| at(r.parent?)).collect();
        for start in 0..parent.len() {
            // On a ring if a walk of any length comes back; its first record loses its parent.
            let mut ring = vec![start];
            let mut step = parent[start];
            while let Some(s) = step.filter(|&s| s != start && ring.len() <= parent.len()) {
                ring.push(s);
                step = parent[s];
            }
            if step == Some(start) && ring.iter().min() == Some(&start) {
                parent[start] = None;
            }
        }
        let leaves: Vec<usize> = tree.leaves().filter_map(at).collect();
        let leaf = (0..parent.len()).map(|r| leaves.contains(&r)).collect();
        Oracle { t, parent, leaf, items: Vec::new() }
    }

    fn children(&self, of: Option<usize>) -> Vec<usize> {
        (0..self.parent.len()).filter(|&r| self.parent[r] == of).collect()
    }

    fn kind(&self, r: usize) -> Kind {
        let record = &self.t.records[r];
        match record.kind {
            _ if record.flags.has(Flags::CALL) || record.flags.has(Flags::RESPONSE) => Kind::Tools,
            RecordKind::User => Kind::User,
            RecordKind::Assistant => Kind::Assistant,
            _ => Kind::Notes,
        }
    }

    /// Whether a record is on the page in its own right.
    fn stays(&self, r: usize) -> bool {
        self.kind(r) != Kind::Notes || self.leaf[r] || self.children(Some(r)).iter().any(|&c| self.stays(c))
    }

    fn all_below(&self, r: usize) -> Vec<RecordIx> {
        let mut all = vec![r as RecordIx];
        self.children(Some(r)).iter().for_each(|&c| all.extend(self.all_below(c)));
        all
    }

    fn aside(&self, children: &[usize]) -> Vec<RecordIx> {
        let mut records: Vec<RecordIx> =
            children.iter().filter(|&&c| !self.stays(c)).flat_map(|&c| self.all_below(c)).collect();
        records.sort_unstable();
        records
    }

    fn page(mut self) -> Vec<(u32, Kind, Vec<RecordIx>)> {
        let roots = self.children(None);
        let (stay, top) =
            (roots.iter().filter(|&&r| self.stays(r)).copied().collect::<Vec<_>>(), self.aside(&roots));
        let mut line: Vec<(Kind, Vec<RecordIx>)> = Vec::new();
        if !top.is_empty() {
            line.push((Kind::Notes, top));
            if stay.len() != 1 {
                self.write(0, std::mem::take(&mut line));
            }
        }
        for root in stay {
            self.run(root, 0, std::mem::take(&mut line));
        }
        self.items
    }

    fn run(&mut self, mut r: usize, depth: u32, mut line: Vec<(Kind, Vec<RecordIx>)>) {
        loop {
            line.push((self.kind(r), vec![r as RecordIx]));
            let children = self.children(Some(r));
            let aside = self.aside(&children);
            if !aside.is_empty() {
                line.push((Kind::Notes, aside));
            }
            let stay: Vec<usize> = children.into_iter().filter(|&c| self.stays(c)).collect();
            match stay[..] {
                [only] => r = only,
                _ => {
                    self.write(depth, line);
                    return stay.into_iter().for_each(|c| self.run(c, depth + 1, Vec::new()));
                }
            }
        }
    }

    /// Neighbours of one kind are one item; bookkeeping between tools is part of theirs.
    fn write(&mut self, depth: u32, line: Vec<(Kind, Vec<RecordIx>)>) {
        let mut at = 0;
        while at < line.len() {
            let kind = line[at].0;
            let joins = |k: Kind| k == kind || (kind == Kind::Tools && k == Kind::Notes);
            let mut to = at + 1;
            if kind == Kind::Tools || kind == Kind::Notes {
                to += line[to..].iter().take_while(|(k, _)| joins(*k)).count();
                while line[to - 1].0 != kind {
                    to -= 1;
                }
            }
            let records = line[at..to].iter().flat_map(|(_, r)| r.clone()).collect();
            self.items.push((depth, kind, records));
            at = to;
        }
    }
}

/// What must hold of any outline.
fn check(t: &Transcript, outline: &Outline) {
    let mut seen = vec![0; t.records.len()];
    for (at, item) in (0..).zip(outline.items()) {
        for &r in outline.records(at) {
            seen[r as usize] += 1;
            assert_eq!(outline.item_of(r), Some(at));
        }
        let run = outline.runs()[item.run as usize];
        assert!((run.from..run.to).contains(&at));
        assert!(at + 1 >= run.to || outline.item(at + 1).run == item.run);
    }
    for (ix, r) in (0..).zip(&t.records) {
        assert_eq!(seen[ix as usize], u32::from(t.first(r.id) == Some(ix)), "record {ix} stands once");
    }
    let runs = outline.runs();
    for (ix, run) in (0..).zip(runs) {
        assert!(run.from < run.to && run.to <= run.end);
        assert!((run.from..run.to).contains(&run.point));
        let branches: Vec<_> = runs.iter().filter(|r| r.parent == Some(ix)).collect();
        assert_eq!(run.branches as usize, branches.len());
        let mut next = run.to;
        for (i, branch) in branches.iter().enumerate() {
            assert_eq!((branch.depth, branch.from), (run.depth + 1, next));
            assert_eq!(branch.last, i + 1 == branches.len());
            next = branch.end;
        }
        assert_eq!(next, run.end);
    }
}

fn members(outline: &Outline) -> impl Fn(ItemIx) -> u32 + '_ {
    |item| if outline.opens(item) { outline.records(item).len() as u32 } else { 0 }
}

proptest! {
    #[test]
    fn the_outline_is_that_of_a_plain_recursive_walk(made in made(40)) {
        let t = transcript(&made);
        let tree = Tree::new(&t);
        let outline = Outline::new(&t, &tree, &[]);
        check(&t, &outline);
        let items: Vec<_> = (0..).zip(outline.items())
            .map(|(at, item)| (outline.run_of(at).depth, item.kind, outline.records(at).to_vec()))
            .collect();
        prop_assert_eq!(items, Oracle::new(&t, &tree).page());
    }

    #[test]
    fn folded_and_opened_items_leave_the_rows_that_a_recursive_walk_leaves(
        made in made(40),
        keys in prop::collection::vec((0u8..3, any::<prop::sample::Index>()), 0..12),
    ) {
        let t = transcript(&made);
        let outline = Outline::new(&t, &Tree::new(&t), &[]);
        let members = members(&outline);
        let mut page = Page::new(&outline);
        let (mut open, mut folded) = (Vec::new(), Vec::new());
        for (key, which) in keys {
            let item = which.index(outline.items().len()) as ItemIx;
            match key {
                0 => {
                    open.push(item);
                    page.set_open(&outline, &members, item, true);
                }
                1 if outline.folds(item) => {
                    folded.push(item);
                    page.set_folded(&outline, &members, item, true);
                }
                _ => {
                    let place = page.reveal(&outline, &members, Row::of(item));
                    folded.retain(|&f| !outline.below(f).contains(&item));
                    prop_assert_eq!(page.rows()[place], Row::of(item));
                }
            }
        }
        let mut rows = Vec::new();
        for item in 0..outline.items().len() as ItemIx {
            if folded.iter().any(|&f| outline.below(f).contains(&item)) {
                continue;
            }
            let shown = if open.contains(&item) { members(item) } else { 0 };
            rows.extend((0..=shown).map(|member| Row { item, member }));
        }
        prop_assert_eq!(page.rows(), &rows[..]);
        for item in 0..outline.items().len() as ItemIx {
            prop_assert_eq!(page.is_open(item), open.contains(&item));
            prop_assert_eq!(page.is_folded(item), folded.contains(&item));
        }
        for (place, row) in rows.iter().enumerate() {
            prop_assert_eq!(page.place_of(*row), place);
        }
    }

    #[test]
    fn ways_up_and_aside(made in made(40)) {
        let t = transcript(&made);
        let outline = Outline::new(&t, &Tree::new(&t), &[]);
        let runs = outline.runs();
        for item in 0..outline.items().len() as ItemIx {
            let run = outline.run_of(item);
            let beside: Vec<ItemIx> = runs.iter().filter(|r| r.parent == run.parent).map(|r| r.from).collect();
            let here = beside.iter().position(|&from| from == run.from).unwrap();
            let before = here.checked_sub(1).map(|at| beside[at]);
            prop_assert_eq!(siblings(&outline, item), (before, beside.get(here + 1).copied()));
            match up(&outline, item) {
                Some(above) => prop_assert!(above < item),
                None => prop_assert!(run.parent.is_none() && run.from == item),
            }
        }
    }
}

#[test]
fn depth_grows_at_branch_points_only_and_nothing_recurses() {
    let chain: Vec<Made> =
        (0..100_000).map(|at| Made { kind: [0, 3, 4, 2][at % 4], parent: at.checked_sub(1) }).collect();
    let t = transcript(&chain);
    let outline = Outline::new(&t, &Tree::new(&t), &[]);
    assert_eq!((outline.runs().len(), outline.runs()[0].depth), (1, 0));
    assert_eq!(outline.items().len(), 75_000);
    // A comb: each record of a chain of 10,000 has one more child.
    let comb: Vec<Made> = (0..20_000)
        .map(|at: usize| Made {
            kind: 2,
            parent: if at.is_multiple_of(2) { at.checked_sub(2) } else { Some(at - 1) },
        })
        .collect();
    let t = transcript(&comb);
    let outline = Outline::new(&t, &Tree::new(&t), &[]);
    assert_eq!(outline.runs().iter().map(|r| r.depth).max(), Some(9_999));
}

#[test]
fn every_record_of_every_shipped_transcript_stands_once() {
    let mut count = 0;
    for_each_case(&mut |path, agent| {
        let t = dialect::of(agent).read(&fs::read(path).unwrap()).unwrap();
        check(&t, &Outline::new(&t, &Tree::new(&t), &[]));
        count += 1;
    });
    assert!(count > 80, "{count} transcripts");
}

/// What the navigator says of a row without decoding anything is what the fork itself says.
#[test]
fn rows_inside_a_round_are_those_that_a_fork_refuses() {
    let (mut inside, mut outside) = (0, 0);
    for_each_case(&mut |path, agent| {
        let name = path.display().to_string();
        let cli = Cli::try_parse_from(["offshoot", "--state-dir", "/nonexistent", "tree", &name]).unwrap();
        let Ok(opened) = session::open_at(&cli.global, path.to_owned(), Digest::Skip) else { return };
        let Ok(doc) = Doc::of(&cli.global, opened) else { return };
        let t = doc.transcript();
        for item in 0..doc.outline.items().len() as ItemIx {
            if matches!(doc.outline.item(item).kind, Kind::Sidechain | Kind::Agent(_)) {
                continue;
            }
            for &record in doc.outline.records(item) {
                let id = t.record(record).id;
                let cut = dialect::of(agent).cut_at(t, &doc.opened.snapshot, id).unwrap();
                let refused = matches!(&cut, Err(r) if r.code == Code::InsideToolRound);
                if doc.inside_round(record) {
                    assert!(refused, "{name}: {} is forked at: {cut:?}", t.id(id));
                    inside += 1;
                } else {
                    outside += usize::from(!refused);
                }
            }
        }
    });
    assert!(inside > 50 && outside > 500, "{inside} inside, {outside} outside");
}

fn for_each_case(look: &mut dyn FnMut(&Path, Agent)) {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/cases");
    for (folder, agent) in [("claude", Agent::Claude), ("qwen", Agent::Qwen)] {
        for case in fs::read_dir(cases.join(folder)).unwrap() {
            let Ok(files) = fs::read_dir(case.unwrap().path()) else { continue };
            let files = files.map(|f| f.unwrap().path());
            files.filter(|f| f.extension().is_some_and(|e| e == "jsonl")).for_each(|f| look(&f, agent));
        }
    }
}
