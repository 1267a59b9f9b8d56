//! `diff`: what each of two branches has that the other lacks.

use std::{fmt::Write as _, process::ExitCode};

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use super::{
    args::{DiffArgs, Global},
    export::lost,
    leaf::{Names, or_missing},
    output::{self, Paint},
    session::{self, Digest, Opened},
    text::{clean, counted, wrap},
};
use crate::{
    reading::{
        Item, Turn, Turns,
        compare::{Side, compare, shared},
        lineage::{Lineage, entry, lineage, with_attached},
    },
    record::{Agent, RecordId},
    refusal::{Error, Result},
    topology::Tree,
    transcript::IdIx,
};

/// `offshoot.diff/1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema: &'static str,
    agent: Agent,
    transcript: String,
    /// The last record that both have; null if they have none in common.
    branch_point_uuid: Option<RecordId>,
    /// Records that both have.
    shared: u64,
    branches: [Branch; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Branch {
    leaf_uuid: RecordId,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(flatten)]
    side: Side,
    /// How many files were touched, with `--redact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_count: Option<usize>,
}

/// Compares two branches.
pub fn run(global: &Global, args: &DiffArgs) -> Result<ExitCode> {
    let (session, names) = args.words.split_at(args.words.len() - 2);
    two(global, session, names)
        .map_err(|e| or_missing(e, session, names, "the second leaf", ["offshoot diff", "LEAF LEAF"]))
}

