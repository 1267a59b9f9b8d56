//! Transcripts of known shapes, the same bytes for the same arguments, for benches and for the test that counts steps.

#![allow(dead_code, reason = "each target that includes this uses a part of it")]

use std::io;

pub mod lines;

pub use lines::{Form, Kind, Lines, Rec, Text};

/// The bytes that a record of an ordinary session has on average, and half as many again at most.
pub const LINE: usize = 2_300;
/// As little as a record can have: what is left is the work on its links.
pub const BARE: usize = 0;

/// A family of transcripts of about `2 * size` records, made to hurt: each has been, or could be, quadratic for somebody.
pub struct Shape {
    pub name: &'static str,
    pub write: fn(&mut Lines<'_>, usize) -> io::Result<()>,
}

/// All of them.
pub const SHAPES: &[Shape] = &[
    Shape { name: "few leaves", write: |l, n| tree(l, &Tree { records: 2 * n, leaves: few(n), rewinds: 5 }) },
    Shape {
        name: "many leaves",
        write: |l, n| tree(l, &Tree { records: 2 * n, leaves: n / 10, rewinds: 5 }),
    },
    Shape { name: "one chain", write: |l, n| chain(l, 2 * n) },
    Shape { name: "children before parents", write: |l, n| backwards(l, 2 * n) },
    Shape { name: "comb of leaves", write: |l, n| comb(l, n, Kind::Assistant, Kind::Assistant, Text::Full) },
    Shape { name: "comb of blank prompts", write: |l, n| comb(l, n, Kind::User, Kind::System, Text::Blank) },
    Shape { name: "comb of open calls", write: |l, n| comb(l, n, Kind::Call, Kind::System, Text::None) },
    Shape {
        name: "comb of neutral tails",
        write: |l, n| comb(l, n, Kind::Neutral, Kind::Neutral, Text::None),
    },
    Shape { name: "cycle with a leaf at each member", write: cycle },
    Shape { name: "copies of one uuid", write: |l, n| copies(l, 2 * n) },
    Shape { name: "rewinds x leaves", write: rewinds },
    Shape { name: "all branches interleaved", write: interleaved },
];

/// 50 of 100,000 records, and not so many that a short transcript is all branches.
fn few(size: usize) -> usize {
    (size / 1_000).max(5)
}

/// A trunk from which branches of equal length leave at even distances, some of them by a rewind.
pub struct Tree {
    pub records: usize,
    pub leaves: usize,
    pub rewinds: usize,
}

/// Writes such a tree.
pub fn tree(lines: &mut Lines<'_>, tree: &Tree) -> io::Result<()> {
    let branches = tree.leaves.saturating_sub(1);
    let run = (tree.records / 2 / tree.leaves.max(1)).clamp(1, 40);
    let trunk = tree.records - branches * run;
    let mut next = tree.records as u128;
    for i in 0..trunk {
        lines.talk(i as u128, (i as u128).checked_sub(1), i)?;
        // None leaves in the last turn of the trunk, which so ends in a leaf by every client's rule.
        let begun = |at: usize| at.min(trunk - 4) * branches / (trunk - 4);
        for branch in begun(i)..begun(i + 1) {
            let mut parent = i as u128;
            for step in 0..run {
                if step == 0 && branch < tree.rewinds {
                    lines.put(&Rec {
                        uuid: next,
                        parent: Some(parent),
                        kind: Kind::Rewind,
                        text: Text::None,
                    })?;
                } else {
                    lines.talk(next, Some(parent), step)?;
                }
                parent = next;
                next += 1;
            }
        }
    }
    Ok(())
}

/// One branch of `n` records.
pub fn chain(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    (0..n).try_for_each(|i| lines.talk(i as u128, (i as u128).checked_sub(1), i))
}

/// The same, from its leaf to its root.
pub fn backwards(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    (0..n).rev().try_for_each(|i| lines.talk(i as u128, (i as u128).checked_sub(1), i))
}

/// A trunk of `n` records with one more child at each.
pub fn comb(lines: &mut Lines<'_>, n: usize, trunk: Kind, leaf: Kind, text: Text) -> io::Result<()> {
    let n = n as u128;
    lines.put(&Rec { uuid: 2 * n, parent: None, kind: Kind::Assistant, text: Text::Full })?;
    for i in 0..n {
        let parent = Some(i.checked_sub(1).unwrap_or(2 * n));
        lines.put(&Rec { uuid: i, parent, kind: trunk, text })?;
        lines.put(&Rec { uuid: n + i, parent: Some(i), kind: leaf, text })?;
    }
    Ok(())
}

/// `n` records that form a ring, and a leaf at each.
pub fn cycle(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    let n = n as u128;
    let text = Text::Full;
    for i in 0..n {
        let kind = [Kind::Assistant, Kind::Rewind][usize::from(i == n / 2)];
        lines.put(&Rec { uuid: i, parent: Some((i + 1) % n), kind, text })?;
    }
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: n + i, parent: Some(i), kind: Kind::Assistant, text }))
}

/// `n` records of one uuid, all with other parents, blank but for the last, and 50 leaves below.
pub fn copies(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    let n = n as u128;
    for i in 0..n {
        let text = if i + 1 == n { Text::Full } else { Text::Blank };
        lines.put(&Rec { uuid: 0, parent: Some(1 + i), kind: Kind::User, text })?;
    }
    let text = Text::Full;
    (0..50)
        .try_for_each(|i| lines.put(&Rec { uuid: 2 * n + i, parent: Some(0), kind: Kind::Assistant, text }))
}

/// A trunk of `n` rewinds, and a leaf at each.
pub fn rewinds(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    let n = n as u128;
    lines.put(&Rec { uuid: 2 * n, parent: None, kind: Kind::User, text: Text::Full })?;
    for i in 0..n {
        let parent = Some(i.checked_sub(1).unwrap_or(2 * n));
        lines.put(&Rec { uuid: i, parent, kind: Kind::Rewind, text: Text::None })?;
        lines.put(&Rec { uuid: n + i, parent: Some(i), kind: Kind::User, text: Text::Full })?;
    }
    Ok(())
}

/// `n` branches of two records below one root: first the prompts of all, then the replies.
pub fn interleaved(lines: &mut Lines<'_>, n: usize) -> io::Result<()> {
    let n = n as u128;
    let text = Text::Full;
    lines.put(&Rec { uuid: 2 * n, parent: None, kind: Kind::User, text })?;
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: i, parent: Some(2 * n), kind: Kind::User, text }))?;
    (0..n).try_for_each(|i| lines.put(&Rec { uuid: n + i, parent: Some(i), kind: Kind::Assistant, text }))
}

/// A prompt, a reply of so many bytes on one line, and a prompt.
pub fn one_line(lines: &mut Lines<'_>, bytes: usize) -> io::Result<()> {
    lines.talk(0, None, 0)?;
    lines.long(1, Some(0), bytes)?;
    lines.talk(2, Some(1), 0)
}
