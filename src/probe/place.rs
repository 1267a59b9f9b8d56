//! The temporary home that a client is probed in, with sessions in their place and a state directory of its own.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::json;

use super::{
    history::Wanted,
    session::{NEXT, Session, Variant, WORDS},
};
use crate::{
    dialect::{self, Client, Dialect, Simulated},
    record::{Agent, RecordId, RecordKind},
    refusal::{Code, Error, Refusal, Result},
    resume::{self, ContinuedChoice, Host, Person, Request, Selector, Target},
    selection::SeedMode,
    store::{
        agents::qwen::{QwenDirs, client_of, home::sanitise_cwd},
        process,
        signals::{self, Cleanup},
        state::StateDir,
    },
    topology::{Branch, ContinuedIn, Inspection},
    transcript::Transcript,
};

/// Everything lies below one folder, which is removed in the end.
pub(super) struct Place {
    dir: tempfile::TempDir,
    agent: Agent,
    /// `HOME`.
    pub home: PathBuf,
    /// The client's working directory.
    pub project: PathBuf,
    sessions: PathBuf,
    written: Cell<usize>,
    _cleanup: Cleanup,
}

/// A seed that the client is to follow.
pub(super) struct Seeded {
    /// The session to resume.
    pub session: String,
    /// The record that the client's next one should hang on.
    pub parent: String,
    /// What must not reach the model.
    pub hidden: Vec<String>,
}

impl Place {
    /// Makes it. The folder's name reaches the model with the working directory, so it says nothing.
    pub fn new(agent: Agent) -> Result<Place> {
        let temporary = std::env::temp_dir();
        let made = tempfile::Builder::new().prefix("probe-").tempdir_in(&temporary);
        let dir = made.map_err(Error::io("create a folder in", &temporary))?;
        let root = dir.path().canonicalize().map_err(Error::io("resolve", dir.path()))?;
        let remove = root.clone();
        let cleanup = signals::on_exit(move || drop(fs::remove_dir_all(remove)));
        let (home, project) = (root.join("home"), root.join("project"));
        // Both clients have this rule for paths that are short enough; the folders that they made are never guessed.
        let folder = sanitise_cwd(&project.to_string_lossy());
        let (sessions, settings, text) = match agent {
            Agent::Claude => {
                let config = home.join(".claude");
                (config.join("projects").join(folder), config.join(".claude.json"), settled(&project))
            }
            _ => {
                let base = home.join(".qwen");
                (base.join("projects").join(folder).join("chats"), base.join("settings.json"), quiet())
            }
        };
        for dir in [&sessions, &project, &home.join("tmp")] {
            fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        }
        fs::write(&settings, text).map_err(Error::io("write", &settings))?;
        Ok(Place { dir, agent, home, project, sessions, written: Cell::new(0), _cleanup: cleanup })
    }

