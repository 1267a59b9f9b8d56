//! All completed selections of some ledgers, one transcript after another.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    audit::{
        Follow,
        follow::follow_in,
        policy, seed,
        source::{Evidence, Then},
    },
    refusal::{Error, Result},
    store::{
        file,
        ledger::{
            Findings, Ledger, Looked, Read, Scope, Selection,
            entry::{Entry, OfferedLeaf},
            first_attempt, resolve_offered,
        },
        replace,
    },
    topology::{GapIds, Inspection},
    transcript::Transcript,
};

/// Checks the completed selections of ledgers against transcripts, kept policies and seeds; where the scope names a
/// transcript, only that one's.
///
/// # Errors
/// `io`, `unsafe-path`. What is missing or contradicts is a finding or a note, never an error.
pub fn deep(root: &Path, looked: &[Looked], scope: &Scope) -> Result<Findings> {
    let mut found = Findings::default();
    // Entries of a newer version follow rules that this one does not know.
    for Looked { ledger, read } in looked.iter().filter(|l| !l.read.newer) {
        let mut by_transcript: BTreeMap<&str, Vec<Selection<'_>>> = BTreeMap::new();
        for selection in read.all_selections() {
            if scope.transcript.as_ref().is_some_and(|t| *t != selection.pending.body.transcript) {
                continue;
            }
            if selection.is_pending() {
                let message = "not settled yet; `offshoot recover` completes or abandons it";
                found.note("pending", ledger.path(), selection.pending, message);
            } else if selection.is_completed() {
                by_transcript.entry(&selection.pending.body.transcript).or_default().push(selection);
            }
        }
        for (transcript, selections) in by_transcript {
            Auditor { root, ledger, read, found: &mut found }.transcript(transcript, selections)?;
        }
    }
    Ok(found)
}

struct Auditor<'a> {
    root: &'a Path,
    ledger: &'a Ledger,
    read: &'a Read,
    found: &'a mut Findings,
}

impl<'a> Auditor<'a> {
    fn find(&mut self, code: &'static str, entry: &Entry, message: impl Into<String>) {
        self.found.find(code, self.ledger.path(), entry, message);
    }

    fn note(&mut self, code: &'static str, entry: &Entry, message: impl Into<String>) {
        self.found.note(code, self.ledger.path(), entry, message);
    }

    fn transcript(&mut self, transcript: &str, mut selections: Vec<Selection<'_>>) -> Result<()> {
        selections.sort_by_key(|s| s.closing.map(|c| c.seq));
        // A fork at a turn or a record chooses nothing, so it supersedes nothing.
        let last = selections.iter().rfind(|s| !s.is_cut()).map(|s| s.pending.seq);
        let replaced = self.read.replacements(transcript);
        let mut eras: BTreeMap<Option<u64>, Vec<Selection<'_>>> = BTreeMap::new();
        for selection in selections {
            let until = replaced.iter().map(|(seq, ..)| *seq).find(|seq| *seq > selection.pending.seq);
            eras.entry(until).or_default().push(selection);
        }
        for (until, selections) in eras {
            let replace = replaced.iter().find(|(seq, ..)| Some(*seq) == until).map(|(.., replace)| *replace);
            let file = match replace {
                None => Path::new(transcript),
                Some(replace) => {
                    let backup = Path::new(&replace.backup);
                    let entry = selections[0].pending;
                    if !file::exists(backup) {
                        self.note("backup-gone", entry, format!("the backup `{}` is gone", replace.backup));
                    } else if !replace::is(backup, replace.old.bytes, &replace.old.digest)? {
                        let message = format!("the backup `{}` is not what was kept in it", replace.backup);
                        self.find("backup-changed", entry, message);
                    }
                    backup
                }
            };
            self.era(file, &selections, last)?;
        }
        Ok(())
    }

