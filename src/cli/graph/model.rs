//! The graph: branch points, leaves, roots and rewinds; what stands between two of them is one edge with a count.

use std::io;

use hashbrown::HashMap;
use serde::Serialize;

use crate::{
    cli::{
        text::clean,
        tui::{
            Doc,
            doc::Mark,
            outline::{ItemIx, Kind},
            page::Row,
            words,
        },
    },
    record::{Agent, RecordId},
    transcript::Flags,
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
    pub records: u64,
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
    /// Records between them, neither end counted.
    pub records: u64,
}

impl Graph {
    /// Of a session that was laid out.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(doc: &Doc) -> io::Result<Graph> {
        let mut graph = Graph {
            schema: "offshoot.graph/1",
            agent: doc.inspection.agent,
            session_id: doc.inspection.session_id.clone(),
            records: doc.transcript().records.len() as u64,
            branches: doc.inspection.branches.len() as u64,
            nodes: Vec::new(),
            edges: Vec::new(),
        };
        let mut node_of: HashMap<ItemIx, usize> = HashMap::new();
        for run in doc.outline.runs() {
            let mut above = run
                .parent
                .and_then(|parent| node_of.get(&doc.outline.runs()[parent as usize].point).copied());
            let mut between = 0;
            for item in run.from..run.to {
                let kind = doc.outline.item(item).kind;
                if matches!(kind, Kind::Sidechain | Kind::Agent(_)) {
                    continue;
                }
                let root = above.is_none();
                // Bookkeeping in front of the first message is no root of anything.
                let begins = root && kind != Kind::Notes;
                let rewind = rewinds(doc, item);
                let point = doc.outline.is_branch_point(item);
                if !(begins || point || rewind || !doc.marks(item).is_empty()) {
                    between += doc.outline.records(item).len() as u64;
                    continue;
                }
                let at = graph.nodes.len();
                graph.nodes.push(node(doc, item, root, rewind)?);
                node_of.insert(item, at);
                if let Some(from) = above {
                    graph.edges.push(Edge { from, to: at, records: between });
                }
                (above, between) = (Some(at), 0);
            }
        }
        Ok(graph)
    }
}

fn rewinds(doc: &Doc, item: ItemIx) -> bool {
    let t = doc.transcript();
    doc.outline.records(item).iter().any(|&record| t.record(record).flags.has(Flags::REWIND))
}

fn node(doc: &Doc, item: ItemIx, root: bool, rewind: bool) -> io::Result<Node> {
    let (role, text) = words::text(doc, Row::of(item))?;
    let target = doc.target(item);
    let time = target.map(|record| doc.view(record)).transpose()?.and_then(|view| view.timestamp);
    let mut node = Node {
        uuid: target.map(|record| doc.id(record)),
        role: role.name(),
        text: (!doc.redact).then(|| cut(&text)),
        time: time.map(|time| clean(&time)),
        root,
        rewind,
        ..Node::default()
    };
    for mark in doc.marks(item) {
        match mark {
            Mark::ClientPick => node.client_pick = true,
            Mark::Recorded => node.recorded = true,
            Mark::Label(label) => node.label = Some(clean(label)),
            Mark::WentOn(child) => node.continued_in = Some(clean(child)),
            Mark::Leaf => node.leaf = true,
            Mark::Gap => node.gap = true,
            Mark::Branches(n) => node.branches = *n,
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
