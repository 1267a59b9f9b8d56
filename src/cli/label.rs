//! `label`: names a branch.

use std::process::ExitCode;

use serde::Serialize;

use super::{
    args::{Global, LabelArgs},
    host, output,
    session::{self, Digest},
};
use crate::{
    record::RecordId,
    refusal::Result,
    resume::session_key,
    store::labels,
    topology::{Tree, resolve_leaf},
};

/// `offshoot.label/1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema: &'static str,
    session_id: String,
    leaf_uuid: RecordId,
    /// Null where the name was taken away.
    label: Option<String>,
    previous: Option<String>,
}

/// Sets the name, or takes it away.
pub fn run(global: &Global, args: &LabelArgs) -> Result<ExitCode> {
    let opened = session::open(global, Some(&args.session), Digest::Skip)?;
    let t = &opened.snapshot.transcript;
    let leaf = t.id(resolve_leaf(t, &Tree::new(t), Some(&args.id))?);
    let state = host::state_dir(global, &host::environment())?;
    let session_id = session_key(t, &opened.path);
    let previous = labels::set(state.root(), opened.dialect.agent(), &session_id, &leaf, &args.text)?;
    let label = Some(args.text.clone()).filter(|text| !text.is_empty());
    if global.json {
        let document = Document { schema: "offshoot.label/1", session_id, leaf_uuid: leaf, label, previous };
        output::json(&document)?;
    } else {
        output::note(
            global,
            &match (label, previous) {
                (Some(label), _) => format!("`{leaf}` is called `{label}`"),
                (None, Some(previous)) => format!("`{leaf}` is no longer called `{previous}`"),
                (None, None) => format!("`{leaf}` had no name"),
            },
        );
    }
    Ok(ExitCode::SUCCESS)
}
