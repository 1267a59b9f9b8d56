//! Forks and anchors, over every leaf of every shipped transcript: the client must land on the chosen chain, and
//! nothing of another branch may be in the child.

use std::{collections::BTreeSet, fs};

use offshoot::{
    dialect::{AnchorSpec, Client, Dialect, ForkSpec, qwen::Qwen},
    record::RecordId,
    resume::{Seedable, land, seedable},
    topology::{self, Inspection},
    transcript::{Appended, Source, Transcript},
};
use serde_json::Value;

use crate::support::fixture;

const CHILD: &str = "c0c0c0c0-0000-4000-8000-00000000c0c0";

/// Every shipped transcript: the cases as they stand, the vectors as one record a line.
fn transcripts() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for case in fs::read_dir(fixture("cases/qwen")).unwrap() {
        let dir = case.unwrap().path();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        all.push((name, fs::read(dir.join("transcript.jsonl")).unwrap()));
    }
    for line in fs::read_to_string(fixture("vectors/inspector.jsonl")).unwrap().lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let lines: Vec<String> =
            vector["records"].as_array().unwrap().iter().map(|r| format!("{r}\n")).collect();
        all.push((vector["name"].as_str().unwrap().to_owned(), lines.concat().into_bytes()));
    }
    assert!(all.len() > 400, "only {} transcripts", all.len());
    all
}

struct Read {
    bytes: Vec<u8>,
    t: Transcript,
    inspection: Inspection,
}

fn read(bytes: &[u8]) -> Read {
    let bytes = bytes.to_vec();
    let t = Qwen.read(&bytes).unwrap();
    let inspection = topology::inspect(&t, &bytes, &Qwen, &Client::default()).unwrap();
    Read { bytes, t, inspection }
}

fn seed_of(r: &Read, leaf: &RecordId) -> Option<Seedable> {
    seedable(&Qwen, &r.t, &r.bytes, leaf, true, false).unwrap().ok()
}

fn spec() -> ForkSpec {
    ForkSpec {
        session_id: CHILD.into(),
        title: Some("twin".into()),
        now: "2026-03-01T12:00:00Z".parse().unwrap(),
        operation_id: "op".into(),
        version: Some("0.24.4".into()),
    }
}

fn fork(r: &Read, seed: &Seedable) -> Vec<u8> {
    let mut child = Vec::new();
    Qwen.write_fork(&r.t, &r.bytes, &seed.chain, &spec(), &mut child).unwrap();
    child
}

/// The records of a transcript, as JSON.
fn objects(bytes: &[u8]) -> Vec<Value> {
    let bytes = bytes.to_vec();
    let t = Qwen.read(&bytes).unwrap();
    t.records.iter().map(|r| serde_json::from_slice(&bytes.bytes(r.span).unwrap()).unwrap()).collect()
}

/// Calls `check` for every leaf that can be seeded, and counts them.
fn for_every_leaf(mut check: impl FnMut(&str, &Read, &RecordId, &Seedable)) -> usize {
    let mut seeds = 0;
    for (name, bytes) in transcripts() {
        let r = read(&bytes);
        if r.t.first_cwd.is_none() {
            // The client crashes on such a file, whatever is forked from it (case t7): `seed-unreachable`.
            continue;
        }
        for branch in &r.inspection.branches {
            if let Some(seed) = seed_of(&r, &branch.leaf_uuid)
                && !seed.chain.history(&r.t).is_empty()
            {
                seeds += 1;
                check(&name, &r, &branch.leaf_uuid, &seed);
            }
        }
    }
    seeds
}

#[test]
fn the_client_lands_on_every_fork_with_exactly_its_chain() {
    let seeds = for_every_leaf(|name, r, leaf, seed| {
        let child = fork(r, seed);
        let landed = land(&Qwen, &child, &Client::default(), &seed.chain.history(&r.t), false).unwrap();
        landed.unwrap_or_else(|why| panic!("{name}: fork of {leaf}: {why}"));
        let inside = read(&child);
        assert_eq!(inside.inspection.branches.len(), 1, "{name}: fork of {leaf} has one leaf");
        assert!(inside.t.diagnostics.is_empty(), "{name}: {:?}", inside.t.diagnostics);
    });
    assert!(seeds > 700, "only {seeds} forks");
}

