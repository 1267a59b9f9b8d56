//! Rows of the recovery table that ask for more than a stop: foreign files, others who write meanwhile, a command
//! that outlives us, moments that no point marks, and disks that take no more.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use offshoot::store::ledger::{Scope, entry::State, verify};
use serde_json::{Value, json};

use crate::{
    crash::{clean, finish, recover},
    crash_runs::{ANCHOR_RUN, FORK, Scenario, WRITER, WRITER_WITHOUT_SEED},
    crash_world::{OPERATION, World, result, run, text},
};

/// The path of the child, from the pending entry.
fn child_of(world: &World) -> PathBuf {
    world.entries(OPERATION)[0].body.seed.as_ref().unwrap().transcript.clone().into()
}

#[track_caller]
fn refused(world: &World, args: &[&str], status: i32, code: &str) -> Value {
    let output = run(world.call("resume", args), None, "");
    assert_eq!(output.status.code(), Some(status), "{}{}", text(&output.stdout), text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["refusal"]["code"], code, "{document}");
    document
}

#[test]
fn a_foreign_file_under_the_childs_name_is_left_alone() {
    let clean = clean(&FORK);
    let world = FORK.killed("fork-backups");
    let child = child_of(&world);
    fs::write(&child, "somebody else's\n").unwrap();
    assert_eq!(recover(&world, "foreign child"), ["left"]);
    refused(&world, &["--leaf", "a2"], 3, "operation-conflict");
    let other = ["--leaf", "a2", "--operation-id", "other"];
    assert!(run(world.call("resume", &other), None, "").status.success());
    assert_eq!(fs::read(&child).unwrap(), b"somebody else's\n");
    assert_eq!(world.states(OPERATION), [State::Pending]);
    // Once it is out of the way the operation is taken up again.
    fs::remove_file(&child).unwrap();
    for other in world.children() {
        fs::remove_file(&other).unwrap();
        let id = other.file_stem().unwrap().to_str().unwrap();
        fs::remove_dir_all(world.env.path("home/.qwen/file-history").join(id)).unwrap();
    }
    finish_unseen(&FORK, &world, &clean.result);
}

/// As [`finish`], where other operations have left their own traces.
fn finish_unseen(scenario: &Scenario, world: &World, expected: &Value) {
    let output = scenario.run(world, None);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let mut answer = result(world, &output);
    answer["replayed"] = false.into();
    assert_eq!(&answer, expected);
}

#[test]
fn a_child_of_a_forgotten_operation_keeps_its_backups() {
    let world = FORK.prepared();
    assert!(FORK.run(&world, None).status.success());
    let picture = world.picture();
    fs::remove_dir_all(world.env.path("state")).unwrap();
    fs::create_dir(world.env.path("state")).unwrap();
    refused(&world, &["--leaf", "a2"], 3, "operation-conflict");
    assert_eq!(world.picture(), picture);
    assert_eq!(world.states(OPERATION), [State::Pending, State::Abandoned]);
}

#[test]
fn a_refusal_behind_pending_frees_the_id_even_if_it_is_stopped_before() {
    let world = FORK.prepared();
    let child = world
        .chats()
        .join(clean(&FORK).result["seed"]["sessionId"].as_str().unwrap())
        .with_extension("jsonl");
    fs::write(&child, "somebody else's\n").unwrap();
    let output = FORK.run(&world, Some("abandoned=kill"));
    assert_eq!(output.status.signal(), Some(9), "not reached");
    assert_eq!(world.states(OPERATION), [State::Pending, State::Abandoned]);
    // Decided afresh, and so free for another request, which is no fork.
    let output = run(world.call("resume", &["--leaf", "a3", "--seed", "none"]), None, "");
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert_eq!(fs::read(&child).unwrap(), b"somebody else's\n");
}

#[test]
fn a_claim_without_an_entry_binds_nobody_and_an_entry_binds() {
    let world = FORK.killed("claimed");
    assert!(run(world.call("resume", &["--leaf", "a3", "--seed", "none"]), None, "").status.success());
    let world = FORK.killed("pending");
    refused(&world, &["--leaf", "a3", "--seed", "none"], 3, "operation-conflict");
    finish_unseen(&FORK, &world, &clean(&FORK).result);
}

#[test]
fn a_child_that_has_grown_since_is_whole() {
    let clean = clean(&FORK);
    for by_recover in [true, false] {
        let world = FORK.killed("publish.linked");
        let child = child_of(&world);
        let tail = clean.result["seed"]["parentUuid"].clone();
        let record = json!({"uuid": "new", "parentUuid": tail, "sessionId": clean.result["seed"]["sessionId"],
            "timestamp": "2026-01-02T00:00:00.000Z", "type": "user", "cwd": "/w",
            "message": {"role": "user", "parts": [{"text": "went on"}]}});
        writeln!(File::options().append(true).open(&child).unwrap(), "{record}").unwrap();
        if by_recover {
            assert_eq!(recover(&world, "grown"), ["completed"]);
        }
        FORK.retry(&world, &clean.result, true, "grown child");
        assert_eq!(world.client_history(&child).last().unwrap(), "new");
        world.assert_settled("grown child");
    }
}

