//! `tree --print`: what is drawn, how wide, as JSON, and of sessions that are empty, broken or hostile.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::support::{TestEnv, fixture};

const SESSION: &str = "86735cb7-c693-4ed3-90d6-c377b543ebf6";

/// A record of Qwen's form.
fn record(uuid: &str, parent: Option<&str>, kind: &str, parts: &serde_json::Value) -> String {
    let mut record = json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-03-01T12:00:00.000Z",
        "type": kind, "cwd": "/w", "version": "0.24.4",
    });
    if !parts.is_null() {
        record["message"] = json!({"role": "user", "parts": parts});
    }
    format!("{record}\n")
}

fn text(uuid: &str, parent: Option<&str>, kind: &str, text: &str) -> String {
    record(uuid, parent, kind, &json!([{"text": text}]))
}

fn demo() -> String {
    fixture("demo/session.jsonl").display().to_string()
}

fn print(env: &TestEnv, file: &str, columns: u32) -> String {
    let mut command = env.command(&["tree", "--print", file]);
    let ran = crate::support::Ran::from(command.env("COLUMNS", columns.to_string()).output().unwrap());
    ran.code(0).stdout
}

#[test]
fn branches_leaves_and_the_clients_pick_are_marked() {
    let env = TestEnv::new();
    let page = print(&env, &demo(), 100);
    let expected = "\
86735cb7-c693-4ed3-90d6-c377b543ebf6 (qwen)
2 branches, 29 records

c0077281  [U] Uploads to the parcel service fail with a 503 about once an hour. Find out why.
55f14cde  [T] 2 calls: read_file, run_shell_command; I'll read the upload path first.
e10427a3  [A] The service answers 503 for a few seconds while it rotates its workers, once an...
1d106802  [i] ui_telemetry (2 branches)
c98991ed  ├─ [U] Add retries with exponential backoff, five attempts at most, and tests for it.
e4b7d2af  │  [T] 3 calls: edit, write_file, run_shell_command
d15342ce  │  [A] Done: `retry()` waits 200 ms, 400 ms, 800 ms and 1.6 s, with jitter, and gives u...
931401de  │  [i] ui_telemetry
accc78b3  │  [U] Respect Retry-After as well, and never wait longer than ten seconds.
2acad41c  │  [T] 2 calls: edit, run_shell_command
67bacd6d  │  [A] `Retry-After` is honoured in both of its forms (seconds and a date), and no wait...
385e46a0  │  [i] ui_telemetry (leaf)
d61ca434  └─ [i] rewind
33d7994a     [U] Which HTTP client does this project use?
a77f8a32     [T] read_file /home/ada/parcel-api/package.json
a1970726     [A] undici 7.3, through the small wrapper in `src/http.ts`.
22fbf3db     [i] ui_telemetry (client's pick, leaf)
";
    assert_eq!(page, expected);
}

#[test]
fn labels_and_the_recorded_branch_are_marked_and_redact_leaves_no_word() {
    let env = TestEnv::new();
    let file = env.write(&format!("{SESSION}.jsonl"), std::fs::read(demo()).unwrap());
    let _ = env.run(&["label", &file, "385e46a0", "the retries"]).code(0);
    let _ = env.run(&["resume", &file, "--leaf", "385e46a0", "--seed", "none"]).code(0);
    let page = print(&env, &file, 100);
    assert!(page.contains("ui_telemetry (recorded, \"the retries\", leaf)\n"), "{page}");
    let ran = env.run(&["tree", "--print", "--redact", &file]).code(0);
    for word in ["retries", "undici", "upload", "shell", "package"] {
        assert!(!ran.stdout.to_lowercase().contains(word), "{word} in\n{}", ran.stdout);
    }
    assert!(ran.stdout.contains("(recorded, leaf)") && ran.stdout.contains("3 calls"), "{}", ran.stdout);
}

#[test]
fn as_json() {
    let env = TestEnv::new();
    let page = env.run(&["tree", "--print", "--json", &demo()]).code(0).json();
    assert_eq!(page["schema"], "offshoot.tree/1");
    assert_eq!(
        (&page["agent"], &page["sessionId"], &page["records"]),
        (&json!("qwen"), &json!(SESSION), &json!(29))
    );
    let rows = page["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 17);
    let of = |id: &str| rows.iter().find(|r| r["uuid"].as_str().unwrap().starts_with(id)).unwrap();
    assert_eq!(of("1d106802")["branches"], 2);
    assert_eq!(of("c0077281")["below"], json!(null));
    for id in ["c98991ed", "d61ca434"] {
        assert_eq!((&of(id)["below"], &of(id)["depth"]), (&of("1d106802")["uuid"], &json!(1)), "{id}");
    }
    let pick = of("22fbf3db");
    assert_eq!(
        (&pick["leaf"], &pick["clientPick"], &pick["recorded"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert_eq!((&of("e4b7d2af")["role"], &of("e4b7d2af")["records"]), (&json!("tool"), &json!(6)));
    assert_eq!(rows.iter().map(|r| r["records"].as_u64().unwrap()).sum::<u64>(), 29);
    assert!(of("33d7994a")["text"].as_str().unwrap().starts_with("Which HTTP client"));
    let redacted = env.run(&["tree", "--print", "--json", "--redact", &demo()]).code(0).json();
    assert!(redacted["rows"].as_array().unwrap().iter().all(|r| r.get("text").is_none()));
}

#[test]
fn no_line_is_wider_than_asked() {
    let env = TestEnv::new();
    let wide = "東京都の天気を調べて、明日の予定を立ててください。お願いします。👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 e\u{301}e\u{301} مرحبا";
    let mut session = text("root", None, "user", &wide.repeat(9));
    let mut parent = "root".to_owned();
    // Each branch point leads to a deeper one, so that the lines on the left outgrow the page.
    for i in 0..60 {
        let (a, b) = (format!("deep-{i}"), format!("side-{i}"));
        session += &text(&a, Some(&parent), "user", wide);
        session += &text(&b, Some(&parent), "assistant", &"word ".repeat(100));
        parent = a;
    }
    let file = env.write("wide.jsonl", session);
    for columns in [20, 33, 40, 57, 80, 100, 1000] {
        let page = print(&env, &file, columns);
        for line in page.lines() {
            assert!(line.width() <= columns as usize, "{columns}: {} columns: {line}", line.width());
        }
        assert_eq!(page.lines().count(), 3 + 121, "{columns}");
        assert!(page.contains("[U]") && page.contains("[A]"));
    }
    let page = print(&env, &file, 1000);
    assert!(
        page.lines().any(|l| l.ends_with(&format!("{}... (leaf)", "word ".repeat(16).trim_end()))),
        "{page}"
    );
}

#[test]
fn ids_are_whole_however_narrow_the_page() {
    let env = TestEnv::new();
    let id = |n: u8| format!("aaaaaaaa-0000-4000-8000-00000000000{n}");
    let session = text(&id(1), None, "user", "Add retries to the uploader")
        + &text(&id(2), Some(&id(1)), "assistant", "Done: five attempts at most, with jitter")
        + &text(&id(3), Some(&id(1)), "assistant", "Which client is it?");
    let file = env.write("alike.jsonl", session);
    let rows = |columns| print(&env, &file, columns).lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    let beside = rows(80);
    assert_eq!(beside.len(), 3);
    for (row, n) in beside.iter().zip([1, 2, 3]) {
        assert!(row.starts_with(&format!("{}  ", id(n))), "{beside:#?}");
    }
    for columns in [20, 40, 71] {
        let above = rows(columns);
        assert_eq!(above.len(), 6, "{columns}: {above:#?}");
        for (pair, n) in above.chunks(2).zip([1, 2, 3]) {
            assert_eq!(pair[0], id(n), "{columns}");
            assert!(pair[1].width() <= columns as usize, "{columns}: {above:#?}");
        }
        if columns >= 40 {
            assert!(
                above[3].ends_with("(leaf)") && above[5].ends_with("pick, leaf)"),
                "{columns}: {above:#?}"
            );
        }
    }
}

#[test]
fn what_is_no_text_has_a_placeholder() {
    let env = TestEnv::new();
    let parts = json!([{"text": "look at"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "x"}}]);
    let thought = json!([{"text": "hm", "thought": true}]);
    let session = record("a", None, "user", &parts)
        + &record("b", Some("a"), "assistant", &thought)
        + &record(
            "c",
            Some("b"),
            "user",
            &json!([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]),
        )
        + &record("d", Some("c"), "assistant", &json!(null));
    let page = print(&env, &env.write("parts.jsonl", session), 100);
    assert!(page.contains("[U] look at [image] [binary content]\n"), "{page}");
    assert!(page.contains("[A] (thinking only)\n"), "{page}");
    assert!(page.contains("[U] [image]\n"), "{page}");
    assert!(page.contains("[A] (no text) (client's pick, leaf)\n"), "{page}");
}

#[test]
fn empty_single_and_broken_sessions() {
    let env = TestEnv::new();
    // A title alone is no message and no leaf.
    let title = json!({"uuid": "t", "parentUuid": null, "sessionId": SESSION, "timestamp": "2026-03-01T12:00:00Z",
        "type": "system", "subtype": "custom_title", "cwd": "/w", "version": "0.24.4",
        "systemPayload": {"customTitle": "a title"}});
    let page = print(&env, &env.write("title.jsonl", format!("{title}\n")), 80);
    assert!(
        page.ends_with("\nNo messages in this session\nt  [i] title: a title (client's pick)\n"),
        "{page}"
    );
    let empty = env.write("empty.jsonl", "");
    let ran = env.run(&["tree", "--print", "--agent", "qwen", &empty]).code(0);
    assert!(ran.stdout.ends_with("\nNo messages in this session\n"), "{}", ran.stdout);
    let ran = env.run(&["tree", "--print", "--json", "--agent", "qwen", &empty]).code(0);
    assert_eq!(ran.json()["rows"], json!([]));
    let one = env.write("one.jsonl", text("only", None, "user", "the only one"));
    assert!(print(&env, &one, 80).ends_with("only  [U] the only one (client's pick, leaf)\n"));
    let broken =
        text("a", None, "user", "one") + "{oops\n" + &text("b", Some("a"), "assistant", "two") + "[]]\n";
    let ran = env.run(&["tree", "--print", &env.write("broken.jsonl", broken)]).code(0);
    assert!(ran.stderr.contains("2 lines hold no record"), "{}", ran.stderr);
    assert!(ran.stdout.contains("[U] one\n") && ran.stdout.contains("[A] two"), "{}", ran.stdout);
    let gap = text("a", None, "user", "one") + &text("b", Some("gone"), "user", "two");
    let page = print(&env, &env.write("gap.jsonl", gap), 80);
    assert!(
        page.contains("┌─ [U] one (leaf)\n")
            && page.contains("┌─ [U] two (client's pick, leaf, parent missing)"),
        "{page}"
    );
}

/// As the client does, and `inspect`: records of one id are one message, if they are of one kind.
#[test]
fn later_records_of_an_id_add_to_it() {
    let env = TestEnv::new();
    let session = text("a", None, "user", "ask")
        + &text("b", Some("a"), "assistant", "begun,")
        + &text("b", Some("a"), "assistant", "and ended")
        + &text("b", Some("a"), "user", "of another kind");
    let file = env.write("copies.jsonl", session);
    let page = print(&env, &file, 80);
    assert!(page.contains("[A] begun, and ended (client's pick, leaf)"), "{page}");
    let inspection = env.run(&["inspect", "--json", &file]).code(0).json();
    assert_eq!(inspection["branches"][0]["lastAssistantText"], "begun, and ended");
}

#[test]
fn hostile_text_steers_no_terminal() {
    let env = TestEnv::new();
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b\r\nc\u{200b}\u{7}";
    let call = json!([{"functionCall": {"id": "c", "name": hostile, "args": {hostile: hostile}}}]);
    let session = text("a\u{1b}[31m", None, "user", hostile)
        + &record("b", Some("a\u{1b}[31m"), "assistant", &call)
        + &record(
            "c\u{202e}",
            Some("b"),
            "tool_result",
            &json!([{"functionResponse": {"response": {"output": hostile}}}]),
        );
    let file = env.write("hostile.jsonl", session);
    for args in [&["tree", "--print", &file][..], &["tree", "--print", "--json", &file]] {
        let out = env.run(args).code(0).stdout;
        let bad = out.chars().find(|&c| c != '\n' && (c.is_control() || "\u{202e}\u{200b}".contains(c)));
        assert_eq!(bad, None, "{out:?}");
    }
}

#[test]
fn subagents_within_the_file_are_one_row_each() {
    let env = TestEnv::new();
    let record = |uuid: &str, parent: Option<&str>, kind: &str, side: bool, text: &str| {
        let record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "isSidechain": side,
            "timestamp": "2026-03-01T12:00:00.000Z", "type": kind, "cwd": "/w", "version": "2.1.197",
            "message": {"role": kind, "content": text}});
        format!("{record}\n")
    };
    let main =
        record("m1", None, "user", false, "ask") + &record("m2", Some("m1"), "assistant", false, "answer");
    let side = record("s1", None, "user", true, "look around")
        + &record("s2", Some("s1"), "assistant", true, "seen")
        + &record("z1", None, "user", true, "another");
    let page = print(&env, &env.write("both.jsonl", main + &side), 80);
    let rows: Vec<&str> = page.lines().skip(3).collect();
    let expected = [
        "m1  [U] ask",
        "m2  [A] answer (client's pick, leaf)",
        "s2  [S] 2 records of a subagent: look around",
        "z1  [S] 1 record of a subagent: another",
    ];
    assert_eq!(rows, expected);
    let page = print(&env, &env.write("sides.jsonl", side), 80);
    assert!(page.contains("[S] 2 records of a subagent: look around\n"), "{page}");
}

#[test]
fn ids_that_begin_alike_are_printed_as_far_as_they_differ() {
    let env = TestEnv::new();
    let id = |n: u32| format!("00000000-0000-4000-8000-{n:012}");
    let (a, b, c) = (id(1), id(2), id(3));
    let t = [
        text(&a, None, "user", "one"),
        text(&b, Some(&a), "assistant", "two"),
        text(&c, Some(&b), "user", "three"),
    ];
    let page = print(&env, &env.write("t.jsonl", t.concat()), 80);
    for id in [a, b, c] {
        assert!(page.contains(&format!("\n{id}  ")), "{page}");
    }
}
