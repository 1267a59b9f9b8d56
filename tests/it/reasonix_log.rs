//! Logs of Reasonix: what the client said of each case, and what is torn and what is damage.

use std::{collections::HashMap, fs, io};

use offshoot::{
    dialect::reasonix::{
        Trouble,
        commit::Commits,
        content::{Contents, NoContents, PayloadRef},
        frame,
        projection::{State, Turn},
    },
    transcript::Source,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::{
    reasonix_made::{Log, begin, commit_frames, commits, hex, message, records, turns},
    support::fixture,
};

fn case(session: &str) -> Vec<u8> {
    fs::read(fixture(&format!("cases/reasonix/sessions-v4/{session}/events.frames"))).unwrap()
}

/// A turn in short: id, start, end, boundary, status, reply, state.
fn short(turn: &Turn) -> String {
    format!(
        "{} {}..{} b{} {} {} {:?}",
        turn.id,
        turn.start,
        turn.end,
        turn.boundary,
        turn.status,
        turn.message_id.as_deref().unwrap_or("-"),
        turn.state
    )
}

#[track_caller]
fn expect(turns: &[Turn], expected: &[&str]) {
    assert_eq!(turns.iter().map(short).collect::<Vec<_>>(), expected);
}

#[test]
fn every_case_has_the_turns_that_the_client_lists() {
    let cases: [(&str, &[&str]); 9] = [
        (
            "mini-parent",
            &[
                "turn_1 1..4 b4 completed a1 Available",
                "turn_2 5..8 b8 completed a2 Available",
                "turn_3 9..0 b0 in_progress - Open",
            ],
        ),
        ("mini-child", &["turn_1 1..4 b4 completed a1 Available"]),
        ("mini-child-rawblock", &["turn_1 1..4 b4 completed a1 Available"]),
        (
            "mini-active-tool",
            &[
                "turn_1 1..3 b3 completed - ActiveAuthority",
                "turn_2 4..7 b7 completed a2 ActiveAuthority",
                "turn_3 9..12 b12 completed a3 Available",
            ],
        ),
        (
            "mini-history-replace",
            &[
                "turn_1 1..4 b4 completed a1 Available",
                "turn_2 5..8 b8 completed a2 Available",
                "turn_3 10..13 b13 completed a3 Available",
            ],
        ),
        ("mini-no-turn-start", &[]),
        // The client lets the first one vanish.
        (
            "mini-unclosed-then-start",
            &["turn_1 1..0 b0 in_progress - Unclosed", "turn_2 3..6 b6 completed a2 Available"],
        ),
        // The client closes the last one when it opens the session, and gives it the reply of the one before.
        (
            "synth-authority",
            &[
                "turn_a 1..4 b4 completed a1 Available",
                "turn_b 5..9 b9 completed a2 ActiveAuthority",
                "turn_c 11..14 b15 completed a3 Available",
                "turn_d 16..0 b0 in_progress - Open",
            ],
        ),
        ("synth-messages-only", &[]),
    ];
    for (session, expected) in cases {
        let bytes = case(session);
        let projection = turns(&bytes, &NoContents).unwrap();
        expect(&projection.turns(), expected);
        assert_eq!(projection.is_verifiable(), !expected.is_empty(), "{session}");
        assert_eq!(commits(&bytes, &NoContents).unwrap().1, bytes.len() as u64, "{session}");
    }
}

#[test]
fn what_the_client_refuses_is_refused_by_name() {
    let trouble = |session: &str| commits(&case(session), &NoContents).unwrap_err();
    match trouble("synth-unknown-required") {
        Trouble::Unsupported { offset: 1526, what } => assert!(what.contains("`future/thing`"), "{what}"),
        other => panic!("{other:?}"),
    }
    match trouble("mini-corrupt-middle") {
        Trouble::Damaged { offset: 282, reason } => assert!(reason.contains("zstd"), "{reason}"),
        other => panic!("{other:?}"),
    }
    for session in ["mini-statuses-all", "synth-statuses"] {
        match trouble(session) {
            Trouble::Damaged { reason, .. } => assert!(reason.contains("status"), "{reason}"),
            other => panic!("{session}: {other:?}"),
        }
    }
}

#[test]
fn a_torn_tail_is_invisible() {
    let bytes = case("mini-torn-tail");
    let (all, end) = commits(&bytes, &NoContents).unwrap();
    assert_eq!((all.len(), end, bytes.len()), (3, 3666, 4726));
    expect(
        &turns(&bytes, &NoContents).unwrap().turns(),
        &["turn_1 1..4 b4 completed a1 Available", "turn_2 5..8 b8 completed a2 Available"],
    );
}

#[test]
fn every_prefix_of_a_log_is_whole_or_torn() {
    let bytes = case("mini-parent");
    let (all, _) = commits(&bytes, &NoContents).unwrap();
    let near = |len: &usize| len.is_multiple_of(13) || all.iter().any(|c| c.end.abs_diff(*len as u64) < 14);
    for len in (0..=bytes.len()).filter(near) {
        let (read, end) = commits(&bytes[..len].to_vec(), &NoContents).unwrap();
        let whole = all.iter().filter(|c| c.end <= len as u64).count();
        assert_eq!((read.len(), end), (whole, whole.checked_sub(1).map_or(0, |i| all[i].end)), "{len}");
    }
}

#[test]
fn garbage_at_a_frame_boundary_is_damage_if_it_is_a_header_long() {
    let bytes = case("mini-parent");
    for n in 0..12 {
        let garbled = [&bytes[..], &vec![b'x'; n]].concat();
        assert_eq!(commits(&garbled, &NoContents).unwrap().1, bytes.len() as u64, "{n}");
    }
    let garbled = [&bytes[..], &[b'x'; 12]].concat();
    assert!(matches!(
        commits(&garbled, &NoContents),
        Err(Trouble::Damaged { offset, .. }) if offset == bytes.len() as u64
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Whatever is read of changed bytes is what stood there before: a digest vouches for it.
    #[test]
    fn changed_bits_are_never_taken_for_a_record(at in 0usize..4733, bit in 0u32..8) {
        let bytes = case("mini-parent");
        let (all, _) = commits(&bytes, &NoContents).unwrap();
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        let mut reader = Commits::new(&changed, &NoContents);
        let mut read = 0;
        while let Ok(Some(commit)) = reader.next_commit() {
            prop_assert_eq!(&commit.begin, &all[read].begin);
            prop_assert_eq!(&commit.sha256, &all[read].sha256);
            read += 1;
        }
        let untouched = all.iter().filter(|c| c.end <= at as u64).count();
        prop_assert!(read >= untouched, "{} of {}", read, untouched);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), framed: bool) {
        if framed && bytes.len() >= 12 {
            let n = (bytes.len() - 12) as u32;
            bytes[..4].copy_from_slice(b"RX4F");
            bytes[4..8].copy_from_slice(&n.to_be_bytes());
            bytes[8..12].copy_from_slice(&(n + 100).to_be_bytes());
            if bytes.len() >= 16 {
                bytes[12..16].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd]);
            }
        }
        let _ = commits(&bytes, &NoContents);
    }
}

