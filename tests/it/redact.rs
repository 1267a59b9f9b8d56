//! `redact`: the same structure without the words; and `--redact` in the output of every command.

use std::fs;

use offshoot::{
    dialect::{self, Client, Dialect},
    record::Agent,
    topology,
};
use serde_json::{Value, json};

use crate::{
    claude_random,
    random::{self, Rng, for_seeds, lines},
    support::{TestEnv, fixture},
};

fn redacted(bytes: &[u8], dialect: &dyn Dialect) -> Vec<u8> {
    let mut redactor = dialect.redactor().unwrap();
    let mut out = Vec::new();
    bytes.split_inclusive(|&b| b == b'\n').for_each(|line| redactor.line(line, &mut out));
    out
}

/// Everything that inspection tells, but texts and names of places; and the turns.
fn structure(bytes: &[u8], dialect: &dyn Dialect) -> Value {
    let t = dialect.read(&bytes).unwrap();
    let inspection = topology::inspect(&t, &bytes, dialect, &Client::default()).unwrap();
    let mut value = serde_json::to_value(inspection).unwrap();
    for branch in value["branches"].as_array_mut().unwrap() {
        let branch = branch.as_object_mut().unwrap();
        for name in ["startedAt", "updatedAt", "lastMessageAt"] {
            // What is no time is filled as any text.
            if branch[name].as_str().is_some_and(|time| time.parse::<jiff::Timestamp>().is_err()) {
                branch[name] = json!("");
            }
        }
        let texts =
            ["firstUserTextAfterBranchPoint", "lastUserText", "lastAssistantText", "cwd", "gitBranch"];
        for name in texts {
            // That there is one is structure.
            if let Some(text) = branch.get_mut(name) {
                *text = json!("");
            }
        }
    }
    let records: Vec<Value> = (0..)
        .zip(&t.records)
        .map(|(ix, r)| {
            json!([
                t.id(r.id),
                r.parent.map(|p| t.id(p)),
                r.kind as u8,
                r.flags.0,
                r.span.range(),
                t.line(ix)
            ])
        })
        .collect();
    let mut turns = dialect.turns(&t, &bytes).unwrap();
    for turn in &mut turns.turns {
        // What is no id has a stand-in.
        turn.message_id = turn.message_id.take().map(|_| String::new());
    }
    json!({"inspection": value, "records": records, "objects": t.objects, "torn": t.torn_bytes,
           "separator": t.separator_line, "turns": format!("{turns:?}")})
}

#[track_caller]
fn same(bytes: &[u8], agent: Agent, of: &str) {
    let dialect = dialect::of(agent);
    let out = redacted(bytes, dialect);
    assert_eq!(
        structure(&out, dialect),
        structure(bytes, dialect),
        "of {of}: {}",
        String::from_utf8_lossy(&out)
    );
    assert_eq!(out.len(), bytes.len());
    assert_eq!(redacted(&out, dialect).len(), out.len());
}

#[test]
fn every_case_keeps_its_structure() {
    let mut seen = 0;
    for (folder, agent) in [("cases/claude", Agent::Claude), ("cases/qwen", Agent::Qwen)] {
        for case in fs::read_dir(fixture(folder)).unwrap() {
            let Ok(files) = fs::read_dir(case.unwrap().path()) else { continue };
            for file in
                files.map(|f| f.unwrap().path()).filter(|f| f.extension().is_some_and(|e| e == "jsonl"))
            {
                same(&fs::read(&file).unwrap(), agent, &file.display().to_string());
                seen += 1;
            }
        }
    }
    assert!(seen > 100, "only {seen} cases");
}

#[test]
fn what_the_reader_is_held_to_keeps_its_structure() {
    let text = fs::read_to_string(fixture("reader/qwen.jsonl")).unwrap();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let bytes: Vec<u8> =
            case["bytes"].as_str().unwrap().chars().map(|c| u8::try_from(c).unwrap()).collect();
        same(&bytes, Agent::Qwen, &bytes.escape_ascii().to_string());
        same(&bytes, Agent::Claude, &bytes.escape_ascii().to_string());
    }
}

/// Cuts, glues and spoils.
fn spoil(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes[at] = *rng.pick(b"\"\\{}[],:\n\r\t 0x\xff\xc3\xe2"),
            3 => bytes.insert(at, *rng.pick(b"\"\\{}[],:\n\r\t 0x\xff\xc3\xe2")),
            _ => {
                // One line feed less: two records are glued.
                if let Some(end) = bytes[at..].iter().position(|&b| b == b'\n') {
                    bytes.remove(at + end);
                }
            }
        }
    }
}

