//! Leaves and branch points over units, for formats whose records are finer than the steps of a conversation.
//!
//! A unit that no unit follows is a leaf; it is named by the record it ends with.

use super::{
    leaves::{Leaves, inner},
    nodes::{Bits, NONE, Node, Nodes},
    segments::{SegIx, Segments},
};
use crate::transcript::{IdIx, Units};

/// The terminal of each node that is a candidate (else `NONE`), and the candidate of each unit.
///
/// A candidate is, of the records of a unit without a child that no other record of it hangs below, the one that
/// stands last. Its terminal is the last childless record that belongs to the unit or hangs below it.
pub(super) fn candidates(nodes: &Nodes<'_>, units: &Units) -> (Vec<Node>, Vec<Node>) {
    let mut followed = Bits::new(units.parent.len());
    units.parent.iter().flatten().for_each(|&p| followed.set(p.number()));
    let unit_of = |n: Node| units.of[nodes.record(n).id.ix()].filter(|u| !followed.get(u.number()));
    let mut covered = Bits::new(nodes.len());
    for n in 0..nodes.len() as u32 {
        if let Some(unit) = unit_of(n)
            && let Some(above) = units.above[nodes.record(n).id.ix()]
            && units.of[above.ix()] == Some(unit)
        {
            covered.set(nodes.of_id(above).expect("BUG: a record of a unit is a node"));
        }
    }
    let later = |slot: &mut Node, n: Node| {
        if *slot == NONE || nodes.first(n) > nodes.first(*slot) {
            *slot = n;
        }
    };
    let mut of_unit = vec![NONE; units.parent.len()];
    for n in (0..nodes.len() as u32).filter(|&n| !covered.get(n) && !nodes.on_cycle(n)) {
        if let Some(unit) = unit_of(n) {
            later(&mut of_unit[unit.ix()], n);
        }
    }
    let mut terminal = vec![NONE; nodes.len()];
    let inner = inner(nodes);
    for n in (0..nodes.len() as u32).filter(|&n| !inner.get(n)) {
        let leaf = units.at_or_above(nodes.record(n).id).map_or(NONE, |u| of_unit[u.ix()]);
        if leaf != NONE {
            later(&mut terminal[leaf as usize], n);
        }
    }
    for &leaf in of_unit.iter().filter(|&&leaf| leaf != NONE) {
        if terminal[leaf as usize] == NONE {
            terminal[leaf as usize] = leaf;
        }
    }
    (terminal, of_unit)
}

/// Of each unit the segment nearest to the root that one of its records is in, or `NONE`: records of a unit that stand
/// beside a chain belong to the leaves that have the others.
pub(super) fn places(nodes: &Nodes<'_>, units: &Units, segments: &Segments) -> Vec<SegIx> {
    let mut places = vec![NONE; units.parent.len()];
    for n in 0..nodes.len() as u32 {
        if let (Some(unit), Some(ix)) = (units.of[nodes.record(n).id.ix()], segments.of(n)) {
            // Parents have smaller numbers, and `NONE` is the largest.
            let place = &mut places[unit.ix()];
            *place = ix.min(*place);
        }
    }
    places
}

/// Of each leaf the nearest record strictly above that another leaf has above it too, or `NONE`.
///
/// "Above" leads from a record to the one before it in the conversation, which need not be an ancestor. These links
/// form trees and rings with trees on them. Leaves are counted from the ends of the trees down to the rings; all of a
/// ring is above whatever hangs off it.
pub(super) fn branch_points(nodes: &Nodes<'_>, units: &Units, leaves: &Leaves) -> Vec<Node> {
    let len = units.above.len();
    let above = |id: usize| units.above[id].filter(|_| units.of[id].is_some()).map(IdIx::ix);
    let mut count = vec![0u32; len];
    for &leaf in &leaves.leaves {
        count[nodes.record(leaf).id.ix()] = 1;
    }
    let mut waiting = vec![0u32; len];
    (0..len).filter_map(above).for_each(|up| waiting[up] += 1);
    // Children before what is above them; rings are left over.
    let mut order: Vec<u32> = Vec::with_capacity(len);
    order.extend((0..len as u32).filter(|&id| waiting[id as usize] == 0));
    let mut done = 0;
    while let Some(&id) = order.get(done) {
        done += 1;
        if let Some(up) = above(id as usize) {
            count[up] += count[id as usize];
            waiting[up] -= 1;
            if waiting[up] == 0 {
                order.push(up as u32);
            }
        }
    }
    let mut shared_rings = Vec::new();
    for start in 0..len {
        let mut ring = Vec::new();
        let mut at = start;
        while std::mem::take(&mut waiting[at]) > 0 {
            ring.push(at);
            at = above(at).expect("BUG: a ring goes on");
        }
        if ring.iter().map(|&id| count[id]).sum::<u32>() > 1 {
            shared_rings.extend(ring);
        }
    }
    // Nothing waits any more: its room is that of what is looked for.
    let mut shared = waiting;
    shared.fill(NONE);
    shared_rings.iter().for_each(|&id| shared[id] = id as u32);
    for &id in order.iter().rev() {
        shared[id as usize] = match above(id as usize) {
            _ if count[id as usize] > 1 => id,
            Some(up) => shared[up],
            None => NONE,
        };
    }
    let point = |&leaf: &Node| match above(nodes.record(leaf).id.ix()).map(|up| shared[up]) {
        Some(id) if id != NONE => nodes.of_id(IdIx::new(id)).unwrap_or(NONE),
        _ => NONE,
    };
    leaves.leaves.iter().map(point).collect()
}
