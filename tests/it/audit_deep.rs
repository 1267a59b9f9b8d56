//! The deep audit: a forger who recomputes every hash and head is still contradicted by the transcript, the kept
//! policy or the seed. The selections here are made by hand, step by step as the pipeline makes them.

use std::{fs, path::PathBuf};

use offshoot::{
    audit::{Follow, deep, follow},
    dialect::{self, AnchorSpec, Client, ForkSpec, derived_uuid},
    policy::{self, Inputs, Outcome},
    record::{Agent, RecordId},
    selection::{DecidedBy, DecidedKind, PolicyRef, SeedMode},
    store::{
        ledger::{
            Findings, Ledger, Scope,
            entry::{AnchorRecord, Body, OfferedLeaf, SeedRecord, SnapshotRef, State, VerdictRecord},
            keep_policy, offered_for, verify,
        },
        snapshot::Snapshot,
    },
    topology::{self, build_ordered_uuid_chain},
    transcript::Source,
};
use serde_json::{Value, json};

use crate::{
    ledger::{bare, now, reseal},
    ledger_verify::{lines, rechain},
    support::fixture,
};

pub const SESSION: &str = "1bb69cdd-0645-4055-bb69-084226970ff8";
pub const A: &str = "00000000-0000-4000-8000-000000000004";
pub const B: &str = "00000000-0000-4000-8000-000000000006";
const POLICY: &str = r#"
version = 1
name = "test"
reason = "A test."

[[rule]]
name = "follow-the-recorded-branch"
reason = "Somebody already decided."
keep = { recorded = true }

[[rule]]
name = "named"
reason = "It has the name."
keep = { label = "main", max_age = "3650d" }
"#;

pub struct Made {
    dir: tempfile::TempDir,
    pub transcript: PathBuf,
    pub ledger: Ledger,
}

