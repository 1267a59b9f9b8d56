//! Records grouped to what a person would call one step of a conversation, for formats whose records are finer.
//!
//! The dialect says which records belong together and which step follows which; leaves and branch points are then
//! found over steps ([`crate::topology`]), and chains still over parents.

use super::{IdIx, number::number};
use crate::record::Turn;

number!(
    /// A step, by number.
    UnitIx,
    "steps"
);

/// The steps of a transcript. Records are named by their ids.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// By id: the nearest record above that belongs to a step.
    pub above: Vec<Option<IdIx>>,
    /// By id: the step; none for records that belong to none, and for ids of no record.
    pub of: Vec<Option<UnitIx>>,
    /// By step: the step before.
    pub parent: Vec<Option<UnitIx>>,
    /// By step: the state of the turn that ends with it.
    pub turn: Vec<Turn>,
}

impl Units {
    /// The step that a record belongs to or, if it belongs to none, the one that it hangs below.
    pub fn at_or_above(&self, id: IdIx) -> Option<UnitIx> {
        self.of[id.ix()].or_else(|| self.of[self.above[id.ix()]?.ix()])
    }
}
