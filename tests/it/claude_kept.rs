//! Compactions that keep messages: what the clients did (2.1.197 and 2.1.332 alike) with transcripts as small as they can
//! be.
//!
//! A record is called by its name, whose first letter is its kind: `q` a prompt, `a` a reply, `n` an attachment, `d` a
//! turn's duration, `m` a meta prompt, `p` a sign of progress, `B` a boundary, `S` a summary.

use offshoot::{
    dialect::{Client, Dialect, Resumed, Simulated, claude::Claude},
    record::RecordId,
    refusal::Code,
    resume::seedable,
    topology::{self, build_ordered_uuid_chain},
    transcript::Transcript,
};
use serde_json::{Value, json};

use crate::random::lines;

pub const VERSIONS: [&str; 2] = ["2.1.197", "2.1.332"];

pub fn rec(name: &str, parent: &str) -> Value {
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    let mut record = json!({"uuid": name, "parentUuid": parent, "sessionId": "s", "cwd": "/w"});
    let more = match &name[..1] {
        "q" => json!({"type": "user", "message": {"content": name}}),
        "m" => json!({"type": "user", "isMeta": true, "message": {"content": name}}),
        "S" => json!({"type": "user", "isCompactSummary": true, "message": {"content": name}}),
        "a" => {
            json!({"type": "assistant", "message": {"id": format!("of {name}"), "content": [{"type": "text", "text": name}]}})
        }
        "n" => json!({"type": "attachment", "attachment": {}}),
        "p" => json!({"type": "progress"}),
        "d" => json!({"type": "system", "subtype": "turn_duration"}),
        "B" => {
            json!({"type": "system", "subtype": "compact_boundary", "parentUuid": null, "logicalParentUuid": parent})
        }
        _ => panic!("no kind is called like {name}"),
    };
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

pub fn pin(target: &str) -> Value {
    json!({"type": "last-prompt", "leafUuid": target, "explicit": true, "sessionId": "s"})
}

pub fn list(anchor: &str, uuids: &[&str]) -> Value {
    json!({"preservedMessages": {"anchorUuid": anchor, "uuids": uuids, "allUuids": uuids}})
}

pub fn segment(anchor: &str, head: &str, tail: &str) -> Value {
    json!({"preservedSegment": {"anchorUuid": anchor, "headUuid": head, "tailUuid": tail}})
}

/// A boundary `B<n>` that ends `end`, with a note, and its summary `S<n>`.
pub fn cut(n: u32, end: &str, note: Value) -> [Value; 2] {
    let mut boundary = rec(&format!("B{n}"), end);
    boundary["compactMetadata"] = note;
    [boundary, rec(&format!("S{n}"), &format!("B{n}"))]
}

/// A prompt `q<x>` and its reply `a<x>`.
fn turn(name: &str, parent: &str) -> [Value; 2] {
    [rec(&format!("q{name}"), parent), rec(&format!("a{name}"), &format!("q{name}"))]
}

fn all(parts: &[&[Value]]) -> Vec<Value> {
    parts.concat()
}

/// Two branches, and `q2 a2` of the second were said last.
fn before() -> Vec<Value> {
    all(&[&turn("0", ""), &turn("1", "a0"), &turn("2", "a0")])
}

/// Each a minute after the one before, unless it says how much later.
pub fn file(records: &[Value]) -> Vec<u8> {
    let mut records = records.to_vec();
    let mut seconds = 0;
    for record in records.iter_mut().filter(|r| r["uuid"].is_string()) {
        seconds += record["after"].as_u64().unwrap_or(60);
        record["timestamp"] = json!(format!(
            "2026-01-01T{:02}:{:02}:{:02}.000Z",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        ));
    }
    lines(&records)
}

pub fn client(version: &str) -> Client {
    Client { version: Some(version.to_owned()), ..Client::default() }
}

pub fn resumed(bytes: &[u8], version: &str) -> (Transcript, Resumed) {
    let t = Claude.read(&bytes).unwrap();
    match Claude.simulate(&t, &bytes, &client(version)).unwrap() {
        Simulated::Resumes(r) => (t, r),
        Simulated::Refuses(why) => panic!("refuses: {why}"),
    }
}

/// The messages that the client sends, and the record that it continues below.
fn sent(bytes: &[u8], version: &str) -> (String, String) {
    let (t, r) = resumed(bytes, version);
    let names = r.history.iter().map(|&id| t.ids.text(id));
    let said: Vec<String> = names.filter(|name| name.starts_with(['q', 'a', 'm', 'S'])).collect();
    (said.join(" "), t.ids.text(r.tail))
}

#[track_caller]
fn both(records: &[Value], said: &str, tail: &str) {
    for version in VERSIONS {
        assert_eq!(sent(&file(records), version), (said.to_owned(), tail.to_owned()), "{version}");
    }
}

#[test]
fn kept_messages_stand_between_the_summary_and_what_follows() {
    let kept = |uuids: &[&str]| all(&[&before(), &cut(1, "a2", list("S1", uuids))]);
    let right = turn("3", "S1");
    both(&all(&[&kept(&["a2"]), &right]), "S1 a2 q3 a3", "a3");
    both(&all(&[&kept(&["a1", "a2"]), &right]), "S1 a1 a2 q3 a3", "a3");
    both(&all(&[&before(), &cut(1, "a2", segment("S1", "q2", "a2")), &right]), "S1 q2 a2 q3 a3", "a3");
    // What else hangs on the summary goes below them too.
    both(&all(&[&kept(&["a2"]), &[rec("d", "S1")], &turn("3", "d")]), "S1 a2 q3 a3", "a3");
    both(&all(&[&kept(&["a2"]), &[rec("n", "S1")], &turn("3", "n")]), "S1 a2 q3 a3", "a3");
    // They may stand behind the boundary.
    both(&all(&[&kept(&["a9"]), &right, &[rec("a9", "a1")], &turn("4", "a3")]), "S1 a9 q3 a3 q4 a4", "a4");
    both(&all(&[&kept(&["a9"]), &right, &[rec("a9", "a1")]]), "S1 a9 q3 a3", "a3");
    // With nothing behind it the summary is not where the client goes on.
    both(&kept(&["q2", "a2"]), "S1 q2 a2", "a2");
    both(&all(&[&kept(&["a2"]), &[rec("d", "S1")]]), "S1 a2", "d");
    both(&all(&[&kept(&["a2"]), &[pin("gone")]]), "S1 a2", "a2");
    both(&all(&[&kept(&["a2"]), &right, &turn("4", "S1"), &[rec("S1", "B1")]]), "S1", "S1");
    // Any record can be the anchor.
    both(
        &all(&[&before(), &cut(1, "a2", list("a3", &["a2"])), &right, &turn("4", "a3")]),
        "S1 q3 a3 a2 q4 a4",
        "a4",
    );
    both(&all(&[&before(), &cut(1, "a2", list("B1", &["a2"])), &right]), "a2 S1 q3 a3", "a3");
}

#[test]
fn pins_of_kept_messages_and_what_hangs_below_them() {
    let kept = all(&[&before(), &cut(1, "a2", list("S1", &["q2", "a2"]))]);
    let right = turn("3", "S1");
    both(&all(&[&kept, &right, &[pin("q2")]]), "S1 q2", "q2");
    both(&all(&[&kept, &right, &[pin("a2")]]), "S1 q2 a2", "a2");
    both(&all(&[&kept, &right, &[pin("S1")]]), "S1", "S1");
    both(&all(&[&kept, &turn("3", "q2")]), "S1 q2 q3 a3", "a3");
    both(&all(&[&kept, &turn("3", "a2")]), "S1 q2 a2 q3 a3", "a3");
    both(&all(&[&kept, &right, &turn("4", "a2")]), "S1 q2 a2 q4 a4", "a4");
}

#[test]
fn nothing_else_before_the_last_boundary_is_loaded() {
    let kept = all(&[&before(), &cut(1, "a2", list("S1", &["a2"]))]);
    let right = turn("3", "S1");
    both(&all(&[&kept, &right, &[pin("a1")]]), "S1 a2 q3 a3", "a3");
    // A message below what was left out goes on below the kept ones; nothing else does, nor what was never written.
    both(&all(&[&kept, &turn("3", "a1")]), "S1 a2 q3 a3", "a3");
    both(&all(&[&kept, &[rec("a3", "a1")]]), "S1 a2 a3", "a3");
    both(&all(&[&kept, &[rec("m", "a1"), rec("a3", "m")]]), "S1 a2 m a3", "a3");
    both(&all(&[&kept, &[rec("n", "a1")], &turn("3", "n")]), "q3 a3", "a3");
    both(&all(&[&kept, &[rec("d", "a1")], &turn("3", "d")]), "q3 a3", "a3");
    both(&all(&[&kept, &turn("3", "gone")]), "q3 a3", "a3");
    let mut late = turn("4", "gone");
    late[0]["after"] = json!(4);
    both(&all(&[&kept, &right, &late]), "S1 a2 q3 a3 q4 a4", "a4");
    // A later boundary without a note leaves out what an earlier one kept, and what is behind that.
    let twice = all(&[&kept, &right, &cut(2, "a3", json!({}))]);
    both(&all(&[&twice, &turn("4", "S2"), &[pin("a2")]]), "S2 q4 a4", "a4");
    both(&all(&[&twice, &turn("4", "a2")]), "q4 a4", "a4");
    both(&all(&[&twice, &turn("4", "S1")]), "q4 a4", "a4");
    // One with a note of its own keeps what it names.
    let again = |uuids: &[&str]| all(&[&kept, &right, &cut(2, "a3", list("S2", uuids))]);
    both(&all(&[&again(&["a2", "a3"]), &turn("4", "S2")]), "S2 a2 a3 q4 a4", "a4");
    both(&all(&[&again(&["a3"]), &turn("4", "S1")]), "S2 a3 q4 a4", "a4");
}

#[test]
fn notes_that_are_void_and_notes_without_an_anchor() {
    let with = |note: Value, rest: &[Value]| all(&[&before(), &cut(1, "a2", note), rest]);
    let right = turn("3", "S1");
    let left = all(&[&right, &[pin("a1")]]);
    let void = [
        list("S1", &["gone"]),
        list("S1", &["a2", "gone"]),
        segment("S1", "gone", "a2"),
        segment("S1", "q1", "a2"),
        json!({"preservedMessages": {"anchorUuid": "S1", "uuids": ["a2", 7]}}),
        json!({"preservedMessages": null, "preservedSegment": null}),
        json!({}),
        // A list that is void is not mended by a segment that is not.
        json!({"preservedMessages": {"anchorUuid": "S1", "uuids": ["gone"]},
               "preservedSegment": {"anchorUuid": "S1", "headUuid": "q2", "tailUuid": "a2"}}),
    ];
    for note in void {
        both(&with(note.clone(), &left), "q0 a0 q1 a1", "a1");
        both(&with(note, &right), "S1 q3 a3", "a3");
    }
    // An empty list is one.
    both(&with(list("S1", &[]), &left), "S1 q3 a3", "a3");
    both(&with(list("S1", &[]), &turn("3", "a1")), "q3 a3", "a3");
    // Signs of progress cannot be kept.
    let progress = all(&[&before(), &[rec("p", "a2")], &cut(1, "a2", list("S1", &["a2", "p"])), &left]);
    both(&progress, "q0 a0 q1 a1", "a1");
    // Without an anchor that is there, all are left out as well, and the kept ones stand for themselves.
    for anchor in ["gone", "a1"] {
        both(&with(list(anchor, &["q2", "a2"]), &left), "S1 q3 a3", "a3");
        both(&with(list(anchor, &["a0", "a2"]), &all(&[&right, &[pin("a2")]])), "a0 a2", "a2");
        both(&with(list(anchor, &["a2"]), &turn("3", "a1")), "a2 q3 a3", "a3");
    }
    // The last note decides, also where it is void.
    let again =
        all(&[&before(), &cut(1, "a2", list("S1", &["a2"])), &right, &cut(2, "a3", list("S2", &["gone"]))]);
    both(&all(&[&again, &turn("4", "S2"), &[pin("a2")]]), "q0 a0 q2 a2", "a2");
    // A ring ends.
    let (_, r) = resumed(&file(&with(list("S1", &["a2", "a2"]), &right)), VERSIONS[1]);
    assert!(r.cycle);
}

#[test]
fn the_size_of_the_file_does_not_matter_with_a_note() {
    let filler = json!({"type": "mode", "mode": "x".repeat(5 << 20)});
    let large =
        |note: Value| all(&[&before(), std::slice::from_ref(&filler), &cut(1, "a2", note), &turn("3", "S1")]);
    both(&large(list("S1", &["a2"])), "S1 a2 q3 a3", "a3");
    both(&large(segment("S1", "q2", "a2")), "S1 q2 a2 q3 a3", "a3");
    both(&all(&[&large(list("S1", &["gone"])), &[pin("a1")]]), "q0 a0 q1 a1", "a1");
    both(&all(&[&large(json!({})), &[pin("a1")]]), "S1 q3 a3", "a3");
}

#[test]
fn the_pick_of_a_conversation_that_ends_with_a_compaction_is_its_summary() {
    let bytes = file(&all(&[&before(), &cut(1, "a2", list("S1", &["a2"]))]));
    let t = Claude.read(&bytes).unwrap();
    let pick = topology::inspect(&t, &bytes, &Claude, &Client::default()).unwrap().client_pick.unwrap();
    let leaf = pick.leaf_uuid.map(|id| id.to_string());
    assert_eq!((pick.tail_uuid.as_str(), leaf.as_deref()), ("a2", Some("S1")));
}

fn chain_of(records: &[Value], leaf: &str) -> String {
    let t = Claude.read(&file(records)).unwrap();
    let chain = build_ordered_uuid_chain(&t, t.ids.find(leaf).unwrap());
    chain.uuids.iter().map(|&id| t.ids.text(id)).collect::<Vec<_>>().join(" ")
}

/// A chain is what was said when its leaf was written, whatever was compacted later.
#[test]
fn a_chain_goes_through_what_was_kept_when_its_leaf_was_written() {
    let first = all(&[&before(), &cut(1, "a2", list("S1", &["q2", "a2"]))]);
    let whole = all(&[
        &first,
        &turn("3", "S1"),
        &turn("4", "q2"),
        &cut(2, "a3", list("S2", &["a3"])),
        &turn("5", "S2"),
    ]);
    assert_eq!(chain_of(&whole, "a1"), "q0 a0 q1 a1");
    assert_eq!(chain_of(&whole, "a2"), "q0 a0 q2 a2");
    assert_eq!(chain_of(&whole, "a3"), "B1 S1 q2 a2 q3 a3");
    assert_eq!(chain_of(&whole, "a4"), "B1 S1 q2 q4 a4");
    assert_eq!(chain_of(&whole, "a5"), "B2 S2 a3 q5 a5");
    let segment =
        all(&[&before(), &cut(1, "a2", segment("S1", "a0", "a2")), &turn("3", "S1"), &turn("4", "q2")]);
    assert_eq!(chain_of(&segment, "a3"), "B1 S1 a0 q2 a2 q3 a3");
    assert_eq!(chain_of(&segment, "a4"), "B1 S1 a0 q2 q4 a4");
    let void = all(&[&before(), &cut(1, "a2", list("S1", &["gone"])), &turn("3", "S1")]);
    assert_eq!(chain_of(&void, "a3"), "B1 S1 q3 a3");
}

#[test]
fn in_place_a_leaf_before_such_a_boundary_is_out_of_reach() {
    let bytes = file(&all(&[&before(), &cut(1, "a2", list("S1", &["a2"])), &turn("3", "S1")]));
    let t = Claude.read(&bytes).unwrap();
    let code = |leaf: &str, in_place: bool| {
        let found = seedable(&Claude, &t, &bytes, &RecordId::new(leaf.to_owned()), false, in_place).unwrap();
        found.map(drop).map_err(|error| error.refusal().unwrap())
    };
    assert_eq!(code("a1", true), Err(Code::OutOfReach));
    assert_eq!(code("a1", false), Ok(()));
    assert_eq!(code("a3", true), Ok(()));
}

#[test]
fn a_segment_that_ends_in_a_ring_of_signs_of_progress_is_void() {
    let ring = [rec("p1", "p2"), rec("p2", "p1")];
    for (head, tail) in [("q0", "p1"), ("p9", "p2"), ("q0", "n1")] {
        let beside = [rec("n1", "p1")];
        let bytes = file(&all(&[
            &turn("0", ""),
            &ring,
            &beside,
            &cut(1, "a0", segment("S1", head, tail)),
            &turn("3", "S1"),
        ]));
        for version in VERSIONS {
            assert_eq!(
                sent(&bytes, version),
                ("S1 q3 a3".to_owned(), "a3".to_owned()),
                "{head} {tail} {version}"
            );
        }
    }
}
