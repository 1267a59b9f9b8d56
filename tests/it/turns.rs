//! Which turns the records of Qwen Code and Claude Code prove, and how the proof binds a target to its log.

use offshoot::{
    dialect,
    record::Agent,
    refusal::Code,
    turns::{Status, Targets, Turn, Turns},
};
use serde_json::{Value, json};

pub const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// Lines of a transcript.
#[derive(Clone, Default)]
pub struct Lines(pub Vec<Value>);

impl Lines {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    pub fn with(mut self, more: impl IntoIterator<Item = Value>) -> Lines {
        self.0.extend(more);
        self
    }

    pub fn turns(&self, agent: Agent) -> Turns {
        turns_of(agent, &self.bytes())
    }
}

pub fn turns_of(agent: Agent, bytes: &[u8]) -> Turns {
    let d = dialect::of(agent);
    d.turns(&d.read(&bytes).unwrap(), &bytes).unwrap()
}

/// A record of Qwen Code.
pub fn qwen(uuid: &str, parent: Option<&str>, kind: &str, parts: Value) -> Value {
    json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-01-02T03:04:05.000Z",
        "type": kind, "cwd": "/w", "version": "0.24.4",
        "message": {"role": if kind == "assistant" { "model" } else { "user" }, "parts": parts}})
}

pub fn says(text: &str) -> Value {
    json!([{"text": text}])
}

pub fn calls(id: &str) -> Value {
    json!([{"text": "let me look"}, {"functionCall": {"id": id, "name": "ls", "args": {}}}])
}

pub fn returns(id: &str) -> Value {
    json!([{"functionResponse": {"id": id, "name": "ls", "response": {}}}])
}

pub fn note(uuid: &str, parent: &str, subtype: &str, payload: Value) -> Value {
    json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-01-02T03:04:05.000Z",
        "type": "system", "cwd": "/w", "subtype": subtype, "systemPayload": payload})
}

/// What the client writes when a request is over.
pub fn telemetry(uuid: &str, parent: &str) -> Value {
    note(uuid, parent, "ui_telemetry", json!({"uiEvent": {"event.name": "qwen-code.api_response"}}))
}

/// A record of Claude Code.
pub fn claude(uuid: &str, parent: Option<&str>, kind: &str, message: Value) -> Value {
    json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-01-02T03:04:05.000Z",
        "type": kind, "isSidechain": false, "cwd": "/w", "version": "2.1.332", "message": message})
}

pub fn asks(uuid: &str, parent: Option<&str>) -> Value {
    claude(uuid, parent, "user", json!({"role": "user", "content": uuid}))
}

pub fn answers(uuid: &str, parent: &str) -> Value {
    let content = json!([{"type": "text", "text": uuid}]);
    claude(
        uuid,
        Some(parent),
        "assistant",
        json!({"id": format!("msg_{uuid}"), "role": "assistant", "content": content}),
    )
}

pub fn uses(uuid: &str, parent: &str, message: &str, call: &str) -> Value {
    let content = json!([{"type": "tool_use", "id": call, "name": "Read", "input": {}}]);
    claude(uuid, Some(parent), "assistant", json!({"id": message, "role": "assistant", "content": content}))
}

pub fn results(uuid: &str, parent: &str, call: &str) -> Value {
    let content = json!([{"type": "tool_result", "tool_use_id": call, "content": "x"}]);
    claude(uuid, Some(parent), "user", json!({"role": "user", "content": content}))
}

pub fn duration(uuid: &str, parent: &str) -> Value {
    json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-01-02T03:04:05.000Z",
        "type": "system", "subtype": "turn_duration", "durationMs": 5, "isSidechain": false, "cwd": "/w"})
}

pub fn pin(leaf: &str) -> Value {
    json!({"type": "last-prompt", "leafUuid": leaf, "sessionId": SESSION})
}

/// One finished turn of either agent, and a second prompt.
fn first_turn(agent: Agent) -> Lines {
    Lines(match agent {
        Agent::Claude => vec![asks("u1", None), answers("a1", "u1"), asks("u2", Some("a1"))],
        _ => vec![
            qwen("u1", None, "user", says("one")),
            qwen("a1", Some("u1"), "assistant", says("done")),
            qwen("u2", Some("a1"), "user", says("two")),
        ],
    })
}

