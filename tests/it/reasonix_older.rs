//! Sessions of Reasonix from before its folders are refused by name, and nothing else is.

use crate::support::TestEnv;

const OWN: &str = "{\"role\":\"system\",\"id\":\"01M3\",\"content\":\"Be brief.\"}\n\
    {\"role\":\"user\",\"id\":\"01M4\",\"origin\":\"user\",\"content\":\"hi\",\"raw_content\":\"hi\"}\n";
const PLAIN: &str = "{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"assistant\",\"content\":\"yes\"}\n";
const EVENTS: &str = "{\"schema_version\":2,\"type\":\"log\",\"writer\":\"h-1-a\",\"at\":\"2026-09-29T04:39:58Z\"}\n\
    {\"schema_version\":2,\"type\":\"turn_begin\",\"writer\":\"h-1-a\",\"turn\":\"t\"}\n";

fn code(env: &TestEnv, args: &[&str]) -> String {
    let ran = env.run(&[args, &["--json"]].concat()).code(3).json();
    ran["refusal"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_of_an_older_client_is_refused_by_name() {
    let env = TestEnv::new();
    let own = env.write("a/20260929-043954.562568000-mock-model.jsonl", OWN);
    let events = env.write("a/b.events.jsonl", EVENTS);
    let in_home = env.write("home/.reasonix/projects/-x/sessions/old.jsonl", PLAIN);
    let beside = env.write("b/old.jsonl", PLAIN);
    env.write("b/old.jsonl.meta", "{}");
    for path in [&own, &events, &in_home, &beside] {
        for args in [&["targets", path][..], &["inspect", path], &["inspect", path, "--agent", "reasonix"]] {
            assert_eq!(code(&env, args), "unsupported-version", "{args:?}");
        }
        assert_eq!(code(&env, &["resume", path]), "unsupported-version");
        assert_eq!(code(&env, &["fork", path, "--turn", "t"]), "unsupported-version");
    }
}

#[test]
fn other_files_are_nobodys() {
    let env = TestEnv::new();
    let chat = env.write("c/chat.jsonl", PLAIN);
    let mixed = env.write("c/mixed.jsonl", format!("{OWN}{{\"role\":\"critic\"}}\n"));
    let log = env.write("c/log.jsonl", "{\"schema_version\":2,\"type\":\"log\"}\n");
    let empty = env.write("home/.reasonix/sessions/empty.jsonl", "");
    for path in [&chat, &mixed, &log, &empty] {
        assert_eq!(code(&env, &["inspect", path]), "agent-unknown", "{path}");
        assert_eq!(code(&env, &["inspect", path, "--agent", "reasonix"]), "agent-unknown", "{path}");
    }
    // What is told by its records is told by them wherever it lies.
    let record = r#"{"uuid":"b","parentUuid":null,"sessionId":"s","type":"user","message":{"parts":[]}}"#;
    let qwen = env.write("home/.reasonix/sessions/q.jsonl", format!("{record}\n"));
    assert_eq!(env.run(&["inspect", &qwen, "--json"]).code(0).json()["agent"], "qwen");
}
