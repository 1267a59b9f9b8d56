//! What the client loads of a file with a boundary that keeps records, and in which order it tells them.
//!
//! The last boundary that has a note decides, if the note is not void. Then nothing that stands before the *last*
//! boundary of the file is loaded but what that boundary itself keeps, which is moved behind the anchor. All of it was
//! measured with 2.1.197 and 2.1.332.

use hashbrown::HashMap;

use super::simulate::View;
use crate::{
    record::RecordKind,
    transcript::{Flags, IdIx, RecordIx},
};

/// What was kept, and what was not.
pub(super) struct Told {
    /// The last boundary.
    pub boundary: RecordIx,
    /// What it keeps, in the order in which it is told; nothing if another boundary has the note.
    pub list: Vec<IdIx>,
    /// The record behind which they are told, if it is loaded.
    pub anchor: Option<IdIx>,
    /// Of each kept record the one that it is told behind.
    above: HashMap<IdIx, Option<IdIx>>,
}

impl Told {
    /// By what the file holds: `view.in_file`.
    pub fn of(view: &View<'_>) -> Option<Told> {
        let note = view.rounds.kept.iter().rfind(|note| view.holds(note.boundary))?;
        let list = note.resolve(view.t, &|id| view.in_file(id))?;
        let is_boundary = |&ix: &RecordIx| view.has(ix, Flags::COMPRESSION) && view.holds(ix);
        let boundary = (note.boundary..view.t.records.len() as RecordIx).rfind(is_boundary)?;
        if boundary != note.boundary {
            return Some(Told { boundary, list: Vec::new(), anchor: None, above: HashMap::new() });
        }
        let is_loaded = |&id: &IdIx| view.in_file(id).is_some_and(|r| r >= boundary) || list.contains(&id);
        let anchor = note.anchor.filter(is_loaded);
        let mut above = HashMap::with_capacity(list.len());
        let mut before = anchor;
        for &id in &list {
            above.insert(id, before);
            before = Some(id);
        }
        Some(Told { boundary, list, anchor, above })
    }

    /// Whether a record is loaded that stands at a place in the file.
    pub fn loads(&self, record: RecordIx, id: IdIx) -> bool {
        record >= self.boundary || self.keeps(id)
    }

    pub fn keeps(&self, id: IdIx) -> bool {
        self.above.contains_key(&id)
    }

    /// The record that one is told behind. A message whose parent was left out is told behind all that was kept.
    pub fn above(&self, view: &View<'_>, record: RecordIx) -> Option<IdIx> {
        let r = view.t.record(record);
        if let Some(&above) = self.above.get(&r.id) {
            return above;
        }
        let parent = r.parent?;
        let left_out = view.in_file(parent).is_some_and(|p| !self.loads(p, parent));
        if Some(parent) == self.anchor || (left_out && r.kind != RecordKind::System) {
            return Some(self.list.last().copied().unwrap_or(parent));
        }
        Some(parent)
    }

    /// Where what is told behind a record ends: with the last kept one, for the anchor.
    pub fn end_of(&self, id: IdIx) -> IdIx {
        self.list.last().copied().filter(|_| Some(id) == self.anchor).unwrap_or(id)
    }
}