#[test]
fn an_anchor_cut_at_any_byte_is_ended_or_taken_for_whole() {
    let clean = clean(&ANCHOR_RUN);
    let mut world = ANCHOR_RUN.killed("append-unsynced");
    let whole = fs::read(&world.transcript).unwrap();
    let (start, end) = (world.before.len(), whole.len());
    world.keep();
    let mut cuts: Vec<usize> = (start..end).step_by(61).collect();
    cuts.extend([start + 1, end - 2, end - 1, end]);
    for cut in cuts {
        let at = format!("anchor of {} bytes cut at {}", end - start, cut - start);
        world.bring_back();
        fs::write(&world.transcript, &whole[..cut]).unwrap();
        world.assert_sound(&at);
        let is_whole = cut + 1 >= end;
        assert_eq!(recover(&world, &at), [if is_whole { "completed" } else { "abandoned" }], "{at}");
        world.assert_settled(&at);
        let bytes = fs::read(&world.transcript).unwrap();
        assert!(bytes.starts_with(&whole[..cut]) && bytes.len() <= cut + 1, "{at}");
        finish(&ANCHOR_RUN, &world, &clean, is_whole, &at);
    }
}

#[test]
fn a_choice_that_no_longer_fits_is_stale() {
    for edit in [true, false] {
        let mut world = ANCHOR_RUN.killed("pending");
        assert_eq!(recover(&world, "stale"), ["abandoned"]);
        let text = fs::read_to_string(&world.transcript).unwrap();
        let now = if edit {
            text.replace("began", "begun")
        } else {
            let grown = text.lines().last().unwrap().replace("\"a3\"", "\"a9\"").replace("\"u3\"", "\"a2\"");
            format!("{text}{grown}\n")
        };
        fs::write(&world.transcript, &now).unwrap();
        refused(&world, &["--leaf", "a2", "--seed", "in-place"], 4, "stale-source");
        world.before = now.into_bytes();
        assert_eq!(fs::read(&world.transcript).unwrap(), world.before);
        assert_eq!(world.states(OPERATION), [State::Pending, State::Abandoned]);
    }
}

#[test]
fn a_transcript_that_is_gone_takes_the_leftovers_of_its_fork_with_it() {
    let world = FORK.killed("fork-backups");
    let child = child_of(&world);
    let backups = world.env.path("home/.qwen/file-history").join(child.file_stem().unwrap());
    assert!(backups.exists() && !world.litter().is_empty());
    fs::remove_file(&world.transcript).unwrap();
    assert_eq!(recover(&world, "gone"), ["abandoned"]);
    assert!(!backups.exists());
    assert_eq!(world.litter(), Vec::<String>::new());
}

#[test]
fn a_torn_record_waits_for_somebody_who_ends_it() {
    for (scenario, point) in [(&WRITER, "append-half#2"), (&WRITER_WITHOUT_SEED, "append-half")] {
        let world = scenario.killed(point);
        let torn = fs::read(&world.transcript).unwrap();
        assert!(!torn.ends_with(b"\n"));
        // Neither a dry run nor a refusal may take the mark away without ending the line.
        let dry = ["--leaf", "a2", "--seed", "none", "--dry-run", "--operation-id", "dry"];
        assert!(run(world.call("resume", &dry), None, "").status.success());
        assert_eq!(fs::read(&world.transcript).unwrap(), torn, "a dry run wrote");
        let stopped =
            run(world.call("resume", &["--leaf", "a2", "--operation-id", "next"]), Some("leased=kill"), "");
        assert_eq!(stopped.status.signal(), Some(9));
        recover(&world, "torn record");
        assert_eq!(fs::read(&world.transcript).unwrap(), [&torn[..], b"\n"].concat());
        recover(&world, "torn record, again");
        assert_eq!(fs::read(&world.transcript).unwrap(), [&torn[..], b"\n"].concat());
    }
}

