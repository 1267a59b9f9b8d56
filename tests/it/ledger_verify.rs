//! What an audit of the ledgers alone finds, and what pruning leaves (contracts, "Ledger").

use std::{fs, path::Path};

use offshoot::{
    record::Agent,
    store::ledger::{Findings, Heads, Ledger, Scope, entry::State, verify},
};
use serde_json::json;

use crate::ledger::{SESSION, TRANSCRIPT, bare, filled, now, open, pending, reseal};

fn audit(root: &Path) -> Findings {
    verify(root, &Scope::default(), None).unwrap().0
}

fn codes(found: &Findings) -> (Vec<&str>, Vec<&str>) {
    let of = |all: &[offshoot::store::ledger::Finding]| -> Vec<&str> {
        let mut codes: Vec<&str> = all.iter().map(|f| f.code).collect();
        codes.dedup();
        codes
    };
    (of(&found.findings), of(&found.notes))
}

pub fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

pub fn write_lines(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).unwrap();
}

/// Rewrites the chain from `from` on with fresh hashes, as a thorough forger would, and the heads with it.
pub fn rechain(root: &Path, ledger: &Ledger, lines: &[String]) {
    let mut prev = "0".repeat(64);
    let mut out = Vec::new();
    let mut heads = Vec::new();
    for line in lines {
        let line = reseal(line, |v| v["prev"] = json!(prev));
        prev = line[line.len() - 66..line.len() - 2].to_owned();
        let seq = serde_json::from_str::<serde_json::Value>(&line).unwrap()["seq"].clone();
        heads.push(
            json!({"agent": "qwen", "session": ledger.session_id(), "seq": seq, "hash": prev}).to_string(),
        );
        out.push(line);
    }
    write_lines(ledger.path(), &out);
    write_lines(&Heads::path(root), &heads);
}

#[test]
fn a_sound_ledger_has_nothing_to_find() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(audit(dir.path()), Findings::default());
    filled(dir.path(), 3);
    assert_eq!(audit(dir.path()), Findings::default());
    let heads = Heads::read(dir.path()).unwrap();
    assert_eq!(verify(dir.path(), &Scope::default(), Some(&heads)).unwrap().0, Findings::default());
}

#[test]
fn every_kind_of_edit_is_found() {
    type Edit = fn(&mut Vec<String>);
    let cases: &[(&str, &[&str], Edit)] = &[
        ("a byte of the last line", &["entry-hash"], |l| l[5] = l[5].replace("completed", "abandoned")),
        ("the last line, resealed", &["head-mismatch"], |l| {
            l[5] = reseal(&l[5], |v| v["state"] = json!("abandoned"));
        }),
        ("a line within, resealed", &["prev-mismatch", "head-mismatch"], |l| {
            l[3] = reseal(&l[3], |v| v["requestDigest"] = json!("1"));
        }),
        ("the last line cut off", &["ledger-cut"], |l| drop(l.pop())),
        ("the first line cut off", &["start-unknown", "state-invalid", "offered-missing"], |l| {
            // Its head is gone as well: else it would look pruned, and only the states and leaves tell.
            l.remove(0);
        }),
        ("a line taken out", &["seq-gap", "prev-mismatch"], |l| drop(l.remove(3))),
        ("two lines exchanged", &["seq-gap", "prev-mismatch", "state-invalid"], |l| l.swap(2, 3)),
        ("a line doubled", &["seq-gap", "prev-mismatch", "state-invalid"], |l| l.push(l[5].clone())),
        ("a line that is none", &["entry-malformed"], |l| l[3] = "x".to_owned()),
        ("all lines gone", &["ledger-gone"], Vec::clear),
        ("another session's line", &["entry-foreign", "prev-mismatch", "head-mismatch"], |l| {
            l[1] = reseal(&l[1], |v| v["sessionId"] = json!("other"));
        }),
    ];
    for (what, expected, edit) in cases {
        let dir = tempfile::tempdir().unwrap();
        let ledger = filled(dir.path(), 3);
        let mut l = lines(ledger.path());
        edit(&mut l);
        write_lines(ledger.path(), &l);
        if *what == "the first line cut off" {
            let heads = lines(&Heads::path(dir.path()));
            write_lines(&Heads::path(dir.path()), &heads[1..]);
        }
        let found = audit(dir.path());
        let (findings, _) = codes(&found);
        for code in *expected {
            assert!(findings.contains(code), "{what}: no `{code}` in {found:#?}");
        }
    }
}

