//! What descends from a record.

use crate::transcript::{IdIx, RecordIx, Transcript};

/// By id: whether its records descend from `top`, which itself does not.
///
/// The record that defines an id says what it hangs on (I3). A boundary whose parent is in no record hangs on the
/// record that it continues, as it does for leaves. Linear.
pub fn strictly_below(t: &Transcript, top: IdIx) -> Vec<bool> {
    let mut known: Vec<Option<bool>> = vec![None; t.ids.len()];
    let mut path = Vec::new();
    for start in t.ids.iter() {
        let mut at = start;
        let is_below = loop {
            if let Some(known) = known[at.ix()] {
                break known;
            }
            // A ring that is being walked descends from `top` only if `top` lies on it.
            known[at.ix()] = Some(false);
            path.push(at);
            match above(t, at) {
                Some(up) if up == top => break true,
                Some(up) => at = up,
                None => break false,
            }
        };
        path.drain(..).for_each(|at| known[at.ix()] = Some(is_below && at != top));
    }
    known.into_iter().map(|known| known == Some(true)).collect()
}

/// What a record hangs on: its parent, or where that one is in no record, what a boundary continues.
pub fn above(t: &Transcript, id: IdIx) -> Option<IdIx> {
    let record = t.first(id)?;
    let parent = t.record(record).parent.filter(|&p| t.first(p).is_some());
    parent.or_else(|| continued(t, record))
}

/// The record that a boundary continues.
fn continued(t: &Transcript, record: RecordIx) -> Option<IdIx> {
    let logical = &t.rounds.as_ref()?.logical;
    let at = logical.binary_search_by_key(&record, |&(r, _)| r).ok()?;
    Some(logical[at].1)
}
