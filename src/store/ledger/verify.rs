//! The ledgers against themselves and against their heads. What transcripts, seeds and policies have to say to
//! them is the `audit` module's part.

use std::path::Path;

use hashbrown::{HashMap, HashSet};
use serde::Serialize;

use crate::{
    record::Agent,
    refusal::Result,
    store::ledger::{
        Heads, Ledger, Read,
        entry::{Entry, State},
        file::ledgers,
        first_attempt, offered, resolve_offered, states,
    },
};

/// Something that an audit found. The codes stand in `ledger.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Kebab-case.
    pub code: &'static str,
    /// The file that it is about.
    pub ledger: String,
    /// The entry, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The operation, where it is about one.
    #[serde(rename = "operationId", skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// In words.
    pub message: String,
}

/// What an audit found: findings mean that something is wrong, notes that something is worth knowing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What is worth knowing.
    pub notes: Vec<Finding>,
}

impl Findings {
    /// Both of both.
    pub fn extend(&mut self, other: Findings) {
        self.findings.extend(other.findings);
        self.notes.extend(other.notes);
    }

    /// Adds a finding about an entry.
    pub fn find(&mut self, code: &'static str, path: &Path, entry: &Entry, message: impl Into<String>) {
        self.findings.push(about(code, path, entry, message.into()));
    }

    /// Adds a note about an entry.
    pub fn note(&mut self, code: &'static str, path: &Path, entry: &Entry, message: impl Into<String>) {
        self.notes.push(about(code, path, entry, message.into()));
    }
}

fn about(code: &'static str, path: &Path, entry: &Entry, message: String) -> Finding {
    Finding {
        code,
        ledger: path.display().to_string(),
        seq: Some(entry.seq),
        operation_id: Some(entry.body.operation_id.clone()),
        message,
    }
}

fn about_file(code: &'static str, path: &Path, seq: Option<u64>, message: String) -> Finding {
    Finding { code, ledger: path.display().to_string(), seq, operation_id: None, message }
}

/// Which ledgers are looked at.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only this agent's.
    pub agent: Option<Agent>,
    /// Only the ledger of this session.
    pub session: Option<String>,
    /// Only ledgers with entries of this transcript (its canonical path).
    pub transcript: Option<String>,
}

impl Scope {
    /// Whether a ledger is among them.
    pub fn has(&self, ledger: &Ledger, read: &Read) -> bool {
        let of_transcript = |t: &String| read.entries.iter().any(|e| e.body.transcript == *t);
        self.names(ledger.agent(), ledger.session_id()) && self.transcript.as_ref().is_none_or(of_transcript)
    }

    fn names(&self, agent: Agent, session: &str) -> bool {
        self.agent.is_none_or(|a| a == agent) && self.session.as_ref().is_none_or(|s| s == session)
    }
}

/// A ledger that was looked at, with what it holds.
#[derive(Debug)]
pub struct Looked {
    /// The ledger.
    pub ledger: Ledger,
    /// What it holds, and what its lines alone show to be wrong.
    pub read: Read,
}

/// Checks all ledgers in scope: bytes, chain, heads, transitions, and that the chosen leaf was offered.
/// `anchor` is a copy of the heads that was kept elsewhere.
///
/// # Errors
/// `io`, `unsafe-path`. Damage is a finding, never an error.
pub fn verify(root: &Path, scope: &Scope, anchor: Option<&Heads>) -> Result<(Findings, Vec<Looked>)> {
    // Appends may go on meanwhile. What had a head before a ledger was read must be in it; and all but the last
    // of its entries have one after it was read.
    let before = Heads::read(root)?;
    let mut looked = Vec::new();
    let mut there = HashSet::new();
    for ledger in ledgers(root)? {
        let read = ledger.scan()?;
        if read.lines > 0 {
            there.insert((ledger.agent(), ledger.session_id().to_owned()));
        }
        if scope.has(&ledger, &read) {
            looked.push(Looked { ledger, read });
        }
    }
    let heads = Heads::read(root)?;
    let mut found = Findings::default();
    let heads_path = Heads::path(root);
    for (heads, code, what) in
        [(Some(&heads), "heads-malformed", "the heads"), (anchor, "anchor-malformed", "the kept heads")]
    {
        let Some(heads) = heads else { continue };
        for line in &heads.malformed {
            let message = format!("line {line} of {what} is not a head");
            found.findings.push(about_file(code, &heads_path, None, message));
        }
    }
    if let Some(torn) = heads.torn {
        let message = format!("{} bytes of an unfinished line at the end of the heads", torn.bytes);
        found.notes.push(about_file("torn-line", &heads_path, None, message));
    }
    for Looked { ledger, read } in &looked {
        found.extend(verify_one(ledger, read, (&before, &heads), anchor));
    }
    let mut gone: Vec<_> = [Some(&before), anchor]
        .into_iter()
        .flatten()
        .flat_map(Heads::ledgers)
        .filter(|(agent, session)| scope.transcript.is_none() && scope.names(*agent, session))
        .filter(|(agent, session)| !there.contains(&(*agent, (*session).to_owned())))
        .collect();
    gone.sort_unstable();
    gone.dedup();
    for (agent, session) in gone {
        let ledger = Ledger::open(root, agent, session);
        let message = "there are heads of this ledger, but no entries".to_owned();
        found.findings.push(about_file("ledger-gone", ledger.path(), None, message));
    }
    Ok((found, looked))
}

