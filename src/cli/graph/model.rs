//! The graph: branch points, leaves, roots and rewinds; what stands between two of them is one edge with a count.

use std::io;

use serde::Serialize;

use crate::{
    cli::{
        text::clean,
        tui::{
            Doc,
            doc::Mark,
            outline::{ItemIx, Kind, Part},
            page::Row,
            words,
        },
    },
    record::{Agent, RecordId},
    transcript::{Flags, RecordIx},
};

/// The longest text of a node, in characters.
const TEXT: usize = 400;

/// `offshoot.graph/1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Graph {
    pub schema: &'static str,
    pub agent: Agent,
    pub session_id: String,
    /// How many there are: those of the nodes, those of the edges, and those beside.
    pub records: u64,
    /// Records on no way between nodes: bookkeeping beside one, in front of all or behind a leaf, conversations of
    /// subagents, later records of an id.
    pub records_beside: u64,
    pub branches: u64,
    /// In the order of the page: a node stands behind what it hangs below.
    pub nodes: Vec<Node>,
    /// One for each node that hangs below another, in the same order.
    pub edges: Vec<Edge>,
}

/// A place that the shape of the conversation depends on.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// How many records it is: one, or where the format splits a message all of them.
    pub records: u64,
    /// The record that it ends with.
    pub uuid: Option<RecordId>,
    /// Whose words they are.
    pub role: &'static str,
    /// Its text; absent with `--redact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Nothing is above it.
    pub root: bool,
    /// How many branches leave below it.
    pub branches: u32,
    pub leaf: bool,
    pub rewind: bool,
    /// It names a parent that is in no record.
    pub gap: bool,
    /// The agent itself would continue here.
    pub client_pick: bool,
    /// The last completed selection chose the branch that ends here.
    pub recorded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A session that the branch went on in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_in: Option<String>,
}

/// A way between two nodes.
#[derive(Debug, Serialize)]
pub struct Edge {
    /// Indices of nodes.
    pub from: usize,
    pub to: usize,
    /// Records on the way between them, neither end counted.
    pub records: u64,
}

impl Graph {
    /// Of a session that was laid out.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(doc: &Doc) -> io::Result<Graph> {
        let t = doc.transcript();
        let graph = Graph {
            schema: "offshoot.graph/1",
            agent: doc.inspection.agent,
            session_id: doc.inspection.session_id.clone(),
            records: t.records.len() as u64,
            // Later records of an id stand nowhere.
            records_beside: (0..).zip(&t.records).filter(|(ix, r)| t.first(r.id) != Some(*ix)).count() as u64,
            branches: doc.inspection.branches.len() as u64,
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        let mut walk = Walk { doc, graph, ends: Vec::new() };
        for run in 0..doc.outline.runs().len() {
            walk.run(run)?;
        }
        Ok(walk.graph)
    }
}

/// A step of the conversation: records of an item that stand next to each other.
#[derive(Clone, Copy)]
struct Step<'a> {
    item: ItemIx,
    records: &'a [RecordIx],
    /// How many of the item's records stand before its last one, and that one too.
    to: usize,
}

struct Walk<'a> {
    doc: &'a Doc,
    graph: Graph,
    /// By run the node of its last step, if that is one.
    ends: Vec<Option<usize>>,
}

/// What has been passed in a run.
struct Passed<'a> {
    /// The last node.
    above: Option<usize>,
    /// Records since then.
    between: u64,
    /// The last step since then.
    last: Option<Step<'a>>,
}

impl<'a> Walk<'a> {
    fn run(&mut self, number: usize) -> io::Result<()> {
        let outline = &self.doc.outline;
        let run = outline.runs()[number];
        let above = run.parent.and_then(|parent| self.ends[parent as usize]);
        let mut passed = Passed { above, between: 0, last: None };
        for item in run.from..run.to {
            let (kind, records, parts) =
                (outline.item(item).kind, outline.records(item), outline.parts(item));
            if matches!(kind, Kind::Sidechain | Kind::Agent(_)) {
                self.graph.records_beside += records.len() as u64;
                continue;
            }
            let mut from = 0;
            for (at, part) in parts.iter().enumerate() {
                match part {
                    Part::Step => {}
                    Part::End => {
                        let step = Step { item, records: &records[from..=at], to: at + 1 };
                        // Bookkeeping in front of the first message is no root of anything.
                        let begins = passed.above.is_none() && kind != Kind::Notes;
                        let point =
                            outline.is_branch_point(item) && outline.end(item) == records.get(at).copied();
                        if begins || point || self.is_told(&step) {
                            self.node(&mut passed, &step, if point { run.branches } else { 0 })?;
                        } else {
                            passed.between += step.records.len() as u64;
                            passed.last = Some(step);
                        }
                        from = at + 1;
                    }
                    Part::Beside => {
                        let step = Step { item, records: &records[at..=at], to: at + 1 };
                        if self.is_told(&step) {
                            self.beside(&mut passed, &step)?;
                        } else {
                            self.graph.records_beside += 1;
                        }
                        from = at + 1;
                    }
                }
            }
        }
        self.graph.records_beside += passed.between;
        self.ends.push(passed.above);
        Ok(())
    }

