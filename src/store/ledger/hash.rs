//! The bytes of an entry and the hash that seals them.
//!
//! The hash covers the line as it stands, not a re-serialisation: fields that a later version of schema 1 may
//! add are covered too, and nothing depends on how a JSON library orders or escapes.

use serde::Serialize;

use crate::{
    record::Agent,
    store::ledger::entry::{Body, Entry},
};

/// `prev` of the first entry.
pub const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const BEFORE: &[u8] = b",\"hash\":\"";
const AFTER: &[u8] = b"\"}";
/// Length of the hash member, with the closing brace of the line.
const TAIL: usize = BEFORE.len() + 64 + AFTER.len();

/// BLAKE3 as bare hex.
pub fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unsealed<'a> {
    schema: &'a str,
    seq: u64,
    prev: &'a str,
    at: &'a str,
    agent: Agent,
    session_id: &'a str,
    #[serde(flatten)]
    body: &'a Body,
}

/// The line of an entry (without line end) whose `hash` is still empty; fills the hash in.
pub fn seal(entry: &mut Entry) -> Vec<u8> {
    let unsealed = Unsealed {
        schema: &entry.schema,
        seq: entry.seq,
        prev: &entry.prev,
        at: &entry.at,
        agent: entry.agent,
        session_id: &entry.session_id,
        body: &entry.body,
    };
    let mut line = serde_json::to_vec(&unsealed).expect("BUG: an entry is always JSON");
    entry.hash = hex(&line);
    line.pop();
    line.extend_from_slice(BEFORE);
    line.extend_from_slice(entry.hash.as_bytes());
    line.extend_from_slice(AFTER);
    line
}

/// The hash that a line states in its last member, and whether its bytes have that hash; `None` if the line
/// does not end in such a member.
pub fn check(line: &[u8]) -> Option<(&str, bool)> {
    let (body, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;
    let stated = tail.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    if !stated.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b)) {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(body);
    hasher.update(b"}");
    let stated = std::str::from_utf8(stated).ok()?;
    Some((stated, hasher.finalize().to_hex().as_str() == stated))
}
