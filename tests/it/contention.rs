//! Several processes want one transcript, or one operation (I8, I9), and live agents stand in the way.

use std::{
    fs,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    stage::{OTHER, PICK, Paused, Process, SESSION, Stage, json_of, until},
    support::Ran,
};

const RIVALS: usize = 8;

/// Starts them all and then waits for all; output goes to files, so that none waits for us.
fn all_at_once(stage: &Stage, command: impl Fn(usize) -> Command) -> Vec<Ran> {
    let started: Vec<_> = (0..RIVALS)
        .map(|n| {
            let [out, err] = ["out", "err"].map(|name| stage.env.path(&format!("{name}-{n}")));
            let mut command = command(n);
            command.stdin(Stdio::null());
            command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
            (command.spawn().unwrap(), out, err)
        })
        .collect();
    let ends = started.into_iter().map(|(mut child, out, err)| {
        let code = child.wait().unwrap().code();
        let text = |path| fs::read_to_string(path).unwrap();
        Ran { code, stdout: text(out), stderr: text(err) }
    });
    ends.collect()
}

fn code_of(ran: &Ran) -> Value {
    json_of(&ran.stdout)["refusal"]["code"].clone()
}

#[test]
fn of_one_operation_one_process_performs() {
    let stage = Stage::new();
    let before = stage.bytes();
    let arguments = ["--json", "--leaf", OTHER, "--operation-id", "op"];
    let rans = all_at_once(&stage, |_| stage.resume(&arguments));
    let (done, refused): (Vec<_>, Vec<_>) = rans.iter().partition(|r| r.code == Some(0));
    for ran in &refused {
        assert_eq!((ran.code, code_of(ran)), (Some(4), json!("operation-in-flight")), "{}", ran.stderr);
    }
    let answers: Vec<Value> = done.iter().map(|r| r.json()).collect();
    assert_eq!(answers.iter().filter(|a| a["replayed"] == false).count(), 1, "{answers:?}");
    for answer in &answers {
        assert_eq!(answer["seed"], answers[0]["seed"]);
    }
    assert_eq!(stage.sessions().len(), 2, "one child");
    assert_eq!(stage.states(), ["pending", "completed"]);
    assert_eq!(stage.bytes(), before);
    // Told to wait, nobody is refused.
    let waiting = [&arguments[..4], &["op-2", "--wait", "60s"]].concat();
    let answers: Vec<Value> =
        all_at_once(&stage, |_| stage.resume(&waiting)).into_iter().map(|r| r.code(0).json()).collect();
    assert_eq!(answers.iter().filter(|a| a["replayed"] == false).count(), 1, "{answers:?}");
    assert_eq!(stage.sessions().len(), 3);
}

/// Rivals of different ids, in place, half of them for either leaf.
fn rivals(stage: &Stage, wait: &str) -> Vec<Ran> {
    all_at_once(stage, |n| {
        let leaf = if n % 2 == 0 { OTHER } else { PICK };
        let id = format!("op-{n}");
        stage.resume(&["--json", "--leaf", leaf, "--seed", "in-place", "--operation-id", &id, "--wait", wait])
    })
}

#[test]
fn of_many_operations_one_at_a_time_writes() {
    for wait in ["0s", "60s"] {
        let stage = Stage::new();
        let before = stage.bytes();
        let rans = rivals(&stage, wait);
        let (done, refused): (Vec<_>, Vec<_>) = rans.iter().partition(|r| r.code == Some(0));
        assert!(wait == "0s" || refused.is_empty(), "{refused:?}");
        for ran in refused {
            assert_eq!(ran.code, Some(4), "{ran:?}");
            let refusal = &json_of(&ran.stdout)["refusal"];
            assert_eq!(refusal["code"], "lease-held");
            let owner = &refusal["detail"]["owner"];
            assert_eq!(owner["what"], "resume", "{refusal}");
            assert!(owner["pid"].is_u64() && owner["host"].is_string() && owner["since"].is_string());
        }
        assert!(!done.is_empty());
        assert!(stage.bytes().starts_with(&before));
        let records = stage.records();
        let anchors: Vec<Value> = done.iter().map(|r| r.json()["seed"]["anchor"].clone()).collect();
        for anchor in anchors.iter().filter(|a| a.is_string()) {
            assert_eq!(records.iter().filter(|r| r["uuid"] == *anchor).count(), 1);
        }
        assert_eq!(records.len(), 6 + anchors.iter().filter(|a| a.is_string()).count());
        let last = records.last().unwrap()["uuid"].clone();
        assert_eq!(stage.tail(&stage.transcript), last, "the last anchor has the word");
        let ledger = stage.ledger();
        assert_eq!(ledger.iter().filter(|e| e["state"] == "completed").count(), done.len());
        // One after the other: no entry stands between a pending one and its end.
        for pair in ledger.chunks(2) {
            assert_eq!((&pair[0]["state"], &pair[1]["state"]), (&json!("pending"), &json!("completed")));
            assert_eq!(pair[0]["operationId"], pair[1]["operationId"]);
        }
        assert!(!stage.agent_lock().exists());
        assert_eq!(fs::read(stage.lock()).unwrap(), b"");
    }
}

