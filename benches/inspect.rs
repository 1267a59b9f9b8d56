//! What the inspector costs: time and memory over transcripts that are made to hurt, each at one size and at twice that.
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

#[path = "shapes/mod.rs"]
mod shapes;

use shapes::{BARE, Form, Lines, SHAPES, Shape};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What is doubled: half the records, roughly.
const SIZE: usize = 50_000;
const SESSION: &str = "0c0ffee0-0000-4000-8000-000000000001";

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
    let empty = run(&file(dir, None, 0)?)?;
    println!(
        "{:34} {:>9} {:>8} {:>9} {:>9} {:>6} {:>6} {:>9}",
        "shape", "records", "leaves", "read ms", "inspect", "x2", "MiB", "B/record"
    );
    for shape in SHAPES.iter().filter(|s| s.name.contains(word)) {
        let size = if small { SIZE / 10 } else { SIZE };
        let mut before = 0.0;
        for size in [size, size * 2] {
            let m = run(&file(dir, Some(shape), size)?)?;
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

fn file(dir: &Path, shape: Option<&Shape>, size: usize) -> Result<PathBuf> {
    let path = dir.join("transcript.jsonl");
    let mut out = BufWriter::new(fs::File::create(&path)?);
    if let Some(shape) = shape {
        (shape.write)(&mut Lines::new(&mut out, Form::Qwen, BARE, SESSION), size)?;
    }
    out.flush()?;
    Ok(path)
}
