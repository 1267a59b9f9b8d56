//! `slash`: what the commands that `install` gives an agent run. An agent's shell tool has no terminal, so inside tmux a
//! popup asks, and elsewhere the branches are printed with ids to answer by. Only forks are made, since the agent is alive
//! on the session; the agent cannot be moved to another one from outside, so what resumes the fork is printed.

mod popup;
mod said;

use std::{process::ExitCode, time::Duration};

use serde_json::Value;

pub use self::popup::{RUNNER, run_in_popup};
use self::{
    popup::{Ended, Shown},
    said::{About, Name, QUOTE, Said, resume_line},
};
use super::{
    args::{Global, SlashCommand},
    fork, host, output,
    session::{self, Digest, Glance, Surroundings},
    text::clean,
    tui::{Doc, print},
};
use crate::{
    record::{Agent, may_abbreviate},
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    resume::{ForkAt, ForkRequest, Forked},
};

/// What is printed goes into a model's context: no more lines than that.
const MOST_LINES: usize = 80;
/// And no wider.
const COLUMNS: usize = 110;
/// Another call of the same fork is waited for so long.
const WAIT: Duration = Duration::from_secs(10);

/// Runs it.
pub fn run(global: &Global, command: &SlashCommand) -> Result<ExitCode> {
    let (name, session, id) = match command {
        SlashCommand::Tree { session } => (Name::Tree, session, None),
        SlashCommand::Pick { id, session } => (Name::Pick, session, id.as_deref()),
    };
    let (seen, other) = find(global, session.as_deref())?;
    let call = Call { global, name, seen, other };
    match id {
        Some(id) => call.fork(ForkAt::Record(id.to_owned())),
        None => call.ask(),
    }
}

/// The session that was named, else the one that the agent says it runs, else the only one of the project; and how an
/// answer has to name it, where it is not the one that the agent runs.
///
/// The permission to run this may have been given in advance, so a session is named by its id and by nothing else: a
/// path could lead anywhere.
fn find(global: &Global, named: Option<&str>) -> Result<(Glance, Option<String>)> {
    let around = Surroundings::new(global)?;
    let told = match around.agent {
        Some(Agent::Claude) => around.env.claude_session.clone(),
        Some(Agent::Qwen) => around.env.qwen_session.clone(),
        _ => None,
    };
    let id = named.map(str::to_owned).or_else(|| told.clone());
    if let Some(id) = &id {
        let plain = id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !plain || !may_abbreviate(id) {
            return Err(Refusal::new(Code::Usage, format!("`{id}` is no id of a session"))
                .hint("an id, or the first 4 or more characters of one")
                .into());
        }
    }
    // Nobody here sees which session was taken.
    let around = Surroundings { interactive: false, ..around };
    let found = around.resolve(id.as_deref()).map_err(|error| match error {
        Error::Refusal(refusal) if refusal.code == Code::SessionUnknown && named.is_none() => {
            refusal.hint("the agent may not have written anything of this session yet").into()
        }
        error => error,
    })?;
    let other = found.session_id.filter(|id| named.is_some() && Some(id) != told.as_ref());
    Ok((session::glance(global, None, Some(found.path))?, other))
}

/// One call, on one session.
struct Call<'a> {
    global: &'a Global,
    name: Name,
    seen: Glance,
    other: Option<String>,
}

