//! The published inspector's answers, to the letter.

use offshoot::{
    dialect::{Client, Dialect, qwen::Qwen},
    topology::{self, build_ordered_uuid_chain},
};
use serde_json::{Value, json};

use crate::support::{TestEnv, fixture};

const PUBLISHED: [&str; 10] = [
    "leafUuid",
    "branchPointUuid",
    "classification",
    "containsRewindUuids",
    "siblingRewindUuids",
    "firstUserTextAfterBranchPoint",
    "lastUserText",
    "lastAssistantText",
    "recordCounts",
    "startedAt",
];

/// One transcript with the right answers.
pub struct Vector {
    pub name: String,
    /// One record a line.
    pub bytes: Vec<u8>,
    pub expect: Value,
    pub chains: serde_json::Map<String, Value>,
}

pub fn all() -> Vec<Vector> {
    let text = std::fs::read_to_string(fixture("vectors/inspector.jsonl")).unwrap();
    let vectors: Vec<Vector> = text
        .lines()
        .map(|line| {
            let v: Value = serde_json::from_str(line).unwrap();
            let mut bytes = Vec::new();
            for record in v["records"].as_array().unwrap() {
                serde_json::to_writer(&mut bytes, record).unwrap();
                bytes.push(b'\n');
            }
            Vector {
                name: v["name"].as_str().unwrap().to_owned(),
                bytes,
                expect: v["expect"].clone(),
                chains: v["chains"].as_object().unwrap().clone(),
            }
        })
        .collect();
    assert_eq!(vectors.len(), 398);
    vectors
}

/// The published fields and diagnostics of an `inspect --json` document, in the shape of a vector's `expect`.
pub fn published(inspection: &Value) -> Value {
    let branches: Vec<Value> = inspection["branches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| {
            let fields = b.as_object().unwrap().iter();
            fields
                .filter(|(k, _)| PUBLISHED.contains(&k.as_str()) || *k == "updatedAt")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
        .collect();
    let topology = ["missing-parent", "conflicting-parent", "parent-cycle"];
    let diagnostics: Vec<&Value> = inspection["diagnostics"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|d| topology.contains(&d["kind"].as_str().unwrap()))
        .collect();
    json!({"branches": branches, "diagnostics": diagnostics})
}

#[test]
fn the_library_gives_the_published_answers() {
    for v in all() {
        let t = Qwen.read(&v.bytes).unwrap();
        let inspection = topology::inspect(&t, &v.bytes, &Qwen, &Client::default()).unwrap();
        let document = serde_json::to_value(&inspection).unwrap();
        assert_eq!(published(&document), v.expect, "{}", v.name);
        assert_eq!(v.chains.len(), inspection.branches.len(), "{}", v.name);
        for (leaf, expected) in &v.chains {
            let chain = build_ordered_uuid_chain(&t, t.ids.find(leaf).unwrap());
            let uuids: Vec<_> = chain.uuids.iter().map(|&u| t.id(u)).collect();
            assert_eq!(json!(uuids), expected["uuids"], "{} {leaf}", v.name);
            let gaps: Vec<_> = chain
                .gaps
                .iter()
                .map(|g| json!({"childUuid": t.id(g.child), "missingParentUuid": t.id(g.missing)}))
                .collect();
            assert_eq!(json!(gaps), expected["gaps"], "{} {leaf}", v.name);
        }
    }
}

/// Runs `work` on every item, on a few threads: each item is a handful of processes.
fn on_threads<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

#[test]
fn the_binary_gives_the_published_answers() {
    let env = TestEnv::new();
    let chains = std::sync::atomic::AtomicUsize::new(0);
    on_threads(&all(), |v| {
        let path = env.write(&format!("{}.jsonl", v.name), &v.bytes);
        let document = env.run(&["inspect", "--json", &path]).code(0).json();
        assert_eq!(document["schema"], "offshoot.inspection/1");
        assert_eq!(published(&document), v.expect, "{}", v.name);
        for (leaf, expected) in &v.chains {
            let chain = env.run(&["chain", "--json", &path, "--leaf", leaf]).code(0).json();
            assert_eq!(chain["leafUuid"], json!(leaf), "{}", v.name);
            assert_eq!(chain["uuids"], expected["uuids"], "{} {leaf}", v.name);
            assert_eq!(chain["gaps"], expected["gaps"], "{} {leaf}", v.name);
            chains.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert_eq!(chains.into_inner(), 1_042);
}

/// The cases of the client: name, what was expected, what the inspector says.
fn cases() -> Vec<(String, Value, Value)> {
    let read = |dir: std::path::PathBuf| {
        let expect: Value = serde_json::from_slice(&std::fs::read(dir.join("expect.json")).unwrap()).unwrap();
        let bytes = std::fs::read(dir.join("transcript.jsonl")).unwrap();
        let t = Qwen.read(&bytes).unwrap();
        let inspection = topology::inspect(&t, &bytes, &Qwen, &Client::default()).unwrap();
        (dir.file_name().unwrap().to_str().unwrap().to_owned(), expect, json!(inspection))
    };
    let dirs = std::fs::read_dir(fixture("cases/qwen")).unwrap();
    dirs.map(|d| d.unwrap().path()).filter(|d| d.is_dir()).map(read).collect()
}

#[test]
fn the_cases_have_the_leaves_that_are_written_down() {
    let mut checked = 0;
    for (name, expect, inspection) in cases() {
        let Some(leaves) = expect.get("leaves") else { continue };
        let fields = ["leafUuid", "branchPointUuid", "turn"];
        let branches = inspection["branches"].as_array().unwrap();
        let found: Vec<Value> = branches
            .iter()
            .map(|b| {
                fields.iter().map(|f| (f.to_string(), b[f].clone())).collect::<serde_json::Map<_, _>>().into()
            })
            .collect();
        assert_eq!(json!(found), *leaves, "{name}");
        checked += 1;
    }
    assert_eq!(checked, 6);
}

#[test]
fn the_client_pick_of_each_case_is_what_the_client_did() {
    let (mut resumed, mut refused) = (0, 0);
    for (name, expect, inspection) in cases() {
        let did = &expect["client"]["0.24.4"];
        let below = did.get("continuedBelow").unwrap_or(&did["firstAppendedParent"]);
        let pick = &inspection["clientPick"];
        let picked: Vec<&Value> = inspection["branches"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|b| b["clientPick"] == true)
            .map(|b| &b["leafUuid"])
            .collect();
        assert_eq!(picked, Vec::from_iter(Some(&pick["leafUuid"]).filter(|l| !l.is_null())), "{name}");
        // The one is a fork, which appended elsewhere; the other was refused for its project alone.
        if ["f1-fork-session", "g10-foreign-cwd"].contains(&name.as_str()) {
            assert!(pick["leafUuid"].is_string(), "{name}");
            continue;
        }
        assert_eq!(pick["tailUuid"], *below, "{name}");
        if below.is_null() {
            assert!(pick.is_null(), "{name}");
            refused += 1;
        } else {
            resumed += 1;
        }
        let gap = ["g1-missing-parent-mid-chain", "g2-missing-shared-prefix"].contains(&name.as_str());
        if gap {
            assert!(pick["gap"]["missingParentUuid"].is_string(), "{name}");
        }
    }
    assert_eq!((resumed, refused), (39, 1));
}
