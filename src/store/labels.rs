//! The person's names for branches, `labels/<agent>/<session>.json`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    record::{Agent, RecordId},
    refusal::{Code, Fault, FaultCode, Refusal, Result},
    store::{
        ledger::session_file_name,
        private::{self, Clobber, Lock},
    },
};

/// The longest label, in characters.
pub const LONGEST: usize = 100;
/// The most labels of one session.
pub const MOST: usize = 10_000;

const SCHEMA: &str = "offshoot.labels/1";

#[derive(Serialize, Deserialize)]
struct LabelFile {
    schema: String,
    labels: BTreeMap<RecordId, String>,
}

fn path_of(root: &Path, agent: Agent, session: &str) -> PathBuf {
    root.join("labels").join(agent.name()).join(format!("{}.json", session_file_name(session)))
}

/// The labels of a session, by leaf.
///
/// # Errors
/// `io`, `unsafe-path`; `damaged` if the file is not one of labels.
pub fn read(root: &Path, agent: Agent, session: &str) -> Result<BTreeMap<RecordId, String>> {
    let path = path_of(root, agent, session);
    let Some(bytes) = private::read(&path)? else { return Ok(BTreeMap::new()) };
    let file = serde_json::from_slice::<LabelFile>(&bytes).ok();
    // Whoever edits the file by hand is held to the same limits: labels are shown, and policies read them.
    match file {
        Some(file)
            if file.schema == SCHEMA
                && file.labels.len() <= MOST
                && file.labels.values().all(|text| check(text).is_ok()) =>
        {
            Ok(file.labels)
        }
        _ => Err(Fault::new(FaultCode::Damaged, format!("`{}` is not a file of labels", path.display()))
            .detail(json!({"path": path.display().to_string()}))
            .into()),
    }
}

/// Names a leaf; an empty text takes the name away. Returns the name that it had. Durable when it returns.
///
/// # Errors
/// `usage` for a text that is too long or holds control characters, or for too many labels; `io`, `unsafe-path`,
/// `damaged`.
pub fn set(root: &Path, agent: Agent, session: &str, leaf: &RecordId, text: &str) -> Result<Option<String>> {
    if !text.is_empty() {
        check(text)?;
    }
    let path = path_of(root, agent, session);
    private::ensure_below(root, Path::new("labels").join(agent.name()))?;
    // Two people who name two leaves at once both keep their name.
    let _lock = Lock::short(&path.with_extension("json.lock"))?;
    let mut labels = read(root, agent, session)?;
    let before = if text.is_empty() {
        labels.remove(leaf)
    } else {
        if labels.len() >= MOST && !labels.contains_key(leaf) {
            let message = format!("the session has {MOST} labels already");
            return Err(Refusal::new(Code::Usage, message).hint("remove some with an empty text").into());
        }
        labels.insert(leaf.clone(), text.to_owned())
    };
    let file = LabelFile { schema: SCHEMA.to_owned(), labels };
    let mut bytes = serde_json::to_vec(&file).expect("BUG: labels are always JSON");
    bytes.push(b'\n');
    private::publish(&path, &bytes, Clobber::Replace)?;
    Ok(before)
}

fn check(text: &str) -> Result<()> {
    let refuse = |why: String| Err(Refusal::new(Code::Usage, why).into());
    if text.trim().is_empty() {
        return refuse("a label cannot be blank".to_owned());
    }
    if text.chars().count() > LONGEST {
        return refuse(format!("a label has at most {LONGEST} characters"));
    }
    if text.chars().any(|c| c.is_control() || is_bidi_control(c)) {
        return refuse("a label cannot hold control characters".to_owned());
    }
    Ok(())
}

fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_set_replaced_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (a, b) = (RecordId::from("a"), RecordId::from("b"));
        assert!(read(root, Agent::Qwen, "../s").unwrap().is_empty());
        assert_eq!(set(root, Agent::Qwen, "../s", &a, "first").unwrap(), None);
        assert_eq!(set(root, Agent::Qwen, "../s", &b, "zweitér ✓").unwrap(), None);
        assert_eq!(set(root, Agent::Qwen, "../s", &a, "again").unwrap().as_deref(), Some("first"));
        let labels = read(root, Agent::Qwen, "../s").unwrap();
        assert_eq!(labels, BTreeMap::from([(a.clone(), "again".into()), (b, "zweitér ✓".into())]));
        assert!(read(root, Agent::Qwen, "s").unwrap().is_empty(), "another session has its own");
        assert_eq!(set(root, Agent::Qwen, "../s", &a, "").unwrap().as_deref(), Some("again"));
        assert_eq!(set(root, Agent::Qwen, "../s", &a, "").unwrap(), None);
        assert_eq!(read(root, Agent::Qwen, "../s").unwrap().len(), 1);
    }

    #[test]
    fn hostile_labels_are_refused_and_foreign_files_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let leaf = RecordId::from("a");
        for bad in [" ", "a\n", "\x1b[31m", "\u{9b}", "\u{202e}x", &"x".repeat(LONGEST + 1)] {
            let e = set(root, Agent::Qwen, "s", &leaf, bad).unwrap_err();
            assert_eq!(e.refusal(), Some(Code::Usage), "{bad:?}");
        }
        assert!(read(root, Agent::Qwen, "s").unwrap().is_empty());
        set(root, Agent::Qwen, "s", &leaf, &"é".repeat(LONGEST)).unwrap();
        let path = path_of(root, Agent::Qwen, "s");
        for bad in ["{}", "", r#"{"schema":"offshoot.labels/1","labels":{"a":"\u001b"}}"#] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(read(root, Agent::Qwen, "s").unwrap_err().code(), "damaged");
            let e = set(root, Agent::Qwen, "s", &leaf, "x").unwrap_err();
            assert_eq!(e.code(), "damaged", "what we do not understand is not overwritten");
        }
    }
}
