//! Who gets a signal: the clean-ups, or the command that runs.
#![cfg(unix)]

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    thread::yield_now,
};

use offshoot::store::signals;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    child::{Child, listen, tell},
    support::{Ran, TestEnv},
};

/// The role `forward`: hands signals to the process it is told of, then takes them back.
pub fn forward(args: &[&str]) {
    signals::install().unwrap();
    let cleanup = signals::on_exit(|| tell("cleaned up"));
    let taken_back = signals::on_exit(|| tell("this was taken back"));
    drop(taken_back);
    let forwarding = signals::forward_to(args[0].parse().unwrap());
    tell("forwarding");
    listen();
    drop(forwarding);
    tell("mine again");
    listen();
    drop(cleanup);
}

#[test]
fn while_a_command_runs_it_gets_what_is_its_own_and_then_we_do() {
    let cases = [
        (Some(Signal::INT), Signal::TERM, 15),
        (Some(Signal::QUIT), Signal::TERM, 15),
        (None, Signal::HUP, 1),
    ];
    for (its_own, signal, number) in cases {
        let mut command = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().unwrap();
        let _stdin = command.stdin.take();
        let mut child = Child::spawn("forward", &[&command.id().to_string()]);
        assert_eq!(child.hear(), "forwarding");
        // The terminal sends this one to the command by itself; to pass it on would double it. It wakes the signal
        // thread first, so it has been dealt with when the next one arrives.
        if let Some(its_own) = its_own {
            child.signal(its_own);
        }
        child.signal(signal);
        assert_eq!(command.wait().unwrap().signal(), Some(number));
        child.say("take them back");
        assert_eq!(child.hear(), "mine again");
        child.signal(signal);
        assert_eq!(child.hear(), "cleaned up");
        assert_eq!(child.wait().code(), Some(128 + number));
    }
}

#[test]
fn an_interrupt_runs_what_is_registered_and_exits_with_130() {
    let mut child = Child::spawn("forward", &["1073741824"]);
    assert_eq!(child.hear(), "forwarding");
    child.say("take them back");
    assert_eq!(child.hear(), "mine again");
    child.signal(Signal::INT);
    assert_eq!(child.hear(), "cleaned up");
    assert_eq!(child.wait().code(), Some(130));
}

/// A session with two branches, of which the last one written is the client's.
fn two_branches() -> String {
    let line = |uuid: &str, parent: Option<&str>| {
        let (kind, role) = if uuid.ends_with('q') { ("user", "user") } else { ("assistant", "model") };
        let record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "77777777-0000-4000-8000-000000000009",
            "cwd": "/w", "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "version": "0.24.4",
            "message": {"role": role, "parts": [{"text": format!("text of {uuid}")}]}});
        format!("{record}\n")
    };
    let root = [line("root-q", None), line("root-a", Some("root-q"))].concat();
    let one = [line("one-q", Some("root-a")), line("one-a", Some("one-q"))].concat();
    root + &one + &line("two-q", Some("root-a")) + &line("two-a", Some("two-q"))
}

/// Signals a call at one of its points, and says how it ended.
#[track_caller]
fn signalled(env: &TestEnv, args: &[&str], point: &str, signal: Signal) -> Ran {
    let pause = env.path("pause");
    let mut command = env.command(args);
    command.env("OFFSHOOT_FAULT_POINT", format!("{point}=pause:{}", pause.display()));
    let mut process =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
    while !pause.exists() {
        assert_eq!(process.try_wait().unwrap(), None, "{args:?} ended before {point}");
        yield_now();
    }
    kill_process(pid, signal).unwrap();
    // Taken off the process by its signal thread, which then either waits or ends it.
    let status = format!("/proc/{}/status", process.id());
    let is_pending = || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let pending = status.lines().find_map(|l| l.strip_prefix("ShdPnd:")).unwrap_or("0").trim();
        u64::from_str_radix(pending, 16).unwrap() != 0
    };
    while Path::new(&status).exists() && is_pending() {
        yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let _ = fs::remove_file(&pause);
    process.wait_with_output().unwrap().into()
}

/// Each verb that changes something: up to its last step a signal ends it, and nothing was changed; from that step on
/// it says what it did, with 0.
#[test]
fn what_was_done_is_said_in_spite_of_a_signal() {
    let in_place = ["--leaf", "one-a", "--seed", "in-place"];
    let verbs: [(&str, &[&str], &[&str]); 6] = [
        ("truncate", &["--after", "one-q"], &["replace-checked", "replace-renamed", "replaced", "completed"]),
        ("restore", &[], &["replace-checked", "replace-renamed", "replaced", "completed"]),
        ("resume", &in_place, &["in-place-checked", "in-place-appended", "seeded", "completed"]),
        ("resume", &["--leaf", "one-a"], &["seeded", "completed"]),
        ("fork", &["--at", "one-a"], &["seeded", "completed"]),
        ("undo", &[], &["in-place-checked", "in-place-appended", "seeded", "completed"]),
    ];
    let signals = [Signal::INT, Signal::TERM, Signal::HUP];
    for (verb, args, points) in verbs {
        for (nth, point) in ["pending"].iter().chain(points).enumerate() {
            let env = TestEnv::new();
            let path = env.write("work/77777777-0000-4000-8000-000000000009.jsonl", two_branches());
            match verb {
                "restore" => drop(env.run(&["truncate", &path, "--after", "one-q"]).code(0)),
                "undo" => drop(env.run(&[&["resume", &path][..], &in_place].concat()).code(0)),
                _ => {}
            }
            let content = || fs::read(&path).unwrap();
            let sessions = || {
                let names = fs::read_dir(env.path("work")).unwrap();
                let names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
                names.filter(|name| name.ends_with(".jsonl")).count()
            };
            let before = (content(), sessions());
            let signal = signals[nth % signals.len()];
            let all = [&[verb, &path, "--json"], args].concat();
            let ran = signalled(&env, &all, point, signal);
            let at = format!("{verb} {args:?} at {point}: {ran:?}");
            if *point == "pending" {
                assert_eq!(ran.code, Some(128 + signal.as_raw()), "{at}");
                assert_eq!((content(), sessions()), before, "{at}");
                continue;
            }
            assert_eq!(ran.code, Some(0), "{at}");
            assert!(ran.json()["operationId"].is_string(), "{at}");
            assert_ne!((content(), sessions()), before, "{at}");
            assert_eq!(env.run(&["recover"]).code(0).stdout, "nothing is pending\n", "{at}");
        }
    }
}

/// What takes long behind it does not begin: the result is said, then the signal counts.
#[test]
fn a_signal_that_waited_for_the_result_ends_what_would_go_on() {
    let env = TestEnv::new();
    let here = env.path("work").display().to_string();
    let text = two_branches().replace("\"/w\"", &format!("{here:?}"));
    let path = env.write("work/77777777-0000-4000-8000-000000000009.jsonl", &text);
    let marker = env.path("ran").display().to_string();
    let rest: [&[&str]; 2] = [&["--write"], &["--", "touch", &marker]];
    for rest in rest {
        let args = [&["resume", &path, "--json", "--leaf", "one-a", "--seed", "in-place"], rest].concat();
        let ran = signalled(&env, &args, "in-place-appended", Signal::INT).code(130);
        let said: Value = serde_json::from_str(ran.stderr.lines().last().unwrap_or_default()).unwrap();
        assert_eq!(said["leafUuid"], "one-a", "{ran:?}");
        assert!(!Path::new(&marker).exists(), "the command was started");
        fs::write(&path, &text).unwrap();
    }
}