fn framed(compressed: &[u8], c: u32, r: u32) -> Vec<u8> {
    [b"RX4F".as_slice(), &c.to_be_bytes(), &r.to_be_bytes(), compressed].concat()
}

/// A zstd frame without content size that says the same byte `n` times.
fn repeated(n: u32) -> Vec<u8> {
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68];
    let mut left = n;
    loop {
        let size = left.min(128 << 10);
        left -= size;
        let header = u32::from(left == 0) | 1 << 1 | size << 3;
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.push(b' ');
        if left == 0 {
            return out;
        }
    }
}

#[test]
fn hostile_sizes_are_damage() {
    const MOST: u32 = 8 << 20;
    let body = repeated(100);
    let c = body.len() as u32;
    let read = |bytes: Vec<u8>| frame::read(&bytes, 0);
    assert_eq!(read(framed(&body, c, 100)).unwrap().unwrap().json, vec![b' '; 100]);
    for (c, r) in [(0, 100), (c, 0), (MOST + 1, 100), (u32::MAX, 100), (c, MOST + 1), (c, u32::MAX)] {
        // Nothing of that size is there, so it would be torn if sizes were not looked at first.
        assert!(matches!(read(framed(&body, c, r)), Err(Trouble::Damaged { offset: 0, .. })), "{c} {r}");
    }
    // More or less than declared, bytes behind the frame, a frame cut short.
    for r in [99, 101, MOST] {
        assert!(matches!(read(framed(&body, c, r)), Err(Trouble::Damaged { .. })), "{r}");
    }
    let bomb = repeated(64 << 20);
    assert!(matches!(read(framed(&bomb, bomb.len() as u32, 1000)), Err(Trouble::Damaged { .. })));
    let longer = [&body[..], b"x"].concat();
    assert!(matches!(read(framed(&longer, c + 1, 100)), Err(Trouble::Damaged { .. })));
    assert!(matches!(read(framed(&body[..body.len() - 1], c - 1, 100)), Err(Trouble::Damaged { .. })));
    // A window of 64 MiB for a record of 100 bytes.
    let mut wide = body.clone();
    wide[5] = 0x80; // 2^(10 + 16)
    assert!(matches!(read(framed(&wide, c, 100)), Err(Trouble::Damaged { .. })));
    let largest = repeated(MOST);
    assert_eq!(
        read(framed(&largest, largest.len() as u32, MOST)).unwrap().unwrap().json.len(),
        MOST as usize
    );
}

