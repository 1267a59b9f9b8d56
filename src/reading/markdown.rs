//! Turns as Markdown. Texts of a transcript keep their form, but they cannot open a heading, an element of HTML or a
//! picture from elsewhere, nor leave the fence that they stand in; characters that steer ([`is_hazard`]) are replaced.
//!
//! A model's own code fences stay fences, and are closed where a list that they may stand in would end them, and at the
//! end of the text. One behind the mark of a list or quotation becomes text, since lines before decide whether the mark
//! is one; and so does what stands where only the list around it would say whether it opens a fence or closes one.
//! Within a line, code between backticks stays as it is, as long as nothing before it in the paragraph leaves open which
//! ones belong together. A link that leads to no page or file stays text, and nothing defines one out of sight.

use std::fmt::Write as _;

use crate::{
    reading::{Item, Tool, Turn},
    record::is_hazard,
};

/// More of an argument or of a line of a result is cut.
const WIDE: usize = 160;
/// More lines of a result are counted only.
const TALL: usize = 6;

/// One turn, with a heading; `number` counts from 1.
pub fn turn(turn: &Turn, number: usize) -> String {
    let mut out = String::new();
    let time = turn.started_at.as_deref().map(|t| format!(" ({})", line(t, 40))).unwrap_or_default();
    match &turn.uuid {
        Some(_) => drop(writeln!(out, "## {number}. User{time}\n")),
        None => drop(writeln!(out, "## Before the first prompt{time}\n")),
    }
    items(&turn.prompt, &mut out);
    if turn.items.iter().any(is_shown) {
        if turn.uuid.is_some() {
            out.push_str("### Assistant\n\n");
        }
        items(&turn.items, &mut out);
    }
    out
}

/// Bookkeeping and what was added for the model alone is left to the JSON form.
fn is_shown(item: &Item) -> bool {
    match item {
        Item::Note { name } => name == "compact_boundary" || name == "chat_compression",
        Item::Context { .. } => false,
        _ => true,
    }
}

fn items(items: &[Item], out: &mut String) {
    let mut shown = items.iter().filter(|item| is_shown(item)).peekable();
    while let Some(item) = shown.next() {
        match item {
            Item::Text { text } => drop(writeln!(out, "{}\n", text_of(text))),
            Item::Thought { text } => {
                for line in text_of(text).lines() {
                    let _ = writeln!(out, "> {line}");
                }
                out.push('\n');
            }
            Item::Tool(tool) => {
                let mut run = tool_lines(tool);
                while let Some(Item::Tool(next)) = shown.next_if(|item| matches!(item, Item::Tool(_))) {
                    run.push_str(&tool_lines(next));
                }
                fenced(&run, out);
            }
            Item::Note { .. } => out.push_str("*The conversation was compacted here.*\n\n"),
            Item::Image => out.push_str("[image]\n\n"),
            Item::Binary => out.push_str("[binary content]\n\n"),
            Item::Context { .. } => {}
        }
    }
}

/// A tool, the argument that tells most, and how its result begins.
fn tool_lines(tool: &Tool) -> String {
    let name = if tool.name.is_empty() { "a tool" } else { &tool.name };
    let told = if tool.called { line(&tool.telling(), WIDE) } else { "(the call is not here)".to_owned() };
    let mut out = format!("{} {told}", line(name, 80));
    out.truncate(out.trim_end().len());
    out.push('\n');
    let Some(result) = &tool.result else { return out + "  (no result)\n" };
    let lines: Vec<&str> = result.trim_end().lines().collect();
    for text in lines.iter().take(TALL) {
        let _ = writeln!(out, "  {}", line(text, WIDE));
    }
    if lines.len() > TALL {
        let _ = writeln!(out, "  ... {} more lines", lines.len() - TALL);
    }
    out
}

/// A block in a fence that is longer than any run of backticks in it.
fn fenced(text: &str, out: &mut String) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let _ = write!(out, "{fence}text\n{text}{fence}\n\n");
}

/// One line, cut.
fn line(text: &str, most: usize) -> String {
    let mut found: String =
        text.chars().take(most).map(|c| if c == '\t' || c == '\n' { ' ' } else { safe(c) }).collect();
    if text.chars().nth(most).is_some() {
        found.push_str("...");
    }
    found
}

