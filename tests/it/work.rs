//! How often bodies are read: a bounded number of times each, whatever the shape. (Times are for `benches/`.)

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use offshoot::{
    dialect::{Client, Dialect, claude::Claude, qwen::Qwen},
    topology,
    transcript::Source,
};
use serde_json::{Value, json};

use crate::random::lines;

/// Bytes that count how many of them are read.
struct Counting {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl Source for Counting {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(offset, buf)
    }
}

fn record(uuid: impl ToString, parent: Option<String>, kind: &str, part: Value) -> Value {
    json!({"uuid": uuid.to_string(), "parentUuid": parent, "sessionId": "s", "type": kind,
        "timestamp": "2026-01-01T00:00:00Z", "message": {"parts": [part]}})
}

/// A trunk of `n` records and a leaf below each. The trunk's first record has a body as large as all others.
fn comb(n: usize, kind: &str, leaf: &str, part: impl Fn(usize) -> Value) -> Vec<Value> {
    let mut records = vec![record("root", None, "user", json!({"text": "words ".repeat(n * 20)}))];
    let mut parent = "root".to_owned();
    for i in 0..n {
        records.push(record(format!("t{i}"), Some(parent), kind, part(i)));
        parent = format!("t{i}");
        records.push(record(format!("l{i}"), Some(parent.clone()), leaf, json!({"text": " "})));
    }
    records
}

fn cycle(n: usize, kind: &str, part: impl Fn(usize) -> Value) -> Vec<Value> {
    let member = |i: usize| record(format!("c{i}"), Some(format!("c{}", (i + 1) % n)), kind, part(i));
    let leaf = |i: usize| record(format!("l{i}"), Some(format!("c{i}")), "tool_result", json!({"text": " "}));
    (0..n).map(member).chain((0..n).map(leaf)).collect()
}

fn copies(n: usize) -> Vec<Value> {
    let copy = |_| record("same", None, "assistant", json!({"text": "\n"}));
    let leaf = |i: usize| record(format!("l{i}"), Some("same".to_owned()), "system", json!({"text": " "}));
    (0..n).map(copy).chain((0..n).map(leaf)).collect()
}

/// A trunk of rounds of `n` parallel calls each, and a prompt below each round.
fn claude_rounds(n: usize) -> Vec<Value> {
    let record = |uuid: String, parent: String, kind: &str, message: Value| {
        json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "message": message,
            "timestamp": "2026-01-01T00:00:00Z"})
    };
    let mut records = Vec::new();
    let mut parent = "none".to_owned();
    for i in 0..n {
        for j in 0..n {
            let block = json!({"type": "tool_use", "id": format!("c{i}-{j}"), "input": {}});
            let message = json!({"id": format!("m{i}"), "content": [block]});
            records.push(record(format!("a{i}-{j}"), parent, "assistant", message));
            parent = format!("a{i}-{j}");
        }
        for j in 0..n {
            let block = json!({"type": "tool_result", "tool_use_id": format!("c{i}-{j}"), "content": " "});
            let call = format!("a{i}-{j}");
            records.push(record(format!("r{i}-{j}"), call, "user", json!({"content": [block]})));
        }
        parent = format!("r{i}-{}", n - 1);
        records.push(record(format!("u{i}"), parent.clone(), "user", json!({"content": "again"})));
    }
    records
}

#[test]
fn bodies_of_rounds_are_read_a_few_times_each() {
    const N: usize = 40;
    let source = Counting { bytes: lines(&claude_rounds(N)), read: AtomicU64::new(0) };
    let t = Claude.read(&source).unwrap();
    let reading = source.read.swap(0, Ordering::Relaxed);
    let size = source.bytes.len() as u64;
    // What is cut at the end of a chunk is read to its end there, and again where the next chunk begins.
    assert!(
        (size..=size + size / 8).contains(&reading),
        "{reading} bytes read of {size}: the file is read once"
    );
    let inspection = topology::inspect(&t, &source, &Claude, &Client::default()).unwrap();
    assert_eq!(inspection.branches.len(), N, "one below each round, and none for results beside the chain");
    let read = source.read.into_inner();
    assert!(read <= 3 * size, "{read} bytes read of {size}");
}

#[test]
fn bodies_are_read_a_few_times_each_whatever_the_shape() {
    const N: usize = 300;
    let blank = |_| json!({"text": " \n"});
    let text = |i| json!({"text": format!("text {i}")});
    let call = |i| json!({"functionCall": {"id": format!("c{i}")}});
    let round = |i: usize| match i % 2 {
        0 => json!({"functionCall": {"id": format!("c{i}")}}),
        _ => json!({"functionResponse": {"id": format!("c{}", i - 1)}}),
    };
    let shapes = [
        ("blank prompts", comb(N, "user", "user", blank)),
        ("blank replies", comb(N, "assistant", "assistant", blank)),
        ("replies", comb(N, "assistant", "tool_result", text)),
        ("prompts", comb(N, "user", "system", text)),
        ("open calls", comb(N, "assistant", "tool_result", call)),
        ("tool rounds", comb(N, "assistant", "assistant", round)),
        ("a cycle of blanks", cycle(N, "user", blank)),
        ("a cycle of texts", cycle(N, "assistant", text)),
        ("a cycle of calls", cycle(N, "assistant", round)),
        ("copies", copies(N)),
    ];
    for (name, records) in shapes {
        let source = Counting { bytes: lines(&records), read: AtomicU64::new(0) };
        let t = Qwen.read(&source).unwrap();
        source.read.store(0, Ordering::Relaxed);
        let inspection = topology::inspect(&t, &source, &Qwen, &Client::default()).unwrap();
        assert!(inspection.branches.len() >= N - 1, "{name}: {}", inspection.branches.len());
        let (read, size) = (source.read.into_inner(), source.bytes.len() as u64);
        assert!(read <= 8 * size, "{name}: {read} bytes read of {size}");
    }
}
