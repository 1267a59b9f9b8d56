//! The navigator on sessions of Reasonix: a family drawn as one tree, tools by their names, forks where a turn ends.

use std::{fs, io::Write, path::Path};

use clap::Parser;
use offshoot::cli::{
    args::Cli,
    tui::{Action, App, Doc, Options, Outcome, draw},
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use crate::{
    pty::Pty,
    reasonix_cli::Home,
    reasonix_made::{Log, message},
};

fn rows(home: &Home, dir: &Path) -> Vec<String> {
    let out = home.run(&["tree", "--print", dir.to_str().unwrap()]).code(0).stdout;
    out.lines().skip(3).map(str::to_owned).collect()
}

/// A turn with a call whose arguments are a text, one with them as an object, and one of another form.
fn with_tools() -> Log {
    let calls = r#"{"message":{"role":"assistant","id":"a1","content":"I look.","tool_calls":[
        {"id":"t1","name":"read_file","arguments":"{\"path\":\"src/a.rs\"}"},
        {"id":"t2","type":"function","function":{"name":"grep","arguments":{"pattern":"x"}}},{"id":"t3"}]}}"#;
    let result = |id: &str, of: &str| {
        format!(
            r#"{{"message":{{"role":"tool","id":"{id}","tool_call_id":"{of}","content":"result of {of}"}}}}"#
        )
    };
    Log::default().commit(
        "turn-1",
        &[
            ("turn/start", "{}", false),
            ("message/complete", &message("user", "u1", "go"), false),
            ("message/complete", calls, false),
            ("message/complete", &result("r1", "t1"), false),
            ("message/complete", &result("r2", "t2"), false),
            ("message/complete", &result("r3", "t3"), false),
            ("message/complete", &message("assistant", "a2", "done"), false),
            ("turn/end", r#"{"status":"completed"}"#, false),
        ],
    )
}

fn app(home: &Home, dir: &Path) -> App {
    let state = home.env.path("state").display().to_string();
    let name = dir.to_str().unwrap();
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", &state, "tree", name]).unwrap();
    App::new(Doc::open(&cli.global, Some(name)).unwrap(), Options::default())
}

/// Presses keys (`^` for Enter, `<` for Home), and reads the screen.
fn press(app: &mut App, keys: &str) -> (String, Option<Outcome>) {
    let mut outcome = None;
    for key in keys.chars() {
        let code = match key {
            '^' => KeyCode::Enter,
            '<' => KeyCode::Home,
            c => KeyCode::Char(c),
        };
        outcome = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let cells = terminal.backend().buffer().content.chunks(120);
    let screen =
        cells.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned() + "\n");
    (screen.collect(), outcome)
}