impl Made {
    /// A two-branch session of real shape in a folder of its own, and an empty state directory.
    pub fn new() -> Made {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("chats")).unwrap();
        let transcript = root.join(format!("chats/{SESSION}.jsonl"));
        fs::copy(fixture("cases/qwen/c-baseline-two-branch/transcript.jsonl"), &transcript).unwrap();
        let ledger = Ledger::open(&root.join("state"), Agent::Qwen, SESSION);
        Made { dir, transcript, ledger }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("state")
    }

    /// Records a completed selection of leaf A, seeded as asked, by `--leaf` or by the policy.
    pub fn select(&self, operation: &str, mode: SeedMode, by_policy: bool) -> Body {
        let dialect = dialect::of(Agent::Qwen);
        let snapshot = Snapshot::take(&self.transcript, dialect, true).unwrap();
        let t = &snapshot.transcript;
        let inspection = topology::inspect(t, &snapshot, dialect, &Client::default()).unwrap();
        let path = self.transcript.display().to_string();
        let leaf = t.ids.find(A).unwrap();
        let chain = build_ordered_uuid_chain(t, leaf);
        let ids: Vec<String> = chain.uuids.iter().map(|id| t.ids.text(*id)).collect();
        let read = self.ledger.read().unwrap();
        let recorded =
            read.latest_completed(&path).map(|s| s.pending.body.verdict.clone().unwrap().leaf_uuid);
        let verdict = if by_policy {
            self.by_policy(&inspection, recorded)
        } else {
            VerdictRecord {
                leaf_uuid: A.into(),
                decided_by: DecidedBy { kind: DecidedKind::Leaf, policy: None },
                trace: Value::Null,
                inputs: Value::Null,
            }
        };
        let mut seed = SeedRecord {
            mode,
            session_id: SESSION.into(),
            transcript: path.clone(),
            parent_uuid: A.into(),
            chain: ids.len() as u64,
            chain_digest: blake3::hash(ids.join("\n").as_bytes()).to_hex().to_string(),
            gaps: vec![],
            anchor: None,
            temporary: None,
            backups: None,
            agent_lock_owner: None,
            write: false,
        };
        let mut append = Vec::new();
        match mode {
            SeedMode::None => {}
            SeedMode::Fork => {
                seed.session_id = derived_uuid("fork", Agent::Qwen, SESSION, operation);
                let child = self.transcript.with_file_name(format!("{}.jsonl", seed.session_id));
                seed.transcript = child.display().to_string();
                let spec = ForkSpec {
                    session_id: seed.session_id.clone(),
                    title: Some("twin".into()),
                    now: now(),
                    operation_id: operation.into(),
                    version: Some("0.24.4".into()),
                };
                let mut bytes = Vec::new();
                let report = dialect.write_fork(t, &snapshot, &chain, &spec, &mut bytes).unwrap();
                seed.parent_uuid = RecordId::new(report.tail);
                fs::write(child, bytes).unwrap();
            }
            SeedMode::InPlace => {
                let spec = AnchorSpec {
                    uuid: derived_uuid("anchor", Agent::Qwen, SESSION, operation),
                    operation_id: operation.into(),
                    now: now(),
                    version: None,
                };
                let anchor = dialect.anchor(t, &snapshot, leaf, &spec).unwrap();
                append.clone_from(&anchor.bytes);
                seed.parent_uuid = RecordId::new(anchor.uuid.clone());
                seed.anchor = Some(AnchorRecord {
                    uuid: anchor.uuid,
                    offset: Source::len(&snapshot),
                    bytes: String::from_utf8(anchor.bytes).unwrap(),
                });
            }
        }
        let leaves = inspection.branches.iter().map(|b| OfferedLeaf {
            leaf_uuid: b.leaf_uuid.clone(),
            branch_point_uuid: b.branch_point_uuid.clone(),
            classification: b.classification,
            turn: b.turn,
            started_at: b.started_at.clone(),
            updated_at: b.updated_at.clone(),
            last_message_at: b.last_message_at.clone(),
        });
        let pending = Body {
            transcript: path.clone(),
            snapshot: Some(SnapshotRef {
                bytes: snapshot.bytes,
                digest: snapshot.digest.clone().unwrap(),
                records: t.records.len() as u64,
                parts: Vec::new(),
            }),
            offered: Some(offered_for(&read, leaves.collect())),
            verdict: Some(verdict),
            client_pick: inspection.client_pick.clone(),
            seed: Some(seed),
            ..bare(operation, State::Pending)
        };
        self.ledger.append(pending.clone(), now()).unwrap();
        self.append(&append);
        self.ledger.append(Body { transcript: path, ..bare(operation, State::Completed) }, now()).unwrap();
        pending
    }

    fn by_policy(&self, inspection: &topology::Inspection, recorded: Option<RecordId>) -> VerdictRecord {
        let inputs = Inputs {
            now: now(),
            agent: Agent::Qwen,
            session_id: SESSION.into(),
            cwd: Some("/workspace".into()),
            git_branch: None,
            recorded,
            labels: [(RecordId::from(A), "main".to_owned())].into(),
            client_version: None,
        };
        let verdict = policy::evaluate(&policy::parse(POLICY, "p.toml").unwrap(), inspection, &inputs);
        let Outcome::Leaf { leaf_uuid, rule, reason } = &verdict.outcome else { panic!("{verdict:?}") };
        let policy = Some(PolicyRef {
            path: "p.toml".into(),
            digest: keep_policy(&self.root(), POLICY).unwrap(),
            rule: Some(rule.clone()),
            reason: Some(reason.clone()),
        });
        VerdictRecord {
            leaf_uuid: leaf_uuid.clone(),
            decided_by: DecidedBy { kind: DecidedKind::Policy, policy },
            trace: serde_json::to_value(&verdict).unwrap(),
            inputs: serde_json::to_value(&inputs).unwrap(),
        }
    }

    fn append(&self, bytes: &[u8]) {
        let mut all = fs::read(&self.transcript).unwrap();
        all.extend_from_slice(bytes);
        fs::write(&self.transcript, all).unwrap();
    }

    fn audit(&self) -> (Findings, Findings) {
        let (shallow, looked) = verify(&self.root(), &Scope::default(), None).unwrap();
        (shallow, deep(&self.root(), &looked, &Scope::default()).unwrap())
    }

    /// Both audits; asserts that the shallow one is content.
    #[track_caller]
    fn codes(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let (shallow, found) = self.audit();
        assert!(shallow.findings.is_empty(), "{shallow:#?}");
        (found.findings.iter().map(|f| f.code).collect(), found.notes.iter().map(|f| f.code).collect())
    }

    /// Edits the first entry as JSON and recomputes all hashes and heads.
    pub fn forge(&self, edit: impl FnOnce(&mut Value)) {
        let mut l = lines(self.ledger.path());
        l[0] = reseal(&l[0], edit);
        rechain(&self.root(), &self.ledger, &l);
    }
}