/// One line of text outside of fences, with nothing that is markup: for headings and the like.
pub fn plain(text: &str, most: usize) -> String {
    let mut out = String::new();
    for c in line(text, most).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '|' | '&' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

fn safe(c: char) -> char {
    if is_hazard(c) { char::REPLACEMENT_CHARACTER } else { c }
}

/// A text that is Markdown itself, made harmless.
pub fn text_of(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}'], "\n");
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<Fence> = None;
    // A fence that was made text; what would close it would open one now.
    let mut muted: Option<Fence> = None;
    // One by the list that it may stand in, else indented text; all markup within is made harmless.
    let mut unsure: Option<Fence> = None;
    // Whether backticks of this paragraph are all paired so far.
    let mut paired = true;
    for raw in text.trim_matches('\n').lines() {
        let cleaned: String = raw.chars().map(|c| if c == '\t' { c } else { safe(c) }).collect();
        if let Some(open) = &fence {
            if open.is_left_by(&cleaned) {
                // It may stand in a list, which such a line ends, and the fence with it, or it may not.
                let _ = writeln!(out, "{}", open.end());
            } else if open.is_closed_by(&cleaned) {
                let _ = writeln!(out, "{}", open.end());
                (fence, paired) = (None, true);
                continue;
            } else {
                let _ = writeln!(out, "{cleaned}");
                continue;
            }
        }
        fence = None;
        let text = cleaned.trim_start_matches(BLANK);
        let indent = cleaned.len() - text.len();
        if !text.is_empty() && indent <= 1 && !cleaned.starts_with('\t') {
            // No list reaches here.
            unsure = None;
        }
        let marks = behind_marks(&cleaned);
        let Some(found) = Fence::at(&cleaned, marks) else {
            paired |= text.is_empty();
            paired = outside(&cleaned, paired, &mut out);
            out.push('\n');
            continue;
        };
        if muted.as_ref().is_some_and(|open| open.is_matched_by(&cleaned[marks..])) {
            muted = None;
            paired = as_text(&cleaned, marks, &mut out);
        } else if marks > indent {
            muted = Some(found);
            paired = as_text(&cleaned, marks, &mut out);
        } else if let Some(open) = &unsure {
            if open.indent == indent && open.is_matched_by(text) && !cleaned[..indent].contains('\t') {
                unsure = None;
                paired = outside(&cleaned, false, &mut out);
            } else {
                paired = as_text(&cleaned, marks, &mut out);
            }
        } else if indent <= 3 && !cleaned[..indent].contains('\t') {
            fence = Some(found);
            out.push_str(&cleaned);
        } else {
            unsure = Some(found);
            paired = outside(&cleaned, false, &mut out);
        }
        out.push('\n');
    }
    if let Some(open) = fence {
        out.push_str(&open.end());
    }
    out.truncate(out.trim_end_matches('\n').len());
    out
}

const BLANK: [char; 2] = [' ', '\t'];

/// Where a line's text begins behind its indent and what may be marks of quotations and lists.
fn behind_marks(line: &str) -> usize {
    let mut rest = line.trim_start_matches(BLANK);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mark = match rest.as_bytes().get(digits) {
            Some(b'>') if digits == 0 => 1,
            Some(b'-' | b'*' | b'+') if digits == 0 && rest[1..].starts_with(BLANK) => 1,
            Some(b'.' | b')') if (1..=9).contains(&digits) && rest[digits + 1..].starts_with(BLANK) => {
                digits + 1
            }
            _ => return line.len() - rest.len(),
        };
        rest = rest[mark..].trim_start_matches(BLANK);
    }
}

/// A line with a fence at `at`, which it is not any more. Says that not all backticks of the paragraph are paired.
fn as_text(line: &str, at: usize, out: &mut String) -> bool {
    let mark = line[at..].chars().next().unwrap_or_default();
    let run = run_of(&line[at..], mark);
    out.push_str(&line[..at]);
    (0..run).for_each(|_| out.extend(['\\', mark]));
    inline(&line[at + run..], false, out)
}

