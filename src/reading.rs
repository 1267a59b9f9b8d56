//! A branch as a person reads it: turns, with what was said, which tools ran, and which files they name. Pure.
//!
//! # Files
//!
//! A file counts as touched where a tool call names it in its arguments: as a member called `file_path`,
//! `absolute_path`, `notebook_path`, `filePath` or `path`, which is a string, or `paths` or `file_paths`, which is a list of them
//! ([`FILES`]). That covers what the tools of Claude Code, Qwen Code and Reasonix call them. What a command line of a shell
//! does is not known, and a folder that was only searched is named too.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use serde::Serialize;
use serde_json::Value;

use crate::{
    dialect::{Decoded, Part, View},
    record::{RecordId, RecordKind},
};

pub mod compare;
pub mod lineage;
pub mod markdown;

/// The members of a call's arguments that name files.
pub const FILES: &[&str] =
    &["file_path", "absolute_path", "notebook_path", "filePath", "path", "paths", "file_paths"];

/// One record of a branch, decoded.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its uuid.
    pub uuid: RecordId,
    /// Who it speaks for.
    pub kind: RecordKind,
    /// Whether it is a user record that no person wrote.
    pub synthetic: bool,
    /// What it holds.
    pub view: View,
    /// The ids of its calls and of the calls that it answers.
    pub decoded: Decoded,
}

impl Entry {
    /// Its calls: their ids, and the tools.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.view.parts.iter().filter_map(|part| match part {
            Part::Call { name, .. } => Some(name.as_str()),
            _ => None,
        });
        self.decoded.calls.iter().map(String::as_str).zip(names)
    }
}

/// A part of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Item {
    /// Said to the other one.
    Text {
        /// The words.
        text: String,
    },
    /// What the model thought before it answered.
    Thought {
        /// The words.
        text: String,
    },
    /// A tool was run, or gave something back here that was run elsewhere.
    Tool(Tool),
    /// Text that the client added for the model, a summary of what was compacted among it.
    Context {
        /// The words.
        text: String,
    },
    /// Bookkeeping of the client.
    Note {
        /// What it is, by the client's own name.
        name: String,
    },
    /// A picture.
    Image,
    /// Another part that is no text.
    Binary,
}

/// A tool that was run, or the result of one whose call is not in the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tool {
    /// Its name; empty where the transcript does not say.
    pub name: String,
    /// Whether its call is here. A result without one is not run a second time by being told of.
    #[serde(skip_serializing_if = "is_true")]
    pub called: bool,
    /// Its arguments; null if there are none. A string where they are no JSON.
    pub input: Value,
    /// What it gave back; null if it gave nothing back on this branch.
    pub result: Option<String>,
    /// Files that its arguments name.
    pub files: Vec<String>,
    /// The call's id, by which its result is found.
    #[serde(skip)]
    id: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(is: &bool) -> bool {
    *is
}

/// A prompt and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The prompt's record; null for what stands before the first one.
    pub uuid: Option<RecordId>,
    /// The time of its first record that has one.
    pub started_at: Option<String>,
    /// Records.
    pub records: u64,
    /// What the person said.
    pub prompt: Vec<Item>,
    /// What came of it, in order.
    pub items: Vec<Item>,
}

impl Turn {
    /// The tools that it ran, and results of others.
    pub fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.items.iter().filter_map(|item| match item {
            Item::Tool(tool) => Some(tool),
            _ => None,
        })
    }

    /// Gives results without a name that of the call they answer.
    pub fn name_results(&mut self, names: &HashMap<String, String>) {
        for item in &mut self.items {
            if let Item::Tool(tool) = item
                && let Some(name) = tool.unnamed().and_then(|id| names.get(id))
            {
                tool.name.clone_from(name);
            }
        }
    }

    /// Without a word of the conversation: how long each text is, and how many tools ran.
    pub fn redact(&mut self) {
        self.prompt.iter_mut().chain(&mut self.items).for_each(Item::redact);
    }
}

impl Item {
    fn redact(&mut self) {
        match self {
            Item::Text { text } | Item::Thought { text } | Item::Context { text } => *text = left_out(text),
            Item::Tool(tool) => {
                let result = tool.result.as_deref().map(left_out);
                *tool = Tool { called: tool.called, result, ..Tool::default() };
            }
            // A title is text of the conversation.
            Item::Note { name } => name.truncate(name.find(':').unwrap_or(name.len())),
            Item::Image | Item::Binary => {}
        }
    }
}

