//! The audit ledger: its bytes, its chain, its heads, and what it makes of damage (I5, I7).

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use jiff::Timestamp;
use offshoot::{
    record::{Agent, Classification, RecordId, Turn},
    refusal::{Code, Error, FaultCode},
    selection::{DecidedBy, DecidedKind, SeedMode},
    store::{
        ledger::{
            self, Heads, Ledger,
            entry::{Body, Entry, OfferedLeaf, Reason, SeedRecord, SnapshotRef, State, VerdictRecord, Who},
            offered_for, resolve_offered,
        },
        private,
    },
};
use serde_json::{Value, json};

pub const SESSION: &str = "6f1c1f2e-0000-4000-8000-00000000000a";
pub const TRANSCRIPT: &str = "/home/u/.qwen/projects/p/chats/a.jsonl";

pub fn now() -> Timestamp {
    "2026-03-01T12:00:00.25Z".parse().unwrap()
}

pub fn leaf(id: &str) -> OfferedLeaf {
    OfferedLeaf {
        leaf_uuid: id.into(),
        branch_point_uuid: None,
        classification: Classification::Ordinary,
        turn: Turn::Complete,
        started_at: "2026-03-01T10:00:00.000Z".to_owned(),
        updated_at: "2026-03-01T11:00:00.000Z".to_owned(),
        last_message_at: None,
    }
}

pub fn bare(operation: &str, state: State) -> Body {
    serde_json::from_value(json!({
        "operationId": operation, "requestDigest": "0".repeat(64), "state": state, "transcript": TRANSCRIPT,
    }))
    .unwrap()
}

/// A pending entry with everything in it.
pub fn pending(ledger: &Ledger, operation: &str, leaves: &[&str]) -> Body {
    let leaves = leaves.iter().map(|id| leaf(id)).collect();
    let chosen = RecordId::from("leaf-a");
    Body {
        snapshot: Some(SnapshotRef {
            bytes: 10,
            digest: format!("blake3:{}", "0".repeat(64)),
            records: 2,
            parts: Vec::new(),
        }),
        offered: Some(offered_for(&ledger.read().unwrap(), leaves)),
        verdict: Some(VerdictRecord {
            leaf_uuid: chosen.clone(),
            decided_by: DecidedBy { kind: DecidedKind::Leaf, policy: None },
            trace: Value::Null,
            inputs: json!({"now": "2026-03-01T12:00:00Z", "labels": {}}),
        }),
        who: Some(Who { user: "u".into(), host: "h".into(), pid: 1, version: "0.1.0".into() }),
        seed: Some(SeedRecord {
            mode: SeedMode::None,
            session_id: SESSION.into(),
            transcript: TRANSCRIPT.into(),
            parent_uuid: chosen,
            chain: 2,
            chain_digest: "0".repeat(64),
            gaps: vec![],
            anchor: None,
            temporary: None,
            backups: None,
            agent_lock_owner: None,
            write: false,
        }),
        ..bare(operation, State::Pending)
    }
}

pub fn open(root: &Path) -> Ledger {
    Ledger::open(root, Agent::Qwen, SESSION)
}

