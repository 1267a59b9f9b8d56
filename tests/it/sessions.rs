//! `sessions`, and what `SESSION` means.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use offshoot::{
    refusal::Result,
    store::{
        env::Env,
        sessions::{self, SessionContext, SessionRef},
    },
};
use serde_json::{Value, json};

use crate::support::TestEnv;

const A: &str = "aaaa1111-0000-4000-8000-000000000001";
const B: &str = "aaaa2222-0000-4000-8000-000000000002";
const C: &str = "cccc3333-0000-4000-8000-000000000003";

struct Home {
    test: TestEnv,
    env: Env,
    cwd: PathBuf,
    here: String,
}

impl Home {
    fn new() -> Home {
        let test = TestEnv::new();
        let cwd = fs::canonicalize(test.path("work")).unwrap();
        let here = folder(&cwd);
        let env = Env { home: Some(test.path("home")), ..Env::default() };
        Home { test, env, cwd, here }
    }

    /// Writes a session that was last written `hours` ago.
    fn session(&self, folder: &str, id: &str, hours: u64, text: &str) -> PathBuf {
        let path = PathBuf::from(self.test.write(&format!("home/.qwen/projects/{folder}/{id}.jsonl"), text));
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        path
    }

    fn chats(&self) -> String {
        format!("{}/chats", self.here)
    }

    fn resolve(&self, arg: Option<&str>, interactive: bool) -> Result<SessionRef> {
        sessions::resolve(arg, &SessionContext { env: &self.env, cwd: &self.cwd, interactive })
    }

    fn id(&self, arg: Option<&str>) -> Option<String> {
        self.resolve(arg, false).unwrap().session_id
    }

    #[track_caller]
    fn refused(&self, arg: Option<&str>, interactive: bool) -> Value {
        let error = self.resolve(arg, interactive).unwrap_err();
        let mut document = error.to_json()["refusal"].take();
        assert_eq!(document["retryable"], false, "{document}");
        document["code"].take()
    }
}

/// The client's name for a project, spelled out once more.
fn folder(cwd: &Path) -> String {
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    cwd.to_str().unwrap().chars().map(dashed).collect()
}

fn record(uuid: &str, parent: Option<&str>, more: Value) -> String {
    let mut record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": A, "type": "user",
        "timestamp": format!("2026-01-01T00:00:0{}Z", uuid.len()), "cwd": "/p"});
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    format!("{record}\n")
}

fn says(text: &str) -> Value {
    json!({"message": {"role": "user", "parts": [{"text": text}]}})
}

fn titled(title: &str) -> Value {
    json!({"type": "system", "subtype": "custom_title", "systemPayload": {"customTitle": title}})
}

#[test]
fn a_session_is_named_by_path_id_or_beginning() {
    let home = Home::new();
    let a = home.session(&home.chats(), A, 3, "");
    home.session(&home.chats(), B, 2, "");
    home.session("-elsewhere/chats", C, 1, "");
    assert_eq!(home.id(Some(A)).as_deref(), Some(A));
    assert_eq!(home.id(Some("aaaa1")).as_deref(), Some(A));
    assert_eq!(home.id(Some("cccc")).as_deref(), Some(C), "of another project");
    let by_path = home.resolve(Some(a.to_str().unwrap()), false).unwrap();
    assert_eq!(
        (by_path.path.as_path(), by_path.session_id.as_deref()),
        (&*fs::canonicalize(&a).unwrap(), Some(A))
    );
    home.test.write("work/aaaa1", "a file goes before an id");
    assert_eq!(home.resolve(Some("aaaa1"), false).unwrap().path, home.cwd.join("aaaa1"));
    fs::create_dir(home.cwd.join("aaaa2")).unwrap();
    assert_eq!(home.id(Some("aaaa2")).as_deref(), Some(B), "a folder does not");

    assert_eq!(home.refused(Some("aaaa"), true), "session-ambiguous");
    for unknown in ["", "aaa", "AAAA1", "dddd", "nowhere.jsonl", "../../x", &format!("{A}.jsonl")] {
        assert_eq!(home.refused(Some(unknown), true), "session-unknown", "{unknown:?}");
    }
}

