//! `truncate` and `restore`, stopped at every point, failing at every point, and on disks that take no more: the
//! transcript is the old one or the new one, whole, and recovery says which.

use std::{fs, os::unix::process::ExitStatusExt, process::Output};

use offshoot::{
    audit,
    store::ledger::{Scope, entry::State, verify},
};
use serde_json::Value;

use crate::{
    crash::recover,
    crash_runs::{After, RESTORE, Scenario, TRUNCATE},
    crash_world::{OPERATION, World, run, text, trace},
};

/// What a run that nobody stops leaves in the transcript, and the points that it reaches.
struct Clean {
    points: Vec<String>,
    after: Vec<u8>,
}

fn clean(scenario: &Scenario) -> Clean {
    let world = scenario.prepared();
    let (points, output) = trace(&world, world.call(scenario.verb, scenario.args), "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let after = fs::read(&world.transcript).unwrap();
    assert_ne!(after, world.before);
    assert_eq!(world.client_history(&world.transcript)[..scenario.history.len()], *scenario.history);
    let clean = Clean { points, after };
    settled(&world, &clean, true, scenario.name);
    clean
}

/// The anchor's time differs from run to run.
fn without_time(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines
        .map(|l| {
            let mut record: Value = serde_json::from_slice(l).unwrap();
            if record["systemPayload"]["offshoot"] == 1 {
                record["timestamp"] = Value::Null;
            }
            record
        })
        .collect()
}

/// What any stop must leave: the old transcript or the new one, and of what was there before a copy once it is not.
#[track_caller]
fn sound(world: &World, clean: &Clean, at: &str) -> bool {
    let now = fs::read(&world.transcript).unwrap();
    let made = now != world.before;
    if made {
        assert_eq!(
            without_time(&now),
            without_time(&clean.after),
            "{at}: neither the old one nor the new one"
        );
        assert!(backups(world).contains(&world.before), "{at}: no backup of what was there");
    }
    let (found, _) = verify(&world.env.path("state"), &Scope::default(), None).unwrap();
    assert!(found.findings.is_empty(), "{at}: {:?}", found.findings);
    made
}

fn backups(world: &World) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(world.chats()).unwrap().map(|e| e.unwrap().path());
    let of_file = |p: &std::path::PathBuf| p.to_str().unwrap().contains(".jsonl.bak.");
    entries.filter(of_file).map(|p| fs::read(p).unwrap()).collect()
}

#[track_caller]
fn settled(world: &World, clean: &Clean, made: bool, at: &str) {
    assert_eq!(sound(world, clean, at), made, "{at}");
    assert_eq!(world.ledger().read().unwrap().pending().len(), 0, "{at}: something is pending");
    assert_eq!(world.litter(), Vec::<String>::new(), "{at}");
    let (found, looked) = verify(&world.env.path("state"), &Scope::default(), None).unwrap();
    assert!(found.findings.is_empty() && found.notes.is_empty(), "{at}: {found:?}");
    let deep = audit::deep(&world.env.path("state"), &looked, &Scope::default()).unwrap();
    assert!(deep.findings.is_empty(), "{at}: {:?}", deep.findings);
}

