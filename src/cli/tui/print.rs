//! `tree --print`: the page drawn once, for pipes, and `offshoot.tree/1`.

use std::{cmp::Reverse, io};

use hashbrown::HashMap;
use serde::Serialize;

use super::{
    doc::{Doc, Mark},
    outline::{ItemIx, Kind},
    page::{Page, Row},
    words::{self, Role},
};
use crate::{
    cli::{
        output::Paint,
        text::{clean, counted, fit, pad, session_name, width},
    },
    record::{Agent, RecordId},
};

/// What is said where there is nothing to show.
pub const EMPTY: &str = "No messages in this session";

/// Ids that need no more, which is what a UUID has, are never cut, and stand beside the rows where these have as much
/// room; others stand above them.
const MOST_ID: usize = 36;

/// The page in at most `columns` columns, all groups closed.
///
/// # Errors
/// What the file system says.
pub fn page(doc: &Doc, columns: usize, paint: Paint) -> io::Result<String> {
    let mut out = heading(doc, columns, paint);
    out.push('\n');
    if !doc.has_messages() {
        out += EMPTY;
        out.push('\n');
    }
    for line in lines(doc, Page::new(&doc.outline).rows(), true, false, columns, paint)? {
        out += &line;
        out.push('\n');
    }
    Ok(out)
}

/// A part of the page that is no longer than asked.
pub struct Part {
    /// Its lines.
    pub lines: Vec<String>,
    /// Its rows, as data.
    pub document: Document,
    /// How many rows of the page are not in it.
    pub rows_left_out: usize,
    /// How many leaves are not in it.
    pub leaves_left_out: usize,
}

/// The page in at most `most` lines: the whole of it where it is no longer, else branch points and leaves, else the
/// leaves with the newest messages. With `leaves_only` the leaves in any case.
///
/// # Errors
/// What the file system says.
pub fn part(doc: &Doc, columns: usize, most: usize, leaves_only: bool) -> io::Result<Part> {
    let page = Page::new(&doc.outline);
    let of = |mark: fn(&Mark) -> bool| -> Vec<Row> {
        page.rows().iter().filter(|row| doc.marks(row.item).iter().any(mark)).copied().collect()
    };
    let leaves = of(|mark| matches!(mark, Mark::Leaf));
    let rows = if leaves_only {
        newest(doc, leaves.clone(), most)
    } else if page.rows().len() <= most {
        page.rows().to_vec()
    } else {
        let marked = of(|mark| matches!(mark, Mark::Leaf | Mark::Branches(_) | Mark::ClientPick));
        if marked.len() <= most { marked } else { newest(doc, leaves.clone(), most) }
    };
    Ok(Part {
        lines: lines(doc, &rows, rows.len() == page.rows().len(), true, columns, Paint::plain())?,
        document: document_of(doc, &rows)?,
        rows_left_out: page.rows().len() - rows.len(),
        leaves_left_out: leaves.iter().filter(|leaf| rows.binary_search(leaf).is_err()).count(),
    })
}

/// Those whose branches have the newest messages, in the order of the page.
fn newest(doc: &Doc, mut leaves: Vec<Row>, most: usize) -> Vec<Row> {
    if leaves.len() > most {
        let mut times: HashMap<ItemIx, &str> = HashMap::new();
        for (item, leaf) in doc.leaves() {
            let time = doc.inspection.branch(leaf).and_then(|b| b.last_message_at.as_deref()).unwrap_or("");
            let newest = times.entry(*item).or_insert(time);
            *newest = time.max(newest);
        }
        leaves.sort_by_key(|row| Reverse(times.get(&row.item).copied()));
        leaves.truncate(most);
        leaves.sort_unstable();
    }
    leaves
}

/// For each row the id that it is chosen by, and what it shows: one line, or of a whole page two where ids are too long
/// to stand beside the rows. Without the rows between them, how they hang together says nothing: `guides` is for whole
/// pages.
fn lines(
    doc: &Doc,
    rows: &[Row],
    guides: bool,
    one_each: bool,
    columns: usize,
    paint: Paint,
) -> io::Result<Vec<String>> {
    let ids = ids(doc, rows);
    let most = MOST_ID.min(columns / 2);
    let widest = ids.iter().map(|id| width(id)).max().unwrap_or(0);
    let beside = (one_each || widest <= most).then_some(widest.min(most));
    let room = columns.saturating_sub(beside.unwrap_or(0) + 2);
    let mut out = Vec::with_capacity(rows.len());
    for (row, id) in rows.iter().zip(&ids) {
        let line = Line::new(doc, *row, guides, room)?.painted(paint);
        if let Some(wide) = beside {
            out.push(format!("{}  {line}", paint.dim(&pad(id, wide))));
            continue;
        }
        // It is there to be answered with, and says nothing unless it is whole.
        if !id.is_empty() {
            out.push(paint.dim(&fit(id, columns.max(MOST_ID))));
        }
        out.push(format!("  {line}"));
    }
    Ok(out)
}

fn heading(doc: &Doc, columns: usize, paint: Paint) -> String {
    let session = session_name(&doc.inspection.session_id);
    let branches = counted(doc.inspection.branches.len() as u64, "branch", "branches");
    let records = counted(doc.transcript().records.len() as u64, "record", "records");
    let head = fit(&format!("{session} ({})", doc.inspection.agent), columns);
    format!("{}\n{}\n", paint.bold(&head), fit(&format!("{branches}, {records}"), columns))
}

