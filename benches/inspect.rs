//! What `inspect` costs: time and memory over transcripts of hostile shapes, each at one size and at twice that.
//!
//! ```text
//! cargo bench --bench inspect                 all shapes
//! cargo bench --bench inspect -- leaves       only those whose name holds the word
//! cargo bench --bench inspect -- --small      a tenth of the size
//! ```
//!
//! Each measurement is a process of its own, which reports its times and, on Linux, its peak resident memory
//! (`VmHWM`). `x2` is how much longer the doubled transcript takes: 2 is linear. Bytes a record are what is above an
//! empty transcript's, the JSON of the answer not being kept.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use offshoot::{
    dialect::{Client, Dialect, qwen::Qwen},
    store::snapshot::Snapshot,
    topology,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A family of transcripts: `size` is what is doubled.
struct Shape {
    name: &'static str,
    size: usize,
    write: fn(&mut Lines, usize) -> Result<()>,
}

const SHAPES: &[Shape] = &[
    Shape { name: "100k records, 50 leaves", size: 100_000, write: |l, n| branched(l, n, 50) },
    Shape { name: "100k records, 5000 leaves", size: 100_000, write: |l, n| branched(l, n, n / 20) },
    Shape { name: "chain", size: 500_000, write: chain },
    Shape { name: "chain, children before parents", size: 500_000, write: backwards },
    Shape { name: "comb of leaves", size: 50_000, write: |l, n| comb(l, n, "assistant", "assistant", TEXT) },
    Shape { name: "comb of blank prompts", size: 50_000, write: |l, n| comb(l, n, "user", "system", BLANK) },
    Shape { name: "comb of open calls", size: 50_000, write: |l, n| comb(l, n, "assistant", "system", CALL) },
    Shape { name: "comb of neutral tails", size: 50_000, write: |l, n| comb(l, n, "neutral", "neutral", "") },
    Shape { name: "cycle with a leaf at each member", size: 25_000, write: cycle },
    Shape { name: "copies of one uuid", size: 50_000, write: copies },
    Shape { name: "rewinds x leaves", size: 25_000, write: rewinds },
    Shape { name: "all branches interleaved", size: 25_000, write: interleaved },
];

