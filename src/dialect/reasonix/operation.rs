//! The hash of an operation: what a later writer compares when an operation id comes again.

use sha2::{Digest, Sha256};

use super::{
    gojson,
    ids::hex,
    record::{Begin, EventRecord},
};

/// The hash while the events of a commit come.
pub(super) struct OperationHash {
    digest: Sha256,
    /// Whether the ids of events are part of it: for commits that were inherited they are, for new ones they are not.
    ids: bool,
    events: u64,
    valid: bool,
}

impl OperationHash {
    pub fn new(ids: bool) -> Self {
        OperationHash { digest: Sha256::new(), ids, events: 0, valid: true }
    }

    /// Takes the next event in.
    pub fn event(&mut self, session: &str, begin: &Begin, event: &EventRecord, payload: &[u8]) {
        let mut json = Vec::with_capacity(payload.len() + 256);
        if self.events == 0 {
            json.extend_from_slice(b"{\"sessionId\":");
            gojson::string(&mut json, session);
            json.extend_from_slice(b",\"turnId\":");
            gojson::string(&mut json, &begin.turn_id);
            json.extend_from_slice(b",\"events\":[");
        } else {
            json.push(b',');
        }
        self.events += 1;
        json.push(b'{');
        if self.ids {
            json.extend_from_slice(b"\"id\":");
            gojson::string(&mut json, &event.id);
            json.push(b',');
        }
        json.extend_from_slice(b"\"kind\":");
        gojson::string(&mut json, &event.kind);
        if event.optional {
            json.extend_from_slice(b",\"optional\":true");
        }
        if !payload.is_empty() {
            self.valid &= serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok();
            json.extend_from_slice(b",\"payload\":");
            gojson::compact(&mut json, payload);
        }
        json.push(b'}');
        self.digest.update(&json);
    }

    /// Whether every payload so far was JSON. Else there is no such hash.
    pub fn is_valid(&self) -> bool {
        self.valid
    }

    /// In hex.
    pub fn finish(mut self) -> String {
        self.digest.update(b"]}");
        hex(&self.digest.finalize())
    }
}
