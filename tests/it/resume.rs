//! `resume` through the built binary: who chooses, what is refused, what is written, and what a retry gives.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Ran, TestEnv};

const SESSION: &str = "11111111-0000-4000-8000-000000000001";

/// One record line. `parent` is empty for a root.
fn record(uuid: &str, parent: &str, kind: &str, extra: Value) -> String {
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    let mut r = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "timestamp": "2026-01-01T00:00:00.000Z", "type": kind, "cwd": "/workspace", "version": "0.24.4"});
    let text = |role: &str| json!({"role": role, "parts": [{"text": format!("text of {uuid}")}]});
    match kind {
        "user" => r["message"] = text("user"),
        "assistant" => r["message"] = text("model"),
        _ => {}
    }
    for (key, value) in extra.as_object().unwrap() {
        r[key] = value.clone();
    }
    format!("{r}\n")
}

fn turn(user: &str, answer: &str, below: &str, at: &str) -> String {
    let time = json!({"timestamp": at});
    record(user, below, "user", time.clone()) + &record(answer, user, "assistant", time)
}

/// A shared turn, then branch A and, physically last, branch B.
fn two_branches() -> String {
    turn("root-q", "root-a", "", "2026-01-01T00:00:01.000Z")
        + &turn("aaaa-q", "aaaa-a", "root-a", "2026-01-01T00:10:00.000Z")
        + &turn("bbbb-q", "bbbb-a", "root-a", "2026-01-01T00:20:00.000Z")
}

struct Place {
    env: TestEnv,
    path: String,
}

impl Place {
    fn with(transcript: &str) -> Place {
        let env = TestEnv::new();
        let path = env.write(&format!("work/{SESSION}.jsonl"), transcript);
        Place { env, path }
    }

    fn resume(&self, args: &[&str]) -> Ran {
        self.env.run(&[&["resume", &self.path, "--json"], args].concat())
    }

    #[track_caller]
    fn resumed(&self, args: &[&str]) {
        self.resume(args).code(0).json();
    }