#[test]
fn without_a_name_the_newest_is_taken_only_where_a_person_sees_it() {
    let home = Home::new();
    assert_eq!(home.refused(None, true), "session-unknown");
    home.session("-elsewhere/chats", C, 0, "");
    home.session(&home.chats(), A, 3, "");
    home.session(&format!("{}/archive", home.chats()), C, 0, "");
    home.session(&home.chats(), "not-a-session", 0, "");
    assert_eq!(home.id(None).as_deref(), Some(A), "the only one of this project");
    home.session(&home.chats(), B, 2, "");
    assert_eq!(home.resolve(None, true).unwrap().session_id.as_deref(), Some(B));
    let error = home.resolve(None, false).unwrap_err();
    assert_eq!(error.code(), "session-ambiguous");
    let ids: Vec<_> = error.to_json()["refusal"]["detail"]["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["sessionId"].clone())
        .collect();
    assert_eq!(ids, [B, A], "newest first");
}

#[test]
fn archived_sessions_come_last_and_an_exact_id_goes_before_a_beginning() {
    let home = Home::new();
    home.session(&format!("{}/archive", home.chats()), A, 1, "");
    let elsewhere = home.session("-elsewhere/chats", A, 2, "");
    assert_eq!(home.resolve(Some(A), false).unwrap().path, fs::canonicalize(elsewhere).unwrap());
    let short = &A[..32];
    let short_path = home.session("-elsewhere/chats", short, 2, "");
    assert_eq!(home.resolve(Some(short), false).unwrap().path, fs::canonicalize(short_path).unwrap());
}

#[test]
#[cfg(unix)]
fn a_symlink_in_the_list_is_passed_over_and_as_a_path_refused() {
    let home = Home::new();
    let a = home.session(&home.chats(), A, 1, "");
    std::os::unix::fs::symlink(&a, a.with_file_name(format!("{B}.jsonl"))).unwrap();
    assert_eq!(home.id(None).as_deref(), Some(A));
    assert_eq!(
        home.refused(Some(a.with_file_name(format!("{B}.jsonl")).to_str().unwrap()), true),
        "unsafe-path"
    );
}

#[test]
fn the_list_says_what_each_session_is_about() {
    let home = Home::new();
    let long = "x".repeat(70_000);
    let two_branches = [
        record("a", None, says("  fix\n the\u{1b}[31m parser ")),
        record("bb", Some("a"), says("one")),
        record(
            "ccc",
            Some("a"),
            json!({"type": "assistant", "message": {"role": "model", "parts": [{"text": long}]}}),
        ),
        record("cccc", Some("bb"), titled("Old title")),
        record("b", Some("a"), says("two")),
    ]
    .concat();
    let here = format!("\"cwd\":{}", json!(home.cwd));
    let two_branches = two_branches.replace("\"cwd\":\"/p\"", &here);
    home.session(&home.chats(), A, 49, &two_branches);
    let renamed = [
        record("a", None, says("hello")),
        record("b", Some("a"), titled("First")),
        record("c", Some("b"), titled("Second of quite a number of titles (branch 385e46a0)")),
    ];
    home.session(&format!("{}/archive", home.chats()), B, 2, &renamed.concat());
    home.session(&home.chats(), C, 1, "not a transcript\n");

    let document = home.test.run(&["sessions", "--json"]).code(0).json();
    assert_eq!(document["schema"], "offshoot.sessions/1");
    let rows = document["sessions"].as_array().unwrap();
    let ids: Vec<_> = rows.iter().map(|r| r["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids, [C, B, A]);
    assert_eq!((&rows[0]["leaves"], &rows[0]["error"]["code"]), (&Value::Null, &json!("agent-unknown")));
    assert_eq!(
        (&rows[1]["title"], &rows[1]["archived"], &rows[1]["leaves"]),
        (&json!("Second of quite a number of titles (branch 385e46a0)"), &json!(true), &json!(1))
    );
    assert_eq!(rows[1]["clientPick"], json!({"leafUuid": "a", "stale": false}));
    assert_eq!(
        (&rows[2]["title"], &rows[2]["firstPrompt"]),
        (&json!("Old title"), &json!("fix the\u{1b}[31m parser"))
    );
    assert_eq!(rows[2]["leaves"], 3);
    assert_eq!(rows[2]["clientPick"], json!({"leafUuid": "b", "stale": true}));

    let table = home.test.run(&["sessions"]).code(0);
    assert!(table.stdout.lines().all(|l| l.chars().count() <= 80), "{}", table.stdout);
    assert!(
        table.stdout.contains("(archived) Second of.. (branch 385e46a0)") && table.stdout.contains("2d ago"),
        "{}",
        table.stdout
    );
    assert!(
        table.stdout.contains("! the agent would") && !table.stdout.contains('\u{1b}'),
        "{}",
        table.stdout
    );
    let redacted = home.test.run(&["sessions", "--json", "--redact"]).code(0).stdout;
    assert!(!redacted.contains("title") && !redacted.contains("parser"), "{redacted}");
}

#[test]
fn all_means_every_project_and_commands_take_ids() {
    let home = Home::new();
    home.session("-elsewhere/chats", C, 1, &record("a", None, says("hi")));
    assert!(home.test.run(&["sessions"]).code(0).stdout.is_empty());
    let all = home.test.run(&["sessions", "--all", "--json"]).code(0).json();
    assert_eq!(all["sessions"][0]["sessionId"], C);
    let inspection = home.test.run(&["inspect", "cccc", "--json"]).code(0).json();
    assert_eq!(inspection["branches"][0]["leafUuid"], "a");
    let none = home.test.run(&["inspect", "--json"]).code(3).json();
    assert_eq!(none["refusal"]["code"], "session-unknown");
}