/// Id, start, end, boundary, and the record to cut at or why there is none.
type Brief<'a> = (&'a str, u64, u64, u64, Result<String, Code>);

fn brief(turns: &Turns) -> Vec<Brief<'_>> {
    let available = |t: &Turn| t.available.as_ref().map(|cut| cut.record.to_string()).map_err(|&code| code);
    turns.turns.iter().map(|t| (t.id.as_str(), t.start, t.end, t.boundary, available(t))).collect()
}

fn at(record: &str) -> Result<String, Code> {
    Ok(record.to_owned())
}

const BOTH: [Agent; 2] = [Agent::Qwen, Agent::Claude];

#[test]
fn the_next_prompt_closes_a_turn_and_the_trailing_one_stays_open() {
    for agent in BOTH {
        let turns = first_turn(agent).turns(agent);
        assert!(turns.verifiable);
        assert_eq!(
            brief(&turns),
            [("u1", 1, 2, 2, at("a1")), ("u2", 3, 0, 0, Err(Code::TurnOpen))],
            "{agent}"
        );
        assert_eq!(turns.turns[0].status, Status::Completed);
        assert_eq!(turns.turns[1].status, Status::InProgress);
    }
    let id = |agent| first_turn(agent).turns(agent).turns[0].message_id.clone().unwrap();
    assert_eq!((id(Agent::Qwen).as_str(), id(Agent::Claude).as_str()), ("a1", "msg_a1"));
}

#[test]
fn an_answer_alone_proves_nothing() {
    let qwen_answer = qwen("a2", Some("u2"), "assistant", says("All done. The task is finished."));
    let mut stop = answers("a2", "u2");
    stop["message"]["stop_reason"] = json!("end_turn");
    for (agent, answer) in [(Agent::Qwen, qwen_answer), (Agent::Claude, stop)] {
        let turns = first_turn(agent).with([answer]).turns(agent);
        assert_eq!(brief(&turns)[1], ("u2", 3, 0, 0, Err(Code::TurnOpen)), "{agent}");
    }
}

#[test]
fn the_clients_records_behind_an_answer_close_its_turn() {
    let base = first_turn(Agent::Qwen).with([qwen("a2", Some("u2"), "assistant", says("ok"))]);
    let checkpoint = json!({"v": 1, "startExclusiveRecordUuid": "a1", "assistantRecordUuid": "a2"});
    let proofs = [
        telemetry("x", "a2"),
        note("x", "a2", "branch_checkpoint", checkpoint),
        note("x", "a2", "turn_result", json!({"promptId": "p", "state": "completed"})),
    ];
    for proof in proofs {
        let turns = base.clone().with([proof.clone()]).turns(Agent::Qwen);
        assert_eq!(brief(&turns)[1], ("u2", 3, 4, 5, at("x")), "{proof}");
    }
    let others = [
        note("x", "a2", "ui_telemetry", json!({})),
        note("x", "a2", "ui_telemetry", json!({"uiEvent": {"event.name": "qwen-code.api_error"}})),
        note("x", "a2", "attribution_snapshot", json!({"snapshot": {}})),
        note("x", "a2", "turn_result", json!({"promptId": "p"})),
        telemetry("x", "u2"),
    ];
    for other in others {
        let turns = base.clone().with([other.clone()]).turns(Agent::Qwen);
        assert_eq!(brief(&turns)[1], ("u2", 3, 0, 0, Err(Code::TurnOpen)), "{other}");
    }
    let base = first_turn(Agent::Claude).with([answers("a2", "u2")]);
    let turns = base.clone().with([duration("x", "a2")]).turns(Agent::Claude);
    assert_eq!(brief(&turns)[1], ("u2", 3, 4, 5, at("a2")));
    // The pin names the answer, or what hangs below it.
    let turns = base.clone().with([pin("a2")]).turns(Agent::Claude);
    assert_eq!(brief(&turns)[1], ("u2", 3, 4, 4, at("a2")));
    let mut explicit = pin("a2");
    explicit["explicit"] = json!(true);
    for other in [explicit, pin("u2"), pin("a1"), pin("nowhere")] {
        let turns = base.clone().with([other.clone()]).turns(Agent::Claude);
        assert_eq!(brief(&turns)[1], ("u2", 3, 0, 0, Err(Code::TurnOpen)), "{other}");
    }
    // One that stands before the answer cannot have seen its end.
    let early = Lines(vec![asks("u1", None), pin("a1"), answers("a1", "u1")]);
    assert_eq!(brief(&early.turns(Agent::Claude)), [("u1", 1, 0, 0, Err(Code::TurnOpen))]);
}