/// A ledger with `n` completed selections.
pub fn filled(root: &Path, n: usize) -> Ledger {
    let ledger = open(root);
    for i in 0..n {
        let id = format!("op-{i}");
        ledger.append(pending(&ledger, &id, &["leaf-a", "leaf-b"]), now()).unwrap();
        ledger.append(bare(&id, State::Completed), now()).unwrap();
    }
    ledger
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn write_lines(path: &Path, lines: &[String]) {
    fs::write(path, lines.iter().map(|l| format!("{l}\n")).collect::<String>()).unwrap();
}

/// Gives a line, edited as a JSON value, a fresh hash, as a forger would.
pub fn reseal(line: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut value: Value = serde_json::from_str(line).unwrap();
    edit(&mut value);
    value.as_object_mut().unwrap().remove("hash");
    let body = value.to_string();
    let hash = blake3::hash(body.as_bytes()).to_hex().to_string();
    format!("{},\"hash\":\"{hash}\"}}", body.strip_suffix('}').unwrap())
}

fn fault(error: &Error) -> (FaultCode, Value) {
    match error {
        Error::Fault(f) => (f.code, f.detail.clone()),
        Error::Refusal(r) => panic!("a refusal: {r:?}"),
    }
}

#[track_caller]
fn damaged(error: Error, finding: &str) {
    let (code, detail) = fault(&error);
    assert_eq!((code, detail["finding"].as_str()), (FaultCode::Damaged, Some(finding)), "{error}");
}

#[test]
fn entries_are_chained_sealed_and_headed() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 2);
    let read = ledger.read().unwrap();
    assert_eq!(read.entries.iter().map(|e| e.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(read.entries[0].prev, "0".repeat(64));
    for pair in read.entries.windows(2) {
        assert_eq!(pair[1].prev, pair[0].hash);
    }
    assert_eq!(read.entries[0].at, "2026-03-01T12:00:00.250Z");
    // The documented way to compute the hash, applied to the raw line.
    for line in lines(ledger.path()) {
        let (body, hash) = line.rsplit_once(",\"hash\":\"").unwrap();
        let hash = hash.strip_suffix("\"}").unwrap();
        assert_eq!(blake3::hash(format!("{body}}}").as_bytes()).to_hex().as_str(), hash);
    }
    let heads = Heads::read(dir.path()).unwrap();
    let expected: Vec<_> = read.entries.iter().map(|e| (e.seq, e.hash.clone())).collect();
    assert_eq!(heads.of(Agent::Qwen, SESSION), expected);
    assert!(ledger.take_notes().is_empty());
}

#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(ledger.path()), 0o600);
    assert_eq!(mode(ledger.path().parent().unwrap()), 0o700);
    assert_eq!(mode(&Heads::path(dir.path())), 0o600);
    ledger::keep_policy(dir.path(), "version = 1\n").unwrap();
    let policy = fs::read_dir(dir.path().join("policies")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&policy), 0o600);
}

#[test]
fn offered_leaves_are_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 3);
    let read = ledger.read().unwrap();
    let offered: Vec<_> = read.entries.iter().filter_map(|e| e.body.offered.clone()).collect();
    assert!(offered[0].leaves.is_some() && offered[1].leaves.is_none() && offered[2].leaves.is_none());
    assert_eq!(resolve_offered(&read, &offered[2]).unwrap(), [leaf("leaf-a"), leaf("leaf-b")]);
    let other = offered_for(&read, vec![leaf("leaf-c")]);
    assert!(other.leaves.is_some());
    assert_eq!(resolve_offered(&read, &other).unwrap(), [leaf("leaf-c")]);
    let mut forged = other;
    forged.leaves = Some(vec![leaf("leaf-d")]);
    assert_eq!(resolve_offered(&read, &forged), None);
}

#[test]
fn states_follow_each_other_only_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let refused = |state| {
        let e = ledger.append(bare("op", state), now()).unwrap_err();
        assert_eq!(e.refusal(), Some(Code::OperationConflict), "{state:?}");
    };
    use State::{Abandoned, Acknowledged, Completed, Observed, Pending, Replaced};
    let goes = |state| ledger.append(bare("op", state), now()).map(drop).unwrap();
    [Completed, Abandoned, Acknowledged, Observed, Replaced].into_iter().for_each(refused);
    goes(Pending);
    [Pending, Acknowledged, Observed].into_iter().for_each(refused);
    goes(Abandoned);
    [Completed, Abandoned, Acknowledged, Observed, Replaced].into_iter().for_each(refused);
    goes(Pending);
    goes(Completed);
    [Pending, Completed, Abandoned].into_iter().for_each(refused);
    [Observed, Acknowledged, Observed].into_iter().for_each(goes);
    goes(Replaced);
    [Pending, Completed, Abandoned, Acknowledged, Observed, Replaced].into_iter().for_each(refused);
    // Nothing that was refused left a byte.
    let read = ledger.read().unwrap();
    assert_eq!(read.entries.len(), 8);
    let tries = read.selections(TRANSCRIPT);
    assert_eq!(tries.len(), 2);
    assert_eq!(tries.iter().map(|s| s.state()).collect::<Vec<_>>(), [Abandoned, Replaced]);
    assert!(tries[1].is_completed() && !tries[0].is_completed());
    let mut elsewhere = bare("op-2", Completed);
    elsewhere.transcript = "/other".to_owned();
    ledger.append(bare("op-2", Pending), now()).unwrap();
    let e = ledger.append(elsewhere, now()).unwrap_err();
    assert_eq!(e.refusal(), Some(Code::OperationConflict), "closing an attempt on another transcript");
}

