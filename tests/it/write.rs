//! `resume --write`: records are appended below the leaf, durable before they are acknowledged, and by nobody else.

use std::fs;

use serde_json::{Value, json};

use crate::{
    stage::{OTHER, PICK, Process, SESSION, Stage, json_of, until},
    support::Ran,
};

fn user(text: &str) -> Value {
    json!({"type": "user", "message": {"role": "user", "parts": [{"text": text}]}})
}

fn writer(stage: &Stage, leaf: &str, seed: &str, operation: &str) -> Process {
    let args = ["--json", "--leaf", leaf, "--seed", seed, "--write", "--operation-id", operation];
    Process::spawn(stage.resume(&args))
}

fn code_of(ran: &Ran) -> String {
    let document = json_of(&ran.stderr);
    let what = document.get("refusal").or(document.get("fault")).unwrap_or(&document);
    what["code"].as_str().unwrap_or_default().to_owned()
}

fn by_uuid<'a>(records: &'a [Value], uuid: &Value) -> &'a Value {
    records.iter().find(|r| r["uuid"] == *uuid).unwrap_or_else(|| panic!("no record {uuid}"))
}

#[test]
fn records_hang_below_the_leaf_one_below_the_other() {
    for (seed, leaf) in [("in-place", OTHER), ("in-place", PICK), ("none", OTHER), ("none", PICK)] {
        let stage = Stage::new();
        let before = stage.bytes();
        let mut w = writer(&stage, leaf, seed, "op");
        let first = w.acked(&user("one"));
        let record = by_uuid(&stage.records(), &first["uuid"]).clone();
        assert_eq!(record["parentUuid"], first["parentUuid"], "{seed}: it is there when it is acknowledged");
        assert!(stage.agent_lock().exists(), "the client's lock is held");
        let mut second = user("two");
        second["sessionId"] = json!(SESSION);
        second["timestamp"] = json!("2026-02-03T04:05:06.000Z");
        let second = w.acked(&second);
        let ran = w.end().code(0);
        assert_eq!(ran.stdout, "", "stdout holds acknowledgements alone");
        let answer = json_of(&ran.stderr);
        assert_eq!(answer["schema"], "offshoot.resume/1");
        assert_eq!(first["parentUuid"], answer["seed"]["parentUuid"], "{seed} {leaf}");
        assert_eq!(answer["seed"]["anchor"].is_string(), seed == "in-place" && leaf == OTHER);
        if !answer["seed"]["anchor"].is_string() {
            assert_eq!(first["parentUuid"], leaf);
        }
        assert_eq!(second["parentUuid"], first["uuid"]);
        let records = stage.records();
        let (one, two) = (by_uuid(&records, &first["uuid"]), by_uuid(&records, &second["uuid"]));
        assert_eq!((&one["sessionId"], &two["sessionId"]), (&json!(SESSION), &json!(SESSION)));
        assert!(one["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        assert_eq!(two["timestamp"], "2026-02-03T04:05:06.000Z");
        assert_eq!(one["message"]["parts"][0]["text"], "one");
        assert!(stage.bytes().starts_with(&before), "what was there is untouched");
        assert_eq!(stage.tail(&stage.transcript), second["uuid"], "the client goes on below the last record");
        assert!(!stage.agent_lock().exists(), "the client's lock is given back");
        assert_eq!(fs::read(stage.lock()).unwrap(), b"", "and so is ours");
    }
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    let stage = Stage::new();
    let mut command = stage.resume(&["--leaf", PICK, "--seed", "none", "--write", "--operation-id", "op"]);
    command.env("OFFSHOOT_FAULT_POINT", "append-unsynced=kill");
    let mut w = Process::spawn(command);
    w.send(format!("{}\n", user("one")));
    assert_eq!(w.line(), "", "killed between the write and the sync");
    assert_eq!(w.end().code, None);
    // It is on the disk of a machine that went on running, so the retry goes on below it.
    let written = stage.records().last().unwrap()["uuid"].clone();
    let mut w = writer(&stage, PICK, "none", "op");
    assert_eq!(w.acked(&user("two"))["parentUuid"], written);
    w.done();
}

#[test]
fn without_json_the_result_is_on_stderr_too() {
    let stage = Stage::new();
    let mut w = Process::spawn(stage.resume(&["--leaf", PICK, "--seed", "none", "--write"]));
    // The last line needs no line feed, empty lines are none, and CRLF ends a line.
    w.send(format!("\n\r\n{}\r\n   \n{}", user("one"), user("two")));
    let ran = w.end().code(0);
    let acks: Vec<Value> = ran.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(acks.len(), 2);
    assert_eq!(acks[1]["parentUuid"], acks[0]["uuid"]);
    assert!(ran.stderr.contains("leaf       pick-reply"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 records written"), "{}", ran.stderr);
}

#[test]
fn a_bad_line_ends_it_and_what_was_acknowledged_stands() {
    let artifact =
        json!({"type": "system", "subtype": "session_artifact_event", "systemPayload": {}}).to_string();
    let bad: Vec<(&str, Vec<u8>)> = vec![
        ("no JSON", b"hello".to_vec()),
        ("half an object", b"{\"type\":\"user\"".to_vec()),
        ("two objects", b"{\"type\":\"user\"}{\"type\":\"user\"}".to_vec()),
        ("an array", b"[{\"type\":\"user\"}]".to_vec()),
        ("a scalar", b"null".to_vec()),
        ("a uuid", br#"{"type":"user","uuid":"mine"}"#.to_vec()),
        ("a parent", br#"{"type":"user","parentUuid":null}"#.to_vec()),
        ("another session", br#"{"type":"user","sessionId":"x"}"#.to_vec()),
        ("no type", br#"{"message":{}}"#.to_vec()),
        ("an unknown type", br#"{"type":"poem"}"#.to_vec()),
        ("a type that is no string", br#"{"type":1}"#.to_vec()),
        ("a NUL", b"{\"type\":\"user\",\"x\":\"\0\"}".to_vec()),
        ("invalid UTF-8", b"{\"type\":\"user\",\"x\":\"\xff\xfe\"}".to_vec()),
        ("a carriage return", b"{\"type\":\"user\",\"x\":[\r1]}".to_vec()),
        ("what the client does not see", artifact.into_bytes()),
    ];
    for (what, line) in bad {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, "none", "op");
        w.acked(&user("good"));
        let stands = stage.bytes();
        w.send([&line[..], b"\n", user("after").to_string().as_bytes(), b"\n"].concat());
        let ran = w.end();
        assert_eq!(ran.code, Some(2), "{what}: {}", ran.stderr);
        assert_eq!(code_of(&ran), "record-invalid", "{what}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{what}: nothing is acknowledged after it");
        assert_eq!(stage.bytes(), stands, "{what}");
        assert!(!stage.agent_lock().exists(), "{what}");
    }
}

#[test]
fn long_lines_and_odd_text_arrive_as_they_were_given() {
    let stage = Stage::new();
    let mut w = writer(&stage, PICK, "none", "op");
    let long = "x".repeat(8 << 20);
    w.acked(&user(&long));
    // Half a surrogate pair, a number beyond a double, line separators: all that JSON.parse takes.
    w.send("{\"type\":\"user\",\"half\":\"\\ud83d\",\"n\":12345678901234567890123,\"sep\":\"a\u{2028}b\"}\n");
    assert!(w.line().contains("uuid"));
    let mut deep = "[".repeat(5000);
    deep.push_str(&"]".repeat(5000));
    w.send(format!("{{\"type\":\"user\",\"deep\":{deep}}}\n"));
    let last: Value = serde_json::from_str(&w.line()).unwrap();
    w.done();
    let text = String::from_utf8(stage.bytes()).unwrap();
    assert!(text.contains(&long) && text.contains(&deep));
    assert!(text.contains(r#""half":"\ud83d","n":12345678901234567890123,"sep":"a\u2028b""#));
    assert_eq!(stage.tail(&stage.transcript), last["uuid"]);
}

#[test]
fn an_unfinished_last_line_is_ended_before_a_record_is_added() {
    for (leaf, seed) in [(PICK, "none"), (OTHER, "none"), (PICK, "in-place"), (OTHER, "in-place")] {
        for torn in [false, true] {
            let stage = Stage::new();
            let mut bytes = stage.bytes();
            assert_eq!(bytes.pop(), Some(b'\n'));
            if torn {
                bytes.extend_from_slice(b"\n{\"uuid\":\"torn");
            }
            fs::write(&stage.transcript, &bytes).unwrap();
            let mut w = writer(&stage, leaf, seed, "op");
            let one = w.acked(&user("one"));
            let two = w.acked(&user("two"));
            w.done();
            let text = String::from_utf8(stage.bytes()).unwrap();
            assert!(text.starts_with(std::str::from_utf8(&bytes).unwrap()));
            let whole = text.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
            let uuids: Vec<Value> = whole.map(|r| r["uuid"].clone()).collect();
            assert!(uuids.contains(&json!(PICK)) && uuids.contains(&one["uuid"]), "{leaf} {seed} {torn}");
            assert_eq!(stage.tail(&stage.transcript), two["uuid"], "{leaf} {seed} {torn}");
        }
    }
}

#[test]
fn a_retry_goes_on_below_the_last_record_that_was_written() {
    for seed in ["in-place", "none"] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, seed, "op");
        let one = w.acked(&user("one"));
        w.done();
        let mut w = writer(&stage, OTHER, seed, "op");
        let two = w.acked(&user("two"));
        assert_eq!(two["parentUuid"], one["uuid"]);
        // Killed in the middle of a third: part of it is there.
        w.kill();
        stage.append("{\"uuid\":\"half of a rec");
        let mut w = writer(&stage, OTHER, seed, "op");
        let three = w.acked(&user("three"));
        let ran = w.end().code(0);
        assert_eq!(three["parentUuid"], two["uuid"], "{seed}");
        assert_eq!(json_of(&ran.stderr)["replayed"], true);
        let text = String::from_utf8(stage.bytes()).unwrap();
        assert!(text.contains("{\"uuid\":\"half of a rec\n"), "the torn line is ended, not removed");
        assert_eq!(stage.tail(&stage.transcript), three["uuid"]);
        assert_eq!(stage.states(), ["pending", "completed"], "a retry records nothing again");
        // With another id the same is asked anew.
        stage.append(stage.record("foreign", Some(PICK), "user", "elsewhere"));
        let ran = writer(&stage, OTHER, seed, "op").end().code(4);
        assert_eq!(code_of(&ran), "stale-source");
        assert!(!stage.agent_lock().exists());
    }
}

#[test]
fn a_retry_whose_first_record_was_torn_starts_over_below_the_leaf() {
    for seed in ["in-place", "none"] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, seed, "op");
        // Only to know that the result is recorded and the lease is a writer's.
        until("a writer", || fs::read_to_string(stage.lock()).is_ok_and(|o| o.contains("\"writer\"")));
        w.send("");
        w.kill();
        stage.append("{\"uuid\":\"half of a rec");
        let mut w = writer(&stage, OTHER, seed, "op");
        let one = w.acked(&user("one"));
        let ran = w.end().code(0);
        assert_eq!(one["parentUuid"], json_of(&ran.stderr)["seed"]["parentUuid"], "{seed}");
        assert_eq!(stage.tail(&stage.transcript), one["uuid"]);
    }
}

#[test]
fn what_a_dead_writer_left_is_remembered_over_a_dry_run() {
    let stage = Stage::new();
    let mut w = writer(&stage, OTHER, "none", "op");
    w.acked(&user("one"));
    w.kill();
    stage.append("{\"uuid\":\"half of a rec");
    let torn = stage.bytes();
    assert_eq!(stage.run(&["--leaf", PICK, "--dry-run"]).code, Some(0));
    assert_eq!(stage.bytes(), torn, "a dry run writes nothing");
    assert_eq!(stage.run(&["--leaf", PICK, "--seed", "none"]).code, Some(0));
    assert_eq!(stage.bytes(), [&torn[..], b"\n"].concat(), "the next holder ends the torn line");
}

#[test]
fn foreign_bytes_between_two_records_are_a_race_and_said_where() {
    for overwrite in [false, true] {
        let stage = Stage::new();
        let length = stage.bytes().len();
        let mut w = writer(&stage, OTHER, "none", "op");
        w.acked(&user("one"));
        let ours = stage.bytes().len() - length;
        if overwrite {
            // Same length, so that only the content tells.
            let bytes = String::from_utf8(stage.bytes()).unwrap().replacen("hello", "HELLO", 1);
            let mut file = fs::File::options().write(true).open(&stage.transcript).unwrap();
            std::io::Write::write_all(&mut file, bytes.as_bytes()).unwrap();
        } else {
            stage.append(stage.record("foreign", Some(PICK), "user", "elsewhere"));
        }
        let stands = stage.bytes();
        w.send(format!("{}\n", user("two")));
        let ran = w.end().code(1);
        let fault = &json_of(&ran.stderr)["fault"];
        assert_eq!(fault["code"], "raced", "{}", ran.stderr);
        assert_eq!((&fault["detail"]["offset"], &fault["detail"]["bytes"]), (&json!(length), &json!(ours)));
        assert_eq!(stage.bytes(), stands, "nothing of ours is added, nothing of theirs is touched");
        assert!(!stage.agent_lock().exists());
    }
}

#[test]
fn foreign_bytes_before_the_first_record_are_a_refusal_unless_an_anchor_was_written() {
    for (seed, exit, code) in [("none", 4, "snapshot-changed"), ("in-place", 1, "raced")] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, seed, "op");
        until("a writer", || fs::read_to_string(stage.lock()).is_ok_and(|o| o.contains("\"writer\"")));
        stage.append(stage.record("foreign", Some(PICK), "user", "elsewhere"));
        let stands = stage.bytes();
        w.send(format!("{}\n", user("one")));
        let ran = w.end().code(exit);
        assert_eq!(code_of(&ran), code, "{}", ran.stderr);
        assert_eq!(stage.bytes(), stands);
    }
}

#[test]
fn a_transcript_that_was_replaced_or_cut_is_written_no_more() {
    for replace in [true, false] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, "none", "op");
        w.acked(&user("one"));
        let bytes = stage.bytes();
        if replace {
            let copy = stage.transcript.with_extension("copy");
            fs::write(&copy, &bytes).unwrap();
            fs::rename(&copy, &stage.transcript).unwrap();
        } else {
            let file = fs::File::options().write(true).open(&stage.transcript).unwrap();
            file.set_len(bytes.len() as u64 - 10).unwrap();
        }
        let stands = stage.bytes();
        w.send(format!("{}\n", user("two")));
        let ran = w.end().code(1);
        assert_eq!(code_of(&ran), "raced", "{}", ran.stderr);
        assert_eq!(stage.bytes(), stands);
    }
}

#[test]
fn a_lock_file_that_was_deleted_loses_the_lease() {
    let stage = Stage::new();
    let mut w = writer(&stage, OTHER, "none", "op");
    w.acked(&user("one"));
    fs::remove_file(stage.lock()).unwrap();
    // The client's lock is still in the way of a second owner; somebody who deletes the one deletes the other.
    fs::remove_file(stage.agent_lock()).unwrap();
    let mut second = writer(&stage, PICK, "none", "second");
    let theirs = second.acked(&user("theirs"));
    w.send(format!("{}\n", user("two")));
    let ran = w.end().code(1);
    assert_eq!(code_of(&ran), "lease-lost", "{}", ran.stderr);
    assert!(stage.agent_lock().exists(), "the second owner's lock is left alone");
    let more = second.acked(&user("more"));
    assert_eq!(more["parentUuid"], theirs["uuid"]);
    second.done();
    assert_eq!(stage.tail(&stage.transcript), more["uuid"]);
}

#[test]
fn the_agents_lock_removed_or_replaced_loses_the_lease() {
    for replaced in [false, true] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, "in-place", "op");
        w.acked(&user("one"));
        let mut foreign: Value = serde_json::from_slice(&fs::read(stage.agent_lock()).unwrap()).unwrap();
        foreign["owner_id"] = json!("99999999-2222-4333-8444-555555555555");
        fs::remove_file(stage.agent_lock()).unwrap();
        if replaced {
            fs::write(stage.agent_lock(), foreign.to_string()).unwrap();
        }
        let stands = stage.bytes();
        w.send(format!("{}\n", user("two")));
        let ran = w.end().code(1);
        assert_eq!(code_of(&ran), "lease-lost", "{}", ran.stderr);
        assert_eq!(stage.bytes(), stands);
        assert_eq!(stage.agent_lock().exists(), replaced, "somebody else's lock is left alone");
    }
}

/// Counted by the kernel: what the process has read, by any means.
#[cfg(target_os = "linux")]
fn bytes_read(process: &Process) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", process.pid())).unwrap();
    io.lines().find_map(|l| l.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_work_is_linear_in_what_is_written() {
    const RECORDS: usize = 2000;
    let stage = Stage::new();
    let filler = "x".repeat(1 << 20);
    for n in 0..20 {
        let parent = if n == 0 { PICK.to_owned() } else { format!("big-{}", n - 1) };
        stage.append(stage.record(&format!("big-{n}"), Some(&parent), "user", &filler));
    }
    let whole = stage.bytes().len() as u64;
    assert!(whole > 20 << 20);
    let mut w = writer(&stage, OTHER, "none", "op");
    w.acked(&user("first"));
    let before = bytes_read(&w);
    for n in 0..RECORDS {
        w.acked(&user(&n.to_string()));
    }
    let read = bytes_read(&w) - before;
    let written = stage.bytes().len() as u64 - whole;
    w.done();
    // Each line is read back once, its body came over stdin, and locks are compared: far from one whole reading.
    assert!(
        read < 4 * written + 1000 * RECORDS as u64 && read < whole,
        "{read} bytes read for {written} written"
    );
}

#[test]
fn a_stdin_that_is_closed_at_once_writes_no_record() {
    let stage = Stage::new();
    let before = stage.bytes();
    let ran = writer(&stage, PICK, "in-place", "op").end().code(0);
    assert_eq!(ran.stdout, "");
    assert_eq!(stage.bytes(), before);
    assert_eq!(stage.states(), ["pending", "completed"]);
}

#[test]
fn a_stdout_that_is_closed_ends_it_quietly_with_the_record_durable() {
    let stage = Stage::new();
    let mut w = writer(&stage, PICK, "none", "op");
    let one = w.acked(&user("one"));
    w.close_stdout();
    // Not by the first one perhaps: a process that another test starts may hold our end for a moment.
    until("its end", || {
        w.send(format!("{}\n", user("more")));
        w.child.try_wait().unwrap().is_some()
    });
    let ran = w.end().code(0);
    assert!(!ran.stderr.contains("error") && !ran.stderr.contains("fault"), "{}", ran.stderr);
    let records = stage.records();
    let two = records.iter().find(|r| r["parentUuid"] == one["uuid"]);
    assert!(two.is_some(), "what could not be acknowledged is there");
    assert!(!stage.agent_lock().exists());
    let mut w = writer(&stage, PICK, "none", "op");
    let next = w.acked(&user("next"));
    assert_eq!(next["parentUuid"], records.last().unwrap()["uuid"]);
    w.done();
}

#[test]
fn a_signal_gives_both_locks_back() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let stage = Stage::new();
        let mut w = writer(&stage, OTHER, "in-place", "op");
        let one = w.acked(&user("one"));
        w.signal(signal);
        // Stdin stays open: it is the signal that ends it.
        until("its end", || w.child.try_wait().unwrap().is_some());
        assert_eq!(w.end().code, Some(code));
        assert!(!stage.agent_lock().exists());
        assert_eq!(fs::read(stage.lock()).unwrap(), b"");
        let mut w = writer(&stage, OTHER, "in-place", "op");
        assert_eq!(w.acked(&user("two"))["parentUuid"], one["uuid"]);
        w.done();
    }
}

#[test]
fn a_fork_has_no_writer() {
    let stage = Stage::new();
    let ran = stage.run(&["--json", "--leaf", OTHER, "--write"]).code(2);
    assert!(ran.stderr.contains("--seed in-place"), "{}", ran.stderr);
    assert_eq!(stage.sessions(), [SESSION]);
}
