//! From commits to turns: which have ended, by the log, and whether one may fork there.
//!
//! Only `turn/start` and `turn/end` open and close turns, as in the client. What may be inherited is decided when the
//! commit that closed a turn is complete, and never again: a later commit may settle what an earlier fork would inherit
//! unsettled. Differences from the client 1.38.11, all on purpose:
//!
//! - the reply of a turn is read from the log alone, so that every way of reading gives the same one;
//! - a turn that was never closed stays listed when another one begins;
//! - of several turns closed in one commit only the last can be forked at: the earlier ones would inherit it.

use std::mem;

use hashbrown::{HashMap, HashSet};

use super::{
    commit::Commit,
    event::{Fact, Message, Role},
};

/// A turn, as its log tells of it. Sequences count from 1; 0 is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its id: that of the commit that began it.
    pub id: String,
    /// The sequence of `turn/start`.
    pub start: u64,
    /// The sequence of `turn/end`.
    pub end: u64,
    /// The last sequence of the commit that closed it.
    pub boundary: u64,
    /// How it ended, in the client's words; `in_progress` if it did not.
    pub status: String,
    /// Its last reply.
    pub message_id: Option<String>,
    /// Where that leaves a fork.
    pub state: State,
    /// The commit that closed it.
    pub closed_by: Option<Closing>,
}

/// The commit that closed a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Its id.
    pub commit_id: String,
    /// Its digest, in hex.
    pub sha256: String,
    /// Where it ends in the log, in bytes.
    pub end: u64,
}

/// Whether one may fork at a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One may.
    Available,
    /// It has not ended.
    Open,
    /// It never ended: another one began.
    Unclosed,
    /// A turn, a tool call or a question was open at its boundary.
    ActiveAuthority,
    /// A later turn was closed by the same commit.
    BoundaryShared,
}

#[derive(Debug)]
struct OpenTurn {
    id: String,
    start: u64,
    reply: Option<String>,
}

impl OpenTurn {
    fn unended(&self, state: State) -> Turn {
        Turn {
            id: self.id.clone(),
            start: self.start,
            end: 0,
            boundary: 0,
            status: "in_progress".to_owned(),
            message_id: self.reply.clone(),
            state,
            closed_by: None,
        }
    }
}

/// The state of a session at the end of the commits applied so far.
#[derive(Debug, Default)]
pub struct Projection {
    open: Option<OpenTurn>,
    turns: Vec<Turn>,
    questions: HashSet<String>,
    tools: HashSet<String>,
    /// Ids of the messages that the history holds.
    messages: HashSet<String>,
    /// The turn of each user message that is there.
    inputs: HashMap<String, String>,
    /// The turn of each user message that was retracted.
    retracted: HashMap<String, String>,
    hidden: HashSet<String>,
    last_seq: u64,
}

impl Projection {
    /// Applies a commit. To be called in order.
    pub fn apply(&mut self, commit: &Commit) {
        let before = self.turns.len();
        self.last_seq = commit.last_seq();
        for event in &commit.events {
            self.event(commit, event.seq, &event.fact);
        }
        let active = self.has_authority();
        let closed = |t: &&mut Turn| t.state == State::Available;
        let mut last = true;
        for turn in self.turns[before..].iter_mut().rev().filter(closed) {
            turn.state = match (last, active) {
                (false, _) => State::BoundaryShared,
                (true, true) => State::ActiveAuthority,
                (true, false) => State::Available,
            };
            last = false;
        }
    }

    /// Whether a turn, a tool call or a question is open: what a child must not inherit.
    pub fn has_authority(&self) -> bool {
        self.open.is_some() || !self.questions.is_empty() || !self.tools.is_empty()
    }

    /// The sequence of the last event applied.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Whether a turn is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the log tells of turns at all.
    pub fn is_verifiable(&self) -> bool {
        self.open.is_some() || !self.turns.is_empty()
    }

    /// The turns in the order of their start, the open one last. Those whose prompt was retracted are not there.
    pub fn turns(&self) -> Vec<Turn> {
        let visible = |t: &&Turn| !self.hidden.contains(&t.id);
        let mut turns: Vec<Turn> = self.turns.iter().filter(visible).cloned().collect();
        turns.extend(self.open.as_ref().map(|open| open.unended(State::Open)));
        turns
    }

