//! Sessions of Reasonix on the command line: found, inspected, forked at their end, audited.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use offshoot::dialect::reasonix::child::{self, ChildSpec};
use serde_json::{Value, json};

use crate::{
    reasonix_made::{Log, records, turns},
    support::{Ran, TestEnv, fixture},
};

/// A home of the client with some sessions in the root of the test's project.
pub struct Home {
    pub env: TestEnv,
    pub root: PathBuf,
}

impl Home {
    /// With the cases of these names.
    pub fn with(cases: &[&str]) -> Home {
        let env = TestEnv::new();
        let cwd = fs::canonicalize(env.path("work")).unwrap();
        let slug = cwd.to_str().unwrap().replace('/', "-");
        let root = fs::canonicalize(env.path("home"))
            .unwrap()
            .join(format!(".reasonix/projects/{slug}/sessions-v4"));
        fs::create_dir_all(&root).unwrap();
        for case in cases {
            copy(&fixture(&format!("cases/reasonix/sessions-v4/{case}")), &root.join(case));
        }
        Home { env, root }
    }

    /// A session of a log that was made for the test.
    pub fn add(&self, id: &str, log: &[u8]) -> PathBuf {
        let dir = self.root.join(id);
        fs::create_dir_all(&dir).unwrap();
        let manifest = json!({"schemaVersion": 4, "codec": "reasonix.session.linear/v4", "storageRevision": 3,
            "contentRoot": "../.content-v1", "sessionId": id, "createdAt": "2026-11-30T16:10:29Z", "writerGeneration": 1});
        fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
        fs::write(dir.join("events.frames"), log).unwrap();
        dir
    }

    pub fn log(&self, id: &str) -> Vec<u8> {
        fs::read(self.root.join(id).join("events.frames")).unwrap()
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.env.run(args)
    }

