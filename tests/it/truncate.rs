//! `truncate` and `restore` through the built binary: what stays, what is refused, and what takes it back.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Ran, TestEnv, fixture};

const SESSION: &str = "77777777-0000-4000-8000-000000000001";

fn record(uuid: &str, parent: Option<&str>, kind: &str, parts: Value) -> String {
    let role = if kind == "assistant" { "model" } else { "user" };
    let mut r = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": "/w",
        "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "version": "0.24.4"});
    if kind != "system" {
        r["message"] = json!({"role": role, "parts": parts});
    }
    format!("{r}\n")
}

fn say(uuid: &str, parent: Option<&str>, kind: &str) -> String {
    record(uuid, parent, kind, json!([{"text": format!("text of {uuid}")}]))
}

/// A shared turn, a branch of two turns, and another, physically last.
fn session() -> Vec<String> {
    let line = |uuid: &str, parent: &str, kind: &str| say(uuid, Some(parent).filter(|p| !p.is_empty()), kind);
    vec![
        line("root-q", "", "user"),
        line("root-a", "root-q", "assistant"),
        line("one-q", "root-a", "user"),
        line("one-a", "one-q", "assistant"),
        line("two-q", "one-a", "user"),
        line("two-a", "two-q", "assistant"),
        line("other-q", "root-a", "user"),
        line("other-a", "other-q", "assistant"),
    ]
}

struct Place {
    env: TestEnv,
    path: String,
}

impl Place {
    fn with(text: &str) -> Place {
        let env = TestEnv::new();
        let path = env.write(&format!("work/{SESSION}.jsonl"), text);
        Place { env, path }
    }

