//! What Qwen Code 0.24.4 itself did with each of `fixtures/cases/qwen`, and what the simulation says it would do.

use std::fs;

use offshoot::{
    dialect::{self, Client, Resumed, Simulated},
    record::Agent,
    transcript::Transcript,
};
use serde_json::Value;

use crate::support::fixture;

/// The directory in which the cases were run.
const PROJECT: &str = "/workspace";

fn client(project: Option<&str>) -> Client {
    Client { project: project.map(str::to_owned), ..Client::default() }
}

fn simulate(bytes: Vec<u8>, project: Option<&str>) -> (Transcript, Simulated) {
    let dialect = dialect::of(Agent::Qwen);
    let t = dialect.read(&bytes).unwrap();
    let s = dialect.simulate(&t, &bytes, &client(project)).unwrap();
    (t, s)
}

fn bytes_of(case: &str) -> Vec<u8> {
    fs::read(fixture(&format!("cases/qwen/{case}/transcript.jsonl"))).unwrap()
}

#[track_caller]
fn resumed(case: &str, project: Option<&str>) -> (Transcript, Resumed) {
    match simulate(bytes_of(case), project) {
        (t, Simulated::Resumes(r)) => (t, r),
        (_, Simulated::Refuses(why)) => panic!("{case}: refuses: {why}"),
    }
}

#[test]
fn simulated_tail_is_the_record_below_which_the_client_went_on() {
    let mut went_on = 0;
    for entry in fs::read_dir(fixture("cases/qwen")).unwrap() {
        let dir = entry.unwrap().path();
        let case = dir.file_name().unwrap().to_str().unwrap();
        let expect: Value = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
        let did = &expect["client"]["0.24.4"];
        let tail = did["continuedBelow"].as_str().or(did["firstAppendedParent"].as_str());
        // `f1` went on in a fork, which its own test looks at.
        if case == "f1-fork-session" {
            continue;
        }
        let (t, s) = simulate(bytes_of(case), Some(PROJECT));
        match (tail, s) {
            (Some(tail), Simulated::Resumes(r)) => {
                assert_eq!(t.id(r.tail).as_str(), tail, "{case}");
                assert_eq!(r.history.last(), Some(&r.tail), "{case}: the history ends at the tail");
                assert_eq!(r.rule, "last conversation record in file order");
                went_on += 1;
            }
            (None, Simulated::Refuses(_)) => {}
            (tail, s) => panic!("{case}: the client {tail:?}, the simulation {s:?}"),
        }
    }
    assert!(went_on >= 39, "only {went_on} cases resumed");
}

/// Records of history that the model gets, and the gap if the walk ends early: counted from the `sent` of each case.
#[test]
fn simulated_history_is_what_the_client_restored() {
    let node = |n: u32| format!("00000000-0000-4000-8000-{n:012}");
    for (case, records, gap, cycle) in [
        ("c-baseline-two-branch", 4, None, false),
        ("c2-A-last-but-older-timestamps", 4, None, false),
        ("g1-missing-parent-mid-chain", 2, Some((8, 7)), false),
        ("g2-missing-shared-prefix", 2, Some((3, 2)), false),
        ("g3-cycle", 4, None, true),
        ("g9-glued-and-garbage", 4, None, false),
        ("k3-compression-in-shared-prefix", 5, None, false),
        ("r1-rewind-parent-null", 1, None, false),
        ("t12-reappend-leaf-uuid-no-message", 4, None, false),
        ("t3-leaf-on-user-record", 4, None, false),
        ("t4-leaf-interior-node", 3, None, false),
        ("x5-system-no-subtype-with-payload", 5, None, false),
    ] {
        let (t, r) = resumed(case, Some(PROJECT));
        assert_eq!((r.history.len(), r.cycle), (records, cycle), "{case}");
        let got = r.gap.map(|g| (t.id(g.child).to_string(), t.id(g.missing).to_string()));
        assert_eq!(got, gap.map(|(child, missing)| (node(child), node(missing))), "{case}");
    }
}

#[test]
fn a_torn_tail_swallows_the_record_that_was_glued_to_it() {
    let (t, r) = resumed("g7b2-torn-tail-second-resume", Some(PROJECT));
    let gap = r.gap.expect("the parent stood on the torn line");
    assert!(t.first(gap.missing).is_none());
}

#[test]
fn a_first_object_without_cwd_crashes_the_client() {
    for project in [None, Some(PROJECT)] {
        let (_, s) = simulate(bytes_of("t7-minimal-no-cwd-on-first"), project);
        assert!(matches!(&s, Simulated::Refuses(why) if why.contains("TypeError")), "{s:?}");
    }
}

#[test]
fn ownership_is_checked_only_where_a_project_is_given() {
    let (_, s) = simulate(bytes_of("g10-foreign-cwd"), Some(PROJECT));
    assert!(matches!(&s, Simulated::Refuses(why) if why.contains("another project")), "{s:?}");
    let (t, r) = resumed("g10-foreign-cwd", None);
    assert_eq!(t.id(r.tail).as_str(), "00000000-0000-4000-8000-000000000006");
    // The client forked this one, and its child held branch A: the pick in the source was the same.
    for project in [None, Some(PROJECT)] {
        let (t, r) = resumed("f1-fork-session", project);
        assert_eq!(t.id(r.tail).as_str(), "00000000-0000-4000-8000-000000000007");
        assert_eq!(r.history.len(), 5);
    }
}
