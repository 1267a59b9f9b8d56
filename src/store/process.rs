//! Facts about processes and this machine: is it the same process as then, and is it alive?
//!
//! A pid alone names nothing, because pids are used again. Where the system tells when a process started (Linux:
//! `/proc`), pid and start time together do, within one boot and one pid namespace.

use std::fs;

use super::ledger::entry::Who;

/// What identifies this machine's run and the view it has of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The host name, as `gethostname` gives it.
    pub host: String,
    /// The id of this boot (Linux only).
    pub boot_id: Option<String>,
    /// The inode of the pid namespace (Linux only): pids of another one mean nothing here.
    pub pid_namespace: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn this() -> Machine {
        Machine { host: hostname(), boot_id: boot_id(), pid_namespace: pid_namespace() }
    }
}

/// The host name; empty if it has none.
#[cfg(unix)]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The host name; empty if it is not known.
#[cfg(not(unix))]
pub fn hostname() -> String {
    String::new()
}

/// The id of this boot, in lower case (Linux only).
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_ascii_lowercase();
    let ok = !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    ok.then_some(id)
}

/// The inode of this process's pid namespace (Linux only).
#[cfg(target_os = "linux")]
pub fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").ok().map(|m| m.ino()).filter(|&ino| ino > 0)
}

/// The inode of this process's pid namespace (Linux only).
#[cfg(not(target_os = "linux"))]
pub fn pid_namespace() -> Option<u64> {
    None
}

/// What is read of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
    /// In clock ticks since boot.
    started: u64,
}

/// The second field is the program's name in brackets and may itself hold blanks and brackets, so fields are
/// counted from the last `)`: the next ones are fields 3 (state) and 4 (parent), the start time is field 22.
fn parse_stat(stat: &str) -> Option<Stat> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { state, parent, started: fields.nth(17)?.parse().ok()? })
}

fn stat(pid: u32) -> Option<Stat> {
    // The name may hold any bytes; the fields that we read are ASCII.
    parse_stat(&String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// When a process started, in clock ticks since boot; none where the system does not tell.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.started)
}

/// Whether a process may have been started by another one, directly or not; where the system does not tell, it may.
pub fn may_descend(pid: u32, from: u32) -> bool {
    let mut at = pid;
    // More generations than any process has; pids that are used again while we look could make a circle.
    for _ in 0..256 {
        let Some(stat) = stat(at) else { return !cfg!(target_os = "linux") };
        match stat.parent {
            0 | 1 => return false,
            parent if parent == from => return true,
            parent => at = parent,
        }
    }
    false
}

/// Pid and start of a process in one comparable text, `linux:<boot id>:<ticks>` on Linux and
/// `darwin:<start as ps prints it>` on macOS; none where the system does not tell.
///
/// The form is Qwen Code's (`process_start_identity` of its lock records).
#[cfg(not(target_os = "macos"))]
pub fn start_identity(pid: u32) -> Option<String> {
    Some(format!("linux:{}:{}", boot_id()?, start_ticks(pid)?))
}

/// Pid and start of a process in one comparable text, `darwin:<start as ps prints it>`.
#[cfg(target_os = "macos")]
pub fn start_identity(pid: u32) -> Option<String> {
    let out = std::process::Command::new("/bin/ps")
        .args(["-o", "lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .env("LANG", "C")
        .env("TZ", "UTC")
        .output()
        .ok()?;
    let started = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    (out.status.success() && !started.is_empty()).then(|| format!("darwin:{started}"))
}

/// Whether a process of this number exists, ours or not. Anything but a clear "no such process" is a yes.
#[cfg(unix)]
pub fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Whether a process of this number exists: unknown here, which counts as yes.
#[cfg(not(unix))]
pub fn exists(_: u32) -> bool {
    true
}

/// Whether the process that had this number and this [`start_identity`] still runs. What cannot be told counts
/// as running; a process that has ended and only waits to be collected does not run.
pub fn alive(pid: u32, start: Option<&str>) -> bool {
    if !exists(pid) || matches!(stat(pid), Some(Stat { state: 'Z' | 'X', .. })) {
        return false;
    }
    match (start, start_identity(pid)) {
        (Some(then), Some(now)) => then == now,
        _ => true,
    }
}

/// The name of the user, or the number where `/etc/passwd` has no name for it.
#[cfg(unix)]
pub fn user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = fs::read("/etc/passwd").unwrap_or_default();
    entry_of(uid, &String::from_utf8_lossy(&passwd)).map_or_else(|| uid.to_string(), |(name, _)| name)
}

/// Who works here, as the ledger records it.
pub fn who() -> Who {
    Who {
        user: user(),
        host: hostname(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The user's home by `/etc/passwd`, for where `HOME` is not set.
#[cfg(unix)]
pub fn home() -> Option<std::path::PathBuf> {
    let passwd = fs::read("/etc/passwd").ok()?;
    let (_, home) = entry_of(rustix::process::geteuid().as_raw(), &String::from_utf8_lossy(&passwd))?;
    Some(std::path::PathBuf::from(home)).filter(|h| h.is_absolute())
}

/// The user's home: not known here without a variable.
#[cfg(not(unix))]
pub fn home() -> Option<std::path::PathBuf> {
    None
}

/// Name and home of a user, from lines `name:password:uid:gid:comment:home:shell`.
#[cfg(unix)]
fn entry_of(uid: u32, passwd: &str) -> Option<(String, String)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (name, home) = (fields.first()?, fields.get(5)?);
        (fields[2].parse() == Ok(uid) && !name.is_empty()).then(|| ((*name).to_owned(), (*home).to_owned()))
    })
}

/// The name of the user: not known here.
#[cfg(not(unix))]
pub fn user() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let line = "42 (a) 1 (b)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(parse_stat(line), Some(Stat { state: 'S', parent: 1, started: 777 }));
        assert_eq!(parse_stat("42 (x) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    #[cfg(unix)]
    fn names_are_found_by_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(entry_of(1000, passwd), Some(("ann".to_owned(), "/home/ann".to_owned())));
        assert_eq!(entry_of(7, passwd), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_alive_only_under_its_own_start() {
        let me = std::process::id();
        let start = start_identity(me);
        assert!(start.as_deref().is_some_and(|s| s.starts_with("linux:")));
        assert!(alive(me, start.as_deref()));
        assert!(alive(me, None));
        assert!(!alive(me, Some("linux:0:0")));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_waits_to_be_collected_does_not_run() {
        let mut child = std::process::Command::new("/bin/cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (pid, start) = (child.id(), start_identity(child.id()));
        assert!(alive(pid, start.as_deref()));
        drop(child.stdin.take());
        // `cat` ends at the end of its input; it stays a zombie until `wait`.
        while stat(pid).is_some_and(|stat| stat.state != 'Z') {
            std::thread::yield_now();
        }
        assert!(exists(pid));
        assert!(!alive(pid, start.as_deref()));
        child.wait().unwrap();
        assert!(!alive(pid, start.as_deref()));
    }
}
