//! The recovery table: the built binary is stopped by SIGKILL at every point of every kind of run, and what it
//! leaves is settled in three ways, by `recover`, by a retry, and by another run on the transcript.
//!
//! Which points there are is found out by running, so that a new one cannot be forgotten: `crash_runs` must name
//! exactly those that are reached, and a point at which the process is not killed fails the test.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, process::Stdio};

use offshoot::store::ledger::entry::State;
use serde_json::Value;

use crate::{
    crash_runs::{
        ANCHOR_BEHIND, ANCHOR_RUN, After, COMMAND, FORK, FORK_AT, NO_OP, NONE, Scenario, UNDO, WRITER,
        WRITER_WITHOUT_SEED,
    },
    crash_world::{OPERATION, World, result, run, text, trace},
};

/// What a run that nobody stops reports and leaves.
pub struct Clean {
    points: Vec<String>,
    pub result: Value,
    picture: BTreeMap<String, String>,
}

pub fn clean(scenario: &Scenario) -> Clean {
    let world = scenario.prepared();
    let (points, output) = trace(&world, world.call(scenario.verb, scenario.args), &scenario.input(&world));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result = result(&world, &output);
    world.assert_settled(scenario.name);
    let seeded = result.pointer("/seed/transcript").unwrap_or(&result["transcript"]);
    let seeded = world.env.path(seeded.as_str().unwrap().trim_start_matches('/'));
    assert_eq!(world.client_history(&seeded)[..scenario.history.len()], *scenario.history);
    Clean { points, result, picture: world.picture() }
}

fn sweep(scenario: &Scenario) {
    let clean = clean(scenario);
    for (point, after) in scenario.points_reached(&clean.points) {
        let at = format!("{}, stopped at {point}", scenario.name);
        let mut world = scenario.killed(&point);
        world.assert_sound(&at);
        world.keep();

        let recovered = recover(&world, &at);
        world.assert_settled(&format!("{at}, recovered"));
        let outcome = recovered.iter().map(String::as_str).collect::<Vec<_>>();
        let wanted: &[&str] = match after {
            After::NeverMade | After::Done => &[],
            After::Abandoned => &["abandoned"],
            After::Completed => &["completed"],
        };
        assert_eq!(outcome, wanted, "{at}");
        assert_eq!(recover(&world, &at), Vec::<String>::new(), "{at}: a second time");
        let replayed = matches!(after, After::Completed | After::Done);
        finish(scenario, &world, &clean, replayed, &format!("{at}, recovered"));

        world.bring_back();
        finish(scenario, &world, &clean, replayed, &format!("{at}, retried at once"));

        world.bring_back();
        let at = format!("{at}, settled by another run");
        let leaf = scenario.other_leaf(&world);
        let other = ["--leaf", &leaf, "--seed", "none", "--operation-id", "other"];
        let output = run(world.call("resume", &other), None, "");
        assert_eq!(output.status.code(), Some(0), "{at}: {}{}", text(&output.stdout), text(&output.stderr));
        world.assert_settled(&at);
        finish(scenario, &world, &clean, replayed, &at);
    }
}

pub fn recover(world: &World, at: &str) -> Vec<String> {
    let ran = world.env.run(&["recover", "--json"]);
    assert_eq!(ran.code, Some(0), "{at}: {}{}", ran.stdout, ran.stderr);
    let settled = ran.json()["settled"].as_array().unwrap().clone();
    settled.iter().map(|s| s["outcome"].as_str().unwrap().to_owned()).collect()
}

pub fn finish(scenario: &Scenario, world: &World, clean: &Clean, replayed: bool, at: &str) {
    scenario.retry(world, &clean.result, replayed, at);
    world.assert_settled(at);
    assert_eq!(world.picture(), clean.picture, "{at}");
}

