//! One log, frame by frame. A commit is looked at twice: for what its digests are to be, and to be written.

use std::io::{self, Write};

use hashbrown::HashMap;
use sha2::{Digest, Sha256};

use super::{
    Both, Redacted, Redaction,
    filler::{flawed, fragment, lost_header},
};
use crate::{
    dialect::reasonix::{
        child::Counted,
        commit::Commits,
        frame::{self, Flaw, HEADER, Lengths},
        ids::{hex, unhex},
        operation::OperationHash,
        record::{Begin, EventRecord, Record},
        trouble::Trouble,
    },
    transcript::Source,
};

/// What stands at an offset.
enum Found {
    /// A record, and where the next frame begins.
    Record { json: Vec<u8>, end: u64 },
    /// A frame that cannot be inflated, and where the next one begins.
    Flawed { flaw: Flaw, lengths: Lengths, end: u64 },
    /// Nothing that begins as a frame does.
    Lost,
    /// Less than a frame, or nothing.
    Torn,
}

/// A commit, as far as it goes.
struct Group {
    /// Where the first frame behind its events begins.
    end: u64,
    /// Whether its log ends before it does.
    torn: bool,
    /// Whether its end vouches for it.
    digest: Option<String>,
    /// The operation hash in it and what stands for that, if it was that of its events.
    hash: Option<(String, String)>,
}

pub(super) struct Writer<'w, 'a> {
    redaction: &'w mut Redaction<'a>,
    session: &'w str,
    log: &'w dyn Source,
    out: Counted<'w>,
    places: Vec<(u64, u64)>,
    /// The sequence that is due; none where a reader has stopped already.
    next_seq: Option<u64>,
    /// What stands for the hash of an operation, by its id: never the same for two, always the same for one.
    hashes: HashMap<String, HashMap<String, String>>,
}

impl<'w, 'a> Writer<'w, 'a> {
    pub fn new(
        redaction: &'w mut Redaction<'a>,
        session: &'w str,
        log: &'w dyn Source,
        out: &'w mut dyn Write,
    ) -> Self {
        Writer {
            redaction,
            session,
            log,
            out: Counted::new(out),
            places: Vec::new(),
            next_seq: Some(1),
            hashes: HashMap::new(),
        }
    }

    pub fn whole(mut self) -> Result<Redacted, Trouble> {
        self.all()?;
        Ok(Redacted { bytes: self.out.bytes, places: self.places, sha256: self.out.sha256() })
    }

    fn all(&mut self) -> Result<(), Trouble> {
        let mut at = 0;
        loop {
            match self.found(at)? {
                Found::Record { json, end } => {
                    if let Ok(Record::Begin(begin)) = Record::parse(&json, at) {
                        at = self.commit(at, &begin)?;
                        continue;
                    }
                    // A record outside of a commit.
                    self.next_seq = None;
                    let redacted = self.redaction.redactor.record(&json, &[]);
                    self.frame(at, end, &redacted, json == redacted)?;
                    at = end;
                }
                Found::Flawed { flaw, lengths, end } => {
                    self.next_seq = None;
                    self.put(at, &flawed(&flaw, lengths))?;
                    at = end;
                }
                Found::Lost => return self.lost(at),
                Found::Torn => {
                    let left = self.log.len() - at;
                    return self.put(at, &fragment(left));
                }
            }
        }
    }

    fn found(&self, at: u64) -> Result<Found, Trouble> {
        let lengths = match frame::lengths(self.log, at) {
            Ok(Some(lengths)) => lengths,
            Ok(None) => return Ok(Found::Torn),
            Err(Trouble::Io(e)) => return Err(Trouble::Io(e)),
            Err(_) => return Ok(Found::Lost),
        };
        let end = at + HEADER + u64::from(lengths.packed);
        Ok(match frame::body(self.log, at, lengths)? {
            None => Found::Torn,
            Some(Ok(json)) => Found::Record { json, end },
            Some(Err(flaw)) => Found::Flawed { flaw, lengths, end },
        })
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.places.push((at, self.out.bytes));
        self.out.write_all(bytes).map_err(Trouble::Io)
    }

