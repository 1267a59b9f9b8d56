//! Names of messages and of tool calls as small numbers, while a file is read: only which of them are the same counts
//! afterwards.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{dialect::jsonl::json::RawStr, transcript::IdIx};

/// All names of a file.
#[derive(Default)]
pub(super) struct Names {
    /// The texts, one behind the other, and where each ends.
    texts: Vec<u8>,
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a name, which is given one if it is new.
    pub fn intern(&mut self, name: RawStr<'_>) -> IdIx {
        // Any other spelling may be that of the same text.
        if name.is_plain() && name.raw().is_ascii() {
            self.number(name.raw())
        } else {
            self.number(name.text().as_bytes())
        }
    }

    fn number(&mut self, name: &[u8]) -> IdIx {
        // What answers a call comes next to it.
        if let Some(last) = self.ends.len().checked_sub(1)
            && text(&self.texts, &self.ends, last as u32) == name
        {
            return IdIx::new(last as u32);
        }
        let (texts, ends, hasher) = (&self.texts, &self.ends, &self.hasher);
        let hash = hasher.hash_one(name);
        if let Some(&found) = self.table.find(hash, |&at| text(texts, ends, at) == name) {
            return IdIx::new(found);
        }
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        self.table.insert_unique(hash, number, |&at| hasher.hash_one(text(texts, ends, at)));
        self.texts.extend_from_slice(name);
        self.ends.push(self.texts.len());
        IdIx::new(number)
    }
}

fn text<'a>(texts: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let at = number as usize;
    let from = if at == 0 { 0 } else { ends[at - 1] };
    &texts[from..ends[at]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::jsonl::json::Cursor;

    #[test]
    fn one_text_is_one_name_whatever_its_spelling() {
        let mut names = Names::default();
        let mut number = |quoted: &[u8]| {
            let name = Cursor::new(quoted).field().unwrap().string().unwrap();
            names.intern(name).number()
        };
        let spellings: [&[u8]; 9] = [
            b"\"toolu_1\"",
            b"\"toolu_2\"",
            b"\"tool\\u0075_1\"",
            b"\"\"",
            "\"\u{fffd}\"".as_bytes(),
            b"\"\xff\"",
            b"\"\\ud800\"",
            b"\"toolu_1\"",
            b"\"\"",
        ];
        assert_eq!(spellings.map(&mut number), [0, 1, 0, 2, 3, 3, 3, 0, 2]);
        let many: Vec<u32> = (0..5_000).map(|n| number(format!("\"n{n}\"").as_bytes())).collect();
        assert_eq!(many, (4..5_004).collect::<Vec<_>>());
        assert_eq!((number(b"\"n17\""), names.len()), (21, 5_004));
    }
}
