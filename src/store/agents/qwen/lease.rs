//! The client's own writer lock, taken in its format and by its protocol while we write into its transcript.
//!
//! Only ACP processes with `experimental.sessionWriterLease` honour it; they must find a lock of ours exactly as if
//! another client held it. It is given back on every way out, also on a panic and on the signals of
//! [`crate::store::signals`], because a lock that is left behind shuts the agent out.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::{
    home::{Place, checked, entries},
    record::{LockRecord, LockState, NewRecord},
};
use crate::{
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
    store::{
        atomic::{Staged, sync_dir},
        faults,
        file::{identity, read_small},
        owner::OwnerDesc,
        process::{self, Machine},
        signals::{self, Cleanup},
    },
};

/// How often a lock that cannot be parsed is read, and the pause between: it may be about to be written.
const READS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);
/// More than any lock holds; a larger one cannot be read, which is `lease-unverifiable`.
const MAX_LOCK_BYTES: u64 = 1024 * 1024;
/// How often installing is tried while locks come and go.
const ATTEMPTS: u32 = 8;

/// What JavaScript's `encodeURIComponent` leaves alone.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// How to acquire the client's lock.
#[derive(Clone, Copy, Debug)]
pub struct AgentLeaseOptions<'a> {
    /// A fresh uuid, which the ledger has recorded before, so that recovery can find what a crash leaves.
    pub owner_id: &'a str,
    /// The time for the record.
    pub now: Timestamp,
    /// The client's version, as far as it is known.
    pub client_version: Option<&'a str>,
}

/// The client's writer lock, held by us. Dropping it gives it back.
#[must_use = "dropping it gives the lock back"]
#[derive(Debug)]
pub struct AgentLease {
    lock: LockFile,
    released: bool,
    _cleanup: Cleanup,
}

impl AgentLease {
    /// Takes the lock of a session in its place.
    ///
    /// # Errors
    /// `lease-held` with the owner, if by the client's rules it may be alive; `lease-unverifiable` for a lock that is
    /// malformed, sealed, of another session or schema, in transition, or that cannot be written; `io`.
    pub fn acquire(place: &Place, options: &AgentLeaseOptions<'_>) -> Result<AgentLease> {
        checked(&place.session_id)?;
        let path = place.lock_path();
        prepare_folder(&path)?;
        let lock = LockFile::new(path, &place.session_id, options);
        // Registered before there is anything to clean up: a signal may come at any moment.
        let to_clean = lock.clone();
        let cleanup = signals::on_exit(move || to_clean.clean_up());
        let taken = lock.take();
        if let Err(e) = taken {
            lock.clean_up();
            return Err(e);
        }
        let lease = AgentLease { lock, released: false, _cleanup: cleanup };
        lease.verify()?;
        Ok(lease)
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.lock.path
    }

    /// Checks that the lock is still exactly ours. To be called before each write.
    ///
    /// # Errors
    /// The fault `lease-lost`.
    pub fn verify(&self) -> Result<()> {
        if self.lock.is_ours(&self.lock.path) { Ok(()) } else { Err(self.lost()) }
    }

    /// Gives the lock back, as the client does: out of the way first, then removed, then made durable.
    ///
    /// # Errors
    /// The fault `lease-lost` if it was not ours any more; `io`.
    pub fn release(mut self) -> Result<()> {
        self.released = true;
        if self.lock.give_back()? { Ok(()) } else { Err(self.lost()) }
    }

    fn lost(&self) -> Error {
        let path = self.lock.path.display().to_string();
        Fault::new(
            FaultCode::LeaseLost,
            format!("the agent's lock `{path}` was removed or replaced while we held it"),
        )
        .detail(json!({"lock": path}))
        .into()
    }
}

impl Drop for AgentLease {
    fn drop(&mut self) {
        if !self.released {
            self.lock.clean_up();
        }
    }
}

/// The lock's path and the exact bytes that make it ours.
#[derive(Clone, Debug)]
struct LockFile {
    path: PathBuf,
    session_id: String,
    owner_id: String,
    raw: Vec<u8>,
}

/// What stands under a lock's name.
enum Found {
    Missing,
    Malformed,
    Record(LockRecord),
}

