//! `watch`: one JSON line for each new leaf, second writer, or client pick that moved.
//!
//! The folder is watched, not the file, so that the file may be renamed, replaced, deleted and made again. What the
//! system tells is only a reason to look: every look compares the whole transcript with what was there before, so that
//! events that are lost, late or doubled change nothing. Once a second the file's length and identity are looked at in
//! any case, for file systems that tell nothing, and so are the marks of the processes that have it open.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    args::{Global, WatchArgs},
    host::{self, Outside},
    output,
    session::{self, Digest, Opened},
};
use crate::{
    refusal::{Code, Error, Fault, Result},
    resume::live_owners,
    store::{agents::reasonix, file, lease, owner::OwnerDesc, process, snapshot::Snapshot},
    topology::Tree,
};

mod branches;
mod owners;

use branches::{Branches, Event};
use owners::Owners;

/// How often the file is looked at where nothing is told.
const LOOK: Duration = Duration::from_secs(1);
/// A writer that is busy is read once it pauses so long, or after [`LONGEST`] all the same.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);

/// What a session looks like without being read: different whenever anything was written to it. None if nothing has
/// its name.
type Stamp = Option<Files>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Files {
    /// Which file has the name, and how long it is; of a session of several files this is its log.
    identity: (u64, u64),
    len: u64,
    /// How long the logs of related sessions are together, and how many names there are beside it: a child is a
    /// session of its own.
    related: u64,
    beside: usize,
}

/// Watches until somebody ends it.
pub fn run(global: &Global, args: &WatchArgs) -> Result<ExitCode> {
    host::take_signals()?;
    let opened = session::open(global, args.session.as_deref(), Digest::Skip)?;
    let path = std::path::absolute(&opened.path).map_err(Error::io("resolve", &opened.path))?;
    // Subscribed before it is read again, so that nothing is missed between.
    let (watcher, changes) = subscribe(&path)?;
    let transcript = lease::canonical(&path)?;
    let mut watch = Watch {
        outside: Outside::open(global, Some(&transcript))?,
        transcript,
        owners: Owners::default(),
        path,
        opened,
        known: None,
        stamp: None,
        related: Vec::new(),
        begun: false,
        _watcher: watcher,
    };
    loop {
        watch.look()?;
        watch.look_at_owners()?;
        wait(&changes);
        if reader_is_gone() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Returns when something has changed, or it is time to look.
fn wait(changes: &Receiver<()>) {
    match changes.recv_timeout(LOOK) {
        Ok(()) => {
            let begun = Instant::now();
            while begun.elapsed() < LONGEST && changes.recv_timeout(PAUSE).is_ok() {}
        }
        Err(RecvTimeoutError::Timeout) => {}
        // The watcher ended by itself; the looks go on.
        Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
    }
}

/// Tells of each change in the folder of `path` that concerns it. A session of several files has one of its own, and
/// what is beside it may be its child.
fn subscribe(path: &Path) -> Result<(RecommendedWatcher, Receiver<()>)> {
    let (tell, changes) = mpsc::channel();
    let name = path.file_name().filter(|_| !path.is_dir()).map(std::ffi::OsStr::to_owned);
    let fault =
        |e: notify::Error| Error::from(Fault::io("watch", path, std::io::Error::other(e.to_string())));
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns = |event: &notify::Event| {
            name.is_none()
                || event.paths.is_empty()
                || event.paths.iter().any(|p| p.file_name() == name.as_deref())
        };
        // What went wrong is a reason to look as well.
        if event.as_ref().map_or(true, |event| !event.kind.is_access() && concerns(event)) {
            let _ = tell.send(());
        }
    })
    .map_err(fault)?;
    let folder = path.parent().unwrap_or(path);
    for folder in std::iter::once(folder).chain(path.is_dir().then_some(path)) {
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(fault)?;
    }
    Ok((watcher, changes))
}

/// Whether nobody reads our lines any more.
fn reader_is_gone() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let out = std::io::stdout();
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
    }
    #[cfg(not(unix))]
    false
}

struct Watch {
    /// Where the agents keep their marks.
    outside: Outside,
    /// The canonical path, by which owners are found.
    transcript: PathBuf,
    /// The processes that had it open at the last look.
    owners: Owners,
    path: PathBuf,
    /// What was opened first: whose transcript it is, and which client is simulated.
    opened: Opened,
    /// What was there at the last look; none before the first and while there is no file.
    known: Option<Branches>,
    stamp: Stamp,
    /// The logs of the sessions that were related to it at the last look.
    related: Vec<PathBuf>,
    /// Whether anything was said.
    begun: bool,
    _watcher: RecommendedWatcher,
}

