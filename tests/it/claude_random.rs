//! Claude Code's dialect on seeded random transcripts: against the oracle, and for what must hold of any bytes.

use std::collections::HashSet;

use offshoot::{
    dialect::{Client, Dialect, Simulated, claude::Claude},
    topology::{self, Inspection, Tree, build_ordered_uuid_chain},
    transcript::Transcript,
};
use serde_json::{Value, json};

use crate::{
    claude_oracle::Oracle,
    random::{Rng, for_seeds, lines},
};

fn inspected(bytes: &[u8]) -> (Transcript, Inspection) {
    let t = Claude.read(&bytes).unwrap();
    let inspection = topology::inspect(&t, &bytes, &Claude, &Client::default()).unwrap();
    (t, inspection)
}

fn text(rng: &mut Rng) -> Value {
    const TEXTS: [&str; 8] = [
        "a prompt",
        "  <command-name>/cost</command-name>",
        "<local-command-stdout>x",
        "<task-notification>",
        "No response requested.",
        "",
        "said <command-name>",
        "another",
    ];
    let text = *rng.pick(&TEXTS);
    if rng.percent(50) { json!(text) } else { json!([{"type": "text", "text": text}]) }
}

/// Random records, wild in what they hang on and in whose messages and calls they share.
pub fn records(rng: &mut Rng) -> Vec<Value> {
    let most = if rng.percent(15) { 40 } else { 14 };
    let n = 2 + rng.below(most);
    let (wild, twice) = (*rng.pick(&[0, 5, 30]), *rng.pick(&[0, 0, 15]));
    let names = 1 + rng.below(4);
    let mut all: Vec<Value> = Vec::new();
    for i in 0..n {
        let uuid = if i > 0 && rng.percent(twice) { format!("n{}", rng.below(i)) } else { format!("n{i}") };
        let parent = match rng.below(100) {
            p if p < 4 || i == 0 => Value::Null,
            p if p < 4 + wild => json!(*rng.pick(&["gone", "n1", "n3", "n5"])),
            p if p < 70 => json!(format!("n{}", i - 1)),
            _ => json!(format!("n{}", rng.below(i + 1))),
        };
        let call = |rng: &mut Rng| format!("c{}", rng.below(names));
        let mut record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s",
            "timestamp": format!("2026-01-01T00:00:{:02}.000Z", rng.below(60))});
        let set = |record: &mut Value, pairs: Value| {
            record.as_object_mut().unwrap().extend(pairs.as_object().unwrap().clone());
        };
        match rng.below(20) {
            0 => set(&mut record, json!({"type": "progress"})),
            1 => set(&mut record, json!({"type": "attachment", "attachment": {}})),
            2 => set(&mut record, json!({"type": "system", "subtype": "turn_duration"})),
            3 => {
                let logical = format!("n{}", rng.below(n));
                set(
                    &mut record,
                    json!({"type": "system", "subtype": "compact_boundary", "logicalParentUuid": logical}),
                );
                if rng.percent(70) {
                    record["parentUuid"] = Value::Null;
                }
            }
            4 => set(
                &mut record,
                json!({"type": "last-prompt", "leafUuid": format!("n{}", rng.below(n)), "explicit": rng.percent(50)}),
            ),
            5..9 => {
                let content = text(rng);
                set(&mut record, json!({"type": "user", "message": {"role": "user", "content": content}}));
                if rng.percent(10) {
                    record["isMeta"] = json!(true);
                }
                if rng.percent(10) {
                    record["isCompactSummary"] = json!(true);
                }
            }
            9..13 => {
                let results: Vec<Value> = (0..1 + rng.below(2))
                    .map(|_| json!({"type": "tool_result", "tool_use_id": call(rng), "content": "r"}))
                    .collect();
                set(&mut record, json!({"type": "user", "message": {"role": "user", "content": results}}));
                if rng.percent(50) {
                    record["sourceToolAssistantUUID"] = json!(format!("n{}", rng.below(n)));
                }
            }
            _ => {
                let id = match rng.below(12) {
                    0 => Value::Null,
                    1 => json!("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
                    _ => json!(format!("m{}", rng.below(names))),
                };
                let block = match rng.below(3) {
                    0 => json!([{"type": "tool_use", "id": call(rng), "name": "t", "input": {}}]),
                    1 => json!([{"type": "thinking", "thinking": "hm"}]),
                    _ => text(rng),
                };
                set(
                    &mut record,
                    json!({"type": "assistant", "message": {"role": "assistant", "id": id, "content": block}}),
                );
            }
        }
        if rng.percent(4) {
            record["isSidechain"] = json!(true);
        }
        all.push(record);
    }
    all
}

