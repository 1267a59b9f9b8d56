//! The bytes of a block as bits, the lowest for the first: what is asked of them is asked of all at once.

use wide::u8x16;

pub(super) const BLOCK: usize = 64;

/// What the bytes of a block mean to a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub quote: u64,
    pub backslash: u64,
    pub control: u64,
    /// The letters of nearly all escapes that are no quote and no backslash.
    pub letter: u64,
}

impl Block {
    /// On any machine.
    #[inline(always)]
    pub fn of(block: &[u8; BLOCK]) -> Block {
        Block {
            quote: bits(block, |b| is(b, b'"')),
            backslash: bits(block, |b| is(b, b'\\')),
            control: bits(block, is_control),
            letter: bits(block, |b| is(b, b'n') | is(b, b't')),
        }
    }

    /// On one that compares 32 bytes at once.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn of_avx2(block: &[u8; BLOCK]) -> Block {
        use std::arch::x86_64::{
            __m256i, _mm256_cmpeq_epi8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256,
            _mm256_set1_epi8, _mm256_setr_epi64x,
        };
        let (words, _) = block.as_chunks();
        let word = |i: usize| i64::from_le_bytes(words[i]);
        let half = |i: usize| _mm256_setr_epi64x(word(i), word(i + 1), word(i + 2), word(i + 3));
        let (low, high) = (half(0), half(4));
        let all = |byte: u8| _mm256_set1_epi8(byte as i8);
        let (quote, backslash, control, n, t) =
            (all(b'"'), all(b'\\'), all(LAST_CONTROL), all(b'n'), all(b't'));
        let bits = |half: __m256i| u64::from(_mm256_movemask_epi8(half) as u32);
        let both = |low: __m256i, high: __m256i| bits(low) | bits(high) << 32;
        let equal = |a: __m256i, b: __m256i| _mm256_cmpeq_epi8(a, b);
        let letter = |half: __m256i| _mm256_or_si256(equal(half, n), equal(half, t));
        let is_control = |half: __m256i| equal(half, _mm256_min_epu8(half, control));
        Block {
            quote: both(equal(low, quote), equal(high, quote)),
            backslash: both(equal(low, backslash), equal(high, backslash)),
            control: both(is_control(low), is_control(high)),
            letter: both(letter(low), letter(high)),
        }
    }
}

/// The line feeds of a block.
pub(super) fn line_feeds(block: &[u8; BLOCK]) -> u64 {
    bits(block, |b| is(b, b'\n'))
}

const LAST_CONTROL: u8 = 0x1f;

#[inline(always)]
fn bits(block: &[u8; BLOCK], of: impl Fn(u8x16) -> u32) -> u64 {
    let (quarters, _) = block.as_chunks();
    quarters.iter().rev().fold(0, |bits, quarter| bits << 16 | u64::from(of(u8x16::new(*quarter))))
}

#[inline(always)]
pub(super) fn is(block: u8x16, byte: u8) -> u32 {
    block.simd_eq(u8x16::splat(byte)).to_bitmask()
}

#[inline(always)]
pub(super) fn is_control(block: u8x16) -> u32 {
    block.simd_eq(block.min(u8x16::splat(LAST_CONTROL))).to_bitmask()
}

#[cfg(test)]
mod tests {
    use multiversion::{multiversion, target::match_target};

    use super::*;

    /// With the vectors that this machine has.
    #[multiversion(targets("x86_64+avx2"))]
    fn here(block: &[u8; BLOCK]) -> Block {
        match_target! {
            "x86_64+avx2" => Block::of_avx2(block),
            _ => Block::of(block),
        }
    }

    #[test]
    fn every_byte_at_every_place_means_one_thing() {
        for byte in 0..=u8::MAX {
            for at in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[at] = byte;
                let bit = |is: bool| u64::from(is) << at;
                let meaning = Block {
                    quote: bit(byte == b'"'),
                    backslash: bit(byte == b'\\'),
                    control: bit(byte < 0x20),
                    letter: bit(matches!(byte, b'n' | b't')),
                };
                assert_eq!((Block::of(&block), here(&block)), (meaning, meaning), "{byte} at {at}");
                assert_eq!(line_feeds(&block), bit(byte == b'\n'));
            }
        }
    }
}