#[test]
fn a_fork_holds_the_chain_its_artifacts_and_nothing_else() {
    for_every_leaf(|name, r, leaf, seed| {
        let kept: BTreeSet<String> = seed
            .chain
            .uuids
            .iter()
            .copied()
            .chain(Qwen.attached(&r.t, &r.bytes, &seed.chain).unwrap())
            .map(|id| r.t.ids.text(id))
            .collect();
        let mut child = objects(&fork(r, seed));
        let title = child.pop().unwrap();
        assert_eq!(title["systemPayload"]["customTitle"], "twin");
        let mut physical: Vec<(Value, bool)> = objects(&r.bytes)
            .into_iter()
            .filter(|o| o["uuid"].as_str().is_some_and(|u| kept.contains(u)))
            .filter(|o| o["subtype"] != "session_sources_snapshot")
            .map(|o| (o, false))
            .collect();
        for record in &child {
            let uuid = record["uuid"].as_str().unwrap();
            assert!(kept.contains(uuid), "{name}: fork of {leaf} leaks {uuid}");
            assert_eq!(record["sessionId"], CHILD, "{name}: {record}");
            assert_eq!(record["forkedFrom"]["messageUuid"], uuid);
            let found = physical.iter_mut().find(|(o, used)| !used && verbatim(o, record));
            found.unwrap_or_else(|| panic!("{name}: no source record is {record}")).1 = true;
        }
        let left: Vec<_> = physical.iter().filter(|(_, used)| !used).collect();
        assert!(left.is_empty(), "{name}: fork of {leaf} lacks {left:?}");
    });
}

/// Equal but for what a fork must rewrite; payloads that name the session are compared elsewhere.
fn verbatim(source: &Value, child: &Value) -> bool {
    let strip = |v: &Value| {
        let mut v = v.clone();
        let o = v.as_object_mut().unwrap();
        for key in ["sessionId", "parentUuid", "forkedFrom", "cwd"] {
            o.shift_remove(key);
        }
        let rewritten =
            ["ui_telemetry", "file_history_snapshot", "session_artifact_event", "session_artifact_snapshot"];
        if o.get("subtype").and_then(Value::as_str).is_some_and(|s| rewritten.contains(&s)) {
            o.shift_remove("systemPayload");
        }
        v
    };
    strip(source) == strip(child)
}

#[test]
fn one_altered_parent_in_the_final_bytes_is_noticed() {
    let mut altered = 0;
    for_every_leaf(|name, r, leaf, seed| {
        let expected = seed.chain.history(&r.t);
        if expected.len() < 3 {
            return;
        }
        let mut lines = objects(&fork(r, seed));
        // The record behind the first one is hung on nothing: the client would lose the root.
        let second = lines.iter_mut().find(|o| o["uuid"] == expected[1].as_str()).unwrap();
        second["parentUuid"] = Value::Null;
        let bytes: Vec<u8> = lines.iter().flat_map(|o| format!("{o}\n").into_bytes()).collect();
        let landed = land(&Qwen, &bytes, &Client::default(), &expected, false).unwrap();
        assert!(landed.is_err(), "{name}: {leaf}");
        altered += 1;
    });
    assert!(altered > 300, "only {altered}");
}

