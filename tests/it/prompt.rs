//! The prompt on a real terminal: moving, taking, declining, narrow and small terminals, hostile text.

use std::{
    env,
    io::{self, Write},
    process::Command,
};

use offshoot::{
    cli::prompt::{self, Choice, Follow, PromptOptions},
    record::RecordId,
    topology::ContinuedIn,
};

use crate::pty::{CTRL_C, DOWN, ENTER, ESC, Pty, RIGHT, UP, marked, wraps};

/// The program that the tests below drive: this test binary itself, asked for this one test.
#[test]
#[ignore = "runs on the terminal of the other tests"]
fn on_a_terminal() {
    let Ok(what) = env::var("PROMPT_TEST") else { return };
    say("\x1bc"); // what the test harness printed is not part of the screen
    let answer = match what.split_once(':') {
        Some(("plain", n)) => {
            let n: usize = n.parse().unwrap();
            prompt::pick(&(0..n).map(plain).collect::<Vec<_>>(), &PromptOptions::default())
        }
        Some(("wide", n)) => {
            let n: usize = n.parse().unwrap();
            prompt::pick(&(0..n).map(wide).collect::<Vec<_>>(), &PromptOptions::default())
        }
        Some(("hostile", _)) => prompt::pick(&[hostile(0), hostile(1)], &PromptOptions::default()),
        Some(("continued", turns)) => {
            let child = ContinuedIn { session_id: "5e55-\x1b[2J-10".into(), turns: turns.parse().unwrap() };
            prompt::continued(&plain(0).leaf, &child, &PromptOptions::default())
                .map(|f| usize::from(f == Follow::ForkAgain))
        }
        other => panic!("{other:?}"),
    };
    match answer {
        Ok(i) => {
            say(&format!("took {i}.\n"));
            std::process::exit(0)
        }
        Err(e) => {
            say(&format!("{}.\n", e.code()));
            std::process::exit(e.exit_code().into())
        }
    }
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).unwrap();
}

fn plain(i: usize) -> Choice {
    Choice {
        leaf: RecordId::new(format!("leaf-{i:04}")),
        short_id: format!("leaf-{i:04}"),
        age: format!("{i}d ago"),
        counts: format!("+{i}u 1a 0t"),
        tags: if i == 1 { vec!["client's pick".into()] } else { Vec::new() },
        prompt: Some(format!("prompt {i} asks for something that takes many words to say in full")),
        reply: Some(format!("reply {i} gives it, and says so at some length as well")),
    }
}

fn wide(i: usize) -> Choice {
    const TEXTS: [&str; 5] = [
        "東京都の天気を調べて、明日の予定を立ててください。お願いします。東京都の天気を調べて",
        "👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷",
        "e\u{301}e\u{301}e\u{301} a\u{308}o\u{308}u\u{308} z\u{335}\u{322}\u{34c}algo and a good many plain words",
        "مرحبا بالعالم كيف حالك اليوم مرحبا بالعالم كيف حالك اليوم",
        "a\u{200b}b\u{feff}c zero width and a good many plain words that go on and on",
    ];
    let text = TEXTS[i % TEXTS.len()].to_owned();
    Choice { prompt: Some(text.clone()), reply: Some(text), ..plain(i) }
}

fn hostile(i: usize) -> Choice {
    let text = "a\x1b]0;owned\x07b\x1b[2Jc\u{9b}31md\u{202e}e\x1b[?25lf\r\ng\x08h".to_owned();
    Choice {
        short_id: format!("{i}\x1b[5m-hostile"),
        tags: vec![text.clone()],
        prompt: Some(text.clone()),
        reply: Some(text),
        ..plain(i)
    }
}

fn start(what: &str, columns: u16, rows: u16) -> Pty {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "prompt::on_a_terminal", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PROMPT_TEST", what)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    Pty::spawn(&command, columns, rows)
}

/// How many lines of the list are on the screen.
fn listed(screen: &vt100::Screen) -> usize {
    let columns = screen.size().1.get();
    screen.rows(0, columns).filter(|l| l.starts_with("  leaf-") || l.starts_with("> leaf-")).count()
}

#[track_caller]
fn took(pty: Pty, index: usize) {
    let ended = pty.wait();
    assert!(ended.drawn.contains(&format!("took {index}.")), "{}", ended.screen.contents());
    assert_eq!(ended.code, Some(0));
    assert!(ended.restored());
}

