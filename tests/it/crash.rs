//! The recovery table: the built binary is stopped by SIGKILL at every point of every kind of run, and what it
//! leaves is settled in three ways, by `recover`, by a retry, and by another run on the transcript.
//!
//! Which points there are is found out by running, so that a new one cannot be forgotten: the table below must name
//! exactly those that are reached, and a point at which the process is not killed fails the test.

use std::{os::unix::process::ExitStatusExt, process::Output};

use offshoot::store::ledger::entry::State;
use serde_json::Value;

use crate::crash_world::{OPERATION, Visits, World, result, run, trace};

/// What a stop within a phase of the run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The operation counts as never made.
    NeverMade,
    /// It was recorded, its seed is not there: abandoned.
    Abandoned,
    /// It was recorded and its seed is whole: completed.
    Completed,
    /// It was completed before the stop.
    Done,
}

struct Scenario {
    name: &'static str,
    verb: &'static str,
    args: &'static [&'static str],
    /// Record bodies for `--write`.
    bodies: &'static [&'static str],
    prepare: fn(&mut World),
    /// Where the client stands in the seeded session in the end.
    history: &'static [&'static str],
    /// Every point that a run reaches, in order, in the phases that it goes through.
    phases: &'static [(After, &'static [&'static [&'static str]])],
}

/// An append to the ledger, up to where the entry counts, and from there.
const LINE: &[&str] = &["ledger-before-line", "ledger-line-half"];
const LINE_IS_THERE: &[&str] =
    &["ledger-line-unsynced", "ledger-after-line", "head-half", "ledger-after-head"];
const START: &[&str] = &["leased", "inspected", "claim-made", "claimed"];
const LOCK: &[&str] = &["agent-lock-staged", "agent-lock-linked", "agent-leased"];
const ANCHOR: &[&str] = &["in-place-checked", "append-half"];
const ANCHOR_IS_THERE: &[&str] = &["append-unsynced", "in-place-appended"];

fn nothing(_: &mut World) {}

impl Scenario {
    fn prepared(&self) -> World {
        let mut world = World::new();
        (self.prepare)(&mut world);
        world.before = std::fs::read(&world.transcript).unwrap();
        world
    }

    /// As [`trace`] names them, each with what a stop there comes to.
    fn points(&self) -> Vec<(String, After)> {
        let mut visits = Visits::default();
        let phases = self.phases.iter();
        phases
            .flat_map(|(after, runs)| runs.concat().into_iter().map(|p| (p, *after)))
            .map(|(point, after)| (visits.name(point), after))
            .collect()
    }

    fn run(&self, world: &World, plan: Option<&str>) -> Output {
        run(world.call(self.verb, self.args), plan, &self.input(world))
    }

    /// The record bodies that are not there yet: what a caller sends who takes up the operation.
    fn input(&self, world: &World) -> String {
        let bytes = std::fs::read_to_string(&world.transcript).unwrap();
        let there =
            bytes.lines().filter(|l| l.contains("body-") && serde_json::from_str::<Value>(l).is_ok()).count();
        self.bodies[there..].iter().map(|b| format!("{b}\n")).collect()
    }

    /// What another run chooses. Where a writer goes on, it must be the branch that this one goes on with: another
    /// choice would be an audit's finding.
    fn other_leaf(&self, world: &World) -> String {
        if self.bodies.is_empty() {
            return "a3".to_owned();
        }
        let bytes = std::fs::read_to_string(&world.transcript).unwrap();
        let mut records = bytes.lines().rev().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let written = records.find(|r| r.to_string().contains("body-"));
        written.map_or("a2".to_owned(), |r| r["uuid"].as_str().unwrap().to_owned())
    }

