//! Entries grouped into what they are about: one attempt of one operation.

use hashbrown::HashMap;

use crate::store::ledger::{
    Read,
    entry::{Body, Entry, ReplaceRecord, State},
};

/// One attempt of an operation: its pending entry and all that followed. An operation that was abandoned and
/// tried again has several.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// What was decided.
    pub pending: &'a Entry,
    /// `completed`, `abandoned`, or a `replaced` that closed it; none while it is pending.
    pub closing: Option<&'a Entry>,
    /// `acknowledged`, `observed` and the like, in order.
    pub later: Vec<&'a Entry>,
}

impl Selection<'_> {
    /// The operation.
    pub fn operation_id(&self) -> &str {
        &self.pending.body.operation_id
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.later.last().or(self.closing.as_ref()).unwrap_or(&self.pending).body.state
    }

    /// Whether its seed is durable, whatever came later.
    pub fn is_completed(&self) -> bool {
        self.closing.is_some_and(|c| c.body.state == State::Completed)
    }

    /// Whether it still has to be settled.
    pub fn is_pending(&self) -> bool {
        self.closing.is_none()
    }

    /// Whether it is a fork at a turn or a record, which chooses no leaf of its source.
    pub fn is_cut(&self) -> bool {
        self.pending.body.cut.is_some()
    }

    /// Its last entry.
    pub fn last(&self) -> &Entry {
        self.later.last().copied().or(self.closing).unwrap_or(self.pending)
    }
}

impl Read {
    /// All attempts on one transcript (its canonical path), in the order in which they were begun. Entries of
    /// another path with the same session id (copies, archives) never count.
    pub fn selections(&self, transcript: &str) -> Vec<Selection<'_>> {
        let mut all = self.all_selections();
        all.retain(|s| s.pending.body.transcript == transcript);
        all
    }

    /// All attempts of the ledger, in the order in which they were begun. A later entry whose pending entry is
    /// not there (pruned, or damage) belongs to none.
    pub fn all_selections(&self) -> Vec<Selection<'_>> {
        let mut found: Vec<Selection<'_>> = Vec::new();
        let mut latest: HashMap<&str, usize> = HashMap::new();
        for entry in &self.entries {
            let id = entry.body.operation_id.as_str();
            if entry.body.state == State::Pending {
                latest.insert(id, found.len());
                found.push(Selection { pending: entry, closing: None, later: Vec::new() });
            } else if let Some(ix) = latest.get(id) {
                let selection = &mut found[*ix];
                if selection.closing.is_none() {
                    selection.closing = Some(entry);
                } else {
                    selection.later.push(entry);
                }
            }
        }
        found
    }

    /// The latest attempt of an operation, whatever its transcript.
    pub fn operation(&self, operation_id: &str) -> Option<Selection<'_>> {
        self.all_selections().into_iter().rev().find(|s| s.operation_id() == operation_id)
    }

    /// The selection of this transcript that was completed last. Forks at a turn or a record do not count: what
    /// was chosen to go on with stays chosen.
    pub fn latest_completed(&self, transcript: &str) -> Option<Selection<'_>> {
        self.selections(transcript)
            .into_iter()
            .filter(|s| s.is_completed() && !s.is_cut())
            .max_by_key(|s| s.closing.map(|c| c.seq))
    }

    /// The replacements of this transcript that were carried out, in the order in which they were: each with the number
    /// of the entry that says so.
    pub fn replacements(&self, transcript: &str) -> Vec<(u64, &Body, &ReplaceRecord)> {
        let mut found: Vec<_> = self
            .selections(transcript)
            .into_iter()
            .filter_map(|s| {
                let closed = s.closing.filter(|c| c.body.state == State::Replaced)?;
                Some((closed.seq, &s.pending.body, s.pending.body.replace.as_ref()?))
            })
            .collect();
        found.sort_by_key(|(seq, ..)| *seq);
        found
    }

    /// What is still to be settled, of any path.
    pub fn pending(&self) -> Vec<Selection<'_>> {
        let mut all = self.all_selections();
        all.retain(Selection::is_pending);
        all
    }
}

/// The pending entry in which a verdict was made: `entry` itself, or the first attempt of the same operation with
/// the same verdict. A retry takes over the verdict of an attempt that recovery abandoned, on whatever the
/// transcript has become.
pub fn first_attempt<'a>(read: &'a Read, entry: &'a Entry) -> &'a Entry {
    let same = |e: &&Entry| {
        e.body.state == State::Pending
            && e.body.operation_id == entry.body.operation_id
            && e.body.transcript == entry.body.transcript
            && e.body.verdict == entry.body.verdict
    };
    read.entries.iter().take_while(|e| e.seq < entry.seq).find(same).unwrap_or(entry)
}
