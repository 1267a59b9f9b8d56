//! The prompt: one `dialoguer` list on stderr, or a question that is answered by a key. The only module that names
//! `dialoguer`.
//!
//! - Nothing is chosen by default: the list starts without a marker, and Enter (or Space) does nothing until a
//!   key has moved to a line. So a stray Enter, or one typed ahead, never takes a branch.
//! - Below the list stands what the marked line has no room for, where the terminal has at least 12 rows.
//! - Arrows, `j`/`k`, Tab move; left and right (`h`/`l`) turn pages; Esc, `q` and Ctrl-C decline with
//!   `prompt-cancelled`, as does a terminal that goes away.
//! - Every line fits the terminal as it is when it is drawn, so a resize needs no handler of ours. `dialoguer`
//!   cannot draw on fewer than three rows (it panics); there, and below 20 columns, the list is printed with
//!   numbers and one is asked for.
//! - An arrow key is three bytes. On a line so slow that they arrive apart, `console` takes the first for Esc:
//!   the prompt is then cancelled, never answered.

use std::{
    cell::Cell,
    fmt,
    io::{self, IsTerminal},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook},
    path::Path,
};

use console::Term;
use dialoguer::{Confirm, Input, Select, theme::Theme};
use jiff::Timestamp;

use crate::{
    record::RecordId,
    refusal::{Code, Error, Fault, Refusal, Result},
    topology::{ContinuedIn, Inspection},
};

mod choice;
mod session;
mod terminal;

pub use choice::{Choice, choices};
pub(super) use choice::{age, fit_id, short_ids};
pub use session::SessionChoice;
pub use terminal::restore as restore_terminal;

use super::{
    args::Global,
    output::Paint,
    text::{clean, fit, width},
};
use terminal::Held;

/// What the prompt says above the list.
#[derive(Clone, Debug)]
pub struct PromptOptions {
    /// The question; cut to the terminal's width.
    pub question: String,
    /// Whether texts of the conversation are left out.
    pub redact: bool,
    /// How the marked line stands out.
    pub paint: Paint,
}

impl PromptOptions {
    /// As the person's own options say.
    pub fn new(global: &Global) -> Self {
        PromptOptions { redact: global.redact, paint: Paint::stderr(global), ..PromptOptions::default() }
    }
}

impl Default for PromptOptions {
    fn default() -> Self {
        PromptOptions { question: format!("Which branch? {KEYS}"), redact: false, paint: Paint::plain() }
    }
}

/// What to do with a leaf that already went on in a child session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Resume the child.
    FollowChild,
    /// Make another child, without what the first has gained.
    ForkAgain,
}

/// Refuses unless stdin and stderr both are a terminal. To be asked before a lease is taken.
///
/// # Errors
/// `not-a-terminal`.
pub fn require_terminal() -> Result<()> {
    let missing = match (io::stdin().is_terminal(), io::stderr().is_terminal()) {
        (true, true) => return Ok(()),
        (false, true) => "stdin is",
        (true, false) => "stderr is",
        (false, false) => "stdin and stderr are",
    };
    Err(Refusal::new(Code::NotATerminal, format!("a prompt needs a terminal, and {missing} none"))
        .hint(
            "choose with `offshoot resume --leaf ID` or `--policy FILE`; `offshoot inspect` lists the leaves",
        )
        .into())
}

/// What is said instead of a prompt where there is nothing to choose.
pub fn only_one(choice: &Choice) -> String {
    format!("one branch only, `{}`: nothing to choose", clean(&choice.short_id))
}

/// Asks for one of the branches and returns its place in `choices`.
///
/// # Errors
/// `not-a-terminal`, `prompt-cancelled`, or an I/O fault of the terminal.
pub fn pick(choices: &[Choice], options: &PromptOptions) -> Result<usize> {
    let columns = choice::Columns::of(choices);
    let details = |i: usize, width| choices[i].details(width);
    ask(&List {
        question: &options.question,
        items: choices.len(),
        line: &|i, width| choices[i].line(&columns, width),
        details: Some(&details),
        paint: options.paint,
    })
}

/// Asks for one of the sessions and returns its place in `sessions`.
///
/// # Errors
/// As for [`pick`].
pub fn pick_session(sessions: &[SessionChoice], options: &PromptOptions) -> Result<usize> {
    let question = &format!("Which session? {KEYS}");
    let line = |i: usize, width| sessions[i].line(width, options.redact);
    ask(&List { question, items: sessions.len(), line: &line, details: None, paint: options.paint })
}

/// Asks for one of the leaves, of those in `among` where it is given.
///
/// # Errors
/// As for [`pick`].
pub fn pick_leaf(
    inspection: &Inspection,
    among: Option<&[RecordId]>,
    now: Timestamp,
    options: &PromptOptions,
) -> Result<RecordId> {
    let mut choices = choices(inspection, now);
    if let Some(among) = among {
        let among: hashbrown::HashSet<&RecordId> = among.iter().collect();
        choices.retain(|choice| among.contains(&choice.leaf));
    }
    if options.redact {
        choices.iter_mut().for_each(Choice::redact);
    }
    let at = pick(&choices, options)?;
    Ok(choices.swap_remove(at).leaf)
}

