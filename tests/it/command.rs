//! `resume ... -- COMMAND`: the command runs under the lease of the session that it writes, and never without it.

use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::{
    pty::Pty,
    stage::{OTHER, PICK, Paused, Process, SESSION, Stage, json_of, lock_of, names, until},
    support::Ran,
};

/// Says that it runs, by its process id, and ends with its input.
const WAITS: &str = "echo $$; cat >/dev/null";

fn fault(ran: &Ran) -> Value {
    json_of(&ran.stderr)["fault"].clone()
}

fn refusal(ran: &Ran) -> Value {
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["refusal"].clone()
}

/// `offshoot resume --json <args> -- <command>`.
fn resume(stage: &Stage, args: &[&str], command: &[&str]) -> Command {
    stage.resume(&[&["--json"], args, &["--"], command].concat())
}

fn child_of(answer: &Value) -> String {
    answer["seed"]["transcript"].as_str().unwrap().to_owned()
}

#[test]
fn it_is_told_the_session_and_started_where_that_was_recorded() {
    let stage = Stage::new();
    let shows = stage.script("agent.sh", "pwd; printf '%s\\n' \"$@\"; echo err >&2; exit 7");
    let command = [shows.as_str(), "a b", "x{session}y", "{session}{session}"];
    let ran = Ran::from(resume(&stage, &["--leaf", OTHER], &command).output().unwrap()).code(7);
    let answer = json_of(&ran.stderr);
    let child = answer["seed"]["sessionId"].as_str().unwrap();
    let project = stage.project.display();
    assert_eq!(ran.stdout, format!("{project}\na b\nx{child}y\n{child}{child}\n"), "stdout is the command's");
    assert!(ran.stderr.contains("err\n"));
    // Without the placeholder the client's own option is added.
    let ran =
        Ran::from(resume(&stage, &["--leaf", OTHER, "--seed", "none"], &[&shows, "x"]).output().unwrap());
    assert_eq!(ran.code(7).stdout, format!("{project}\nx\n--resume\n{SESSION}\n"));
    assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
}

#[test]
fn a_relative_path_is_meant_from_where_the_user_stands() {
    let stage = Stage::new();
    stage.script("work/bin/agent", "echo here");
    for (command, finds) in [("bin/agent", true), ("./bin/agent", true), ("agent", false)] {
        let ran =
            Ran::from(resume(&stage, &["--leaf", OTHER, "--seed", "none"], &[command]).output().unwrap());
        assert_eq!(ran.code, Some(if finds { 0 } else { 1 }), "{command}: {}", ran.stderr);
    }
}

#[test]
fn its_status_is_ours() {
    let stage = Stage::new();
    let codes = [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)];
    for (script, code) in codes {
        let agent = stage.script("agent.sh", script);
        let ran = Ran::from(resume(&stage, &["--leaf", PICK, "--seed", "none"], &[&agent]).output().unwrap());
        assert_eq!(ran.code, Some(code), "{script}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
        let observed = stage.ledger().pop().unwrap();
        assert_eq!(observed["state"], "observed");
        assert_eq!(observed["observed"], json!({"outcome": "not-yet", "exitCode": code}));
    }
}

#[test]
fn the_lease_is_held_until_it_ends() {
    for seed in ["in-place", "none"] {
        let stage = Stage::new();
        let agent = stage.script("agent.sh", WAITS);
        let mut p = Process::spawn(resume(&stage, &["--leaf", OTHER, "--seed", seed], &[&agent]));
        let pid: u32 = p.line().parse().unwrap();
        assert!(!stage.agent_lock().exists(), "the client's lock is given back before its process starts");
        for others in [
            &["--seed", "in-place"][..],
            &["--seed", "none"],
            &["--seed", "fork"],
            &["--seed", "none", "--write"],
        ] {
            let ran = stage.run(&[&["--json", "--leaf", PICK], others].concat()).code(4);
            let stderr_or_stdout = if others.contains(&"--write") { &ran.stderr } else { &ran.stdout };
            let held = json_of(stderr_or_stdout)["refusal"].clone();
            assert_eq!(held["code"], "lease-held");
            let owner = &held["detail"]["owner"];
            assert_eq!((&owner["pid"], &owner["what"]), (&json!(pid), &json!("agent.sh")));
            assert!(owner["host"].is_string() && owner["since"].is_string());
        }
        p.done();
        assert_eq!(stage.run(&["--leaf", OTHER, "--seed", "none"]).code, Some(0), "freed");
        assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
    }
}