#[test]
fn a_family_is_one_tree() {
    let home = Home::with(&["mini-parent", "mini-child"]);
    let found = rows(&home, &home.root.join("mini-child"));
    let expected = [
        "ac928aa9  [U] first question",
        "89f4374f  [A] first answer <&> ü (2 branches)",
        "7d0b1c4f  ├─ [U] second question",
        "b8fd04d3  │  [A] second answer",
        "9c405909  │  [U] third, still open",
        "mini-par  │  [i] end of session mini-parent (leaf)",
        "mini-chi  └─ [i] end of session mini-child (client's pick, leaf)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn tools_have_their_names() {
    let home = Home::with(&[]);
    let dir = home.add("tools", &with_tools().bytes);
    let found = rows(&home, &dir);
    assert!(found[1].ends_with("[T] 3 calls: read_file, grep, a tool; I look."), "{found:#?}");
    assert!(found[3].contains("[i] end of session tools"), "{found:#?}");
    let mut app = app(&home, &dir);
    let (screen, _) = press(&mut app, "<j^");
    for row in ["[A] I look. -> read_file -> grep ->", "[T] <- result of t1", "[T] <- result of t3"] {
        assert!(screen.contains(row), "{row}: {screen}");
    }
    let (screen, _) = press(&mut app, "v");
    assert!(screen.contains("-> read_file {") && screen.contains("\"path\": \"src/a.rs\""), "{screen}");
    assert!(screen.contains("-> grep {") && screen.contains("\"pattern\": \"x\""), "{screen}");
}

#[test]
fn a_fork_is_offered_where_a_turn_ends_and_nothing_else_is() {
    let home = Home::with(&["mini-parent"]);
    let log = with_tools().turn("turn-2");
    let dir = home.add("tools", &log.bytes);
    let mut app = app(&home, &dir);
    // The prompt, the tools, the reply, the second turn, and the end.
    for (row, turn) in
        [(0, None), (1, None), (2, Some("turn-1")), (3, None), (4, Some("turn-2")), (5, Some("turn-2"))]
    {
        let _ = press(&mut app, "<");
        let (screen, outcome) = press(&mut app, &("j".repeat(row) + "f"));
        match turn {
            None => {
                assert_eq!(outcome, None);
                // It does not become possible by being asked for again.
                let (screen, outcome) = press(&mut app, "^");
                assert_eq!(outcome, None);
                let why = "seed-unsupported: no turn of this session ends here; `offshoot targets";
                assert!(screen.contains(why), "{row}: {screen}");
            }
            Some(turn) => match outcome {
                Some(Outcome::Act(Action::Fork, _, Some(of))) => assert_eq!(of, turn, "{row}"),
                other => panic!("{row}: {other:?}: {screen}"),
            },
        }
        for key in ["r^", "o^"] {
            let (screen, outcome) = press(&mut app, key);
            assert_eq!(outcome, None);
            assert!(screen.contains("seed-unsupported: nothing but the client writes"), "{screen}");
        }
    }
}

#[test]
fn a_turn_that_cannot_be_forked_at_says_why() {
    let home = Home::with(&["mini-active-tool"]);
    let mut app = app(&home, &home.root.join("mini-active-tool"));
    let (screen, outcome) = press(&mut app, "<jf^");
    assert_eq!(outcome, None);
    assert!(screen.contains("active-authority: a turn ends here"), "{screen}");
}

#[test]
fn what_its_logs_grow_by_is_noticed() {
    let home = Home::with(&["mini-parent", "mini-child"]);
    let command = home.env.command(&["tree", home.root.join("mini-parent").to_str().unwrap()]);
    let mut pty = Pty::spawn(&command, 120, 30);
    pty.wait_text("client's pick");
    for (name, bytes) in [("mini-parent", 7), ("mini-child", 5)] {
        let log = home.root.join(name).join("events.frames");
        fs::OpenOptions::new().append(true).open(log).unwrap().write_all(&vec![b'x'; bytes]).unwrap();
        pty.wait_text(if bytes == 7 { "grew by 7 bytes" } else { "grew by 12 bytes" });
    }
    pty.send("q");
    assert_eq!(pty.wait().code, Some(0));
}

#[test]
fn a_fork_is_made_at_a_turn() {
    let home = Home::with(&["mini-parent"]);
    let dir = home.root.join("mini-parent");
    let before = home.picture();
    let command = home.env.command(&["tree", dir.to_str().unwrap()]);
    let mut pty = Pty::spawn(&command, 120, 30);
    pty.wait_text("client's pick");
    pty.send("gj");
    pty.wait_text("2/");
    pty.send("f");
    let ended = pty.wait();
    let said = ended.screen.contents();
    assert_eq!(ended.code, Some(0), "{said}");
    assert!(ended.restored());
    assert!(said.contains("turn_1"), "{said}");
    let after = home.picture();
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)), "the source is as it was");
    let sessions = fs::read_dir(&home.root).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name();
        !name.to_str().unwrap().starts_with('.') && name != "mini-parent"
    });
    assert_eq!(sessions.count(), 1, "{after:#?}");
}