#[test]
fn copies_of_a_session_do_not_count_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    let mut copy = pending(&ledger, "copy", &["leaf-a"]);
    copy.transcript = "/archive/a.jsonl".to_owned();
    let mut closing = bare("copy", State::Completed);
    closing.transcript = copy.transcript.clone();
    ledger.append(copy, now()).unwrap();
    ledger.append(closing, now()).unwrap();
    let read = ledger.read().unwrap();
    assert_eq!(read.latest_completed(TRANSCRIPT).unwrap().operation_id(), "op-0");
    assert_eq!(read.latest_completed("/archive/a.jsonl").unwrap().operation_id(), "copy");
    assert!(read.latest_completed("/nowhere").is_none());
    assert!(read.pending().is_empty());
    assert_eq!(read.operation("copy").unwrap().pending.body.transcript, "/archive/a.jsonl");
}

#[test]
fn the_latest_is_the_one_completed_last() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    for (op, state) in [
        ("first", State::Pending),
        ("second", State::Pending),
        ("second", State::Completed),
        ("first", State::Completed),
        ("third", State::Pending),
        ("fourth", State::Pending),
        ("fourth", State::Abandoned),
    ] {
        ledger.append(bare(op, state), now()).unwrap();
    }
    let read = ledger.read().unwrap();
    assert_eq!(read.latest_completed(TRANSCRIPT).unwrap().operation_id(), "first");
    assert_eq!(read.pending().iter().map(|s| s.operation_id()).collect::<Vec<_>>(), ["third"]);
}

#[test]
fn a_torn_last_line_is_moved_away_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    for (n, torn) in [(1, &b"{\"schema\":\"offsh"[..]), (2, b"\0\0\0\0\n")] {
        let before = fs::read(ledger.path()).unwrap();
        fs::write(ledger.path(), [&before, torn].concat()).unwrap();
        let read = ledger.read().unwrap();
        assert_eq!(read.torn.map(|t| (t.offset, t.bytes)), Some((before.len() as u64, torn.len() as u64)));
        ledger.append(pending(&ledger, &format!("next-{n}"), &["leaf-a"]), now()).unwrap();
        let aside = PathBuf::from(format!("{}.torn-{n}", ledger.path().display()));
        assert_eq!(fs::read(aside).unwrap(), torn);
        assert!(fs::read(ledger.path()).unwrap().starts_with(&before));
        let notes = ledger.take_notes();
        assert!(notes.len() == 1 && notes[0].contains(&format!("torn-{n}")), "{notes:?}");
        assert_eq!(ledger.read().unwrap().torn, None);
    }
}

#[test]
fn a_missing_head_is_written_by_the_next_append_and_by_mend() {
    for mend in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let ledger = filled(dir.path(), 1);
        let heads = Heads::path(dir.path());
        let all = lines(&heads);
        // The head of the last entry is torn: as if its writer was killed within the write.
        fs::write(&heads, format!("{}\n{}", all[0], &all[1][..20])).unwrap();
        assert_eq!(Heads::read(dir.path()).unwrap().torn.map(|t| t.bytes), Some(20));
        if mend {
            ledger.mend().unwrap();
        } else {
            ledger.append(bare("next", State::Pending), now()).unwrap();
        }
        assert_eq!(lines(&heads)[..2], all);
        assert_eq!(lines(&heads).len(), if mend { 2 } else { 3 });
        assert_eq!(fs::read_to_string(heads.with_extension("jsonl.torn-1")).unwrap(), all[1][..20]);
        assert_eq!(ledger.take_notes().len(), 2);
    }
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).mend().unwrap();
    assert!(!open(dir.path()).path().exists(), "mending nothing creates nothing");
}

