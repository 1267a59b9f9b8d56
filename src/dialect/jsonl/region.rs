//! The file cut into regions of whole lines, each to be found without a look at the others: the lines that begin behind
//! a line feed of one chunk of the file, the last of them to its end. Chunks are read from where they begin, since the
//! kernel copies whole pages fastest.

use std::{io, ops::Range};

use crate::transcript::Source;

/// How much is read at a time in search of the end of a line.
const STEP: usize = 8 << 10;

/// Lines that stand one behind the other.
pub(super) struct Region<'a> {
    /// Where `bytes` begins in the file.
    pub offset: u64,
    /// The lines with their line feeds; the last line of the file may have none.
    pub bytes: &'a [u8],
    /// The line behind `bytes`, if it was too long to be kept.
    pub overlong: Option<Overlong>,
}

/// A line that was too long to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overlong {
    /// Its length without line feed.
    pub bytes: u64,
    /// Whether it has a line feed.
    pub ended: bool,
}

/// Reads the lines whose line feed before them stands in the `chunk`-th `chunk_bytes` of `source`, which must not lie
/// behind its end; the first line belongs to the first chunk. A line of more than `longest` bytes is stepped over if it
/// is the last one; `buf` never holds more than that.
///
/// # Errors
/// Only what `source` reports.
pub(super) fn load<'a>(
    source: &dyn Source,
    chunk: u64,
    chunk_bytes: u64,
    longest: usize,
    buf: &'a mut Vec<u8>,
) -> io::Result<Region<'a>> {
    let len = source.len();
    let from = chunk * chunk_bytes;
    let to = from.saturating_add(chunk_bytes).min(len);
    let mut window = Window { buf, filled: 0 };
    window.extend(source, from..to)?;
    let start = match (chunk, memchr::memchr(b'\n', window.bytes())) {
        (0, _) => 0,
        (_, Some(at)) => at + 1,
        (_, None) => return Ok(Region { offset: to, bytes: &[], overlong: None }),
    };
    let last = memchr::memrchr(b'\n', window.bytes()).map_or(start, |at| at + 1);
    let mut dropped = 0;
    let mut ended = false;
    let mut at = to;
    while !ended && at < len {
        let scanned = window.filled;
        let end = at.saturating_add(STEP.max((scanned - last) / 4) as u64).min(len);
        window.extend(source, at..end)?;
        at = end;
        if let Some(found) = memchr::memchr(b'\n', &window.bytes()[scanned..]) {
            window.filled = scanned + found + 1;
            ended = true;
        }
        let line = window.filled - last - usize::from(ended);
        if dropped > 0 || line > longest {
            dropped += line as u64;
            window.filled = last;
        }
    }
    let overlong = (dropped > 0).then_some(Overlong { bytes: dropped, ended });
    let Window { buf, filled } = window;
    Ok(Region { offset: from + start as u64, bytes: &buf[start..filled], overlong })
}

/// The bytes that were read, in a buffer that is not cleared for the next ones: they are written over.
struct Window<'a> {
    buf: &'a mut Vec<u8>,
    filled: usize,
}

impl Window<'_> {
    fn bytes(&self) -> &[u8] {
        &self.buf[..self.filled]
    }

    fn extend(&mut self, source: &dyn Source, range: Range<u64>) -> io::Result<()> {
        let end = self.filled + (range.end - range.start) as usize;
        if self.buf.len() < end {
            self.buf.resize(end, 0);
        }
        source.read_exact_at(range.start, &mut self.buf[self.filled..end])?;
        self.filled = end;
        Ok(())
    }
}
