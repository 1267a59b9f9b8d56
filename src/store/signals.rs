//! What must be given back when a signal ends the process: agents' locks above all, since a leaked one shuts the
//! agent out.
//!
//! Signals are taken by a thread of their own, never by a handler that interrupts other code. On SIGINT, SIGTERM and
//! SIGHUP it waits for a write in progress to end ([`uninterrupted`]), runs the registered clean-ups, newest first,
//! and ends the process with 128+n; on SIGQUIT it runs them too and ends as that signal does. Nothing needs to be rolled
//! back beyond that: recovery settles every state that a kill can leave, and a signal leaves no worse one.
//!
//! While a command runs ([`forward_to`]), SIGINT and SIGQUIT are its own business (the terminal sends them to it
//! too), and SIGTERM and SIGHUP are passed on to it.
//!
//! Once something is about to be changed for good ([`finish_first`]), a signal waits for the program to say what it did:
//! the exit status of a call that did its work is not that of one that did nothing.
//!
//! While a prompt stands ([`prompting`]), an interrupt reaches it as a key: it declines, and the program ends by
//! itself with a refusal that is printed whole. The signal thread steps in only where that does not happen.

use std::{
    cell::Cell,
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

type Action = Box<dyn FnOnce() + Send>;

struct Registry {
    next: u64,
    actions: Vec<(u64, Action)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { next: 0, actions: Vec::new() });
static WRITING: Mutex<()> = Mutex::new(());
static COMMAND: Mutex<Command> = Mutex::new(Command::None);
/// Set and read under [`WRITING`].
static FINISHING: Mutex<Finishing> = Mutex::new(Finishing::No);
static PROMPT: Mutex<bool> = Mutex::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);

/// The command that signals are left to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    None,
    Runs(u32),
    /// It has ended, perhaps by the very signal that is on its way to us.
    Ended,
}

/// Whether signals wait for the result to be said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finishing {
    No,
    Yes,
    /// This one came meanwhile.
    Signalled(i32),
}

/// How long a program that was signalled while it finishes has to end by itself: whoever reads what it says may have
/// stopped reading.
#[cfg(unix)]
const FINISH_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// How long an interrupted prompt has to end the program by itself.
#[cfg(unix)]
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// A panic while one of these is held leaves it as usable as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A registered clean-up. Dropping it takes it back, without running it.
#[derive(Debug)]
#[must_use = "dropping it takes the clean-up back"]
pub struct Cleanup {
    id: u64,
}

/// Registers what is to be done if a signal ends the process. It runs on the signal thread, must not block, and may
/// find its work done already.
pub fn on_exit(action: impl FnOnce() + Send + 'static) -> Cleanup {
    let mut registry = lock(&REGISTRY);
    let id = registry.next;
    registry.next += 1;
    registry.actions.push((id, Box::new(action)));
    Cleanup { id }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        lock(&REGISTRY).actions.retain(|(id, _)| *id != self.id);
    }
}

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Signals are held off while this lives.
#[derive(Debug)]
#[must_use = "dropping it lets signals through"]
pub struct Uninterrupted(Option<MutexGuard<'static, ()>>);

/// Holds signals off while bytes are checked, written and confirmed: no clean-up gives a lock back in between.
/// Keep it short. Taken again on the same thread it does nothing more.
pub fn uninterrupted() -> Uninterrupted {
    if HELD.replace(true) { Uninterrupted(None) } else { Uninterrupted(Some(lock(&WRITING))) }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            HELD.set(false);
        }
    }
}

/// The next step cannot be taken back, and what is left behind it is short: from here on SIGINT, SIGTERM and SIGHUP wait
/// until the program has said what it did and has ended by itself, or has called [`finished`]. If it has done neither
/// after ten seconds, the signal ends it. A signal that came before ends the process in here.
pub fn finish_first() {
    let _writing = uninterrupted();
    let mut finishing = lock(&FINISHING);
    if *finishing == Finishing::No {
        *finishing = Finishing::Yes;
    }
}

/// What was done has been said, and something begins that may take long: signals end the process again, and one that
/// came meanwhile does so now.
pub fn finished() {
    let came = std::mem::replace(&mut *lock(&FINISHING), Finishing::No);
    if let Finishing::Signalled(signal) = came {
        exit(128 + signal);
    }
}

/// Signals go to a command while this lives.
#[derive(Debug)]
#[must_use = "dropping it takes signals back"]
pub struct Forwarding(());

/// Leaves SIGINT and SIGQUIT to the command and passes SIGTERM and SIGHUP on to it, until the value is dropped.
pub fn forward_to(pid: u32) -> Forwarding {
    *lock(&COMMAND) = Command::Runs(pid);
    Forwarding(())
}