#[test]
fn arrows_and_enter_take_a_branch() {
    let mut pty = start("plain:4", 80, 24);
    pty.wait_text("leaf-0003");
    pty.send(DOWN);
    pty.wait_marked("leaf-0000");
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    assert!(marked(pty.screen()).unwrap().contains("[client's pick]"));
    pty.send(DOWN);
    pty.wait_marked("leaf-0002");
    pty.send(UP);
    pty.wait_marked("leaf-0001");
    pty.send(ENTER);
    took(pty, 1);
}

#[test]
fn enter_takes_nothing_before_a_key_has_moved() {
    let mut pty = start("plain:3", 80, 24);
    // Typed ahead of the prompt, and at it: neither takes a branch.
    pty.send(ENTER);
    pty.wait_text("Nothing is marked yet");
    assert_eq!(marked(pty.screen()), None);
    pty.send(ENTER);
    pty.send(" ");
    pty.send("k");
    pty.wait_marked("leaf-0002");
    pty.send("j");
    pty.wait_marked("leaf-0000");
    pty.send(" ");
    took(pty, 0);
}

#[test]
fn a_long_list_scrolls() {
    let mut pty = start("plain:50", 80, 24);
    pty.wait_text("[Page 1/3]");
    assert!(!pty.screen().contents().contains("leaf-0018"));
    for i in 0..19 {
        pty.send(DOWN);
        pty.wait_marked(&format!("leaf-{i:04}"));
    }
    pty.wait_text("[Page 2/3]");
    pty.send(RIGHT);
    pty.wait_marked("leaf-0036");
    pty.wait_text("[Page 3/3]");
    pty.send("k");
    pty.wait_marked("leaf-0035");
    assert!(!wraps(pty.screen()));
    pty.send(ENTER);
    took(pty, 35);
}

#[test]
fn what_the_line_has_no_room_for_stands_below_the_list() {
    let mut pty = start("plain:30", 80, 24);
    pty.wait_text("Nothing is marked yet");
    pty.send(DOWN);
    pty.send(DOWN);
    pty.wait_text("leaf leaf-0001, client's pick");
    let screen = pty.screen().contents();
    assert!(screen.contains("first: prompt 1 asks for something that takes many words to say in full\n"));
    assert!(screen.contains("reply: reply 1 gives it, and says so at some length as well\n"));
    assert!(screen.starts_with("Which branch?"), "nothing scrolled away:\n{screen}");
    // Where the rows are few they are left to the list.
    pty.resize(80, 8);
    pty.send(DOWN);
    pty.wait_marked("leaf-0002");
    pty.wait_text("[Page 1/5]");
    assert!(!pty.screen().contents().contains("reply: "));
    pty.send("q");
    assert_eq!(pty.wait().code, Some(130));
}

#[test]
fn declined_in_three_ways() {
    for key in [ESC, "q", CTRL_C] {
        let mut pty = start("plain:4", 80, 24);
        pty.wait_text("leaf-0003");
        pty.send(DOWN);
        pty.wait_marked("leaf-0000");
        pty.send(key);
        let ended = pty.wait();
        assert_eq!(ended.code, Some(130), "{key:?}");
        assert!(ended.drawn.contains("prompt-cancelled."), "{key:?}: {}", ended.drawn);
        assert!(ended.restored(), "{key:?}");
    }
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for (signal, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM"), ("-QUIT", "SIGQUIT")] {
        let mut pty = start("plain:4", 80, 24);
        pty.wait_text("leaf-0003");
        pty.send(DOWN);
        pty.wait_marked("leaf-0000");
        let killed = Command::new("kill").args([signal, &pty.pid().to_string()]).status().unwrap();
        assert!(killed.success());
        let ended = pty.wait();
        assert!(ended.restored(), "{name}");
        assert!(!ended.drawn.contains("took"), "{name}");
    }
}

