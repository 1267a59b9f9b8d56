//! `inspect`, `chain` and `find` through the binary, and how errors leave it.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::support::{Ran, TestEnv};

const SESSION: &str = "0bd5fba6-38c6-420f-8252-2cdccf70f368";

/// One Qwen record; `at` is the minute.
fn record(uuid: &str, parent: Option<&str>, kind: &str, text: &str, at: u32) -> String {
    let role = if kind == "assistant" { "model" } else { "user" };
    json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "cwd": "/workspace",
        "timestamp": format!("2026-01-01T10:{at:02}:00.000Z"), "version": "0.24.4", "gitBranch": "main",
        "message": {"role": role, "parts": [{"text": text}]},
    })
    .to_string()
        + "\n"
}

/// Two branches below `a1`; the one in the middle of the file has the newest message.
fn two_branches() -> String {
    [
        record("u1", None, "user", "the root prompt", 0),
        record("a1", Some("u1"), "assistant", "the root reply", 1),
        record("uX", Some("a1"), "user", "apples\nplease", 2),
        record("aX", Some("uX"), "assistant", "here are Apples", 9),
        record("uY", Some("a1"), "user", "pears please", 3),
        record("aY", Some("uY"), "assistant", "here are pears", 4),
    ]
    .concat()
}

#[test]
fn the_table_fits_eighty_columns_whatever_the_transcript_holds() {
    let env = TestEnv::new();
    let wide = "東京\u{1b}[31m\u{202e}\u{9b}m ".repeat(40);
    let long = format!("{}-a", "x".repeat(120));
    let t = [
        record("u1", None, "user", &wide, 0),
        record(&long, Some("u1"), "assistant", &wide, 1),
        record("\u{1b}]0;title\u{7}", Some("u1"), "assistant", "b", 1),
        record("gone", Some("\u{1b}[2J\n\u{85}"), "user", "c", 1),
        "{\"torn\u{1b}[2J".to_owned(),
    ]
    .concat();
    let path = env.write("t.jsonl", t);
    for args in [&["inspect"][..], &["inspect", "--color", "always"], &["find"], &["chain", "--leaf", "gone"]]
    {
        let mut args = args.to_vec();
        args.insert(1, &path);
        if args[0] == "find" {
            args.push("東京");
        }
        let ran = env.run(&args).code(0);
        let coloured = args.contains(&"always");
        for text in [&ran.stdout, &ran.stderr] {
            for line in text.lines() {
                let plain =
                    if coloured { console::strip_ansi_codes(line).into_owned() } else { line.to_owned() };
                let bad = plain.chars().find(|&c| c.is_control() || "\u{202e}\u{2028}".contains(c));
                assert_eq!(bad, None, "{line:?}");
                let columns = unicode_width::UnicodeWidthStr::width(plain.as_str());
                assert!(columns <= 80 || args[0] == "chain" || text == &ran.stderr, "{columns}: {line:?}");
            }
        }
    }
    let ran = env.run(&["inspect", &path, "--json"]).code(0);
    assert_eq!(ran.stdout.trim_end().chars().find(|&c| c.is_control() || c == '\u{202e}'), None);
    assert!(ran.json()["branches"][0]["firstUserTextAfterBranchPoint"].is_null());
    assert!(
        ran.json()["branches"][0]["lastUserText"].as_str().unwrap().contains("\u{1b}[31m\u{202e}\u{9b}m")
    );
}

#[test]
fn redaction_leaves_no_word_of_the_conversation() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_branches());
    for args in [
        &["inspect", &path][..],
        &["inspect", &path, "--json"],
        &["find", &path, "pears", "--json"],
        &["find", &path, "pears"],
        &["chain", &path, "--leaf", "aX"],
    ] {
        let mut redacted = args.to_vec();
        redacted.push("--redact");
        let (open, closed) = (env.run(args).code(0), env.run(&redacted).code(0));
        assert!(!open.stdout.is_empty() && !closed.stdout.is_empty());
        for word in ["pears", "apples", "Apples", "root", "/workspace", "main"] {
            assert!(!closed.stdout.contains(word), "{word} in {}", closed.stdout);
        }
    }
}

