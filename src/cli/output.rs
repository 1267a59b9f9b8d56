//! What leaves the program: data on stdout, everything else on stderr, and nothing that could steer a terminal.

use std::{
    fmt::Write as _,
    io::{self, BufWriter, IsTerminal, Write},
    path::Path,
};

use memchr::memmem;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use super::{
    args::{ColorArg, Global},
    text::{clean, is_hazard},
};
use crate::{
    parallel::{self, Stage},
    refusal::{Code, Error, Fault, Result},
};

/// How faults name our own output.
const STDOUT: &str = "standard output";

/// Writes one JSON document and a line end to stdout.
///
/// # Errors
/// `io`; a closed pipe is one too, which [`closed_pipe`] recognises.
pub fn json(document: &impl Serialize) -> Result<()> {
    to_stdout(|out| {
        write_json(out, document)?;
        out.write_all(b"\n")
    })
}

/// How many items of a list are made into JSON at a time.
const ITEMS: usize = 128;

/// The same where one member of the document, called `list` and empty as it is given, is to hold `items`, of which there
/// may be very many: they are made into JSON on several threads.
///
/// # Errors
/// As for [`json`].
///
/// # Panics
/// If there is no such member.
pub fn json_with(document: &impl Serialize, list: &str, items: &[impl Serialize + Sync]) -> Result<()> {
    to_stdout(|out| {
        write_with(out, document, list, items)?;
        out.write_all(b"\n")
    })
}

fn write_with(
    out: &mut (dyn Write + Send),
    document: &impl Serialize,
    list: &str,
    items: &[impl Serialize + Sync],
) -> io::Result<()> {
    // Quotes within a text are escaped, so that no text can look like it.
    let empty = format!("\"{list}\":[]");
    let fill = |out: &mut (dyn Write + Send)| write_items(out, items);
    let mut around = Around { out, empty: empty.as_bytes(), before: Some(Vec::new()), fill: &fill };
    write_json(&mut around, document)?;
    assert!(around.before.is_none(), "BUG: the list is there, and empty");
    Ok(())
}

/// Passes a document on with something in the list that is empty in it.
struct Around<'a> {
    out: &'a mut (dyn Write + Send),
    empty: &'a [u8],
    /// What stands before the list, until that comes.
    before: Option<Vec<u8>>,
    fill: &'a dyn Fn(&mut (dyn Write + Send)) -> io::Result<()>,
}

impl Write for Around<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(before) = &mut self.before else { return self.out.write(bytes) };
        let from = before.len().saturating_sub(self.empty.len());
        before.extend_from_slice(bytes);
        if let Some(found) = memmem::find(&before[from..], self.empty) {
            let (before, behind) = before.split_at(from + found + self.empty.len() - 1);
            self.out.write_all(before)?;
            (self.fill)(self.out)?;
            self.out.write_all(behind)?;
            self.before = None;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_items(mut out: &mut (dyn Write + Send), items: &[impl Serialize + Sync]) -> io::Result<()> {
    parallel::run(
        items.len().div_ceil(ITEMS) as u64,
        parallel::workers(),
        &mut out,
        &Vec::new,
        &|stage: Stage<'_, &mut (dyn Write + Send)>, made: &mut Vec<u8>| {
            let from = stage.step() as usize * ITEMS;
            made.clear();
            for (at, item) in items[from..].iter().take(ITEMS).enumerate() {
                if from + at > 0 {
                    made.push(b',');
                }
                if let Err(e) = write_json(&mut *made, item) {
                    return stage.turn(|_| Err(e));
                }
            }
            stage.turn(|out| out.write_all(made))
        },
    )
}

/// Writes text to stdout as it is: parts of it that come from a transcript have gone through
/// [`clean`].
///
/// # Errors
/// As for [`json`].
pub fn text(text: &str) -> Result<()> {
    to_stdout(|out| out.write_all(text.as_bytes()))
}

