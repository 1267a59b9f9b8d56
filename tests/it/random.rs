//! The inspector on seeded random transcripts: against the oracle, and for what must hold of any transcript.

use std::collections::HashSet;

use offshoot::{
    dialect::{Client, Dialect, qwen::Qwen},
    topology::{self, Inspection, Tree, build_ordered_uuid_chain},
    transcript::{Source, Transcript},
};
use serde_json::{Value, json};

use crate::oracle::Oracle;

/// SplitMix64: small, seeded, the same everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn percent(&mut self, p: usize) -> bool {
        self.below(100) < p
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// How many transcripts a test tries: `OFFSHOOT_TEST_CASES`, else `default`.
fn cases(default: u64) -> u64 {
    std::env::var("OFFSHOOT_TEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Runs `check` on each seed and names the seed on the way out of a failure.
pub fn for_seeds(default: u64, check: impl Fn(&mut Rng)) {
    struct Name(u64);
    #[expect(clippy::print_stderr, reason = "the seed is all that is needed to see the failure again")]
    impl Drop for Name {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("seed {}", self.0);
            }
        }
    }
    for seed in 0..cases(default) {
        let _name = Name(seed);
        check(&mut Rng(seed));
    }
}

const WORDS: [&str; 14] = [
    "retry",
    "branch",
    "失败",
    "🙂🙂",
    "na\u{ef}ve",
    " ",
    "\n\t",
    "\u{feff}",
    "\u{85}",
    "\u{200b}",
    "x",
    "\u{a0}",
    "lock the file and",
    "é",
];

fn text(rng: &mut Rng) -> String {
    let words = if rng.percent(15) { 120 } else { rng.below(6) };
    let between = if rng.percent(50) { " " } else { "" };
    (0..words).map(|_| *rng.pick(&WORDS)).collect::<Vec<_>>().join(between)
}

fn part(rng: &mut Rng) -> Value {
    let id = format!("c{}", rng.below(4));
    match rng.below(14) {
        0 => json!({"text": text(rng), "thought": true}),
        1 => {
            json!({"text": text(rng), "thought": rng.pick(&[json!(false), json!(1), json!("true"), Value::Null])})
        }
        2 | 3 => json!({"functionCall": {"id": id, "name": "run", "args": {"text": "never shown"}}}),
        4 | 5 => json!({"functionResponse": {"id": id, "response": {"text": "never shown"}}}),
        6 => json!({"functionCall": {"name": "run"}}),
        7 => rng
            .pick(&[
                json!(null),
                json!("text"),
                json!({"text": 7}),
                json!([]),
                json!({}),
                json!({"functionCall": 1}),
            ])
            .clone(),
        _ => json!({"text": text(rng)}),
    }
}

