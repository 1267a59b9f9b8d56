//! `audit list`: one line a selection, newest first.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use jiff::Timestamp;
use serde::Serialize;

use super::{moment, scope, state_name, warnings};
use crate::{
    cli::{
        args::{AuditListArgs, Global},
        output::{self, Paint},
        text::{clean, fit, pad, width},
    },
    record::{Agent, RecordId},
    refusal::{Code, Refusal, Result},
    selection::{DecidedBy, DecidedKind, SeedMode},
    store::ledger::{
        Read, Selection,
        entry::{CutRecord, Reason, ReplaceRecord},
        ledgers,
    },
};

const COLUMNS: usize = 80;

/// `offshoot.audit-list/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    selections: Vec<Row>,
    /// What the list cannot show.
    notes: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    operation_id: String,
    agent: Agent,
    session_id: String,
    transcript: String,
    /// When it was decided.
    at: String,
    /// With `superseded` derived.
    state: &'static str,
    /// When it came to that state.
    state_at: String,
    leaf_uuid: Option<RecordId>,
    decided_by: Option<DecidedBy>,
    /// Where a fork cuts, which chooses no leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<CutRecord>,
    seed: Option<Seed>,
    /// Of a truncate or a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    replace: Option<ReplaceRecord>,
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed: Option<String>,
    recovered: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seed {
    mode: SeedMode,
    session_id: String,
    transcript: String,
}

/// Prints the list.
pub fn run(global: &Global, root: &Path, args: &AuditListArgs, now: Timestamp) -> Result<ExitCode> {
    let scope = scope(global, root, args.session.as_deref())?;
    let since = args.since.as_deref().map(|t| moment("--since", t, now)).transpose()?;
    let kind = args.decided_by.as_deref().map(decided_kind).transpose()?;
    let mut document =
        Document { schema: "offshoot.audit-list/1", selections: Vec::new(), notes: Vec::new() };
    for ledger in ledgers(root)? {
        let read = ledger.scan()?;
        if !scope.has(&ledger, &read) {
            continue;
        }
        document.notes.extend(warnings(&ledger, &read));
        for selection in read.all_selections() {
            let row = row(ledger.session_id(), &read, &selection);
            let wanted = scope.transcript.as_ref().is_none_or(|t| *t == row.transcript)
                // An entry whose time cannot be read is shown rather than hidden.
                && since.is_none_or(|since| row.at.parse().map_or(true, |at: Timestamp| at >= since))
                && kind.is_none_or(|k| row.decided_by.as_ref().is_some_and(|d| d.kind == k));
            if wanted {
                document.selections.push(row);
            }
        }
    }
    // Times of equal width sort as text; within one moment the later in its ledger comes first.
    document.selections.reverse();
    document.selections.sort_by(|a, b| b.at.cmp(&a.at));
    if global.json {
        output::json(&document)?;
    } else {
        document.notes.iter().for_each(|note| output::warn(global, note));
        if document.selections.is_empty() {
            output::note(global, "no selection is recorded");
        } else {
            output::text(&table(&document.selections, Paint::stdout(global)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn decided_kind(text: &str) -> Result<DecidedKind> {
    use DecidedKind::{Leaf, OnlyLeaf, Policy, Prompt, Undo};
    let all = [Policy, Prompt, Leaf, OnlyLeaf, Undo];
    all.into_iter().find(|k| k.name() == text).ok_or_else(|| {
        let names = all.map(|k| format!("`{}`", k.name())).join(", ");
        Refusal::new(Code::Usage, format!("nobody decides by `{text}`"))
            .hint(format!("one of {names}"))
            .into()
    })
}

fn row(session: &str, read: &Read, selection: &Selection<'_>) -> Row {
    let entry = selection.pending;
    let body = &entry.body;
    let closing = selection.closing.map(|c| &c.body);
    Row {
        operation_id: body.operation_id.clone(),
        agent: entry.agent,
        session_id: session.to_owned(),
        transcript: body.transcript.clone(),
        at: entry.at.clone(),
        state: state_name(read, selection),
        state_at: selection.last().at.clone(),
        leaf_uuid: body.leaf().cloned(),
        cut: body.cut.clone(),
        decided_by: body.verdict.as_ref().map(|v| v.decided_by.clone()),
        seed: body.seed.as_ref().map(|s| Seed {
            mode: s.mode,
            session_id: s.session_id.clone(),
            transcript: s.transcript.clone(),
        }),
        replace: body.replace.clone(),
        user: body.who.as_ref().map(|w| w.user.clone()),
        reason: closing.and_then(|c| c.reason.clone()),
        observed: selection
            .later
            .iter()
            .rev()
            .find_map(|l| l.body.observed.as_ref())
            .map(|o| o.outcome.clone()),
        recovered: closing.and_then(|c| c.recovered).unwrap_or(false),
    }
}

/// Lines of at most 80 columns. Operation ids come first and are cut only where their beginning still tells them
/// apart, so that `audit show` takes what is shown.
fn table(rows: &[Row], paint: Paint) -> String {
    let ids: Vec<&str> = rows.iter().map(|r| r.operation_id.as_str()).collect();
    let length = telling_length(&ids);
    let cut = |id: &str| clean(&id.chars().take(length).collect::<String>());
    let first = ids.iter().map(|id| width(&cut(id))).chain(["OPERATION".len()]).max().unwrap_or(0);
    let line = |cells: [&str; 7]| {
        let widths = [first, 16, 10, 9, 8, 8, 8];
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, w)| pad(cell, w)).collect();
        fit(padded.join("  ").trim_end(), COLUMNS.max(first))
    };
    let titles = ["OPERATION", "WHEN (UTC)", "STATE", "BY", "SEED", "LEAF", "SESSION"];
    let mut out = String::new();
    let _ = writeln!(out, "{}", paint.dim(&line(titles)));
    for row in rows {
        let id = cut(&row.operation_id);
        let when = row.at.get(..16).unwrap_or(&row.at).replace('T', " ");
        let by = row.decided_by.as_ref().map(|d| d.kind.name()).or(row.cut.as_ref().map(cut_by));
        let by = by.unwrap_or("-");
        let seed = row.seed.as_ref().map(|s| s.mode.name());
        let seed = seed.or_else(|| row.replace.as_ref().map(|r| r.kind.name())).unwrap_or("-");
        let record = row.replace.as_ref().and_then(|r| r.record_uuid.as_ref());
        let leaf = row.leaf_uuid.as_ref().or(record).map_or("-", RecordId::as_str);
        let begin = |id: &str| id.chars().take(8).collect::<String>();
        let _ = writeln!(
            out,
            "{}",
            line([&id, &when, row.state, by, seed, &begin(leaf), &begin(&row.session_id)])
        );
    }
    out
}

/// What a fork that chooses no leaf goes by.
fn cut_by(cut: &CutRecord) -> &'static str {
    if cut.turn_id.is_some() { "turn" } else { "record" }
}

/// The shortest length of at least 8 characters at which different ids differ.
fn telling_length(ids: &[&str]) -> usize {
    let mut sorted: Vec<&str> = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let shared = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    sorted.windows(2).map(|pair| shared(pair[0], pair[1]) + 1).max().unwrap_or(0).max(8)
}
