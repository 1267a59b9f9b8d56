//! `resume --pick`, end to end on a real terminal. Stdin and stderr are the terminal, stdout is a file.

use std::{fmt::Write, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    pty::{CTRL_C, DOWN, ENTER, ESC, Ended, Pty, marked, wraps},
    support::TestEnv,
};

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// `resume` with stdout in `stdout.json`, so that what reaches the terminal is the prompt's and the messages' alone.
fn command(env: &TestEnv, args: &[&str]) -> Command {
    let plain = env.command(args);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "exec \"$0\" \"$@\" > stdout.json"]).arg(plain.get_program()).args(plain.get_args());
    shell.env_clear().current_dir(plain.get_current_dir().unwrap());
    for (name, value) in plain.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell
}

fn answer(env: &TestEnv) -> Value {
    let text = fs::read_to_string(env.path("work/stdout.json")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text:?}"))
}

fn record(uuid: &str, parent: Option<&str>, kind: &str, second: usize, text: &str) -> String {
    let (role, provenance) =
        if kind == "user" { ("user", "real_user") } else { ("model", "assistant_output") };
    let time = format!("2026-01-01T{:02}:{:02}:{:02}.000Z", second / 3600, second / 60 % 60, second % 60);
    serde_json::json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": time, "type": kind,
        "provenance": provenance, "cwd": "/home/ada/p", "version": "0.24.4",
        "message": {"role": role, "parts": [{"text": text}]},
    })
    .to_string()
}

/// One root turn and a turn of each text below it; leaf `i` is `leaf-000i`, the last one the newest.
fn branches(env: &TestEnv, texts: &[String]) -> String {
    let mut lines = String::new();
    let mut line = |record: String| writeln!(lines, "{record}").unwrap();
    line(record("root-q", None, "user", 0, "begin"));
    line(record("root-a", Some("root-q"), "assistant", 1, "begun"));
    for (i, text) in texts.iter().enumerate() {
        let (q, a) = (format!("ask-{i:04}"), format!("leaf-{i:04}"));
        line(record(&q, Some("root-a"), "user", 2 * i + 2, text));
        line(record(&a, Some(&q), "assistant", 2 * i + 3, &format!("reply to {text}")));
    }
    env.write(&format!("work/{SESSION}.jsonl"), lines)
}

fn numbered(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("question {i}")).collect()
}

/// Every file below `dir` with its bytes, lock files aside: they stay, empty.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.display().to_string().ends_with("lock") {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[track_caller]
fn done(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.screen.contents());
    assert!(ended.restored());
}

#[test]
fn the_marked_branch_is_forked_and_recorded() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(3));
    let before = fs::read(&path).unwrap();
    let mut pty = Pty::spawn(&command(&env, &["resume", &path, "--pick", "--json"]), 80, 24);
    pty.wait_text("Nothing is marked yet");
    // Newest first, so the client's own pick, the last line of the file, stands first.
    pty.send(DOWN);
    pty.wait_marked("leaf-0002");
    assert!(marked(pty.screen()).unwrap().contains("client's pick"), "{}", pty.screen().contents());
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    assert!(pty.screen().contents().contains("question 1"));
    pty.send(ENTER);
    done(&pty.wait());
    let answer = answer(&env);
    assert_eq!(answer["leafUuid"], "leaf-0001");
    assert_eq!(answer["decidedBy"]["kind"], "prompt");
    assert_eq!(answer["seed"]["mode"], "fork");
    let child = fs::read_to_string(answer["seed"]["transcript"].as_str().unwrap()).unwrap();
    assert!(child.contains("question 1") && !child.contains("question 2") && !child.contains("question 0"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_long_list_is_scrolled_through() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(50));
    let args = ["resume", &path, "--pick", "--seed", "none", "--json"];
    let mut pty = Pty::spawn(&command(&env, &args), 80, 24);
    pty.wait_text("[Page 1/3]");
    for i in (25..50).rev() {
        pty.send("j");
        pty.wait_marked(&format!("leaf-{i:04}"));
    }
    pty.wait_text("[Page 2/3]");
    pty.send(ENTER);
    done(&pty.wait());
    assert_eq!(answer(&env)["leafUuid"], "leaf-0025");
}