    fn run(&self, verb: &str, args: &[&str]) -> Ran {
        self.env.run(&[&[verb, &self.path, "--json"], args].concat())
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    #[track_caller]
    fn refuses(&self, verb: &str, args: &[&str], status: i32, code: &str) -> Value {
        let before = self.text();
        let refused = self.run(verb, args).code(status).json();
        assert_eq!(refused["refusal"]["code"], code, "{refused}");
        assert_eq!(self.text(), before, "a refusal wrote something");
        refused
    }

    #[track_caller]
    fn pick(&self) -> String {
        let seen = self.run("inspect", &[]).code(0).json();
        seen["clientPick"]["leafUuid"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn verified(&self) {
        let found = self.env.run(&["audit", "verify", "--deep", "--json"]).code(0).json();
        assert_eq!(found["findings"], json!([]), "{found}");
    }

    fn files(&self) -> Vec<String> {
        let dir = fs::read_dir(Path::new(&self.path).parent().unwrap()).unwrap();
        let names = dir.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|n| !n.ends_with(".offshoot-lock")).collect();
        names.sort();
        names
    }
}

#[test]
fn the_record_its_ancestors_and_every_other_branch_stay_as_they_are() {
    let lines = session();
    let place = Place::with(&lines.concat());
    let answer = place.run("truncate", &["--after", "one-a"]).code(0).json();
    assert_eq!(answer["schema"], "offshoot.truncate/1");
    assert_eq!((&answer["warnings"], &answer["dryRun"]), (&json!([]), &json!(false)));
    assert_eq!(answer["recordUuid"], "one-a");
    assert_eq!(answer["removed"], json!({"records": 2, "lines": 0}));
    let text = place.text();
    let kept = [&lines[..4], &lines[6..]].concat().concat();
    let anchor: Value = serde_json::from_str(text.strip_prefix(&kept).unwrap()).unwrap();
    assert_eq!((&anchor["parentUuid"], &anchor["uuid"]), (&json!("one-a"), &answer["anchor"]));
    assert_eq!(answer["parentUuid"], answer["anchor"], "the client's next record hangs there");
    assert_eq!(answer["records"], 7);
    assert_eq!(place.pick(), "one-a");
    let backup = answer["backup"].as_str().unwrap();
    assert_eq!(fs::read_to_string(backup).unwrap(), lines.concat());
    let name = Path::new(backup).file_name().unwrap().to_str().unwrap();
    let time = name.strip_prefix(&format!("{SESSION}.jsonl.bak.")).unwrap();
    assert_eq!((time.len(), time.as_bytes()[8], time.as_bytes()[15]), (16, b'T', b'Z'), "{time}");
    let digest = |text: &str| format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
    assert_eq!(answer["old"], json!({"bytes": lines.concat().len(), "digest": digest(&lines.concat())}));
    assert_eq!(answer["new"], json!({"bytes": text.len(), "digest": digest(&text)}));
    assert_eq!(place.files(), [format!("{SESSION}.jsonl"), name.to_owned()]);
    place.verified();
    let listed = place.env.run(&["audit", "list", "--json"]).code(0).json();
    assert_eq!(listed["selections"][0]["state"], "replaced");
    assert_eq!(listed["selections"][0]["replace"]["backup"], backup);
}

#[test]
fn no_anchor_where_the_client_lands_on_the_record_by_itself() {
    let lines = session();
    let place = Place::with(&lines.concat());
    let answer = place.run("truncate", &["--after", "other-q"]).code(0).json();
    assert_eq!(answer["anchor"], Value::Null);
    assert_eq!(place.text(), lines[..7].concat());
    assert_eq!(place.pick(), "other-q");
    assert!(answer["warnings"][0].as_str().unwrap().contains("never answered"), "{answer}");
    place.verified();
}

#[test]
fn restore_takes_it_back_and_only_once() {
    let whole = session().concat();
    let place = Place::with(&whole);
    place.refuses("restore", &[], 3, "nothing-to-undo");
    let cut = place.run("truncate", &["--after", "one-a", "--operation-id", "cut"]).code(0).json();
    let after = place.text();
    let answer = place.run("restore", &[]).code(0).json();
    assert_eq!(answer["schema"], "offshoot.restore/1");
    assert_eq!((&answer["warnings"], &answer["dryRun"]), (&json!([]), &json!(false)));
    assert_eq!((&answer["undoes"], &answer["restoredFrom"]), (&json!("cut"), &cut["backup"]));
    assert_eq!((&answer["old"], &answer["new"]), (&cut["new"], &cut["old"]));
    assert_eq!(answer["parentUuid"], "other-a");
    assert_eq!(place.text(), whole);
    assert_eq!(fs::read_to_string(answer["backup"].as_str().unwrap()).unwrap(), after);
    assert_ne!(answer["backup"], cut["backup"], "a backup is never written over");
    place.refuses("restore", &[], 3, "nothing-to-undo");
    place.verified();
}

#[test]
fn two_truncates_are_taken_back_one_after_the_other() {
    let whole = session().concat();
    let place = Place::with(&whole);
    place.run("truncate", &["--after", "two-q"]).code(0).json();
    let between = place.text();
    place.run("truncate", &["--after", "root-a"]).code(0).json();
    assert_eq!(place.text(), session()[..2].concat());
    place.run("restore", &[]).code(0).json();
    assert_eq!(place.text(), between);
    place.run("restore", &[]).code(0).json();
    assert_eq!(place.text(), whole);
    place.refuses("restore", &[], 3, "nothing-to-undo");
    place.verified();
}

#[test]
fn restore_refuses_what_would_lose_something() {
    let place = Place::with(&session().concat());
    let cut = place.run("truncate", &["--after", "one-a"]).code(0).json();
    let after = place.text();
    fs::write(&place.path, after.clone() + &say("new-q", Some("one-a"), "user")).unwrap();
    let grown = place.refuses("restore", &[], 4, "stale-source");
    assert!(grown["refusal"]["message"].as_str().unwrap().contains("grown"), "{grown}");
    fs::write(&place.path, after.replacen("text of", "TEXT OF", 1)).unwrap();
    let changed = place.refuses("restore", &[], 4, "stale-source");
    assert!(changed["refusal"]["message"].as_str().unwrap().contains("changed"), "{changed}");
    assert_eq!(changed["refusal"]["detail"]["backup"], cut["backup"]);
    fs::write(&place.path, &after).unwrap();
    let backup = cut["backup"].as_str().unwrap();
    let kept = fs::read_to_string(backup).unwrap();
    fs::write(backup, kept.replacen("text of", "TEXT OF", 1)).unwrap();
    let damaged = place.run("restore", &[]).code(1).json();
    assert_eq!(damaged["fault"]["code"], "damaged");
    assert_eq!(place.text(), after);
    fs::remove_file(backup).unwrap();
    place.refuses("restore", &[], 3, "nothing-to-undo");
}

#[test]
fn what_cannot_be_the_last_record_is_refused() {
    let call = json!([{"functionCall": {"id": "c", "name": "t", "args": {}}}]);
    let response = json!([{"functionResponse": {"id": "c", "name": "t", "response": {}}}]);
    let text = [
        say("lost-q", Some("nowhere"), "user"),
        say("lost-a", Some("lost-q"), "assistant"),
        say("root-q", None, "user"),
        record("calls", Some("root-q"), "assistant", call),
        record("answers", Some("calls"), "tool_result", response),
        say("done", Some("answers"), "assistant"),
    ];
    let place = Place::with(&text.concat());
    place.refuses("truncate", &["--after", "calls"], 3, "inside-tool-round");
    place.refuses("truncate", &["--after", "done"], 3, "nothing-to-remove");
    place.refuses("truncate", &["--after", "lost-q"], 3, "chain-broken");
    place.refuses("truncate", &["--after", "nothing-like-it"], 3, "leaf-unknown");
    place.refuses("truncate", &["--after", "lost"], 3, "id-ambiguous");
    assert_eq!(place.files(), [format!("{SESSION}.jsonl")], "no backup without a truncate");
    place.run("truncate", &["--after", "answers"]).code(0).json();
}

#[test]
fn a_dry_run_says_it_all_and_writes_nothing() {
    let place = Place::with(&session().concat());
    let dry =
        place.run("truncate", &["--after", "one-a", "--dry-run", "--operation-id", "op"]).code(0).json();
    assert_eq!((&dry["dryRun"], &dry["removed"]["records"]), (&json!(true), &json!(2)));
    assert_eq!(place.text(), session().concat());
    assert_eq!(place.files(), [format!("{SESSION}.jsonl")]);
    let real = place.run("truncate", &["--after", "one-a", "--operation-id", "op"]).code(0).json();
    assert_eq!((&real["new"]["bytes"], &real["replayed"]), (&dry["new"]["bytes"], &json!(false)));
    let dry = place.run("restore", &["--dry-run"]).code(0).json();
    assert_eq!((&dry["dryRun"], &dry["new"]), (&json!(true), &real["old"]));
    assert_ne!(place.text(), session().concat());
}

#[test]
fn the_same_operation_gives_the_same_result_and_no_other() {
    let place = Place::with(&session().concat());
    let args = ["--after", "one-a", "--operation-id", "op"];
    let first = place.run("truncate", &args).code(0).json();
    let text = place.text();
    let mut again = place.run("truncate", &["--after", "one-", "--operation-id", "op"]);
    assert_eq!(again.code, Some(0), "a prefix of the same record: {again:?}");
    for _ in 0..2 {
        let mut answer = again.json();
        assert_eq!(answer["replayed"], true);
        answer["replayed"] = false.into();
        assert_eq!(answer, first);
        again = place.run("truncate", &args);
    }
    assert_eq!(place.text(), text);
    place.refuses("truncate", &["--after", "root-a", "--operation-id", "op"], 3, "operation-conflict");
    place.refuses("restore", &["--operation-id", "op"], 3, "operation-conflict");
    place.refuses("resume", &["--leaf", "one-a", "--operation-id", "op"], 3, "operation-conflict");
    place.run("restore", &["--operation-id", "back"]).code(0).json();
    assert_eq!(place.run("restore", &["--operation-id", "back"]).code(0).json()["replayed"], true);
    // Answered from the ledger, whatever stands there now.
    assert_eq!(place.run("truncate", &args).code(0).json()["replayed"], true);
    assert_eq!(place.text(), session().concat());
}

#[test]
fn what_was_chosen_before_is_held_to_the_backup() {
    let place = Place::with(&session().concat());
    place.run("resume", &["--leaf", "two-a", "--seed", "in-place", "--operation-id", "a"]).code(0).json();
    place.verified();
    let first = place.run("truncate", &["--after", "root-a"]).code(0).json();
    place.verified();
    let shown = place.run("inspect", &[]).code(0).json();
    assert_eq!(shown["branches"].as_array().unwrap().len(), 1);
    assert_eq!(shown["branches"][0]["recorded"], false, "what was chosen is not there any more");
    // The next choice is about what stands there now, and is held to the second backup later on.
    place.run("resume", &["--leaf", "root-a", "--seed", "none"]).code(0).json();
    place.verified();
    let shown = place.run("inspect", &[]).code(0).json();
    assert_eq!(shown["branches"][0]["recorded"], true);
    place.run("restore", &[]).code(0).json();
    place.verified();
    let found = place.env.run(&["audit", "verify", "--deep", "--json"]).code(0).json();
    assert!(found["notes"].to_string().contains("not-yet"), "{found}");
    let backup = first["backup"].as_str().unwrap();
    let kept = fs::read_to_string(backup).unwrap();
    fs::write(backup, kept.replacen("text of", "TEXT OF", 1)).unwrap();
    let found = place.env.run(&["audit", "verify", "--deep", "--json"]).code(5).json();
    let codes = found["findings"].to_string();
    assert!(codes.contains("backup-changed") && codes.contains("transcript-changed"), "{codes}");
    fs::remove_file(backup).unwrap();
    let found = place.env.run(&["audit", "verify", "--deep", "--json"]).code(0).json();
    assert!(found["notes"].to_string().contains("backup-gone"), "{found}");
}

#[test]
fn unfinished_and_malformed_lines_are_kept() {
    let lines = session();
    let torn = "{\"uuid\":\"torn";
    let text =
        [&lines[..3], &["no json\n".to_owned(), "\n".to_owned()], &lines[3..]].concat().concat() + torn;
    let place = Place::with(&text);
    let answer = place.run("truncate", &["--after", "root-a"]).code(0).json();
    assert_eq!(place.text(), lines[..2].concat() + "no json\n\n" + torn + "\n");
    assert_eq!(answer["old"]["bytes"], text.len());
    assert_eq!(fs::read_to_string(answer["backup"].as_str().unwrap()).unwrap(), text);
    place.run("restore", &[]).code(0).json();
    assert_eq!(place.text(), text);
    // Of records glued together only those go that descend from it.
    let glued = lines[..2].concat() + lines[2].trim_end() + &lines[6] + &lines[3];
    let place = Place::with(&glued);
    place.run("truncate", &["--after", "one-q"]).code(0).json();
    assert!(place.text().starts_with(&(lines[..2].concat() + lines[2].trim_end() + &lines[6])));
    let place = Place::with(&(lines[0].clone() + lines[1].trim_end() + lines[6].trim_end() + &lines[2]));
    place.run("truncate", &["--after", "root-a"]).code(0).json();
    assert_eq!(place.text(), lines[0].clone() + &lines[1]);
}

#[test]
#[cfg(unix)]
fn the_file_keeps_its_mode_and_the_backup_is_private() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = Place::with(&session().concat());
    for mode in [0o640, 0o444] {
        fs::set_permissions(&place.path, fs::Permissions::from_mode(mode)).unwrap();
        let answer = place.run("truncate", &["--after", "one-a"]).code(0).json();
        let mode_of = |path: &str| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode_of(&place.path), mode_of(answer["backup"].as_str().unwrap())), (mode, 0o600));
        let back = place.run("restore", &[]).code(0).json();
        assert_eq!((mode_of(&place.path), mode_of(back["backup"].as_str().unwrap())), (mode, 0o600));
        for answer in [answer, back] {
            let said = answer["warnings"].to_string().contains("the transcript is read-only");
            assert_eq!(said, mode == 0o444, "{answer}");
        }
    }
}

