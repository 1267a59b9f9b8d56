//! Records read one after the other, many with one call.

use std::io;

use super::{Source, Span};

/// How far from what was read the next record still belongs to it.
const NEAR: u64 = 8 << 10;
/// How far is read ahead at most.
const MOST_AHEAD: u64 = 256 << 10;

/// Reads single records of a source. Where they come forward, if with small steps back, what follows is read with them,
/// as much as they have come forward so far; anywhere else nothing but the record. So where records only seem to follow each
/// other, as those of short branches do, no more than a few of them are read in vain.
pub struct Window<'a> {
    source: &'a dyn Source,
    /// Where `bytes` begin.
    from: u64,
    bytes: Vec<u8>,
    /// How many of `bytes` were read; the rest is room, which is not made anew for each record.
    len: usize,
    /// Where the first of those that follow each other begins.
    run: u64,
}

impl<'a> Window<'a> {
    /// Nothing is read yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Window { source, from: 0, bytes: Vec::new(), len: 0, run: 0 }
    }

    /// The bytes of one record.
    ///
    /// # Errors
    /// As for [`Source::read_exact_at`].
    pub fn bytes(&mut self, span: Span) -> io::Result<&[u8]> {
        let (start, end) = (span.offset, span.offset + u64::from(span.len));
        let known = self.from + self.len as u64;
        if start < self.from || end > known {
            let near = start.saturating_add(NEAR) >= self.from
                && start <= known.saturating_add(NEAR.max(MOST_AHEAD.min(self.len as u64)));
            if !near || start < self.run {
                self.run = start;
            }
            let ahead = (start - self.run).min(MOST_AHEAD);
            let to = end.saturating_add(ahead).min(self.source.len()).max(end);
            let len = (to - start) as usize;
            if self.bytes.len() < len {
                self.bytes.resize(len, 0);
            }
            // Nothing counts as read if reading fails.
            (self.from, self.len) = (start, 0);
            self.source.read_exact_at(start, &mut self.bytes[..len])?;
            self.len = len;
        }
        let at = (start - self.from) as usize;
        Ok(&self.bytes[at..at + span.len as usize])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Counting {
        bytes: Vec<u8>,
        calls: AtomicU64,
        read: AtomicU64,
    }

    impl Source for Counting {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.read.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.bytes[..].read_exact_at(offset, buf)
        }
    }

    /// Calls and bytes that it takes to read records of 1,000 bytes at these places.
    fn cost(len: usize, places: impl Iterator<Item = u64>) -> (u64, u64) {
        let source = Counting { bytes: vec![0; len], ..Counting::default() };
        let mut window = Window::new(&source);
        places.for_each(|offset| assert_eq!(window.bytes(Span { offset, len: 1_000 }).unwrap().len(), 1_000));
        (source.calls.into_inner(), source.read.into_inner())
    }

    #[test]
    fn what_follows_is_read_ahead_and_what_is_far_off_is_not() {
        let (calls, read) = cost(4_000_000, (0..4_000).map(|i| i * 1_000));
        assert!(calls <= 30 && read <= 4_040_000, "{calls} calls for {read} bytes");
        assert_eq!(cost(4_000_000, (0..40).rev().map(|i| i * 100_000)), (40, 40_000));
        let (calls, read) = cost(4_000_000, (0..2_000).flat_map(|i| [i * 2_000 + 1_000, i * 2_000]));
        assert!(calls <= 60 && read <= 8_080_000, "{calls} calls for {read} bytes");
        assert_eq!(cost(4_000_000, (1..4).map(|i| i * 1_000_000)), (3, 3_000));
    }

    #[test]
    fn nothing_is_left_of_a_failed_reading() {
        let source = Counting { bytes: vec![7; 100], ..Counting::default() };
        let mut window = Window::new(&source);
        assert!(window.bytes(Span { offset: 90, len: 20 }).is_err());
        assert_eq!(window.bytes(Span { offset: 90, len: 10 }).unwrap(), [7; 10]);
    }

    proptest! {
        #[test]
        fn the_same_bytes_as_read_one_by_one(spans in prop::collection::vec((0u64..60_000, 0u32..900), 0..60)) {
            let bytes: Vec<u8> = (0..61_000u32).map(|i| (i * 7 % 251) as u8).collect();
            let source = Counting { bytes, ..Counting::default() };
            let mut window = Window::new(&source);
            for (offset, len) in spans {
                let span = Span { offset, len };
                prop_assert_eq!(window.bytes(span).unwrap(), &source.bytes(span).unwrap()[..]);
            }
        }
    }
}
