//! Work is linear, counted in steps and not by a clock, over every shape that is made to hurt.
//!
//! # What a step is
//!
//! The program is built once more with the compiler's own counters (`-C instrument-coverage`), and a step is one of them
//! going up. The compiler puts enough of them into every function to know how often each branch of it ran, so a loop
//! without one does not exist. That holds for all of this crate and for all crates it is built with, since they are
//! built with the same flag: nobody has to remember a counter, and a loop that is written tomorrow is counted too. The
//! program under test is the whole one, from arguments to output, so that nothing between two algorithms is left out.
//!
//! Not counted is what the standard library does without calling back: a search through a slice of numbers, a shift
//! in a vector. Steps of different threads are all counted (`atomic`), and hashing is seeded, so counts differ by a few
//! in ten thousand from run to run; the limits below are far from that.
//!
//! # What is held
//!
//! A transcript twice as long takes at most [`TWICE`] times the steps, and no transcript takes more than [`EACH`] steps
//! for a byte of input and output. Both are taken above what an empty transcript costs. What is printed must be linear
//! too, else a quadratic answer would allow quadratic work.

use std::{
    collections::HashMap,
    fs,
    io::BufWriter,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::Value;

mod counters;
#[path = "../../benches/shapes/mod.rs"]
mod shapes;

use shapes::{BARE, Form, Lines, SHAPES, Shape};

/// What is doubled: half the records, roughly.
const SIZE: usize = 1_000;
/// How many times the steps a transcript of twice the size may take. Sorting makes it a little more than two.
const TWICE: f64 = 2.15;
/// How many steps a byte of input and output may take.
const EACH: f64 = 80.0;

const SESSION: &str = "0c0ffee0-0000-4000-8000-000000000001";

/// A transcript of a shape.
struct File {
    path: PathBuf,
    bytes: u64,
    /// Its first and its last leaf.
    leaves: Vec<String>,
}

struct World {
    dir: tempfile::TempDir,
    program: PathBuf,
    runs: AtomicU32,
    files: HashMap<(Form, &'static str, usize), File>,
}

/// One run of the program.
struct Run {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
    steps: u64,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut world =
            World { dir, program: counters::build(), runs: AtomicU32::new(0), files: HashMap::new() };
        for form in [Form::Qwen, Form::Claude] {
            world.add(form, &Shape { name: "empty", write: |_, _| Ok(()) }, 0);
            for shape in SHAPES {
                world.add(form, shape, SIZE);
                world.add(form, shape, 2 * SIZE);
            }
        }
        world
    })
}

impl World {
    fn add(&mut self, form: Form, shape: &Shape, size: usize) {
        let dir = self.dir.path().join(format!("{form:?}-{}-{size}", shape.name).replace(' ', "-"));
        fs::create_dir(&dir).unwrap();
        let path = dir.join(format!("{SESSION}.jsonl"));
        let mut out = BufWriter::new(fs::File::create(&path).unwrap());
        (shape.write)(&mut Lines::new(&mut out, form, BARE, SESSION), size).unwrap();
        drop(out);
        let agent = format!("{form:?}").to_lowercase();
        let run = self.run(&["inspect", "--json", "--agent", &agent, &path.display().to_string()]);
        assert_eq!(run.code, Some(0), "inspect of {}: {}", shape.name, run.stderr);
        let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
        let leaf = |b: &Value| b["leafUuid"].as_str().unwrap().to_owned();
        let branches = answer["branches"].as_array().unwrap();
        let mut leaves: Vec<String> = branches.first().into_iter().chain(branches.last()).map(leaf).collect();
        leaves.dedup();
        let bytes = fs::metadata(&path).unwrap().len();
        self.files.insert((form, shape.name, size), File { path, bytes, leaves });
    }