    /// Selections whose source is found in one file.
    fn era(&mut self, file: &Path, selections: &[Selection<'_>], last: Option<u64>) -> Result<()> {
        let lengths: BTreeSet<u64> = selections
            .iter()
            .flat_map(|s| [s.pending, first_attempt(self.read, s.pending)])
            .filter_map(|e| e.body.snapshot.as_ref().map(|s| s.bytes))
            .collect();
        let evidence = match Evidence::gather(self.ledger.agent(), file, &lengths) {
            Ok(evidence) => evidence,
            Err(Error::Refusal(r)) => {
                let entry = selections[selections.len() - 1].pending;
                self.find("transcript-changed", entry, r.message);
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        for selection in selections {
            let entry = selection.pending;
            let Some(evidence) = &evidence else {
                self.note("transcript-gone", entry, "the transcript is not there any more");
                let reference = entry.body.verdict.as_ref().and_then(|v| v.decided_by.policy.as_ref());
                if let Some(Err((code, why))) = reference.map(|r| policy::kept(self.root, r)).transpose()? {
                    self.find(code, entry, why);
                }
                continue;
            };
            if !evidence.has(&entry.body) {
                self.find(
                    "transcript-changed",
                    entry,
                    "the bytes that the choice was made from have changed",
                );
                continue;
            }
            let Some(then) = evidence.then(&entry.body)? else { continue };
            if selection.is_cut() {
                self.cut(selection, &then)?;
            } else {
                self.selection(selection, &then, evidence, Some(entry.seq) == last)?;
            }
        }
        Ok(())
    }

    /// A fork at a turn or a record: its chain and its child.
    fn cut(&mut self, selection: &Selection<'_>, then: &Then) -> Result<()> {
        let entry = selection.pending;
        let records = entry.body.snapshot.as_ref().map(|s| s.records);
        if records != Some(then.t.records.len() as u64) {
            let message = format!("the transcript had {} records there", then.t.records.len());
            self.find("snapshot-differs", entry, message);
        }
        self.chain(entry, then);
        // A child that somebody took up is theirs to remove.
        let taken_up = !selection.later.is_empty();
        match seed::check(self.ledger, &entry.body, then) {
            Ok(None) => {}
            Ok(Some(("seed-gone", why))) if taken_up => self.note("seed-gone", entry, why),
            Ok(Some((code, why))) => self.find(code, entry, why),
            Err(Error::Refusal(r)) => self.find("seed-differs", entry, r.message),
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn selection(
        &mut self,
        selection: &Selection<'_>,
        then: &Then,
        evidence: &Evidence,
        latest: bool,
    ) -> Result<()> {
        let entry = selection.pending;
        let (inspection, picked) = then.inspect(&entry.body)?;
        if !picked {
            self.find("client-pick-differs", entry, "the client would not have resumed what is recorded");
        }
        self.snapshot(entry, &then.t, &inspection);
        self.chain(entry, then);
        self.verdict(entry, then, &inspection, evidence)?;
        match seed::check(self.ledger, &entry.body, then) {
            Ok(None) => {}
            Ok(Some(("seed-gone", why))) if !latest => self.note("seed-gone", entry, why),
            Ok(Some((code, why))) => self.find(code, entry, why),
            Err(Error::Refusal(r)) => self.find("seed-differs", entry, r.message),
            Err(fault) => return Err(fault),
        }
        if !latest {
            self.note("superseded", entry, "a later selection of the transcript was completed");
            return Ok(());
        }
        match follow_in(self.ledger.agent(), &entry.body, then.file()) {
            Ok(Some(Follow::Followed)) => {
                self.note("followed", entry, "it was continued below the chosen leaf")
            }
            Ok(Some(Follow::NotYet)) => self.note("not-yet", entry, "no message was appended since"),
            Ok(Some(Follow::NotFollowed)) => {
                self.find("not-followed", entry, "what was appended since does not continue the chosen leaf");
            }
            // Said as `seed-gone` or `seed-differs`.
            Ok(None) | Err(Error::Refusal(_)) => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn snapshot(&mut self, entry: &Entry, t: &Transcript, inspection: &Inspection) {
        let records = entry.body.snapshot.as_ref().map(|s| s.records);
        if records != Some(t.records.len() as u64) {
            self.find("snapshot-differs", entry, format!("the transcript had {} records", t.records.len()));
        }
        if t.session_ids.first().is_some_and(|id| id != self.ledger.session_id()) {
            self.find("session-differs", entry, "the transcript belongs to the ledger of another session");
        }
        // Leaves that the ledger does not have are found by its own checks.
        let recorded = entry.body.offered.as_ref().and_then(|o| resolve_offered(self.read, o));
        let again: Vec<_> = inspection.branches.iter().map(OfferedLeaf::from).collect();
        if let Some(recorded) = recorded.filter(|recorded| *recorded != again) {
            let message = format!(
                "the transcript had {} leaves, {} of them as they were offered",
                again.len(),
                again.iter().filter(|leaf| recorded.contains(leaf)).count()
            );
            self.find("offered-differ", entry, message);
        }
    }

    fn chain(&mut self, entry: &Entry, then: &Then) {
        let (Some(seed), Some(leaf)) = (&entry.body.seed, entry.body.leaf()) else { return };
        let Some(chain) = then.chain(leaf) else {
            self.find("chain-differs", entry, "the chosen leaf is in no record of the transcript");
            return;
        };
        let gaps: Vec<GapIds> = chain.gaps.iter().map(|gap| gap.ids(&then.t)).collect();
        if seed.chain_digest != chain.digest(&then.t)
            || seed.chain != chain.uuids.len() as u64
            || seed.gaps != gaps
        {
            self.find("chain-differs", entry, "the chain of the chosen leaf is not the one recorded");
        }
    }

    fn verdict(
        &mut self,
        entry: &Entry,
        then: &Then,
        inspection: &Inspection,
        evidence: &Evidence,
    ) -> Result<()> {
        // A retry takes over the verdict of an attempt that was abandoned, on what that one had read.
        let decided = first_attempt(self.read, entry);
        let wrong = if decided.seq == entry.seq {
            policy::check(self.root, self.ledger, self.read, entry, then, inspection)?
        } else if let Some(before) = evidence.then(&decided.body)?.filter(|_| evidence.has(&decided.body)) {
            let (inspection, _) = before.inspect(&decided.body)?;
            policy::check(self.root, self.ledger, self.read, decided, &before, &inspection)?
        } else {
            vec![("transcript-changed", "the bytes that the choice was made from have changed".to_owned())]
        };
        wrong.into_iter().for_each(|(code, why)| self.find(code, entry, why));
        Ok(())
    }
}
