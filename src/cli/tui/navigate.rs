//! The navigator's loop: keys in, frames out, and in between a look at whether the file has grown.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::{
    Doc,
    app::{App, Options, Outcome},
    screen::{Screen, terminal_fault},
};
use crate::refusal::Result;

/// How often the length of the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long work may take between two looks at the keys.
const SLICE: Duration = Duration::from_millis(6);

/// Lets a person walk through the tree until something is chosen. `reread` reads the session again.
///
/// # Errors
/// `io` of the terminal.
pub fn navigate(doc: Doc, options: Options, reread: &dyn Fn() -> Result<Doc>) -> Result<Outcome> {
    let mut app = App::new(doc, options);
    let mut screen = Screen::take()?;
    let mut looked = Instant::now();
    loop {
        screen.draw(&mut app)?;
        let wait = if app.is_busy() { Duration::ZERO } else { LOOK.saturating_sub(looked.elapsed()) };
        if event::poll(wait).map_err(terminal_fault)? {
            // All that waits is taken before the next frame: a key that repeats does not queue up frames.
            while event::poll(Duration::ZERO).map_err(terminal_fault)? {
                let Event::Key(key) = event::read().map_err(terminal_fault)? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match app.key(key) {
                    Some(Outcome::Reload) => match reread() {
                        Ok(doc) => app.reload(doc),
                        Err(error) => app.message = Some(format!("not read again: {error}")),
                    },
                    Some(outcome) => return Ok(outcome),
                    None => {}
                }
            }
        }
        if app.is_busy() {
            app.work(Instant::now() + SLICE);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            app.grown = grown(&app.doc.opened.path, app.doc.opened.snapshot.file_len());
        }
    }
}

/// By how much a file is longer than it was.
fn grown(path: &Path, before: u64) -> Option<u64> {
    let now = std::fs::metadata(path).ok()?.len();
    now.checked_sub(before).filter(|&bytes| bytes > 0)
}