#[test]
fn it_keeps_the_lease_over_the_death_of_offshoot() {
    let stage = Stage::new();
    let pipe = stage.env.path("end");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let agent = stage.script("agent.sh", &format!("echo $$; read x < {}", pipe.display()));
    let arguments = ["--leaf", OTHER, "--seed", "in-place", "--operation-id", "op"];
    let mut p = Process::spawn(resume(&stage, &arguments, &[&agent]));
    let pid: u32 = p.line().parse().unwrap();
    p.kill();
    let held = stage.run(&["--json", "--leaf", PICK, "--seed", "none"]).code(4);
    assert_eq!(refusal(&held)["code"], "lease-held");
    assert_eq!(refusal(&held)["detail"]["owner"]["pid"], pid);
    // The operation is done, so only the lease is in the way of its retry.
    let retry = Ran::from(resume(&stage, &arguments, &[&agent]).output().unwrap()).code(4);
    assert_eq!(json_of(&retry.stderr)["refusal"]["code"], "lease-held", "{}", retry.stderr);
    assert_eq!(names(&stage.env.path("state/run")).len(), 1, "what the killed one left");
    fs::write(&pipe, "end\n").unwrap();
    until("its end", || stage.run(&["--json", "--leaf", OTHER, "--seed", "none"]).code == Some(0));
    assert_eq!(stage.env.run(&["recover"]).code, Some(0));
    assert_eq!(names(&stage.env.path("state/run")), [""; 0], "recover cleans up");
}

#[test]
fn the_next_command_removes_what_a_killed_run_left_and_nothing_else() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", WAITS);
    let mut killed = Process::spawn(resume(&stage, &["--leaf", OTHER], &[&agent]));
    killed.line();
    let left = names(&stage.env.path("state/run"));
    let mut living = Process::spawn(resume(&stage, &["--leaf", OTHER], &[&agent]));
    living.line();
    killed.kill();
    let mut next = Process::spawn(resume(&stage, &["--leaf", OTHER], &[&agent]));
    next.line();
    let now = names(&stage.env.path("state/run"));
    assert_eq!((left.len(), now.len()), (1, 2));
    assert!(!now.contains(&left[0]), "{left:?} {now:?}");
    living.done();
    next.done();
    assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
}

#[test]
fn for_a_fork_the_child_is_held_and_the_source_is_free() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", &format!("echo $2; {WAITS}"));
    let mut p = Process::spawn(resume(&stage, &["--leaf", OTHER], &[&agent]));
    let child = stage.transcript.with_file_name(format!("{}.jsonl", p.line()));
    let pid: u32 = p.line().parse().unwrap();
    assert_eq!(stage.run(&["--leaf", PICK, "--seed", "in-place"]).code, Some(0));
    let held = stage.env.run(&["resume", child.to_str().unwrap(), "--json", "--seed", "in-place"]).code(4);
    assert_eq!(refusal(&held)["detail"]["owner"]["pid"], pid);
    p.done();
    let free = stage.env.run(&["resume", child.to_str().unwrap(), "--seed", "in-place"]);
    assert_eq!(free.code, Some(0), "{}", free.stderr);
}

/// A command that tells of a signal in its own way. The sleeper's output goes nowhere, so that ours ends with us.
fn trapping(signal: &str, code: i32) -> String {
    format!(
        "sleep 600 >/dev/null 2>&1 & p=$!\ntrap 'kill $p; exit {code}' {signal}\necho ready\nwhile :; do wait; done"
    )
}

