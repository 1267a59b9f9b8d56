//! `diff` and `export` through the built binary.

use serde_json::{Value, json};

use crate::support::{TestEnv, fixture};

const SESSION: &str = "d1ffd1ff-0000-4000-8000-000000000001";

fn record(uuid: &str, parent: &str, kind: &str, parts: Value) -> String {
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    let role = if kind == "assistant" { "model" } else { "user" };
    let r = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": "/w", "version": "0.24.4",
        "timestamp": format!("2026-01-01T00:00:00.000Z"), "type": kind,
        "message": {"role": role, "parts": parts}});
    format!("{r}\n")
}

fn text(text: &str) -> Value {
    json!([{"text": text}])
}

fn call(id: &str, name: &str, args: Value) -> Value {
    json!([{"functionCall": {"id": id, "name": name, "args": args}}])
}

fn result(id: &str, output: &str) -> Value {
    json!([{"functionResponse": {"id": id, "name": "t", "response": {"output": output}}}])
}

/// A branch that begins with a result. Its call stands in what both have, or nowhere.
#[test]
fn a_result_whose_call_is_elsewhere_is_named_and_is_no_run() {
    let env = TestEnv::new();
    let late = |call: &str, name: Value| {
        let answer = json!([{"functionResponse": {"id": "c9", "name": name, "response": {"output": "o"}}}]);
        let all = [
            record("root-q", "", "user", text("begin")),
            record("root-a", "root-q", "assistant", self::call(call, "glob", json!({"path": "x"}))),
            record("late-res", "root-a", "tool_result", answer),
            record("other-q", "root-a", "user", text("other")),
        ];
        env.write("late.jsonl", all.concat())
    };
    for (call, name, expected) in
        [("c1", json!("read_file"), "read_file"), ("c9", json!(7), "glob"), ("c1", json!(null), "")]
    {
        let path = late(call, name);
        let diff = env.run(&["diff", &path, "late-res", "other-q", "--json"]).code(0).json();
        let side = &diff["branches"][0];
        assert_eq!((&side["tools"], &side["resultsWithoutCall"]), (&json!({}), &json!({expected: 1})));
        assert_eq!(diff["branches"][1].get("resultsWithoutCall"), None);
        let tool = &side["turns"][0]["items"][0];
        assert_eq!(
            (&tool["name"], &tool["called"], &tool["result"]),
            (&json!(expected), &json!(false), &json!("o"))
        );
        let page = env.run(&["diff", &path, "late-res", "other-q"]).code(0).stdout;
        let named = if expected.is_empty() { "of tools" } else { expected };
        assert!(page.contains(&format!("result {named} (1), without a call here")), "{page}");
        let hidden = env.run(&["diff", &path, "late-res", "other-q", "--redact"]).code(0).stdout;
        assert!(hidden.contains("result of tools (1), without a call here"), "{hidden}");
        let export = env.run(&["export", &path, "late-res", "--format", "json"]).code(0).json();
        let items = export["turns"][0]["items"].as_array().unwrap().clone();
        let names: Vec<_> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
        match call {
            "c9" => assert_eq!((names, &items[0]["result"]), (vec!["glob"], &json!("o"))),
            _ => assert_eq!(names, ["glob", expected]),
        }
    }
}