#[test]
fn lines_fit_narrow_terminals_and_wide_characters() {
    for columns in [20, 21, 33, 40, 57, 80, 200] {
        let mut pty = start("wide:7", columns, 24);
        pty.wait_for("seven lines", |s| listed(s) == 7);
        for i in 0..7 {
            pty.send(DOWN);
            let leaf = format!("leaf-{i:04}");
            pty.wait_for("the whole list again, marked", |s| {
                marked(s).is_some_and(|line| line.contains(&leaf))
                    && listed(s) == 7
                    && s.contents().contains(&format!("leaf {leaf}"))
            });
            assert!(!wraps(pty.screen()), "{columns} columns:\n{}", pty.screen().contents());
        }
        pty.send(ENTER);
        took(pty, 6);
    }
}

#[test]
fn a_narrow_terminal_is_told_the_keys_and_the_marks_too() {
    let mut pty = start("plain:2", 40, 24);
    pty.wait_text("Nothing is marked yet: move first.");
    assert!(
        pty.screen().contents().starts_with("Which branch? j/k, Enter, q"),
        "{}",
        pty.screen().contents()
    );
    pty.send(DOWN);
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    pty.wait_text("leaf leaf-0001, client's pick");
    pty.send(ENTER);
    took(pty, 1);
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let mut pty = start("hostile:2", 120, 24);
    pty.wait_for("two lines", |s| s.contents().matches("hostile").count() == 2);
    pty.send(DOWN);
    pty.wait_for("a marker", |s| marked(s).is_some());
    pty.send(ENTER);
    let ended = pty.wait();
    for bytes in ["\x1b]", "\x1b[2J", "\u{9b}", "\u{202e}", "\x1b[5m", "\x08", "\x07"] {
        assert!(!ended.drawn.contains(bytes), "{bytes:?} in {:?}", ended.drawn);
    }
    assert_eq!(ended.drawn.matches("\x1b[?25l").count(), 1, "the prompt's own");
    assert!(ended.restored());
    assert_eq!(ended.code, Some(0));
}

#[test]
fn a_resize_does_not_break_the_list() {
    let mut pty = start("wide:40", 120, 30);
    pty.wait_text("leaf-0005");
    pty.send(DOWN);
    pty.wait_marked("leaf-0000");
    pty.resize(30, 10);
    for i in 1..12 {
        pty.send(DOWN);
        pty.wait_marked(&format!("leaf-{i:04}"));
    }
    assert!(!wraps(pty.screen()), "{}", pty.screen().contents());
    pty.resize(100, 40);
    pty.send(DOWN);
    pty.wait_marked("leaf-0012");
    pty.send(ENTER);
    took(pty, 12);
}

#[test]
fn an_unknown_size_counts_as_80_by_24() {
    let mut pty = start("plain:50", 0, 0);
    pty.wait_text("[Page 1/3]");
    pty.send(DOWN);
    pty.wait_marked("leaf-0000");
    pty.send(ENTER);
    took(pty, 0);
}

#[test]
fn a_terminal_too_small_for_a_list_is_asked_for_a_number() {
    let mut pty = start("plain:3", 80, 2);
    pty.wait_text("Number, or q");
    pty.send("\r");
    pty.wait_text("1 to 3, or q");
    pty.send("2\r");
    took(pty, 1);

    let mut pty = start("plain:3", 12, 24);
    pty.wait_text("Number, or q");
    pty.send("q\r");
    assert_eq!(pty.wait().code, Some(130));
}

#[test]
fn a_terminal_that_becomes_too_small_is_asked_for_a_number() {
    let mut pty = start("plain:3", 80, 24);
    pty.wait_text("leaf-0002");
    pty.resize(80, 2);
    pty.send(DOWN);
    pty.wait_text("Number, or q");
    pty.send("3\r");
    took(pty, 2);
}

#[test]
fn a_leaf_that_went_on_in_a_child_is_asked_about() {
    let mut pty = start("continued:3", 80, 24);
    pty.wait_text("without them");
    let screen = pty.screen().contents();
    assert!(screen.contains("its 3 new turns: 5e55-"), "{screen}");
    assert!(screen.starts_with("leaf-000 went on in session 5e55-") && screen.contains("Enter"), "{screen}");
    pty.send(DOWN);
    pty.send(DOWN);
    pty.wait_marked("fork the branch again");
    pty.send(ENTER);
    took(pty, 1);

    let mut pty = start("continued:1", 40, 24);
    pty.wait_text("without it");
    pty.send(ESC);
    assert_eq!(pty.wait().code, Some(130));
}
