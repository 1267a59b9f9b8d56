//! What can be typed.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::record::Agent;

/// Choose the branch a coding agent resumes from, and be able to say why.
#[derive(Debug, Parser)]
#[command(
    name = "offshoot",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Whose transcript it is.
    #[arg(long, global = true, value_enum, default_value_t = AgentArg::Auto, value_name = "AGENT")]
    pub agent: AgentArg,
    /// Simulate this version of the client (else the newest version in the transcript).
    #[arg(long, global = true, value_name = "V")]
    pub client_version: Option<String>,
    /// Print one JSON document instead of text (`redact` prints a transcript, `watch` a line an event, in any case).
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no text of the conversation.
    #[arg(long, global = true)]
    pub redact: bool,
    /// When to colour.
    #[arg(long, global = true, value_enum, default_value_t = ColorArg::Auto, value_name = "WHEN")]
    pub color: ColorArg,
    /// Where ledgers, labels and trust are kept.
    #[arg(long, global = true, value_name = "DIR", env = "OFFSHOOT_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Say more on stderr.
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Say nothing on stderr but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// `--agent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentArg {
    /// Tell by the content of the file.
    Auto,
    /// Qwen Code.
    Qwen,
    /// Claude Code.
    Claude,
    /// Reasonix.
    Reasonix,
}

impl AgentArg {
    /// The agent that was named, if one was.
    pub fn agent(self) -> Option<Agent> {
        match self {
            AgentArg::Auto => None,
            AgentArg::Qwen => Some(Agent::Qwen),
            AgentArg::Claude => Some(Agent::Claude),
            AgentArg::Reasonix => Some(Agent::Reasonix),
        }
    }
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// `--seed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SeedArg {
    /// A new session that holds exactly the chain.
    Fork,
    /// An anchor in the same session.
    InPlace,
    /// Record the choice, write nothing else.
    None,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose a branch, record the choice, and seed the session to resume.
    Resume(ResumeArgs),
    /// Show all branches, how they relate, and which one the agent itself would take.
    Inspect(InspectArgs),
    /// Print the ordered chain of a leaf, with gaps.
    Chain(ChainArgs),
    /// Say which branches hold a text, and at which record.
    Find(FindArgs),
    /// Walk through the conversation as a tree.
    Tree(TreeArgs),
    /// List the turns that one may fork at, each with its reason when one may not.
    Targets(TargetsArgs),
    /// Make an independent session of everything up to a turn or a record.
    Fork(ForkArgs),
    /// Say what each of two branches has that the other lacks.
    Diff(DiffArgs),
    /// Print a branch as Markdown or JSON, to be read or passed on.
    Export(ExportArgs),
    /// Say, one JSON line each, when a new leaf or a second writer appears, or the client pick moves.
    Watch(WatchArgs),
    /// Draw the branches as a graph: DOT, Mermaid, or one HTML page that needs nothing else.
    Graph(GraphArgs),
    /// Write a transcript of the same structure without a word of the conversation.
    Redact(RedactArgs),
    /// Name a branch; an empty text removes the name.
    Label(LabelArgs),
    /// Put the client back on the branch it was on before the last in-place selection.
    Undo(UndoArgs),
    /// Keep a backup, then drop everything that descends from a record.
    Truncate(TruncateArgs),
    /// Undo the last truncate from its backup.
    Restore(RestoreArgs),
    /// Settle what a crash left pending.
    Recover,
    /// Read and verify recorded selections.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Check, explain, test and trust policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List the sessions of this project.
    Sessions(SessionsArgs),
    /// Run the whole pipeline on a shipped session, copied to a fresh folder.
    Demo(DemoArgs),
    /// Check, in a temporary home, whether the installed client still behaves as this version believes.
    Probe(ProbeArgs),
    /// Give an agent the slash commands `/tree` and `/pick`.
    Install(InstallArgs),
    /// Take them away again.
    Uninstall(InstallArgs),
    /// What `/tree` and `/pick` run inside an agent: show the branches, make a fork, say how to resume it.
    #[command(subcommand)]
    Slash(SlashCommand),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
    /// Runs a command on the terminal of a popup (see `cli::slash::popup`).
    #[command(name = crate::cli::slash::RUNNER, hide = true)]
    Popup {
        /// The folder of whoever waits for it.
        folder: PathBuf,
    },
    /// Waits until the lease names this process, then becomes the command (see `store::command`).
    #[command(name = crate::store::command::GATE, hide = true)]
    Gate {
        /// The named pipe.
        pipe: PathBuf,
        /// What to become.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// Ask, at a prompt on the terminal.
    #[arg(long, conflicts_with_all = ["leaf", "policy"])]
    pub pick: bool,
    /// Take this leaf.
    #[arg(long, value_name = "ID", conflicts_with = "policy")]
    pub leaf: Option<String>,
    /// Let this policy choose.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// What the resumed session starts from (default: the policy's, else fork).
    #[arg(long, value_enum, value_name = "MODE")]
    pub seed: Option<SeedArg>,
    /// Then append record bodies from stdin below the leaf (with `--seed in-place` or `none`).
    #[arg(long, conflicts_with = "command")]
    pub write: bool,
    /// The caller's retry key: 1 to 128 printable ASCII characters.
    #[arg(long, value_name = "ID")]
    pub operation_id: Option<String>,
    /// How long to wait for a lease (`0`, `500ms`, `10s`, `2m`).
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub wait: String,
    /// Decide and show everything, write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Accept a chain that ends at a missing parent.
    #[arg(long)]
    pub allow_gap: bool,
    /// Do not follow a leaf into the child it was forked to.
    #[arg(long)]
    pub no_follow: bool,
    /// Start this afterwards; `{session}` is replaced by the id, else `--resume <id>` is appended.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// Exit 5 when the agent's own pick is not the branch with the newest message, or loses history.
    #[arg(long)]
    pub check: bool,
    /// Compute the digest of the snapshot too.
    #[arg(long)]
    pub digest: bool,
}

/// `chain`.
#[derive(Clone, Debug, Args)]
pub struct ChainArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// Whose chain (needed where there are several leaves).
    #[arg(long, value_name = "ID")]
    pub leaf: Option<String>,
}