#[test]
fn a_session_alone_lacks_a_leaf() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    for (args, missing) in [
        (&["export", &path][..], "a leaf is missing"),
        (&["diff", &path, "left-a"], "the second leaf is missing"),
        (&["find", &path], "the text is missing"),
    ] {
        let refused = env.run(&[args, &["--json"]].concat()).code(2).json();
        let refusal = &refused["refusal"];
        assert_eq!(refusal["code"], "usage", "{refused}");
        assert!(refusal["message"].as_str().unwrap().starts_with(missing), "{refused}");
        assert!(refusal["hint"].as_str().unwrap().contains(&path), "{refused}");
    }
    // A word that is no place of a session stays what it is.
    let refused = env.run(&["export", "nowhere", "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "session-unknown");
}

/// Two branches that edit the same file in two ways, and an island.
fn session() -> String {
    [
        record("root-q", "", "user", text("begin")),
        record("root-a", "root-q", "assistant", text("begun")),
        record("left-q", "root-a", "user", text("please fix it")),
        record("left-call", "root-a", "assistant", json!([]))
            .replace("\"parentUuid\":\"root-a\"", "\"parentUuid\":\"left-q\"")
            .replace(
                "\"parts\":[]",
                &format!("\"parts\":{}", call("c1", "edit", json!({"file_path": "src/a.rs"}))),
            ),
        record("left-res", "left-call", "tool_result", result("c1", "edited\n```\n</pre>")),
        record(
            "left-a",
            "left-res",
            "assistant",
            text("fixed <b>on the left</b>\n# not ours\n```rust\nfn a() {}\n"),
        ),
        record("right-q", "root-a", "user", text("please  fix it")),
        record(
            "right-call",
            "right-q",
            "assistant",
            call("c2", "read_many_files", json!({"paths": ["src/a.rs", "src/b.rs"]})),
        ),
        record("right-res", "right-call", "tool_result", result("c2", "x")),
        record("right-a", "right-res", "assistant", text("fixed on the right \u{1b}[31m")),
        record("far-q", "", "user", text("elsewhere")),
    ]
    .concat()
}

#[test]
fn a_diff_begins_where_the_branches_part() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let found = env.run(&["diff", &path, "left-a", "right-a", "--json"]).code(0).json();
    assert_eq!(found["schema"], "offshoot.diff/1");
    assert_eq!((&found["branchPointUuid"], &found["shared"]), (&json!("root-a"), &json!(2)));
    let [left, right] = [&found["branches"][0], &found["branches"][1]];
    assert_eq!((&left["leafUuid"], &left["records"]), (&json!("left-a"), &json!(4)));
    assert_eq!(left["turns"][0]["prompt"][0]["text"], "please fix it");
    assert_eq!(left["turns"][0]["items"][0]["result"], "edited\n```\n</pre>");
    assert_eq!(left["tools"], json!({"edit": 1}));
    assert_eq!(left["files"], json!([{"path": "src/a.rs", "tools": ["edit"], "onBoth": true}]));
    assert_eq!(right["files"][1], json!({"path": "src/b.rs", "tools": ["read_many_files"], "onBoth": false}));
    assert_eq!(left["sharedTexts"], json!([0]), "the same prompt, blanks aside");
    assert!(!found.to_string().contains("begun"), "nothing of what both have");
    let said = env.run(&["diff", &path, "left", "right-a"]).code(0).stdout;
    assert!(said.contains("2 records in common, up to root-a"), "{said}");
    assert!(said.contains("--- left-a: 1 turn, 4 records\n> please fix it [on both branches]"), "{said}");
    assert!(said.contains("file   src/a.rs (read_many_files, on both branches)"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert!(said.lines().any(|l| l.chars().count() > 40), "{said}");
    let narrow = env.command(&["diff", &path, "left", "right-a"]).env("COLUMNS", "40").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().filter(|l| !l.contains("file ")).all(|l| l.chars().count() <= 40), "{narrow}");
    let path = env.write("one.jsonl", session().lines().skip(1).collect::<Vec<_>>().join("\n"));
    let said = env.run(&["diff", &path, "left-a", "right-a"]).code(0).stdout;
    assert!(said.contains("1 record in common, up to root-a"), "{said}");
}

#[test]
fn the_help_shows_how_the_words_stand() {
    let env = TestEnv::new();
    for (verb, words) in [("diff", "[SESSION] LEAF LEAF"), ("export", "[SESSION] LEAF")] {
        let help = env.run(&[verb, "--help"]).code(0).stdout;
        assert!(help.contains(&format!("Usage: offshoot {verb} [OPTIONS] {words}\n")), "{help}");
    }
}

#[test]
fn labels_name_leaves_and_what_has_no_root_in_common_is_said() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let _ = env.run(&["label", &path, "left-a", "the good one"]).code(0);
    let found = env.run(&["diff", &path, "the good one", "far-q", "--json"]).code(0).json();
    assert_eq!(found["branches"][0]["label"], "the good one");
    assert_eq!((&found["branchPointUuid"], &found["shared"]), (&Value::Null, &json!(0)));
    let said = env.run(&["diff", &path, "far-q", "the good one"]).code(0);
    assert!(said.stderr.contains("no record in common"), "{said:?}");
    assert!(said.stdout.contains("+++ left-a (the good one)"), "{said:?}");
    assert_eq!(
        env.run(&["diff", &path, "root-a", "far-q", "--json"]).code(3).json()["refusal"]["code"],
        "leaf-not-terminal"
    );
    let _ = env.run(&["label", &path, "far-q", "the good one"]).code(0);
    let refused = env.run(&["export", &path, "the good one", "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "id-ambiguous");
}

#[test]
fn an_export_is_the_branch_and_nothing_else() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let found = env.run(&["export", &path, "left-a", "--format", "json"]).code(0).json();
    assert_eq!(found["schema"], "offshoot.export/1");
    assert_eq!(
        (&found["leafUuid"], &found["records"], &found["gap"]),
        (&json!("left-a"), &json!(6), &Value::Null)
    );
    let turns = found["turns"].as_array().unwrap();
    assert_eq!(turns.iter().map(|t| t["uuid"].clone()).collect::<Vec<_>>(), ["root-q", "left-q"]);
    assert_eq!(env.run(&["export", &path, "left-a", "--json"]).code(0).json(), found, "`--json` is the same");
    let page = env.run(&["export", &path, "left-a"]).code(0).stdout;
    assert!(page.starts_with(&format!("# qwen session {SESSION}, branch left-a\n")), "{page}");
    assert!(
        page.contains("## 2. User (2026-01-01T00:00:00.000Z)\n\nplease fix it\n\n### Assistant\n\n"),
        "{page}"
    );
    assert!(page.contains("````text\nedit src/a.rs\n  edited\n  ```\n  </pre>\n````\n"), "{page}");
    assert!(
        page.contains("fixed &lt;b>on the left&lt;/b>\n\\# not ours\n```rust\nfn a() {}\n```\n"),
        "{page}"
    );
    assert!(!page.contains("right"), "{page}");
    assert!(!env.run(&["export", &path, "right-a"]).code(0).stdout.contains('\u{1b}'));
}

#[test]
fn redacted_no_word_of_the_conversation_is_left() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let _ = env.run(&["label", &path, "left-a", "secret name"]).code(0);
    for args in [
        &["diff", &path, "left-a", "right-a"][..],
        &["diff", &path, "left-a", "right-a", "--json"],
        &["export", &path, "left-a"],
        &["export", &path, "left-a", "--json"],
    ] {
        let said = env.run(&[args, &["--redact"]].concat()).code(0).stdout;
        for word in ["please", "fix", "begun", "edit", "src/", "secret", "read_many"] {
            assert!(!said.contains(word), "{args:?}: {word}: {said}");
        }
        assert!(said.contains("left out, "), "{args:?}: {said}");
    }
    let found = env.run(&["diff", &path, "left-a", "right-a", "--json", "--redact"]).code(0).json();
    assert_eq!((&found["branches"][1]["fileCount"], &found["branches"][1]["files"]), (&json!(2), &json!([])));
}

