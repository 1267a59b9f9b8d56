//! `watch`: what it says while a session is written, replaced and deleted, and how it ends.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{reasonix_cli::Home, support::TestEnv};

/// A line that does not come within this time does not come.
const DEADLINE: Duration = Duration::from_secs(60);

fn record(uuid: &str, parent: Option<&str>, kind: &str, at: u32) -> String {
    json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "cwd": "/w", "version": "0.24.4",
        "timestamp": format!("2026-01-01T10:{at:02}:00.000Z"), "message": {"parts": [{"text": "Zebra"}]},
    })
    .to_string()
        + "\n"
}

struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(env: &TestEnv, path: &str) -> Watch {
        let mut child =
            env.command(&["watch", path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = reader(child.stdout.take().unwrap());
        Watch { child, lines }
    }

    #[track_caller]
    fn line(&self) -> Value {
        let line = self.lines.recv_timeout(DEADLINE).expect("a line");
        assert!(!line.contains("Zebra"), "no text of the conversation");
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["schema"], "offshoot.watch/1");
        assert!(line["at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        line
    }

    /// The next line, which must be of this event.
    #[track_caller]
    fn event(&self, event: &str) -> Value {
        let line = self.line();
        assert_eq!(line["event"], event, "{line}");
        line
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(out: ChildStdout) -> Receiver<String> {
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn append(path: &str, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn two_records() -> String {
    record("u1", None, "user", 0) + &record("a1", Some("u1"), "assistant", 1)
}

#[test]
fn new_branches_and_a_pick_that_moves_are_told_and_growth_is_not() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_records());
    let watch = Watch::start(&env, &path);
    let state = watch.event("state");
    assert_eq!(state["leaves"], json!(["a1"]));
    assert_eq!(state["clientPick"], json!({"tailUuid": "a1", "leafUuid": "a1"}));
    assert_eq!((state["agent"].as_str(), state["transcript"].as_str()), (Some("qwen"), Some(path.as_str())));
    // Growth of the branch is no news, so that the next line is of what comes after it.
    append(&path, &record("u2", Some("a1"), "user", 2));
    append(&path, &record("a2", Some("u2"), "assistant", 3));
    // Half a record is none.
    let branch = record("u3", Some("a1"), "user", 4);
    append(&path, &branch[..20]);
    append(&path, &branch[20..]);
    let new = watch.event("new-leaf");
    assert_eq!((&new["leafUuid"], &new["branchPointUuid"]), (&json!("u3"), &json!("a1")));
    let moved = watch.event("client-pick");
    assert_eq!(
        moved["from"]["leafUuid"].as_str().map(|leaf| leaf.starts_with('a') || leaf == "u2"),
        Some(true)
    );
    assert_eq!(moved["to"], json!({"tailUuid": "u3", "leafUuid": "u3"}));
    // The first branch grows again, behind what the second one wrote: they are written in turns.
    append(&path, &record("u4", Some("a2"), "user", 5));
    let second = watch.event("second-writer");
    assert_eq!(second["leafUuids"], json!(["u3", "u4"]));
    assert_eq!(watch.event("client-pick")["to"]["leafUuid"], "u4");
    // And once only, however long it goes on.
    append(&path, &record("a3", Some("u3"), "assistant", 6));
    assert_eq!(watch.event("client-pick")["to"]["leafUuid"], "a3");
}

#[test]
fn a_file_may_be_renamed_deleted_and_made_again() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_records());
    let watch = Watch::start(&env, &path);
    let _ = watch.event("state");
    fs::rename(&path, env.path("t.jsonl.1")).unwrap();
    let _ = watch.event("gone");
    // Nobody is to be told of the file that was renamed.
    append(&env.path("t.jsonl.1").display().to_string(), &record("x", Some("u1"), "user", 2));
    fs::write(&path, record("v1", None, "user", 3)).unwrap();
    let state = watch.event("state");
    assert_eq!((&state["why"], &state["leaves"]), (&json!("created"), &json!(["v1"])));
    // Replaced in one step.
    let new = env.write("new", two_records() + &record("b1", Some("u1"), "assistant", 4));
    fs::rename(&new, &path).unwrap();
    let state = watch.event("state");
    assert_eq!((&state["why"], &state["leaves"]), (&json!("replaced"), &json!(["a1", "b1"])));
    // Cut where it stands.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(two_records().len() as u64).unwrap();
    let state = watch.event("state");
    assert_eq!((&state["why"], &state["leaves"]), (&json!("cut"), &json!(["a1"])));
    fs::remove_file(&path).unwrap();
    let _ = watch.event("gone");
    fs::write(&path, two_records()).unwrap();
    let state = watch.event("state");
    assert_eq!(state["why"], "created");
    append(&path, &record("b2", Some("u1"), "assistant", 5));
    assert_eq!(watch.event("new-leaf")["leafUuid"], "b2");
}

/// Whatever else takes the file's name, the session is gone, and comes back with the next file.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_no_session() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_records());
    let elsewhere = env.write("elsewhere.jsonl", two_records());
    let mut watch = Watch::start(&env, &path);
    let _ = watch.event("state");
    let others: [&dyn Fn(); 3] = [
        &|| fs::create_dir(&path).unwrap(),
        &|| assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
        &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap(),
    ];
    for other in others {
        fs::remove_file(&path).unwrap();
        other();
        let _ = watch.event("gone");
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        fs::write(&path, two_records()).unwrap();
        assert_eq!(watch.event("state")["why"], "created");
    }
    assert_eq!(watch.child.try_wait().unwrap(), None, "it still watches");
}

/// A session of several files is its log, and a branch of it is a session beside it.
#[test]
fn a_session_in_a_folder_is_watched_with_its_children() {
    let home = Home::with(&["mini-parent", "mini-child"]);
    let aside = home.env.path("mini-child");
    fs::rename(home.root.join("mini-child"), &aside).unwrap();
    let watch = Watch::start(&home.env, home.root.join("mini-parent").to_str().unwrap());
    let state = watch.event("state");
    assert_eq!((&state["agent"], &state["leaves"]), (&json!("reasonix"), &json!(["mini-parent"])));
    fs::rename(&aside, home.root.join("mini-child")).unwrap();
    let new = watch.event("new-leaf");
    assert_eq!(
        (&new["leafUuid"], &new["branchPointUuid"]),
        (&json!("mini-child"), &json!("89f4374f816089faebc3e68320ae20c1"))
    );
    let log = home.root.join("mini-parent/events.frames");
    let whole = fs::metadata(&log).unwrap().len();
    OpenOptions::new().write(true).open(&log).unwrap().set_len(whole - 1).unwrap();
    assert_eq!(watch.event("state")["why"], "cut");
}

/// A process that stands for an agent: it lives until it is dropped.
#[cfg(target_os = "linux")]
struct Agent(Child);

#[cfg(target_os = "linux")]
impl Agent {
    /// With an entry in the registry, as Claude Code makes it.
    fn register(env: &TestEnv, session: &str) -> Agent {
        let child = std::process::Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let start = offshoot::store::process::start_ticks(child.id()).unwrap();
        let entry = json!({"pid": child.id(), "sessionId": session, "procStart": start, "key": "Zebra"});
        env.write(&format!("home/.claude/sessions/{}.json", child.id()), entry.to_string());
        Agent(child)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_process_that_has_the_session_open_is_told_once() {
    let session = "aaaaaaaa-0000-4000-8000-000000000001";
    let env = TestEnv::new();
    let claude = |uuid: &str, parent: Option<&str>| {
        json!({"uuid": uuid, "parentUuid": parent, "sessionId": session, "type": "user", "cwd": "/w",
            "version": "2.1.332", "timestamp": "2026-01-01T10:00:00.000Z", "isSidechain": false, "userType": "external",
            "message": {"role": "user", "content": "Zebra"}})
        .to_string()
            + "\n"
    };
    let path = env.write(&format!("home/.claude/projects/-w/{session}.jsonl"), claude("u1", None));
    let first = Agent::register(&env, session);
    let _elsewhere = Agent::register(&env, "bbbbbbbb-0000-4000-8000-000000000001");
    let watch = Watch::start(&env, &path);
    let _ = watch.event("state");
    let second = Agent::register(&env, session);
    let told = watch.event("second-writer");
    assert_eq!(told["evidence"], "open in two processes");
    let pids: Vec<_> = told["owners"].as_array().unwrap().iter().map(|owner| owner["pid"].clone()).collect();
    assert_eq!(pids, [json!(first.0.id()), json!(second.0.id())]);
    assert_eq!(told["owners"][1]["what"], "a Claude Code session");
    assert!(told.get("leafUuids").is_none());
    // It is not told again, so that the next line is of what comes after it; and whoever leaves is no news.
    drop(second);
    let third = Agent::register(&env, session);
    let told = watch.event("second-writer");
    assert_eq!(told["owners"][1]["pid"], third.0.id());
    append(&path, &claude("u2", None));
    assert_eq!(watch.event("new-leaf")["leafUuid"], "u2");
    // Whoever begins to watch later is told as well.
    let late = Watch::start(&env, &path);
    let _ = late.event("state");
    assert_eq!(late.event("second-writer")["owners"][1]["what"], "a Claude Code session");
}

#[cfg(target_os = "linux")]
#[test]
fn a_writer_of_ours_and_an_agent_are_two() {
    use crate::stage::{OTHER, Process, SESSION, Stage};

    let stage = Stage::new();
    let args = ["--leaf", OTHER, "--seed", "in-place", "--write", "--operation-id", "op"];
    let mut writer = Process::spawn(stage.resume(&args));
    writer.acked(&json!({"type": "user", "message": {"role": "user", "parts": [{"text": "one"}]}}));
    let watch = Watch::start(&stage.env, stage.path());
    let _ = watch.event("state");
    let agent = std::process::Command::new("/bin/cat").stdin(Stdio::piped()).spawn().map(Agent).unwrap();
    let status = json!({"schema_version": 1, "pid": agent.0.id(), "session_id": SESSION, "work_dir": "/w",
        "hostname": offshoot::store::process::hostname(), "started_at": 1767322800.5, "qwen_version": "0.24.0"});
    fs::write(stage.transcript.with_file_name(format!("{SESSION}.runtime.json")), status.to_string())
        .unwrap();
    let told = watch.event("second-writer");
    let mut pids: Vec<_> =
        told["owners"].as_array().unwrap().iter().map(|owner| owner["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    let mut expected = [u64::from(writer.pid()), u64::from(agent.0.id())];
    expected.sort_unstable();
    assert_eq!(pids, expected);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_with_130() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_records());
    let mut watch = Watch::start(&env, &path);
    let _ = watch.event("state");
    let pid = rustix::process::Pid::from_raw(watch.child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(watch.child.wait().unwrap().code(), Some(130));
    assert_eq!(watch.lines.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_it_quietly_though_nothing_happens() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", two_records());
    let mut child =
        env.command(&["watch", &path]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert!(first.contains("\"state\""));
    drop(out);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned()),
        (Some(0), String::new())
    );
}

#[test]
fn what_is_not_there_is_refused() {
    let env = TestEnv::new();
    let ran = env.run(&["watch", "nowhere.jsonl", "--json"]).code(3);
    assert_eq!(ran.json()["refusal"]["code"], "session-unknown");
}
