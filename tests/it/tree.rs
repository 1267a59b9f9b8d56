//! The navigator on a real terminal: every key, resizing, searching, leaving, and the terminal given back.

use std::{
    env, fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use clap::Parser;
use offshoot::{
    cli::{
        args::Cli,
        tui::{Doc, Loaded, Options, Reader, Screen, navigate},
    },
    refusal::Error,
};
use serde_json::{Value, json};

use crate::{
    pty::{CTRL_C, DOWN, ENTER, ESC, Ended, Pty, RIGHT, UP, wraps},
    support::{TestEnv, fixture},
};

const LEFT: &str = "\x1b[D";
const PAGE_UP: &str = "\x1b[5~";
const PAGE_DOWN: &str = "\x1b[6~";
const HOME: &str = "\x1b[H";
const END: &str = "\x1b[F";
const TAB: &str = "\t";
const BACK_TAB: &str = "\x1b[Z";

const SESSION: &str = "86735cb7-c693-4ed3-90d6-c377b543ebf6";
const KEPT: &str = "385e46a0-d727-4fb8-ab7f-dde2de3f5cd4";
const PICK: &str = "22fbf3db-e256-4026-a185-deb022eddf4b";

/// The row that is marked: the one that stands inverse, the header aside.
fn marked(screen: &vt100::Screen) -> String {
    let (rows, columns) = (screen.size().0.get(), screen.size().1.get());
    let inverse =
        |row: u16| (0..columns).filter(|&c| screen.cell(row, c).is_some_and(|c| c.inverse())).count();
    let row = (1..rows).find(|&row| inverse(row) as u16 > columns / 3);
    row.and_then(|row| screen.rows(0, columns).nth(row.into())).unwrap_or_default()
}

/// A session of the demo in a home of its own.
struct Walk {
    env: TestEnv,
    file: String,
}

impl Walk {
    fn new() -> Self {
        let env = TestEnv::new();
        let file = env.write(&format!("{SESSION}.jsonl"), fs::read(fixture("demo/session.jsonl")).unwrap());
        Walk { env, file }
    }

    fn command(&self, args: &[&str]) -> Command {
        self.env.command(&[&["tree", &self.file][..], args].concat())
    }

    fn start(&self, args: &[&str], columns: u16, rows: u16) -> Pty {
        let mut pty = Pty::spawn(&self.command(args), columns, rows);
        pty.wait_for("the client's pick", |s| marked(s).contains("pick"));
        pty
    }

    /// The record that is marked, by its id at the bottom.
    #[track_caller]
    fn ends(pty: Pty, code: u32) -> Ended {
        let ended = pty.wait();
        assert_eq!(ended.code, Some(code), "{}", ended.screen.contents());
        assert!(ended.restored(), "{}", ended.drawn);
        assert!(!ended.screen.alternate_screen());
        ended
    }
}

#[track_caller]
fn press(pty: &mut Pty, key: &str, expected: &str) {
    pty.send(key);
    pty.wait_for(&format!("{expected} marked by {key:?}"), |s| marked(s).contains(expected));
}

#[test]
fn every_key_that_moves() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 30);
    press(&mut pty, "k", "undici 7.3");
    press(&mut pty, UP, "package.json");
    press(&mut pty, "j", "undici 7.3");
    press(&mut pty, DOWN, "client's pick");
    press(&mut pty, HOME, "Uploads to the parcel");
    press(&mut pty, END, "client's pick");
    press(&mut pty, "g", "Uploads to the parcel");
    press(&mut pty, "G", "client's pick");
    // Leaves, round the end.
    press(&mut pty, TAB, "ui_telemetry (leaf)");
    press(&mut pty, TAB, "client's pick");
    press(&mut pty, BACK_TAB, "ui_telemetry (leaf)");
    // Out: to where the branch begins, which is then folded, then to the branch point.
    press(&mut pty, "h", "Add retries with");
    pty.send(LEFT);
    pty.wait_text("7 rows hidden");
    assert!(!pty.screen().contents().contains("Respect Retry-After"));
    press(&mut pty, LEFT, "(2 branches)");
    pty.send("h");
    pty.wait_text("13 rows hidden");
    // In: what was folded is shown again, then the first row below.
    pty.send("l");
    pty.wait_text("7 rows hidden");
    press(&mut pty, RIGHT, "Add retries with");
    pty.send(RIGHT);
    pty.wait_text("Respect Retry-After");
    pty.wait_for("the same row", |s| marked(s).contains("Add retries with"));
    press(&mut pty, "]", "rewind");
    press(&mut pty, "[", "Add retries with");
    pty.send("[");
    pty.wait_text("no further branch");
    // A group shows its records, and hides them.
    press(&mut pty, "j", "3 calls");
    pty.send(RIGHT);
    pty.wait_text("-> write_file");
    press(&mut pty, RIGHT, "-> edit");
    press(&mut pty, LEFT, "3 calls");
    pty.send(LEFT);
    pty.wait_for("the group closed", |s| !s.contents().contains("-> write_file"));
    pty.send(ENTER);
    pty.wait_text("-> write_file");
    pty.send(ENTER);
    pty.wait_for("the group closed", |s| !s.contents().contains("-> write_file"));
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