#[test]
fn random_transcripts_of_both_agents_keep_their_structure_spoilt_or_not() {
    for_seeds(600, |rng| {
        let (mut qwen, mut claude) = (lines(&random::records(rng)), lines(&claude_random::records(rng)));
        if rng.percent(60) {
            spoil(&mut qwen, rng);
            spoil(&mut claude, rng);
        }
        same(&qwen, Agent::Qwen, &qwen.escape_ascii().to_string());
        same(&claude, Agent::Claude, &claude.escape_ascii().to_string());
    });
}

/// What closes a turn is a word of the client's own, and says so behind the rest of another record too.
#[test]
fn turns_that_glued_records_close_are_closed_as_they_were() {
    let record = |uuid: &str, parent: Value, kind: &str, more: Value| {
        let mut record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "cwd": "/w",
            "timestamp": "2026-01-01T00:00:01.000Z", "version": "0.24.4"});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record.to_string()
    };
    let text = |role: &str| json!({"provenance": "real_user", "message": {"role": role, "parts": [{"text": "words"}]}});
    let system = |subtype: &str, payload: Value| json!({"subtype": subtype, "systemPayload": payload});
    let mut kinds = std::collections::HashSet::new();
    for closing in [
        system("turn_result", json!({"state": "completed"})),
        system("turn_result", json!({"state": "cancelled"})),
        system("turn_result", json!({"state": "error"})),
        system("turn_result", json!({"state": "secret"})),
        system("ui_telemetry", json!({"uiEvent": {"event.name": "qwen-code.api_response"}})),
        system("branch_checkpoint", json!({"v": 1, "assistantRecordUuid": "a1"})),
        system("branch_checkpoint", json!({"v": 2, "assistantRecordUuid": "a1"})),
        system("branch_checkpoint", json!({"v": "1", "assistantRecordUuid": "a1"})),
    ] {
        let prompt = record("u1", Value::Null, "user", text("user"));
        let answer = record("a1", json!("u1"), "assistant", text("model"));
        let closing = record("t1", json!("a1"), "system", closing);
        for between in ["\n", "", "{\"uuid\":\"torn\n"] {
            let file = format!("{prompt}\n{answer}{between}{closing}\n");
            same(file.as_bytes(), Agent::Qwen, &file);
            kinds.insert(structure(file.as_bytes(), dialect::of(Agent::Qwen))["turns"].to_string());
        }
    }
    assert!(kinds.len() > 4, "{kinds:?}");
    let demo = fs::read_to_string(fixture("demo/session.jsonl")).unwrap();
    let ends: Vec<usize> = demo.match_indices('\n').map(|(at, _)| at).collect();
    for at in ends {
        let glued = format!("{}{}", &demo[..at], &demo[at + 1..]);
        same(glued.as_bytes(), Agent::Qwen, &format!("glued at {at}"));
    }
}

/// Words that stand in texts and in what tools were given, as JSON within a text, too, and as names of members.
const SECRETS: [&str; 5] = ["geheimwort", "passwort", "zauberwort", "kennwort", "schlagwort"];

