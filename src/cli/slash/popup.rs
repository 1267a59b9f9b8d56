//! A popup of the tmux around us, and what was chosen in it.
//!
//! The popup's program is started by the tmux server, with the server's environment and on a terminal of its own. So the
//! command, its environment and its folder are handed over in a private folder, where the result comes back: written
//! under another name and renamed, so that it is there whole or not at all. What runs in the popup only chooses; whoever
//! waits acts. A popup that is still open when nobody waits any more (agents end a tool that takes long) says what would
//! have been done.

use std::{
    fs,
    io::{self, BufRead, IsTerminal},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::said::answer;
use crate::{
    cli::{
        host, output,
        text::{clean, fit},
    },
    refusal::{Error, Fault, Result},
    store::{env::Env, process, signals},
};

/// The hidden command that runs in the popup.
pub const RUNNER: &str = "slash-popup";

/// `display-popup` came with it.
const OLDEST: (u32, u32) = (3, 2);
/// A server that says nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of what tmux complains of is passed on.
const COMPLAINT: usize = 160;

const JOB: &str = "job.json";
const STARTED: &str = "started";
const DONE: &str = "done.json";

/// What the choice depends on and the server need not have.
const PASSED_ON: &[&str] = &[
    "HOME",
    "USERPROFILE",
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "NO_COLOR",
    "CLAUDE_CONFIG_DIR",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "REASONIX_HOME",
    "REASONIX_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "OFFSHOOT_STATE_DIR",
    "OFFSHOOT_POLICY",
];

/// What came of it.
#[derive(Debug)]
pub enum Shown {
    /// The command ran to its end.
    Ended(Ended),
    /// The popup was closed before.
    Closed,
    /// There was none; why, if there could have been one.
    Not(Option<String>),
}

/// How the command in the popup ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit status; none after a signal.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: String,
}

#[derive(Serialize, Deserialize)]
struct Job {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    /// Variables, and those that are not to be set.
    environment: Vec<(String, Option<String>)>,
    other: Option<String>,
    waiter: u32,
    waiter_start: Option<String>,
}

/// Runs this program with the arguments in a popup, and waits for its end. Without a tmux around us that can do it, nothing
/// is shown. `other` is the session that it is about, if the agent does not run it.
///
/// # Errors
/// `io`.
pub fn show(env: &Env, arguments: Option<Vec<String>>, other: Option<&str>) -> Result<Shown> {
    if !env.in_tmux {
        return Ok(Shown::Not(None));
    }
    let tmux = Tmux { pane: env.tmux_pane.clone().filter(|pane| pane.starts_with('%')) };
    if let Err(why) = tmux.usable() {
        return Ok(Shown::Not(Some(format!("no popup: {why}"))));
    }
    let Some(arguments) = arguments else {
        return Ok(Shown::Not(Some("no popup: a path is not UTF-8".to_owned())));
    };
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    // Made with mode 0700, removed with all that is in it.
    let place = tempfile::Builder::new()
        .prefix("offshoot-popup-")
        .tempdir()
        .map_err(Error::io("create a folder in", &std::env::temp_dir()))?;
    let Some(line) = runner(&program, place.path()) else {
        return Ok(Shown::Not(Some("no popup: a path is not UTF-8".to_owned())));
    };
    let job = Job {
        program,
        arguments,
        folder: host::working_dir()?,
        environment: PASSED_ON.iter().map(|name| ((*name).to_owned(), std::env::var(name).ok())).collect(),
        other: other.map(str::to_owned),
        waiter: std::process::id(),
        waiter_start: process::start_identity(std::process::id()),
    };
    write(&place.path().join(JOB), &job)?;
    host::take_signals()?;
    // An agent that ends this process takes the popup with it.
    let (left, closing) = (place.path().to_owned(), tmux.clone());
    let cleanup = signals::on_exit(move || {
        closing.close();
        drop(fs::remove_dir_all(left));
    });
    let ended = tmux.popup(&line)?.wait_with_output().map_err(Error::io("wait for", Path::new("tmux")))?;
    drop(cleanup);
    result(place.path(), &ended)
}

/// The command line of the runner, which tmux gives to a shell.
fn runner(program: &Path, place: &Path) -> Option<String> {
    shlex::try_join([program.to_str()?, RUNNER, place.to_str()?]).ok()
}

fn result(place: &Path, ended: &Output) -> Result<Shown> {
    let path = place.join(DONE);
    match fs::read(&path) {
        Ok(bytes) => {
            let ended = serde_json::from_slice(&bytes)
                .map_err(|e| Fault::io("read", &path, io::Error::new(io::ErrorKind::InvalidData, e)))?;
            Ok(Shown::Ended(ended))
        }
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("read", &path)(e)),
        Err(_) if place.join(STARTED).exists() => Ok(Shown::Closed),
        Err(_) => Ok(Shown::Not(Some(format!("no popup: tmux showed none{}", complaint(ended))))),
    }
}