/// Asks what to do with `leaf`, which already went on in `child`.
///
/// # Errors
/// As for [`pick`].
pub fn continued(leaf: &RecordId, child: &ContinuedIn, options: &PromptOptions) -> Result<Follow> {
    let turns = if child.turns == 1 { "turn" } else { "turns" };
    let question = format!(
        "{} went on in session {}. {KEYS}",
        choice::fit_id(leaf.as_str()),
        choice::fit_id(&child.session_id)
    );
    let lines = [
        format!("resume that session, with its {} new {turns}: {}", child.turns, child.session_id),
        format!("fork the branch again, without {}", if child.turns == 1 { "it" } else { "them" }),
    ];
    let line = |i: usize, width| fit(&lines[i], width);
    let paint = options.paint;
    let list = List { question: &question, items: lines.len(), line: &line, details: None, paint };
    let answer = ask(&list)?;
    Ok(if answer == 0 { Follow::FollowChild } else { Follow::ForkAgain })
}

/// Asks whether something is to be done; `yes` says what that means. Whatever else is answered leaves everything as it
/// is, so that a stray Enter does no harm.
///
/// # Errors
/// As for [`pick`]; `prompt-cancelled` for anything but yes.
pub fn agree(question: &str, yes: &str) -> Result<()> {
    require_terminal()?;
    let term = Term::stderr();
    let held = Held::take();
    for line in [question, &format!("y {yes}; n, Enter, Esc and q leave everything as it is")] {
        term.write_line(&clean(line)).map_err(terminal_fault)?;
    }
    let answer = Confirm::new().with_prompt("Go ahead?").default(false).interact_on_opt(&term);
    match answer_of(answer)? {
        Answer::Took(true) => return Ok(()),
        Answer::Took(false) | Answer::Declined => {}
        Answer::Interrupted => held.interrupted(),
    }
    Err(cancelled())
}

/// What is asked.
struct List<'a> {
    question: &'a str,
    items: usize,
    /// One line: its place in the list and the columns it may take.
    line: &'a dyn Fn(usize, usize) -> String,
    /// What is said below the list of the marked line, each line of it in the given columns.
    details: Option<&'a dyn Fn(usize, usize) -> [String; DETAILS]>,
    paint: Paint,
}

/// What the keys do, and the same where a line has no room for it.
const KEYS: &str = "Arrows or j/k move, Enter takes, Esc or q declines";
const KEYS_SHORT: &str = "j/k, Enter, q";

/// Lines of details; a blank one stands above them.
const DETAILS: usize = 3;

/// Fewer rows than this are left to the list alone.
const DETAILS_FROM: usize = 12;

/// Below this the list is numbered instead: `dialoguer` itself needs 3 rows, the page indicator 20 columns.
const LEAST: (u16, u16) = (4, 20);

fn ask(list: &List<'_>) -> Result<usize> {
    require_terminal()?;
    if list.items == 0 {
        return Err(Refusal::new(Code::NoLeaf, "there is nothing to choose from").into());
    }
    let term = Term::stderr();
    let held = Held::take();
    let marked = if usable(&term) { marked(&term, list) } else { None };
    let answer = match marked {
        Some(answer) => answer,
        None => numbered(&term, list),
    }?;
    match answer {
        Answer::Took(at) => return Ok(at),
        Answer::Declined => {}
        Answer::Interrupted => held.interrupted(),
    }
    Err(cancelled())
}

fn cancelled() -> Error {
    Refusal::new(Code::PromptCancelled, "cancelled at the prompt, nothing was written").into()
}

/// What a person said.
enum Answer<T> {
    Took(T),
    /// Esc, `q`, or the terminal went away.
    Declined,
    /// Ctrl-C: SIGINT is on its way too.
    Interrupted,
}

fn usable(term: &Term) -> bool {
    let (rows, columns) = term.size();
    rows >= LEAST.0 && columns >= LEAST.1
}

/// The list with a marker; `None` if the terminal became too small for it while it stood.
fn marked(term: &Term, list: &List<'_>) -> Option<Result<Answer<usize>>> {
    let theme = Lines::new(term, list);
    // `dialoguer` measures items by bytes where it clears them; an item here is only its number, which the
    // theme replaces by the line, so wide text cannot make it clear lines that are not its own.
    let select =
        Select::with_theme(&theme).with_prompt("").report(false).max_length(theme.most).items(0..list.items);
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let answered = catch_unwind(AssertUnwindSafe(|| select.interact_on_opt(term)));
    set_hook(hook);
    match answered {
        Ok(answer) => Some(answer_of(answer)),
        Err(_) if !usable(term) => None,
        Err(panic) => resume_unwind(panic),
    }
}

