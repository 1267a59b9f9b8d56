//! The session that is probed: a prompt and its reply, then two branches below, in the format of each agent.

use std::path::Path;

use serde_json::{Value, json};

use crate::{dialect::derived_uuid, record::Agent};

/// What is said before the branches.
pub(super) const ROOT: [&str; 2] = ["PROBE-ROOT-Q", "PROBE-ROOT-A"];
/// What is said on the first branch.
pub(super) const ONE: [&str; 2] = ["PROBE-ONE-Q", "PROBE-ONE-A"];
/// What is said on the second branch, behind the first one in the file, but at an earlier time.
pub(super) const TWO: [&str; 2] = ["PROBE-TWO-Q", "PROBE-TWO-A"];
/// The prompt that the client is given.
pub(super) const NEXT: &str = "PROBE-NEXT";
/// All of them. None is part of another.
pub(super) const WORDS: [&str; 7] = [ROOT[0], ROOT[1], ONE[0], ONE[1], TWO[0], TWO[1], NEXT];
/// What the model replies.
pub(super) const REPLY: &str = "PROBE-REPLY";

/// What the client is to pick from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Two branches.
    Plain,
    /// A pin of the first branch before the second one was written.
    Pinned,
}

impl Variant {
    pub fn of(agent: Agent) -> &'static [Variant] {
        match agent {
            Agent::Claude => &[Variant::Plain, Variant::Pinned],
            _ => &[Variant::Plain],
        }
    }

    pub fn behaviour(self) -> &'static str {
        match self {
            Variant::Plain => "pick",
            Variant::Pinned => "pick-pinned",
        }
    }

    pub fn believed(self) -> &'static str {
        match self {
            Variant::Plain => "of two branches it takes the one that `inspect` says",
            Variant::Pinned => "with a pin on one of them too",
        }
    }
}

/// A session, with the uuids of the leaves of both branches.
pub(super) struct Session {
    pub id: String,
    pub leaves: [String; 2],
    pub text: String,
}

impl Session {
    /// `number` tells the sessions of one probe apart.
    pub fn new(agent: Agent, number: usize, variant: Variant, cwd: &Path, version: &str) -> Session {
        let id = derived_uuid("probe", agent, "session", &number.to_string());
        let at = |word: &str| derived_uuid("probe", agent, &id, word);
        let mut text = String::new();
        let turns = [(ROOT, None, 0), (ONE, Some(ROOT[1]), 40), (TWO, Some(ROOT[1]), 20)];
        for (words, below, minute) in turns {
            for (word, parent, second) in [(words[0], below, 0), (words[1], Some(words[0]), 5)] {
                let mut record = json!({"parentUuid": parent.map(at), "uuid": at(word), "sessionId": id, "cwd": cwd,
                    "timestamp": format!("2026-01-01T00:{minute:02}:{second:02}.000Z"), "version": version});
                let more = said(agent, word, second > 0, &at(word));
                if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
                    record.extend(more);
                }
                text += &format!("{record}\n");
            }
            if words == ONE && variant == Variant::Pinned {
                let pin = json!({"type": "last-prompt", "lastPrompt": ONE[0], "leafUuid": at(ONE[1]), "sessionId": id});
                text += &format!("{pin}\n");
            }
        }
        Session { leaves: [at(ONE[1]), at(TWO[1])], text, id }
    }
}

/// What a record has by its format.
fn said(agent: Agent, word: &str, reply: bool, uuid: &str) -> Value {
    match (agent, reply) {
        (Agent::Claude, false) => json!({"isSidechain": false, "type": "user", "userType": "external",
            "entrypoint": "sdk-cli", "gitBranch": "HEAD", "message": {"role": "user", "content": word}}),
        (Agent::Claude, true) => json!({"isSidechain": false, "type": "assistant", "userType": "external",
            "entrypoint": "sdk-cli", "gitBranch": "HEAD", "requestId": format!("req_{uuid}"),
            "message": {"id": format!("msg_{uuid}"), "type": "message", "role": "assistant", "model": "mock-model",
                "content": [{"type": "text", "text": word}], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 5, "output_tokens": 5}}}),
        (_, false) => json!({"type": "user", "provenance": "real_user",
            "message": {"role": "user", "parts": [{"text": word}]}}),
        (_, true) => json!({"type": "assistant", "provenance": "assistant_output", "model": "mock-model",
            "message": {"role": "model", "parts": [{"text": word}]}}),
    }
}