fn complaint(output: &Output) -> String {
    let said = fit(String::from_utf8_lossy(&output.stderr).trim(), COMPLAINT);
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

/// The server whose socket `TMUX` names.
#[derive(Clone)]
struct Tmux {
    pane: Option<String>,
}

impl Tmux {
    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new("tmux");
        command.arg(verb).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.args(self.pane.iter().flat_map(|pane| ["-t", pane]));
        command
    }

    /// Whether a popup can be shown; else why not, in words.
    fn usable(&self) -> std::result::Result<(), String> {
        let mut ask = self.command("display-message");
        ask.args(["-p", "#{version} #{session_attached}"]);
        let child =
            ask.spawn().map_err(|e| format!("`tmux` cannot be started: {}", clean(&e.to_string())))?;
        let output = within(PATIENCE, child).ok_or("the tmux server of `TMUX` does not answer")?;
        if !output.status.success() {
            return Err(format!("the tmux server of `TMUX` does not answer{}", complaint(&output)));
        }
        // Old ones know no version, and leave its place empty.
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let (version, clients) = said.rsplit_once(' ').unwrap_or((&said, ""));
        if number(version).is_none_or(|version| version < OLDEST) {
            let (major, minor) = OLDEST;
            let which = if version.is_empty() {
                "this tmux".to_owned()
            } else {
                format!("tmux {}", fit(version, 20))
            };
            return Err(format!("{which} is older than {major}.{minor}"));
        }
        if clients == "0" {
            return Err("no terminal is attached to this session of tmux".to_owned());
        }
        Ok(())
    }

    /// A popup that closes with its command. The client waits until it is closed.
    fn popup(&self, line: &str) -> Result<Child> {
        let mut command = self.command("display-popup");
        command.args(["-E", "-w", "95%", "-h", "90%", line]);
        command.spawn().map_err(Error::io("start", Path::new("tmux")))
    }

    fn close(&self) {
        let mut command = self.command("display-popup");
        // Not waited for: this is on the way out.
        drop(command.arg("-C").stdout(Stdio::null()).stderr(Stdio::null()).spawn());
    }
}

/// `3.3a`, `next-3.5`, `openbsd-7.4` begin with a number, or have it behind a hyphen.
fn number(version: &str) -> Option<(u32, u32)> {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

/// What a process printed, if it ends in time; else it is ended.
fn within(limit: Duration, child: Child) -> Option<Output> {
    let pid = child.id();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(limit).ok().and_then(std::result::Result::ok);
    #[cfg(unix)]
    if output.is_none()
        && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = pid;
    output
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let bytes = serde_json::to_vec(value).expect("BUG: texts and numbers are JSON");
    fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path)).map_err(Error::io("write", path))
}

/// Runs in the popup what was asked for, and hands back how it ended.
///
/// # Errors
/// `io`.
pub fn run_in_popup(place: &Path) -> Result<ExitCode> {
    let path = place.join(JOB);
    let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
    let job: Job = serde_json::from_slice(&bytes)
        .map_err(|e| Fault::io("read", &path, io::Error::new(io::ErrorKind::InvalidData, e)))?;
    let mut command = Command::new(&job.program);
    command.args(&job.arguments).current_dir(&job.folder).stdout(Stdio::piped());
    for (name, value) in &job.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.spawn().map_err(Error::io("start", &job.program))?;
    // Where it cannot be written nobody waits, which is said when there is a choice.
    let _ = fs::write(place.join(STARTED), []);
    let output = child.wait_with_output().map_err(Error::io("wait for", &job.program))?;
    let ended =
        Ended { status: output.status.code(), stdout: String::from_utf8_lossy(&output.stdout).into_owned() };
    let handed = write(&place.join(DONE), &ended);
    if handed.is_err() || !process::alive(job.waiter, job.waiter_start.as_deref()) {
        // Whoever made the folder cannot remove it any more.
        drop(fs::remove_dir_all(place));
        abandoned(&ended, job.other.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what was chosen to the person who chose it for nobody.
fn abandoned(ended: &Ended, other: Option<&str>) {
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let text = |key: &str| said[key].as_str().map(clean);
    let Some(record) = text("node_uuid").or(text("leafUuid")) else { return };
    output::stderr_line("the agent waits no longer for this choice; nothing was made");
    output::stderr_line(&format!("inside the agent, `{}` makes the fork", answer(&record, other)));
    output::stderr_line("Enter closes this");
    if io::stdin().is_terminal() {
        let _ = io::stdin().lock().read_line(&mut String::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_tmux_are_numbers_with_more_around_them() {
        for (text, expected) in [
            ("3.3a", Some((3, 3))),
            ("3.2", Some((3, 2))),
            ("next-3.5", Some((3, 5))),
            ("openbsd-7.4", Some((7, 4))),
            ("2.9a", Some((2, 9))),
            ("4", Some((4, 0))),
            ("", None),
            ("master", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
    }

    #[test]
    fn what_tmux_gives_to_a_shell_is_three_words() {
        let line = runner(Path::new("/a b/it's #{pane_id}/offshoot"), Path::new("/tmp/x y")).unwrap();
        let words = shlex::split(&line).unwrap();
        assert_eq!(words, ["/a b/it's #{pane_id}/offshoot", RUNNER, "/tmp/x y"]);
    }
}
