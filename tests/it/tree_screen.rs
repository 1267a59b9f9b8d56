//! Screens of the navigator, drawn in memory and held to files in `fixtures/screens`. `UPDATE_SCREENS=1` writes them.

use std::{fs, time::Instant};

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

use serde_json::json;

use crate::support::{TestEnv, fixture};

const SESSION: &str = "fixtures/demo/session.jsonl";

/// A state directory that holds nothing and that nothing is written to.
const NO_STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-state");

fn app_of(session: &str) -> App {
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", NO_STATE, "tree", session]).unwrap();
    App::new(Doc::open(&cli.global, Some(session)).unwrap(), Options::default())
}

fn app(options: Options) -> App {
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", NO_STATE, "tree", SESSION]).unwrap();
    let mut doc = Doc::open(&cli.global, Some(SESSION)).unwrap();
    // Its path is shown, and is another one in each checkout.
    doc.opened.path = SESSION.into();
    App::new(doc, options)
}

/// Presses keys: a letter each, `^` for Enter, `>` for Tab, `<` for Home.
fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '^' => KeyCode::Enter,
            '>' => KeyCode::Tab,
            '<' => KeyCode::Home,
            c => KeyCode::Char(c),
        };
        assert_eq!(app.key(KeyEvent::new(code, KeyModifiers::NONE)), None);
        while app.is_busy() {
            app.work(Instant::now());
        }
    }
}

/// The screen as text; the marked row is told by a `*` before it.
fn screen(app: &mut App, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    // Twice: what a frame finds out of the screen's size holds for the next.
    for _ in 0..2 {
        terminal.draw(|frame| draw(frame, app)).unwrap();
    }
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for y in 0..rows {
        let cells = (0..columns).map(|x| &buffer[(x, y)]);
        let reversed =
            cells.clone().filter(|c| c.modifier.contains(ratatui::style::Modifier::REVERSED)).count();
        let line: String = cells.map(|cell| cell.symbol()).collect();
        out.push_str(if reversed > usize::from(columns) / 3 { "*" } else { " " });
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[track_caller]
fn holds(name: &str, screen: &str) {
    let path = fixture(&format!("screens/{name}.txt"));
    if std::env::var_os("UPDATE_SCREENS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, screen).unwrap();
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(screen == expected, "{name}: UPDATE_SCREENS=1 writes this:\n{screen}\ninstead of\n{expected}");
}

#[test]
fn screens() {
    for (name, keys, columns, rows) in [
        ("tree", "", 120, 35),
        ("narrow", "<j^j", 40, 20),
        ("beside", "<jj", 160, 24),
        ("short", "<jjjj", 80, 8),
        ("folded", "hhh", 100, 24),
        ("menu", "<jj^", 120, 35),
        ("overwrite", "<jjo", 40, 20),
        ("resume-refused", "<jjr", 100, 24),
        ("search", "/retry", 100, 24),
        ("compare", "=>=", 100, 30),
        ("read", "<jv", 80, 24),
        ("help", "?", 100, 24),
    ] {
        let mut app = app(Options::default());
        press(&mut app, keys);
        holds(name, &screen(&mut app, columns, rows));
    }
}

#[test]
fn every_size_is_drawn() {
    for live in [Some("a live agent".to_owned()), None] {
        let mut app = app(Options { color: true, emit: true, live });
        for keys in ["", "^", "q", "o", "q", "/re", "^", "v", "q", "?", "q", "=", ">=", "q"] {
            press(&mut app, keys);
            for (columns, rows) in
                [(0, 0), (1, 1), (7, 3), (8, 1), (8, 2), (9, 4), (20, 7), (40, 13), (149, 14), (1000, 60)]
            {
                let drawn = screen(&mut app, columns, rows);
                assert_eq!(drawn.lines().count(), usize::from(rows), "{keys} at {columns}x{rows}");
            }
        }
    }
}

#[test]
fn a_row_is_searched_far_behind_its_preview() {
    let env = TestEnv::new();
    let record = |uuid: &str, parent: Option<&str>, text: &str| {
        let record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": "user", "cwd": "/w",
            "timestamp": "2026-03-01T12:00:00.000Z", "version": "0.24.4",
            "message": {"role": "user", "parts": [{"text": text}]}});
        format!("{record}\n")
    };
    let at = |bytes: usize| "- ".repeat(bytes / 2) + "xylophone";
    let session =
        record("a", None, &at(3_900)) + &record("b", Some("a"), &at(5_000)) + &record("c", Some("b"), "end");
    let mut app = app_of(&env.write("far.jsonl", session));
    press(&mut app, "/xylophone");
    let shown = screen(&mut app, 100, 24);
    assert!(shown.contains("  1 match\n"), "{shown}");
    assert_eq!(app.row().item, 0, "{shown}");
}