#[test]
fn pages_and_small_and_large_terminals() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 10);
    press(&mut pty, PAGE_UP, "is honoured");
    press(&mut pty, PAGE_UP, "Add retries");
    press(&mut pty, PAGE_DOWN, "is honoured");
    press(&mut pty, "k", "2 calls: edit");
    pty.resize(40, 20);
    pty.wait_for("the text below", |s| {
        s.contents().contains("tool result") || s.contents().contains("assistant, 2026")
    });
    assert!(!wraps(pty.screen()));
    pty.wait_for("the same row", |s| marked(s).contains("2 calls"));
    pty.resize(1000, 40);
    let rule = |s: &vt100::Screen| s.cell(5, 600).is_some_and(|cell| cell.contents() == "│");
    pty.wait_for("the text beside the tree", rule);
    pty.wait_for("the same row", |s| marked(s).contains("2 calls: edit, run_shell_command"));
    pty.resize(8, 3);
    pty.wait_for("the one row", |s| marked(s).contains("[T]"));
    pty.resize(1, 1);
    pty.resize(100, 30);
    pty.wait_text("Uploads to the parcel");
    pty.send(ESC);
    let _ = Walk::ends(pty, 0);
}

#[test]
fn the_text_is_read_and_scrolled() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 80, 24);
    press(&mut pty, HOME, "Uploads to the parcel");
    pty.wait_text("user, 2026-02-27 13:04:5");
    press(&mut pty, "j", "2 calls");
    pty.wait_text("more lines");
    pty.send("v");
    pty.wait_text("\"path\": \"");
    pty.send(END);
    pty.wait_for("the end", |s| s.contents().contains("503") && !s.contents().contains("more lines"));
    pty.send(HOME);
    pty.wait_text("I'll read the upload path first.");
    pty.send(ESC);
    pty.wait_for("the tree", |s| marked(s).contains("2 calls"));
    pty.send("J");
    pty.wait_for("scrolled text", |s| !s.contents().contains("assistant, 2026-02-27 13:04:57"));
    pty.send("K");
    pty.wait_text("assistant, 2026-02-27 13:04:57");
    pty.send("?");
    pty.wait_text("the next leaf, the one before");
    pty.send("q");
    pty.wait_for("the tree", |s| marked(s).contains("2 calls"));
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

#[test]
fn search_is_fuzzy_and_goes_round() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 30);
    pty.send("/undic");
    pty.wait_for("the match", |s| marked(s).contains("undici 7.3") && s.contents().contains("1 match"));
    pty.send("\x15retry-aft");
    pty.wait_for("the matches", |s| marked(s).contains("Retry-After") && s.contents().contains("2 matches"));
    pty.send(ENTER);
    pty.wait_text("? keys");
    let first = marked(pty.screen());
    pty.send("n");
    pty.wait_for("the next match", |s| marked(s) != first && marked(s).contains("Retry-After"));
    press(&mut pty, "n", first.trim());
    pty.send("N");
    pty.wait_for("the match before", |s| marked(s) != first && marked(s).contains("Retry-After"));
    // A match in a folded branch is shown; Esc goes back.
    press(&mut pty, HOME, "Uploads");
    press(&mut pty, "jjj", "2 branches");
    pty.send("h");
    pty.wait_text("13 rows hidden");
    pty.send("/undici");
    pty.wait_for("the match", |s| marked(s).contains("undici 7.3"));
    pty.send(ESC);
    pty.wait_for("the row before", |s| marked(s).contains("2 branches"));
    // Also what stands far behind what the row has room for; and it is said where not all was searched.
    pty.send("/zzqqxx");
    pty.wait_text("0 matches in the beginnings of rows");
    pty.send(CTRL_C);
    let _ = Walk::ends(pty, 130);
}