#[test]
fn a_turn_ends_behind_its_tool_rounds_and_not_within() {
    let mut lines = first_turn(Agent::Qwen).with([
        qwen("c1", Some("u2"), "assistant", calls("k1")),
        telemetry("t1", "c1"),
        qwen("r1", Some("t1"), "tool_result", returns("k1")),
    ]);
    assert_eq!(brief(&lines.turns(Agent::Qwen))[1].4, Err(Code::TurnOpen));
    lines.0.push(qwen("a2", Some("r1"), "assistant", says("found")));
    lines.0.push(telemetry("t2", "a2"));
    assert_eq!(brief(&lines.turns(Agent::Qwen))[1], ("u2", 3, 7, 8, at("t2")));

    // Two calls of one message; their results hang where the client puts them.
    let mut lines = first_turn(Agent::Claude).with([
        uses("c1", "u2", "m", "k1"),
        uses("c2", "c1", "m", "k2"),
        results("r1", "c1", "k1"),
        results("r2", "c2", "k2"),
    ]);
    assert_eq!(brief(&lines.turns(Agent::Claude))[1].4, Err(Code::TurnOpen));
    lines.0.push(answers("a2", "r2"));
    lines.0.push(duration("d", "a2"));
    assert_eq!(brief(&lines.turns(Agent::Claude))[1], ("u2", 3, 8, 9, at("a2")));
}

#[test]
fn a_call_without_result_is_an_active_authority_in_a_turn_that_was_closed() {
    let closed = first_turn(Agent::Qwen).with([
        qwen("c1", Some("u2"), "assistant", calls("k1")),
        note("x", "c1", "turn_result", json!({"promptId": "p", "state": "cancelled"})),
    ]);
    let turns = closed.turns(Agent::Qwen);
    assert_eq!(brief(&turns)[1], ("u2", 3, 4, 5, Err(Code::ActiveAuthority)));
    assert_eq!(turns.turns[1].status, Status::Interrupted);
    let closed = first_turn(Agent::Claude).with([uses("c1", "u2", "m", "k1"), duration("d", "c1")]);
    let turns = closed.turns(Agent::Claude);
    assert_eq!(brief(&turns)[1], ("u2", 3, 4, 5, Err(Code::ActiveAuthority)));
    assert_eq!(turns.turns[1].status, Status::Unknown);
}

#[test]
fn a_call_that_is_answered_before_the_close_is_no_authority() {
    let closed = first_turn(Agent::Qwen).with([
        qwen("c1", Some("u2"), "assistant", calls("k1")),
        qwen("r1", Some("c1"), "tool_result", returns("k1")),
        note("x", "r1", "turn_result", json!({"promptId": "p", "state": "error"})),
    ]);
    let turns = closed.turns(Agent::Qwen);
    assert_eq!(brief(&turns)[1], ("u2", 3, 5, 6, at("x")));
    assert_eq!((turns.turns[1].status, &turns.turns[1].message_id), (Status::Failed, &None));
}

#[test]
fn a_turn_that_another_prompt_cut_off_stays_listed_as_unclosed() {
    for agent in BOTH {
        let next = match agent {
            Agent::Claude => asks("u3", Some("u2")),
            _ => qwen("u3", Some("u2"), "user", says("three")),
        };
        let turns = first_turn(agent).with([next]).turns(agent);
        assert_eq!(
            brief(&turns)[1..],
            [("u2", 3, 0, 0, Err(Code::TurnUnclosed)), ("u3", 4, 0, 0, Err(Code::TurnOpen))],
            "{agent}"
        );
        assert_eq!(turns.turns[1].status, Status::Unclosed);
    }
}

