//! The client simulation: what `qwen --resume` would do with exactly these bytes (0.24.4: `loadSession`,
//! `prepareTranscriptRecords`, `walkTranscriptUuidChain`; measured with the client).

use crate::{
    dialect::{Client, Resumed, Simulated},
    topology::Gap,
    transcript::{Flags, RecordIx, Transcript},
};

/// By which rule the client picks.
const RULE: &str = "last conversation record in file order";

pub(super) fn simulate(t: &Transcript, client: &Client) -> Simulated {
    match refusal(t, client) {
        Some(why) => Simulated::Refuses(why),
        None => resume(t, client),
    }
}

/// The client's checks, in its order.
fn refusal(t: &Transcript, client: &Client) -> Option<String> {
    if t.objects == 0 {
        return Some("no saved session found: the file holds no JSON object".into());
    }
    let Some(cwd) = &t.first_cwd else {
        return Some("the client crashes with a TypeError: the first object has no `cwd` string".into());
    };
    if client.project.as_ref().is_some_and(|project| !belongs(cwd, project, client)) {
        return Some("no saved session found: the first object's `cwd` is another project".into());
    }
    if t.session_ids.len() > 1 {
        return Some("the records have more than one session id".into());
    }
    // The client of 0.24.4 does not look for them; what follows them in its format is not known.
    if t.records.iter().any(|r| r.flags.has(Flags::MANAGED)) {
        return Some("a managed session log is another format".into());
    }
    None
}

/// Whether a session is the project's own (`sessionBelongsToCurrentProject`): by its `cwd`, by that of the project
/// whose worktree it is, or by the sidecar that names its directory.
fn belongs(cwd: &str, project: &str, client: &Client) -> bool {
    const WORKTREES: &str = "/.qwen/worktrees/";
    let root = cwd.rfind(WORKTREES).filter(|&at| at > 0).map(|at| &cwd[..at]);
    cwd == project || root == Some(project) || client.runtime_dir.as_deref() == Some(project)
}

fn resume(t: &Transcript, client: &Client) -> Simulated {
    let seen = |r: RecordIx| !t.record(r).flags.has(Flags::UNSEEN);
    let Some(last) = (0..t.records.len() as RecordIx).rev().find(|&r| seen(r)) else {
        return Simulated::Refuses("no saved session found: the file holds no conversation record".into());
    };
    const NONE: RecordIx = RecordIx::MAX;
    // The first record of a uuid among those that the client sees.
    let mut first = vec![NONE; t.ids.len()];
    for (ix, record) in t.records.iter().enumerate() {
        let slot = &mut first[record.id.ix()];
        if *slot == NONE && !record.flags.has(Flags::UNSEEN) {
            *slot = ix as RecordIx;
        }
    }
    // An empty parent is none for the client: its walk stops at what JavaScript takes for false.
    let empty = t.ids.find("");
    let tail = t.record(last).id;
    let mut visited = vec![false; t.ids.len()];
    let (mut history, mut gap, mut cycle) = (Vec::new(), None, false);
    let mut at = tail;
    loop {
        if std::mem::replace(&mut visited[at.ix()], true) {
            cycle = true;
            break;
        }
        history.push(at);
        let parent = t.record(first[at.ix()]).parent.filter(|&p| Some(p) != empty);
        let Some(parent) = parent else { break };
        if first[parent.ix()] == NONE {
            gap = Some(Gap { child: at, missing: parent });
            break;
        }
        at = parent;
    }
    history.reverse();
    let version = client.version.clone().or_else(|| t.client_version.clone()).unwrap_or_default();
    Simulated::Resumes(Resumed {
        tail,
        history,
        gap,
        cycle,
        rule: RULE.into(),
        version,
        pinned: false,
        unpinned: None,
        grows: true,
    })
}