#[test]
fn declining_writes_nothing() {
    for key in [ESC, "q", CTRL_C] {
        let env = TestEnv::new();
        let path = branches(&env, &numbered(3));
        let before = files(&env.path(""));
        let mut pty = Pty::spawn(&command(&env, &["resume", &path, "--pick", "--json"]), 80, 24);
        pty.wait_text("Nothing is marked yet");
        pty.send(DOWN);
        pty.wait_marked("leaf-0002");
        pty.send(key);
        let ended = pty.wait();
        assert_eq!(ended.code, Some(130), "{key:?}: {}", ended.screen.contents());
        assert!(ended.restored(), "{key:?}");
        assert_eq!(answer(&env)["refusal"]["code"], "prompt-cancelled", "{key:?}");
        fs::remove_file(env.path("work/stdout.json")).unwrap();
        assert_eq!(files(&env.path("")), before, "{key:?}");
        // The lease is free again.
        let again = env.run(&["resume", &path, "--leaf", "leaf-0001", "--seed", "none"]);
        assert_eq!(again.code, Some(0), "{key:?}: {}", again.stderr);
    }
}

#[test]
fn narrow_terminals_and_wide_characters_do_not_break_lines() {
    let texts: Vec<String> = [
        "東京都の天気を調べて、明日の予定を立ててください。お願いします。",
        "👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷 👩‍👩‍👧‍👦 👍🏽 ❤️ 🇩🇪🇫🇷",
        "مرحبا بالعالم كيف حالك اليوم مرحبا بالعالم كيف حالك اليوم",
    ]
    .map(str::to_owned)
    .into();
    for columns in [20, 40, 80] {
        let env = TestEnv::new();
        let path = branches(&env, &texts);
        let args = ["resume", &path, "--pick", "--seed", "none", "--json"];
        let mut pty = Pty::spawn(&command(&env, &args), columns, 24);
        for i in [2, 1, 0] {
            pty.wait_text("leaf-0000");
            pty.send(DOWN);
            let leaf = format!("leaf-{i:04}");
            pty.wait_for("the whole list, marked", |s| {
                marked(s).is_some_and(|m| m.contains(&leaf)) && s.contents().contains(&format!("leaf {leaf}"))
            });
            assert!(!wraps(pty.screen()), "{columns} columns:\n{}", pty.screen().contents());
        }
        pty.send(ENTER);
        done(&pty.wait());
        assert_eq!(answer(&env)["leafUuid"], "leaf-0000");
    }
}

#[test]
fn hostile_text_is_shown_harmless() {
    let env = TestEnv::new();
    let hostile = "a\x1b]0;owned\x07b\x1b[2Jc\u{9b}31md\u{202e}e\x1b[?25lf\x08g".to_owned();
    let path = branches(&env, &[hostile.clone(), hostile]);
    let mut pty = Pty::spawn(&command(&env, &["resume", &path, "--pick", "--seed", "none"]), 100, 24);
    pty.wait_text("Nothing is marked yet");
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    pty.send(ENTER);
    let ended = pty.wait();
    done(&ended);
    for bytes in ["\x1b]", "\x1b[2J", "\u{9b}", "\u{202e}", "\x08", "\x07"] {
        assert!(!ended.drawn.contains(bytes), "{bytes:?} in {:?}", ended.drawn);
    }
}

#[test]
fn one_leaf_is_taken_without_a_prompt_and_said() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(1));
    let args = ["resume", &path, "--pick", "--seed", "none", "--json"];
    let ended = Pty::spawn(&command(&env, &args), 80, 24).wait();
    done(&ended);
    assert!(ended.drawn.contains("only one leaf"), "{}", ended.drawn);
    assert!(!ended.drawn.contains("Which branch"));
    assert_eq!(answer(&env)["decidedBy"]["kind"], "only-leaf");
}

