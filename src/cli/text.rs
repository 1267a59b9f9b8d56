//! Text that came from a transcript, made safe and cut to columns.

use unicode_width::UnicodeWidthChar;

use crate::record::boundary;
pub use crate::record::is_hazard;

/// Replaces what must not reach a terminal ([`is_hazard`]) by U+FFFD; tabs and line ends become a space.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
            c if is_hazard(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Columns that `text` fills at most. Terminals disagree about joined emoji: here each part counts, flags count
/// by the letter, and a variation selector that asks for an emoji counts one, so none of them makes a line wrap.
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(c: char) -> usize {
    match c {
        '\u{fe0f}' => 1,
        '\u{1f1e6}'..='\u{1f1ff}' => 2,
        c => c.width().unwrap_or(0),
    }
}

/// The cleaned text in at most `columns` columns; what was cut is shown as `...`.
pub fn fit(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text;
    }
    let mark = &"..."[..columns.min(3)];
    let room = columns - mark.len();
    let mut used = 0;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += char_width(*c);
            used <= room
        })
        .collect();
    kept.truncate(kept.trim_end().len());
    kept + mark
}

/// As [`fit`], but what a fork's title ends with stays: ` (branch 385e46a0)` tells the twin from its parent.
pub fn fit_title(title: &str, columns: usize) -> String {
    let title = clean(title);
    let Some(at) = title.rfind(" (branch ").filter(|_| title.ends_with(')')) else {
        return fit(&title, columns);
    };
    let (base, mark) = title.split_at(at);
    match columns.checked_sub(width(mark)) {
        Some(room) if room >= 8 => fit(base, room) + mark,
        _ => fit(&title, columns),
    }
}

/// As one argument of a shell.
pub fn argument(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%".contains(c);
    match text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The unit in which so many bytes are told, and its name.
pub fn unit(bytes: u64) -> (u64, &'static str) {
    match bytes {
        1 => (1, "byte"),
        0..1_000 => (1, "bytes"),
        1_000..1_000_000 => (1_000, "kB"),
        _ => (1_000_000, "MB"),
    }
}

/// A number and its noun: `1 branch`, `2 branches`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A session as it is called where it has no id.
pub fn session_name(id: &str) -> &str {
    if id.is_empty() { "session without an id" } else { id }
}

/// As much of a text as fits in `most` bytes.
pub fn beginning(text: &str, most: usize) -> &str {
    &text[..boundary(text, most)]
}

/// Breaks cleaned text at spaces so that no line is wider than `columns`; words that are wider are cut. Lines after
/// the first begin with `indent`.
pub fn wrap(text: &str, columns: usize, indent: &str) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    let mut begin = "";
    for word in clean(text).split_whitespace() {
        let word = fit(word, columns.saturating_sub(width(indent)));
        if !line.is_empty() && width(begin) + width(&line) + 1 + width(&word) > columns {
            out += &format!("{begin}{line}\n");
            begin = indent;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += &word;
    }
    out + begin + &line
}

/// `text` cut to `columns` and filled up to them with spaces.
pub fn pad(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    let fill = columns - width(&text).min(columns);
    text + &" ".repeat(fill)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_that_moves_the_cursor_is_left() {
        assert_eq!(clean("a\u{1b}[31mb\u{9b}c\u{202e}d\te\r\nf\u{7f}"), "a�[31mb�c�d e  f�");
    }

    #[test]
    fn the_end_of_a_twins_title_stays() {
        let title = "Add retries with exponential backoff (branch 385e46a0)";
        assert_eq!(fit_title(title, 42), "Add retries with expo... (branch 385e46a0)");
        assert_eq!(fit_title(title, 80), title);
        assert_eq!(fit_title(title, 25), fit(title, 25));
        assert_eq!(fit_title("Add retries (branch", 12), "Add retri...");
    }

    #[test]
    fn cuts_by_columns_not_by_characters() {
        assert_eq!(fit("東京都の天気", 12), "東京都の天気");
        assert_eq!(fit("東京都の天気", 11), "東京都の...");
        assert_eq!(fit("東京都の天気", 10), "東京都...");
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 3), "e\u{301}e\u{301}e\u{301}");
        assert_eq!(fit("abcd", 3), "...");
        assert_eq!(fit("abc", 2), "..");
        assert_eq!(fit("abc", 1), ".");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(pad("ab", 4), "ab  ");
    }

    proptest! {
        #[test]
        fn never_wider_than_asked(text in any::<String>(), columns in 0usize..60) {
            let cut = fit(&text, columns);
            prop_assert!(width(&cut) <= columns, "{cut:?}");
            prop_assert!(unicode_width::UnicodeWidthStr::width(cut.as_str()) <= columns, "{cut:?}");
            prop_assert!(!cut.chars().any(char::is_control));
        }
    }
}
