//! Where the crash tests stop the program. A hook for tests: without a plan every point does nothing.
//!
//! A plan names one point and what happens there. `cli` takes it from `OFFSHOOT_FAULT_POINT`, once, at start:
//! `NAME=kill`, `NAME=error` or `NAME=pause:FILE`, with `NAME#2` for the second time the point is reached.
//! `*=trace:FILE` stops nowhere and writes down every point that is reached, so that a test can visit them all.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::refusal::{Error, Result};

/// What happens at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process ends at once, as by `kill -9`: no destructor, no handler.
    Kill,
    /// The file is created, and the process waits until somebody removes it.
    Pause(PathBuf),
    /// The operation fails with an I/O error.
    Error,
    /// Nothing, but the point's name is added to the file as a line. At every point and visit.
    Trace(PathBuf),
}

/// One point and what happens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The point's name. `*` stands for all of them, which only a trace makes use of.
    pub point: String,
    /// At which of its visits, from 1.
    pub visit: u32,
    /// What happens.
    pub kind: FaultKind,
}

impl FaultPlan {
    /// Reads `NAME[#VISIT]=kill|error|pause:FILE` or `*=trace:FILE`.
    pub fn parse(text: &str) -> Option<FaultPlan> {
        let (name, kind) = text.split_once('=')?;
        let (point, visit) = match name.split_once('#') {
            Some((point, visit)) => (point, visit.parse().ok()?),
            None => (name, 1),
        };
        let kind = match kind {
            "kill" => FaultKind::Kill,
            "error" => FaultKind::Error,
            other => match other.strip_prefix("trace:") {
                Some(file) if name == "*" => FaultKind::Trace(PathBuf::from(file)),
                Some(_) => return None,
                None => FaultKind::Pause(PathBuf::from(other.strip_prefix("pause:")?)),
            },
        };
        Some(FaultPlan { point: point.to_owned(), visit, kind })
    }
}

static PLAN: OnceLock<(FaultPlan, AtomicU32)> = OnceLock::new();

/// Arms the plan for the life of the process; only the first call counts.
pub fn set(plan: FaultPlan) {
    PLAN.get_or_init(|| (plan, AtomicU32::new(0)));
}

/// [`point`] between two steps of work on `path`.
///
/// # Errors
/// `io`, where the plan says so.
pub fn at(name: &'static str, path: &Path) -> Result<()> {
    point(name).map_err(Error::io("use", path))
}

/// A place where a crash test can stop the program.
///
/// # Errors
/// Only if a plan says so.
pub fn point(name: &'static str) -> io::Result<()> {
    let Some((plan, visits)) = PLAN.get() else { return Ok(()) };
    if let FaultKind::Trace(file) = &plan.kind {
        return fs::File::options()
            .create(true)
            .append(true)
            .open(file)?
            .write_all(format!("{name}\n").as_bytes());
    }
    if plan.point != name || visits.fetch_add(1, Ordering::SeqCst) + 1 != plan.visit {
        return Ok(());
    }
    match &plan.kind {
        FaultKind::Kill => die(),
        FaultKind::Error => Err(io::Error::other(format!("fault point `{name}`"))),
        FaultKind::Pause(file) => {
            fs::write(file, name)?;
            while file.exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        }
        FaultKind::Trace(_) => Ok(()),
    }
}

/// A point in the middle of a write: if a plan strikes here, `write` gets the first half of the bytes before it does,
/// as a kill or a full disk may leave them. Else nothing is written.
///
/// # Errors
/// Only if a plan says so.
pub fn halfway(
    name: &'static str,
    bytes: &[u8],
    write: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let strikes = PLAN
        .get()
        .is_some_and(|(plan, visits)| plan.point == name && visits.load(Ordering::SeqCst) + 1 == plan.visit);
    if strikes {
        write(&bytes[..bytes.len() / 2])?;
    }
    point(name)
}

#[cfg(unix)]
fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(not(unix))]
fn die() -> ! {
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read() {
        let plan = |point: &str, visit, kind| Some(FaultPlan { point: point.to_owned(), visit, kind });
        assert_eq!(FaultPlan::parse("a.b=kill"), plan("a.b", 1, FaultKind::Kill));
        assert_eq!(FaultPlan::parse("a#3=error"), plan("a", 3, FaultKind::Error));
        assert_eq!(FaultPlan::parse("a=pause:/x=y"), plan("a", 1, FaultKind::Pause("/x=y".into())));
        assert_eq!(FaultPlan::parse("*=trace:/x"), plan("*", 1, FaultKind::Trace("/x".into())));
        for bad in ["", "a", "a=stop", "a#x=kill", "a=trace:/x", "*=trace"] {
            assert_eq!(FaultPlan::parse(bad), None, "{bad}");
        }
    }
}
