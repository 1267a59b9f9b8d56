//! The client as a process: found, started with a bare environment, ended in bounded time.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Options, place::Place};
use crate::{
    record::Agent,
    refusal::{Error, Fault, FaultCode, Result},
    store::signals,
};

/// How much of what it prints is looked at, and how much it may print at all.
const LOOKED_AT: u64 = 64 * 1024;
const PRINTED: u64 = 64 * 1024 * 1024;
/// How long until it is looked at again whether it has ended.
const STEP: Duration = Duration::from_millis(10);
/// How much of it is shown.
const SHOWN: usize = 200;

/// A run that is over.
pub(super) struct Ran {
    status: Option<ExitStatus>,
    pub stdout: String,
    stderr: String,
    /// Whether we ended it.
    pub cut_short: bool,
    limit: Duration,
}

impl Ran {
    /// What was wrong with the run, if anything.
    pub fn trouble(&self) -> Option<String> {
        if self.cut_short {
            return Some(format!(
                "the client did not end in {:?}, or printed without end; it was ended",
                self.limit
            ));
        }
        match self.status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("the client ended with {status}: {}", self.printed())),
            None => Some("the client cannot be waited for".to_owned()),
        }
    }

    /// What it printed, in short.
    pub fn printed(&self) -> String {
        let text = format!("{} {}", self.stdout.trim(), self.stderr.trim());
        let text = text.trim();
        match text.char_indices().nth(SHOWN) {
            _ if text.is_empty() => "it printed nothing".to_owned(),
            Some((at, _)) => format!("`{}...`", &text[..at]),
            None => format!("`{text}`"),
        }
    }
}

/// The program: the one that was named, else the one of the usual name on `PATH`.
pub(super) fn find(options: &Options) -> Result<PathBuf> {
    let name = options.agent.name();
    let found = match &options.client {
        Some(program) => program.canonicalize().ok().filter(|p| p.is_file()).map(|_| absolute(program)),
        None => {
            let dirs = options.path.iter().flat_map(std::env::split_paths);
            let mut programs = dirs.filter(|d| d.is_absolute()).map(|d| d.join(name));
            programs.find(|p| is_program(p))
        }
    };
    found.ok_or_else(|| match &options.client {
        Some(program) => not_started(program, "there is no such file"),
        None => not_started(Path::new(name), "it is not on `PATH`; name it with `--client`"),
    })
}

/// Its own name is kept: some programs go by it.
fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

fn not_started(program: &Path, why: &str) -> Error {
    let program = program.display().to_string();
    Fault::new(FaultCode::CommandFailedToStart, format!("`{program}` cannot be started: {why}"))
        .detail(json!({"command": program}))
        .into()
}

/// The arguments for one prompt in a session.
pub(super) fn resume_arguments(agent: Agent, session: &str, prompt: &str) -> Vec<String> {
    let auth: &[&str] = if agent == Agent::Claude { &[] } else { &["--auth-type", "openai"] };
    auth.iter().chain(&["--resume", session, "-p", prompt]).map(|&a| a.to_owned()).collect()
}

/// The first thing in a text that looks like a version.
pub(super) fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let core = word.split(['-', '+']).next().unwrap_or_default();
        let numbers: Vec<&str> = core.split('.').collect();
        numbers.len() == 3
            && numbers.iter().all(|n| (1..10).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let words = text.split_whitespace().map(|w| w.trim_start_matches('v'));
    words.filter(|w| w.len() < 64).find(is_version).map(str::to_owned)
}

/// Runs it to its end or to the limit. Nothing that it started in its process group outlives it.
pub(super) fn start(
    options: &Options,
    program: &Path,
    place: &Place,
    port: Option<u16>,
    args: &[String],
) -> Result<Ran> {
    let (out, err) = (place.output("stdout"), place.output("stderr"));
    let create = |path: &Path| File::create(path).map_err(Error::io("create", path));
    let mut command = Command::new(program);
    command.args(args).current_dir(&place.project).env_clear().envs(environment(options, place, port));
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn().map_err(|e| not_started(program, &e.to_string()))?;
    let mut group = Group(child);
    let pid = group.0.id();
    let cleanup = signals::on_exit(move || end_group(pid));
    let deadline = Instant::now() + options.limit;
    let too_much = || [&out, &err].iter().any(|p| fs::metadata(p).is_ok_and(|m| m.len() > PRINTED));
    let mut cut_short = false;
    while !has_ended(&mut group.0) {
        if Instant::now() >= deadline || too_much() {
            cut_short = true;
            break;
        }
        thread::sleep(STEP);
    }
    // While the leader is not waited for, its id is nobody else's.
    let status = group.end(cleanup);
    let ran =
        Ran { status, stdout: beginning(&out), stderr: beginning(&err), cut_short, limit: options.limit };
    // A shell, or `env` in a first line, that did not find what it should start.
    match ran.status.and_then(|s| s.code()) {
        Some(126 | 127) => Err(not_started(program, &ran.printed())),
        _ => Ok(ran),
    }
}

/// A started process that leads a group.
struct Group(Child);

impl Group {
    fn end(mut self, cleanup: signals::Cleanup) -> Option<ExitStatus> {
        end_group(self.0.id());
        #[cfg(not(unix))]
        let _ = self.0.kill();
        drop(cleanup);
        self.0.wait().ok()
    }
}

#[cfg(unix)]
fn end_group(leader: u32) {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(leader) = leader {
        let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_group(_: u32) {}

/// Whether the process has ended; it is not waited for yet.
#[cfg(unix)]
fn has_ended(child: &mut Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return true };
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

#[cfg(not(unix))]
fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

fn environment(
    options: &Options,
    place: &Place,
    port: Option<u16>,
) -> Vec<(&'static str, std::ffi::OsString)> {
    // Port 9 answers nobody: a request elsewhere than to the model fails.
    let nowhere = "http://127.0.0.1:9";
    let model = format!("http://127.0.0.1:{}", port.unwrap_or(9));
    let mut env = vec![
        ("HOME", place.home.clone().into()),
        ("PATH", options.path.clone().unwrap_or_else(|| "/usr/bin:/bin".into())),
        ("TMPDIR", place.home.join("tmp").into()),
        ("HTTP_PROXY", nowhere.into()),
        ("HTTPS_PROXY", nowhere.into()),
        ("NO_PROXY", "127.0.0.1".into()),
    ];
    match options.agent {
        Agent::Claude => env.extend([
            ("CLAUDE_CONFIG_DIR", place.home.join(".claude").into()),
            ("ANTHROPIC_API_KEY", "dummy".into()),
            ("ANTHROPIC_BASE_URL", model.into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
            ("DISABLE_ERROR_REPORTING", "1".into()),
        ]),
        _ => env.extend([
            ("OPENAI_API_KEY", "dummy".into()),
            ("OPENAI_BASE_URL", format!("{model}/v1").into()),
            ("OPENAI_MODEL", "mock-model".into()),
            // Else it starts itself a second time, for a larger heap.
            ("QWEN_CODE_NO_RELAUNCH", "1".into()),
        ]),
    }
    env
}

fn beginning(path: &Path) -> String {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut text));
    read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_clients_print() {
        for (text, version) in [
            ("2.1.332 (Claude Code)\n", Some("2.1.332")),
            ("0.24.4\n", Some("0.24.4")),
            ("qwen v0.25.0-preview.1", Some("0.25.0-preview.1")),
            ("no version 1.2 here", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
