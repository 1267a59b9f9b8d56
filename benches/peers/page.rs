//! The tables, as they stand in `docs/performance.md`.

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    Result,
    measure::Program,
    peers::Line,
    rows::{Row, Unit},
    shares::{self, Shares},
    tools::Tools,
};

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";

/// What stands above figures that the machine had no time for.
const BUSY: &str = "**The machine was busy with other work during this run, so these times and their ratios say little**: a
program on two threads waits longer for the other work than one on one thread does. Counts, memory and instructions hold.";

/// What is told of the machine and the run.
pub struct Page {
    machine: Vec<(&'static str, String)>,
    date: String,
    before: String,
    after: String,
    versions: String,
    absent: Vec<String>,
}

impl Page {
    pub fn begin(tools: &Tools) -> Page {
        let named = |(name, version): &(String, String)| format!("{name} {version}");
        Page {
            machine: machine(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            before: load(),
            after: String::new(),
            versions: tools.present.iter().map(named).collect::<Vec<_>>().join(", "),
            absent: tools.absent.iter().map(|(name, why)| format!("{name} ({why})")).collect(),
        }
    }

    pub fn end(&mut self) {
        self.after = load();
    }

    /// Whether others had the cores for a good part of the time. The run itself keeps two busy at most.
    fn busy(&self) -> bool {
        let of = |load: &str, n| load.split(' ').nth(n).and_then(|w: &str| w.parse().ok()).unwrap_or(0.0);
        of(&self.before, 0) > 1.0 || of(&self.after, 2) > 2.5
    }

    /// In a few words, for the picture.
    pub fn told(&self) -> String {
        self.date.clone()
    }

    pub fn text(
        &self,
        rows: &[Row],
        lines: &[Line],
        shares: &[Shares],
    ) -> std::result::Result<String, std::fmt::Error> {
        let mut out = String::new();
        writeln!(out, "{BEGIN}\n")?;
        writeln!(out, "| | |\n|---|---|\n| date | {} |", self.date)?;
        for (name, value) in &self.machine {
            writeln!(out, "| {name} | {value} |")?;
        }
        writeln!(out, "| load average | {} before, {} after |", self.before, self.after)?;
        writeln!(out, "| peers | {} |", self.versions)?;
        let absent = if self.absent.is_empty() { "none".to_owned() } else { self.absent.join("; ") };
        writeln!(out, "| absent | {absent} |\n")?;
        if self.busy() {
            writeln!(out, "{BUSY}\n")?;
        }
        writeln!(out, "## Goals\n")?;
        writeln!(out, "| what | goal | stretch | measured | | least (median) |\n|---|---|---|---|---|---|")?;
        for row in rows {
            let stretch = row.stretch.map_or(String::new(), |s| figure(row.unit, s));
            let met = match (row.met(row.goal), row.stretch.is_some_and(|s| row.met(s))) {
                (true, true) => "met, and the stretch",
                (true, false) => "met",
                (false, _) => "**not met**",
            };
            writeln!(
                out,
                "| {} | {} | {stretch} | {} | {met} | {} |",
                row.what,
                figure(row.unit, row.goal),
                figure(row.unit, row.value),
                row.how
            )?;
        }
        let met = rows.iter().filter(|row| row.met(row.goal)).count();
        writeln!(out, "\n{met} of {} goals are met.\n\n## Peers\n", rows.len())?;
        writeln!(
            out,
            "| file | program | counted | ms, least (median) | MB/s | peak MiB | x ours | runs |\n|---|---|---|---|---|---|---|---|"
        )?;
        for line in lines {
            writeln!(
                out,
                "| {} | {}: {} | {} | {:.1} ({:.1}) | {:.0} | {:.1} | {:.2} | {} |",
                line.input,
                line.name,
                line.note,
                line.counted,
                line.stats.min,
                line.stats.median,
                line.mb * 1000.0 / line.stats.min,
                line.stats.peak as f64 / 1_048_576.0,
                line.ratio,
                line.stats.runs
            )?;
        }
        writeln!(out, "\n## Where the time goes\n")?;
        writeln!(
            out,
            "Instructions of `inspect --json`, 10 MB, by callgrind (an instruction that copies a block counts once a byte):\n"
        )?;
        writeln!(out, "{}\n{END}", shares::table(shares)?)?;
        Ok(out)
    }
}

/// Says on stderr what was measured just now.
pub fn tell(row: &Row) {
    eprintln!(
        "  {}: {} of {}; {}",
        row.what,
        figure(row.unit, row.value),
        figure(row.unit, row.goal),
        row.how
    );
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Times => format!("{value:.2} x"),
        Unit::Faster => format!("{value:.1} x faster"),
        Unit::Ms => format!("{value:.1} ms"),
        Unit::Mib => format!("{value:.1} MiB"),
    }
}

/// Puts the tables in place of those that stand in the page.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let page = fs::read_to_string(path)?;
    let (head, rest) = page.split_once(BEGIN).ok_or("the page has no place for the tables")?;
    let (_, tail) = rest.split_once(END).ok_or("the page has no end of the tables")?;
    Ok(fs::write(path, format!("{head}{}{tail}", text.trim_end()))?)
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// What class of machine it is.
fn machine() -> Vec<(&'static str, String)> {
    let value = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
        line.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let said = |words: &[&str]| Program::new(words).text().unwrap_or_else(|_| "unknown".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kib: f64 = value("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    vec![
        ("cores", format!("{cores} of {}", value("/proc/cpuinfo", "model name"))),
        ("memory", format!("{:.0} GiB", kib / 1_048_576.0)),
        ("system", said(&["uname", "-sr"])),
        ("compiler", said(&["rustc", "--version"])),
        ("commit", said(&["git", "-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])),
        ("command", "`cargo bench --bench peers`".to_owned()),
    ]
}