/// Random records in Qwen's form. All of them are records for the client.
pub fn records(rng: &mut Rng) -> Vec<Value> {
    const ODD: [&str; 7] =
        ["", "null", "gone", "__proto__", "🙂", "a b\u{1b}\"\\", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"];
    let most = if rng.percent(10) { 60 } else { 16 };
    let n = 1 + rng.below(most);
    // How wild the parents are, how many uuids come twice, and how much is a prompt: the same for one transcript.
    let (wild, twice, prompts) = (*rng.pick(&[0, 5, 30]), *rng.pick(&[0, 0, 15]), *rng.pick(&[10, 40]));
    let ids: Vec<String> = (0..n)
        .map(|i| match rng.below(12) {
            0 => rng.pick(&ODD[1..]).to_string() + &i.to_string(),
            1 => format!("6ba7b810-9dad-11d1-80b4-{i:012x}"),
            _ => format!("n{i}"),
        })
        .collect();
    let mut at = 1_000;
    let mut out: Vec<Value> = Vec::new();
    for i in 0..n {
        at += rng.below(100);
        let id = if i > 0 && rng.percent(twice) { &ids[rng.below(i)] } else { &ids[i] };
        let parent = if i == 0 || rng.percent(6) {
            Value::Null
        } else if rng.percent(wild) {
            match rng.below(4) {
                0 => json!(rng.pick(&ODD)),
                1 => json!(id),
                _ => json!(rng.pick(&ids)),
            }
        } else if rng.percent(70) {
            out[i - 1]["uuid"].clone()
        } else {
            json!(ids[rng.below(i)])
        };
        let mut r = json!({"uuid": id, "parentUuid": parent, "sessionId": "s"});
        if !rng.percent(4) {
            r["timestamp"] = json!(format!("2026-01-01T00:00:{:02}.{:03}Z", at / 1000 % 60, at % 1000));
        }
        if rng.percent(30) {
            r["cwd"] = json!(format!("/w{}", rng.below(3)));
            r["gitBranch"] = json!("main");
        }
        let kind = if rng.percent(prompts) {
            "user"
        } else {
            *rng.pick(&["assistant", "tool_result", "system", "system"])
        };
        r["type"] = json!(kind);
        if kind == "system" {
            const SUBTYPES: [&str; 9] = [
                "custom_title",
                "custom_title",
                "session_artifact_event",
                "session_artifact_snapshot",
                "rewind",
                "rewind",
                "ui_telemetry",
                "chat_compression",
                "brand_new",
            ];
            match rng.below(11) {
                0 => r["systemPayload"] = json!({"offshoot": 1, "leafUuid": "x"}),
                1 => {}
                _ => r["subtype"] = json!(rng.pick(&SUBTYPES)),
            }
        }
        if kind == "user" && rng.percent(15) {
            match rng.below(4) {
                0 => r["externalInputKind"] = json!("notification"),
                k => r["subtype"] = json!(["", "notification", "cron", "mid_turn_user_message"][k]),
            }
        }
        if rng.percent(if kind == "system" { 10 } else { 90 }) {
            let parts: Vec<Value> = (0..rng.below(4)).map(|_| part(rng)).collect();
            r["message"] = json!({"role": "user", "parts": parts});
        }
        out.push(r);
    }
    out
}

pub fn lines(records: &[Value]) -> Vec<u8> {
    records.iter().flat_map(|r| (r.to_string() + "\n").into_bytes()).collect()
}

fn inspect(bytes: &impl Source) -> (Transcript, Inspection) {
    let t = Qwen.read(bytes).unwrap();
    let inspection = topology::inspect(&t, bytes, &Qwen, &Client::default()).unwrap();
    (t, inspection)
}

fn leaf_set(bytes: &impl Source) -> HashSet<String> {
    inspect(bytes).1.branches.into_iter().map(|b| b.leaf_uuid.to_string()).collect()
}

#[test]
fn every_field_agrees_with_the_oracle() {
    for_seeds(300, |rng| {
        let records = records(rng);
        let bytes = lines(&records);
        let (t, inspection) = inspect(&bytes);
        assert_eq!(t.records.len(), records.len());
        let oracle = Oracle::new(&records);
        let found: Vec<Value> = inspection
            .branches
            .iter()
            .map(|b| {
                let mut v = serde_json::to_value(b).unwrap();
                let fields = v.as_object_mut().unwrap();
                assert!(fields.remove("clientPick").is_some() && fields.remove("recorded").is_some());
                fields.insert("chainDiagnostics".into(), json!(b.chain_diagnostics));
                fields.insert("chainLen".into(), json!(b.chain_len));
                fields.insert("position".into(), json!(b.position));
                v
            })
            .collect();
        let bytes = String::from_utf8_lossy(&bytes);
        for (found, expected) in found.iter().zip(oracle.branches()) {
            assert_eq!(*found, expected, "\n{bytes}");
        }
        assert_eq!(
            json!(found.iter().map(|b| &b["leafUuid"]).collect::<Vec<_>>()),
            json!(oracle.leaves()),
            "{bytes}"
        );
        assert_eq!(json!(inspection.diagnostics), json!(oracle.diagnostics()), "{bytes}");
        for leaf in oracle.leaves() {
            let chain = build_ordered_uuid_chain(&t, t.ids.find(&leaf).unwrap());
            let uuids: Vec<String> = chain.uuids.iter().map(|&u| t.ids.text(u)).collect();
            let gap = chain.gaps.first().map(|g| t.ids.text(g.child));
            assert_eq!((uuids, gap), oracle.ordered_chain(&leaf), "{bytes}");
        }
    });
}

#[test]
fn a_record_belongs_to_the_leaves_whose_chains_hold_it() {
    for_seeds(300, |rng| {
        let records = records(rng);
        let t = Qwen.read(&lines(&records)).unwrap();
        let (tree, oracle) = (Tree::new(&t), Oracle::new(&records));
        let leaves = oracle.leaves();
        assert_eq!(tree.leaves().map(|l| t.ids.text(l)).collect::<Vec<_>>(), leaves);
        for id in t.ids.iter() {
            let text = t.ids.text(id);
            let holding: Vec<_> =
                leaves.iter().filter(|l| oracle.ordered_chain(l).0.contains(&text)).cloned().collect();
            let found: Vec<_> = tree.leaves_with(id).into_iter().map(|l| t.ids.text(l)).collect();
            assert_eq!(found.len(), tree.count_with(id));
            if holding.is_empty() {
                // Below a leaf, or on no branch at all.
                assert_eq!(found, tree.leaf_of(id).map(|l| t.ids.text(l)).into_iter().collect::<Vec<_>>());
            } else {
                assert_eq!(found, holding, "{text}");
            }
        }
    });
}

/// I1, I2.
#[test]
fn leaves_are_an_antichain_and_the_same_bytes_give_the_same_answer() {
    for_seeds(300, |rng| {
        let bytes = lines(&records(rng));
        let (t, inspection) = inspect(&bytes);
        let leaves: HashSet<_> =
            inspection.branches.iter().map(|b| t.ids.find(b.leaf_uuid.as_str()).unwrap()).collect();
        for &leaf in &leaves {
            let chain = build_ordered_uuid_chain(&t, leaf);
            let others = chain.uuids.iter().filter(|u| leaves.contains(*u)).count();
            assert_eq!(others, 1, "an ancestor of {} is a leaf too", t.id(leaf));
        }
        let again = serde_json::to_vec(&inspect(&bytes).1).unwrap();
        assert_eq!(serde_json::to_vec(&inspection).unwrap(), again);
    });
}

#[test]
fn a_fresh_neutral_record_never_changes_the_leaves() {
    for_seeds(300, |rng| {
        let mut records = records(rng);
        let before = leaf_set(&lines(&records));
        let parent = match rng.below(10) {
            0 => Value::Null,
            1 => json!("in no record"),
            _ => rng.pick(&records)["uuid"].clone(),
        };
        let neutral = [
            json!({"subtype": "custom_title"}),
            json!({"subtype": "session_artifact_event"}),
            json!({"systemPayload": {"offshoot": 1}}),
        ];
        let mut fresh = rng.pick(&neutral).clone();
        for (key, value) in [("uuid", json!("fresh")), ("sessionId", json!("s")), ("type", json!("system"))] {
            fresh[key] = value;
        }
        fresh["parentUuid"] = parent;
        let at = rng.below(records.len() + 1);
        records.insert(at, fresh);
        assert_eq!(leaf_set(&lines(&records)), before);
    });
}

#[test]
fn how_two_writers_took_turns_does_not_change_the_leaves() {
    for_seeds(200, |rng| {
        let all = records(rng);
        let distinct: HashSet<&str> = all.iter().map(|r| r["uuid"].as_str().unwrap()).collect();
        if distinct.len() < all.len() {
            return;
        }
        let (one, two): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|_| rng.percent(50));
        let (mut one, mut two) = (one.into_iter().peekable(), two.into_iter().peekable());
        let mut shuffled = Vec::new();
        while one.peek().is_some() || two.peek().is_some() {
            shuffled.extend(if rng.percent(50) { one.next() } else { two.next() }.cloned());
        }
        assert_eq!(leaf_set(&lines(&shuffled)), leaf_set(&lines(&all)));
    });
}

