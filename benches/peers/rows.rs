//! What there is a goal for: each is measured against what it is a multiple of, in turns.

use std::fs;

use crate::{
    Result,
    inputs::{Inputs, SESSION, ours},
    measure::{Job, Program, Sample, Stats, in_turns},
    screen,
    shapes::{self, BARE, Form, Kind, LINE, Lines, Text, Tree},
    tools::Tools,
};

/// How a figure is held to its goal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// So many times as long as something else, at most.
    Times,
    /// So many times as fast as something else, at least.
    Faster,
    Ms,
    Mib,
}

/// One goal and what was measured.
pub struct Row {
    pub what: String,
    pub unit: Unit,
    pub goal: f64,
    pub stretch: Option<f64>,
    pub value: f64,
    /// The figures behind it.
    pub how: String,
}

impl Row {
    pub fn met(&self, goal: f64) -> bool {
        if self.unit == Unit::Faster { self.value >= goal } else { self.value <= goal }
    }
}

/// Runs of what is quick.
pub const RUNS: usize = 9;

const MB: usize = 1_000_000;
const MIB: f64 = 1_048_576.0;

/// The two figures of a ratio.
fn how(a: &Stats, b: &str, other: &Stats) -> String {
    format!("{:.1} ms ({:.1}) : {b} {:.1} ms ({:.1})", a.min, a.median, other.min, other.median)
}

fn times(what: impl Into<String>, goal: f64, stretch: Option<f64>, a: &Stats, b: &str, other: &Stats) -> Row {
    let value = a.min / other.min;
    Row { what: what.into(), unit: Unit::Times, goal, stretch, value, how: how(a, b, other) }
}

fn memory(what: impl Into<String>, goal: f64, stretch: f64, stats: &Stats) -> Row {
    let value = stats.peak as f64 / MIB;
    let how = format!("the stretch is by the formula {stretch:.1} MiB");
    Row { what: what.into(), unit: Unit::Mib, goal, stretch: Some(stretch), value, how }
}

/// 10 MiB + 88 B a record + 0.6 KiB a leaf + twice the longest line.
fn formula(records: u64, leaves: u64, longest: usize) -> f64 {
    10.0 + (records as f64 * 88.0 + leaves as f64 * 614.4 + 2.0 * longest as f64) / MIB
}

/// Whole sessions of three sizes.
pub fn sizes(inputs: &Inputs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for form in [Form::Qwen, Form::Claude] {
        let file = |name: &str, bytes| inputs.session(&format!("{form:?}-{name}.jsonl"), form, bytes);
        let (ten, two, big) = (file("10", 10 * MB)?, file("200", 200 * MB)?, file("1000", 1000 * MB)?);
        inputs.settle()?;
        let digest = ours(["inspect", "--json", "--digest", &two.name()]);
        let wc = Program::new(["wc", "-l", &two.name()]);
        let [inspect, wc, digest] = in_turns([two.inspect().job(RUNS), wc.job(RUNS), digest.job(RUNS)])?;
        let [small, again, large] =
            in_turns([ten.inspect().job(RUNS), two.inspect().job(RUNS), big.inspect().job(RUNS)])?;
        rows.push(times(
            format!("{form:?}: `inspect --json`, 200 MB"),
            2.8,
            Some(2.0),
            &inspect,
            "`wc -l`",
            &wc,
        ));
        rows.push(times(
            format!("{form:?}: the same with `--digest`"),
            3.2,
            Some(2.4),
            &digest,
            "`wc -l`",
            &wc,
        ));
        for (file, stats, goal, name) in [(&two, &inspect, 14.0, "200 MB"), (&big, &large, 52.0, "1 GB")] {
            let counted = file.counted()?;
            let stretch = formula(counted.records, counted.leaves, LINE * 5 / 2);
            rows.push(memory(format!("{form:?}: peak memory, {name}"), goal, stretch, stats));
        }
        rows.push(times(format!("{form:?}: 1 GB"), 5.5, None, &large, "200 MB", &again));
        rows.push(Row {
            what: format!("{form:?}: 10 MB, process start included"),
            unit: Unit::Ms,
            goal: 15.0,
            stretch: Some(10.0),
            value: small.min,
            how: format!("median {:.1} ms", small.median),
        });
        [ten, two, big].iter().try_for_each(|file| fs::remove_file(&file.path))?;
    }
    Ok(rows)
}