#[test]
fn an_anchor_moves_the_client_to_every_leaf_that_it_can_walk_to() {
    let (mut reached, mut refused) = (0, 0);
    for_every_leaf(|name, r, leaf, seed| {
        let spec = AnchorSpec {
            uuid: "a0a0a0a0-0000-4000-8000-00000000a0a0".into(),
            operation_id: "op".into(),
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            version: None,
        };
        let anchor = Qwen.anchor(&r.t, &r.bytes, seed.leaf, &spec).unwrap();
        assert_eq!(anchor.bytes.iter().filter(|&&b| b == b'\n').count(), 1);
        let mut tail = Vec::new();
        if !r.t.ends_in_newline || r.t.torn_bytes > 0 {
            tail.push(b'\n');
        }
        tail.extend_from_slice(&anchor.bytes);
        let whole = Appended { head: &r.bytes, tail: &tail };
        let landed = land(&Qwen, &whole, &Client::default(), &seed.chain.history(&r.t), true).unwrap();
        let hidden = seed.chain.history(&r.t).len() < seed.chain.uuids.len();
        match landed {
            Ok(landing) => {
                reached += 1;
                assert_eq!(landing.tail.as_str(), spec.uuid);
                // Our anchor is neutral: the leaves are what they were.
                let mut bytes = r.bytes.clone();
                bytes.extend_from_slice(&tail);
                let leaves =
                    |i: &Inspection| i.branches.iter().map(|b| b.leaf_uuid.clone()).collect::<Vec<_>>();
                assert_eq!(leaves(&read(&bytes).inspection), leaves(&r.inspection), "{name}: {leaf}");
            }
            Err(why) => {
                refused += 1;
                assert!(hidden, "{name}: {leaf} is out of reach: {why}");
            }
        }
    });
    assert!(reached > 600 && refused > 20, "{reached} reached, {refused} refused");
}

