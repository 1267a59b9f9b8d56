//! `probe`: does the client that is installed still behave as this version believes?

use std::{fmt::Write as _, process::ExitCode};

use super::{
    args::{Global, ProbeArgs, ProbedAgent},
    host, output,
    text::clean,
};
use crate::{
    probe::{self, Options, Outcome, Report},
    record::Agent,
    refusal::Result,
};

/// As for every check that found something.
const FOUND: u8 = 5;

/// Runs it.
pub fn run(global: &Global, args: &ProbeArgs) -> Result<ExitCode> {
    let agent = match args.whose {
        ProbedAgent::Claude => Agent::Claude,
        ProbedAgent::Qwen => Agent::Qwen,
    };
    host::take_signals()?;
    let report = probe::probe(&Options {
        agent,
        client: args.client.clone(),
        path: std::env::var_os("PATH"),
        limit: host::duration("--timeout", &args.timeout)?,
    })?;
    if global.json {
        output::json(&report)?;
    } else {
        output::text(&text(&report))?;
    }
    Ok(if report.all_hold() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    for finding in &report.behaviours {
        let outcome = match finding.outcome {
            Outcome::Holds => "holds",
            Outcome::DoesNotHold => "does not hold",
            Outcome::Unchecked => "could not be checked",
        };
        let _ = writeln!(out, "{outcome}: {} ({})", finding.believed, clean(&finding.seen));
    }
    out
}