#[test]
fn an_interrupt_of_the_group_is_the_commands_business() {
    for (signal, name) in [(Signal::INT, "INT"), (Signal::QUIT, "QUIT")] {
        let stage = Stage::new();
        let agent = stage.script("agent.sh", &trapping(name, 42));
        let mut command = resume(&stage, &["--leaf", PICK, "--seed", "none"], &[&agent]);
        command.process_group(0);
        let mut p = Process::spawn(command);
        assert_eq!(p.line(), "ready");
        rustix::process::kill_process_group(Pid::from_child(&p.child), signal).unwrap();
        let ran = p.end().code(42);
        assert_eq!(stage.states(), ["pending", "completed", "observed"], "{}", ran.stderr);
        assert_eq!(fs::read(stage.lock()).unwrap(), b"");
    }
}

#[test]
fn a_command_that_an_interrupt_ends_is_observed() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", "echo ready; exec cat");
    let mut command = resume(&stage, &["--leaf", PICK, "--seed", "none"], &[&agent]);
    command.process_group(0);
    let mut p = Process::spawn(command);
    assert_eq!(p.line(), "ready");
    rustix::process::kill_process_group(Pid::from_child(&p.child), Signal::INT).unwrap();
    until("its end", || p.child.try_wait().unwrap().is_some());
    let ran = p.end().code(130);
    assert_eq!(stage.states(), ["pending", "completed", "observed"], "{}", ran.stderr);
}

#[test]
fn a_termination_is_passed_on() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let stage = Stage::new();
        let agent = stage.script("agent.sh", &trapping(name, 43));
        let mut p = Process::spawn(resume(&stage, &["--leaf", PICK, "--seed", "none"], &[&agent]));
        assert_eq!(p.line(), "ready");
        p.signal(signal);
        until("its end", || p.child.try_wait().unwrap().is_some());
        assert_eq!(p.end().code, Some(43), "{name}");
        assert_eq!(stage.states(), ["pending", "completed", "observed"]);
    }
}

#[test]
fn what_cannot_be_started_is_said_and_the_child_is_kept() {
    let stage = Stage::new();
    let plain = stage.env.write("plain", "no program");
    for command in ["no-such-command", "/no/such/command", &plain, stage.project.to_str().unwrap()] {
        let ran = Ran::from(resume(&stage, &["--leaf", OTHER], &[command]).output().unwrap()).code(1);
        let fault = fault(&ran);
        assert_eq!(fault["code"], "command-failed-to-start", "{command}: {}", ran.stderr);
        let child = fault["detail"]["sessionId"].as_str().unwrap();
        assert!(fault["message"].as_str().unwrap().contains(child));
        assert!(stage.sessions().contains(&child.to_owned()), "{command}");
        assert_eq!(ran.stdout, "");
        assert_eq!(
            fs::read(lock_of(Path::new(fault["detail"]["transcript"].as_str().unwrap()))).unwrap(),
            b""
        );
    }
    assert!(!stage.states().contains(&"observed".to_owned()), "nothing ran");
    assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
}

#[test]
fn a_working_directory_that_is_gone_is_noticed_before_anything_is_written() {
    let stage = Stage::new();
    fs::remove_dir(&stage.project).unwrap();
    let ran = Ran::from(resume(&stage, &["--leaf", OTHER], &["true"]).output().unwrap()).code(1);
    assert_eq!(fault(&ran)["code"], "command-failed-to-start");
    assert!(fault(&ran)["message"].as_str().unwrap().contains(stage.project.to_str().unwrap()));
    assert_eq!(stage.sessions(), [SESSION]);
    assert!(!stage.env.path(&format!("state/ledger/qwen/{SESSION}.jsonl")).exists());

    // The way out that the message names.
    assert!(fault(&ran)["message"].as_str().unwrap().contains("without `-- COMMAND`"));
    let ran = Ran::from(stage.resume(&["--leaf", OTHER]).output().unwrap()).code(0);
    assert!(ran.stdout.contains("resume it"), "{}", ran.stdout);
    assert_eq!(stage.sessions().len(), 2);
}