/// Writes bytes of our own making to stdout.
///
/// # Errors
/// As for [`json`].
pub fn bytes(bytes: &[u8]) -> Result<()> {
    to_stdout(|out| out.write_all(bytes))
}

/// Writes to stdout bit by bit, for what is too long to be held.
///
/// # Errors
/// As for [`json`], and what `write` itself fails with.
pub fn stream(write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut failed = None;
    to_stdout(|out| {
        write(out).or_else(|error| {
            failed = Some(error);
            Ok(())
        })
    })?;
    failed.map_or(Ok(()), Err)
}

fn to_stdout(write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout());
    let written = write(&mut out).and_then(|()| out.flush());
    // What could not be written is not to be tried again when the buffer is dropped.
    let _ = out.into_parts();
    written.map_err(Error::io("write to", Path::new(STDOUT)))
}

/// Whether this is the reader of our output having gone away, which is no reason to complain.
pub fn closed_pipe(error: &Error) -> bool {
    match error {
        Error::Fault(f) => {
            f.detail["path"] == STDOUT
                && f.source.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
        }
        Error::Refusal(_) => false,
    }
}

/// Writes a line to stderr; a stderr that is gone is nobody's loss.
pub fn stderr_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Says something on stderr, unless `--quiet`.
pub fn note(global: &Global, message: &str) {
    if !global.quiet {
        stderr_line(&clean(message));
    }
}

/// Warns on stderr, unless `--quiet`.
pub fn warn(global: &Global, message: &str) {
    if !global.quiet {
        let label = Paint::stderr(global).bold_yellow("warning");
        stderr_line(&format!("{label}: {}", clean(message)));
    }
}

/// Reports why the program ends early: the document on stdout with `--json` (on stderr where stdout belongs to
/// somebody else), else the message and its hint on stderr.
pub fn report(error: &Error, global: &Global, stdout_is_taken: bool) {
    if global.json {
        if stdout_is_taken {
            let mut line = Vec::new();
            if write_json(&mut line, &error.to_json()).is_ok() {
                stderr_line(&String::from_utf8_lossy(&line));
            }
            return;
        }
        if json(&error.to_json()).is_ok() {
            return;
        }
    }
    let paint = Paint::stderr(global);
    let mut text = format!("{}: {}", paint.bold_red("error"), error_message(error));
    if let Error::Refusal(r) = error
        && let Some(hint) = &r.hint
    {
        let _ = write!(text, "\n\n{}: {}", paint.bold_cyan("hint"), clean(hint));
    }
    stderr_line(&text);
}

/// The message; only that of an invalid policy has lines of its own, each cleaned by itself.
fn error_message(error: &Error) -> String {
    let message = error.to_string();
    if error.refusal() == Some(Code::PolicyInvalid) {
        message.lines().map(clean).collect::<Vec<_>>().join("\n")
    } else {
        clean(&message)
    }
}

/// Writes compact JSON in which characters that could steer a terminal stand as `\uXXXX`.
///
/// # Errors
/// What `out` reports.
pub fn write_json(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping(CompactFormatter));
    document.serialize(&mut serializer).map_err(io::Error::from)
}

/// The compact form, with more escapes: serde_json leaves DEL, C1 and bidirectional controls as they are.
struct Escaping(CompactFormatter);

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Most of what is written is ASCII without DEL; other controls are no part of a fragment. All bytes are looked at, since
        // a loop without a way out takes many at once.
        if fragment.bytes().fold(true, |plain, byte| plain & (byte < 0x7f)) {
            return writer.write_all(fragment.as_bytes());
        }
        let (mut written, mut at) = (0, 0);
        while let Some(plain) = fragment.as_bytes()[at..].iter().position(|b| !matches!(b, b' '..=b'~')) {
            at += plain;
            let Some(c) = fragment[at..].chars().next() else { break };
            let next = at + c.len_utf8();
            if is_hazard(c) {
                writer.write_all(&fragment.as_bytes()[written..at])?;
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
                written = next;
            }
            at = next;
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.0.write_char_escape(writer, escape)
    }
}

