//! What a fork of a Claude Code session gets beside its transcript: the file backups that its records name.

#![cfg(unix)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::ExitStatusExt,
    },
    path::PathBuf,
};

use serde_json::{Value, json};

use crate::support::{Ran, TestEnv};

const PARENT: &str = "aaaa1111-0000-4000-8000-000000000001";

struct World {
    env: TestEnv,
    transcript: PathBuf,
    text: String,
}

fn message(uuid: &str, kind: &str, parent: Value) -> Value {
    json!({"parentUuid": parent, "isSidechain": false, "type": kind, "uuid": uuid, "cwd": "/p", "version": "2.1.332",
        "timestamp": format!("2026-01-01T00:00:0{}.000Z", &uuid[1..]), "sessionId": PARENT,
        "message": {"role": kind, "content": [{"type": "text", "text": uuid}]}})
}

fn snapshot(message: &str, of: &str, backups: Value) -> Value {
    json!({"type": "file-history-snapshot", "messageId": message, "isSnapshotUpdate": message != of,
        "snapshot": {"messageId": of, "trackedFileBackups": backups, "timestamp": "2026-01-01T00:00:00.000Z"}})
}

fn delta(message: &str, of: &str, name: &str) -> Value {
    json!({"type": "file-history-delta", "messageId": message, "snapshotMessageId": of, "trackingPath": name,
        "backup": {"backupFileName": name, "version": 1, "realParentDir": "/p"}, "timestamp": "2026-01-01T00:00:00.000Z"})
}