/// `find`.
#[derive(Clone, Debug, Args)]
pub struct FindArgs {
    /// `[SESSION] TEXT`: the text to look for, ignoring case; before it the session.
    #[arg(required = true, num_args = 1..=2, value_name = "[SESSION] TEXT")]
    pub words: Vec<String>,
}

/// `tree`.
#[derive(Clone, Debug, Args)]
pub struct TreeArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// Draw the tree once, with ids, and end.
    #[arg(long)]
    pub print: bool,
    /// Print what was chosen as JSON, and do nothing else.
    #[arg(long, conflicts_with = "print")]
    pub emit: bool,
    /// Behave as if the session were open in this live agent.
    #[arg(long, hide = true, value_name = "WHAT")]
    pub inside: Option<String>,
}

/// `targets`.
///
/// That a turn ended is proved by the records of the session alone. The answer is the same while an agent writes the
/// session, whoever owns it, and no lease is taken.
#[derive(Clone, Debug, Args)]
pub struct TargetsArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
}

/// `fork`.
///
/// The source is not written and no lease of it is taken: an agent may be in the middle of another turn. Nothing is opened.
/// A second call for the same place returns the child of the first until that one is acknowledged (`--ack`, or by
/// resuming the child).
#[derive(Clone, Debug, Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["turn", "at", "ack"])))]
pub struct ForkArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    #[arg(conflicts_with = "ack")]
    pub session: Option<String>,
    /// At the end of this turn (`offshoot targets` lists them).
    #[arg(long, value_name = "ID")]
    pub turn: Option<String>,
    /// At this record, which must not stand inside a round of tool calls.
    #[arg(long, value_name = "ID")]
    pub at: Option<String>,
    /// Refuse unless the source is still what this anchor of `targets --json` describes.
    #[arg(long, value_name = "ANCHOR", conflicts_with = "ack")]
    pub expect: Option<String>,
    /// The caller's retry key: 1 to 128 printable ASCII characters.
    #[arg(long, value_name = "ID", conflicts_with_all = ["new", "ack"])]
    pub operation_id: Option<String>,
    /// Make another child, even if nobody has taken up the last one.
    #[arg(long, conflicts_with = "ack")]
    pub new: bool,
    /// Say that the child of this operation was taken up.
    #[arg(long, value_name = "OPERATION")]
    pub ack: Option<String>,
    /// How long to wait while the same operation runs elsewhere.
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub wait: String,
}

