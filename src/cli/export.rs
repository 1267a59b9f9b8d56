//! `export`: one branch as Markdown or JSON, turn by turn.

use std::{io::Write, path::Path, process::ExitCode};

use serde::Serialize;

use super::{
    args::{ExportArgs, ExportFormat, Global},
    leaf::{Names, or_missing},
    output,
    session::{self, Digest, Opened},
};
use crate::{
    reading::{
        Turn, Turns,
        lineage::{entry, lineage, with_attached},
        markdown,
    },
    record::{Agent, RecordId},
    refusal::{Error, Result},
    resume::session_key,
    topology::{GapIds, Tree},
    transcript::IdIx,
};

/// `offshoot.export/1`, but for the turns, which follow one by one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    schema: &'static str,
    agent: Agent,
    session_id: String,
    transcript: String,
    leaf_uuid: RecordId,
    label: Option<String>,
    /// Records of the branch, with what belongs to it beside its chain.
    records: u64,
    /// Where the branch begins at a parent that is in no record.
    gap: Option<GapIds>,
}

/// Prints the branch.
pub fn run(global: &Global, args: &ExportArgs) -> Result<ExitCode> {
    let (session, name) = args.words.split_at(args.words.len() - 1);
    branch(global, args, session, &name[0])
        .map_err(|e| or_missing(e, session, name, "a leaf", ["offshoot export", "LEAF"]))
}

fn branch(global: &Global, args: &ExportArgs, session: &[String], name: &str) -> Result<ExitCode> {
    let opened = session::open(global, session.first().map(String::as_str), Digest::Skip)?;
    let t = &opened.snapshot.transcript;
    let known = Names::of(global, &opened)?;
    let leaf = known.resolve(&opened, &Tree::new(t), name)?;
    let way = lineage(t, leaf);
    let on_way: hashbrown::HashSet<IdIx> = way.ids.iter().copied().collect();
    let ids = with_attached(t, &opened.snapshot, opened.dialect, leaf, &way.ids, &|id| on_way.contains(&id))
        .map_err(Error::io("read", &opened.path))?;
    let leaf_uuid = t.id(leaf);
    let head = Head {
        schema: "offshoot.export/1",
        agent: opened.dialect.agent(),
        session_id: session_key(t, &opened.path),
        transcript: opened.path.display().to_string(),
        label: known.label(&leaf_uuid).filter(|_| !global.redact).map(str::to_owned),
        leaf_uuid,
        records: ids.len() as u64,
        gap: way.gap.map(|gap| gap.ids(t)),
    };
    if let Some(gap) = &head.gap {
        lost(global, gap);
    }
    let json = global.json || args.format == ExportFormat::Json;
    output::stream(|out| {
        if json {
            as_json(global, &opened, &ids, &head, out)
        } else {
            as_markdown(global, &opened, &ids, &head, out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Says that a branch begins at a gap.
pub(super) fn lost(global: &Global, gap: &GapIds) {
    let (child, missing) = (&gap.child_uuid, &gap.missing_parent_uuid);
    output::warn(
        global,
        &format!("the parent `{missing}` of `{child}` is in no record; what stood before is lost"),
    );
}

/// Calls `take` for each turn, with its number from 1; what stands before the first prompt is number 0.
fn each_turn(
    global: &Global,
    opened: &Opened,
    ids: &[IdIx],
    take: &mut dyn FnMut(&Turn, usize) -> Result<()>,
) -> Result<()> {
    let (mut made, mut number) = (Turns::default(), 0);
    let mut give = |mut turn: Turn| {
        number += usize::from(turn.uuid.is_some());
        if global.redact {
            turn.redact();
        }
        take(&turn, number)
    };
    for &id in ids {
        let read = entry(&opened.snapshot.transcript, &opened.snapshot, opened.dialect, id);
        if let Some(entry) = read.map_err(Error::io("read", &opened.path))? {
            made.push(entry).map_or(Ok(()), &mut give)?;
        }
    }
    made.end().map_or(Ok(()), give)
}

fn written<T>(result: std::io::Result<T>) -> Result<T> {
    result.map_err(output::stdout_fault)
}

/// The head's members, then `turns`.
fn as_json(global: &Global, opened: &Opened, ids: &[IdIx], head: &Head, out: &mut dyn Write) -> Result<()> {
    let mut bytes = Vec::new();
    written(output::write_json(&mut bytes, head))?;
    bytes.pop();
    written(out.write_all(&bytes).and_then(|()| out.write_all(b",\"turns\":[")))?;
    let mut first = true;
    each_turn(global, opened, ids, &mut |turn, _| {
        if !std::mem::take(&mut first) {
            written(out.write_all(b","))?;
        }
        written(output::write_json(out, turn))
    })?;
    written(out.write_all(b"]}\n"))
}

fn as_markdown(
    global: &Global,
    opened: &Opened,
    ids: &[IdIx],
    head: &Head,
    out: &mut dyn Write,
) -> Result<()> {
    let name = match &head.label {
        Some(label) => markdown::plain(label, 100),
        None => format!("branch {}", markdown::plain(head.leaf_uuid.as_str(), 100)),
    };
    let file = Path::new(&head.transcript).file_name().unwrap_or_default().to_string_lossy().into_owned();
    written(writeln!(
        out,
        "# {} session {}, {name}\n\n{} records to {} of {}.\n",
        head.agent.name(),
        markdown::plain(&head.session_id, 100),
        head.records,
        markdown::plain(head.leaf_uuid.as_str(), 100),
        markdown::plain(&file, 200)
    ))?;
    if let Some(gap) = &head.gap {
        let missing = markdown::plain(gap.missing_parent_uuid.as_str(), 100);
        written(writeln!(out, "What stood before {missing} is lost: no record has that id.\n"))?;
    }
    each_turn(global, opened, ids, &mut |turn, number| {
        written(out.write_all(markdown::turn(turn, number).as_bytes()))
    })
}
