//! The `audit` commands and `label`, as they are typed.

use std::fs;

use offshoot::{
    record::Agent,
    selection::SeedMode,
    store::{
        labels,
        ledger::{
            Heads,
            entry::{Body, Reason, State},
        },
    },
};
use serde_json::{Value, json};

use crate::{
    audit_deep::{A, B, Made, SESSION},
    ledger::{bare, now},
    support::{Ran, TestEnv, fixture},
};

fn run(made: &Made, args: &[&str]) -> Ran {
    let env = TestEnv::new();
    let root = made.root().display().to_string();
    env.run(&[args, &["--state-dir", &root]].concat())
}

fn json(made: &Made, args: &[&str], code: i32) -> Value {
    run(made, &[args, &["--json"]].concat()).code(code).json()
}

fn operations(document: &Value) -> Vec<&str> {
    let all = document["selections"].as_array().unwrap();
    all.iter().map(|s| s["operationId"].as_str().unwrap()).collect()
}

/// Two completed selections, one by policy, and one that was abandoned.
fn made() -> Made {
    let made = Made::new();
    made.select("nightly-2026-03-01", SeedMode::Fork, true);
    made.select("nightly-2026-03-02", SeedMode::None, false);
    let transcript = made.transcript.display().to_string();
    made.ledger
        .append(Body { transcript: transcript.clone(), ..bare("given-up", State::Pending) }, now())
        .unwrap();
    let reason = Reason { code: "snapshot-changed".into(), message: "the transcript changed".into() };
    let body = Body { transcript, reason: Some(reason), ..bare("given-up", State::Abandoned) };
    made.ledger.append(body, now()).unwrap();
    made
}

#[test]
fn list_is_newest_first_and_filtered() {
    let made = made();
    let path = made.transcript.display().to_string();
    let list = |args: &[&str]| json(&made, &[&["audit", "list"], args].concat(), 0);
    let all = list(&[]);
    assert_eq!(all["schema"], "offshoot.audit-list/1");
    assert_eq!(operations(&all), ["given-up", "nightly-2026-03-02", "nightly-2026-03-01"]);
    let states: Vec<&Value> = all["selections"].as_array().unwrap().iter().map(|s| &s["state"]).collect();
    assert_eq!(states, ["abandoned", "completed", "superseded"]);
    let first = &all["selections"][2];
    assert_eq!(first["leafUuid"], A);
    assert_eq!(first["sessionId"], SESSION);
    assert_eq!(first["transcript"], path);
    assert_eq!(first["seed"]["mode"], "fork");
    assert_eq!(first["decidedBy"]["policy"]["rule"], "named");
    assert_eq!(all["selections"][0]["reason"]["code"], "snapshot-changed");

    assert_eq!(operations(&list(&["--decided-by", "policy"])), ["nightly-2026-03-01"]);
    assert_eq!(operations(&list(&["--decided-by", "leaf"])), ["nightly-2026-03-02"]);
    assert_eq!(operations(&list(&["--session", &path])).len(), 3);
    assert_eq!(operations(&list(&["--session", SESSION])).len(), 3);
    assert_eq!(operations(&list(&["--session", &SESSION[..4]])).len(), 3);
    assert_eq!(operations(&list(&["--since", "2026-03-01"])).len(), 3);
    assert_eq!(operations(&list(&["--since", "2026-03-02"])).len(), 0);
    assert_eq!(operations(&list(&["--agent", "qwen"])).len(), 3);
    let refusal = |args: &[&str], exit: i32| {
        json(&made, &[&["audit", "list"], args].concat(), exit)["refusal"]["code"].clone()
    };
    assert_eq!(refusal(&["--decided-by", "dice"], 2), "usage");
    assert_eq!(refusal(&["--since", "yesterday"], 2), "usage");
    assert_eq!(refusal(&["--session", "1bb"], 3), "session-unknown");
    assert_eq!(operations(&list(&["--agent", "reasonix"])), Vec::<String>::new());
    assert_eq!(operations(&list(&["--agent", "claude"])), Vec::<String>::new());
    // A transcript that is gone is still known by its path.
    fs::remove_file(&made.transcript).unwrap();
    assert_eq!(operations(&list(&["--session", &path])).len(), 3);
}

