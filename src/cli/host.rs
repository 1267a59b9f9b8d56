//! What the pipeline gets from outside: environment, state directory, clock, ids, and the person.

use std::{
    cell::RefCell,
    collections::HashSet,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    args::Global,
    output,
    prompt::{self, Follow, PromptOptions},
};
use crate::{
    record::RecordId,
    refusal::{Code, Error, Refusal, Result},
    resume::{ContinuedChoice, Host, Person},
    store::{
        agents::qwen::{QwenDirs, place_of},
        env::Env,
        git, process, signals,
        state::StateDir,
    },
    topology::{Branch, ContinuedIn, Inspection},
};

/// The process environment, read once. Without a `HOME` the user's home is what the system knows it by, as it is to the
/// agents' clients.
pub fn environment() -> Env {
    // The standard library takes an empty `HOME` at its word.
    let known = || std::env::home_dir().filter(|home| home.is_absolute()).or_else(process::home);
    Env::read(|name| std::env::var_os(name)).or_home(known)
}

/// The working directory without symlinks, as clients record it.
pub fn working_dir() -> Result<PathBuf> {
    std::env::current_dir().map_err(Error::io("find", Path::new("the working directory")))
}

/// The state directory of this call: `--state-dir` (or its variable), else the default.
///
/// # Errors
/// `usage`, `unsafe-path`, `io`.
pub fn state_dir(global: &Global, env: &Env) -> Result<StateDir> {
    let root = match &global.state_dir {
        Some(dir) => dir.clone(),
        None => StateDir::default_root(env)?,
    };
    StateDir::open(root)
}

/// From here on a signal gives back what is held before it ends the process.
///
/// # Errors
/// `io`.
pub fn take_signals() -> Result<()> {
    signals::install().map_err(Error::io("take signals of", Path::new("this process")))
}

/// A duration of the command line.
///
/// # Errors
/// `usage`.
pub fn duration(flag: &str, text: &str) -> Result<std::time::Duration> {
    crate::policy::duration::parse(text).map_err(|why| {
        Refusal::new(Code::Usage, format!("`{flag} {text}`: {why}"))
            .hint("a number and a unit: `500ms`, `10s`, `2m`, `1h`")
            .into()
    })
}

/// Everything that outlives one call of the pipeline.
pub struct Outside {
    state: StateDir,
    qwen: QwenDirs,
    person: Terminal,
    global: Global,
    /// What was noted: the pipeline looks at the same things before it records and again before it writes.
    noted: RefCell<HashSet<String>>,
}

impl Outside {
    /// Opens the state directory and finds the agents' folders. `transcript` is what the call is about, if it is
    /// about one.
    ///
    /// # Errors
    /// `usage`, `unsafe-path`, `io`.
    pub fn open(global: &Global, transcript: Option<&Path>) -> Result<Outside> {
        let env = environment();
        let state = state_dir(global, &env)?;
        let qwen = match QwenDirs::from_env(&env, &working_dir()?) {
            Ok(dirs) => dirs,
            // Without a home the transcript itself says where its agent keeps things.
            Err(error) => match transcript.and_then(place_of) {
                Some(place) => QwenDirs { home: place.base.clone(), runtime: place.base, notes: Vec::new() },
                None => return Err(error),
            },
        };
        qwen.notes.iter().for_each(|note| output::note(global, note));
        Ok(Outside {
            state,
            qwen,
            person: Terminal(PromptOptions::new(global)),
            global: global.clone(),
            noted: RefCell::default(),
        })
    }

    /// The state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Runs `work` with the host that the pipeline wants.
    ///
    /// # Errors
    /// What `work` says.
    pub fn with_host<T>(&mut self, work: impl FnOnce(&mut Host<'_>) -> Result<T>) -> Result<T> {
        let (global, noted) = (&self.global, &self.noted);
        let mut host = Host {
            state: &self.state,
            qwen: &self.qwen,
            clock: &Timestamp::now,
            new_id: &|| uuid::Uuid::new_v4().to_string(),
            who: process::who(),
            person: &mut self.person,
            git_branch: &|cwd| git::current_branch(Path::new(cwd)),
            note: &|line| {
                if noted.borrow_mut().insert(line.to_owned()) {
                    output::note(global, line);
                }
            },
        };
        work(&mut host)
    }
}

/// The person at the terminal.
struct Terminal(PromptOptions);

impl Person for Terminal {
    fn require_terminal(&self) -> Result<()> {
        prompt::require_terminal()
    }

    fn pick(&mut self, inspection: &Inspection, among: Option<&[RecordId]>) -> Result<RecordId> {
        prompt::pick_leaf(inspection, among, Timestamp::now(), &self.0)
    }

    fn continued(&mut self, branch: &Branch, child: &ContinuedIn) -> Result<ContinuedChoice> {
        Ok(match prompt::continued(&branch.leaf_uuid, child, &self.0)? {
            Follow::FollowChild => ContinuedChoice::Follow,
            Follow::ForkAgain => ContinuedChoice::ForkAgain,
        })
    }
}
