//! Sessions of Reasonix that belong together: which leaves a rule sees, what was forked from what, what is hidden.

use std::fs;

use serde_json::{Value, json};

use crate::{
    reasonix_cli::Home,
    reasonix_made::{Log, message},
};

/// A home with the session `parent`, which ends with a closed turn.
fn parent() -> Home {
    let home = Home::with(&[]);
    home.add("parent", &Log::default().turn("turn_1").turn("turn_2").bytes);
    home
}

impl Home {
    fn ok(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).code(0).json()
    }

    fn refused(&self, args: &[&str], exit: i32, code: &str) {
        let ran = self.run(&[args, &["--json"]].concat()).code(exit).json();
        assert_eq!(ran["refusal"]["code"], code, "{args:?}: {ran}");
    }

    fn verified(&self) {
        let _ = self.run(&["audit", "verify", "--deep"]).code(0);
    }
}

fn child_of(answer: &Value) -> String {
    answer["seed"]["sessionId"].as_str().unwrap().to_owned()
}

/// What the client appends when it goes on in a session.
fn go_on(home: &Home, session: &str, turn: &str) {
    use crate::reasonix_made::{begin, commit_frames};
    use offshoot::dialect::reasonix::record::EventRecord;

    let log = home.log(session);
    let (commits, _) =
        crate::reasonix_made::commits(&log, &offshoot::dialect::reasonix::content::NoContents).unwrap();
    let first = commits.last().unwrap().last_seq() + 1;
    let payloads = [
        ("turn/start", "{}".to_owned()),
        ("message/complete", message("user", &format!("u-{session}-{turn}"), turn)),
        ("message/complete", message("assistant", &format!("a-{session}-{turn}"), turn)),
        ("turn/end", r#"{"status":"completed"}"#.to_owned()),
    ];
    let events: Vec<EventRecord> = (first..)
        .zip(payloads)
        .map(|(seq, (kind, payload))| EventRecord {
            id: format!("{session}-{seq}"),
            seq,
            kind: kind.to_owned(),
            optional: false,
            required: false,
            payload: Some(payload.into_bytes()),
            payload_ref: None,
        })
        .collect();
    let frames = commit_frames(&begin(&format!("{session}-{turn}"), turn, first, 4), &events);
    fs::write(home.root.join(session).join("events.frames"), [log, frames].concat()).unwrap();
}

#[test]
fn a_session_that_was_forked_at_its_end_goes_on_in_its_child() {
    let home = parent();
    let first = home.ok(&["resume", "parent"]);
    let child = child_of(&first);
    // Nobody went on yet, and then somebody did.
    for grown in [false, true] {
        if grown {
            go_on(&home, &child, "turn_3");
        }
        let again = home.ok(&["resume", "parent"]);
        assert_eq!((&again["seed"]["mode"], child_of(&again)), (&json!("none"), child.clone()), "{again}");
        assert_eq!(again["followed"], json!(["parent"]));
        assert_eq!(again["decidedBy"]["kind"], "only-leaf");
        // The child itself is the one leaf of who asks for it.
        let own = home.ok(&["resume", &child, "--dry-run"]);
        assert_eq!(own["leafUuid"], child, "{own}");
    }
    // And so on: the child of the child.
    let next = child_of(&home.ok(&["resume", &child]));
    assert_ne!(next, child);
    let last = home.ok(&["resume", "parent"]);
    assert_eq!((last["followed"].clone(), child_of(&last)), (json!(["parent", child]), next));
    // A person, and who names a leaf, sees all of them.
    assert_eq!(home.ok(&["inspect", "parent"])["branches"].as_array().unwrap().len(), 3);
    let named = child_of(&home.ok(&["resume", "parent", "--leaf", "parent"]));
    assert_ne!(named, child);
    home.verified();
}

#[test]
fn rules_judge_the_leaf_and_not_the_child_that_it_went_on_in() {
    let home = parent();
    let newest = home.env.write(
        "work/newest.toml",
        "version = 1\nname = \"n\"\nreason = \"r\"\n[[rule]]\nname = \"only\"\nreason = \"r\"\norder = \"only\"\n",
    );
    let first = home.ok(&["resume", "parent", "--policy", &newest]);
    let child = child_of(&first);
    go_on(&home, &child, "turn_3");
    let again = home.ok(&["resume", "parent", "--policy", &newest]);
    assert_eq!((child_of(&again), &again["followed"]), (child.clone(), &json!(["parent"])));
    let explained = home.ok(&["policy", "explain", &newest, "parent"]);
    assert!(!explained.to_string().contains(&child), "{explained}");
    let stays = home.ok(&["resume", "parent", "--no-follow"]);
    assert_eq!((&stays["leafUuid"], &stays["followed"]), (&json!("parent"), &json!([])));
    assert_ne!(child_of(&stays), child);
    home.verified();
}

#[test]
fn a_parent_that_went_on_by_itself_is_a_branch_of_its_own() {
    let home = parent();
    let child = child_of(&home.ok(&["resume", "parent"]));
    go_on(&home, "parent", "turn_3");
    // Neither of the two continues the other now, so nothing is followed and nothing is guessed.
    home.refused(&["resume", "parent"], 3, "several-leaves");
    home.refused(&["resume", &child], 3, "several-leaves");
    let branches = home.ok(&["inspect", "parent"])["branches"].clone();
    assert!(branches.as_array().unwrap().iter().all(|b| b.get("continuedIn").is_none()), "{branches}");
}

#[test]
fn another_child_of_an_earlier_turn_is_another_branch() {
    let home = parent();
    let early = home.ok(&["fork", "parent", "--turn", "turn_1"])["sessionId"].as_str().unwrap().to_owned();
    home.refused(&["resume", "parent"], 3, "several-leaves");
    let child = child_of(&home.ok(&["resume", "parent", "--leaf", "parent"]));
    home.refused(&["resume", "parent"], 3, "several-leaves");
    let refusal = home.run(&["resume", "parent", "--json"]).code(3).json();
    let offered = refusal["refusal"]["detail"]["leaves"].to_string();
    assert!(offered.contains(&early) && !offered.contains(&child), "{offered}");
}

#[test]
fn a_relative_that_is_newer_makes_no_session_stale() {
    let home = parent();
    let child = child_of(&home.ok(&["resume", "parent"]));
    go_on(&home, &child, "turn_3");
    let _ = home.run(&["inspect", "parent", "--check"]).code(0);
    let listed = home.ok(&["sessions"]);
    for session in listed["sessions"].as_array().unwrap() {
        assert_eq!(session["clientPick"]["stale"], false, "{session}");
    }
}

#[test]
fn a_turn_whose_prompt_was_taken_back_is_known_and_unverifiable() {
    let home = Home::with(&[]);
    let log = Log::default()
        .turn("turn_1")
        .turn("turn_2")
        .commit("", &[("message/retract", r#"{"messageIds":["u-turn_1"]}"#, false)]);
    home.add("s", &log.bytes);
    let listed = home.ok(&["targets", "s"]);
    assert_eq!(listed["targets"].as_array().unwrap().len(), 1);
    assert_eq!(listed["targets"][0]["turnNumber"], 1);
    home.refused(&["fork", "s", "--turn", "turn_1"], 3, "history-unverifiable");
    home.refused(&["fork", "s", "--turn", "turn_9"], 3, "unknown-turn");
    // A prefix means both, and neither is guessed.
    home.refused(&["fork", "s", "--turn", "turn"], 3, "id-ambiguous");
    let _ = home.run(&["fork", "s", "--turn", "turn_2"]).code(0);
}

#[test]
fn turns_without_a_message_can_be_forked() {
    let home = Home::with(&[]);
    let log = Log::default()
        .commit("t1", &[("turn/start", "{}", false)])
        .commit("t1", &[("turn/end", r#"{"status":"failed"}"#, false)])
        .turn("turn_2");
    home.add("s", &log.bytes);
    let forked = home.ok(&["fork", "s", "--turn", "t1"]);
    let child = forked["sessionId"].as_str().unwrap();
    assert_eq!(home.ok(&["targets", child])["targets"].as_array().unwrap().len(), 1);
    let again = home.ok(&["fork", "s", "--turn", "t1"]);
    assert_eq!((&again["sessionId"], &again["replayed"]), (&json!(child), &json!(true)));
    let _ = home.ok(&["resume", child, "--leaf", child]);
    let _ = home.run(&["recover"]).code(0);
    home.verified();
}

#[test]
fn the_client_says_where_its_home_is() {
    let home = parent();
    let moved = home.env.path("elsewhere");
    let at = home.root.ancestors().nth(3).unwrap();
    fs::rename(at, &moved).unwrap();
    let ids = |set: &[(&str, &std::path::Path)]| {
        let mut command = home.env.command(&["sessions", "--json"]);
        command.envs(set.iter().copied());
        let listed = crate::support::Ran::from(command.output().unwrap()).code(0).json();
        listed["sessions"].as_array().unwrap().len()
    };
    let nowhere = home.env.path("nowhere");
    assert_eq!(ids(&[]), 0);
    assert_eq!(ids(&[("REASONIX_HOME", &moved)]), 1);
    assert_eq!(ids(&[("REASONIX_STATE_HOME", &moved), ("REASONIX_HOME", &nowhere)]), 1);
    assert_eq!(ids(&[("REASONIX_STATE_HOME", &nowhere), ("REASONIX_HOME", &moved)]), 0);
}

#[test]
fn a_relative_that_is_damaged_stands_in_the_way_of_no_fork() {
    let home = parent();
    let child = home.ok(&["fork", "parent", "--turn", "turn_1"])["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(home.ok(&["sessions"])["sessions"][0]["leaves"], 2);
    let log = home.root.join(&child).join("events.frames");
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 0xff;
    fs::write(&log, bytes).unwrap();
    // Its log is not so much as read.
    let _ = home.ok(&["fork", "parent", "--turn", "turn_2"]);
    let listed = home.ok(&["sessions"]);
    let damaged = listed["sessions"].as_array().unwrap().iter().filter(|s| s.get("error").is_some());
    assert_eq!(damaged.map(|s| s["sessionId"].as_str().unwrap()).collect::<Vec<_>>(), [child.as_str()]);
    let _ = home.ok(&["targets", "parent"]);
}

#[test]
fn an_anchor_names_one_turn_where_an_id_does_not() {
    let home = Home::with(&[]);
    let again = |turn: &str, id: &str| {
        [
            ("turn/start", "{}".to_owned(), false),
            ("message/complete", message("user", id, turn), false),
            ("turn/end", r#"{"status":"completed"}"#.to_owned(), false),
        ]
    };
    let mut log = Log::default().turn("turn_1");
    for (turn, id) in [("turn_1", "again"), ("turn_10", "tenth")] {
        let events = again(turn, id);
        let events: Vec<_> = events.iter().map(|(kind, payload, o)| (*kind, payload.as_str(), *o)).collect();
        log = log.commit(turn, &events);
    }
    home.add("s", &log.bytes);
    let listed = home.ok(&["targets", "s"]);
    let anchor = |i: usize| listed["targets"][i]["anchor"].as_str().unwrap().to_owned();
    let mut children = Vec::new();
    for (i, turns) in [(0, 1), (1, 2)] {
        let forked = home.ok(&["fork", "s", "--turn", "turn_1", "--expect", &anchor(i)]);
        let child = forked["sessionId"].as_str().unwrap().to_owned();
        assert_eq!(home.ok(&["targets", &child])["targets"].as_array().unwrap().len(), turns);
        children.push(child);
    }
    // Without one the first is meant, as it is to the client.
    assert_eq!(home.ok(&["fork", "s", "--turn", "turn_1"])["sessionId"], children[0]);
    // The name of one turn begins like that of another one.
    home.refused(&["fork", "s", "--turn", "turn_1", "--expect", &anchor(2)], 4, "stale-source");
    let _ = home.ok(&["fork", "s", "--turn", "turn_10", "--expect", &anchor(2)]);
}
