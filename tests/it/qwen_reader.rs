//! The reader and the simulation against what the client's own functions gave (`fixtures/reader`).

use std::{collections::BTreeSet, fs};

use offshoot::{
    dialect::{self, Client, Simulated},
    record::{Agent, RecordKind},
    transcript::{Flags, LineDiagnostic, Source, Transcript},
};
use serde_json::{Value, json};

use crate::support::fixture;

const FLAGS: &[(Flags, &str)] = &[
    (Flags::ANCHOR, "anchor"),
    (Flags::CALL, "call"),
    (Flags::COMPRESSION, "comp"),
    (Flags::NEUTRAL, "neutral"),
    (Flags::RESPONSE, "response"),
    (Flags::REWIND, "rewind"),
    (Flags::SYNTHETIC, "synthetic"),
    (Flags::UNSEEN, "unseen"),
];

fn cases() -> Vec<(Vec<u8>, Value)> {
    let text = fs::read_to_string(fixture("reader/qwen.jsonl")).unwrap();
    let case = |line: &str| {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let bytes = case["bytes"].as_str().unwrap().chars().map(|c| u8::try_from(c).unwrap()).collect();
        (bytes, case["client"].take())
    };
    text.lines().map(case).collect()
}

fn records(t: &Transcript) -> Value {
    let name = |kind| match kind {
        RecordKind::User => "user",
        RecordKind::Assistant => "assistant",
        RecordKind::ToolResult => "tool_result",
        RecordKind::System => "system",
        RecordKind::Other => "other",
    };
    t.records.iter().map(|r| json!([t.id(r.id), r.parent.map(|p| t.id(p)), name(r.kind)])).collect()
}

#[test]
fn reader_and_client_agree_on_which_records_exist() {
    let dialect = dialect::of(Agent::Qwen);
    let cases = cases();
    assert!(cases.len() > 250);
    for (bytes, client) in cases {
        let t = dialect.read(&bytes).unwrap();
        let of = bytes.escape_ascii().to_string();
        let theirs: Vec<&Value> = client["records"].as_array().unwrap().iter().collect();
        let without_session: Value = theirs.iter().map(|r| json!([r[0], r[1], r[3]])).collect();
        assert_eq!(records(&t), without_session, "{of}");
        assert_eq!(json!(t.objects), client["objects"], "{of}");
        assert_eq!(json!(t.first_cwd), client["cwd"], "{of}");
        let sessions: BTreeSet<_> = theirs.iter().map(|r| r[2].as_str().unwrap()).collect();
        assert_eq!(t.session_ids.iter().map(String::as_str).collect::<BTreeSet<_>>(), sessions, "{of}");
    }
}

/// The client counts a loss only where bytes or values that are no object were dropped.
#[test]
fn nothing_that_the_client_drops_is_dropped_in_silence() {
    for (bytes, client) in cases() {
        let t = dialect::of(Agent::Qwen).read(&bytes).unwrap();
        let count = |is: fn(&LineDiagnostic) -> bool| t.diagnostics.iter().filter(|d| is(d)).count() as u64;
        let skipped = count(|d| matches!(d, LineDiagnostic::SkippedRecord { .. }));
        let malformed = count(|d| matches!(d, LineDiagnostic::MalformedLine { .. }));
        let torn = count(|d| matches!(d, LineDiagnostic::TornTail { .. }));
        let of = bytes.escape_ascii();
        let objects_skipped = t.objects - t.records.len() as u64;
        assert!(skipped >= objects_skipped, "{of}: {:?}", t.diagnostics);
        if client["complete"] == false {
            assert!(skipped - objects_skipped + malformed + torn > 0, "{of}");
        } else {
            assert_eq!((skipped, malformed), (objects_skipped, 0), "{of}: {:?}", t.diagnostics);
        }
    }
}

#[test]
fn flags_and_decoded_parts_are_those_of_json_parse() {
    let dialect = dialect::of(Agent::Qwen);
    for (bytes, client) in cases() {
        let t = dialect.read(&bytes).unwrap();
        for (ix, record) in t.records.iter().enumerate() {
            let of = bytes.escape_ascii();
            let flags: Vec<_> =
                FLAGS.iter().filter(|(f, _)| record.flags.has(*f)).map(|(_, name)| name).collect();
            assert_eq!(json!(flags), client["flags"][ix], "{of}");
            let d = dialect.decode(&bytes.bytes(record.span).unwrap());
            let d = json!({"timestamp": d.timestamp, "texts": d.texts, "calls": d.calls,
                "responses": d.responses, "git_branch": d.git_branch, "cwd": d.cwd, "title": d.title});
            assert_eq!(d, client["decoded"][ix], "{of}");
        }
    }
}

#[test]
fn simulation_and_client_agree_on_history_gap_cycle_and_refusal() {
    let dialect = dialect::of(Agent::Qwen);
    let (mut resumed, mut gaps, mut cycles, mut mixed) = (0, 0, 0, 0);
    for (bytes, client) in cases() {
        let mut t = dialect.read(&bytes).unwrap();
        // Ownership is checked before; the answers here are those of the functions behind that check.
        t.first_cwd.get_or_insert_default();
        let of = bytes.escape_ascii();
        match dialect.simulate(&t, &bytes, &Client::default()).unwrap() {
            Simulated::Resumes(r) => {
                let id = |ix| t.id(ix);
                let chain: Vec<_> = r.history.iter().map(|&ix| id(ix)).collect();
                assert_eq!(json!(chain), client["chain"], "{of}");
                assert_eq!(json!(id(r.tail)), client["chain"][chain.len() - 1], "{of}");
                let gap: Vec<_> = r.gap.iter().map(|g| [id(g.child), id(g.missing)]).collect();
                assert_eq!(json!(gap), client["gaps"], "{of}");
                assert_eq!(json!(r.cycle), client["cycle"], "{of}");
                resumed += 1;
                gaps += usize::from(r.gap.is_some());
                cycles += usize::from(r.cycle);
            }
            Simulated::Refuses(why) if why.contains("more than one session") => {
                assert_eq!(client["error"], "mixed_session_ids", "{of}");
                mixed += 1;
            }
            Simulated::Refuses(why) => assert_eq!(client["chain"], json!([]), "{of}: {why}"),
        }
    }
    assert!(resumed > 100 && gaps > 30 && cycles > 10 && mixed > 3, "{resumed} {gaps} {cycles} {mixed}");
}
