//! Compactions that keep messages, on seeded random transcripts: the simulation against a second, simpler set of rules,
//! and seeds of every leaf. Records are called as in [`crate::claude_kept`].

use std::collections::{BTreeMap, BTreeSet};

use offshoot::{
    dialect::{AnchorSpec, Dialect, ForkSpec, claude::Claude},
    record::RecordId,
    resume::{land, seedable},
    topology,
    transcript::{Appended, Transcript},
};
use serde_json::{Value, json};

use crate::{
    claude_kept::{VERSIONS, client, cut, file, list, pin, rec, resumed, segment},
    random::{Rng, for_seeds},
};

/// The client's rules once more, over names and without any regard to cost.
struct Oracle<'a> {
    /// By name its place, its parent as it is told, and whether it is loaded.
    nodes: BTreeMap<&'a str, (usize, Option<String>, bool)>,
    anchor: Option<String>,
    kept: Vec<String>,
}

impl<'a> Oracle<'a> {
    /// All names of the records differ.
    fn new(records: &'a [Value]) -> Self {
        let name = |r: &'a Value| r["uuid"].as_str().filter(|_| r["type"] != "last-prompt");
        let place = |id: &str| records.iter().position(|r| name(r) == Some(id));
        let parent = |id: &str| records[place(id)?]["parentUuid"].as_str().map(str::to_owned);
        let mut o = Oracle { nodes: BTreeMap::new(), anchor: None, kept: Vec::new() };
        let boundaries: Vec<usize> =
            (0..records.len()).filter(|&at| name(&records[at]).is_some_and(|n| n.starts_with('B'))).collect();
        let noted = |at: &usize| records[*at]["compactMetadata"].as_object().is_some_and(|m| !m.is_empty());
        let note = boundaries.iter().copied().rfind(noted);
        let (mut from, mut valid) = (0, false);
        if let Some(at) = note {
            let metadata = &records[at]["compactMetadata"];
            let strings =
                |v: &Value| v.as_array().unwrap().iter().map(|u| u.as_str().unwrap().to_owned()).collect();
            let (found, anchor): (Option<Vec<String>>, _) = match &metadata["preservedMessages"] {
                Value::Null => {
                    let segment = &metadata["preservedSegment"];
                    let mut path = vec![segment["tailUuid"].as_str().unwrap().to_owned()];
                    while path.len() < 100 && path.last().unwrap() != segment["headUuid"].as_str().unwrap() {
                        let Some(up) = parent(path.last().unwrap()) else { break };
                        path.push(up);
                    }
                    let whole = path.last().unwrap() == segment["headUuid"].as_str().unwrap();
                    path.reverse();
                    (whole.then_some(path), segment["anchorUuid"].clone())
                }
                messages => (Some(strings(&messages["uuids"])), messages["anchorUuid"].clone()),
            };
            if let Some(found) = found.filter(|f| f.iter().all(|id| place(id).is_some())) {
                valid = true;
                from = *boundaries.last().unwrap();
                if from == at {
                    o.kept = found;
                    let there =
                        |a: &&str| place(a).is_some_and(|p| p >= from) || o.kept.iter().any(|k| k == a);
                    o.anchor = anchor.as_str().filter(there).map(str::to_owned);
                }
            }
        }
        for (at, record) in records.iter().enumerate() {
            let Some(id) = name(record) else { continue };
            let loaded = |id: &str| place(id).is_some_and(|p| p >= from) || o.kept.iter().any(|k| k == id);
            let mut up = parent(id);
            if let Some(place) = o.kept.iter().rposition(|k| k == id) {
                up = if place > 0 { Some(o.kept[place - 1].clone()) } else { o.anchor.clone() };
            } else if let Some(p) = &up
                && valid
                && !o.kept.is_empty()
            {
                let left_out = place(p).is_some() && !loaded(p) && id.starts_with(['q', 'a', 'm', 'S']);
                if Some(p) == o.anchor.as_ref() || left_out {
                    up = o.kept.last().cloned();
                }
            }
            o.nodes.insert(id, (at, up, loaded(id)));
        }
        o
    }

