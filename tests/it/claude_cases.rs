//! What Claude Code 2.1.197 and 2.1.332 themselves did with each of `fixtures/cases/claude`, and what the inspection and
//! the simulation say.

use std::{
    fs,
    path::{Path, PathBuf},
};

use offshoot::{
    dialect::{self, Client, Simulated},
    record::Agent,
    topology::{Inspection, inspect},
    transcript::Source,
};
use serde_json::{Value, json};

use crate::support::fixture;

pub struct Case {
    pub name: String,
    pub expect: Value,
    pub bytes: Vec<u8>,
}

/// All cases, with the file that the client was asked to resume.
pub fn cases() -> Vec<Case> {
    let mut dirs: Vec<PathBuf> =
        fs::read_dir(fixture("cases/claude")).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.retain(|path| path.is_dir());
    dirs.sort();
    let case = |dir: PathBuf| {
        let expect: Value = serde_json::from_slice(&fs::read(dir.join("expect.json")).unwrap()).unwrap();
        let bytes = fs::read(transcript_of(&dir, &expect)).unwrap();
        Case { name: dir.file_name().unwrap().to_str().unwrap().to_owned(), expect, bytes }
    };
    dirs.into_iter().map(case).collect()
}

/// `leavesOf` where it is one of the files, else the one that was named to the client, else the only one.
fn transcript_of(dir: &Path, expect: &Value) -> PathBuf {
    if let Some(name) = expect["leavesOf"].as_str() {
        return dir.join(name);
    }
    let named = expect["client"]["2.1.332"]["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let by_id = named.map(|arg| dir.join(format!("{arg}.jsonl"))).find(|path| path.exists());
    by_id.unwrap_or_else(|| {
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut transcripts = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
        let only = transcripts.next().unwrap();
        assert!(transcripts.next().is_none(), "{}: which file?", dir.display());
        only
    })
}

pub fn inspected(bytes: &[u8], version: Option<&str>) -> Inspection {
    let dialect = dialect::of(Agent::Claude);
    let source = bytes.to_vec();
    let t = dialect.read(&source).unwrap();
    let client = Client { version: version.map(str::to_owned), ..Client::default() };
    inspect(&t, &source, dialect, &client).unwrap()
}

#[test]
fn leaves_are_what_a_person_would_call_branches() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in cases() {
        let Some(expected) = case.expect.get("leaves") else { continue };
        let found: Vec<Value> = inspected(&case.bytes, None)
            .branches
            .iter()
            .map(|b| json!({"leafUuid": b.leaf_uuid, "branchPointUuid": b.branch_point_uuid, "turn": b.turn}))
            .collect();
        seen += 1;
        if json!(found) != *expected {
            wrong.push(format!("{}: {} instead of {expected}", case.name, json!(found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 98, "only {seen} cases have leaves");
}

/// What the client did, where that follows from the transcript alone.
enum Did<'a> {
    /// It went on below this record of the transcript.
    WentOn(&'a str),
    /// It went on below a record that it had added itself.
    Filler,
    /// It wrote another file.
    Elsewhere,
    Refused,
    /// An option named the place to go on.
    WasTold,
}

fn did<'a>(run: &'a Value, bytes: &[u8]) -> Did<'a> {
    let args: Vec<&str> = run["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    if args.contains(&"--resume-session-at") {
        return Did::WasTold;
    }
    if run["exit"] != 0 {
        return Did::Refused;
    }
    let below = run["continuedBelow"].as_str().or(run["firstAppendedParent"].as_str());
    match below {
        None => Did::Elsewhere,
        Some(below) if is_record(bytes, below) => Did::WentOn(below),
        Some(_) => Did::Filler,
    }
}

fn is_record(bytes: &[u8], uuid: &str) -> bool {
    let t = dialect::of(Agent::Claude).read(&bytes.to_vec()).unwrap();
    t.ids.find(uuid).and_then(|id| t.first(id)).is_some()
}

#[test]
fn simulated_tail_is_the_record_below_which_the_client_went_on() {
    let (mut went_on, mut refused, mut wrong) = (0, 0, Vec::new());
    for case in cases() {
        for version in ["2.1.197", "2.1.332"] {
            let pick = inspected(&case.bytes, Some(version)).client_pick;
            let tail = pick.as_ref().map(|p| p.tail_uuid.to_string());
            let good = match did(&case.expect["client"][version], &case.bytes) {
                Did::WentOn(below) => {
                    went_on += 1;
                    tail.as_deref() == Some(below)
                }
                Did::Refused => {
                    refused += 1;
                    tail.is_none()
                }
                Did::Filler | Did::Elsewhere | Did::WasTold => tail.is_some(),
            };
            if !good {
                let rule = pick.map(|p| p.rule);
                wrong.push(format!("{} {version}: {tail:?} ({rule:?})", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(went_on >= 150 && refused >= 4, "{went_on} {refused}");
}

/// A prompt without a reply, or a round without an end: the client puts a filler below the record that it picked.
#[test]
fn before_a_filler_stands_the_record_that_was_picked() {
    let ends = [
        ("s13-lp-user-U4x", "U4x"),
        ("x12-explicit-U4x-user", "U4x"),
        ("t02-parallel-fanout-nocont", "res:toolu_c"),
        ("t08-lp-to-tooluse-record-in-X", "res:toolu_z"),
    ];
    for (name, end) in ends {
        for version in ["2.1.197", "2.1.332"] {
            let case = cases().into_iter().find(|case| case.name == name).unwrap();
            assert_eq!(
                simulated(&case.bytes, version).1.last().map(String::as_str),
                Some(end),
                "{name} {version}"
            );
        }
    }
}

/// The tail, and the history as labels.
pub fn simulated(bytes: &[u8], version: &str) -> (String, Vec<String>) {
    let dialect = dialect::of(Agent::Claude);
    let source = bytes.to_vec();
    let t = dialect.read(&source).unwrap();
    let client = Client { version: Some(version.to_owned()), ..Client::default() };
    let Simulated::Resumes(resumed) = dialect.simulate(&t, &source, &client).unwrap() else {
        panic!("the simulated client refuses")
    };
    let mut labels = Vec::new();
    for &id in &resumed.history {
        let record = t.record(t.first(id).unwrap());
        let decoded = dialect.decode(&source.bytes(record.span).unwrap());
        labels.extend(decoded.texts.iter().filter_map(|text| {
            let label = text.strip_prefix('[')?.split_once(']')?.0;
            is_label(label).then(|| label.to_owned())
        }));
        labels.extend(decoded.calls.iter().map(|call| format!("use:{call}")));
        for result in decoded.responses.iter().map(|call| format!("res:{call}")) {
            // Of two results for one call the client sends the first.
            if !labels.contains(&result) {
                labels.push(result);
            }
        }
    }
    (t.id(resumed.tail).to_string(), labels)
}

/// Such as `U1`, `A4xSECOND`, `CS`.
fn is_label(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_uppercase());
    text == "CS" || (rest.len() < text.len() && rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The labels of what was sent; fillers, and results of the client's own, have none.
pub fn sent(text: &str) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "()".contains(c));
    let label = |word: &str| match word.split_once('=') {
        Some((result, _)) if result.starts_with("res:") => {
            (!result.ends_with('!')).then(|| result.to_owned())
        }
        _ => (word.starts_with("use:") || is_label(word)).then(|| word.to_owned()),
    };
    words.filter_map(label).collect()
}

#[test]
fn simulated_history_is_what_the_model_got() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in cases() {
        for version in ["2.1.197", "2.1.332"] {
            let run = &case.expect["client"][version];
            let told = run["args"].as_array().unwrap().iter().any(|arg| arg == "--resume-session-at");
            let Some(expected) = run["sent"].as_str().filter(|_| !told) else { continue };
            seen += 1;
            let (_, found) = simulated(&case.bytes, version);
            if found != sent(expected) {
                wrong.push(format!("{} {version}: {found:?} instead of {expected}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 170, "only {seen} runs resumed");
}

/// The version history of the rule: timestamps, then file order, then pins. Two branches below A2, X and Y.
#[test]
fn older_clients_have_older_rules() {
    let x = "aab09c0b-386f-4a0b-8207-786e27a3e8c3";
    let y = "190b";
    let picks = |name: &str, version: &str| {
        let case = cases().into_iter().find(|case| case.name == name).unwrap();
        inspected(&case.bytes, Some(version)).client_pick.unwrap()
    };
    // X has the newer timestamps, Y stands last.
    for (version, expected) in [
        ("2.0.76", x),
        ("2.1.50", x),
        ("2.1.92", x),
        ("2.1.101", y),
        ("2.1.119", y),
        ("2.1.121", y),
        ("9.0.0", y),
    ] {
        let pick = picks("s02-y-last-but-x-newer-ts", version);
        assert!(pick.tail_uuid.as_str().starts_with(expected), "{version}: {pick:?}");
    }
    // A pin on X, and Y stands last and is newest.
    for (version, expected) in [("2.0.76", y), ("2.1.110", y), ("2.1.119", y), ("2.1.121", x), ("2.1.143", x)]
    {
        let pick = picks("s07-lp-both-x-last", version);
        assert!(pick.tail_uuid.as_str().starts_with(expected), "{version}: {pick:?}");
        assert_eq!(pick.pinned, expected == x);
    }
    // Results of parallel calls were lost up to 2.1.50.
    for (version, results) in [("2.1.50", 1), ("2.1.91", 3), ("2.1.197", 3)] {
        let case = cases().into_iter().find(|case| case.name == "t01-parallel-fanout").unwrap();
        let labels = simulated(&case.bytes, version).1;
        assert_eq!(labels.iter().filter(|l| l.starts_with("res:")).count(), results, "{version}");
    }
    // Without a version in the file or on the command line: the newest rules.
    let case = cases().into_iter().find(|case| case.name == "z10-copy-of-inner-record-last").unwrap();
    let text = String::from_utf8(case.bytes).unwrap().replace("2.1.197", "x");
    let pick = inspected(text.as_bytes(), None).client_pick.unwrap();
    assert!(pick.tail_uuid.as_str().starts_with("62fe") && pick.client_version == "2.1.332", "{pick:?}");
}
