//! `targets` and `fork` as callers use them: what a child holds, what is refused, and that one request is one child.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use offshoot::record::Agent;
use serde_json::{Value, json};

use crate::{
    stage::{Process, names, records_of, until},
    support::{Ran, TestEnv, fixture},
    turns::{
        Lines, SESSION, answers, asks, calls, claude, duration, note, pin, qwen, returns, says, telemetry,
        uses,
    },
};

const BOTH: [Agent; 2] = [Agent::Qwen, Agent::Claude];

/// A session in its agent's place.
pub struct Source {
    pub env: TestEnv,
    pub path: PathBuf,
}

/// Two turns that ended, and one in the middle of a tool call.
pub fn history(agent: Agent) -> Lines {
    Lines(match agent {
        Agent::Claude => vec![
            asks("u1", None),
            answers("a1", "u1"),
            duration("d1", "a1"),
            asks("u2", Some("d1")),
            answers("a2", "u2"),
            duration("d2", "a2"),
            asks("u3", Some("d2")),
            uses("c3", "u3", "m3", "k3"),
        ],
        _ => vec![
            qwen("u1", None, "user", says("one")),
            qwen("a1", Some("u1"), "assistant", says("answer one")),
            telemetry("d1", "a1"),
            qwen("u2", Some("d1"), "user", says("two")),
            qwen("a2", Some("u2"), "assistant", says("answer two")),
            telemetry("d2", "a2"),
            qwen("u3", Some("d2"), "user", says("three")),
            qwen("c3", Some("u3"), "assistant", calls("k3")),
        ],
    })
}

impl Source {
    pub fn new(agent: Agent) -> Source {
        Source::with(agent, &history(agent))
    }

    pub fn with(agent: Agent, lines: &Lines) -> Source {
        let env = TestEnv::new();
        let place = match agent {
            Agent::Claude => format!("home/.claude/projects/-w/{SESSION}.jsonl"),
            _ => format!("home/.qwen/projects/-w/chats/{SESSION}.jsonl"),
        };
        let path = fs::canonicalize(env.write(&place, lines.bytes())).unwrap();
        Source { env, path }
    }

    pub fn command(&self, verb: &str, args: &[&str]) -> Command {
        self.env.command(&[&[verb, self.path.to_str().unwrap(), "--json"], args].concat())
    }

    pub fn run(&self, verb: &str, args: &[&str]) -> Ran {
        Ran::from(self.command(verb, args).output().unwrap())
    }

    #[track_caller]
    pub fn fork(&self, args: &[&str]) -> Value {
        self.run("fork", args).code(0).json()
    }

    /// Asserts the code of a refusal, and that it left nothing.
    #[track_caller]
    pub fn refused(&self, args: &[&str], code: &str, status: i32) -> Value {
        let before = (fs::read(&self.path).unwrap(), self.sessions());
        let refusal = self.run("fork", args).code(status).json()["refusal"].clone();
        assert_eq!(refusal["code"], code, "{refusal}");
        assert_eq!((fs::read(&self.path).unwrap(), self.sessions()), before);
        refusal
    }

    #[track_caller]
    pub fn targets(&self) -> Value {
        self.run("targets", &[]).code(0).json()
    }

    #[track_caller]
    pub fn anchor(&self, turn: &str) -> String {
        let targets = self.targets();
        let target = targets["targets"].as_array().unwrap().iter().find(|t| t["turnId"] == turn).unwrap();
        target["anchor"].as_str().unwrap().to_owned()
    }

    /// Everything in the source's folder.
    pub fn sessions(&self) -> Vec<String> {
        let mut names = names(self.path.parent().unwrap());
        names.sort();
        names
    }

