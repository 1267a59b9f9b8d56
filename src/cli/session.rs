//! `SESSION`: from what was typed to a transcript that has been read.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicU64,
};

use super::{
    args::{AgentArg, Global},
    host, output, prompt,
};
use crate::{
    dialect::{self, Client, Dialect},
    record::Agent,
    refusal::{Code, Error, Refusal, Result},
    store::{
        agents::{qwen::client_of, reasonix},
        env::Env,
        lease,
        sessions::{self, SessionContext, SessionRef},
        snapshot::{self, Snapshot},
    },
    topology::{self, Inspection},
    transcript::Transcript,
};

/// A transcript that was read for looking at it: no lease was taken.
pub struct Opened {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Its bytes and records.
    pub snapshot: Snapshot,
    /// The rules of the agent that wrote it.
    pub dialect: &'static dyn Dialect,
    /// Which client is simulated.
    pub client: Client,
}

impl Opened {
    /// Inspects it, and fills in the path and the digest.
    ///
    /// # Errors
    /// `io`.
    pub fn inspect(&self) -> Result<Inspection> {
        let t = &self.snapshot.transcript;
        let mut inspection = topology::inspect(t, &self.snapshot, self.dialect, &self.client)
            .map_err(Error::io("read", &self.path))?;
        inspection.transcript = self.path.display().to_string();
        inspection.snapshot.digest.clone_from(&self.snapshot.digest);
        Ok(inspection)
    }
}

/// Whether the snapshot's digest is computed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// Yes.
    Compute,
    /// No.
    Skip,
}

/// Opens the session that was named.
///
/// # Errors
/// `session-unknown`, `session-ambiguous`, `agent-unknown`, `unsafe-path`, `io`.
pub fn open(global: &Global, session: Option<&str>, digest: Digest) -> Result<Opened> {
    let found = Surroundings::new(global)?.resolve(session)?;
    open_at(global, found.path, digest)
}

/// Opens a transcript that was found.
///
/// # Errors
/// `agent-unknown`, `unsafe-path`, `io`.
pub fn open_at(global: &Global, path: PathBuf, digest: Digest) -> Result<Opened> {
    let dialect = dialect::of(agent(global.agent, &path)?);
    let snapshot = Snapshot::take(&path, dialect, digest == Digest::Compute)?;
    let opened = opened(global, path, dialect, snapshot);
    warn_of_client(global, &opened);
    Ok(opened)
}

/// [`open_at`] without the sessions that are related to it, and without a digest.
///
/// # Errors
/// As for [`open_at`].
pub fn open_alone_at(global: &Global, path: PathBuf) -> Result<Opened> {
    let dialect = dialect::of(agent(global.agent, &path)?);
    let snapshot = Snapshot::take_alone(&path, dialect, false)?;
    let opened = opened(global, path, dialect, snapshot);
    warn_of_client(global, &opened);
    Ok(opened)
}

/// [`open`] without the sessions that are related to the one that was named, and without a digest.
///
/// # Errors
/// As for [`open`].
pub fn open_alone(global: &Global, session: Option<&str>) -> Result<Opened> {
    open_alone_at(global, Surroundings::new(global)?.resolve(session)?.path)
}

/// [`open_at`] for who waits for it, without a word: `read` grows by the bytes that have been read. What there is to
/// say of the client, [`warn_of_client`] says.
///
/// # Errors
/// As for [`open_at`].
pub fn open_watched(global: &Global, path: PathBuf, digest: Digest, read: &AtomicU64) -> Result<Opened> {
    let dialect = dialect::of(agent(global.agent, &path)?);
    let snapshot = Snapshot::take_watched(&path, dialect, digest == Digest::Compute, read)?;
    Ok(opened(global, path, dialect, snapshot))
}

fn opened(global: &Global, path: PathBuf, dialect: &'static dyn Dialect, snapshot: Snapshot) -> Opened {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.clone());
    let client = client_of(&canonical, &snapshot.transcript, global.client_version.clone());
    Opened { path, snapshot, dialect, client }
}

/// Warns if the client that wrote a transcript is newer than the rules that are known.
pub fn warn_of_client(global: &Global, opened: &Opened) {
    newer_client(global, opened.dialect, &opened.client, &opened.snapshot.transcript);
}

/// What [`warn_of_client`] warns of; none if there is nothing.
pub fn newer_client_of(opened: &Opened) -> Option<String> {
    newer_than_known(opened.dialect, &opened.client, &opened.snapshot.transcript)
}

/// The id of a session, by its first records; none where they have none, or cannot be read.
pub fn id_at(global: &Global, path: &Path) -> Option<String> {
    let dialect = dialect::of(agent(global.agent, path).ok()?);
    snapshot::head(path, dialect).ok()?.session_ids.into_iter().next()
}