fn leaves(inspection: &Inspection) -> Value {
    let leaf = |b: &topology::Branch| json!({"leafUuid": b.leaf_uuid, "branchPointUuid": b.branch_point_uuid, "turn": b.turn});
    inspection.branches.iter().map(leaf).collect()
}

#[test]
fn leaves_agree_with_the_oracle() {
    for_seeds(400, |rng| {
        let records = records(rng);
        let found = leaves(&inspected(&lines(&records)).1);
        assert_eq!(found, Oracle::new(&records).leaves(), "{}", String::from_utf8_lossy(&lines(&records)));
    });
}

#[test]
fn leaves_are_an_antichain_and_what_the_client_picks_is_a_record() {
    for_seeds(1_000, |rng| {
        let bytes = lines(&records(rng));
        let (t, inspection) = inspected(&bytes);
        let tree = Tree::new(&t);
        let all: HashSet<_> = tree.leaves().collect();
        for leaf in tree.leaves() {
            assert_eq!(tree.leaf_of(leaf), Some(leaf));
            let chain = build_ordered_uuid_chain(&t, leaf);
            assert!(
                chain.uuids.iter().all(|id| *id == leaf || !all.contains(id)),
                "a leaf stands above another"
            );
            let attached = Claude.attached(&t, &bytes, &chain).unwrap();
            assert!(attached.iter().all(|id| !chain.uuids.contains(id)), "attached twice");
        }
        assert_eq!(json!(inspection), json!(inspected(&bytes).1), "same bytes in, same bytes out");
        for version in ["2.0.76", "2.1.91", "2.1.110", "2.1.197", "2.1.332"] {
            let client = Client { version: Some(version.into()), ..Client::default() };
            if let Simulated::Resumes(r) = Claude.simulate(&t, &bytes, &client).unwrap() {
                assert!(t.first(r.tail).is_some());
                let distinct: HashSet<_> = r.history.iter().collect();
                assert_eq!(distinct.len(), r.history.len(), "a record is sent once");
            }
        }
    });
}

/// A note below anything but a leaf's inside changes no leaf, wherever it hangs.
#[test]
fn notes_change_no_leaf() {
    for_seeds(1_000, |rng| {
        let mut records = records(rng);
        let before = leaves(&inspected(&lines(&records)).1);
        let below = rng.pick(&records)["uuid"].clone();
        let kind = *rng.pick(&["system", "attachment", "progress"]);
        records.push(json!({"uuid": "note", "parentUuid": below, "type": kind, "subtype": "turn_duration"}));
        assert_eq!(leaves(&inspected(&lines(&records)).1), before);
    });
}

#[test]
fn damaged_bytes_never_panic() {
    for_seeds(1_000, |rng| {
        let mut bytes = lines(&records(rng));
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = rng.next() as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, *rng.pick(b"{}[]\",:\n\r\\nu0\xff")),
                _ => bytes.truncate(at.max(1)),
            }
            if bytes.is_empty() {
                return;
            }
        }
        let (t, _) = inspected(&bytes);
        for leaf in Tree::new(&t).leaves() {
            Claude.attached(&t, &bytes, &build_ordered_uuid_chain(&t, leaf)).unwrap();
        }
    });
}
