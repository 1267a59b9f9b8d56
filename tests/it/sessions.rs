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
        sessions::resolve(arg, &SessionContext { env: &self.env, cwd: &self.cwd, agent: None, interactive })
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
    // Whose it is, its place tells, where nothing in it does.
    assert_eq!((&rows[0]["leaves"], &rows[0]["error"]), (&json!(0), &Value::Null));
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
        table.stdout.contains("(archived) Second o... (branch 385e46a0)") && table.stdout.contains("2d ago"),
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
    let none = home.test.run(&["sessions"]).code(0);
    assert!(none.stdout.is_empty() && none.stderr.contains("--all"), "{}", none.stderr);
    let all = home.test.run(&["sessions", "--all", "--json"]).code(0).json();
    assert_eq!(all["sessions"][0]["sessionId"], C);
    let inspection = home.test.run(&["inspect", "cccc", "--json"]).code(0).json();
    assert_eq!(inspection["branches"][0]["leafUuid"], "a");
    let none = home.test.run(&["inspect", "--json"]).code(3).json();
    assert_eq!(none["refusal"]["code"], "session-unknown");
    let nowhere = TestEnv::new().run(&["sessions", "--all"]).code(0);
    assert!(!nowhere.stderr.contains("--all"), "{}", nowhere.stderr);
}

impl Home {
    /// Writes a session of Claude Code in a folder whose name says nothing.
    fn claude(&self, folder: &str, id: &str, hours: u64, text: &str) -> PathBuf {
        let path =
            PathBuf::from(self.test.write(&format!("home/.claude/projects/{folder}/{id}.jsonl"), text));
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        path
    }

    /// Two prompts of which the second is a rewind of the first, written in `cwd`.
    fn rewound(&self, cwd: &Path, titles: &str) -> String {
        let said = |uuid: &str, kind: &str, text: &str, parent: Value| {
            json!({"parentUuid": parent, "isSidechain": false, "type": kind, "uuid": uuid, "cwd": cwd,
                "timestamp": format!("2026-01-01T00:00:0{}.000Z", &uuid[1..]), "sessionId": "s", "version": "2.1.332",
                "message": {"role": kind, "content": [{"type": "text", "text": text}]}})
        };
        let lines = [
            json!({"type": "mode", "mode": "default", "sessionId": "s"}),
            said("p1", "user", "fix\n the\u{1b}[31m lexer", Value::Null),
            said("r1", "assistant", "which one?", json!("p1")),
            said("p2", "user", "this one", json!("r1")),
            said("p3", "user", "that one", json!("r1")),
        ];
        lines.map(|line| format!("{line}\n")).concat() + titles
    }
}

#[test]
fn claude_sessions_are_found_by_what_their_records_say() {
    let home = Home::new();
    let here = home.rewound(&home.cwd, "");
    home.claude("-any-folder", A, 3, &here);
    home.claude("-any-folder", B, 2, &home.rewound(Path::new("/elsewhere"), ""));
    // What lies beside sessions and is none.
    home.claude("-any-folder", "agent-01234567", 0, &here);
    home.claude("-any-folder", &format!("{A}/subagents/agent-0123456789abcdef0"), 0, &here);
    let folder = home.test.path(&format!("home/.claude/projects/-any-folder/{C}.jsonl"));
    fs::create_dir(&folder).unwrap();
    assert_eq!(home.id(None).as_deref(), Some(A), "the only one of this project");
    assert_eq!(home.id(Some("aaaa2")).as_deref(), Some(B), "of another project");
    assert_eq!(home.refused(Some(C), true), "session-unknown");
    fs::remove_dir(folder).unwrap();
    // No record says where it was written.
    home.claude("-any-folder", C, 0, "");
    assert_eq!(home.id(None).as_deref(), Some(A));
    assert_eq!(home.id(Some("cccc")).as_deref(), Some(C));

    let found = home.test.run(&["inspect", "aaaa1", "--json"]).code(0).json();
    assert_eq!((&found["agent"], found["branches"].as_array().unwrap().len()), (&json!("claude"), 2));
    let chosen = home.test.run(&["resume", "aaaa1", "--leaf", "p2", "--json"]).code(0).json();
    assert_eq!(chosen["command"][0], "claude");
    let child = chosen["seed"]["sessionId"].as_str().unwrap();
    assert_eq!(home.id(Some(child)).as_deref(), Some(child));
}