    fn frame(&mut self, at: u64, end: u64, json: &[u8], same: bool) -> Result<(), Trouble> {
        let frame = self.framed(at, end, json, same, end.saturating_sub(self.out.bytes))?;
        self.put(at, &frame)
    }

    /// A record as a frame: stored where that takes no more than `room`, else as it stands there if it is the same one,
    /// else compressed, which may take more.
    fn framed(&self, at: u64, end: u64, json: &[u8], same: bool, room: u64) -> Result<Vec<u8>, Trouble> {
        let fits = |frame: &Vec<u8>| frame.len() as u64 <= room;
        if let Some(frame) = frame::write_stored(json).filter(fits) {
            return Ok(frame);
        }
        if same {
            let mut frame = vec![0; (end - at) as usize];
            self.log.read_exact_at(at, &mut frame)?;
            return Ok(frame);
        }
        frame::write(json).ok_or_else(|| Trouble::damaged(at, "a record that is too large for a frame"))
    }

    /// What cannot be told apart into frames, up to the end of the log.
    fn lost(&mut self, at: u64) -> Result<(), Trouble> {
        let left = (self.log.len() - at) as usize;
        let mut header = [0; HEADER as usize];
        self.log.read_exact_at(at, &mut header)?;
        let header = lost_header(header);
        self.put(at, &header)?;
        let rest =
            io::copy(&mut io::Read::take(io::repeat(b'x'), (left - header.len()) as u64), &mut self.out);
        rest.map(drop).map_err(Trouble::Io)
    }

    /// Writes the commit that begins at `start`; returns where the next frame begins.
    fn commit(&mut self, start: u64, begin: &Begin) -> Result<u64, Trouble> {
        let in_order = self.next_seq == Some(begin.first_seq);
        let group = self.group(start, begin)?;
        self.next_seq = self
            .next_seq
            .filter(|_| in_order && group.digest.is_some())
            .and_then(|seq| seq.checked_add(begin.event_count));
        if group.torn && in_order {
            return self.tail(start, begin, &group);
        }
        let mut digest = Sha256::new();
        let mut at = start;
        while at < group.end {
            let (json, end, same) = self.record(at, &group)?;
            digest.update(&json);
            digest.update([0]);
            self.frame(at, end, &json, same)?;
            at = end;
        }
        if let Some(old) = &group.digest
            && let Found::Record { json, end } = self.found(at)?
        {
            let redacted = self.redaction.redactor.record(&json, &[(old, &hex(&digest.finalize()))]);
            self.frame(at, end, &redacted, json == redacted)?;
            at = end;
        }
        Ok(at)
    }

    /// What stands for a record of a commit, its end aside; where the next frame begins; whether the record is the same.
    fn record(&mut self, at: u64, group: &Group) -> Result<(Vec<u8>, u64, bool), Trouble> {
        let Found::Record { json, end } = self.found(at)? else {
            return Err(Trouble::damaged(at, "the record was there and is not any more"));
        };
        let mut digests: Vec<(&str, &str)> = Vec::new();
        let event = match Record::parse(&json, at) {
            Ok(Record::Event(event)) => event.payload_ref,
            _ => None,
        };
        if let Some((old, new)) = &group.hash {
            digests.push((old, new));
        }
        let Redaction { redactor, known, .. } = &mut *self.redaction;
        let known = event.as_ref().and_then(|at| known.get(at)).into_iter().flatten();
        digests.extend(known.map(|(old, new)| (old.as_str(), new.as_str())));
        let redacted = redactor.record(&json, &digests);
        let same = json == redacted;
        Ok((redacted, end, same))
    }

