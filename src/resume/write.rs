//! The resumed writer: appends records below the chosen leaf while the lease is held.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    dialect::{self, Client, Dialect, Simulated, derived_uuid},
    record::{Agent, RecordId},
    refusal::{Code, Error, Refusal, Result},
    resume::{
        Answer, Host, Request, Target, annotate,
        body::{self, Fill},
        owners, pending, seed, settle,
    },
    store::{
        agents::qwen::AgentLease,
        faults,
        lease::{Lease, LeaseOptions},
        ledger::Ledger,
        snapshot::{Growth, Snapshot},
        writer::Appender,
    },
    transcript::{Flags, Transcript},
};

/// A record that is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acknowledgement {
    /// Its uuid.
    pub uuid: String,
    /// The record it hangs on.
    pub parent_uuid: String,
}

/// Appends records, each below the previous, the first below the anchor or the leaf. It cannot be made without a
/// lease, and gives lease and agent lease back when it is dropped.
///
/// Record `n` of an operation has an id that depends on the operation and `n` alone, so that a retry finds what
/// the operation has written before.
#[derive(Debug)]
pub struct ResumedWriter {
    lease: Lease,
    agent_lease: Option<AgentLease>,
    appender: Appender,
    agent: Agent,
    session_id: String,
    operation_id: String,
    parent: RecordId,
    written: u64,
}

/// What a writer starts from.
pub(super) struct Start {
    pub lease: Lease,
    pub agent_lease: Option<AgentLease>,
    pub appender: Appender,
    pub agent: Agent,
    pub session_id: String,
    pub operation_id: String,
    pub parent: RecordId,
    pub written: u64,
}

impl ResumedWriter {
    pub(super) fn begin(start: Start) -> Result<ResumedWriter> {
        let Start { mut lease, agent_lease, appender, agent, session_id, operation_id, parent, written } =
            start;
        // Before the first byte: the next owner must know that a torn line may be ours.
        lease.set_writer()?;
        faults::at("writer-marked", appender.path())?;
        Ok(ResumedWriter { lease, agent_lease, appender, agent, session_id, operation_id, parent, written })
    }

    /// Takes up an operation that was completed before: below the last record that it wrote.
    pub(super) fn again(
        request: &Request,
        host: &Host<'_>,
        operation_id: &str,
        session: &Target,
        answer: &Answer,
    ) -> Result<ResumedWriter> {
        let options =
            LeaseOptions { state: host.state, wait: request.wait, purpose: "resume", now: host.now() };
        let lease = Lease::acquire(&session.path, &options)?;
        settle::settle_under(host, session, &lease)?;
        let dialect = dialect::of(session.agent);
        let snapshot = lease.snapshot(dialect)?;
        let t = &snapshot.transcript;
        let session_id = annotate::session_key(t, &session.path);
        owners::refuse_live_owner(host, &session.path)?;
        let owner = seed::lock_owner(session.agent, &session_id, operation_id);
        let agent_lease = seed::agent_lease(host, &session.path, &owner, t.client_version.as_deref())?;
        let written = (0..)
            .find(|n| t.ids.find(&record_uuid(session.agent, &session_id, operation_id, *n)).is_none())
            .unwrap_or(0);
        let parent = match written {
            0 => answer.seed.first_parent(),
            n => RecordId::new(record_uuid(session.agent, &session_id, operation_id, n - 1)),
        };
        let untouched = written == 0 && is_as_recorded(host, operation_id, session, &snapshot, &session_id)?;
        host.note(format!(
            "operation `{operation_id}` has {written} {}; the next one hangs on `{parent}`",
            if written == 1 { "record" } else { "records" }
        ));
        if !untouched && !ends_at(dialect, t, &snapshot, &parent)? {
            return Err(Refusal::new(
                Code::StaleSource,
                format!("others wrote to `{}` after operation `{operation_id}` did", session.path.display()),
            )
            .hint("choose the branch again with a new operation id")
            .detail(json!({"operationId": operation_id, "lastUuid": parent, "written": written}))
            .into());
        }
        snapshot.check(Growth::Refuse)?;
        let appender = Appender::open(&snapshot)?;
        Self::begin(Start {
            lease,
            agent_lease,
            appender,
            agent: session.agent,
            session_id,
            operation_id: operation_id.to_owned(),
            parent,
            written,
        })
    }

