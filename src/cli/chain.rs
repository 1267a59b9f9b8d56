//! `chain`: the ordered chain of a leaf, with gaps.

use std::{fmt::Write as _, process::ExitCode};

use serde::Serialize;

use super::{
    args::{ChainArgs, Global},
    output,
    session::{self, Digest},
    text::clean,
};
use crate::{
    record::RecordId,
    refusal::{Error, Result},
    topology::{GapIds, Tree, build_ordered_uuid_chain, resolve_leaf},
};

/// `offshoot.chain/1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema: &'static str,
    leaf_uuid: RecordId,
    /// Root first.
    uuids: Vec<RecordId>,
    gaps: Vec<GapIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycle_uuid: Option<RecordId>,
    /// What a fork adds to the chain, in file order.
    attached: Vec<RecordId>,
}

/// Prints the chain.
pub fn run(global: &Global, args: &ChainArgs) -> Result<ExitCode> {
    let opened = session::open(global, args.session.as_deref(), Digest::Skip)?;
    let t = &opened.snapshot.transcript;
    let leaf = resolve_leaf(t, &Tree::new(t), args.leaf.as_deref())?;
    let chain = build_ordered_uuid_chain(t, leaf);
    let attached =
        opened.dialect.attached(t, &opened.snapshot, &chain).map_err(Error::io("read", &opened.path))?;
    let document = Document {
        schema: "offshoot.chain/1",
        leaf_uuid: t.id(leaf),
        uuids: chain.uuids.iter().map(|&id| t.id(id)).collect(),
        gaps: chain.gaps.iter().map(|gap| gap.ids(t)).collect(),
        cycle_uuid: chain.cycle.map(|id| t.id(id)),
        attached: attached.into_iter().map(|id| t.id(id)).collect(),
    };
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&lines(&document))?;
        for gap in &document.gaps {
            let (child, missing) = (&gap.child_uuid, &gap.missing_parent_uuid);
            output::warn(
                global,
                &format!("the chain begins at a gap: the parent `{missing}` of `{child}` is in no record"),
            );
        }
        if let Some(at) = &document.cycle_uuid {
            output::warn(global, &format!("the parents of the chain form a ring at `{at}`"));
        }
        if !document.attached.is_empty() {
            output::note(global, &format!("a fork also takes {} side records", document.attached.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// One uuid a line, root first.
fn lines(document: &Document) -> String {
    document.uuids.iter().fold(String::new(), |mut text, id| {
        let _ = writeln!(text, "{}", clean(id.as_str()));
        text
    })
}