/// `diff`.
///
/// From where the two branches part: turns and texts of each, tools run, and files that the tools were given. A leaf is
/// anything that `--leaf` takes elsewhere, or a label.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "offshoot diff [OPTIONS] [SESSION] LEAF LEAF")]
pub struct DiffArgs {
    /// `[SESSION] LEAF LEAF`: two leaves, by id, prefix or label; before them the session.
    #[arg(required = true, num_args = 2..=3, value_name = "[SESSION] LEAF LEAF")]
    pub words: Vec<String>,
}

/// `export`.
///
/// The chain of a leaf, turn by turn. Markdown has a heading for each turn and a fenced block for tools that ran, with the
/// beginning of what they gave back; JSON has all of it.
#[derive(Clone, Debug, Args)]
#[command(override_usage = "offshoot export [OPTIONS] [SESSION] LEAF")]
pub struct ExportArgs {
    /// `[SESSION] LEAF`: the leaf, by id, prefix or label; before it the session.
    #[arg(required = true, num_args = 1..=2, value_name = "[SESSION] LEAF")]
    pub words: Vec<String>,
    /// As what.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ExportFormat::Md)]
    pub format: ExportFormat,
}

/// `--format` of `export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Markdown.
    Md,
    /// JSON (`offshoot.export/1`), as with `--json`.
    Json,
}

/// `watch`.
///
/// The first line tells what is there; then there is a line for each branch that is new, for each two branches that are
/// written in turns, and when the branch that the agent itself would resume is another one. A branch that only grows is no
/// news. The file may be renamed, replaced, cut, deleted and made again. Ctrl-C ends it.
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
}

/// `graph`.
///
/// Its nodes are roots, branch points, rewinds and leaves; what stands between two of them is one edge with the number of
/// records. The client's own pick and the recorded leaf are marked. With `--json` the same as data.
#[derive(Clone, Debug, Args)]
pub struct GraphArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// In which form.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = GraphFormat::Dot)]
    pub format: GraphFormat,
    /// Write to this file, which must be new, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `graph --format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// Graphviz.
    Dot,
    /// A Mermaid flowchart.
    Mermaid,
    /// One page without anything else: pan, zoom, collapse, search, by mouse and by keys.
    Html,
}

/// `redact`.
///
/// Texts, arguments and results of tools, names, paths and titles are filled with as many other bytes; ids, types, times,
/// versions and what is malformed stay. Before anything is handed out it is inspected, and must give the same branches,
/// counts, diagnostics and client pick. It is meant for bug reports about broken transcripts. Of a session of Reasonix a
/// folder is made, with the sessions that are related to it.
#[derive(Clone, Debug, Args)]
pub struct RedactArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// Write to this file or folder, which must be new, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `label`.
#[derive(Clone, Debug, Args)]
pub struct LabelArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: String,
    /// The leaf to name.
    pub id: String,
    /// The name.
    pub text: String,
}

/// `undo`.
#[derive(Clone, Debug, Args)]
pub struct UndoArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// The caller's retry key.
    #[arg(long, value_name = "ID")]
    pub operation_id: Option<String>,
    /// How long to wait for a lease.
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub wait: String,
    /// Decide and show everything, write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `truncate`.
///
/// The record, its ancestors and every branch that does not descend from it stay as they are, byte for byte; the agent
/// then goes on at the record. `restore` takes it back. On a terminal it asks first, without one it does as it was told.
#[derive(Clone, Debug, Args)]
pub struct TruncateArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// The record that is to be the last of its branch, by its id or a prefix of it.
    #[arg(long, value_name = "ID")]
    pub after: String,
    /// How it is done.
    #[command(flatten)]
    pub how: ReplaceArgs,
}

/// `restore`.
///
/// It refuses if anything was written to the transcript since. What stands there now is kept as a backup too. On a
/// terminal it asks first, without one it does as it was told.
#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// A transcript file, a session id, or a prefix of one of 4 or more characters.
    pub session: Option<String>,
    /// How it is done.
    #[command(flatten)]
    pub how: ReplaceArgs,
}