/// A code fence of a text.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl Fence {
    fn at(line: &str, at: usize) -> Option<Fence> {
        let text = &line[at..];
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let fence = Fence { mark, length: run_of(text, mark), indent: at };
        (fence.length >= 3 && !(mark == '`' && text[fence.length..].contains('`'))).then_some(fence)
    }

    /// Whether a line's text behind its indent is what closes it.
    fn is_matched_by(&self, text: &str) -> bool {
        let run = run_of(text, self.mark);
        run >= self.length && text[run..].trim_matches(BLANK).is_empty()
    }

    /// Whether a line stands further to the left.
    fn is_left_by(&self, line: &str) -> bool {
        !line.trim().is_empty() && !line.starts_with('\t') && run_of(line, ' ') < self.indent
    }

    /// Whether a line closes it, or would do so in a list.
    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim_start_matches(BLANK);
        (self.indent > 0 || line.len() - text.len() <= 3) && self.is_matched_by(text)
    }

    fn end(&self) -> String {
        " ".repeat(self.indent) + &self.mark.to_string().repeat(self.length)
    }
}

fn run_of(text: &str, c: char) -> usize {
    text.len() - text.trim_start_matches(c).len()
}

/// A line outside of fences. Says whether all backticks of the paragraph are paired behind it.
fn outside(line: &str, paired: bool, out: &mut String) -> bool {
    let marks = behind_marks(line);
    let text = &line[marks..];
    let level = run_of(text, '#');
    if (1..=6).contains(&level) && (text.len() == level || text[level..].starts_with(BLANK)) {
        out.push_str(&line[..marks]);
        out.push('\\');
        return inline(text, paired, out);
    }
    // A line of these makes a heading of the one before, which a new item of a list has not.
    let text = line.trim_start_matches([' ', '\t', '>']);
    let (before, under) = (&line[..line.len() - text.len()], text.trim_end());
    out.push_str(before);
    if !under.is_empty() && ['=', '-'].iter().any(|&c| run_of(under, c) == under.len()) {
        out.push('\\');
    }
    inline(text, paired, out)
}

/// Text within a line. Says whether all backticks of the paragraph are paired behind it.
fn inline(text: &str, paired: bool, out: &mut String) -> bool {
    let defines = text[behind_marks(text)..].starts_with('[');
    let mut rest = text;
    let mut all_paired = paired;
    while let Some(c) = rest.chars().next() {
        let mut step = c.len_utf8();
        match c {
            '\\' if rest[1..].starts_with(|c: char| c.is_ascii_punctuation() && c != '<') => {
                step = 2;
                out.push_str(&rest[..2]);
                // What is left of an escaped run pairs in a way that is not followed here.
                all_paired &= !rest[1..].starts_with("``");
            }
            '`' => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                let span = if all_paired { closed_by(&rest[run..], run) } else { None };
                // In a row of a table a bar ends the cell, and with it the code.
                // Of what looks like the definition of a link, backticks make no code.
                let span = span.filter(|end| {
                    let code = &rest[run..run + end];
                    let in_cell = code.contains('|') && code.contains('<');
                    !(in_cell || defines && code.contains("]:"))
                });
                step = run + span.unwrap_or(0);
                all_paired &= span.is_some();
                out.push_str(&rest[..step]);
            }
            '<' => out.push_str("&lt;"),
            '!' if rest[1..].starts_with('[') => out.push_str("\\!"),
            ']' if rest[1..].starts_with(':') || rest[1..].starts_with('(') && !leads_on(&rest[2..]) => {
                out.push_str("]\\");
            }
            c => out.push(c),
        }
        rest = &rest[step..];
    }
    all_paired
}

/// Whether what a link names, given what follows its bracket, is a page, an address, a file or a part of the text.
fn leads_on(text: &str) -> bool {
    let place = text.split([' ', '\t', ')']).next().unwrap_or_default();
    let head = place.split(['/', '?', '#']).next().unwrap_or_default();
    match head.split_once(':') {
        Some((scheme, _)) => ["http", "https", "mailto"].iter().any(|s| scheme.eq_ignore_ascii_case(s)),
        // An entity or an escape may be the colon.
        None => !place.is_empty() && !head.contains(['&', '\\']),
    }
}

/// How far the code reaches that a run of `n` backticks opens, its closing run included, if it is closed on this line.
fn closed_by(text: &str, n: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let run = text[start..].len() - text[start..].trim_start_matches('`').len();
        if run == n {
            return Some(start + run);
        }
        at = start + run;
    }
    None
}
