//! What stands for names: as long as the name, and another one for each.

use hashbrown::HashMap;

use crate::dialect::reasonix::ids::unhex;

/// The stand-ins that were given.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By name and length: a name that is spelled with escapes is longer in the file.
    given: HashMap<(usize, String), String>,
    /// How many there are of each length.
    count: HashMap<usize, usize>,
    /// What stands for digests.
    digests: HashMap<String, String>,
}

/// Whether a text is a SHA-256 as Reasonix writes it.
fn is_digest(text: &str) -> bool {
    unhex(text).is_some()
}

impl Names {
    /// Appends what stands for a digest: another one, of nothing. What is none stays none.
    pub fn digest(&mut self, text: &str, len: usize, out: &mut Vec<u8>) {
        if !is_digest(text) {
            return self.stand_in(text, len, out);
        }
        let number = self.digests.len() + 1;
        let given = self.digests.entry_ref(text).or_insert_with(|| format!("{number:064x}"));
        out.extend_from_slice(given.as_bytes());
    }

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

    #[test]
    fn a_digest_has_another_one_for_it_and_what_is_none_stays_none() {
        let mut names = Names::default();
        let mut digest = |text: &str| {
            let mut out = Vec::new();
            names.digest(text, text.len(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let (a, b) = (digest(&"a".repeat(64)), digest(&"b".repeat(64)));
        assert!(is_digest(&a) && is_digest(&b) && a != b);
        assert_eq!(digest(&"a".repeat(64)), a);
        for none in ["A".repeat(64), "a".repeat(63), "a".repeat(65)] {
            let out = digest(&none);
            assert!(!is_digest(&out) && out.len() == none.len() && out != none, "{out}");
        }
    }
}
