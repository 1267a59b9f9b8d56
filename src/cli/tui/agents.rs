//! The conversations of subagents that lie in files of their own: where they hang, and what they hold once they are
//! opened.

use std::{cell::OnceCell, io};

use hashbrown::HashMap;

use crate::{
    cli::session::Opened,
    dialect::{Dialect, View, claude},
    record::{Agent, RecordId},
    store::{
        agents::claude::{Subagent, subagents},
        snapshot::Snapshot,
    },
    transcript::{RecordIx, Source},
};

/// A longer conversation is not read behind a key; it can be looked at by itself.
const MOST: u64 = 16 * 1024 * 1024;

/// One of them.
pub struct Aside {
    /// What was found of it.
    pub of: Subagent,
    /// Read when it is opened for the first time.
    read: OnceCell<Result<Read, String>>,
}

/// What was read of it.
pub struct Read {
    snapshot: Snapshot,
    /// Those that define a uuid, in file order.
    records: Vec<RecordIx>,
}

/// All of a session, and the record that each hangs below; none for the end of the session.
pub fn find(opened: &Opened) -> io::Result<(Vec<Aside>, Vec<Option<RecordIx>>)> {
    if opened.dialect.agent() != Agent::Claude {
        return Ok((Vec::new(), Vec::new()));
    }
    let found = subagents::of(&opened.path, &opened.snapshot.transcript.session_ids);
    let below = started_at(opened, &found)?;
    Ok((found.into_iter().map(|of| Aside { of, read: OnceCell::new() }).collect(), below))
}

/// The record whose call started each: as the client notes it beside the conversation, else as a result says.
fn started_at(opened: &Opened, found: &[Subagent]) -> io::Result<Vec<Option<RecordIx>>> {
    let mut below = vec![None; found.len()];
    let Some(rounds) = &opened.snapshot.transcript.rounds else { return Ok(below) };
    let bytes = |record| opened.snapshot.bytes(opened.snapshot.transcript.record(record).span);
    let ids = found.iter().enumerate().filter_map(|(at, agent)| Some((agent.tool_use_id.as_deref()?, at)));
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    ids.for_each(|(id, at)| wanted.entry(id).or_default().push(at));
    for calls in rounds.calls.chunk_by(|a, b| a.0 == b.0) {
        if wanted.is_empty() {
            break;
        }
        let record = calls[0].0;
        for call in opened.dialect.decode(&bytes(record)?).calls {
            wanted
                .remove(call.as_str())
                .unwrap_or_default()
                .into_iter()
                .for_each(|at| below[at] = Some(record));
        }
    }
    // Results are decoded only where the calls do not tell.
    if below.iter().any(Option::is_none) {
        let mut results = HashMap::new();
        for &(record, _) in &rounds.answers {
            if let Some(agent) = claude::agent_of_result(&bytes(record)?) {
                results.entry(agent).or_insert(record);
            }
        }
        for (below, agent) in below.iter_mut().zip(found) {
            *below = below.or_else(|| results.get(&agent.agent_id).copied());
        }
    }
    Ok(below)
}

impl Aside {
    /// What it holds, which is read now if it was not before.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn read(&self) -> Result<&Read, &str> {
        self.read.get_or_init(|| Read::of(&self.of)).as_ref().map_err(String::as_str)
    }

    /// What it holds, if it was read.
    pub fn known(&self) -> Option<&Read> {
        self.read.get()?.as_ref().ok()
    }
}

impl Read {
    fn of(agent: &Subagent) -> Result<Read, String> {
        let look = || format!("`offshoot tree {}` shows it by itself", agent.path.display());
        if agent.bytes > MOST {
            return Err(format!("{} MB are too much to be opened here: {}", agent.bytes / 1_000_000, look()));
        }
        let snapshot = Snapshot::take(&agent.path, &claude::Claude, false)
            .map_err(|e| format!("cannot be read: {e}"))?;
        let t = &snapshot.transcript;
        let records: Vec<RecordIx> =
            (0..).zip(&t.records).filter(|(ix, r)| t.first(r.id) == Some(*ix)).map(|(ix, _)| ix).collect();
        if records.is_empty() {
            return Err("it holds no record".to_owned());
        }
        Ok(Read { snapshot, records })
    }

    /// How many records it shows.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// One of them, counted from 1.
    pub fn record(&self, member: u32) -> Option<RecordIx> {
        self.records.get((member as usize).checked_sub(1)?).copied()
    }

    /// The snapshot that its records stand in.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The id of a record.
    pub fn id(&self, record: RecordIx) -> RecordId {
        let t = &self.snapshot.transcript;
        t.id(t.record(record).id)
    }

    /// What a record holds.
    ///
    /// # Errors
    /// What the file system says.
    pub fn view(&self, record: RecordIx) -> io::Result<View> {
        let span = self.snapshot.transcript.record(record).span;
        Ok(claude::Claude.view(&self.snapshot.bytes(span)?))
    }
}
