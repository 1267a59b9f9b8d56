//! The inspector's rules a second time, by brute force over JSON values and strings, to compare with.
//!
//! Nothing here is shared with the library, and nothing is clever: every answer is looked for from scratch, for each
//! leaf, over its whole chain.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

/// All uuids and what their records say.
pub struct Oracle<'a> {
    /// In the order of first records.
    uuids: Vec<String>,
    /// Line index of the first record.
    line: HashMap<String, usize>,
    records: HashMap<String, Vec<&'a Value>>,
}

/// The records from root to leaf.
struct Chain {
    uuids: Vec<String>,
    missing: bool,
    cycle: bool,
}

impl<'a> Oracle<'a> {
    pub fn new(records: &'a [Value]) -> Self {
        let mut o = Oracle { uuids: Vec::new(), line: HashMap::new(), records: HashMap::new() };
        for (ix, record) in records.iter().enumerate() {
            let uuid = record["uuid"].as_str().unwrap().to_owned();
            if !o.records.contains_key(&uuid) {
                o.uuids.push(uuid.clone());
                o.line.insert(uuid.clone(), ix);
            }
            o.records.entry(uuid).or_default().push(record);
        }
        o
    }

    fn first(&self, uuid: &str) -> &'a Value {
        self.records[uuid][0]
    }

    /// The parent, if it is in some record.
    fn parent(&self, uuid: &str) -> Option<String> {
        let parent = self.first(uuid)["parentUuid"].as_str()?;
        self.records.contains_key(parent).then(|| parent.to_owned())
    }

    fn names_missing_parent(&self, uuid: &str) -> bool {
        self.first(uuid)["parentUuid"].is_string() && self.parent(uuid).is_none()
    }

    fn is(&self, uuid: &str, kind: &str) -> bool {
        self.first(uuid)["type"] == kind
    }

    fn is_neutral(&self, uuid: &str) -> bool {
        let subtypes = ["custom_title", "session_artifact_event", "session_artifact_snapshot"];
        let anchor = self.first(uuid).get("subtype").is_none()
            && self.first(uuid)["systemPayload"]["offshoot"].is_u64();
        self.is(uuid, "system") && (anchor || subtypes.iter().any(|s| self.first(uuid)["subtype"] == *s))
    }

    fn is_rewind(&self, uuid: &str) -> bool {
        self.is(uuid, "system") && self.first(uuid)["subtype"] == "rewind"
    }

    fn is_prompt(&self, uuid: &str) -> bool {
        self.is(uuid, "user") && !synthetic(self.first(uuid))
    }

    fn is_message(&self, uuid: &str) -> bool {
        ["user", "assistant", "tool_result"].iter().any(|k| self.is(uuid, k))
    }

    /// Strict ancestors, nearest first; a node on a cycle is among its own.
    fn ancestors(&self, uuid: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut at = self.parent(uuid);
        while let Some(parent) = at {
            if found.contains(&parent) {
                break;
            }
            at = self.parent(&parent);
            found.push(parent);
        }
        found
    }

    fn chain(&self, leaf: &str) -> Chain {
        let mut uuids = vec![leaf.to_owned()];
        let mut cycle = false;
        while let Some(parent) = self.parent(uuids.last().unwrap()) {
            if uuids.contains(&parent) {
                cycle = true;
                break;
            }
            uuids.push(parent);
        }
        let missing = self.names_missing_parent(uuids.last().unwrap());
        uuids.reverse();
        Chain { uuids, missing, cycle }
    }

    fn terminals(&self) -> Vec<&String> {
        let parents: HashSet<String> = self.uuids.iter().filter_map(|u| self.parent(u)).collect();
        self.uuids.iter().filter(|u| !parents.contains(*u)).collect()
    }

    /// What a terminal collapses to.
    fn normal(&self, terminal: &str) -> Option<String> {
        let mut way = vec![terminal.to_owned()];
        way.extend(self.ancestors(terminal));
        way.into_iter().find(|u| !self.is_neutral(u))
    }

    /// The reported leaves, by first record.
    pub fn leaves(&self) -> Vec<String> {
        let candidates: BTreeSet<String> = self.terminals().iter().filter_map(|t| self.normal(t)).collect();
        let shadowed: HashSet<String> = candidates.iter().flat_map(|c| self.ancestors(c)).collect();
        let mut leaves: Vec<String> = candidates.into_iter().filter(|c| !shadowed.contains(c)).collect();
        leaves.sort_by_key(|l| self.line[l]);
        leaves
    }

    /// Everything that is connected with `uuid`, by first record.
    fn component(&self, uuid: &str) -> Vec<String> {
        let mut inside: HashSet<String> = HashSet::from([uuid.to_owned()]);
        loop {
            let before = inside.len();
            for u in &self.uuids {
                if let Some(p) = self.parent(u)
                    && (inside.contains(u) || inside.contains(&p))
                {
                    inside.extend([u.clone(), p]);
                }
            }
            if inside.len() == before {
                return self.uuids.iter().filter(|u| inside.contains(*u)).cloned().collect();
            }
        }
    }

    /// Records that the client merges into one message.
    fn merged(&self, uuid: &str) -> Vec<&'a Value> {
        let first = self.first(uuid);
        let rest = self.records[uuid][1..].iter().filter(|r| r["type"] == first["type"] && !synthetic(r));
        std::iter::once(first).chain(rest.copied()).collect()
    }

    fn text(&self, uuid: &str) -> Option<String> {
        let texts: Vec<&str> = self
            .merged(uuid)
            .into_iter()
            .flat_map(parts)
            .filter(|p| p["thought"] != json!(true))
            .filter_map(|p| p["text"].as_str())
            .collect();
        let line = shortened(&texts.join(" "));
        (!line.is_empty()).then_some(line)
    }

    fn counts(&self, uuids: &[String]) -> Value {
        let of = |kind: &str| uuids.iter().filter(|u| self.is(u, kind)).count();
        json!({"user": of("user"), "assistant": of("assistant"), "toolResult": of("tool_result"),
               "system": of("system")})
    }

    fn turn(&self, chain: &[String]) -> &'static str {
        let Some(last) = chain.iter().rfind(|u| self.is_message(u)) else { return "none" };
        let since = chain.iter().rposition(|u| self.is_prompt(u)).unwrap_or(0);
        let mut events: Vec<(bool, String)> = Vec::new();
        for uuid in &chain[since..] {
            for (is_call, member) in [(true, "functionCall"), (false, "functionResponse")] {
                for part in self.merged(uuid).into_iter().flat_map(parts).filter(|p| p[member].is_object()) {
                    events.push((is_call, part[member]["id"].as_str().unwrap_or("").to_owned()));
                }
            }
        }
        let open = events.iter().enumerate().any(|(at, (is_call, id))| {
            *is_call && !events[at..].iter().any(|(call, other)| !call && (id == other || id.is_empty()))
        });
        match (open, self.is(last, "assistant")) {
            (true, _) => "open-tool-call",
            (false, true) => "complete",
            (false, false) => "awaiting-reply",
        }
    }

    /// Branches in the shape of `inspect --json`, without what depends on the client or the caller, and with the three
    /// fields that are not printed.
    pub fn branches(&self) -> Vec<Value> {
        let leaves = self.leaves();
        let chains: Vec<Chain> = leaves.iter().map(|l| self.chain(l)).collect();
        let mut on_chains: HashMap<&String, usize> = HashMap::new();
        for uuid in chains.iter().flat_map(|c| &c.uuids) {
            *on_chains.entry(uuid).or_default() += 1;
        }
        let ranges: Vec<(usize, usize)> = chains
            .iter()
            .map(|c| {
                let own = c.uuids.iter().filter(|u| on_chains[*u] == 1).map(|u| self.line[u]);
                (own.clone().min().unwrap(), own.max().unwrap())
            })
            .collect();
        (0..leaves.len()).map(|ix| self.branch(&leaves, &chains, &on_chains, &ranges, ix)).collect()
    }

    fn branch(
        &self,
        leaves: &[String],
        chains: &[Chain],
        on_chains: &HashMap<&String, usize>,
        ranges: &[(usize, usize)],
        ix: usize,
    ) -> Value {
        let (leaf, chain) = (&leaves[ix], &chains[ix].uuids);
        let ancestors = self.ancestors(leaf);
        let point = ancestors.iter().find(|a| on_chains[a] > 1);
        let after = point.map_or(0, |p| chain.iter().position(|u| u == p).unwrap() + 1);
        let distinct = &chain[after..];
        let component = self.component(leaf);
        let contains: Vec<&String> = chain.iter().filter(|u| self.is_rewind(u)).collect();
        let siblings: Vec<&String> =
            component.iter().filter(|u| self.is_rewind(u) && !contains.contains(u)).collect();
        let terminal = self
            .terminals()
            .into_iter()
            .rfind(|t| self.normal(t).as_ref() == Some(leaf))
            .expect("a leaf has a terminal");
        let interleaved: Vec<&String> = (0..leaves.len())
            .filter(|&o| o != ix && ranges[o].0 <= ranges[ix].1 && ranges[ix].0 <= ranges[o].1)
            .map(|o| &leaves[o])
            .collect();
        let time = |uuid: &String| self.first(uuid)["timestamp"].as_str();
        let newest = chain.iter().rfind(|u| self.is_message(u));
        let mut branch = Map::new();
        let mut put = |key: &str, value: Value| branch.insert(key.to_owned(), value);
        put("leafUuid", json!(leaf));
        put("branchPointUuid", json!(point));
        put(
            "classification",
            json!(match (contains.len(), siblings.len()) {
                (0, 0) => "ordinary",
                (_, 0) => "rewind-descendant",
                (0, _) => "rewind-sibling",
                _ => "mixed-rewind",
            }),
        );
        put("containsRewindUuids", json!(contains));
        put("siblingRewindUuids", json!(siblings));
        let texts = [
            (
                "firstUserTextAfterBranchPoint",
                distinct.iter().filter(|u| self.is_prompt(u)).find_map(|u| self.text(u)),
            ),
            ("lastUserText", chain.iter().rev().filter(|u| self.is_prompt(u)).find_map(|u| self.text(u))),
            (
                "lastAssistantText",
                chain.iter().rev().filter(|u| self.is(u, "assistant")).find_map(|u| self.text(u)),
            ),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                put(key, json!(text));
            }
        }
        put("recordCounts", self.counts(chain));
        put("startedAt", json!(time(&chain[0]).unwrap_or("")));
        put("updatedAt", json!(time(terminal).unwrap_or("")));
        put("lastMessageAt", json!(newest.and_then(time)));
        put("distinctCounts", self.counts(distinct));
        put("turn", json!(self.turn(chain)));
        put("componentUuid", json!(component[0]));
        put("containsRewindCount", json!(contains.len()));
        put("siblingRewindCount", json!(siblings.len()));
        put("interleavedCount", json!(interleaved.len()));
        put("interleavedWith", json!(interleaved));
        for key in ["gitBranch", "cwd"] {
            if let Some(text) = self.first(leaf)[key].as_str() {
                put(key, json!(text));
            }
        }
        let conflict = chain.iter().any(|u| self.distinct_parents(u).len() > 1);
        let kinds = [
            ("missing-parent", chains[ix].missing),
            ("conflicting-parent", conflict),
            ("parent-cycle", chains[ix].cycle),
        ];
        let kinds: Vec<_> = kinds.iter().filter(|(_, there)| *there).map(|(kind, _)| kind).collect();
        put("chainDiagnostics", json!(kinds));
        put("chainLen", json!(chain.len()));
        put("position", json!(self.line[leaf]));
        branch.into()
    }

    fn distinct_parents(&self, uuid: &str) -> Vec<&'a Value> {
        let mut parents: Vec<&Value> = Vec::new();
        for record in &self.records[uuid] {
            if !parents.contains(&&record["parentUuid"]) {
                parents.push(&record["parentUuid"]);
            }
        }
        parents
    }

    /// The three topology diagnostics.
    pub fn diagnostics(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for uuid in &self.uuids {
            let parents = self.distinct_parents(uuid);
            if parents.len() > 1 {
                found.push(json!({"kind": "conflicting-parent", "uuid": uuid, "parentUuids": parents}));
            }
            if self.names_missing_parent(uuid) {
                let parent = &self.first(uuid)["parentUuid"];
                found.push(json!({"kind": "missing-parent", "childUuid": uuid, "missingParentUuid": parent}));
            }
        }
        let mut told: HashSet<String> = HashSet::new();
        for uuid in &self.uuids {
            let mut way = vec![uuid.clone()];
            way.extend(self.ancestors(uuid));
            // The first record on the way that is its own ancestor is where the walk enters a cycle.
            let Some(entry) = way.iter().find(|u| self.ancestors(u).contains(u)) else { continue };
            if !told.contains(entry) {
                let mut members = vec![entry.clone()];
                members.extend(self.ancestors(entry).into_iter().filter(|u| u != entry));
                told.extend(members.iter().cloned());
                found.push(json!({"kind": "parent-cycle", "uuids": members}));
            }
        }
        found
    }

    /// The ordered chain of a leaf: its uuids, and the child at its gap.
    pub fn ordered_chain(&self, leaf: &str) -> (Vec<String>, Option<String>) {
        let chain = self.chain(leaf);
        let gap = chain.missing.then(|| chain.uuids[0].clone());
        (chain.uuids, gap)
    }
}

fn synthetic(record: &Value) -> bool {
    let subtypes = ["notification", "cron", "mid_turn_user_message"];
    record["type"] == "user"
        && (record["externalInputKind"] == "notification" || subtypes.iter().any(|s| record["subtype"] == *s))
}

fn parts(record: &Value) -> impl Iterator<Item = &Value> {
    record["message"]["parts"].as_array().into_iter().flatten()
}

/// As JavaScript would do it: `replace(/\s+/g, " ").trim()`, then 200 code units.
fn shortened(text: &str) -> String {
    const SPACES: &[u16] = &[
        9, 10, 11, 12, 13, 32, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007,
        0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff,
    ];
    let units: Vec<u16> = text.encode_utf16().collect();
    let words: Vec<&[u16]> = units.split(|u| SPACES.contains(u)).filter(|w| !w.is_empty()).collect();
    let mut line = words.join(&32);
    if line.len() > 200 {
        line.truncate(200);
        line.pop_if(|last| (0xd800..0xdc00).contains(last));
        line.extend("...".encode_utf16());
    }
    String::from_utf16(&line).unwrap()
}
