//! Commits: what a log consists of, each complete and verified, one frame in memory at a time.

use hashbrown::HashMap;
use sha2::{Digest, Sha256};

use super::{
    content::{Contents, Missing},
    event::{self, Fact},
    frame,
    ids::hex,
    record::{Begin, EventRecord, Record},
    trouble::Trouble,
};
use crate::transcript::Source;

/// A complete commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Its first record.
    pub begin: Begin,
    /// What happened in it, in order.
    pub events: Vec<Event>,
    /// The digest in its last record, which was verified, in hex.
    pub sha256: String,
    /// Where its first frame begins, in bytes.
    pub start: u64,
    /// Where its last frame ends, in bytes.
    pub end: u64,
}

/// An event, without its payload.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its id.
    pub id: String,
    /// Its position in the log.
    pub seq: u64,
    /// What it means.
    pub fact: Fact,
    /// Where its frame begins, in bytes.
    pub offset: u64,
    /// The length of that frame, in bytes.
    pub len: u32,
}

impl Commit {
    /// The sequence of its last event.
    pub fn last_seq(&self) -> u64 {
        self.begin.first_seq + (self.begin.event_count - 1)
    }
}

/// What is told of each event while a commit is read, before it is known to be complete.
pub type OnEvent<'a> = dyn FnMut(&Begin, &EventRecord, &[u8]) -> Result<(), Trouble> + 'a;

/// Reads the commits of a log in order.
///
/// What stands behind the last complete commit is invisible, as it is to the client: an unfinished frame, or a commit
/// without its end. Everything else that is not right is damage. After an error nothing more can be read.
pub struct Commits<'a> {
    source: &'a dyn Source,
    contents: &'a dyn Contents,
    next_seq: u64,
    /// Where the next frame begins.
    at: u64,
    /// Where the last complete commit ends.
    end: u64,
    operations: HashMap<String, String>,
}

impl<'a> Commits<'a> {
    /// A reader of a whole log; payloads that are elsewhere are looked for in `contents`.
    pub fn new(source: &'a dyn Source, contents: &'a dyn Contents) -> Self {
        Commits { source, contents, next_seq: 1, at: 0, end: 0, operations: HashMap::new() }
    }

    /// A reader of what stands behind a commit that was read before: it ends at byte `end`, with the event `last_seq`.
    /// Operations before it are not known, so that one that stands for two is not noticed across that place.
    pub fn behind(source: &'a dyn Source, contents: &'a dyn Contents, end: u64, last_seq: u64) -> Self {
        Commits { next_seq: last_seq + 1, at: end, end, ..Commits::new(source, contents) }
    }

    /// Where the last complete commit that was read ends, in bytes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The sequence of the last event that was read.
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// The next commit; none at the end of the log, or where its torn tail begins.
    ///
    /// # Errors
    /// Damage, a format or kind that is not known, or what the source reports.
    pub fn next_commit(&mut self) -> Result<Option<Commit>, Trouble> {
        self.next_with(None)
    }

