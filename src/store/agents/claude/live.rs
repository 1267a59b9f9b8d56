//! The registry `<config>/sessions/<pid>.json` that a running client, terminal or print mode, has an entry in. It takes no
//! lock, and a `/resume` inside a running client may leave its entry at the session before (2.1.81), so "no owner" never
//! proves that nobody writes.
//!
//! Beside the entries lie keys, which are not opened. Only the fields named here are taken out of an entry.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    path::Path,
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Place;
use crate::{
    refusal::Result,
    store::{
        agents::qwen::{LiveCheck, home::entries},
        owner::OwnerDesc,
        process,
    },
};

/// No entry of the client comes near this size.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// An entry of the registry, in the fields that matter here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Registered {
    pid: u32,
    session_id: String,
    /// The start tick of `/proc`, as a number or as text.
    #[serde(default)]
    proc_start: Value,
    #[serde(default)]
    started_at: Value,
}

/// Looks for processes that have the session open.
///
/// # Errors
/// `io`, if the registry cannot be listed.
pub fn live_owner(place: &Place) -> Result<LiveCheck> {
    let mut check = LiveCheck::default();
    let mut files = entries(&place.config.join("sessions"))?;
    files.sort();
    for (name, path) in files {
        let Some(pid) = name.strip_suffix(".json").and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let Some(entry) = read(&path) else {
            if process::exists(pid) && path.exists() {
                check.notes.push(format!("`{}` cannot be read; it may name this session", path.display()));
            }
            continue;
        };
        if entry.session_id != place.session_id || entry.pid != pid || !runs(pid, &entry.proc_start) {
            continue;
        }
        check.add(OwnerDesc {
            what: "a Claude Code session".to_owned(),
            pid: Some(pid),
            host: Some(process::hostname()),
            since: entry.started_at.as_f64().and_then(time),
            path,
        });
    }
    Ok(check)
}

/// Whether the process that registered still runs: another start tick means that its number was used again.
fn runs(pid: u32, start: &Value) -> bool {
    let then = start.as_u64().or_else(|| start.as_str()?.trim().parse().ok());
    let another = matches!((then, process::start_ticks(pid)), (Some(then), Some(now)) if then != now);
    !another && process::alive(pid, None)
}

/// Parser errors are dropped, because they can quote the file.
fn read(path: &Path) -> Option<Registered> {
    let meta = fs::metadata(path).ok().filter(|m| m.is_file() && m.len() <= MAX_RECORD_BYTES)?;
    let file = File::open(path).ok()?;
    serde_json::from_reader(BufReader::new(file.take(meta.len()))).ok()
}

/// Milliseconds since 1970 as RFC 3339.
fn time(ms: f64) -> Option<String> {
    Timestamp::from_millisecond(ms as i64).ok().map(|t| t.to_string())
}