    fn loaded(&self, id: &str) -> bool {
        self.nodes.get(id).is_some_and(|n| n.2)
    }

    /// From a record up, the record first.
    fn line(&self, from: &str) -> Vec<String> {
        let mut line: Vec<String> = Vec::new();
        let mut at = Some(from.to_owned());
        while let Some(id) = at.filter(|id| self.loaded(id) && !line.contains(id)) {
            at = self.nodes[id.as_str()].1.clone();
            line.push(id);
        }
        line
    }

    fn tail(&self) -> Option<String> {
        let is_moved = |id: &str| self.anchor.is_some() && self.kept.iter().any(|k| k == id);
        let last = self.nodes.iter().filter(|(id, n)| n.2 && !is_moved(id)).max_by_key(|(_, n)| n.0);
        let last = (*last?.0).to_owned();
        Some(if Some(&last) == self.anchor.as_ref() {
            self.kept.last().cloned().unwrap_or(last)
        } else {
            last
        })
    }

    /// The record that an explicit pin in the last line leads to, or none.
    fn picked(&self, pin: Option<&str>) -> Option<String> {
        pin.filter(|pin| self.loaded(pin)).map(str::to_owned).or_else(|| self.tail())
    }
}

/// Turns that hang anywhere, and one or two boundaries that keep some of them.
fn random(rng: &mut Rng) -> Vec<Value> {
    let mut records: Vec<Value> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for part in 0..2 + rng.below(2) {
        if part > 0 {
            let some = |rng: &mut Rng| rng.pick(&names).clone();
            let end = some(rng);
            let anchor = if rng.percent(10) { some(rng) } else { format!("S{part}") };
            let first = rng.below(names.len());
            let head = names[first].clone();
            let note = match rng.below(8) {
                0 => json!({}),
                1 | 2 => segment(&anchor, &head, &some(rng)),
                3 => list(&anchor, &[&head, "gone"]),
                4 => {
                    let mut some = [some(rng), some(rng)];
                    some.sort();
                    let [a, b] = &some;
                    if a == b { list(&anchor, &[a]) } else { list(&anchor, &[b, a]) }
                }
                _ => {
                    let last = names.len().min(first + 1 + rng.below(3));
                    list(&anchor, &names[first..last].iter().map(String::as_str).collect::<Vec<_>>())
                }
            };
            records.extend(cut(part as u32, &end, note));
            names.push(format!("S{part}"));
        }
        for i in 0..rng.below(7) + usize::from(part == 0) {
            let parent = match rng.below(20) {
                _ if names.is_empty() => String::new(),
                0 => String::new(),
                1 => "gone".to_owned(),
                2..8 => rng.pick(&names).clone(),
                _ => names.last().unwrap().clone(),
            };
            // Prompts are answered, so that where the client goes on is where the last record stands.
            let name = format!("{}{part}{i}", rng.pick(&["a", "a", "a", "n", "d"]));
            records.push(rec(&name, &parent));
            names.push(name);
        }
    }
    if rng.percent(30) {
        let target = rng.pick(&names).clone();
        records.push(pin(&target));
    }
    records
}

#[test]
fn the_simulation_agrees_with_the_oracle() {
    for_seeds(1_000, |rng| {
        let records = random(rng);
        let bytes = file(&records);
        let oracle = Oracle::new(&records);
        let pinned =
            records.last().filter(|r| r["type"] == "last-prompt").and_then(|r| r["leafUuid"].as_str());
        let picked = oracle.picked(pinned).unwrap();
        for version in VERSIONS {
            let (t, r) = resumed(&bytes, version);
            let mut found: Vec<String> = r.history.iter().map(|&id| t.ids.text(id)).collect();
            let mut line = oracle.line(&picked);
            line.reverse();
            // Notes below the last message are taken along; they are not this oracle's business.
            let quiet = |id: &String| id.starts_with(['n', 'd']);
            for ids in [&mut found, &mut line] {
                while ids.last().is_some_and(quiet) {
                    ids.pop();
                }
            }
            assert_eq!(found, line, "{version}: {}", String::from_utf8_lossy(&bytes));
        }
    });
}

