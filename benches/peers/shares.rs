//! What the instructions of `inspect` are spent on, counted by callgrind: the same on a busy machine.

use std::{fmt::Write as _, fs};

use crate::{Result, inputs::Inputs, measure::Program, shapes::Form};

/// Parts of the program by the beginnings of the names of their functions; the first that fits counts.
const PARTS: &[(&str, &[&str])] = &[
    ("where strings and lines may end", &["offshoot::dialect::jsonl::marked::mark"]),
    ("cutting JSON into members", &["offshoot::dialect::jsonl::"]),
    ("what the client makes of a record", &["offshoot::dialect::"]),
    ("index of ids and records", &["offshoot::transcript::", "hashbrown::"]),
    ("topology, summaries", &["offshoot::topology::"]),
    ("line ends, characters", &["memchr::", "core::str::", "offshoot::record::is_hazard"]),
    ("output", &["offshoot::cli::", "serde_json::ser::"]),
    ("decoding of texts", &["serde_json::", "serde::"]),
    ("copies and memory (libc)", &["__mem", "_int_", "malloc", "free", "realloc", "calloc", "unlink_chunk"]),
];

/// Of one file: instructions a byte, and the share of each part; none if callgrind is not there.
pub struct Shares {
    pub form: Form,
    each: f64,
    parts: Vec<(&'static str, f64)>,
}

/// Counts, for a file of either form.
pub fn count(inputs: &Inputs) -> Result<Vec<Shares>> {
    let mut all = Vec::new();
    if Program::new(["valgrind", "--version"]).output().is_err() {
        return Ok(all);
    }
    for form in [Form::Qwen, Form::Claude] {
        let file = inputs.session("shares.jsonl", form, 10_000_000)?;
        let out = inputs.dir().join("shares.out");
        let counted = format!("--callgrind-out-file={}", out.display());
        let program = env!("CARGO_BIN_EXE_offshoot");
        Program::new(["valgrind", "--quiet", "--tool=callgrind", &counted, program, "--state-dir"])
            .and([crate::screen::NO_STATE, "inspect", "--json", &file.name()])
            .sample()?;
        let report =
            Program::new(["callgrind_annotate", "--threshold=100", "--auto=no"]).and([&out]).text()?;
        all.push(Shares::of(form, &report, file.bytes)?);
        fs::remove_file(&file.path)?;
    }
    Ok(all)
}

impl Shares {
    fn of(form: Form, report: &str, bytes: u64) -> Result<Shares> {
        let mut parts: Vec<(&'static str, f64)> = PARTS.iter().map(|&(part, _)| (part, 0.0)).collect();
        parts.push(("everything else", 0.0));
        let mut total = 0.0;
        for line in report.lines() {
            let Some((count, rest)) = line.trim_start().split_once(' ') else { continue };
            // `count (share) file:function [object]`
            let Ok(count) = count.replace(',', "").parse::<f64>() else { continue };
            let Some((_, place)) = rest.split_once("%)") else { continue };
            let Some((_, function)) = place.trim_start().split_once(':') else { continue };
            let function = function.trim_start_matches('<').trim_start_matches("&");
            let fits = |names: &&[&str]| names.iter().any(|name| function.starts_with(name));
            let part = PARTS.iter().position(|(_, names)| fits(names)).unwrap_or(PARTS.len());
            parts[part].1 += count;
            total += count;
        }
        if total == 0.0 {
            return Err("callgrind counted nothing that can be read".into());
        }
        parts.iter_mut().for_each(|(_, count)| *count *= 100.0 / total);
        Ok(Shares { form, each: total / bytes as f64, parts })
    }
}

/// As a table.
pub fn table(all: &[Shares]) -> std::result::Result<String, std::fmt::Error> {
    let mut out = String::new();
    let [first, ..] = all else {
        writeln!(out, "valgrind is absent, so nothing was counted.")?;
        return Ok(out);
    };
    let of = |cell: &dyn Fn(&Shares) -> String| all.iter().map(cell).collect::<Vec<_>>().join(" | ");
    writeln!(out, "| part | {} |", of(&|s| format!("{:?}", s.form)))?;
    writeln!(out, "|---|{}", "---|".repeat(all.len()))?;
    for (n, (part, _)) in first.parts.iter().enumerate() {
        writeln!(out, "| {part} | {} |", of(&|s| format!("{:.0} %", s.parts[n].1)))?;
    }
    writeln!(out, "| instructions a byte of the file | {} |", of(&|s| format!("{:.1}", s.each)))?;
    Ok(out)
}