fn with_secrets(agent: Agent, uuid: &str, parent: Value) -> String {
    let text = r#"geheimwort passwort "zauberwort": "kennwort", {"uuid":"schlagwort","type":"user"}"#;
    let args = json!({"path": text, "schlagwort": 1, "type": "passwort", "uuid": "kennwort", "content": ["geheimwort"]});
    let record = match agent {
        Agent::Claude => json!({"parentUuid": parent, "isSidechain": false, "type": "user", "uuid": uuid,
            "timestamp": "2026-11-30T10:00:00.000Z", "sessionId": SESSION, "version": "2.1.332", "cwd": "/geheimwort",
            "zauberwort": "two passwort", "message": {"role": "user", "content": [{"type": "text", "text": text},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": args}]}}),
        _ => json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": "assistant",
            "timestamp": "2026-11-30T10:00:00.000Z", "provenance": "assistant_output", "cwd": "/geheimwort",
            "version": "0.24.4", "zauberwort": ["kennwort"], "message": {"role": "model", "parts": [{"text": text},
                {"functionCall": {"id": "c1", "name": "read_file", "args": args}}]}}),
    };
    record.to_string()
}

/// A redacted line without what stands as an id, which is kept whatever it is.
fn without_ids(line: &str) -> String {
    let mut line = line.to_owned();
    for name in ["uuid", "parentUuid", "sessionId", "id"] {
        let key = format!("\"{name}\":\"");
        let mut at = 0;
        while let Some(found) = line[at..].find(&key) {
            at += found + key.len();
            let bytes = line.as_bytes();
            let end =
                (at..line.len()).find(|&i| bytes[i] == b'"' && bytes[i - 1] != b'\\').unwrap_or(line.len());
            line.replace_range(at..end, "");
        }
    }
    line
}

/// No word is left in a line that is not JSON; the whole file shows the trouble that it showed.
#[track_caller]
fn no_secret(file: &str, agent: Agent) {
    same(file.as_bytes(), agent, file);
    let out = String::from_utf8(redacted(file.as_bytes(), dialect::of(agent))).unwrap();
    for (line, original) in out.split('\n').zip(file.split('\n')) {
        let malformed = serde_json::from_str::<Value>(original).is_err();
        let bare = without_ids(line);
        let found = SECRETS.iter().find(|word| bare.contains(**word));
        assert!(!malformed || found.is_none(), "{agent:?} {found:?}: {line}\nof {original}");
    }
}

#[test]
fn no_word_is_left_in_a_line_that_is_spoilt_wherever_it_may_be() {
    for agent in [Agent::Claude, Agent::Qwen] {
        let base = with_secrets(agent, "u1", Value::Null);
        let line = with_secrets(agent, "u2", json!("u1"));
        let places = || (0..line.len()).filter(|&at| line.is_char_boundary(at));
        let cut = |from: usize, to: usize| format!("{}{}", &line[..from], line.get(to..).unwrap_or_default());
        let mut families = vec![
            places().map(|at| line[..at].to_owned()).collect::<Vec<_>>(),
            places().map(|at| line[at..].to_owned()).collect(),
            places().map(|at| format!("{}{line}", &line[..at])).collect(),
        ];
        families.extend([1, 8, 40, 90].map(|n| places().map(|at| cut(at, at + n)).collect()));
        for byte in ["\"", "\\", "{", "}", ",", ":", "[", "]", "x", "\0", "\\u00", " \" ", "\r"] {
            families.push(places().map(|at| format!("{}{byte}{}", &line[..at], &line[at..])).collect());
        }
        // Every third place of each: places that tell take more than one byte, and so do the families.
        for (n, family) in families.iter().enumerate() {
            let some: Vec<&str> = family.iter().skip(n % 3).step_by(3).map(String::as_str).collect();
            no_secret(&format!("{base}\n{}\n", some.join("\n")), agent);
        }
    }
}

#[test]
fn no_word_is_left_in_lines_that_are_spoilt_at_random() {
    for_seeds(600, |rng| {
        for agent in [Agent::Claude, Agent::Qwen] {
            let mut line = with_secrets(agent, "u2", json!("u1"));
            for _ in 0..=rng.below(4) {
                let (a, b) = (rng.below(line.len() + 1), rng.below(line.len() + 1));
                match rng.below(4) {
                    0 => line.replace_range(a.min(b)..a.max(b), ""),
                    1 => {
                        let again = line[a.min(b)..a.max(b)].to_owned();
                        line.insert_str(a, &again);
                    }
                    2 => line.insert_str(
                        a,
                        rng.pick::<&str>(&["\"", "\\", "{", "}", "\"}", ":", "[", "]", ",", "}{", "\r"]),
                    ),
                    _ => line.truncate(a),
                }
            }
            let end = *rng.pick(&["", "\n"]);
            no_secret(&format!("{}\n{line}{end}", with_secrets(agent, "u1", Value::Null)), agent);
        }
    });
}

#[test]
fn what_is_damaged_in_any_legal_way_is_redacted() {
    let env = TestEnv::new();
    for agent in ["claude", "qwen"] {
        let whole =
            with_secrets(if agent == "qwen" { Agent::Qwen } else { Agent::Claude }, "u1", Value::Null);
        for (n, tail) in
            ["\"}}}]}}\n", "{\"\":1", "{\"\":1}\n", "\"seven  \u{3000}\n"].into_iter().enumerate()
        {
            let path = env.write(&format!("{agent}-{n}.jsonl"), format!("{whole}\n{tail}"));
            let ran = env.run(&["redact", "--agent", agent, &path]).code(0);
            assert_eq!(ran.stdout.len(), whole.len() + 1 + tail.len(), "of {tail:?}");
        }
    }
}

/// Stands in every place that holds something of the conversation or says where it took place.
const MARK: &str = "Zebra";

const SESSION: &str = "0bd5fba6-38c6-420f-8252-2cdccf70f368";

fn claude_record(uuid: &str, parent: Option<&str>, kind: &str, content: Value, at: u32) -> Value {
    json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "type": kind, "cwd": format!("/w/{MARK}"),
        "gitBranch": format!("topic-{MARK}"), "version": "2.1.332", "userType": "external", "isSidechain": false,
        "timestamp": format!("2026-01-01T10:{at:02}:00.000Z"), "slug": format!("{MARK}-slug"),
        "toolUseResult": {"stdout": MARK, MARK: [MARK, 4_111_111_111_111_111u64]},
        "message": {"role": kind, "id": format!("msg_{uuid}"), "model": "m", "content": content}})
}