    fn transcript(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    fn append(&self, path: &str, lines: &str) {
        let old = fs::read_to_string(path).unwrap();
        fs::write(path, old + lines).unwrap();
    }

    fn policy(&self, text: &str) -> String {
        self.env.write("work/policy.toml", text)
    }

    /// Everything below the test's folder, but for lock files, which are never removed.
    fn files(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        walk(&self.env.path(""), &mut found);
        found.retain(|name, _| !name.ends_with("lock"));
        found
    }

    fn inspect(&self, path: &str) -> Value {
        self.env.run(&["inspect", path, "--json"]).code(0).json()
    }

    fn leaves(&self, path: &str) -> Vec<String> {
        let inspection = self.inspect(path);
        let branches = inspection["branches"].as_array().unwrap().iter();
        branches.map(|b| b["leafUuid"].as_str().unwrap().to_owned()).collect()
    }

    fn client_pick(&self, path: &str) -> String {
        self.inspect(path)["clientPick"]["leafUuid"].as_str().unwrap_or("none").to_owned()
    }
}

fn walk(dir: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

#[track_caller]
fn refused(ran: Ran, exit: i32, code: &str) -> Value {
    let ran = ran.code(exit);
    let document = ran.json();
    assert_eq!(document["refusal"]["code"], code, "{document}");
    document["refusal"].clone()
}

const NEWEST: &str = "version = 1\nname = \"newest\"\nreason = \"r\"\n[[rule]]\nname = \"n\"\nreason = \"r\"\norder = \"newest\"\n";

#[test]
fn several_leaves_without_anybody_to_choose_are_refused_and_nothing_is_written() {
    let place = Place::with(&two_branches());
    let before = place.files();
    let refusal = refused(place.resume(&[]), 3, "several-leaves");
    let listed: Vec<_> =
        refusal["detail"]["leaves"].as_array().unwrap().iter().map(|l| &l["leafUuid"]).collect();
    assert_eq!(listed, ["aaaa-a", "bbbb-a"]);
    assert_eq!(place.files(), before);
}

#[test]
fn a_refusal_lists_fifty_leaves_and_counts_the_rest() {
    let mut text = turn("root-q", "root-a", "", "2026-01-01T00:00:01.000Z");
    for i in 0..60 {
        text += &turn(&format!("q-{i}"), &format!("a-{i}"), "root-a", "2026-01-01T00:10:00.000Z");
    }
    let place = Place::with(&text);
    let detail = refused(place.resume(&[]), 3, "several-leaves")["detail"].clone();
    assert_eq!((detail["leaves"].as_array().unwrap().len(), &detail["more"]), (50, &json!(10)));
}

#[test]
fn a_single_leaf_is_forked() {
    let place = Place::with(&turn("q", "a", "", "2026-01-01T00:00:01.000Z"));
    let before = place.transcript();
    let answer = place.resume(&[]).code(0).json();
    assert_eq!(answer["schema"], "offshoot.resume/1");
    assert_eq!(answer["decidedBy"], json!({"kind": "only-leaf"}));
    assert_eq!(answer["leafUuid"], "a");
    assert_eq!(answer["replayed"], false);
    let seed = &answer["seed"];
    let child = seed["sessionId"].as_str().unwrap();
    assert_eq!((&seed["mode"], &seed["chain"], &seed["anchor"]), (&json!("fork"), &json!(2), &Value::Null));
    assert_eq!(answer["command"], json!(["qwen", "--resume", child]));
    assert_eq!(place.transcript(), before, "the source is byte-identical");
    let path = seed["transcript"].as_str().unwrap();
    assert_eq!(Path::new(path).parent(), Path::new(&place.path).parent(), "the same directory");
    assert_eq!(place.client_pick(path), "a");
    // The title is what the client's next record hangs on.
    let last = fs::read_to_string(path).unwrap().lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["uuid"], seed["parentUuid"]);
    assert_eq!(last["systemPayload"]["customTitle"], "text of q (branch a)");
}

#[cfg(unix)]
#[test]
fn a_child_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(&turn("q", "a", "", "2026-01-01T00:00:01.000Z"));
    let answer = place.resume(&[]).code(0).json();
    let mode = fs::metadata(answer["seed"]["transcript"].as_str().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn leaves_are_named_by_id_prefix_or_neutral_tail() {
    let title = json!({"subtype": "custom_title", "systemPayload": {"customTitle": "t"}});
    let place = Place::with(&(two_branches() + &record("title-1", "aaaa-a", "system", title)));
    for name in ["aaaa-a", "aaaa", "title-1", "titl"] {
        let answer = place.resume(&["--leaf", name, "--seed", "none"]).code(0).json();
        assert_eq!(answer["leafUuid"], "aaaa-a", "{name}");
    }
    refused(place.resume(&["--leaf", "root-a"]), 3, "leaf-not-terminal");
    refused(place.resume(&["--leaf", "aaa"]), 3, "leaf-unknown");
    refused(place.resume(&["--leaf", "nobody"]), 3, "leaf-unknown");
    refused(place.resume(&["--leaf", "root"]), 3, "id-ambiguous");
}

#[test]
fn the_same_operation_gives_the_same_child_and_another_request_is_a_conflict() {
    let place = Place::with(&two_branches());
    let op = ["--operation-id", "op 1"];
    let first = place.resume(&[&op[..], &["--leaf", "aaaa-a"]].concat()).code(0).json();
    let files = place.files();
    // Another spelling of the same leaf is the same request.
    let mut again = place.resume(&[&op[..], &["--leaf", "aaaa"]].concat()).code(0).json();
    assert_eq!(again["replayed"], true);
    again["replayed"] = json!(false);
    assert_eq!(again, first);
    assert_eq!(place.files(), files, "a replay writes nothing");
    for other in [
        &["--leaf", "bbbb-a"][..],
        &["--leaf", "aaaa-a", "--allow-gap"],
        &["--leaf", "aaaa-a", "--seed", "none"],
    ] {
        refused(place.resume(&[&op[..], other].concat()), 3, "operation-conflict");
    }
    // Other ids make other children.
    let second = place.resume(&["--leaf", "aaaa-a"]).code(0).json();
    assert_ne!(second["seed"]["sessionId"], first["seed"]["sessionId"]);
    fs::remove_file(first["seed"]["transcript"].as_str().unwrap()).unwrap();
    refused(place.resume(&[&op[..], &["--leaf", "aaaa-a"]].concat()), 4, "stale-source");
}

#[test]
fn operation_ids_are_printable_ascii() {
    let place = Place::with(&two_branches());
    let long = "x".repeat(129);
    for bad in ["", "caf\u{e9}", "a\nb", &long] {
        refused(place.resume(&["--leaf", "aaaa-a", "--operation-id", bad]), 2, "usage");
    }
}

#[test]
fn a_dry_run_decides_and_writes_nothing() {
    let place = Place::with(&two_branches());
    let policy = place.policy(NEWEST);
    for how in
        [&["--leaf", "aaaa-a"][..], &["--leaf", "aaaa-a", "--seed", "in-place"], &["--policy", &policy]]
    {
        let before = place.files();
        let answer = place.resume(&[how, &["--dry-run"]].concat()).code(0).json();
        assert_eq!(answer["dryRun"], true);
        assert!(answer["seed"]["sessionId"].is_string());
        assert_eq!(place.files(), before, "{how:?}");
    }
    // What would be refused is refused.
    refused(place.resume(&["--dry-run"]), 3, "several-leaves");
}

#[test]
fn a_broken_chain_is_refused_unless_the_gap_is_accepted() {
    let place = Place::with(&turn("lost-q", "lost-a", "gone", "2026-01-01T00:00:01.000Z"));
    for seed in ["fork", "in-place", "none"] {
        let refusal = refused(place.resume(&["--seed", seed]), 3, "chain-broken");
        assert_eq!(refusal["detail"]["gap"]["missingParentUuid"], "gone");
    }
    let answer = place.resume(&["--allow-gap"]).code(0).json();
    assert_eq!(answer["seed"]["gaps"], json!([{"childUuid": "lost-q", "missingParentUuid": "gone"}]));
    let child = fs::read_to_string(answer["seed"]["transcript"].as_str().unwrap()).unwrap();
    let first: Value = serde_json::from_str(child.lines().next().unwrap()).unwrap();
    assert_eq!(first["parentUuid"], Value::Null, "the child has a root, not a gap");
}

#[test]
fn what_the_client_would_not_follow_is_refused() {
    let cycle = record("x", "y", "user", json!({}))
        + &record("y", "x", "assistant", json!({}))
        + &record("z", "y", "user", json!({}));
    refused(Place::with(&cycle).resume(&[]), 3, "chain-broken");

    let conflict = two_branches() + &record("aaaa-q", "bbbb-a", "user", json!({}));
    let place = Place::with(&conflict);
    let refusal = refused(place.resume(&["--leaf", "aaaa-a"]), 3, "chain-conflict");
    assert_eq!(refusal["detail"]["uuid"], "aaaa-q");
    place.resumed(&["--leaf", "bbbb-a"]);

    let mixed = two_branches() + &record("m", "bbbb-a", "user", json!({"sessionId": "another"}));
    refused(Place::with(&mixed).resume(&["--leaf", "m"]), 3, "mixed-session-ids");

    let managed =
        two_branches() + &record("m", "bbbb-a", "system", json!({"subtype": "managed_session_event_v1"}));
    refused(Place::with(&managed).resume(&["--leaf", "aaaa-a"]), 3, "managed-log");

    refused(Place::with("{\"not\": \"a record\"}\n").resume(&["--agent", "qwen"]), 3, "no-leaf");
}

#[test]
fn in_place_appends_one_line_and_moves_the_client() {
    let place = Place::with(&two_branches());
    let before = place.transcript();
    let answer = place.resume(&["--leaf", "aaaa-a", "--seed", "in-place"]).code(0).json();
    let after = place.transcript();
    let added = after.strip_prefix(&before).expect("the source only grows at its end");
    assert_eq!(added.matches('\n').count(), 1);
    let anchor: Value = serde_json::from_str(added).unwrap();
    assert_eq!(anchor["uuid"], answer["seed"]["anchor"]);
    assert_eq!(anchor["parentUuid"], "aaaa-a");
    assert_eq!(
        anchor["systemPayload"],
        json!({"offshoot": 1, "operationId": answer["operationId"], "leafUuid": "aaaa-a"})
    );
    let keys: Vec<_> = anchor.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "uuid",
        "parentUuid",
        "sessionId",
        "timestamp",
        "type",
        "provenance",
        "cwd",
        "version",
        "systemPayload",
    ];
    assert_eq!(keys, expected, "nothing that the client could show or send");
    assert_eq!(place.client_pick(&place.path), "aaaa-a");
    assert_eq!(place.leaves(&place.path), ["aaaa-a", "bbbb-a"], "an anchor is no leaf");

    // Where the client lands there by itself, nothing is written.
    let again = place.resume(&["--leaf", "aaaa-a", "--seed", "in-place"]).code(0).json();
    assert_eq!(again["seed"]["anchor"], Value::Null);
    assert_eq!(again["seed"]["parentUuid"], answer["seed"]["anchor"]);
    assert_eq!(place.transcript(), after);
}

#[test]
fn an_unfinished_last_line_is_ended_before_the_anchor() {
    for torn in ["{\"uuid\":\"zz\",\"sess", "   ", "{\"uuid\":\"zz\",\"parentUuid\":null}x"] {
        let place = Place::with(&(two_branches() + torn));
        let before = place.transcript();
        place.resumed(&["--leaf", "aaaa-a", "--seed", "in-place"]);
        let after = place.transcript();
        assert!(after.strip_prefix(&before).unwrap().starts_with("\n{"), "{torn}");
        assert_eq!(place.client_pick(&place.path), "aaaa-a", "{torn}");
    }
    // A last line that is one whole record only lacks its line end.
    let place = Place::with(two_branches().trim_end());
    place.resumed(&["--leaf", "aaaa-a", "--seed", "in-place"]);
    assert_eq!(place.leaves(&place.path), ["aaaa-a", "bbbb-a"]);
}

#[test]
fn the_client_is_not_left_below_an_unfinished_last_line() {
    let torn = "{\"uuid\":\"zz\",\"message\":\"cut";
    let place = Place::with(&(two_branches() + torn));
    let before = place.transcript();
    assert_eq!(place.client_pick(&place.path), "bbbb-a", "it lands there by itself");
    let answer = place.resume(&["--leaf", "bbbb-a", "--seed", "in-place"]).code(0).json();
    assert_ne!(answer["seed"]["anchor"], Value::Null);
    assert_eq!(answer["seed"]["parentUuid"], answer["seed"]["anchor"]);
    assert!(place.transcript().strip_prefix(&before).unwrap().starts_with("\n{"));
    assert_eq!(place.client_pick(&place.path), "bbbb-a");

    // Nor is a child handed over that ends so: it is forked in turn.
    let place = Place::with(&two_branches());
    let policy = place.policy(NEWEST);
    let first = place.resume(&["--policy", &policy]).code(0).json();
    place.append(first["seed"]["transcript"].as_str().unwrap(), torn);
    let second = place.resume(&["--policy", &policy]).code(0).json();
    assert_eq!((&second["followed"], &second["seed"]["mode"]), (&json!([SESSION]), &json!("fork")));
}

#[test]
fn a_chain_over_records_that_the_client_cannot_see_needs_a_fork() {
    let artifact = json!({"subtype": "session_artifact_event", "systemPayload": {"v": 2}});
    let text = turn("root-q", "root-a", "", "2026-01-01T00:00:01.000Z")
        + &record("art", "root-a", "system", artifact)
        + &turn("aaaa-q", "aaaa-a", "art", "2026-01-01T00:10:00.000Z")
        + &turn("bbbb-q", "bbbb-a", "root-a", "2026-01-01T00:20:00.000Z");
    let place = Place::with(&text);
    let before = place.transcript();
    let refusal = refused(place.resume(&["--leaf", "aaaa-a", "--seed", "in-place"]), 3, "seed-unreachable");
    assert!(refusal["hint"].as_str().unwrap().contains("fork"));
    assert_eq!(place.transcript(), before);
    let answer = place.resume(&["--leaf", "aaaa-a"]).code(0).json();
    let child = answer["seed"]["transcript"].as_str().unwrap();
    let pick = place.inspect(child)["clientPick"].clone();
    assert_eq!((&pick["leafUuid"], &pick["gap"]), (&json!("aaaa-a"), &Value::Null));
    let ids = place.env.run(&["chain", child, "--json"]).code(0).json()["uuids"].clone();
    assert!(fs::read_to_string(child).unwrap().contains("\"art\""), "the artifact comes along: {ids}");
}

/// The client keeps half of a surrogate pair in an id; a parent that is written as U+FFFD would name another record,
/// and the client would lose what is above it without a word.
#[test]
fn an_id_that_cannot_be_written_again_has_no_seed() {
    let place = Place::with(&two_branches().replace("aaaa-q", r"aaaa-\ud800"));
    let before = place.transcript();
    for seed in ["fork", "in-place"] {
        refused(place.resume(&["--leaf", "aaaa-a", "--seed", seed]), 3, "seed-unreachable");
    }
    assert_eq!(place.transcript(), before);
    place.resumed(&["--leaf", "bbbb-a"]);
}

#[test]
fn none_records_the_choice_and_no_more() {
    let place = Place::with(&two_branches());
    let before = place.transcript();
    let answer = place.resume(&["--leaf", "aaaa-a", "--seed", "none"]).code(0).json();
    assert_eq!((&answer["seed"]["mode"], &answer["seed"]["sessionId"]), (&json!("none"), &json!(SESSION)));
    assert_eq!(place.transcript(), before);
    let recorded: Vec<_> = place.inspect(&place.path)["branches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["recorded"].clone())
        .collect();
    assert_eq!(recorded, [json!(true), json!(false)]);
    // What has grown from the recorded leaf is recorded, as long as it is one leaf.
    place.append(&place.path, &turn("aaaa-q2", "aaaa-a2", "aaaa-a", "2026-01-01T01:00:00.000Z"));
    let recorded_leaf = |place: &Place| {
        let inspection = place.inspect(&place.path);
        let branches = inspection["branches"].as_array().unwrap().iter();
        branches.filter(|b| b["recorded"] == true).map(|b| b["leafUuid"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(recorded_leaf(&place), [json!("aaaa-a2")]);
    place.append(&place.path, &turn("aaaa-q3", "aaaa-a3", "aaaa-a", "2026-01-01T02:00:00.000Z"));
    assert_eq!(recorded_leaf(&place), Vec::<Value>::new());
}

#[test]
fn a_policy_decides_and_says_by_which_rule() {
    let place = Place::with(&two_branches());
    let policy = place.policy(NEWEST);
    let answer = place.resume(&["--policy", &policy]).code(0).json();
    assert_eq!(answer["leafUuid"], "bbbb-a");
    let by = &answer["decidedBy"];
    assert_eq!(
        (&by["kind"], &by["policy"]["rule"], &by["policy"]["reason"]),
        (&json!("policy"), &json!("n"), &json!("r"))
    );
    assert_eq!(by["policy"]["digest"], format!("blake3:{}", blake3::hash(NEWEST.as_bytes())));
    let kept = place.env.path(&format!("state/policies/{}.toml", blake3::hash(NEWEST.as_bytes())));
    assert_eq!(fs::read_to_string(kept).unwrap(), NEWEST);

    let none = place.policy(&(NEWEST.to_owned() + "keep = { min_user = 99 }\n"));
    let refusal = refused(place.resume(&["--policy", &none]), 3, "policy-no-match");
    assert_eq!(refusal["detail"]["trace"].as_array().unwrap().len(), 1);
    let tie = place.policy(&NEWEST.replace("order = \"newest\"", "order = \"only\""));
    refused(place.resume(&["--policy", &tie]), 3, "policy-ambiguous");
    let invalid = place.policy(&NEWEST.replace("order", "ordre"));
    let refusal = refused(place.resume(&["--policy", &invalid]), 2, "policy-invalid");
    assert!(refusal["message"].as_str().unwrap().contains(":7:1"), "{refusal}");
}

#[test]
fn the_seed_of_a_policy_holds_unless_the_command_line_names_one() {
    let place = Place::with(&two_branches());
    let policy = place.policy(&(NEWEST.to_owned() + "[seed]\nmode = \"none\"\n"));
    assert_eq!(place.resume(&["--policy", &policy]).code(0).json()["seed"]["mode"], "none");
    assert_eq!(place.resume(&["--policy", &policy, "--seed", "fork"]).code(0).json()["seed"]["mode"], "fork");
}

#[test]
fn policies_are_found_by_variable_project_trust_and_configuration() {
    let place = Place::with(&two_branches());
    let work = place.env.path("work").display().to_string();
    let text = two_branches().replace("/workspace", &work);
    fs::write(&place.path, text).unwrap();
    let by = |ran: Ran| ran.code(0).json()["decidedBy"]["policy"]["path"].as_str().unwrap().to_owned();

    let file = place.env.write("elsewhere.toml", NEWEST);
    let mut with_variable = place.env.command(&["resume", &place.path, "--json", "--dry-run"]);
    with_variable.env("OFFSHOOT_POLICY", &file);
    assert_eq!(by(with_variable.output().unwrap().into()), file);

    // A cloned repository must not steer an unattended agent.
    let project = place.env.write("work/.offshoot/policy.toml", NEWEST);
    let ran = place.resume(&["--dry-run"]);
    assert!(ran.stderr.contains("not trusted"), "{}", ran.stderr);
    refused(ran, 3, "several-leaves");
    assert_eq!(place.env.run(&["policy", "trust", &project]).code, Some(0));
    let ran = place.resume(&["--dry-run"]);
    assert!(ran.stderr.contains("blake3:"), "which policy was used is said: {}", ran.stderr);
    assert_eq!(by(ran), project);
    fs::write(&project, NEWEST.replace("\"r\"", "\"other\"")).unwrap();
    refused(place.resume(&["--dry-run"]), 3, "several-leaves");

    let config = place.env.write("home/.config/offshoot/policy.toml", NEWEST);
    assert_eq!(by(place.resume(&["--dry-run"])), config);
    // `--leaf` needs none.
    assert_eq!(place.resume(&["--dry-run", "--leaf", "aaaa-a"]).code(0).json()["decidedBy"]["kind"], "leaf");
}

#[test]
fn an_unattended_resume_follows_the_child_it_forked_before() {
    let place = Place::with(&two_branches());
    let policy = place.policy(NEWEST);
    let first = place.resume(&["--policy", &policy]).code(0).json();
    let child = first["seed"]["transcript"].as_str().unwrap().to_owned();
    let child_id = first["seed"]["sessionId"].clone();

    // Untouched, the child is handed over: no second fork.
    let second = place.resume(&["--policy", &policy]).code(0);
    let note = format!("went on in session `{}`\n", child_id.as_str().unwrap());
    assert!(second.stderr.contains(&note), "{}", second.stderr);
    let second = second.json();
    assert_eq!(second["followed"], json!([SESSION]));
    assert_eq!((&second["seed"]["mode"], &second["seed"]["sessionId"]), (&json!("none"), &child_id));
    assert_eq!(second["command"], json!(["qwen", "--resume", child_id]));

    // The work went on there.
    let grown =
        turn("more-q", "more-a", first["seed"]["parentUuid"].as_str().unwrap(), "2026-01-02T00:00:00.000Z");
    place.append(&child, &grown.replace(SESSION, child_id.as_str().unwrap()));
    let branch = place.inspect(&place.path)["branches"][1].clone();
    assert_eq!(branch["continuedIn"], json!({"sessionId": child_id, "turns": 1}));
    let third = place.resume(&["--policy", &policy]).code(0).json();
    assert_eq!((&third["leafUuid"], &third["seed"]["sessionId"]), (&json!("more-a"), &child_id));

    // Rewound there, the verdict is not where the client lands: the child is forked in turn.
    let rewound = record(
        "rew",
        "bbbb-a",
        "system",
        json!({"subtype": "rewind", "sessionId": child_id,
        "timestamp": "2026-01-01T00:30:00.000Z"}),
    );
    place.append(&child, &rewound);
    let fourth = place.resume(&["--policy", &policy]).code(0).json();
    assert_eq!((&fourth["leafUuid"], &fourth["seed"]["mode"]), (&json!("more-a"), &json!("fork")));
    let grandchild = fourth["seed"]["sessionId"].clone();
    let fifth = place.resume(&["--policy", &policy]).code(0).json();
    assert_eq!(fifth["followed"], json!([SESSION, child_id]));
    assert_eq!(fifth["seed"]["sessionId"], grandchild);

    // The person who names a leaf, or says so, stays.
    for stay in [&["--leaf", "bbbb-a"][..], &["--policy", &policy, "--no-follow"]] {
        let answer = place.resume(stay).code(0).json();
        assert_eq!((&answer["followed"], &answer["seed"]["mode"]), (&json!([]), &json!("fork")), "{stay:?}");
    }
}

#[test]
fn a_policy_may_refuse_to_follow_or_fork_again() {
    let place = Place::with(&two_branches());
    let continued = |how: &str| place.policy(&format!("{NEWEST}[seed]\ncontinued = \"{how}\"\n"));
    let first = place.resume(&["--policy", &continued("refuse")]).code(0).json();
    let refusal = refused(place.resume(&["--policy", &continued("refuse")]), 3, "continued-elsewhere");
    assert_eq!(refusal["detail"]["sessionId"], first["seed"]["sessionId"]);
    let again = place.resume(&["--policy", &continued("fork-again")]).code(0).json();
    assert_eq!(again["followed"], json!([]));
    assert_ne!(again["seed"]["sessionId"], first["seed"]["sessionId"]);
}

#[test]
fn a_child_that_is_gone_does_not_count_and_that_is_said() {
    let place = Place::with(&two_branches());
    let policy = place.policy(NEWEST);
    let first = place.resume(&["--policy", &policy]).code(0).json();
    fs::remove_file(first["seed"]["transcript"].as_str().unwrap()).unwrap();
    let ran = place.resume(&["--policy", &policy]).code(0);
    assert!(ran.stderr.contains("gone"), "{}", ran.stderr);
    assert_eq!(ran.json()["seed"]["mode"], "fork");
}

#[test]
fn undo_goes_back_and_a_second_undo_goes_forth() {
    let place = Place::with(&two_branches());
    let undo = |place: &Place| place.env.run(&["undo", &place.path, "--json"]);
    refused(undo(&place), 3, "nothing-to-undo");
    place.resumed(&["--leaf", "aaaa-a"]);
    refused(undo(&place), 3, "nothing-to-undo");
    place.resumed(&["--leaf", "aaaa-a", "--seed", "in-place"]);
    // A no-op in between does not count.
    place.resumed(&["--leaf", "aaaa-a", "--seed", "in-place"]);
    let answer = undo(&place).code(0).json();
    assert_eq!((&answer["leafUuid"], &answer["decidedBy"]["kind"]), (&json!("bbbb-a"), &json!("undo")));
    assert_eq!(place.client_pick(&place.path), "bbbb-a");
    assert_eq!(undo(&place).code(0).json()["leafUuid"], "aaaa-a");
    assert_eq!(place.client_pick(&place.path), "aaaa-a");
}

#[test]
fn entries_of_another_path_with_the_same_session_id_do_not_count() {
    let place = Place::with(&two_branches());
    place.resumed(&["--leaf", "aaaa-a", "--seed", "none"]);
    let copy = place.env.write("work/copy/elsewhere.jsonl", place.transcript());
    let branches = place.inspect(&copy)["branches"].clone();
    assert!(branches.as_array().unwrap().iter().all(|b| b["recorded"] == false));
}

#[test]
fn the_simulation_is_given_the_final_bytes() {
    let place = Place::with(&two_branches());
    let marker = place.env.path("paused");
    let mut command =
        place.env.command(&["resume", &place.path, "--json", "--leaf", "aaaa-a", "--operation-id", "op"]);
    command.env("OFFSHOOT_FAULT_POINT", format!("fork-staged=pause:{}", marker.display()));
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while !marker.exists() {
        std::thread::yield_now();
    }
    let staged: Vec<_> = fs::read_dir(place.env.path("work"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.to_string_lossy().ends_with(".offshoot.tmp"))
        .collect();
    let [staged] = staged.as_slice() else { panic!("{staged:?}") };
    // One parent is altered: the answer now hangs on the root.
    let bytes = fs::read_to_string(staged).unwrap();
    fs::write(staged, bytes.replace("\"parentUuid\":\"aaaa-q\"", "\"parentUuid\":\"root-q\"")).unwrap();
    fs::remove_file(&marker).unwrap();
    refused(child.wait_with_output().unwrap().into(), 3, "seed-unreachable");
    assert!(!staged.exists(), "nothing is left of it");
    // The operation id is free again, and a retry decides afresh.
    let answer = place.resume(&["--leaf", "bbbb-a", "--operation-id", "op"]).code(0).json();
    assert_eq!(answer["leafUuid"], "bbbb-a");
}

#[test]
fn a_prompt_without_a_terminal_is_refused_before_anything_is_touched() {
    let place = Place::with(&two_branches());
    refused(place.resume(&["--pick"]), 3, "not-a-terminal");
    let names: Vec<_> =
        fs::read_dir(place.env.path("work")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "no lock file: {names:?}");
}

#[cfg(unix)]
#[test]
fn links_folders_and_pipes_are_no_transcripts() {
    let place = Place::with(&two_branches());
    let link = place.env.path("work/link.jsonl");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    refused(place.env.run(&["resume", link.to_str().unwrap(), "--json"]), 3, "unsafe-path");
    refused(place.env.run(&["resume", place.env.path("work").to_str().unwrap(), "--json"]), 3, "unsafe-path");
    let pipe = place.env.path("work/pipe.jsonl");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    refused(place.env.run(&["resume", pipe.to_str().unwrap(), "--json"]), 3, "unsafe-path");
    refused(place.env.run(&["resume", "work/none.jsonl", "--json"]), 3, "session-unknown");
}

#[test]
fn no_text_of_the_conversation_is_in_the_state_directory() {
    let place = Place::with(&two_branches().replace("text of", "SECRET"));
    place.resumed(&["--leaf", "aaaa-a"]);
    place.resumed(&["--leaf", "aaaa-a", "--seed", "in-place"]);
    let policy = place.policy(NEWEST);
    place.resumed(&["--policy", &policy, "--seed", "none"]);
    let mut state = BTreeMap::new();
    walk(&place.env.path("state"), &mut state);
    assert!(state.len() > 3);
    for (name, bytes) in state {
        assert!(!bytes.contains("SECRET"), "{name}");
    }
}
