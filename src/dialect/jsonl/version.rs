//! Client versions, ordered by number.

use std::cmp::Ordering;

/// A version such as `0.24.4` or `0.25.0-preview.1`. Anything else in a record's `version` says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::dialect) struct Version {
    numbers: Vec<u64>,
    /// What follows a hyphen; a version with it comes before the same one without.
    pre: Option<String>,
    text: String,
}

impl Version {
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b".-+".contains(&b);
        if text.len() > 64 || !text.bytes().all(plain) {
            return None;
        }
        let core = text.split('+').next()?;
        let (numbers, pre) = match core.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre.to_owned())),
            None => (core, None),
        };
        let numbers = numbers.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Version { numbers, pre, text: text.to_owned() })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn key(&self) -> (&[u64], bool) {
        let zeros = self.numbers.iter().rev().take_while(|&&n| n == 0).count();
        (&self.numbers[..self.numbers.len() - zeros], self.pre.is_none())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre = |v: &Self| -> Vec<(u64, String)> {
            let parts = v.pre.iter().flat_map(|p| p.split('.'));
            parts.map(|p| (p.parse().unwrap_or(u64::MAX), p.to_owned())).collect()
        };
        self.key()
            .cmp(&other.key())
            .then_with(|| pre(self).cmp(&pre(other)))
            .then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