impl LockFile {
    fn new(path: PathBuf, session_id: &str, options: &AgentLeaseOptions<'_>) -> LockFile {
        let here = Machine::this();
        let pid = std::process::id();
        let record = NewRecord {
            schema_version: 2,
            state: "active",
            session_id,
            owner_id: options.owner_id,
            pid,
            process_start_identity: process::start_identity(pid),
            pid_namespace_id: here.pid_namespace,
            hostname: here.host,
            process_kind: "unknown",
            acquired_at: format!("{:.3}", options.now),
            qwen_version: options.client_version,
        };
        LockFile {
            path,
            session_id: session_id.to_owned(),
            owner_id: options.owner_id.to_owned(),
            raw: serde_json::to_vec(&record).expect("BUG: a lock record is plain data"),
        }
    }

    /// `<lock>.<suffix>`.
    fn beside(&self, suffix: &str) -> PathBuf {
        with_suffix(&self.path, suffix)
    }

    fn take(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            self.require_no_claim()?;
            if self.install(&self.path)? {
                // Somebody who began a hand-over in between has the word.
                return self.require_no_claim();
            }
            match inspect(&self.path)? {
                Found::Missing => {}
                Found::Malformed => return Err(unverifiable(&self.path, "is not in a form that we know")),
                Found::Record(record) => return self.contend(&record),
            }
        }
        Err(unverifiable(&self.path, "comes and goes"))
    }

    /// Somebody's lock is there: reclaims it if its owner is gone.
    fn contend(&self, record: &LockRecord) -> Result<()> {
        self.require_stale(&self.path, record)?;
        let guard = self.take_reclaim_guard(&record.owner_id)?;
        let result = self.replace_stale(record);
        let _ = self.remove_if_ours(&guard);
        result
    }

    fn require_stale(&self, path: &Path, record: &LockRecord) -> Result<()> {
        if record.session_id != self.session_id {
            return Err(unverifiable(path, "belongs to another session"));
        }
        if record.sealed {
            return Err(unverifiable(path, "is sealed for a hand-over between clients"));
        }
        match record.state(&Machine::this()) {
            LockState::Stale => Ok(()),
            LockState::Live => Err(held(path, record)),
        }
    }

    /// Only one process at a time may reclaim. A guard whose own owner is gone is stepped over, not removed.
    fn take_reclaim_guard(&self, stale_owner: &str) -> Result<PathBuf> {
        let mut suffix = format!("reclaim.{}", encoded(stale_owner));
        for _ in 0..ATTEMPTS {
            let guard = self.beside(&suffix);
            if self.install(&guard)? {
                return Ok(guard);
            }
            match inspect(&guard)? {
                Found::Missing => {}
                Found::Record(r)
                    if r.session_id == self.session_id
                        && !r.sealed
                        && r.state(&Machine::this()) == LockState::Stale =>
                {
                    suffix = format!("{suffix}.{}", encoded(&r.owner_id));
                }
                Found::Record(_) | Found::Malformed => {
                    return Err(unverifiable(&guard, "shows that another process is reclaiming the lock"));
                }
            }
        }
        Err(unverifiable(&self.path, "comes and goes"))
    }

    fn replace_stale(&self, stale: &LockRecord) -> Result<()> {
        self.require_no_claim()?;
        self.require_same_stale(&self.path, stale)?;
        // The owner id makes the name findable for recovery; the client puts a random one there.
        let aside = self.beside(&format!("stale.{}.{}", std::process::id(), self.owner_id));
        fs::rename(&self.path, &aside).map_err(Error::io("move", &self.path))?;
        if let Err(e) = self.require_same_stale(&aside, stale) {
            put_back(&aside, &self.path)?;
            return Err(e);
        }
        fs::remove_file(&aside).map_err(Error::io("remove", &aside))?;
        if !self.install(&self.path)? {
            return Err(unverifiable(&self.path, "was taken by another process meanwhile"));
        }
        self.require_no_claim()
    }

    fn require_same_stale(&self, path: &Path, stale: &LockRecord) -> Result<()> {
        match inspect(path)? {
            Found::Record(now) if now.owner_id == stale.owner_id => self.require_stale(path, &now),
            Found::Record(now) => {
                self.require_stale(path, &now)?;
                Err(unverifiable(path, "was replaced while it was being reclaimed"))
            }
            Found::Missing | Found::Malformed => {
                Err(unverifiable(path, "was replaced while it was being reclaimed"))
            }
        }
    }

    fn require_no_claim(&self) -> Result<()> {
        let claim = self.beside("claim");
        match fs::symlink_metadata(&claim) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Fault::io("inspect", &claim, e).into()),
            Ok(_) => Err(unverifiable(&claim, "shows that the lock is being handed over")),
        }
    }

    /// Puts our record under a name, whole and without clobbering; false if another one has it.
    fn install(&self, name: &Path) -> Result<bool> {
        let dir = name.parent().expect("BUG: a lock lies in a folder");
        let temporary = with_suffix(name, &format!("{}.tmp", self.owner_id));
        let temporary = temporary.file_name().and_then(|n| n.to_str()).expect("BUG: lock names are ASCII");
        let mut staged = Staged::create(dir, temporary)?;
        staged.write_all(&self.raw).map_err(Error::io("write", staged.path()))?;
        staged.finish()?;
        faults::point("agent-lock-staged").map_err(Error::io("write", staged.path()))?;
        match fs::hard_link(staged.path(), name) {
            Ok(()) => {
                faults::point("agent-lock-linked").map_err(Error::io("create", name))?;
                Ok(true)
            }
            // Over a network the answer to a link that was made can be lost.
            Err(_) if self.is_ours(name) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(unverifiable(name, &format!("cannot be created: {e}"))),
        }
    }

    /// Whether a plain file with exactly our bytes has this name. The owner id in them is ours alone, so equal bytes
    /// are our record.
    fn is_ours(&self, name: &Path) -> bool {
        fs::symlink_metadata(name).is_ok_and(|m| m.is_file())
            && read_small(name, MAX_LOCK_BYTES).is_ok_and(|raw| raw == self.raw)
    }

    fn remove_if_ours(&self, name: &Path) -> io::Result<()> {
        if self.is_ours(name) { fs::remove_file(name) } else { Ok(()) }
    }

    /// Removes our lock; false if it was not ours.
    fn give_back(&self) -> Result<bool> {
        if !self.is_ours(&self.path) {
            return Ok(false);
        }
        let before = fs::symlink_metadata(&self.path).ok().as_ref().map(identity);
        let retired = self.beside(&format!("released.{}", encoded(&self.owner_id)));
        fs::rename(&self.path, &retired).map_err(Error::io("release", &self.path))?;
        faults::point("agent-lock-retired").map_err(Error::io("release", &self.path))?;
        let after = fs::symlink_metadata(&retired).ok().as_ref().map(identity);
        if before != after || !self.is_ours(&retired) {
            // Replaced between the look and the rename: what was moved is somebody else's.
            put_back(&retired, &self.path)?;
            return Ok(false);
        }
        let _ = fs::remove_file(&retired);
        sync_dir(self.path.parent().expect("BUG: a lock lies in a folder"))?;
        Ok(true)
    }

    /// Removes all that is ours, whatever state it is in; failures cannot be mended here.
    fn clean_up(&self) {
        let _ = self.give_back();
        let _ = recover_at(&self.path, &self.owner_id);
    }
}

