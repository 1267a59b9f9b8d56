//! Who holds a lease: what stands in our lock file, and how an owner is named in a refusal.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::process::{self, Machine};

/// What an owner record in our lock file stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnerKind {
    /// An `offshoot` that reads, decides and records. Its lease ends with the OS lock.
    Process,
    /// An `offshoot` that appends records. Its lease ends with the OS lock too, but a torn line may be left over.
    Writer,
    /// A command that `offshoot` started. It holds the lease as long as it lives, OS lock or not.
    Command,
}

/// The owner record in our lock file: one JSON object on the first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// What kind of owner.
    pub kind: OwnerKind,
    /// Its process id.
    pub pid: u32,
    /// Pid and start in one text ([`process::start_identity`]); null where the system does not tell.
    pub start: Option<String>,
    /// The boot that the pid belongs to (Linux).
    pub boot_id: Option<String>,
    /// The pid namespace that the pid belongs to (Linux).
    pub pid_namespace: Option<u64>,
    /// Its host.
    pub host: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// What it does: a subcommand, or the name of the command (never its arguments).
    pub purpose: String,
}

/// What can be said of an owner that did not remove its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It runs.
    Alive,
    /// It does not run any more.
    Dead,
    /// It belongs to another machine or pid namespace, where we cannot look.
    Unverifiable,
}

impl Owner {
    /// A record for process `pid` on this machine.
    pub fn new(kind: OwnerKind, pid: u32, purpose: &str, since: Timestamp) -> Owner {
        let Machine { host, boot_id, pid_namespace } = Machine::this();
        Owner {
            kind,
            pid,
            start: process::start_identity(pid),
            boot_id,
            pid_namespace,
            host,
            since: since.to_string(),
            purpose: purpose.to_owned(),
        }
    }

    /// Reads the first line of a lock file. None if it is empty, torn or not ours.
    pub fn parse(bytes: &[u8]) -> Option<Owner> {
        let end = memchr::memchr(b'\n', bytes)?;
        serde_json::from_slice(&bytes[..end]).ok()
    }

    /// The line that [`Owner::parse`] reads.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("BUG: an owner record is plain data");
        line.push(b'\n');
        line
    }

    /// Whether the process that wrote this still runs, as far as this machine can tell.
    ///
    /// The boot id tells machines apart where there is one (host names change); of two different boots with the
    /// same host name the earlier one is over.
    pub fn state(&self, here: &Machine) -> OwnerState {
        match (&self.boot_id, &here.boot_id) {
            (Some(theirs), Some(ours)) if theirs != ours => {
                return if self.host == here.host { OwnerState::Dead } else { OwnerState::Unverifiable };
            }
            (Some(_), Some(_)) => {}
            _ if self.host != here.host => return OwnerState::Unverifiable,
            _ => {}
        }
        if self.pid_namespace != here.pid_namespace {
            OwnerState::Unverifiable
        } else if process::alive(self.pid, self.start.as_deref()) {
            OwnerState::Alive
        } else {
            OwnerState::Dead
        }
    }

    /// How a refusal names this owner, whose record stands in `lock`.
    pub fn describe(&self, lock: &Path) -> OwnerDesc {
        OwnerDesc {
            what: self.purpose.clone(),
            pid: Some(self.pid),
            host: Some(self.host.clone()),
            since: Some(self.since.clone()),
            path: lock.to_owned(),
        }
    }
}

/// An owner as a refusal names it. Holds nothing secret: of an agent's files only these facts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerDesc {
    /// What it is, such as `resume` or `a Qwen Code session (tui)`.
    pub what: String,
    /// Its process id, if it is known.
    pub pid: Option<u32>,
    /// Its host, if it is known.
    pub host: Option<String>,
    /// Since when, as it was written.
    pub since: Option<String>,
    /// The file that says so.
    pub path: PathBuf,
}

impl OwnerDesc {
    /// Whether both are the same process, by number and host; an owner without a number is only itself.
    pub fn is_process_of(&self, other: &OwnerDesc) -> bool {
        (self.pid.is_some() || self.path == other.path) && self.pid == other.pid && self.host == other.host
    }

    /// For the `detail` of a refusal.
    pub fn to_json(&self) -> Value {
        json!({
            "what": self.what, "pid": self.pid, "host": self.host, "since": self.since,
            "path": self.path.display().to_string(),
        })
    }
}

impl fmt::Display for OwnerDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(pid) = self.pid {
            write!(f, ", process {pid}")?;
        }
        if let Some(host) = &self.host {
            write!(f, " on `{host}`")?;
        }
        if let Some(since) = &self.since {
            write!(f, ", since {since}")?;
        }
        write!(f, " (`{}`)", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Owner {
        Owner::new(OwnerKind::Command, std::process::id(), "claude", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_record_is_read_back_and_a_torn_one_is_none() {
        let line = me().line();
        assert_eq!(Owner::parse(&line), Some(me()));
        assert_eq!(Owner::parse(&[line.as_slice(), b"rest of a longer one\n"].concat()), Some(me()));
        for cut in 0..line.len() {
            assert_eq!(Owner::parse(&line[..cut]), None, "cut after {cut}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_owner_is_judged_only_where_it_can_be_seen() {
        let here = Machine::this();
        assert_eq!(me().state(&here), OwnerState::Alive);
        let started = Owner { start: Some("linux:x:1".into()), ..me() };
        assert_eq!(started.state(&here), OwnerState::Dead, "the pid was used again");
        let renamed = Owner { host: "elsewhere".into(), ..me() };
        assert_eq!(renamed.state(&here), OwnerState::Alive, "the host was renamed in the same boot");
        let rebooted = Owner { boot_id: Some("0".into()), ..me() };
        assert_eq!(rebooted.state(&here), OwnerState::Dead);
        let elsewhere = Owner { boot_id: Some("0".into()), host: "elsewhere".into(), ..me() };
        assert_eq!(elsewhere.state(&here), OwnerState::Unverifiable);
        let container = Owner { pid_namespace: Some(1), ..me() };
        assert_eq!(container.state(&here), OwnerState::Unverifiable);
    }
}