/// Recovery is stopped in its turn, at each of its points.
fn recovery_sweep(scenario: &Scenario, point: &str) {
    let clean = clean(scenario);
    let mut world = scenario.killed(point);
    world.keep();
    let recover_command = |world: &World| {
        let mut command = world.env.command(&["recover", "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let (points, _) = trace(&world, recover_command(&world), "");
    assert!(!points.is_empty(), "{}, {point}: recovery reaches no point", scenario.name);
    for second in points {
        let at = format!("{}, stopped at {point}, its recovery at {second}", scenario.name);
        world.bring_back();
        let killed = run(recover_command(&world), Some(&format!("{second}=kill")), "");
        assert_eq!(killed.status.signal(), Some(9), "{at}: not reached");
        world.assert_sound(&at);
        recover(&world, &at);
        world.assert_settled(&at);
        let completed = world.states(OPERATION).contains(&State::Completed);
        finish(scenario, &world, &clean, completed, &at);
    }
}

#[test]
fn recovery_stopped_anywhere() {
    for (scenario, point) in [
        (&FORK, "fork-backups"),
        (&FORK, "publish.linked"),
        (&FORK_AT, "publish.linked"),
        (&FORK, "ledger-line-unsynced"),
        (&ANCHOR_RUN, "agent-lock-linked"),
        (&ANCHOR_BEHIND, "append-half"),
        (&WRITER, "append-unsynced"),
        (&WRITER, "append-half#2"),
    ] {
        recovery_sweep(scenario, point);
    }
}

/// Every point fails instead of stopping the process: exit 1 with a fault, nothing of ours is left behind, and a
/// retry ends as if nothing had happened.
#[test]
fn a_failure_anywhere_is_a_fault_that_a_retry_gets_over() {
    for scenario in [&COMMAND, &ANCHOR_BEHIND, &WRITER, &WRITER_WITHOUT_SEED, &NO_OP] {
        let clean = clean(scenario);
        let mut ended = false;
        for (point, _) in scenario.points() {
            let at = format!("{}, failing at {point}", scenario.name);
            let world = scenario.prepared();
            let failed = scenario.run(&world, Some(&format!("{point}=error")));
            let (out, err) = (text(&failed.stdout), text(&failed.stderr));
            assert!(!err.contains("panicked"), "{at}: {err}");
            // Giving the agent's lock back is tried in another way, which succeeds. Once a command has ended, its
            // exit status is ours, and what could not be recorded is said.
            let silent = point == "agent-lock-retired";
            let command_ended = ended;
            ended |= point == "command-ended";
            let status = if silent || command_ended { 0 } else { 1 };
            assert_eq!(failed.status.code(), Some(status), "{at}: {out}{err}");
            let said = out.contains(&fault_of(&point)) || err.contains(&fault_of(&point));
            assert!(silent || said, "{at}: {out}{err}");
            world.assert_sound(&at);
            assert_eq!(world.litter(), Vec::<String>::new(), "{at}");
            let first = scenario.run(&world, None);
            assert_eq!(first.status.code(), Some(0), "{at}: {}{}", text(&first.stdout), text(&first.stderr));
            finish(scenario, &world, &clean, true, &at);
        }
    }
}

fn fault_of(point: &str) -> String {
    format!("fault point `{}`", point.split('#').next().unwrap())
}

#[test]
fn a_fork_stopped_anywhere() {
    sweep(&FORK);
}

#[test]
fn a_fork_at_a_record_stopped_anywhere() {
    sweep(&FORK_AT);
}

#[test]
fn an_anchor_stopped_anywhere() {
    sweep(&ANCHOR_RUN);
}

#[test]
fn an_anchor_behind_an_unfinished_line_stopped_anywhere() {
    sweep(&ANCHOR_BEHIND);
}

#[test]
fn an_anchor_that_is_not_needed_stopped_anywhere() {
    sweep(&NO_OP);
}

#[test]
fn no_seed_stopped_anywhere() {
    sweep(&NONE);
}

#[test]
fn a_writer_below_an_anchor_stopped_anywhere() {
    sweep(&WRITER);
}

#[test]
fn a_writer_without_a_seed_stopped_anywhere() {
    sweep(&WRITER_WITHOUT_SEED);
}

#[test]
fn an_undo_stopped_anywhere() {
    sweep(&UNDO);
}

#[test]
fn a_fork_with_a_command_stopped_anywhere() {
    sweep(&COMMAND);
}
