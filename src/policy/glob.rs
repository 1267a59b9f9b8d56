//! Globs of a policy: `*` and `?` stop at `/`, `**` does not; `[...]`, `{a,b}` and `\` as usual.
//!
//! One rule for folders, branches and session ids, on every system: `feature/*` is one level below
//! `feature/`, and `**` is anything.

use globset::{GlobBuilder, GlobSet};

/// The longest glob, in bytes.
const LONGEST: usize = 1_000;

/// A compiled glob and its text.
#[derive(Clone, Debug)]
pub struct Glob {
    text: String,
    set: GlobSet,
}

impl Glob {
    /// Compiles a glob.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {LONGEST} bytes"));
        }
        let glob = GlobBuilder::new(text)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|e| e.kind().to_string())?;
        // Through a set, because compiling a single matcher panics where the expression grows too large.
        let set = GlobSet::builder().add(glob).build().map_err(|_| "too complex".to_owned())?;
        Ok(Glob { text: text.to_owned(), set })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches the whole of `value`.
    pub fn matches(&self, value: &str) -> bool {
        self.set.is_match(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash() {
        for (glob, value, expected) in [
            ("main", "main", true),
            ("main", "Main", false),
            ("feature/*", "feature/a", true),
            ("feature/*", "feature/a/b", false),
            ("feature/**", "feature/a/b", true),
            ("*", "feature/a", false),
            ("**", "feature/a", true),
            ("/home/*/src", "/home/me/src", true),
            ("/home/?/src", "/home///src", false),
            ("{main,release-*}", "release-1", true),
            ("[c]urrent", "current", true),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
        ] {
            assert_eq!(Glob::new(glob).unwrap().matches(value), expected, "{glob} on {value}");
        }
    }

    #[test]
    fn a_broken_or_huge_glob_is_an_error() {
        let huge = format!("{}{}", "{a,".repeat(300), "}".repeat(90));
        for glob in ["[a", "{a", "[z-a]", r"a\", &"x".repeat(1_001), &huge] {
            assert!(Glob::new(glob).is_err(), "{glob}");
        }
        for n in [10, 100, 240] {
            let nested = format!("{}a{}", "{a,".repeat(n), "}".repeat(n));
            let _ = Glob::new(&nested);
        }
    }
}
