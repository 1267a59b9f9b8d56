//! The child of a fork: planned, written, published. For sessions that are one file of lines.

use std::path::{Path, PathBuf};

use crate::{
    dialect::{self, Client},
    refusal::{Error, Result},
    resume::{
        Host,
        chain::{self, Seedable},
        fork::{ForkRequest, found::Found},
        pending,
        seed::{self, Child},
    },
    selection::SeedMode,
    store::{
        file,
        ledger::entry::{Body, SeedRecord, State},
        snapshot::{Growth, Snapshot},
    },
};

/// A fork that is fixed, and of which nothing is written.
pub(super) struct Planned {
    /// The source, as if it ended where the child does.
    prefix: Snapshot,
    chain: Seedable,
    client: Client,
    expected: Vec<crate::record::RecordId>,
    source_session: String,
    record: SeedRecord,
}

/// A child that was published.
pub(super) struct Made {
    /// Its length, by which it is seen whether somebody went on in it.
    pub bytes: Option<u64>,
    pub warnings: Vec<String>,
}

/// The place that an operation on a session recorded.
pub(super) fn recorded(session_id: &str, body: &Body) -> Option<Found> {
    let snapshot = body.snapshot.as_ref()?;
    // Of a session of several files the one log that is forked.
    let (bytes, digest) = match snapshot.parts.first() {
        Some(part) => (part.bytes, &part.digest),
        None => (snapshot.bytes, &snapshot.digest),
    };
    Some(Found {
        session_id: session_id.to_owned(),
        cut: body.cut.clone()?,
        prefix: bytes,
        digest: Some(digest.clone()),
    })
}

/// Reads the source up to the cut and fixes everything.
pub(super) fn plan(
    request: &ForkRequest,
    host: &Host<'_>,
    operation_id: &str,
    found: &Found,
) -> Result<Planned> {
    let (path, agent) = (&request.target.path, request.target.agent);
    let dialect = dialect::of(agent);
    let prefix = Snapshot::take_up_to(path, dialect, found.prefix)?;
    let digest = prefix.parts.first().map(|part| &part.digest).or(prefix.digest.as_ref());
    if found.digest.is_some() && found.digest.as_ref() != digest {
        return Err(prefix.was_rewritten());
    }
    request.seen.as_ref().map_or(Ok(()), |seen| seen.require_beginning(&prefix))?;
    let t = &prefix.transcript;
    let chain = chain::seedable(dialect, t, &prefix, &found.cut.record, false, false)
        .map_err(Error::io("read", path))??;
    let version = request.client.version.clone().or_else(|| t.client_version.clone());
    let client = Client { version, ..request.client.clone() };
    let expected = dialect.expected(t, &chain.chain, &client).history;
    let last = seed::below(agent, &expected, &found.cut.record)?;
    let mut record = SeedRecord {
        mode: SeedMode::Fork,
        session_id: found.session_id.clone(),
        transcript: path.display().to_string(),
        parent_uuid: last,
        chain: chain.chain.uuids.len() as u64,
        chain_digest: chain.chain.digest(t),
        gaps: Vec::new(),
        anchor: None,
        temporary: None,
        backups: None,
        agent_lock_owner: None,
        write: false,
    };
    seed::name_child(host, agent, path, operation_id, &mut record);
    let source_session = found.session_id.clone();
    Ok(Planned { prefix, chain, client, expected, source_session, record })
}

impl Planned {
    pub fn seed(&self) -> &SeedRecord {
        &self.record
    }

    pub fn child(&self) -> &Path {
        Path::new(&self.record.transcript)
    }

    /// The pending entry.
    pub fn body(&self, host: &Host<'_>, operation_id: &str, digest: &str, found: &Found) -> Body {
        let mut body =
            pending::empty(operation_id, digest, State::Pending, &self.prefix.path.display().to_string());
        body.snapshot = Some(self.prefix.identity());
        body.cut = Some(found.cut.clone());
        body.who = Some(host.who.clone());
        body.seed = Some(self.record.clone());
        body
    }

    /// Writes the child, proves it by the client simulation, and gives it its name.
    pub fn publish(&self, request: &ForkRequest, host: &Host<'_>, operation_id: &str) -> Result<Made> {
        let leaf = self.prefix.transcript.id(self.chain.leaf);
        let child = Child {
            agent: request.target.agent,
            snapshot: &self.prefix,
            session_id: &self.source_session,
            chain: &self.chain.chain,
            leaf: &leaf,
            expected: &self.expected,
            client: self.client.clone(),
            record: &self.record,
            operation_id,
        };
        child.publish(host, || self.prefix.check(Growth::AllowAtEnd))?;
        let bytes = file::length(&PathBuf::from(&self.record.transcript))?;
        Ok(Made { bytes, warnings: self.chain.warnings.clone() })
    }
}