/// Bytes that stand far behind the start of a file.
struct Far {
    offset: u64,
    bytes: Vec<u8>,
}

impl Source for Far {
    fn len(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let offset = offset.checked_sub(self.offset).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.bytes.read_exact_at(offset, buf)
    }
}

#[test]
fn logs_go_on_behind_four_gibibytes() {
    let offset = 5 << 30;
    let far = Far { offset, bytes: case("mini-parent") };
    let mut reader = Commits::behind(&far, &NoContents, offset, 0);
    let mut last = None;
    while let Some(commit) = reader.next_commit().unwrap() {
        last = Some((commit.start, commit.end, commit.last_seq()));
    }
    assert_eq!(last, Some((offset + 3666, offset + 4733, 10)));
    assert_eq!(reader.end(), far.len());
}

#[test]
fn the_structure_of_commits_is_checked() {
    let log = Log::default().turn("t1");
    let damaged = |bytes: Vec<u8>, what: &str| match commits(&bytes, &NoContents) {
        Err(Trouble::Damaged { reason, .. }) => assert!(reason.contains(what), "{reason}"),
        other => panic!("{what}: {other:?}"),
    };
    let behind = |frames: Vec<u8>| [log.bytes.clone(), frames].concat();
    let event = |seq| {
        let log = Log::default().commit("t", &[("diagnostic", "{}", false)]);
        let json = records(&log.bytes)[1].replace("\"seq\":1", &format!("\"seq\":{seq}"));
        frame::write(json.as_bytes()).unwrap()
    };
    // Sequences start at 1 and have no gaps.
    damaged(behind(commit_frames(&begin("c", "", 4, 1), &[])), "sequence 4 where 5 is due");
    damaged(behind(commit_frames(&begin("c", "", 6, 1), &[])), "sequence 6 where 5 is due");
    damaged(commit_frames(&begin("c", "", 0, 1), &[]), "sequence 0 where 1 is due");
    let first = frame::write(&begin("c", "", 5, 2).to_json()).unwrap();
    damaged(behind([first.clone(), event(5), event(7)].concat()), "no event of sequence 6");
    damaged(behind([first.clone(), event(5), event(6), event(7)].concat()), "no event of sequence 7");
    damaged(behind([first.clone(), first.clone()].concat()), "inside of another");
    damaged(behind(event(5)), "outside of a commit");
    damaged(behind(commit_frames(&begin("c", "", 5, 1), &[])), "does not fit");
    let empty = |f: fn(&mut offshoot::dialect::reasonix::record::Begin)| {
        let mut begin = begin("c", "", 5, 1);
        f(&mut begin);
        behind(frame::write(&begin.to_json()).unwrap())
    };
    damaged(empty(|b| b.commit_id.clear()), "lacks something");
    damaged(empty(|b| b.operation_id.clear()), "lacks something");
    damaged(empty(|b| b.operation_hash.clear()), "lacks something");
    damaged(empty(|b| b.writer_generation = 0), "lacks something");
    damaged(empty(|b| b.event_count = 0), "lacks something");
    // A huge count is no reason to allocate: the commit is only torn.
    let mut huge = begin("c", "", 5, 1);
    huge.event_count = i64::MAX as u64;
    assert_eq!(commits(&behind(frame::write(&huge.to_json()).unwrap()), &NoContents).unwrap().0.len(), 1);
    // A wrong digest.
    let all = records(&Log::default().turn("t1").bytes);
    let digest = all.last().unwrap().clone();
    let wrong = digest.replace(&digest[digest.len() - 10..digest.len() - 2], "00000000");
    let frames: Vec<u8> = all[..all.len() - 1]
        .iter()
        .chain([&wrong])
        .flat_map(|r| frame::write(r.as_bytes()).unwrap())
        .collect();
    damaged(frames, "digest");
}

