//! `heads.jsonl`: one line for each entry of any ledger, so that a ledger that was cut or whose last line was
//! edited is found out.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use crate::{
    record::Agent,
    refusal::{Error, Result},
    store::{
        atomic::append_once,
        faults,
        private::{self, Lock, Mode, Torn},
    },
};

/// One line of `heads.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Whose ledger.
    pub agent: Agent,
    /// Which session's.
    pub session: String,
    /// Of which entry.
    pub seq: u64,
    /// That entry's hash.
    pub hash: String,
}

/// The heads of all ledgers, or a kept copy of them.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    by_ledger: HashMap<(Agent, String), Vec<(u64, String)>>,
    /// Lines (from 1) that are no head.
    pub malformed: Vec<u64>,
    /// An unfinished last line.
    pub torn: Option<Torn>,
}

impl Heads {
    /// Where they are kept.
    pub fn path(root: &Path) -> PathBuf {
        root.join("heads.jsonl")
    }

    /// The heads of a state directory; none if the file is not there.
    ///
    /// # Errors
    /// `io`, `unsafe-path`.
    pub fn read(root: &Path) -> Result<Heads> {
        Ok(Heads::parse(&private::read(&Heads::path(root))?.unwrap_or_default()))
    }

    /// Reads the bytes of such a file. What is no head is noted, never dropped in silence.
    pub fn parse(bytes: &[u8]) -> Heads {
        let (lines, torn) = private::whole_lines(bytes);
        let mut heads = Heads { torn, ..Heads::default() };
        for (line, number) in lines.into_iter().zip(1..) {
            match serde_json::from_slice::<Head>(line) {
                Ok(h) => heads.by_ledger.entry((h.agent, h.session)).or_default().push((h.seq, h.hash)),
                Err(_) => heads.malformed.push(number),
            }
        }
        heads
    }

    /// `(seq, hash)` of one ledger's heads, in the order they were written.
    pub fn of(&self, agent: Agent, session: &str) -> &[(u64, String)] {
        self.by_ledger.get(&(agent, session.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// The ledgers that have heads.
    pub fn ledgers(&self) -> impl Iterator<Item = (Agent, &str)> {
        self.by_ledger.keys().map(|(agent, session)| (*agent, session.as_str()))
    }
}

/// Appends one head, durably. Returns where a torn last line went, if there was one.
pub(super) fn append(root: &Path, head: &Head) -> Result<Option<PathBuf>> {
    let path = Heads::path(root);
    private::ensure_dir(root)?;
    let _lock = Lock::short(&root.join("heads.jsonl.lock"))?;
    let mut file = private::open(&path, Mode::Append)?;
    let bytes = private::read_all(&mut file, &path)?;
    let (_, torn) = private::whole_lines(&bytes);
    let moved = match torn {
        None => None,
        Some(t) => Some(private::move_torn(&file, &path, &bytes[t.offset as usize..], t.offset)?),
    };
    let mut line = serde_json::to_vec(head).expect("BUG: a head is always JSON");
    line.push(b'\n');
    faults::halfway("head-half", &line, |half| file.write_all(half))
        .map_err(Error::io("append to", &path))?;
    append_once(&file, &path, &line)?;
    file.sync_all().map_err(Error::io("sync", &path))?;
    private::sync_parent(&path)?;
    Ok(moved)
}