impl World {
    /// Two branches, `r2` and `r3`, below `r1`. Each names backups of its own; `r2` also what must not be copied.
    fn new() -> World {
        let env = TestEnv::new();
        let name = |name: &str| json!({"backupFileName": name, "version": 1});
        let hostile = json!({"a": name("link"), "b": name("folder"), "c": name("gone"), "d": name("../evil"),
            "e": name(".."), "f": name("/etc/passwd"), "g": {"backupFileName": null, "version": 1}, "h": name("plain@v1")});
        let lines = [
            message("p1", "user", Value::Null),
            snapshot("p1", "p1", json!({})),
            message("r1", "assistant", json!("p1")),
            snapshot("r1", "p1", json!({"x": name("both@v1")})),
            message("p2", "user", json!("r1")),
            snapshot("p2", "p2", hostile),
            message("r2", "assistant", json!("p2")),
            delta("r2", "p2", "script@v2"),
            message("p3", "user", json!("r1")),
            snapshot("p3", "p3", json!({})),
            message("r3", "assistant", json!("p3")),
            delta("r3", "p3", "other@v2"),
        ];
        let text = lines.map(|line| format!("{line}\n")).concat();
        let path = env.write(&format!("home/.claude/projects/-p/{PARENT}.jsonl"), &text);
        for name in ["both@v1", "plain@v1", "script@v2", "other@v2", "unnamed@v1", "folder/inside"] {
            env.write(&format!("home/.claude/file-history/{PARENT}/{name}"), name);
        }
        let backups = env.path(&format!("home/.claude/file-history/{PARENT}"));
        fs::set_permissions(backups.join("script@v2"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(backups.join("plain@v1"), fs::Permissions::from_mode(0o600)).unwrap();
        env.write("home/.claude/file-history/evil", "out of the folder");
        symlink(env.path("home/.claude/file-history/evil"), backups.join("link")).unwrap();
        World { transcript: fs::canonicalize(path).unwrap(), env, text }
    }

    fn fork(&self, leaf: &str, fault: &str) -> std::process::Output {
        let path = self.transcript.to_str().unwrap();
        let mut command =
            self.env.command(&["resume", path, "--leaf", leaf, "--operation-id", "op", "--json"]);
        command.env("OFFSHOOT_FAULT_POINT", fault).output().unwrap()
    }

    /// The folders of backups but the parent's, each with its files, their texts and permissions.
    fn copies(&self) -> BTreeMap<String, BTreeMap<String, (String, u32)>> {
        let folders = fs::read_dir(self.env.path("home/.claude/file-history")).unwrap();
        let folders = folders.map(|f| f.unwrap()).filter(|f| f.file_type().unwrap().is_dir());
        let file = |file: fs::DirEntry| {
            assert!(file.file_type().unwrap().is_file(), "{file:?}");
            let mode = file.metadata().unwrap().permissions().mode() & 0o7777;
            (file.file_name().into_string().unwrap(), (fs::read_to_string(file.path()).unwrap(), mode))
        };
        folders
            .filter(|f| f.file_name() != PARENT)
            .map(|f| {
                assert_eq!(f.metadata().unwrap().permissions().mode() & 0o777, 0o700);
                let files = fs::read_dir(f.path()).unwrap().map(|f| file(f.unwrap())).collect();
                (f.file_name().into_string().unwrap(), files)
            })
            .collect()
    }

    fn children(&self) -> Vec<String> {
        let folder = fs::read_dir(self.transcript.parent().unwrap()).unwrap();
        let names = folder.map(|f| f.unwrap().file_name().into_string().unwrap());
        names.filter(|n| n.ends_with(".jsonl") && !n.starts_with(PARENT)).collect()
    }
}

fn expected() -> BTreeMap<String, (String, u32)> {
    let file = |name: &str, mode| (name.to_owned(), (name.to_owned(), mode));
    let plain = 0o666 & !umask();
    [file("both@v1", plain), file("plain@v1", 0o600), file("script@v2", 0o755)].into()
}

fn umask() -> u32 {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "").unwrap();
    0o666 & !fs::metadata(dir.path().join("f")).unwrap().permissions().mode()
}

#[test]
fn a_fork_gets_copies_of_the_backups_that_its_records_name_and_of_no_others() {
    let world = World::new();
    let ran = Ran::from(world.fork("r2", "")).code(0);
    let child = ran.json()["seed"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(world.copies(), [(child.clone(), expected())].into());
    for (name, why) in [("link", "no regular file"), ("folder", "no regular file"), ("gone", "missing")] {
        assert!(ran.stderr.contains(&format!("backup `{name}` is {why}")), "{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("evil") && !ran.stderr.contains("passwd"), "{}", ran.stderr);
    let path = world.transcript.with_file_name(format!("{child}.jsonl"));
    let history: Vec<Value> = fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"].as_str().unwrap().starts_with("file-history"))
        .collect();
    let source: Vec<Value> = world.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted: Vec<Value> = [1, 3, 5, 7].map(|line: usize| source[line].clone()).into();
    assert_eq!(history, wanted, "the lines of its own messages, as they were");
    assert_eq!(fs::read_to_string(&world.transcript).unwrap(), world.text);
    let seen = world.env.run(&["inspect", world.transcript.to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(seen["diagnostics"], json!([]), "the client's own lines are no findings");
}

#[test]
fn a_folder_of_backups_that_is_a_link_is_not_followed() {
    let world = World::new();
    let history = world.env.path("home/.claude/file-history");
    fs::rename(history.join(PARENT), world.env.path("elsewhere")).unwrap();
    symlink(world.env.path("elsewhere"), history.join(PARENT)).unwrap();
    let ran = Ran::from(world.fork("r2", "")).code(0);
    assert!(ran.stderr.contains("backup `both@v1` is missing"), "{}", ran.stderr);
    assert!(world.copies().values().all(BTreeMap::is_empty), "{:?}", world.copies());
}

#[test]
fn a_transcript_outside_of_its_place_gets_no_copies_which_is_said() {
    let world = World::new();
    let path = world.env.write(&format!("work/{PARENT}.jsonl"), &world.text);
    let ran = world.env.run(&["resume", &path, "--leaf", "r2"]).code(0);
    assert!(ran.stderr.contains("cannot be taken back in the child"), "{}", ran.stderr);
    assert!(world.copies().is_empty());
    // Nothing to lose: nothing is said.
    let text: String =
        world.text.lines().filter(|l| !l.contains("file-history")).map(|l| format!("{l}\n")).collect();
    let path = world.env.write("work/bbbb1111-0000-4000-8000-000000000001.jsonl", text);
    let ran = world.env.run(&["resume", &path, "--leaf", "r2"]).code(0);
    assert!(!ran.stderr.contains("taken back"), "{}", ran.stderr);
}

#[test]
fn copies_are_removed_with_a_fork_that_was_not_published_and_stay_with_one_that_was() {
    for (point, published) in [
        ("fork-half", false),
        ("fork-staged", false),
        ("backup-copied", false),
        ("backup-copied#3", false),
        ("fork-backups", false),
        ("publish.linked", true),
        ("completed", true),
    ] {
        let world = World::new();
        let killed = world.fork("r2", &format!("{point}=kill"));
        assert_eq!(killed.status.signal(), Some(9), "{point}: {}", String::from_utf8_lossy(&killed.stderr));
        let settled = world.env.run(&["recover", "--json"]).code(0).json();
        let copies = world.copies();
        if published {
            assert_eq!((world.children().len(), copies.len()), (1, 1), "{point}: {settled}");
            assert_eq!(copies.into_values().next(), Some(expected()), "{point}");
        } else {
            assert_eq!(settled["settled"][0]["outcome"], "abandoned", "{point}: {settled}");
            assert!(world.children().is_empty() && copies.is_empty(), "{point}: {copies:?}");
        }
        let again = Ran::from(world.fork("r2", "")).code(0).json();
        let child = again["seed"]["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(
            world.copies(),
            [(child, expected())].into(),
            "{point}: a retry ends as if nothing had happened"
        );
    }
    let world = World::new();
    let failed = world.fork("r2", "fork-backups=error");
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stdout));
    assert!(world.children().is_empty() && world.copies().is_empty());
}