/// Colours, where they are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

impl Paint {
    /// For text on stdout.
    pub fn stdout(global: &Global) -> Paint {
        Paint(wanted(global.color, io::stdout().is_terminal()))
    }

    /// For text on stderr.
    pub fn stderr(global: &Global) -> Paint {
        Paint(wanted(global.color, io::stderr().is_terminal()))
    }

    /// Whether colours are wanted.
    pub fn is_on(self) -> bool {
        self.0
    }

    /// No colours.
    pub fn plain() -> Paint {
        Paint(false)
    }

    /// Bold.
    pub fn bold(self, text: &str) -> String {
        self.code("1", text)
    }

    /// Faint.
    pub fn dim(self, text: &str) -> String {
        self.code("2", text)
    }

    /// Green.
    pub fn green(self, text: &str) -> String {
        self.code("32", text)
    }

    /// Bold red.
    pub fn bold_red(self, text: &str) -> String {
        self.code("1;31", text)
    }

    /// Bold yellow.
    pub fn bold_yellow(self, text: &str) -> String {
        self.code("1;33", text)
    }

    /// Bold cyan.
    pub fn bold_cyan(self, text: &str) -> String {
        self.code("1;36", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// `--color`; `auto` is yes on a terminal that is not dumb, unless `NO_COLOR` is set to anything.
fn wanted(color: ColorArg, terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto => terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb"),
    }
}

/// The fault of an output stream, for callers that write to stdout by themselves.
pub fn stdout_fault(e: io::Error) -> Error {
    Fault::io("write to", Path::new(STDOUT), e).into()
}

/// The columns of a page: the terminal's where stdout is one, else those of `COLUMNS`, else `default`.
pub fn columns(default: usize) -> usize {
    let terminal = io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(asked).filter(|&c| c > 0).unwrap_or(default).clamp(20, 1000)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_list_of_any_length_stands_where_it_was_left_out() {
        let list =
            |n: u32| -> Vec<Value> { (0..n).map(|n| json!({"n": n, "list": [], "e": "\u{1b}"})).collect() };
        for n in [0, 1, 2, 127, 128, 129, 1_000, 5_000] {
            let document = |list: Vec<Value>| json!({"a": "\"list\":[]", "list": list, "z": [1, "list"]});
            let (mut whole, mut with) = (Vec::new(), Vec::new());
            write_json(&mut whole, &document(list(n))).unwrap();
            write_with(&mut with, &document(Vec::new()), "list", &list(n)).unwrap();
            assert!(whole == with, "{n} items");
        }
    }

    #[test]
    fn a_reader_that_goes_away_ends_a_list() {
        struct Gone(usize);
        impl Write for Gone {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for after in 0..3 {
            let failed = write_with(&mut Gone(after), &json!({"list": []}), "list", &vec![json!("x"); 5_000]);
            assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn json_escapes_what_could_steer_a_terminal_and_reads_back_the_same() {
        let hostile = "a\u{1b}[31m\u{7f}\u{9b}m\u{85}\u{202e}b\u{2066}\u{200f}\u{61c}\u{feff}\u{e0041}\u{200b}\"\\\u{1f642}é";
        let document = json!({hostile: [hostile, 1, null]});
        let mut out = Vec::new();
        write_json(&mut out, &document).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.chars().find(|&c| is_hazard(c)), None, "{text}");
        assert!(
            text.contains(
                "\\u001b[31m\\u007f\\u009bm\\u0085\\u202eb\\u2066\\u200f\\u061c\\ufeff\\udb40\\udc41"
            )
        );
        assert!(text.contains("\u{1f642}é"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }

    #[test]
    fn only_our_own_closed_pipe_is_quiet() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(closed_pipe(&stdout_fault(pipe())));
        assert!(!closed_pipe(&stdout_fault(io::ErrorKind::StorageFull.into())));
        assert!(!closed_pipe(&Fault::io("write to", Path::new("/x"), pipe()).into()));
    }
}