/// Every leaf of every such transcript: a fork holds and sends its chain and nothing of another branch, and an anchor
/// leads to it or is refused.
#[test]
fn every_leaf_can_be_forked_and_those_in_reach_anchored() {
    let counts = std::cell::RefCell::new(BTreeMap::<String, u32>::new());
    for_seeds(300, |rng| {
        let bytes = file(&random(rng));
        let t = Claude.read(&bytes).unwrap();
        for version in VERSIONS {
            let inspection = topology::inspect(&t, &bytes, &Claude, &client(version)).unwrap();
            for branch in &inspection.branches {
                for seed in ["fork", "in-place"] {
                    let what = seeded(&t, &bytes, version, &branch.leaf_uuid, seed);
                    *counts.borrow_mut().entry(format!("{seed} {what}")).or_default() += 1;
                }
            }
        }
    });
    let counts = counts.into_inner();
    let most = |what: &str| counts.get(what).copied().unwrap_or(0);
    assert!(
        most("fork followed") > 500 && most("fork followed") > 9 * most("fork unreachable"),
        "{counts:?}"
    );
    assert!(most("in-place followed") > 150 && most("in-place out-of-reach") > 150, "{counts:?}");
}

fn seeded(t: &Transcript, bytes: &[u8], version: &str, leaf: &RecordId, seed: &str) -> String {
    let found = seedable(&Claude, t, &bytes, leaf, false, seed == "in-place").unwrap();
    let chosen = match found {
        Ok(chosen) => chosen,
        Err(error) => {
            return error.refusal().map_or_else(|| error.to_string(), |code| code.as_str().to_owned());
        }
    };
    let client = client(version);
    let expected = Claude.expected(t, &chosen.chain, &client);
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    if seed == "in-place" {
        let spec = AnchorSpec {
            uuid: "anchor".into(),
            operation_id: "op".into(),
            now,
            version: Some(version.into()),
        };
        let anchor = Claude.anchor(t, &bytes, chosen.leaf, &spec).unwrap();
        let whole = Appended { head: &bytes, tail: &anchor.bytes };
        let landed = land(&Claude, &whole, &client, &expected.history, false).unwrap();
        return landed.map_or_else(|_| "unreachable".to_owned(), |_| "followed".to_owned());
    }
    let spec = ForkSpec {
        session_id: "child".into(),
        title: None,
        now,
        operation_id: "op".into(),
        version: Some(version.into()),
    };
    let mut child = Vec::new();
    Claude.write_fork(t, &bytes, &chosen.chain, &spec, &mut child).unwrap();
    let Ok(landing) = land(&Claude, &child, &client, &expected.history, false).unwrap() else {
        return "unreachable".to_owned();
    };
    assert_eq!(Some(landing.tail), expected.tail);
    // The chain is sent whole, in its order. A summary that is the leaf comes before what it keeps.
    let quiet = |id: &RecordId| id.as_str().starts_with(['n', 'd']);
    let said = |ids: Vec<RecordId>| ids.into_iter().filter(|id| !quiet(id)).collect::<Vec<_>>();
    let chain = said(chosen.chain.uuids.iter().map(|&id| t.id(id)).collect());
    let history = said(expected.history);
    let text = String::from_utf8_lossy(bytes);
    assert!(history.starts_with(&chain), "{history:?} instead of {chain:?} of {leaf}: {text}");
    assert!(history == chain || leaf.as_str().starts_with('S'), "{history:?} instead of {chain:?}");
    let attached = Claude.attached(t, &bytes, &chosen.chain).unwrap();
    let own: BTreeSet<String> =
        chosen.chain.uuids.iter().chain(&attached).map(|&id| t.ids.text(id)).collect();
    let lines =
        std::str::from_utf8(&child).unwrap().lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let there: BTreeSet<String> = lines.filter_map(|l| l["uuid"].as_str().map(str::to_owned)).collect();
    assert_eq!(there, own);
    "followed".to_owned()
}