fn user_record(uuid: &str, parent: &str) -> Vec<u8> {
    let record = json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-03-02T00:00:00.000Z",
        "type": "user", "provenance": "real_user", "cwd": "/workspace", "version": "0.24.4",
        "message": {"role": "user", "parts": [{"text": "go on"}]},
    });
    format!("{record}\n").into_bytes()
}

#[test]
fn what_the_pipeline_records_has_nothing_to_find() {
    for mode in [SeedMode::Fork, SeedMode::InPlace, SeedMode::None] {
        for by_policy in [false, true] {
            let made = Made::new();
            made.select("op-0", mode, by_policy);
            assert_eq!(made.codes(), (vec![], vec!["not-yet"]), "{mode:?} {by_policy}");
            made.select("op-1", mode, by_policy);
            assert_eq!(made.codes(), (vec![], vec!["superseded", "not-yet"]), "{mode:?} {by_policy}");
        }
    }
}

#[test]
fn what_was_appended_since_is_judged() {
    let new = "00000000-0000-4000-8000-0000000000ff";
    for mode in [SeedMode::Fork, SeedMode::InPlace, SeedMode::None] {
        for (followed, expected) in [(true, Follow::Followed), (false, Follow::NotFollowed)] {
            let made = Made::new();
            let pending = made.select("op", mode, false);
            let seed = pending.seed.as_ref().unwrap();
            assert_eq!(follow(Agent::Qwen, &pending).unwrap(), Some(Follow::NotYet));
            let elsewhere = if mode == SeedMode::Fork { "00000000-0000-4000-8000-000000000002" } else { B };
            let parent = if followed { seed.parent_uuid.as_str() } else { elsewhere };
            let mut all = fs::read(&seed.transcript).unwrap();
            all.extend(user_record(new, parent));
            // Where it goes on from there is no longer our business.
            all.extend(user_record(
                "00000000-0000-4000-8000-0000000000fe",
                "00000000-0000-4000-8000-000000000001",
            ));
            fs::write(&seed.transcript, all).unwrap();
            assert_eq!(follow(Agent::Qwen, &pending).unwrap(), Some(expected), "{mode:?}");
            let expected = match expected {
                Follow::Followed => (vec![], vec!["followed"]),
                _ => (vec!["not-followed"], vec![]),
            };
            assert_eq!(made.codes(), expected, "{mode:?}");
        }
    }
}