    /// [`Commits::next_commit`], handing on every event with its payload on the way. The commit may turn out to be
    /// incomplete or damaged after that.
    ///
    /// # Errors
    /// As for [`Commits::next_commit`], and what `on_event` reports.
    pub fn next_with(&mut self, mut on_event: Option<&mut OnEvent<'_>>) -> Result<Option<Commit>, Trouble> {
        let start = self.at;
        let Some(first) = frame::read(self.source, start)? else { return Ok(None) };
        let begin = match Record::parse(&first.json, start)? {
            Record::Begin(begin) if begin.first_seq == self.next_seq => begin,
            Record::Begin(begin) => {
                let (found, expected) = (begin.first_seq, self.next_seq);
                return Err(Trouble::damaged(start, format!("sequence {found} where {expected} is due")));
            }
            Record::Event(_) | Record::End(_) => {
                return Err(Trouble::damaged(start, "a record outside of a commit"));
            }
        };
        if begin.first_seq.checked_add(begin.event_count).is_none() {
            return Err(Trouble::damaged(start, "more events than can be counted"));
        }
        let mut digest = Sha256::new();
        let mut absorb = |json: &[u8]| {
            digest.update(json);
            digest.update([0]);
        };
        absorb(&first.json);
        let mut events: Vec<Event> = Vec::new();
        // What is wrong with an event of a commit that may never have been completed.
        let mut wrong: Option<Trouble> = None;
        let mut at = first.end;
        loop {
            let Some(next) = frame::read(self.source, at)? else { return Ok(None) };
            let end = match Record::parse(&next.json, at)? {
                Record::Begin(_) => return Err(Trouble::damaged(at, "a commit inside of another")),
                Record::Event(record) => {
                    let due = begin.first_seq + events.len() as u64;
                    if events.len() as u64 >= begin.event_count || record.seq != due {
                        return Err(Trouble::damaged(at, format!("no event of sequence {due}")));
                    }
                    absorb(&next.json);
                    let fact = self.event(&begin, &record, at, on_event.as_deref_mut(), &mut wrong)?;
                    let (len, offset) = ((next.end - at) as u32, at);
                    events.push(Event { id: record.id, seq: record.seq, fact, offset, len });
                    at = next.end;
                    continue;
                }
                Record::End(end) => end,
            };
            let fits = end.commit_id == begin.commit_id
                && end.first_seq == begin.first_seq
                && end.event_count == begin.event_count
                && events.len() as u64 == begin.event_count;
            if !fits {
                return Err(Trouble::damaged(at, "the end of a commit does not fit its beginning"));
            }
            if end.sha256 != hex(&digest.finalize()) {
                return Err(Trouble::damaged(at, "the digest of the commit is wrong"));
            }
            let used = self.operations.entry_ref(begin.operation_id.as_str());
            if *used.or_insert_with(|| begin.operation_hash.clone()) != begin.operation_hash {
                return Err(Trouble::damaged(at, "an operation id that stands for two operations"));
            }
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
            self.next_seq = begin.first_seq + begin.event_count;
            self.at = next.end;
            self.end = next.end;
            return Ok(Some(Commit { begin, events, sha256: end.sha256, start, end: next.end }));
        }
    }

    /// What an event means. What is wrong with it beyond its record is only noted: it counts if the commit does. An
    /// unknown kind counts before a payload, as it does for the client, which looks at kinds first.
    fn event(
        &self,
        begin: &Begin,
        record: &EventRecord,
        at: u64,
        on_event: Option<&mut OnEvent<'_>>,
        wrong: &mut Option<Trouble>,
    ) -> Result<Fact, Trouble> {
        let known = event::is_known(&record.kind);
        if !known && !record.optional {
            let what = format!("the required event `{}`", record.kind);
            if !matches!(wrong, Some(Trouble::Unsupported { .. })) {
                *wrong = Some(Trouble::Unsupported { offset: at, what });
            }
        }
        let wanted = on_event.is_some() || event::needs_payload(&record.kind);
        let mut elsewhere = Vec::new();
        if let Some(at_content) = &record.payload_ref {
            let keep = |bytes: &[u8]| {
                if wanted {
                    elsewhere.extend_from_slice(bytes);
                }
            };
            match at_content.verify(self.contents, keep) {
                Ok(()) => {}
                Err(Missing::Io(e)) => return Err(Trouble::Io(e)),
                Err(Missing::Wrong(reason)) => {
                    wrong.get_or_insert(Trouble::damaged(at, reason));
                    return Ok(Fact::Other);
                }
            }
        }
        let payload = record.payload.as_deref().unwrap_or(&elsewhere);
        if let Some(on_event) = on_event {
            on_event(begin, record, payload)?;
        }
        Ok(event::fact(record, payload).unwrap_or_else(|reason| {
            wrong.get_or_insert(Trouble::damaged(at, reason));
            Fact::Other
        }))
    }
}
