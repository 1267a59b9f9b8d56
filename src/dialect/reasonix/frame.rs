//! Frames: `RX4F`, two big-endian lengths, one zstd frame. One record a frame.

use std::{fmt, io::Read};

use ruzstd::{
    decoding::{BlockDecodingStrategy, FrameDecoder},
    encoding::{CompressionLevel, compress_to_vec},
};

use super::trouble::Trouble;
use crate::transcript::Source;

/// What every frame begins with.
pub const MAGIC: [u8; 4] = *b"RX4F";

/// Magic and both lengths, in bytes.
pub const HEADER: u64 = 12;

/// The most that either length of a frame may be, in bytes (the client's own limit).
pub const MOST: u32 = 8 << 20;

/// One record and where its frame stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of the frame's first byte, from the start of the log.
    pub offset: u64,
    /// Of the byte behind the frame.
    pub end: u64,
    /// The record: JSON.
    pub json: Vec<u8>,
}

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Of what stands behind the header, in bytes.
    pub packed: u32,
    /// Of the record, in bytes.
    pub raw: u32,
}

/// Reads the header at `offset`; none if the log ends within it. Both lengths are in their bounds; what they promise
/// need not be there.
pub(super) fn lengths(source: &dyn Source, offset: u64) -> Result<Option<Lengths>, Trouble> {
    if source.len().saturating_sub(offset) < HEADER {
        return Ok(None);
    }
    let mut header = [0; HEADER as usize];
    source.read_exact_at(offset, &mut header)?;
    let [m0, m1, m2, m3, c0, c1, c2, c3, r0, r1, r2, r3] = header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(Trouble::damaged(offset, "no frame begins here"));
    }
    let (packed, raw) = (u32::from_be_bytes([c0, c1, c2, c3]), u32::from_be_bytes([r0, r1, r2, r3]));
    for (length, what) in [(packed, "compressed"), (raw, "decompressed")] {
        if length == 0 || length > MOST {
            return Err(Trouble::damaged(
                offset,
                format!("a {what} length of {length}, which is not 1 to {MOST}"),
            ));
        }
    }
    Ok(Some(Lengths { packed, raw }))
}

/// Reads the frame at `offset`; none if the log ends before the frame does (a torn tail, or simply the end).
///
/// Both lengths are checked before anything is allocated for them, and no more is ever inflated than was declared.
///
/// # Errors
/// Damage: a wrong magic, a length out of bounds, anything but one zstd frame of exactly the declared lengths.
pub fn read(source: &dyn Source, offset: u64) -> Result<Option<Frame>, Trouble> {
    let Some(lengths) = lengths(source, offset)? else { return Ok(None) };
    let Some(body) = body(source, offset, lengths)? else { return Ok(None) };
    let json = body.map_err(|flaw| Trouble::damaged(offset, flaw.to_string()))?;
    Ok(Some(Frame { offset, end: offset + HEADER + u64::from(lengths.packed), json }))
}

/// What stands behind the header at `offset`; none if the log ends before it does.
pub(super) fn body(
    source: &dyn Source,
    offset: u64,
    lengths: Lengths,
) -> Result<Option<Result<Vec<u8>, Flaw>>, Trouble> {
    if source.len() - offset < HEADER + u64::from(lengths.packed) {
        return Ok(None);
    }
    let mut bytes = vec![0; lengths.packed as usize];
    source.read_exact_at(offset + HEADER, &mut bytes)?;
    Ok(Some(inflate(&bytes, lengths.raw as usize)))
}

/// The frame of a record, or none if the record is larger than a frame may be.
///
/// It is compressed, or stored where that is not larger; the client reads either.
pub fn write(json: &[u8]) -> Option<Vec<u8>> {
    packed(json, CompressionLevel::Fastest)
}

/// [`write()`] without compression: the frame is as large as the record.
pub(super) fn write_stored(json: &[u8]) -> Option<Vec<u8>> {
    packed(json, CompressionLevel::Uncompressed)
}

fn packed(json: &[u8], level: CompressionLevel) -> Option<Vec<u8>> {
    let raw = u32::try_from(json.len()).ok().filter(|&n| n > 0 && n <= MOST)?;
    let packed = compress_to_vec(json, level);
    let length = u32::try_from(packed.len()).ok().filter(|&n| n <= MOST)?;
    Some(framed(Lengths { packed: length, raw }, &packed))
}

/// What stands in the frame of a record behind the header.
pub(super) fn packed_body(json: &[u8]) -> Vec<u8> {
    compress_to_vec(json, CompressionLevel::Fastest)
}

/// A header with what stands behind it.
pub(super) fn framed(lengths: Lengths, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(body.len() + HEADER as usize);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&lengths.packed.to_be_bytes());
    frame.extend_from_slice(&lengths.raw.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Why what stands behind a header is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It does not begin as a zstd frame does.
    NoFrame(String),
    /// It goes on otherwise than a zstd frame does.
    Block(String),
    /// There is more in it than was declared, which is this many bytes.
    Longer(usize),
    /// There are fewer bytes in it than were declared.
    Shorter { found: usize, declared: usize },
    /// So many bytes follow the zstd frame.
    Behind(usize),
    /// Its checksum is another one.
    Checksum,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::NoFrame(why) => write!(f, "no zstd frame: {why}"),
            Flaw::Block(why) => write!(f, "damaged zstd frame: {why}"),
            Flaw::Longer(declared) => write!(f, "more than the declared {declared} bytes"),
            Flaw::Shorter { found, declared } => {
                write!(f, "{found} bytes instead of the declared {declared}")
            }
            Flaw::Behind(bytes) => write!(f, "{bytes} bytes behind the zstd frame"),
            Flaw::Checksum => f.write_str("the checksum of the zstd frame is wrong"),
        }
    }
}

/// Inflates one zstd frame that fills `bytes` and gives exactly `raw` bytes.
fn inflate(bytes: &[u8], raw: usize) -> Result<Vec<u8>, Flaw> {
    let mut rest = bytes;
    let mut decoder = FrameDecoder::new();
    // A record is never larger than this, so neither is a window that it needs; the client's decoder has the same limit.
    decoder.set_max_window_size(u64::from(MOST));
    decoder.reset(&mut rest).map_err(|e| Flaw::NoFrame(e.to_string()))?;
    let mut json = Vec::with_capacity(raw);
    while !decoder.is_finished() {
        // A block inflates to 128 KiB at most.
        decoder
            .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|e| Flaw::Block(e.to_string()))?;
        while decoder.can_collect() > 0 {
            let room = raw - json.len();
            if decoder.can_collect() > room {
                return Err(Flaw::Longer(raw));
            }
            let at = json.len();
            json.resize(at + decoder.can_collect(), 0);
            let n = decoder.read(&mut json[at..]).map_err(|e| Flaw::Block(e.to_string()))?;
            json.truncate(at + n);
            if n == 0 {
                break;
            }
        }
    }
    if json.len() != raw {
        return Err(Flaw::Shorter { found: json.len(), declared: raw });
    }
    if !rest.is_empty() {
        return Err(Flaw::Behind(rest.len()));
    }
    if decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum)) {
        return Err(Flaw::Checksum);
    }
    Ok(json)
}
