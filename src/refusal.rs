//! How the program says no, and how it says that the machine failed. Pure data.
//!
//! A [`Refusal`] is expected and names its reason; a [`Fault`] is I/O or damage and names the path and
//! the operation. Broken invariants are neither: they panic with `BUG:`.

use std::{fmt, io, path::Path};

use serde_json::{Value, json};

/// Why an operation was declined. Codes are stable and never reused (`docs/codes.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// Somebody holds the lease that is needed.
    LeaseHeld,
    /// An agent's lock is there and cannot be proved stale.
    LeaseUnverifiable,
    /// The transcript changed between snapshot and write.
    SnapshotChanged,
    /// The same operation is running now.
    OperationInFlight,
    /// A recorded choice no longer describes the source.
    StaleSource,
    /// No such session.
    SessionUnknown,
    /// More than one session answers to the name.
    SessionAmbiguous,
    /// No such leaf or record.
    LeafUnknown,
    /// The record named is not a leaf.
    LeafNotTerminal,
    /// More than one id begins like that.
    IdAmbiguous,
    /// The transcript has no leaf.
    NoLeaf,
    /// The file is no transcript of an agent we know.
    AgentUnknown,
    /// No in-place selection that could be undone.
    NothingToUndo,
    /// Nothing descends from the record that is to be the last.
    NothingToRemove,
    /// Several leaves, no policy, no terminal.
    SeveralLeaves,
    /// Every rule of the policy kept no leaf.
    PolicyNoMatch,
    /// A tie stood at the end of the policy.
    PolicyAmbiguous,
    /// The policy file is not valid.
    PolicyInvalid,
    /// The leaf was forked before, and the policy says not to follow.
    ContinuedElsewhere,
    /// The chosen chain ends at a missing parent or runs into a cycle.
    ChainBroken,
    /// A record on the chosen chain has conflicting parents.
    ChainConflict,
    /// The client, given the bytes we would write, would not continue that chain.
    SeedUnreachable,
    /// This agent has no such seed.
    SeedUnsupported,
    /// The client would put other things together than were chosen: the leaf lacks results of its tool calls.
    InsideToolRound,
    /// The record belongs to a subagent.
    SidechainLeaf,
    /// The client does not load what stands so far before the end of so large a file.
    OutOfReach,
    /// The transcript mixes session ids; the client would refuse it.
    MixedSessionIds,
    /// A managed session log, which is another format.
    ManagedLog,
    /// A storage format we do not know.
    UnsupportedVersion,
    /// The turn has not ended, by its log.
    TurnOpen,
    /// The turn was never closed, and the log went on.
    TurnUnclosed,
    /// A tool call or a question was still open when the turn was closed.
    ActiveAuthority,
    /// A later turn was closed by the same commit.
    BoundaryShared,
    /// No record proves where a turn ended.
    HistoryUnverifiable,
    /// No such turn.
    UnknownTurn,
    /// The operation id was used for another request.
    OperationConflict,
    /// No such operation is recorded.
    OperationUnknown,
    /// The ledger was written by a newer version.
    LedgerNewer,
    /// A file that is not ours has the name of a command file.
    CommandForeign,
    /// A command file of ours was edited.
    CommandEdited,
    /// A command file of ours was written by a newer version.
    CommandNewer,
    /// There are no command files for this agent.
    CommandsUnsupported,
    /// Symlink, special file, foreign owner, world-writable state, an id that is no file name.
    UnsafePath,
    /// A prompt without a terminal.
    NotATerminal,
    /// The person at the prompt declined.
    PromptCancelled,
    /// A record body given to the writer is not valid.
    RecordInvalid,
    /// The command line or an environment variable is not usable.
    Usage,
}