    /// Whether there is something to say of a step.
    fn is_told(&self, step: &Step<'_>) -> bool {
        let told = |&record: &RecordIx| {
            !self.doc.marks_of(record).is_empty()
                || self.doc.transcript().record(record).flags.has(Flags::REWIND)
        };
        step.records.iter().any(told)
    }

    /// A node on the way.
    fn node(&mut self, passed: &mut Passed<'a>, step: &Step<'a>, branches: u32) -> io::Result<()> {
        let at = self.graph.nodes.len();
        self.graph.nodes.push(node(self.doc, step, passed.above.is_none(), branches)?);
        match passed.above {
            Some(from) => self.graph.edges.push(Edge { from, to: at, records: passed.between }),
            None => self.graph.records_beside += passed.between,
        }
        *passed = Passed { above: Some(at), between: 0, last: None };
        Ok(())
    }

    /// A node that hangs beside the last step, which must be one for that.
    fn beside(&mut self, passed: &mut Passed<'a>, step: &Step<'a>) -> io::Result<()> {
        if let Some(last) = passed.last {
            passed.between -= last.records.len() as u64;
            self.node(passed, &last, 0)?;
        }
        let mut here = Passed { above: passed.above, between: 0, last: None };
        self.node(&mut here, step, 0)
    }
}

fn node(doc: &Doc, step: &Step<'_>, root: bool, branches: u32) -> io::Result<Node> {
    let marked = |&&record: &&RecordIx| doc.marks_of(record).contains(&Mark::Leaf);
    let record = step.records.iter().find(marked).or(step.records.last()).copied();
    // A group says what all of it is where it ends, else what the record is.
    let ends = doc.target(step.item).is_some_and(|target| step.records.contains(&target));
    let member = if ends || !doc.outline.opens(step.item) { 0 } else { step.to as u32 };
    let (role, text) = words::text(doc, Row { item: step.item, member })?;
    let time = record.map(|record| doc.view(record)).transpose()?.and_then(|view| view.timestamp);
    let flags = |&record: &RecordIx| doc.transcript().record(record).flags;
    let mut node = Node {
        uuid: record.map(|record| doc.id(record)),
        role: role.name(),
        text: (!doc.redact).then(|| cut(&text)),
        time: time.map(|time| clean(&time)),
        records: step.records.len() as u64,
        root,
        rewind: step.records.iter().any(|record| flags(record).has(Flags::REWIND)),
        branches,
        ..Node::default()
    };
    for mark in step.records.iter().flat_map(|&record| doc.marks_of(record)) {
        match mark {
            Mark::ClientPick => node.client_pick = true,
            Mark::Recorded => node.recorded = true,
            Mark::Label(label) => node.label = Some(clean(label)),
            Mark::WentOn(child) => node.continued_in = Some(clean(child)),
            Mark::Leaf => node.leaf = true,
            Mark::Gap => node.gap = true,
            Mark::Branches(_) => {}
        }
    }
    Ok(node)
}

/// Cleaned, blanks folded, cut.
fn cut(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in clean(text).split_whitespace().collect::<Vec<_>>().join(" ").chars().enumerate() {
        if n == TEXT {
            out.push_str("...");
            break;
        }
        out.push(c);
    }
    out
}

impl Node {
    /// What it is, in words, the most telling first.
    pub fn marks(&self) -> Vec<String> {
        let mut marks = Vec::new();
        let mut add = |when: bool, what: &str| marks.extend(when.then(|| what.to_owned()));
        add(self.client_pick, "client pick");
        add(self.recorded, "recorded");
        add(self.rewind, "rewind");
        add(self.gap, "parent missing");
        add(self.leaf, "leaf");
        add(self.root && !self.gap, "root");
        if self.branches > 0 {
            marks.push(format!("{} branches", self.branches));
        }
        marks.extend(self.label.as_ref().map(|label| format!("\"{label}\"")));
        marks.extend(self.continued_in.as_ref().map(|child| format!("went on in {child}")));
        marks
    }

    /// Its lines in the formats that draw boxes: whose text, what it says, what it is, its id.
    pub fn lines(&self) -> Vec<String> {
        const SHOWN: usize = 60;
        let mut lines = Vec::new();
        let text = self.text.as_deref().unwrap_or_default();
        let cut: String = text.chars().take(SHOWN).collect();
        let more = if cut.len() < text.len() { "..." } else { "" };
        lines.push(format!("{}{}{cut}{more}", self.role, if cut.is_empty() { "" } else { ": " }));
        lines.extend(Some(self.marks().join(", ")).filter(|marks| !marks.is_empty()));
        lines.extend(self.uuid.as_ref().map(|uuid| clean(uuid.as_str())));
        lines
    }
}

impl Edge {
    /// What it says, if anything stands between its ends.
    pub fn label(&self) -> Option<String> {
        match self.records {
            0 => None,
            1 => Some("1 record".to_owned()),
            n => Some(format!("{n} records")),
        }
    }
}