#[test]
fn a_holder_is_named_and_can_be_waited_for() {
    let stage = Stage::new();
    let holder = Paused::at(&stage, "leased", stage.resume(&["--leaf", OTHER, "--operation-id", "held"]));
    let pid = holder.process.pid();
    let ran = stage.run(&["--json", "--leaf", OTHER, "--operation-id", "mine"]).code(4);
    let refusal = json_of(&ran.stdout)["refusal"].clone();
    assert_eq!((&refusal["code"], &refusal["retryable"]), (&json!("lease-held"), &json!(true)));
    let owner = &refusal["detail"]["owner"];
    assert_eq!((&owner["pid"], &owner["what"]), (&json!(pid), &json!("resume")));
    assert_eq!(owner["host"], offshoot::store::process::hostname());
    assert!(owner["since"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert!(refusal["message"].as_str().unwrap().contains(&pid.to_string()));
    let ran = stage.run(&["--json", "--leaf", OTHER, "--wait", "20ms"]).code(4);
    assert_eq!(json_of(&ran.stdout)["refusal"]["detail"]["waitedMs"], 20);
    // Both stand in the way of the same id: the operation is asked for first.
    let ran = stage.run(&["--json", "--leaf", OTHER, "--operation-id", "held"]).code(4);
    assert_eq!(code_of(&ran), "operation-in-flight");
    let waiting = Process::spawn(stage.resume(&["--json", "--leaf", OTHER, "--wait", "60s"]));
    holder.go().done();
    let waited = waiting.end().code(0).json();
    assert_eq!(waited["replayed"], false);
}

#[test]
fn a_second_owner_after_the_lock_file_was_deleted_stops_the_first() {
    let stage = Stage::new();
    let first = Paused::at(
        &stage,
        "in-place-checked",
        stage.resume(&["--json", "--leaf", OTHER, "--seed", "in-place", "--operation-id", "op"]),
    );
    fs::remove_file(stage.lock()).unwrap();
    let before = stage.bytes();
    let ran = first.go().end().code(1);
    assert_eq!(ran.json()["fault"]["code"], "lease-lost");
    assert_eq!(stage.bytes(), before);
    assert!(!stage.agent_lock().exists());
    assert_eq!(stage.run(&["--leaf", OTHER, "--seed", "in-place"]).code, Some(0));
}

/// The mark of a terminal session of the client, owned by the test itself.
fn open_in_a_terminal(stage: &Stage) {
    let status = json!({
        "schema_version": 1, "pid": std::process::id(), "session_id": SESSION,
        "hostname": offshoot::store::process::hostname(), "work_dir": stage.project.to_str().unwrap(),
        "started_at": 1767322800.5, "qwen_version": "0.24.0",
    });
    fs::write(stage.transcript.with_file_name(format!("{SESSION}.runtime.json")), status.to_string())
        .unwrap();
}

const TOKEN: &str = "sk-very-secret-token";

fn open_in_the_registry(stage: &Stage) {
    use offshoot::store::process::{boot_id, pid_namespace, start_ticks};
    let pid = std::process::id();
    let start = boot_id().zip(start_ticks(pid)).map(|(boot, ticks)| format!("{boot}:{ticks}"));
    let entry = json!({
        "pid": pid, "sessionId": SESSION, "procStart": start, "pidNs": pid_namespace(),
        "startedAt": 1767322800500u64, "kind": "acp", "ipcToken": TOKEN, "ipcSocket": format!("/tmp/{TOKEN}"),
    });
    fs::create_dir_all(stage.qwen("sessions")).unwrap();
    fs::write(stage.qwen("sessions").join(format!("{pid}.json")), entry.to_string()).unwrap();
}

#[test]
fn a_live_agent_keeps_its_transcript_and_forks_go_on() {
    for open in [open_in_a_terminal, open_in_the_registry] {
        let stage = Stage::new();
        assert_eq!(stage.run(&["--leaf", OTHER, "--seed", "in-place"]).code, Some(0));
        open(&stage);
        let before = stage.bytes();
        let path = stage.path();
        let forbidden: [&[&str]; 5] = [
            &["resume", path, "--json", "--leaf", PICK, "--seed", "in-place"],
            &["resume", path, "--json", "--leaf", OTHER, "--seed", "in-place"],
            &["resume", path, "--json", "--leaf", PICK, "--seed", "none", "--write"],
            &["resume", path, "--json", "--leaf", PICK, "--seed", "in-place", "--write"],
            &["undo", path, "--json"],
        ];
        for arguments in forbidden {
            let ran = stage.env.run(arguments).code(4);
            let text = if arguments.contains(&"--write") { &ran.stderr } else { &ran.stdout };
            let refusal = json_of(text)["refusal"].clone();
            assert_eq!(refusal["code"], "lease-held", "{arguments:?}");
            assert_eq!(refusal["detail"]["owner"]["pid"], std::process::id());
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(TOKEN));
            let human: Vec<&str> = arguments.iter().copied().filter(|a| *a != "--json").collect();
            let ran = stage.env.run(&human).code(4);
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(TOKEN));
        }
        assert_eq!(stage.bytes(), before);
        for allowed in
            [&["--leaf", PICK][..], &["--leaf", PICK, "--seed", "none"], &["--leaf", OTHER, "--dry-run"]]
        {
            let ran = stage.run(&[&["--json"], allowed].concat()).code(0);
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(TOKEN));
        }
        for file in everything(&stage.env.path("state")) {
            assert!(
                !String::from_utf8_lossy(&fs::read(&file).unwrap()).contains(TOKEN),
                "{}",
                file.display()
            );
        }
        assert_eq!(stage.bytes(), before);
    }
}

