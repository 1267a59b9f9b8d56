//! Starts the agent so that it never runs without a lease that names it.
//!
//! The command is started behind a gate: a copy of this program that waits on a named pipe and then becomes the
//! command (same process id, same start time). Only when the lease's owner record names that process is the gate
//! opened. If we are killed before, the pipe has no writer left and the copy ends without having become anything.
//!
//! Who makes a pipe holds an OS lock on it. One that nobody holds was left by a killed run, and the next run and
//! [`sweep`] remove it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
};

#[cfg(unix)]
use super::private;
use super::signals::{self, Cleanup};
use crate::refusal::{Error, Fault, FaultCode, Result};

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
    _cleanup: Cleanup,
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
        let pipe = scratch.join(format!("{PIPE}{}-{unique}", std::process::id()));
        let leave = pipe.clone();
        let cleanup = signals::on_exit(move || remove(&leave));
        let gate = make_gate(scratch, &pipe)?;
        let mut starter = match gate {
            Some(_) => {
                let exe = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
                let mut starter = Command::new(exe);
                starter.arg(GATE).arg(&pipe).arg("--").arg(program_path(command)?);
                starter
            }
            None => Command::new(program_path(command)?),
        };
        starter.args(command.iter().skip(1));
        if let Some(cwd) = cwd {
            starter.current_dir(cwd);
        }
        match starter.spawn() {
            Ok(child) => Ok(Waiting { child, gate, pipe, name, _cleanup: cleanup }),
            Err(e) => {
                remove(&pipe);
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
        remove(&self.pipe);
    }
}

/// Removes a gate, the pipe first: an error file without one is nobody's.
fn remove(pipe: &Path) {
    let _ = fs::remove_file(pipe);
    let _ = fs::remove_file(error_file(pipe));
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

/// A relative path is meant from where the user stands, which is not where the command is started; a bare name is
/// looked for in `PATH`.
fn program_path(command: &[OsString]) -> Result<OsString> {
    let Some(program) = command.first() else { return Ok(OsString::new()) };
    let path = Path::new(program);
    if path.is_absolute() || path.components().count() < 2 && path.file_name() == Some(program) {
        return Ok(program.clone());
    }
    std::path::absolute(path).map(Into::into).map_err(Error::io("find", path))
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

/// How the names of pipes begin.
const PIPE: &str = "gate-";

/// The named pipe, open for both directions: it has a writer as long as we live, and opening it does not wait.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn make_gate(scratch: &Path, pipe: &Path) -> Result<Option<File>> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    // A pipe is not to be swept before it is locked.
    let _sweeping = private::Lock::short(&sweep_lock(scratch))?;
    sweep_locked(scratch)?;
    mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|e| Error::io("create", pipe)(e.into()))?;
    let gate = File::options().read(true).write(true).open(pipe).map_err(Error::io("open", pipe))?;
    fs4::FileExt::try_lock(&gate).map_err(|e| Error::io("lock", pipe)(e.into()))?;
    Ok(Some(gate))
}

/// Removes the pipes that killed runs have left in `scratch`, if there is such a folder. Says how many there were.
///
/// # Errors
/// `io`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn sweep(scratch: &Path) -> Result<usize> {
    if !scratch.is_dir() {
        return Ok(0);
    }
    let _sweeping = private::Lock::short(&sweep_lock(scratch))?;
    sweep_locked(scratch)
}

/// There are no pipes here.
///
/// # Errors
/// None.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn sweep(_: &Path) -> Result<usize> {
    Ok(0)
}

/// Beside the folder, so that the folder is empty when nothing runs.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn sweep_lock(scratch: &Path) -> PathBuf {
    scratch.with_extension("lock")
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn sweep_locked(scratch: &Path) -> Result<usize> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let mut swept = 0;
    for entry in fs::read_dir(scratch).map_err(Error::io("list", scratch))? {
        let path = entry.map_err(Error::io("list", scratch))?.path();
        let ours = path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(PIPE));
        let Ok(kind) = fs::symlink_metadata(&path).map(|m| m.file_type()) else { continue };
        if ours && kind.is_fifo() {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
            // Gone in between: its run has ended well.
            let Ok(gate) = options.open(&path) else { continue };
            if fs4::FileExt::try_lock(&gate).is_ok() {
                remove(&path);
                swept += 1;
            }
        } else if ours && kind.is_file() && !path.with_extension("").exists() {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(swept)
}

/// Without named pipes the command starts at once; the owner record names it right afterwards.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn make_gate(_: &Path, _: &Path) -> Result<Option<File>> {
    Ok(None)
}

/// What the copy of this program does: waits at the gate, then becomes the command. It comes back only if that failed:
/// the file beside the pipe then says why, and whoever opened the gate reports it.
///
/// # Errors
/// `lease-lost` if the holder of the lease ended before it opened the gate; faults that could not be left in the file.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn wait_at_gate(pipe: &Path, command: &[OsString]) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let why = match pass_gate(pipe) {
        Ok(()) => match command.split_first() {
            Some((program, arguments)) => Command::new(program).args(arguments).exec().to_string(),
            None => "no command is given".to_owned(),
        },
        Err(Error::Fault(fault)) if fault.code == FaultCode::LeaseLost => return Err(Error::Fault(fault)),
        Err(other) => other.to_string(),
    };
    let file = error_file(pipe);
    fs::write(&file, why).map_err(Error::io("write", &file))
}

#[cfg(unix)]
fn holder_is_gone() -> Error {
    Fault::new(FaultCode::LeaseLost, "the holder of the lease ended before the command").into()
}

/// Waits until the gate is opened.
#[cfg(unix)]
fn pass_gate(pipe: &Path) -> Result<()> {
    use std::{io::Read, os::unix::fs::OpenOptionsExt};
    let mut gate = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(pipe)
        .map_err(|e| match e.kind() {
            // It is removed by its maker alone, or after its maker's end.
            io::ErrorKind::NotFound => holder_is_gone(),
            _ => Error::io("open", pipe)(e),
        })?;
    let mut byte = [0];
    loop {
        match gate.read(&mut byte) {
            Ok(1) => return Ok(()),
            // No writer: whoever held the lease is gone, and nothing must run.
            Ok(_) => {
                return Err(holder_is_gone());
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
}

/// There is no gate here.
///
/// # Errors
/// Always.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn wait_at_gate(_: &Path, _: &[OsString]) -> Result<()> {
    Err(Fault::new(FaultCode::CommandFailedToStart, "no gate on this system").into())
}
