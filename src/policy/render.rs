//! Mistakes in a policy, each shown as `path:line:col`, the line, a caret, and the names allowed there.

use std::{fmt, ops::Range};

use serde_json::{Value, json};
use unicode_width::UnicodeWidthChar;

use crate::{
    record::boundary,
    refusal::{Code, Refusal},
};

/// How many problems are shown in full.
const SHOWN: usize = 20;
/// How wide a line is shown, in columns.
const WIDTH: usize = 100;
/// How many characters are looked at on either side of a mistake: more than a line has columns, since some have no width.
const SEEN: usize = 1000;
/// How many columns stand before the caret where a wide line is cut.
const BEFORE: usize = 30;
/// How a tab is shown.
const TAB: &str = "    ";

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In words, without control characters.
    pub message: String,
    /// The names that could stand there; empty where anything else is wrong.
    pub allowed: Vec<String>,
    /// The line as it is shown, and the carets below it.
    shown: (String, String),
}

impl Problem {
    /// A mistake at a byte range of `text`, which may lie beyond its end or inside a character.
    pub(super) fn new(text: &str, span: Range<usize>, message: &str, allowed: Vec<String>) -> Self {
        let start = boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[line_start..line_end].trim_end_matches('\r');
        // A carriage return before the line end is not shown, and nothing points at it.
        let in_line = (start - line_start).min(line.len());
        let end = boundary(text, span.end.max(start)).clamp(line_start + in_line, line_start + line.len());
        let in_line_end = end - line_start;
        Problem {
            line: text[..line_start].matches('\n').count() + 1,
            column: line[..in_line].chars().count() + 1,
            message: clean(message),
            allowed,
            shown: shown(line, in_line..in_line_end),
        }
    }
}

/// The mistakes of a policy file, in the order of the text: all of them, or of very many the first that were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors {
    path: String,
    problems: Vec<Problem>,
    more: usize,
}

impl PolicyErrors {
    /// `more` were found beside `problems`.
    pub(super) fn new(path: &str, mut problems: Vec<Problem>, more: usize) -> Self {
        problems.sort_by_key(|p| (p.line, p.column));
        problems.dedup();
        PolicyErrors { path: clean(path), problems, more }
    }

