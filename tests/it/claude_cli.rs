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

const X: &str = "aab09c0b-386f-4a0b-8207-786e27a3e8c3";
const Y: &str = "190b9320-99e6-45c5-8c30-25fa609c4059";

fn pick(env: &TestEnv, path: &str) -> Value {
    env.run(&["inspect", path, "--json"]).code(0).json()["clientPick"].clone()
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
fn a_choice_without_a_seed_is_recorded() {
    let env = TestEnv::new();
    let text = case("s18-natural");
    let path = env.write("t.jsonl", &text);
    let chosen = env.run(&["resume", &path, "--leaf", X, "--seed", "none", "--json"]).code(0).json();
    assert_eq!((&chosen["leafUuid"], &chosen["seed"]["mode"]), (&X.into(), &"none".into()));
    let seen = env.run(&["inspect", &path, "--json"]).code(0).json();
    let recorded = |b: &&Value| b["recorded"] == true;
    let branches = seen["branches"].as_array().unwrap();
    assert_eq!(branches.iter().filter(recorded).map(|b| &b["leafUuid"]).collect::<Vec<_>>(), [X]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "nothing was written to the transcript");
}

#[test]
fn a_fork_is_a_session_of_one_branch() {
    let env = TestEnv::new();
    let text = case("s18-natural");
    let path = env.write("t.jsonl", &text);
    let answer = env.run(&["resume", &path, "--leaf", X, "--json"]).code(0).json();
    let child = answer["seed"]["sessionId"].as_str().unwrap();
    assert_eq!(answer["command"], serde_json::json!(["claude", "--resume", child]));
    assert_eq!(answer["seed"]["parentUuid"], X);
    let at = answer["seed"]["transcript"].as_str().unwrap();
    assert_eq!(pick(&env, at)["leafUuid"], X);
    let written = std::fs::read_to_string(at).unwrap();
    assert!(!written.contains("aaaaaaaa-0000-4000-8000-000000000001\",\"type"), "{written}");
    let found = env.run(&["inspect", at, "--json"]).code(0).json();
    assert_eq!(found["branches"].as_array().unwrap().len(), 1);
    assert_eq!(found["sessionId"], child);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the source is as it was");
    let _ = env.run(&["audit", "verify", "--deep"]).code(0);
}

#[test]
fn an_anchor_moves_the_client_and_undo_moves_it_back() {
    let env = TestEnv::new();
    let text = case("s18-natural");
    let path = env.write("t.jsonl", &text);
    let in_place = || env.run(&["resume", &path, "--leaf", X, "--seed", "in-place", "--json"]).code(0).json();
    assert_eq!(pick(&env, &path)["leafUuid"], Y);
    let answer = in_place();
    assert_eq!(answer["seed"]["parentUuid"], answer["seed"]["anchor"]);
    assert_eq!(pick(&env, &path)["leafUuid"], X);
    let seeded = std::fs::read_to_string(&path).unwrap();
    let added: Vec<&str> = seeded.strip_prefix(&text).unwrap().lines().collect();
    assert_eq!(added.len(), 2, "{added:?}");
    assert_eq!(in_place()["seed"]["anchor"], Value::Null, "the client stands there already");
    let _ = env.run(&["audit", "verify", "--deep"]).code(0);
    assert_eq!(env.run(&["undo", &path, "--json"]).code(0).json()["leafUuid"], Y);
    assert_eq!(pick(&env, &path)["leafUuid"], Y);
}

#[test]
fn records_are_written_below_an_anchor_also_where_the_leaf_is_a_prompt() {
    let env = TestEnv::new();
    // The branch X without its last reply: its leaf is a prompt.
    let text: String = case("s18-natural")
        .lines()
        .filter(|l| !l.contains(&format!("\"uuid\":\"{X}\"")) && !l.contains(&format!("\"uuid\": \"{X}\"")))
        .map(|l| format!("{l}\n"))
        .collect();
    let path = env.write("t.jsonl", text);
    let leaves = env.run(&["inspect", &path, "--json"]).code(0).json()["branches"].clone();
    let prompt = leaves.as_array().unwrap().iter().find(|b| b["turn"] == "awaiting-reply").unwrap();
    let leaf = prompt["leafUuid"].as_str().unwrap();
    let args =
        ["resume", &path, "--leaf", leaf, "--seed", "in-place", "--write", "--json", "--operation-id", "op"];
    let write = |body: &str| {
        let mut command = env.command(&args);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let first = write(
        "{\"type\":\"assistant\",\"message\":{\"id\":\"msg_w\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n",
    );
    assert_eq!(pick(&env, &path)["tailUuid"], first["uuid"]);
    let second = write("{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"next\"}}\n");
    assert_eq!(second["parentUuid"], first["uuid"]);
    assert_eq!(pick(&env, &path)["tailUuid"], second["uuid"]);
    let chain =
        env.run(&["chain", &path, "--leaf", second["uuid"].as_str().unwrap(), "--json"]).code(0).json();
    assert!(chain["uuids"].as_array().unwrap().contains(&leaf.into()), "{chain}");
}

#[test]
fn a_pin_beside_the_chain_does_not_hide_what_is_written() {
    let record = |uuid: &str, parent: Value, more: Value| {
        let mut record = serde_json::json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "version": "2.1.332",
            "timestamp": "2026-01-01T00:00:00.000Z"});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{record}\n")
    };
    let user = |text: &str| serde_json::json!({"type": "user", "message": {"role": "user", "content": text}});
    let text = [
        record("prompt", Value::Null, user("p")),
        record("note", "prompt".into(), serde_json::json!({"type": "system", "subtype": "turn_duration"})),
        "{\"type\":\"last-prompt\",\"leafUuid\":\"note\",\"sessionId\":\"s\"}\n".to_owned(),
    ]
    .concat();
    let env = TestEnv::new();
    let path = env.write("t.jsonl", text);
    // The client goes on at the prompt, and the pin names a note beside what would be written there.
    assert_eq!(pick(&env, &path)["tailUuid"], "prompt");
    let mut command =
        env.command(&["resume", &path, "--leaf", "prompt", "--seed", "in-place", "--write", "--json"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let body = b"{\"type\":\"assistant\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[]}}\n";
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), body).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let written: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(pick(&env, &path)["tailUuid"], written["uuid"]);
}