#[test]
fn damaged_bytes_never_panic() {
    for_seeds(300, |rng| {
        let mut bytes = lines(&records(rng));
        for _ in 0..1 + rng.below(8) {
            let at = rng.below(bytes.len().max(1));
            match rng.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, rng.next() as u8),
                2 => bytes.insert(at, *rng.pick(b"{}[]\",:\\\n\0u")),
                3 if !bytes.is_empty() => bytes[at] = rng.next() as u8,
                4 if !bytes.is_empty() => {
                    let to = (at + rng.below(40)).min(bytes.len());
                    bytes.drain(at..to);
                }
                _ => {}
            }
        }
        let (t, inspection) = inspect(&bytes);
        let torn = inspection.snapshot.torn_tail;
        assert_eq!(t.bytes + t.torn_bytes, bytes.len() as u64, "torn: {torn}");
        serde_json::to_vec(&inspection).unwrap();
    });
}

#[test]
fn lists_that_would_be_too_long_are_counts_in_all_branches() {
    // 400 leaves that each contain a rewind, below one root: 160,000 ids.
    let record = |id: String, parent: Value, subtype: &str| json!({"uuid": id, "parentUuid": parent, "sessionId": "s", "type": "system", "subtype": subtype});
    let build = |leaves: usize| {
        let mut records = vec![record("root".into(), Value::Null, "")];
        for i in 0..leaves {
            records.push(record(format!("rewind-{i}"), json!("root"), "rewind"));
        }
        for i in 0..leaves {
            records.push(record(format!("leaf-{i}"), json!(format!("rewind-{i}")), "x"));
        }
        lines(&records)
    };
    let (_, short) = inspect(&build(316));
    let document = json!(short);
    assert_eq!(document["lists"], json!({"rewinds": "full", "interleaved": "full"}));
    assert!(document.get("rewinds").is_none());
    assert_eq!(document["branches"][7]["siblingRewindUuids"].as_array().unwrap().len(), 315);
    assert_eq!(document["branches"][7]["interleavedWith"].as_array().unwrap().len(), 315);

    let (_, long) = inspect(&build(317));
    let document = json!(long);
    assert_eq!(document["lists"], json!({"rewinds": "counts", "interleaved": "counts"}));
    assert_eq!(document["rewinds"].as_array().unwrap().len(), 317);
    assert_eq!(document["rewinds"][3], json!({"uuid": "rewind-3", "componentUuid": "root"}));
    for b in document["branches"].as_array().unwrap() {
        for list in ["containsRewindUuids", "siblingRewindUuids", "interleavedWith"] {
            assert!(b.get(list).is_none());
        }
        assert_eq!(b["containsRewindCount"], 1);
        assert_eq!(b["siblingRewindCount"], 316);
        assert_eq!(b["interleavedCount"], 316);
        assert_eq!(b["classification"], "mixed-rewind");
    }
}
