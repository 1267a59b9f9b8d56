//! Qwen Code's own writer lock and its marks of live sessions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use offshoot::{
    refusal::Result,
    store::{
        agents::qwen::{
            AgentLease, AgentLeaseOptions, LiveCheck, Place, QwenDirs, live_owner, place_of, recover_lock,
        },
        env::Env,
        process::{self, Machine},
        signals,
    },
};
use serde_json::{Value, json};

use crate::{
    child::{Child, listen, tell},
    support::TestEnv,
};

const ID: &str = "0f6f1f2e-1111-4222-8333-444455556666";
const OWNER: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const TOKEN: &str = "tok-SECRET-9e107d9d372bb682";
/// Larger than any pid that Linux hands out.
const NOBODY: u32 = 1 << 30;

struct Qwen {
    env: TestEnv,
    place: Place,
    transcript: PathBuf,
}

impl Qwen {
    fn new() -> Qwen {
        let env = TestEnv::new();
        let path = env.write(&format!("home/.qwen/projects/-p/chats/{ID}.jsonl"), "{}\n");
        let transcript = fs::canonicalize(path).unwrap();
        let place = place_of(&transcript).unwrap();
        Qwen { env, place, transcript }
    }

    fn acquire(&self) -> Result<AgentLease> {
        acquire(&self.place, OWNER)
    }