#[test]
#[cfg(unix)]
fn what_a_kill_left_is_found_whole() {
    for (case_name, mode) in
        [("s18-natural", "fork"), ("s18-natural", "in-place"), ("t01-parallel-fanout", "fork")]
    {
        let env = TestEnv::new();
        let path = env.write("t.jsonl", case(case_name));
        let leaf = if case_name == "s18-natural" { X } else { "842f4ac1-5c5e-437c-84c7-a77d13e8756c" };
        let mut command =
            env.command(&["resume", &path, "--leaf", leaf, "--seed", mode, "--operation-id", "op"]);
        let killed = command.env("OFFSHOOT_FAULT_POINT", "seeded=kill").output().unwrap();
        assert!(!killed.status.success(), "{killed:?}");
        let settled = env.run(&["recover", "--json"]).code(0);
        assert!(settled.stdout.contains("\"completed\""), "{case_name} {mode}: {settled:?}");
        let again = env
            .run(&["resume", &path, "--leaf", leaf, "--seed", mode, "--operation-id", "op", "--json"])
            .code(0)
            .json();
        assert_eq!(again["replayed"], true);
        assert_eq!(pick(&env, again["seed"]["transcript"].as_str().unwrap())["leafUuid"], leaf);
        let _ = env.run(&["audit", "verify", "--deep"]).code(0);
    }
}

