//! Ours and the peers over one session of each form: they must agree on what they count, then they are timed.

use std::fs;

use crate::{
    Result,
    inputs::{Inputs, SESSION, ours},
    measure::{Job, Program, Stats, in_turns_of},
    rows::{RUNS, Row, Unit},
    shapes::Form,
    tools::{Peer, Tools},
};

/// What one program took for one file.
pub struct Line {
    pub input: String,
    pub name: String,
    pub note: String,
    pub counted: String,
    pub mb: f64,
    pub stats: Stats,
    /// As many times ours.
    pub ratio: f64,
}

/// Peers that take seconds are run less often.
const SLOW: usize = 3;

/// The table of peers, and the one goal that is about one of them.
pub fn table(inputs: &Inputs, tools: &Tools) -> Result<(Vec<Line>, Vec<Row>)> {
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for form in [Form::Qwen, Form::Claude] {
        let config = inputs.dir().join("config");
        let name = format!("config/projects/-workspace/{SESSION}.jsonl");
        let file = inputs.session(&name, form, 200_000_000)?;
        inputs.settle()?;
        let counted = file.counted()?;
        let told = format!("{} records, {} leaves", counted.records, counted.leaves);
        let mut jobs: Vec<Job<'_>> = Vec::new();
        let mut about = Vec::new();
        let mut add = |name: &str, note: &str, counted: String, program: &Program, runs| {
            about.push((name.to_owned(), note.to_owned(), counted));
            jobs.push(program.job(runs));
        };
        add("offshoot", "`inspect --json`", told.clone(), &file.inspect(), RUNS);
        let digest = ours(["inspect", "--json", "--digest", &file.name()]);
        add("offshoot", "`inspect --json --digest`", told, &digest, RUNS);
        let wc = Program::new(["wc", "-l", &file.name()]);
        let (newlines, _) = Peer::counts(&wc)?;
        agree("wc", newlines, counted.records)?;
        add("wc", "`wc -l`", format!("{newlines} lines"), &wc, RUNS);
        for peer in tools.readers() {
            let (records, leaves) = Peer::counts(&peer.count(&file.name(), peer.leaves))?;
            agree(peer.name, records, counted.records)?;
            leaves.map_or(Ok(()), |n| agree(peer.name, n, counted.leaves))?;
            let leaves = leaves.map_or(String::new(), |n| format!(", {n} leaves"));
            let runs = if matches!(peer.name, "jq" | "node") { SLOW } else { RUNS };
            let counted = format!("{records} records{leaves}");
            add(peer.name, peer.note, counted, &peer.count(&file.name(), false), runs);
        }
        for peer in tools.session_readers().iter().filter(|_| form == Form::Claude) {
            let (what, program, expected) = match peer.name {
                "cctree" => ("records", peer.count(&file.name(), false), counted.records),
                _ => ("messages of its branch", peer.count(SESSION, false), counted.history),
            };
            let program = program.env("CLAUDE_CONFIG_DIR", &config);
            let (n, _) = Peer::counts(&program)?;
            agree(peer.name, n, expected)?;
            add(peer.name, peer.note, format!("{n} {what}"), &program, SLOW);
        }
        let all = in_turns_of(jobs)?;
        let best = all[0].min;
        for ((name, note, counted), stats) in about.into_iter().zip(all) {
            if name == "python3" {
                rows.push(Row {
                    what: format!("{form:?}: against a python `json` loop, 200 MB"),
                    unit: Unit::Faster,
                    goal: 8.0,
                    stretch: Some(12.0),
                    value: stats.min / best,
                    how: format!("{best:.1} ms : {:.0} ms ({:.0})", stats.min, stats.median),
                });
            }
            let (input, mb) = (format!("{form:?}, {:.0} MB", file.mb()), file.mb());
            lines.push(Line { input, name, note, counted, mb, ratio: stats.min / best, stats });
        }
        fs::remove_dir_all(&config)?;
    }
    Ok((lines, rows))
}

fn agree(name: &str, theirs: u64, ours: u64) -> Result<()> {
    match theirs == ours {
        true => Ok(()),
        false => Err(format!("{name} counts {theirs}, ours {ours}").into()),
    }
}
