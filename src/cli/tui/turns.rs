//! Sessions of Reasonix are forked at the ends of turns: which rows end one.

use hashbrown::HashMap;

use crate::{
    cli::session::Opened,
    dialect::reasonix::{commit::Commits, projection::Projection, turns_of},
    record::{Agent, RecordKind},
    refusal::{Code, Result},
    store::agents::reasonix::ReasonixSession,
    transcript::{RecordIx, Transcript},
};

/// A turn that ends somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Its id.
    pub turn: String,
    /// Why there can be no child of it.
    pub refused: Option<Code>,
}

/// By record of the session that was asked for the turn that ends with it; nothing for other agents. What is no message
/// behind the last one of a turn ends it as well, the end of the session included.
///
/// # Errors
/// As for opening the session.
pub fn ends(opened: &Opened) -> Result<HashMap<RecordIx, Ends>> {
    let mut found = HashMap::new();
    if opened.dialect.agent() != Agent::Reasonix {
        return Ok(found);
    }
    let t = &opened.snapshot.transcript;
    let session = ReasonixSession::open(&opened.path)?;
    let contents = session.contents();
    let mut commits = Commits::new(&session.log, &contents);
    let mut projection = Projection::default();
    // The records of the log: where each stands in it. An event that made none has no record of its name.
    let mut records: Vec<(u64, RecordIx)> = Vec::new();
    while let Some(commit) = commits.next_commit().map_err(|e| e.into_error(session.log.path()))? {
        projection.apply(&commit);
        for event in &commit.events {
            let own = format!("{}/{}", session.id, event.id);
            let record = [own.as_str(), &event.id].into_iter().find_map(|id| record_of(t, id));
            records.extend(record.map(|record| (event.seq, record)));
        }
    }
    records.extend(record_of(t, &session.id).map(|end| (u64::MAX, end)));
    for turn in turns_of(&projection, &session.id).turns {
        let refused = match turn.available {
            Ok(_) => None,
            Err(Code::TurnOpen | Code::TurnUnclosed) => continue,
            Err(code) => Some(code),
        };
        let ends = Ends { turn: turn.id, refused };
        // Of turns that one commit closed the last one counts: it ends behind the others.
        let boundary = if ends.refused == Some(Code::BoundaryShared) { turn.end } else { turn.boundary };
        let at = records.partition_point(|(seq, _)| *seq <= boundary);
        let is_message = |record: RecordIx| t.record(record).kind != RecordKind::System;
        let behind = records[at..].iter().take_while(|(_, record)| !is_message(*record));
        let last = records[..at].iter().rposition(|(_, record)| is_message(*record)).unwrap_or(at);
        for (_, record) in records[last..at].iter().chain(behind) {
            found.insert(*record, ends.clone());
        }
    }
    Ok(found)
}

fn record_of(t: &Transcript, id: &str) -> Option<RecordIx> {
    t.first(t.ids.find(id)?)
}