#[test]
fn list_for_people_fits_the_screen_and_names_what_show_takes() {
    let made = made();
    let ran = run(&made, &["audit", "list"]).code(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|l| l.chars().count() <= 80), "{}", ran.stdout);
    assert!(lines[0].starts_with("OPERATION"));
    assert!(lines[3].contains("2026-03-01 12:00  superseded  policy     fork"), "{}", lines[3]);
    for line in &lines[1..] {
        let shown = line.split_whitespace().next().unwrap();
        let shown = run(&made, &["audit", "show", shown]).code(0).stdout;
        assert!(shown.starts_with("operation "), "{shown}");
    }
    let nothing = run(&Made::new(), &["audit", "list"]).code(0);
    assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", "no selection is recorded\n"));
}

#[test]
fn show_has_everything() {
    let made = made();
    let shown = json(&made, &["audit", "show", "nightly-2026-03-01"], 0);
    assert_eq!(shown["schema"], "offshoot.audit-show/1");
    assert_eq!(shown["state"], "superseded");
    let attempt = &shown["attempts"][0];
    let leaves: Vec<&Value> = attempt["offered"].as_array().unwrap().iter().map(|l| &l["leafUuid"]).collect();
    assert_eq!(leaves, [A, B]);
    assert_eq!(attempt["entries"][0]["verdict"]["inputs"]["labels"], json!({A: "main"}));
    assert_eq!(attempt["entries"][1]["state"], "completed");
    // The second one names its leaves by digest alone; they are resolved all the same.
    let second = json(&made, &["audit", "show", "nightly-2026-03-02"], 0);
    assert_eq!(second["attempts"][0]["offered"], attempt["offered"]);
    assert!(second["attempts"][0]["entries"][0]["offered"].get("leaves").is_none());

    let page = run(&made, &["audit", "show", "nightly-2026-03-01"]).code(0).stdout;
    for part in [
        "superseded",
        "chosen",
        "the client's own pick",
        "decided by",
        "It has the name.",
        "trace",
        "fork of 4",
    ] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let refusal = |name: &str| json(&made, &["audit", "show", name], 3)["refusal"]["code"].clone();
    assert_eq!(refusal("nightly"), "id-ambiguous");
    assert_eq!(refusal("nig"), "operation-unknown");
    assert_eq!(refusal("nowhere"), "operation-unknown");
}

#[test]
fn hostile_text_in_a_ledger_does_not_reach_the_terminal() {
    let made = made();
    made.forge(|v| {
        v["verdict"]["decidedBy"]["policy"]["reason"] = json!("\u{1b}[2J\u{202e}\u{9b}x");
        v["who"] = json!({"user": "\u{1b}]0;x\u{7}", "host": "h", "pid": 1, "version": "1"});
    });
    for args in [
        &["audit", "show", "nightly-2026-03-01"][..],
        &["audit", "show", "nightly-2026-03-01", "--json"],
        &["audit", "list", "--json"],
        &["audit", "verify", "--deep"],
    ] {
        let ran = run(&made, args);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{args:?}: {all:?}");
    }
}

#[test]
fn verify_exits_5_on_findings_alone() {
    let made = made();
    let found = json(&made, &["audit", "verify"], 0);
    assert_eq!(found["schema"], "offshoot.audit-verify/1");
    assert_eq!((&found["entries"], &found["deep"]), (&json!(6), &json!(false)));
    assert_eq!((&found["findings"], &found["notes"]), (&json!([]), &json!([])));
    let deep = json(&made, &["audit", "verify", "--deep", SESSION], 0);
    let notes: Vec<&Value> = deep["notes"].as_array().unwrap().iter().map(|n| &n["code"]).collect();
    assert_eq!(notes, ["superseded", "not-yet"]);

    let kept = made.root().join("kept.jsonl");
    fs::copy(Heads::path(&made.root()), &kept).unwrap();
    let kept = kept.display().to_string();
    assert_eq!(json(&made, &["audit", "verify", "--anchor", &kept], 0)["anchor"], true);
    made.forge(|v| v["verdict"]["inputs"]["labels"] = json!({B: "main"}));
    assert_eq!(json(&made, &["audit", "verify"], 0)["findings"], json!([]), "the forgery is consistent");
    let found = json(&made, &["audit", "verify", "--deep"], 5);
    assert_eq!(found["findings"][0]["code"], "verdict-differs");
    assert_eq!(found["findings"][0]["operationId"], "nightly-2026-03-01");
    assert_eq!(
        json(&made, &["audit", "verify", "--anchor", &kept], 5)["findings"][0]["code"],
        "anchor-mismatch"
    );
    let page =
        run(&made, &["audit", "verify", "--deep", &made.transcript.display().to_string()]).code(5).stdout;
    assert!(page.starts_with("finding: verdict-differs: "), "{page}");
    assert!(page.ends_with("6 entries in 1 ledger: 1 finding, 2 notes\n"), "{page}");

    fs::write(made.ledger.path(), "not an entry\n").unwrap();
    let found = json(&made, &["audit", "verify"], 5);
    assert_eq!(found["findings"][0]["code"], "entry-malformed");
    // A damaged ledger is still listed, as far as it goes.
    let list = run(&made, &["audit", "list"]).code(0);
    assert!(list.stderr.contains("is damaged"), "{}", list.stderr);
    assert_eq!(run(&made, &["audit", "verify", "--anchor", "/nowhere/heads"]).code(1).stdout, "");
}

