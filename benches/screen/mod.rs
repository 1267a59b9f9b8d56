//! The program on a pseudo-terminal: how long until something is on the screen.

use std::{
    error::Error,
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

pub const COLUMNS: u16 = 120;
pub const ROWS: u16 = 40;
/// A state directory that holds nothing and that nothing is written to.
pub const NO_STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/no-state");

/// From the start of the program with these arguments to its first frame of any kind, and to the one that has `mark`.
pub fn first_frames(args: &[&str], file: &Path, mark: &str) -> Result<(Duration, Duration), Box<dyn Error>> {
    let pair = native_pty_system().openpty(PtySize {
        rows: ROWS,
        cols: COLUMNS,
        pixel_width: 0,
        pixel_height: 0,
    })?;
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_offshoot"));
    command.args(["--state-dir", NO_STATE]);
    command.args(args);
    command.arg(file);
    command.env("TERM", "xterm-256color");
    let mut reader = pair.master.try_clone_reader()?;
    let start = Instant::now();
    let mut child = pair.slave.spawn_command(command)?;
    drop(pair.slave);
    let mut screen = vt100::Parser::default();
    screen.screen_mut().set_size(
        std::num::NonZeroU16::new(ROWS).ok_or("no rows")?,
        std::num::NonZeroU16::new(COLUMNS).ok_or("no columns")?,
    );
    let (mut buffer, mut first) = ([0; 65536], None);
    let marked = loop {
        let n = reader.read(&mut buffer)?;
        if n == 0 {
            return Err(format!("it ended: {}", screen.screen().contents()).into());
        }
        screen.process(&buffer[..n]);
        let text = screen.screen().contents();
        if first.is_none() && !text.trim().is_empty() {
            first = Some(start.elapsed());
        }
        if text.contains(mark) {
            break start.elapsed();
        }
    };
    child.kill()?;
    child.wait()?;
    Ok((first.unwrap_or(marked), marked))
}
