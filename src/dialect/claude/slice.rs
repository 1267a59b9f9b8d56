//! What a seed of a chain holds, and what the client must make of it.

use super::{attached::attached, history::History, simulate::View, version::Era};
use crate::{
    dialect::{Client, Expected},
    topology::{Chain, trim_neutral},
    transcript::{IdIx, RecordIx, Transcript},
};

/// The records of a seed: the defining copy of each.
pub(super) struct Slice {
    /// By id.
    pub kept: Vec<bool>,
    /// In file order, but that the leaf comes behind everything that does not hang below it, and its notes come last:
    /// whatever looks for the last record of the file finds the end of this chain.
    pub order: Vec<RecordIx>,
}

impl Slice {
    pub fn of(t: &Transcript, chain: &Chain) -> Slice {
        let attached = attached(t, chain);
        let mut kept = vec![false; t.ids.len()];
        for id in chain.uuids.iter().chain(&attached.parts) {
            kept[id.ix()] = true;
        }
        let mut order: Vec<RecordIx> = (0..t.records.len() as RecordIx)
            .filter(|&ix| {
                let id = t.record(ix).id;
                kept[id.ix()] && t.first(id) == Some(ix) && chain.uuids.last() != Some(&id)
            })
            .collect();
        order.extend(chain.uuids.last().and_then(|&leaf| t.first(leaf)));
        order.extend(attached.notes.iter().filter_map(|&id| t.first(id)));
        attached.notes.iter().for_each(|id| kept[id.ix()] = true);
        Slice { kept, order }
    }
}

pub(super) fn version(t: &Transcript, client: &Client) -> String {
    client.version.clone().or_else(|| t.client_version.clone()).unwrap_or_default()
}

/// What the client makes of exactly the records of the slice: the same rules as for a whole file, on nothing else.
pub(super) fn expected(t: &Transcript, chain: &Chain, client: &Client) -> Expected {
    let slice = Slice::of(t, chain);
    let begins: Vec<_> = slice.order.iter().map(|&ix| t.id(t.record(ix).id)).collect();
    let (Some(rounds), Some(&leaf)) = (&t.rounds, chain.uuids.last()) else {
        return Expected { history: Vec::new(), begins, tail: None };
    };
    let view = View::of_seed(t, rounds, Era::of(&version(t, client)), &slice.kept);
    let built = History::build(&view, end_of(&view, leaf));
    let mut history = built.ids;
    trim_neutral(t, &mut history);
    Expected {
        history: history.into_iter().map(|id| t.id(id)).collect(),
        begins,
        tail: Some(t.id(built.tail)),
    }
}

/// Behind a summary stands what its compaction keeps, so that a conversation that ends there ends with that.
fn end_of(view: &View<'_>, leaf: IdIx) -> IdIx {
    view.told.as_ref().map_or(leaf, |told| told.end_of(leaf))
}

/// The record that the client's next one would hang on, if it picked this one in the whole file.
pub(super) fn end_in_place(t: &Transcript, leaf: IdIx, version: &str) -> IdIx {
    let Some(rounds) = &t.rounds else { return leaf };
    let view = View::new(t, rounds, Era::of(version));
    History::build(&view, end_of(&view, leaf)).tail
}
