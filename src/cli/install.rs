//! `install`, `uninstall`: an agent's own slash commands `/tree` and `/pick`.

mod program;
mod text;

use std::{fmt::Write as _, path::PathBuf, process::ExitCode};

use serde::Serialize;

use super::{
    args::{Global, InstallAgent, InstallArgs},
    host, output,
    text::{clean, pad},
};
use crate::{
    record::Agent,
    refusal::{Code, Refusal, Result},
    store::{
        agents::{claude::ClaudeDirs, qwen::QwenDirs},
        command_file::{self, Done},
        env::Env,
    },
};

/// Writes the commands' files.
pub fn run(global: &Global, args: &InstallArgs) -> Result<ExitCode> {
    let agent = agent(args.whose)?;
    let program = program::program()?;
    let files = text::files(agent, &program, global.redact);
    host::take_signals()?;
    let env = host::environment();
    let done = command_file::install(&config(agent, &env)?, env.home.as_deref(), &files, args.dry_run)?;
    let wrote = done.iter().any(|(_, done)| *done != Done::Unchanged);
    say(global, args, agent, Some(program), &done)?;
    if wrote && !args.dry_run && !global.json {
        output::note(global, "a session that is already open may have to be started again to know them");
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes them.
pub fn undo(global: &Global, args: &InstallArgs) -> Result<ExitCode> {
    let agent = agent(args.whose)?;
    // Which files are ours does not depend on what they run.
    let files = text::files(agent, "offshoot", false);
    host::take_signals()?;
    let done = command_file::uninstall(&config(agent, &host::environment())?, &files, args.dry_run)?;
    say(global, args, agent, None, &done)?;
    Ok(ExitCode::SUCCESS)
}

fn agent(whose: InstallAgent) -> Result<Agent> {
    match whose {
        InstallAgent::Claude => Ok(Agent::Claude),
        InstallAgent::Qwen => Ok(Agent::Qwen),
        InstallAgent::Reasonix => Err(Refusal::new(
            Code::CommandsUnsupported,
            "offshoot has no commands for Reasonix",
        )
        .hint("Reasonix forks at a turn by itself; `offshoot tree` and `offshoot fork` do it from outside")
        .into()),
    }
}

/// The folder of the agent that its user's commands lie in a subfolder of.
fn config(agent: Agent, env: &Env) -> Result<PathBuf> {
    let cwd = host::working_dir()?;
    if agent == Agent::Qwen {
        return Ok(QwenDirs::from_env(env, &cwd)?.home);
    }
    ClaudeDirs::from_env(env, &cwd).map(|dirs| dirs.config).ok_or_else(|| {
        Refusal::new(Code::Usage, "there is no Claude Code home: `HOME` is not set")
            .hint("set `CLAUDE_CONFIG_DIR`")
            .into()
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    schema: &'static str,
    agent: Agent,
    /// What the commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    dry_run: bool,
    commands: Vec<DocumentCommand<'a>>,
}

#[derive(Serialize)]
struct DocumentCommand<'a> {
    command: String,
    path: String,
    done: &'a Done,
}

fn say(
    global: &Global,
    args: &InstallArgs,
    agent: Agent,
    program: Option<String>,
    done: &[(PathBuf, Done)],
) -> Result<()> {
    let command = |path: &PathBuf| format!("/{}", path.file_stem().unwrap_or_default().to_string_lossy());
    if global.json {
        let commands = done
            .iter()
            .map(|(path, done)| DocumentCommand {
                command: command(path),
                path: path.display().to_string(),
                done,
            })
            .collect();
        let schema = "offshoot.install/1";
        return output::json(&Document { schema, agent, program, dry_run: args.dry_run, commands });
    }
    let mut out = String::new();
    for (path, done) in done {
        let what = match (done, args.dry_run) {
            (Done::Created, false) => "installed",
            (Done::Created, true) => "would be installed",
            (Done::Replaced, false) => "updated",
            (Done::Replaced, true) => "would be updated",
            (Done::Unchanged, _) => "already installed",
            (Done::Removed, false) => "removed",
            (Done::Removed, true) => "would be removed",
            (Done::Absent, _) => "not installed",
            (Done::Left, _) => "left alone: not ours",
        };
        let _ = writeln!(out, "{}  {}  {}", command(path), pad(what, 20), clean(&path.display().to_string()));
    }
    if let Some(program) = program {
        let _ = writeln!(out, "they run {}", clean(&program));
    }
    output::text(&out)
}
