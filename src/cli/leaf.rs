//! `LEAF`: a leaf by its id, by a prefix of it, or by the name that a person gave it.

use std::path::Path;

use serde_json::json;

use super::{args::Global, host, session::Opened};
use crate::{
    record::RecordId,
    refusal::{Code, Error, Refusal, Result},
    resume::session_key,
    store::labels,
    topology::{Tree, grown_from, resolve_leaf},
    transcript::IdIx,
};

/// Where a call without a session failed because its first word was meant for one, says what is missing instead. `usage`
/// is the call as it should be, behind the session.
pub fn or_missing(error: Error, session: &[String], words: &[String], what: &str, usage: [&str; 2]) -> Error {
    let unresolved = matches!(
        error.refusal(),
        Some(Code::SessionUnknown | Code::SessionAmbiguous | Code::LeafUnknown | Code::AgentUnknown)
    );
    match words.first() {
        Some(word) if unresolved && session.is_empty() && Path::new(word).exists() => {
            let [before, behind] = usage;
            Refusal::new(Code::Usage, format!("{what} is missing: `{word}` is where a session lies"))
                .hint(format!("`{before} {word} {behind}`; `offshoot inspect {word}` shows the leaves"))
                .into()
        }
        _ => error,
    }
}

/// Leaves of one session, with their names.
pub struct Names {
    labels: std::collections::BTreeMap<RecordId, String>,
}

impl Names {
    /// The labels of a session.
    ///
    /// # Errors
    /// Those of the state directory.
    pub fn of(global: &Global, opened: &Opened) -> Result<Names> {
        let state = host::state_dir(global, &host::environment())?;
        let session = session_key(&opened.snapshot.transcript, &opened.path);
        Ok(Names { labels: labels::read(state.root(), opened.dialect.agent(), &session)? })
    }

    /// The label of a leaf.
    pub fn label(&self, leaf: &RecordId) -> Option<&str> {
        self.labels.get(leaf).map(String::as_str)
    }

    /// The leaf that is meant: an id first, then a label, then a prefix of an id.
    ///
    /// # Errors
    /// As for [`resolve_leaf`]; `id-ambiguous` if several branches have that name.
    pub fn resolve(&self, opened: &Opened, tree: &Tree<'_>, name: &str) -> Result<IdIx> {
        let t = &opened.snapshot.transcript;
        let is_id = t.ids.find(name).is_some_and(|id| t.first(id).is_some());
        let named = self.labels.iter().filter(|(_, label)| label.as_str() == name);
        let named: Vec<RecordId> = named.filter_map(|(leaf, _)| grown_from(t, tree, leaf)).collect();
        match &named[..] {
            [] => resolve_leaf(t, tree, Some(name)),
            _ if is_id => resolve_leaf(t, tree, Some(name)),
            [leaf] => resolve_leaf(t, tree, Some(leaf.as_str())),
            several => {
                let message = format!("{} branches are called `{name}`", several.len());
                Err(Refusal::new(Code::IdAmbiguous, message)
                    .hint("name one by its id")
                    .detail(json!({"leaves": several}))
                    .into())
            }
        }
    }
}