    /// The mistakes.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().take(SHOWN).enumerate() {
            let Problem { line, column, message, allowed, shown: (text, carets) } = problem;
            if i > 0 {
                f.write_str("\n\n")?;
            }
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            write!(f, "{}:{line}:{column}: {message}", self.path)?;
            let space = if text.is_empty() { "" } else { " " };
            write!(f, "\n{number} |{space}{text}\n{gutter} | {carets}")?;
            if !allowed.is_empty() {
                write!(f, "\n{gutter} = allowed: `{}`", allowed.join("`, `"))?;
            }
        }
        match self.problems.len().saturating_sub(SHOWN) + self.more {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl std::error::Error for PolicyErrors {}

impl From<PolicyErrors> for Refusal {
    fn from(errors: PolicyErrors) -> Self {
        let problems: Vec<Value> = errors
            .problems
            .iter()
            .map(|p| json!({"line": p.line, "column": p.column, "message": p.message, "allowed": p.allowed}))
            .collect();
        Refusal::new(Code::PolicyInvalid, errors.to_string())
            .detail(json!({"path": errors.path, "problems": problems, "more": errors.more}))
    }
}

impl From<PolicyErrors> for crate::refusal::Error {
    fn from(errors: PolicyErrors) -> Self {
        Refusal::from(errors).into()
    }
}

/// A character that must not reach a terminal: controls, C1, what reorders or breaks lines, and what has no
/// glyph. (The command line replaces the same ones in everything that it prints; replacing them here keeps the
/// carets in place.)
fn hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text without hostile characters.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if hostile(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A value of the file as a message quotes it: cleaned and cut.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = clean(text).chars().take(60).collect();
    if text.chars().nth(60).is_some() {
        shown.push_str("...");
    }
    format!("`{shown}`")
}

/// A line as it is shown, and carets under a byte range of it (at least one). Both are cut around the
/// range where the line is wide; columns are those of a terminal.
fn shown(line: &str, range: Range<usize>) -> (String, String) {
    // A line may be as long as the file, and is looked at once for each mistake in it.
    let (left, right) = line.split_at(range.start);
    let from = left.char_indices().rev().nth(SEEN).map_or(0, |(at, _)| at);
    let to = right.char_indices().nth(SEEN).map_or(line.len(), |(at, _)| range.start + at);
    let cut = (from > 0, to < line.len());
    let (line, range) = (&line[from..to], range.start - from..range.end.min(to) - from);
    let cells: Vec<(usize, String)> = line
        .char_indices()
        .map(|(at, c)| match c {
            '\t' => (at, TAB.to_owned()),
            c if hostile(c) => (at, char::REPLACEMENT_CHARACTER.to_string()),
            c => (at, c.to_string()),
        })
        .collect();
    let width = |text: &str| text.chars().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let before: usize = cells.iter().filter(|(at, _)| *at < range.start).map(|(_, t)| width(t)).sum();
    let whole: usize = cells.iter().map(|(_, t)| width(t)).sum();
    let skip = if whole > WIDTH { before.saturating_sub(BEFORE) } else { 0 };
    let (mut text, mut pad, mut marked) = (String::new(), 0, 0);
    let mut column = 0;
    if skip > 0 || cut.0 {
        text.push_str("...");
        pad = 3;
    }
    let mut rest = cut.1;
    for (at, cell) in &cells {
        let wide = width(cell);
        let from = column;
        column += wide;
        if from < skip {
            continue;
        }
        if column > skip + WIDTH {
            rest = true;
            break;
        }
        text.push_str(cell);
        if *at < range.start {
            pad += wide;
        } else if *at < range.end {
            marked += wide;
        }
    }
    if rest {
        text.push_str("...");
    }
    (text.trim_end().to_owned(), format!("{}{}", " ".repeat(pad), "^".repeat(marked.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carets(line: &str, what: &str) -> (String, String) {
        let at = line.find(what).unwrap();
        shown(line, at..at + what.len())
    }

    #[test]
    fn carets_stand_below_wide_characters_and_tabs() {
        assert_eq!(carets("\tx = 1", "x"), ("    x = 1".into(), "    ^".into()));
        assert_eq!(carets("a = \"漢字\" b", "b"), ("a = \"漢字\" b".into(), "           ^".into()));
        assert_eq!(carets("a = \"漢字\"", "漢字"), ("a = \"漢字\"".into(), "     ^^^^".into()));
        // A combining mark takes no column.
        assert_eq!(carets("e\u{301} b", "b"), ("e\u{301} b".into(), "  ^".into()));
    }

    #[test]
    fn of_a_line_without_end_the_surroundings_are_looked_at() {
        let line = format!("{}x{}", "[".repeat(1 << 20), "{".repeat(1 << 20));
        let (text, marks) = carets(&line, "x");
        assert!(text.starts_with("...[[") && text.ends_with("{{..."), "{text}");
        assert_eq!(text.find('x'), marks.find('^'));
        // Characters without width fill no line, however many they are.
        let line = format!("{}x{}", "\u{301}".repeat(1 << 20), "\u{301}".repeat(1 << 20));
        let (text, marks) = carets(&line, "x");
        assert!(text.len() < 3 * SEEN * 2 && text.starts_with("...\u{301}") && text.ends_with("\u{301}..."));
        assert_eq!(marks, "   ^");
    }

    #[test]
    fn control_characters_are_replaced_one_for_one() {
        let (text, marks) = carets("\u{1b}[31m\u{202e}x", "x");
        assert_eq!((text.as_str(), marks.as_str()), ("\u{fffd}[31m\u{fffd}x", "      ^"));
        assert_eq!(quote("a\u{9b}b\n"), "`a\u{fffd}b\u{fffd}`");
        assert_eq!(quote(&"x".repeat(61)), format!("`{}...`", "x".repeat(60)));
    }

    #[test]
    fn a_wide_line_is_cut_around_the_mark() {
        let line = format!("{}BAD{}", "a".repeat(500), "b".repeat(500));
        let (text, marks) = carets(&line, "BAD");
        assert!(text.len() <= WIDTH + 6, "{text}");
        assert_eq!(text.find("BAD"), marks.find("^^^"), "{text}\n{marks}");
        assert!(text.starts_with("...") && text.ends_with("..."));
    }

    #[test]
    fn positions_are_in_lines_and_characters() {
        let text = "a\r\nüb = 1\r\n";
        let at = text.find('b').unwrap();
        let p = Problem::new(text, at..at + 1, "m", Vec::new());
        assert_eq!((p.line, p.column, p.shown), (2, 2, ("üb = 1".into(), " ^".into())));
        let end = Problem::new(text, text.len()..text.len() + 9, "m", Vec::new());
        assert_eq!((end.line, end.column, end.shown.1.as_str()), (3, 1, "^"));
        // Inside a character, and on the line end itself.
        assert_eq!(Problem::new(text, 4..5, "m", Vec::new()).column, 1);
        assert_eq!(Problem::new(text, 1..2, "m", Vec::new()).shown, ("a".into(), " ^".into()));
    }
}
