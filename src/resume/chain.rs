//! From a leaf to a chain that may be seeded, and from bytes back to the proof that the client would follow it.

use std::io;

use serde_json::json;

use crate::{
    dialect::{Client, Dialect, Simulated},
    record::RecordId,
    refusal::{Code, Refusal, Result},
    topology::{Chain, GapIds, build_ordered_uuid_chain, trim_neutral},
    transcript::{IdIx, Source, Transcript},
};

/// A chain that may be seeded.
#[derive(Debug)]
pub struct Seedable {
    /// The explicit leaf.
    pub leaf: IdIx,
    /// Root to leaf.
    pub chain: Chain,
    /// What a person should know before using it.
    pub warnings: Vec<String>,
}

impl Seedable {
    /// Where the chain ends early, which `--allow-gap` accepted.
    pub fn gaps(&self, t: &Transcript) -> Vec<GapIds> {
        self.chain.gaps.iter().map(|gap| gap.ids(t)).collect()
    }
}

/// The chain of `leaf`, refused where a seed of it would not be what the person saw.
///
/// # Errors
/// `chain-broken` at a missing parent (unless `allow_gap`) or a cycle, `chain-conflict`, `seed-unreachable` where an
/// id cannot be written again as it was, and what the dialect refuses.
pub fn seedable(
    dialect: &dyn Dialect,
    t: &Transcript,
    source: &dyn Source,
    leaf: &RecordId,
    allow_gap: bool,
    in_place: bool,
) -> io::Result<Result<Seedable>> {
    let Some(ix) = t.ids.find(leaf.as_str()).filter(|&ix| t.first(ix).is_some()) else {
        let refusal = Refusal::new(Code::LeafUnknown, format!("`{leaf}` is in no record of the transcript"));
        return Ok(Err(refusal.into()));
    };
    let chain = build_ordered_uuid_chain(t, ix);
    let refusal = broken(t, &chain, leaf, allow_gap)
        .or_else(|| conflict(t, &chain))
        .or_else(|| unwritable(t, &chain, leaf));
    if let Some(refusal) = refusal {
        return Ok(Err(refusal.into()));
    }
    Ok(match dialect.check_seed(t, source, &chain, in_place)? {
        Ok(warnings) => Ok(Seedable { leaf: ix, chain, warnings }),
        Err(refusal) => Err(refusal.into()),
    })
}

fn broken(t: &Transcript, chain: &Chain, leaf: &RecordId, allow_gap: bool) -> Option<Refusal> {
    if let Some(cycle) = chain.cycle {
        let at = t.id(cycle);
        return Some(
            Refusal::new(Code::ChainBroken, format!("the chain of `{leaf}` runs into a cycle at `{at}`"))
                .detail(json!({"leafUuid": leaf, "cycleUuid": at})),
        );
    }
    let gap = chain.gaps.first().filter(|_| !allow_gap)?;
    let (child, missing) = (t.id(gap.child), t.id(gap.missing));
    Some(
        Refusal::new(
            Code::ChainBroken,
            format!(
                "the chain of `{leaf}` is broken: `{child}` names the parent `{missing}`, which is in no record; \
                 the history before it would be lost"
            ),
        )
        .hint("`offshoot resume --leaf ID --allow-gap` seeds the part below the gap")
        .detail(json!({"leafUuid": leaf, "gap": {"childUuid": child, "missingParentUuid": missing},
                       "records": chain.uuids.len()})),
    )
}

fn conflict(t: &Transcript, chain: &Chain) -> Option<Refusal> {
    let mut on_chain = vec![false; t.ids.len()];
    for id in &chain.uuids {
        on_chain[id.ix()] = true;
    }
    let contradicts =
        |r: &crate::transcript::Record| t.first(r.id).is_some_and(|first| t.record(first).parent != r.parent);
    let of_chain = (0..).zip(&t.records).filter(|(_, r)| on_chain[r.id.ix()]);
    let (ix, record) = of_chain.into_iter().find(|(_, r)| contradicts(r))?;
    let (id, line) = (t.id(record.id), t.line(ix));
    Some(
        Refusal::new(
            Code::ChainConflict,
            format!("records of `{id}`, which is on the chosen chain, name different parents (line {line})"),
        )
        .detail(json!({"uuid": id, "line": line})),
    )
}

/// Half of a surrogate pair is read as U+FFFD, so that different ids can look the same here, and a parent written
/// by us would not be the id that the client has. An id that holds the character itself is refused with them.
fn unwritable(t: &Transcript, chain: &Chain, leaf: &RecordId) -> Option<Refusal> {
    let mut ids = chain.uuids.iter().map(|&id| t.id(id));
    let id = ids.find(|id| id.as_str().contains(char::REPLACEMENT_CHARACTER))?;
    Some(unreachable(leaf, &format!("the id `{id}` holds a character that a seed cannot repeat")))
}

/// Where the client lands on the bytes it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The record below which its next record will hang.
    pub tail: RecordId,
    /// Whether it would go on below a record that is appended below that one.
    pub grows: bool,
}

/// Runs the client simulation over `source`, read anew from its bytes, and compares: its history must be
/// `expected` (the visible chain) and nothing else. The inner error says in words where it differs.
///
/// # Errors
/// Only what `source` reports.
pub fn land(
    dialect: &dyn Dialect,
    source: &dyn Source,
    client: &Client,
    expected: &[RecordId],
    allow_gap: bool,
) -> io::Result<std::result::Result<Landing, String>> {
    land_on(dialect, &dialect.read(source)?, source, client, expected, allow_gap)
}

/// [`land`] on a transcript that was read already, with the source that it was read from.
pub(super) fn land_on(
    dialect: &dyn Dialect,
    t: &Transcript,
    source: &dyn Source,
    client: &Client,
    expected: &[RecordId],
    allow_gap: bool,
) -> io::Result<std::result::Result<Landing, String>> {
    let resumed = match dialect.simulate(t, source, client)? {
        Simulated::Refuses(why) => return Ok(Err(format!("the client would refuse the file: {why}"))),
        Simulated::Resumes(resumed) => resumed,
    };
    if resumed.cycle {
        return Ok(Err("the client's walk would run into a cycle".to_owned()));
    }
    if let Some(gap) = resumed.gap.filter(|_| !allow_gap) {
        return Ok(Err(format!(
            "the client's walk would stop at `{}`, whose parent it cannot see",
            t.id(gap.child)
        )));
    }
    let mut history = resumed.history;
    trim_neutral(t, &mut history);
    let same = history.len() == expected.len()
        && history.iter().zip(expected).all(|(id, expected)| t.ids.find(expected.as_str()) == Some(*id));
    if !same {
        let last = history.last().map_or("nothing".to_owned(), |&id| format!("`{}`", t.id(id)));
        return Ok(Err(format!(
            "the client would continue {} records that end at {last}, not the {} of the chosen chain",
            history.len(),
            expected.len()
        )));
    }
    Ok(Ok(Landing { tail: t.id(resumed.tail), grows: resumed.grows }))
}

/// The refusal for bytes on which the client would not land.
pub fn unreachable(leaf: &RecordId, why: &str) -> Refusal {
    Refusal::new(Code::SeedUnreachable, format!("a seed of `{leaf}` would not be followed: {why}"))
        .detail(json!({"leafUuid": leaf, "reason": why}))
}