#[test]
fn it_has_the_terminal() {
    let stage = Stage::new();
    let agent = stage.script(
        "agent.sh",
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; read line; echo \"got $line\"; exit 5",
    );
    let mut pty = Pty::spawn(&stage.resume(&["--leaf", PICK, "--seed", "none", "--", &agent]), 100, 30);
    pty.wait_text("terminal");
    pty.send("typed\r");
    pty.wait_text("got typed");
    let ended = pty.wait();
    assert_eq!(ended.code, Some(5));
    assert_eq!(stage.states(), ["pending", "completed", "observed"]);
}

#[test]
fn it_has_the_terminals_interrupt() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", &trapping("INT", 44));
    let mut pty = Pty::spawn(&stage.resume(&["--leaf", PICK, "--seed", "none", "--", &agent]), 100, 30);
    pty.wait_text("ready");
    pty.send(crate::pty::CTRL_C);
    assert_eq!(pty.wait().code, Some(44));
    assert_eq!(stage.states(), ["pending", "completed", "observed"]);
}

#[test]
fn it_never_runs_if_the_lease_does_not_name_it() {
    let stage = Stage::new();
    let ran_at = stage.env.path("ran");
    let agent = stage.script("agent.sh", &format!("echo ran; : > {}", ran_at.display()));
    let arguments = ["--leaf", OTHER, "--operation-id", "op"];
    let paused = Paused::at(&stage, "command-waiting", resume(&stage, &arguments, &[&agent]));
    let mut p = paused.process;
    p.child.kill().unwrap();
    // The gate has our stdout; its end is the gate's.
    assert_eq!(p.line(), "", "the gate ends without having become the command");
    drop(p);
    assert!(!ran_at.exists());
    assert_eq!(stage.states(), ["pending", "completed"]);
    assert_eq!(stage.sessions().len(), 2, "the child is kept");
    assert_eq!(stage.env.run(&["recover"]).code, Some(0));
    assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
    let again = Ran::from(resume(&stage, &arguments, &[&agent]).output().unwrap()).code(0);
    assert_eq!(json_of(&again.stderr)["replayed"], true);
    assert!(ran_at.exists(), "a retry starts it");
}

/// The states of the processes that a process has started.
#[cfg(target_os = "linux")]
fn states_of_children(pid: u32) -> Vec<String> {
    let stats = names(Path::new("/proc")).into_iter().filter(|n| n.parse::<u32>().is_ok());
    let stats = stats.filter_map(|n| fs::read_to_string(format!("/proc/{n}/stat")).ok());
    stats
        .filter_map(|stat| {
            let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
            let state = fields.next()?.to_owned();
            (fields.next()? == pid.to_string()).then_some(state)
        })
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_before_the_gate_opens_leaves_nothing() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", "echo ran");
    let paused = Paused::at(&stage, "command-waiting", resume(&stage, &["--leaf", OTHER], &[&agent]));
    paused.process.signal(Signal::TERM);
    until("the gate's end", || states_of_children(paused.process.pid()) == ["Z"]);
    let ran = paused.go().end();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(143), ""), "passed on to the gate, which ends");
    assert_eq!(names(&stage.env.path("state/run")), [""; 0]);
}