impl Code {
    /// All of them, in the order of the documentation.
    pub const ALL: [Code; 47] = [
        Code::LeaseHeld,
        Code::LeaseUnverifiable,
        Code::SnapshotChanged,
        Code::OperationInFlight,
        Code::StaleSource,
        Code::SessionUnknown,
        Code::SessionAmbiguous,
        Code::LeafUnknown,
        Code::LeafNotTerminal,
        Code::IdAmbiguous,
        Code::NoLeaf,
        Code::AgentUnknown,
        Code::NothingToUndo,
        Code::NothingToRemove,
        Code::SeveralLeaves,
        Code::PolicyNoMatch,
        Code::PolicyAmbiguous,
        Code::PolicyInvalid,
        Code::ContinuedElsewhere,
        Code::ChainBroken,
        Code::ChainConflict,
        Code::SeedUnreachable,
        Code::SeedUnsupported,
        Code::InsideToolRound,
        Code::SidechainLeaf,
        Code::OutOfReach,
        Code::MixedSessionIds,
        Code::ManagedLog,
        Code::UnsupportedVersion,
        Code::TurnOpen,
        Code::TurnUnclosed,
        Code::ActiveAuthority,
        Code::BoundaryShared,
        Code::HistoryUnverifiable,
        Code::UnknownTurn,
        Code::OperationConflict,
        Code::OperationUnknown,
        Code::LedgerNewer,
        Code::CommandForeign,
        Code::CommandEdited,
        Code::CommandNewer,
        Code::CommandsUnsupported,
        Code::UnsafePath,
        Code::NotATerminal,
        Code::PromptCancelled,
        Code::RecordInvalid,
        Code::Usage,
    ];

    /// The kebab-case code as scripts see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::LeaseHeld => "lease-held",
            Code::LeaseUnverifiable => "lease-unverifiable",
            Code::SnapshotChanged => "snapshot-changed",
            Code::OperationInFlight => "operation-in-flight",
            Code::StaleSource => "stale-source",
            Code::SessionUnknown => "session-unknown",
            Code::SessionAmbiguous => "session-ambiguous",
            Code::LeafUnknown => "leaf-unknown",
            Code::LeafNotTerminal => "leaf-not-terminal",
            Code::IdAmbiguous => "id-ambiguous",
            Code::NoLeaf => "no-leaf",
            Code::AgentUnknown => "agent-unknown",
            Code::NothingToUndo => "nothing-to-undo",
            Code::NothingToRemove => "nothing-to-remove",
            Code::SeveralLeaves => "several-leaves",
            Code::PolicyNoMatch => "policy-no-match",
            Code::PolicyAmbiguous => "policy-ambiguous",
            Code::PolicyInvalid => "policy-invalid",
            Code::ContinuedElsewhere => "continued-elsewhere",
            Code::ChainBroken => "chain-broken",
            Code::ChainConflict => "chain-conflict",
            Code::SeedUnreachable => "seed-unreachable",
            Code::SeedUnsupported => "seed-unsupported",
            Code::InsideToolRound => "inside-tool-round",
            Code::SidechainLeaf => "sidechain-leaf",
            Code::OutOfReach => "out-of-reach",
            Code::MixedSessionIds => "mixed-session-ids",
            Code::ManagedLog => "managed-log",
            Code::UnsupportedVersion => "unsupported-version",
            Code::TurnOpen => "turn-open",
            Code::TurnUnclosed => "turn-unclosed",
            Code::ActiveAuthority => "active-authority",
            Code::BoundaryShared => "boundary-shared",
            Code::HistoryUnverifiable => "history-unverifiable",
            Code::UnknownTurn => "unknown-turn",
            Code::OperationConflict => "operation-conflict",
            Code::OperationUnknown => "operation-unknown",
            Code::LedgerNewer => "ledger-newer",
            Code::CommandForeign => "command-foreign",
            Code::CommandEdited => "command-edited",
            Code::CommandNewer => "command-newer",
            Code::CommandsUnsupported => "commands-unsupported",
            Code::UnsafePath => "unsafe-path",
            Code::NotATerminal => "not-a-terminal",
            Code::PromptCancelled => "prompt-cancelled",
            Code::RecordInvalid => "record-invalid",
            Code::Usage => "usage",
        }
    }

    /// The process's exit status: 2 usage, 3 final, 4 worth a retry, 130 cancelled.
    pub fn exit_code(self) -> u8 {
        match self {
            Code::LeaseHeld
            | Code::LeaseUnverifiable
            | Code::SnapshotChanged
            | Code::OperationInFlight
            | Code::StaleSource => 4,
            Code::PolicyInvalid | Code::RecordInvalid | Code::Usage => 2,
            Code::PromptCancelled => 130,
            _ => 3,
        }
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub fn retryable(self) -> bool {
        self.exit_code() == 4
    }
}