fn left_out(text: &str) -> String {
    format!("(text left out, {} characters)", text.chars().count())
}

/// Puts records together to turns, one at a time, so that a long branch is never held as a whole.
#[derive(Debug, Default)]
pub struct Turns {
    turn: Turn,
    /// The names of the tools that were called so far, by the calls' ids: a result may come in a later turn.
    names: HashMap<String, String>,
}

impl Turns {
    /// Adds the next record, root first; gives the turn that it ends.
    pub fn push(&mut self, entry: Entry) -> Option<Turn> {
        let prompts = entry.kind == RecordKind::User && !entry.synthetic;
        let ended = if prompts { self.end() } else { None };
        let turn = &mut self.turn;
        if prompts {
            turn.uuid = Some(entry.uuid);
        }
        turn.records += 1;
        if turn.started_at.is_none() {
            turn.started_at = entry.view.timestamp;
        }
        let (mut calls, mut responses) =
            (entry.decoded.calls.into_iter(), entry.decoded.responses.into_iter());
        let system = entry.kind == RecordKind::System;
        for part in entry.view.parts {
            let item = match part {
                Part::Text(text) if text.trim().is_empty() => continue,
                Part::Text(text) if prompts || entry.kind == RecordKind::Assistant => Item::Text { text },
                Part::Text(text) => Item::Context { text },
                Part::Thought(text) if text.trim().is_empty() => continue,
                Part::Thought(text) => Item::Thought { text },
                Part::Call { name, input } => {
                    let id = calls.next().unwrap_or_default();
                    if !id.is_empty() {
                        self.names.insert(id.clone(), name.clone());
                    }
                    Item::Tool(Tool::call(name, &input, id))
                }
                Part::Result { mut name, text } => {
                    let id = responses.next().unwrap_or_default();
                    if name.is_empty() {
                        name = self.names.get(&id).cloned().unwrap_or_default();
                    }
                    turn.answer(name, text, id);
                    continue;
                }
                Part::Image => Item::Image,
                Part::Binary => Item::Binary,
            };
            if prompts { &mut turn.prompt } else { &mut turn.items }.push(item);
        }
        if let Some(name) = entry.view.note.filter(|_| system) {
            turn.items.push(Item::Note { name });
        }
        ended
    }

    /// The last turn, if there is anything in it.
    pub fn end(&mut self) -> Option<Turn> {
        let turn = std::mem::take(&mut self.turn);
        (turn.records > 0).then_some(turn)
    }
}

impl Turn {
    /// Gives a result to the call that it answers; without ids, to the first one that has none.
    fn answer(&mut self, name: String, result: String, id: String) {
        let open = self.items.iter_mut().filter_map(|item| match item {
            Item::Tool(tool) if tool.result.is_none() => Some(tool),
            _ => None,
        });
        let mut open = open.filter(|tool| id.is_empty() || tool.id == id);
        match open.next() {
            Some(tool) => tool.result = Some(result),
            None => {
                let tool = Tool { name, called: false, result: Some(result), id, ..Tool::default() };
                self.items.push(Item::Tool(tool));
            }
        }
    }
}

impl Tool {
    fn call(name: String, input: &str, id: String) -> Tool {
        let input = match serde_json::from_str(input) {
            Ok(value) => value,
            Err(_) if input.is_empty() => Value::Null,
            // Halves of surrogate pairs are no text for this parser.
            Err(_) => Value::String(input.to_owned()),
        };
        let files = files(&input);
        Tool { name, called: true, input, result: None, files, id }
    }

    /// The id of the call that a nameless result answers, if it has one.
    pub fn unnamed(&self) -> Option<&str> {
        (!self.called && self.name.is_empty() && !self.id.is_empty()).then_some(self.id.as_str())
    }

    /// The argument that tells most of it, else all of them.
    pub fn telling(&self) -> String {
        const TELLING: &[&str] = &[
            "command",
            "file_path",
            "absolute_path",
            "notebook_path",
            "path",
            "pattern",
            "query",
            "url",
            "description",
        ];
        match &self.input {
            Value::Null => String::new(),
            Value::Object(members) => {
                let telling = TELLING.iter().find_map(|name| members.get(*name)?.as_str());
                telling.map_or_else(|| self.input.to_string(), str::to_owned)
            }
            other => other.to_string(),
        }
    }
}

fn files(input: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    for name in FILES {
        match input.get(name) {
            Some(Value::String(path)) => drop(found.insert(path.clone())),
            Some(Value::Array(paths)) => {
                found.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned))
            }
            _ => {}
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests;
