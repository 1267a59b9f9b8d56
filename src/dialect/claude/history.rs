//! The history that the client builds from the record it picked, and the record at its end.

use hashbrown::{HashMap, HashSet};

use super::simulate::View;
use crate::{
    record::RecordKind,
    topology::Gap,
    transcript::{Flags, IdIx, RecordIx, rounds::of_record},
};

/// How much older a record may be to be taken for a missing parent, in milliseconds (5,001 is too much).
const BRIDGE: i64 = 5_000;

/// A walk over parents.
#[derive(Default)]
pub(super) struct Walk {
    /// Root first; without `progress` records, which are stepped over.
    pub ids: Vec<IdIx>,
    /// Where it ended at a parent that is in no record.
    pub gap: Option<Gap>,
    /// Whether it met itself.
    pub cycle: bool,
    /// Whether it went on at a record that is near in time to one whose parent is missing.
    pub bridged: bool,
}

impl Walk {
    /// Walks up from a record; over missing parents only with `times`.
    pub fn up(view: &View<'_>, from: IdIx, times: Option<&Times<'_>>) -> Walk {
        let mut walk = Walk::default();
        let mut seen = vec![false; view.t.records.len()];
        let mut next = view.record(from);
        while let Some(at) = next {
            let record = view.t.record(at);
            if std::mem::replace(&mut seen[at as usize], true) {
                walk.cycle = true;
                break;
            }
            if !record.flags.has(Flags::PROGRESS) {
                walk.ids.push(record.id);
            }
            let Some(parent) = view.above(at) else { break };
            next = view.record(parent);
            if next.is_none() {
                next = times.and_then(|times| times.before(at)).filter(|&near| !seen[near as usize]);
                walk.bridged |= next.is_some();
                if next.is_none() {
                    walk.gap = Some(Gap { child: record.id, missing: parent });
                }
            }
        }
        walk.ids.reverse();
        walk
    }
}

/// Candidates by time; of equal times the first one in file order.
pub(super) struct Times<'a> {
    view: &'a View<'a>,
    sorted: Vec<(i64, RecordIx)>,
}

impl<'a> Times<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let mut sorted: Vec<_> = view
            .records()
            .filter(|&(ix, _)| view.is_candidate(ix))
            .filter_map(|(ix, _)| Some((view.rounds.time(ix)?, ix)))
            .collect();
        sorted.sort_unstable();
        Times { view, sorted }
    }

    /// The record nearest in time before another one.
    fn before(&self, child: RecordIx) -> Option<RecordIx> {
        let time = self.view.rounds.time(child)?;
        let end = self.sorted.partition_point(|&(at, _)| at < time);
        let (nearest, _) = *self.sorted[..end].last()?;
        let first = self.sorted.partition_point(|&(at, _)| at < nearest);
        (time.saturating_sub(nearest) <= BRIDGE).then(|| self.sorted[first].1)
    }
}

/// What the client restores.
pub(super) struct History {
    /// Root first, with what is added beside the chain.
    pub ids: Vec<IdIx>,
    /// The record that the client's next one hangs on.
    pub tail: IdIx,
    /// The way to the root.
    pub walk: Walk,
}

impl History {
    /// Builds the history that ends with a record.
    pub fn build(view: &View<'_>, picked: IdIx) -> History {
        let mut walk = Walk::up(view, picked, None);
        // A fork that begins below a gap begins with a root, and no root is bridged.
        if walk.gap.is_some() && view.kept.is_none() {
            walk = Walk::up(view, picked, Some(&Times::new(view)));
        }
        let mut ids = if view.era.siblings { with_siblings(view, &walk) } else { walk.ids.clone() };
        let tail = if view.era.newest {
            order_results(view, &mut ids);
            add_trailing(view, &mut ids);
            // An open call of the last message gets a result of the client's own, which hangs on the call.
            let open = open_call(view, &ids);
            drop_open_calls(view, &mut ids, open);
            open.or_else(|| end(view, &ids))
        } else {
            add_trailing(view, &mut ids);
            drop_open_calls(view, &mut ids, None);
            end(view, &ids)
        };
        History { tail: tail.unwrap_or(picked), ids, walk }
    }
}

/// No place on a chain.
const NOWHERE: u32 = u32::MAX;

/// A chain with the other records of its messages, and the results of their calls, each behind the last record of
/// that message on the chain, in file order, wherever they hang.
pub(super) fn with_siblings(view: &View<'_>, walk: &Walk) -> Vec<IdIx> {
    let mut on_chain = vec![false; view.t.ids.len()];
    walk.ids.iter().for_each(|id| on_chain[id.ix()] = true);
    let message = |id: IdIx| view.record(id).and_then(|r| view.rounds.message[r as usize]);
    // By message, and by call: the place on the chain behind which its parts are added.
    let mut last: Vec<u32> = vec![NOWHERE; view.rounds.names];
    for (at, &id) in (0..).zip(&walk.ids) {
        if let Some(message) = message(id) {
            last[message.ix()] = at;
        }
    }
    let somewhere = |at: u32| (at != NOWHERE).then_some(at);
    let mut place_of_call: Vec<u32> = vec![NOWHERE; view.rounds.names];
    for &(record, call) in &view.rounds.calls {
        if let Some(at) = view.message(record).and_then(|m| somewhere(last[m.ix()])) {
            place_of_call[call.ix()] = at;
        }
    }
    let mut parts: HashMap<u32, (Vec<IdIx>, Vec<IdIx>)> = HashMap::new();
    for (record, id) in view.records().filter(|(_, id)| !on_chain[id.ix()]) {
        if let Some(at) = view.message(record).and_then(|m| somewhere(last[m.ix()])) {
            parts.entry(at).or_default().0.push(id);
        }
        let mut answers = of_record(&view.rounds.answers, record).iter();
        if let Some(at) = answers.find_map(|(_, call)| somewhere(place_of_call[call.ix()])) {
            parts.entry(at).or_default().1.push(id);
        }
    }
    let mut ids = Vec::with_capacity(walk.ids.len());
    for (at, &id) in (0..).zip(&walk.ids) {
        ids.push(id);
        if let Some((messages, results)) = parts.remove(&at) {
            ids.extend(messages.into_iter().chain(results));
        }
    }
    ids
}

