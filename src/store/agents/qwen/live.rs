//! Who has a Qwen Code session open, as far as the client's own marks tell: `<id>.runtime.json` beside the
//! transcript (terminal sessions) and the registry `<home>/sessions/*.json` (terminal and ACP sessions).
//!
//! A plain `qwen -p` leaves no mark at all, so "no owner" never proves that nobody writes.
//!
//! Registry files hold a token that gives access to the session. Only the fields named here are taken out of them;
//! the rest is skipped while parsing and kept nowhere.

use std::{fs, path::Path};

use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};

use super::home::{Place, QwenDirs, all_chats, entries};
use crate::{
    refusal::Result,
    store::{
        file::read_small,
        owner::OwnerDesc,
        process::{self, Machine},
    },
};

/// The client itself reads no larger registry file.
pub(super) const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// What the marks say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveCheck {
    /// A process that has the session open.
    pub owner: Option<OwnerDesc>,
    /// Further ones.
    pub others: Vec<OwnerDesc>,
    /// Marks that could not be judged, in words.
    pub notes: Vec<String>,
}

impl LiveCheck {
    /// Adds a process, unless it was found by another mark already.
    pub(in crate::store::agents) fn add(&mut self, owner: OwnerDesc) {
        let known = self.owner.iter().chain(&self.others).any(|known| known.is_process_of(&owner));
        match self.owner {
            _ if known => {}
            None => self.owner = Some(owner),
            Some(_) => self.others.push(owner),
        }
    }
}

/// `<id>.runtime.json`, in the fields that matter here.
#[derive(Deserialize)]
struct RuntimeStatus {
    pid: i64,
    session_id: String,
    hostname: String,
    #[serde(default)]
    started_at: Option<f64>,
}

/// A file of the registry, in the fields that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Registered {
    pid: u32,
    session_id: String,
    #[serde(default)]
    proc_start: Option<String>,
    #[serde(default)]
    pid_ns: Option<u64>,
    #[serde(default)]
    started_at: Option<f64>,
    #[serde(default)]
    kind: Option<String>,
}

/// Looks for processes that have the session open.
///
/// # Errors
/// `io`, if a folder cannot be listed.
pub fn live_owner(place: &Place, dirs: &QwenDirs) -> Result<LiveCheck> {
    let here = Machine::this();
    let mut check = LiveCheck::default();
    by_runtime_status(place, &here, &mut check)?;
    by_registry(place, dirs, &here, &mut check)?;
    Ok(check)
}

/// The client's own test, over all projects of the runtime base as it does: a file that names another host, or a pid
/// for which the system says anything but "no such process", counts as an owner. The file is left behind by a
/// killed client, so a pid that is gone means nothing.
fn by_runtime_status(place: &Place, here: &Machine, check: &mut LiveCheck) -> Result<()> {
    let name = format!("{}.runtime.json", place.session_id);
    for chats in all_chats(&place.base.join("projects"))? {
        let path = chats.join(&name);
        if fs::symlink_metadata(&path).is_err() {
            continue;
        }
        let Some(status) = read::<RuntimeStatus>(&path) else {
            check
                .notes
                .push(format!("`{}` cannot be read; the client would take it for absent", path.display()));
            continue;
        };
        if status.session_id != place.session_id {
            continue;
        }
        let pid = u32::try_from(status.pid).ok().filter(|pid| *pid > 0);
        // Pids of 0 and below mean groups of processes, for which the client's test succeeds.
        if status.hostname == here.host && pid.is_some_and(|pid| !process::exists(pid)) {
            continue;
        }
        check.add(OwnerDesc {
            what: "a Qwen Code session (tui)".to_owned(),
            pid,
            host: Some(status.hostname),
            since: status.started_at.and_then(|s| time(s * 1000.0)),
            path,
        });
    }
    Ok(())
}

fn by_registry(place: &Place, dirs: &QwenDirs, here: &Machine, check: &mut LiveCheck) -> Result<()> {
    let mut files = entries(&dirs.registry())?;
    files.sort();
    for (name, path) in files {
        let Some(pid) = pid_of_file_name(&name) else { continue };
        let Some(record) = read::<Registered>(&path) else {
            // Gone in between, or no record; the client passes over it too.
            if process::exists(pid) && path.exists() {
                check.notes.push(format!("`{}` cannot be read; it may name this session", path.display()));
            }
            continue;
        };
        if record.session_id != place.session_id || record.pid != pid {
            continue;
        }
        let boot = record.proc_start.as_deref().and_then(|s| s.split_once(':')).map(|(boot, _)| boot);
        if let (Some(boot), Some(ours)) = (boot, &here.boot_id)
            && !boot.eq_ignore_ascii_case(ours)
        {
            continue;
        }
        if record.pid_ns != here.pid_namespace {
            check.notes.push(format!(
                "`{}` names a process of another pid namespace, which cannot be seen from here",
                path.display()
            ));
            continue;
        }
        let start = record.proc_start.map(|token| format!("linux:{token}"));
        if process::alive(pid, start.as_deref()) {
            let kind = record.kind.filter(|k| is_kind(k)).unwrap_or_else(|| "tui".to_owned());
            check.add(OwnerDesc {
                what: format!("a Qwen Code session ({kind})"),
                pid: Some(pid),
                host: Some(here.host.clone()),
                since: record.started_at.and_then(time),
                path,
            });
        }
    }
    Ok(())
}

/// `<pid>.json` or `<pid>-<8 hexadecimal digits>.json`.
fn pid_of_file_name(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".json")?;
    let digits = match stem.split_once('-') {
        Some((digits, slot)) => {
            let ok =
                slot.len() == 8 && slot.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            ok.then_some(digits)?
        }
        None => stem,
    };
    let pid: u32 = digits.parse().ok().filter(|pid| *pid > 0)?;
    (pid.to_string() == digits).then_some(pid)
}

/// The client's pattern for kinds: what is shown is no text that somebody chose freely.
fn is_kind(kind: &str) -> bool {
    let rest_is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=16).contains(&kind.len())
        && kind.as_bytes()[0].is_ascii_lowercase()
        && kind.bytes().all(rest_is_plain)
}

/// Parses the named fields of a small regular file; none if it is not one or does not hold them. Parser errors are
/// dropped, because they can quote the file.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read_small(path, MAX_RECORD_BYTES).ok()?).ok()
}

/// Milliseconds since 1970 as RFC 3339.
fn time(ms: f64) -> Option<String> {
    Timestamp::from_millisecond(ms as i64).ok().map(|t| t.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_files_are_named_by_pid() {
        assert_eq!(pid_of_file_name("12.json"), Some(12));
        assert_eq!(pid_of_file_name("12-0a1b2c3d.json"), Some(12));
        for other in
            ["012.json", "0.json", "12-xyz.json", "12-0A1B2C3D.json", "12.json.tmp", "a.json", "-1.json"]
        {
            assert_eq!(pid_of_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn kinds_are_plain_words() {
        assert!(is_kind("tui") && is_kind("headless"));
        for bad in ["", "Tui", "a b", "\u{1b}[31m", "abcdefghijklmnopq"] {
            assert!(!is_kind(bad), "{bad:?}");
        }
    }
}