fn everything(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(everything(&path)) } else { files.push(path) }
    }
    assert!(!files.is_empty() || folder.ends_with("run"), "{}", folder.display());
    files
}

#[test]
fn a_source_that_grows_under_a_fork_is_no_change() {
    let stage = Stage::new();
    open_in_a_terminal(&stage);
    let paused = Paused::at(&stage, "fork-staged", stage.resume(&["--json", "--leaf", OTHER]));
    stage.append(stage.record("newer", Some(OTHER), "user", "meanwhile"));
    // Half a line too: the agent is writing.
    stage.append("{\"uuid\":\"half");
    let answer = paused.go().end().code(0).json();
    assert_eq!(answer["seed"]["sourceGrew"], true);
    let child = fs::read_to_string(answer["seed"]["transcript"].as_str().unwrap()).unwrap();
    assert!(!child.contains("meanwhile"), "the child is what was read");
    let quiet = stage.run(&["--json", "--leaf", PICK]).code(0).json();
    assert_eq!(quiet["seed"]["sourceGrew"], false);
}

#[test]
fn a_source_that_is_rewritten_under_a_fork_is_refused_and_the_id_is_free() {
    for how in ["rewritten", "replaced", "cut", "gone"] {
        let stage = Stage::new();
        let bytes = stage.bytes();
        let arguments = ["--json", "--leaf", OTHER, "--operation-id", "op"];
        let paused = Paused::at(&stage, "fork-staged", stage.resume(&arguments));
        match how {
            "rewritten" => {
                let changed = String::from_utf8(bytes.clone()).unwrap().replacen("hello", "HELLO", 1);
                fs::write(&stage.transcript, changed).unwrap();
            }
            "replaced" => {
                let copy = stage.transcript.with_extension("copy");
                fs::write(&copy, &bytes).unwrap();
                fs::rename(&copy, &stage.transcript).unwrap();
            }
            "cut" => fs::write(&stage.transcript, &bytes[..bytes.len() - 1]).unwrap(),
            _ => fs::remove_file(&stage.transcript).unwrap(),
        }
        let ran = paused.go().end().code(4);
        assert_eq!(code_of(&ran), "snapshot-changed", "{how}");
        assert_eq!(stage.states(), ["pending", "abandoned"], "{how}");
        assert_eq!(stage.ledger()[1]["reason"]["code"], "snapshot-changed");
        let chats = crate::stage::names(stage.transcript.parent().unwrap());
        assert!(!chats.iter().any(|n| n.ends_with(".tmp")), "{chats:?}");
        assert!(stage.sessions().iter().all(|s| s == SESSION), "{how}: no child");
        // Free even for another request.
        fs::write(&stage.transcript, &bytes).unwrap();
        let retry = stage.run(&["--json", "--leaf", PICK, "--operation-id", "op"]).code(0).json();
        assert_eq!((&retry["leafUuid"], &retry["replayed"]), (&json!(PICK), &json!(false)), "{how}");
    }
}

