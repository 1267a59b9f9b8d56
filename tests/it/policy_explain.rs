//! `policy explain`: what each rule did to each leaf, in words and as JSON.

use std::{fs, path::Path};

use offshoot::{
    cli::policy::{Explain, explain},
    dialect::{self, Client},
    policy::{self, Inputs},
    record::Agent,
    topology::{Inspection, inspect},
};

fn session(name: &str) -> Inspection {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/examples").join(name);
    let bytes = fs::read(path).unwrap();
    let dialect = dialect::of(Agent::Qwen);
    let transcript = dialect.read(&bytes).unwrap();
    inspect(&transcript, &bytes, dialect, &Client::default()).unwrap()
}

fn explained(policy: &str, session_name: &str, json: bool) -> String {
    let policy = policy::parse(policy, "p.toml").unwrap_or_else(|e| panic!("{e}"));
    let inspection = session(session_name);
    let inputs = Inputs {
        now: "2026-03-01T12:00:00Z".parse().unwrap(),
        agent: Agent::Qwen,
        session_id: inspection.session_id.clone(),
        cwd: None,
        git_branch: None,
        recorded: None,
        labels: Default::default(),
        client_version: None,
    };
    let (path, digest) = ("p.toml", "blake3:00");
    let report = explain(&Explain {
        path,
        digest,
        policy: &policy,
        inspection: &inspection,
        inputs: &inputs,
        json,
        redact: false,
    });
    assert_eq!(report.code, 0);
    report.stdout.to_string()
}

fn shipped(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name)).unwrap()
}

#[test]
fn a_table_of_leaves_by_rules() {
    let text = explained(&shipped("sticky-then-newest-finished.toml"), "open-call.jsonl", false);
    assert_eq!(
        text,
        "\
policy `sticky-then-newest-finished` (p.toml, blake3:00)
session `5e551000-0000-4000-8000-000000000000`: 2 leaves, now 2026-03-01T12:00:00Z

1 follow-the-recorded-branch: `recorded` removed 2, kept none
2 newest-finished: `turn` removed 1, kept 1, chose

leaf      1           2
a1000000  - recorded  CHOSEN
b1000000  - recorded  - turn

verdict: leaf `a1000000-0000-4000-8000-000000000000` by rule `newest-finished`: Nobody decided; take the newest finished work, if it is clearly the newest.
seed: in-place
"
    );
    let text = explained(&shipped("newest.toml"), "two-writers.jsonl", false);
    assert!(
        text.contains(
            "1 newest-message: kept 2, order `newest` with a lead of 15s (margin 1m), 2 tie: refused\n"
        ),
        "{text}"
    );
    assert!(text.contains("a1000000  tied\nb1000000  tied\n"), "{text}");
    assert!(text.contains("verdict: `policy-ambiguous`, rule `newest-message` left 2 leaves\n"), "{text}");
    let text = explained(&shipped("ask.toml"), "two-writers.jsonl", false);
    assert!(
        text.contains("1 the-only-leaf: did not apply: 2 leaves are more than `max_leaves` = 1\n"),
        "{text}"
    );
    assert!(text.contains("verdict: the fallback asks at the prompt, among 2 leaves\n"), "{text}");
}

#[test]
fn many_rules_are_folded_to_eighty_columns() {
    let rules: String = (1..=9)
        .map(|n| format!("[[rule]]\nname = 'r{n}'\nreason = 'b'\nkeep = {{ distinct_messages = 99 }}\n"))
        .collect();
    let text = explained(&format!("version = 1\nreason = 'r'\n{rules}"), "two-branches.jsonl", false);
    let table: Vec<&str> =
        text.lines().filter(|l| l.contains("- distinct") || l.starts_with("leaf")).collect();
    assert!(table.iter().all(|l| l.len() <= 80), "{text}");
    assert_eq!(table.iter().map(|l| l.matches("- distinct_messages").count()).sum::<usize>(), 18, "{text}");
    assert!(text.contains("verdict: `policy-no-match`, no rule kept a leaf\n"), "{text}");
}

#[test]
fn the_json_names_every_leaf_and_rule_and_no_text_of_the_conversation() {
    let text = explained(&shipped("sticky-then-newest-finished.toml"), "open-call.jsonl", true);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "offshoot.policy-explain/1");
    assert_eq!(json["outcome"]["kind"], "leaf");
    assert_eq!(json["outcome"]["rule"], "newest-finished");
    assert_eq!(json["inputs"]["now"], "2026-03-01T12:00:00Z");
    let leaves = json["leaves"].as_array().unwrap();
    assert_eq!(leaves.len(), 2);
    assert_eq!(
        leaves[1]["rules"],
        serde_json::json!([
            {"rule": "follow-the-recorded-branch", "did": "removed", "filter": "recorded"},
            {"rule": "newest-finished", "did": "removed", "filter": "turn"}
        ])
    );
    assert_eq!(leaves[0]["rules"][1], serde_json::json!({"rule": "newest-finished", "did": "chosen"}));
    assert_eq!(json["rules"][1]["filters"].as_array().unwrap().len(), 4);
    let conversation = session("open-call.jsonl").branches[0].last_user_text.clone().unwrap();
    assert!(!text.contains(&conversation));
}
