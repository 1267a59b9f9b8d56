//! Parts of a source one behind the other, and bytes of ours behind them: a file as it would be.

use std::{io, ops::Range};

use super::Source;

/// The ranges `kept` of a source, then `tail`.
#[derive(Debug)]
pub struct Pieces<S> {
    source: S,
    kept: Vec<Range<u64>>,
    /// Where each range begins in the whole.
    starts: Vec<u64>,
    tail: Vec<u8>,
    kept_len: u64,
}

impl<S: Source> Pieces<S> {
    /// Ranges in order, none of them empty, within the source.
    pub fn new(source: S, kept: Vec<Range<u64>>, tail: Vec<u8>) -> Self {
        let mut kept_len = 0;
        let starts = kept
            .iter()
            .map(|range| {
                let start = kept_len;
                kept_len += range.end - range.start;
                start
            })
            .collect();
        Pieces { source, kept, starts, tail, kept_len }
    }

    /// The source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The same parts with other bytes behind them.
    #[must_use]
    pub fn with_tail(self, tail: Vec<u8>) -> Self {
        Pieces { tail, ..self }
    }
}

impl<S: Source> Source for Pieces<S> {
    fn len(&self) -> u64 {
        self.kept_len + self.tail.len() as u64
    }

    fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        let mut at = self.starts.partition_point(|&start| start <= offset).saturating_sub(1);
        while !buf.is_empty() && offset < self.kept_len {
            let range = &self.kept[at];
            let from = range.start + (offset - self.starts[at]);
            let n = (range.end - from).min(buf.len() as u64) as usize;
            let (first, rest) = buf.split_at_mut(n);
            self.source.read_exact_at(from, first)?;
            offset += n as u64;
            buf = rest;
            at += 1;
        }
        if buf.is_empty() {
            return Ok(());
        }
        self.tail.as_slice().read_exact_at(offset - self.kept_len, buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_same_bytes_from_any_place() {
        let source = b"0123456789".to_vec();
        let pieces = Pieces::new(source, vec![1..3, 5..6, 8..10], b"xy".to_vec());
        let whole = b"12589xy";
        assert_eq!(pieces.len(), whole.len() as u64);
        for from in 0..=whole.len() {
            for to in from..=whole.len() {
                let mut buf = vec![0; to - from];
                pieces.read_exact_at(from as u64, &mut buf).unwrap();
                assert_eq!(buf, whole[from..to], "{from}..{to}");
            }
            let mut over = vec![0; whole.len() - from + 1];
            assert!(pieces.read_exact_at(from as u64, &mut over).is_err());
        }
        let nothing = Pieces::new(Vec::new(), Vec::new(), Vec::new());
        assert_eq!(Source::len(&nothing), 0);
        assert!(nothing.read_exact_at(0, &mut [0]).is_err());
    }
}