/// Shapes at the same number of records.
pub fn shapes(inputs: &Inputs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let million = inputs.scaled(1_000_000);
    let chain = inputs.file("chain.jsonl", Form::Qwen, BARE, |l| shapes::chain(l, million))?;
    let plain = inputs.file("plain.jsonl", Form::Qwen, BARE, |l| {
        shapes::tree(l, &Tree { records: million, leaves: 50, rewinds: 5 })
    })?;
    inputs.settle()?;
    let [a, b] = in_turns([chain.inspect().job(RUNS), plain.inspect().job(RUNS)])?;
    rows.push(times("one chain of 1,000,000 (bare lines)", 1.2, None, &a, "a tree of that size", &b));
    [chain, plain].iter().try_for_each(|file| fs::remove_file(&file.path))?;
    for (line, lines) in [(LINE, "lines of 2.3 KB"), (BARE, "bare lines")] {
        hostile(inputs, line, lines, &mut rows)?;
    }
    Ok(rows)
}

fn hostile(inputs: &Inputs, line: usize, lines: &str, rows: &mut Vec<Row>) -> Result<()> {
    let (n, half) = (inputs.scaled(100_000), inputs.scaled(50_000));
    let tree =
        |leaves: usize| move |l: &mut Lines<'_>| shapes::tree(l, &Tree { records: n, leaves, rewinds: 5 });
    let plain = inputs.file("plain.jsonl", Form::Qwen, line, tree(50))?;
    let many = inputs.file("many.jsonl", Form::Qwen, line, tree(n / 20))?;
    inputs.settle()?;
    let [a, b] = in_turns([many.inspect().job(RUNS), plain.inspect().job(RUNS)])?;
    rows.push(times(format!("100,000 records: 5,000 leaves ({lines})"), 1.6, None, &a, "50 leaves", &b));
    fs::remove_file(&many.path)?;
    type Write = fn(&mut Lines<'_>, usize) -> std::io::Result<()>;
    let all: [(&str, usize, Write); 5] = [
        ("comb of 100,000 leaves", n, |l, n| {
            shapes::comb(l, n, Kind::Assistant, Kind::Assistant, Text::Full)
        }),
        ("cycle of 50,000 with 50,000 leaves", half, shapes::cycle),
        ("50,000 branches, all interleaved", half, shapes::interleaved),
        ("100,000 copies of one uuid", n, shapes::copies),
        ("50,000 rewinds x 50,000 leaves", half, shapes::rewinds),
    ];
    for (what, size, write) in all {
        let file = inputs.file("hostile.jsonl", Form::Qwen, line, |l| write(l, size))?;
        inputs.settle()?;
        let printed = file.counted()?.answer as f64 / 1e6;
        let [a, b] = in_turns([file.inspect().job(RUNS), plain.inspect().job(RUNS)])?;
        let allowed = 3.5 * printed;
        rows.push(Row {
            what: format!("{what} ({lines})"),
            unit: Unit::Times,
            goal: 5.0,
            stretch: None,
            value: (a.min - allowed).max(0.0) / b.min,
            how: format!(
                "{}; {:.0} MB read, {printed:.0} MB printed ({allowed:.0} ms allowed)",
                how(&a, "plain 100,000", &b),
                file.mb()
            ),
        });
        fs::remove_file(&file.path)?;
    }
    Ok(fs::remove_file(&plain.path)?)
}

/// One line that is most of the file.
pub fn one_line(inputs: &Inputs) -> Result<Vec<Row>> {
    let bytes = inputs.scaled(60 * MB);
    let file = inputs.file("line.jsonl", Form::Qwen, LINE, |l| shapes::one_line(l, bytes))?;
    inputs.settle()?;
    let counted = file.counted()?;
    let [stats] = in_turns([file.inspect().job(RUNS)])?;
    let how = format!("median {:.1} ms", stats.median);
    let time = Row {
        what: "one line of 60 MB".to_owned(),
        unit: Unit::Ms,
        goal: 250.0,
        stretch: None,
        value: stats.min,
        how,
    };
    let stretch = formula(counted.records, counted.leaves, bytes);
    fs::remove_file(&file.path)?;
    Ok(vec![time, memory("one line of 60 MB: peak memory", 90.0, stretch, &stats)])
}

/// A fork against what a copy of the file with a digest costs; children are removed between the runs.
pub fn fork(inputs: &Inputs, tools: &Tools) -> Result<Vec<Row>> {
    let Some(b3sum) = &tools.b3sum else { return Ok(Vec::new()) };
    let home = inputs.dir().join("home");
    let chats = "home/.qwen/projects/-workspace/chats";
    let file = inputs.session(&format!("{chats}/{SESSION}.jsonl"), Form::Qwen, 200 * MB)?;
    inputs.settle()?;
    let leaf = file.counted()?.longest_leaf;
    let state = inputs.dir().join("state");
    let program = Program::new([env!("CARGO_BIN_EXE_offshoot"), "resume", &file.name()])
        .and(["--leaf", &leaf, "--seed", "fork", "--quiet"])
        .env("HOME", &home)
        .env("OFFSHOOT_STATE_DIR", &state);
    let copy = inputs.dir().join("copy.jsonl");
    let script = format!(r#"cp "$1" "$2" && sync "$2" && {} "$2""#, b3sum.display());
    let peer = Program::new(["sh", "-c", &script, "sh", &file.name(), &copy.display().to_string()]);
    let fork = || -> Result<Sample> {
        let sample = program.sample()?;
        fs::remove_dir_all(&state)?;
        for entry in fs::read_dir(inputs.dir().join(chats))? {
            let path = entry?.path();
            if path != file.path && path.is_file() {
                fs::remove_file(path)?;
            }
        }
        inputs.settle()?;
        Ok(sample)
    };
    let copied = || -> Result<Sample> {
        let sample = peer.sample()?;
        fs::remove_file(&copy)?;
        inputs.settle()?;
        Ok(sample)
    };
    let [a, b] = in_turns([Job::new(RUNS, fork), Job::new(RUNS, copied)])?;
    fs::remove_dir_all(&home)?;
    let row =
        times("`resume --seed fork`, 200 MB", 1.8, Some(1.4), &a, "`cp`, `sync` of the copy, `b3sum`", &b);
    Ok(vec![row])
}

/// How long until a person sees something.
pub fn screens(inputs: &Inputs) -> Result<Vec<Row>> {
    let file = inputs.session(&format!("{SESSION}.jsonl"), Form::Qwen, 200 * MB)?;
    inputs.settle()?;
    let on_screen = |args: &'static [&'static str], mark: &'static str| {
        let path = file.path.clone();
        Job::new(RUNS, move || {
            let (_, shown) = screen::first_frames(args, &path, mark)?;
            Ok(Sample { ms: shown.as_secs_f64() * 1000.0, peak: 0 })
        })
    };
    let tree = on_screen(&["tree"], "[A]");
    let prompt = on_screen(&["resume", "--pick", "--dry-run"], "Which branch?");
    let [inspect, tree, prompt] = in_turns([file.inspect().job(RUNS), tree, prompt])?;
    fs::remove_file(&file.path)?;
    Ok(vec![
        times("the tree of the navigator, 200 MB", 1.3, None, &tree, "`inspect`", &inspect),
        times("the prompt of `resume --pick`, 200 MB", 1.3, None, &prompt, "`inspect`", &inspect),
    ])
}