    /// Appends one record. `body` is a JSON object without `uuid` and `parentUuid`, which are filled in, as are
    /// `sessionId` and, where it is absent, `timestamp`. The record is durable when this returns.
    ///
    /// # Errors
    /// `record-invalid` for a body that the client would not take for a record, or would not see, with nothing
    /// written; `snapshot-changed` if somebody wrote before the first record; the faults `lease-lost`, `raced`, `io`.
    pub fn append(&mut self, body: &[u8], now: Timestamp) -> Result<Acknowledgement> {
        let uuid = record_uuid(self.agent, &self.session_id, &self.operation_id, self.written);
        let line = self.line(body, &uuid, now)?;
        let (lease, agent_lease) = (&self.lease, &self.agent_lease);
        let appended = self.appender.append_line(&line, &|| {
            lease.verify()?;
            agent_lease.as_ref().map_or(Ok(()), AgentLease::verify)
        });
        if let Err(error) = appended {
            lease.leave_unmended();
            return Err(error);
        }
        let parent = std::mem::replace(&mut self.parent, RecordId::new(uuid.clone()));
        self.written += 1;
        Ok(Acknowledgement { uuid, parent_uuid: parent.to_string() })
    }

    fn line(&self, body: &[u8], uuid: &str, now: Timestamp) -> Result<Vec<u8>> {
        let fill = Fill {
            uuid,
            parent: self.parent.as_str(),
            session_id: &self.session_id,
            timestamp: &format!("{now:.3}"),
        };
        let line = body::line(body, &fill).map_err(|why| invalid(&why))?;
        let read = dialect::of(self.agent)
            .read(&line)
            .map_err(Error::io("check a record for", self.appender.path()))?;
        match read.records.as_slice() {
            [one] if read.diagnostics.is_empty() && read.ids.text(one.id) == uuid => {
                let kept_out = [Flags::UNSEEN, Flags::PROGRESS, Flags::SIDECHAIN];
                if kept_out.into_iter().any(|flag| one.flags.has(flag)) {
                    // The next record would hang on it, and the client would take that one for an orphan.
                    return Err(invalid("is of a kind that the client keeps out of the conversation").into());
                }
                Ok(line)
            }
            _ => {
                let why = read.diagnostics.first().and_then(|d| serde_json::to_value(d).ok());
                let why =
                    why.as_ref().and_then(|d| d["reason"].as_str()).unwrap_or("the client would skip it");
                Err(invalid(&format!("is no record: {why}")).into())
            }
        }
    }

    /// The transcript it writes.
    pub fn transcript(&self) -> &Path {
        self.appender.path()
    }

    /// How many records the operation has written.
    pub fn written(&self) -> u64 {
        self.written
    }
}

fn record_uuid(agent: Agent, session_id: &str, operation_id: &str, n: u64) -> String {
    derived_uuid(&format!("record-{n}"), agent, session_id, operation_id)
}

/// Whether the client would go on at a record: below it, or with it as the last one that it has.
fn ends_at(dialect: &dyn Dialect, t: &Transcript, snapshot: &Snapshot, record: &RecordId) -> Result<bool> {
    let simulated =
        dialect.simulate(t, snapshot, &Client::default()).map_err(Error::io("read", &snapshot.path))?;
    let Simulated::Resumes(resumed) = simulated else { return Ok(false) };
    let ends = [Some(resumed.tail), resumed.history.last().copied()];
    Ok(ends.into_iter().flatten().any(|id| t.id(id) == *record))
}

/// `why` completes "a record body ...".
fn invalid(why: &str) -> Refusal {
    Refusal::new(Code::RecordInvalid, format!("a record body {why}"))
}

/// Whether the file still holds what the operation was decided on and no record more. The fragment of a record that
/// the operation did not get to write is none.
fn is_as_recorded(
    host: &Host<'_>,
    operation_id: &str,
    session: &Target,
    snapshot: &Snapshot,
    session_id: &str,
) -> Result<bool> {
    let read = Ledger::open(host.state.root(), session.agent, session_id).read()?;
    let recorded = read.operation(operation_id).and_then(|s| s.pending.body.snapshot.clone());
    let Some(recorded) = recorded else { return Ok(false) };
    if snapshot.transcript.records.len() as u64 != recorded.records {
        return Ok(false);
    }
    let digest =
        pending::prefix_digest(snapshot, recorded.bytes).map_err(Error::io("read", &snapshot.path))?;
    Ok(digest.as_ref() == Some(&recorded.digest))
}