#[test]
fn two_rows_are_compared() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 40);
    pty.send("=");
    pty.wait_text("marked: = on another row compares");
    press(&mut pty, TAB, "ui_telemetry (leaf)");
    pty.send("=");
    pty.wait_text("only on the way to the marked row: 1 prompt, 1 reply, 1 tool round");
    pty.wait_text("only on the way to this row: 2 prompts, 2 replies, 2 tool rounds");
    pty.send(ESC);
    pty.wait_for("the tree", |s| marked(s).contains("ui_telemetry (leaf)"));
    pty.send("==");
    pty.wait_text("the mark is taken back");
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

/// What stands on the terminal when it is over, as JSON.
fn emitted(ended: &Ended) -> Value {
    let text: String = ended.screen.contents().lines().collect();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn emit_says_what_was_chosen_and_does_nothing() {
    let walk = Walk::new();
    let before = fs::read(&walk.file).unwrap();
    let choice = |action: &str, uuid: Option<&str>| json!({"action": action, "node_uuid": uuid, "session_id": SESSION, "session_file": walk.file});
    let keys: &[(&[&str], Value)] = &[
        (&["q"], choice("cancel", None)),
        (&[ESC], choice("cancel", None)),
        (&["f"], choice("fork", Some(PICK))),
        (&[ENTER, ENTER], choice("fork", Some(PICK))),
        (&[ENTER, "f"], choice("fork", Some(PICK))),
        (&["kr"], choice("resume", Some("a1970726-b6c2-44f8-9bd3-bb5cf4ff5a2f"))),
        (&[TAB, "o", "y"], choice("overwrite", Some(KEPT))),
        (&[TAB, ENTER, "jj", ENTER, "y"], choice("overwrite", Some(KEPT))),
        (&["o", "n", ENTER, ESC, "q"], choice("cancel", None)),
    ];
    for (keys, expected) in keys {
        let mut pty = walk.start(&["--emit"], 100, 30);
        for key in *keys {
            pty.send(key);
            // Each press is seen before the next: a menu, a question, or the tree.
            let wanted: &str = match *key {
                ENTER => "Enter do",
                "o" => "y overwrites",
                "jj" => "> o",
                ESC | "n" => "? keys",
                _ => "",
            };
            let last = std::ptr::eq(key, keys.last().unwrap());
            match *key {
                _ if last => {}
                // The second Enter takes what is marked in the menu.
                ENTER if pty.screen().contents().contains("> o") => pty.wait_text("y overwrites"),
                _ => pty.wait_text(wanted),
            }
        }
        let got = emitted(&Walk::ends(pty, 0));
        if expected["action"] == "resume" {
            assert_eq!(got["action"], "resume");
            assert!(got["node_uuid"].as_str().unwrap().starts_with("a1970726"));
        } else {
            assert_eq!(got, *expected, "{keys:?}");
        }
    }
    let mut pty = walk.start(&["--emit"], 100, 30);
    pty.send(CTRL_C);
    assert!(!Walk::ends(pty, 130).screen.contents().contains("action"));
    assert_eq!(fs::read(&walk.file).unwrap(), before);
    assert_eq!(fs::read_dir(walk.env.path(".")).unwrap().count(), 4, "nothing was made");
}

#[test]
fn only_the_choice_goes_to_stdout() {
    let walk = Walk::new();
    let out = walk.env.path("out").display().to_string();
    let bin = env!("CARGO_BIN_EXE_offshoot");
    let mut command = walk.env.command(&[]);
    let line = format!("'{bin}' tree '{}' --emit > '{out}'", walk.file);
    let envs: Vec<_> = command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &line]).current_dir(command.get_current_dir().unwrap());
    for (name, value) in envs {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    command.arg("unused");
    let mut pty = Pty::spawn(&shell, 100, 30);
    pty.wait_for("the tree", |s| marked(s).contains("pick"));
    pty.send("f");
    let _ = Walk::ends(pty, 0);
    let choice: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    assert_eq!((&choice["action"], &choice["node_uuid"]), (&json!("fork"), &json!(PICK)));
}