#[test]
fn a_command_that_outlives_us_keeps_the_lease() {
    let world = World::new();
    let pipe = world.env.path("down");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let script = format!("echo up; read x < {}", pipe.display());
    let args = ["--leaf", "a2", "--", "/bin/sh", "-c", &script, "{session}"];
    let mut stopped = world.call("resume", &args).stderr(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(stopped.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "up\n", "the command lives");
    stopped.kill().unwrap();
    assert_eq!(stopped.wait().unwrap().signal(), Some(9));

    let child = world.children().pop().unwrap();
    let held = |args: &[&str]| {
        let ran = world.env.run(&[&["resume", "--json"], args].concat()).code(4);
        let document = if ran.stdout.is_empty() { last_document(&ran.stderr) } else { ran.json() };
        assert_eq!(document["refusal"]["code"], "lease-held", "{document}");
        assert_eq!(document["refusal"]["detail"]["owner"]["what"], "sh", "{document}");
    };
    held(&[child.to_str().unwrap(), "--seed", "none"]);
    let again = [&[world.transcript.to_str().unwrap(), "--operation-id", OPERATION], &args[..]].concat();
    held(&again);
    assert_eq!(recover(&world, "live command"), Vec::<String>::new());
    // A missing `observed` is no finding.
    let (found, _) = verify(&world.env.path("state"), &Scope::default(), None).unwrap();
    assert!(found.findings.is_empty() && found.notes.is_empty(), "{found:?}");
    assert_eq!(world.states(OPERATION), [State::Pending, State::Completed]);

    writeln!(File::options().write(true).open(&pipe).unwrap(), "x").unwrap();
    let other = world.env.run(&["resume", child.to_str().unwrap(), "--seed", "none", "--wait", "20s"]);
    let _ = other.code(0);
}

fn last_document(text: &str) -> Value {
    let line = text.lines().rev().find(|l| l.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no document: {text}"))).unwrap()
}

/// Stops at moments that nobody chose. The seed of a failure is in its message.
#[test]
fn a_kill_at_a_random_moment() {
    let seed = std::env::var("OFFSHOOT_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into());
    let mut state: u64 = seed;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    let scenarios = [&FORK, &ANCHOR_RUN];
    let cleans = scenarios.map(clean);
    let began = Instant::now();
    let once = scenarios[0].prepared();
    let timed = Instant::now();
    assert!(scenarios[0].run(&once, None).status.success());
    let span = u64::try_from(timed.elapsed().as_micros()).unwrap();
    let (mut stopped, mut rounds) = (0, 0);
    while rounds < 60 && began.elapsed() < Duration::from_secs(12) {
        let which = rounds % 2;
        let (scenario, clean) = (scenarios[which], &cleans[which]);
        let micros = random(span);
        let at = format!("seed {seed}, round {rounds}, {} killed after {micros} us", scenario.name);
        let world = scenario.prepared();
        let mut child = world.call(scenario.verb, scenario.args).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(micros));
        child.kill().unwrap();
        if child.wait().unwrap().signal() == Some(9) {
            stopped += 1;
        }
        world.assert_sound(&at);
        let recovered = if random(2) == 0 { recover(&world, &at) } else { Vec::new() };
        let states = world.states(OPERATION);
        // Whatever was whole is answered for, whoever finds it.
        let whole = states.contains(&State::Completed)
            || (recovered.is_empty() && states == [State::Pending] && is_whole(&world));
        finish(scenario, &world, clean, whole, &at);
        rounds += 1;
    }
    assert!(rounds >= 4 && stopped > 0, "seed {seed}: {stopped} of {rounds} were stopped");
}

/// Whether the pending seed is on the disk, by a look of its own.
fn is_whole(world: &World) -> bool {
    let entries = world.entries(OPERATION);
    let seed = entries[0].body.seed.as_ref().unwrap();
    match &seed.anchor {
        Some(anchor) => fs::read(&world.transcript).unwrap().ends_with(anchor.bytes.as_bytes()),
        None => PathBuf::from(&seed.transcript).exists(),
    }
}

/// The transcript ends 100 bytes before a multiple of 512, beyond any other file, so that an append is cut short.
fn padded(world: &mut World) {
    let text = fs::read_to_string(&world.transcript).unwrap();
    let room = 20 * 512 - 100 - text.len();
    fs::write(
        &world.transcript,
        text.replacen("went one way", &format!("went one way{}", "x".repeat(room)), 1),
    )
    .unwrap();
}

/// Disks that are full at any size: every write of the run is the first one too much once.
#[test]
fn a_file_that_cannot_grow_is_a_fault_and_nothing_is_lost() {
    let runs = [
        Scenario { prepare: padded, ..FORK },
        Scenario { prepare: padded, ..ANCHOR_RUN },
        Scenario { prepare: padded, ..WRITER },
    ];
    for scenario in &runs {
        let clean = clean(scenario);
        let (mut blocks, mut faults, mut short) = (0, 0, false);
        loop {
            let at = format!("{}, files of at most {blocks} blocks", scenario.name);
            let world = scenario.prepared();
            let output = scenario.run_limited(&world, blocks);
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            world.assert_sound(&at);
            assert_eq!(world.litter(), Vec::<String>::new(), "{at}");
            let done = output.status.code() == Some(0);
            if !done {
                assert_eq!(output.status.code(), Some(1), "{at}: {said}");
                assert!(said.contains("\"fault\":{\"code\":\"io\""), "{at}: {said}");
                faults += 1;
                short |= said.contains("bytes were written at offset");
            }
            let again = scenario.run(&world, None);
            assert!(again.status.success(), "{at}: {}{}", text(&again.stdout), text(&again.stderr));
            finish(scenario, &world, &clean, true, &at);
            if done {
                break;
            }
            // One block at a time where single files end, and around the end of the transcript.
            blocks = if !(6..18).contains(&blocks) { blocks + 1 } else { 18 };
        }
        assert!(faults > 6, "{}: only {faults} limits were felt", scenario.name);
        let appends = scenario.args.contains(&"in-place");
        assert_eq!(short, appends, "{}: an append to the transcript was cut short", scenario.name);
    }
}
