//! Starts the agent so that it never runs without a lease that names it.
//!
//! The command is started behind a gate: a copy of this program that waits on a named pipe and then becomes the
//! command (same process id, same start time). Only when the lease's owner record names that process is the gate
//! opened. If we are killed before, the pipe has no writer left and the copy ends without having become anything.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
};

use crate::{
    refusal::{Error, Fault, FaultCode, Result},
    store::atomic::remove_if_there,
};

/// The hidden subcommand that waits at the gate.
pub const GATE: &str = "__gate";

/// A command that waits to be let through.
#[must_use = "a command that is not let through ends"]
#[derive(Debug)]
pub struct Waiting {
    child: Child,
    gate: Option<File>,
    pipe: PathBuf,
    name: String,
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    waiting: Waiting,
}

impl Waiting {
    /// Starts `command` behind the gate, in `cwd`. `scratch` is a private folder for the pipe, `unique` part of its name.
    ///
    /// # Errors
    /// The fault `command-failed-to-start`; `io`.
    pub fn start(scratch: &Path, unique: &str, command: &[OsString], cwd: Option<&Path>) -> Result<Waiting> {
        let name = command.first().map(|c| program_name(c)).unwrap_or_default();
        let pipe = scratch.join(format!("gate-{unique}"));
        let gate = make_gate(&pipe)?;
        let mut starter = match gate {
            Some(_) => {
                let exe = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
                let mut starter = Command::new(exe);
                starter.arg(GATE).arg(&pipe).arg("--").args(command);
                starter
            }
            None => {
                let mut starter = Command::new(command.first().map_or(OsStr::new(""), |c| c));
                starter.args(&command[1..]);
                starter
            }
        };
        if let Some(cwd) = cwd {
            starter.current_dir(cwd);
        }
        match starter.spawn() {
            Ok(child) => Ok(Waiting { child, gate, pipe, name }),
            Err(e) => {
                let _ = fs::remove_file(&pipe);
                Err(failed_to_start(&name, &e.to_string()))
            }
        }
    }

    /// Its process id, before and after it is let through.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The program's name, without arguments.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it through.
    ///
    /// # Errors
    /// `io`.
    pub fn open_gate(self) -> Result<Running> {
        if let Some(mut gate) = self.gate.as_ref() {
            io::Write::write_all(&mut gate, b"g").map_err(Error::io("write", &self.pipe))?;
        }
        Ok(Running { waiting: self })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Without a writer the gate ends by itself; a command that was let through is not touched.
        self.gate = None;
        let _ = fs::remove_file(&self.pipe);
        let _ = fs::remove_file(error_file(&self.pipe));
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.waiting.child.id()
    }

    /// Waits for its end and gives its exit status, 128+n after signal n.
    ///
    /// # Errors
    /// The fault `command-failed-to-start` where the gate was opened and the command could not be executed; `io`.
    pub fn wait(mut self) -> Result<i32> {
        let status =
            self.waiting.child.wait().map_err(Error::io("wait for", Path::new(&self.waiting.name)))?;
        if let Ok(why) = fs::read_to_string(error_file(&self.waiting.pipe)) {
            return Err(failed_to_start(&self.waiting.name, why.trim_end()));
        }
        Ok(exit_code(status))
    }
}

fn program_name(program: &OsStr) -> String {
    let path = Path::new(program);
    path.file_name().unwrap_or(program).to_string_lossy().into_owned()
}

fn failed_to_start(name: &str, why: &str) -> Error {
    Fault::new(FaultCode::CommandFailedToStart, format!("cannot start `{name}`: {why}")).into()
}

fn error_file(pipe: &Path) -> PathBuf {
    pipe.with_extension("error")
}

#[cfg(unix)]
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|n| 128 + n)).unwrap_or(1)
}

#[cfg(not(unix))]
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

/// The named pipe, open for both directions: it has a writer as long as we live, and opening it does not wait.
#[cfg(unix)]
fn make_gate(pipe: &Path) -> Result<Option<File>> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    // One that a killed run of the same operation left, and what it said: nobody reads them any more, because the
    // operation's lock is ours.
    for stale in [pipe.to_owned(), error_file(pipe)] {
        remove_if_there(&stale)?;
    }
    mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|e| Error::io("create", pipe)(e.into()))?;
    let gate = File::options().read(true).write(true).open(pipe).map_err(Error::io("open", pipe))?;
    Ok(Some(gate))
}

/// Without named pipes the command starts at once; the owner record names it right afterwards.
#[cfg(not(unix))]
fn make_gate(_: &Path) -> Result<Option<File>> {
    Ok(None)
}

/// What the copy of this program does: waits at the gate, then becomes the command.
///
/// # Errors
/// Only if the command cannot be executed, which the file beside the pipe then says too.
#[cfg(unix)]
pub fn wait_at_gate(pipe: &Path, command: &[OsString]) -> Result<()> {
    use std::os::unix::{fs::OpenOptionsExt, process::CommandExt};
    let mut gate = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(pipe)
        .map_err(Error::io("open", pipe))?;
    let mut byte = [0];
    loop {
        match gate.read(&mut byte) {
            Ok(1) => break,
            // No writer: whoever held the lease is gone, and nothing must run.
            Ok(_) => {
                return Err(Fault::new(
                    FaultCode::LeaseLost,
                    "the holder of the lease ended before the command",
                )
                .into());
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [rustix::event::PollFd::new(&gate, rustix::event::PollFlags::IN)];
                match rustix::event::poll(&mut fds, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(Error::io("wait on", pipe)(e.into())),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("read", pipe)(e)),
        }
    }
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let error = Command::new(program).args(arguments).exec();
    let _ = fs::write(error_file(pipe), error.to_string());
    Err(failed_to_start(&program_name(program), &error.to_string()))
}

/// There is no gate here.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn wait_at_gate(_: &Path, _: &[OsString]) -> Result<()> {
    Err(Fault::new(FaultCode::CommandFailedToStart, "no gate on this system").into())
}
