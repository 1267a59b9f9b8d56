//! Operation ids: their claims, their locks, and what makes two requests the same (I9).

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use offshoot::{
    record::Agent,
    refusal::Code,
    selection::SeedMode,
    store::operations::{
        Claim, Claimed, OperationLock, Request, Selector, claim, find_claim, release_claim, replace_claim,
        request_digest, validate_operation_id,
    },
};

fn a_claim(id: &str, digest: &str) -> Claim {
    Claim {
        operation_id: id.into(),
        request_digest: digest.into(),
        agent: Agent::Qwen,
        session_id: "s".into(),
        ledger: "/state/ledger/qwen/s.jsonl".into(),
        transcript: "/t.jsonl".into(),
    }
}

#[test]
fn ids_are_short_printable_ascii() {
    for good in ["a", " ", "~", "../x", &"x".repeat(128)] {
        validate_operation_id(good).unwrap();
    }
    for bad in ["", "\n", "a\0", "é", "\x7f", &"x".repeat(129)] {
        assert_eq!(validate_operation_id(bad).unwrap_err().refusal(), Some(Code::Usage), "{bad:?}");
    }
}

#[test]
fn a_claim_is_made_once_and_kept_until_released() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    assert_eq!(find_claim(root, "op").unwrap(), None);
    let (first, second) = (a_claim("op", "1"), a_claim("op", "2"));
    assert_eq!(claim(root, "op", &first).unwrap(), Claimed::New);
    assert_eq!(claim(root, "op", &first).unwrap(), Claimed::Same);
    assert_eq!(claim(root, "op", &second).unwrap(), Claimed::Other(first.clone()));
    let elsewhere = Claim { session_id: "t".into(), ..first.clone() };
    assert_eq!(claim(root, "op", &elsewhere).unwrap(), Claimed::Other(first.clone()));
    assert_eq!(find_claim(root, "op").unwrap(), Some(first));
    replace_claim(root, "op", &second).unwrap();
    assert_eq!(find_claim(root, "op").unwrap(), Some(second.clone()));
    release_claim(root, "op").unwrap();
    release_claim(root, "op").unwrap();
    assert_eq!(claim(root, "op", &second).unwrap(), Claimed::New);
    assert_eq!(claim(root, "../op", &a_claim("../op", "1")).unwrap(), Claimed::New);
    // A claim that does not name its id is not taken for one.
    let hash = |id: &str| root.join("ops").join(blake3::hash(id.as_bytes()).to_hex().as_str());
    std::fs::copy(hash("op"), hash("other")).unwrap();
    assert_eq!(find_claim(root, "other").unwrap_err().code(), "damaged");
}

#[test]
fn one_at_a_time_works_on_an_operation() {
    let dir = tempfile::tempdir().unwrap();
    let held = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap();
    let busy = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap_err();
    assert_eq!(busy.refusal(), Some(Code::OperationInFlight));
    assert_eq!(busy.exit_code(), 4);
    let _other = OperationLock::acquire(dir.path(), "other", Duration::ZERO).unwrap();
    drop(held);
    let _again = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap();
    let lock = dir.path().join("ops").join(format!("{}.lock", blake3::hash(b"op").to_hex()));
    assert!(lock.exists(), "the lock file is never removed");
}

#[test]
fn a_removed_lock_file_is_not_a_lock() {
    let dir = tempfile::tempdir().unwrap();
    let _held = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap();
    let lock = dir.path().join("ops").join(format!("{}.lock", blake3::hash(b"op").to_hex()));
    std::fs::remove_file(&lock).unwrap();
    // Somebody removed it by hand: the next one gets a lock on the file that is there then.
    let _second = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap();
    let third = OperationLock::acquire(dir.path(), "op", Duration::ZERO).unwrap_err();
    assert_eq!(third.refusal(), Some(Code::OperationInFlight));
}

/// Not a test of its own: claims one id and says what came of it.
#[test]
fn child_claims() {
    let Ok(root) = std::env::var("OFFSHOOT_TEST_CLAIM_ROOT") else { return };
    let me = std::env::var("OFFSHOOT_TEST_ME").unwrap();
    let root = Path::new(&root);
    let claimed = claim(root, "op", &a_claim("op", &me)).unwrap();
    let mine = claimed == Claimed::New;
    assert!(mine || matches!(&claimed, Claimed::Other(c) if c.request_digest != me), "{claimed:?}");
    // Under the lock each adds one line; a lock that does not exclude loses some.
    let _lock = OperationLock::acquire(root, "op", Duration::from_secs(60)).unwrap();
    let path = root.join("count");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(&path, format!("{before}{}\n", if mine { "new" } else { "other" })).unwrap();
}

#[test]
fn of_many_processes_one_makes_the_claim() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8)
        .map(|n| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "operations::child_claims"])
                .env("OFFSHOOT_TEST_CLAIM_ROOT", dir.path())
                .env("OFFSHOOT_TEST_ME", format!("{n}"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let count = std::fs::read_to_string(dir.path().join("count")).unwrap();
    assert_eq!(count.lines().filter(|l| *l == "new").count(), 1);
    assert_eq!(count.lines().count(), 8);
}

#[test]
fn requests_differ_in_what_was_asked_alone() {
    let base = Request {
        agent: Agent::Qwen,
        allow_gap: false,
        path: "/t.jsonl",
        record: None,
        seed: None,
        selector: Selector::Any,
        turn: None,
    };
    let mut seen = hashbrown::HashSet::new();
    let leaf = |l: &str| Selector::Leaf { leaf: l.into() };
    for request in [
        base.clone(),
        Request { allow_gap: true, ..base.clone() },
        Request { path: "/u.jsonl", ..base.clone() },
        Request { seed: Some(SeedMode::Fork), ..base.clone() },
        Request { seed: Some(SeedMode::None), ..base.clone() },
        Request { selector: Selector::Pick, ..base.clone() },
        Request { selector: Selector::Undo, ..base.clone() },
        Request { selector: leaf("a"), ..base.clone() },
        Request { selector: leaf("b"), ..base.clone() },
        Request { selector: Selector::Policy { digest: "a".into() }, ..base.clone() },
        Request { turn: Some("a"), ..base.clone() },
        Request { record: Some("a"), ..base.clone() },
    ] {
        assert!(seen.insert(request_digest(&request)), "{request:?} looks like another request");
        assert_eq!(request_digest(&request), request_digest(&request.clone()));
    }
    // Frozen: a digest in an old claim must be met by the same request of a later version.
    let json = r#"{"agent":"qwen","allowGap":false,"path":"/t.jsonl","record":null,"seed":null,"selector":{"kind":"any"},"turn":null}"#;
    assert_eq!(request_digest(&base), blake3::hash(json.as_bytes()).to_hex().as_str());
}