#[test]
fn texts_say_what_was_done_and_how_to_take_it_back() {
    let place = Place::with(&session().concat());
    let said = place.env.run(&["truncate", &place.path, "--after", "one-a"]).code(0).stdout;
    assert!(said.contains("removed    2 records\n") && said.contains("offshoot restore"), "{said}");
    assert!(said.contains(".jsonl.bak.2"), "{said}");
    let again = format!("undo it    offshoot restore {}\n", place.path);
    assert!(said.contains(&again) && said.contains("kept       6 records, and anchor "), "{said}");
    let said = place.env.run(&["restore", &place.path]).code(0).stdout;
    assert!(said.contains("restored   ") && said.contains("kept       8 records\n"), "{said}");
    let path = place.env.write("it's here.jsonl", session().concat());
    let said = place.env.run(&["truncate", &path, "--after", "one-a"]).code(0).stdout;
    assert!(said.contains("offshoot restore '/") && said.contains("/it'\\''s here.jsonl'\n"), "{said}");
}

/// A session of Claude Code by name.
fn case(name: &str) -> String {
    let files = fs::read_dir(fixture(&format!("cases/claude/{name}"))).unwrap();
    let mut files = files.map(|e| e.unwrap().path());
    fs::read_to_string(files.find(|p| p.extension().is_some_and(|e| e == "jsonl")).unwrap()).unwrap()
}

