//! What differs between agents: how a line is read, which records are neutral, what the client itself would
//! resume, and the bytes of a seed. Pure: bytes in, bytes out. One module an agent.

use std::{
    io::{self, Write},
    ops::Range,
};

use jiff::Timestamp;

use jsonl::version::Version;

use crate::{
    record::{Agent, RecordId},
    refusal::{Code, Refusal},
    topology::{Chain, Gap},
    transcript::{Flags, IdIx, Source, Transcript},
    turns::{Cut, Turns},
};

pub mod claude;
mod jsonl;
pub mod qwen;
pub mod reasonix;
mod recognise;
mod steps;
mod view;

pub use jsonl::redact::Redactor;
pub use recognise::recognise;
pub use view::{Part, View};

/// The rules of one agent's transcripts.
pub trait Dialect: Sync + Send {
    /// Whose they are.
    fn agent(&self) -> Agent;

    /// The newest client whose rules are known. A newer one is simulated by these, with a warning.
    fn known_version(&self) -> &'static str;

    /// Whether `version` is newer than the newest known one, by number; what is no version is not.
    fn is_newer_than_known(&self, version: &str) -> bool {
        Version::parse(version) > Version::parse(self.known_version())
    }

    /// Reads a whole transcript. Never panics; what is no record becomes a diagnostic.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn read(&self, source: &dyn Source) -> io::Result<Transcript>;

    /// Decodes what a summary needs of one record.
    fn decode(&self, bytes: &[u8]) -> Decoded;

    /// [`Self::decode`] with no more of a visible text than its first `most` bytes as the record spells it, and with none
    /// behind one that is longer; says whether that was all. A text of many megabytes is shown by its first words.
    fn decode_beginning(&self, bytes: &[u8], most: usize) -> (Decoded, bool) {
        let _ = most;
        (self.decode(bytes), true)
    }

    /// The title that the session has in the client's list, where one was given to it: not blank. Text of the
    /// conversation.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn title(&self, t: &Transcript, source: &dyn Source) -> io::Result<Option<String>> {
        for record in t.records.iter().rev().filter(|r| r.flags.has(Flags::TITLE)) {
            let title = self.decode(&source.bytes(record.span)?).title;
            if title.as_ref().is_some_and(|title| !title.trim().is_empty()) {
                return Ok(title);
            }
        }
        Ok(None)
    }

    /// Decodes what a person is shown of one record.
    fn view(&self, bytes: &[u8]) -> View {
        self.decode(bytes).into()
    }

    /// What the client itself would resume, given exactly these bytes (the client simulation).
    ///
    /// # Errors
    /// Only what `source` reports.
    fn simulate(&self, t: &Transcript, source: &dyn Source, client: &Client) -> io::Result<Simulated>;

    /// What a fork adds to the chain (`attached` of `chain --json`), in file order.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn attached(&self, t: &Transcript, source: &dyn Source, chain: &Chain) -> io::Result<Vec<IdIx>>;

    /// What the client must make of a seed of this chain: what a person chose, and nothing else.
    fn expected(&self, t: &Transcript, chain: &Chain, client: &Client) -> Expected {
        let _ = client;
        let history = chain.history(t);
        Expected { begins: history.clone(), tail: history.last().cloned(), history }
    }

    /// Writes the child transcript of a fork: the chain, what the format needs beside it, and nothing else.
    ///
    /// # Errors
    /// What `source` or `out` report, to which only large pieces are written. Refusals come from [`Dialect::check_seed`],
    /// which runs before.
    fn write_fork(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        fork: &ForkSpec,
        out: &mut (dyn Write + Send),
    ) -> io::Result<ForkReport>;

    /// The exact lines that make the client's own rule land on `leaf`, each with its line end.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn anchor(
        &self,
        t: &Transcript,
        source: &dyn Source,
        leaf: IdIx,
        anchor: &AnchorSpec,
    ) -> io::Result<Anchor>;

    /// The bytes of a transcript that remain without the records of the ids in `removed` (by id) and what belongs to
    /// them: everything else as it stands. `source` holds what `t` was read from and may have more bytes behind. None
    /// where an agent's sessions cannot be cut.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn without(&self, t: &Transcript, source: &dyn Source, removed: &[bool]) -> io::Result<Option<Remains>> {
        let _ = (t, source, removed);
        Ok(None)
    }

    /// What takes the words out of a transcript and leaves its structure. None where an agent's sessions cannot be
    /// redacted.
    fn redactor(&self) -> Option<Redactor> {
        None
    }

    /// Refusals and warnings that depend on the transcript, the chain and the kind of seed alone: mixed session ids,
    /// another format in the same directory, what the client would lose in silence, what it cannot resume from.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn check_seed(
        &self,
        t: &Transcript,
        source: &dyn Source,
        chain: &Chain,
        in_place: bool,
    ) -> io::Result<Result<Vec<String>, Box<Refusal>>>;

    /// The turns that the records tell of, in the order of the log, and which of them they prove to have ended. The
    /// dialect states its rule and where it comes from. Without a rule nothing is proved.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn turns(&self, t: &Transcript, source: &dyn Source) -> io::Result<Turns> {
        let _ = (t, source);
        Ok(Turns::default())
    }

    /// Where a child ends that is forked at a record: the record itself, or the one that it stands for. The inner error
    /// says why there can be no such child: `inside-tool-round`, `sidechain-leaf`, `no-leaf`.
    ///
    /// # Errors
    /// Only what `source` reports.
    fn cut_at(&self, t: &Transcript, source: &dyn Source, id: IdIx) -> io::Result<Result<Cut, Box<Refusal>>> {
        let _ = source;
        let message = format!("sessions of this agent cannot be forked at a record (`{}`)", t.id(id));
        Ok(Err(Box::new(
            Refusal::new(Code::SeedUnsupported, message).hint("fork at a turn: `offshoot fork --turn ID`"),
        )))
    }
}