const TEXT: &str = r#"{"text":"read the snapshot again, then apply the policy and write the ledger"}"#;
const BLANK: &str = r#"{"text":" "}"#;
const CALL: &str = "call";

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, file] = &args[..]
        && flag == "--measure"
    {
        return measure(Path::new(file));
    }
    let small = args.iter().any(|a| a == "--small");
    let word = args.iter().find(|a| !a.starts_with("--"));
    let dir = env::temp_dir().join(format!("offshoot-bench-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let result = compare(&dir, small, word.map_or("", String::as_str));
    fs::remove_dir_all(&dir)?;
    result
}

fn compare(dir: &Path, small: bool, word: &str) -> Result<()> {
    let empty = run(&file(dir, |_| Ok(()))?)?;
    println!(
        "{:34} {:>9} {:>8} {:>9} {:>9} {:>6} {:>6} {:>9}",
        "shape", "records", "leaves", "read ms", "inspect", "x2", "MiB", "B/record"
    );
    for shape in SHAPES.iter().filter(|s| s.name.contains(word)) {
        let size = if small { shape.size / 10 } else { shape.size };
        let mut before = 0.0;
        for size in [size, size * 2] {
            let m = run(&file(dir, |lines| (shape.write)(lines, size))?)?;
            let x2 = if before > 0.0 { format!("{:.2}", m.inspect / before) } else { String::new() };
            before = m.inspect;
            let above = m.peak.saturating_sub(empty.peak);
            println!(
                "{:34} {:>9} {:>8} {:>9.1} {:>9.1} {x2:>6} {:>6} {:>9}",
                shape.name,
                m.records,
                m.leaves,
                m.read,
                m.inspect,
                m.peak >> 20,
                above / m.records.max(1)
            );
        }
    }
    Ok(())
}

/// What one process reports: times in milliseconds, the best of a few; bytes.
struct Measured {
    records: u64,
    leaves: u64,
    read: f64,
    inspect: f64,
    peak: u64,
}

fn run(file: &Path) -> Result<Measured> {
    let out =
        Command::new(env::current_exe()?).arg("--measure").arg(file).stderr(Stdio::inherit()).output()?;
    if !out.status.success() {
        return Err(format!("the measuring process ended with {}", out.status).into());
    }
    let text = String::from_utf8(out.stdout)?;
    let mut numbers = text.split_whitespace();
    let mut next = || numbers.next().ok_or("a figure is missing");
    Ok(Measured {
        records: next()?.parse()?,
        leaves: next()?.parse()?,
        read: next()?.parse()?,
        inspect: next()?.parse()?,
        peak: next()?.parse()?,
    })
}

fn measure(file: &Path) -> Result<()> {
    let ms = |since: Instant| since.elapsed().as_secs_f64() * 1000.0;
    let (mut read, mut inspect) = (f64::MAX, f64::MAX);
    let (mut records, mut leaves) = (0, 0);
    for _ in 0..3 {
        let start = Instant::now();
        let snapshot = Snapshot::take(file, &Qwen as &dyn Dialect, false)?;
        read = read.min(ms(start));
        let start = Instant::now();
        let inspection = topology::inspect(&snapshot.transcript, &snapshot, &Qwen, &Client::default())?;
        serde_json::to_writer(std::io::sink(), &inspection)?;
        inspect = inspect.min(ms(start));
        (records, leaves) = (snapshot.transcript.records.len(), inspection.branches.len());
    }
    println!("{records} {leaves} {read} {inspect} {}", peak());
    Ok(())
}

/// The most memory that this process has had, in bytes; 0 where the system does not say.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

fn file(dir: &Path, write: impl FnOnce(&mut Lines) -> Result<()>) -> Result<PathBuf> {
    let path = dir.join("transcript.jsonl");
    let mut lines = Lines { out: BufWriter::new(fs::File::create(&path)?), clock: 0, line: String::new() };
    write(&mut lines)?;
    lines.out.flush()?;
    Ok(path)
}

/// Writes records of Qwen's form.
struct Lines {
    out: BufWriter<fs::File>,
    clock: u64,
    line: String,
}

/// What a record is; `uuid` and `parent` are numbers that become UUIDs.
struct Rec<'a> {
    uuid: u128,
    parent: Option<u128>,
    /// A type; `neutral` and `rewind` are system records.
    kind: &'a str,
    /// The elements of `message.parts`.
    parts: &'a str,
}