#[test]
fn a_fork_is_made_at_a_leaf_and_at_a_reply() {
    let walk = Walk::new();
    let before = fs::read(&walk.file).unwrap();
    for (key, row, record) in [
        (TAB, "ui_telemetry (leaf)", KEPT),
        ("gjj", "The service answers 503", "e10427a3-6a74-4bb1-9433-6a68de7985b2"),
    ] {
        let mut pty = walk.start(&["-q"], 100, 30);
        press(&mut pty, key, row);
        pty.send("f");
        let said = Walk::ends(pty, 0).screen.contents();
        assert!(said.contains(&format!("ends with record `{record}`")), "{said}");
        assert!(said.contains("qwen --resume "), "{said}");
        assert_eq!(fs::read(&walk.file).unwrap(), before, "a fork leaves its source as it is");
    }
}

#[test]
fn only_the_end_of_a_branch_is_resumed_in_place() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 30);
    press(&mut pty, "gjj", "The service answers 503");
    pty.send("r");
    pty.wait_text("a session is resumed where a branch ends");
    pty.send(ENTER);
    pty.wait_for("the tree and why not", |s| {
        let text = s.contents();
        text.contains("? keys") && text.contains("from here it can be forked")
    });
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

#[test]
fn no_fork_is_offered_inside_a_round_and_nothing_is_overwritten_at_the_end() {
    let walk = Walk::new();
    let before = fs::read(&walk.file).unwrap();
    let mut pty = walk.start(&[], 100, 30);
    press(&mut pty, "gj", "2 calls");
    pty.send("f");
    pty.wait_text("inside-tool-round");
    pty.send(ENTER);
    pty.wait_for("the tree and why not", |s| {
        let text = s.contents();
        text.contains("? keys") && text.contains("fork at the reply behind the round")
    });
    press(&mut pty, "G", "client's pick");
    pty.send("o");
    pty.wait_text("nothing-to-remove");
    pty.send(ENTER);
    pty.wait_text("nothing comes after this record");
    pty.send("q");
    let _ = Walk::ends(pty, 0);
    assert_eq!(fs::read(&walk.file).unwrap(), before);
}

