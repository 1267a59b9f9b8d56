//! The layout held to a plain recursive one, on random forests and on all shipped transcripts.

use std::{collections::BTreeSet, fs, path::Path};

use clap::Parser;
use proptest::prelude::*;
use serde_json::json;

use super::{
    Doc,
    doc::Mark,
    outline::{ItemIx, Kind, Outline, Part, Run},
    page::{Page, Row, siblings, up},
};
use crate::{
    cli::{
        args::Cli,
        graph::model::{Graph, Node},
        session::{self, Digest},
    },
    dialect,
    record::{Agent, RecordId, RecordKind},
    refusal::Code,
    topology::{TopologyDiagnostic, Tree},
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
        t.push(Record { id, parent, span, kind, flags }, at as u32 + 1);
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

/// Leaves and branch points are the inspector's, and each record is counted once.
#[test]
fn tree_and_graph_say_what_the_inspector_says() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for_each_case(&mut |path, _| {
        seen += usize::from(agrees(path, &mut wrong));
    });
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors/inspector.jsonl");
    let dir = tempfile::tempdir().unwrap();
    for line in fs::read_to_string(vectors).unwrap().lines() {
        let vector: serde_json::Value = serde_json::from_str(line).unwrap();
        let path = dir.path().join(format!("{}.jsonl", vector["name"].as_str().unwrap()));
        let records = vector["records"].as_array().unwrap().iter();
        fs::write(&path, records.map(|record| format!("{record}\n")).collect::<String>()).unwrap();
        seen += usize::from(agrees(&path, &mut wrong));
    }
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 400, "{seen} transcripts");
}

/// A transcript of Qwen Code: each record's id, parent, and type or subtype.
fn qwen(records: &[(&str, &str, &str)]) -> (tempfile::NamedTempFile, Doc) {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    let lines = records.iter().map(|&(uuid, parent, kind)| {
        let parent = Some(parent).filter(|p| !p.is_empty());
        let part = match kind {
            "assistant" => json!({"functionCall": {"id": uuid, "name": "edit", "args": {}}}),
            "tool_result" => json!({"functionResponse": {"id": parent, "name": "edit", "response": {}}}),
            _ => json!({"text": "words"}),
        };
        let mut record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "cwd": "/w",
            "timestamp": "2026-01-01T10:00:00.000Z", "version": "0.24.4", "message": {"parts": [part]}});
        if !matches!(kind, "user" | "assistant" | "tool_result") {
            (record["type"], record["subtype"]) = (json!("system"), json!(kind));
        }
        format!("{record}\n")
    });
    fs::write(file.path(), lines.collect::<String>()).unwrap();
    let name = file.path().display().to_string();
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", "/nonexistent", "tree", &name]).unwrap();
    let opened = session::open_at(&cli.global, file.path().to_owned(), Digest::Skip).unwrap();
    let doc = Doc::of(&cli.global, opened).unwrap();
    (file, doc)
}

/// The record that each row ends with.
fn targets(doc: &Doc) -> Vec<String> {
    let items = 0..doc.outline.items().len() as ItemIx;
    items.map(|item| doc.id(doc.target(item).unwrap()).to_string()).collect()
}

#[test]
fn bookkeeping_beside_a_row_is_not_what_the_row_ends_with() {
    let artifact = "session_artifact_event";
    let (file, doc) = qwen(&[
        ("u1", "", "user"),
        ("t1", "u1", "ui_telemetry"),
        ("x1", "t1", artifact),
        ("u2", "t1", "user"),
        ("u3", "t1", "user"),
        ("at", "u3", "at_command"),
        ("x2", "at", artifact),
    ]);
    assert_eq!(targets(&doc), ["u1", "t1", "u2", "u3", "at"]);
    let mut wrong = Vec::new();
    assert!(agrees(file.path(), &mut wrong) && wrong.is_empty(), "{wrong:?}");
    let (_file, doc) = qwen(&[("u1", "", "user"), ("x1", "u1", artifact), ("u2", "u1", "user")]);
    assert_eq!(targets(&doc), ["u1", "x1", "u2"]);
    let record = |item| doc.target(item).unwrap();
    assert_eq!((doc.is_beside(record(0)), doc.is_beside(record(1))), (false, true));
}

