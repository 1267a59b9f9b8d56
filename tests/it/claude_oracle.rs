//! The rules of steps and leaves of Claude Code's transcripts a second time, by brute force over JSON values and strings.
//!
//! Nothing here is shared with the library: every answer is looked for from scratch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

type Uuid = String;
/// A round by its message and what it hangs below, or another record by itself.
type Unit = (String, Option<Uuid>);

pub struct Oracle<'a> {
    /// By uuid the last record, with its position.
    nodes: BTreeMap<Uuid, (usize, &'a Value)>,
    /// By uuid the position of its first record.
    first: HashMap<Uuid, usize>,
}

const ECHOES: [&str; 7] = [
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<task-notification>",
];

impl<'a> Oracle<'a> {
    pub fn new(records: &'a [Value]) -> Self {
        let mut o = Oracle { nodes: BTreeMap::new(), first: HashMap::new() };
        for (at, record) in records.iter().enumerate() {
            let kinds = ["user", "assistant", "system", "attachment", "progress"];
            let Some(uuid) = record["uuid"].as_str().filter(|u| !u.is_empty()) else { continue };
            if kinds.iter().any(|k| record["type"] == *k) {
                o.nodes.insert(uuid.to_owned(), (at, record));
                o.first.entry(uuid.to_owned()).or_insert(at);
            }
        }
        o
    }

