//! Bytes that stand for what is no record.

use crate::dialect::reasonix::frame::{self, Flaw, Lengths, MOST};

/// So many bytes that are less than a frame.
pub(super) fn fragment(len: u64) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    let mut bytes = frame::framed(Lengths { packed: MOST, raw: 1 }, &[]);
    bytes.resize(len as usize, 0);
    bytes
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
}
