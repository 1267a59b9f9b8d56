//! Conversations of subagents in files of their own: where they hang in the tree, what opens them, and what is made of
//! files that are missing, damaged, large or not what they seem.

use std::{fs, path::Path};

use clap::Parser;
use offshoot::cli::{
    args::Cli,
    tui::{App, Doc, Options, draw},
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use serde_json::{Value, json};

use crate::support::TestEnv;

const SESSION: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const OTHER: &str = "bbbbbbbb-0000-4000-8000-000000000002";

/// A state directory that holds nothing and that nothing is written to.
const NO_STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-state");

fn line(uuid: &str, parent: Option<&str>, side: bool, message: &Value, more: &Value) -> String {
    let mut record = json!({"uuid": uuid, "parentUuid": parent, "isSidechain": side, "sessionId": SESSION,
        "timestamp": "2026-11-30T20:03:17.496Z", "type": message["role"], "cwd": "/w", "version": "2.1.332",
        "message": message});
    let more = more.as_object().cloned().unwrap_or_default();
    record.as_object_mut().unwrap().extend(more);
    format!("{record}\n")
}

fn said(uuid: &str, parent: Option<&str>, side: bool, role: &str, text: &str) -> String {
    line(uuid, parent, side, &json!({"role": role, "content": text}), &Value::Null)
}

/// A prompt, two rounds that start a subagent each, and a reply.
fn session() -> String {
    let call = |id: &str, name: &str| {
        json!({"role": "assistant", "id": format!("msg_{id}"),
            "content": [{"type": "tool_use", "id": id, "name": name, "input": {"prompt": "go"}}]})
    };
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "done"}]});
    let agent = |id: &str| json!({"toolUseResult": {"status": "completed", "agentId": id}});
    said("m1", None, false, "user", "ask")
        + &line("m2", Some("m1"), false, &call("toolu_1", "Agent"), &Value::Null)
        + &line("m3", Some("m2"), false, &result("toolu_1"), &agent("a1"))
        + &line("m4", Some("m3"), false, &call("toolu_2", "Task"), &Value::Null)
        + &line("m5", Some("m4"), false, &result("toolu_2"), &agent("0ld0ld00"))
        + &said("m6", Some("m5"), false, "assistant", "answer")
}

fn conversation(text: &str) -> String {
    said("s1", None, true, "user", text) + &said("s2", Some("s1"), true, "assistant", "seen by a subagent")
}

fn write(env: &TestEnv, name: &str, bytes: impl AsRef<[u8]>) -> String {
    env.write(&format!("p/{name}"), bytes)
}

/// The session with a subagent of each layout.
fn both(env: &TestEnv) -> String {
    let noted = json!({"agentType": "general-purpose", "description": "look around", "toolUseId": "toolu_1"});
    write(env, &format!("{SESSION}/subagents/agent-a1.jsonl"), conversation("the first"));
    write(env, &format!("{SESSION}/subagents/agent-a1.meta.json"), noted.to_string());
    write(env, "agent-0ld0ld00.jsonl", conversation("the second"));
    let other = conversation("of another session").replace(SESSION, OTHER);
    write(env, "agent-07407400.jsonl", other);
    write(env, &format!("{SESSION}.jsonl"), session())
}

fn rows(env: &TestEnv, args: &[&str]) -> Vec<String> {
    let out = env.run(&[&["tree", "--print"], args].concat()).code(0).stdout;
    out.lines().skip(3).map(|row| row.trim_start().to_owned()).collect()
}

#[test]
fn they_hang_below_the_row_that_started_them() {
    let env = TestEnv::new();
    let file = both(&env);
    let bytes = conversation("the first").len();
    let expected = [
        "m1  [U] ask".to_owned(),
        "m3  [T] Agent go".to_owned(),
        format!("[S] subagent, {bytes} bytes: general-purpose: look around"),
        "m5  [T] Task go".to_owned(),
        format!("[S] subagent, {} bytes: the second", bytes + 1),
        "m6  [A] answer (client's pick, leaf)".to_owned(),
    ];
    assert_eq!(rows(&env, &[&file]), expected);
    let plain: Vec<String> = rows(&env, &["--redact", &file]);
    assert_eq!(plain[2], format!("[S] subagent, {bytes} bytes"));
    let json = env.run(&["tree", "--print", "--json", &file]).code(0).json();
    let row = &json["rows"][2];
    assert_eq!(
        (&row["role"], &row["uuid"], &row["below"]),
        (&json!("sidechain"), &Value::Null, &json!("m3"))
    );
    assert_eq!(json["rows"][3]["below"], "m3", "what follows does not hang below a subagent");
}