    /// All files of the root but our locks, with their bytes.
    pub fn picture(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.root, &mut found);
        found.retain(|path, _| !path.to_str().unwrap().ends_with(".offshoot-lock"));
        found
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn collect(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
}

fn leaves(inspection: &Value) -> Vec<&str> {
    inspection["branches"].as_array().unwrap().iter().map(|b| b["leafUuid"].as_str().unwrap()).collect()
}

#[test]
fn a_family_is_a_tree_whose_leaves_are_its_sessions() {
    let home = Home::with(&["mini-parent", "mini-child", "synth-authority"]);
    let inspection = home.run(&["inspect", "mini-parent", "--json"]).code(0).json();
    assert_eq!(inspection["agent"], "reasonix");
    assert_eq!(inspection["sessionId"], "mini-parent");
    assert_eq!(leaves(&inspection), ["mini-parent", "mini-child"]);
    assert_eq!(inspection["clientPick"]["leafUuid"], "mini-parent");
    let [parent, child] = [&inspection["branches"][0], &inspection["branches"][1]];
    // Both have the last record of the first turn in common: the answer `a1`, by the id of its event.
    for branch in [parent, child] {
        assert_eq!(branch["branchPointUuid"], "89f4374f816089faebc3e68320ae20c1");
    }
    assert_eq!(parent["recordCounts"], json!({"user": 3, "assistant": 2, "toolResult": 0, "system": 1}));
    assert_eq!(child["recordCounts"], json!({"user": 1, "assistant": 1, "toolResult": 0, "system": 1}));
    assert_eq!((&parent["turn"], &child["turn"]), (&json!("awaiting-reply"), &json!("complete")));
    assert_eq!(parent["lastUserText"], "third, still open");
    assert_eq!(parent["firstUserTextAfterBranchPoint"], "second question");
    // Asked for the child, the client picks that.
    let inspection = home.run(&["inspect", "mini-child", "--json"]).code(0).json();
    assert_eq!(inspection["clientPick"]["leafUuid"], "mini-child");
    assert_eq!(inspection["clientPick"]["records"], 2);
}

#[test]
fn children_of_a_session_that_is_gone_still_share_what_they_have_of_it() {
    let home = Home::with(&["mini-child", "mini-child-rawblock"]);
    let inspection = home.run(&["inspect", "mini-child", "--json"]).code(0).json();
    assert_eq!(leaves(&inspection), ["mini-child", "mini-child-rawblock"]);
    assert_eq!(inspection["branches"][0]["branchPointUuid"], "89f4374f816089faebc3e68320ae20c1");
}

#[test]
fn a_commit_that_only_claims_to_be_repeated_is_the_sessions_own() {
    let home = Home::with(&["mini-parent"]);
    // The child's ids are right, the text of its first message is another one.
    let parent = home.log("mini-parent");
    let mut forged = Vec::new();
    let spec = ChildSpec { parent: "mini-parent", child: "forged", through: 4 };
    let other = Log::default().turn("other").bytes;
    child::write(&other, &offshoot::dialect::reasonix::content::NoContents, &spec, &mut forged).unwrap();
    home.add("forged", &forged);
    let inspection = home.run(&["inspect", "forged", "--json"]).code(0).json();
    let branch =
        inspection["branches"].as_array().unwrap().iter().find(|b| b["leafUuid"] == "forged").unwrap();
    assert_eq!(branch["branchPointUuid"], Value::Null);
    assert_eq!(branch["lastUserText"], "other");
    assert_eq!(home.log("mini-parent"), parent);
}

#[test]
fn what_cannot_be_read_of_a_family_is_left_out_and_said() {
    let home = Home::with(&["mini-parent", "mini-child"]);
    let mut bytes = home.log("mini-child");
    bytes[400] ^= 0xff;
    fs::write(home.root.join("mini-child/events.frames"), bytes).unwrap();
    let inspection = home.run(&["inspect", "mini-parent", "--json"]).code(0).json();
    assert_eq!(leaves(&inspection), ["mini-parent"]);
    let said = inspection["diagnostics"].to_string();
    assert!(said.contains("skipped-record") && said.contains("mini-child"), "{said}");
    let fault = home.run(&["inspect", "mini-child", "--json"]).code(1).json();
    assert_eq!(fault["fault"]["code"], "damaged");
    assert!(
        fault["fault"]["detail"]["path"].as_str().unwrap().ends_with("mini-child/events.frames"),
        "{fault}"
    );
    assert!(
        fault["fault"]["detail"]["offset"].is_u64() && fault["fault"]["detail"]["reason"].is_string(),
        "{fault}"
    );
}

#[test]
fn sessions_are_found_by_every_name() {
    let home = Home::with(&["mini-parent", "synth-v3", "synth-unknown-required"]);
    let listed = home.run(&["sessions", "--json"]).code(0).json();
    let mut ids: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["mini-parent", "synth-unknown-required", "synth-v3"]);
    let dir = home.root.join("mini-parent");
    let (folder, log) = (dir.display().to_string(), dir.join("events.frames").display().to_string());
    for name in ["mini-parent", "mini-p", &folder, &log] {
        let inspection = home.run(&["inspect", name, "--json"]).code(0).json();
        assert_eq!(inspection["transcript"], folder, "{name}");
        let _ = home.run(&["inspect", name, "--agent", "reasonix", "--json"]).code(0);
        let refused = home.run(&["inspect", name, "--agent", "qwen", "--json"]).code(3).json();
        assert!(["agent-unknown", "session-unknown"].contains(&refused["refusal"]["code"].as_str().unwrap()));
    }
    for (session, what) in [("synth-v3", "linear/v3"), ("synth-unknown-required", "future/thing")] {
        let refused = home.run(&["inspect", session, "--json"]).code(3).json();
        assert_eq!(refused["refusal"]["code"], "unsupported-version");
        assert!(refused["refusal"]["message"].as_str().unwrap().contains(what), "{refused}");
    }
}

