//! The published inspector's answers, to the letter.

use offshoot::{
    dialect::{Client, Dialect, qwen::Qwen},
    topology::{self, build_ordered_uuid_chain},
};
use serde_json::{Value, json};

use crate::support::fixture;

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