#[test]
fn find_names_the_branches_that_hold_a_text() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_branches());
    let document = env.run(&["find", &path, "ROOT  reply", "--json"]).code(0).json();
    assert_eq!(
        document,
        json!({"schema": "offshoot.find/1", "transcript": path, "lists": {"leaves": "full"}, "matches": [
            {"uuid": "a1", "line": 2, "kind": "assistant", "leafCount": 2, "leaves": ["aX", "aY"],
             "excerpt": "the root reply"}]})
    );
    let document = env.run(&["find", &path, "apples", "--json"]).code(0).json();
    let found: Vec<_> =
        document["matches"].as_array().unwrap().iter().map(|m| (&m["uuid"], &m["leaves"])).collect();
    assert_eq!(found, [(&json!("uX"), &json!(["aX"])), (&json!("aX"), &json!(["aX"]))]);
    let none = env.run(&["find", &path, "plums"]).code(0);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no record holds that text\n"));
}

#[test]
fn chains_are_named_by_id_prefix_or_not_at_all() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_branches());
    let one = env.write("one.jsonl", record("leaf-0001", None, "user", "x", 0));
    let title = json!({"uuid": "title", "parentUuid": "aY", "sessionId": SESSION, "type": "system",
        "subtype": "custom_title", "timestamp": "2026-01-01T11:00:00Z"});
    let titled = env.write("titled.jsonl", format!("{}{title}\n", two_branches()));
    let chain = |args: &[&str]| env.run(&[&["chain", "--json"], args].concat());
    assert_eq!(
        chain(&[&path, "--leaf", "aX"]).code(0).json(),
        json!({"schema": "offshoot.chain/1", "leafUuid": "aX", "uuids": ["u1", "a1", "uX", "aX"], "gaps": [],
               "attached": []})
    );
    assert_eq!(chain(&[&one]).code(0).json()["leafUuid"], "leaf-0001");
    assert_eq!(chain(&[&one, "--leaf", "leaf"]).code(0).json()["leafUuid"], "leaf-0001");
    assert_eq!(chain(&[&titled, "--leaf", "title"]).code(0).json()["leafUuid"], "aY");
    let refused = |ran: Ran, code: i32, name: &str| {
        let document = ran.code(code).json();
        assert_eq!(document["refusal"]["code"], name);
        document
    };
    let several = refused(chain(&[&path]), 3, "several-leaves");
    assert_eq!(several["refusal"]["detail"], json!({"leaves": ["aX", "aY"], "more": 0}));
    refused(chain(&[&path, "--leaf", "a1"]), 3, "leaf-not-terminal");
    refused(chain(&[&path, "--leaf", "nobody"]), 3, "leaf-unknown");
    refused(chain(&[&one, "--leaf", "lea"]), 3, "leaf-unknown");
    refused(chain(&[&env.write("empty.jsonl", ""), "--agent", "qwen"]), 3, "no-leaf");
}

#[test]
fn what_is_no_transcript_is_refused_with_its_reason() {
    let env = TestEnv::new();
    let folder = env.path("work").display().to_string();
    let other = json!({"uuid": "1", "parentUuid": null, "sessionId": "s", "type": "event"});
    let cases = [
        (env.path("nowhere.jsonl").display().to_string(), 3, "session-unknown"),
        (folder, 3, "unsafe-path"),
        (env.write("text.txt", "no transcript\n"), 3, "agent-unknown"),
        (env.write("empty.jsonl", ""), 3, "agent-unknown"),
        (env.write("other.jsonl", format!("{other}\n")), 3, "agent-unknown"),
    ];
    for (path, code, name) in cases {
        let ran = env.run(&["inspect", &path, "--json"]).code(code);
        assert_eq!(ran.json()["refusal"]["code"], name, "{path}");
        let ran = env.run(&["inspect", &path]).code(code);
        assert!(ran.stderr.starts_with("error: ") && ran.stdout.is_empty(), "{path}: {ran:?}");
    }
}

