//! Records: the JSON in the frames. Read leniently as the client does (unknown members are ignored), written exactly.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::{content::PayloadRef, gojson, trouble::Trouble};

/// The codec of everything that is read here.
pub const CODEC: &str = "reasonix.session.linear/v4";

/// The schema of its records and its manifest.
pub const SCHEMA: u64 = 4;

/// What the client writes where a time is absent.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// One record, as it stands in a frame.
#[derive(Debug)]
pub enum Record {
    /// A commit begins.
    Begin(Begin),
    /// One of its events.
    Event(EventRecord),
    /// It is complete.
    End(End),
}

/// `batch/begin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The commit's id.
    pub commit_id: String,
    /// The writer's idempotency key.
    pub operation_id: String,
    /// What that key was used for.
    pub operation_hash: String,
    /// The sequence of its first event.
    pub first_seq: u64,
    /// How many events it has. Declared, so never a reason to allocate.
    pub event_count: u64,
    /// The turn it belongs to; empty if none.
    pub turn_id: String,
    /// Which opening of the session wrote it, from 1.
    pub writer_generation: u64,
    /// When, as it stands there.
    pub created_at: String,
}

/// `batch/event`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its id, which children keep.
    pub id: String,
    /// Its position in the log, from 1.
    pub seq: u64,
    /// What happened.
    pub kind: String,
    /// Whether a reader that does not know the kind may go on.
    pub optional: bool,
    /// A flag that readers do not look at.
    pub required: bool,
    /// The payload, if it stands in the record.
    pub payload: Option<Vec<u8>>,
    /// Where it is, if it does not.
    pub payload_ref: Option<PayloadRef>,
}

/// `batch/end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// As in the begin record.
    pub commit_id: String,
    /// As in the begin record.
    pub first_seq: u64,
    /// As in the begin record.
    pub event_count: u64,
    /// SHA-256 over begin and events, each with a NUL behind it, in hex.
    pub sha256: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u64>,
    codec: Option<String>,
    record_type: Option<String>,
    commit_id: Option<String>,
    operation_id: Option<String>,
    operation_hash: Option<String>,
    first_seq: Option<u64>,
    event_count: Option<i64>,
    turn_id: Option<String>,
    writer_generation: Option<u64>,
    created_at: Option<String>,
    event: Option<RawEvent>,
    sha256: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEvent {
    id: Option<String>,
    seq: Option<u64>,
    kind: Option<String>,
    optional: Option<bool>,
    required: Option<bool>,
    payload: Option<String>,
    payload_ref: Option<PayloadRef>,
}

impl Record {
    /// Reads the JSON of the frame at `offset`.
    ///
    /// # Errors
    /// Damage: no JSON, values of other types, a record that lacks what it must have. Unsupported: another schema,
    /// codec or kind of record.
    pub fn parse(json: &[u8], offset: u64) -> Result<Record, Trouble> {
        let damaged = |what: &str| Trouble::damaged(offset, what);
        // The client's decoder takes bytes that are no UTF-8 for U+FFFD.
        let text = String::from_utf8_lossy(json);
        let raw: Raw = serde_json::from_str(&text)
            .map_err(|e| Trouble::damaged(offset, format!("no record: {}", place(&e))))?;
        if raw.schema_version != Some(SCHEMA) || raw.codec.as_deref() != Some(CODEC) {
            return Err(Trouble::Unsupported {
                offset,
                what: format!(
                    "a record of schema {} and codec `{}`",
                    raw.schema_version.unwrap_or_default(),
                    raw.codec.as_deref().unwrap_or_default()
                ),
            });
        }
        let count = || raw.event_count.and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
        match raw.record_type.as_deref().unwrap_or_default() {
            "batch/begin" => {
                let begin = Begin {
                    first_seq: raw.first_seq.unwrap_or_default(),
                    event_count: count(),
                    commit_id: raw.commit_id.unwrap_or_default(),
                    operation_id: raw.operation_id.unwrap_or_default(),
                    operation_hash: raw.operation_hash.unwrap_or_default(),
                    turn_id: raw.turn_id.unwrap_or_default(),
                    writer_generation: raw.writer_generation.unwrap_or_default(),
                    created_at: raw.created_at.unwrap_or_else(|| NO_TIME.to_owned()),
                };
                let named = [&begin.commit_id, &begin.operation_id, &begin.operation_hash]
                    .iter()
                    .all(|s| !s.is_empty());
                if !named || begin.event_count == 0 || begin.writer_generation == 0 {
                    return Err(damaged("the beginning of a commit lacks something"));
                }
                Ok(Record::Begin(begin))
            }
            "batch/event" => {
                let event = raw.event.ok_or_else(|| damaged("an event record without event"))?;
                let payload = event.payload.map(|text| STANDARD.decode(text)).transpose();
                let event = EventRecord {
                    id: event.id.unwrap_or_default(),
                    seq: event.seq.unwrap_or_default(),
                    kind: event.kind.unwrap_or_default(),
                    optional: event.optional.unwrap_or_default(),
                    required: event.required.unwrap_or_default(),
                    payload: payload.map_err(|_| damaged("a payload that is no base64"))?,
                    payload_ref: event.payload_ref,
                };
                if event.id.is_empty() || event.kind.trim().is_empty() {
                    return Err(damaged("an event without id or kind"));
                }
                if event.payload.is_some() && event.payload_ref.is_some() {
                    return Err(damaged("an event with a payload here and elsewhere"));
                }
                Ok(Record::Event(event))
            }
            "batch/end" => Ok(Record::End(End {
                first_seq: raw.first_seq.unwrap_or_default(),
                event_count: count(),
                commit_id: raw.commit_id.unwrap_or_default(),
                sha256: raw.sha256.unwrap_or_default(),
            })),
            other => Err(Trouble::Unsupported { offset, what: format!("a record of the type `{other}`") }),
        }
    }
}