#[test]
fn a_consistent_forgery_is_contradicted() {
    type Forge = fn(&mut Value);
    let by_leaf: &[(&str, Forge)] = &[
        ("chain-differs", |v| v["verdict"]["leafUuid"] = json!(B)),
        ("seed-differs", |v| v["verdict"]["leafUuid"] = json!(B)),
        ("chain-differs", |v| v["seed"]["chainDigest"] = json!("0".repeat(64))),
        ("chain-differs", |v| v["seed"]["chain"] = json!(5)),
        ("chain-differs", |v| v["seed"]["gaps"] = json!([{"childUuid": "a", "missingParentUuid": "b"}])),
        ("transcript-changed", |v| v["snapshot"]["digest"] = json!(format!("blake3:{}", "0".repeat(64)))),
        ("transcript-changed", |v| v["snapshot"]["bytes"] = json!(10)),
        ("transcript-changed", |v| v["snapshot"]["bytes"] = json!(1u64 << 40)),
        ("snapshot-differs", |v| v["snapshot"]["records"] = json!(7)),
        ("offered-differ", |v| {
            // One leaf hidden, with the digest of what is left.
            let leaves = v["offered"]["leaves"].as_array_mut().unwrap();
            leaves.pop();
            let leaves: Vec<OfferedLeaf> = serde_json::from_value(json!(leaves)).unwrap();
            let digest = blake3::hash(&serde_json::to_vec(&leaves).unwrap()).to_hex().to_string();
            v["offered"]["digest"] = json!(digest);
        }),
        ("client-pick-differs", |v| v["clientPick"]["leafUuid"] = json!(A)),
        ("client-pick-differs", |v| v["clientPick"] = Value::Null),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["kind"] = json!("only-leaf")),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["kind"] = json!("policy")),
        ("seed-differs", |v| v["seed"]["sessionId"] = json!("00000000-0000-4000-8000-00000000dead")),
        ("seed-differs", |v| drop(v.as_object_mut().unwrap().remove("seed"))),
    ];
    for (code, edit) in by_leaf {
        let made = Made::new();
        made.select("op", SeedMode::Fork, false);
        made.forge(edit);
        let (findings, _) = made.codes();
        assert!(findings.contains(code), "no `{code}` in {findings:?}");
    }
    let by_policy: &[(&str, Forge)] = &[
        ("verdict-differs", |v| v["verdict"]["inputs"]["labels"] = json!({B: "main"})),
        ("verdict-differs", |v| v["verdict"]["inputs"]["labels"] = json!({})),
        ("verdict-differs", |v| v["verdict"]["inputs"]["now"] = json!("2040-01-01T00:00:00Z")),
        ("inputs-differ", |v| v["verdict"]["inputs"]["recorded"] = json!(B)),
        ("inputs-differ", |v| v["verdict"]["inputs"]["sessionId"] = json!("x")),
        ("inputs-differ", |v| v["verdict"]["inputs"]["now"] = json!("2030-01-01T00:00:00Z")),
        ("inputs-unreadable", |v| v["verdict"]["inputs"] = Value::Null),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["policy"]["rule"] = json!("another")),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["policy"]["reason"] = json!("Because.")),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["kind"] = json!("leaf")),
        ("verdict-differs", |v| v["verdict"]["decidedBy"]["kind"] = json!("prompt")),
        ("trace-differs", |v| v["verdict"]["trace"]["trace"][0]["reason"] = json!("Another.")),
        ("policy-gone", |v| {
            v["verdict"]["decidedBy"]["policy"]["digest"] = json!(format!("blake3:{}", "0".repeat(64)));
        }),
    ];
    for (code, edit) in by_policy {
        let made = Made::new();
        made.select("op", SeedMode::Fork, true);
        made.forge(edit);
        let (findings, _) = made.codes();
        assert!(findings.contains(code), "no `{code}` in {findings:?}");
    }
    let in_place: &[(&str, Forge)] = &[
        ("seed-gone", |v| v["seed"]["anchor"]["offset"] = json!(1u64 << 40)),
        ("seed-gone", |v| v["seed"]["anchor"]["bytes"] = json!("x")),
        ("seed-differs", |v| v["seed"]["anchor"]["offset"] = json!(0)),
        ("seed-differs", |v| v["seed"]["anchor"]["uuid"] = json!(A)),
        ("seed-differs", |v| v["verdict"]["leafUuid"] = json!(B)),
    ];
    for (code, edit) in in_place {
        let made = Made::new();
        made.select("op", SeedMode::InPlace, false);
        made.forge(edit);
        let (findings, _) = made.codes();
        assert!(findings.contains(code), "no `{code}` in {findings:?}");
    }
}