    /// A new file for what the client prints.
    pub fn output(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes one more session. Its id, and the leaves of both branches.
    pub fn write(&self, variant: Variant, version: Option<&str>) -> Result<(String, [String; 2])> {
        self.written.set(self.written.get() + 1);
        let version = version.unwrap_or(dialect::of(self.agent).known_version());
        let session = Session::new(self.agent, self.written.get(), variant, &self.project, version);
        let path = self.path(&session.id);
        fs::write(&path, session.text).map_err(Error::io("write", &path))?;
        Ok((session.id, session.leaves))
    }

    fn path(&self, session: &str) -> PathBuf {
        self.sessions.join(format!("{session}.jsonl"))
    }

    fn read(&self, dialect: &dyn Dialect, session: &str) -> Result<(Vec<u8>, Transcript)> {
        let path = self.path(session);
        let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
        let t = dialect.read(&bytes).map_err(Error::io("read", &path))?;
        Ok((bytes, t))
    }

    /// How many records a session has.
    pub fn records(&self, dialect: &dyn Dialect, session: &str) -> Result<usize> {
        Ok(self.read(dialect, session)?.1.records.len())
    }

    /// The parent of the first record behind the first `before` ones.
    pub fn first_parent(
        &self,
        dialect: &dyn Dialect,
        session: &str,
        before: usize,
    ) -> Result<Option<String>> {
        let (_, t) = self.read(dialect, session)?;
        Ok(t.records.get(before).and_then(|r| r.parent).map(|id| t.ids.text(id)))
    }

    /// What the simulated client makes of a session; else why it makes nothing of it.
    pub fn simulated(
        &self,
        dialect: &dyn Dialect,
        session: &str,
        client: &Client,
    ) -> Result<std::result::Result<Wanted, String>> {
        let (bytes, t) = self.read(dialect, session)?;
        let path = self.path(session);
        let client = client_of(&path, &t, client.version.clone());
        let resumed = match dialect.simulate(&t, &bytes, &client).map_err(Error::io("read", &path))? {
            Simulated::Resumes(resumed) => resumed,
            Simulated::Refuses(why) => return Ok(Err(format!("the simulated client refuses: {why}"))),
        };
        let mut marks = Vec::new();
        for id in resumed.history {
            let Some(record) = t.first(id).map(|ix| t.record(ix)) else { continue };
            let role = if record.kind == RecordKind::User { "user" } else { "assistant" };
            let range = record.span.range();
            let text = String::from_utf8_lossy(&bytes[range.start as usize..range.end as usize]);
            marks.extend(WORDS.iter().filter(|w| text.contains(*w)).map(|w| format!("{role}: {w}")));
        }
        marks.push(format!("user: {NEXT}"));
        Ok(Ok(Wanted { marks, below: Some(t.ids.text(resumed.tail)) }))
    }

    /// Seeds a leaf as `resume` does.
    pub fn seed(&self, session: &str, leaf: &str, mode: SeedMode, version: Option<&str>) -> Result<Seeded> {
        let path = self.path(session);
        let (_, t) = self.read(dialect::of(self.agent), session)?;
        let operation = format!("probe-{}", uuid::Uuid::new_v4());
        let request = Request {
            client: client_of(&path, &t, version.map(str::to_owned)),
            target: Target { agent: self.agent, path },
            selector: Selector::Leaf(leaf.to_owned()),
            seed: Some(mode),
            write: false,
            hold: false,
            operation_id: Some(operation.clone()),
            wait: Duration::ZERO,
            dry_run: false,
            allow_gap: false,
            no_follow: true,
            seen: None,
        };
        let state = StateDir::open(self.dir.path().join("state"))?;
        let base = self.home.join(".qwen");
        let qwen = QwenDirs { home: base.clone(), runtime: base, notes: Vec::new() };
        let mut host = Host {
            state: &state,
            qwen: &qwen,
            clock: &Timestamp::now,
            new_id: &|| uuid::Uuid::new_v4().to_string(),
            who: process::who(),
            person: &mut Nobody,
            git_branch: &|_| None,
            note: &|_| {},
        };
        // All that is held is given back before the client is started.
        let seed = resume::resume(&request, &mut host)?.answer.seed;
        let hidden = [Some(operation), seed.anchor].into_iter().flatten().collect();
        Ok(Seeded { session: seed.session_id, parent: seed.parent_uuid.to_string(), hidden })
    }
}

/// Without these answers the client asks for them at its first start.
fn settled(project: &Path) -> String {
    let mut projects = serde_json::Map::new();
    let trusted =
        json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []});
    projects.insert(project.display().to_string(), trusted);
    json!({"hasCompletedOnboarding": true, "theme": "dark", "projects": projects,
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []}})
    .to_string()
}

/// Nothing that costs requests of its own.
fn quiet() -> String {
    json!({"general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false}, "tools": {"useBuiltinRipgrep": false, "useRipgrep": false},
        "memory": {"enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false}})
    .to_string()
}

/// There is no person: leaves are named.
struct Nobody;

impl Nobody {
    fn refuse<T>() -> Result<T> {
        Err(Refusal::new(Code::NotATerminal, "nobody is asked here").into())
    }
}

impl Person for Nobody {
    fn require_terminal(&self) -> Result<()> {
        Nobody::refuse()
    }

    fn pick(&mut self, _: &Inspection, _: Option<&[RecordId]>) -> Result<RecordId> {
        Nobody::refuse()
    }

    fn continued(&mut self, _: &Branch, _: &ContinuedIn) -> Result<ContinuedChoice> {
        Nobody::refuse()
    }
}
