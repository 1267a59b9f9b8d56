//! Where the crash tests stop the program. A hook for tests: without a plan every point does nothing.
//!
//! A plan names one point and what happens there. `cli` takes it from `OFFSHOOT_FAULT_POINT`, once, at start:
//! `NAME=kill`, `NAME=error` or `NAME=pause:FILE`, with `NAME#2` for the second time the point is reached.

use std::{
    fs, io,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// What happens at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process ends at once, as by `kill -9`: no destructor, no handler.
    Kill,
    /// The file is created, and the process waits until somebody removes it.
    Pause(PathBuf),
    /// The operation fails with an I/O error.
    Error,
}

/// One point and what happens there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The point's name.
    pub point: String,
    /// At which of its visits, from 1.
    pub visit: u32,
    /// What happens.
    pub kind: FaultKind,
}

impl FaultPlan {
    /// Reads `NAME[#VISIT]=kill|error|pause:FILE`.
    pub fn parse(text: &str) -> Option<FaultPlan> {
        let (name, kind) = text.split_once('=')?;
        let (point, visit) = match name.split_once('#') {
            Some((point, visit)) => (point, visit.parse().ok()?),
            None => (name, 1),
        };
        let kind = match kind {
            "kill" => FaultKind::Kill,
            "error" => FaultKind::Error,
            other => FaultKind::Pause(PathBuf::from(other.strip_prefix("pause:")?)),
        };
        Some(FaultPlan { point: point.to_owned(), visit, kind })
    }
}

static PLAN: OnceLock<(FaultPlan, AtomicU32)> = OnceLock::new();

/// Arms the plan for the life of the process; only the first call counts.
pub fn set(plan: FaultPlan) {
    PLAN.get_or_init(|| (plan, AtomicU32::new(0)));
}

/// A place where a crash test can stop the program.
///
/// # Errors
/// Only if a plan says so.
pub fn point(name: &'static str) -> io::Result<()> {
    let Some((plan, visits)) = PLAN.get() else { return Ok(()) };
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
    }
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
        for bad in ["", "a", "a=stop", "a#x=kill"] {
            assert_eq!(FaultPlan::parse(bad), None, "{bad}");
        }
    }
}
