//! What a selection was made from: the transcript as it was then, read and inspected again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use crate::{
    dialect::{self, Client},
    record::{Agent, RecordId},
    refusal::{Error, Result},
    store::{file::FileSource, ledger::entry::Body, then::open_then},
    topology::{self, Chain, Inspection, build_ordered_uuid_chain},
    transcript::{PrefixDigest, Source, Transcript},
};

/// The digests of a transcript's beginnings.
pub(super) struct Evidence {
    agent: Agent,
    /// Where the bytes are: the transcript, or the backup that was kept when it was replaced.
    file: PathBuf,
    /// By length; a beginning that is not there has none.
    digests: BTreeMap<u64, String>,
}

impl Evidence {
    /// Reads the file once, for all the lengths that entries name. `None` if the file is gone.
    pub(super) fn gather(agent: Agent, path: &Path, lengths: &BTreeSet<u64>) -> Result<Option<Evidence>> {
        let Some(source) = open(path)? else { return Ok(None) };
        let file = path.to_owned();
        if agent == Agent::Reasonix {
            return Ok(Some(Evidence { agent, file, digests: BTreeMap::new() }));
        }
        let mut digests = BTreeMap::new();
        let mut rolling = PrefixDigest::default();
        for &length in lengths.iter().filter(|l| **l <= source.len()) {
            rolling.carry_on(&source, length).map_err(Error::io("read", path))?;
            digests.insert(length, rolling.stated());
        }
        Ok(Some(Evidence { agent, file, digests }))
    }

    /// Whether the beginning that an entry names still has its digest.
    pub(super) fn has(&self, body: &Body) -> bool {
        body.snapshot.as_ref().is_some_and(|s| match s.parts.is_empty() {
            true => self.digests.get(&s.bytes) == Some(&s.digest),
            false => matches!(open_then(Path::new(&body.transcript), s), Ok(Some(_))),
        })
    }

    /// The transcript as it was when an entry was made. `None` if the file went away or was cut since.
    pub(super) fn then(&self, body: &Body) -> Result<Option<Then>> {
        let path = &self.file;
        let Some(snapshot) = &body.snapshot else { return Ok(None) };
        let source = if snapshot.parts.is_empty() {
            let Some(mut source) = open(path)?.filter(|s| s.len() >= snapshot.bytes) else { return Ok(None) };
            source.truncate_to(snapshot.bytes);
            source
        } else {
            let Some(source) = open_then(path, snapshot)? else { return Ok(None) };
            source
        };
        let t = dialect::of(self.agent).read(&source).map_err(Error::io("read", path))?;
        let name = body.transcript.clone().into();
        Ok(Some(Then { agent: self.agent, name, source, t }))
    }
}

/// Opens a transcript, without what is related to it; `None` if it is not there.
pub(super) fn open(path: &Path) -> Result<Option<FileSource>> {
    match FileSource::open_alone(path) {
        Ok(source) => Ok(Some(source)),
        Err(Error::Fault(f)) if f.source.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::NotFound) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// A transcript as it was.
pub(super) struct Then {
    agent: Agent,
    /// The transcript's own path.
    name: PathBuf,
    source: FileSource,
    pub(super) t: Transcript,
}

impl Then {
    /// Inspects it again; `recorded` says whether the client's own pick came out as recorded.
    ///
    /// The version and the project that were simulated are not all in the entry, so the few that can have been
    /// are tried.
    pub(super) fn inspect(&self, body: &Body) -> Result<(Inspection, bool)> {
        let version = body.client_pick.as_ref().map(|p| p.client_version.clone()).filter(|v| !v.is_empty());
        let inputs = body.verdict.as_ref().map(|v| &v.inputs);
        let asked = |key: &str| inputs.and_then(|i| i.get(key)?.as_str()).map(str::to_owned);
        // In a project's folder that is not the session's own, the client refuses.
        let elsewhere = crate::store::agents::qwen::client_of(&self.name, &self.t, None).project;
        let mut last = None;
        for version in distinct([asked("clientVersion"), None, version]) {
            for project in distinct([None, asked("cwd"), elsewhere.clone()]) {
                let client = Client { version: version.clone(), project, ..Client::default() };
                let inspection = topology::inspect(&self.t, &self.source, dialect::of(self.agent), &client)
                    .map_err(Error::io("read", self.source.path()))?;
                if inspection.client_pick == body.client_pick {
                    return Ok((inspection, true));
                }
                last = Some(inspection);
            }
        }
        let mut inspection = last.expect("BUG: at least one client is tried");
        // The policy is judged on what it was given.
        let picked = body.client_pick.as_ref().and_then(|p| p.leaf_uuid.as_ref());
        for branch in &mut inspection.branches {
            branch.client_pick = picked == Some(&branch.leaf_uuid);
        }
        inspection.client_pick.clone_from(&body.client_pick);
        Ok((inspection, false))
    }

    /// Where its bytes are.
    pub(super) fn file(&self) -> &Path {
        self.source.path()
    }

    /// The chain of a leaf; `None` if it is in no record.
    pub(super) fn chain(&self, leaf: &RecordId) -> Option<Chain> {
        chain_of(&self.t, leaf)
    }
}

fn distinct(all: [Option<String>; 3]) -> Vec<Option<String>> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// The chain of a record; `None` if there is no such record.
pub(super) fn chain_of(t: &Transcript, id: &RecordId) -> Option<Chain> {
    let ix = t.ids.find(id.as_str()).filter(|ix| t.first(*ix).is_some())?;
    Some(build_ordered_uuid_chain(t, ix))
}
