//! Text that came from a transcript, made safe and cut to columns.

use unicode_width::UnicodeWidthChar;

/// Replaces what must not reach a terminal: control characters, C1 and bidirectional controls become U+FFFD,
/// tabs and line ends a space.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => '\u{fffd}',
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                '\u{fffd}'
            }
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

/// The cleaned text in at most `columns` columns; what was cut is shown as `..`.
pub fn fit(text: &str, columns: usize) -> String {
    let text = clean(text);
    if width(&text) <= columns {
        return text;
    }
    let mark = &".."[..columns.min(2)];
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
    fn cuts_by_columns_not_by_characters() {
        assert_eq!(fit("東京都の天気", 12), "東京都の天気");
        assert_eq!(fit("東京都の天気", 11), "東京都の..");
        assert_eq!(fit("e\u{301}e\u{301}e\u{301}", 3), "e\u{301}e\u{301}e\u{301}");
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
