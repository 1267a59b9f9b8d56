//! Payloads that do not stand in the log: verified against the digests that the log names. Where they are kept is
//! the caller's business.

use std::io;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::ids::{hex, unhex};
use crate::transcript::Source;

/// The client's block size of integrity indexes, in bytes.
const BLOCK: u64 = 1 << 20;

/// Where a payload is that is too large for the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PayloadRef {
    /// SHA-256 of the payload, in hex: its name in the content store.
    #[serde(default)]
    pub digest: String,
    /// Its length.
    #[serde(default)]
    pub bytes: u64,
    /// What it is.
    pub media_type: Option<String>,
    /// What it is called.
    pub name: Option<String>,
    /// SHA-256 of its integrity index, in hex.
    pub index_digest: Option<String>,
    /// The block size of that index, in bytes.
    pub integrity_block_bytes: Option<u64>,
}

/// A content store.
pub trait Contents {
    /// The payload of that name; none if it is not there.
    ///
    /// `digest` is 64 lower-case hex digits, so it is safe as a file name.
    ///
    /// # Errors
    /// What the file system says.
    fn object(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>>;

    /// The integrity index of the payload of that name; none if it is not there.
    ///
    /// # Errors
    /// What the file system says.
    fn index(&self, digest: &str) -> io::Result<Option<Box<dyn Source + '_>>>;
}

/// A content store with nothing in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoContents;

impl Contents for NoContents {
    fn object(&self, _: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(None)
    }

    fn index(&self, _: &str) -> io::Result<Option<Box<dyn Source + '_>>> {
        Ok(None)
    }
}

/// Why a payload was not had.
pub(super) enum Missing {
    Io(io::Error),
    /// In words.
    Wrong(String),
}

impl From<io::Error> for Missing {
    fn from(e: io::Error) -> Missing {
        Missing::Io(e)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    version: u64,
    object: String,
    bytes: u64,
    block_bytes: u64,
    blocks: Vec<String>,
}

impl PayloadRef {
    /// Checks length, digest and, where there is an index, every block; hands the payload on in blocks of at most 1 MiB.
    pub(super) fn verify(
        &self,
        contents: &dyn Contents,
        mut block: impl FnMut(&[u8]),
    ) -> Result<(), Missing> {
        let wrong = |what: &str| Missing::Wrong(format!("{what} of the payload `{}`", short(&self.digest)));
        let digest =
            unhex(&self.digest).ok_or_else(|| Missing::Wrong("no digest names a payload".to_owned()))?;
        let object =
            contents.object(&self.digest)?.ok_or_else(|| wrong("the content store lacks the object"))?;
        if object.len() != self.bytes {
            return Err(wrong("the content store has another length"));
        }
        let index = self.index(contents, &wrong)?;
        let mut whole = Sha256::new();
        let (mut at, mut number) = (0, 0);
        let mut buf = vec![0; self.bytes.min(BLOCK) as usize];
        while at < self.bytes {
            let n = (self.bytes - at).min(BLOCK) as usize;
            object.read_exact_at(at, &mut buf[..n])?;
            if index.as_ref().is_some_and(|blocks| blocks[number] != hex(&Sha256::digest(&buf[..n]))) {
                return Err(wrong("the index contradicts a block"));
            }
            whole.update(&buf[..n]);
            block(&buf[..n]);
            at += n as u64;
            number += 1;
        }
        if whole.finalize()[..] != digest {
            return Err(wrong("the content store has other bytes"));
        }
        Ok(())
    }

    /// The digests of the blocks, one for each.
    fn index(
        &self,
        contents: &dyn Contents,
        wrong: &dyn Fn(&str) -> Missing,
    ) -> Result<Option<Vec<String>>, Missing> {
        let Some(digest) = self.index_digest.as_deref().filter(|d| !d.is_empty()) else { return Ok(None) };
        if self.integrity_block_bytes != Some(BLOCK) {
            return Err(wrong("an unknown block size in the index"));
        }
        let digest = unhex(digest).ok_or_else(|| wrong("no digest names the index"))?;
        let source =
            contents.index(&self.digest)?.ok_or_else(|| wrong("the content store lacks the index"))?;
        let blocks = self.bytes.div_ceil(BLOCK);
        // 64 digits, quotes and a comma for each block, and the other members.
        if source.len() > blocks.saturating_mul(67).saturating_add(1024) {
            return Err(wrong("an index that is too long"));
        }
        let mut bytes = vec![0; source.len() as usize];
        source.read_exact_at(0, &mut bytes)?;
        if Sha256::digest(&bytes)[..] != digest {
            return Err(wrong("other bytes in the index"));
        }
        let index: Index = serde_json::from_slice(&bytes).map_err(|_| wrong("no index"))?;
        let right = index.version == 1
            && index.object == self.digest
            && index.bytes == self.bytes
            && index.block_bytes == BLOCK
            && index.blocks.len() as u64 == blocks;
        if right { Ok(Some(index.blocks)) } else { Err(wrong("an index that does not fit")) }
    }
}

/// The blocks of a payload that have digests of their own in its index.
pub(super) fn blocks_of(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    payload.chunks(BLOCK as usize)
}

/// The integrity index of a payload, byte for byte as the client writes it.
pub(super) fn index_of(digest: &str, payload: &[u8]) -> Vec<u8> {
    let blocks: Vec<String> =
        blocks_of(payload).map(|block| format!("\"{}\"", hex(&Sha256::digest(block)))).collect();
    let (bytes, blocks) = (payload.len(), blocks.join(","));
    format!(
        "{{\"version\":1,\"object\":\"{digest}\",\"bytes\":{bytes},\"blockBytes\":{BLOCK},\"blocks\":[{blocks}]}}"
    )
    .into_bytes()
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