#[test]
fn an_operation_id_stands_for_one_operation() {
    let with = |hash: &str| {
        let mut again = begin("c9", "", 5, 1);
        again.operation_id = "op-c1".to_owned();
        again.operation_hash = hash.repeat(64);
        let log = Log::default().turn("t1");
        let made = Log::default().commit("", &[("diagnostic", "{}", false)]);
        let mut event = records(&made.bytes)[1].clone();
        event = event.replace("\"seq\":1", "\"seq\":5");
        let json = again.to_json();
        let mut digest = Sha256::new();
        for json in [&json[..], event.as_bytes()] {
            digest.update(json);
            digest.update([0]);
        }
        let end = offshoot::dialect::reasonix::record::End {
            commit_id: "c9".to_owned(),
            first_seq: 5,
            event_count: 1,
            sha256: hex(&digest.finalize()),
        };
        let frames = [json, event.into_bytes(), end.to_json()];
        [log.bytes, frames.iter().flat_map(|json| frame::write(json).unwrap()).collect()].concat()
    };
    assert_eq!(commits(&with("0"), &NoContents).unwrap().0.len(), 2);
    assert!(matches!(commits(&with("1"), &NoContents), Err(Trouble::Damaged { .. })));
}

#[test]
fn unknown_kinds_and_versions() {
    let log = Log::default().turn("t1");
    let optional = log.clone().commit("", &[("future/thing", "not JSON", true)]).turn("t2");
    assert_eq!(optional.turns().len(), 2);
    let required = log.clone().commit("", &[("future/thing", "{}", false)]);
    assert!(matches!(
        commits(&required.bytes, &NoContents),
        Err(Trouble::Unsupported { what, .. }) if what.contains("future/thing")
    ));
    // In a commit that was never completed it is as invisible as the rest.
    let torn = required.bytes[..required.bytes.len() - 1].to_vec();
    assert_eq!(commits(&torn, &NoContents).unwrap().0.len(), 1);
    for (from, to) in [
        ("\"schemaVersion\":4", "\"schemaVersion\":5"),
        ("linear/v4", "linear/v5"),
        ("batch/end", "batch/middle"),
    ] {
        let changed: Vec<u8> = records(&log.bytes)
            .iter()
            .flat_map(|r| frame::write(r.replace(from, to).as_bytes()).unwrap())
            .collect();
        assert!(matches!(commits(&changed, &NoContents), Err(Trouble::Unsupported { .. })), "{to}");
    }
}

