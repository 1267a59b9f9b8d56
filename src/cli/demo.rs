//! `demo`: the real commands, one after another, on a shipped session in a fresh folder.
//!
//! Each step is this same program started anew, with a home, a state directory and a working directory in that
//! folder: what is seen is what the commands do, and nothing of the person's own is read or written.

use std::{
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use super::{
    args::{DemoArgs, Global},
    output,
    text::wrap,
};
use crate::refusal::{Error, Result};

/// A Qwen Code session: two turns of work, then a rewind and a side question. The client's own rule takes the last
/// line of the file, so the work would be gone from the model's context.
const SESSION: &str = include_str!("../../fixtures/demo/session.jsonl");
const SESSION_ID: &str = "86735cb7-c693-4ed3-90d6-c377b543ebf6";
/// The working directory that stands in the session's records.
const RECORDED_IN: &str = "/home/ada/parcel-api";
/// Explanations are wrapped here.
const COLUMNS: usize = 80;
/// The policy that chooses where there is no terminal.
const POLICY: &str = include_str!("../../policies/most-work.toml");

/// The fresh folder.
struct Place {
    root: PathBuf,
    home: PathBuf,
    project: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let made = tempfile::Builder::new().prefix("offshoot-demo-").tempdir();
        let root = made.map_err(Error::io("make a folder in", &std::env::temp_dir()))?.keep();
        let root = root.canonicalize().map_err(Error::io("resolve", &root))?;
        let project = root.join("parcel-api");
        let home = root.join("home");
        let chats = home.join(".qwen/projects").join(folder_of(&project)).join("chats");
        for folder in [&project, &chats] {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        let recorded = serde_json::to_string(&project.display().to_string())
            .expect("BUG: a string is always JSON")
            .trim_matches('"')
            .to_owned();
        write(&chats.join(format!("{SESSION_ID}.jsonl")), &SESSION.replace(RECORDED_IN, &recorded))?;
        write(&project.join("most-work.toml"), POLICY)?;
        Ok(Place { root, home, project })
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::io("write", path))
}

/// The name that Qwen Code gives the folder of a project: what is no ASCII letter or digit becomes `-`, by UTF-16 unit.
fn folder_of(project: &Path) -> String {
    let path = project.display().to_string();
    path.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect()
}

/// Runs the demo and gives its exit status: that of the first command that did not end with 0.
///
/// # Errors
/// Faults of the temporary folder, of stdout, or of starting this program.
pub fn run(global: &Global, args: &DemoArgs) -> Result<ExitCode> {
    let place = Place::new()?;
    let asked = args.pick || (io::stdin().is_terminal() && io::stderr().is_terminal());
    let how: &[&str] = if asked { &["--pick"] } else { &["--policy", "most-work.toml"] };
    let resume = [&["resume", SESSION_ID, "--operation-id", "demo"], how].concat();
    let who = if asked { "You choose" } else { "There is no terminal to ask at, so a policy chooses" };
    let steps: [(&str, &[&str]); 5] = [
        (
            "All branches of the session. Qwen Code itself takes the last line of the file, the side question: \
             the model would know nothing of the retries any more, and nobody would be told.",
            &["inspect"],
        ),
        (
            &format!("{who}. The choice is recorded, then a new session is made of exactly that branch."),
            &resume,
        ),
        (
            "Which branch was resumed, who decided, and what there was to choose from.",
            &["audit", "show", "demo"],
        ),
        (
            "The ledger is checked against itself, the transcript, the new session and the policy.",
            &["audit", "verify", "--deep"],
        ),
        (
            "The same request under the same operation id, as from a job that lost the answer: the same session.",
            &resume,
        ),
    ];
    let tell = Tell { aside: global.json };
    tell.line(&format!(
        "A Qwen Code session: two turns of work on retries, then a rewind and a side question.\n\
         Everything here happens in {}.\n\n$ cd {}",
        place.root.display(),
        place.project.display()
    ))?;
    let mut status = 0;
    for (number, (why, command)) in steps.iter().enumerate() {
        let why = wrap(&format!("{}. {why}", number + 1), COLUMNS, "   ");
        tell.line(&format!("\n{why}\n\n$ offshoot {}", command.join(" ")))?;
        status = place.start(global, command)?;
        if status != 0 {
            break;
        }
    }
    tell.line(&format!(
        "\nThe folder stays: {}\n\nFor a session of your own, in its project's folder:\n\n  \
         offshoot inspect                       what is there, and what the agent itself would take\n  \
         offshoot resume --pick -- qwen         choose, and go on there\n  \
         offshoot resume --policy FILE --json   the same without a person",
        place.root.display()
    ))?;
    Ok(ExitCode::from(status))
}

/// Where the explanations go: to stdout between the commands' output, with `--json` to stderr.
struct Tell {
    aside: bool,
}

impl Tell {
    fn line(&self, text: &str) -> Result<()> {
        if self.aside {
            text.lines().for_each(output::stderr_line);
            return Ok(());
        }
        output::text(&format!("{text}\n"))
    }
}

impl Place {
    /// Starts this program with `args`, and waits for it.
    fn start(&self, global: &Global, args: &[&str]) -> Result<u8> {
        let program = std::env::current_exe().map_err(Error::io("find", Path::new("offshoot")))?;
        let mut command = Command::new(&program);
        command.args(args).current_dir(&self.project);
        for (name, folder) in [("HOME", &self.home), ("USERPROFILE", &self.home)] {
            command.env(name, folder);
        }
        command.env("OFFSHOOT_STATE_DIR", self.root.join("state"));
        for name in ["OFFSHOOT_POLICY", "QWEN_HOME", "QWEN_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        {
            command.env_remove(name);
        }
        if global.json {
            command.arg("--json");
        }
        let status = command.status().map_err(Error::io("start", &program))?;
        Ok(exit_status(status))
    }
}

fn exit_status(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