#[test]
fn a_subagent_and_an_open_round_are_refused() {
    let env = TestEnv::new();
    let refused = |path: &str, args: &[&str]| {
        let ran = env.run(&[&["resume", path, "--json"], args].concat()).code(3);
        ran.json()["refusal"]["code"].as_str().unwrap().to_owned()
    };
    let record = |uuid: &str, parent: &str, rest: &str| {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(
            "{{\"parentUuid\":{parent},\"uuid\":\"{uuid}\",\"sessionId\":\"s\",\"cwd\":\"/w\",\"version\":\"2.1.332\",\
             \"timestamp\":\"2026-01-01T00:00:00.000Z\",{rest}}}\n"
        )
    };
    let side = record(
        "side",
        "",
        "\"isSidechain\":true,\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"s\"}",
    );
    let prompt = record(
        "prompt",
        "",
        "\"isSidechain\":false,\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"p\"}",
    );
    let call = record(
        "call",
        "prompt",
        "\"isSidechain\":false,\"type\":\"assistant\",\"message\":{\"id\":\"msg_1\",\"role\":\"assistant\",\
         \"content\":[{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"x\",\"input\":{}}]}",
    );
    let path = env.write("t.jsonl", format!("{prompt}{side}{call}"));
    assert_eq!(refused(&path, &["--leaf", "side"]), "sidechain-leaf");
    assert_eq!(refused(&path, &["--leaf", "call", "--seed", "in-place"]), "inside-tool-round");
    // Over 5 MiB, and the branch stands before a boundary.
    let boundary = "{\"parentUuid\":null,\"logicalParentUuid\":\"prompt\",\"uuid\":\"cut\",\"sessionId\":\"s\",\"cwd\":\"/w\",\
                    \"type\":\"system\",\"subtype\":\"compact_boundary\",\"timestamp\":\"2026-01-01T00:00:01.000Z\"}\n";
    let reply = record(
        "reply",
        "prompt",
        "\"type\":\"assistant\",\"message\":{\"id\":\"msg_2\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}",
    );
    let filler = format!("{{\"type\":\"mode\",\"x\":\"{}\"}}\n", "x".repeat(5 << 20));
    let path = env.write("large.jsonl", format!("{prompt}{reply}{filler}{boundary}"));
    assert_eq!(refused(&path, &["--leaf", "reply", "--seed", "in-place"]), "out-of-reach");
    env.run(&["resume", &path, "--leaf", "reply", "--json"]).code(0).json();
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

#[test]
#[cfg(target_os = "linux")]
fn a_live_client_is_an_obstacle_in_place_and_none_for_a_fork() {
    let env = TestEnv::new();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    let path = env.write(&format!("home/.claude/projects/-w/{id}.jsonl"), case("s18-natural"));
    let me = std::process::id();
    let ticks = offshoot::store::process::start_ticks(me).unwrap();
    let register = |session: &str, start: u64| {
        let entry = serde_json::json!({"pid": me, "sessionId": session, "procStart": start.to_string()});
        env.write(&format!("home/.claude/sessions/{me}.json"), entry.to_string())
    };
    let in_place =
        |code| env.run(&["resume", &path, "--leaf", X, "--seed", "in-place", "--json"]).code(code).json();
    register(id, ticks);
    let refusal = in_place(4)["refusal"].clone();
    assert_eq!((&refusal["code"], &refusal["detail"]["owner"]["pid"]), (&"lease-held".into(), &me.into()));
    env.run(&["resume", &path, "--leaf", X, "--json"]).code(0).json();
    // Its number was used again; then, it has another session open.
    register(id, ticks + 1);
    in_place(0);
    register("bbbbbbbb-0000-4000-8000-000000000001", ticks);
    let undone = env.run(&["undo", &path, "--json"]).code(0).json();
    assert_eq!(undone["leafUuid"], Y);
    register(id, ticks);
    assert_eq!(env.run(&["undo", &path, "--json"]).code(4).json()["refusal"]["code"], "lease-held");
}
