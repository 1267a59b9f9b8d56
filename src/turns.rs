//! Turn boundaries to fork targets. Pure.
//!
//! That a turn ended is proved by the persisted records alone, never by the text of an answer, by time that has passed,
//! or by what a process does: each dialect says which records prove it ([`Dialect::turns`]) and gives its turns in
//! the order of the log. This module numbers them, binds each to the bytes before its boundary ([`Anchor`]), and
//! finds the one that a caller names. A history without proof has no targets at all; nothing is guessed.
//!
//! [`Dialect::turns`]: crate::dialect::Dialect::turns

use std::{collections::BTreeMap, io};

use serde_json::{Value, json};

use crate::{
    record::{RecordId, can_mean},
    refusal::{Code, Refusal, Result},
    transcript::{PrefixDigest, Source},
};

mod anchor;

pub use anchor::Anchor;

/// How a turn ended, by its log. The names are those of the client with the most of them (Reasonix 1.38.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was answered.
    Completed,
    /// The user or the client stopped it.
    Interrupted,
    /// An error ended it.
    Failed,
    /// It ended in a state that the client would have to repair.
    RecoveryRequired,
    /// The model broke the protocol.
    ProtocolFailed,
    /// It has ended, and the log does not say how.
    Unknown,
    /// It has begun and nothing tells of its end; it may be going on.
    InProgress,
    /// Nothing tells of its end, and the log went on behind it.
    Unclosed,
}

impl Status {
    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Interrupted => "interrupted",
            Status::Failed => "failed",
            Status::RecoveryRequired => "recovery_required",
            Status::ProtocolFailed => "protocol_failed",
            Status::Unknown => "unknown",
            Status::InProgress => "in_progress",
            Status::Unclosed => "unclosed",
        }
    }
}

/// Where a child that is forked at a turn ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The last record of the child.
    pub record: RecordId,
    /// Bytes of the source up to the end of the boundary: the commit or line that closed the turn, whole.
    pub prefix: u64,
}

/// A turn as its log tells of it. Positions are the dialect's own: numbers of lines from 1 (Qwen Code, Claude Code), or
/// sequence numbers of events (Reasonix). They are 0 where there is no such position yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What names it: the uuid of its prompt, or the id that the log gives it.
    pub id: String,
    /// Where it begins.
    pub start: u64,
    /// Where it ended.
    pub end: u64,
    /// The last position of the commit that closed it.
    pub boundary: u64,
    /// How it ended.
    pub status: Status,
    /// The reply that it ended with, by the log.
    pub message_id: Option<String>,
    /// Where a fork cuts, or why there can be none: `turn-open`, `turn-unclosed`, `active-authority`,
    /// `boundary-shared`, `history-unverifiable`.
    pub available: Result<Cut, Code>,
}

/// The turns of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Whether the log has records that prove where turns begin and end. Without them there are no turns.
    pub verifiable: bool,
    /// In the order of the log.
    pub turns: Vec<Turn>,
    /// Ids of turns that the log has, and that are not among these because their prompt was taken back.
    pub hidden: Vec<String>,
}

/// A turn that one may ask to fork at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its number among those listed, from 1.
    pub number: u64,
    /// What the log tells of it.
    pub turn: Turn,
    /// Binds it to the source as it is; none for one that is not available.
    pub anchor: Option<Anchor>,
}

/// All targets of one source: the answer to `targets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The session that they belong to.
    pub session_id: String,
    /// See [`Turns::verifiable`].
    pub verifiable: bool,
    /// In the order of the log.
    pub targets: Vec<Target>,
    /// See [`Turns::hidden`].
    pub hidden: Vec<String>,
}

impl Targets {
    /// Numbers the turns and binds each that is available to the bytes of `source` before its boundary. The source is
    /// read once.
    ///
    /// # Errors
    /// Only what `source` reports.
    pub fn of(turns: Turns, session_id: &str, source: &dyn Source) -> io::Result<Targets> {
        let ends = turns.turns.iter().filter_map(|t| Some(t.available.as_ref().ok()?.prefix));
        let digests = prefix_digests(source, ends)?;
        let bind = |(number, turn): (u64, Turn)| {
            let anchor = turn.available.as_ref().ok().map(|cut| Anchor {
                session_id: session_id.to_owned(),
                turn_id: turn.id.clone(),
                boundary: turn.boundary,
                digest: digests[&cut.prefix].clone(),
            });
            Target { number, turn, anchor }
        };
        Ok(Targets {
            session_id: session_id.to_owned(),
            verifiable: turns.verifiable,
            targets: (1..).zip(turns.turns).map(bind).collect(),
            hidden: turns.hidden,
        })
    }

