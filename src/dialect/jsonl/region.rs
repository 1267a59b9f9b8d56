//! The file cut into regions of whole lines, each to be found without a look at the others: the lines that begin
//! within one chunk of the file, the last of them to its end.

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

/// Reads the lines that begin in the `chunk`-th `chunk_bytes` of `source`, which must not lie behind its end. A line
/// of more than `longest` bytes is stepped over if it is the last one; `buf` never holds more than that.
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
    // Whether a line begins at `from` is told by the byte before.
    let base = from.saturating_sub(1);
    buf.clear();
    extend(source, base..to, buf)?;
    let before_last = buf.len() - 1;
    let start = match chunk {
        0 => 0,
        _ => match memchr::memchr(b'\n', &buf[..before_last]) {
            Some(at) => at + 1,
            None => return Ok(Region { offset: to, bytes: &[], overlong: None }),
        },
    };
    let last = memchr::memrchr(b'\n', &buf[..before_last]).map_or(start, |at| at + 1);
    let mut dropped = 0;
    let mut ended = buf[before_last] == b'\n';
    let mut at = to;
    while !ended && at < len {
        let scanned = buf.len();
        let end = at.saturating_add(STEP.max((scanned - last) / 4) as u64).min(len);
        extend(source, at..end, buf)?;
        at = end;
        if let Some(found) = memchr::memchr(b'\n', &buf[scanned..]) {
            buf.truncate(scanned + found + 1);
            ended = true;
        }
        let line = buf.len() - last - usize::from(ended);
        if dropped > 0 || line > longest {
            dropped += line as u64;
            buf.truncate(last);
        }
    }
    let overlong = (dropped > 0).then_some(Overlong { bytes: dropped, ended });
    Ok(Region { offset: base + start as u64, bytes: &buf[start..], overlong })
}

fn extend(source: &dyn Source, range: Range<u64>, buf: &mut Vec<u8>) -> io::Result<()> {
    let kept = buf.len();
    buf.resize(kept + (range.end - range.start) as usize, 0);
    source.read_exact_at(range.start, &mut buf[kept..])
}
