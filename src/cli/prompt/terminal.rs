//! The terminal while the prompt stands, and its way back on every way out.
//!
//! `console` reads each key in raw mode and goes back to the line mode between keys, where typed-ahead keys are
//! echoed into the list and Ctrl-C is a signal. So echo, line mode and signal keys are off for as long as the prompt
//! stands. Measured: without a handler, Ctrl-C kills the process with the cursor hidden, since `console` raises
//! SIGINT for the key; the signal thread leaves that one to the prompt.

use std::sync::{Mutex, PoisonError};

use console::Term;

use crate::store::signals;

/// The terminal's settings before the prompt, while one stands.
#[cfg(unix)]
static BEFORE: Mutex<Option<rustix::termios::Termios>> = Mutex::new(None);
#[cfg(not(unix))]
static BEFORE: Mutex<Option<()>> = Mutex::new(None);

/// Gives the terminal back: cursor shown, echo and line mode as before. Does nothing where no prompt stands.
/// For signal handlers that run on a thread of their own; not async-signal-safe.
pub fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(_before) = before {
        #[cfg(unix)]
        let _ = rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, &_before);
        let _ = Term::stderr().show_cursor();
    }
}

/// A prompt stands; dropping it restores the terminal.
pub struct Held {
    _cleanup: signals::Cleanup,
    prompting: Option<signals::Prompting>,
}

impl Held {
    /// Notes the settings and turns echo, line mode and signal keys off. A terminal that refuses is left as it is.
    pub fn take() -> Self {
        // Without the signal thread a signal would end the process with the terminal as the prompt needs it. If there
        // can be none, the prompt is still worth having.
        let _ = signals::install();
        let cleanup = signals::on_exit(restore);
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = quiet();
        Held { _cleanup: cleanup, prompting: Some(signals::prompting()) }
    }

    /// Restores the terminal after an interrupt, which is to end the program.
    pub fn interrupted(mut self) {
        restore();
        if let Some(prompting) = self.prompting.take() {
            prompting.interrupted();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        restore();
    }
}

#[cfg(unix)]
fn quiet() -> Option<rustix::termios::Termios> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let before = tcgetattr(std::io::stdin()).ok()?;
    let mut held = before.clone();
    held.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &held);
    Some(before)
}

#[cfg(not(unix))]
fn quiet() -> Option<()> {
    Some(())
}