#[test]
fn prune_removes_what_is_old_and_not_needed() {
    let made = made();
    assert_eq!(json(&made, &["audit", "prune", "--before", "2020-01-01"], 0)["ledgers"][0]["removed"], 0);
    let pruned = json(&made, &["audit", "prune", "--before", "2026-03-02"], 0);
    assert_eq!(pruned["schema"], "offshoot.audit-prune/1");
    // The latest completed selection offers its leaves by digest, and they stand in the first entry.
    assert_eq!((&pruned["ledgers"][0]["removed"], &pruned["ledgers"][0]["kept"]), (&json!(0), &json!(6)));
    fs::write(made.ledger.path(), "not an entry\n").unwrap();
    let fault = json(&made, &["audit", "prune", "--before", "2026-03-02"], 1);
    assert_eq!(fault["fault"]["code"], "damaged");
    assert_eq!(json(&made, &["audit", "prune", "--before", "soon"], 2)["refusal"]["code"], "usage");
}

#[test]
fn labels_are_set_shown_and_removed() {
    let made = Made::new();
    let path = made.transcript.display().to_string();
    let label = |id: &str, text: &str, code: i32| json(&made, &["label", &path, id, text], code);
    let set = label(A, "main line", 0);
    assert_eq!(set["schema"], "offshoot.label/1");
    assert_eq!(
        (&set["leafUuid"], &set["label"], &set["previous"]),
        (&json!(A), &json!("main line"), &Value::Null)
    );
    let kept = labels::read(&made.root(), Agent::Qwen, SESSION).unwrap();
    assert_eq!(kept.get(&A.into()).map(String::as_str), Some("main line"));
    assert_eq!(label(A, "x", 0)["previous"], "main line");
    assert_eq!(label(A, "", 0)["label"], Value::Null);
    assert!(labels::read(&made.root(), Agent::Qwen, SESSION).unwrap().is_empty());
    assert_eq!(label("ffffffff", "x", 3)["refusal"]["code"], "leaf-unknown");
    assert_eq!(label("0000", "x", 3)["refusal"]["code"], "id-ambiguous");
    assert_eq!(label(&A.replace("004", "002"), "x", 3)["refusal"]["code"], "leaf-not-terminal");
    assert_eq!(label(A, "\u{1b}[2J", 2)["refusal"]["code"], "usage");
    assert!(labels::read(&made.root(), Agent::Qwen, SESSION).unwrap().is_empty());
}

/// The real pipeline on a copy of a two-branch session.
struct Session {
    env: TestEnv,
    path: String,
}

impl Session {
    fn new() -> Session {
        let env = TestEnv::new();
        let bytes =
            fs::read(crate::support::fixture("cases/qwen/c-baseline-two-branch/transcript.jsonl")).unwrap();
        let path = env.write(&format!("work/chats/{SESSION}.jsonl"), bytes);
        Session { env, path }
    }

    fn resume(&self, operation: &str, args: &[&str]) -> Value {
        let all = [&["resume", &self.path, "--operation-id", operation, "--json"], args].concat();
        self.env.run(&all).code(0).json()
    }

    fn deep(&self, code: i32) -> Value {
        self.env.run(&["audit", "verify", "--deep", "--json"]).code(code).json()
    }
}

fn codes<'a>(document: &'a Value, what: &str) -> Vec<&'a str> {
    document[what].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect()
}

