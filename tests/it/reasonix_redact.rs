//! `redact` of Reasonix: logs of every shape, whole, torn and damaged, keep what a reader makes of them and lose their words.

use std::{cell::RefCell, collections::HashMap, fs, io};

use base64::{Engine, engine::general_purpose::STANDARD};
use offshoot::{
    dialect::{
        self, Client,
        reasonix::{
            Trouble,
            child::{self, ChildSpec},
            content::{Contents, PayloadRef},
            frame,
            redact::{Payloads, Redacted, Redaction},
            render::{self, Member},
        },
    },
    record::Agent,
    topology,
    transcript::Source,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    random::{Rng, for_seeds},
    reasonix_cli::Home,
    reasonix_made::{Log, commits, hex, message, records, turns},
    support::fixture,
};

/// What stands in texts, titles, arguments and names, and nowhere else.
const WORDS: [&str; 6] = ["zebra", "plumage", "Quokka", "marmalade", "sluice", "vielleicht"];

/// A content store in memory.
#[derive(Clone, Default)]
struct Kept {
    objects: HashMap<String, Vec<u8>>,
    indexes: HashMap<String, Vec<u8>>,
}

impl Contents for Kept {
    fn object(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(self.objects.get(digest).map(|bytes| Box::new(bytes.clone()) as Box<dyn Source>))
    }

    fn index(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(self.indexes.get(digest).map(|bytes| Box::new(bytes.clone()) as Box<dyn Source>))
    }
}

