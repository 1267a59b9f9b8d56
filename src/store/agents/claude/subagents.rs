//! The conversations of a session's subagents, which the client keeps in files of their own.
//!
//! The newer layout has them in `<session id>/subagents/agent-<id>.jsonl`, each with an `agent-<id>.meta.json` that names
//! the call which started it; the older one beside the sessions, where only their records say whose they are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    dialect::{Dialect, claude::Claude},
    record::RecordKind,
    store::{
        agents::qwen::home::entries,
        file::{FileSource, read_small},
    },
    transcript::{Flags, Source, Transcript},
};

/// How much of a conversation is read to see whose it is, and what it is about.
const HEADS: [u64; 2] = [16 * 1024, 256 * 1024];
/// The most bytes of what the client notes of a subagent.
const MOST_NOTED: u64 = 256 * 1024;

/// The conversation of a subagent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subagent {
    /// The file. It is a regular one, and no symlink, as far as was seen.
    pub path: PathBuf,
    /// Its length when it was found.
    pub bytes: u64,
    /// The subagent, by the name of the file.
    pub agent_id: String,
    /// The id of the call that started it.
    pub tool_use_id: Option<String>,
    /// What kind of subagent it is, and what it was started for: text of the conversation.
    pub noted: Option<(String, String)>,
    /// What it was told first: text of the conversation.
    pub prompt: Option<String>,
    /// When that was.
    pub began: Option<String>,
}

/// What the client notes beside the conversation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Noted {
    agent_type: Option<String>,
    description: Option<String>,
    tool_use_id: Option<String>,
}

/// The conversations of the subagents of a session, those that began first first. `transcript` is the session's file,
/// `session_ids` the ids that its records have.
///
/// What cannot be listed or is no regular file is passed over, and so is in the older layout what does not say whose it
/// is: none of this is part of the session that is resumed.
pub fn of(transcript: &Path, session_ids: &[String]) -> Vec<Subagent> {
    let mut found = Vec::new();
    if let Some(folder) = transcript.parent().zip(transcript.file_stem()).map(|(dir, stem)| dir.join(stem)) {
        found.extend(files(&folder.join("subagents")).map(|(agent, path, bytes)| {
            let (head, _) = head(&path);
            Subagent { bytes, ..noted(&path, agent, head) }
        }));
    }
    if let Some(dir) = transcript.parent() {
        found.extend(files(dir).filter_map(|(agent, path, bytes)| {
            let (head, of) = head(&path);
            of.filter(|of| session_ids.contains(of))?;
            Some(Subagent { bytes, ..noted(&path, agent, head) })
        }));
    }
    found.sort_by(|a, b| (&a.began, &a.path).cmp(&(&b.began, &b.path)));
    found
}

/// The files of a folder that are named as such a conversation is: the subagent's id, the path, the length.
fn files(dir: &Path) -> impl Iterator<Item = (String, PathBuf, u64)> {
    entries(dir).unwrap_or_default().into_iter().filter_map(|(name, path)| {
        let agent = name.strip_prefix("agent-")?.strip_suffix(".jsonl")?.to_owned();
        let meta = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((agent, path, meta.len()))
    })
}

fn noted(path: &Path, agent_id: String, head: Head) -> Subagent {
    let beside = path.with_extension("meta.json");
    let regular = fs::symlink_metadata(&beside).is_ok_and(|meta| meta.is_file());
    let bytes = if regular { read_small(&beside, MOST_NOTED).unwrap_or_default() } else { Vec::new() };
    // Of what is damaged or of another form nothing is known, as of what is missing.
    let noted: Noted = serde_json::from_slice(&bytes).unwrap_or_default();
    let of = |text: Option<String>| text.unwrap_or_default();
    let said = noted.agent_type.is_some() || noted.description.is_some();
    Subagent {
        path: path.to_owned(),
        bytes: 0,
        agent_id,
        tool_use_id: noted.tool_use_id,
        noted: said.then(|| (of(noted.agent_type), of(noted.description))),
        prompt: head.prompt,
        began: head.began,
    }
}

/// What the first records say.
#[derive(Default)]
struct Head {
    prompt: Option<String>,
    began: Option<String>,
}

/// The beginning of a conversation, and the session that it belongs to if it says so.
fn head(path: &Path) -> (Head, Option<String>) {
    for most in HEADS {
        let Ok(mut source) = FileSource::open_file(path) else { break };
        let whole = source.len() <= most;
        source.truncate_to(most);
        let Ok(t) = Claude.read(&source) else { break };
        if t.records.is_empty() && !whole {
            continue;
        }
        let aside = t.records.first().is_some_and(|record| record.flags.has(Flags::SIDECHAIN));
        let of = t.session_ids.first().cloned().filter(|_| aside);
        return (told(&t, &source), of);
    }
    (Head::default(), None)
}

fn told(t: &Transcript, source: &FileSource) -> Head {
    let Some(first) = t.records.iter().find(|record| record.kind == RecordKind::User) else {
        return Head::default();
    };
    let Ok(bytes) = source.bytes(first.span) else { return Head::default() };
    let decoded = Claude.decode(&bytes);
    Head { prompt: decoded.texts.into_iter().next(), began: decoded.timestamp }
}
