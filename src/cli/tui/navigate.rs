//! The navigator's loop: keys in, frames out, and in between a look at whether the file is what it was.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{
    Doc,
    app::{App, Options, Outcome},
    reading::{self, Loaded, Reader, Reading},
    screen::{Screen, terminal_fault},
};
use crate::refusal::Result;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long work may take between two looks at the keys.
pub const SLICE: Duration = Duration::from_millis(2);
/// How often a frame is drawn while there is work: each costs as much as a slice.
const FRAME: Duration = Duration::from_millis(30);
/// What is read within this time is shown at once, without a word of its being read.
const GRACE: Duration = Duration::from_millis(40);
/// How often it is looked whether the session has been read.
const READ: Duration = Duration::from_millis(20);

/// How it ended.
pub struct Ended {
    /// What was chosen.
    pub outcome: Outcome,
    /// The session as it was read last; none if nobody waited for it.
    pub doc: Option<Doc>,
    /// What is to be said again: a message with a command for later.
    pub afterwards: Option<String>,
}

/// Lets a person walk through the tree until something is chosen. The screen is not taken for a session without a
/// message that is read quickly.
///
/// # Errors
/// What reading the session says, if it is read for the first time; `io` of the terminal.
pub fn navigate(reader: &Reader, options: Options) -> Result<Ended> {
    let mut reading = Reading::start(reader)?;
    let early = reading.wait(GRACE).transpose()?;
    if let Some(loaded) = early {
        return if loaded.doc.has_messages() {
            show(Screen::take()?, loaded, reader, options)
        } else {
            Ok(Ended { outcome: Outcome::Leave, doc: Some(loaded.doc), afterwards: None })
        };
    }
    let mut screen = Screen::take()?;
    match wait(&mut screen, reader, reading)? {
        Ok(loaded) if loaded.doc.has_messages() => show(screen, loaded, reader, options),
        Ok(loaded) => Ok(Ended { outcome: Outcome::Leave, doc: Some(loaded.doc), afterwards: None }),
        Err(outcome) => Ok(Ended { outcome, doc: None, afterwards: None }),
    }
}

fn show(mut screen: Screen, loaded: Loaded, reader: &Reader, options: Options) -> Result<Ended> {
    let mut app = App::new(loaded.doc, Options { live: loaded.live, ..options });
    app.message = app.doc.said_of_lines();
    let outcome = walk(&mut screen, &mut app, reader)?;
    Ok(Ended { outcome, doc: Some(app.doc), afterwards: app.afterwards })
}

/// Waits until the session has been read, or nobody waits for it any more.
fn wait(
    screen: &mut Screen,
    reader: &Reader,
    mut reading: Reading,
) -> Result<std::result::Result<Loaded, Outcome>> {
    loop {
        // Drawn each time: an event that tells of another size may be lost behind a key.
        let progress = reading.progress();
        screen.draw_with(|frame| reading::draw(frame, &reader.name, &progress))?;
        while event::poll(Duration::ZERO).map_err(terminal_fault)? {
            let Event::Key(key) = event::read().map_err(terminal_fault)? else { continue };
            if key.kind != KeyEventKind::Release
                && let Some(outcome) = leaves(key)
            {
                return Ok(Err(outcome));
            }
        }
        if let Some(done) = reading.wait(READ) {
            return done.map(Ok);
        }
    }
}

/// Whether a key leaves while there is nothing to see.
fn leaves(key: KeyEvent) -> Option<Outcome> {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Outcome::Interrupted),
        KeyCode::Esc | KeyCode::Char('q') => Some(Outcome::Leave),
        _ => None,
    }
}

fn walk(screen: &mut Screen, app: &mut App, reader: &Reader) -> Result<Outcome> {
    let (mut looked, mut drawn) = (Instant::now(), None::<Instant>);
    let mut again: Option<Reading> = None;
    loop {
        let busy = app.is_busy();
        if !busy || drawn.is_none_or(|at| at.elapsed() >= FRAME) {
            screen.draw(app)?;
            drawn = Some(Instant::now());
        }
        let wait = match (busy, &again) {
            (true, _) => Duration::ZERO,
            (false, Some(_)) => READ,
            (false, None) => LOOK.saturating_sub(looked.elapsed()),
        };
        if event::poll(wait).map_err(terminal_fault)? {
            // All that waits is taken before the next frame: a key that repeats does not queue up frames.
            while event::poll(Duration::ZERO).map_err(terminal_fault)? {
                let Event::Key(key) = event::read().map_err(terminal_fault)? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match app.key(key) {
                    Some(Outcome::Reload) if again.is_some() => {}
                    Some(Outcome::Reload) => again = Some(Reading::start(reader)?),
                    Some(outcome) => return Ok(outcome),
                    None => {}
                }
            }
            drawn = None;
        }
        if app.is_busy() {
            app.work(Instant::now() + SLICE);
        }
        app.reading = again.as_ref().map(Reading::progress);
        match again.as_mut().and_then(|reading| reading.wait(Duration::ZERO)) {
            None => {}
            Some(done) => {
                (again, app.reading) = (None, None);
                match done {
                    // There would be nothing to stand on.
                    Ok(Loaded { doc, .. }) if !doc.has_messages() => {
                        app.message = Some("not read again: no messages are left in this session".to_owned());
                    }
                    Ok(Loaded { doc, live }) => {
                        app.options.live = live;
                        app.reload(doc);
                    }
                    Err(error) => app.message = Some(format!("not read again: {error}")),
                }
            }
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            app.change = app.doc.opened.snapshot.change();
        }
    }
}