#[test]
fn an_edited_transcript_seed_or_policy_is_found() {
    let edit = |path: &std::path::Path, from: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    };
    let made = Made::new();
    made.select("op", SeedMode::None, true);
    edit(&made.transcript, "BRANCH-A-Q", "BRANCH-X-Q");
    assert_eq!(made.codes().0, ["transcript-changed"]);

    let made = Made::new();
    let pending = made.select("op", SeedMode::Fork, false);
    let child = PathBuf::from(&pending.seed.as_ref().unwrap().transcript);
    edit(&child, "00000000-0000-4000-8000-000000000003", "00000000-0000-4000-8000-0000000000aa");
    assert_eq!(made.codes().0, ["seed-differs"]);
    fs::remove_file(&child).unwrap();
    assert_eq!(made.codes(), (vec!["seed-gone"], vec![]));
    // A later selection supersedes it; a child that somebody cleared away is then no finding.
    made.select("next", SeedMode::None, false);
    assert_eq!(made.codes(), (vec![], vec!["seed-gone", "superseded", "not-yet"]));

    let made = Made::new();
    made.select("op", SeedMode::InPlace, false);
    let bytes = fs::read(&made.transcript).unwrap();
    fs::write(&made.transcript, &bytes[..bytes.len() - 20]).unwrap();
    assert!(made.codes().0.contains(&"seed-gone"));

    let made = Made::new();
    made.select("op", SeedMode::None, true);
    let kept = fs::read_dir(made.root().join("policies")).unwrap().next().unwrap().unwrap().path();
    edit(&kept, "It has the name.", "It has the fame.");
    assert_eq!(made.codes().0, ["policy-altered"]);
    fs::remove_file(kept).unwrap();
    assert_eq!(made.codes().0, ["policy-gone"]);
}

#[test]
fn what_is_gone_or_not_settled_is_a_note() {
    let made = Made::new();
    made.select("op", SeedMode::None, true);
    let mut open = bare("open", State::Pending);
    open.transcript = made.transcript.display().to_string();
    made.ledger.append(open, now()).unwrap();
    assert_eq!(made.codes(), (vec![], vec!["pending", "not-yet"]));
    fs::remove_file(&made.transcript).unwrap();
    assert_eq!(made.codes(), (vec![], vec!["pending", "transcript-gone"]));
}

#[test]
fn a_retry_is_judged_on_what_its_verdict_was_made_from() {
    let made = Made::new();
    // The first attempt decided by policy and was abandoned by recovery; then the other branch grew.
    let first = made.select("op", SeedMode::None, true);
    let mut l = lines(made.ledger.path());
    l[1] = reseal(&l[1], |v| {
        v["state"] = json!("abandoned");
        v["recovered"] = json!(true);
    });
    rechain(&made.root(), &made.ledger, &l);
    made.append(&user_record("00000000-0000-4000-8000-0000000000ff", A));
    let dialect = dialect::of(Agent::Qwen);
    let snapshot = Snapshot::take(&made.transcript, dialect, true).unwrap();
    let t = &snapshot.transcript;
    let inspection = topology::inspect(t, &snapshot, dialect, &Client::default()).unwrap();
    assert!(inspection.branch(&A.into()).is_none(), "the chosen leaf is none any more");
    let leaves = inspection.branches.iter().map(|b| OfferedLeaf {
        leaf_uuid: b.leaf_uuid.clone(),
        branch_point_uuid: b.branch_point_uuid.clone(),
        classification: b.classification,
        turn: b.turn,
        started_at: b.started_at.clone(),
        updated_at: b.updated_at.clone(),
        last_message_at: b.last_message_at.clone(),
    });
    let again = Body {
        snapshot: Some(SnapshotRef {
            bytes: snapshot.bytes,
            digest: snapshot.digest.clone().unwrap(),
            records: t.records.len() as u64,
            parts: Vec::new(),
        }),
        offered: Some(offered_for(&made.ledger.read().unwrap(), leaves.collect())),
        client_pick: inspection.client_pick.clone(),
        ..first.clone()
    };
    made.ledger.append(again, now()).unwrap();
    made.ledger.append(Body { transcript: first.transcript, ..bare("op", State::Completed) }, now()).unwrap();
    assert_eq!(made.codes(), (vec![], vec!["not-yet"]));
}
