//! Bytes of a ledger -> entries, and what is wrong with them. Pure but for its caller's bytes.

use serde::Deserialize;
use serde_json::json;

use crate::{
    record::Agent,
    refusal::{Code, Fault, FaultCode, Refusal, Result},
    store::{
        ledger::{
            entry::{Entry, SCHEMA},
            hash,
        },
        private::{self, Torn},
    },
};

/// What a ledger holds.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// In order. Entries that were found damaged are among them where they could be read at all.
    pub entries: Vec<Entry>,
    /// An unfinished last line; the next append moves it away.
    pub torn: Option<Torn>,
    /// Whether a newer version wrote here: readable as far as it goes, not to be written.
    pub newer: bool,
    /// What is wrong, in line order. A sound ledger has none.
    pub problems: Vec<Problem>,
    /// Number of whole lines.
    pub lines: u64,
}

/// Something wrong with a line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Kebab-case; the table stands in `ledger.md`.
    pub code: &'static str,
    /// The line, from 1.
    pub line: u64,
    /// The entry's number, where it has one.
    pub seq: Option<u64>,
    /// In words.
    pub message: String,
}

impl Read {
    /// Refuses to go on from a damaged ledger.
    ///
    /// # Errors
    /// `damaged`, with the first problem.
    pub fn sound(self, path: &std::path::Path) -> Result<Read> {
        match self.problems.first() {
            None => Ok(self),
            Some(p) => Err(damaged(path, p).into()),
        }
    }

    /// Refuses to write behind a newer version.
    ///
    /// # Errors
    /// `ledger-newer`.
    pub fn writable(&self, path: &std::path::Path) -> Result<()> {
        if !self.newer {
            return Ok(());
        }
        Err(Refusal::new(
            Code::LedgerNewer,
            format!("ledger `{}` was written by a newer version of offshoot", path.display()),
        )
        .hint("update offshoot; `audit list` still reads what it can")
        .detail(json!({"ledger": path.display().to_string()}))
        .into())
    }
}

pub(super) fn damaged(path: &std::path::Path, p: &Problem) -> Fault {
    Fault::new(
        FaultCode::Damaged,
        format!("ledger `{}` is damaged at line {}: {}", path.display(), p.line, p.message),
    )
    .detail(json!({"ledger": path.display().to_string(), "line": p.line, "seq": p.seq, "finding": p.code}))
}

#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// Reads all lines. Nothing is dropped in silence: what is no entry is a problem.
pub(super) fn scan(bytes: &[u8], agent: Agent, session_id: &str) -> Read {
    let (lines, torn) = private::whole_lines(bytes);
    let mut read = Read { torn, lines: lines.len() as u64, ..Read::default() };
    // What the next entry must say; unknown before the first one and behind an unreadable line.
    let mut expected: Option<(u64, String)> = None;
    for (line, number) in lines.into_iter().zip(1u64..) {
        let mut wrong = |code, seq, message: String| {
            read.problems.push(Problem { code, line: number, seq, message });
        };
        match serde_json::from_slice::<Schema>(line) {
            Ok(s) if s.schema == SCHEMA => {}
            Ok(s) if is_newer(&s.schema) => {
                read.newer = true;
                // Best effort: what still has our shape can be shown, but none of our rules applies to it.
                read.entries.extend(serde_json::from_slice::<Entry>(line));
                expected = None;
                continue;
            }
            Ok(_) => {
                wrong("schema-unknown", None, "the line names no schema of a ledger".to_owned());
                expected = None;
                continue;
            }
            Err(e) => {
                wrong("entry-malformed", None, format!("the line is no entry ({})", e.classify_words()));
                expected = None;
                continue;
            }
        }
        let entry = match serde_json::from_slice::<Entry>(line) {
            Ok(entry) => entry,
            Err(e) => {
                wrong("entry-malformed", None, format!("the line is no entry ({})", e.classify_words()));
                expected = None;
                continue;
            }
        };
        let seq = Some(entry.seq);
        match hash::check(line) {
            Some((_, true)) => {}
            Some((_, false)) => {
                wrong("entry-hash", seq, "the entry's bytes do not have the hash that it states".to_owned());
            }
            None => wrong("entry-hash", seq, "the entry does not end in its hash".to_owned()),
        }
        if entry.agent != agent || entry.session_id != session_id {
            wrong("entry-foreign", seq, "the entry belongs to the ledger of another session".to_owned());
        }
        // A ledger may begin behind 0 (pruned); what it then begins with is checked against the heads.
        if let Some((next, prev)) = &expected {
            if entry.seq != *next {
                wrong("seq-gap", seq, format!("entry {next} was expected here, not {}", entry.seq));
            }
            if entry.prev != *prev {
                wrong("prev-mismatch", seq, "the entry does not name its predecessor's hash".to_owned());
            }
        } else if number == 1 && entry.seq == 0 && entry.prev != hash::ZEROS {
            wrong("prev-mismatch", seq, "the first entry names a predecessor".to_owned());
        }
        expected = entry.seq.checked_add(1).map(|next| (next, entry.hash.clone()));
        read.entries.push(entry);
    }
    read
}

fn is_newer(schema: &str) -> bool {
    schema
        .strip_prefix("offshoot.ledger/")
        .and_then(|v| v.parse::<u32>().ok())
        .is_some_and(|version| version > 1)
}

trait ClassifyWords {
    fn classify_words(&self) -> String;
}

impl ClassifyWords for serde_json::Error {
    /// What is wrong and where, without the value that was met (it may be hostile).
    fn classify_words(&self) -> String {
        use serde_json::error::Category;
        let what = match self.classify() {
            Category::Io => "unreadable",
            Category::Syntax => "not JSON",
            Category::Data => "a field is missing or of the wrong type",
            Category::Eof => "it ends early",
        };
        format!("{what}, column {}", self.column())
    }
}