#[test]
fn a_large_first_record_does_not_hide_the_project() {
    let home = Home::new();
    let long = home.rewound(&home.cwd, "").replace("which one?", &"x".repeat(40_000));
    let first = json!({"type": "user", "uuid": "p0", "parentUuid": null, "sessionId": "s",
        "message": {"role": "user", "content": "y".repeat(300_000)}, "cwd": home.cwd});
    home.claude("-any-folder", A, 1, &format!("{first}\n{long}"));
    assert_eq!(home.id(None).as_deref(), Some(A));
}

#[test]
fn the_variable_says_where_claude_sessions_lie() {
    let home = Home::new();
    home.claude("-any-folder", A, 1, &home.rewound(&home.cwd, ""));
    let elsewhere = home.test.path("elsewhere");
    fs::create_dir_all(elsewhere.join("projects/-p")).unwrap();
    fs::write(elsewhere.join(format!("projects/-p/{B}.jsonl")), home.rewound(&home.cwd, "")).unwrap();
    let list = |name: &str| {
        let ran = home.test.command(&["sessions", "--json"]).env(name, &elsewhere).output().unwrap();
        let ran = crate::support::Ran::from(ran).code(0).json();
        ran["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list("CLAUDE_CONFIG_DIR"), [B]);
    assert_eq!(list("NOTHING"), [A]);
}

#[test]
fn one_id_in_two_places_is_ambiguous_and_both_are_named() {
    let home = Home::new();
    let text = home.rewound(&home.cwd, "");
    let one = home.claude("-one", A, 1, &text);
    let two = home.claude("-two", A, 2, &home.rewound(Path::new("/elsewhere"), ""));
    let places = |arg: &str| {
        let error = home.resolve(Some(arg), true).unwrap_err();
        assert_eq!(error.code(), "session-ambiguous");
        let document = error.to_json();
        let candidates = document["refusal"]["detail"]["candidates"].as_array().unwrap().clone();
        let places: Vec<_> =
            candidates.iter().map(|c| c["transcript"].as_str().unwrap().to_owned()).collect();
        assert!(places.iter().all(|p| error.to_string().contains(p.as_str())), "{error}");
        places
    };
    let canonical = |path: &Path| fs::canonicalize(path).unwrap().display().to_string();
    assert_eq!(places(A), [canonical(&one), canonical(&two)]);
    assert_eq!(places("aaaa"), places(A));
    fs::remove_file(two).unwrap();
    assert_eq!(home.id(Some(A)).as_deref(), Some(A));

    let qwen = home.session("-elsewhere/chats", A, 3, &record("a", None, says("hi")));
    assert_eq!(places(A), [canonical(&one), qwen.display().to_string()]);
    let told = home.test.run(&["inspect", A, "--agent", "qwen", "--json"]).code(0).json();
    assert_eq!(told["agent"], "qwen");
    let told = home.test.run(&["inspect", A]).code(3).stderr;
    assert!(told.contains("exists in 2 places") && told.contains("--agent"), "{told}");
}

/// To name such a session by its id would be refused again.
#[test]
fn one_id_twice_in_a_project_is_to_be_named_by_path() {
    let home = Home::new();
    let text = home.rewound(&home.cwd, "");
    home.claude("-one", A, 1, &text);
    home.claude("-two", A, 2, &text);
    let told = home.test.run(&["inspect"]).code(3).stderr;
    for part in [&format!("-one/{A}.jsonl"), &format!("-two/{A}.jsonl"), "by its path"] {
        assert!(told.contains(part), "{told}");
    }
    home.claude("-two", B, 3, &text);
    let told = home.test.run(&["inspect", "aaaa"]).code(3).stderr;
    assert!(told.contains("by its path") && told.contains(&format!("-two/{B}.jsonl")), "{told}");
    fs::remove_file(home.test.path(&format!("home/.claude/projects/-two/{A}.jsonl"))).unwrap();
    let told = home.test.run(&["inspect", "aaaa"]).code(3).stderr;
    assert!(told.contains("by its id") && !told.contains(".jsonl"), "{told}");
}

#[test]
fn both_agents_sessions_are_listed_with_titles_and_stale_picks() {
    let home = Home::new();
    home.session(&home.chats(), C, 5, &record("a", None, says("hello")));
    let older = "{\"type\":\"summary\",\"summary\":\"Made by an old client\",\"leafUuid\":\"r1\"}\n";
    let made = "{\"type\":\"ai-title\",\"aiTitle\":\"Made by a model\",\"sessionId\":\"s\"}\n";
    let chosen = "{\"type\":\"custom-title\",\"customTitle\":\"Chosen\",\"sessionId\":\"s\"}\n";
    let pin = "{\"type\":\"last-prompt\",\"leafUuid\":\"p2\",\"sessionId\":\"s\"}\n";
    home.claude("-any-folder", A, 1, &home.rewound(&home.cwd, &[chosen, made, older, pin].concat()));
    home.claude("-any-folder", B, 2, &home.rewound(&home.cwd, &[made, older].concat()));
    let document = home.test.run(&["sessions", "--json"]).code(0).json();
    let rows = document["sessions"].as_array().unwrap();
    let seen: Vec<_> =
        rows.iter().map(|r| json!([r["agent"], r["sessionId"], r["title"], r["leaves"]])).collect();
    assert_eq!(
        seen,
        [
            json!(["claude", A, "Chosen", 2]),
            json!(["claude", B, "Made by a model", 2]),
            json!(["qwen", C, null, 1])
        ]
    );
    assert_eq!(rows[0]["clientPick"], json!({"leafUuid": "p2", "stale": true}));
    assert_eq!(
        (&rows[0]["firstPrompt"], &rows[0]["bytes"].is_u64()),
        (&json!("fix the\u{1b}[31m lexer"), &true)
    );
    let table = home.test.run(&["sessions"]).code(0).stdout;
    assert!(
        table.contains("AGENT") && table.contains("claude") && table.contains("Made by a model"),
        "{table}"
    );
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    let wide = |columns: &str| {
        let output = home.test.command(&["sessions"]).env("COLUMNS", columns).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(wide("40").lines().take_while(|l| !l.is_empty()).all(|l| l.chars().count() <= 40));
    let title = "A title that has eighty characters or more, of which a narrow page shows the beginning";
    let lines = format!("{}\n", json!({"type": "custom-title", "customTitle": title, "sessionId": "s"}));
    home.claude("-any-folder", A, 1, &home.rewound(&home.cwd, &lines));
    assert!(wide("200").contains(title) && !wide("80").contains(title));
    let only = home.test.run(&["sessions", "--agent", "qwen"]).code(0).stdout;
    assert!(!only.contains("AGENT") && !only.contains("aaaa1111"), "{only}");
    let (one, several) = (home.resolve(None, true).unwrap(), home.refused(None, false));
    assert_eq!((one.agent, several), (Some(offshoot::record::Agent::Claude), json!("session-ambiguous")));
}

#[test]
fn a_twin_is_told_from_its_parent_by_a_title_that_is_safe() {
    let home = Home::new();
    let title = |base: &str| {
        let lines = format!("{}\n", json!({"type": "custom-title", "customTitle": base, "sessionId": "s"}));
        home.claude("-any-folder", A, 1, &home.rewound(&home.cwd, &lines));
        let child = home.test.run(&["resume", A, "--leaf", "p2", "--no-follow", "--json"]).code(0).json();
        let child = fs::read_to_string(child["seed"]["transcript"].as_str().unwrap()).unwrap();
        let titles: Vec<Value> = child
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap())
            .filter(|l| l["type"] == "custom-title")
            .collect();
        assert_eq!(titles.len(), 1, "{child}");
        titles[0]["customTitle"].as_str().unwrap().to_owned()
    };
    assert_eq!(title("Lexer"), "Lexer (branch p2)");
    assert_eq!(title("Lexer (branch p3)"), "Lexer (branch p2)");
    assert_eq!(title("a\u{1b}]0;owned\u{7} b\u{202e}c\n\td"), "a ]0;owned b c d (branch p2)");
    assert_eq!(title(&"ä".repeat(5000)).chars().count(), 80 + " (branch p2)".len());
}

/// More sessions than are read without a bar, of a client that is newer than the rules.
fn crowd() -> Home {
    let home = Home::new();
    for n in 0..60u64 {
        let id = format!("aaaaaaaa-0000-4000-8000-0000000{n:05}");
        let text = record("a", None, json!({"version": "99.0.0", "message": {"role": "user", "parts": []}}));
        home.session(
            &home.chats(),
            &id,
            n,
            &text.replace("\"cwd\":\"/p\"", &format!("\"cwd\":{}", json!(home.cwd))),
        );
    }
    home
}

#[test]
fn many_sessions_stand_in_order_and_a_warning_stands_once() {
    let ran = crowd().test.run(&["sessions", "--json"]).code(0);
    assert_eq!(ran.stderr.matches("newer than").count(), 1, "{}", ran.stderr);
    let document = ran.json();
    let rows = document["sessions"].as_array().unwrap();
    assert_eq!(rows.len(), 60);
    for (n, row) in rows.iter().enumerate() {
        assert!(row["sessionId"].as_str().unwrap().ends_with(&format!("{n:05}")), "{row}");
        assert_eq!((&row["leaves"], row.get("error")), (&json!(1), None));
    }
}

#[cfg(unix)]
#[test]
fn a_bar_stands_on_a_terminal_while_many_sessions_are_read() {
    let home = crowd();
    for (args, shown) in [(&["sessions"][..], true), (&["sessions", "--quiet"], false)] {
        let mut command = home.test.command(args);
        command.env("TERM", "xterm");
        let ended = crate::pty::Pty::spawn(&command, 80, 24).wait();
        assert_eq!(ended.code, Some(0), "{}", ended.drawn);
        assert_eq!(ended.drawn.contains(" of 60 sessions"), shown, "{}", ended.drawn);
        assert!(ended.line_mode && !ended.screen.contents().contains(" of 60 sessions"));
    }
}

/// A session in which nobody has said anything yet is one: the place tells whose it is.
#[test]
fn an_empty_session_is_known_by_its_place() {
    let test = TestEnv::new();
    let id = |n: u8| format!("aaaaaaaa-0000-4000-8000-00000000000{n}");
    let places = [
        ("claude", ".claude/projects/-w"),
        ("qwen", ".qwen/projects/-w/chats"),
        ("qwen", ".qwen/projects/-w/chats/archive"),
    ];
    for (n, (agent, place)) in (1..).zip(places) {
        let (id, text) = (id(n), if n == 2 { "no record\n" } else { "" });
        let path = test.write(&format!("home/{place}/{id}.jsonl"), text);
        for session in [&id, &path] {
            let page = test.run(&["tree", "--print", session]).code(0).stdout;
            assert!(page.contains("No messages in this session") && page.contains(agent), "{page}");
            let json = test.run(&["tree", "--print", "--json", session]).code(0).json();
            assert_eq!((&json["agent"], &json["records"]), (&json!(agent), &json!(0)));
            let inspection = test.run(&["inspect", "--json", session]).code(0).json();
            assert_eq!(inspection["branches"], json!([]));
            for refused in [&["resume", session][..], &["truncate", session, "--after", "abcd"]] {
                let refused = test.run(&[refused, &["--json"]].concat()).code(3).json();
                let code = refused["refusal"]["code"].as_str().unwrap();
                assert!(["no-leaf", "leaf-unknown"].contains(&code), "{refused}");
            }
        }
    }
    let listed = test.run(&["sessions", "--all", "--json"]).code(0).json();
    for session in listed["sessions"].as_array().unwrap() {
        assert_eq!((&session["leaves"], &session["error"]), (&json!(0), &json!(null)), "{session}");
    }
    let table = test.run(&["sessions", "--all"]).code(0).stdout;
    assert!(!table.contains(['!', '?']), "nothing of them can be lost: {table}");
    // Anywhere else nothing tells whose it is.
    let path = test.write("home/empty.jsonl", "");
    assert_eq!(test.run(&["inspect", "--json", &path]).code(3).json()["refusal"]["code"], "agent-unknown");
}
