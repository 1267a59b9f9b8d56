//! Removing old entries from the front of a ledger.
//!
//! What stays is a chain as before: its first entry still names its predecessor's hash, and that predecessor's
//! head stays in the heads. So a pruned ledger is told from one that lost its beginning otherwise only as far as
//! the heads are trusted.

use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;

use crate::{
    refusal::Result,
    store::{
        ledger::{Ledger, Read, entry::State},
        private::{self, Clobber},
    },
};

/// What came of pruning one ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries removed.
    pub removed: u64,
    /// Entries kept.
    pub kept: u64,
}

impl Ledger {
    /// Removes the entries before `before` that nobody needs any more, from the front, up to the first that
    /// somebody does: an operation that is pending or has a later entry, the latest completed selection and the latest
    /// replacement of a transcript, leaves that a kept entry offers by digest, the last entry. A removed operation counts as
    /// never made.
    ///
    /// # Errors
    /// As for `append`.
    pub fn prune(&self, before: Timestamp) -> Result<Pruned> {
        if private::read(self.path())?.is_none() {
            return Ok(Pruned::default());
        }
        self.rewrite(|bytes, read| {
            let keep_from = first_kept(read, before);
            let cut = line_starts(bytes).nth(keep_from).unwrap_or(0);
            // Replaced at once: a crash leaves the whole old ledger or the whole new one.
            if cut > 0 {
                private::publish(self.path(), &bytes[cut..], Clobber::Replace)?;
            }
            Ok(Pruned { removed: keep_from as u64, kept: (read.entries.len() - keep_from) as u64 })
        })
    }
}

fn line_starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(memchr::memchr_iter(b'\n', bytes).map(|at| at + 1))
}

/// The index of the first entry to keep.
fn first_kept(read: &Read, before: Timestamp) -> usize {
    let entries = &read.entries;
    let old = |at: &str| at.parse::<Timestamp>().is_ok_and(|at| at < before);
    let mut keep = entries.iter().position(|e| !old(&e.at)).unwrap_or(entries.len());
    keep = keep.min(entries.len().saturating_sub(1));

    let mut needed: HashSet<&str> = HashSet::new();
    let mut latest: HashMap<(&str, bool), (u64, &str)> = HashMap::new();
    for selection in read.all_selections() {
        let body = &selection.pending.body;
        if selection.is_pending() {
            needed.insert(&body.operation_id);
        } else if let Some(closing) =
            selection.closing.filter(|c| c.body.state != State::Abandoned && !selection.is_cut())
        {
            // A replacement is needed by `restore`, whatever was chosen since.
            let (at, replaced) = (closing.seq, closing.body.state == State::Replaced);
            let best = latest.entry((&body.transcript, replaced)).or_insert((at, &body.operation_id));
            *best = (*best).max((at, &body.operation_id));
        }
    }
    needed.extend(latest.values().map(|(_, operation)| *operation));
    let mut first_of: HashMap<&str, usize> = HashMap::new();
    let mut last_of: HashMap<&str, usize> = HashMap::new();
    let mut leaves_at: HashMap<&str, usize> = HashMap::new();
    for (ix, entry) in entries.iter().enumerate() {
        let id = entry.body.operation_id.as_str();
        first_of.entry(id).or_insert(ix);
        last_of.insert(id, ix);
        if needed.contains(id) {
            keep = keep.min(first_of[id]);
        }
        if let Some(offered) = &entry.body.offered
            && offered.leaves.is_some()
        {
            leaves_at.entry(&offered.digest).or_insert(ix);
        }
    }
    // Keeping more may need more: an operation is kept whole, and so are the leaves it offers.
    loop {
        let whole = first_of.iter().filter(|(id, _)| last_of[*id] >= keep).map(|(_, ix)| *ix);
        let leaves = entries[keep..]
            .iter()
            .filter_map(|e| e.body.offered.as_ref())
            .filter_map(|o| leaves_at.get(o.digest.as_str()).copied());
        let next = whole.chain(leaves).fold(keep, usize::min);
        if next == keep {
            return keep;
        }
        keep = next;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::ledger::entry::Entry;

    fn read(entries: &[(&str, State, &str, &str)]) -> Read {
        let entry = |(seq, (op, state, at, offered)): (usize, &(&str, State, &str, &str))| -> Entry {
            let mut value = json!({
                "schema": "offshoot.ledger/1", "seq": seq, "prev": "", "at": at, "agent": "qwen",
                "sessionId": "s", "operationId": op, "requestDigest": "", "state": state,
                "transcript": "/t", "hash": "",
            });
            match *offered {
                "" => {}
                full if full.ends_with('!') => {
                    value["offered"] = json!({"digest": full.trim_end_matches('!'), "leaves": []});
                }
                digest => value["offered"] = json!({"digest": digest}),
            }
            serde_json::from_value(value).unwrap()
        };
        Read { entries: entries.iter().enumerate().map(entry).collect(), ..Read::default() }
    }

    fn kept(entries: &[(&str, State, &str, &str)]) -> usize {
        first_kept(&read(entries), "2026-02-01T00:00:00Z".parse().unwrap())
    }

    const OLD: &str = "2026-01-01T00:00:00.000Z";
    const NEW: &str = "2026-03-01T00:00:00.000Z";

    #[test]
    fn what_somebody_needs_is_kept() {
        use State::{Abandoned, Completed, Observed, Pending, Replaced};
        assert_eq!(kept(&[]), 0);
        // The latest completed selection stays however old it is.
        assert_eq!(kept(&[("a", Pending, OLD, ""), ("a", Completed, OLD, "")]), 0);
        let two = [
            ("a", Pending, OLD, "x!"),
            ("a", Completed, OLD, ""),
            ("b", Pending, OLD, "y!"),
            ("b", Completed, OLD, ""),
        ];
        assert_eq!(kept(&two), 2);
        // ... with the leaves that it offers by digest.
        let mut by_digest = two;
        by_digest[2].3 = "x";
        assert_eq!(kept(&by_digest), 0);
        // A pending operation in front holds everything behind it.
        assert_eq!(kept(&[&[("p", Pending, OLD, "")][..], &two].concat()), 0);
        // An operation is never split.
        assert_eq!(kept(&[&two[..], &[("a", Observed, NEW, "")]].concat()), 0);
        // Of abandoned ones the last entry stays, and with it its operation.
        let abandoned = [
            ("a", Pending, OLD, ""),
            ("a", Abandoned, OLD, ""),
            ("b", Pending, OLD, ""),
            ("b", Abandoned, OLD, ""),
        ];
        assert_eq!(kept(&abandoned), 2);
        // What `restore` would undo stays, whatever was chosen since; what was replaced before it need not.
        let replaced = [
            ("t", Pending, OLD, ""),
            ("t", Replaced, OLD, ""),
            ("u", Pending, OLD, ""),
            ("u", Replaced, OLD, ""),
        ];
        assert_eq!(kept(&[&replaced[..], &two].concat()), 2);
        // Nothing is older than asked.
        let new = [("a", Pending, NEW, ""), ("a", Abandoned, NEW, ""), ("b", Pending, NEW, "")];
        assert_eq!(kept(&new), 0);
    }
}