impl Call<'_> {
    /// Lets the person choose, in a popup or by an id in an answer.
    fn ask(&self) -> Result<ExitCode> {
        let env = host::environment();
        let wanted = match self.name {
            Name::Tree => self.navigator(),
            Name::Pick => self.prompt(),
        };
        match popup::show(&env, wanted, self.other.as_deref())? {
            Shown::Ended(ended) => self.chosen(&ended),
            Shown::Closed => self.say(&Said::Closed),
            Shown::Not(why) => self.list(why),
        }
    }

    /// The navigator as a command that prints what was chosen.
    fn navigator(&self) -> Option<Vec<String>> {
        let inside = format!("{}, which runs this command", named(self.seen.agent));
        let mut command =
            vec!["tree".to_owned(), self.path()?, "--emit".to_owned(), "--inside".to_owned(), inside];
        self.add_options(&mut command)?;
        Some(command)
    }

    /// The prompt, which writes nothing either.
    fn prompt(&self) -> Option<Vec<String>> {
        let mut command = vec!["resume".to_owned(), self.path()?];
        command.extend(["--pick", "--dry-run", "--no-follow", "--seed", "fork", "--json"].map(str::to_owned));
        self.add_options(&mut command)?;
        Some(command)
    }

    fn path(&self) -> Option<String> {
        self.seen.path.to_str().map(str::to_owned)
    }

    fn add_options(&self, command: &mut Vec<String>) -> Option<()> {
        let global = self.global;
        command.extend(["--agent".to_owned(), self.seen.agent.to_string()]);
        if let Some(version) = &global.client_version {
            command.extend(["--client-version".to_owned(), version.clone()]);
        }
        if let Some(dir) = &global.state_dir {
            command.extend(["--state-dir".to_owned(), dir.to_str()?.to_owned()]);
        }
        command.extend(global.redact.then(|| "--redact".to_owned()));
        Some(())
    }

    /// What the popup ended with: a place, nothing, or a reason why not.
    fn chosen(&self, ended: &Ended) -> Result<ExitCode> {
        let said: Value = serde_json::from_str(&ended.stdout).unwrap_or(Value::Null);
        let text = |key: &str| said[key].as_str().map(str::to_owned);
        if let Some(refused) = said.get("refusal").or(said.get("fault")) {
            if refused["code"] == Code::PromptCancelled.as_str() {
                return self.say(&Said::Cancelled);
            }
            return self.pass_on(&said, refused, ended);
        }
        let turn = text("turn_id").map(ForkAt::Turn);
        let record = text("node_uuid").or(text("leafUuid")).map(ForkAt::Record);
        match (text("action").as_deref(), turn.or(record), ended.status) {
            (None | Some("fork"), Some(at), Some(0)) => self.fork(at),
            (Some("cancel"), ..) | (.., Some(130)) => self.say(&Said::Cancelled),
            (_, _, status) => {
                let status = status.map_or("by a signal".to_owned(), |status| format!("with {status}"));
                Err(Fault::new(FaultCode::Io, format!("the popup ended {status}, without a choice")).into())
            }
        }
    }

    /// What was refused in the popup is refused here.
    fn pass_on(&self, said: &Value, refused: &Value, ended: &Ended) -> Result<ExitCode> {
        if self.global.json {
            output::json(said)?;
        } else {
            let line = |key: &str| refused[key].as_str().map(clean);
            output::stderr_line(&format!("error: {}", line("message").unwrap_or_default()));
            line("hint").into_iter().for_each(|hint| output::stderr_line(&format!("\nhint: {hint}")));
        }
        Ok(ended
            .status
            .and_then(|status| u8::try_from(status).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from))
    }

    fn fork(&self, at: ForkAt) -> Result<ExitCode> {
        host::take_signals()?;
        let seen = session::glance(self.global, None, Some(self.seen.path.clone()))?;
        let forked = fork::make(self.global, seen, |target, client| ForkRequest {
            target,
            at,
            expect: None,
            operation_id: None,
            new: false,
            wait: WAIT,
            client,
            // The record stands where it stood, or is not found.
            seen: None,
        })?;
        forked.warnings.iter().for_each(|warning| output::warn(self.global, warning));
        let resume = resume_line(&forked.command, self.seen.first_cwd.as_deref());
        // What is for the ledger stays there.
        self.say(&Said::Forked { fork: Box::new(Forked { bytes: None, ..forked }), resume })
    }

    fn list(&self, note: Option<String>) -> Result<ExitCode> {
        let opened = session::open_at(self.global, self.seen.path.clone(), Digest::Skip)?;
        let doc = Doc::of(self.global, opened)?;
        let part = print::part(&doc, COLUMNS - QUOTE.len(), MOST_LINES, self.name == Name::Pick)
            .map_err(Error::io("read", &doc.opened.path))?;
        let branches = doc.inspection.branches.len();
        self.say(&Said::Listed { part, branches, note })
    }

    fn say(&self, said: &Said) -> Result<ExitCode> {
        let transcript = self.seen.path.display().to_string();
        let about = About { name: self.name, agent: self.seen.agent, transcript, other: self.other.clone() };
        if self.global.json {
            output::json(&said.document(&about))?;
        } else {
            output::text(&said.text(&about))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn named(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude => "Claude Code",
        Agent::Qwen => "Qwen Code",
        Agent::Reasonix => "Reasonix",
    }
}