/// What `truncate` and `restore` share.
#[derive(Clone, Debug, Args)]
pub struct ReplaceArgs {
    /// Do not ask on a terminal.
    #[arg(short, long)]
    pub yes: bool,
    /// The caller's retry key: 1 to 128 printable ASCII characters.
    #[arg(long, value_name = "ID")]
    pub operation_id: Option<String>,
    /// How long to wait for a lease.
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub wait: String,
    /// Decide and show everything, write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `audit`.
#[derive(Clone, Debug, Subcommand)]
pub enum AuditCommand {
    /// List recorded selections.
    List(AuditListArgs),
    /// Show one selection in full.
    Show {
        /// Its operation id, or a prefix of one.
        operation: String,
    },
    /// Check ledgers against themselves, and with `--deep` against transcripts, seeds and policies.
    Verify(AuditVerifyArgs),
    /// Remove old entries, keeping the head of each chain.
    Prune {
        /// A date, a time, or an age such as `90d`.
        #[arg(long, value_name = "T")]
        before: String,
    },
}

/// `audit list`.
#[derive(Clone, Debug, Args)]
pub struct AuditListArgs {
    /// Only this session (a path or an id).
    #[arg(long)]
    pub session: Option<String>,
    /// Only since a date, a time, or an age such as `7d`.
    #[arg(long, value_name = "T")]
    pub since: Option<String>,
    /// Only those decided so: policy, prompt, leaf, only-leaf or undo.
    #[arg(long, value_name = "KIND")]
    pub decided_by: Option<String>,
}

/// `audit verify`.
#[derive(Clone, Debug, Args)]
pub struct AuditVerifyArgs {
    /// Only this session (a path or an id).
    pub session: Option<String>,
    /// Also check transcripts, leaves, policies, seeds, and what was appended since.
    #[arg(long)]
    pub deep: bool,
    /// A copy of `heads.jsonl` that was kept elsewhere.
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
}

/// `policy`.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyCommand {
    /// Parse a policy and run its examples.
    Check {
        /// The policy.
        file: PathBuf,
    },
    /// Show what each rule did to each leaf of a session.
    Explain {
        /// The policy.
        file: PathBuf,
        /// The session.
        session: Option<String>,
    },
    /// Run the examples of policies.
    Test {
        /// The policies.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Let the policy of this project steer unattended runs.
    Trust {
        /// The policy (default: `.offshoot/policy.toml` of this project).
        file: Option<PathBuf>,
        /// Take the trust back.
        #[arg(long)]
        revoke: bool,
    },
}

/// `sessions`.
#[derive(Clone, Debug, Args)]
pub struct SessionsArgs {
    /// Sessions of all projects, not just of this one.
    #[arg(long)]
    pub all: bool,
}

/// `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Ask at the prompt even where the demo would let a policy choose.
    #[arg(long)]
    pub pick: bool,
}

/// Agents whose client can be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProbedAgent {
    /// Claude Code.
    Claude,
    /// Qwen Code.
    Qwen,
}

/// `probe`.
#[derive(Clone, Debug, Args)]
pub struct ProbeArgs {
    /// Whose client.
    #[arg(value_enum, value_name = "AGENT")]
    pub whose: ProbedAgent,
    /// The program (default: `claude` or `qwen` on `PATH`).
    #[arg(long, value_name = "PATH")]
    pub client: Option<PathBuf>,
    /// How long each start of the client may take.
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub timeout: String,
}

/// Agents that may be named to `install`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstallAgent {
    /// Claude Code.
    Claude,
    /// Qwen Code.
    Qwen,
    /// Reasonix, which is refused.
    #[value(hide = true)]
    Reasonix,
}

/// `install`, `uninstall`.
///
/// The commands are two files in the agent's folder of the user (`~/.claude/commands`, `~/.qwen/commands`). A file that
/// offshoot did not put there, or that was changed since, is neither written over nor removed. With `--redact` the
/// commands never show a text of the conversation.
#[derive(Clone, Debug, Args)]
pub struct InstallArgs {
    /// Whose commands.
    #[arg(value_enum, value_name = "AGENT")]
    pub whose: InstallAgent,
    /// Say what would be done, do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `slash`.
///
/// The session is the one that the agent says it runs, or the one given. Inside tmux a popup asks; elsewhere the branches
/// are printed, with ids to answer by. Only forks are made: the session itself is never written.
#[derive(Clone, Debug, Subcommand)]
pub enum SlashCommand {
    /// The whole tree.
    Tree {
        /// The id of another session, or a prefix of it.
        #[arg(long, value_name = "ID", overrides_with = "session")]
        session: Option<String>,
    },
    /// One of the branches, or any record by its id.
    Pick {
        /// Where to fork: a record, by its id or a prefix of it.
        id: Option<String>,
        /// The id of another session, or a prefix of it.
        #[arg(long, value_name = "ID", overrides_with = "session")]
        session: Option<String>,
    },
}
