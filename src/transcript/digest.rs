//! BLAKE3 of the beginnings of a source.

use std::io;

use super::Source;

const BLOCK: usize = 256 * 1024;

/// What is hashed at once, in bytes: as many pieces of 1 KiB as the widest vectors hold. From a place that is no multiple of
/// it, the hasher takes single pieces up to the next one.
const AT_ONCE: usize = 16 * 1024;

/// The digest of a beginning, which may be carried on to a longer one.
#[derive(Clone, Default)]
pub struct PrefixDigest {
    hasher: blake3::Hasher,
    /// What comes behind the last multiple of [`AT_ONCE`].
    rest: Vec<u8>,
    end: u64,
}

impl PrefixDigest {
    /// Of the first `end` bytes.
    ///
    /// # Errors
    /// Only what `source` reports.
    pub fn of(source: &dyn Source, end: u64) -> io::Result<PrefixDigest> {
        let mut digest = PrefixDigest::default();
        digest.carry_on(source, end)?;
        Ok(digest)
    }

    /// How many bytes it is of.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Reads on, up to `end`. What fails has been read up to some place before it.
    ///
    /// # Errors
    /// Only what `source` reports.
    pub fn carry_on(&mut self, source: &dyn Source, end: u64) -> io::Result<()> {
        let mut buf = vec![0; BLOCK.min(usize::try_from(end.saturating_sub(self.end)).unwrap_or(BLOCK))];
        while self.end < end {
            let n = buf.len().min(usize::try_from(end - self.end).unwrap_or(BLOCK));
            source.read_exact_at(self.end, &mut buf[..n])?;
            self.update(&buf[..n]);
        }
        Ok(())
    }

    /// Takes in the bytes that come next.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.end += bytes.len() as u64;
        if !self.rest.is_empty() {
            let (fills, behind) = bytes.split_at(bytes.len().min(AT_ONCE - self.rest.len()));
            self.rest.extend_from_slice(fills);
            bytes = behind;
            if self.rest.len() < AT_ONCE {
                return;
            }
            self.hasher.update(&self.rest);
            self.rest.clear();
        }
        let (whole, rest) = bytes.split_at(bytes.len() / AT_ONCE * AT_ONCE);
        self.hasher.update(whole);
        self.rest.extend_from_slice(rest);
    }

    /// Its digits alone.
    pub fn hex(&self) -> String {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.rest);
        hasher.finalize().to_hex().to_string()
    }

    /// As it stands in public formats: `blake3:<hex>`.
    pub fn stated(&self) -> String {
        format!("blake3:{}", self.hex())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the steps, it is the digest of the bytes; a step back is none.
        #[test]
        fn steps_change_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..50_000),
            mut steps in proptest::collection::vec(0usize..50_000, 0..5),
        ) {
            steps.push(bytes.len());
            let mut digest = PrefixDigest::default();
            let mut far = 0;
            for step in steps {
                let step = step.min(bytes.len());
                digest.carry_on(&bytes, step as u64).unwrap();
                far = far.max(step);
                prop_assert_eq!(digest.end(), far as u64);
                prop_assert_eq!(digest.hex(), blake3::hash(&bytes[..far]).to_hex().to_string());
            }
        }
    }

    #[test]
    fn more_than_a_block_and_more_than_there_is() {
        let bytes = vec![7u8; BLOCK * 2 + 3];
        let digest = PrefixDigest::of(&bytes, bytes.len() as u64).unwrap();
        assert_eq!(digest.stated(), format!("blake3:{}", blake3::hash(&bytes).to_hex()));
        let short = PrefixDigest::of(&bytes, bytes.len() as u64 + 1);
        assert_eq!(short.err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
    }
}