    fn get(&self, uuid: &str) -> &'a Value {
        self.nodes[uuid].1
    }

    fn blocks(&self, uuid: &str, kind: &str, key: &str) -> Vec<String> {
        let content = &self.get(uuid)["message"]["content"];
        let blocks = content.as_array().into_iter().flatten();
        blocks.filter(|b| b["type"] == kind).map(|b| b[key].as_str().unwrap_or("").to_owned()).collect()
    }

    fn texts(&self, uuid: &str) -> Vec<String> {
        match self.get(uuid)["message"]["content"].as_str() {
            Some(text) => vec![text.to_owned()],
            None => self.blocks(uuid, "text", "text"),
        }
    }

    fn is(&self, uuid: &str, kind: &str) -> bool {
        self.get(uuid)["type"] == kind
    }

    fn is_result(&self, uuid: &str) -> bool {
        self.is(uuid, "user") && !self.blocks(uuid, "tool_result", "tool_use_id").is_empty()
    }

    fn is_boundary(&self, uuid: &str) -> bool {
        self.is(uuid, "system") && self.get(uuid)["subtype"] == "compact_boundary"
    }

    pub fn passive(&self, uuid: &str) -> bool {
        let r = self.get(uuid);
        if r["isSidechain"] == true || self.is(uuid, "progress") || self.is(uuid, "attachment") {
            return true;
        }
        if self.is(uuid, "system") {
            return !self.is_boundary(uuid);
        }
        if self.is(uuid, "assistant") {
            let content = &r["message"]["content"];
            let filler = "No response requested.";
            let alone = content == filler || *content == json!([{"type": "text", "text": filler}]);
            let id = r["message"]["id"].as_str().unwrap_or("");
            let shape: String = id.chars().map(|c| if c.is_ascii_hexdigit() { 'h' } else { c }).collect();
            let uuid_shaped = shape == "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
            return r["message"]["model"] == "<synthetic>" || uuid_shaped || alone;
        }
        if self.is_result(uuid) {
            return false;
        }
        let first = self.texts(uuid).first().map(|t| t.trim_start().to_owned()).unwrap_or_default();
        r["isMeta"] == true || ECHOES.iter().any(|e| first.starts_with(e))
    }

    fn known(&self, value: &Value) -> Option<Uuid> {
        value.as_str().filter(|p| self.nodes.contains_key(*p)).map(str::to_owned)
    }

    fn above(&self, uuid: &str) -> Option<Uuid> {
        let mut seen = BTreeSet::new();
        let parent = self.known(&self.get(uuid)["parentUuid"]);
        let mut at = match parent {
            None if self.is_boundary(uuid) => self.known(&self.get(uuid)["logicalParentUuid"]),
            parent => parent,
        };
        while let Some(up) = at {
            if !self.passive(&up) {
                return Some(up);
            }
            if !seen.insert(up.clone()) {
                return None;
            }
            at = match self.known(&self.get(&up)["parentUuid"]) {
                None if self.is_boundary(&up) => self.known(&self.get(&up)["logicalParentUuid"]),
                parent => parent,
            };
        }
        None
    }

    /// The message of an assistant.
    fn message(&self, uuid: &str) -> Option<String> {
        let id = self.get(uuid)["message"]["id"].as_str().filter(|id| !id.is_empty());
        self.is(uuid, "assistant").then(|| id.unwrap_or(uuid).to_owned())
    }

    fn answers(&self, result: &str) -> BTreeSet<String> {
        let calls = self.blocks(result, "tool_result", "tool_use_id");
        let source = self.known(&self.get(result)["sourceToolAssistantUUID"]);
        let holds = |uuid: &&Uuid| {
            Some(*uuid) == source.as_ref()
                || self.blocks(uuid, "tool_use", "id").iter().any(|call| calls.contains(call))
        };
        self.nodes.keys().filter(holds).filter_map(|uuid| self.message(uuid)).collect()
    }

    fn entry(&self, assistant: &str) -> Option<Uuid> {
        let message = self.message(assistant).unwrap();
        let mut seen = BTreeSet::from([assistant.to_owned()]);
        let mut at = self.above(assistant);
        while let Some(up) = at {
            let within = self.message(&up).as_ref() == Some(&message)
                || (self.is_result(&up) && self.answers(&up).contains(&message));
            if !within {
                return Some(up);
            }
            if !seen.insert(up.clone()) {
                return None;
            }
            at = self.above(&up);
        }
        None
    }

    fn unit(&self, uuid: &str) -> Unit {
        if let Some(message) = self.message(uuid) {
            return (format!("round {message}"), self.entry(uuid));
        }
        if self.is_result(uuid) {
            let mut seen = BTreeSet::new();
            let mut at = self.above(uuid);
            while let Some(up) = at.filter(|up| seen.insert(up.clone())) {
                if !self.is_result(&up) {
                    let joined = self.message(&up).is_some_and(|m| self.answers(uuid).contains(&m));
                    if joined {
                        return self.unit(&up);
                    }
                    break;
                }
                at = self.above(&up);
            }
        }
        (format!("record {uuid}"), None)
    }

    fn on_cycle(&self, uuid: &str) -> bool {
        let mut at = self.known(&self.get(uuid)["parentUuid"]);
        for _ in 0..=self.nodes.len() {
            match at {
                Some(up) if up == uuid => return true,
                Some(up) => at = self.known(&self.get(&up)["parentUuid"]),
                None => return false,
            }
        }
        false
    }

    /// All records above, the nearest first; those of a ring once.
    fn line(&self, uuid: &str) -> Vec<Uuid> {
        let mut line = Vec::new();
        let mut at = self.above(uuid);
        while let Some(up) = at.filter(|up| !line.contains(up)) {
            at = self.above(&up);
            line.push(up);
        }
        line
    }

    fn turn(&self, members: &[&Uuid]) -> &'static str {
        let assistants: Vec<_> = members.iter().filter(|m| self.is(m, "assistant")).collect();
        if assistants.is_empty() {
            let lone = members[0];
            let none = self.is_boundary(lone)
                || (!self.is_result(lone) && self.get(lone)["isCompactSummary"] == true);
            return if none { "none" } else { "awaiting-reply" };
        }
        let calls: Vec<_> = assistants.iter().flat_map(|a| self.blocks(a, "tool_use", "id")).collect();
        let answers: Vec<_> =
            members.iter().flat_map(|m| self.blocks(m, "tool_result", "tool_use_id")).collect();
        if calls.iter().any(|c| !answers.contains(c)) {
            "open-tool-call"
        } else if calls.is_empty() {
            "complete"
        } else {
            "awaiting-reply"
        }
    }

    /// Whether `up` is a strict ancestor over parents alone.
    fn descends(&self, uuid: &str, up: &str) -> bool {
        let mut at = self.known(&self.get(uuid)["parentUuid"]);
        for _ in 0..=self.nodes.len() {
            match at {
                Some(a) if a == up => return true,
                Some(a) => at = self.known(&self.get(&a)["parentUuid"]),
                None => return false,
            }
        }
        false
    }

    /// Leaf, branch point and turn, as `leaves` of a case has them.
    pub fn leaves(&self) -> Value {
        let mut units: BTreeMap<Unit, Vec<&Uuid>> = BTreeMap::new();
        for uuid in self.nodes.keys().filter(|u| !self.passive(u)) {
            units.entry(self.unit(uuid)).or_default().push(uuid);
        }
        let parent_of = |unit: &Unit, members: &[&Uuid]| {
            let up = if unit.0.starts_with("round ") { unit.1.clone() } else { self.above(members[0]) };
            up.map(|up| self.unit(&up))
        };
        let parents: BTreeSet<Unit> = units.iter().filter_map(|(u, members)| parent_of(u, members)).collect();
        let mut leaves: Vec<(&Uuid, &'static str)> = Vec::new();
        for (_, members) in units.iter().filter(|(unit, _)| !parents.contains(unit)) {
            let covered: BTreeSet<_> = members.iter().filter_map(|m| self.above(m)).collect();
            let ends = members.iter().filter(|m| !covered.contains(**m) && !self.on_cycle(m));
            if let Some(last) = ends.max_by_key(|m| self.nodes[**m].0) {
                leaves.push((last, self.turn(members)));
            }
        }
        let all: Vec<&Uuid> = leaves.iter().map(|(leaf, _)| *leaf).collect();
        leaves.retain(|(leaf, _)| !all.iter().any(|other| other != leaf && self.descends(other, leaf)));
        leaves.sort_by_key(|(leaf, _)| self.first[*leaf]);
        let lines: Vec<Vec<Uuid>> = leaves.iter().map(|(leaf, _)| self.line(leaf)).collect();
        let whole = |number: usize, up: &Uuid| leaves[number].0 == up || lines[number].contains(up);
        let shared = |up: &&Uuid| (0..leaves.len()).filter(|&n| whole(n, up)).count() > 1;
        let found = leaves.iter().zip(&lines).map(|((leaf, turn), line)| {
            json!({"leafUuid": leaf, "branchPointUuid": line.iter().find(shared), "turn": turn})
        });
        found.collect()
    }
}