fn answer(output: &Output, at: &str) -> Value {
    assert_eq!(output.status.code(), Some(0), "{at}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The same operation again, twice: made once, with one result.
#[track_caller]
fn finish(scenario: &Scenario, world: &World, clean: &Clean, replayed: bool, at: &str) {
    let first = answer(&scenario.run(world, None), at);
    assert_eq!(first["replayed"], replayed, "{at}");
    settled(world, clean, true, at);
    let bytes = fs::read(&world.transcript).unwrap();
    let mut second = answer(&scenario.run(world, None), at);
    assert_eq!(second["replayed"], true, "{at}");
    second["replayed"] = replayed.into();
    assert_eq!(second, first, "{at}");
    assert_eq!(fs::read(&world.transcript).unwrap(), bytes, "{at}: a replay wrote something");
    let made = world.states(OPERATION).iter().filter(|s| **s == State::Replaced).count();
    assert_eq!(made, 1, "{at}");
}

fn sweep(scenario: &Scenario) {
    let clean = clean(scenario);
    for (point, after) in scenario.points_reached(&clean.points) {
        let at = format!("{}, stopped at {point}", scenario.name);
        let mut world = scenario.killed(&point);
        let made = matches!(after, After::Completed | After::Done);
        assert_eq!(sound(&world, &clean, &at), made, "{at}");
        world.keep();
        let outcome: &[&str] = match after {
            After::NeverMade | After::Done => &[],
            After::Abandoned => &["abandoned"],
            After::Completed => &["replaced"],
        };
        assert_eq!(recover(&world, &at), outcome, "{at}");
        settled(&world, &clean, made, &format!("{at}, recovered"));
        assert_eq!(recover(&world, &at), Vec::<String>::new(), "{at}: a second time");
        finish(scenario, &world, &clean, made, &format!("{at}, recovered"));

        world.bring_back();
        finish(scenario, &world, &clean, made, &format!("{at}, retried at once"));

        world.bring_back();
        let at = format!("{at}, settled by another run");
        let leaf = match (made, scenario.name) {
            (true, _) => scenario.history[scenario.history.len() - 1],
            (false, "truncate") => "a3",
            (false, _) => "f1",
        };
        let other = ["--leaf", leaf, "--seed", "none", "--operation-id", "other"];
        answer(&run(world.call("resume", &other), None, ""), &at);
        settled(&world, &clean, made, &at);
    }
}

#[test]
fn a_truncate_stopped_anywhere() {
    sweep(&TRUNCATE);
}

#[test]
fn a_restore_stopped_anywhere() {
    sweep(&RESTORE);
}

#[test]
fn recovery_of_a_replacement_stopped_anywhere() {
    for point in ["replace-staged", "replace-renamed", "publish.linked", "agent-leased"] {
        let clean = clean(&TRUNCATE);
        let mut world = TRUNCATE.killed(point);
        world.keep();
        let recovery = |world: &World| {
            let mut command = world.env.command(&["recover", "--json"]);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command
        };
        let (points, _) = trace(&world, recovery(&world), "");
        assert!(points.contains(&"settle-found".to_owned()), "{points:?}");
        let made = sound(&world, &clean, point);
        for second in points {
            let at = format!("stopped at {point}, its recovery at {second}");
            world.bring_back();
            let killed = run(recovery(&world), Some(&format!("{second}=kill")), "");
            assert_eq!(killed.status.signal(), Some(9), "{at}: not reached");
            assert_eq!(sound(&world, &clean, &at), made, "{at}");
            recover(&world, &at);
            settled(&world, &clean, made, &at);
            finish(&TRUNCATE, &world, &clean, made, &at);
        }
    }
}

#[test]
fn a_failure_anywhere_is_a_fault_that_a_retry_gets_over() {
    for scenario in [&TRUNCATE, &RESTORE] {
        let clean = clean(scenario);
        for (point, after) in scenario.points() {
            let at = format!("{}, failing at {point}", scenario.name);
            let world = scenario.prepared();
            let failed = scenario.run(&world, Some(&format!("{point}=error")));
            // Giving the agent's lock back is tried in another way, which succeeds.
            let status = if point == "agent-lock-retired" { 0 } else { 1 };
            assert_eq!(failed.status.code(), Some(status), "{at}: {}", text(&failed.stdout));
            let made = matches!(after, After::Completed | After::Done);
            assert_eq!(sound(&world, &clean, &at), made, "{at}");
            assert_eq!(world.litter(), Vec::<String>::new(), "{at}");
            finish(scenario, &world, &clean, made, &at);
        }
    }
}

/// A recovered operation is not performed on what others have written since.
#[test]
fn a_retry_does_not_remove_what_came_since() {
    let world = TRUNCATE.killed("replace-staged");
    let mut grown = world.before.clone();
    let last = grown[..grown.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    let line = String::from_utf8(grown[last..].to_vec()).unwrap();
    grown.extend(line.replace("\"a3\"", "\"a4\"").replace("\"u3\"", "\"a3\"").bytes());
    fs::write(&world.transcript, &grown).unwrap();
    assert_eq!(recover(&world, "grown"), ["abandoned"]);
    let refused = TRUNCATE.run(&world, None);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stdout));
    assert!(text(&refused.stdout).contains("stale-source"));
    assert_eq!(fs::read(&world.transcript).unwrap(), grown);
}

/// Bytes that come between the last look and the rename are kept, and said.
#[test]
fn bytes_that_come_at_the_last_moment_are_kept() {
    let world = TRUNCATE.prepared();
    let pause = world.env.path("pause");
    let mut command = world.call(TRUNCATE.verb, TRUNCATE.args);
    command.env("OFFSHOOT_FAULT_POINT", format!("replace-checked=pause:{}", pause.display()));
    let child = command.spawn().unwrap();
    while !pause.exists() {
        std::thread::yield_now();
    }
    let mut grown = world.before.clone();
    grown.extend(b"{\"late\":true}\n");
    fs::write(&world.transcript, &grown).unwrap();
    fs::remove_file(&pause).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("\"code\":\"raced\""), "{}", text(&output.stdout));
    assert!(backups(&world).contains(&b"{\"late\":true}\n".to_vec()));
    assert!(backups(&world).contains(&world.before));
    assert_eq!(recover(&world, "raced"), ["replaced"]);
}

/// Disks that are full at any size: the transcript is what it was, or the new one.
#[test]
fn a_file_that_cannot_grow_is_a_fault_and_nothing_is_lost() {
    for scenario in [&TRUNCATE, &RESTORE] {
        let clean = clean(scenario);
        let mut faults = 0;
        for blocks in 0.. {
            let at = format!("{}, files of at most {blocks} blocks", scenario.name);
            let world = scenario.prepared();
            let output = scenario.run_limited(&world, blocks);
            let made = sound(&world, &clean, &at);
            assert_eq!(world.litter(), Vec::<String>::new(), "{at}");
            let done = output.status.code() == Some(0);
            if !done {
                assert_eq!(output.status.code(), Some(1), "{at}: {}", text(&output.stdout));
                faults += 1;
            }
            finish(scenario, &world, &clean, made, &at);
            if done {
                break;
            }
        }
        assert!(faults > 3, "{}: only {faults} limits were felt", scenario.name);
    }
}