#[test]
fn a_thorough_forgery_is_still_checked_for_sense() {
    type Edit = fn(&mut Vec<String>);
    let cases: &[(&str, Edit)] = &[
        ("leaf-not-offered", |l| {
            l[2] = reseal(&l[2], |v| v["verdict"]["leafUuid"] = json!("leaf-z"));
        }),
        ("offered-digest", |l| {
            l[0] = reseal(&l[0], |v| drop(v["offered"]["leaves"].as_array_mut().unwrap().pop()));
        }),
        ("offered-missing", |l| {
            l[0] = reseal(&l[0], |v| drop(v.as_object_mut().unwrap().remove("offered")));
        }),
        ("result-differs", |l| {
            l[1] = reseal(&l[1], |v| v["result"] = json!({"operationId": "op-0", "leafUuid": "leaf-b"}));
        }),
        ("result-differs", |l| {
            l[1] = reseal(&l[1], |v| v["result"] = json!({"seed": {"sessionId": "elsewhere"}}));
        }),
        ("state-invalid", |l| l[1] = reseal(&l[1], |v| v["state"] = json!("acknowledged"))),
        ("state-invalid", |l| l[1] = reseal(&l[1], |v| v["transcript"] = json!("/elsewhere"))),
    ];
    for (code, edit) in cases {
        let dir = tempfile::tempdir().unwrap();
        let ledger = filled(dir.path(), 2);
        let kept = Heads::read(dir.path()).unwrap();
        let mut l = lines(ledger.path());
        edit(&mut l);
        rechain(dir.path(), &ledger, &l);
        let found = audit(dir.path());
        assert!(codes(&found).0.contains(code), "no `{code}` in {found:#?}");
        assert!(
            found
                .findings
                .iter()
                .all(|f| !["entry-hash", "prev-mismatch", "head-mismatch"].contains(&f.code)),
            "the forgery is consistent: {found:#?}"
        );
        // Heads that were kept elsewhere tell in any case.
        let found = verify(dir.path(), &Scope::default(), Some(&kept)).unwrap().0;
        assert!(codes(&found).0.contains(&"anchor-mismatch"));
    }
    // Also if the whole ledger and its heads are gone, or cut together.
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 2);
    let kept = Heads::read(dir.path()).unwrap();
    let l = lines(ledger.path());
    rechain(dir.path(), &ledger, &l[..2]);
    assert_eq!(audit(dir.path()), Findings::default(), "nothing here tells");
    let found = verify(dir.path(), &Scope::default(), Some(&kept)).unwrap().0;
    assert_eq!(codes(&found).0, ["anchor-mismatch"]);
    fs::remove_file(ledger.path()).unwrap();
    fs::remove_file(Heads::path(dir.path())).unwrap();
    let found = verify(dir.path(), &Scope::default(), Some(&kept)).unwrap().0;
    assert_eq!(codes(&found).0, ["ledger-gone"]);
}

#[test]
fn what_a_crash_leaves_is_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 2);
    let heads = lines(&Heads::path(dir.path()));
    write_lines(&Heads::path(dir.path()), &heads[..3]);
    assert_eq!(codes(&audit(dir.path())), (vec![], vec!["head-missing"]));
    let bytes = fs::read(ledger.path()).unwrap();
    fs::write(ledger.path(), [&bytes[..], b"{\"sch"].concat()).unwrap();
    fs::write(Heads::path(dir.path()), format!("{}\n{}", heads[..3].join("\n"), &heads[3][..9])).unwrap();
    assert_eq!(codes(&audit(dir.path())), (vec![], vec!["torn-line", "head-missing"]));
    // Two entries without head are more than a crash explains.
    write_lines(&Heads::path(dir.path()), &heads[..2]);
    assert!(codes(&audit(dir.path())).0.contains(&"head-lost"));
    ledger.mend().unwrap();
    let found = audit(dir.path());
    assert!(codes(&found).0.contains(&"head-lost"), "mending does not hide it: {found:#?}");
    fs::write(Heads::path(dir.path()), format!("{}\nnot a head\n", heads.join("\n"))).unwrap();
    assert_eq!(codes(&audit(dir.path())).0, ["heads-malformed"]);
}