/// The record below which both branches of `s18-natural` hang, and one within each.
fn claude(text: &str) -> Vec<Value> {
    text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

#[test]
fn pins_and_file_snapshots_of_what_goes_go_with_it() {
    let text = case("s18-natural");
    let records = claude(&text);
    let id = |r: &Value| r["uuid"].as_str().map(str::to_owned);
    let leaf = "aab09c0b-386f-4a0b-8207-786e27a3e8c3".to_owned();
    let by_id = |wanted: &str| records.iter().find(|r| id(r).as_deref() == Some(wanted)).unwrap();
    let above = by_id(&leaf)["parentUuid"].as_str().unwrap().to_owned();
    let top = by_id(&above)["parentUuid"].as_str().unwrap().to_owned();
    let aside = |value: Value| format!("{value}\n");
    let goes = [
        aside(json!({"type": "file-history-snapshot", "messageId": above, "snapshot": {}})),
        aside(json!({"type": "summary", "summary": "s", "leafUuid": leaf})),
        aside(json!({"type": "last-prompt", "leafUuid": leaf, "sessionId": "s"})),
    ];
    let stays = [
        aside(json!({"type": "file-history-snapshot", "messageId": top, "snapshot": {}})),
        aside(json!({"type": "queue-operation", "operation": "enqueue"})),
        aside(json!({"type": "custom-title", "customTitle": leaf})),
        aside(json!({"type": "last-prompt", "leafUuid": top, "sessionId": "s"})),
    ];
    let text = stays[..2].concat() + &goes[..2].concat() + &text + &stays[2..].concat() + &goes[2];
    let place = Place::with(&text);
    let answer = place.run("truncate", &["--after", &top]).code(0).json();
    assert_eq!(answer["recordUuid"], top.as_str());
    assert_eq!(place.pick(), top);
    let now = place.text();
    for line in &goes {
        assert!(!now.contains(line.as_str()), "{line}");
    }
    for line in &stays {
        assert!(now.contains(line.as_str()), "{line}");
    }
    for line in text.lines().filter(|l| !now.contains(&format!("{l}\n"))) {
        let gone: Value = serde_json::from_str(line).unwrap();
        let named =
            ["uuid", "leafUuid", "messageId"].map(|k| gone[k].as_str().unwrap_or_default().to_owned());
        assert!(named.iter().any(|n| *n == leaf || *n == above), "{line}");
    }
    place.verified();
    place.run("restore", &[]).code(0).json();
    assert_eq!(place.text(), text);
    place.verified();
}

#[test]
fn a_message_of_claude_code_is_not_divided_and_a_subagent_has_no_end() {
    let base = |uuid: &str, parent: Value, kind: &str, message: Value| {
        json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": "/w", "version": "2.1.332",
            "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "isSidechain": false, "message": message})
    };
    let assistant = |uuid: &str, parent: &str, block: Value| {
        base(uuid, json!(parent), "assistant", json!({"id": "m1", "role": "assistant", "content": [block]}))
    };
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "T", "input": {}});
    let result = |uuid: &str, parent: &str, id: &str| {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
        base(uuid, json!(parent), "user", json!({"role": "user", "content": [block]}))
    };
    let mut side = base("side", Value::Null, "user", json!({"role": "user", "content": "sub"}));
    side["isSidechain"] = true.into();
    let mut below_side = base("below-side", json!("side"), "user", json!({"role": "user", "content": "sub"}));
    below_side["isSidechain"] = true.into();
    let records = [
        base("u1", Value::Null, "user", json!({"role": "user", "content": "go"})),
        assistant("text", "u1", json!({"type": "text", "text": "I shall"})),
        assistant("call-a", "text", call("a")),
        assistant("call-b", "call-a", call("b")),
        result("result-a", "call-a", "a"),
        result("result-b", "call-b", "b"),
        base("u2", json!("result-b"), "user", json!({"role": "user", "content": "on"})),
        side,
        below_side,
    ];
    let text: String = records.iter().map(|r| format!("{r}\n")).collect();
    let place = Place::with(&text);
    for id in ["text", "call-a", "call-b"] {
        let refused = place.refuses("truncate", &["--after", id], 3, "inside-tool-round");
        assert_eq!(refused["refusal"]["detail"]["lastUuid"], "result-b");
    }
    place.refuses("truncate", &["--after", "result-a"], 3, "nothing-to-remove");
    place.refuses("truncate", &["--after", "side"], 3, "sidechain-leaf");
    let answer = place.run("truncate", &["--after", "result-b"]).code(0).json();
    assert_eq!(answer["removed"]["records"], 1);
    assert!(place.text().contains("\"result-a\""), "results beside the chain stay");
    place.verified();
}