/// Many sessions, against reading them.
pub fn sessions(inputs: &Inputs) -> Result<Vec<Row>> {
    let home = inputs.dir().join("home");
    let files = inputs.scaled(2_000);
    for n in 0..files {
        let name = format!("home/.claude/projects/-workspace/{}.jsonl", shapes::lines::id(n as u128 + 1));
        inputs.file(&name, Form::Claude, LINE, |l| {
            shapes::tree(l, &Tree { records: MB / LINE, leaves: 5, rewinds: 0 })
        })?;
    }
    inputs.settle()?;
    let ours = ours(["sessions", "--all", "--json"]).env("HOME", &home);
    let listed: serde_json::Value = serde_json::from_slice(&ours.output()?)?;
    let rows = listed["sessions"].as_array().ok_or("no sessions")?;
    let right = |row: &serde_json::Value| row["leaves"].as_u64() == Some(5);
    if rows.len() != files || !rows.iter().all(right) {
        return Err(format!("{} sessions of {files} are listed, or not all have 5 leaves", rows.len()).into());
    }
    let cat = "find . -name '*.jsonl' -print0 | xargs -0 -P2 -n50 cat >/dev/null";
    let cat = Program::new(["sh", "-c", cat]).dir(&home);
    let [a, b] = in_turns([ours.job(RUNS), cat.job(RUNS)])?;
    fs::remove_dir_all(&home)?;
    let what = "`sessions`, 2,000 files of 1 MB";
    Ok(vec![times(what, 4.0, Some(2.5), &a, "`cat` on two cores", &b)])
}