/// The dialect of an agent.
pub fn of(agent: Agent) -> &'static dyn Dialect {
    match agent {
        Agent::Claude => &claude::Claude,
        Agent::Qwen => &qwen::Qwen,
        Agent::Reasonix => &reasonix::Reasonix,
    }
}

/// Which client is simulated, and where it would run.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// `--client-version`; else the newest version in the transcript.
    pub version: Option<String>,
    /// The working directory it would be started in; else the first record's `cwd`.
    pub project: Option<String>,
    /// The working directory that a sidecar beside the transcript gives for it (Qwen's `<id>.runtime.json`, if
    /// its `sessionId` is that of the first record), which makes the session this project's as well.
    pub runtime_dir: Option<String>,
}

/// What the client does with a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// It resumes.
    Resumes(Resumed),
    /// It refuses or crashes, and why.
    Refuses(String),
}

/// What the client resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The record it continues below.
    pub tail: IdIx,
    /// The records of the history it rebuilds, root first.
    pub history: Vec<IdIx>,
    /// Where its walk ends early.
    pub gap: Option<Gap>,
    /// Whether its walk met itself.
    pub cycle: bool,
    /// By which rule, in words.
    pub rule: String,
    /// Whose rules: the version simulated.
    pub version: String,
    /// Whether a pin in the file decided it.
    pub pinned: bool,
    /// What it would take without looking at pins, where the format has any. The agent's SDK does not look at them.
    pub unpinned: Option<IdIx>,
    /// Whether it would go on below a record that somebody appends below `tail`, without any pin of its own.
    pub grows: bool,
}

/// What a seed leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The history that the client builds, root first, without a terminal run of neutral records.
    pub history: Vec<RecordId>,
    /// The records that a fork begins with, in order, as far as the client sees them.
    pub begins: Vec<RecordId>,
    /// The record of these that the client's next one hangs on, if there is any.
    pub tail: Option<RecordId>,
}

/// What a summary needs of one physical record. Absent means: not there, or not of the right type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// `timestamp`.
    pub timestamp: Option<String>,
    /// Visible texts in order, not yet folded: no thoughts, no tool arguments, no other parts.
    pub texts: Vec<String>,
    /// Ids of tool calls; a call without id has an empty one.
    pub calls: Vec<String>,
    /// Ids of the calls that are answered.
    pub responses: Vec<String>,
    /// `gitBranch`.
    pub git_branch: Option<String>,
    /// `cwd`.
    pub cwd: Option<String>,
    /// A title that this record sets.
    pub title: Option<String>,
}

/// What a fork needs to know beside the chain.
#[derive(Clone, Debug)]
pub struct ForkSpec {
    /// The child's session id.
    pub session_id: String,
    /// The title that tells the child from its parent; none if the format has no titles.
    pub title: Option<String>,
    /// When the fork is made.
    pub now: Timestamp,
    /// Deterministic source of uuids for records that the fork adds: the operation id.
    pub operation_id: String,
    /// The highest client version seen, for records that the fork adds.
    pub version: Option<String>,
}

/// What came of writing a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkReport {
    /// Names of file-history backups that the child refers to.
    pub backups: Vec<String>,
    /// Lines written.
    pub records: u64,
    /// The uuid below which the client's next record hangs.
    pub tail: String,
}

/// What an anchor needs to know beside the leaf.
#[derive(Clone, Debug)]
pub struct AnchorSpec {
    /// The uuid of the anchor record.
    pub uuid: String,
    /// The operation that places it.
    pub operation_id: String,
    /// When.
    pub now: Timestamp,
    /// The client version that is simulated; else the newest in the transcript.
    pub version: Option<String>,
}

/// The bytes of an in-place seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Whole lines.
    pub bytes: Vec<u8>,
    /// The uuid below which the client's next record hangs.
    pub uuid: String,
}

/// What remains of a transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The ranges of its bytes, in order, none of them empty.
    pub kept: Vec<Range<u64>>,
    /// Records that do not remain, copies counted.
    pub records: u64,
    /// Lines that belonged to them: pins, summaries, file snapshots.
    pub lines: u64,
}

/// A v4-shaped UUID that depends on nothing but its arguments: the first 16 bytes of BLAKE3 over
/// `kind NUL agent NUL session NUL operation id`. A retry of an operation finds the same child by it.
pub fn derived_uuid(kind: &str, agent: Agent, session: &str, operation_id: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for (i, part) in [kind, agent.name(), session, operation_id].into_iter().enumerate() {
        if i > 0 {
            hasher.update(b"\0");
        }
        hasher.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
