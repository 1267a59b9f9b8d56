//! What can be done at a record.

use std::fmt::Display;

use crate::{record::RecordId, store::snapshot::Change};

/// What is done with the record that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new session that ends with the record.
    Fork,
    /// The client is made to continue at the record, in the same session.
    Resume,
    /// What descends from the record is dropped; a backup is kept.
    Overwrite,
}

impl Action {
    /// In the order of the menu.
    pub const ALL: [Action; 3] = [Action::Fork, Action::Resume, Action::Overwrite];

    /// Its name in `tree --emit`.
    pub fn name(self) -> &'static str {
        match self {
            Action::Fork => "fork",
            Action::Resume => "resume",
            Action::Overwrite => "overwrite",
        }
    }

    /// What it says in the menu.
    pub fn title(self) -> &'static str {
        match self {
            Action::Fork => "f  Fork here: a new session that ends with this record",
            Action::Resume => "r  Resume here: an anchor in this session",
            Action::Overwrite => "o  Overwrite: drop what comes after; a backup is kept",
        }
    }

    /// Whether it writes to the session itself.
    pub fn writes_here(self) -> bool {
        self != Action::Fork
    }

    /// Whether it is refused because of what the file has become since it was read: of a fork all that counts is that
    /// the beginning still stands there, of what writes to the file that nothing is in it that nobody saw.
    pub fn is_stopped_by(self, change: Change) -> bool {
        match change {
            Change::Touched => false,
            Change::Grew(_) => self.writes_here(),
            Change::Cut | Change::Replaced | Change::Gone => true,
        }
    }

    /// The name of the command that does the same.
    pub fn verb(self) -> &'static str {
        match self {
            Action::Fork => "fork",
            Action::Resume => "resume",
            Action::Overwrite => "truncate",
        }
    }

    /// The command that does the same.
    pub fn command(self, session: impl Display, record: &RecordId) -> String {
        match self {
            Action::Fork => format!("offshoot fork {session} --at {record}"),
            Action::Resume => format!("offshoot resume {session} --leaf {record} --seed in-place"),
            Action::Overwrite => format!("offshoot truncate {session} --after {record}"),
        }
    }
}
