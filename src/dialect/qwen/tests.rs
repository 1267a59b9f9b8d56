//! Reading and simulation against hostile bytes: what the client does with each was taken from the client's own
//! reader (0.24.4, Node 22).

use super::{decode, read, read::read_with, simulate};
use crate::{
    dialect::{Client, Simulated, jsonl::read::Limits},
    transcript::{LineDiagnostic, Source, Transcript},
};

mod decoding;
mod ends;
mod mutated;
mod picks;
mod traps;

fn t(bytes: impl AsRef<[u8]>) -> Transcript {
    read::read(&bytes.as_ref()).unwrap()
}

/// A record of session `s`, without line end.
fn record(uuid: &str, parent: Option<&str>) -> String {
    let parent = parent.map_or("null".into(), |p| format!("\"{p}\""));
    format!(
        r#"{{"uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","type":"user","cwd":"/w","version":"0.24.4"}}"#
    )
}

fn uuids(t: &Transcript) -> Vec<String> {
    t.records.iter().map(|r| t.id(r.id).to_string()).collect()
}

/// Kind and line of each diagnostic.
fn kinds(t: &Transcript) -> Vec<(&'static str, u64)> {
    let kind = |d: &LineDiagnostic| match d {
        LineDiagnostic::MalformedLine { line, .. } => ("malformed-line", *line),
        LineDiagnostic::TornTail { line, .. } => ("torn-tail", *line),
        LineDiagnostic::SkippedRecord { line, .. } => ("skipped-record", *line),
        LineDiagnostic::GluedRecords { line, .. } => ("glued-records", *line),
    };
    t.diagnostics.iter().map(kind).collect()
}

/// The words of the only diagnostic.
#[track_caller]
fn reason(t: &Transcript) -> &str {
    match &t.diagnostics[..] {
        [LineDiagnostic::MalformedLine { reason, .. } | LineDiagnostic::SkippedRecord { reason, .. }] => {
            reason
        }
        other => panic!("not one reason: {other:?}"),
    }
}

/// Tail and history, by name.
#[track_caller]
fn pick(bytes: impl AsRef<[u8]>) -> (String, Vec<String>) {
    let t = t(bytes);
    match simulate::simulate(&t, &Client::default()) {
        Simulated::Resumes(r) => {
            (t.id(r.tail).to_string(), r.history.iter().map(|&i| t.id(i).to_string()).collect())
        }
        Simulated::Refuses(why) => panic!("refuses: {why}"),
    }
}