fn kind(view: &View<'_>, id: IdIx) -> Option<RecordKind> {
    view.record(id).map(|r| view.t.record(r).kind)
}

fn has(view: &View<'_>, id: IdIx, flag: Flags) -> bool {
    view.record(id).is_some_and(|r| view.has(r, flag))
}

/// The place of the last user, assistant or tool-result record.
fn last_message(view: &View<'_>, ids: &[IdIx]) -> Option<usize> {
    ids.iter().rposition(|&id| kind(view, id) != Some(RecordKind::System))
}

/// 2.1.332 has the results at the end in file order, whichever of them stand on the chain.
fn order_results(view: &View<'_>, ids: &mut [IdIx]) {
    let from =
        ids.iter().rposition(|&id| kind(view, id) != Some(RecordKind::ToolResult)).map_or(0, |at| at + 1);
    ids[from..].sort_by_key(|&id| view.record(id));
}

/// Takes along the attachments and system records that hang below the last message through nothing but such
/// records, even if a prompt hangs below them too: in file order, or depth first in 2.1.332.
fn add_trailing(view: &View<'_>, ids: &mut Vec<IdIx>) {
    let Some(last) = last_message(view, ids) else { return };
    let mut children: HashMap<RecordIx, Vec<RecordIx>> = HashMap::new();
    for (record, _) in view.records() {
        if view.t.record(record).kind == RecordKind::System
            && view.is_candidate(record)
            && let Some(parent) = view.parent(record)
        {
            children.entry(parent).or_default().push(record);
        }
    }
    let mut below = Vec::new();
    let mut stack: Vec<RecordIx> = view.record(ids[last]).into_iter().collect();
    // On a ring, what hangs below stands above too.
    let above: HashSet<RecordIx> = ids[..=last].iter().filter_map(|&id| view.record(id)).collect();
    while let Some(at) = stack.pop() {
        if !above.contains(&at) {
            below.push(at);
        }
        // Taken out, so that a ring ends.
        stack.extend(children.remove(&at).unwrap_or_default().into_iter().rev());
    }
    let found: HashSet<RecordIx> = below.iter().copied().collect();
    below.extend(ids.drain(last + 1..).filter_map(|id| view.record(id)).filter(|r| !found.contains(r)));
    if !view.era.newest {
        below.sort_unstable();
    }
    ids.extend(below.into_iter().map(|r| view.t.record(r).id));
}

/// Calls that no result in the history answers.
fn unanswered<'v>(view: &'v View<'_>, ids: &[IdIx]) -> impl Fn(IdIx) -> (usize, usize) + use<'v> {
    let mut answered = vec![false; view.rounds.names];
    for record in ids.iter().filter_map(|&id| view.record(id)).filter(|&r| view.has(r, Flags::RESPONSE)) {
        of_record(&view.rounds.answers, record).iter().for_each(|(_, call)| answered[call.ix()] = true);
    }
    move |id| {
        let caller = view.record(id).filter(|&r| view.has(r, Flags::CALL));
        let calls = caller.map_or(&[][..], |r| of_record(&view.rounds.calls, r));
        (calls.iter().filter(|(_, call)| !answered[call.ix()]).count(), calls.len())
    }
}

/// Records all of whose calls are unanswered are dropped; 2.1.332 keeps those of the message that is still open.
fn drop_open_calls(view: &View<'_>, ids: &mut Vec<IdIx>, open: Option<IdIx>) {
    let message = |id: IdIx| view.record(id).and_then(|r| view.message(r));
    let kept = open.and_then(message);
    let unanswered = unanswered(view, ids);
    ids.retain(|&id| {
        let dropped = matches!(unanswered(id), (open, all) if all > 0 && open == all);
        !dropped || (kept.is_some() && message(id) == kept)
    });
}

/// The first record of the last message that makes a call without a result, if nobody has spoken since.
fn open_call(view: &View<'_>, ids: &[IdIx]) -> Option<IdIx> {
    let last = ids
        .iter()
        .rposition(|&id| matches!(kind(view, id), Some(RecordKind::Assistant | RecordKind::User)))?;
    let message = view.message(view.record(ids[last])?)?;
    let unanswered = unanswered(view, ids);
    let of_message = |id: &IdIx| view.record(*id).and_then(|r| view.message(r)) == Some(message);
    ids.iter().copied().filter(of_message).find(|&id| unanswered(id).0 > 0)
}

/// The record that the client's next one hangs on. Below a prompt, system records do not count; in 2.1.197 only if
/// the prompt itself is last: behind an attachment or a tool result it goes on below whatever stands last.
fn end(view: &View<'_>, ids: &[IdIx]) -> Option<IdIx> {
    let last = *ids.last()?;
    let Some(message) = last_message(view, ids) else { return Some(last) };
    if kind(view, ids[message]) == Some(RecordKind::Assistant) {
        return Some(last);
    }
    let is_system =
        |id: IdIx| kind(view, id) == Some(RecordKind::System) && !has(view, id, Flags::ATTACHMENT);
    let counts = *ids.iter().rfind(|&&id| !is_system(id))?;
    let prompt = kind(view, counts) == Some(RecordKind::User);
    Some(if view.era.newest || prompt { counts } else { last })
}