    /// Ids of the closed turns that are there and not listed, in order.
    pub fn hidden_turns(&self) -> Vec<String> {
        self.turns.iter().filter(|t| self.hidden.contains(&t.id)).map(|t| t.id.clone()).collect()
    }

    fn event(&mut self, commit: &Commit, seq: u64, fact: &Fact) {
        match fact {
            Fact::TurnStart => self.start(commit, seq),
            Fact::TurnEnd(status) => self.end(commit, seq, status),
            Fact::Message(m) => {
                if self.messages.insert(m.id.clone()) {
                    self.message(commit, m);
                }
            }
            Fact::Upsert(m) => {
                self.messages.insert(m.id.clone());
                if let Some(open) = self.open.as_mut().filter(|o| o.reply.as_ref() == Some(&m.id))
                    && (m.local_only || m.role != Role::Assistant)
                {
                    open.reply = None;
                }
                self.message(commit, m);
            }
            Fact::Retract(ids) => ids.iter().for_each(|id| self.retract(id)),
            Fact::Replace(messages) => {
                self.messages = messages.iter().map(|m| m.id.clone()).collect();
                self.inputs.clear();
                self.retracted.clear();
                self.hidden.clear();
                messages.iter().for_each(|m| self.input("", m));
            }
            Fact::ToolOpen(id) => drop(self.tools.insert(id.clone())),
            Fact::ToolDone(id) => drop(self.tools.remove(id)),
            Fact::Asked(id) => drop(self.questions.insert(id.clone())),
            Fact::Settled(id) => drop(self.questions.remove(id)),
            Fact::Title(_) | Fact::Other => {}
        }
    }

    fn start(&mut self, commit: &Commit, seq: u64) {
        let id = &commit.begin.turn_id;
        // A turn without an id is none, to the client too.
        let next = (!id.is_empty()).then(|| OpenTurn { id: id.clone(), start: seq, reply: None });
        if let Some(open) = mem::replace(&mut self.open, next) {
            self.turns.push(open.unended(State::Unclosed));
        }
    }

    fn end(&mut self, commit: &Commit, seq: u64, status: &str) {
        let Some(open) = self.open.take() else { return };
        self.turns.push(Turn {
            id: open.id,
            start: open.start,
            end: seq,
            boundary: commit.last_seq(),
            status: status.to_owned(),
            message_id: open.reply,
            state: State::Available,
            closed_by: Some(Closing {
                commit_id: commit.begin.commit_id.clone(),
                sha256: commit.sha256.clone(),
                end: commit.end,
            }),
        });
    }

    fn message(&mut self, commit: &Commit, m: &Message) {
        if m.local_only || m.role != Role::Assistant {
            self.forget_reply(&m.id);
        }
        if let Some(open) = self.open.as_mut().filter(|_| m.is_reply) {
            open.reply = Some(m.id.clone());
        }
        self.input(&commit.begin.turn_id, m);
    }

    /// Notes which turn a user message belongs to; one that comes back belongs to the turn that it was retracted from.
    fn input(&mut self, turn: &str, m: &Message) {
        if m.role != Role::User {
            return;
        }
        let original = self.retracted.remove(&m.id);
        if self.inputs.contains_key(&m.id) {
            return;
        }
        let turn = original.unwrap_or_else(|| turn.to_owned());
        self.hidden.remove(&turn);
        self.inputs.insert(m.id.clone(), turn);
    }

    fn retract(&mut self, id: &str) {
        self.messages.remove(id);
        if let Some(open) = self.open.as_mut().filter(|o| o.reply.as_deref() == Some(id)) {
            open.reply = None;
        }
        self.forget_reply(id);
        if let Some(turn) = self.inputs.remove(id).filter(|turn| !turn.is_empty()) {
            self.retracted.insert(id.to_owned(), turn.clone());
            self.hidden.insert(turn);
        }
    }

    fn forget_reply(&mut self, id: &str) {
        for turn in self.turns.iter_mut().filter(|t| t.message_id.as_deref() == Some(id)) {
            turn.message_id = None;
        }
    }
}