fn numbered(term: &Term, list: &List<'_>) -> Result<Answer<usize>> {
    let items = list.items;
    let digits = items.to_string().len();
    let write = |text: &str| term.write_line(text).map_err(terminal_fault);
    write(&clean(list.question))?;
    for i in 0..items {
        let width = usize::from(term.size().1).saturating_sub(digits + 3);
        write(&format!("{:>digits$}  {}", i + 1, (list.line)(i, width)))?;
    }
    loop {
        let input = Input::<String>::new().with_prompt("Number, or q").allow_empty(true).interact_on(term);
        let text = match answer_of(input.map(Some))? {
            Answer::Took(text) => text,
            Answer::Declined => return Ok(Answer::Declined),
            Answer::Interrupted => return Ok(Answer::Interrupted),
        };
        match text.trim() {
            "q" | "\u{1b}" => return Ok(Answer::Declined),
            text => match text.parse::<usize>() {
                Ok(n) if (1..=items).contains(&n) => return Ok(Answer::Took(n - 1)),
                _ => write(&format!("1 to {items}, or q"))?,
            },
        }
    }
}

/// Ctrl-C reaches us as an interrupted read, a terminal that went away as its end.
fn answer_of<T>(answer: Result<Option<T>, dialoguer::Error>) -> Result<Answer<T>> {
    match answer {
        Ok(Some(answer)) => Ok(Answer::Took(answer)),
        Ok(None) => Ok(Answer::Declined),
        Err(dialoguer::Error::IO(e)) => match e.kind() {
            io::ErrorKind::Interrupted => Ok(Answer::Interrupted),
            io::ErrorKind::UnexpectedEof => Ok(Answer::Declined),
            _ => Err(terminal_fault(e)),
        },
    }
}

fn terminal_fault(e: io::Error) -> Error {
    Fault::io("prompt on", Path::new("the terminal"), e).into()
}

/// Draws question, lines and details at the width that the terminal has at that moment.
struct Lines<'a> {
    term: &'a Term,
    list: &'a List<'a>,
    /// The most lines on one page.
    most: usize,
    /// The marked line of the page that is being drawn.
    active: Cell<Option<usize>>,
}

impl<'a> Lines<'a> {
    fn new(term: &'a Term, list: &'a List<'a>) -> Self {
        let rows = usize::from(term.size().0);
        let details = if list.details.is_some() && rows >= DETAILS_FROM { DETAILS + 1 } else { 0 };
        Lines { term, list, most: rows.saturating_sub(2 + details), active: Cell::new(None) }
    }

    /// Columns that a line may fill: the last one stays free, since some terminals wrap when it is written.
    fn columns(&self) -> usize {
        usize::from(self.term.size().1).saturating_sub(1)
    }

    /// The page that `dialoguer` draws now: its lines, and whether details have room below it and the prompt.
    fn page(&self) -> (usize, bool) {
        let rows = usize::from(self.term.size().0);
        let lines = self.most.min(rows.saturating_sub(2)).max(1);
        (lines, rows >= lines.min(self.list.items) + DETAILS + 3)
    }

    fn details(&self) -> [String; DETAILS] {
        let columns = self.columns().saturating_sub(2);
        match (self.active.get(), self.list.details) {
            (Some(active), Some(details)) => details(active, columns),
            _ => [
                shorter(
                    "Nothing is marked yet: Enter does nothing until a key has moved.",
                    "Nothing is marked yet: move first.",
                    columns,
                ),
                String::new(),
                String::new(),
            ],
        }
    }
}

/// The long text if it fits, else what fits of the short one.
fn shorter(long: &str, short: &str, columns: usize) -> String {
    fit(if width(&clean(long)) <= columns { long } else { short }, columns)
}

impl Theme for Lines<'_> {
    fn format_select_prompt(&self, f: &mut dyn fmt::Write, _prompt: &str) -> fmt::Result {
        // `dialoguer` adds ` [Page 1/3] ` where the list has pages.
        let page = " [Page /] ".len() + 2 * self.list.items.to_string().len();
        let short = self.list.question.replace(KEYS, KEYS_SHORT);
        write!(f, "{}", shorter(self.list.question, &short, self.columns().saturating_sub(page)))
    }

    fn format_select_prompt_item(&self, f: &mut dyn fmt::Write, text: &str, active: bool) -> fmt::Result {
        let Ok(index) = text.parse::<usize>() else { return Ok(()) };
        let (lines, room) = self.page();
        if index.is_multiple_of(lines) {
            self.active.set(None);
        }
        let line = (self.list.line)(index, self.columns().saturating_sub(2));
        if active {
            self.active.set(Some(index));
            write!(f, "{}", self.list.paint.bold(&format!("> {line}")))?;
        } else {
            write!(f, "  {line}")?;
        }
        let last = (index + 1).is_multiple_of(lines) || index + 1 == self.list.items;
        if last && room && self.list.details.is_some() {
            writeln!(f)?;
            for detail in self.details() {
                write!(f, "\n  {detail}")?;
            }
        }
        Ok(())
    }
}
