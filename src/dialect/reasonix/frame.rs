//! Frames: `RX4F`, two big-endian lengths, one zstd frame. One record a frame.

use std::io::Read;

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

/// Reads the frame at `offset`; none if the log ends before the frame does (a torn tail, or simply the end).
///
/// Both lengths are checked before anything is allocated for them, and no more is ever inflated than was declared.
///
/// # Errors
/// Damage: a wrong magic, a length out of bounds, anything but one zstd frame of exactly the declared lengths.
pub fn read(source: &dyn Source, offset: u64) -> Result<Option<Frame>, Trouble> {
    let left = source.len().saturating_sub(offset);
    if left < HEADER {
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
    let end = HEADER + u64::from(packed);
    if left < end {
        return Ok(None);
    }
    let mut bytes = vec![0; packed as usize];
    source.read_exact_at(offset + HEADER, &mut bytes)?;
    let json = inflate(&bytes, raw as usize).map_err(|reason| Trouble::damaged(offset, reason))?;
    Ok(Some(Frame { offset, end: offset + end, json }))
}

/// The frame of a record, or none if the record is larger than a frame may be.
///
/// It is compressed, or stored where that is not larger; the client reads either.
pub fn write(json: &[u8]) -> Option<Vec<u8>> {
    let raw = u32::try_from(json.len()).ok().filter(|&n| n > 0 && n <= MOST)?;
    let packed = compress_to_vec(json, CompressionLevel::Fastest);
    let length = u32::try_from(packed.len()).ok().filter(|&n| n <= MOST)?;
    let mut frame = Vec::with_capacity(packed.len() + HEADER as usize);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&raw.to_be_bytes());
    frame.extend_from_slice(&packed);
    Some(frame)
}

/// Inflates one zstd frame that fills `bytes` and gives exactly `raw` bytes.
fn inflate(bytes: &[u8], raw: usize) -> Result<Vec<u8>, String> {
    let mut rest = bytes;
    let mut decoder = FrameDecoder::new();
    // A record is never larger than this, so neither is a window that it needs; the client's decoder has the same limit.
    decoder.set_max_window_size(u64::from(MOST));
    decoder.reset(&mut rest).map_err(|e| format!("no zstd frame: {e}"))?;
    let mut json = Vec::with_capacity(raw);
    while !decoder.is_finished() {
        // A block inflates to 128 KiB at most.
        decoder
            .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|e| format!("damaged zstd frame: {e}"))?;
        while decoder.can_collect() > 0 {
            let room = raw - json.len();
            if decoder.can_collect() > room {
                return Err(format!("more than the declared {raw} bytes"));
            }
            let at = json.len();
            json.resize(at + decoder.can_collect(), 0);
            let n = decoder.read(&mut json[at..]).map_err(|e| format!("damaged zstd frame: {e}"))?;
            json.truncate(at + n);
            if n == 0 {
                break;
            }
        }
    }
    if json.len() != raw {
        return Err(format!("{} bytes instead of the declared {raw}", json.len()));
    }
    if !rest.is_empty() {
        return Err(format!("{} bytes behind the zstd frame", rest.len()));
    }
    if decoder.get_checksum_from_data().is_some_and(|sum| decoder.get_calculated_checksum() != Some(sum)) {
        return Err("the checksum of the zstd frame is wrong".to_owned());
    }
    Ok(json)
}
