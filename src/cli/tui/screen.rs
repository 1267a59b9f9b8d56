//! The terminal while the navigator stands, and its way back on every way out: an end, a panic, a signal.
//!
//! Everything is drawn on stderr; stdout belongs to data. Raw mode and the other screen are left by whoever comes
//! first, and nothing is drawn after that: a frame is drawn under the lock that the way back takes.

use std::{
    io::{self, Write},
    panic,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        execute,
        terminal::{
            Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
        },
    },
};

use super::{app::App, draw};
use crate::{
    refusal::{Error, Fault, Result},
    store::signals,
};

/// Whether the screen is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Held while a frame is written.
static FRAME: Mutex<()> = Mutex::new(());

/// Gives the terminal back, behind the frame that is being written. Does nothing where it was not taken.
fn restore() {
    let _frame = FRAME.lock().unwrap_or_else(PoisonError::into_inner);
    leave();
}

/// The panicking thread may be writing a frame itself, so that it must not wait for its end.
fn leave() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stderr().lock(), LeaveAlternateScreen, Show);
    }
}

/// What is drawn, kept until it is flushed: a frame is written at once, or not at all once the screen is left.
#[derive(Default)]
struct Out(Vec<u8>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = match TAKEN.load(Ordering::SeqCst) {
            true => io::stderr().lock().write_all(&self.0),
            false => Ok(()),
        };
        self.0.clear();
        written
    }
}

/// The screen is ours until this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Out>>,
    _cleanup: signals::Cleanup,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// `io`.
    pub fn take() -> Result<Screen> {
        // Without the signal thread a signal would end the process with the screen still taken.
        signals::install().map_err(terminal_fault)?;
        let cleanup = signals::on_exit(restore);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
        let terminal = take().inspect_err(|_| restore()).map_err(terminal_fault)?;
        Ok(Screen { terminal, _cleanup: cleanup })
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// `io`.
    pub fn draw(&mut self, app: &mut App) -> Result<()> {
        self.draw_with(|frame| draw::draw(frame, app))
    }

    /// Draws a frame of something else.
    ///
    /// # Errors
    /// `io`.
    pub fn draw_with(&mut self, what: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        let _frame = FRAME.lock().unwrap_or_else(PoisonError::into_inner);
        self.terminal.draw(what).map(drop).map_err(terminal_fault)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> io::Result<Terminal<CrosstermBackend<Out>>> {
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    let mut out = Out::default();
    // Not `Terminal::clear`, which asks where the cursor is: not every terminal answers.
    execute!(out, EnterAlternateScreen, Clear(ClearType::All))?;
    Terminal::new(CrosstermBackend::new(out))
}

/// The fault of a terminal.
pub fn terminal_fault(e: io::Error) -> Error {
    Fault::io("draw on", Path::new("the terminal"), e).into()
}