#[test]
fn a_fork_at_the_end_is_a_session_of_its_own() {
    let home = Home::with(&["mini-history-replace"]);
    let before = home.picture();
    let args = ["resume", "mini-history-replace", "--json", "--operation-id", "op"];
    let result = home.run(&args).code(0).json();
    let child = result["seed"]["sessionId"].as_str().unwrap();
    let dir = PathBuf::from(result["seed"]["transcript"].as_str().unwrap());
    assert_eq!(dir, home.root.join(child));
    assert_eq!(result["command"][0], "reasonix");
    // The source and everything beside it is as it was; the child has two files and what the client would write.
    let mut after = home.picture();
    let manifest: Value = serde_json::from_slice(&after.remove(&dir.join("manifest.json")).unwrap()).unwrap();
    let log = after.remove(&dir.join("events.frames")).unwrap();
    assert_eq!(after, before);
    let mut expected = Vec::new();
    let spec = ChildSpec { parent: "mini-history-replace", child, through: 13 };
    let contents = offshoot::dialect::reasonix::content::NoContents;
    child::write(&home.log("mini-history-replace"), &contents, &spec, &mut expected).unwrap();
    assert_eq!(records(&log), records(&expected));
    assert_eq!(turns(&log, &contents).unwrap().turns().len(), 3);
    assert_eq!(manifest["sessionId"], *child);
    assert_eq!(manifest["inheritedEventCount"], 13);
    assert_eq!(manifest["writerGeneration"], 0);
    assert_eq!(manifest["source"]["path"], home.root.join("mini-history-replace").display().to_string());
    assert_eq!(manifest["source"]["size"], log.len());
    // A retry gives the same child; the audit finds nothing.
    let again = home.run(&args).code(0).json();
    assert_eq!((&again["seed"]["sessionId"], &again["replayed"]), (&json!(child), &json!(true)));
    let _ = home.run(&["audit", "verify", "--deep"]).code(0);
    // The child belongs to the family now.
    let inspection = home.run(&["inspect", child, "--json"]).code(0).json();
    assert_eq!(leaves(&inspection).len(), 2);
    assert_eq!(inspection["clientPick"]["leafUuid"], *child);
}

#[test]
fn the_audit_sees_whether_the_child_was_continued_and_whether_the_source_was_changed() {
    let home = Home::with(&[]);
    let source = Log::default().turn("t1");
    let dir = home.add("source", &source.bytes);
    let result = home.run(&["resume", "source", "--json"]).code(0).json();
    let child = PathBuf::from(result["seed"]["transcript"].as_str().unwrap());
    let verify = |code: i32| home.run(&["audit", "verify", "--deep", "--json"]).code(code).stdout;
    assert!(verify(0).contains("not-yet"));
    // The client goes on in the child, and in the source.
    let grown = source.clone().turn("t2");
    let own = &grown.bytes[source.bytes.len()..];
    let log = [fs::read(child.join("events.frames")).unwrap(), own.to_vec()].concat();
    fs::write(child.join("events.frames"), log).unwrap();
    fs::write(dir.join("events.frames"), source.turn("t3").bytes).unwrap();
    assert!(verify(0).contains("\"followed\""));
    // What the choice was made from is not there any more.
    fs::write(dir.join("events.frames"), Log::default().turn("other").turn("t3").bytes).unwrap();
    assert!(verify(5).contains("transcript-changed"));
}

