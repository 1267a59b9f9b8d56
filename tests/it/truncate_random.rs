//! `truncate` at every record of random transcripts, against a separately written oracle: what remains is everything
//! that does not strictly descend from the record, as it stood, and the client goes on at the record.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
    time::Duration,
};

use offshoot::{
    dialect::{self, Client, Simulated},
    record::{Agent, RecordId},
    refusal::Result,
    resume::{
        ContinuedChoice, Host, Person, Replaced, RestoreRequest, Target, TruncateRequest, restore, truncate,
    },
    store::{agents::qwen::QwenDirs, ledger::entry::Who, state::StateDir},
    topology::{Branch, ContinuedIn, Inspection},
};
use serde_json::{Value, json};

use crate::random::{Rng, for_seeds};

struct Nobody;

impl Person for Nobody {
    fn require_terminal(&self) -> Result<()> {
        panic!("nobody is asked")
    }

    fn pick(&mut self, _: &Inspection, _: Option<&[RecordId]>) -> Result<RecordId> {
        panic!("nobody is asked")
    }

    fn continued(&mut self, _: &Branch, _: &ContinuedIn) -> Result<ContinuedChoice> {
        panic!("nobody is asked")
    }
}

/// Runs with a host of its own.
pub fn with_host<T>(dir: &Path, work: impl FnOnce(&mut Host<'_>) -> T) -> T {
    let state = StateDir::open(dir.join("state")).unwrap();
    let qwen = QwenDirs { home: dir.join("qwen"), runtime: dir.join("qwen"), notes: Vec::new() };
    let who = Who { user: "u".into(), host: "h".into(), pid: 1, version: "0".into() };
    let mut host = Host {
        state: &state,
        qwen: &qwen,
        clock: &|| "2026-11-30T16:43:53Z".parse().unwrap(),
        new_id: &|| uuid::Uuid::new_v4().to_string(),
        who,
        person: &mut Nobody,
        git_branch: &|_| None,
        note: &|_| {},
    };
    work(&mut host)
}

/// Random lines: records of a forest with copies, titles and boundaries, and lines that are none.
fn lines(agent: Agent, rng: &mut Rng) -> Vec<String> {
    let n = 3 + rng.below(14);
    let mut lines: Vec<String> = Vec::new();
    for i in 0..n {
        let parent = match rng.below(100) {
            0..8 => Value::Null,
            8..11 => json!("missing"),
            // Mostly a path, with branches.
            11..60 if i > 0 => json!(format!("record-{}", i - 1)),
            _ if i > 0 => json!(format!("record-{}", rng.below(i))),
            _ => Value::Null,
        };
        let id = if rng.percent(6) && i > 0 { rng.below(i) } else { i };
        let kind = *rng.pick(&["user", "assistant", "system"]);
        let mut r = json!({"uuid": format!("record-{id}"), "parentUuid": parent, "sessionId": "s", "type": kind,
            "cwd": "/w", "timestamp": format!("2026-01-01T00:{i:02}:00.000Z")});
        match (agent, kind) {
            (Agent::Qwen, "system") if rng.percent(30) => {
                r["subtype"] = json!("custom_title");
                r["systemPayload"] = json!({"customTitle": "t"});
            }
            (Agent::Qwen, "system") => {}
            (Agent::Qwen, _) => {
                let role = if kind == "user" { "user" } else { "model" };
                r["message"] = json!({"role": role, "parts": [{"text": format!("text {i}")}]});
            }
            (_, "system") if rng.percent(20) => {
                r["subtype"] = json!("compact_boundary");
                r["compactMetadata"] = json!({});
                r["logicalParentUuid"] = r["parentUuid"].take();
            }
            (_, "assistant") => {
                let content = json!([{"type": "text", "text": format!("text {i}")}]);
                r["message"] = json!({"role": "assistant", "id": format!("m{id}"), "content": content});
            }
            _ => r["message"] = json!({"role": "user", "content": format!("text {i}")}),
        }
        lines.push(format!("{r}\n"));
        let some = format!("record-{}", rng.below(n));
        match rng.below(12) {
            0 => lines.push(format!(
                "{}\n",
                json!({"type": "last-prompt", "leafUuid": some, "explicit": rng.percent(50)})
            )),
            1 => lines.push(format!("{}\n", json!({"type": "file-history-snapshot", "messageId": some}))),
            2 => lines.push(format!("{}\n", json!({"type": "custom-title", "customTitle": some}))),
            3 => lines.push("{\"uuid\": no json\n".to_owned()),
            4 => lines.push("\n".to_owned()),
            _ => {}
        }
    }
    if rng.percent(20) {
        let end = lines.last_mut().unwrap();
        end.truncate(end.len() - 1);
    }
    lines
}

/// What the agent would say of a record's parent.
struct Oracle {
    parents: HashMap<String, Option<String>>,
}

impl Oracle {
    fn new(agent: Agent, lines: &[String]) -> Oracle {
        let mut records: Vec<Value> = lines.iter().filter_map(|l| serde_json::from_str(l).ok()).collect();
        records.retain(|r: &Value| r["uuid"].is_string());
        let known: HashSet<String> = records.iter().map(|r| r["uuid"].as_str().unwrap().to_owned()).collect();
        if agent == Agent::Claude {
            // The last copy counts.
            records.reverse();
        }
        let mut parents = HashMap::new();
        for r in &records {
            let named = |key: &str| r[key].as_str().map(str::to_owned);
            let parent = named("parentUuid").filter(|p| known.contains(p));
            let parent = parent.or_else(|| named("logicalParentUuid").filter(|p| known.contains(p)));
            parents.entry(r["uuid"].as_str().unwrap().to_owned()).or_insert(parent);
        }
        Oracle { parents }
    }

    fn descends(&self, id: &str, from: &str) -> bool {
        let mut seen = HashSet::new();
        let mut at = id;
        while let Some(Some(parent)) = self.parents.get(at) {
            if parent == from {
                return id != from;
            }
            if !seen.insert(parent) {
                return false;
            }
            at = parent;
        }
        false
    }

    fn stays(&self, line: &str, top: &str) -> bool {
        let Ok(object) = serde_json::from_str::<Value>(line) else { return true };
        let named = ["uuid", "leafUuid", "messageId"];
        named.iter().all(|key| object[key].as_str().is_none_or(|id| !self.descends(id, top)))
    }
}

fn check(agent: Agent, rng: &mut Rng, made: &mut usize) {
    let lines = lines(agent, rng);
    let text = lines.concat();
    let oracle = Oracle::new(agent, &lines);
    let dir = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(dir.path()).unwrap();
    let path = dir.join("t.jsonl");
    let mut ids: Vec<&String> = oracle.parents.keys().collect();
    ids.sort();
    for top in ids {
        fs::write(&path, &text).unwrap();
        let expected: String = lines.iter().filter(|l| oracle.stays(l, top)).map(String::as_str).collect();
        let target = Target { agent, path: path.clone() };
        let request = TruncateRequest {
            seen: None,
            target: target.clone(),
            after: top.clone(),
            operation_id: None,
            wait: Duration::ZERO,
            dry_run: false,
            client: Client::default(),
        };
        let any = oracle.parents.keys().any(|id| oracle.descends(id, top));
        let answer: Replaced = match with_host(&dir, |host| truncate(&request, host, &mut |_| Ok(()))) {
            Ok(answer) => answer,
            Err(error) => {
                let fits = match error.code() {
                    "nothing-to-remove" => !any,
                    // A gap, a cycle, a copy with another parent, another record near in time.
                    "chain-broken" | "chain-conflict" | "seed-unreachable" => any,
                    // Copies of a message below each other are one message.
                    "inside-tool-round" => agent == Agent::Claude,
                    _ => false,
                };
                assert!(fits, "{top}: {error}\n{text}");
                assert_eq!(fs::read_to_string(&path).unwrap(), text, "{top}: a refusal wrote something");
                continue;
            }
        };
        *made += 1;
        assert!(any, "{top}: nothing was to be removed\n{text}");
        let bytes = fs::read(&path).unwrap();
        let now = String::from_utf8(bytes.clone()).unwrap();
        let rest = now.strip_prefix(&expected).unwrap_or_else(|| panic!("{top}:\n{text}\nbecame\n{now}"));
        let whole = expected.is_empty() || expected.ends_with('\n');
        let rest = if whole { rest } else { rest.strip_prefix('\n').expect("a last line is ended") };
        let anchors = match (agent, answer.anchor.is_some()) {
            (_, false) => 0,
            (Agent::Qwen, true) => 1,
            (_, true) => 2,
        };
        assert_eq!(rest.lines().count(), anchors, "{top}: {rest}");
        let rules = dialect::of(agent);
        let t = rules.read(&bytes).unwrap();
        let Simulated::Resumes(resumed) = rules.simulate(&t, &bytes, &Client::default()).unwrap() else {
            panic!("{top}: the client refuses\n{now}")
        };
        let history: Vec<String> = resumed.history.iter().map(|id| t.ids.text(*id)).collect();
        let last = history.iter().rfind(|id| Some(*id) != answer.anchor.as_ref());
        // Claude Code puts notes of the last message behind it.
        let lands = if agent == Agent::Qwen { last == Some(top) } else { history.contains(top) };
        assert!(lands, "{top}: the client goes on at {last:?}\n{now}");
        assert_eq!(answer.parent_uuid.unwrap().as_str(), t.ids.text(resumed.tail));
        let back = RestoreRequest {
            target,
            operation_id: None,
            wait: Duration::ZERO,
            dry_run: false,
            client: Client::default(),
        };
        with_host(&dir, |host| restore(&back, host, &mut |_| Ok(()))).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{top}: not what it was");
    }
}

#[test]
fn what_remains_is_what_does_not_descend_from_the_record() {
    for agent in [Agent::Qwen, Agent::Claude] {
        let made = std::cell::Cell::new(0);
        for_seeds(10, |rng| {
            let mut n = 0;
            check(agent, rng, &mut n);
            made.set(made.get() + n);
        });
        assert!(made.get() > 20, "{agent:?}: only {} truncates", made.get());
    }
}
