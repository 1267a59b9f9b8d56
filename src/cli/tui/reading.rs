//! A session that is being read on a thread of its own, while the navigator stands already and takes keys.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use ratatui::{
    Frame,
    style::{Modifier, Style},
};

use super::{Doc, screen::terminal_fault};
use crate::{
    cli::text::{fit, unit},
    refusal::Result,
};

/// What was read.
pub struct Loaded {
    /// The session.
    pub doc: Doc,
    /// The live agent that has it open, in words.
    pub live: Option<String>,
}

/// Reads a session, counting the bytes that have been read. Says nothing: the screen is not its own.
pub type Read = dyn Fn(&AtomicU64) -> Result<Loaded> + Send + Sync;

/// Where a session is read from.
#[derive(Clone)]
pub struct Reader {
    /// What it is called while it is being read; hostile.
    pub name: String,
    /// Bytes of the file; 0 where that is not known.
    pub total: u64,
    /// Reads it.
    pub read: Arc<Read>,
}

/// A session that is being read.
pub struct Reading {
    read: Arc<AtomicU64>,
    total: u64,
    done: Receiver<Result<Loaded>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// Begins to read.
    ///
    /// # Errors
    /// `io` if there can be no thread.
    pub fn start(reader: &Reader) -> Result<Reading> {
        let read = Arc::new(AtomicU64::new(0));
        let (tell, done) = mpsc::channel();
        let (counted, work) = (read.clone(), reader.read.clone());
        let thread = thread::Builder::new().name("reader".into()).spawn(move || {
            // Whoever has left by now does not want it any more.
            let _ = tell.send(work(&counted));
        });
        let thread = Some(thread.map_err(terminal_fault)?);
        Ok(Reading { read, total: reader.total, done, thread })
    }

    /// What was read, once it has been, waiting so long at most. A panic of the reader goes on here.
    pub fn wait(&mut self, most: Duration) -> Option<Result<Loaded>> {
        match self.done.recv_timeout(most) {
            Ok(done) => Some(done),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => match self.thread.take()?.join() {
                Err(panic) => panic::resume_unwind(panic),
                Ok(()) => None,
            },
        }
    }

    /// How far it is, in words.
    pub fn progress(&self) -> String {
        progress(self.read.load(Ordering::Relaxed), self.total)
    }
}

fn progress(read: u64, total: u64) -> String {
    let (unit, name) = unit(total);
    match read >= total {
        _ if total == 0 => "reading".to_owned(),
        true => format!("read {} {name}, laying it out", total.div_ceil(unit)),
        false => format!("reading: {} of {} {name}", read / unit, total.div_ceil(unit)),
    }
}

/// The screen until there is a tree.
pub fn draw(frame: &mut Frame<'_>, name: &str, progress: &str) {
    let area = frame.area();
    let columns = usize::from(area.width);
    let faint = Style::new().add_modifier(Modifier::DIM);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    // The progress stands where the tree begins, the keys where they will stand.
    let lines =
        [(0, name, bold), (1, progress, Style::new()), (area.height.saturating_sub(1), "q leave", faint)];
    for (y, text, style) in lines {
        if y < area.height {
            frame.buffer_mut().set_string(area.x, area.y + y, fit(text, columns), style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_a_unit_that_fits() {
        assert_eq!(progress(0, 0), "reading");
        assert_eq!(progress(0, 1), "reading: 0 of 1 byte");
        assert_eq!(progress(999, 999), "read 999 bytes, laying it out");
        assert_eq!(progress(1_500, 2_048), "reading: 1 of 3 kB");
        assert_eq!(progress(12_900_000, 200_000_000), "reading: 12 of 200 MB");
    }
}