fn verify_one(
    ledger: &Ledger,
    read: &Read,
    (before, after): (&Heads, &Heads),
    anchor: Option<&Heads>,
) -> Findings {
    let path = ledger.path();
    let mut found = Findings::default();
    for p in &read.problems {
        let message = format!("line {}: {}", p.line, p.message);
        found.findings.push(about_file(p.code, path, p.seq, message));
    }
    if let Some(torn) = read.torn {
        let message =
            format!("{} bytes of an unfinished last line; the next append moves it away", torn.bytes);
        found.notes.push(about_file("torn-line", path, None, message));
    }
    if read.newer {
        let message = "a newer version wrote here; its entries are not judged".to_owned();
        found.notes.push(about_file("ledger-newer", path, None, message));
        return found;
    }
    let own = after.of(ledger.agent(), ledger.session_id());
    let end = before.of(ledger.agent(), ledger.session_id()).iter().map(|(seq, _)| *seq).max();
    check_heads(path, read, own, end, &mut found);
    if let Some(anchor) = anchor {
        check_anchor(path, read, own, anchor.of(ledger.agent(), ledger.session_id()), &mut found);
    }
    check_states(path, read, &mut found);
    check_results(path, read, &mut found);
    check_offered(path, read, &mut found);
    found
}

/// `end` is the last entry that had a head before the ledger was read.
fn check_heads(path: &Path, read: &Read, heads: &[(u64, String)], end: Option<u64>, found: &mut Findings) {
    let (Some(first), Some(last)) = (read.entries.first(), read.entries.last()) else { return };
    let mut by_seq: HashMap<u64, Vec<&str>> = HashMap::new();
    for (seq, hash) in heads {
        by_seq.entry(*seq).or_default().push(hash);
    }
    if let Some(seq) = end.filter(|seq| *seq > last.seq) {
        let message = format!("the ledger ends at entry {}, but entry {seq} has a head", last.seq);
        found.findings.push(about_file("ledger-cut", path, Some(seq), message));
    }
    if first.seq > 0 {
        let known = by_seq.get(&(first.seq - 1)).is_some_and(|h| h.contains(&first.prev.as_str()));
        if known {
            let message = format!("entries before {} were pruned", first.seq);
            found.notes.push(about_file("pruned", path, Some(first.seq), message));
        } else {
            found.find(
                "start-unknown",
                path,
                first,
                "the ledger begins with an entry whose predecessor has no head",
            );
        }
    }
    let mut lost = 0u64;
    let mut first_lost = None;
    for entry in &read.entries {
        match by_seq.get(&entry.seq) {
            Some(hashes) if hashes.iter().any(|h| *h != entry.hash) => {
                found.find("head-mismatch", path, entry, "the entry is not the one that its head names");
            }
            Some(_) => {}
            None if entry.seq == last.seq => {
                let message = "the last entry has no head yet; the next append or `recover` writes it";
                found.note("head-missing", path, entry, message);
            }
            None => {
                lost += 1;
                first_lost.get_or_insert(entry.seq);
            }
        }
    }
    if lost > 0 {
        let message = format!("{lost} entries that are not the last one have no head");
        found.findings.push(about_file("head-lost", path, first_lost, message));
    }
}