#[test]
fn an_edge_counts_every_record_between_two_nodes() {
    let graph = |records: &[(&str, &str, &str)]| {
        let (_file, doc) = qwen(records);
        let graph = Graph::new(&doc).unwrap();
        let nodes: Vec<String> = graph.nodes.iter().map(|n| n.uuid.as_ref().unwrap().to_string()).collect();
        let edges: Vec<u64> = graph.edges.iter().map(|e| e.records).collect();
        (nodes.join(" "), edges, graph.records_beside)
    };
    let mut round = vec![
        ("u1", "", "user"),
        ("u2", "u1", "user"),
        ("c1", "u2", "assistant"),
        ("r1", "c1", "tool_result"),
        ("c2", "r1", "assistant"),
        ("r2", "c2", "tool_result"),
    ];
    assert_eq!(graph(&round), ("u1 r2".to_owned(), vec![4], 0));
    round.extend([("x1", "c2", "session_artifact_event"), ("x2", "r2", "session_artifact_event")]);
    assert_eq!(graph(&round), ("u1 r2".to_owned(), vec![4], 2));
    round.extend([("u3", "r1", "user"), ("gap", "nowhere", "user")]);
    assert_eq!(graph(&round), ("u1 r1 r2 u3 gap".to_owned(), vec![2, 1, 0], 2));
}

fn agrees(path: &Path, wrong: &mut Vec<String>) -> bool {
    let name = path.display().to_string();
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", "/nonexistent", "tree", &name]).unwrap();
    let Ok(opened) = session::open_at(&cli.global, path.to_owned(), Digest::Skip) else { return false };
    let Ok(doc) = Doc::of(&cli.global, opened) else { return false };
    let branches = || doc.inspection.branches.iter();
    let leaves: BTreeSet<_> = branches().map(|b| b.leaf_uuid.clone()).collect();
    let points: BTreeSet<_> = branches().filter_map(|b| b.branch_point_uuid.clone()).collect();
    let rows = || 0..doc.outline.items().len() as ItemIx;
    let target = |item| doc.id(doc.target(item).unwrap());
    let graph = Graph::new(&doc).unwrap();
    let nodes = |is: &dyn Fn(&Node) -> bool| -> BTreeSet<_> {
        graph.nodes.iter().filter(|n| is(n)).map(|n| n.uuid.clone().unwrap()).collect()
    };
    let mut says = |right: bool, what: &str, ours: &BTreeSet<RecordId>, theirs: &BTreeSet<RecordId>| {
        if !right {
            wrong.push(format!("{name}: {what} are {ours:?}, not {theirs:?}"));
        }
    };
    let ends = |item| doc.marks(item).contains(&Mark::Leaf);
    let ours: BTreeSet<_> = rows().filter(|&item| ends(item)).map(target).collect();
    says(ours == leaves, "leaves of rows", &ours, &leaves);
    let ours = nodes(&|n| n.leaf);
    says(ours == leaves, "leaves of nodes", &ours, &leaves);
    let ours: BTreeSet<_> = rows().filter(|&i| doc.outline.is_branch_point(i)).map(target).collect();
    let drawn = nodes(&|n| n.branches > 0);
    says(drawn == ours, "points of nodes", &drawn, &ours);
    // The inspector names for each leaf the nearest one only. A ring has no beginning: the page cuts it somewhere.
    let ring = |d: &TopologyDiagnostic| matches!(d, TopologyDiagnostic::ParentCycle { .. });
    let cut = doc.inspection.diagnostics.iter().any(ring);
    says(cut || points.is_subset(&ours), "points of rows", &ours, &points);
    let leads = |run: &Run| (run.from..run.end).any(ends);
    for (ix, run) in (0..).zip(doc.outline.runs()).filter(|(_, run)| run.branches > 0) {
        let below = doc.outline.runs().iter().filter(|r| r.parent == Some(ix) && leads(r)).count();
        says(cut || below == run.branches as usize, "branches without a leaf", &ours, &points);
    }
    // What is drawn below a row can be dropped there, but where the format lets a message go on below any of its records.
    if doc.transcript().units.is_none() {
        for item in rows().filter(|&item| doc.outline.parts(item).contains(&Part::End)) {
            let record = doc.target(item).unwrap();
            says(!doc.goes_on(item) || doc.has_descendants(record), "rows", &[doc.id(record)].into(), &ours);
        }
    }
    let counted = graph.nodes.iter().map(|n| n.records).sum::<u64>()
        + graph.edges.iter().map(|e| e.records).sum::<u64>()
        + graph.records_beside;
    if counted != graph.records {
        wrong.push(format!("{name}: {counted} records, not {}", graph.records));
    }
    true
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
