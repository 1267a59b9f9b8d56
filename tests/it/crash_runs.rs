//! The runs that the crash tests stop, with every point that each of them reaches.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Output, Stdio},
};

use After::{Abandoned, Completed, Done, NeverMade};
use offshoot::store::ledger::entry::State;
use serde_json::Value;

use crate::crash_world::{OPERATION, Visits, World, result, run, text};

/// What a stop within a phase of the run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The operation counts as never made.
    NeverMade,
    /// It was recorded, its seed is not there: abandoned.
    Abandoned,
    /// It was recorded and its seed is whole: completed.
    Completed,
    /// It was completed before the stop.
    Done,
}

pub struct Scenario {
    pub name: &'static str,
    pub verb: &'static str,
    pub args: &'static [&'static str],
    /// Record bodies for `--write`.
    pub bodies: &'static [&'static str],
    pub prepare: fn(&mut World),
    /// Where the client stands in the seeded session in the end.
    pub history: &'static [&'static str],
    /// Every point that a run reaches, in order, in the phases that it goes through.
    pub phases: &'static [(After, &'static [&'static [&'static str]])],
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
    pub fn prepared(&self) -> World {
        let mut world = World::new();
        (self.prepare)(&mut world);
        world.before = std::fs::read(&world.transcript).unwrap();
        world
    }

    /// As [`trace`] names them, each with what a stop there comes to.
    pub fn points(&self) -> Vec<(String, After)> {
        let mut visits = Visits::default();
        let phases = self.phases.iter();
        phases
            .flat_map(|(after, runs)| runs.concat().into_iter().map(|p| (p, *after)))
            .map(|(point, after)| (visits.name(point), after))
            .collect()
    }

    /// [`Scenario::points`], which are those that a clean run reached.
    pub fn points_reached(&self, reached: &[String]) -> Vec<(String, After)> {
        let named = self.points();
        let names: Vec<&str> = named.iter().map(|(point, _)| point.as_str()).collect();
        assert_eq!(names, reached, "{}: the table names every point that is reached", self.name);
        named
    }

    pub fn run(&self, world: &World, plan: Option<&str>) -> Output {
        run(world.call(self.verb, self.args), plan, &self.input(world))
    }

    /// What a run leaves that was killed at a point.
    pub fn killed(&self, point: &str) -> World {
        let world = self.prepared();
        let killed = self.run(&world, Some(&format!("{point}=kill")));
        let at = format!("{}, stopped at {point}", self.name);
        assert_eq!(killed.status.signal(), Some(9), "{at}: not reached: {}", text(&killed.stderr));
        world
    }

    /// Runs it where no file may grow longer than so many blocks of 512 bytes.
    pub fn run_limited(&self, world: &World, blocks: u32) -> Output {
        let whole = world.call(self.verb, self.args);
        let mut limited = Command::new("/bin/sh");
        limited.arg("-c").arg(format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")).arg(whole.get_program());
        limited.args(whole.get_args()).env_clear();
        limited.envs(whole.get_envs().filter_map(|(k, v)| Some((k, v?))));
        limited.current_dir(whole.get_current_dir().unwrap());
        limited.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        run(limited, None, &self.input(world))
    }

    /// The record bodies that are not there yet: what a caller sends who takes up the operation.
    pub fn input(&self, world: &World) -> String {
        let bytes = std::fs::read_to_string(&world.transcript).unwrap();
        let there =
            bytes.lines().filter(|l| l.contains("body-") && serde_json::from_str::<Value>(l).is_ok()).count();
        self.bodies[there..].iter().map(|b| format!("{b}\n")).collect()
    }

    /// What another run chooses. Where a writer goes on, it must be the branch that this one goes on with: another
    /// choice would be an audit's finding.
    pub fn other_leaf(&self, world: &World) -> String {
        if self.bodies.is_empty() {
            return "a3".to_owned();
        }
        let bytes = std::fs::read_to_string(&world.transcript).unwrap();
        let mut records = bytes.lines().rev().filter_map(|l| serde_json::from_str::<Value>(l).ok());
        let written = records.find(|r| r.to_string().contains("body-"));
        written.map_or("a2".to_owned(), |r| r["uuid"].as_str().unwrap().to_owned())
    }

    /// Runs it again with the same id, and once more; both must give the result of a run that nobody stopped.
    pub fn retry(&self, world: &World, expected: &Value, replayed: bool, at: &str) {
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

const WENT_ONE_WAY: &[&str] = &["u1", "a1", "f1", "u2", "a2"];

pub const FORK: Scenario = Scenario {
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
                &["pending", "fork-half", "fork-staged", "backup-copied", "backup-copied", "fork-backups"],
            ],
        ),
        (Completed, &[&["publish.linked", "seeded"], LINE]),
        (Done, &[LINE_IS_THERE, &["completed"]]),
    ],
};