/// Every head that was kept elsewhere must still be met: by the entry, or by our own head where it was pruned.
fn check_anchor(
    path: &Path,
    read: &Read,
    own: &[(u64, String)],
    kept: &[(u64, String)],
    found: &mut Findings,
) {
    let first = read.entries.first().map_or(0, |e| e.seq);
    let mut known: HashSet<(u64, &str)> = read.entries.iter().map(|e| (e.seq, e.hash.as_str())).collect();
    known.extend(own.iter().filter(|(seq, _)| *seq < first).map(|(seq, hash)| (*seq, hash.as_str())));
    for (seq, hash) in kept {
        if !known.contains(&(*seq, hash.as_str())) {
            let message = format!("entry {seq} is not the one that the kept heads name");
            found.findings.push(about_file("anchor-mismatch", path, Some(*seq), message));
        }
    }
}

fn check_states(path: &Path, read: &Read, found: &mut Findings) {
    let mut states: HashMap<&str, (State, &str)> = HashMap::new();
    for entry in &read.entries {
        let body = &entry.body;
        let before = states.insert(&body.operation_id, (body.state, &body.transcript));
        if !states::follows(before.map(|(state, _)| state), body.state) {
            let stood = before.map_or("not begun", |(state, _)| state.name());
            let message = format!("the operation was {stood} and cannot become {}", body.state.name());
            found.find("state-invalid", path, entry, message);
        } else if body.state != State::Pending
            && before.is_some_and(|(_, transcript)| transcript != body.transcript)
        {
            found.find("state-invalid", path, entry, "the entry closes an operation on another transcript");
        }
    }
}

/// What was reported as the result must be what was decided and seeded.
fn check_results(path: &Path, read: &Read, found: &mut Findings) {
    for selection in read.all_selections() {
        let body = &selection.pending.body;
        let Some(closing) = selection.closing else { continue };
        let Some(result) = &closing.body.result else { continue };
        let mut expected = vec![("/operationId", serde_json::to_value(&body.operation_id))];
        if let Some(verdict) = &body.verdict {
            expected.push(("/leafUuid", serde_json::to_value(&verdict.leaf_uuid)));
            expected.push(("/decidedBy", serde_json::to_value(&verdict.decided_by)));
        }
        if let Some(seed) = &body.seed {
            expected.push(("/seed/mode", serde_json::to_value(seed.mode)));
            expected.push(("/seed/sessionId", serde_json::to_value(&seed.session_id)));
            expected.push(("/seed/transcript", serde_json::to_value(&seed.transcript)));
            expected.push(("/seed/chain", serde_json::to_value(seed.chain)));
        }
        if let (Some(cut), Some(seed)) = (&body.cut, &body.seed) {
            expected.push(("/sessionId", serde_json::to_value(&seed.session_id)));
            expected.push(("/transcript", serde_json::to_value(&seed.transcript)));
            expected.push(("/record", serde_json::to_value(&cut.record)));
            let turn = cut.turn_id.as_ref().map(|turn| ("/turnId", serde_json::to_value(turn)));
            expected.extend(turn);
        }
        for (pointer, value) in expected {
            let value = value.expect("BUG: parts of an entry are always JSON");
            // Older results may lack a member; none may contradict.
            if result.pointer(pointer).is_some_and(|there| *there != value) {
                let message = format!("`{}` of the result is not what was recorded before", &pointer[1..]);
                found.find("result-differs", path, closing, message);
            }
        }
    }
}

fn check_offered(path: &Path, read: &Read, found: &mut Findings) {
    for entry in &read.entries {
        let body = &entry.body;
        if let Some(offered) = &body.offered
            && let Some(leaves) = &offered.leaves
            && offered::digest(leaves) != offered.digest
        {
            found.find("offered-digest", path, entry, "the offered leaves do not have the digest stated");
            continue;
        }
        let Some(verdict) = &body.verdict else { continue };
        let decided = first_attempt(read, entry).body.offered.as_ref();
        match decided.map(|o| resolve_offered(read, o)) {
            None | Some(None) => {
                found.find(
                    "offered-missing",
                    path,
                    entry,
                    "the ledger does not say which leaves were offered",
                );
            }
            Some(Some(leaves)) if leaves.iter().all(|l| l.leaf_uuid != verdict.leaf_uuid) => {
                found.find("leaf-not-offered", path, entry, "the chosen leaf was not among those offered");
            }
            Some(Some(_)) => {}
        }
    }
}
