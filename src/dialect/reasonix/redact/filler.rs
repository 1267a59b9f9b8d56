//! Bytes that stand for what is no record.

use crate::dialect::reasonix::frame::{self, Flaw, HEADER, Lengths, MAGIC, MOST};

/// So many bytes that are less than a frame.
pub(super) fn fragment(len: u64) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    let mut bytes = frame::framed(Lengths { packed: MOST, raw: 1 }, &[]);
    bytes.resize(len as usize, 0);
    bytes
}

/// A header that is none for the same reason. Lengths may be anything that stood there: of each it stays whether it is
/// nothing, in its bounds, or too much.
pub(super) fn lost_header(header: [u8; HEADER as usize]) -> [u8; HEADER as usize] {
    let [m0, m1, m2, m3, c0, c1, c2, c3, r0, r1, r2, r3] = header;
    let mut out = [b'x'; HEADER as usize];
    if [m0, m1, m2, m3] == MAGIC {
        let of_its_kind = |length: u32| match length {
            0 => 0,
            1..=MOST => 1,
            _ => u32::MAX,
        };
        let (packed, raw) = (u32::from_be_bytes([c0, c1, c2, c3]), u32::from_be_bytes([r0, r1, r2, r3]));
        let lengths = Lengths { packed: of_its_kind(packed), raw: of_its_kind(raw) };
        out.copy_from_slice(&frame::framed(lengths, &[]));
    }
    out
}

/// A frame that cannot be inflated for the same reason.
pub(super) fn flawed(flaw: &Flaw, lengths: Lengths) -> Vec<u8> {
    /// Of zstd: the magic, no flags, the smallest window.
    const BEGINS: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    /// A block of the kind that is reserved.
    const BLOCK: u8 = 3 << 1;

    let Lengths { packed, raw } = lengths;
    let filled = |len: usize| frame::packed_body(&vec![b' '; len]);
    let body = match flaw {
        Flaw::NoFrame(_) => vec![b'x'; packed as usize],
        Flaw::Block(_) => {
            let mut body = BEGINS.to_vec();
            body.push(BLOCK);
            body.resize(packed as usize, 0);
            body
        }
        Flaw::Longer(declared) => filled(declared + 1),
        Flaw::Shorter { found, .. } => filled(*found),
        Flaw::Behind(bytes) => {
            let mut body = filled(raw as usize);
            body.resize(body.len() + bytes, b'x');
            body
        }
        Flaw::Checksum => {
            let mut body = filled(raw as usize);
            // The checksum is the last thing in a frame.
            if let Some(last) = body.last_mut() {
                *last ^= 1;
            }
            body
        }
    };
    frame::framed(Lengths { packed: body.len() as u32, raw }, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_stays_the_same_flaw() {
        let raw = 300;
        for flaw in [
            Flaw::NoFrame(String::new()),
            Flaw::Block(String::new()),
            Flaw::Longer(raw),
            Flaw::Shorter { found: 0, declared: raw },
            Flaw::Shorter { found: 200, declared: raw },
            Flaw::Behind(17),
            Flaw::Checksum,
        ] {
            let frame = flawed(&flaw, Lengths { packed: 40, raw: raw as u32 });
            let lengths = frame::lengths(&frame, 0).unwrap().unwrap();
            let found = frame::body(&frame, 0, lengths).unwrap().unwrap().unwrap_err();
            match (&flaw, &found) {
                (Flaw::NoFrame(_), Flaw::NoFrame(_)) | (Flaw::Block(_), Flaw::Block(_)) => {}
                _ => assert_eq!(found, flaw),
            }
        }
    }

    #[test]
    fn a_fragment_is_no_frame() {
        for len in [0, 1, 11, 12, 13, 5000] {
            let bytes = fragment(len);
            assert_eq!(bytes.len() as u64, len);
            assert_eq!(frame::read(&bytes, 0).unwrap(), None);
        }
    }

    #[test]
    fn a_lost_header_says_what_is_wrong_and_no_more() {
        let reason = |header: [u8; 12]| frame::lengths(&header.to_vec(), 0).unwrap_err().to_string();
        let bare = |reason: String| reason.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        for lengths in ["PASSword", "\0\0\0\0word", "\0\0\0wword", "\0\0\0w\0\0\0\0", "\0\0\0\0\0\0\0\0"] {
            let header: [u8; 12] = format!("RX4F{lengths}").into_bytes().try_into().unwrap();
            let out = lost_header(header);
            assert_eq!(bare(reason(out)), bare(reason(header)));
            assert_eq!(reason(out).contains(" of 0,"), reason(header).contains(" of 0,"));
            assert!(!out.contains(&b'w'), "{out:?}");
        }
        assert_eq!(lost_header(*b"no frame but"), *b"xxxxxxxxxxxx");
    }
}
