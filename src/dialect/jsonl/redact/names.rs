//! What stands for names: as long as the name, and another one for each.

use hashbrown::HashMap;

/// The stand-ins that were given.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By name and length: a name that is spelled with escapes is longer in the file.
    given: HashMap<(usize, String), String>,
    /// How many there are of each length.
    count: HashMap<usize, usize>,
}

impl Names {
    /// Appends what stands for `text`, which takes `len` bytes. Where the numbers of so few digits are used up, names are
    /// no longer told apart.
    pub fn stand_in(&mut self, text: &str, len: usize, out: &mut Vec<u8>) {
        let given = self.given.entry((len, text.to_owned())).or_insert_with(|| {
            let count = self.count.entry(len).or_default();
            *count += 1;
            let mut number = count.to_string();
            if number.len() > len {
                number.clear();
            }
            let root = if text.starts_with('/') && len > number.len() { "/" } else { "" };
            let fill = "x".repeat(len - root.len() - number.len());
            format!("{root}{fill}{number}")
        });
        out.extend_from_slice(given.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_is_as_long_as_the_name_however_many_there_are() {
        let mut names = Names::default();
        for len in 0..4 {
            for n in 0..1200 {
                let mut out = Vec::new();
                names.stand_in(&format!("name {n}"), len, &mut out);
                assert_eq!(out.len(), len, "of name {n}");
            }
        }
        let mut stand_in = |text: &str, len| {
            let mut out = Vec::new();
            names.stand_in(text, len, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!((stand_in("/home", 5), stand_in("main", 4)), ("/xxx1".into(), "xxx1".into()));
        assert_eq!((stand_in("/home", 5), stand_in("/hom\u{e9}", 10)), ("/xxx1".into(), "/xxxxxxxx1".into()));
    }
}
