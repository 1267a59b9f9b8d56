//! The file of one ledger: opened, locked, appended to.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use serde_json::json;

use crate::{
    record::Agent,
    refusal::{Error, Result},
    store::{
        atomic::append_once,
        faults,
        ledger::{
            Head, Heads, Read,
            entry::{Body, Entry, SCHEMA},
            hash, heads,
            name::{session_file_name, session_of_file_name},
            read::{Problem, damaged, scan},
            states,
        },
        private::{self, Lock, Mode},
    },
};

/// The ledger of one session. Opening touches nothing; the file appears with the first entry.
#[derive(Debug)]
pub struct Ledger {
    root: PathBuf,
    agent: Agent,
    session_id: String,
    path: PathBuf,
    poisoned: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl Ledger {
    /// The ledger of a session below the state directory `root`.
    pub fn open(root: &Path, agent: Agent, session_id: &str) -> Ledger {
        let name = session_file_name(session_id);
        Ledger::at(root, agent, session_id.to_owned(), &name)
    }

    fn at(root: &Path, agent: Agent, session_id: String, name: &str) -> Ledger {
        let path = root.join("ledger").join(agent.name()).join(format!("{name}.jsonl"));
        Ledger {
            root: root.to_owned(),
            agent,
            session_id,
            path,
            poisoned: AtomicBool::new(false),
            notes: Mutex::new(Vec::new()),
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose session.
    pub fn agent(&self) -> Agent {
        self.agent
    }

    /// Which session.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// What the last appends mended, in words, and forgets it.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
    }

    /// Everything it holds, for somebody who acts on it. Takes no lock: a torn last line may be an append that
    /// is going on, and is reported as such.
    ///
    /// # Errors
    /// `damaged` (with the line) if any line is not what it must be; `io`, `unsafe-path`. A ledger of a newer
    /// version is no error here.
    pub fn read(&self) -> Result<Read> {
        self.scan()?.sound(&self.path)
    }

    /// Everything it holds and everything that is wrong with it, for somebody who only looks.
    ///
    /// # Errors
    /// `io`, `unsafe-path`.
    pub fn scan(&self) -> Result<Read> {
        let bytes = private::read(&self.path)?.unwrap_or_default();
        Ok(scan(&bytes, self.agent, &self.session_id))
    }

    /// Appends an entry, durably, and its head. See `take_notes` for what was mended on the way.
    ///
    /// The order makes every crash harmless: the line is durable before its head is written, so a head never
    /// names an entry that could vanish, and at most the last entry lacks its head.
    ///
    /// # Errors
    /// `ledger-newer`; `damaged` if the ledger, or its end as the heads know it, is not what it must be;
    /// `operation-conflict` if the operation cannot go to that state; `io`, `unsafe-path`. After a failed write
    /// or sync the handle is of no more use.
    pub fn append(&self, body: Body, now: Timestamp) -> Result<Entry> {
        self.healthy()?;
        self.locked(|file, read| {
            states::check(read, &body, &self.path)?;
            let last = read.entries.last();
            let mut entry = Entry {
                schema: SCHEMA.to_owned(),
                seq: last.map_or(0, |e| e.seq + 1),
                prev: last.map_or_else(|| hash::ZEROS.to_owned(), |e| e.hash.clone()),
                at: stamp(now),
                agent: self.agent,
                session_id: self.session_id.clone(),
                body,
                hash: String::new(),
            };
            let mut line = hash::seal(&mut entry);
            line.push(b'\n');
            self.poisoning(|| {
                self.reach("ledger-before-line")?;
                faults::halfway("ledger-line-half", &line, |half| file.write_all(half))
                    .map_err(Error::io("append to", &self.path))?;
                append_once(file, &self.path, &line)?;
                self.reach("ledger-line-unsynced")?;
                file.sync_all().map_err(Error::io("sync", &self.path))?;
                private::sync_parent(&self.path)?;
                self.reach("ledger-after-line")?;
                self.write_head(&entry)?;
                self.reach("ledger-after-head")
            })?;
            Ok(entry)
        })
    }

    /// Moves a torn last line away and writes a missing head, as the next append would. For `recover`.
    ///
    /// # Errors
    /// As for [`Ledger::append`].
    pub fn mend(&self) -> Result<()> {
        self.healthy()?;
        if private::read(&self.path)?.is_none() {
            return Ok(());
        }
        self.locked(|_, _| Ok(()))
    }

    /// Runs `work` on the locked, mended ledger: no torn line, no missing head, sound to its end.
    fn locked<T>(&self, work: impl FnOnce(&mut File, &Read) -> Result<T>) -> Result<T> {
        self.locked_bytes(|file, _, read| work(file, read))
    }

    /// As [`Ledger::locked`], for work that puts another file in the place of this one; it gets the whole lines.
    pub(super) fn rewrite<T>(&self, work: impl FnOnce(&[u8], &Read) -> Result<T>) -> Result<T> {
        self.healthy()?;
        self.locked_bytes(|_, bytes, read| work(bytes, read))
    }

    fn locked_bytes<T>(&self, work: impl FnOnce(&mut File, &[u8], &Read) -> Result<T>) -> Result<T> {
        let _lock = self.lock()?;
        let mut file = private::open(&self.path, Mode::Append)?;
        let mut bytes = private::read_all(&mut file, &self.path)?;
        let read = scan(&bytes, self.agent, &self.session_id);
        // Before anything is mended: a newer version's ledger stays as it is, byte for byte.
        read.writable(&self.path)?;
        let read = read.sound(&self.path)?;
        if let Some(torn) = read.torn {
            let offset = torn.offset as usize;
            let moved =
                self.poisoning(|| private::move_torn(&file, &self.path, &bytes[offset..], torn.offset))?;
            bytes.truncate(offset);
            self.note(format!(
                "an unfinished last line of `{}` was moved to `{}`",
                self.path.display(),
                moved.display()
            ));
        }
        self.check_heads(&file, &read)?;
        work(&mut file, &bytes, &read)
    }

    /// Takes the ledger's lock, with its folder made.
    fn lock(&self) -> Result<Lock> {
        private::ensure_below(&self.root, Path::new("ledger").join(self.agent.name()))?;
        let mut name = self.path.clone().into_os_string();
        name.push(".lock");
        Lock::short(Path::new(&name))
    }

    /// Compares the ledger's end with its heads, and writes the last entry's head if a crash kept it back.
    fn check_heads(&self, file: &File, read: &Read) -> Result<()> {
        let heads = Heads::read(&self.root)?;
        let heads = heads.of(self.agent, &self.session_id);
        let end = read.entries.last();
        let beyond = heads.iter().map(|(seq, _)| *seq).max();
        if let Some(seq) = beyond.filter(|seq| end.is_none_or(|e| e.seq < *seq)) {
            let message = format!("entry {seq} has a head but is not there any more");
            return Err(self.damaged_end("ledger-cut", read, Some(seq), message));
        }
        let Some(end) = end else { return Ok(()) };
        let mut of_end = heads.iter().filter(|(seq, _)| *seq == end.seq).peekable();
        if of_end.peek().is_none() {
            // The line may not be durable yet: its writer was stopped before it could say so.
            self.poisoning(|| {
                file.sync_all().map_err(Error::io("sync", &self.path))?;
                self.write_head(end)
            })?;
            self.note(format!("the head of entry {} of `{}` was missing", end.seq, self.path.display()));
        } else if of_end.any(|(_, hash)| *hash != end.hash) {
            let message = "the last entry is not the one that its head names".to_owned();
            return Err(self.damaged_end("head-mismatch", read, Some(end.seq), message));
        }
        Ok(())
    }

    fn damaged_end(&self, code: &'static str, read: &Read, seq: Option<u64>, message: String) -> Error {
        damaged(&self.path, &Problem { code, line: read.lines, seq, message }).into()
    }

    fn write_head(&self, entry: &Entry) -> Result<()> {
        let head = Head {
            agent: self.agent,
            session: self.session_id.clone(),
            seq: entry.seq,
            hash: entry.hash.clone(),
        };
        if let Some(moved) = heads::append(&self.root, &head)? {
            self.note(format!("an unfinished last line of the heads was moved to `{}`", moved.display()));
        }
        Ok(())
    }

    /// After a failed write or sync nobody knows what is on the disk: the handle is not used again.
    fn poisoning<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = work();
        if result.is_err() {
            self.poisoned.store(true, Ordering::SeqCst);
        }
        result
    }

    fn reach(&self, point: &'static str) -> Result<()> {
        faults::point(point).map_err(Error::io("append to", &self.path))
    }

    fn healthy(&self) -> Result<()> {
        if !self.poisoned.load(Ordering::SeqCst) {
            return Ok(());
        }
        let before = io::Error::other("an earlier write to it failed");
        Err(Error::io("append to", &self.path)(before))
    }
}

/// RFC 3339, UTC, milliseconds.
fn stamp(now: Timestamp) -> String {
    format!("{now:.3}")
}

/// All ledgers of a state directory, by agent and file name. Files that are no ledger of ours are left out.
///
/// # Errors
/// `io`, `unsafe-path`.
pub fn ledgers(root: &Path) -> Result<Vec<Ledger>> {
    let mut found = Vec::new();
    for agent_dir in folder(&root.join("ledger"))? {
        let name = agent_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(agent) = serde_json::from_value::<Agent>(json!(name)) else { continue };
        for file in folder(&agent_dir)? {
            let Some(stem) = file.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".jsonl"))
            else {
                continue;
            };
            // A name that was cut does not tell the session: its entries do.
            let session = match session_of_file_name(stem) {
                Some(session) => session,
                None => match first_session(&file)? {
                    Some(session) if session_file_name(&session) == stem => session,
                    _ => continue,
                },
            };
            found.push(Ledger::at(root, agent, session, stem));
        }
    }
    Ok(found)
}

fn first_session(path: &Path) -> Result<Option<String>> {
    let bytes = private::read(path)?.unwrap_or_default();
    let (lines, _) = private::whole_lines(&bytes);
    let entry = lines.first().and_then(|line| serde_json::from_slice::<Entry>(line).ok());
    Ok(entry.map(|e| e.session_id))
}

/// The paths in a folder, sorted; none if it is not there.
fn folder(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", dir)(e)),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|e| e.map(|e| e.path())).collect();
    let mut paths = paths.map_err(Error::io("list", dir))?;
    paths.sort();
    Ok(paths)
}