impl Payloads for Kept {
    fn object(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()> {
        let before = self.objects.insert(digest.to_owned(), bytes.to_vec());
        assert!(before.is_none_or(|before| before == bytes), "one name, two objects");
        Ok(())
    }

    fn index(&mut self, digest: &str, bytes: &[u8]) -> io::Result<()> {
        self.indexes.insert(digest.to_owned(), bytes.to_vec());
        Ok(())
    }
}

impl Kept {
    /// Keeps a payload as the client does.
    fn keep(&mut self, payload: &[u8], index: bool) -> PayloadRef {
        let digest = hex(&Sha256::digest(payload));
        self.objects.insert(digest.clone(), payload.to_vec());
        let blocks = json!([digest]);
        let bytes = format!(
            r#"{{"version":1,"object":"{digest}","bytes":{},"blockBytes":1048576,"blocks":{blocks}}}"#,
            payload.len()
        );
        let index_digest = index.then(|| hex(&Sha256::digest(&bytes)));
        if index {
            self.indexes.insert(digest.clone(), bytes.into_bytes());
        }
        PayloadRef {
            digest,
            bytes: payload.len() as u64,
            media_type: Some("application/json".to_owned()),
            name: Some(format!("{}.json", WORDS[0])),
            integrity_block_bytes: index.then_some(1 << 20),
            index_digest,
        }
    }
}

/// The redacted forms of logs of one family, and their payloads.
fn redacted(logs: &[(&str, &Vec<u8>)], kept: &Kept) -> (Vec<(Vec<u8>, Redacted)>, Kept) {
    let mut payloads = Kept::default();
    let mut redaction = Redaction::new(kept, &mut payloads);
    let written = logs
        .iter()
        .map(|(id, log)| {
            let mut out = Vec::new();
            let told = redaction.log(id, *log, &mut out).unwrap();
            assert_eq!((told.bytes, &told.sha256), (out.len() as u64, &hex(&Sha256::digest(&out))));
            (out, told)
        })
        .collect();
    drop(redaction);
    (written, payloads)
}

/// What a reader makes of a log, or why not and where; `place` says where that is elsewhere.
fn account(log: &dyn Source, kept: &Kept, place: impl Fn(u64) -> u64) -> Value {
    let trouble = |kind: &str, offset: u64, why: &str| {
        let mut why = why.split("zstd frame: ").next().unwrap().split('`').step_by(2).collect::<String>();
        if why.contains("which is not 1 to") && !why.contains(" of 0,") {
            // Bytes of what was lost.
            why.retain(|c| !c.is_ascii_digit());
        }
        json!([kind, place(offset), why])
    };
    match turns(log, kept) {
        Ok(projection) => {
            let mut turns = projection.turns();
            turns.iter_mut().filter_map(|t| t.closed_by.as_mut()).for_each(|closed| {
                closed.sha256.clear();
                closed.end = 0;
            });
            let (all, end) = commits(log, kept).unwrap();
            json!([
                format!("{turns:?}"),
                projection.hidden_turns(),
                all.len(),
                projection.last_seq(),
                log.len() - end
            ])
        }
        Err(Trouble::Damaged { offset, reason }) => trouble("damaged", offset, &reason),
        Err(Trouble::Unsupported { offset, what }) => trouble("unsupported", offset, &what),
        Err(Trouble::Io(e)) => panic!("{e}"),
    }
}

/// What inspection makes of a family; none if the session asked for cannot be read.
fn inspected(logs: &[(&str, &Vec<u8>)], kept: &Kept) -> Option<Value> {
    let members: Vec<Member<'_>> =
        logs.iter().map(|(id, log)| Member { id, cwd: None, log: *log, contents: kept }).collect();
    let mut out = Vec::new();
    render::render(logs[0].0, &members, &mut out).ok()?;
    let dialect = dialect::of(Agent::Reasonix);
    let t = dialect.read(&out).unwrap();
    let inspection = topology::inspect(&t, &out, dialect, &Client::default()).unwrap();
    let mut value = serde_json::to_value(inspection).unwrap();
    value["snapshot"]["bytes"] = json!(0);
    for branch in value["branches"].as_array_mut().unwrap() {
        for name in ["firstUserTextAfterBranchPoint", "lastUserText", "lastAssistantText"] {
            if let Some(text) = branch.get_mut(name) {
                *text = json!("");
            }
        }
    }
    for diagnostic in value["diagnostics"].as_array_mut().unwrap() {
        if let Some(reason) = diagnostic.get_mut("reason") {
            *reason = json!(reason.as_str().unwrap().split(": ").next());
        }
    }
    Some(value)
}

/// The bytes of a log, its records and their payloads, as far as they can be had.
fn readable(log: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![log.to_vec()];
    let starts = (0..log.len().saturating_sub(12)).filter(|&at| log[at..].starts_with(b"RX4F"));
    for at in starts {
        let Ok(Some(frame)) = frame::read(&log.to_vec(), at as u64) else { continue };
        let text = String::from_utf8_lossy(&frame.json).into_owned();
        for part in text.split('"') {
            found.extend(STANDARD.decode(part));
        }
        found.push(frame.json);
    }
    found
}

fn holds_a_word(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    WORDS.into_iter().find(|word| text.contains(&word.to_lowercase()))
}

#[track_caller]
fn same(logs: &[(&str, &Vec<u8>)], kept: &Kept) -> (Vec<(Vec<u8>, Redacted)>, Kept) {
    let (written, payloads) = redacted(logs, kept);
    for ((id, log), (out, told)) in logs.iter().zip(&written) {
        let before = account(*log, kept, |offset| told.place(offset).unwrap());
        assert_eq!(account(out, &payloads, |offset| offset), before, "of {id}");
        for bytes in readable(out) {
            assert_eq!(holds_a_word(&bytes), None, "in {}", bytes.escape_ascii());
        }
        // Small records are not compressed as well as by the client.
        let most = Vec::len(log) / 2 + 256;
        assert!(out.len() <= Vec::len(log) + most, "{} bytes for {}", out.len(), Vec::len(log));
    }
    for bytes in payloads.objects.values().chain(payloads.indexes.values()) {
        assert_eq!(holds_a_word(bytes), None, "in {}", bytes.escape_ascii());
    }
    let after: Vec<(&str, &Vec<u8>)> =
        logs.iter().zip(&written).map(|((id, _), (out, _))| (*id, out)).collect();
    assert_eq!(inspected(&after, &payloads), inspected(logs, kept));
    (written, payloads)
}

#[test]
fn every_case_is_read_as_before() {
    let mut seen = 0;
    for session in fs::read_dir(fixture("cases/reasonix/sessions-v4")).unwrap() {
        let path = session.unwrap().path();
        let Ok(log) = fs::read(path.join("events.frames")) else { continue };
        let id = path.file_name().unwrap().to_str().unwrap();
        let (written, _) = same(&[(id, &log)], &Kept::default());
        // Where frames can be told apart, each record is as long as it was.
        let lengths = |log: &Vec<u8>| {
            let mut found = Vec::new();
            let mut at = 0;
            while let Ok(Some(frame)) = frame::read(log, at) {
                found.push(frame.json.len());
                at = frame.end;
            }
            found
        };
        assert_eq!(lengths(&written[0].0), lengths(&log), "{id}");
        seen += 1;
    }
    assert!(seen > 10, "only {seen} cases");
}

/// A text with words in it, as JSON without its quotes.
fn text(rng: &mut Rng) -> String {
    let n = if rng.percent(10) { 200 } else { rng.below(5) };
    (0..n)
        .map(|_| match rng.below(9) {
            0 => "\\n".to_owned(),
            1 => "\\u00e9\\ud83d\\ude00".to_owned(),
            2 => "字 😀 <&>\\\"".to_owned(),
            _ => format!("{} ", rng.pick(&WORDS)),
        })
        .collect()
}

fn payload(rng: &mut Rng, kind: &str) -> String {
    let id = |rng: &mut Rng, of: &str| format!("{of}{}", rng.below(6));
    let (role, shown) = (*rng.pick(&["user", "assistant", "tool", "system"]), text(rng));
    match kind {
        "turn/end" if rng.percent(5) => r#"{"status":"cancelled"}"#.to_owned(),
        "turn/end" => format!(r#"{{"status":"{}"}}"#, rng.pick(&["completed", "interrupted", "failed"])),
        "message/complete" | "message/upsert" if rng.percent(30) => {
            let (message, call, name) = (id(rng, "m"), id(rng, "t"), rng.pick(&WORDS));
            format!(
                r#"{{"message":{{"role":"assistant","id":"{message}","content":"{shown}","tool_calls":[{{"id":"{call}","type":"function","function":{{"name":"{name}","arguments":"{{\"{name}\":1}}"}}}}],"{name}":"{shown}"}}}}"#
            )
        }
        "message/complete" | "message/upsert" => {
            let host = if rng.percent(20) { r#","origin":"host""# } else { "" };
            let raw = if rng.percent(20) { r#","raw_content":" \t ""# } else { "" };
            let number = if rng.percent(3) { r#","content":12"# } else { "" };
            format!(
                r#"{{"message":{{"role":"{role}","id":"{}","content":"{shown}"{host}{raw}{number}}}}}"#,
                id(rng, "m")
            )
        }
        "message/retract" => {
            format!(r#"{{"messageIds":["{}"],"reason":"{}"}}"#, id(rng, "m"), rng.pick(&WORDS))
        }
        "history/replace" => format!(
            r#"{{"messages":[{{"role":"user","id":"{}","content":"{shown}"}}],"reason":"{}","sourceSequences":[1,99999999999999999999]}}"#,
            id(rng, "m"),
            rng.pick(&["rewind", "zebra", "marmalade sluice"])
        )
        .replace(",99999999999999999999", if rng.percent(5) { ",99999999999999999999" } else { ",7" }),
        "tool/call" | "tool/start" | "tool/result" => {
            format!(r#"{{"id":"{}","name":"{}"}}"#, id(rng, "t"), rng.pick(&["read_file", "zebra", "bash"]))
        }
        "interaction/created" => {
            format!(
                r#"{{"id":"{}","question":"{shown}","options":{{"{}":["{shown}"]}}}}"#,
                id(rng, "q"),
                rng.pick(&WORDS[..2])
            )
        }
        "interaction/resolved" => {
            format!(r#"{{"id":"{}","state":"{}"}}"#, id(rng, "q"), rng.pick(&["answered", "pending", "rejected"]))
        }
        "session/title" => format!(r#"{{"title":"{shown}"}}"#),
        _ => format!(r#"{{"a":[1.5e3,true,null,"{shown}"]}}"#),
    }
}

const KINDS: [&str; 16] = [
    "turn/start",
    "turn/start",
    "turn/end",
    "turn/end",
    "message/complete",
    "message/complete",
    "message/complete",
    "message/upsert",
    "message/retract",
    "history/replace",
    "tool/call",
    "tool/result",
    "interaction/created",
    "interaction/resolved",
    "session/title",
    "diagnostic",
];

fn log(rng: &mut Rng, kept: &RefCell<Kept>) -> Log {
    let mut log = Log::default();
    for _ in 0..rng.below(8) {
        let turn = format!("turn{}", rng.below(4));
        if rng.percent(25) {
            let kind = *rng.pick(&["message/complete", "session/title", "diagnostic"]);
            let payload = payload(rng, kind);
            let index = rng.percent(60);
            let mut at = kept.borrow_mut().keep(payload.as_bytes(), index);
            if rng.percent(20) {
                spoil_payload(rng, &mut kept.borrow_mut(), &mut at);
            }
            log = log.elsewhere(&turn, kind, at);
            continue;
        }
        let events: Vec<(&str, String, bool)> = (0..1 + rng.below(4))
            .map(|_| {
                let unknown = rng.percent(3);
                let kind = if unknown { "future/thing" } else { *rng.pick(&KINDS) };
                (kind, payload(rng, kind), unknown && rng.percent(60))
            })
            .collect();
        let events: Vec<_> = events.iter().map(|(kind, payload, o)| (*kind, payload.as_str(), *o)).collect();
        log = log.commit(&turn, &events);
    }
    log
}

fn spoil_payload(rng: &mut Rng, kept: &mut Kept, at: &mut PayloadRef) {
    match rng.below(6) {
        0 => drop(kept.objects.remove(&at.digest)),
        1 => at.bytes += 1,
        2 => {
            let mut other = kept.objects[&at.digest].clone();
            other.reverse();
            kept.objects.insert(at.digest.clone(), other);
        }
        3 => at.integrity_block_bytes = Some(4),
        4 => drop(kept.indexes.remove(&at.digest)),
        _ => drop(kept.indexes.insert(at.digest.clone(), WORDS[1].into())),
    }
}

/// Cuts and changes bytes of a log, or of its records before they are framed again.
fn spoil(rng: &mut Rng, bytes: Vec<u8>) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = records(&bytes).into_iter().map(String::into_bytes).collect();
    if all.is_empty() || rng.percent(40) {
        let mut bytes = bytes;
        for _ in 0..=rng.below(2) {
            if bytes.is_empty() {
                break;
            }
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => drop(bytes.splice(at..at, WORDS[2].bytes().chain([0; 9]))),
                _ => bytes.extend(WORDS[1].bytes().chain(WORDS[3].bytes()).take(1 + rng.below(16))),
            }
        }
        return bytes;
    }
    for _ in 0..=rng.below(2) {
        let i = rng.below(all.len());
        match rng.below(6) {
            0 => drop(all.remove(i)),
            1 => all.insert(i, all[rng.below(all.len())].clone()),
            2 => all.swap(i, 0),
            3 => {
                // Of another length than its text says.
                let at = rng.below(all[i].len());
                all[i][at] = *rng.pick(b"\"\\{}[],:0x\xff");
            }
            4 => {
                let at = rng.below(all[i].len());
                all[i].remove(at);
            }
            _ => {
                let text = String::from_utf8_lossy(&all[i]).into_owned();
                let (from, to) = *rng.pick(&[
                    ("\"seq\":2", "\"seq\":3"),
                    ("\"payload\":\"e", "\"payload\":\"!"),
                    ("linear/v4", "linear/v5"),
                    ("batch/end", "batch/marmalade sluice"),
                    ("\"sha256\":\"", "\"sha256\":\"plumage of a "),
                    ("\"operationHash\":\"0", "\"operationHash\":\"zebra of a "),
                    ("\"eventCount\":1", "\"eventCount\":2"),
                    ("op-c2", "op-c1"),
                    ("op-c3", "op-c1"),
                ]);
                all[i] = text.replace(from, to).into_bytes();
            }
        }
        if all.is_empty() {
            break;
        }
    }
    let mut out: Vec<u8> =
        all.iter().filter(|json| !json.is_empty()).flat_map(|json| frame::write(json).unwrap()).collect();
    if rng.percent(30) {
        out.truncate(out.len() - rng.below(60).min(out.len()));
    }
    out
}

#[test]
fn random_logs_whole_and_spoilt_are_read_as_before() {
    let read = RefCell::new([0; 2]);
    for_seeds(200, |rng| {
        let kept = RefCell::new(Kept::default());
        let made = log(rng, &kept);
        let bytes = if rng.percent(60) { spoil(rng, made.bytes) } else { made.bytes };
        let kept = kept.into_inner();
        read.borrow_mut()[usize::from(commits(&bytes, &kept).is_ok())] += 1;
        let _ = same(&[("s", &bytes)], &kept);
    });
    let [refused, read] = read.into_inner();
    assert!(refused > 20 && read > 20, "{refused} were refused and {read} were read");
}

#[test]
fn random_families_keep_what_they_share() {
    let shared = RefCell::new(0);
    for_seeds(60, |rng| {
        let kept = RefCell::new(Kept::default());
        let parent = log(rng, &kept);
        let kept = kept.into_inner();
        let mut child = Vec::new();
        if let Ok((all, _)) = commits(&parent.bytes, &kept)
            && let Some(cut) = all.last().filter(|_| !all.is_empty())
        {
            let through = if rng.percent(50) { cut.last_seq() } else { all[0].last_seq() };
            let spec = ChildSpec { parent: "parent", child: "child", through };
            child::write(&parent.bytes, &kept, &spec, &mut child).unwrap();
            *shared.borrow_mut() += 1;
        }
        let spoilt = if rng.percent(40) { spoil(rng, child) } else { child };
        let _ = same(&[("parent", &parent.bytes), ("child", &spoilt)], &kept);
    });
    assert!(shared.into_inner() > 20);
}

#[test]
fn right_hashes_are_right_again_and_wrong_ones_stay_wrong() {
    // The child's are those of the client, made over the ids of events too.
    let log = fs::read(fixture("cases/reasonix/sessions-v4/mini-child/events.frames")).unwrap();
    let (written, _) = same(&[("mini-child", &log)], &Kept::default());
    let first = |log: &[u8]| -> Value { serde_json::from_str(&records(log)[0]).unwrap() };
    let (before, after) = (first(&log), first(&written[0].0));
    assert_eq!(before["operationId"], after["operationId"]);
    let hash = |log: &Vec<u8>, session: &str| {
        let (all, _) = commits(log, &Kept::default()).unwrap();
        let begin = &all[0].begin;
        let events: Vec<String> = records(log)[1..=all[0].events.len()]
            .iter()
            .map(|record| {
                let event = serde_json::from_str::<Value>(record).unwrap()["event"].clone();
                let payload = event["payload"].as_str().map(|p| STANDARD.decode(p).unwrap());
                let payload = payload.map(|p| {
                    let text = String::from_utf8(p).unwrap();
                    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
                    format!(",\"payload\":{text}")
                });
                format!(
                    "{{\"id\":{},\"kind\":{}{}}}",
                    event["id"],
                    event["kind"],
                    payload.unwrap_or_default()
                )
            })
            .collect();
        let text = format!(
            "{{\"sessionId\":\"{session}\",\"turnId\":\"{}\",\"events\":[{}]}}",
            begin.turn_id,
            events.join(",")
        );
        (begin.operation_hash.clone(), hex(&Sha256::digest(text)))
    };
    let (old, computed) = hash(&log, "mini-child");
    assert_eq!(old, computed, "this is how the hash is made");
    let (new, computed) = hash(&written[0].0, "mini-child");
    assert_eq!(new, computed);
    // One that was made up is another one that is made up: it may be that of what was there.
    let made_up = Log::default().turn("t").bytes;
    let (written, _) = same(&[("s", &made_up)], &Kept::default());
    assert_eq!(first(&written[0].0)["operationHash"], format!("{:064x}", 1));
}

#[test]
fn a_torn_tail_stays_as_long_as_it_was() {
    let whole = Log::default().turn("t1");
    let long = message("user", "u9", &"Quokka marmalade ".repeat(400));
    let torn = Log::default().turn("t1").commit("t2", &[("message/complete", long.as_str(), false); 3]).bytes;
    for cut in (whole.bytes.len()..torn.len()).step_by(37) {
        let log = torn[..cut].to_vec();
        let (written, _) = same(&[("s", &log)], &Kept::default());
        let end = commits(&written[0].0, &Kept::default()).unwrap().1;
        assert_eq!(written[0].0.len() as u64 - end, (cut - whole.bytes.len()) as u64);
    }
}

/// Whoever guesses what a text was could see it by its digest.
#[test]
fn no_digest_is_left() {
    let text = message("user", "u1", "Quokka marmalade");
    let digest = hex(&Sha256::digest(&text));
    for what in 0..6 {
        let mut kept = Kept::default();
        let mut at = kept.keep(text.as_bytes(), true);
        match what {
            0 => {}
            1 => kept.objects.clear(),
            2 => at.bytes += 1,
            3 => kept.indexes.clear(),
            // The index of other bytes, which are there.
            4 => {
                let other = text.replace("Quokka", "zebra!");
                let index = String::from_utf8(kept.indexes[&digest].clone()).unwrap();
                let index =
                    index.replacen(&digest, "name", 1).replace(&digest, &hex(&Sha256::digest(&other)));
                let index = index.replace("name", &digest).into_bytes();
                at.index_digest = Some(hex(&Sha256::digest(&index)));
                kept.indexes.insert(digest.clone(), index);
                kept.objects.insert(digest.clone(), other.into_bytes());
            }
            _ => at.digest = digest.to_uppercase(),
        }
        let log = Log::default().turn("t1").elsewhere("t2", "message/complete", at.clone()).turn("t3").bytes;
        let mut all: Vec<Vec<u8>> = records(&log).into_iter().map(String::into_bytes).collect();
        // A second operation of the same id, and a digest of what is no more.
        let again = String::from_utf8(all[0].clone()).unwrap().replace(&"0".repeat(64), &"1".repeat(64));
        all.push(again.into_bytes());
        let log: Vec<u8> = all.iter().flat_map(|json| frame::write(json).unwrap()).collect();
        let (written, payloads) = same(&[("s", &log)], &kept);
        let old = [&digest, at.index_digest.as_ref().unwrap(), &"0".repeat(64), &"1".repeat(64)];
        let kept_too = payloads.indexes.values().chain(payloads.objects.values()).cloned();
        for bytes in readable(&written[0].0).into_iter().chain(kept_too) {
            let text = String::from_utf8_lossy(&bytes).to_lowercase();
            assert!(!old.iter().any(|old| text.contains(*old)), "{what}: {text}");
        }
        assert!(!payloads.objects.contains_key(&digest) && !payloads.indexes.contains_key(&digest), "{what}");
    }
}

#[test]
fn nothing_of_a_lost_header_is_left() {
    let whole = Log::default().turn("t1").bytes;
    for junk in
        ["RX4FPASSWORDhunter", "RX4F\0\0\0\0WORDhunter", "RX4F\0\0\0Wword hunter", "no PASSWORD hunter"]
    {
        let log = [&whole[..], junk.as_bytes()].concat();
        let (written, _) = same(&[("s", &log)], &Kept::default());
        let out = &written[0].0;
        let text = out.escape_ascii().to_string();
        assert!(["PASS", "WORD", "word", "hunter"].iter().all(|word| !text.contains(word)), "{text}");
        assert!(out.len() >= log.len());
    }
}

/// Its first record is visible as soon as it is whole, and its frame is smaller than any that is made for it here.
#[test]
fn a_child_that_is_torn_anywhere_stays_a_child_of_its_parent() {
    let child = fs::read(fixture("cases/reasonix/sessions-v4/mini-child/events.frames")).unwrap();
    let kept = Kept::default();
    let end = commits(&child, &kept).unwrap().0[0].end as usize;
    let mut related = 0;
    for cut in 0..=end {
        let log = child[..cut].to_vec();
        let (written, _) = redacted(&[("mini-child", &log)], &kept);
        let (out, told) = &written[0];
        let parent = render::parent_of(&log).unwrap();
        assert_eq!(render::parent_of(out).unwrap(), parent, "cut at {cut}");
        let place = |offset| told.place(offset).unwrap();
        let (mut after, mut before) = (account(out, &kept, |at| at), account(&log, &kept, place));
        if out.len() > log.len() && cut < end {
            // That record alone, and less than a frame.
            let whole = frame::read(out, 0).unwrap().unwrap();
            assert!(parent.is_some() && whole.end as usize == out.len(), "cut at {cut}");
            assert_eq!((after[4].take(), before[4].take()), (json!(out.len()), json!(cut)));
        }
        assert_eq!(after, before, "cut at {cut}");
        related += usize::from(parent.is_some());
    }
    assert!(related > 100 && related < end, "{related} of {end}");
}

#[test]
fn the_size_of_a_log_stays_about_what_it_was() {
    // Filler compresses far better than what it stands for.
    let mut rng = Rng(7);
    let mut log = Log::default();
    for n in 0..40 {
        let noise: String = (0..20_000).map(|_| char::from(b'a' + (rng.next() % 26) as u8)).collect();
        log = log.commit("t", &[("message/complete", &message("user", &format!("m{n}"), &noise), false)]);
    }
    let (written, _) = same(&[("s", &log.bytes)], &Kept::default());
    let (before, after) = (log.bytes.len(), written[0].0.len());
    assert!(after * 10 > before * 8 && after * 10 < before * 11, "{before} became {after}");
}

/// A family with a large payload and a header, on a disk.
fn home() -> (Home, String) {
    let home = Home::with(&["mini-parent", "mini-child", "synth-authority", "mini-corrupt-middle"]);
    let text = message("user", "u-large", &"zebra plumage ".repeat(6000));
    let mut kept = Kept::default();
    let at = kept.keep(text.as_bytes(), true);
    for (kind, extension, all) in [("objects", "", &kept.objects), ("indexes", ".json", &kept.indexes)] {
        for (digest, bytes) in all {
            let dir = home.root.join(".content-v1").join(kind).join(&digest[..2]).join(&digest[2..4]);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(format!("{digest}{extension}")), bytes).unwrap();
        }
    }
    let log = Log::default().turn("turn_1").elsewhere("turn_2", "message/complete", at);
    let dir = home.add("large", &log.bytes);
    let header = json!({"schemaVersion": 1, "sessionId": "large", "createdAt": "2026-01-01T10:00:00Z",
        "cwd": "/home/marmalade", "origin": "new"});
    fs::write(dir.join("header.json"), header.to_string()).unwrap();
    fs::create_dir(dir.join("attachments")).unwrap();
    fs::write(dir.join("attachments/sluice.txt"), "Quokka").unwrap();
    let out = home.env.path("shown").display().to_string();
    (home, out)
}

/// `inspect` and `targets`, with what names the place or depends on digests taken out.
fn answers(home: &Home, dir: &str) -> (Value, Value) {
    let mut inspection = home.run(&["inspect", dir, "--json", "--redact"]).code(0).json();
    inspection["transcript"] = json!("");
    inspection["snapshot"]["bytes"] = json!(0);
    let mut targets = home.run(&["targets", dir, "--json"]).code(0).json();
    for target in targets["targets"].as_array_mut().unwrap() {
        target["anchor"] = json!("");
    }
    (inspection, targets)
}

#[test]
fn a_redacted_folder_says_what_the_session_says() {
    for (session, sessions) in [("mini-parent", 2), ("mini-child", 2), ("large", 1), ("synth-authority", 1)] {
        let (home, out) = home();
        let before = home.picture();
        let ran = home.run(&["redact", session, "-o", &out]).code(0);
        assert_eq!(ran.stdout, "");
        assert_eq!(home.picture(), before);
        let made = home.root.join(session).display().to_string();
        let shown = format!("{out}/{session}");
        assert_eq!(answers(&home, &shown), answers(&home, &made), "{session}");
        let there = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        assert_eq!(there.filter(|name| !name.starts_with('.')).count(), sessions);
        let mut files = vec![std::path::PathBuf::from(&out)];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
                continue;
            }
            for bytes in readable(&fs::read(&path).unwrap()) {
                assert_eq!(holds_a_word(&bytes), None, "in {}", path.display());
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains("question") && !text.contains("third"), "{text}");
            }
        }
        // It is no other session's place.
        let refused = home.run(&["redact", session, "-o", &out, "--json"]).code(3).json();
        assert_eq!(refused["refusal"]["code"], "unsafe-path");
    }
}

#[test]
fn a_content_root_that_is_a_place_has_a_stand_in() {
    for (root, expected) in [
        ("../.content-v1", "../.content-v1"),
        (".content-v1", ".content-v1"),
        ("/home/zebra/x", "/xxxxxxxxxxx1"),
        ("C:/zebra", "xxxxxxx1"),
        ("../../zebra", "xxxxxxxxxx1"),
    ] {
        let home = Home::with(&["mini-parent"]);
        let out = home.env.path("shown").display().to_string();
        let path = home.root.join("mini-parent/manifest.json");
        let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        manifest["contentRoot"] = json!(root);
        fs::write(&path, manifest.to_string()).unwrap();
        let _ = home.run(&["redact", "mini-parent", "-o", &out]).code(0);
        let shown = fs::read_to_string(format!("{out}/mini-parent/manifest.json")).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["contentRoot"], expected);
    }
}

#[test]
fn a_damaged_session_is_damaged_at_the_same_record() {
    for (session, code, exit) in
        [("mini-corrupt-middle", "damaged", 1), ("synth-unknown-required", "unsupported-version", 3)]
    {
        let home = Home::with(&[session]);
        let out = home.env.path("shown").display().to_string();
        let ran = home.run(&["redact", session, "-o", &out]).code(0);
        assert!(ran.stderr.contains("cannot be read, as before"), "{}", ran.stderr);
        let failed = home.run(&["inspect", &format!("{out}/{session}"), "--json"]).code(exit).json();
        assert!(failed.to_string().contains(&format!("\"code\":\"{code}\"")), "{failed}");
    }
}

#[test]
fn what_cannot_be_redacted_leaves_nothing() {
    let home = Home::with(&["synth-v3", "mini-parent"]);
    let nothing = |out: &str| {
        let left = fs::read_dir(home.env.path("work")).unwrap().count();
        assert_eq!(left, 0, "{out}");
    };
    let out = home.env.path("work/shown").display().to_string();
    let refused = home.run(&["redact", "synth-v3", "-o", &out, "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "unsupported-version");
    nothing(&out);
    let usage = home.run(&["redact", "mini-parent", "--json"]).code(2).json();
    assert_eq!(usage["refusal"]["code"], "usage");
    nothing(&out);
    // One that cannot be opened, within the one that it is related to: left out, as it is of the family.
    fs::write(home.root.join("mini-parent/manifest.json"), "{").unwrap();
    let fault = home.run(&["redact", home.root.join("mini-parent").to_str().unwrap(), "-o", &out, "--json"]);
    assert_ne!(fault.code, Some(0));
    nothing(&out);
}

#[test]
fn a_manifest_without_a_codec_is_a_damaged_one() {
    for codec in [json!(4), json!(null), json!(["x"])] {
        let home = Home::with(&["mini-parent"]);
        let dir = home.root.join("mini-parent");
        let path = dir.join("manifest.json");
        let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        manifest["codec"] = codec;
        fs::write(&path, manifest.to_string()).unwrap();
        let (dir, out) = (dir.display().to_string(), home.env.path("work/shown").display().to_string());
        let runs: [&[&str]; 2] = [&["inspect", &dir, "--json"], &["redact", &dir, "-o", &out, "--json"]];
        for args in runs {
            for agent in ["auto", "reasonix"] {
                let failed = home.run(&[args, &["--agent", agent]].concat()).code(1).json();
                assert_eq!(failed["fault"]["code"], "damaged", "{failed}");
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_nothing() {
    for (signal, left) in [("INT", 0), ("TERM", 0), ("HUP", 0), ("QUIT", 0), ("KILL", 1)] {
        let (home, _) = home();
        let (out, paused) = (home.env.path("work/shown"), home.env.path("paused"));
        let mut child = home
            .env
            .command(&["redact", home.root.join("large").to_str().unwrap(), "-o", out.to_str().unwrap()])
            .env("OFFSHOOT_FAULT_POINT", format!("redacted-staged=pause:{}", paused.display()))
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !paused.exists() {
            assert_eq!(child.try_wait().unwrap(), None);
            std::thread::yield_now();
        }
        let folder = || fs::read_dir(home.env.path("work")).unwrap().count();
        assert_eq!(folder(), 1);
        let args = [format!("-{signal}"), child.id().to_string()];
        assert!(std::process::Command::new("kill").args(args).status().unwrap().success());
        assert!(!child.wait().unwrap().success(), "{signal}");
        assert_eq!(folder(), left, "{signal}");
    }
}

#[test]
fn relatives_that_only_words_tell_apart_are_refused() {
    let home = Home::with(&[]);
    let log = |text: &str| {
        let message = message("user", "u", text);
        let end = r#"{"status":"completed"}"#;
        Log::default()
            .commit(
                "t",
                &[
                    ("turn/start", "{}", false),
                    ("message/complete", &message, false),
                    ("turn/end", end, false),
                ],
            )
            .bytes
    };
    home.add("parent", &log("zebra"));
    let mut forged = Vec::new();
    let spec = ChildSpec { parent: "parent", child: "forged", through: 3 };
    child::write(&log("apple"), &Kept::default(), &spec, &mut forged).unwrap();
    home.add("forged", &forged);
    let out = home.env.path("work/shown").display().to_string();
    let refused = home.run(&["redact", "parent", "-o", &out, "--json"]).code(3).json();
    assert_eq!(refused["refusal"]["code"], "seed-unsupported");
    assert!(refused["refusal"]["message"].as_str().unwrap().contains("`e2`"), "{refused}");
    assert_eq!(fs::read_dir(home.env.path("work")).unwrap().count(), 0);
}