#[test]
fn a_child_whose_lease_somebody_else_took_is_kept_and_named() {
    let stage = Stage::new();
    let ran_at = stage.env.path("ran");
    let agent = stage.script("agent.sh", &format!(": > {}", ran_at.display()));
    let paused = Paused::at(&stage, "completed", resume(&stage, &["--leaf", OTHER], &[&agent]));
    let child = stage.sessions().into_iter().find(|s| s != SESSION).unwrap();
    let path = stage.transcript.with_file_name(format!("{child}.jsonl"));
    let arguments = ["resume", path.to_str().unwrap(), "--seed", "none", "--write"];
    let mut holder = Process::spawn(stage.env.command(&arguments));
    until("a holder", || fs::read_to_string(lock_of(&path)).is_ok_and(|o| o.contains("\"writer\"")));
    let ran = paused.go().end().code(1);
    let fault = fault(&ran);
    assert_eq!(fault["code"], "command-failed-to-start", "{}", ran.stderr);
    assert_eq!(fault["detail"]["sessionId"], child);
    assert_eq!(fault["detail"]["refusal"], "lease-held");
    assert!(!ran_at.exists());
    holder.close_stdin();
    holder.done();
}

/// Appends a record below the last record of the session that it is told, or below `$BELOW`.
const APPENDS: &str = r#"f="$CHATS/$2.jsonl"
tail=${BELOW:-$(tail -n 1 "$f" | sed 's/^{"uuid":"\([^"]*\)".*/\1/')}
printf '{"uuid":"theirs","parentUuid":"%s","sessionId":"%s","type":"user","message":{"role":"user","parts":[{"text":"go on"}]}}\n' "$tail" "$2" >> "$f""#;

#[test]
fn whether_it_went_on_below_the_leaf_is_observed() {
    let cases = [("followed", APPENDS, None), ("not-followed", APPENDS, Some(PICK)), ("not-yet", ":", None)];
    for (outcome, script, below) in cases {
        for seed in ["fork", "in-place"] {
            if seed == "fork" && below.is_some() {
                continue;
            }
            let stage = Stage::new();
            let agent = stage.script("agent.sh", script);
            let mut command = resume(&stage, &["--leaf", OTHER, "--seed", seed], &[&agent]);
            command.env("CHATS", stage.transcript.parent().unwrap());
            if let Some(below) = below {
                command.env("BELOW", below);
            }
            let ran = Ran::from(command.output().unwrap()).code(0);
            let observed = stage.ledger().pop().unwrap();
            assert_eq!(observed["observed"]["outcome"], outcome, "{seed}: {}", ran.stderr);
            if outcome == "followed" {
                let path = child_of(&json_of(&ran.stderr));
                assert_eq!(stage.tail(Path::new(&path)), "theirs");
            }
        }
    }
}

#[test]
fn a_transcript_that_is_gone_afterwards_does_not_change_the_status() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", "rm \"$CHATS/$2.jsonl\"; exit 6");
    let mut command = resume(&stage, &["--leaf", OTHER], &[&agent]);
    command.env("CHATS", stage.transcript.parent().unwrap());
    let ran = Ran::from(command.output().unwrap()).code(6);
    assert!(ran.stderr.contains("could not be recorded"), "{}", ran.stderr);
}

#[test]
fn a_replay_starts_it_again_under_the_lease() {
    let stage = Stage::new();
    let agent = stage.script("agent.sh", &format!("echo $2; {WAITS}"));
    let arguments = ["--leaf", OTHER, "--operation-id", "op"];
    let mut sessions = Vec::new();
    for replayed in [false, true] {
        let mut p = Process::spawn(resume(&stage, &arguments, &[&agent]));
        let child = p.line();
        let pid: u32 = p.line().parse().unwrap();
        let path = stage.transcript.with_file_name(format!("{child}.jsonl"));
        let held = stage.env.run(&["resume", path.to_str().unwrap(), "--json"]).code(4);
        assert_eq!(refusal(&held)["detail"]["owner"]["pid"], pid);
        let second = Ran::from(resume(&stage, &arguments, &[&agent]).output().unwrap()).code(4);
        assert_eq!(json_of(&second.stderr)["refusal"]["code"], "operation-in-flight");
        let ran = p.end().code(0);
        assert_eq!(json_of(&ran.stderr)["replayed"], replayed);
        sessions.push(child);
    }
    assert_eq!(sessions[0], sessions[1]);
    assert_eq!(stage.sessions().len(), 2);
    assert_eq!(stage.states(), ["pending", "completed", "observed", "observed"]);
}