#[test]
fn without_a_terminal_the_lease_is_not_touched() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(3));
    let before = files(&env.path(""));
    let refused = env.run(&["resume", &path, "--pick", "--json"]).code(3);
    assert_eq!(refused.json()["refusal"]["code"], "not-a-terminal");
    assert_eq!(files(&env.path("")), before);
    let lock = env.path(&format!("work/.{SESSION}.jsonl.offshoot-lock"));
    assert!(!lock.exists(), "the lease was taken");

    // A terminal is both: stdin alone is none.
    let binary = env!("CARGO_BIN_EXE_offshoot");
    let mut half = command(&env, &["resume", &path, "--pick", "--json"]);
    half = {
        let mut shell = Command::new("/bin/sh");
        shell.args([
            "-c",
            "exec \"$0\" resume \"$1\" --pick --json > stdout.json 2> stderr.txt",
            binary,
            &path,
        ]);
        shell.env_clear().current_dir(half.get_current_dir().unwrap());
        for (name, value) in half.get_envs() {
            shell.env(name, value.unwrap());
        }
        shell
    };
    assert_eq!(Pty::spawn(&half, 80, 24).wait().code, Some(3));
    assert_eq!(answer(&env)["refusal"]["code"], "not-a-terminal");
}

#[test]
fn half_a_record_that_arrives_at_the_prompt_is_a_change_and_no_fault_of_the_leaf() {
    let env = TestEnv::new();
    let transcript = branches(&env, &numbered(2));
    let mut pty = Pty::spawn(
        &command(&env, &["resume", &transcript, "--pick", "--seed", "in-place", "--json"]),
        80,
        24,
    );
    pty.wait_text("Nothing is marked yet");
    // A client in the middle of its write: an anchor behind it would be glued to the half record.
    let mut client = fs::OpenOptions::new().append(true).open(&transcript).unwrap();
    std::io::Write::write_all(&mut client, br#"{"uuid":"late","parentUuid":"leaf-0001","sessi"#).unwrap();
    let before = fs::read(&transcript).unwrap();
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    pty.send(DOWN);
    pty.wait_marked("leaf-0000");
    pty.send(ENTER);
    assert_eq!(pty.wait().code, Some(4));
    assert_eq!(answer(&env)["refusal"]["code"], "snapshot-changed");
    assert_eq!(fs::read(&transcript).unwrap(), before);
}

#[test]
fn a_leaf_that_went_on_in_a_child_is_shown_and_asked_about() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(2));
    let first = env.run(&["resume", &path, "--leaf", "leaf-0000", "--json"]).code(0).json();
    let child = first["seed"]["sessionId"].as_str().unwrap();
    let pick = |answer_with: &[&str]| {
        let mut pty = Pty::spawn(&command(&env, &["resume", &path, "--pick", "--json"]), 100, 24);
        pty.wait_text(&format!("went on in {} (+0)", &child[..8]));
        pty.send(DOWN);
        pty.send(DOWN);
        pty.wait_marked("leaf-0000");
        pty.send(ENTER);
        pty.wait_text("fork the branch again");
        for key in answer_with {
            pty.send(key);
        }
        pty.wait()
    };
    assert_eq!(pick(&[ESC]).code, Some(130));
    done(&pick(&[DOWN, ENTER]));
    let followed = answer(&env);
    assert_eq!(followed["seed"]["sessionId"], child);
    done(&pick(&[DOWN, DOWN, ENTER]));
    assert_ne!(answer(&env)["seed"]["sessionId"], child);
}