/// An expected "no", with its reason.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Which reason.
    pub code: Code,
    /// One sentence for a person, without a full stop, with literals in backticks.
    pub message: String,
    /// What to do about it, if something can be done.
    pub hint: Option<String>,
    /// Facts for scripts: a JSON object.
    pub detail: Value,
}

impl Refusal {
    /// A refusal without hint or detail.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), hint: None, detail: json!({}) }
    }

    /// Adds what the person can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds facts for scripts; `detail` is a JSON object.
    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    /// The document printed with `--json`.
    pub fn to_json(&self) -> Value {
        json!({"schema": "offshoot.refusal/1", "refusal": {
            "code": self.code.as_str(), "message": self.message, "hint": self.hint,
            "retryable": self.code.retryable(), "detail": self.detail,
        }})
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What failed when the machine, not the request, is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    /// An operation of the operating system failed.
    Io,
    /// A file of ours does not hold what it must.
    Damaged,
    /// Foreign bytes landed beside ours.
    Raced,
    /// The lease went away while it was held.
    LeaseLost,
    /// The command after `--` could not be started.
    CommandFailedToStart,
}

impl FaultCode {
    /// All of them.
    pub const ALL: [FaultCode; 5] = [
        FaultCode::Io,
        FaultCode::Damaged,
        FaultCode::Raced,
        FaultCode::LeaseLost,
        FaultCode::CommandFailedToStart,
    ];

    /// The kebab-case code as scripts see it.
    pub fn as_str(self) -> &'static str {
        match self {
            FaultCode::Io => "io",
            FaultCode::Damaged => "damaged",
            FaultCode::Raced => "raced",
            FaultCode::LeaseLost => "lease-lost",
            FaultCode::CommandFailedToStart => "command-failed-to-start",
        }
    }
}

/// A failure of the machine: always with a path and what was being done to it.
#[derive(Debug)]
pub struct Fault {
    /// Which kind.
    pub code: FaultCode,
    /// A sentence that names operation and path.
    pub message: String,
    /// Facts for scripts: a JSON object.
    pub detail: Value,
    /// The operating system's error, where there is one.
    pub source: Option<io::Error>,
}

impl Fault {
    /// A failed operation on `path`; `operation` completes "cannot ...", as in `read`.
    pub fn io(operation: &str, path: &Path, source: io::Error) -> Self {
        Fault {
            code: FaultCode::Io,
            message: format!("cannot {operation} `{}`: {source}", path.display()),
            detail: json!({"operation": operation, "path": path.display().to_string()}),
            source: Some(source),
        }
    }

    /// A fault of another kind with its whole message.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Fault { code, message: message.into(), detail: json!({}), source: None }
    }

    /// Adds facts for scripts; `detail` is a JSON object.
    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    /// The document printed with `--json`.
    pub fn to_json(&self) -> Value {
        json!({"schema": "offshoot.refusal/1", "fault": {
            "code": self.code.as_str(), "message": self.message, "detail": self.detail,
        }})
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Everything that can end an operation early.
#[derive(Debug)]
pub enum Error {
    /// We decline.
    Refusal(Box<Refusal>),
    /// The machine failed.
    Fault(Box<Fault>),
}

/// The result type of everything that may refuse or fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The process's exit status.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Refusal(r) => r.code.exit_code(),
            Error::Fault(_) => 1,
        }
    }

    /// The kebab-case code.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Refusal(r) => r.code.as_str(),
            Error::Fault(f) => f.code.as_str(),
        }
    }

    /// The refusal's code, if it is one.
    pub fn refusal(&self) -> Option<Code> {
        match self {
            Error::Refusal(r) => Some(r.code),
            Error::Fault(_) => None,
        }
    }

    /// The document printed with `--json`.
    pub fn to_json(&self) -> Value {
        match self {
            Error::Refusal(r) => r.to_json(),
            Error::Fault(f) => f.to_json(),
        }
    }

    /// Names `path` in an I/O error that has none yet.
    pub fn io<'a>(operation: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
        move |e| Fault::io(operation, path, e).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refusal(r) => r.fmt(f),
            Error::Fault(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(r: Refusal) -> Self {
        Error::Refusal(Box::new(r))
    }
}

impl From<Box<Refusal>> for Error {
    fn from(r: Box<Refusal>) -> Self {
        Error::Refusal(r)
    }
}

impl From<Fault> for Error {
    fn from(f: Fault) -> Self {
        Error::Fault(Box::new(f))
    }
}