#[test]
fn what_is_no_prompt_begins_no_turn() {
    let mut cron = qwen("n", Some("a1"), "user", says("reminder"));
    cron["subtype"] = json!("notification");
    let lines = Lines(first_turn(Agent::Qwen).0[..2].to_vec()).with([cron]);
    // The turn went on behind its answer: it is open again.
    assert_eq!(brief(&lines.turns(Agent::Qwen)), [("u1", 1, 0, 0, Err(Code::TurnOpen))]);
    let mut meta = asks("n", Some("a1"));
    meta["isMeta"] = json!(true);
    let lines = Lines(first_turn(Agent::Claude).0[..2].to_vec()).with([
        meta,
        answers("a2", "n"),
        duration("d", "a2"),
    ]);
    assert_eq!(brief(&lines.turns(Agent::Claude)), [("u1", 1, 4, 5, at("a2"))]);
}

#[test]
fn the_turns_of_all_branches_are_listed_in_the_order_of_their_prompts() {
    for agent in BOTH {
        let more = match agent {
            Agent::Claude => {
                vec![answers("a2", "u2"), pin("a2"), asks("v2", Some("a1")), answers("b2", "v2"), pin("b2")]
            }
            _ => vec![
                qwen("a2", Some("u2"), "assistant", says("left")),
                telemetry("t2", "a2"),
                qwen("v2", Some("a1"), "user", says("other")),
                qwen("b2", Some("v2"), "assistant", says("right")),
                telemetry("t3", "b2"),
            ],
        };
        let turns = first_turn(agent).with(more).turns(agent);
        let ids: Vec<_> = turns.turns.iter().map(|t| (t.id.as_str(), t.available.is_ok())).collect();
        assert_eq!(ids, [("u1", true), ("u2", true), ("v2", true)], "{agent}");
    }
}

#[test]
fn of_two_answers_to_one_prompt_the_later_one_ends_the_turn() {
    let lines =
        Lines(vec![asks("u1", None), answers("a1", "u1"), answers("b1", "u1"), asks("u2", Some("b1"))]);
    assert_eq!(brief(&lines.turns(Agent::Claude))[0], ("u1", 1, 3, 3, at("b1")));
    // The next prompt hangs below the earlier one: nothing proves the later.
    let lines = Lines(vec![
        qwen("u1", None, "user", says("?")),
        qwen("a1", Some("u1"), "assistant", says("!")),
        qwen("b1", Some("u1"), "assistant", says("!!")),
        qwen("u2", Some("a1"), "user", says("?")),
    ]);
    assert_eq!(brief(&lines.turns(Agent::Qwen))[0].4, Err(Code::TurnUnclosed));
}

#[test]
fn a_turn_that_is_compacted_on_the_way_goes_on_behind_it() {
    let mut summary = asks("s", Some("b"));
    summary["isCompactSummary"] = json!(true);
    let boundary = json!({"uuid": "b", "parentUuid": null, "logicalParentUuid": "r1", "sessionId": SESSION,
        "timestamp": "2026-01-02T03:04:05.000Z", "type": "system", "subtype": "compact_boundary",
        "compactMetadata": {}, "isSidechain": false, "cwd": "/w"});
    let lines = first_turn(Agent::Claude).with([
        uses("c1", "u2", "m", "k1"),
        results("r1", "c1", "k1"),
        boundary,
        summary,
        answers("a2", "s"),
        duration("d", "a2"),
    ]);
    assert_eq!(brief(&lines.turns(Agent::Claude))[1], ("u2", 3, 8, 9, at("a2")));
}

#[test]
fn a_history_of_answers_without_a_prompt_is_not_verifiable() {
    let qwen_lines = Lines(vec![
        qwen("a1", None, "assistant", says("imported")),
        qwen("a2", Some("a1"), "assistant", says("imported")),
        telemetry("t", "a2"),
    ]);
    let claude_lines = Lines(vec![
        claude(
            "a1",
            None,
            "assistant",
            json!({"id": "m", "content": [{"type": "text", "text": "imported"}]}),
        ),
        answers("a2", "a1"),
        pin("a2"),
    ]);
    for (agent, lines) in [(Agent::Qwen, qwen_lines), (Agent::Claude, claude_lines)] {
        assert_eq!(lines.turns(agent), Turns::default(), "{agent}");
    }
}

#[test]
fn a_copied_answer_is_closed_by_its_mark() {
    for agent in BOTH {
        let mut lines = Lines(first_turn(agent).0[..2].to_vec());
        lines.0[1]["forkedFrom"] = json!({"sessionId": "elsewhere", "messageUuid": "a1"});
        assert_eq!(brief(&lines.turns(agent)), [("u1", 1, 2, 2, at("a1"))], "{agent}");
        lines.0[1]["forkedFrom"] = json!("elsewhere");
        assert_eq!(brief(&lines.turns(agent))[0].4, Err(Code::TurnOpen), "{agent}");
    }
}

