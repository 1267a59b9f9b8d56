//! An inspection for people: a table of 80 columns, then what the client would do, then diagnostics.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{
    output::Paint,
    prompt::{age, fit_id, short_ids},
    text::{counted, fit, pad, session_name, width, wrap},
};
use crate::{
    record::{Classification, RecordId, Turn},
    topology::{Branch, Counts, Inspection, TopologyDiagnostic},
    transcript::{LineDiagnostic, Transcript},
};

const COLUMNS: usize = 80;
/// Ids that need more stand on a line of their own.
const ID_COLUMNS: usize = 12;

/// What is shown, and by which clock.
pub struct View<'a> {
    /// The branches.
    pub inspection: &'a Inspection,
    /// For line numbers.
    pub transcript: &'a Transcript,
    /// Ages are counted back from here.
    pub now: Timestamp,
    /// Colours.
    pub paint: Paint,
}

impl View<'_> {
    /// The whole page.
    pub fn page(&self) -> String {
        let mut out = self.heading();
        if !self.inspection.branches.is_empty() {
            out.push('\n');
            self.table(&mut out);
        }
        out.push('\n');
        out += &self.pick();
        if !self.inspection.diagnostics.is_empty() {
            out.push('\n');
            self.diagnostics(&mut out);
        }
        out
    }

    fn heading(&self) -> String {
        let Inspection { agent, session_id, snapshot, branches, .. } = self.inspection;
        let session = session_name(session_id);
        let torn = if snapshot.torn_tail { ", a torn last line" } else { "" };
        let mut out = self.paint.bold(&fit(&format!("{session} ({agent})"), COLUMNS));
        let _ = write!(
            out,
            "\n{}, {}{torn}\n",
            counted(branches.len() as u64, "branch", "branches"),
            counted(snapshot.records, "record", "records")
        );
        if let Some(digest) = &snapshot.digest {
            let _ = writeln!(out, "{}", fit(digest, COLUMNS));
        }
        out
    }

    fn table(&self, out: &mut String) {
        let branches = &self.inspection.branches;
        let ids = short_ids(branches);
        let rows: Vec<[String; 6]> = branches.iter().zip(&ids).map(|(b, id)| self.row(b, id)).collect();
        let titles = ["LEAF", "RELATION", "LAST MSG", "SINCE BRANCH", "TOTAL", "TURN"];
        let mut widths = titles.map(width);
        for row in &rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(cell));
            }
        }
        widths[0] = widths[0].min(ID_COLUMNS);
        let line = |cells: &[&str]| {
            let cells: Vec<String> = cells.iter().zip(widths).map(|(c, w)| pad(c, w)).collect();
            fit(&cells.join("  "), COLUMNS - 2).trim_end().to_owned()
        };
        let _ = writeln!(out, "  {}", self.paint.dim(&line(&titles)));
        for (b, row) in branches.iter().zip(&rows) {
            let mark = if b.client_pick { self.paint.green(">") } else { " ".to_owned() };
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            if width(&row[0]) > ID_COLUMNS {
                let _ = writeln!(out, "{mark} {}", self.paint.bold(&fit(&row[0], COLUMNS - 2)));
                cells[0] = "";
                let _ = writeln!(out, "  {}", line(&cells));
            } else {
                let _ = writeln!(out, "{mark} {}", line(&cells));
            }
            for detail in details(b) {
                let _ = writeln!(out, "    {}", fit(&detail, COLUMNS - 4));
            }
        }
    }

    fn row(&self, b: &Branch, short_id: &str) -> [String; 6] {
        let at = b.last_message_at.as_deref().and_then(|t| t.parse().ok());
        [
            super::text::clean(short_id),
            relation(b.classification).to_owned(),
            age(at, self.now),
            messages(&b.distinct_counts),
            messages(&b.record_counts),
            turn(b.turn).to_owned(),
        ]
    }

    fn pick(&self) -> String {
        let Some(pick) = &self.inspection.client_pick else {
            return wrap("The client would refuse this file.", COLUMNS, "") + "\n";
        };
        let version = match pick.client_version.as_str() {
            "" => "The client".to_owned(),
            v => format!("The client ({} {v})", self.inspection.agent),
        };
        let what = match &pick.leaf_uuid {
            Some(leaf) if *leaf == pick.tail_uuid => format!("resume {leaf}"),
            Some(leaf) => format!("resume {leaf}, below {}", pick.tail_uuid),
            None => format!("continue below {}, which is no leaf for it", pick.tail_uuid),
        };
        let records = counted(pick.records, "record", "records");
        wrap(&format!("{version} would {what} with {records} of history: {}.", pick.rule), COLUMNS, "  ")
            + "\n"
    }

    fn diagnostics(&self, out: &mut String) {
        /// As many as can be read at a glance; the branches above them must not scroll away.
        const SHOWN: usize = 30;
        let all = &self.inspection.diagnostics;
        for d in all.iter().take(SHOWN) {
            let (line, text) = self.diagnostic(d);
            let at = line.map(|l| format!("line {l}: ")).unwrap_or_default();
            let _ = writeln!(out, "{}", wrap(&format!("{at}{text}"), COLUMNS, "  "));
        }
        if all.len() > SHOWN {
            let _ = writeln!(out, "and {} more; --json lists them all", all.len() - SHOWN);
        }
    }

    fn diagnostic(&self, d: &TopologyDiagnostic) -> (Option<u64>, String) {
        /// Long lists are told by their beginning.
        const SHOWN: usize = 4;
        let some = |ids: &[&str]| {
            let more = ids.len().saturating_sub(SHOWN);
            let shown = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
            if more > 0 { format!("{shown} and {more} more") } else { shown }
        };
        match d {
            TopologyDiagnostic::MissingParent { child_uuid, missing_parent_uuid } => (
                self.line_of(child_uuid),
                format!(
                    "missing-parent: the chain of `{child_uuid}` begins here, its parent \
                     `{missing_parent_uuid}` is in no record"
                ),
            ),
            TopologyDiagnostic::ConflictingParent { uuid, parent_uuids } => {
                let parents: Vec<&str> =
                    parent_uuids.iter().map(|p| p.as_ref().map_or("null", RecordId::as_str)).collect();
                let counts = if self.transcript.last_wins { "last" } else { "first" };
                (
                    self.line_of(uuid),
                    format!(
                        "conflicting-parent: records of `{uuid}` name {}; the {counts} counts",
                        some(&parents)
                    ),
                )
            }
            TopologyDiagnostic::ParentCycle { uuids } => {
                let ids: Vec<&str> = uuids.iter().map(RecordId::as_str).collect();
                (uuids.first().and_then(|u| self.line_of(u)), format!("parent-cycle: {}", some(&ids)))
            }
            TopologyDiagnostic::Line(LineDiagnostic::MalformedLine { line, reason }) => {
                (Some(*line), format!("malformed-line: {reason}"))
            }
            TopologyDiagnostic::Line(LineDiagnostic::TornTail { line, bytes }) => {
                (Some(*line), format!("torn-tail: {} not read", counted(*bytes, "byte", "bytes")))
            }
            TopologyDiagnostic::Line(LineDiagnostic::SkippedRecord { line, reason }) => {
                (Some(*line), format!("skipped-record: {reason}"))
            }
            TopologyDiagnostic::Line(LineDiagnostic::GluedRecords { line, records }) => {
                (Some(*line), format!("glued-records: {records} records on one line"))
            }
        }
    }

    /// The line of a uuid's first record.
    fn line_of(&self, id: &RecordId) -> Option<u64> {
        let t = self.transcript;
        t.ids.find(id.as_str()).and_then(|ix| t.first(ix)).map(|r| u64::from(t.line(r)))
    }
}

