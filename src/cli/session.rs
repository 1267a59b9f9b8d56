//! `SESSION`: from what was typed to a transcript that has been read.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::{AgentArg, Global};
use crate::{
    dialect::{self, Client, Dialect},
    record::Agent,
    refusal::{Code, Error, Refusal, Result},
    store::snapshot::Snapshot,
    topology::{self, Inspection},
    transcript::Source,
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
    let path = locate(session)?;
    let dialect = dialect::of(agent(global.agent)?);
    let snapshot = Snapshot::take(&path, dialect, digest == Digest::Compute)?;
    if global.agent == AgentArg::Auto {
        recognise(&path, &snapshot)?;
    }
    let client = Client { version: global.client_version.clone(), project: None, runtime_dir: None };
    Ok(Opened { path, snapshot, dialect, client })
}

/// The file of the session that was named: so far, an existing path.
fn locate(session: Option<&str>) -> Result<PathBuf> {
    let Some(session) = session else {
        return Err(Refusal::new(Code::SessionUnknown, "no session was named")
            .hint("name a transcript file")
            .into());
    };
    let path = Path::new(session);
    // A dangling symlink is there too, and is refused for what it is.
    if path.symlink_metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Err(Refusal::new(Code::SessionUnknown, format!("there is no session `{session}`"))
            .hint("name a transcript file that exists")
            .detail(serde_json::json!({"session": session}))
            .into());
    }
    Ok(path.to_owned())
}

fn agent(arg: AgentArg) -> Result<Agent> {
    let name = match arg {
        AgentArg::Auto | AgentArg::Qwen => return Ok(Agent::Qwen),
        AgentArg::Claude => "claude",
        AgentArg::Reasonix => "reasonix",
    };
    Err(unknown(format!("transcripts of `{name}` cannot be read by this version")))
}

/// Refuses what is no transcript of an agent whose rules we know: to read it by other rules would give wrong leaves.
fn recognise(path: &Path, snapshot: &Snapshot) -> Result<()> {
    let name = path.display();
    let Some(first) = snapshot.transcript.records.first() else {
        return Err(unknown(format!("`{name}` holds no record of an agent that is known")));
    };
    let bytes = snapshot.bytes(first.span).map_err(Error::io("read", path))?;
    let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let claude = record.get("userType").is_some()
        || (record["message"].get("content").is_some() && record["message"].get("parts").is_none());
    if claude {
        return Err(unknown(format!(
            "`{name}` is a transcript of Claude Code, which this version cannot read"
        )));
    }
    Ok(())
}

fn unknown(message: String) -> Error {
    Refusal::new(Code::AgentUnknown, message)
        .hint("with `--agent qwen` a file is read by Qwen Code's rules, whatever it looks like")
        .into()
}