#[test]
fn payloads_that_name_the_session_name_the_child() {
    let lines = [
        r#"{"uuid":"u1","parentUuid":null,"sessionId":"S","type":"user","cwd":"/w","message":{"role":"user","parts":[{"text":"hi"}]}}"#,
        r#"{"uuid":"t1","parentUuid":"u1","sessionId":"S","type":"system","subtype":"ui_telemetry","cwd":"/w","systemPayload":{"uiEvent":{"prompt_id":"S########0","x":1.50}}}"#,
        r#"{"uuid":"t2","parentUuid":"t1","sessionId":"S","type":"system","subtype":"ui_telemetry","cwd":"/w","systemPayload":{"uiEvent":{"prompt_id":"Other#1"}}}"#,
        r#"{"uuid":"f1","parentUuid":"t2","sessionId":"S","type":"system","subtype":"file_history_snapshot","cwd":"/w","systemPayload":{"snapshots":[{"promptId":"S########3","timestamp":"x","trackedFileBackups":{"/a":{"backupFileName":"0123@v1"},"/b":{"backupFileName":"../evil"},"/c":{"backupFileName":"9@v2","failed":true}}}]}}"#,
        r#"{"uuid":"e1","parentUuid":"f1","sessionId":"S","type":"system","subtype":"session_artifact_event","cwd":"/w","systemPayload":{"v":2,"sessionId":"S","changes":[{"action":"upsert","artifactId":"old","artifact":{"id":"old","workspacePath":"p.md","retention":"pinned","contentRef":"r"}}]}}"#,
        r#"{"uuid":"a1","parentUuid":"f1","sessionId":"S","type":"assistant","cwd":"/w","message":{"role":"model","parts":[{"text":"ho"}]}}"#,
    ];
    let r = read(format!("{}\n", lines.join("\n")).as_bytes());
    let seed = seed_of(&r, &RecordId::from("a1")).unwrap();
    let mut out = Vec::new();
    let report = Qwen.write_fork(&r.t, &r.bytes, &seed.chain, &spec(), &mut out).unwrap();
    assert_eq!(report.backups, ["0123@v1"], "plain names of backups that did not fail");
    let text = String::from_utf8(out.clone()).unwrap();
    assert!(text.contains(r#""x":1.50"#), "numbers are carried over as they are written");
    let child = objects(&out);
    let by = |uuid: &str| child.iter().find(|o| o["uuid"] == uuid).unwrap();
    assert_eq!(by("t1")["systemPayload"]["uiEvent"]["prompt_id"], format!("{CHILD}########0"));
    assert_eq!(by("t2")["systemPayload"]["uiEvent"]["prompt_id"], "Other#1");
    assert_eq!(by("f1")["systemPayload"]["snapshots"][0]["promptId"], format!("{CHILD}########3"));
    let artifact = &by("e1")["systemPayload"]["changes"][0];
    assert_eq!(by("e1")["systemPayload"]["sessionId"], CHILD);
    assert_ne!(artifact["artifactId"], "old");
    assert_eq!(artifact["artifactId"], artifact["artifact"]["id"]);
    assert_eq!(artifact["artifact"]["retention"], "restorable");
    assert!(artifact["artifact"].get("contentRef").is_none());
    assert_eq!(by("e1")["parentUuid"], "f1", "a side artifact keeps its parent");
    assert_eq!(by("a1")["parentUuid"], "f1");
}

#[test]
fn a_long_chain_is_written_in_its_order_whoever_rewrites_it() {
    // Lines of 40 to 6,000 bytes, so that they are rewritten some at a time, with payloads in between that wait for their
    // turn.
    let line = |n: usize, session: &str, forked: &str| {
        let parent = n.checked_sub(1).map_or("null".to_owned(), |n| format!(r#""r{n}""#));
        let head = format!(r#"{{"uuid":"r{n}","parentUuid":{parent},"sessionId":"{session}","cwd":"/w""#);
        let body = match n % 5 {
            3 => format!(
                r#""type":"system","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{{"prompt_id":"{session}########{n}"}}}}"#
            ),
            at => {
                let (kind, role) = if at % 2 == 0 { ("user", "user") } else { ("assistant", "model") };
                let text = r"tab\t".repeat(n * 37 % 1_500);
                format!(r#""type":"{kind}","message":{{"role":"{role}","parts":[{{"text":"{text}"}}]}}"#)
            }
        };
        format!("{head},{body}{forked}}}\n")
    };
    let many = 3_001;
    let r = read((0..many).map(|n| line(n, "S", "")).collect::<String>().as_bytes());
    let seed = seed_of(&r, &RecordId::new(format!("r{}", many - 1))).unwrap();
    let child = String::from_utf8(fork(&r, &seed)).unwrap();
    let mut found = child.lines();
    for n in 0..many {
        let forked = format!(r#","forkedFrom":{{"sessionId":"S","messageUuid":"r{n}"}}"#);
        assert_eq!(found.next().map(|l| format!("{l}\n")), Some(line(n, CHILD, &forked)), "record {n}");
    }
    assert!(found.next().unwrap().contains("custom_title") && found.next().is_none());
    assert!(r.bytes.len() > 8 << 20, "{}", r.bytes.len());
}

#[test]
fn a_checkpoint_names_what_was_left_out_before_it_and_nothing_behind_it() {
    let rec = |uuid: &str, parent: &str, rest: &str| {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!(r#""{parent}""#) };
        format!(r#"{{"uuid":"{uuid}","parentUuid":{parent},"sessionId":"S","cwd":"/w",{rest}}}"#)
    };
    let said =
        |role: &str| format!(r#""type":"{role}","message":{{"role":"{role}","parts":[{{"text":"hi"}}]}}"#);
    let checkpoint = |uuid: &str| {
        format!(
            r#""type":"system","subtype":"branch_checkpoint","systemPayload":{{"startExclusiveRecordUuid":"{uuid}"}}"#
        )
    };
    let sources = r#""type":"system","subtype":"session_sources_snapshot","systemPayload":{}"#;
    let lines = [
        rec("u1", "", &said("user")),
        rec("c1", "u1", &checkpoint("s1")),
        rec("s1", "c1", sources),
        rec("c2", "s1", &checkpoint("s1")),
        rec("a1", "c2", &said("assistant")),
    ];
    let r = read(format!("{}\n", lines.join("\n")).as_bytes());
    let seed = seed_of(&r, &RecordId::from("a1")).unwrap();
    let child = objects(&fork(&r, &seed));
    let starts: Vec<&Value> = ["c1", "c2"]
        .iter()
        .map(|uuid| &child.iter().find(|o| o["uuid"] == *uuid).unwrap()["systemPayload"]["startExclusiveRecordUuid"])
        .collect();
    assert_eq!(starts, ["s1", "c1"]);
}