/// A Claude Code session in its place, which a running process has open.
#[test]
fn inside_a_live_agent_only_a_fork_is_offered() {
    let env = TestEnv::new();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    let case = fixture(&format!("cases/claude/s18-natural/{id}.jsonl"));
    let file = env.write(&format!("home/.claude/projects/-w/{id}.jsonl"), fs::read(case).unwrap());
    let owner = json!({"pid": std::process::id(), "sessionId": id, "cwd": "/w", "kind": "interactive"});
    env.write(&format!("home/.claude/sessions/{}.json", std::process::id()), owner.to_string());
    let before = fs::read(&file).unwrap();
    // The last key whose command is said again, which no width cuts off.
    for (columns, keys) in [(120, ["o", "r"]), (60, ["r", "o"])] {
        let mut pty = Pty::spawn(&env.command(&["tree", &file]), columns, 30);
        pty.wait_for("the tree", |s| marked(s).contains("pick"));
        for key in keys {
            pty.send(key);
            pty.wait_text("open in a Claude Code session: only a fork is possible");
            pty.send(ENTER);
            let last = if key == "o" { "--after" } else { "--seed in-place" };
            pty.wait_text("after it");
            pty.wait_text(last);
        }
        pty.send("q");
        let ended = Walk::ends(pty, 0);
        let (verb, option) = if keys[1] == "o" { ("truncate", "--after") } else { ("resume", "--leaf") };
        let command = format!("after it has ended, offshoot {verb} {file} {option} ");
        assert!(ended.drawn.contains(&command), "{command}: {}", ended.drawn);
    }
    let mut pty = Pty::spawn(&env.command(&["tree", &file]), 120, 30);
    pty.wait_for("the tree", |s| marked(s).contains("pick"));
    for key in ["o", "r"] {
        pty.send(key);
        pty.wait_text("open in a Claude Code session: only a fork is possible now");
        pty.send(ENTER);
        pty.wait_text("after it has ended,");
    }
    pty.send("f");
    let _ = Walk::ends(pty, 0);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_resume_in_place_moves_the_clients_pick() {
    let walk = Walk::new();
    let mut pty = walk.start(&["-q"], 100, 30);
    press(&mut pty, TAB, "ui_telemetry (leaf)");
    pty.send("r");
    let _ = Walk::ends(pty, 0);
    let inspection = walk.env.run(&["inspect", "--json", &walk.file]).code(0).json();
    assert_eq!(inspection["clientPick"]["leafUuid"], KEPT);
}

#[test]
fn an_overwrite_asks_keeps_a_backup_and_is_undone() {
    let walk = Walk::new();
    let before = fs::read(&walk.file).unwrap();
    let mut pty = walk.start(&["-q"], 100, 30);
    press(&mut pty, HOME, "Uploads");
    press(&mut pty, "jj", "The service answers 503");
    pty.send("o");
    pty.wait_text("23 records and 2 branches go. A backup of the whole file is kept");
    pty.send(ENTER);
    pty.wait_text("nothing was changed");
    pty.send("o");
    pty.wait_text("y overwrites");
    pty.send("y");
    let ended = Walk::ends(pty, 0);
    let said = ended.screen.contents();
    for next in ["backup     ", "resume it  qwen --resume ", "undo it    offshoot restore"] {
        assert!(said.contains(next), "{next}: {said}");
    }
    let page = walk.env.run(&["tree", "--print", &walk.file]).code(0).stdout;
    assert!(page.contains("[A] The service answers 503") && !page.contains("branches)"), "{page}");
    let _ = walk.env.run(&["restore", &walk.file]).code(0);
    assert_eq!(fs::read(&walk.file).unwrap(), before);
}

#[test]
fn a_file_that_grows_is_noticed_and_read_again() {
    let walk = Walk::new();
    let mut pty = walk.start(&[], 100, 30);
    append(&walk.file, &meanwhile(1));
    pty.wait_text("the file grew by");
    assert!(!pty.screen().contents().contains("written meanwhile"), "what is shown is the snapshot");
    pty.send("R");
    pty.wait_text("written meanwhile (client's pick, leaf)");
    pty.wait_text("read again");
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

/// Another record below the client's pick.
fn meanwhile(number: u32) -> String {
    let line = json!({"uuid": format!("11111111-0000-4000-8000-{number:012}"), "parentUuid": PICK,
        "sessionId": SESSION, "timestamp": "2026-02-27T14:00:00.000Z", "type": "user", "cwd": "/w",
        "version": "0.24.4", "message": {"role": "user", "parts": [{"text": "written meanwhile"}]}});
    format!("{line}\n")
}

fn append(file: &str, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

/// What the session has become is told, and nothing is written on what nobody saw.
#[test]
fn what_becomes_of_the_file_is_told_and_stops_what_would_write_to_it() {
    type Case = (&'static str, fn(&str), &'static str);
    let cases: [Case; 4] = [
        ("grown", |f| append(f, &meanwhile(1)), "the file grew by"),
        (
            "cut",
            |f| fs::OpenOptions::new().write(true).open(f).unwrap().set_len(0).unwrap(),
            "the file was cut",
        ),
        ("gone", |f| fs::remove_file(f).unwrap(), "the file is gone"),
        (
            "replaced",
            |f| {
                let new = format!("{f}.new");
                fs::write(&new, fs::read(fixture("demo/session.jsonl")).unwrap()).unwrap();
                fs::rename(new, f).unwrap();
            },
            "the file was replaced",
        ),
    ];
    for (name, change, told) in cases {
        let walk = Walk::new();
        let mut pty = walk.start(&[], 100, 30);
        press(&mut pty, TAB, "ui_telemetry (leaf)");
        change(&walk.file);
        pty.wait_text(told);
        let before = fs::read(&walk.file).ok();
        for key in if name == "grown" { &["o", "r"][..] } else { &["o", "r", "f"] } {
            pty.send(key);
            pty.wait_for(&format!("{name}: why not {key}"), |s| s.contents().contains("snapshot-changed"));
            pty.send(ESC);
            pty.wait_text("? keys");
        }
        pty.send("q");
        let _ = Walk::ends(pty, 0);
        assert_eq!(fs::read(&walk.file).ok(), before, "{name}");
    }
}

#[test]
fn a_session_that_loses_its_messages_is_shown_as_it_was() {
    let env = TestEnv::new();
    let file = env.write("t.jsonl", fs::read(fixture("demo/session.jsonl")).unwrap());
    let mut pty = Pty::spawn(&env.command(&["tree", "--agent", "qwen", &file]), 100, 30);
    pty.wait_for("the client's pick", |s| marked(s).contains("pick"));
    fs::write(&file, "").unwrap();
    pty.wait_text("the file was cut");
    pty.send("R");
    pty.wait_text("not read again: no messages are left");
    pty.send("q");
    let _ = Walk::ends(pty, 0);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129), ("-INT", 130)] {
        let walk = Walk::new();
        let pty = walk.start(&[], 100, 30);
        let killed = Command::new("kill").args([signal, &pty.pid().to_string()]).status().unwrap();
        assert!(killed.success());
        let _ = Walk::ends(pty, code);
    }
}

#[test]
fn a_quit_from_outside_gives_the_terminal_back_and_ends_as_a_quit_does() {
    let walk = Walk::new();
    let pty = walk.start(&[], 100, 30);
    let killed = Command::new("kill").args(["-QUIT", &pty.pid().to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = pty.wait();
    assert_eq!(ended.code, None, "a signal ended it");
    assert!(ended.restored(), "{}", ended.drawn);
    assert!(!ended.screen.alternate_screen());
}

/// The program that the test below drives: this test binary itself, asked for this one test.
#[test]
#[ignore = "runs on the terminal of another test"]
fn on_a_terminal_with_a_panic() {
    if env::var_os("TREE_TEST").is_some() {
        let _screen = Screen::take().unwrap();
        panic!("a defect of the program");
    }
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "tree::on_a_terminal_with_a_panic", "--ignored", "--nocapture", "--test-threads=1"])
        .env("TREE_TEST", "1")
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let ended = Pty::spawn(&command, 100, 30).wait();
    assert_eq!(ended.code, Some(101));
    assert!(ended.restored());
    let left = ended.drawn.rfind("\x1b[?1049l").expect("the other screen is left");
    assert!(
        ended.drawn[left..].contains("a defect of the program"),
        "the message stands on the screen that stays"
    );
}

/// A state directory that holds nothing and that nothing is written to.
const NO_STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-state");

/// The program that the tests below drive: a navigator whose session is held up by a pipe.
#[test]
#[ignore = "runs on the terminal of another test"]
#[expect(clippy::print_stdout, reason = "what the other test looks for")]
fn on_a_terminal_with_a_slow_file() {
    let (Ok(mode), Ok(pipe)) = (env::var("TREE_READ"), env::var("TREE_PIPE")) else { return };
    let read = move |read: &AtomicU64| {
        read.store(12_000_000, Ordering::Relaxed);
        fs::read(&pipe).map_err(Error::io("read", Path::new(&pipe)))?;
        assert!(mode != "panic", "a defect of the reader");
        let path = match mode.as_str() {
            "tree" => fixture("demo/session.jsonl"),
            _ => "/nonexistent/session.jsonl".into(),
        };
        let path = path.to_str().unwrap();
        let cli = Cli::try_parse_from(["offshoot", "--state-dir", NO_STATE, "tree", path]).unwrap();
        Ok(Loaded { doc: Doc::open(&cli.global, Some(path))?, live: None })
    };
    let reader = Reader { name: "name\u{1b}[2J".to_owned(), total: 200_000_000, read: Arc::new(read) };
    match navigate(&reader, Options::default()) {
        Ok(ended) => println!("ended with {:?}, read: {}", ended.outcome, ended.doc.is_some()),
        Err(error) => println!("not read: {error}"),
    }
}

fn slow(env: &TestEnv, mode: &str) -> (Pty, String) {
    let pipe = env.path("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "tree::on_a_terminal_with_a_slow_file", "--ignored", "--nocapture"])
        .arg("--test-threads=1")
        .envs([("TREE_READ", mode), ("TREE_PIPE", &pipe)])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    (Pty::spawn(&command, 100, 30), pipe)
}

#[test]
fn while_the_file_is_read_the_screen_stands_and_keys_leave() {
    for (key, said) in
        [("q", "ended with Leave"), (ESC, "ended with Leave"), (CTRL_C, "ended with Interrupted")]
    {
        let env = TestEnv::new();
        let (mut pty, _pipe) = slow(&env, "tree");
        pty.wait_text("reading: 12 of 200 MB");
        pty.wait_text("q leave");
        pty.send("j");
        pty.resize(40, 10);
        pty.wait_for("the name and the progress", |s| {
            s.size().0.get() == 10 && s.contents().starts_with("name") && s.contents().contains("12 of 200")
        });
        pty.send(key);
        let ended = Walk::ends(pty, 0);
        let text = ended.screen.contents();
        assert!(text.contains(&format!("{said}, read: false")), "{key:?}: {text}");
    }
}

#[test]
fn a_file_that_has_been_read_is_shown_and_one_that_cannot_be_is_told_of() {
    let env = TestEnv::new();
    let (mut pty, pipe) = slow(&env, "tree");
    pty.wait_text("reading: 12 of 200 MB");
    fs::write(pipe, "go").unwrap();
    pty.wait_for("the client's pick", |s| marked(s).contains("pick"));
    pty.send("q");
    let ended = Walk::ends(pty, 0);
    assert!(ended.screen.contents().contains("ended with Leave, read: true"));

    let env = TestEnv::new();
    let (mut pty, pipe) = slow(&env, "fail");
    pty.wait_text("reading: 12 of 200 MB");
    fs::write(pipe, "go").unwrap();
    let ended = Walk::ends(pty, 0);
    let text = ended.screen.contents();
    assert!(text.contains("not read: ") && text.contains("/nonexistent/session.jsonl"), "{text}");
}

#[test]
fn a_panic_of_the_reader_gives_the_terminal_back() {
    let env = TestEnv::new();
    let (mut pty, pipe) = slow(&env, "panic");
    pty.wait_text("reading: 12 of 200 MB");
    fs::write(pipe, "go").unwrap();
    let ended = pty.wait();
    assert_eq!(ended.code, Some(101));
    assert!(ended.restored());
    let left = ended.drawn.rfind("\x1b[?1049l").expect("the other screen is left");
    assert!(ended.drawn[left..].contains("a defect of the reader"));
}

#[test]
fn without_a_terminal_it_is_refused() {
    let walk = Walk::new();
    let ran = walk.env.run(&["tree", &walk.file]).code(3);
    assert!(
        ran.stderr.contains("a prompt needs a terminal") && ran.stderr.contains("--print"),
        "{}",
        ran.stderr
    );
    let _ = walk.env.run(&["tree", &walk.file, "--emit"]).code(1);
    let _ = walk.env.run(&["tree", "no-such-session", "--emit"]).code(1);
    let _ = walk.env.run(&["tree", "--emit", "--print"]).code(2);
}

#[test]
fn nothing_to_show_ends_at_once() {
    let env = TestEnv::new();
    let empty = env.write("empty.jsonl", "");
    let ended = Pty::spawn(&env.command(&["tree", "--agent", "qwen", &empty]), 80, 24).wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.screen.contents().contains("No messages in this session"));
    let ended =
        Pty::spawn(&env.command(&["tree", "--agent", "qwen", "--emit", "-q", &empty]), 300, 24).wait();
    assert_eq!((ended.code, &emitted(&ended)["action"]), (Some(0), &json!("cancel")));
}
