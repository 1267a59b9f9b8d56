//! Ids as small numbers: 16 bytes for a UUID in its usual form, an arena for any other string.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::number::number;

number!(
    /// An id of the table, from 0 in order of first mention. Where there may be none, it takes no more room.
    IdIx,
    "ids"
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
struct Packed([u8; 16]);

const NO_RECORD: u32 = u32::MAX;

/// All ids that a transcript mentions.
#[derive(Clone, Debug, Default)]
pub struct IdTable {
    packed: Vec<Packed>,
    /// The record that defines this id, or `NO_RECORD`.
    first: Vec<u32>,
    table: HashTable<u32>,
    /// Ids that are not canonical UUIDs, one behind the other; `packed` then holds where one begins and its length.
    others: String,
    /// One bit an id: whether it is in `others`.
    is_other: Vec<u64>,
    hasher: DefaultHashBuilder,
}

impl IdTable {
    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// All ids in order of first mention.
    pub fn iter(&self) -> impl Iterator<Item = IdIx> + use<> {
        (0..self.packed.len() as u32).map(IdIx::new)
    }

    /// The number of `id`, which is given one if it is new.
    pub fn intern(&mut self, id: &str) -> IdIx {
        self.intern_uuid(id.as_bytes(), None).unwrap_or_else(|| self.intern_as(None, id))
    }

    /// The number of an id that is a UUID in its usual form; none if it is another one. It is likely to be `guess`: a
    /// parent is mostly the record before, and to compare the two takes less than a look into the table.
    pub fn intern_uuid(&mut self, id: &[u8], guess: Option<IdIx>) -> Option<IdIx> {
        let packed = pack(id)?;
        let guess = guess.filter(|&at| !self.other(at) && self.packed[at.ix()] == packed);
        Some(guess.unwrap_or_else(|| self.intern_as(Some(packed), "")))
    }

    /// Makes room for as many more ids, where there is as much.
    pub(super) fn foresee(&mut self, more: usize) {
        let _ = (self.packed.try_reserve(more), self.first.try_reserve(more));
        let (packed, others, is_other, hasher) = (&self.packed, &self.others, &self.is_other, &self.hasher);
        let _ = self.table.try_reserve(more, |&at| rehash(at, packed, others, is_other, hasher));
    }

    /// `id` counts only where nothing is packed.
    fn intern_as(&mut self, packed: Option<Packed>, id: &str) -> IdIx {
        let hash = self.hash(packed, id);
        if let Some(found) = self.find_hashed(hash, packed, id) {
            return found;
        }
        let number = u32::try_from(self.packed.len()).unwrap_or(u32::MAX);
        let ix = IdIx::new(number);
        let word = ix.ix() / 64;
        if self.is_other.len() <= word {
            self.is_other.push(0);
        }
        self.packed.push(packed.unwrap_or_else(|| {
            self.is_other[word] |= 1 << (number % 64);
            let slot = self.others.len() as u128 | (id.len() as u128) << 64;
            self.others.push_str(id);
            Packed(slot.to_le_bytes())
        }));
        self.first.push(NO_RECORD);
        let (packed_ids, others, is_other, hasher) =
            (&self.packed, &self.others, &self.is_other, &self.hasher);
        self.table.insert_unique(hash, number, |&at| rehash(at, packed_ids, others, is_other, hasher));
        ix
    }

    /// The number of `id`, if it is mentioned.
    pub fn find(&self, id: &str) -> Option<IdIx> {
        let packed = pack(id.as_bytes());
        self.find_hashed(self.hash(packed, id), packed, id)
    }

    /// The id's text.
    pub fn text(&self, ix: IdIx) -> String {
        if self.other(ix) {
            other_text(self.packed[ix.ix()], &self.others).to_owned()
        } else {
            uuid::Uuid::from_bytes(self.packed[ix.ix()].0).to_string()
        }
    }

    /// Adds the id's text as JSON.
    pub fn quote(&self, ix: IdIx, out: &mut Vec<u8>) {
        let packed = self.packed[ix.ix()];
        if self.other(ix) {
            serde_json::to_writer(out, other_text(packed, &self.others)).expect("BUG: a text is always JSON");
            return;
        }
        let mut text = [b'"'; uuid::fmt::Hyphenated::LENGTH + 2];
        let end = text.len() - 1;
        uuid::Uuid::from_bytes(packed.0).hyphenated().encode_lower(&mut text[1..end]);
        out.extend_from_slice(&text);
    }

    /// The record that defines this id.
    pub fn first_record(&self, ix: IdIx) -> Option<u32> {
        Some(self.first[ix.ix()]).filter(|&r| r != NO_RECORD)
    }

    pub(super) fn note_record(&mut self, ix: IdIx, record: u32, last_wins: bool) {
        let slot = &mut self.first[ix.ix()];
        if last_wins || *slot == NO_RECORD {
            *slot = record;
        }
    }

    fn other(&self, ix: IdIx) -> bool {
        self.is_other[ix.ix() / 64] >> (ix.ix() % 64) & 1 == 1
    }

    fn hash(&self, packed: Option<Packed>, id: &str) -> u64 {
        match packed {
            Some(packed) => self.hasher.hash_one(packed),
            None => self.hasher.hash_one(id),
        }
    }

    fn find_hashed(&self, hash: u64, packed: Option<Packed>, id: &str) -> Option<IdIx> {
        self.table
            .find(hash, |&at| {
                let at = IdIx::new(at);
                match packed {
                    Some(packed) => !self.other(at) && self.packed[at.ix()] == packed,
                    None => self.other(at) && other_text(self.packed[at.ix()], &self.others) == id,
                }
            })
            .map(|&at| IdIx::new(at))
    }
}

fn rehash(at: u32, packed: &[Packed], others: &str, is_other: &[u64], hasher: &DefaultHashBuilder) -> u64 {
    let id = packed[at as usize];
    match is_other[at as usize / 64] >> (at % 64) & 1 {
        1 => hasher.hash_one(other_text(id, others)),
        _ => hasher.hash_one(id),
    }
}

fn other_text(packed: Packed, others: &str) -> &str {
    let slot = u128::from_le_bytes(packed.0);
    let (from, len) = (slot as u64 as usize, (slot >> 64) as usize);
    &others[from..from + len]
}

/// The 16 bytes of a hyphenated lower-case UUID; any other spelling is another id.
fn pack(id: &[u8]) -> Option<Packed> {
    if id.len() != 36 || id.iter().fold(false, |upper, b| upper | b.is_ascii_uppercase()) {
        return None;
    }
    uuid::Uuid::try_parse_ascii(id).ok().map(|u| Packed(u.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_uuid_are_different_ids() {
        let mut t = IdTable::default();
        let spellings = [
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
            "6ba7b8109dad11d180b400c04fd430c8",
            "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}",
            "a",
            "",
            "\u{feff}\"",
        ];
        let ids: Vec<_> = spellings.iter().map(|s| t.intern(s)).collect();
        assert_eq!(ids, (0..7).map(IdIx::new).collect::<Vec<_>>());
        for (ix, s) in ids.iter().zip(spellings) {
            assert_eq!((t.text(*ix).as_str(), t.find(s), t.intern(s)), (s, Some(*ix), *ix));
            let mut quoted = Vec::new();
            t.quote(*ix, &mut quoted);
            assert_eq!(quoted, serde_json::to_vec(s).unwrap());
        }
    }

    #[test]
    fn a_wrong_guess_changes_nothing() {
        let mut t = IdTable::default();
        let uuid = |i: u128| uuid::Uuid::from_u128(i).to_string();
        let (a, b, other) = (t.intern(&uuid(1)), t.intern(&uuid(2)), t.intern("a"));
        for guess in [None, Some(a), Some(b), Some(other)] {
            assert_eq!(t.intern_uuid(uuid(1).as_bytes(), guess), Some(a));
            assert_eq!(t.intern_uuid(b"a", guess), None);
        }
        assert_eq!(t.intern_uuid(uuid(3).as_bytes(), Some(a)), Some(IdIx::new(3)));
    }

    #[test]
    fn survives_growth() {
        let mut t = IdTable::default();
        let text = |i: u128| {
            if i.is_multiple_of(3) { format!("n{i}") } else { uuid::Uuid::from_u128(i).to_string() }
        };
        for i in 0..5_000 {
            assert_eq!(t.intern(&text(i)).number(), i as u32);
        }
        for i in 0..5_000 {
            assert_eq!(t.find(&text(i)), Some(IdIx::new(i as u32)));
        }
    }
}
