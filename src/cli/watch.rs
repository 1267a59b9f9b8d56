//! `watch`: one JSON line for each new leaf, second writer, or client pick that moved.
//!
//! The folder is watched, not the file, so that the file may be renamed, replaced, deleted and made again. What the
//! system tells is only a reason to look: every look compares the whole transcript with what was there before, so that
//! events that are lost, late or doubled change nothing. Once a second the file's length and identity are looked at in
//! any case, for file systems that tell nothing.

use std::{
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
    output,
    session::{self, Digest, Opened},
};
use crate::{
    refusal::{Code, Error, Fault, Result},
    store::{file, signals, snapshot::Snapshot},
    topology::Tree,
};

mod branches;

use branches::{Branches, Event};

/// How often the file is looked at where nothing is told.
const LOOK: Duration = Duration::from_secs(1);
/// A writer that is busy is read once it pauses so long, or after [`LONGEST`] all the same.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);

/// Which file has the name, and how long it is; none if nothing has it.
type Stamp = Option<((u64, u64), u64)>;

/// Watches until somebody ends it.
pub fn run(global: &Global, args: &WatchArgs) -> Result<ExitCode> {
    signals::install().map_err(Error::io("take signals of", Path::new("this process")))?;
    let opened = session::open(global, args.session.as_deref(), Digest::Skip)?;
    let path = std::path::absolute(&opened.path).map_err(Error::io("resolve", &opened.path))?;
    // Subscribed before it is read again, so that nothing is missed between.
    let (watcher, changes) = subscribe(&path)?;
    let mut watch = Watch { path, opened, known: None, stamp: None, begun: false, _watcher: watcher };
    watch.look()?;
    loop {
        wait(&changes);
        if reader_is_gone() {
            return Ok(ExitCode::SUCCESS);
        }
        watch.look()?;
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

/// Tells of each change in the folder of `path` that concerns it.
fn subscribe(path: &Path) -> Result<(RecommendedWatcher, Receiver<()>)> {
    let (tell, changes) = mpsc::channel();
    let name = path.file_name().map(std::ffi::OsStr::to_owned);
    let fault =
        |e: notify::Error| Error::from(Fault::io("watch", path, std::io::Error::other(e.to_string())));
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns = |event: &notify::Event| {
            event.paths.is_empty() || event.paths.iter().any(|p| p.file_name() == name.as_deref())
        };
        // What went wrong is a reason to look as well.
        if event.as_ref().map_or(true, |event| !event.kind.is_access() && concerns(event)) {
            let _ = tell.send(());
        }
    })
    .map_err(fault)?;
    let folder = path.parent().unwrap_or(path);
    watcher.watch(folder, RecursiveMode::NonRecursive).map_err(fault)?;
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
    path: PathBuf,
    /// What was opened first: whose transcript it is, and which client is simulated.
    opened: Opened,
    /// What was there at the last look; none before the first and while there is no file.
    known: Option<Branches>,
    stamp: Stamp,
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
        let stamp = stamp(&self.path)?;
        if stamp == self.stamp && (self.known.is_some() || stamp.is_none()) {
            return Ok(());
        }
        let Some((identity, len)) = stamp else {
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
            (Some(_), Some((was, _))) if was != identity => vec![now.state(Some("replaced"))],
            (Some(_), Some((_, was))) if was > len => vec![now.state(Some("cut"))],
            (Some(known), _) => {
                let t = &opened.snapshot.transcript;
                now.since(known, t, &Tree::new(t))
            }
            (None, _) if self.begun => vec![now.state(Some("created"))],
            (None, _) => vec![now.state(None)],
        };
        self.begun = true;
        self.stamp = stamp;
        self.known = Some(now);
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

fn stamp(path: &Path) -> Result<Stamp> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some((file::identity(&meta), meta.len()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("inspect", path)(e)),
    }
}

/// What is over at the next look: the file went away or was cut while it was read.
fn passes(error: &Error) -> bool {
    match error {
        Error::Refusal(refusal) => refusal.code == Code::SnapshotChanged,
        Error::Fault(fault) => {
            fault.source.as_ref().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        }
    }
}