    /// The target that is named, by its id or an unambiguous prefix of 4 or more characters. A number is no name: an id
    /// that is not there is never taken for another turn. One that is there and hidden is known, and refused as such.
    ///
    /// # Errors
    /// `history-unverifiable`, `unknown-turn`, `id-ambiguous`.
    pub fn find(&self, name: &str) -> Result<&Target> {
        if !self.verifiable {
            return Err(Refusal::new(
                Code::HistoryUnverifiable,
                format!("no record of session `{}` proves where a turn ended", self.session_id),
            )
            .hint("`offshoot fork --at ID` forks at a record, or `offshoot resume` at a leaf")
            .detail(json!({"sessionId": self.session_id}))
            .into());
        }
        let exact: Vec<&Target> = self.targets.iter().filter(|t| t.turn.id == name).collect();
        if let Some(last) = exact.last() {
            // Of several turns with one id the one that can be forked at is meant: they share a boundary.
            return Ok(exact.iter().find(|t| t.turn.available.is_ok()).unwrap_or(last));
        }
        if self.hidden.iter().any(|id| id == name) {
            return Err(self.retracted(name).into());
        }
        let all = self.targets.iter().map(|t| &t.turn.id).chain(&self.hidden);
        let mut ids: Vec<&str> = all.map(String::as_str).collect();
        ids.retain(|id| can_mean(name, id));
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [id] => self.find(id),
            [] => Err(Refusal::new(
                Code::UnknownTurn,
                format!("session `{}` has no turn `{name}`", self.session_id),
            )
            .hint("`offshoot targets` lists its turns")
            .detail(json!({"sessionId": self.session_id, "turnId": name}))
            .into()),
            _ => Err(Refusal::new(Code::IdAmbiguous, format!("{} turn ids begin with `{name}`", ids.len()))
                .hint("give more characters")
                .detail(json!({"sessionId": self.session_id, "turnId": name}))
                .into()),
        }
    }

    fn retracted(&self, turn: &str) -> Refusal {
        Refusal::new(
            Code::HistoryUnverifiable,
            format!("the prompt of turn `{turn}` was taken back: no record proves what stands at its end"),
        )
        .hint("`offshoot targets` lists the turns that one may fork at")
        .detail(json!({"sessionId": self.session_id, "turnId": turn}))
    }

    /// The target as JSON prints it.
    pub fn to_json(&self) -> Value {
        json!(self.targets.iter().map(Target::to_json).collect::<Vec<_>>())
    }
}

impl Target {
    /// Where to cut.
    ///
    /// # Errors
    /// The reason why one cannot fork here.
    pub fn cut(&self) -> Result<&Cut> {
        self.turn.available.as_ref().map_err(|&code| refused(&self.turn, code).into())
    }

    fn to_json(&self) -> Value {
        let turn = &self.turn;
        let mut json = json!({
            "turnId": turn.id, "turnNumber": self.number,
            "start": turn.start, "end": turn.end, "boundary": turn.boundary, "status": turn.status.name(),
        });
        if let Some(id) = &turn.message_id {
            json["messageId"] = json!(id);
        }
        json["available"] = json!(turn.available.is_ok());
        if let Err(code) = &turn.available {
            json["reason"] = json!(code.as_str());
        }
        json["anchor"] = json!(self.anchor.as_ref().map(Anchor::to_string));
        json
    }
}

/// Why one cannot fork at a turn.
fn refused(turn: &Turn, code: Code) -> Refusal {
    let id = &turn.id;
    let (why, hint) = match code {
        Code::TurnOpen => (
            format!("turn `{id}` has not ended, by its log"),
            "fork at an earlier turn, or try again when it has",
        ),
        Code::TurnUnclosed => (
            format!("turn `{id}` was never closed: the log went on without its end"),
            "fork at an earlier turn, or at a record of this one with `offshoot fork --at ID`",
        ),
        Code::ActiveAuthority => (
            format!("when turn `{id}` was closed, a tool call or a question to the user was still open"),
            "fork at another turn",
        ),
        Code::BoundaryShared => (
            format!("turn `{id}` was closed by the same commit as a later one, which a fork would inherit"),
            "fork at the later turn, or at an earlier one",
        ),
        _ => (format!("the log does not prove where turn `{id}` ended"), "fork at another turn"),
    };
    Refusal::new(code, why).hint(hint).detail(json!({"turnId": id, "boundary": turn.boundary}))
}

/// BLAKE3 (bare hex) of the first bytes of a source, for several lengths at once.
fn prefix_digests(source: &dyn Source, ends: impl Iterator<Item = u64>) -> io::Result<BTreeMap<u64, String>> {
    let mut digests: BTreeMap<u64, String> = ends.map(|end| (end, String::new())).collect();
    let mut rolling = PrefixDigest::default();
    for (&end, digest) in &mut digests {
        rolling.carry_on(source, end)?;
        *digest = rolling.hex();
    }
    Ok(digests)
}

#[cfg(test)]
mod tests;
