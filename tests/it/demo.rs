//! `demo`, the first thing that anybody runs: with nothing but a temporary folder, by policy and at the prompt.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    pty::{DOWN, ENTER, ESC, Pty, marked},
    support::{Ran, TestEnv, fixture},
};

/// No HOME, no PATH, no state directory: only a place for temporary files.
fn bare(env: &TestEnv, args: &[&str]) -> Command {
    let mut command = env.command(args);
    command.env_clear().env("TMPDIR", env.path("work"));
    command
}

/// The folder that the demo made.
fn folder(env: &TestEnv) -> PathBuf {
    let made: Vec<_> = fs::read_dir(env.path("work")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    made[0].clone()
}

/// Every transcript below `dir`.
fn transcripts(dir: &Path) -> Vec<PathBuf> {
    let chats =
        fs::read_dir(dir.join("home/.qwen/projects")).unwrap().next().unwrap().unwrap().path().join("chats");
    let mut found: Vec<PathBuf> = fs::read_dir(chats)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    found.sort_by_key(|p| !p.ends_with("86735cb7-c693-4ed3-90d6-c377b543ebf6.jsonl"));
    found
}

#[test]
fn without_a_terminal_a_policy_chooses_the_work() {
    let env = TestEnv::new();
    let ran = Ran::from(bare(&env, &["demo"]).output().unwrap()).code(0);
    let folder = folder(&env);
    for said in [
        "$ offshoot inspect",
        "$ offshoot resume 86735cb7-c693-4ed3-90d6-c377b543ebf6 --operation-id demo --policy most-work.toml",
        "$ offshoot audit show demo",
        "$ offshoot audit verify --deep",
        "offshoot resume --pick -- qwen",
        &format!("The folder stays: {}", folder.canonicalize().unwrap().display()),
    ] {
        assert!(ran.stdout.contains(said), "{said}\n{}\n{}", ran.stdout, ran.stderr);
    }
    assert!(ran.stdout.contains("answered from the ledger"), "{}", ran.stdout);
    let [source, child] = &transcripts(&folder)[..] else { panic!("{:?}", transcripts(&folder)) };
    let (source, child) = (fs::read_to_string(source).unwrap(), fs::read_to_string(child).unwrap());
    let shipped = fs::read_to_string(fixture("demo/session.jsonl")).unwrap();
    let project = folder.canonicalize().unwrap().join("parcel-api").display().to_string();
    assert_eq!(source, shipped.replace("/home/ada/parcel-api", &project), "the source was touched");
    assert!(child.contains("All 17 tests pass") && !child.contains("Which HTTP client"), "{child}");
    assert_eq!(fs::read_dir(env.path("home")).unwrap().count(), 0);
}

#[test]
fn with_json_stdout_holds_documents_alone() {
    let env = TestEnv::new();
    let ran = Ran::from(bare(&env, &["demo", "--json"]).output().unwrap()).code(0);
    let documents: Vec<serde_json::Value> =
        ran.stdout.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    assert_eq!(documents[0]["schema"], "offshoot.inspection/1");
    assert_eq!(documents[1]["decidedBy"]["kind"], "policy");
    assert_eq!(documents.last().unwrap()["replayed"], true);
    assert!(ran.stderr.contains("The folder stays"), "{}", ran.stderr);
}

#[test]
fn on_a_terminal_the_person_is_asked() {
    let env = TestEnv::new();
    let mut pty = Pty::spawn(&bare(&env, &["demo"]), 90, 45);
    pty.wait_text("Nothing is marked yet");
    pty.send(DOWN);
    pty.wait_marked("client's pick");
    pty.send(DOWN);
    pty.wait_for("the branch with the work", |s| {
        marked(s).is_some_and(|m| m.contains("Add retries")) && s.contents().contains("reply: `Retry-After`")
    });
    pty.send(ENTER);
    let ended = pty.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.screen.contents());
    assert!(ended.restored());
    assert!(ended.drawn.contains("you, at the prompt") && ended.drawn.contains("The folder stays"));
    assert_eq!(transcripts(&folder(&env)).len(), 2);

    let env = TestEnv::new();
    let mut pty = Pty::spawn(&bare(&env, &["demo"]), 90, 45);
    pty.wait_text("Nothing is marked yet");
    pty.send(ESC);
    let ended = pty.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.screen.contents());
    assert_eq!(transcripts(&folder(&env)).len(), 1);
}