/// Parallel calls of Claude Code stand beside the chain; their results belong to the branch all the same.
#[test]
fn parallel_calls_of_claude_code_are_whole() {
    let dir = fixture("cases/claude");
    let (mut seen, mut missing) = (0, Vec::new());
    for case in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap()) {
        let name = case.file_name().into_string().unwrap();
        // `t05` is a file that lacks results.
        if !name.starts_with("t0") || name.starts_with("t05") || !case.path().is_dir() {
            continue;
        }
        let mut files = std::fs::read_dir(case.path()).unwrap().map(|e| e.unwrap().path());
        let Some(file) = files.find(|p| p.extension().is_some_and(|e| e == "jsonl")) else { continue };
        let env = TestEnv::new();
        let path = env.write("t.jsonl", std::fs::read_to_string(file).unwrap());
        let shown = env.run(&["inspect", &path, "--json"]).code(0).json();
        for branch in shown["branches"].as_array().unwrap().iter().filter(|b| b["turn"] == "complete") {
            let leaf = branch["leafUuid"].as_str().unwrap();
            let found = env.run(&["export", &path, leaf, "--json"]).code(0).json();
            for item in found["turns"].as_array().unwrap().iter().flat_map(|t| t["items"].as_array().unwrap())
            {
                if item["kind"] == "tool" {
                    seen += 1;
                    if item["result"].is_null() || item["name"] == "" {
                        missing.push(format!("{name} {leaf}: {item}"));
                    }
                }
            }
        }
    }
    assert!(seen >= 6, "only {seen} tools");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// A compaction begins anew for the model; a person reads on.
#[test]
fn a_branch_is_read_across_a_compaction() {
    let env = TestEnv::new();
    let base = |uuid: &str, parent: Value, kind: &str, more: Value| {
        let mut r = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": "/w", "version": "2.1.332",
            "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "isSidechain": false});
        r.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{r}\n")
    };
    let user = |text: &str| json!({"message": {"role": "user", "content": text}});
    let model = |id: &str, text: &str| json!({"message": {"role": "assistant", "id": id, "content": [{"type": "text", "text": text}]}});
    let boundary = json!({"subtype": "compact_boundary", "logicalParentUuid": "a1", "compactMetadata": {}});
    let summary = json!({"isCompactSummary": true, "message": {"role": "user", "content": "in short"}});
    let lines = [
        base("u1", Value::Null, "user", user("before")),
        base("a1", json!("u1"), "assistant", model("m1", "reply before")),
        base("b1", Value::Null, "system", boundary),
        base("s1", json!("b1"), "user", summary),
        base("u2", json!("s1"), "user", user("after")),
        base("a2", json!("u2"), "assistant", model("m2", "reply after")),
        base("u3", json!("a1"), "user", user("another way")),
        base("a3", json!("u3"), "assistant", model("m3", "reply elsewhere")),
    ];
    let path = env.write("t.jsonl", lines.concat());
    let page = env.run(&["export", &path, "a2"]).code(0).stdout;
    let places =
        ["before", "reply before", "compacted here", "after", "reply after"].map(|t| page.find(t).unwrap());
    assert!(places.is_sorted(), "{page}");
    let found = env.run(&["diff", &path, "a2", "a3", "--json"]).code(0).json();
    assert_eq!(found["branchPointUuid"], "a1");
    assert_eq!(found["branches"][0]["turns"][1]["prompt"][0]["text"], "after");
}