/// What the pipeline is told of a transcript that it is going to read under its lease.
pub struct Glance {
    /// The canonical path; its last component is no symlink.
    pub path: PathBuf,
    /// Whose it is.
    pub agent: Agent,
    /// Which client is simulated.
    pub client: Client,
    /// The working directory of its first record.
    pub first_cwd: Option<PathBuf>,
}

/// Looks at the beginning of a session that was named, or of one that was found.
///
/// # Errors
/// As for [`open`].
pub fn glance(global: &Global, session: Option<&str>, found: Option<PathBuf>) -> Result<Glance> {
    let path = match found {
        Some(path) => path,
        None => Surroundings::new(global)?.resolve(session)?.path,
    };
    let agent = agent(global.agent, &path)?;
    let dialect = dialect::of(agent);
    let head = snapshot::head(&path, dialect)?;
    let path = lease::canonical(&path)?;
    let client = client_of(&path, &head, global.client_version.clone());
    newer_client(global, dialect, &client, &head);
    Ok(Glance { path, agent, client, first_cwd: head.first_cwd.map(PathBuf::from) })
}

/// A client that is newer than the rules we know gets the newest known ones, which is said.
fn newer_client(global: &Global, dialect: &dyn Dialect, client: &Client, t: &Transcript) {
    if let Some(warning) = newer_than_known(dialect, client, t) {
        output::warn(global, &warning);
    }
}

fn newer_than_known(dialect: &dyn Dialect, client: &Client, t: &Transcript) -> Option<String> {
    let version = client.version.as_ref().or(t.client_version.as_ref());
    version.filter(|v| dialect.is_newer_than_known(v)).map(|version| {
        format!(
            "the client is {version}, newer than {}, the newest whose rules are known; those are used",
            dialect.known_version()
        )
    })
}

/// What the process was started in.
pub struct Surroundings {
    /// Its environment.
    pub env: Env,
    /// Its working directory, without symlinks: the current project.
    pub cwd: PathBuf,
    /// Whether stdin and stderr are a terminal.
    pub interactive: bool,
    /// Whose sessions are looked for, if it was said.
    pub agent: Option<Agent>,
}

impl Surroundings {
    /// Looks around.
    ///
    /// # Errors
    /// `io` if there is no working directory any more.
    pub fn new(global: &Global) -> Result<Surroundings> {
        let dot = Path::new(".");
        Ok(Surroundings {
            env: host::environment(),
            cwd: dot.canonicalize().map_err(Error::io("resolve", dot))?,
            interactive: prompt::require_terminal().is_ok(),
            agent: global.agent.agent(),
        })
    }

    /// For `store::sessions`.
    pub fn sessions(&self) -> SessionContext<'_> {
        SessionContext { env: &self.env, cwd: &self.cwd, agent: self.agent, interactive: self.interactive }
    }

    /// The session that was named; without a name, the newest one of this project if a person sees that.
    ///
    /// # Errors
    /// `session-unknown`, `session-ambiguous`, `unsafe-path`, `io`.
    pub fn resolve(&self, session: Option<&str>) -> Result<SessionRef> {
        sessions::resolve(session, &self.sessions())
    }
}

/// The agent that was named; else by content, by folder only where the content tells nothing: to read a transcript by
/// another agent's rules would give wrong leaves.
///
/// # Errors
/// `agent-unknown`, `unsafe-path`, `io`.
pub fn agent(arg: AgentArg, path: &Path) -> Result<Agent> {
    match arg {
        AgentArg::Claude | AgentArg::Qwen if reasonix::is_session_dir(path) => {
            Err(unknown(format!("`{}` is a session folder of Reasonix", path.display())))
        }
        AgentArg::Claude => Ok(Agent::Claude),
        AgentArg::Qwen => Ok(Agent::Qwen),
        AgentArg::Auto => match snapshot::agent_of(path)? {
            Some(agent) => Ok(agent),
            None => Err(reasonix::refuse_older(path)?.unwrap_or_else(|| {
                unknown(format!("`{}` holds no record of an agent that is known", path.display()))
            })),
        },
        AgentArg::Reasonix if reasonix::is_session_dir(path) => Ok(Agent::Reasonix),
        AgentArg::Reasonix if path.is_dir() => Err(no_folder(path)),
        AgentArg::Reasonix => Err(reasonix::refuse_older(path)?.unwrap_or_else(|| no_folder(path))),
    }
}

fn no_folder(path: &Path) -> Error {
    unknown(format!("`{}` is no session folder of Reasonix", path.display()))
}

fn unknown(message: String) -> Error {
    Refusal::new(Code::AgentUnknown, message)
        .hint("with `--agent qwen` or `--agent claude` a file is read by that agent's rules, whatever it looks like")
        .into()
}
