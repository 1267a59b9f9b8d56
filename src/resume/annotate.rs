//! What the state directory knows of the leaves: the recorded one, names, and children they went on in.

use std::{collections::BTreeMap, path::Path};

use crate::{
    dialect,
    record::{Agent, RecordId, RecordKind},
    refusal::Result,
    resume::line,
    selection::SeedMode,
    store::{file::FileSource, labels, ledger::Ledger, ledger::Read},
    topology::{ContinuedIn, Inspection, Tree, grown_from},
    transcript::{Flags, Transcript},
};

/// What is read of the state directory for one transcript.
#[derive(Debug)]
pub struct Context {
    /// The session's ledger.
    pub ledger: Ledger,
    /// Its entries.
    pub read: Read,
    /// Names by leaf.
    pub labels: BTreeMap<RecordId, String>,
    /// The recorded leaf.
    pub recorded: Option<RecordId>,
}

/// Fills in `recorded`, `label` and `continuedIn` of all branches.
///
/// A leaf is recorded when the last completed selection of this transcript chose it, or chose an ancestor of
/// it from which exactly this one leaf has grown since.
///
/// # Errors
/// Faults of the ledger and the labels. A child that cannot be read counts as gone.
pub fn annotate(
    root: &Path,
    agent: Agent,
    path: &Path,
    t: &Transcript,
    inspection: &mut Inspection,
) -> Result<Context> {
    let session = session_key(t, path);
    let ledger = Ledger::open(root, agent, &session);
    let read = ledger.read()?;
    let labels = labels::read(root, agent, &session)?;
    let canonical = path.display().to_string();
    let recorded = read
        .latest_completed(&canonical)
        .and_then(|s| s.pending.body.verdict.as_ref().map(|v| v.leaf_uuid.clone()))
        .and_then(|leaf| grown_from(t, &Tree::new(t), &leaf));
    let mut children: BTreeMap<RecordId, (String, String)> = BTreeMap::new();
    for selection in read.selections(&canonical).iter().filter(|s| s.is_completed()) {
        let body = &selection.pending.body;
        if let (Some(verdict), Some(seed)) = (&body.verdict, &body.seed)
            && seed.mode == SeedMode::Fork
            && line::still_ends(agent, t, &verdict.leaf_uuid, seed)
        {
            let child = (seed.session_id.clone(), seed.transcript.clone());
            children.insert(verdict.leaf_uuid.clone(), child);
        }
    }
    for branch in &mut inspection.branches {
        branch.recorded = recorded.as_ref() == Some(&branch.leaf_uuid);
        branch.label = labels.get(&branch.leaf_uuid).cloned();
        if let Some((session_id, path)) = children.remove(&branch.leaf_uuid)
            && let Some(turns) = new_turns(agent, Path::new(&path), t)
        {
            branch.continued_in = Some(ContinuedIn { session_id, turns });
        }
    }
    Ok(Context { ledger, read, labels, recorded })
}

/// The id under which a session's ledger and labels are kept: its records' session id, else the file's name.
pub fn session_key(t: &Transcript, path: &Path) -> String {
    match t.session_ids.first() {
        Some(id) => id.clone(),
        None => path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default(),
    }
}

/// How many prompts a child has that its parent does not; none if the child cannot be read.
fn new_turns(agent: Agent, child: &Path, parent: &Transcript) -> Option<u64> {
    let source = FileSource::open_alone(child).ok()?;
    let t = dialect::of(agent).read(&source).ok()?;
    let is_new = |id| parent.ids.find(&t.ids.text(id)).and_then(|ix| parent.first(ix)).is_none();
    let prompts = t.records.iter().filter(|r| r.kind == RecordKind::User && !r.flags.has(Flags::SYNTHETIC));
    Some(prompts.filter(|r| is_new(r.id)).count() as u64)
}