    /// A commit without an end, at the end of the log, as long as it was if what is visible of it fits into that: its first
    /// record, which says whom the session is related to, and all of it where it holds what cannot be read.
    fn tail(&mut self, start: u64, begin: &Begin, group: &Group) -> Result<u64, Trouble> {
        let len = (self.log.len() - start) as usize;
        let (mut tail, mut at, mut first) = (Vec::new(), start, None);
        let before = self.out.bytes;
        while at < group.end {
            let (json, end, same) = self.record(at, group)?;
            self.places.push((at, before + tail.len() as u64));
            let room = (end - start).saturating_sub(tail.len() as u64);
            tail.extend(self.framed(at, end, &json, same, room)?);
            first.get_or_insert(tail.len());
            at = end;
        }
        let last_seq = begin.first_seq.saturating_sub(1);
        let invisible =
            Commits::behind(self.log, self.redaction.contents, start, last_seq).next_commit().is_ok();
        if invisible {
            tail.truncate(len.max(first.unwrap_or_default()));
        }
        tail.extend(fragment(len.saturating_sub(tail.len()) as u64));
        self.out.write_all(&tail)?;
        // Nothing is behind it.
        Ok(self.log.len())
    }

    /// Looks at the commit that begins at `start`, and keeps its payloads.
    fn group(&mut self, start: u64, begin: &Begin) -> Result<Group, Trouble> {
        let mut hashes = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(ids, redacted)| (OperationHash::new(ids), redacted));
        let mut digest = Sha256::new();
        let (mut at, mut events) = (start, 0u64);
        let mut ordered = true;
        let (torn, end) = loop {
            let (json, next) = match self.found(at)? {
                Found::Record { json, end } => (json, end),
                Found::Torn => break (ordered, None),
                Found::Flawed { .. } | Found::Lost => break (false, None),
            };
            let mut absorb = || {
                digest.update(&json);
                digest.update([0]);
            };
            match Record::parse(&json, at) {
                Ok(Record::Begin(_)) if at == start => absorb(),
                Ok(Record::Event(event)) => {
                    absorb();
                    ordered &=
                        events < begin.event_count && Some(event.seq) == begin.first_seq.checked_add(events);
                    events += 1;
                    self.event(begin, &event, &mut hashes)?;
                }
                Ok(Record::End(end)) => break (false, Some(end)),
                _ => break (false, None),
            }
            at = next;
        };
        let hash = self.operation(begin, hashes);
        let digest = end.map(|end| end.sha256).filter(|sha256| *sha256 == hex(&digest.finalize()));
        Ok(Group { end: at, torn, digest, hash })
    }

    fn event(
        &mut self,
        begin: &Begin,
        event: &EventRecord,
        hashes: &mut [(OperationHash, bool); 4],
    ) -> Result<(), Trouble> {
        let Both { was, is } = match (&event.payload, &event.payload_ref) {
            (Some(payload), _) => Both { was: payload.clone(), is: self.redaction.redactor.payload(payload) },
            (None, Some(at)) => match self.redaction.elsewhere(at)? {
                Some(both) => both,
                // There is no hash of it.
                None => Both { was: b"?".to_vec(), is: b"?".to_vec() },
            },
            (None, None) => Both::default(),
        };
        self.redaction.note(&event.id, &was, &is);
        for (hash, of_redacted) in hashes {
            hash.event(self.session, begin, event, if *of_redacted { &is } else { &was });
        }
        Ok(())
    }

    /// The operation hash of a commit and what stands for it; none if that is no digest.
    fn operation(&mut self, begin: &Begin, hashes: [(OperationHash, bool); 4]) -> Option<(String, String)> {
        let [plain, ids, redacted_plain, redacted_ids] =
            hashes.map(|(hash, _)| if hash.is_valid() { hash.finish() } else { String::new() });
        let old = begin.operation_hash.clone();
        unhex(&old)?;
        let uses = self.hashes.entry_ref(begin.operation_id.as_str()).or_default();
        if let Some(new) = uses.get(&old) {
            return Some((old, new.clone()));
        }
        // Two operations of one id are two after that as well.
        let new = match () {
            () if uses.is_empty() && old == plain => redacted_plain,
            () if uses.is_empty() && old == ids => redacted_ids,
            () => self.redaction.redactor.digest(&old),
        };
        uses.insert(old.clone(), new.clone());
        Some((old, new))
    }
}