    fn put(&self, suffix: &str, content: &str) -> PathBuf {
        let path = PathBuf::from(format!("{}{suffix}", self.place.lock_path().display()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// What lies in the folder of locks.
    fn left(&self) -> Vec<String> {
        let dir = self.place.lock_path();
        let Ok(list) = fs::read_dir(dir.parent().unwrap()) else { return Vec::new() };
        let mut names: Vec<_> = list.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn holder(&self) -> Child {
        let mut child = Child::spawn("hold-agent-lease", &[self.transcript.to_str().unwrap(), OWNER]);
        assert_eq!(child.hear(), "held");
        child
    }

    fn live(&self) -> LiveCheck {
        let env = Env { home: Some(self.env.path("home")), ..Env::default() };
        let dirs = QwenDirs::from_env(&env, Path::new("/")).unwrap();
        live_owner(&self.place, &dirs).unwrap()
    }
}

fn acquire(place: &Place, owner_id: &str) -> Result<AgentLease> {
    let now = Timestamp::UNIX_EPOCH;
    AgentLease::acquire(place, &AgentLeaseOptions { owner_id, now, client_version: Some("0.24.4") })
}

/// A record as the client writes it, of a process that is gone.
fn dead() -> Value {
    let here = Machine::this();
    json!({"schema_version": 2, "state": "active", "session_id": ID, "owner_id": "dead/owner", "pid": NOBODY,
        "process_start_identity": format!("linux:{}:1", here.boot_id.unwrap_or_default()),
        "pid_namespace_id": here.pid_namespace, "hostname": here.host, "process_kind": "acp",
        "acquired_at": "2026-01-01T00:00:00.000Z", "qwen_version": "0.24.4"})
}

fn changed(mut record: Value, change: &[(&str, Value)]) -> String {
    for (key, value) in change {
        match value {
            Value::Null => drop(record.as_object_mut().unwrap().remove(*key)),
            other => record[key] = other.clone(),
        }
    }
    record.to_string()
}

/// The role `hold-agent-lease`.
pub fn hold(args: &[&str]) {
    signals::install().unwrap();
    let place = place_of(Path::new(args[0])).unwrap();
    let lease = match acquire(&place, args[1]) {
        Ok(lease) => lease,
        Err(e) => return tell(e.code()),
    };
    tell("held");
    match listen().as_deref() {
        Some("panic") => panic!("as told"),
        Some("write") => {
            let writing = signals::uninterrupted();
            tell("writing");
            listen();
            // Whether the lock was still there after the signal had come.
            tell(&lease.verify().map_or_else(|e| e.code().to_owned(), |()| "ours".to_owned()));
            drop(writing);
            listen();
        }
        _ => {}
    }
}

#[test]
#[cfg(target_os = "linux")]
fn our_record_has_the_clients_form_with_every_identity_field() {
    let qwen = Qwen::new();
    let lease = qwen.acquire().unwrap();
    lease.verify().unwrap();
    let raw = fs::read_to_string(qwen.place.lock_path()).unwrap();
    let here = Machine::this();
    let expected = format!(
        "{{\"schema_version\":2,\"state\":\"active\",\"session_id\":\"{ID}\",\"owner_id\":\"{OWNER}\",\"pid\":{},\
         \"process_start_identity\":\"{}\",\"pid_namespace_id\":{},\"hostname\":\"{}\",\
         \"process_kind\":\"unknown\",\"acquired_at\":\"1970-01-01T00:00:00.000Z\",\"qwen_version\":\"0.24.4\"}}",
        std::process::id(),
        process::start_identity(std::process::id()).unwrap(),
        here.pid_namespace.unwrap(),
        here.host,
    );
    assert_eq!(raw, expected);
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(qwen.place.lock_path()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(qwen.place.lock_path().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(qwen.left(), [format!("{ID}.lock")]);
    lease.release().unwrap();
    assert!(qwen.left().is_empty());
}

#[test]
fn two_processes_cannot_both_hold_it_and_the_refusal_names_the_owner() {
    let qwen = Qwen::new();
    let holder = qwen.holder();
    let error = acquire(&qwen.place, "another-owner").unwrap_err();
    assert_eq!(error.code(), "lease-held");
    assert_eq!(error.to_json()["refusal"]["detail"]["owner"]["pid"], holder.pid());
    assert_eq!(qwen.left(), [format!("{ID}.lock")], "the loser leaves nothing");
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_stale_by_the_clients_rules_is_reclaimed_and_nothing_is_left_over() {
    let qwen = Qwen::new();
    qwen.put("", &dead().to_string());
    qwen.put(".stale.1.other", "litter of the client");
    let lease = qwen.acquire().unwrap();
    lease.verify().unwrap();
    drop(lease);
    assert_eq!(qwen.left(), [format!("{ID}.lock.stale.1.other")]);

    // A second process died while it reclaimed: its guard is stepped over.
    qwen.put("", &dead().to_string());
    qwen.put(".reclaim.dead%2Fowner", &changed(dead(), &[("owner_id", json!("dead2"))]));
    qwen.acquire().unwrap().release().unwrap();
    assert_eq!(qwen.left().len(), 2);

    // Schema 1 knows no state but may have the identity fields.
    qwen.put("", &changed(dead(), &[("schema_version", json!(1)), ("state", json!(null))]));
    qwen.acquire().unwrap().release().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn what_may_be_alive_is_held_and_left_intact() {
    let qwen = Qwen::new();
    let me = std::process::id();
    for (why, raw) in [
        ("no identity", changed(dead(), &[("process_start_identity", json!(null))])),
        ("no namespace", changed(dead(), &[("pid_namespace_id", json!(null))])),
        ("another host", changed(dead(), &[("hostname", json!("elsewhere"))])),
        ("another boot", changed(dead(), &[("process_start_identity", json!("linux:0:1"))])),
        (
            "alive",
            changed(
                dead(),
                &[("pid", json!(me)), ("process_start_identity", json!(process::start_identity(me)))],
            ),
        ),
    ] {
        qwen.put("", &raw);
        assert_eq!(qwen.acquire().unwrap_err().code(), "lease-held", "{why}");
        assert_eq!(fs::read_to_string(qwen.place.lock_path()).unwrap(), raw, "{why}");
        assert_eq!(qwen.left().len(), 1, "{why}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_judged_is_unverifiable_and_left_intact() {
    let qwen = Qwen::new();
    let sealed = json!({"relative_path": "projects/-p/chats/x.jsonl", "exists": true, "byte_length": 3,
        "sha256": "0".repeat(64)});
    for (why, raw) in [
        ("malformed", "{\"schema".to_owned()),
        ("empty", String::new()),
        ("another session", changed(dead(), &[("session_id", json!("other"))])),
        ("schema 3", changed(dead(), &[("schema_version", json!(3)), ("format_version", json!(1))])),
        ("unknown state", changed(dead(), &[("state", json!("waiting"))])),
        (
            "sealed",
            changed(
                dead(),
                &[
                    ("state", json!("sealed")),
                    ("sealed_at", json!("2026-01-01T00:00:00.000Z")),
                    ("transcript", sealed),
                ],
            ),
        ),
    ] {
        qwen.put("", &raw);
        assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable", "{why}");
        assert_eq!(fs::read_to_string(qwen.place.lock_path()).unwrap(), raw, "{why}");
        assert_eq!(qwen.left().len(), 1, "{why}");
    }
    fs::remove_file(qwen.place.lock_path()).unwrap();
    let claim = qwen.put(".claim", &dead().to_string());
    assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable", "a hand-over is going on");
    qwen.put("", &dead().to_string());
    assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable", "also over a stale lock");
    fs::remove_file(claim).unwrap();
    qwen.put(".reclaim.dead%2Fowner", &changed(dead(), &[("hostname", json!("elsewhere"))]));
    assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable", "somebody else is reclaiming");
    assert_eq!(qwen.left().len(), 2);
}

#[test]
#[cfg(unix)]
fn a_lock_or_folder_that_is_a_symlink_is_unverifiable() {
    let qwen = Qwen::new();
    let elsewhere = qwen.env.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let dir = qwen.place.lock_path().parent().unwrap().to_owned();
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable");
    fs::remove_file(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("lock"), qwen.place.lock_path()).unwrap();
    assert_eq!(qwen.acquire().unwrap_err().code(), "lease-unverifiable");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_lock_that_was_removed_or_replaced_is_lost_and_the_new_one_is_left_alone() {
    let qwen = Qwen::new();
    let lease = qwen.acquire().unwrap();
    fs::remove_file(qwen.place.lock_path()).unwrap();
    assert_eq!(lease.verify().unwrap_err().code(), "lease-lost");
    let other = acquire(&qwen.place, "another-owner").unwrap();
    assert_eq!(lease.verify().unwrap_err().code(), "lease-lost");
    assert_eq!(lease.release().unwrap_err().code(), "lease-lost");
    other.verify().unwrap();
    other.release().unwrap();
    assert!(qwen.left().is_empty());
}

#[test]
fn a_panic_gives_it_back() {
    let qwen = Qwen::new();
    let mut holder = qwen.holder();
    holder.say("panic");
    assert!(!holder.end().success());
    assert!(qwen.left().is_empty());
}

#[test]
#[cfg(unix)]
fn signals_give_it_back() {
    use rustix::process::Signal;
    let qwen = Qwen::new();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut holder = qwen.holder();
        holder.signal(signal);
        assert_eq!(holder.wait().code(), Some(code));
        assert!(qwen.left().is_empty(), "{signal:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_waits_for_a_write_to_end() {
    let qwen = Qwen::new();
    let mut holder = qwen.holder();
    holder.say("write");
    assert_eq!(holder.hear(), "writing");
    holder.signal(rustix::process::Signal::TERM);
    holder.say("go on");
    assert_eq!(holder.hear(), "ours");
    assert_eq!(holder.wait().code(), Some(143));
    assert!(qwen.left().is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn a_kill_leaves_it_and_recovery_removes_what_is_ours_by_owner_id() {
    let qwen = Qwen::new();
    let mut holder = qwen.holder();
    holder.kill();
    let lock = format!("{ID}.lock");
    assert_eq!(qwen.left(), std::slice::from_ref(&lock));
    // Without recovery the next one reclaims it, as the client would.
    acquire(&qwen.place, "next-owner").unwrap().release().unwrap();
    assert!(qwen.left().is_empty());

    qwen.holder().kill();
    let foreign = qwen.put(".other-owner.tmp", "");
    qwen.put(&format!(".{OWNER}.tmp"), "{\"torn");
    qwen.put(&format!(".stale.7.{OWNER}"), &dead().to_string());
    qwen.put(".reclaim.x", &changed(dead(), &[("owner_id", json!(OWNER))]));
    qwen.put("2", &changed(dead(), &[("owner_id", json!(OWNER))]));
    assert!(!recover_lock(&qwen.place, "unknown-owner").unwrap());
    assert!(recover_lock(&qwen.place, OWNER).unwrap());
    fs::remove_file(foreign).unwrap();
    assert_eq!(qwen.left(), [format!("{lock}2")], "another session's lock is not touched");
    assert!(!recover_lock(&qwen.place, OWNER).unwrap());
}

/// A child that does nothing but live.
fn some_process() -> std::process::Child {
    std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap()
}

fn end(mut process: std::process::Child) {
    drop(process.stdin.take());
    process.wait().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_session_is_seen_by_its_runtime_file_by_the_clients_own_test() {
    let qwen = Qwen::new();
    assert_eq!(qwen.live(), LiveCheck::default());
    let alive = some_process();
    let status = |change: &[(&str, Value)]| {
        let base = json!({"schema_version": 1, "pid": alive.id(), "session_id": ID, "work_dir": "/p",
            "hostname": process::hostname(), "started_at": 1767225600.5, "qwen_version": "0.24.4"});
        qwen.env.write(&format!("home/.qwen/projects/-p/chats/{ID}.runtime.json"), changed(base, change));
        qwen.live()
    };
    let owner = status(&[]).owner.expect("its process lives");
    assert_eq!((owner.pid, owner.since.as_deref()), (Some(alive.id()), Some("2026-01-01T00:00:00.5Z")));
    assert_eq!(status(&[("pid", json!(NOBODY))]).owner, None, "left behind by a kill");
    assert!(status(&[("pid", json!(NOBODY)), ("hostname", json!("elsewhere"))]).owner.is_some());
    assert!(status(&[("pid", json!(0))]).owner.is_some(), "the client's test succeeds for 0");
    assert_eq!(status(&[("session_id", json!("another"))]).owner, None);
    let unreadable = status(&[("pid", json!("x"))]);
    assert_eq!((unreadable.owner, unreadable.notes.len()), (None, 1));
    // The same session may have been resumed from another folder.
    qwen.env.write(
        &format!("home/.qwen/projects/-q/chats/{ID}.runtime.json"),
        json!({"pid": alive.id(), "session_id": ID, "hostname": process::hostname()}).to_string(),
    );
    assert!(qwen.live().owner.is_some());
    end(alive);
    assert_eq!(qwen.live().owner, None);
}

#[test]
#[cfg(target_os = "linux")]
fn a_registered_session_is_seen_by_pid_and_start_and_its_token_goes_nowhere() {
    let qwen = Qwen::new();
    let alive = some_process();
    let here = Machine::this();
    let token = format!("{}:{}", here.boot_id.clone().unwrap(), process::start_ticks(alive.id()).unwrap());
    let file = format!("home/.qwen/sessions/{}-0a1b2c3d.json", alive.id());
    let register = |change: &[(&str, Value)]| {
        let base = json!({"schemaVersion": 1, "pid": alive.id(), "procStart": token, "pidNs": here.pid_namespace,
            "sessionId": ID, "cwd": "/p", "name": "p-1a", "startedAt": 1767225600000u64, "qwenVersion": "0.24.4",
            "kind": "headless", "ipcPath": "/tmp/x.sock", "ipcToken": TOKEN});
        qwen.env.write(&file, changed(base, change));
        qwen.live()
    };
    let check = register(&[]);
    let owner = check.owner.clone().expect("its process lives");
    assert_eq!(owner.pid, Some(alive.id()));
    assert_eq!(owner.what, "a Qwen Code session (headless)");
    assert_eq!(owner.since.as_deref(), Some("2026-01-01T00:00:00Z"));
    for shown in [owner.to_string(), owner.to_json().to_string(), format!("{check:?}")] {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
    assert!(register(&[("sessionId", json!("another"))]).owner.is_none());
    assert!(
        register(&[("procStart", json!(format!("{}:1", here.boot_id.clone().unwrap())))]).owner.is_none()
    );
    assert!(register(&[("procStart", json!("0:1"))]).owner.is_none(), "another boot");
    assert!(register(&[("pid", json!(1))]).owner.is_none(), "the file is named for another pid");
    assert_eq!(register(&[("kind", json!("\u{1b}[31m"))]).owner.unwrap().what, "a Qwen Code session (tui)");
    let foreign = register(&[("pidNs", json!(1))]);
    assert_eq!((foreign.owner, foreign.notes.len()), (None, 1));
    // A token where a field should be must not come out of a message either.
    let broken = register(&[("pid", json!(TOKEN))]);
    assert_eq!((&broken.owner, broken.notes.len()), (&None, 1));
    assert!(!format!("{broken:?}").contains("SECRET"));
    register(&[]);
    end(alive);
    assert_eq!(qwen.live(), LiveCheck::default());
}