    fn run(&self, args: &[&str]) -> Run {
        let dir = self.dir.path().join(format!("run-{}", self.runs.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&dir).unwrap();
        let counted = dir.join("steps.profraw");
        let out = Command::new(&self.program)
            .args(args)
            .env_clear()
            .env("HOME", &dir)
            .env("OFFSHOOT_STATE_DIR", dir.join("state"))
            .env("PATH", "/usr/bin:/bin")
            .env("LLVM_PROFILE_FILE", &counted)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let steps = counters::sum(&fs::read(&counted).unwrap());
        fs::remove_dir_all(&dir).unwrap();
        Run {
            code: out.status.code(),
            stdout: out.stdout,
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
            steps,
        }
    }

    fn file(&self, form: Form, shape: &'static str, size: usize) -> &File {
        &self.files[&(form, shape, size)]
    }
}

/// Holds a command to linear work over all shapes of a form. `args` gives its arguments for a file, or none where the
/// command makes no sense of it.
fn linear(form: Form, args: impl Fn(&File) -> Option<Vec<String>>) {
    let world = world();
    let run = |file: &File| {
        let args = args(file)?;
        let mut all: Vec<&str> = args.iter().map(String::as_str).collect();
        let agent = format!("{form:?}").to_lowercase();
        all.extend(["--agent", &agent]);
        Some(world.run(&all))
    };
    let base = run(world.file(form, "empty", 0)).map_or(0, |run| run.steps);
    let (mut did, mut wrong) = (0, Vec::new());
    for shape in SHAPES {
        let (one, two) = (world.file(form, shape.name, SIZE), world.file(form, shape.name, 2 * SIZE));
        let (Some(first), Some(second)) = (run(one), run(two)) else { continue };
        assert_eq!(first.code, second.code, "{}: {} {}", shape.name, first.stderr, second.stderr);
        assert!(matches!(first.code, Some(0 | 3)), "{}: {:?} {}", shape.name, first.code, first.stderr);
        did += usize::from(first.code == Some(0));
        let above = |run: &Run| run.steps.saturating_sub(base) as f64;
        let twice = above(&second) / above(&first);
        let each = above(&second) / (two.bytes + second.stdout.len() as u64) as f64;
        let printed = second.stdout.len() as f64 / (first.stdout.len() as f64).max(1.0);
        let line = format!(
            "{:32} {:>4?} {:>10.0} {twice:5.2} x, {each:5.1} a byte, {:>9} bytes out, {printed:.2} x",
            shape.name,
            first.code.unwrap_or_default(),
            above(&first),
            first.stdout.len()
        );
        if twice > TWICE || each > EACH || printed > TWICE {
            wrong.push(line);
        }
    }
    assert!(did * 2 > SHAPES.len(), "only {did} shapes were worked on");
    assert!(wrong.is_empty(), "not linear:\n{}", wrong.join("\n"));
}

fn path(file: &File) -> String {
    file.path.display().to_string()
}

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(words.iter().map(|&w| w.to_owned()).collect())
}

/// Scan, index, topology, texts, and the client's own rules.
#[test]
fn inspect_qwen() {
    linear(Form::Qwen, |f| words(&["inspect", "--json", "--digest", &path(f)]));
}

#[test]
fn inspect_claude() {
    linear(Form::Claude, |f| words(&["inspect", "--json", "--digest", &path(f)]));
}

#[test]
fn chain_qwen() {
    linear(Form::Qwen, |f| words(&["chain", "--json", &path(f), "--leaf", f.leaves.last()?]));
}

#[test]
fn chain_claude() {
    linear(Form::Claude, |f| words(&["chain", "--json", &path(f), "--leaf", f.leaves.last()?]));
}

#[test]
fn find_qwen() {
    linear(Form::Qwen, |f| words(&["find", "--json", &path(f), "policy"]));
}

#[test]
fn find_claude() {
    linear(Form::Claude, |f| words(&["find", "--json", &path(f), "policy"]));
}

/// The outline of the navigator, as it is drawn.
#[test]
fn tree_qwen() {
    linear(Form::Qwen, |f| words(&["tree", "--print", &path(f)]));
}

#[test]
fn tree_claude() {
    linear(Form::Claude, |f| words(&["tree", "--print", &path(f)]));
}

#[test]
fn graph_qwen() {
    linear(Form::Qwen, |f| words(&["graph", "--json", &path(f)]));
}

#[test]
fn graph_claude() {
    linear(Form::Claude, |f| words(&["graph", "--json", &path(f)]));
}

#[test]
fn targets_qwen() {
    linear(Form::Qwen, |f| words(&["targets", "--json", &path(f)]));
}

#[test]
fn targets_claude() {
    linear(Form::Claude, |f| words(&["targets", "--json", &path(f)]));
}

#[test]
fn diff_qwen() {
    linear(Form::Qwen, |f| words(&["diff", "--json", &path(f), f.leaves.first()?, f.leaves.get(1)?]));
}

#[test]
fn diff_claude() {
    linear(Form::Claude, |f| words(&["diff", "--json", &path(f), f.leaves.first()?, f.leaves.get(1)?]));
}

/// The child's records, and the simulation of the client on its bytes.
#[test]
fn fork_qwen() {
    linear(Form::Qwen, fork);
}

#[test]
fn fork_claude() {
    linear(Form::Claude, fork);
}

fn fork(f: &File) -> Option<Vec<String>> {
    words(&["resume", "--json", &path(f), "--leaf", f.leaves.last()?, "--seed", "fork", "--allow-gap"])
}

#[test]
fn redact_qwen() {
    linear(Form::Qwen, |f| words(&["redact", &path(f)]));
}

#[test]
fn redact_claude() {
    linear(Form::Claude, |f| words(&["redact", &path(f)]));
}