    /// Runs it again with the same id, and once more; both must give the result of a run that nobody stopped.
    fn retry(&self, world: &World, expected: &Value, replayed: bool, at: &str) {
        let first = self.run(world, None);
        assert_eq!(first.status.code(), Some(0), "{at}: {}{}", text(&first.stdout), text(&first.stderr));
        let mut first = result(world, &first);
        assert_eq!(first["replayed"], replayed, "{at}");
        let entries = world.entries(OPERATION).len();
        let mut second = result(world, &self.run(world, None));
        assert_eq!(second["replayed"], true, "{at}");
        for answer in [&mut first, &mut second] {
            answer["replayed"] = false.into();
            assert_eq!(answer, expected, "{at}");
        }
        let observed = world.states(OPERATION).iter().filter(|s| **s == State::Observed).count();
        let grown = world.entries(OPERATION).len() - entries;
        assert!(grown == 0 || observed > 0, "{at}: a replay added an entry");
        let completed = world.states(OPERATION).iter().filter(|s| **s == State::Completed).count();
        assert_eq!(completed, 1, "{at}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sweep(scenario: &Scenario) {
    let clean = scenario.prepared();
    let (points, output) = trace(&clean, clean.call(scenario.verb, scenario.args), &scenario.input(&clean));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = result(&clean, &output);
    clean.assert_settled(scenario.name);
    let picture = clean.picture();
    let seeded =
        clean.env.path("").join(expected["seed"]["transcript"].as_str().unwrap().trim_start_matches('/'));
    assert_eq!(clean.client_history(&seeded)[..scenario.history.len()], *scenario.history);

    let named = scenario.points();
    let names: Vec<&str> = named.iter().map(|(point, _)| point.as_str()).collect();
    assert_eq!(names, points, "{}: the table names every point that is reached", scenario.name);

    for (point, after) in named {
        let at = format!("{}, stopped at {point}", scenario.name);
        let mut world = scenario.prepared();
        let killed = scenario.run(&world, Some(&format!("{point}=kill")));
        assert_eq!(killed.status.signal(), Some(9), "{at}: not reached: {}", text(&killed.stderr));
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
        finish(scenario, &world, &expected, replayed, &picture, &format!("{at}, recovered"));

        world.bring_back();
        finish(scenario, &world, &expected, replayed, &picture, &format!("{at}, retried at once"));

        world.bring_back();
        let at = format!("{at}, settled by another run");
        let leaf = scenario.other_leaf(&world);
        let other = ["--leaf", &leaf, "--seed", "none", "--operation-id", "other"];
        let output = run(world.call("resume", &other), None, "");
        assert_eq!(output.status.code(), Some(0), "{at}: {}{}", text(&output.stdout), text(&output.stderr));
        world.assert_settled(&at);
        finish(scenario, &world, &expected, replayed, &picture, &at);
    }
}

fn recover(world: &World, at: &str) -> Vec<String> {
    let ran = world.env.run(&["recover", "--json"]);
    assert_eq!(ran.code, Some(0), "{at}: {}{}", ran.stdout, ran.stderr);
    let settled = ran.json()["settled"].as_array().unwrap().clone();
    settled.iter().map(|s| s["outcome"].as_str().unwrap().to_owned()).collect()
}

fn finish(
    scenario: &Scenario,
    world: &World,
    expected: &Value,
    replayed: bool,
    picture: &std::collections::BTreeMap<String, String>,
    at: &str,
) {
    scenario.retry(world, expected, replayed, at);
    world.assert_settled(at);
    assert_eq!(&world.picture(), picture, "{at}");
}

use After::{Abandoned, Completed, Done, NeverMade};

const WENT_ONE_WAY: &[&str] = &["u1", "a1", "f1", "u2", "a2"];

#[test]
fn a_fork_stopped_anywhere() {
    sweep(&Scenario {
        name: "fork",
        verb: "resume",
        args: &["--leaf", "a2"],
        bodies: &[],
        prepare: nothing,
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (
                Abandoned,
                &[
                    LINE_IS_THERE,
                    &[
                        "pending",
                        "fork-half",
                        "fork-staged",
                        "backup-copied",
                        "backup-copied",
                        "fork-backups",
                    ],
                ],
            ),
            (Completed, &[&["publish.linked", "seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed"]]),
        ],
    });
}

#[test]
fn an_anchor_stopped_anywhere() {
    sweep(&Scenario {
        name: "in-place",
        verb: "resume",
        args: &["--leaf", "a2", "--seed", "in-place"],
        bodies: &[],
        prepare: nothing,
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (Abandoned, &[LINE_IS_THERE, &["pending"], LOCK, ANCHOR]),
            (Completed, &[ANCHOR_IS_THERE, &["seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed", "agent-lock-retired"]]),
        ],
    });
}

#[test]
fn an_anchor_behind_an_unfinished_line_stopped_anywhere() {
    sweep(&Scenario {
        name: "in-place, unfinished line",
        verb: "resume",
        args: &["--leaf", "a2", "--seed", "in-place"],
        bodies: &[],
        prepare: |world| {
            // Whole, but for its end.
            let bytes = std::fs::read(&world.transcript).unwrap();
            std::fs::write(&world.transcript, &bytes[..bytes.len() - 1]).unwrap();
        },
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (Abandoned, &[LINE_IS_THERE, &["pending"], LOCK, ANCHOR]),
            (Completed, &[ANCHOR_IS_THERE, &["seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed", "agent-lock-retired"]]),
        ],
    });
}

