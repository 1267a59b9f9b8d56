//! Our lease: the exclusive right to write one transcript, among all processes that honour it (I8).
//!
//! It is an OS lock on `.<file name>.offshoot-lock` beside the transcript, so that all users, mounts and state
//! directories meet at one file. The file is never removed: a lock on a file that has lost its name excludes
//! nobody. Who deletes it by hand can let a second owner in; the first one's [`Lease::verify`], made before each
//! write, then fails.
//!
//! Limits: locking is a convention, and the agents themselves do not follow it. On a file system without locks
//! (some network mounts) acquiring fails rather than pretends.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::json;

use super::{
    agents::reasonix,
    file::{FileSource, identity, require_regular},
    owner::{Owner, OwnerDesc, OwnerKind, OwnerState},
    process::Machine,
    signals::{self, Cleanup},
    snapshot::Snapshot,
    state::{StateDir, unsafe_path},
};
use crate::{
    dialect::Dialect,
    refusal::{Code, Error, Fault, FaultCode, Refusal, Result},
};

/// How to acquire a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseOptions<'a> {
    /// Where the lock lies if the transcript's folder cannot be written.
    pub state: &'a StateDir,
    /// How long to wait for another owner; zero asks once.
    pub wait: Duration,
    /// What for: the subcommand, as others will read it.
    pub purpose: &'a str,
    /// The time for the owner record.
    pub now: Timestamp,
}

/// A held lease. Dropping it gives it back.
#[must_use = "dropping it gives the lease back"]
#[derive(Debug)]
pub struct Lease {
    transcript: PathBuf,
    lock: PathBuf,
    /// Blanks the owner record if a signal ends the process. Dropped before `file`, whose OS lock it shares.
    _cleanup: Option<Cleanup>,
    file: File,
    owner: Owner,
    /// Whether the transcript may end in a torn line, of a writer that died or of ours.
    unmended: Arc<AtomicBool>,
    notes: Vec<String>,
    now: Timestamp,
}

/// How often, and with which pause, an owner that has the OS lock is given time to write its name.
const NAMING: (u32, Duration) = (20, Duration::from_millis(5));

/// The transcript's path without symlinks in its folders. A symlink as the last component is refused: it could be
/// pointed elsewhere between two looks, and two names of one file would have two locks.
///
/// # Errors
/// `unsafe-path` for a symlink or a path without a file name; `io` if a folder or the file is not there.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| unsafe_path(path, "names no file"))?;
    let parent = match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let real = fs::canonicalize(parent).map_err(Error::io("resolve", parent))?.join(name);
    let meta = fs::symlink_metadata(&real).map_err(Error::io("inspect", &real))?;
    if meta.file_type().is_symlink() {
        return Err(unsafe_path(&real, "is a symlink; name the file that it points to"));
    }
    Ok(real)
}