#[test]
fn damage_stops_readers_who_act_and_writers() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 2);
    let good = lines(ledger.path());
    type Edit = fn(&mut Vec<String>);
    let cases: &[(&str, Edit)] = &[
        ("entry-hash", |l| l[1] = l[1].replace("completed", "abandoned")),
        ("entry-hash", |l| l[3] = l[3].replace("op-1", "op-0")),
        ("entry-hash", |l| l[1] = l[1].replace("\"hash\":", "\"hash\" :")),
        ("prev-mismatch", |l| l[1] = reseal(&l[1], |v| v["state"] = json!("abandoned"))),
        ("prev-mismatch", |l| l[0] = reseal(&l[0], |v| v["prev"] = json!("1".repeat(64)))),
        ("seq-gap", |l| drop(l.remove(1))),
        ("seq-gap", |l| l.swap(1, 2)),
        ("seq-gap", |l| l.insert(2, l[1].clone())),
        ("entry-malformed", |l| l[2] = "{".to_owned()),
        ("entry-malformed", |l| l.insert(1, String::new())),
        ("entry-malformed", |l| l[2] = reseal(&l[2], |v| v["state"] = json!("undone"))),
        ("schema-unknown", |l| l[2] = reseal(&l[2], |v| v["schema"] = json!("mine"))),
        ("entry-foreign", |l| l[0] = reseal(&l[0], |v| v["sessionId"] = json!("another"))),
    ];
    for (finding, edit) in cases {
        let mut l = good.clone();
        edit(&mut l);
        write_lines(ledger.path(), &l);
        let bytes = fs::read(ledger.path()).unwrap();
        damaged(open(dir.path()).read().unwrap_err(), finding);
        damaged(open(dir.path()).append(bare("x", State::Pending), now()).unwrap_err(), finding);
        assert_eq!(fs::read(ledger.path()).unwrap(), bytes, "nothing is mended behind damage");
        assert!(!open(dir.path()).scan().unwrap().problems.is_empty());
    }
    // Only the heads know of these.
    for (finding, edit) in [
        ("ledger-cut", (|l| l.truncate(3)) as Edit),
        ("ledger-cut", |l| l.clear()),
        ("head-mismatch", |l| l[3] = reseal(&l[3], |v| v["state"] = json!("abandoned"))),
    ] {
        let mut l = good.clone();
        edit(&mut l);
        write_lines(ledger.path(), &l);
        damaged(open(dir.path()).append(bare("x", State::Pending), now()).unwrap_err(), finding);
    }
    write_lines(ledger.path(), &good);
    ledger.append(bare("x", State::Pending), now()).unwrap();
}

#[test]
fn members_we_do_not_know_are_covered_by_the_hash() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    ledger.append(bare("op", State::Pending), now()).unwrap();
    let line = reseal(&lines(ledger.path())[0], |v| v["later"] = json!({"b": 1e300, "a": "\u{7f}\u{2028}"}));
    write_lines(ledger.path(), std::slice::from_ref(&line));
    fs::remove_file(Heads::path(dir.path())).unwrap();
    assert_eq!(ledger.read().unwrap().entries.len(), 1);
    ledger.append(bare("op", State::Abandoned), now()).unwrap();
    assert_eq!(lines(ledger.path())[0], line, "what is there stays byte for byte");
    write_lines(ledger.path(), &[line.replace("e+300", "e+299")]);
    damaged(ledger.read().unwrap_err(), "entry-hash");
}

#[test]
fn a_newer_ledger_is_read_but_never_touched() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path(), 1);
    let mut l = lines(ledger.path());
    l.push(reseal(&l[1], |v| v["schema"] = json!("offshoot.ledger/2")));
    let torn = "{\"schema\":\"offshoot.ledger/2\",";
    fs::write(ledger.path(), format!("{}\n{torn}", l.join("\n"))).unwrap();
    let (bytes, heads) = (fs::read(ledger.path()).unwrap(), fs::read(Heads::path(dir.path())).unwrap());
    let read = ledger.read().unwrap();
    assert!(read.newer);
    assert_eq!(read.entries.len(), 3);
    let e = ledger.append(bare("op", State::Pending), now()).unwrap_err();
    assert_eq!(e.refusal(), Some(Code::LedgerNewer));
    assert_eq!(ledger.mend().unwrap_err().refusal(), Some(Code::LedgerNewer));
    assert_eq!(fs::read(ledger.path()).unwrap(), bytes);
    assert_eq!(fs::read(Heads::path(dir.path())).unwrap(), heads);
}