#[test]
fn an_anchor_that_is_not_needed_stopped_anywhere() {
    sweep(&Scenario {
        name: "in-place, nothing to write",
        verb: "resume",
        args: &["--leaf", "a3", "--seed", "in-place"],
        bodies: &[],
        prepare: nothing,
        history: &["u1", "a1", "f1", "u3", "a3"],
        phases: &[
            (NeverMade, &[START, LINE]),
            (Completed, &[LINE_IS_THERE, &["pending"], LOCK, &["seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed", "agent-lock-retired"]]),
        ],
    });
}

#[test]
fn no_seed_stopped_anywhere() {
    sweep(&Scenario {
        name: "none",
        verb: "resume",
        args: &["--leaf", "a2", "--seed", "none"],
        bodies: &[],
        prepare: nothing,
        history: &["u1", "a1", "f1", "u3", "a3"],
        phases: &[
            (NeverMade, &[START, LINE]),
            (Completed, &[LINE_IS_THERE, &["pending", "seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed"]]),
        ],
    });
}

const BODIES: &[&str] = &[
    r#"{"type":"user","cwd":"/w","message":{"role":"user","parts":[{"text":"body-0"}]}}"#,
    r#"{"type":"assistant","cwd":"/w","message":{"role":"model","parts":[{"text":"body-1"}]}}"#,
];
const TWO_RECORDS: &[&str] = &[
    "writer-marked",
    "append-half",
    "append-unsynced",
    "append-half",
    "append-unsynced",
    "agent-lock-retired",
];

#[test]
fn a_writer_below_an_anchor_stopped_anywhere() {
    sweep(&Scenario {
        name: "in-place --write",
        verb: "resume",
        args: &["--leaf", "a2", "--seed", "in-place", "--write"],
        bodies: BODIES,
        prepare: nothing,
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (Abandoned, &[LINE_IS_THERE, &["pending"], LOCK, ANCHOR]),
            (Completed, &[ANCHOR_IS_THERE, &["seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed"], TWO_RECORDS]),
        ],
    });
}

#[test]
fn a_writer_without_a_seed_stopped_anywhere() {
    sweep(&Scenario {
        name: "none --write",
        verb: "resume",
        args: &["--leaf", "a2", "--seed", "none", "--write"],
        bodies: BODIES,
        prepare: nothing,
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (
                Completed,
                &[LINE_IS_THERE, &["pending", "agent-lock-staged", "agent-lock-linked", "seeded"], LINE],
            ),
            (Done, &[LINE_IS_THERE, &["completed"], TWO_RECORDS]),
        ],
    });
}

#[test]
fn an_undo_stopped_anywhere() {
    sweep(&Scenario {
        name: "undo",
        verb: "undo",
        args: &[],
        bodies: &[],
        prepare: |world| {
            let first = ["--leaf", "a2", "--seed", "in-place", "--operation-id", "first"];
            assert!(run(world.call("resume", &first), None, "").status.success());
        },
        history: &["u1", "a1", "f1", "u3", "a3"],
        phases: &[
            (NeverMade, &[START, LINE]),
            (Abandoned, &[LINE_IS_THERE, &["pending"], LOCK, ANCHOR]),
            (Completed, &[ANCHOR_IS_THERE, &["seeded"], LINE]),
            (Done, &[LINE_IS_THERE, &["completed", "agent-lock-retired"]]),
        ],
    });
}

#[test]
fn a_fork_with_a_command_stopped_anywhere() {
    sweep(&Scenario {
        name: "command",
        verb: "resume",
        args: &["--leaf", "a2", "--", "/bin/sh", "-c", "exit 0", "{session}"],
        bodies: &[],
        prepare: nothing,
        history: WENT_ONE_WAY,
        phases: &[
            (NeverMade, &[START, LINE]),
            (
                Abandoned,
                &[
                    LINE_IS_THERE,
                    &[
                        "pending",
                        "fork-half",
                        "fork-staged",
                        "backup-copied",
                        "backup-copied",
                        "fork-backups",
                    ],
                ],
            ),
            (Completed, &[&["publish.linked", "seeded"], LINE]),
            (
                Done,
                &[
                    LINE_IS_THERE,
                    &["completed", "command-waiting", "command-named", "command-running", "command-ended"],
                    LINE,
                    LINE_IS_THERE,
                ],
            ),
        ],
    });
}