impl Lease {
    /// Acquires the lease on a transcript, waiting at most as long as told.
    ///
    /// # Errors
    /// `lease-held` with the owner; `lease-unverifiable` if the lock file cannot be opened or was left by a command
    /// that cannot be looked for from here; `unsafe-path`; `io`.
    pub fn acquire(transcript: &Path, options: &LeaseOptions<'_>) -> Result<Lease> {
        let transcript = canonical(transcript)?;
        let meta = fs::symlink_metadata(&transcript).map_err(Error::io("inspect", &transcript))?;
        if !reasonix::is_session_dir(&transcript) {
            require_regular(&transcript, &meta)?;
        }
        let started = Instant::now();
        let mut pause = Duration::from_millis(5);
        let mut nameless = 0;
        loop {
            let refused = match try_acquire(&transcript, &meta, options)? {
                Attempt::Acquired(lease) => return Ok(*lease),
                // The lock file was replaced while we locked it: look again, at once.
                Attempt::Moved => continue,
                // It was locked or released a moment ago. A refusal is to say by whom.
                Attempt::Busy { named: false, .. } if nameless < NAMING.0 => {
                    nameless += 1;
                    std::thread::sleep(NAMING.1);
                    continue;
                }
                Attempt::Busy { refusal, .. } => refusal,
            };
            let left = options.wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(refused(options.wait).into());
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    /// The transcript's canonical path.
    pub fn transcript(&self) -> &Path {
        &self.transcript
    }

    /// The lock file.
    pub fn lock_path(&self) -> &Path {
        &self.lock
    }

    /// The owner record as it stands in the lock file.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What the user must be told about this lease.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether an earlier owner was a writer that ended without giving its lease back: the transcript may end in
    /// a torn line, which the next owner mends with a newline. The mark outlives owners that do not get as far as
    /// [`Lease::mended`].
    pub fn previous_writer_died(&self) -> bool {
        self.unmended.load(Ordering::SeqCst)
    }

    /// The transcript ends in a whole line: nothing is left to the next owner.
    pub fn mended(&self) {
        self.unmended.store(false, Ordering::SeqCst);
    }

    /// A write of ours failed half way: the next owner is to look at the end of the transcript.
    pub fn leave_unmended(&self) {
        self.unmended.store(true, Ordering::SeqCst);
    }

    /// Whether the lock file of a transcript says that a writer had it last, living or dead. Takes no lock.
    pub fn marked_by_writer(transcript: &Path, state: &StateDir) -> bool {
        recorded_owner(transcript, state).is_some_and(|(owner, _)| owner.kind == OwnerKind::Writer)
    }

    /// Who may append to a transcript by its lock file: an `offshoot` that writes, or a command that it started, which
    /// lives. Takes no lock.
    pub fn appends(transcript: &Path, state: &StateDir) -> Option<(OwnerKind, OwnerDesc)> {
        let (owner, lock) = recorded_owner(transcript, state)?;
        let appends = owner.kind != OwnerKind::Process && owner.state(&Machine::this()) == OwnerState::Alive;
        appends.then(|| (owner.kind, owner.describe(&lock)))
    }

    /// Checks that the lock file that we hold is still the one that others would lock. To be called before each write.
    ///
    /// # Errors
    /// The fault `lease-lost` if it was removed or replaced.
    pub fn verify(&self) -> Result<()> {
        if is_named(&self.file, &self.lock)? {
            return Ok(());
        }
        let message =
            format!("the lease was lost: its lock file `{}` was removed or replaced", self.lock.display());
        let detail =
            json!({"lock": self.lock.display().to_string(), "path": self.transcript.display().to_string()});
        Err(Fault::new(FaultCode::LeaseLost, message).detail(detail).into())
    }

    /// Takes a snapshot of the transcript, with digest, under this lease.
    ///
    /// # Errors
    /// As for [`Lease::verify`] and [`Snapshot::take`].
    pub fn snapshot(&self, dialect: &dyn Dialect) -> Result<Snapshot> {
        self.verify()?;
        Snapshot::take(&self.transcript, dialect, true)
    }

    /// Names a command as the owner, which then holds the lease as long as it lives, even if this process is killed.
    /// `name` is the program's name, without arguments.
    ///
    /// # Errors
    /// `io`; the record is durable when this returns.
    pub fn set_command(&mut self, pid: u32, name: &str) -> Result<()> {
        self.set_owner(Owner::new(OwnerKind::Command, pid, name, self.now))
    }

    /// Marks this process as one that appends records, for [`Lease::previous_writer_died`] of the next owner.
    ///
    /// # Errors
    /// `io`; the record is durable when this returns.
    pub fn set_writer(&mut self) -> Result<()> {
        self.set_owner(Owner { kind: OwnerKind::Writer, ..self.owner.clone() })
    }

    /// Names this process as the owner again, after a command or a writer has ended.
    ///
    /// # Errors
    /// `io`; the record is durable when this returns.
    pub fn set_process(&mut self, purpose: &str) -> Result<()> {
        self.set_owner(Owner::new(OwnerKind::Process, std::process::id(), purpose, self.now))
    }

    /// Gives the lease back.
    pub fn release(self) {}

    fn set_owner(&mut self, owner: Owner) -> Result<()> {
        write_owner(&mut self.file, &self.lock, Some(&owner))?;
        self.owner = owner;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.owner.kind != OwnerKind::Writer || !self.previous_writer_died() {
            // Blanked while the lock is still ours. If that fails, or the machine stops before it is on disk, a
            // record is left over that nobody believes without a live command behind it.
            let _ = write_owner(&mut self.file, &self.lock, None);
        }
        // Closing would not be enough: a process that another thread starts has the file too until it runs its own
        // program, and the lock with it.
        let _ = fs4::FileExt::unlock(&self.file);
    }
}

enum Attempt {
    Acquired(Box<Lease>),
    Moved,
    Busy { named: bool, refusal: Box<dyn FnOnce(Duration) -> Refusal> },
}

fn try_acquire(transcript: &Path, meta: &fs::Metadata, options: &LeaseOptions<'_>) -> Result<Attempt> {
    let OpenedLock { mut file, path: lock, note } = open_lock(transcript, meta, options.state)?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => {}
        Err(fs4::TryLockError::WouldBlock) => {
            let owner = read_owner(&mut file, &lock).ok().flatten().map(|o| o.describe(&lock));
            return Ok(Attempt::busy(transcript, &lock, owner));
        }
        Err(fs4::TryLockError::Error(e)) => return Err(Fault::io("lock", &lock, e).into()),
    }
    if !is_named(&file, &lock)? {
        return Ok(Attempt::Moved);
    }
    let previous = read_owner(&mut file, &lock)?;
    if let Some(owner) = previous.as_ref().filter(|o| o.kind == OwnerKind::Command) {
        match owner.state(&Machine::this()) {
            OwnerState::Dead => {}
            OwnerState::Alive => return Ok(Attempt::busy(transcript, &lock, Some(owner.describe(&lock)))),
            OwnerState::Unverifiable => return Err(foreign_command(transcript, &lock, owner)),
        }
    }
    let mut owner = Owner::new(OwnerKind::Process, std::process::id(), options.purpose, options.now);
    let writer_died = previous.is_some_and(|o| o.kind == OwnerKind::Writer);
    if writer_died {
        // Until it is mended: we may stop before we come to it.
        owner.kind = OwnerKind::Writer;
    }
    let unmended = Arc::new(AtomicBool::new(writer_died));
    let mut lease = Lease {
        transcript: transcript.to_owned(),
        _cleanup: blank_on_exit(&file, &lock, &unmended),
        lock,
        file,
        owner: owner.clone(),
        unmended,
        notes: note.into_iter().collect(),
        now: options.now,
    };
    lease.set_owner(owner)?;
    Ok(Attempt::Acquired(Box::new(lease)))
}

impl Attempt {
    fn busy(transcript: &Path, lock: &Path, owner: Option<OwnerDesc>) -> Attempt {
        let (transcript, lock) = (transcript.display().to_string(), lock.display().to_string());
        let named = owner.is_some();
        let refusal: Box<dyn FnOnce(Duration) -> Refusal> = Box::new(move |waited| {
            let by = owner.as_ref().map_or_else(
                || format!("another process, which has not said which (`{lock}`)"),
                ToString::to_string,
            );
            let waited_words = if waited.is_zero() {
                String::new()
            } else {
                format!("; waited {:#}", jiff::SignedDuration::try_from(waited).unwrap_or_default())
            };
            Refusal::new(
                Code::LeaseHeld,
                format!("the lease on `{transcript}` is held by {by}{waited_words}"),
            )
            .hint("wait for it to end, or pass `--wait 30s`")
            .detail(json!({
                "path": transcript, "lock": lock, "owner": owner.as_ref().map(OwnerDesc::to_json),
                "waitedMs": u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            }))
        });
        Attempt::Busy { named, refusal }
    }
}

fn foreign_command(transcript: &Path, lock: &Path, owner: &Owner) -> Error {
    let desc = owner.describe(lock);
    let message = format!(
        "the lease on `{}` was taken by {desc}; whether that command still runs cannot be seen from here",
        transcript.display()
    );
    Refusal::new(Code::LeaseUnverifiable, message)
        .hint("if it has ended, empty that lock file")
        .detail(json!({"path": transcript.display().to_string(), "owner": desc.to_json()}))
        .into()
}

struct OpenedLock {
    file: File,
    path: PathBuf,
    note: Option<String>,
}

fn beside(transcript: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(transcript.file_name().expect("BUG: a canonical transcript has a file name"));
    name.push(".offshoot-lock");
    transcript.with_file_name(name)
}

fn in_state(transcript: &Path, state: &StateDir) -> PathBuf {
    let digest = blake3::hash(transcript.as_os_str().as_encoded_bytes()).to_hex();
    state.root().join("locks").join(format!("{digest}.lock"))
}

/// Opens the lock file beside the transcript, or creates it; in the state directory where that folder takes no file.
fn open_lock(transcript: &Path, meta: &fs::Metadata, state: &StateDir) -> Result<OpenedLock> {
    let beside = beside(transcript);
    match open_or_create(&beside, meta) {
        Ok(file) => return Ok(OpenedLock { file, path: beside, note: None }),
        Err(LockError::Refused(e)) => return Err(e),
        Err(LockError::NoPlace) => {}
    }
    state.folder("locks")?;
    let path = in_state(transcript, state);
    match open_or_create(&path, meta) {
        Ok(file) => {
            let note = format!(
                "the folder of `{}` cannot be written, so its lease is in the state directory, where users with \
                 another state directory do not see it",
                transcript.display()
            );
            Ok(OpenedLock { file, path, note: Some(note) })
        }
        Err(LockError::Refused(e)) => Err(e),
        Err(LockError::NoPlace) => Err(unopenable(&path, &io::ErrorKind::PermissionDenied.into())),
    }
}

enum LockError {
    /// The lock is not there, and the folder takes no new file.
    NoPlace,
    Refused(Error),
}

fn unopenable(lock: &Path, why: &io::Error) -> Error {
    Refusal::new(
        Code::LeaseUnverifiable,
        format!("the lock file `{}` cannot be opened, so its owner is unknown: {why}", lock.display()),
    )
    .hint("it has the transcript's mode and must be readable and writable for everybody who resumes from it")
    .detail(json!({"lock": lock.display().to_string()}))
    .into()
}

fn open_or_create(lock: &Path, transcript: &fs::Metadata) -> Result<File, LockError> {
    let options = |create: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(create);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
            options.custom_flags(super::file::no_surprises()).mode(transcript.mode() & 0o666 | 0o600);
        }
        options
    };
    loop {
        match fs::symlink_metadata(lock) {
            Ok(meta) => {
                require_regular(lock, &meta).map_err(LockError::Refused)?;
                match options(false).open(lock) {
                    // Removed between the two looks.
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(LockError::Refused(unopenable(lock, &e))),
                    Ok(file) => {
                        let meta = file
                            .metadata()
                            .map_err(|e| LockError::Refused(Fault::io("inspect", lock, e).into()))?;
                        return require_regular(lock, &meta).map(|()| file).map_err(LockError::Refused);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(LockError::Refused(unopenable(lock, &e))),
        }
        match options(true).open(lock) {
            Ok(file) => {
                share_like(&file, transcript);
                return Ok(file);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Err(LockError::NoPlace);
            }
            Err(e) => return Err(LockError::Refused(unopenable(lock, &e))),
        }
    }
}

/// Gives a new lock file the transcript's mode and owner, so that whoever may write the one may lock the other. Best
/// effort: only root can give a file away, and a lock that others cannot open refuses them, which is safe.
#[cfg(unix)]
fn share_like(file: &File, transcript: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let _ = fchown(file, Some(transcript.uid()), Some(transcript.gid()));
    let _ = file.set_permissions(fs::Permissions::from_mode(transcript.mode() & 0o666 | 0o600));
}

#[cfg(not(unix))]
fn share_like(_: &File, _: &fs::Metadata) {}

/// While a command is named in the record signals are passed on to it and end nothing, so this blanks no such record.
fn blank_on_exit(file: &File, lock: &Path, unmended: &Arc<AtomicBool>) -> Option<Cleanup> {
    let mut file = file.try_clone().ok()?;
    let (lock, unmended) = (lock.to_owned(), Arc::clone(unmended));
    Some(signals::on_exit(move || {
        if !unmended.load(Ordering::SeqCst) {
            let _ = write_owner(&mut file, &lock, None);
        }
    }))
}

/// Whether the path still names the open file.
fn is_named(file: &File, path: &Path) -> Result<bool> {
    let ours = file.metadata().map_err(Error::io("inspect", path))?;
    match fs::symlink_metadata(path) {
        Ok(theirs) => Ok(identity(&ours) == identity(&theirs)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Fault::io("inspect", path, e).into()),
    }
}

/// The owner record stands in the lock file, except on Windows, where nobody can read a locked file.
fn with_owner_file<T>(
    lock_file: &mut File,
    lock: &Path,
    then: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<T> {
    if cfg!(windows) {
        let path = lock.with_extension("offshoot-owner");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        return open.and_then(|mut f| then(&mut f)).map_err(Error::io("use", &path));
    }
    then(lock_file).map_err(Error::io("use", lock))
}

fn read_owner(file: &mut File, lock: &Path) -> Result<Option<Owner>> {
    with_owner_file(file, lock, |file| {
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        file.take(64 * 1024).read_to_end(&mut bytes)?;
        Ok(Owner::parse(&bytes))
    })
}

/// The owner record in the lock file of a transcript, wherever that lies. Takes no lock.
fn recorded_owner(transcript: &Path, state: &StateDir) -> Option<(Owner, PathBuf)> {
    let there = |lock: PathBuf| {
        // Whoever may write to that folder may have put a pipe or a device there.
        let mut file = FileSource::open(&lock).ok()?.file().try_clone().ok()?;
        Some((read_owner(&mut file, &lock).ok()??, lock))
    };
    there(beside(transcript)).or_else(|| there(in_state(transcript, state)))
}

/// Puts the new line over the old one in one write and only then cuts the rest off, so that a reader, who looks
/// without the lock, sees one whole first line.
fn write_owner(file: &mut File, lock: &Path, owner: Option<&Owner>) -> Result<()> {
    let line = owner.map(Owner::line).unwrap_or_default();
    with_owner_file(file, lock, |file| {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&line)?;
        file.set_len(line.len() as u64)?;
        if owner.is_some() { file.sync_data() } else { Ok(()) }
    })
}