/// Whether anything of a lock is there, whosever it is.
///
/// # Errors
/// `unsafe-path` for an id that is none; `io`.
pub fn lock_remains(place: &Place) -> Result<bool> {
    checked(&place.session_id)?;
    let lock = place.lock_path();
    let (Some(dir), Some(name)) = (lock.parent(), lock.file_name().and_then(|n| n.to_str())) else {
        return Ok(false);
    };
    Ok(entries(dir)?.iter().any(|(there, _)| there.starts_with(name)))
}

/// Removes what a crashed `offshoot` left of a lock: the lock itself, its temporary file and its traces of reclaiming,
/// all by the owner id that the ledger has recorded. Says whether anything was removed. The caller makes sure that
/// the process is gone (it holds the operation's lock and the lease).
///
/// # Errors
/// `unsafe-path` for ids that are none; `io`.
pub fn recover_lock(place: &Place, owner_id: &str) -> Result<bool> {
    checked(&place.session_id)?;
    recover_at(&place.lock_path(), owner_id)
}

fn recover_at(lock: &Path, owner_id: &str) -> Result<bool> {
    let (Some(dir), Some(lock_name)) = (lock.parent(), lock.file_name().and_then(|n| n.to_str())) else {
        return Ok(false);
    };
    let mut removed = false;
    for (name, path) in entries(dir)? {
        let Some(rest) = name.strip_prefix(lock_name) else { continue };
        if !(rest.is_empty() || rest.starts_with('.'))
            || !fs::symlink_metadata(&path).is_ok_and(|m| m.is_file())
        {
            continue;
        }
        // A temporary file may be torn, and what was moved aside is a dead owner's: these go by name.
        let by_name = rest.ends_with(&format!(".{owner_id}.tmp"))
            || (rest.starts_with(".stale.") && rest.ends_with(&format!(".{owner_id}")));
        let by_content = || {
            let record = read_small(&path, MAX_LOCK_BYTES).ok().and_then(|raw| LockRecord::parse(&raw));
            record.is_some_and(|r| r.owner_id == owner_id && !r.sealed)
        };
        if by_name || by_content() {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(Fault::io("remove", &path, e).into());
                }
                other => removed |= other.is_ok(),
            }
        }
    }
    if removed {
        sync_dir(dir)?;
    }
    Ok(removed)
}