#[test]
fn what_does_not_say_who_started_it_stands_at_the_end() {
    let env = TestEnv::new();
    let file = write(&env, &format!("{SESSION}.jsonl"), session());
    let folder = format!("{SESSION}/subagents");
    write(&env, &format!("{folder}/agent-b1.jsonl"), conversation("no notes"));
    write(&env, &format!("{folder}/agent-b2.jsonl"), "no json\n");
    write(&env, &format!("{folder}/agent-b2.meta.json"), "{\"agentType\":");
    write(&env, &format!("{folder}/agent-b3.jsonl"), conversation("a call of nobody"));
    write(&env, &format!("{folder}/agent-b3.meta.json"), json!({"toolUseId": "toolu_9"}).to_string());
    write(&env, &format!("{folder}/notes.jsonl"), conversation("not named so"));
    fs::create_dir(env.path(&format!("p/{folder}/agent-dir.jsonl"))).unwrap();
    #[cfg(unix)]
    {
        let link = env.path(&format!("p/{folder}/agent-link.jsonl"));
        std::os::unix::fs::symlink("/etc/hostname", link).unwrap();
    }
    let found = rows(&env, &[&file]);
    let count = conversation("no notes").len();
    assert_eq!(found.len(), 4 + 3 - 1, "{found:#?}");
    assert_eq!(found[3], "[S] subagent, 8 bytes: b2");
    assert_eq!(found[4], format!("[S] subagent, {count} bytes: no notes"));
    assert!(found[5].ends_with("a call of nobody"), "{found:#?}");
    assert!(found[2].starts_with("m6  [A] answer"), "{found:#?}");
}

fn app(file: &str) -> App {
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", NO_STATE, "tree", file]).unwrap();
    App::new(Doc::open(&cli.global, Some(file)).unwrap(), Options::default())
}

/// Presses keys (`^` for Enter, `<` for Home), and reads the screen.
fn press(app: &mut App, keys: &str) -> String {
    for key in keys.chars() {
        let code = match key {
            '^' => KeyCode::Enter,
            '<' => KeyCode::Home,
            c => KeyCode::Char(c),
        };
        assert_eq!(app.key(KeyEvent::new(code, KeyModifiers::NONE)), None);
    }
    let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let cells = terminal.backend().buffer().content.chunks(100);
    cells.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned() + "\n").collect()
}

#[test]
fn enter_opens_them_and_nothing_can_be_done_there() {
    let env = TestEnv::new();
    let mut app = app(&both(&env));
    let screen = press(&mut app, "<jj");
    assert!(
        screen.contains("▸[S] subagent") && screen.contains("the conversation of subagent a1"),
        "{screen}"
    );
    assert!(screen.contains("agent-a1.jsonl") && screen.contains("general-purpose: look around"), "{screen}");
    assert!(!screen.contains("seen by a subagent"), "{screen}");
    let screen = press(&mut app, "^");
    assert!(screen.contains("▾[S]"), "{screen}");
    assert!(screen.contains("│ [U] the first") && screen.contains("╰ [A] seen by a subagent"), "{screen}");
    let screen = press(&mut app, "jj");
    assert!(
        screen.contains("assistant, 2026-11-30 20:03:17 UTC, line 2\ns2\nseen by a subagent"),
        "{screen}"
    );
    for key in ["f", "r", "o", "^"] {
        let screen = press(&mut app, key);
        assert!(screen.contains("sidechain-leaf: a subagent's conversation"), "{key}: {screen}");
    }
    let screen = press(&mut app, "h");
    assert!(screen.contains("the conversation of subagent a1"), "{screen}");
    let screen = press(&mut app, "h");
    assert!(!screen.contains("seen by a subagent") && screen.contains("▸[S] subagent"), "{screen}");
    let screen = press(&mut app, "f");
    assert!(screen.contains("sidechain-leaf"), "{screen}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let env = TestEnv::new();
    let file = both(&env);
    let agent = env.path(&format!("p/{SESSION}/subagents/agent-a1.jsonl"));
    let opened = |what: &str, change: &dyn Fn(&Path), when: bool| {
        fs::write(&agent, conversation("the first")).unwrap();
        if when {
            change(&agent);
        }
        let mut app = app(&file);
        let _ = press(&mut app, "<jj");
        if !when {
            change(&agent);
        }
        let screen = press(&mut app, "^");
        assert!(screen.contains(what) && screen.contains("▸[S] subagent"), "{what}: {screen}");
    };
    opened("cannot be read", &|path| fs::remove_file(path).unwrap(), false);
    opened("it holds no record", &|path| fs::write(path, "").unwrap(), true);
    let huge = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(20_000_000).unwrap();
    opened("20 MB are too much to be opened here", &huge, true);
}

#[test]
fn hostile_notes_steer_no_terminal() {
    let env = TestEnv::new();
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b\r\nc\u{200b}\u{7}";
    let file = write(&env, &format!("{SESSION}.jsonl"), session());
    let name = format!("{SESSION}/subagents/agent-a\u{1b}[2J1");
    write(&env, &format!("{name}.jsonl"), conversation(hostile));
    let noted = json!({"agentType": hostile, "description": hostile, "toolUseId": "toolu_1"});
    write(&env, &format!("{name}.meta.json"), noted.to_string());
    let clean = |text: &str| {
        let bad = text.chars().find(|&c| c != '\n' && (c.is_control() || "\u{202e}\u{200b}".contains(c)));
        assert_eq!(bad, None, "{text:?}");
    };
    clean(&env.run(&["tree", "--print", &file]).code(0).stdout);
    clean(&env.run(&["tree", "--print", "--json", &file]).code(0).stdout);
    let mut app = app(&file);
    clean(&press(&mut app, "<jj^"));
    clean(&press(&mut app, "v"));
}