#[test]
fn what_a_hint_names_can_be_done() {
    let env = TestEnv::new();
    let gap = fs::read(fixture("cases/qwen/g1-missing-parent-mid-chain/transcript.jsonl")).unwrap();
    let path = env.write("t.jsonl", gap);
    let above = "00000000-0000-4000-8000-000000000008";
    let refused = env.run(&["truncate", &path, "--after", above, "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "chain-broken");
    let hint = refused["refusal"]["hint"].as_str().unwrap();
    assert_eq!(hint, "`offshoot resume --leaf ID --allow-gap` seeds the part below the gap");
    let leaf = "00000000-0000-4000-8000-000000000009";
    let _ = env.run(&["resume", &path, "--leaf", leaf, "--allow-gap"]).code(0);
}

#[test]
#[cfg(unix)]
fn a_person_is_asked_and_may_decline() {
    use crate::pty::{CTRL_C, ENTER, ESC, Pty};
    let place = Place::with(&session().concat());
    let start = |args: &[&str]| Pty::spawn(&place.env.command(&[args, &[&place.path]].concat()), 100, 24);
    let cut: &[&str] = &["truncate", "--after", "one-a"];
    for no in ["n", "q", ENTER, ESC, CTRL_C] {
        let mut pty = start(cut);
        pty.wait_text("Remove the 2 records below one-a?");
        pty.wait_text("y removes them, and keeps a backup; n, Enter, Esc and q leave everything as it is");
        pty.wait_text("Go ahead? [y/N]");
        // What is no answer is passed over.
        pty.send("x");
        pty.send(no);
        let declined = pty.wait();
        assert_eq!((declined.code, declined.restored()), (Some(130), true), "{no:?}: {}", declined.drawn);
        assert!(declined.drawn.contains("nothing was written"), "{no:?}: {}", declined.drawn);
        assert_eq!(place.text(), session().concat());
        assert_eq!(place.files(), [format!("{SESSION}.jsonl")]);
    }
    let mut pty = start(cut);
    pty.wait_text("Go ahead? [y/N]");
    pty.send("y");
    assert_eq!(pty.wait().code, Some(0));
    assert_eq!(place.pick(), "one-a");
    let mut pty = start(&["restore"]);
    pty.wait_text("y puts it back");
    pty.send("y");
    assert_eq!(pty.wait().code, Some(0));
    assert_eq!(place.text(), session().concat());
    let mut pty = start(&["truncate", "--after", "two-q"]);
    pty.wait_text("Remove the record below two-q?");
    pty.wait_text("y removes it, and");
    pty.send("y");
    assert_eq!(pty.wait().code, Some(0));
    // With `--yes` nobody is asked.
    assert_eq!(start(&["restore", "--yes"]).wait().code, Some(0));
    assert_eq!(place.text(), session().concat());
}

/// Whichever verb had an id first, the others are told.
#[test]
fn no_verb_takes_an_operation_id_of_another() {
    let verbs: [(&str, &[&str]); 4] = [
        ("truncate", &["--after", "one-a"]),
        ("fork", &["--at", "one-a"]),
        ("resume", &["--leaf", "other-a", "--seed", "none"]),
        ("restore", &[]),
    ];
    for first in 0..3 {
        let place = Place::with(&session().concat());
        let run =
            |(verb, args): (&str, &[&str])| place.run(verb, &[args, &["--operation-id", "op"]].concat());
        run(verbs[first]).code(0).json();
        let before = place.text();
        for other in (0..4).filter(|&other| other != first) {
            let refused = run(verbs[other]).code(3).json();
            assert_eq!(
                refused["refusal"]["code"], "operation-conflict",
                "{} then {}",
                verbs[first].0, verbs[other].0
            );
        }
        assert_eq!(place.text(), before);
        assert_eq!(run(verbs[first]).code(0).json()["replayed"], true, "{}", verbs[first].0);
        place.verified();
    }
}