/// What is appended later neither moves nor opens a turn that was proved, unless it belongs to that turn.
#[test]
fn a_target_stays_what_it_was_while_the_log_grows() {
    for agent in BOTH {
        let more = match agent {
            Agent::Claude => vec![
                uses("c1", "u2", "m", "k1"),
                results("r1", "c1", "k1"),
                answers("a2", "r1"),
                duration("d", "a2"),
                asks("v2", Some("a1")),
                duration("d2", "a2"),
            ],
            _ => vec![
                qwen("c1", Some("u2"), "assistant", calls("k1")),
                qwen("r1", Some("c1"), "tool_result", returns("k1")),
                qwen("a2", Some("r1"), "assistant", says("ok")),
                telemetry("t2", "a2"),
                telemetry("t3", "t2"),
                note("x", "t3", "turn_result", json!({"promptId": "p", "state": "completed"})),
                qwen("v2", Some("a1"), "user", says("other")),
            ],
        };
        let all = first_turn(agent).with(more);
        let mut seen: Vec<(String, String)> = Vec::new();
        for n in 0..=all.0.len() {
            let bytes = Lines(all.0[..n].to_vec()).bytes();
            let targets = Targets::of(turns_of(agent, &bytes), SESSION, &bytes.as_slice()).unwrap();
            let now: Vec<_> = targets
                .targets
                .iter()
                .filter_map(|t| Some((t.turn.id.clone(), t.anchor.as_ref()?.to_string())))
                .collect();
            assert!(seen.iter().all(|one| now.contains(one)), "{agent}, {n} lines: {seen:?} {now:?}");
            seen = now;
        }
        assert_eq!(seen.len(), 2, "{agent}");
    }
}

/// Parents behind their children, cycles, copies, lines of anything: no panic, and no end without a record of it.
#[test]
fn mutated_files_never_panic_and_give_cuts_within_the_file() {
    let seed: u64 = std::env::var("OFFSHOOT_TEST_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below.max(1)
    };
    for round in 0..400 {
        let agent = BOTH[round % 2];
        let ids = ["u1", "a1", "u2", "c1", "r1", "a2", "d", "x"];
        let mut lines: Vec<Value> = match agent {
            Agent::Claude => {
                first_turn(agent)
                    .with([
                        uses("c1", "u2", "m", "k"),
                        results("r1", "c1", "k"),
                        answers("a2", "r1"),
                        duration("d", "a2"),
                        pin("a2"),
                    ])
                    .0
            }
            _ => {
                first_turn(agent)
                    .with([
                        qwen("c1", Some("u2"), "assistant", calls("k")),
                        qwen("r1", Some("c1"), "tool_result", returns("k")),
                        qwen("a2", Some("r1"), "assistant", says("ok")),
                        telemetry("d", "a2"),
                    ])
                    .0
            }
        };
        for _ in 0..1 + random(4) {
            let (i, j) = (random(lines.len()), random(lines.len()));
            match random(5) {
                0 => lines.swap(i, j),
                1 => lines[i]["parentUuid"] = json!(ids[random(ids.len())]),
                2 => lines.push(lines[i].clone()),
                3 => lines[i]["uuid"] = json!(ids[random(ids.len())]),
                _ => drop(lines.remove(i)),
            }
            if lines.is_empty() {
                lines.push(json!([]));
            }
        }
        let mut bytes = Lines(lines).bytes();
        bytes.truncate(bytes.len() - random(bytes.len() / 4));
        let turns = turns_of(agent, &bytes);
        for turn in &turns.turns {
            if let Ok(cut) = &turn.available {
                assert!(
                    cut.prefix <= bytes.len() as u64 && turn.start <= turn.boundary,
                    "{seed} {round}: {turn:?}"
                );
                let whole = bytes[..cut.prefix as usize].ends_with(b"\n") || cut.prefix == bytes.len() as u64;
                assert!(whole, "seed {seed}, {round}: {turn:?}");
            }
        }
        Targets::of(turns, SESSION, &bytes.as_slice()).unwrap();
    }
}