#[test]
fn what_resume_records_passes_the_deep_audit_until_somebody_touches_it() {
    let s = Session::new();
    let policy = s.env.write("work/p.toml", include_str!("../../policies/sticky.toml"));
    s.resume("fork", &["--leaf", A]);
    s.resume("place", &["--leaf", A, "--seed", "in-place"]);
    s.resume("again", &["--leaf", A, "--seed", "in-place"]);
    s.resume("none", &["--leaf", A, "--seed", "none"]);
    s.resume("policy", &["--policy", &policy]);
    let _ = s.env.run(&["undo", &s.path]).code(0);
    let found = s.deep(0);
    assert_eq!(codes(&found, "findings"), [""; 0]);
    assert_eq!(
        codes(&found, "notes"),
        ["superseded", "superseded", "superseded", "superseded", "superseded", "not-yet"]
    );
    let by_policy = s.env.run(&["audit", "list", "--decided-by", "policy", "--json"]).code(0).json();
    assert_eq!(operations(&by_policy), ["policy"]);
    let undone = s.env.run(&["audit", "list", "--decided-by", "undo", "--json"]).code(0).json();
    assert_eq!(undone["selections"][0]["leafUuid"], B);

    // The bytes that all choices were made from are edited: all of them say so.
    let text = fs::read_to_string(&s.path).unwrap();
    fs::write(&s.path, text.replace("BRANCH-A-Q", "BRANCH-X-Q")).unwrap();
    assert_eq!(codes(&s.deep(5), "findings"), ["transcript-changed"; 6]);
    fs::remove_file(&s.path).unwrap();
    assert_eq!(codes(&s.deep(0), "notes"), ["transcript-gone"; 6]);
}

#[test]
fn a_label_is_an_input_that_the_audit_can_ask_again() {
    let s = Session::new();
    let _ = s.env.run(&["label", &s.path, A, "main line"]).code(0);
    let policy = s.env.write(
        "work/p.toml",
        "version = 1\nname = \"l\"\nreason = \"r\"\n[[rule]]\nname = \"labelled\"\nreason = \"It is named.\"\nkeep = { label = \"main line\" }\n[seed]\nmode = \"none\"\n",
    );
    assert_eq!(s.resume("op", &["--policy", &policy])["leafUuid"], A);
    // Labels and policy files may change afterwards: what counted is recorded and kept.
    let _ = s.env.run(&["label", &s.path, A, ""]).code(0);
    fs::remove_file(&policy).unwrap();
    let found = s.deep(0);
    assert_eq!((codes(&found, "findings"), codes(&found, "notes")), (vec![], vec!["not-yet"]));
}

/// Every leaf of every case, forked and in place: the audit of what resume just did finds nothing. Among the
/// leaves are ones that the client cannot see, below whose visible end the anchor hangs.
#[test]
fn no_selection_of_any_case_is_found_fault_with_right_after() {
    let (mut selections, mut unseen) = (0, 0);
    for case in fs::read_dir(fixture("cases/qwen")).unwrap() {
        let text = fs::read(case.unwrap().path().join("transcript.jsonl")).unwrap();
        let env = TestEnv::new();
        let original = env.write("work/original.jsonl", &text);
        let inspected = env.run(&["inspect", &original, "--json"]).code(0).json();
        let mut entries = 0;
        for (i, branch) in inspected["branches"].as_array().unwrap().iter().enumerate() {
            let leaf = branch["leafUuid"].as_str().unwrap();
            for seed in ["fork", "in-place"] {
                let copy = env.write(&format!("work/{i}-{seed}/{SESSION}.jsonl"), &text);
                let ran = env.run(&["resume", &copy, "--leaf", leaf, "--seed", seed, "--json"]);
                if ran.code == Some(3) {
                    continue; // What the client would lose or refuse has no seed.
                }
                let seeded = ran.code(0).json();
                (entries, selections) = (entries + 2, selections + 1);
                if seeded["seed"]["anchor"].is_string() {
                    let written = fs::read_to_string(&copy).unwrap();
                    let anchor: Value = serde_json::from_str(written.lines().last().unwrap()).unwrap();
                    unseen += usize::from(anchor["parentUuid"] != leaf);
                }
            }
        }
        let found = env.run(&["audit", "verify", "--deep", "--json"]).code(0).json();
        // A selection that was refused at its seed leaves entries too.
        assert!(found["entries"].as_u64() >= Some(entries), "{original}: {found}");
    }
    assert!(selections > 100, "only {selections} selections were audited");
    assert!(unseen > 0, "every anchor hangs below the leaf that it is for");
}