#[cfg(unix)]
#[test]
fn special_files_are_not_waited_for() {
    let env = TestEnv::new();
    let pipe = env.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let target = env.write("t.jsonl", two_branches());
    let link = env.path("link.jsonl");
    std::os::unix::fs::symlink(target, &link).unwrap();
    for path in [&pipe, &link] {
        let ran = env.run(&["inspect", path.to_str().unwrap(), "--json"]).code(3);
        assert_eq!(ran.json()["refusal"]["code"], "unsafe-path");
    }
}

#[test]
fn usage_errors_exit_with_2_and_help_is_data() {
    let env = TestEnv::new();
    let ran = env.run(&["inspect", "--nonsense"]).code(2);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("--nonsense"), "{ran:?}");
    let ran = env.run(&["inspect", "--nonsense", "--json"]).code(2);
    assert_eq!(ran.json()["refusal"]["code"], "usage");
    let ran = env.run(&["inspect", "--help"]).code(0);
    assert!(ran.stdout.contains("--check") && ran.stderr.is_empty());
    let path = env.write("t.jsonl", two_branches());
    assert!(env.run(&["find", &path, "  "]).code(2).stderr.contains("no text"));
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let env = TestEnv::new();
    let many: String =
        (0..3_000).map(|i| record(&format!("leaf-{i:06}"), None, "user", "words", 0)).collect();
    let path = env.write("t.jsonl", many);
    let mut child = env
        .command(&["inspect", &path, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The document is larger than any pipe: the reader goes away in the middle of it.
    let mut first = [0; 1];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_fault() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_branches());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran =
        Ran::from(env.command(&["inspect", &path]).stdout(full).stderr(Stdio::piped()).output().unwrap());
    let ran = ran.code(1);
    assert!(ran.stderr.starts_with("error: cannot write to `standard output`"), "{ran:?}");
}

#[test]
fn check_finds_a_pick_that_is_not_the_newest_or_not_whole() {
    let env = TestEnv::new();
    // The client takes aY, the last line; aX has the newest message.
    let stale = env.write("stale.jsonl", two_branches());
    let ran = env.run(&["inspect", &stale, "--check"]).code(5);
    assert!(ran.stderr.contains("`aX` is newer"), "{ran:?}");
    assert!(ran.stdout.contains("resume aY"), "{ran:?}");
    let document = env.run(&["inspect", &stale, "--check", "--json"]).code(5).json();
    assert_eq!(document["clientPick"]["leafUuid"], "aY");
    let picked: Vec<_> = document["branches"].as_array().unwrap().iter().map(|b| &b["clientPick"]).collect();
    assert_eq!(picked, [&json!(false), &json!(true)]);
    let ran = env.run(&["inspect", &stale]).code(0);
    assert!(ran.stderr.starts_with("warning: "), "{ran:?}");

    let fresh = two_branches() + &record("zY", Some("aY"), "user", "more", 30);
    let fresh = env.write("fresh.jsonl", fresh);
    let ran = env.run(&["inspect", &fresh, "--check"]).code(0);
    assert_eq!(ran.stderr, "");

    let gap = env.write("gap.jsonl", two_branches() + &record("z", Some("lost"), "user", "more", 30));
    let ran = env.run(&["inspect", &gap, "--check"]).code(5);
    assert!(ran.stderr.contains("`lost`"), "{ran:?}");

    // Two session ids: the client refuses the file.
    let mixed =
        two_branches() + &record("z", Some("aY"), "user", "x", 30).replace(SESSION, "another-session");
    let mixed = env.write("mixed.jsonl", mixed);
    let ran = env.run(&["inspect", &mixed, "--check", "--json"]).code(5);
    assert!(ran.json()["clientPick"].is_null() && ran.stderr.contains("refuse"), "{ran:?}");
}

#[test]
fn the_digest_is_computed_on_demand() {
    let env = TestEnv::new();
    let text = two_branches();
    let path = env.write("t.jsonl", &text);
    assert!(env.run(&["inspect", &path, "--json"]).code(0).json()["snapshot"]["digest"].is_null());
    let document = env.run(&["inspect", &path, "--json", "--digest"]).code(0).json();
    let digest = format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
    assert_eq!(
        document["snapshot"],
        json!({"bytes": text.len(), "lines": 6, "records": 6, "digest": digest, "tornTail": false})
    );
}