#[test]
fn what_the_format_has_no_place_for_is_refused() {
    let home = Home::with(&["mini-parent", "synth-messages-only", "mini-history-replace"]);
    let before = home.picture();
    let refused = |args: &[&str], code: &str| {
        let ran = home.run(&[args, &["--json"]].concat()).code(3).json();
        assert_eq!(ran["refusal"]["code"], code, "{args:?}: {ran}");
    };
    refused(&["resume", "mini-parent", "--seed", "in-place"], "seed-unsupported");
    let writer = home.run(&["resume", "mini-parent", "--seed", "none", "--write", "--json"]).code(3);
    assert!(writer.stderr.contains("\"seed-unsupported\""), "{}", writer.stderr);
    refused(&["undo", "mini-parent"], "seed-unsupported");
    refused(&["truncate", "mini-parent", "--after", "x"], "seed-unsupported");
    refused(&["restore", "mini-parent"], "seed-unsupported");
    refused(&["resume", "mini-parent"], "turn-open");
    refused(&["resume", "synth-messages-only"], "history-unverifiable");
    home.add(
        "asked",
        &Log::default().turn("t").commit("", &[("interaction/created", r#"{"id":"i"}"#, false)]).bytes,
    );
    refused(&["resume", "asked"], "active-authority");
    fs::remove_dir_all(home.root.join("asked")).unwrap();
    assert_eq!(home.picture(), before);
    // None of that stands in the way of handing a session over.
    let handed = home.run(&["resume", "mini-parent", "--seed", "none", "--json"]).code(0).json();
    assert_eq!(handed["seed"]["sessionId"], "mini-parent");
    assert_eq!(home.picture(), before);
    let _ = home.run(&["audit", "verify", "--deep"]).code(0);
    // A rehearsal leaves nothing.
    let _ = home.run(&["resume", "mini-history-replace", "--dry-run", "--json"]).code(0);
    assert_eq!(home.picture(), before);
}

#[test]
fn any_session_of_the_family_can_be_chosen() {
    let home = Home::with(&["mini-parent", "mini-child"]);
    let refused = home.run(&["resume", "mini-parent", "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "several-leaves");
    let result = home.run(&["resume", "mini-parent", "--leaf", "mini-child", "--json"]).code(0).json();
    let manifest =
        fs::read(Path::new(result["seed"]["transcript"].as_str().unwrap()).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["source"]["path"], home.root.join("mini-child").display().to_string());
    let handed = home
        .run(&["resume", "mini-parent", "--leaf", "mini-child", "--seed", "none", "--json"])
        .code(0)
        .json();
    assert_eq!(handed["seed"]["sessionId"], "mini-child");
}

#[test]
fn owned_files_come_along_as_real_files() {
    let home = Home::with(&["mini-child"]);
    let dir = home.root.join("mini-child");
    fs::create_dir_all(dir.join("attachments/a/b")).unwrap();
    fs::write(dir.join("attachments/a/b/x.png"), "pixels").unwrap();
    fs::create_dir(dir.join("legacy")).unwrap();
    fs::write(dir.join("legacy/old.jsonl"), "{}").unwrap();
    fs::write(dir.join("writer.lock"), "").unwrap();
    let header = json!({"schemaVersion": 1, "sessionId": "mini-child", "createdAt": "2026-11-30T16:10:29Z",
        "cwd": "/home/me/ws", "origin": "new"});
    fs::write(dir.join("header.json"), header.to_string()).unwrap();
    let result = home.run(&["resume", "mini-child", "--json"]).code(0).json();
    let child = PathBuf::from(result["seed"]["transcript"].as_str().unwrap());
    let mut names: Vec<_> = fs::read_dir(&child).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["attachments", "events.frames", "header.json", "legacy", "manifest.json"]);
    assert_eq!(fs::read(child.join("attachments/a/b/x.png")).unwrap(), b"pixels");
    let header: Value = serde_json::from_slice(&fs::read(child.join("header.json")).unwrap()).unwrap();
    assert_eq!(header["sessionId"], result["seed"]["sessionId"]);
    assert_eq!(
        (&header["origin"], &header["parentSessionId"], &header["cwd"]),
        (&json!("fork"), &json!("mini-child"), &json!("/home/me/ws"))
    );
}

#[cfg(unix)]
#[test]
fn a_link_among_the_owned_files_is_refused_and_nothing_is_left() {
    let home = Home::with(&["mini-child"]);
    fs::create_dir(home.root.join("mini-child/assets")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", home.root.join("mini-child/assets/x")).unwrap();
    let before: Vec<_> = home.picture().into_keys().collect();
    let refused = home.run(&["resume", "mini-child", "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "unsafe-path");
    assert_eq!(home.picture().into_keys().collect::<Vec<_>>(), before);
    let linked = home.root.join("linked");
    std::os::unix::fs::symlink(home.root.join("mini-child"), &linked).unwrap();
    assert_ne!(home.run(&["inspect", linked.to_str().unwrap(), "--json"]).code, Some(0));
}

/// Stops at every point that a fork reaches: the source is as it was, a half-made child has no name, recovery settles
/// it, and a retry ends as if nothing had happened.
#[cfg(unix)]
#[test]
fn a_fork_stopped_anywhere_is_settled() {
    use std::os::unix::process::ExitStatusExt;

    let args = ["resume", "mini-history-replace", "--json", "--operation-id", "op"];
    let stopped = |home: &Home, plan: &str| {
        home.env.command(&args).env("OFFSHOOT_FAULT_POINT", plan).output().unwrap().status.signal()
    };
    let traced = Home::with(&["mini-history-replace"]);
    let trace = traced.env.path("trace");
    assert_eq!(stopped(&traced, &format!("*=trace:{}", trace.display())), None);
    let mut visits: BTreeMap<String, u32> = BTreeMap::new();
    let points: Vec<String> = fs::read_to_string(trace)
        .unwrap()
        .lines()
        .map(|point| {
            let visit = visits.entry(point.to_owned()).or_default();
            *visit += 1;
            format!("{point}#{visit}")
        })
        .collect();
    for point in ["reasonix-log-written", "reasonix-staged", "reasonix-renamed"] {
        assert!(visits.contains_key(point), "{point} is not reached");
    }
    for point in points {
        let home = Home::with(&["mini-history-replace"]);
        let source = home.log("mini-history-replace");
        assert_eq!(stopped(&home, &format!("{point}=kill")), Some(9), "{point}");
        for entry in fs::read_dir(&home.root).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.starts_with('.') {
                let _ = home.run(&["inspect", &name, "--json"]).code(0);
            }
        }
        let _ = home.run(&["recover", "--json"]).code(0);
        let left: Vec<_> = fs::read_dir(&home.root)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains("fork-offshoot"))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "{point}");
        let result = home.run(&args).code(0).json();
        let child = result["seed"]["sessionId"].as_str().unwrap();
        assert_eq!(
            turns(&home.log(child), &offshoot::dialect::reasonix::content::NoContents).unwrap().turns().len(),
            3
        );
        let folders =
            fs::read_dir(&home.root).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count();
        assert_eq!(folders, 2, "{point}: one child");
        assert_eq!(home.log("mini-history-replace"), source, "{point}");
        let _ = home.run(&["audit", "verify", "--deep"]).code(0);
    }
}

/// Runs a fork that waits at a point, does `meanwhile`, and lets it go on.
#[cfg(unix)]
fn while_staged(home: &Home, meanwhile: impl FnOnce()) -> Ran {
    let file = home.env.path("pause");
    let child = home
        .env
        .command(&["resume", "source", "--json"])
        .env("OFFSHOOT_FAULT_POINT", format!("reasonix-staged=pause:{}", file.display()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !file.exists() {
        std::thread::yield_now();
    }
    meanwhile();
    fs::remove_file(file).unwrap();
    Ran::from(child.wait_with_output().unwrap())
}

#[cfg(unix)]
#[test]
fn a_source_may_grow_but_not_change_while_it_is_forked() {
    let source = Log::default().turn("t1");
    let home = Home::with(&[]);
    let log = home.add("source", &source.bytes).join("events.frames");
    let grown =
        while_staged(&home, || fs::write(&log, source.clone().turn("t2").bytes).unwrap()).code(0).json();
    assert_eq!(grown["seed"]["sourceGrew"], true);
    let home = Home::with(&[]);
    let log = home.add("source", &source.bytes).join("events.frames");
    let other = Log::default().turn("tx").turn("t2");
    let changed = while_staged(&home, || fs::write(&log, &other.bytes).unwrap()).code(4).json();
    assert_eq!(changed["refusal"]["code"], "snapshot-changed");
    assert_eq!(fs::read_dir(&home.root).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(), 1);
}

#[test]
fn targets_are_those_of_the_log_and_bound_to_it() {
    let home = Home::with(&[
        "mini-parent",
        "mini-child",
        "synth-authority",
        "synth-messages-only",
        "mini-unclosed-then-start",
    ]);
    let targets = |session: &str| home.run(&["targets", session, "--json"]).code(0).json();
    let listed = targets("mini-parent");
    assert_eq!((&listed["agent"], &listed["verifiable"]), (&json!("reasonix"), &json!(true)));
    let turns = listed["targets"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    let [first, _, open] = [&turns[0], &turns[1], &turns[2]];
    for (key, value) in [
        ("turnId", json!("turn_1")),
        ("turnNumber", json!(1)),
        ("start", json!(1)),
        ("end", json!(4)),
        ("boundary", json!(4)),
        ("status", json!("completed")),
        ("messageId", json!("a1")),
        ("available", json!(true)),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert_eq!((&open["available"], &open["reason"]), (&json!(false), &json!("turn-open")));
    let reasons = |session: &str| -> Vec<Value> {
        targets(session)["targets"].as_array().unwrap().iter().map(|t| t["reason"].clone()).collect()
    };
    assert_eq!(
        reasons("synth-authority"),
        [Value::Null, json!("active-authority"), Value::Null, json!("turn-open")]
    );
    assert_eq!(reasons("mini-unclosed-then-start"), [json!("turn-unclosed"), Value::Null]);
    let unproved = targets("synth-messages-only");
    assert_eq!((&unproved["targets"], &unproved["verifiable"]), (&json!([]), &json!(false)));
    // Children inherit turn ids, not anchors.
    assert_ne!(targets("mini-child")["targets"][0]["anchor"], first["anchor"]);
}

#[test]
fn a_fork_at_a_turn_is_the_child_that_the_client_would_make() {
    let home = Home::with(&["mini-parent"]);
    let before = home.picture();
    let listed = home.run(&["targets", "mini-parent", "--json"]).code(0).json();
    let anchor = listed["targets"][0]["anchor"].as_str().unwrap().to_owned();
    let forked =
        home.run(&["fork", "mini-parent", "--turn", "turn_1", "--expect", &anchor, "--json"]).code(0).json();
    let child = forked["sessionId"].as_str().unwrap();
    let mut expected = Vec::new();
    let spec = ChildSpec { parent: "mini-parent", child, through: 4 };
    let contents = offshoot::dialect::reasonix::content::NoContents;
    child::write(&home.log("mini-parent"), &contents, &spec, &mut expected).unwrap();
    assert_eq!(records(&home.log(child)), records(&expected));
    let mut after = home.picture();
    after.retain(|path, _| !path.starts_with(home.root.join(child)));
    assert_eq!(after, before, "the parent is as it was, and no lease was taken");
    assert!(!home.root.join(".mini-parent.offshoot-lock").exists());
    // A second click, an intended second child, and an acknowledgement.
    let again = home.run(&["fork", "mini-parent", "--turn", "turn_1", "--json"]).code(0).json();
    assert_eq!((&again["sessionId"], &again["replayed"]), (&json!(child), &json!(true)));
    let new = home.run(&["fork", "mini-parent", "--turn", "turn_1", "--new", "--json"]).code(0).json();
    assert_ne!(new["sessionId"], *child);
    let _ = home.run(&["audit", "verify", "--deep"]).code(0);
    // The client goes on in a child: that is a child which was taken up.
    let refused = |args: &[&str], code: i32, name: &str| {
        let ran = home.run(&[&["fork", "mini-parent"], args, &["--json"]].concat()).code(code).json();
        assert_eq!(ran["refusal"]["code"], name, "{args:?}: {ran}");
    };
    refused(&["--turn", "turn_3"], 3, "turn-open");
    refused(&["--turn", "turn_9"], 3, "unknown-turn");
    refused(&["--at", "89f4374f816089faebc3e68320ae20c1"], 3, "seed-unsupported");
    // The source is replaced by another with the same turn ids and boundaries.
    let other = Log::default().turn("turn_1").turn("turn_2");
    fs::write(home.root.join("mini-parent/events.frames"), &other.bytes).unwrap();
    refused(&["--turn", "turn_1", "--expect", &anchor], 4, "stale-source");
}

#[cfg(unix)]
#[test]
fn a_fork_at_a_turn_stopped_anywhere_is_settled() {
    use std::os::unix::process::ExitStatusExt;

    let args = ["fork", "mini-parent", "--turn", "turn_2", "--json", "--operation-id", "op"];
    for point in [
        "claimed",
        "pending",
        "reasonix-log-written",
        "reasonix-staged",
        "reasonix-renamed",
        "seeded",
        "completed",
    ] {
        let home = Home::with(&["mini-parent"]);
        let source = home.log("mini-parent");
        let stopped =
            home.env.command(&args).env("OFFSHOOT_FAULT_POINT", format!("{point}=kill")).output().unwrap();
        assert_eq!(stopped.status.signal(), Some(9), "{point}");
        let _ = home.run(&["recover", "--json"]).code(0);
        assert!(
            !fs::read_dir(&home.root).unwrap().any(|e| e
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .contains("fork-offshoot"))
        );
        let forked = home.run(&args).code(0).json();
        let child = home.log(forked["sessionId"].as_str().unwrap());
        assert_eq!(
            turns(&child, &offshoot::dialect::reasonix::content::NoContents).unwrap().turns().len(),
            2,
            "{point}"
        );
        assert_eq!(
            fs::read_dir(&home.root).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(),
            2,
            "{point}"
        );
        assert_eq!(home.log("mini-parent"), source, "{point}");
        let _ = home.run(&["audit", "verify", "--deep"]).code(0);
    }
}

const ASKED: (&str, &str, bool) = ("interaction/created", r#"{"id":"i"}"#, false);
const ANSWERED: (&str, &str, bool) = ("interaction/resolved", r#"{"id":"i","state":"answered"}"#, false);
const ENDED: (&str, &str, bool) = ("turn/end", r#"{"status":"completed"}"#, false);
const STARTED: (&str, &str, bool) = ("turn/start", "{}", false);

#[test]
fn an_active_authority_is_refused_and_one_resolved_by_the_closing_commit_is_not() {
    let home = Home::with(&[]);
    let message = crate::reasonix_made::message("user", "u", "go");
    let prompt = ("message/complete", message.as_str(), false);
    let open = Log::default().turn("one").commit("two", &[STARTED, prompt, ASKED]);
    // Answered too late, by a commit of its own.
    home.add("late", &open.clone().commit("two", &[ENDED]).commit("", &[ANSWERED]).bytes);
    let refused = home.run(&["fork", "late", "--turn", "two", "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "active-authority");
    // Behind the end of the turn, and within the commit that closed it: the cut covers the whole commit.
    home.add("same", &open.commit("two", &[ENDED, ANSWERED]).bytes);
    let listed = home.run(&["targets", "same", "--json"]).code(0).json();
    let target = &listed["targets"][1];
    assert_eq!(
        (&target["end"], &target["boundary"], &target["available"]),
        (&json!(8), &json!(9), &json!(true))
    );
    let forked = home.run(&["fork", "same", "--turn", "two", "--json"]).code(0).json();
    let child = home.log(forked["sessionId"].as_str().unwrap());
    let (commits, _) =
        crate::reasonix_made::commits(&child, &offshoot::dialect::reasonix::content::NoContents).unwrap();
    assert_eq!(commits.last().unwrap().last_seq(), 9);
}

#[test]
fn of_two_turns_that_one_commit_closed_the_last_can_be_forked_at() {
    let home = Home::with(&[]);
    let log = Log::default().turn("one").commit("two", &[STARTED, ENDED, STARTED, ENDED]);
    home.add("both", &log.bytes);
    let listed = home.run(&["targets", "both", "--json"]).code(0).json();
    let reasons: Vec<&Value> = listed["targets"].as_array().unwrap().iter().map(|t| &t["reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &json!("boundary-shared"), &Value::Null]);
    // They share the id; the one that can be forked at is meant.
    let forked = home.run(&["fork", "both", "--turn", "two", "--json"]).code(0).json();
    assert_eq!(forked["turnNumber"], 3);
}

#[test]
fn a_child_that_the_client_went_on_in_is_not_handed_out_again() {
    let home = Home::with(&[]);
    home.add("source", &Log::default().turn("one").turn("two").bytes);
    let fork = || home.run(&["fork", "source", "--turn", "one", "--json"]).code(0).json();
    let first = fork();
    assert_eq!(fork()["sessionId"], first["sessionId"]);
    let child = first["sessionId"].as_str().unwrap();
    let path = home.root.join(child).join("events.frames");
    // Whatever the client appends, if only the beginning of a commit.
    fs::write(&path, [home.log(child), b"RX4F".to_vec()].concat()).unwrap();
    assert_ne!(fork()["sessionId"], first["sessionId"]);
    // As is one that was resumed through us.
    let second = fork();
    let _ = home
        .run(&[
            "resume",
            second["sessionId"].as_str().unwrap(),
            "--seed",
            "none",
            "--leaf",
            second["sessionId"].as_str().unwrap(),
        ])
        .code(0);
    assert_ne!(fork()["sessionId"], second["sessionId"]);
}

#[cfg(unix)]
#[test]
fn two_processes_that_contend_for_one_session_make_one_child() {
    let home = Home::with(&["mini-parent"]);
    let args = ["fork", "mini-parent", "--turn", "turn_2", "--json", "--wait", "30s"];
    let spawn = || {
        let mut command = home.env.command(&args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let racers: Vec<_> = (0..6).map(|_| spawn()).collect();
    let answers: Vec<Value> =
        racers.into_iter().map(|racer| Ran::from(racer.wait_with_output().unwrap()).code(0).json()).collect();
    assert!(answers.iter().all(|a| a["sessionId"] == answers[0]["sessionId"]));
    assert_eq!(answers.iter().filter(|a| a["replayed"] == false).count(), 1);
    assert_eq!(fs::read_dir(&home.root).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(), 2);
}
