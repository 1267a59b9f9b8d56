//! The records of a branch in the order in which they are read.

use std::io;

use crate::{
    dialect::Dialect,
    reading::Entry,
    topology::{Gap, above, build_ordered_uuid_chain},
    transcript::{Flags, IdIx, RecordIx, Source, Transcript},
};

/// The way to a leaf, root first: its chain, and before a compaction what that one continues, which the model has only in
/// summary.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// Ids.
    pub ids: Vec<IdIx>,
    /// Where it ends at a parent that is in no record.
    pub gap: Option<Gap>,
    /// The id at which it met itself.
    pub cycle: Option<IdIx>,
}

/// The way to a leaf. Linear in its length.
pub fn lineage(t: &Transcript, leaf: IdIx) -> Lineage {
    let mut found = Lineage::default();
    let mut seen = hashbrown::HashSet::new();
    let mut at = Some(leaf);
    while let Some(id) = at.filter(|&id| t.first(id).is_some()) {
        if !seen.insert(id) {
            found.cycle = Some(id);
            break;
        }
        found.ids.push(id);
        at = above(t, id);
        let parent = t.first(id).and_then(|r| t.record(r).parent);
        if let Some(missing) = parent.filter(|&p| t.first(p).is_none())
            && at.is_none_or(|up| t.first(up).is_none())
        {
            found.gap = Some(Gap { child: id, missing });
        }
    }
    found.ids.reverse();
    found
}

/// Adds what belongs to the chain of a leaf without standing on it (parallel tool calls, their results) to a part of its
/// way: each before the first record of the way that stands behind it in the file. `not` says what is left out.
///
/// # Errors
/// What `source` reports.
pub fn with_attached(
    t: &Transcript,
    source: &dyn Source,
    dialect: &dyn Dialect,
    leaf: IdIx,
    part: &[IdIx],
    not: &dyn Fn(IdIx) -> bool,
) -> io::Result<Vec<IdIx>> {
    let chain = build_ordered_uuid_chain(t, leaf);
    let mut beside: Vec<(RecordIx, IdIx)> = dialect
        .attached(t, source, &chain)?
        .into_iter()
        .filter(|&id| !not(id))
        .filter_map(|id| Some((t.first(id)?, id)))
        .collect();
    beside.sort_unstable();
    let mut beside = beside.into_iter().peekable();
    let mut all = Vec::with_capacity(part.len());
    for &id in part {
        while let Some((_, attached)) = beside.next_if(|(at, _)| t.first(id).is_some_and(|r| *at < r)) {
            all.push(attached);
        }
        all.push(id);
    }
    all.extend(beside.map(|(_, id)| id));
    Ok(all)
}

/// Decodes a record.
///
/// # Errors
/// What `source` reports.
pub fn entry(
    t: &Transcript,
    source: &dyn Source,
    dialect: &dyn Dialect,
    id: IdIx,
) -> io::Result<Option<Entry>> {
    let Some(record) = t.first(id).map(|r| t.record(r)) else { return Ok(None) };
    let bytes = source.bytes(record.span)?;
    Ok(Some(Entry {
        uuid: t.id(id),
        kind: record.kind,
        synthetic: record.flags.has(Flags::SYNTHETIC),
        view: dialect.view(&bytes),
        decoded: dialect.decode(&bytes),
    }))
}
