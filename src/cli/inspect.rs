//! `inspect`: leaves, relations, diagnostics, and the client's own pick.

use std::{mem, process::ExitCode};

use jiff::Timestamp;

use super::{
    args::{Global, InspectArgs},
    host,
    output::{self, Paint},
    render,
    session::{self, Digest},
};
use crate::{
    record::Agent,
    refusal::Result,
    resume::{self, AnnotateContext},
    store::{lease, state::StateDir},
    topology::{Branch, Inspection},
};

/// The exit status of a check that found something.
const FOUND: u8 = 5;

/// Prints the inspection; with `--check` judges the client's pick.
pub fn run(global: &Global, args: &InspectArgs) -> Result<ExitCode> {
    let digest = if args.digest { Digest::Compute } else { Digest::Skip };
    let opened = session::open(global, args.session.as_deref(), digest)?;
    let mut inspection = opened.inspect()?;
    recall(global, &opened, &mut inspection)?;
    if global.redact {
        redact(&mut inspection);
    }
    if global.json {
        // There may be as many as there are records.
        let branches = mem::take(&mut inspection.branches);
        output::json_with(&inspection, "branches", &branches)?;
        inspection.branches = branches;
    } else {
        let view = render::View {
            inspection: &inspection,
            transcript: &opened.snapshot.transcript,
            now: Timestamp::now(),
            paint: Paint::stdout(global),
        };
        output::text(&view.page())?;
    }
    let worries = worries(&inspection);
    if args.check {
        for worry in &worries {
            output::stderr_line(&super::text::clean(&format!("check: {worry}")));
        }
        return Ok(ExitCode::from(if worries.is_empty() { 0 } else { FOUND }));
    }
    if !global.json {
        for worry in worries.iter().chain(&sdk_note(&inspection)) {
            output::warn(global, worry);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fills in what the state directory knows of the leaves. Looking at a session needs no state: where there is none,
/// none is made.
pub(super) fn recall(
    global: &Global,
    opened: &session::Opened,
    inspection: &mut Inspection,
) -> Result<Option<AnnotateContext>> {
    let root = match (&global.state_dir, StateDir::default_root(&host::environment())) {
        (Some(dir), _) => dir.clone(),
        (None, Ok(root)) => root,
        (None, Err(_)) => return Ok(None),
    };
    if !root.is_dir() {
        return Ok(None);
    }
    // Entries of other names of the file never count, so a name that has no canonical form has no entries.
    let Ok(path) = lease::canonical(&opened.path) else { return Ok(None) };
    let t = &opened.snapshot.transcript;
    resume::annotate(&root, opened.dialect.agent(), &path, t, inspection).map(Some)
}

/// Takes out every text of the conversation, and what says where it took place.
pub(super) fn redact(inspection: &mut Inspection) {
    for b in &mut inspection.branches {
        b.first_user_text_after_branch_point = None;
        b.last_user_text = None;
        b.last_assistant_text = None;
        b.label = None;
        b.git_branch = None;
        b.cwd = None;
    }
}

/// Why the agent itself would not resume the newest work, or not all of it. Empty if it would.
pub(super) fn worries(inspection: &Inspection) -> Vec<String> {
    let Some(pick) = &inspection.client_pick else {
        return vec!["the client would refuse the file, so that it picks no branch".to_owned()];
    };
    let mut found = Vec::new();
    if let Some(gap) = &pick.gap {
        found.push(format!(
            "the client loses history: its walk ends at `{}`, whose parent `{}` it does not find",
            gap.child_uuid, gap.missing_parent_uuid
        ));
    }
    let picked = pick.leaf_uuid.as_ref().and_then(|leaf| inspection.branch(leaf));
    match (picked, newest(&inspection.branches)) {
        (None, _) if pick.leaf_uuid.is_none() => found.push(format!(
            "the client would continue below `{}`, where no branch ends as it sees the file",
            pick.tail_uuid
        )),
        // Of a family of sessions the client resumes the one that it is asked for, however new another one is.
        (Some(_), _) if inspection.agent == Agent::Reasonix => {}
        (Some(picked), Some(newest)) if time(picked) < time(newest) => found.push(format!(
            "{}the client would resume `{}` (last message {}), but `{}` is newer ({})",
            if pick.pinned { "stale pin: " } else { "" },
            picked.leaf_uuid,
            picked.last_message_at.as_deref().unwrap_or("without a time"),
            newest.leaf_uuid,
            newest.last_message_at.as_deref().unwrap_or("without a time"),
        )),
        _ => {}
    }
    found
}

/// What is no fault of the client's, but surprises whoever looks at the session with the agent's own SDK.
fn sdk_note(inspection: &Inspection) -> Option<String> {
    let pick = inspection.client_pick.as_ref()?;
    let listed = pick.sdk_leaf_uuid.as_ref()?;
    Some(format!(
        "the agent's SDK does not look at pins: it lists the branch of `{listed}`, but the model gets the history of `{}`",
        pick.tail_uuid
    ))
}

fn time(b: &Branch) -> Option<Timestamp> {
    b.last_message_at.as_deref().and_then(|t| t.parse().ok())
}

/// The branch with the newest message; of several the first.
fn newest(branches: &[Branch]) -> Option<&Branch> {
    branches.iter().rev().max_by_key(|b| time(b))
}