#[test]
fn hostile_session_ids_stay_in_the_state_directory() {
    let dir = tempfile::tempdir().unwrap();
    let long = "é/".repeat(3000);
    let ids = ["", ".", "..", "../x", "/etc/passwd", "a\0b", "A", "a", "~", "\u{202e}", long.as_str()];
    for id in ids {
        let ledger = Ledger::open(dir.path(), Agent::Qwen, id);
        assert_eq!(ledger.path().parent().unwrap(), dir.path().join("ledger/qwen"), "{id:?}");
        ledger.append(bare("op", State::Pending), now()).unwrap();
        assert_eq!(ledger.read().unwrap().entries[0].session_id, id);
    }
    let mut found: Vec<String> =
        ledger::ledgers(dir.path()).unwrap().iter().map(|l| l.session_id().to_owned()).collect();
    found.sort();
    let mut expected = ids.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_ledger_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    private::ensure_dir(ledger.path().parent().unwrap()).unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, b"").unwrap();
    std::os::unix::fs::symlink(&victim, ledger.path()).unwrap();
    let e = ledger.append(bare("op", State::Pending), now()).unwrap_err();
    assert_eq!(e.refusal(), Some(Code::UnsafePath));
    assert_eq!(ledger.read().unwrap_err().refusal(), Some(Code::UnsafePath));
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

/// Not a test of its own: what the child processes of the tests below run.
#[test]
fn child_appends_until_done() {
    let Ok(root) = std::env::var("OFFSHOOT_TEST_LEDGER_ROOT") else { return };
    let (me, n) = (std::env::var("OFFSHOOT_TEST_ME").unwrap(), 10);
    let ledger = open(Path::new(&root));
    for i in 0..n {
        let id = format!("{me}-{i}");
        ledger.append(bare(&id, State::Pending), now()).unwrap();
        let reason = Reason { code: "no-leaf".into(), message: String::new() };
        ledger.append(Body { reason: Some(reason), ..bare(&id, State::Abandoned) }, now()).unwrap();
    }
}

#[test]
fn processes_that_append_at_once_keep_the_chain_whole() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..6)
        .map(|n| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "ledger::child_appends_until_done"])
                .env("OFFSHOOT_TEST_LEDGER_ROOT", dir.path())
                .env("OFFSHOOT_TEST_ME", format!("p{n}"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let read = open(dir.path()).read().unwrap();
    assert_eq!((read.entries.len(), read.torn), (120, None));
    let heads = Heads::read(dir.path()).unwrap();
    let expected: Vec<_> = read.entries.iter().map(|e: &Entry| (e.seq, e.hash.clone())).collect();
    assert_eq!(heads.of(Agent::Qwen, SESSION), expected);
    assert_eq!(read.all_selections().len(), 60);
    assert!(read.all_selections().iter().all(|s| s.state() == State::Abandoned));
}

#[test]
fn policies_are_kept_under_their_digest() {
    let dir = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"é\"\n";
    let digest = ledger::keep_policy(dir.path(), text).unwrap();
    assert_eq!(digest, format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex()));
    assert_eq!(ledger::keep_policy(dir.path(), text).unwrap(), digest);
    assert_eq!(ledger::kept_policy(dir.path(), &digest).unwrap().as_deref(), Some(text));
    for unknown in ["", "blake3:../../x", &"0".repeat(64)] {
        assert_eq!(ledger::kept_policy(dir.path(), unknown).unwrap(), None, "{unknown}");
    }
    let path = dir.path().join(format!("policies/{}.toml", &digest["blake3:".len()..]));
    fs::write(path, "version = 1\nname = \"e\"\n").unwrap();
    assert_eq!(fault(&ledger::kept_policy(dir.path(), &digest).unwrap_err()).0, FaultCode::Damaged);
    assert_eq!(fault(&ledger::keep_policy(dir.path(), text).unwrap_err()).0, FaultCode::Damaged);
}