/// What the parser says, without its habit of quoting what it met.
pub(super) fn place(e: &serde_json::Error) -> String {
    match e.classify() {
        serde_json::error::Category::Data => format!("an unexpected value at column {}", e.column()),
        _ => format!("no JSON at column {}", e.column()),
    }
}

/// Writes members in the order of the client.
struct Members(Vec<u8>);

impl Members {
    fn new(record_type: &str) -> Members {
        let mut members = Members(format!("{{\"schemaVersion\":{SCHEMA}").into_bytes());
        members.text("codec", CODEC);
        members.text("recordType", record_type);
        members
    }

    fn key(&mut self, key: &str) {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        gojson::string(&mut self.0, key);
        self.0.push(b':');
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        gojson::string(&mut self.0, value);
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        self.0.extend_from_slice(value.to_string().as_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

impl Begin {
    /// The record's JSON, byte for byte as the client writes it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut m = Members::new("batch/begin");
        m.text("commitId", &self.commit_id);
        m.text("operationId", &self.operation_id);
        m.text("operationHash", &self.operation_hash);
        m.number("firstSeq", self.first_seq);
        m.number("eventCount", self.event_count);
        if !self.turn_id.is_empty() {
            m.text("turnId", &self.turn_id);
        }
        m.number("writerGeneration", self.writer_generation);
        m.text("createdAt", &self.created_at);
        m.finish()
    }
}

impl EventRecord {
    /// The record's JSON, byte for byte as the client writes it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut m = Members::new("batch/event");
        m.text("createdAt", NO_TIME);
        m.key("event");
        m.0.push(b'{');
        m.text("id", &self.id);
        m.number("seq", self.seq);
        m.text("kind", &self.kind);
        for (key, set) in [("optional", self.optional), ("required", self.required)] {
            if set {
                m.key(key);
                m.0.extend_from_slice(b"true");
            }
        }
        if let Some(payload) = self.payload.as_ref().filter(|p| !p.is_empty()) {
            m.text("payload", &STANDARD.encode(payload));
        }
        if let Some(at) = &self.payload_ref {
            m.key("payloadRef");
            m.0.push(b'{');
            m.text("digest", &at.digest);
            m.number("bytes", at.bytes);
            for (key, value) in
                [("mediaType", &at.media_type), ("name", &at.name), ("indexDigest", &at.index_digest)]
            {
                if let Some(value) = value.as_deref().filter(|v| !v.is_empty()) {
                    m.text(key, value);
                }
            }
            if let Some(bytes) = at.integrity_block_bytes.filter(|&n| n != 0) {
                m.number("integrityBlockBytes", bytes);
            }
            m.0.push(b'}');
        }
        m.0.push(b'}');
        m.finish()
    }
}

impl End {
    /// The record's JSON, byte for byte as the client writes it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut m = Members::new("batch/end");
        m.text("commitId", &self.commit_id);
        m.number("firstSeq", self.first_seq);
        m.number("eventCount", self.event_count);
        m.text("createdAt", NO_TIME);
        m.text("sha256", &self.sha256);
        m.finish()
    }
}