/// The lock's folder, with mode 0700 where it is new, must be a real one.
fn prepare_folder(lock: &Path) -> Result<()> {
    let dir = lock.parent().expect("BUG: a lock lies in a folder");
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|e| unverifiable(dir, &format!("cannot be created: {e}")))?;
    let meta = fs::symlink_metadata(dir).map_err(Error::io("inspect", dir))?;
    if meta.is_dir() { Ok(()) } else { Err(unverifiable(dir, "is not a plain folder")) }
}

/// Gives a file that was moved aside its name back, unless somebody has taken that meanwhile.
fn put_back(moved: &Path, name: &Path) -> Result<()> {
    match fs::hard_link(moved, name) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(Fault::io("restore", name, e).into()),
        _ => {
            let _ = fs::remove_file(moved);
            Ok(())
        }
    }
}

/// Looks at a lock up to three times, since one that cannot be parsed may be half written.
fn inspect(path: &Path) -> Result<Found> {
    for attempt in 1..=READS {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(e) => return Err(Fault::io("inspect", path, e).into()),
            Ok(meta) if !meta.is_file() => return Err(unverifiable(path, "is not a regular file")),
            Ok(_) => {}
        }
        match read_small(path, MAX_LOCK_BYTES) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(e) => return Err(unverifiable(path, &format!("cannot be read: {e}"))),
            Ok(raw) => {
                if let Some(record) = LockRecord::parse(&raw) {
                    return Ok(Found::Record(record));
                }
            }
        }
        if attempt < READS {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(Found::Malformed)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

fn describe(lock: &Path, record: &LockRecord) -> OwnerDesc {
    OwnerDesc {
        what: format!("Qwen Code ({})", record.kind),
        pid: Some(record.pid),
        host: Some(record.hostname.clone()),
        since: Some(record.acquired_at.clone()),
        path: lock.to_owned(),
    }
}

/// Who holds the lock of a session, by the client's rules. No lock that cannot be read names anybody.
pub fn lock_owner(place: &Place) -> Option<OwnerDesc> {
    let path = place.lock_path();
    let record = LockRecord::parse(&read_small(&path, MAX_LOCK_BYTES).ok()?)?;
    let holds = !record.sealed
        && record.session_id == place.session_id
        && record.state(&Machine::this()) == LockState::Live;
    holds.then(|| describe(&path, &record))
}

fn held(lock: &Path, record: &LockRecord) -> Error {
    let owner = describe(lock, record);
    Refusal::new(Code::LeaseHeld, format!("the session is open for writing by {owner}"))
        .hint(
            "close that session; by the client's rules its lock is given up only if this machine can see that its \
             process is gone, never by age. A fork needs no such lock",
        )
        .detail(json!({"lock": lock.display().to_string(), "owner": owner.to_json()}))
        .into()
}

/// `why` completes "the agent's lock `path` ...".
fn unverifiable(lock: &Path, why: &str) -> Error {
    Refusal::new(Code::LeaseUnverifiable, format!("the agent's lock `{}` {why}", lock.display()))
        .hint("close the agent normally and try again; a fork needs no such lock")
        .detail(json!({"lock": lock.display().to_string(), "reason": why}))
        .into()
}