impl Lines {
    fn put(&mut self, rec: &Rec<'_>) -> Result<()> {
        let id =
            |n: u128| uuid::Builder::from_custom_bytes((n * 0x9e37_79b9_7f4a_7c15).to_be_bytes()).into_uuid();
        let (kind, subtype) = match rec.kind {
            "neutral" => ("system", r#","subtype":"custom_title""#),
            "rewind" => ("system", r#","subtype":"rewind""#),
            kind => (kind, ""),
        };
        self.clock += 1;
        let (s, ms) = (self.clock / 1000, self.clock % 1000);
        self.line.clear();
        write!(self.line, r#"{{"uuid":"{}","parentUuid":"#, id(rec.uuid))?;
        match rec.parent {
            Some(p) => write!(self.line, r#""{}""#, id(p))?,
            None => self.line.push_str("null"),
        }
        write!(
            self.line,
            r#","sessionId":"bench","timestamp":"2026-01-{:02}T{:02}:{:02}:{:02}.{ms:03}Z","type":"{kind}"{subtype},"cwd":"/workspace","version":"0.24.4","gitBranch":"main""#,
            1 + s / 86_400,
            s / 3_600 % 24,
            s / 60 % 60,
            s % 60
        )?;
        if !rec.parts.is_empty() {
            write!(self.line, r#","message":{{"role":"user","parts":[{}]}}"#, rec.parts)?;
        }
        self.line.push_str("}\n");
        Ok(self.out.write_all(self.line.as_bytes())?)
    }

    /// A record of a conversation: prompt, call, result, reply, and so on.
    fn talk(&mut self, uuid: u128, parent: Option<u128>, step: usize) -> Result<()> {
        let words = "the parser retries when a branch has no parent and the lock is held by another process ";
        let text = words.repeat(1 + (uuid % 7) as usize);
        let call = uuid - (step % 4).saturating_sub(1) as u128;
        let (kind, parts) = match step % 4 {
            0 => ("user", format!(r#"{{"text":"{text}"}}"#)),
            1 => (
                "assistant",
                format!(
                    r#"{{"text":"{text}"}},{{"functionCall":{{"id":"c{call}","name":"run","args":{{"command":"{text}"}}}}}}"#
                ),
            ),
            2 => (
                "tool_result",
                format!(r#"{{"functionResponse":{{"id":"c{call}","response":{{"output":"{text}"}}}}}}"#),
            ),
            _ => ("assistant", format!(r#"{{"text":"{text}","thought":true}},{{"text":"{text}"}}"#)),
        };
        self.put(&Rec { uuid, parent, kind, parts: &parts })
    }
}

/// A trunk from which branches of equal length leave at even distances, five of them by a rewind.
fn branched(lines: &mut Lines, records: usize, leaves: usize) -> Result<()> {
    let run = (records / 2 / leaves).clamp(1, 40);
    let trunk = records - (leaves - 1) * run;
    let mut next = records as u128;
    for i in 0..trunk {
        lines.talk(i as u128, (i as u128).checked_sub(1), i)?;
        let begun = |at: usize| at * (leaves - 1) / trunk;
        for branch in begun(i)..begun(i + 1) {
            let mut parent = i as u128;
            for step in 0..run {
                if step == 0 && branch < 5 {
                    lines.put(&Rec { uuid: next, parent: Some(parent), kind: "rewind", parts: "" })?;
                } else {
                    lines.talk(next, Some(parent), step)?;
                }
                parent = next;
                next += 1;
            }
        }
    }
    Ok(())
}

fn chain(lines: &mut Lines, n: usize) -> Result<()> {
    (0..n).try_for_each(|i| lines.talk(i as u128, (i as u128).checked_sub(1), i))
}

fn backwards(lines: &mut Lines, n: usize) -> Result<()> {
    (0..n).rev().try_for_each(|i| lines.talk(i as u128, (i as u128).checked_sub(1), i))
}

/// A trunk with one more child at each record.
fn comb(lines: &mut Lines, n: usize, trunk: &str, leaf: &str, parts: &str) -> Result<()> {
    lines.put(&Rec { uuid: 2 * n as u128, parent: None, kind: "assistant", parts: TEXT })?;
    for i in 0..n as u128 {
        let call = format!(r#"{{"functionCall":{{"id":"c{i}","name":"run"}}}}"#);
        let parts = if parts == CALL { &call } else { parts };
        let parent = Some(i.checked_sub(1).unwrap_or(2 * n as u128));
        lines.put(&Rec { uuid: i, parent, kind: trunk, parts })?;
        lines.put(&Rec { uuid: n as u128 + i, parent: Some(i), kind: leaf, parts: "" })?;
    }
    Ok(())
}

fn cycle(lines: &mut Lines, n: usize) -> Result<()> {
    let n = n as u128;
    for i in 0..n {
        let kind = ["assistant", "rewind"][usize::from(i == n / 2)];
        lines.put(&Rec { uuid: i, parent: Some((i + 1) % n), kind, parts: TEXT })?;
    }
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: n + i, parent: Some(i), kind: "assistant", parts: "" }))
}

/// All with other parents, and with nothing to say until the last.
fn copies(lines: &mut Lines, n: usize) -> Result<()> {
    for i in 0..n as u128 {
        let parts = if i + 1 == n as u128 { TEXT } else { BLANK };
        lines.put(&Rec { uuid: 0, parent: Some(1 + i), kind: "user", parts })?;
    }
    (0..50).try_for_each(|i| {
        lines.put(&Rec { uuid: 2 * n as u128 + i, parent: Some(0), kind: "assistant", parts: "" })
    })
}

fn rewinds(lines: &mut Lines, n: usize) -> Result<()> {
    let n = n as u128;
    lines.put(&Rec { uuid: 2 * n, parent: None, kind: "user", parts: TEXT })?;
    for i in 0..n {
        lines.put(&Rec {
            uuid: i,
            parent: Some(i.checked_sub(1).unwrap_or(2 * n)),
            kind: "rewind",
            parts: "",
        })?;
        lines.put(&Rec { uuid: n + i, parent: Some(i), kind: "user", parts: TEXT })?;
    }
    Ok(())
}

fn interleaved(lines: &mut Lines, n: usize) -> Result<()> {
    let n = n as u128;
    lines.put(&Rec { uuid: 2 * n, parent: None, kind: "user", parts: TEXT })?;
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: i, parent: Some(2 * n), kind: "user", parts: TEXT }))?;
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: n + i, parent: Some(i), kind: "assistant", parts: TEXT }))
}