#[test]
fn foreign_bytes_before_an_anchor_are_a_refusal_and_nothing_is_written() {
    for (point, growth) in [("agent-leased", true), ("in-place-checked", true), ("agent-leased", false)] {
        let stage = Stage::new();
        let arguments = ["--json", "--leaf", OTHER, "--seed", "in-place", "--operation-id", "op"];
        let paused = Paused::at(&stage, point, stage.resume(&arguments));
        if growth {
            stage.append(stage.record("newer", Some(PICK), "user", "meanwhile"));
        } else {
            let changed = String::from_utf8(stage.bytes()).unwrap().replacen("hello", "HELLO", 1);
            fs::write(&stage.transcript, changed).unwrap();
        }
        let stands = stage.bytes();
        let ran = paused.go().end().code(4);
        assert_eq!(code_of(&ran), "snapshot-changed", "{point}");
        assert_eq!(stage.bytes(), stands);
        assert!(!stage.agent_lock().exists());
        let retry = stage.run(&arguments).code(0).json();
        assert_eq!(retry["replayed"], false);
        assert_eq!(stage.tail(&stage.transcript), retry["seed"]["anchor"]);
    }
}

#[test]
fn an_agent_that_comes_after_the_decision_is_still_in_time() {
    let stage = Stage::new();
    let arguments = ["--json", "--leaf", OTHER, "--seed", "in-place"];
    let paused = Paused::at(&stage, "agent-leased", stage.resume(&arguments));
    let before = stage.bytes();
    open_in_a_terminal(&stage);
    let ran = paused.go().end().code(4);
    assert_eq!(code_of(&ran), "lease-held");
    assert_eq!(stage.bytes(), before);
    assert_eq!(stage.states(), ["pending", "abandoned"]);
}

#[test]
fn a_signal_gives_the_locks_back_and_the_operation_is_settled_later() {
    let points = [("pending", "abandoned"), ("agent-leased", "abandoned"), ("seeded", "completed")];
    for (n, (point, outcome)) in points.into_iter().enumerate() {
        let (signal, code) = if n % 2 == 0 { (Signal::TERM, 143) } else { (Signal::INT, 130) };
        let stage = Stage::new();
        let arguments = ["--json", "--leaf", OTHER, "--seed", "in-place", "--operation-id", "op"];
        let paused = Paused::at(&stage, point, stage.resume(&arguments));
        assert!(point == "pending" || stage.agent_lock().exists());
        assert!(fs::read_to_string(stage.lock()).unwrap().contains("\"process\""));
        let mut process = paused.process;
        process.signal(signal);
        until("its end", || process.child.try_wait().unwrap().is_some());
        let ran = process.end().code(code);
        assert_eq!(ran.stdout, "");
        assert!(!stage.agent_lock().exists(), "{point}");
        assert_eq!(crate::stage::names(stage.agent_lock().parent().unwrap()), [""; 0], "{point}");
        assert_eq!(fs::read(stage.lock()).unwrap(), b"", "{point}");
        let settled = stage.env.run(&["recover", "--json"]).code(0).json();
        assert_eq!(settled["settled"][0]["outcome"], outcome, "{point}: {settled}");
        let retry = stage.run(&arguments).code(0).json();
        assert_eq!(retry["replayed"], outcome == "completed", "{point}");
        assert_eq!(stage.tail(&stage.transcript), retry["seed"]["anchor"], "{point}");
        assert_eq!(stage.records().len(), 7, "{point}: one anchor");
    }
}