/// Two branches, a title, a summary, a tool round, a malformed line and a torn one.
fn claude_transcript() -> String {
    let text = |n: u32| json!([{"type": "text", "text": format!("{MARK} says {n} to plums {MARK}")}]);
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": format!("mcp__{MARK}"),
        "input": {"file_path": format!("/w/{MARK}/x.rs"), MARK: MARK}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": MARK}]}]);
    let records = [
        json!({"type": "custom-title", "customTitle": format!("About {MARK}"), "sessionId": SESSION}),
        json!({"type": "summary", "summary": format!("Sum {MARK}"), "leafUuid": "a1"}),
        claude_record("u1", None, "user", json!(format!("hello {MARK}")), 0),
        claude_record("a1", Some("u1"), "assistant", text(1), 1),
        claude_record("uX", Some("a1"), "user", text(2), 2),
        claude_record("aX", Some("uX"), "assistant", call, 3),
        claude_record("rX", Some("aX"), "user", result, 4),
        claude_record("bX", Some("rX"), "assistant", text(3), 9),
        claude_record("uY", Some("a1"), "user", text(4), 5),
        claude_record("aY", Some("uY"), "assistant", text(5), 6),
        json!({"type": "last-prompt", "lastPrompt": MARK, "leafUuid": "bX", "sessionId": SESSION}),
    ];
    let mut all: String = records.iter().map(|r| r.to_string() + "\n").collect();
    all += &format!("{{\"uuid\":\"z\" {MARK} \"{MARK}\n");
    all + &format!("{{\"uuid\":\"torn\",\"message\":{{\"content\":\"{MARK} and {MARK}")
}

#[test]
fn a_redacted_transcript_holds_no_word_and_says_what_it_said() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", claude_transcript());
    let new = env.path("r.jsonl").display().to_string();
    let ran = env.run(&["redact", &path]).code(0);
    assert!(!ran.stdout.contains(MARK) && !ran.stdout.contains("plums"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("4111111111111112") && !ran.stdout.contains("hello"), "{}", ran.stdout);
    let _ = env.run(&["redact", &path, "-o", &new]).code(0);
    assert_eq!(fs::read_to_string(&new).unwrap(), ran.stdout);
    // Whoever gets it sees what the owner sees.
    let strip = |path: &str| {
        let mut document = env.run(&["inspect", path, "--json", "--redact"]).code(0).json();
        document["transcript"] = json!("");
        document
    };
    assert_eq!(strip(&new), strip(&path));
    assert_eq!(strip(&new)["diagnostics"].as_array().unwrap().len(), 2);
    // Never over another file.
    let refused = env.run(&["redact", &path, "-o", &path, "--json"]).code(3);
    assert_eq!(refused.json()["refusal"]["code"], "unsafe-path");
    assert_eq!(fs::read_to_string(&path).unwrap(), claude_transcript());
}

/// A limit on the size of files is a failed write to every command, whether it writes a file or its output.
#[test]
#[cfg(target_os = "linux")]
fn a_file_over_the_limit_is_a_fault_and_leaves_nothing() {
    let env = TestEnv::new();
    let records: Vec<_> = (0..40u32)
        .map(|n| claude_record(&format!("u{n}"), None, "user", json!("words and words"), n))
        .map(|record| record.to_string())
        .collect();
    let path = env.write("t.jsonl", records.join("\n") + "\n");
    fs::create_dir(env.path("out")).unwrap();
    let (new, stdout) = (env.path("out/new").display().to_string(), env.path("stdout"));
    let runs: &[&[&str]] = &[
        &["redact", &path, "-o", &new],
        &["graph", &path, "-o", &new],
        &["redact", &path],
        &["tree", &path, "--print"],
        &["inspect", &path, "--json"],
    ];
    for args in runs {
        let whole = env.command(args);
        let mut limited = std::process::Command::new("/bin/sh");
        limited.arg("-c").arg("ulimit -f 1; exec \"$0\" \"$@\" >\"$STDOUT\"").arg(whole.get_program());
        limited.args(whole.get_args()).env_clear().env("STDOUT", &stdout);
        limited.envs(whole.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let ran = limited.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("File too large"), "{args:?}: {said}");
        assert_eq!(fs::read_dir(env.path("out")).unwrap().count(), 0, "{args:?}");
    }
}