#[test]
fn a_policy_that_ties_may_ask_about_the_leaves_it_kept() {
    let env = TestEnv::new();
    let path = branches(&env, &numbered(4));
    let policy = env.write(
        "work/ask.toml",
        r#"
version = 1
name = "ask"
reason = "Two of them are of interest; a person knows which."
[[rule]]
name = "two"
reason = "They are of interest."
keep = { leaf = ["leaf-0000", "leaf-0002"] }
tie = "prompt"
"#,
    );
    let args = ["resume", &path, "--policy", &policy, "--seed", "none", "--json"];
    let refused = env.run(&args).code(3);
    assert_eq!(refused.json()["refusal"]["code"], "not-a-terminal");
    let mut pty = Pty::spawn(&command(&env, &args), 80, 24);
    pty.wait_text("Nothing is marked yet");
    assert!(!pty.screen().contents().contains("leaf-0001"), "{}", pty.screen().contents());
    assert!(!pty.screen().contents().contains("leaf-0003"), "{}", pty.screen().contents());
    pty.send(DOWN);
    pty.wait_marked("leaf-0002");
    pty.send(DOWN);
    pty.wait_marked("leaf-0000");
    pty.send(ENTER);
    done(&pty.wait());
    assert_eq!(answer(&env)["leafUuid"], "leaf-0000");
    assert_eq!(answer(&env)["decidedBy"]["kind"], "prompt");
    assert!(answer(&env)["decidedBy"]["policy"]["digest"].as_str().is_some());
}

#[test]
fn without_a_session_the_session_is_asked_for_first() {
    let env = TestEnv::new();
    let work = env.path("work").canonicalize().unwrap().display().to_string();
    let folder: String = work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let text = fs::read_to_string(branches(&env, &numbered(2))).unwrap().replace("/home/ada/p", &work);
    for (id, about) in [(SESSION, "begin"), ("22222222-2222-4333-8444-555555555555", "another")] {
        let text = text.replace(SESSION, id).replace("begin", about);
        env.write(&format!("home/.qwen/projects/{folder}/chats/{id}.jsonl"), text);
    }
    fs::remove_file(env.path(&format!("work/{SESSION}.jsonl"))).unwrap();
    let args = ["resume", "--pick", "--seed", "none", "--json"];
    let mut pty = Pty::spawn(&command(&env, &args), 80, 24);
    pty.wait_text("Which session?");
    pty.wait_text("another");
    assert!(pty.screen().contents().contains("2 branches"), "{}", pty.screen().contents());
    pty.send(DOWN);
    pty.wait_for("a marker", |s| marked(s).is_some());
    // Both were written just now: either may stand first.
    if !marked(pty.screen()).unwrap().contains("11111111") {
        pty.send(DOWN);
        pty.wait_marked("11111111");
    }
    pty.send(ENTER);
    pty.wait_text("Nothing is marked yet");
    pty.send(DOWN);
    pty.wait_marked("leaf-0001");
    pty.send(ENTER);
    done(&pty.wait());
    assert_eq!(answer(&env)["leafUuid"], "leaf-0001");
    assert_eq!(answer(&env)["seed"]["sessionId"], SESSION);
}

#[test]
fn sessions_of_both_agents_are_asked_for_by_name() {
    let env = TestEnv::new();
    let work = env.path("work").canonicalize().unwrap().display().to_string();
    let folder: String = work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let text = fs::read_to_string(branches(&env, &numbered(2))).unwrap();
    fs::remove_file(env.path(&format!("work/{SESSION}.jsonl"))).unwrap();
    env.write(&format!("home/.qwen/projects/{folder}/chats/{SESSION}.jsonl"), text);
    let claude = "22222222-2222-4333-8444-555555555555";
    let record = serde_json::json!({"type": "user", "uuid": "only", "parentUuid": null, "sessionId": claude, "cwd": work,
        "timestamp": "2026-01-01T00:00:00.000Z", "message": {"role": "user", "content": "from the other agent"}});
    env.write(&format!("home/.claude/projects/-any/{claude}.jsonl"), format!("{record}\n"));
    let args = ["resume", "--pick", "--seed", "none", "--json"];
    let mut pty = Pty::spawn(&command(&env, &args), 80, 24);
    pty.wait_text("claude: from the other agent");
    pty.wait_text("qwen: ");
    pty.send(DOWN);
    pty.wait_for("a marker", |s| marked(s).is_some());
    if !marked(pty.screen()).unwrap().contains("22222222") {
        pty.send(DOWN);
        pty.wait_marked("22222222");
    }
    pty.send(ENTER);
    done(&pty.wait());
    assert_eq!(answer(&env)["leafUuid"], "only");
    assert_eq!(answer(&env)["command"], serde_json::json!(["claude", "--resume", claude]));
}