/// What a row shows behind its id.
struct Line {
    guides: String,
    role: Role,
    text: String,
    marks: String,
}

impl Line {
    fn new(doc: &Doc, row: Row, guides: bool, columns: usize) -> io::Result<Line> {
        let from = doc.outline.run_of(row.item).depth.saturating_sub(columns as u32 / 8);
        let guides = if guides { words::guides(doc, row, from) } else { String::new() };
        let said = words::words(doc, row)?;
        let room = columns.saturating_sub(width(&guides) + 4);
        let marks = words::marks(doc, row.item, width(&said.preview), room);
        let taken = if marks.is_empty() { 0 } else { width(&marks) + 1 };
        let text = words::cut(&said.preview, room.saturating_sub(taken));
        Ok(Line { guides, role: said.role, text, marks })
    }

    fn painted(&self, paint: Paint) -> String {
        let badge = self.role.badge();
        let dull = matches!(self.role, Role::Tool | Role::System);
        let badge = match self.role {
            Role::User => paint.bold_cyan(badge),
            Role::Assistant => paint.green(badge),
            Role::Sidechain => paint.bold_yellow(badge),
            Role::Tool | Role::System => paint.dim(badge),
        };
        let text = if dull { paint.dim(&self.text) } else { self.text.clone() };
        let marks =
            if self.marks.is_empty() { String::new() } else { format!(" {}", paint.bold(&self.marks)) };
        format!("{}{badge} {text}{marks}", self.guides).trim_end().to_owned()
    }
}

/// For each row the shortest beginning of its record's id that no other id of the session shares, of at least 8
/// characters. Sorted ids share the longest beginning with a neighbour, so two comparisons an id are enough.
fn ids(doc: &Doc, rows: &[Row]) -> Vec<String> {
    const LEAST: usize = 8;
    let t = doc.transcript();
    let mut all: Vec<String> = t.ids.iter().map(|id| t.ids.text(id)).collect();
    all.sort_unstable();
    let shared = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let short = |row: &Row| {
        let Some(id) = doc.target(row.item).map(|record| doc.id(record)) else { return String::new() };
        let id = id.as_str();
        let at = all.partition_point(|other| other.as_str() < id);
        let before = at.checked_sub(1).map_or(0, |at| shared(id, &all[at]));
        let after = all.get(at + 1).map_or(0, |next| shared(id, next));
        clean(&id.chars().take((before.max(after) + 1).max(LEAST)).collect::<String>())
    };
    rows.iter().map(short).collect()
}

/// `offshoot.tree/1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    schema: &'static str,
    agent: Agent,
    session_id: String,
    transcript: String,
    records: u64,
    /// In the order of the page.
    rows: Vec<DocumentRow>,
}

impl Document {
    /// The session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// How many records it has.
    pub fn records(&self) -> u64 {
        self.records
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DocumentRow {
    /// The record that the row ends with; null for a conversation in another file.
    uuid: Option<RecordId>,
    /// The `uuid` of the row that it stands below; null at the top.
    below: Option<RecordId>,
    /// How many branch points lie above.
    depth: u32,
    role: &'static str,
    /// How many records the row stands for.
    records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// How many branches leave below; absent where there is one way.
    #[serde(skip_serializing_if = "Option::is_none")]
    branches: Option<u32>,
    leaf: bool,
    client_pick: bool,
    recorded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continued_in: Option<String>,
}

/// The page as data.
///
/// # Errors
/// What the file system says.
pub fn document(doc: &Doc) -> io::Result<Document> {
    document_of(doc, Page::new(&doc.outline).rows())
}

fn document_of(doc: &Doc, shown: &[Row]) -> io::Result<Document> {
    let outline = &doc.outline;
    let uuid = |item| doc.target(item).map(|record| doc.id(record));
    let mut rows = Vec::with_capacity(shown.len());
    for row in shown {
        let item = row.item;
        let run = outline.run_of(item);
        // A subagent's conversation hangs beside the rows that follow it, not above them.
        let beside = |at: &ItemIx| matches!(outline.item(*at).kind, Kind::Sidechain | Kind::Agent(_));
        let above = match (run.from..item).rev().find(|at| !beside(at)) {
            Some(above) => Some(above),
            None => run.parent.map(|parent| outline.runs()[parent as usize].point),
        };
        let said = words::words(doc, *row)?;
        let marks = doc.marks(item);
        rows.push(DocumentRow {
            uuid: uuid(item),
            below: above.and_then(uuid),
            depth: run.depth,
            role: said.role.name(),
            records: outline.records(item).len() as u64,
            text: (!doc.redact).then_some(said.preview),
            branches: outline.is_branch_point(item).then_some(run.branches),
            leaf: marks.contains(&Mark::Leaf),
            client_pick: marks.contains(&Mark::ClientPick),
            recorded: marks.contains(&Mark::Recorded),
            label: marks.iter().find_map(|m| match m {
                Mark::Label(label) => Some(label.clone()),
                _ => None,
            }),
            continued_in: marks.iter().find_map(|m| match m {
                Mark::WentOn(child) => Some(child.clone()),
                _ => None,
            }),
        });
    }
    Ok(Document {
        schema: "offshoot.tree/1",
        agent: doc.inspection.agent,
        session_id: doc.inspection.session_id.clone(),
        transcript: doc.opened.path.display().to_string(),
        records: doc.transcript().records.len() as u64,
        rows,
    })
}
