//! The command line: arguments in, stdout for data, stderr for messages. The only module that prints.
//!
//! One file a command, each with `run(&Global, args) -> Result<ExitCode>`; this file only hands over.

use std::{
    ffi::{OsStr, OsString},
    process::ExitCode,
};

use clap::Parser;

use crate::{
    refusal::{Code, Refusal, Result},
    store::{
        faults::{self, FaultPlan},
        signals,
    },
};
use args::{Cli, Command, Global};

pub mod args;
mod audit;
mod chain;
pub mod completions;
mod demo;
mod diff;
mod export;
mod find;
mod fork;
mod graph;
mod host;
mod inspect;
mod install;
mod label;
mod leaf;
pub mod man;
pub mod output;
pub mod policy;
mod probe;
pub mod prompt;
mod redact;
mod render;
mod resume;
pub mod session;
mod sessions;
pub mod slash;
mod targets;
pub mod text;
mod tree;
mod truncate;
pub mod tui;
mod undo;
mod watch;

/// Runs the program with these arguments, the first being its own name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(e) => return usage(&args, &e),
    };
    if let Some(plan) = host::environment().fault_point.as_deref().and_then(FaultPlan::parse) {
        faults::set(plan);
    }
    // Whatever a command writes may be over the limit, its stdout included. Without the handler all else goes on.
    let _ = signals::outlive_file_limit();
    // With a command to start, and with `--write`, stdout belongs to somebody else.
    let stdout_is_taken = matches!(&cli.command, Command::Resume(r) if r.write || !r.command.is_empty());
    let result = dispatch(&cli.global, &cli.command);
    signals::leave_to_exit();
    match result {
        Ok(code) => code,
        Err(e) if output::closed_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            output::report(&e, &cli.global, stdout_is_taken);
            ExitCode::from(e.exit_code())
        }
    }
}

fn dispatch(global: &Global, command: &Command) -> Result<ExitCode> {
    match command {
        Command::Inspect(args) => inspect::run(global, args),
        Command::Chain(args) => chain::run(global, args),
        Command::Find(args) => find::run(global, args),
        Command::Tree(args) => tree::run(global, args),
        Command::Targets(args) => targets::run(global, args),
        Command::Fork(args) => fork::run(global, args, None),
        Command::Resume(args) => resume::run(global, args, None),
        Command::Diff(args) => diff::run(global, args),
        Command::Export(args) => export::run(global, args),
        Command::Watch(args) => watch::run(global, args),
        Command::Graph(args) => graph::run(global, args),
        Command::Redact(args) => redact::run(global, args),
        Command::Label(args) => label::run(global, args),
        Command::Undo(args) => undo::run(global, args),
        Command::Truncate(args) => truncate::run(global, args, None),
        Command::Restore(args) => truncate::restore(global, args),
        Command::Recover => undo::recover(global),
        Command::Audit(command) => audit::run(global, command),
        Command::Policy(command) => policy::run(global, command),
        Command::Sessions(args) => sessions::run(global, args),
        Command::Demo(args) => demo::run(global, args),
        Command::Probe(args) => probe::run(global, args),
        Command::Install(args) => install::run(global, args),
        Command::Uninstall(args) => install::undo(global, args),
        Command::Slash(command) => slash::run(global, command),
        Command::Popup { folder } => slash::run_in_popup(folder),
        Command::Gate { pipe, command } => {
            crate::store::command::wait_at_gate(pipe, command).map(|()| ExitCode::FAILURE)
        }
        Command::Completions { shell } => {
            output::bytes(&completions::script(*shell)).map(|()| ExitCode::SUCCESS)
        }
        Command::Man => {
            let page = man::page().map_err(output::stdout_fault)?;
            output::bytes(&page).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Help and version are data; anything else is a mistake on the command line, told on stderr and, where `--json` was
/// among the arguments, as a refusal on stdout.
fn usage(args: &[OsString], error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match output::text(&error.render().to_string()) {
            Err(e) if !output::closed_pipe(&e) => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        };
    }
    let mut own = args.iter().take_while(|a| *a != "--");
    if own.any(|a| a == OsStr::new("--json")) {
        let message = error.render().to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let _ = output::json(&Refusal::new(Code::Usage, first).to_json());
    } else {
        let rendered = error.render().to_string();
        rendered.trim_end().lines().for_each(|line| output::stderr_line(&text::clean(line)));
    }
    ExitCode::from(Code::Usage.exit_code())
}