#[test]
fn the_scope_leaves_other_ledgers_alone() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 1);
    let other = Ledger::open(dir.path(), Agent::Qwen, "other");
    let mut body = bare("op", State::Pending);
    body.transcript = "/other.jsonl".to_owned();
    other.append(body, now()).unwrap();
    fs::write(other.path(), "x\n").unwrap();
    let found = |scope: Scope| verify(dir.path(), &scope, None).unwrap().0.findings.len();
    assert!(found(Scope::default()) > 0);
    assert_eq!(found(Scope { session: Some(SESSION.into()), ..Scope::default() }), 0);
    assert_eq!(found(Scope { transcript: Some(TRANSCRIPT.into()), ..Scope::default() }), 0);
    assert!(found(Scope { session: Some("other".into()), ..Scope::default() }) > 0);
}

#[test]
fn pruning_keeps_a_chain_that_verifies_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    assert_eq!(ledger.prune(now()).unwrap().kept, 0);
    assert!(!ledger.path().exists());
    for (i, leaves) in [&["leaf-a"][..], &["leaf-a", "leaf-b"], &["leaf-a", "leaf-c"]].iter().enumerate() {
        let id = format!("op-{i}");
        ledger.append(pending(&ledger, &id, leaves), now()).unwrap();
        ledger.append(bare(&id, State::Completed), now()).unwrap();
    }
    let before = lines(ledger.path());
    let later = "2027-01-01T00:00:00Z".parse().unwrap();
    let earlier = "2020-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(ledger.prune(earlier).unwrap().removed, 0);
    assert_eq!(lines(ledger.path()), before);
    let pruned = ledger.prune(later).unwrap();
    assert_eq!((pruned.removed, pruned.kept), (4, 2));
    assert_eq!(lines(ledger.path()), before[4..], "kept lines are kept byte for byte");
    assert_eq!(codes(&audit(dir.path())), (vec![], vec!["pruned"]));
    let heads = Heads::read(dir.path()).unwrap();
    assert_eq!(heads.of(Agent::Qwen, SESSION).len(), 6, "heads are never pruned");
    let found = verify(dir.path(), &Scope::default(), Some(&heads)).unwrap().0;
    assert_eq!(codes(&found), (vec![], vec!["pruned"]));
    // It goes on, and a pruned operation counts as never made.
    ledger.append(pending(&ledger, "op-0", &["leaf-a"]), now()).unwrap();
    assert_eq!(ledger.read().unwrap().entries.last().unwrap().seq, 6);
    assert_eq!(codes(&audit(dir.path())), (vec![], vec!["pruned"]));
    assert_eq!(ledger.read().unwrap().latest_completed(TRANSCRIPT).unwrap().operation_id(), "op-2");
}

#[test]
fn frozen_ledgers_still_read_as_they_did() {
    let sample = fs::read_to_string(crate::support::fixture("ledgers/v1-two-selections.jsonl")).unwrap();
    let heads = fs::read_to_string(crate::support::fixture("ledgers/v1-two-selections.heads.jsonl")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    offshoot::store::private::ensure_dir(ledger.path().parent().unwrap()).unwrap();
    fs::write(ledger.path(), &sample).unwrap();
    fs::write(Heads::path(dir.path()), heads).unwrap();
    assert_eq!(audit(dir.path()), Findings::default());
    let read = ledger.read().unwrap();
    let states: Vec<_> = read.entries.iter().map(|e| e.body.state).collect();
    use State::{Completed, Observed, Pending};
    assert_eq!(states, [Pending, Completed, Observed, Pending]);
    assert_eq!(read.latest_completed(TRANSCRIPT).unwrap().operation_id(), "op-0");
    assert_eq!(read.pending().len(), 1);
    // Today's writer goes on behind it without touching what is there.
    ledger.append(bare("op-1", State::Abandoned), now()).unwrap();
    assert!(fs::read_to_string(ledger.path()).unwrap().starts_with(&sample));
    assert_eq!(audit(dir.path()), Findings::default());
}