/// Without a lease: there is nothing of the source to hold.
pub const FORK_AT: Scenario = Scenario {
    name: "fork --at",
    verb: "fork",
    args: &["--at", "a2"],
    bodies: &[],
    prepare: nothing,
    history: WENT_ONE_WAY,
    phases: &[
        (NeverMade, &[&["claim-made", "claimed"], LINE]),
        (
            Abandoned,
            &[
                LINE_IS_THERE,
                &["pending", "fork-half", "fork-staged", "backup-copied", "backup-copied", "fork-backups"],
            ],
        ),
        (Completed, &[&["publish.linked", "seeded"], LINE]),
        (Done, &[LINE_IS_THERE, &["completed"]]),
    ],
};

pub const ANCHOR_RUN: Scenario = Scenario {
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
};

pub const ANCHOR_BEHIND: Scenario = Scenario {
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
};

pub const NO_OP: Scenario = Scenario {
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
};

pub const NONE: Scenario = Scenario {
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
};

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

pub const WRITER: Scenario = Scenario {
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
};

pub const WRITER_WITHOUT_SEED: Scenario = Scenario {
    name: "none --write",
    verb: "resume",
    args: &["--leaf", "a2", "--seed", "none", "--write"],
    bodies: BODIES,
    prepare: nothing,
    history: WENT_ONE_WAY,
    phases: &[
        (NeverMade, &[START, LINE]),
        (Completed, &[LINE_IS_THERE, &["pending", "agent-lock-staged", "agent-lock-linked", "seeded"], LINE]),
        (Done, &[LINE_IS_THERE, &["completed"], TWO_RECORDS]),
    ],
};

pub const UNDO: Scenario = Scenario {
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
};

pub const COMMAND: Scenario = Scenario {
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
                &["pending", "fork-half", "fork-staged", "backup-copied", "backup-copied", "fork-backups"],
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
};

const REPLACE: &[&str] = &[
    "backup-half",
    "backup-staged",
    "publish.linked",
    "backed-up",
    "replace-half",
    "replace-staged",
    "replace-checked",
];
const REPLACE_IS_THERE: &[&str] = &["replace-renamed", "replaced", "seeded"];

pub const TRUNCATE: Scenario = Scenario {
    name: "truncate",
    verb: "truncate",
    args: &["--after", "u2"],
    bodies: &[],
    prepare: nothing,
    history: &["u1", "a1", "f1", "u2"],
    phases: &[
        (NeverMade, &[&["leased", "claim-made", "claimed"], LINE]),
        (Abandoned, &[LINE_IS_THERE, &["pending"], LOCK, REPLACE]),
        (Completed, &[REPLACE_IS_THERE, LINE]),
        (Done, &[LINE_IS_THERE, &["completed", "agent-lock-retired"]]),
    ],
};

pub const RESTORE: Scenario = Scenario {
    name: "restore",
    verb: "restore",
    args: &[],
    bodies: &[],
    prepare: |world| {
        let first = ["--after", "f1", "--operation-id", "first"];
        assert!(run(world.call("truncate", &first), None, "").status.success());
    },
    history: &["u1", "a1", "f1", "u3", "a3"],
    phases: TRUNCATE.phases,
};
