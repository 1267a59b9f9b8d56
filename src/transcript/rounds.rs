//! What a format adds that writes one message of the model as several records and keeps more than parents.

use super::{IdIx, KeptNote, RecordIx, Span};

/// Facts of single records, beside what every format has. Whatever is listed by record is in file order.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    /// How many ids of messages and of tool calls there are. They have numbers of their own.
    pub names: usize,
    /// Of each record the message that it is a part of, if it is an assistant's.
    pub message: Vec<Option<IdIx>>,
    times: Vec<i64>,
    /// Calls that a record makes.
    pub calls: Vec<(RecordIx, IdIx)>,
    /// Calls that a record answers.
    pub answers: Vec<(RecordIx, IdIx)>,
    /// The record (an id of the transcript) whose call a record says it answers.
    pub sources: Vec<(RecordIx, IdIx)>,
    /// The record (an id of the transcript) that a boundary continues without having it as its parent.
    pub logical: Vec<(RecordIx, IdIx)>,
    /// What compactions keep of what stands before them, by boundary, in file order.
    pub kept: Vec<KeptNote>,
    /// Lines that keep the state of files for one record, in file order.
    pub snapshots: Vec<FileSnapshot>,
    /// The last line of each kind that gives the session a title, in the order in which the kinds count.
    pub titles: [Option<Span>; 3],
    /// All pins, in file order.
    pub pins: Vec<Pin>,
    /// The first line that is the JSON value `null`.
    pub null_line: Option<u64>,
}

/// Stands for no time: no calendar reaches back so far.
const NO_TIME: i64 = i64::MIN;

impl Rounds {
    /// Notes when the next record was written, in milliseconds since 1970; none if it has no time.
    pub fn push_time(&mut self, time: Option<i64>) {
        self.times.push(time.unwrap_or(NO_TIME));
    }

    /// When a record was written, in milliseconds since 1970; none if it has no time.
    pub fn time(&self, record: RecordIx) -> Option<i64> {
        Some(self.times[record as usize]).filter(|&time| time != NO_TIME)
    }

    /// The latest time of all.
    pub fn latest(&self) -> Option<i64> {
        self.times.iter().copied().max().filter(|&time| time != NO_TIME)
    }

    /// The last pin of the file.
    pub fn pin(&self) -> Option<Pin> {
        self.pins.last().copied()
    }
}

/// A line that keeps the state of files for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSnapshot {
    /// The record, an id of the transcript.
    pub message: IdIx,
    /// How many records stand before it.
    pub before: RecordIx,
    /// Where its bytes stand.
    pub span: Span,
}

/// A line that tells the client where to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The record that it names, an id of the transcript.
    pub target: IdIx,
    /// Whether it also holds for an ancestor of the newest record.
    pub explicit: bool,
    /// How many records stand before it.
    pub before: RecordIx,
}

/// The part of a list by record that belongs to one record.
pub fn of_record(list: &[(RecordIx, IdIx)], record: RecordIx) -> &[(RecordIx, IdIx)] {
    let from = list.partition_point(|&(r, _)| r < record);
    let len = list[from..].partition_point(|&(r, _)| r == record);
    &list[from..from + len]
}