/// Marks and texts of a branch, one a line; only what there is.
fn details(b: &Branch) -> Vec<String> {
    let mut marks = Vec::new();
    marks.extend(b.label.as_ref().map(|l| format!("\"{l}\"")));
    marks.extend(b.client_pick.then(|| "the client's own pick".to_owned()));
    marks.extend(b.recorded.then(|| "recorded".to_owned()));
    marks.extend(b.continued_in.as_ref().map(|c| {
        format!("continued in {} ({})", fit_id(&c.session_id), counted(c.turns, "new prompt", "new prompts"))
    }));
    if b.interleaved_count > 0 {
        marks.push(format!("written in turns with {}", counted(b.interleaved_count, "other", "others")));
    }
    let mut lines = Vec::new();
    lines.extend((!marks.is_empty()).then(|| marks.join(", ")));
    lines.extend(b.first_user_text_after_branch_point.as_ref().map(|t| format!("first prompt: {t}")));
    lines.extend(b.last_assistant_text.as_ref().map(|t| format!("last reply:   {t}")));
    lines
}

fn relation(c: Classification) -> &'static str {
    match c {
        Classification::Ordinary => "ordinary",
        Classification::RewindDescendant => "after rewind",
        Classification::RewindSibling => "beside rewind",
        Classification::MixedRewind => "mixed rewind",
    }
}

fn turn(t: Turn) -> &'static str {
    match t {
        Turn::Complete => "complete",
        Turn::OpenToolCall => "open call",
        Turn::AwaitingReply => "no reply",
        Turn::None => "none",
    }
}

fn messages(c: &Counts) -> String {
    format!("{}u {}a", c.user, c.assistant)
}