#[test]
fn the_folder_that_has_no_room_is_named() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", claude_transcript());
    let run = |args: &[&str]| {
        let mut command = env.command(args);
        crate::support::Ran::from(command.env("TMPDIR", "/nonexistent/tmp").output().unwrap())
    };
    let failed = run(&["redact", &path]).code(1);
    assert!(failed.stderr.contains("a temporary file in `/nonexistent/tmp`"), "{}", failed.stderr);
    // With a target it is not needed.
    let new = env.path("new.jsonl").display().to_string();
    let _ = run(&["redact", &path, "-o", &new]).code(0);
    let failed = run(&["redact", &path, "-o", "/nonexistent/new"]).code(1);
    assert!(failed.stderr.contains("a temporary file in `/nonexistent`"), "{}", failed.stderr);
}

#[test]
fn no_command_says_a_word_with_redact() {
    let env = TestEnv::new();
    let path = env.write(&format!("home/.claude/projects/p/{SESSION}.jsonl"), claude_transcript());
    let policy = env.write("p.toml", "version = 1\nname = \"p\"\nreason = \"r\"\n[[rule]]\nname = \"a\"\nreason = \"r\"\norder = \"newest\"\n");
    let _ = env.run(&["label", &path, "aY", &format!("called {MARK}")]).code(0);
    // A choice is recorded, so that there is something to audit.
    let choice = ["resume", &path, "--leaf", "aY", "--seed", "none", "--operation-id", "op-1"];
    let _ = env.run(&choice).code(0);
    let runs: &[(&[&str], i32)] = &[
        (&["inspect", &path], 0),
        (&["inspect", &path, "--check"], 0),
        (&["chain", &path, "--leaf", "aY"], 0),
        (&["find", &path, "plums"], 0),
        (&["tree", &path, "--print"], 0),
        (&["diff", &path, "aY", "bX"], 0),
        (&["export", &path, "bX"], 0),
        (&["export", &path, "bX", "--format", "json"], 0),
        (&["targets", &path], 0),
        (&["sessions", "--all"], 0),
        (&["audit", "list"], 0),
        (&["audit", "show", "op-1"], 0),
        (&["audit", "verify", "--deep"], 0),
        (&["policy", "explain", &policy, &path], 0),
        (&["resume", &path], 3),
        (&["resume", &path, "--policy", &policy, "--seed", "none", "--dry-run"], 0),
        (&["resume", &path, "--leaf", "bX", "--seed", "none"], 0),
        (&["fork", &path, "--at", "a1"], 0),
        (&["truncate", &path, "--after", "uY", "--dry-run"], 0),
        (&["label", &path, "nowhere", MARK], 3),
        (&["graph", &path], 0),
        (&["graph", &path, "--format", "mermaid"], 0),
        (&["graph", &path, "--format", "html"], 0),
        (&["redact", &path], 0),
    ];
    let mut spoke = 0;
    for (args, code) in runs {
        for json in [false, true] {
            let mut args = args.to_vec();
            args.extend(json.then_some("--json"));
            let open = format!("{:?}", env.run(&args));
            spoke += usize::from(open.contains(MARK) || open.contains("plums"));
            args.extend(["--redact", "-v"]);
            let ran = env.run(&args);
            assert!(ran.code == Some(*code) || args[0] == "fork", "{args:?}: {ran:?}");
            for text in [&ran.stdout, &ran.stderr] {
                // What was typed may be repeated.
                let typed = args.contains(&MARK);
                let found =
                    text.contains(MARK) && !typed || text.contains("says 2") || text.contains("plums");
                assert!(!found, "{args:?} says a word of the conversation:\n{text}");
            }
        }
    }
    assert!(spoke >= 12, "only {spoke} of the runs say anything without `--redact`");
}