#[test]
fn the_marks_of_a_branch_that_went_on_fit_their_line() {
    let env = TestEnv::new();
    let path = env.write(&format!("work/{SESSION}.jsonl"), two_branches());
    let child = env.run(&["resume", &path, "--leaf", "aY", "--json"]).code(0).json();
    let child: String = child["seed"]["sessionId"].as_str().unwrap().chars().take(8).collect();
    let page = env.run(&["inspect", &path]).code(0).stdout;
    let marks = format!("    the client's own pick, recorded, continued in {child} (0 new prompts)\n");
    assert!(page.contains(&marks), "{page}");
}

#[test]
fn a_person_is_told_the_first_diagnostics_and_how_many_more_there_are() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_branches() + &"{\"no record\": 1}\n".repeat(100));
    let text = env.run(&["inspect", &path]).code(0).stdout;
    assert_eq!(text.matches("skipped-record").count(), 30);
    assert!(text.contains("and 70 more; --json lists them all"), "{text}");
    let json = env.run(&["inspect", "--json", &path]).code(0).json();
    assert_eq!(json["diagnostics"].as_array().unwrap().len(), 100);
}

#[test]
fn a_conflict_is_told_with_the_record_that_counts() {
    let env = TestEnv::new();
    let again = record("aX", Some("u1"), "assistant", "again", 9);
    let qwen = env.run(&["inspect", &env.write("q.jsonl", two_branches() + &again)]).code(0).stdout;
    assert!(qwen.contains("the first counts"), "{qwen}");
    let claude = |uuid: &str, parent: Option<&str>, kind: &str| {
        json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "isSidechain": false,
            "version": "2.1.332", "timestamp": "2026-01-01T10:00:00.000Z",
            "message": {"role": kind, "content": [{"type": "text", "text": "words"}]}})
        .to_string()
            + "\n"
    };
    let t = [claude("u", None, "user"), claude("a", Some("u"), "assistant"), claude("a", None, "assistant")];
    let claude = env.run(&["inspect", "--agent", "claude", &env.write("c.jsonl", t.concat())]).code(0).stdout;
    assert!(claude.contains("the last counts"), "{claude}");
}

#[test]
fn a_text_of_any_length_is_summed_up_by_its_first_words() {
    let env = TestEnv::new();
    let claude = |uuid: &str, parent: Option<&str>, kind: &str, text: &str| {
        json!({
            "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "isSidechain": false,
            "timestamp": "2026-01-01T10:00:00.000Z", "version": "2.1.197", "cwd": "/workspace",
            "message": {"role": kind, "content": [{"type": "text", "text": text}]},
        })
        .to_string()
            + "\n"
    };
    let qwen = |uuid: &str, parent: Option<&str>, kind: &str, text: &str| record(uuid, parent, kind, text, 1);
    let blank = "\n \u{3000}".repeat(100_000);
    let words = "word ".repeat(100_000);
    for (agent, of) in
        [("qwen", &qwen as &dyn Fn(&str, Option<&str>, &str, &str) -> String), ("claude", &claude)]
    {
        let t = [
            of("u1", None, "user", &format!("{blank}far behind{blank}the blanks")),
            of("a1", Some("u1"), "assistant", &words),
            of("u2", Some("a1"), "user", &blank),
            of("a2", Some("u2"), "assistant", &blank),
        ];
        let path = env.write("t.jsonl", t.concat());
        let branch =
            env.run(&["inspect", "--agent", agent, "--json", &path]).code(0).json()["branches"][0].clone();
        assert_eq!(branch["leafUuid"], "a2", "{agent}");
        assert_eq!(branch["lastUserText"], "far behind the blanks", "{agent}");
        assert_eq!(branch["lastAssistantText"], format!("{}...", &words[..200]), "{agent}");
    }
}