#[test]
fn payloads_are_as_strict_as_the_clients() {
    let refused = [
        ("turn/end", r#"{"status":"cancelled"}"#),
        ("turn/end", r#"{"status":"completed","why":1}"#),
        ("turn/end", ""),
        ("message/complete", r#"{"message":{"role":"user","content":"x"}}"#),
        ("message/complete", r#"{"message":null}"#),
        ("message/complete", r#"{"message":{"id":"x"},"more":1}"#),
        ("message/complete", r#"{"message":{"id":"x","content":{"a":1}}}"#),
        ("message/retract", r#"{"messageIds":[]}"#),
        ("message/retract", r#"{"messageIds":["a","a"]}"#),
        ("message/retract", r#"{"messageIds":[" a"]}"#),
        ("history/replace", r#"{"reason":"x"}"#),
        ("legacy/import", r#"{"source":{"path":"/x"}}"#),
        ("legacy/import", r#"{"messages":[],"other":1}"#),
        ("tool/start", r#"{"id":"t","name":"n","args":""}"#),
        ("tool/call", r#"{"id":"t"}"#),
        ("tool/result", r#"{"name":"n"}"#),
        ("interaction/created", r#"{"id":"i","state":"answered"}"#),
        ("interaction/resolved", r#"{"id":"i","state":"pending"}"#),
        ("session/title", r#"{"title":"x"}{}"#),
    ];
    for (kind, payload) in refused {
        let log = Log::default().commit("t", &[(kind, payload, false)]);
        assert!(matches!(commits(&log.bytes, &NoContents), Err(Trouble::Damaged { .. })), "{kind} {payload}");
    }
    let accepted = [
        ("turn/start", ""),
        ("turn/start", "{}"),
        ("message/complete", r#"{"message":{"id":"x","role":"user","content":"\ud83d","else":[1]}}"#),
        ("message/complete", "{\"message\":{\"id\":\"x\",\"content\":null}}\n"),
        ("tool/call", r#"{"id":"t","name":"n","args":"{}","readOnly":true,"profile":{}}"#),
        ("tool/result", r#"{"id":"t","name":"n","output":"x"}"#),
        ("interaction/created", r#"{"id":"i"}"#),
        ("interaction/resolved", r#"{"id":"i","state":"unavailable"}"#),
        ("history/replace", r#"{"messages":[],"reason":"x","sourceSequences":[1]}"#),
        ("legacy/import", r#"{"messages":[]}"#),
        (
            "legacy/import",
            r#"{"source":{"path":"/x","size":1,"sha256":"","version":""},"messages":[],"goal":{}}"#,
        ),
    ];
    for (kind, payload) in accepted {
        let log = Log::default().commit("t", &[(kind, payload, false)]);
        assert!(commits(&log.bytes, &NoContents).is_ok(), "{kind} {payload}");
    }
}

const START: (&str, &str, bool) = ("turn/start", "{}", false);
const END: (&str, &str, bool) = ("turn/end", r#"{"status":"completed"}"#, false);

#[test]
fn authority_is_judged_when_the_closing_commit_is_complete() {
    let ask = ("interaction/created", r#"{"id":"i"}"#, false);
    let settle = ("interaction/resolved", r#"{"id":"i","state":"rejected"}"#, false);
    let state = |log: Log| log.turns().iter().map(|t| t.state).collect::<Vec<_>>();
    // Settled behind the end of the turn, but in its commit.
    assert_eq!(state(Log::default().commit("t", &[START, ask, END, settle])), [State::Available]);
    assert_eq!(
        state(Log::default().commit("t", &[START, ask, END]).commit("t", &[settle])),
        [State::ActiveAuthority]
    );
    // What is opened behind the end is inherited as well.
    assert_eq!(state(Log::default().commit("t", &[START, END, ask])), [State::ActiveAuthority]);
    assert_eq!(
        state(Log::default().commit("t", &[START, END, START])),
        [State::ActiveAuthority, State::Open]
    );
}

#[test]
fn of_turns_closed_by_one_commit_only_the_last_is_available() {
    let log = Log::default().turn("t0").commit("t", &[START, END, START, END, START, END]);
    let states: Vec<(State, u64)> = log.turns().iter().map(|t| (t.state, t.boundary)).collect();
    assert_eq!(
        states,
        [
            (State::Available, 4),
            (State::BoundaryShared, 10),
            (State::BoundaryShared, 10),
            (State::Available, 10)
        ]
    );
}

#[test]
fn a_retracted_prompt_hides_its_turn() {
    let retract = |id: &str| format!(r#"{{"messageIds":["{id}"]}}"#);
    let log =
        Log::default().turn("t1").turn("t2").commit("", &[("message/retract", &retract("u-t1"), false)]);
    let ids = |log: &Log| log.turns().into_iter().map(|t| t.id).collect::<Vec<_>>();
    assert_eq!(ids(&log), ["t2"]);
    // The reply of a turn can be retracted too; the turn stays.
    let reply = log.clone().commit("", &[("message/retract", &retract("a-t2"), false)]);
    assert_eq!(reply.turns()[0].message_id, None);
    // It comes back with its prompt.
    let back = log.commit("", &[("message/upsert", &message("user", "u-t1", "again"), false)]);
    assert_eq!(ids(&back), ["t1", "t2"]);
}

#[test]
fn a_reply_is_the_last_text_of_the_assistant() {
    let (first, last) = (message("assistant", "a1", "text"), message("assistant", "a2", " "));
    let local = r#"{"message":{"role":"assistant","id":"a3","content":"x","local_only":true}}"#;
    let log = Log::default().commit(
        "t",
        &[
            START,
            ("message/complete", &first, false),
            ("message/complete", &last, false),
            ("message/complete", local, false),
            END,
        ],
    );
    assert_eq!(log.turns()[0].message_id.as_deref(), Some("a1"));
}

/// A content store in memory.
#[derive(Default)]
struct Stored {
    objects: HashMap<String, Vec<u8>>,
    indexes: HashMap<String, Vec<u8>>,
}

impl Stored {
    fn put(&mut self, payload: &[u8]) -> PayloadRef {
        let digest = hex(&Sha256::digest(payload));
        let blocks: Vec<String> = payload.chunks(1 << 20).map(|b| hex(&Sha256::digest(b))).collect();
        let index = serde_json::json!({"version": 1, "object": digest, "bytes": payload.len(),
                                       "blockBytes": 1 << 20, "blocks": blocks})
        .to_string();
        let index_digest = hex(&Sha256::digest(&index));
        self.objects.insert(digest.clone(), payload.to_vec());
        self.indexes.insert(digest.clone(), index.into_bytes());
        PayloadRef {
            digest,
            bytes: payload.len() as u64,
            media_type: Some("application/json".to_owned()),
            name: None,
            index_digest: Some(index_digest),
            integrity_block_bytes: Some(1 << 20),
        }
    }
}

impl Contents for Stored {
    fn object(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(self.objects.get(digest).map(|b| Box::new(b.clone()) as Box<dyn Source>))
    }

    fn index(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(self.indexes.get(digest).map(|b| Box::new(b.clone()) as Box<dyn Source>))
    }
}

#[test]
fn payloads_elsewhere_are_verified() {
    let mut stored = Stored::default();
    let payload = message("assistant", "a9", &"x".repeat(3 << 20));
    let at = stored.put(payload.as_bytes());
    let log = Log::default()
        .commit("t", &[START])
        .elsewhere("t", "message/complete", at.clone())
        .commit("t", &[END]);
    let reply = turns(&log.bytes, &stored).unwrap().turns()[0].message_id.clone();
    assert_eq!(reply.as_deref(), Some("a9"));
    // Without index it is verified as a whole.
    let plain = PayloadRef { index_digest: None, integrity_block_bytes: None, ..at.clone() };
    let without = Log::default().elsewhere("", "message/complete", plain);
    stored.indexes.clear();
    assert!(commits(&without.bytes, &stored).is_ok());
    let damaged = |stored: &Stored, log: &Log, what: &str| match commits(&log.bytes, stored) {
        Err(Trouble::Damaged { reason, .. }) => assert!(reason.contains(what), "{reason}"),
        other => panic!("{what}: {other:?}"),
    };
    damaged(&stored, &log, "lacks the index");
    damaged(&Stored::default(), &log, "lacks the object");
    let mut stored = Stored::default();
    stored.put(payload.as_bytes());
    stored.objects.get_mut(&at.digest).unwrap()[2 << 20] ^= 1;
    damaged(&stored, &log, "contradicts a block");
    damaged(&stored, &without, "other bytes");
    stored.objects.get_mut(&at.digest).unwrap().pop();
    damaged(&stored, &without, "another length");
    let evil = PayloadRef { digest: "../../etc/passwd".to_owned(), ..at.clone() };
    damaged(&stored, &Log::default().elsewhere("", "diagnostic", evil), "no digest");
    let blocks = PayloadRef { integrity_block_bytes: Some(4096), ..at };
    damaged(&Stored::default(), &Log::default().elsewhere("", "diagnostic", blocks), "lacks the object");
}
