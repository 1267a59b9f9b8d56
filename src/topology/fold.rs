//! How the text of a record becomes one summary line: JavaScript's `\s` folded, 200 UTF-16 units at most.

/// Most UTF-16 units of a summary, the `...` of a cut one not counted.
const UNITS: usize = 200;

/// Builds a summary from pieces of text, and knows when more text cannot change it.
#[derive(Clone, Default)]
pub(super) struct Fold {
    out: String,
    units: usize,
    blank: bool,
    cut: bool,
}

impl Fold {
    /// Adds a piece; pieces are joined by a space.
    pub fn push(&mut self, text: &str) {
        self.blank = true;
        let mut rest = text;
        while !self.cut && !rest.is_empty() {
            // Words are nearly all of it.
            let word = rest.bytes().take_while(u8::is_ascii_graphic).count();
            if word > 0 {
                self.end_blank();
                self.put_ascii(&rest[..word]);
                rest = &rest[word..];
                continue;
            }
            let mut chars = rest.chars();
            let Some(c) = chars.next() else { return };
            rest = chars.as_str();
            if is_js_space(c) {
                self.blank = true;
            } else {
                self.end_blank();
                self.put(c);
            }
        }
    }

    fn end_blank(&mut self) {
        if std::mem::take(&mut self.blank) && self.units > 0 {
            self.put(' ');
        }
    }

    /// [`Fold::put`] for each character of a text of ASCII.
    fn put_ascii(&mut self, word: &str) {
        let room = if self.cut { 0 } else { UNITS - self.units };
        self.cut |= word.len() > room;
        let fits = &word[..word.len().min(room)];
        self.units += fits.len();
        self.out.push_str(fits);
    }

    fn put(&mut self, c: char) {
        if self.units + c.len_utf16() > UNITS {
            // A pair that would be cut in two is left out.
            self.cut = true;
        }
        if !self.cut {
            self.units += c.len_utf16();
            self.out.push(c);
        }
    }

    /// Whether the summary is full.
    pub fn full(&self) -> bool {
        self.cut
    }

    /// The summary; none if there was nothing but blanks.
    pub fn finish(mut self) -> Option<String> {
        if self.cut {
            self.out.push_str("...");
        }
        (!self.out.is_empty()).then_some(self.out)
    }
}

/// JavaScript's `\s`, which has U+FEFF and lacks U+0085, unlike `char::is_whitespace`.
fn is_js_space(c: char) -> bool {
    match c {
        '\u{feff}' => true,
        '\u{85}' => false,
        c => c.is_whitespace(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(pieces: &[&str]) -> Option<String> {
        let mut f = Fold::default();
        pieces.iter().for_each(|p| f.push(p));
        f.finish()
    }

    #[test]
    fn white_space_is_javascripts() {
        let spaces = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\
                      \u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert_eq!(fold(&[&format!("{spaces}a{spaces}b{spaces}")]).unwrap(), "a b");
        for no_space in ["\u{85}", "\u{200b}", "\u{180e}", "\u{1c}"] {
            assert_eq!(fold(&[no_space]).unwrap(), no_space, "{no_space:?}");
        }
        assert_eq!(fold(&[spaces, "", " "]), None);
        assert_eq!(fold(&["", "a", "", "b"]).unwrap(), "a b");
    }

    #[test]
    fn two_hundred_units_then_dots() {
        let x = |n: usize| "x".repeat(n);
        assert_eq!(fold(&[&x(200), " \n"]).unwrap(), x(200));
        assert_eq!(fold(&[&x(201)]).unwrap(), x(200) + "...");
        assert_eq!(fold(&[&x(199), "yz"]).unwrap(), x(199) + " ...");
        assert_eq!(fold(&[&x(200), "y"]).unwrap(), x(200) + "...");
        assert_eq!(fold(&[&(x(198) + "\u{1f642}")]).unwrap(), x(198) + "\u{1f642}");
        assert_eq!(fold(&[&(x(199) + "\u{1f642}")]).unwrap(), x(199) + "...");
        assert_eq!(fold(&[&(x(199) + "\u{1f642}y")]).unwrap(), x(199) + "...");
    }

    /// As it is said: character by character.
    fn by_characters(pieces: &[&str]) -> Option<String> {
        let (mut out, mut units, mut cut) = (String::new(), 0, false);
        for piece in pieces {
            let mut blank = true;
            for c in piece.chars() {
                if is_js_space(c) {
                    blank = true;
                    continue;
                }
                let space = (std::mem::take(&mut blank) && units > 0).then_some(' ');
                for c in space.into_iter().chain([c]) {
                    cut |= units + c.len_utf16() > UNITS;
                    if !cut {
                        units += c.len_utf16();
                        out.push(c);
                    }
                }
            }
        }
        (!out.is_empty()).then(|| out + if cut { "..." } else { "" })
    }

    proptest::proptest! {
        #[test]
        fn words_at_once_are_their_characters(
            pieces in proptest::collection::vec("([a-z.]{1,40}|[ \\n\u{a0}]{1,3}|[é字\u{1f642}]|\u{85}|\u{feff}){0,40}", 0..4),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            proptest::prop_assert_eq!(fold(&pieces), by_characters(&pieces));
        }
    }
}