/// One line, `offshoot.watch/1`.
#[derive(Serialize)]
struct Line {
    schema: &'static str,
    event: &'static str,
    at: String,
    transcript: String,
    #[serde(flatten)]
    rest: Value,
}

impl Watch {
    /// Looks at the file and tells what has changed.
    fn look(&mut self) -> Result<()> {
        let stamp = stamp(&self.path, &self.related)?;
        if stamp == self.stamp && (self.known.is_some() || stamp.is_none()) {
            return Ok(());
        }
        let Some(files) = stamp else {
            self.stamp = None;
            return match self.known.take() {
                Some(_) => self.say(Event { name: "gone", rest: json!({}) }),
                None => Ok(()),
            };
        };
        let opened = match Snapshot::take(&self.path, self.opened.dialect, false) {
            Ok(snapshot) => Opened {
                path: self.path.clone(),
                snapshot,
                dialect: self.opened.dialect,
                client: self.opened.client.clone(),
            },
            Err(e) if passes(&e) => return Ok(()),
            Err(e) => return Err(e),
        };
        let mut now = Branches::new(&opened.inspect()?);
        let events = match (self.known.as_ref(), self.stamp) {
            (Some(_), Some(was)) if was.identity != files.identity => vec![now.state(Some("replaced"))],
            (Some(_), Some(was)) if was.len > files.len => vec![now.state(Some("cut"))],
            (Some(known), _) => {
                let t = &opened.snapshot.transcript;
                now.since(known, t, &Tree::new(t))
            }
            (None, _) if self.begun => vec![now.state(Some("created"))],
            (None, _) => vec![now.state(None)],
        };
        let own = transcript_file(&self.path);
        let mut read = opened.snapshot.files();
        read.retain(|&(path, _)| path != own);
        self.begun = true;
        self.stamp = Some(Files { related: read.iter().map(|&(_, len)| len).sum(), ..files });
        self.related = read.iter().map(|&(path, _)| path.to_owned()).collect();
        self.known = Some(now);
        events.into_iter().try_for_each(|event| self.say(event))
    }

    /// Looks at who has the session open and tells of whoever is not alone.
    fn look_at_owners(&mut self) -> Result<()> {
        let transcript = &self.transcript;
        let owners = self.outside.with_host(|host| live_owners(host, transcript))?;
        let started = |owner: OwnerDesc| {
            let start = owner.pid.and_then(process::start_identity);
            (owner, start)
        };
        let events = self.owners.since(owners.into_iter().map(started).collect());
        events.into_iter().try_for_each(|event| self.say(event))
    }

    fn say(&self, event: Event) -> Result<()> {
        let transcript = self.path.display().to_string();
        let at = Timestamp::now().to_string();
        output::json(&Line {
            schema: "offshoot.watch/1",
            event: event.name,
            at,
            transcript,
            rest: event.rest,
        })
    }
}

fn stamp(path: &Path, related: &[PathBuf]) -> Result<Stamp> {
    let file = transcript_file(path);
    let meta = match std::fs::symlink_metadata(&file) {
        // What is no file is nothing to be read: the session is gone until there is one again.
        Ok(meta) if !meta.is_file() => return Ok(None),
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(Error::io("inspect", &file)(e)),
    };
    let beside = match path.parent().filter(|_| file != path) {
        Some(root) => std::fs::read_dir(root).map_err(Error::io("list", root))?.count(),
        None => 0,
    };
    let mut len = 0;
    for log in related {
        len += file::length(log)?.unwrap_or(0);
    }
    Ok(Some(Files { identity: file::identity(&meta), len: meta.len(), related: len, beside }))
}

/// The file that grows when the session does.
fn transcript_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(reasonix::LOG) } else { path.to_owned() }
}

/// What is over at the next look: the file went away, was cut, or gave way to what is no file while it was read.
fn passes(error: &Error) -> bool {
    match error {
        Error::Refusal(refusal) => matches!(refusal.code, Code::SnapshotChanged | Code::UnsafePath),
        Error::Fault(fault) => fault
            .source
            .as_ref()
            .is_some_and(|e| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)),
    }
}