impl Forwarding {
    /// The command has ended. Signals that were sent to it and to us may arrive only now, and the program is about
    /// to end by itself: none of them does anything any more.
    pub fn ended(&self) {
        *lock(&COMMAND) = Command::Ended;
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        *lock(&COMMAND) = Command::None;
    }
}

/// A prompt stands while this lives.
#[derive(Debug)]
#[must_use = "dropping it takes interrupts back"]
pub struct Prompting(());

/// Leaves SIGINT to the prompt, until the value is dropped.
pub fn prompting() -> Prompting {
    *lock(&PROMPT) = true;
    Prompting(())
}

impl Prompting {
    /// The prompt was interrupted, and the program is about to end: the signal, which may be on its way still, has
    /// been dealt with.
    pub fn interrupted(self) {
        std::mem::forget(self);
    }
}

impl Drop for Prompting {
    fn drop(&mut self) {
        *lock(&PROMPT) = false;
    }
}

/// Runs the clean-ups and ends the process. Also for callers that must exit in the middle of something.
pub fn exit(code: i32) -> ! {
    // Never given back: no write may begin once locks are being removed.
    let _writing = uninterrupted();
    clean_up();
    std::process::exit(code)
}

fn clean_up() {
    ENDING.store(true, Ordering::SeqCst);
    let actions = std::mem::take(&mut lock(&REGISTRY).actions);
    for (_, action) in actions.into_iter().rev() {
        action();
    }
}

/// Ends the process because of a signal, behind a write that is in progress. If that write led to what has to be
/// finished first, the process is left to do so.
#[cfg(unix)]
fn end_by(signal: i32) {
    let _writing = uninterrupted();
    {
        let mut finishing = lock(&FINISHING);
        match *finishing {
            Finishing::No => {}
            Finishing::Signalled(_) => return,
            Finishing::Yes => {
                let late = std::thread::Builder::new().name("late".into()).spawn(move || {
                    std::thread::sleep(FINISH_WITHIN);
                    exit(128 + signal)
                });
                if late.is_ok() {
                    *finishing = Finishing::Signalled(signal);
                    return;
                }
            }
        }
    }
    exit(128 + signal)
}

/// Ends the process as SIGQUIT does, with a core dump where the system makes one; the clean-ups run first. Only a write
/// that is in progress is not waited for: whoever sends this may want to know why it does not end.
#[cfg(unix)]
fn quit() -> ! {
    use signal_hook::{consts::SIGQUIT, low_level::emulate_default_handler};
    let writing = WRITING.try_lock();
    if !matches!(writing, Err(std::sync::TryLockError::WouldBlock)) {
        clean_up();
    }
    let _ = emulate_default_handler(SIGQUIT);
    // It is blocked, or taken by somebody else.
    std::process::exit(128 + SIGQUIT)
}

/// Does not return if [`exit`] is running on another thread. For what comes before the last word of the program: what
/// is cleaned up because of a signal looks like a failure to whoever used it.
pub fn leave_to_exit() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// From here on a file over the limit (`ulimit -f`) is a failed write like one on a full disk, not the end of the process.
///
/// # Errors
/// What the system says to a handler.
#[cfg(unix)]
pub fn outlive_file_limit() -> io::Result<()> {
    // A handler, unlike a signal that is ignored, is not handed on to commands.
    let unread = std::sync::Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::signal::SIGXFSZ, unread).map(drop)
}

/// From here on a file over the limit is a failed write: it is none other where the system has no such signal.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn outlive_file_limit() -> io::Result<()> {
    Ok(())
}

/// Starts the signal thread. To be called once, by the binary, before the first lock is taken; later calls do nothing.
///
/// # Errors
/// What the system says to handlers or the thread.
#[cfg(unix)]
pub fn install() -> io::Result<()> {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM},
        iterator::Signals,
    };

    static INSTALLED: AtomicBool = AtomicBool::new(false);
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let command = *lock(&COMMAND);
            match (signal, command) {
                (SIGINT | SIGQUIT, Command::Runs(_)) | (_, Command::Ended) => {}
                (_, Command::Runs(pid)) => pass_on(signal, pid),
                (SIGQUIT, Command::None) => quit(),
                (SIGINT, Command::None) if *lock(&PROMPT) => {
                    std::thread::sleep(GRACE);
                    end_by(SIGINT);
                }
                (_, Command::None) => end_by(signal),
            }
        }
    })?;
    Ok(())
}

#[cfg(unix)]
fn pass_on(signal: i32, pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = if signal == signal_hook::consts::SIGTERM { Signal::TERM } else { Signal::HUP };
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Gone already: then its end is about to be noticed anyway.
        let _ = kill_process(pid, signal);
    }
}

/// Starts the signal thread: not done here, where the system ends the process without asking.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn install() -> io::Result<()> {
    Ok(())
}
