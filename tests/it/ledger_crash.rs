//! The ledger stopped at every step of an append: recorded once or not at all (I7).

use std::{
    fs,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use offshoot::store::{
    faults::{self, FaultPlan},
    ledger::{Heads, Scope, entry::State, verify},
};

use crate::ledger::{bare, filled, now, open};

const ROOT: &str = "OFFSHOOT_TEST_CRASH_ROOT";
const PLAN: &str = "OFFSHOOT_TEST_CRASH_PLAN";

/// Not a test of its own: a process that appends one entry and is stopped on the way.
#[test]
fn child_appends_under_a_plan() {
    let Ok(root) = std::env::var(ROOT) else { return };
    faults::set(FaultPlan::parse(&std::env::var(PLAN).unwrap()).unwrap());
    let ledger = open(Path::new(&root));
    let failed = ledger.append(bare("next", State::Pending), now()).unwrap_err();
    assert_eq!(failed.code(), "io");
    // Only a plan that fails instead of killing comes here: the handle is of no more use, a new one is.
    let again = ledger.append(bare("other", State::Pending), now()).unwrap_err();
    assert!(again.to_string().contains("earlier write"), "{again}");
    assert!(ledger.mend().unwrap_err().to_string().contains("earlier write"));
    open(Path::new(&root)).append(bare("other", State::Pending), now()).unwrap();
}

fn run(root: &Path, plan: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ledger_crash::child_appends_under_a_plan"])
        .env(ROOT, root)
        .env(PLAN, plan)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// How often `next` is recorded; asserts that the ledger is sound as it stands.
fn recorded(root: &Path) -> usize {
    let (found, _) = verify(root, &Scope::default(), None).unwrap();
    assert!(found.findings.is_empty(), "{found:#?}");
    let read = open(root).read().unwrap();
    read.entries.iter().filter(|e| e.body.operation_id == "next").count()
}

/// What the next run does: appends the entry unless it is there.
fn settle(root: &Path) {
    let ledger = open(root);
    ledger.mend().unwrap();
    let before = recorded(root);
    assert!(before <= 1);
    if before == 0 {
        ledger.append(bare("next", State::Pending), now()).unwrap();
    }
    assert_eq!(recorded(root), 1);
    let (found, _) = verify(root, &Scope::default(), None).unwrap();
    assert!(found.notes.is_empty(), "nothing is left to mend: {found:#?}");
    ledger.append(bare("next", State::Abandoned), now()).unwrap();
}

const POINTS: &[(&str, usize)] = &[
    ("ledger-before-line", 0),
    ("ledger-line-unsynced", 1),
    ("ledger-after-line", 1),
    ("ledger-after-head", 1),
];

#[cfg(unix)]
#[test]
fn a_kill_at_every_step_leaves_it_recorded_once_or_not_at_all() {
    use std::os::unix::process::ExitStatusExt;
    for entries_before in [0, 2] {
        for (point, expected) in POINTS {
            let dir = tempfile::tempdir().unwrap();
            filled(dir.path(), entries_before);
            let status = run(dir.path(), &format!("{point}=kill"));
            assert_eq!(status.signal(), Some(9), "the point `{point}` was not reached");
            assert_eq!(recorded(dir.path()), *expected, "{point}");
            settle(dir.path());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_kill_while_a_torn_line_is_moved_loses_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    let sound = fs::read(ledger.path()).unwrap();
    fs::write(ledger.path(), [&sound, &b"torn"[..]].concat()).unwrap();
    assert_eq!(run(dir.path(), "torn-copied=kill").signal(), Some(9));
    assert_eq!(fs::read(ledger.path()).unwrap(), [&sound, &b"torn"[..]].concat());
    settle(dir.path());
    for n in 1..=2 {
        let aside = format!("{}.torn-{n}", ledger.path().display());
        assert_eq!(fs::read(aside).unwrap(), b"torn");
    }
}

#[test]
fn a_failure_at_every_step_poisons_the_handle() {
    for (point, _) in POINTS {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 1);
        assert!(run(dir.path(), &format!("{point}=error")).success(), "{point}");
        settle(dir.path());
    }
}

#[test]
fn a_line_cut_at_any_byte_is_never_recorded_and_never_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    let (before, heads_before) =
        (fs::read(ledger.path()).unwrap(), fs::read(Heads::path(dir.path())).unwrap());
    ledger.append(bare("next", State::Pending), now()).unwrap();
    let (whole, heads) = (fs::read(ledger.path()).unwrap(), fs::read(Heads::path(dir.path())).unwrap());
    let clean = || {
        for file in
            fs::read_dir(ledger.path().parent().unwrap()).unwrap().chain(fs::read_dir(dir.path()).unwrap())
        {
            let path = file.unwrap().path();
            if path.to_string_lossy().contains(".torn-") {
                fs::remove_file(path).unwrap();
            }
        }
    };
    // In steps, to keep the test short; both ends of the line in any case.
    let cuts = |from: usize, to: usize| {
        let mut cuts: Vec<usize> = (from..to).step_by(23).collect();
        cuts.extend([from + 1, to - 2, to - 1]);
        cuts
    };
    for cut in cuts(before.len(), whole.len()) {
        fs::write(ledger.path(), &whole[..cut]).unwrap();
        fs::write(Heads::path(dir.path()), &heads_before).unwrap();
        assert_eq!(recorded(dir.path()), 0, "cut at {cut}");
        settle(dir.path());
        clean();
    }
    for cut in cuts(heads_before.len(), heads.len()) {
        fs::write(ledger.path(), &whole).unwrap();
        fs::write(Heads::path(dir.path()), &heads[..cut]).unwrap();
        assert_eq!(recorded(dir.path()), 1, "heads cut at {cut}");
        settle(dir.path());
        clean();
    }
}