fn two(global: &Global, session: &[String], names: &[String]) -> Result<ExitCode> {
    let opened = session::open(global, session.first().map(String::as_str), Digest::Skip)?;
    let t = &opened.snapshot.transcript;
    let tree = Tree::new(t);
    let known = Names::of(global, &opened)?;
    let one = known.resolve(&opened, &tree, &names[0])?;
    let other = known.resolve(&opened, &tree, &names[1])?;
    let ways = [lineage(t, one), lineage(t, other)];
    let common = shared(&ways[0].ids, &ways[1].ids);
    let turns = [
        turns(&opened, one, &ways[0], common, (other, &ways[1]))?,
        turns(&opened, other, &ways[1], common, (one, &ways[0]))?,
    ];
    let [first, second] = turns;
    let sides = compare(first, second);
    let mut leaves = [one, other].into_iter();
    let branches = sides.map(|side| {
        let leaf = t.id(leaves.next().expect("BUG: two sides of two leaves"));
        let label = known.label(&leaf).map(str::to_owned);
        if global.redact {
            redacted(leaf, side)
        } else {
            Branch { leaf_uuid: leaf, label, side, file_count: None }
        }
    });
    let document = Document {
        schema: "offshoot.diff/1",
        agent: opened.dialect.agent(),
        transcript: opened.path.display().to_string(),
        branch_point_uuid: common.checked_sub(1).map(|at| t.id(ways[0].ids[at])),
        shared: common as u64,
        branches,
    };
    if global.json {
        output::json(&document)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::text(&page(&document, global, Paint::stdout(global)))?;
    if document.branch_point_uuid.is_none() {
        output::note(global, "the two branches have no record in common");
    }
    for gap in ways.iter().filter_map(|way| way.gap) {
        lost(global, &gap.ids(t));
    }
    if one == other {
        output::note(global, "both name the same branch");
    }
    Ok(ExitCode::SUCCESS)
}

/// The turns of a branch behind the records that both have.
fn turns(
    opened: &Opened,
    leaf: IdIx,
    way: &Lineage,
    common: usize,
    (other_leaf, other): (IdIx, &Lineage),
) -> Result<Vec<Turn>> {
    let (t, source, dialect) = (&opened.snapshot.transcript, &opened.snapshot, opened.dialect);
    let read = |e| Error::io("read", &opened.path)(e);
    // What belongs to the part that both have belongs to neither.
    let beside = with_attached(t, source, dialect, other_leaf, &[], &|_| false).map_err(read)?;
    let theirs: HashSet<IdIx> = other.ids.iter().chain(&beside).copied().collect();
    let ids = with_attached(t, source, dialect, leaf, &way.ids[common..], &|id| theirs.contains(&id))
        .map_err(read)?;
    let (mut made, mut turns) = (Turns::default(), Vec::new());
    for id in ids {
        if let Some(entry) = entry(t, source, dialect, id).map_err(read)? {
            turns.extend(made.push(entry));
        }
    }
    turns.extend(made.end());
    name_results(opened, &way.ids[..common], &mut turns)?;
    Ok(turns)
}

/// Names results whose calls stand in the part that both have; for that it is read backwards, as far as needed.
fn name_results(opened: &Opened, shared: &[IdIx], turns: &mut [Turn]) -> Result<()> {
    let (t, source, dialect) = (&opened.snapshot.transcript, &opened.snapshot, opened.dialect);
    let tools = turns.iter().flat_map(Turn::tools);
    let mut open: HashSet<String> = tools.filter_map(|tool| tool.unnamed().map(str::to_owned)).collect();
    let mut names = HashMap::new();
    for &id in shared.iter().rev() {
        if open.is_empty() {
            break;
        }
        let Some(entry) = entry(t, source, dialect, id).map_err(Error::io("read", &opened.path))? else {
            continue;
        };
        for (id, name) in entry.calls().filter(|(id, _)| open.remove(*id)) {
            names.insert(id.to_owned(), name.to_owned());
        }
    }
    turns.iter_mut().for_each(|turn| turn.name_results(&names));
    Ok(())
}

/// Structure, and no word of the conversation.
fn redacted(leaf_uuid: RecordId, mut side: Side) -> Branch {
    side.turns.iter_mut().for_each(Turn::redact);
    for tools in [&mut side.tools, &mut side.results_without_call] {
        let count = tools.values().sum();
        *tools = if count > 0 { [(String::new(), count)].into() } else { Default::default() };
    }
    let file_count = Some(std::mem::take(&mut side.files).len());
    Branch { leaf_uuid, label: None, side, file_count }
}

/// Wider lines are hard to read, narrower ones are for narrow terminals.
fn columns() -> usize {
    const COLUMNS: usize = 80;
    output::columns(COLUMNS).min(COLUMNS)
}

/// More of a text is only in the JSON form.
const LONGEST: usize = 600;

fn page(document: &Document, global: &Global, paint: Paint) -> String {
    let mut out = String::new();
    match &document.branch_point_uuid {
        Some(at) => {
            let n = document.shared;
            let _ = writeln!(
                out,
                "{}",
                paint.dim(&format!(
                    "{} in common, up to {}",
                    counted(n, "record", "records"),
                    clean(at.as_str())
                ))
            );
        }
        None => drop(writeln!(out, "{}", paint.dim("no record in common"))),
    }
    for (branch, sign) in document.branches.iter().zip(["---", "+++"]) {
        let side = &branch.side;
        let label = branch.label.as_deref().map(|l| format!(" ({l})")).unwrap_or_default();
        let head = format!(
            "{sign} {}{label}: {}, {}",
            branch.leaf_uuid,
            counted(side.turns.iter().filter(|t| t.uuid.is_some()).count() as u64, "turn", "turns"),
            counted(side.records, "record", "records")
        );
        let _ = writeln!(out, "\n{}", paint.bold(&clean(&head)));
        let mut place = 0;
        for turn in &side.turns {
            said(&turn.prompt, ">", side, &mut place, &mut out, paint);
            said(&turn.items, " ", side, &mut place, &mut out, paint);
        }
        for (head, tools, nameless) in
            [("tools ", &side.tools, "tools"), ("result", &side.results_without_call, "of tools")]
        {
            let name = |name: &str| if name.is_empty() { nameless.to_owned() } else { name.to_owned() };
            let mut list: Vec<String> =
                tools.iter().map(|(tool, n)| format!("{} ({n})", name(tool))).collect();
            if let Some(last) = list.last_mut() {
                if head == "result" {
                    last.push_str(", without a call here");
                }
                let _ = writeln!(out, "{head} {}", wrap(&clean(&list.join(", ")), columns() - 7, "       "));
            }
        }
        for file in &side.files {
            let by: Vec<&str> = file.tools.iter().map(String::as_str).collect();
            let both = if file.on_both { ", on both branches" } else { "" };
            let _ = writeln!(out, "file   {} ({}{both})", clean(&file.path), clean(&by.join(", ")));
        }
        if let Some(n) = branch.file_count.filter(|n| *n > 0 && global.redact) {
            let _ = writeln!(out, "files  {n}");
        }
    }
    out
}

fn said(items: &[Item], mark: &str, side: &Side, place: &mut usize, out: &mut String, paint: Paint) {
    for item in items {
        let text = match item {
            Item::Text { text } => {
                *place += 1;
                let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let mut text: String = folded.chars().take(LONGEST).collect();
                if text.len() < folded.len() {
                    text.push_str("...");
                }
                if side.shared_texts.binary_search(&(*place - 1)).is_ok() {
                    text.push_str(" [on both branches]");
                }
                text
            }
            Item::Image => "[image]".to_owned(),
            Item::Binary => "[binary content]".to_owned(),
            _ => continue,
        };
        let text = wrap(&clean(&text), columns() - 2, "  ");
        let line = format!("{mark} {text}");
        let _ = writeln!(out, "{}", if mark == ">" { paint.green(&line) } else { line });
    }
}
