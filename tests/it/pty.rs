//! A real pseudo-terminal: a program runs on it, keys are typed, and what it drew is read from a screen.

use std::{
    io::{Read, Write},
    num::NonZeroU16,
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Keys as a terminal sends them.
pub const DOWN: &str = "\x1b[B";
pub const UP: &str = "\x1b[A";
pub const RIGHT: &str = "\x1b[C";
pub const ENTER: &str = "\r";
pub const ESC: &str = "\x1b";
pub const CTRL_C: &str = "\x03";

/// How long a program may take to draw what is waited for, or to end. Reached by failures alone.
const DEADLINE: Duration = Duration::from_secs(60);

/// A program on a terminal of its own (it is its controlling terminal, so signals and resizes arrive).
pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    drawn: Vec<u8>,
}

/// What is left when the program has ended.
#[must_use = "assert the exit status"]
pub struct Ended {
    /// Exit status; `None` where a signal ended it.
    pub code: Option<u32>,
    /// Every byte that it sent to the terminal.
    pub drawn: String,
    /// The last screen.
    pub screen: vt100::Screen,
    /// Whether the terminal echoes and reads lines, as it did before.
    pub line_mode: bool,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn at_least_one(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap_or(NonZeroU16::MIN)
}

impl Pty {
    /// Starts `command` with its environment and folder; stdin, stdout and stderr are the terminal.
    pub fn spawn(command: &Command, columns: u16, rows: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.env_clear();
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                builder.env(name, value);
            }
        }
        builder.cwd(command.get_current_dir().expect("tests name their folder"));
        let child = pair.slave.spawn_command(builder).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (send, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        // An unknown size (0x0) is drawn for 80x24.
        let (shown_columns, shown_rows) = if columns == 0 { (80, 24) } else { (columns, rows) };
        Pty {
            keys: pair.master.take_writer().unwrap(),
            master: pair.master,
            child,
            output,
            screen: vt100::Parser::new(at_least_one(shown_rows), at_least_one(shown_columns), 1000),
            drawn: Vec::new(),
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Changes the window's size, which the program is told by SIGWINCH.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.master.resize(size(columns, rows)).unwrap();
        self.screen.screen_mut().set_size(at_least_one(rows), at_least_one(columns));
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("it was started")
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Waits until the screen shows what `shows` looks for.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, shows: impl Fn(&vt100::Screen) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !shows(self.screen.screen()) {
            if !self.read(until) {
                panic!("never saw {what} on\n{}", self.screen.screen().contents());
            }
        }
    }

    /// Waits until the screen holds `text`.
    #[track_caller]
    pub fn wait_text(&mut self, text: &str) {
        self.wait_for(text, |s| s.contents().contains(text));
    }

    /// Waits until the line with the marker `>` holds `text`.
    #[track_caller]
    pub fn wait_marked(&mut self, text: &str) {
        self.wait_for(&format!("> ..{text}"), |s| marked(s).is_some_and(|line| line.contains(text)));
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let until = Instant::now() + DEADLINE;
        while self.read(until) {}
        assert!(Instant::now() < until, "it did not end:\n{}", self.screen.screen().contents());
        let status = self.child.wait().unwrap();
        Ended {
            code: status.signal().is_none().then(|| status.exit_code()),
            drawn: String::from_utf8_lossy(&self.drawn).into_owned(),
            screen: self.screen.screen().clone(),
            line_mode: self.line_mode(),
        }
    }

    fn line_mode(&self) -> bool {
        use rustix::termios::{LocalModes, tcgetattr};
        let path = self.master.tty_name().expect("it has a name");
        let terminal = std::fs::File::options().read(true).write(true).open(path).unwrap();
        tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Takes what the program has drawn; false at its end or the deadline.
    fn read(&mut self, until: Instant) -> bool {
        match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                self.drawn.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line of the prompt's list that the marker stands on.
pub fn marked(screen: &vt100::Screen) -> Option<String> {
    let columns = screen.size().1.get();
    let rows: Vec<String> = screen.rows(0, columns).collect();
    let prompt = rows.iter().rposition(|line| QUESTIONS.iter().any(|q| line.starts_with(q)))?;
    rows[prompt..].iter().find(|line| line.starts_with("> ")).cloned()
}

/// How the prompt's questions begin, on narrow terminals too.
const QUESTIONS: [&str; 2] = ["Whic", "leaf-"];

/// Whether any row runs on into the next.
pub fn wraps(screen: &vt100::Screen) -> bool {
    (0..screen.size().0.get()).any(|row| screen.row_wrapped(row))
}

impl Ended {
    /// Whether the terminal is as it was: the cursor was shown after it was last hidden, lines are echoed.
    pub fn restored(&self) -> bool {
        self.line_mode
            && !self.screen.hide_cursor()
            && self.drawn.rfind("\x1b[?25h") >= self.drawn.rfind("\x1b[?25l")
    }
}
