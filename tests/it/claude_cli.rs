//! Claude Code sessions on the command line.

use serde_json::Value;

use crate::support::{TestEnv, fixture};

fn case(name: &str) -> String {
    let dir = fixture(&format!("cases/claude/{name}"));
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut transcripts = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    std::fs::read_to_string(transcripts.next().unwrap()).unwrap()
}

#[test]
fn the_agent_is_told_by_content() {
    let env = TestEnv::new();
    let path = env.write("anything.jsonl", case("s18-natural"));
    let found = env.run(&["inspect", &path, "--json"]).code(0).json();
    assert_eq!(found["agent"], "claude");
    assert_eq!(found["branches"].as_array().unwrap().len(), 2);
    let forced = env.run(&["inspect", &path, "--agent", "qwen", "--json"]).code(0).json();
    assert_eq!(forced["agent"], "qwen");
}

#[test]
fn a_stale_pin_and_another_view_of_the_sdk_are_said() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", case("s30-lpX-then-Y-continues"));
    let seen = env.run(&["inspect", &path]).code(0).stderr;
    assert!(seen.contains("stale pin: the client would resume `aab09c0b"), "{seen}");
    assert!(seen.contains("SDK does not look at pins: it lists the branch of `48dc"), "{seen}");
    let checked = env.run(&["inspect", &path, "--check"]).code(5).stderr;
    assert!(checked.contains("stale pin"), "{checked}");
    let pick = env.run(&["inspect", &path, "--json"]).code(0).json()["clientPick"].clone();
    assert_eq!(pick["pinned"], true);
    assert!(pick["sdkLeafUuid"].as_str().unwrap().starts_with("48dc"), "{pick}");
    // A client that knows no pins takes the last record.
    let old = env.run(&["inspect", &path, "--client-version", "2.1.110", "--check"]).code(0);
    assert!(!old.stderr.contains("pin"), "{old:?}");
}

#[test]
fn seeds_are_refused_and_choices_are_recorded() {
    let env = TestEnv::new();
    let text = case("s18-natural");
    let path = env.write("t.jsonl", &text);
    let leaf = "aab09c0b-386f-4a0b-8207-786e27a3e8c3";
    let refused = |args: &[&str]| {
        let ran = env.run(&[&["resume", &path, "--leaf", leaf, "--json"], args].concat()).code(3);
        // With `--write`, stdout is for acknowledgements.
        let out = if args.contains(&"--write") { ran.stderr.lines().last().unwrap() } else { &ran.stdout };
        serde_json::from_str::<Value>(out).unwrap()["refusal"].clone()
    };
    for args in [&["--seed", "fork"][..], &["--seed", "in-place"], &["--seed", "none", "--write"], &[]] {
        let refusal = refused(args);
        assert_eq!(refusal["code"], "seed-unsupported", "{args:?}");
        assert!(refusal["message"].as_str().unwrap().contains("not in this version yet"), "{refusal}");
    }
    let chosen = env.run(&["resume", &path, "--leaf", leaf, "--seed", "none", "--json"]).code(0).json();
    assert_eq!((&chosen["leafUuid"], &chosen["seed"]["mode"]), (&leaf.into(), &"none".into()));
    let seen = env.run(&["inspect", &path, "--json"]).code(0).json();
    let recorded = |b: &&Value| b["recorded"] == true;
    let branches = seen["branches"].as_array().unwrap();
    assert_eq!(branches.iter().filter(recorded).map(|b| &b["leafUuid"]).collect::<Vec<_>>(), [leaf]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "nothing was written to the transcript");
}

#[test]
fn a_chain_names_what_belongs_to_it() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", case("t01-parallel-fanout"));
    let chain = env.run(&["chain", &path, "--json"]).code(0).json();
    let short = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|id| id.as_str().unwrap()[..4].to_owned()).collect()
    };
    assert_eq!(short(&chain["attached"]).len(), 2, "the results of the first two calls: {chain}");
    assert_eq!(chain["gaps"], serde_json::json!([]));
}