    pub fn append(&self, line: &Value) {
        use std::io::Write;
        let mut file = fs::File::options().append(true).open(&self.path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    pub fn states(&self, operation: &Value) -> Vec<String> {
        let operation = operation.as_str().unwrap();
        let shown = self.env.run(&["audit", "show", operation, "--json"]).code(0).json();
        let attempts = shown["attempts"].as_array().unwrap().iter();
        attempts
            .flat_map(|a| a["entries"].as_array().unwrap().clone())
            .map(|e| e["state"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Nothing is pending, and the ledgers agree with what is on the disk.
    #[track_caller]
    pub fn sound(&self) {
        let recovered = self.env.run(&["recover", "--json"]).code(0).json();
        assert_eq!(recovered["settled"], json!([]));
        let _ = self.env.run(&["audit", "verify", "--deep"]).code(0);
    }
}

/// The uuids of a child's records that its source has too, in order.
fn inherited(child: &Value) -> Vec<String> {
    let records = records_of(Path::new(child["transcript"].as_str().unwrap()));
    let copied = records.iter().filter(|r| r.get("forkedFrom").is_some());
    copied.map(|r| r["uuid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_child_holds_the_prefix_and_nothing_else() {
    for agent in BOTH {
        let source = Source::new(agent);
        let child = source.fork(&["--turn", "u1"]);
        assert_eq!(child["schema"], "offshoot.fork/1");
        assert_eq!(
            (&child["turnId"], &child["turnNumber"], &child["replayed"]),
            (&json!("u1"), &json!(1), &json!(false))
        );
        assert_eq!(inherited(&child), ["u1", "a1", "d1"], "{agent}");
        let child = source.fork(&["--turn", "u2"]);
        assert_eq!(inherited(&child), ["u1", "a1", "d1", "u2", "a2", "d2"], "{agent}");
        // Its own records are of its own session, and the agent lists and resumes it.
        let id = child["sessionId"].as_str().unwrap();
        let seen = source.env.run(&["inspect", id, "--json"]).code(0).json();
        assert_eq!(seen["sessionId"], id);
        assert_eq!(seen["branches"].as_array().unwrap().len(), 1);
        assert_eq!(seen["diagnostics"], json!([]));
        assert_eq!(child["command"], json!([agent.name(), "--resume", id]));
        source.sound();
    }
}

#[test]
fn the_cut_covers_the_commit_that_closed_the_turn() {
    for agent in BOTH {
        let source = Source::new(agent);
        let targets = source.targets();
        let target = &targets["targets"][1];
        assert_eq!(
            (&target["start"], &target["end"], &target["boundary"]),
            (&json!(4), &json!(5), &json!(6))
        );
        // The record at the boundary is the last one that the child has.
        assert_eq!(inherited(&source.fork(&["--turn", "u2"])).last().unwrap(), "d2");
    }
}

#[test]
fn targets_are_the_same_for_a_source_that_is_read_only_or_reopened() {
    for agent in BOTH {
        let source = Source::new(agent);
        let before = source.targets();
        assert_eq!(before["schema"], "offshoot.targets/1");
        assert_eq!(
            (&before["agent"], &before["sessionId"], &before["verifiable"]),
            (&json!(agent), &json!(SESSION), &json!(true))
        );
        fs::set_permissions(&source.path, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(source.targets(), before);
        let child = source.fork(&["--turn", "u2", "--expect", &source.anchor("u2")]);
        assert_eq!(source.targets(), before);
        // The inherited turns are targets of the child, under other anchors.
        let of_child =
            source.env.run(&["targets", child["sessionId"].as_str().unwrap(), "--json"]).code(0).json();
        let ids: Vec<_> =
            of_child["targets"].as_array().unwrap().iter().map(|t| (&t["turnId"], &t["available"])).collect();
        assert_eq!(ids, [(&json!("u1"), &json!(true)), (&json!("u2"), &json!(true))], "{agent}");
        assert_ne!(of_child["targets"][0]["anchor"], before["targets"][0]["anchor"]);
    }
}

#[test]
fn the_source_is_not_touched_and_no_lease_of_it_is_taken() {
    for agent in BOTH {
        let source = Source::new(agent);
        let look = |path: &Path| {
            let meta = fs::metadata(path).unwrap();
            (fs::read(path).unwrap(), meta.ino(), meta.mtime_nsec(), meta.ctime_nsec(), meta.mode())
        };
        let before = look(&source.path);
        let child = source.fork(&["--turn", "u1"]);
        assert_eq!(look(&source.path), before);
        // Not even a lock file of ours appears.
        let mut expected =
            vec![format!("{SESSION}.jsonl"), format!("{}.jsonl", child["sessionId"].as_str().unwrap())];
        expected.sort();
        assert_eq!(source.sessions(), expected);
    }
}

#[test]
fn the_open_turn_is_listed_and_refused_while_the_others_can_be_forked_at() {
    for agent in BOTH {
        let source = Source::new(agent);
        let targets = source.targets();
        let of = |key: &str| {
            targets["targets"].as_array().unwrap().iter().map(|t| t[key].clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("available"), [json!(true), json!(true), json!(false)]);
        assert_eq!(targets["targets"][2]["reason"], "turn-open");
        assert_eq!(targets["targets"][2]["status"], "in_progress");
        assert_eq!(targets["targets"][2]["anchor"], Value::Null);
        source.refused(&["--turn", "u3"], "turn-open", 3);
    }
}

#[test]
fn a_turn_that_is_not_there_is_refused_and_never_taken_for_another() {
    for agent in BOTH {
        let source = Source::new(agent);
        for name in ["u4", "1", "2", "a1", "u", "U1", ""] {
            source.refused(&["--turn", name], "unknown-turn", 3);
        }
        assert_eq!(source.env.run(&["audit", "list", "--json"]).code(0).json()["selections"], json!([]));
    }
}

#[test]
fn a_call_that_was_open_when_the_turn_was_closed_is_refused() {
    let closed = history(Agent::Qwen).with([note(
        "x",
        "c3",
        "turn_result",
        json!({"promptId": "p", "state": "cancelled"}),
    )]);
    Source::with(Agent::Qwen, &closed).refused(&["--turn", "u3"], "active-authority", 3);
    let closed = history(Agent::Claude).with([duration("x", "c3")]);
    Source::with(Agent::Claude, &closed).refused(&["--turn", "u3"], "active-authority", 3);
}

#[test]
fn a_call_that_was_resolved_before_the_turn_was_closed_is_accepted() {
    let closed = history(Agent::Qwen).with([
        qwen("r3", Some("c3"), "tool_result", returns("k3")),
        note("x", "r3", "turn_result", json!({"promptId": "p", "state": "cancelled"})),
    ]);
    let source = Source::with(Agent::Qwen, &closed);
    assert_eq!(source.targets()["targets"][2]["status"], "interrupted");
    let child = source.fork(&["--turn", "u3"]);
    assert_eq!(inherited(&child)[6..], ["u3", "c3", "r3", "x"]);
}

#[test]
fn a_turn_that_was_never_closed_is_refused_by_its_own_name() {
    let cut_off = history(Agent::Claude).with([asks("u4", Some("c3"))]);
    let source = Source::with(Agent::Claude, &cut_off);
    assert_eq!(source.targets()["targets"][2]["reason"], "turn-unclosed");
    source.refused(&["--turn", "u3"], "turn-unclosed", 3);
}

#[test]
fn a_history_without_proof_is_refused_and_not_guessed() {
    let messages = Lines(vec![
        qwen("m1", None, "assistant", says("Welcome back. Your last turn is finished.")),
        qwen("m2", Some("m1"), "assistant", says("Done.")),
    ]);
    let source = Source::with(Agent::Qwen, &messages);
    let targets = source.targets();
    assert_eq!((&targets["verifiable"], &targets["targets"]), (&json!(false), &json!([])));
    source.refused(&["--turn", "m1"], "history-unverifiable", 3);
    // A record can be forked at all the same: nothing is claimed of turns then.
    assert_eq!(inherited(&source.fork(&["--at", "m1"])), ["m1"]);
}

#[test]
fn a_second_click_returns_the_same_child() {
    for agent in BOTH {
        let source = Source::new(agent);
        let first = source.fork(&["--turn", "u1"]);
        let second = source.fork(&["--turn", "u1"]);
        assert_eq!(
            (&second["sessionId"], &second["operationId"]),
            (&first["sessionId"], &first["operationId"])
        );
        assert_eq!((&first["replayed"], &second["replayed"]), (&json!(false), &json!(true)));
        assert_eq!(source.sessions().len(), 2);
        // Another turn is another place, and so is a record.
        assert_ne!(source.fork(&["--turn", "u2"])["sessionId"], first["sessionId"]);
        assert_ne!(source.fork(&["--at", "a1"])["sessionId"], first["sessionId"]);
        source.sound();
    }
}

#[test]
fn a_second_child_is_made_when_it_is_asked_for() {
    let source = Source::new(Agent::Qwen);
    let first = source.fork(&["--turn", "u1"]);
    let second = source.fork(&["--turn", "u1", "--new"]);
    assert_ne!(second["sessionId"], first["sessionId"]);
    // The last one that nobody took up is the one that a click returns.
    assert_eq!(source.fork(&["--turn", "u1"])["sessionId"], second["sessionId"]);
    let acknowledge = |child: &Value| {
        let id = child["operationId"].as_str().unwrap();
        let acked = source.env.run(&["fork", "--ack", id, "--json"]).code(0).json();
        assert_eq!((&acked["sessionId"], &acked["acknowledged"]), (&child["sessionId"], &json!(true)));
        acked
    };
    assert_eq!(acknowledge(&second), acknowledge(&second), "once is as good as twice");
    assert_eq!(source.states(&second["operationId"]), ["pending", "completed", "acknowledged"]);
    assert_eq!(source.fork(&["--turn", "u1"])["sessionId"], first["sessionId"]);
    acknowledge(&first);
    let third = source.fork(&["--turn", "u1"]);
    assert!(![&first, &second].iter().any(|child| child["sessionId"] == third["sessionId"]));
    assert_eq!(third["replayed"], false);
    source.sound();
}

#[test]
fn a_child_that_is_resumed_is_acknowledged() {
    for agent in BOTH {
        let source = Source::new(agent);
        let first = source.fork(&["--turn", "u1"]);
        let id = first["sessionId"].as_str().unwrap();
        let _ = source.env.run(&["resume", id, "--seed", "none"]).code(0);
        assert_eq!(source.states(&first["operationId"]), ["pending", "completed", "acknowledged"], "{agent}");
        assert_ne!(source.fork(&["--turn", "u1"])["sessionId"], first["sessionId"], "{agent}");
    }
}

#[test]
fn a_child_that_the_agent_went_on_in_is_acknowledged() {
    let source = Source::new(Agent::Qwen);
    let first = source.fork(&["--turn", "u1"]);
    let child = Source { env: TestEnv::new(), path: first["transcript"].as_str().unwrap().into() };
    let mut next = qwen("n1", Some("d1"), "user", says("on we go"));
    next["sessionId"] = first["sessionId"].clone();
    child.append(&next);
    // By its own id it stays the answer.
    let operation = first["operationId"].as_str().unwrap();
    assert_eq!(source.fork(&["--turn", "u1", "--operation-id", operation])["sessionId"], first["sessionId"]);
    assert_ne!(source.fork(&["--turn", "u1"])["sessionId"], first["sessionId"]);
    assert_eq!(source.states(&first["operationId"]), ["pending", "completed", "acknowledged"]);
    source.sound();
}

#[test]
fn a_retry_with_the_same_id_gives_the_same_child_whatever_came_of_the_source() {
    for agent in BOTH {
        let source = Source::new(agent);
        let args = ["--turn", "u2", "--operation-id", "mine"];
        let first = source.fork(&args);
        assert_eq!(first["operationId"], "mine");
        source.append(&history(agent).0[6]);
        let mut again = source.fork(&args);
        assert_eq!(again["replayed"], true);
        again["replayed"] = json!(false);
        assert_eq!(again, first);
        fs::write(&source.path, Lines(history(agent).0[3..4].to_vec()).bytes()).unwrap();
        assert_eq!(source.fork(&args)["sessionId"], first["sessionId"]);
        // Acknowledged or not.
        let _ = source.env.run(&["fork", "--ack", "mine"]).code(0);
        assert_eq!(source.fork(&args)["sessionId"], first["sessionId"]);
        fs::remove_file(first["transcript"].as_str().unwrap()).unwrap();
        source.refused(&args, "stale-source", 4);
    }
}

#[test]
fn an_operation_id_means_one_request() {
    let source = Source::new(Agent::Qwen);
    source.fork(&["--turn", "u1", "--operation-id", "mine"]);
    source.refused(&["--turn", "u2", "--operation-id", "mine"], "operation-conflict", 3);
    source.refused(&["--at", "u1", "--operation-id", "mine"], "operation-conflict", 3);
    let resumed = source.run("resume", &["--leaf", "c3", "--operation-id", "mine"]).code(3).json();
    assert_eq!(resumed["refusal"]["code"], "operation-conflict");
    let _ = source.run("resume", &["--leaf", "c3", "--operation-id", "theirs"]).code(0);
    source.refused(&["--turn", "u1", "--operation-id", "theirs"], "operation-conflict", 3);
    source.refused(&["--turn", "u1", "--operation-id", "\u{e9}"], "usage", 2);
    for id in ["nobodys", "theirs"] {
        let refused = source.env.run(&["fork", "--ack", id, "--json"]).code(3).json();
        assert_eq!(refused["refusal"]["code"], "operation-unknown", "{id}");
    }
}

#[test]
fn an_anchor_refuses_a_source_that_was_replaced() {
    for agent in BOTH {
        let source = Source::new(agent);
        let anchor = source.anchor("u2");
        let expecting =
            |anchor: &str| ["--turn".to_owned(), "u2".to_owned(), "--expect".to_owned(), anchor.to_owned()];
        let with = |anchor: &str| expecting(anchor);
        // One word of the first prompt is another: same ids, same places.
        let whole = fs::read_to_string(&source.path).unwrap();
        let replaced = whole.replacen("answer one", "answer 0ne", 1).replacen(
            "\"content\":\"u1\"",
            "\"content\":\"uI\"",
            1,
        );
        assert_ne!(whole, replaced);
        fs::write(&source.path, &replaced).unwrap();
        let args = with(&anchor);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let refusal = source.refused(&args, "stale-source", 4);
        assert!(refusal["message"].as_str().unwrap().contains("not what it was"), "{refusal}");
        let at: Vec<&str> = ["--at", "a1", "--expect", &anchor].to_vec();
        source.refused(&at, "stale-source", 4);
        // What stands behind the boundary is no matter.
        fs::write(&source.path, whole.replace("three", "3")).unwrap();
        let child = source.fork(&args);
        // The child has the same turns, and is another source.
        let of_child = Source { env: TestEnv::new(), path: child["transcript"].as_str().unwrap().into() };
        of_child.refused(&args, "stale-source", 4);
        source.refused(&["--turn", "u1", "--expect", &anchor], "stale-source", 4);
        source.refused(&["--turn", "u2", "--expect", "ot1:nonsense"], "usage", 2);
    }
}

#[test]
fn a_fork_at_the_first_message_holds_just_that_message() {
    for agent in BOTH {
        let source = Source::new(agent);
        let child = source.fork(&["--at", "u1"]);
        assert_eq!(inherited(&child), ["u1"], "{agent}");
        assert_eq!((child.get("turnId"), &child["record"]), (None, &json!("u1")));
        source.sound();
    }
}

#[test]
fn a_fork_at_a_record_ends_with_it_or_says_why_it_cannot() {
    for agent in BOTH {
        let source = Source::new(agent);
        assert_eq!(inherited(&source.fork(&["--at", "a2"])), ["u1", "a1", "d1", "u2", "a2"], "{agent}");
        assert_eq!(inherited(&source.fork(&["--at", "u3"]))[6..], ["u3"], "{agent}");
        source.refused(&["--at", "c3"], "inside-tool-round", 3);
        source.refused(&["--at", "nowhere"], "leaf-unknown", 3);
    }
    // All of a round is inside it, until the reply.
    let lines = history(Agent::Qwen).with([
        qwen("r3", Some("c3"), "tool_result", returns("k3")),
        telemetry("t3", "r3"),
        qwen("a3", Some("t3"), "assistant", says("so it is")),
    ]);
    let source = Source::with(Agent::Qwen, &lines);
    for inside in ["c3", "r3", "t3"] {
        source.refused(&["--at", inside], "inside-tool-round", 3);
    }
    assert_eq!(inherited(&source.fork(&["--at", "a3"]))[6..], ["u3", "c3", "r3", "t3", "a3"]);
    // A title stands for the record that it hangs below.
    let titled = history(Agent::Qwen).with([note("t", "a2", "custom_title", json!({"customTitle": "x"}))]);
    assert_eq!(Source::with(Agent::Qwen, &titled).fork(&["--at", "t"])["record"], "a2");
}

#[test]
fn a_reply_in_parts_is_forked_at_as_one() {
    let part = |uuid: &str, parent: &str, content: Value| {
        claude(uuid, Some(parent), "assistant", json!({"id": "m", "role": "assistant", "content": content}))
    };
    let lines = Lines(vec![
        asks("u1", None),
        part("p1", "u1", json!([{"type": "thinking", "thinking": "hm"}])),
        part("p2", "p1", json!([{"type": "text", "text": "so"}])),
        duration("d", "p2"),
    ]);
    let source = Source::with(Agent::Claude, &lines);
    assert_eq!(inherited(&source.fork(&["--at", "p1"])), ["u1", "p1", "p2"]);
}

#[test]
fn a_record_of_a_subagent_is_refused() {
    let mut side = answers("s1", "u2");
    side["isSidechain"] = json!(true);
    let lines = history(Agent::Claude).with([side]);
    Source::with(Agent::Claude, &lines).refused(&["--at", "s1"], "sidechain-leaf", 3);
}

#[test]
fn a_target_of_any_branch_can_be_forked_at() {
    for agent in BOTH {
        let branch = match agent {
            Agent::Claude => vec![asks("v2", Some("d1")), answers("b2", "v2"), pin("b2")],
            _ => vec![
                qwen("v2", Some("d1"), "user", says("other")),
                qwen("b2", Some("v2"), "assistant", says("way")),
                telemetry("t2", "b2"),
            ],
        };
        let source = Source::with(agent, &history(agent).with(branch));
        let child = inherited(&source.fork(&["--turn", "v2"]));
        assert_eq!(child[..5], ["u1", "a1", "d1", "v2", "b2"], "{agent}");
        assert!(!child.contains(&"u2".to_owned()));
        assert_eq!(inherited(&source.fork(&["--turn", "u2"]))[3..], ["u2", "a2", "d2"], "{agent}");
        source.sound();
    }
}

/// The cases that were measured with the clients: whatever is said to be available can be forked at, and the child proves
/// itself, unless its history is cut off; then that is said, as it is for a resume.
#[test]
fn the_targets_of_the_measured_cases_can_be_forked_at() {
    let (mut forked, mut broken) = (0, 0);
    for agent in BOTH {
        for case in fs::read_dir(fixture(&format!("cases/{}", agent.name()))).unwrap() {
            let case = case.unwrap().path();
            let Ok(files) = fs::read_dir(&case) else { continue };
            for file in
                files.map(|f| f.unwrap().path()).filter(|f| f.extension().is_some_and(|e| e == "jsonl"))
            {
                let env = TestEnv::new();
                let name = file.file_name().unwrap().to_str().unwrap().to_owned();
                let path: PathBuf = env.write(&format!("work/{name}"), fs::read(&file).unwrap()).into();
                let source = Source { env, path: fs::canonicalize(path).unwrap() };
                let asked = ["--agent", agent.name()];
                let targets = source.run("targets", &asked).code(0).json();
                let available =
                    targets["targets"].as_array().unwrap().iter().rfind(|t| t["available"] == true);
                let Some(target) = available else { continue };
                let (turn, anchor) = (target["turnId"].as_str().unwrap(), target["anchor"].as_str().unwrap());
                let ran = source.run("fork", &[&["--turn", turn, "--expect", anchor], &asked[..]].concat());
                if ran.code == Some(0) {
                    forked += 1;
                    continue;
                }
                let refusal = ran.json()["refusal"].clone();
                let reason = refusal["code"].as_str().unwrap();
                assert!(
                    ["chain-broken", "seed-unreachable"].contains(&reason),
                    "{}: {refusal}",
                    case.display()
                );
                assert!(!source.sessions().iter().any(|n| n.ends_with(".jsonl") && *n != name));
                broken += 1;
            }
        }
    }
    assert!(forked > 100 && broken < 10, "{forked} forked, {broken} broken");
}

/// A process that stopped at a fault point until it is let go.
struct Held {
    process: Process,
    file: PathBuf,
}

impl Held {
    #[track_caller]
    fn at(source: &Source, point: &str, mut command: Command) -> Held {
        let file = source.env.path(&format!("held-{point}"));
        command.env("OFFSHOOT_FAULT_POINT", format!("{point}=pause:{}", file.display()));
        let mut process = Process::spawn(command);
        until(point, || file.exists() || process.child.try_wait().unwrap().is_some());
        assert!(file.exists(), "it ended before {point}: {:?}", process.end());
        Held { process, file }
    }

    fn go(self) -> Ran {
        fs::remove_file(&self.file).unwrap();
        self.process.end()
    }
}

#[test]
fn a_fork_works_while_the_agent_writes_and_while_somebody_holds_the_lease() {
    for agent in BOTH {
        let source = Source::new(agent);
        let holder =
            Held::at(&source, "leased", source.command("resume", &["--leaf", "c3", "--seed", "none"]));
        let forking = Held::at(&source, "fork-staged", source.command("fork", &["--turn", "u1"]));
        // The agent gets on with its turn, and is in the middle of a line.
        source.append(&asks("u4", Some("c3")));
        fs::write(&source.path, [fs::read(&source.path).unwrap(), b"{\"uuid\":".to_vec()].concat()).unwrap();
        let child = forking.go().code(0).json();
        assert_eq!(inherited(&child), ["u1", "a1", "d1"], "{agent}");
        assert_eq!(source.targets()["targets"][0]["available"], true);
        let _ = holder.go();
    }
}

#[test]
fn a_source_that_is_rewritten_meanwhile_is_no_source() {
    let source = Source::new(Agent::Qwen);
    let forking =
        Held::at(&source, "fork-staged", source.command("fork", &["--turn", "u1", "--operation-id", "op"]));
    let whole = fs::read_to_string(&source.path).unwrap();
    fs::write(&source.path, whole.replacen("answer one", "answer 0ne", 1)).unwrap();
    let refusal = forking.go().code(4).json();
    assert_eq!(refusal["refusal"]["code"], "snapshot-changed");
    assert_eq!(source.sessions().len(), 1);
    assert_eq!(source.states(&json!("op")), ["pending", "abandoned"]);
    // The id is free again: it is decided afresh.
    assert_eq!(inherited(&source.fork(&["--turn", "u1", "--operation-id", "op"])), ["u1", "a1", "d1"]);
}

#[test]
fn of_two_processes_that_contend_for_one_turn_one_forks() {
    for agent in BOTH {
        for id in [&[][..], &["--operation-id", "shared"]] {
            let source = Source::new(agent);
            let args = [&["--turn", "u1"], id].concat();
            let first = Held::at(&source, "pending", source.command("fork", &args));
            let refusal = source.refused(&args, "operation-in-flight", 4);
            assert_eq!(refusal["retryable"], true);
            // The one that waits is answered with the other's child.
            let waiting = Process::spawn(source.command("fork", &[&args[..], &["--wait", "20s"]].concat()));
            let first = first.go().code(0).json();
            let second = waiting.end().code(0).json();
            assert_eq!(first["sessionId"], second["sessionId"]);
            assert_eq!((&first["replayed"], &second["replayed"]), (&json!(false), &json!(true)));
            assert_eq!(source.sessions().len(), 2);
            source.sound();
        }
    }
}

#[test]
fn many_processes_at_once_make_one_child() {
    let source = Source::new(Agent::Claude);
    for args in [&["--turn", "u1"][..], &["--turn", "u2", "--operation-id", "shared"]] {
        let args = [args, &["--wait", "30s"]].concat();
        let racers: Vec<Process> = (0..8).map(|_| Process::spawn(source.command("fork", &args))).collect();
        let answers: Vec<Value> = racers.into_iter().map(|racer| racer.end().code(0).json()).collect();
        assert!(answers.iter().all(|a| a["sessionId"] == answers[0]["sessionId"]));
        assert_eq!(answers.iter().filter(|a| a["replayed"] == false).count(), 1);
    }
    assert_eq!(source.sessions().len(), 3);
    source.sound();
}

#[test]
fn recovery_settles_what_a_kill_left_and_the_retry_is_one_child() {
    for (point, outcome) in
        [("fork-half", "abandoned"), ("fork-backups", "abandoned"), ("publish.linked", "completed")]
    {
        for id in [&[][..], &["--operation-id", "mine"]] {
            let source = Source::new(Agent::Qwen);
            let args = [&["--turn", "u2"], id].concat();
            let mut killed = source.command("fork", &args);
            killed.env("OFFSHOOT_FAULT_POINT", format!("{point}=kill"));
            assert_eq!(Ran::from(killed.output().unwrap()).code, None, "{point} is not reached");
            let settled = source.env.run(&["recover", "--json"]).code(0).json();
            assert_eq!(settled["settled"][0]["outcome"], outcome, "{point}: {settled}");
            assert_eq!(settled["settled"].as_array().unwrap().len(), 1);
            let child = source.fork(&args);
            assert_eq!(child["replayed"], outcome == "completed");
            assert_eq!(inherited(&child).len(), 6);
            assert_eq!(source.fork(&args)["sessionId"], child["sessionId"]);
            assert_eq!(source.sessions().len(), 2);
            source.sound();
        }
    }
}

#[test]
fn a_recorded_fork_whose_source_was_replaced_is_stale() {
    let source = Source::new(Agent::Qwen);
    let args = ["--turn", "u1", "--operation-id", "mine"];
    let mut killed = source.command("fork", &args);
    killed.env("OFFSHOOT_FAULT_POINT", "pending=kill");
    assert_eq!(Ran::from(killed.output().unwrap()).code, None);
    let _ = source.env.run(&["recover"]).code(0);
    let whole = fs::read_to_string(&source.path).unwrap();
    fs::write(&source.path, whole.replacen("answer one", "answer 0ne", 1)).unwrap();
    source.refused(&args, "stale-source", 4);
    assert_eq!(source.states(&json!("mine")), ["pending", "abandoned"]);
}

#[test]
fn another_run_on_the_source_settles_a_fork_that_was_left() {
    let source = Source::new(Agent::Qwen);
    let mut killed = source.command("fork", &["--turn", "u1", "--operation-id", "mine"]);
    killed.env("OFFSHOOT_FAULT_POINT", "publish.linked=kill");
    assert_eq!(Ran::from(killed.output().unwrap()).code, None);
    let _ = source.run("resume", &["--leaf", "c3", "--seed", "none"]).code(0);
    assert_eq!(source.states(&json!("mine")), ["pending", "completed"]);
}

#[test]
fn a_fork_chooses_nothing_for_its_source() {
    let source = Source::new(Agent::Qwen);
    let _ = source.run("resume", &["--leaf", "c3", "--seed", "none"]).code(0);
    source.fork(&["--turn", "u1"]);
    let seen = source.run("inspect", &[]).code(0).json();
    assert_eq!(seen["branches"][0]["recorded"], true);
    assert_eq!(seen["branches"][0].get("continuedIn"), None);
    let listed = source.env.run(&["audit", "list", "--json"]).code(0).json();
    let states: Vec<_> = listed["selections"].as_array().unwrap().iter().map(|s| &s["state"]).collect();
    assert_eq!(states, ["completed", "completed"]);
}

#[test]
fn the_audit_shows_forks_and_holds_them_to_their_source_and_child() {
    let source = Source::new(Agent::Claude);
    let child = source.fork(&["--turn", "u2", "--operation-id", "mine"]);
    source.fork(&["--at", "a1", "--operation-id", "other"]);
    let listed = source.env.run(&["audit", "list"]).code(0).stdout;
    assert!(listed.lines().any(|l| l.starts_with("mine") && l.contains(" turn ")), "{listed}");
    assert!(listed.lines().any(|l| l.starts_with("other") && l.contains(" record ")), "{listed}");
    let shown = source.env.run(&["audit", "show", "mine"]).code(0).stdout;
    for wanted in ["u2, number 2, boundary 6", "cut at", child["sessionId"].as_str().unwrap()] {
        assert!(shown.contains(wanted), "{shown}");
    }
    source.sound();
    let finding = |code: &str| {
        let found = source.env.run(&["audit", "verify", "--deep", "--json"]).code(5).json();
        let codes: Vec<_> = found["findings"].as_array().unwrap().iter().map(|f| f["code"].clone()).collect();
        assert!(codes.contains(&json!(code)), "{codes:?}");
    };
    let path = child["transcript"].as_str().unwrap();
    let whole = fs::read_to_string(path).unwrap();
    fs::write(path, whole.lines().skip(1).map(|l| format!("{l}\n")).collect::<String>()).unwrap();
    finding("seed-differs");
    fs::remove_file(path).unwrap();
    finding("seed-gone");
    fs::write(path, whole).unwrap();
    source.sound();
    let bytes = fs::read_to_string(&source.path).unwrap();
    fs::write(&source.path, bytes.replacen("a1", "a9", 1)).unwrap();
    finding("transcript-changed");
}

#[test]
fn what_a_transcript_says_cannot_steer_the_terminal() {
    let lines = Lines(vec![
        qwen("u\u{1b}[31m1", None, "user", says("hi \u{1b}]0;title\u{7}\u{202e}")),
        qwen("a1", Some("u\u{1b}[31m1"), "assistant", says("ok")),
        telemetry("t", "a1"),
    ]);
    let source = Source::with(Agent::Qwen, &lines);
    let path = source.path.to_str().unwrap();
    let listed = source.env.run(&["targets", path]).code(0).stdout;
    let forked = source.env.run(&["fork", path, "--turn", "u\u{1b}[31m1"]).code(0).stdout;
    for text in [&listed, &forked] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
    assert!(listed.contains("hi "), "{listed}");
    assert!(!source.env.run(&["targets", path, "--redact"]).code(0).stdout.contains("hi "));
}

#[test]
fn the_command_line_wants_one_place() {
    let source = Source::new(Agent::Qwen);
    for args in [
        &[][..],
        &["--turn", "u1", "--at", "a1"],
        &["--turn", "u1", "--ack", "x"],
        &["--turn", "u1", "--new", "--operation-id", "x"],
        &["--ack", "x"],
    ] {
        assert_eq!(source.run("fork", args).code, Some(2), "{args:?}");
    }
}
