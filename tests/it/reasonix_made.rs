//! Logs of Reasonix, made for a test.

use offshoot::{
    dialect::reasonix::{
        Trouble,
        commit::{Commit, Commits},
        content::{Contents, NoContents, PayloadRef},
        frame,
        projection::{Projection, Turn},
        record::{Begin, End, EventRecord},
    },
    transcript::Source,
};
use sha2::{Digest, Sha256};

/// What goes into an event: kind, payload, whether it is optional.
pub type Made<'a> = (&'a str, &'a str, bool);

/// A log that is being made.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub bytes: Vec<u8>,
    /// Where each commit ends.
    pub ends: Vec<u64>,
    seq: u64,
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Frames of a commit, and its end record.
pub fn commit_frames(begin: &Begin, events: &[EventRecord]) -> Vec<u8> {
    let mut digest = Sha256::new();
    let mut out = Vec::new();
    let records = std::iter::once(begin.to_json()).chain(events.iter().map(EventRecord::to_json));
    for json in records {
        digest.update(&json);
        digest.update([0]);
        out.extend(frame::write(&json).unwrap());
    }
    let end = End {
        commit_id: begin.commit_id.clone(),
        first_seq: begin.first_seq,
        event_count: begin.event_count,
        sha256: hex(&digest.finalize()),
    };
    out.extend(frame::write(&end.to_json()).unwrap());
    out
}

pub fn begin(id: &str, turn: &str, first_seq: u64, event_count: u64) -> Begin {
    Begin {
        commit_id: id.to_owned(),
        operation_id: format!("op-{id}"),
        operation_hash: "0".repeat(64),
        first_seq,
        event_count,
        turn_id: turn.to_owned(),
        writer_generation: 1,
        created_at: "2026-11-30T16:10:29.5Z".to_owned(),
    }
}

impl Log {
    /// Adds a commit.
    pub fn commit(self, turn: &str, events: &[Made<'_>]) -> Log {
        let records: Vec<EventRecord> = (1..)
            .zip(events)
            .map(|(i, &(kind, payload, optional))| EventRecord {
                id: format!("e{}", self.seq + i),
                seq: self.seq + i,
                kind: kind.to_owned(),
                optional,
                required: false,
                payload: Some(payload.as_bytes().to_vec()),
                payload_ref: None,
            })
            .collect();
        self.records(turn, records)
    }

    /// Adds a commit of one event whose payload is elsewhere.
    pub fn elsewhere(self, turn: &str, kind: &str, at: PayloadRef) -> Log {
        let seq = self.seq + 1;
        let record = EventRecord {
            id: format!("e{seq}"),
            seq,
            kind: kind.to_owned(),
            optional: false,
            required: false,
            payload: None,
            payload_ref: Some(at),
        };
        self.records(turn, vec![record])
    }

    fn records(mut self, turn: &str, records: Vec<EventRecord>) -> Log {
        let n = records.len() as u64;
        let begin = begin(&format!("c{}", self.ends.len() + 1), turn, self.seq + 1, n);
        self.bytes.extend(commit_frames(&begin, &records));
        self.seq += n;
        self.ends.push(self.bytes.len() as u64);
        self
    }

    /// Adds a turn of one prompt and one answer, in one commit.
    pub fn turn(self, id: &str) -> Log {
        let (user, answer) =
            (message("user", &format!("u-{id}"), id), message("assistant", &format!("a-{id}"), id));
        self.commit(
            id,
            &[
                ("turn/start", "{}", false),
                ("message/complete", &user, false),
                ("message/complete", &answer, false),
                ("turn/end", r#"{"status":"completed"}"#, false),
            ],
        )
    }

    pub fn turns(&self) -> Vec<Turn> {
        turns(&self.bytes, &NoContents).unwrap().turns()
    }
}

/// The payload of a `message/complete`.
pub fn message(role: &str, id: &str, text: &str) -> String {
    format!(r#"{{"message":{{"role":"{role}","id":"{id}","content":"{text}"}}}}"#)
}

/// All commits, and where they end.
pub fn commits(source: &dyn Source, contents: &dyn Contents) -> Result<(Vec<Commit>, u64), Trouble> {
    let mut reader = Commits::new(source, contents);
    let mut all = Vec::new();
    while let Some(commit) = reader.next_commit()? {
        all.push(commit);
    }
    Ok((all, reader.end()))
}

/// The state at the end.
pub fn turns(source: &dyn Source, contents: &dyn Contents) -> Result<Projection, Trouble> {
    let mut projection = Projection::default();
    commits(source, contents)?.0.iter().for_each(|c| projection.apply(c));
    Ok(projection)
}

/// The JSON records in all frames.
pub fn records(bytes: &[u8]) -> Vec<String> {
    let (mut at, mut out) = (0, Vec::new());
    while let Some(frame) = frame::read(&bytes, at).unwrap() {
        out.push(String::from_utf8(frame.json).unwrap());
        at = frame.end;
    }
    out
}
