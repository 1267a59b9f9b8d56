//! Seeded random bytes: never a panic, and the same answer however the file is cut into chunks.

use std::{collections::BTreeSet, ops::Range};

use super::*;

/// Always the same, so that a panic within the reader can be found again too.
const SEED: u64 = 20_260_301;

/// A small generator (SplitMix64), so that a seed is all that a failure needs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

const PIECES: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xe2\x80",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xc2\xa0",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\\u00",
    b"null",
    b"1e999",
    b"{}",
    b"}{",
];

fn transcript(r: &mut Random) -> Vec<u8> {
    const IDS: &[&str] = &["a", "b", "c", "d", "", "\\ud800", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"];
    let mut text = Vec::new();
    for _ in 0..1 + r.below(8) {
        let parent = (r.below(4) > 0).then(|| r.of(IDS));
        let subtype = r.of(&["rewind", "custom_title", "session_artifact_event", "cron", "x"]);
        let kind = r.of(&["user", "assistant", "system", "tool_result", "other"]);
        let line = record(r.of(IDS), parent)
            .replace(r#""type":"user""#, &format!(r#""type":"{kind}","subtype":"{subtype}","message":{{"parts":[{{"text":"hi"}},{{"functionCall":{{"id":"1"}}}}]}}"#));
        text.extend_from_slice(line.as_bytes());
        text.extend_from_slice(r.of(&[&b"\n"[..], b"\n", b"\n", b"\r\n", b"\r", b"", b"\n\n"]));
    }
    for _ in 0..r.below(5) {
        let at = r.below(text.len());
        let piece = r.of(PIECES);
        match r.below(4) {
            0 => drop(text.splice(at..at, piece.iter().copied())),
            1 => text.truncate(at),
            2 => drop(text.drain(at..(at + r.below(40)).min(text.len()))),
            _ => text[at] = r.next() as u8,
        }
        if text.is_empty() {
            break;
        }
    }
    text
}

#[derive(Debug, PartialEq)]
struct SeenRecord {
    ids: (String, Option<String>),
    range: Range<u64>,
    line: u32,
    flags: u16,
}

#[derive(Debug, PartialEq)]
struct Seen {
    records: Vec<SeenRecord>,
    diagnostics: Vec<LineDiagnostic>,
    end: (u64, u64, u64, bool, u64),
    simulated: String,
}

fn seen(bytes: &[u8], chunk: usize) -> Seen {
    let t = read_with(&bytes, Limits { chunk, ..Limits::default() }).unwrap();
    let name = |ix| t.id(ix).to_string();
    let records = (0..).zip(&t.records);
    Seen {
        records: records
            .map(|(ix, r)| SeenRecord {
                ids: (name(r.id), r.parent.map(name)),
                range: r.span.range(),
                line: t.line(ix),
                flags: r.flags.0,
            })
            .collect(),
        diagnostics: t.diagnostics.clone(),
        end: (t.bytes, t.torn_bytes, t.lines, t.ends_in_newline, t.objects),
        simulated: format!("{:?}", simulate::simulate(&t, &Client::default())),
    }
}

#[test]
fn mutated_bytes_never_panic_and_read_the_same_in_any_chunks() {
    let mut r = Random(SEED);
    let mut shapes = BTreeSet::new();
    for case in 0..1_500 {
        let bytes = transcript(&mut r);
        let whole = seen(&bytes, 1 << 20);
        for chunk in [1, 2, 3, 17, 1 + r.below(400)] {
            assert_eq!(
                seen(&bytes, chunk),
                whole,
                "seed {SEED}, case {case}, chunk {chunk}: {}",
                bytes.escape_ascii()
            );
        }
        // What is not a record and not white space is told: nothing is skipped in silence.
        let (kept, torn, ..) = whole.end;
        assert_eq!(kept + torn, bytes.len() as u64, "seed {SEED}, case {case}");
        let told: BTreeSet<u64> = whole
            .diagnostics
            .iter()
            .map(|d| match d {
                LineDiagnostic::MalformedLine { line, .. }
                | LineDiagnostic::TornTail { line, .. }
                | LineDiagnostic::SkippedRecord { line, .. }
                | LineDiagnostic::GluedRecords { line, .. } => *line,
            })
            .collect();
        for (ix, line) in bytes.split(|&b| b == b'\n').enumerate() {
            let number = ix as u64 + 1;
            let blank = crate::dialect::jsonl::lines::pieces(line)
                .all(|(_, p)| crate::dialect::jsonl::lines::trim(p).1.is_empty());
            let recorded = whole.records.iter().any(|r| u64::from(r.line) == number);
            assert!(
                blank || recorded || told.contains(&number),
                "seed {SEED}, case {case}: nothing is said of line {number}: {}",
                line.escape_ascii()
            );
        }
        for record in &whole.records {
            decode::decode(&bytes[record.range.start as usize..record.range.end as usize]);
        }
        decode::decode(&bytes);
        shapes.insert((whole.records.len().min(4), whole.diagnostics.len().min(4), torn > 0));
    }
    assert!(shapes.len() > 20, "the generator has gone stale: {shapes:?}");
}
