//! What two rows do not share: the way from the branch point to each.

use super::{
    details::Line,
    doc::Doc,
    outline::{ItemIx, Kind, Outline, RunIx},
    page::Row,
    words,
};

/// At most so many rows of a side are listed.
const LISTED: usize = 200;

/// Which items lead to each of two rows and not to the other, root first, and the item that both share last.
pub fn ways(outline: &Outline, a: ItemIx, b: ItemIx) -> (Vec<ItemIx>, Vec<ItemIx>, Option<ItemIx>) {
    let (mut left, mut right) = (way(outline, a), way(outline, b));
    let shared = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    // Within the last run that both share, one may end before the other.
    let last = shared.checked_sub(1).map(|at| left[at]);
    (left.split_off(shared), right.split_off(shared), last)
}

/// All items from the root to one.
fn way(outline: &Outline, item: ItemIx) -> Vec<ItemIx> {
    let mut parts: Vec<(RunIx, ItemIx)> = vec![(outline.item(item).run, item)];
    while let Some(parent) = parts.last().and_then(|&(run, _)| outline.runs()[run as usize].parent) {
        parts.push((parent, outline.runs()[parent as usize].point));
    }
    parts.iter().rev().flat_map(|&(run, to)| outline.runs()[run as usize].from..=to).collect()
}

/// The comparison in lines.
pub fn compare(doc: &Doc, a: ItemIx, b: ItemIx) -> Vec<Line> {
    let (left, right, shared) = ways(&doc.outline, a, b);
    let mut out = Vec::new();
    let row = |item: ItemIx| match words::words(doc, Row::of(item)) {
        Ok(words) => format!("{} {}", words.role.badge(), words.preview),
        Err(e) => format!("(cannot be read: {e})"),
    };
    match shared {
        Some(item) => {
            out.push(Line::Head("both go through".to_owned()));
            out.push(Line::Text(row(item)));
        }
        None => out.push(Line::Head("they share no record".to_owned())),
    }
    for (name, way, end) in [("the marked row", left, a), ("this row", right, b)] {
        out.push(Line::Text(String::new()));
        let count = |kind, one: &str, many: &str| {
            let n = way.iter().filter(|&&item| doc.outline.item(item).kind == kind).count();
            format!("{n} {}", if n == 1 { one } else { many })
        };
        let prompts = count(Kind::User, "prompt", "prompts");
        let replies = count(Kind::Assistant, "reply", "replies");
        let tools = count(Kind::Tools, "tool round", "tool rounds");
        out.push(Line::Head(format!("only on the way to {name}: {prompts}, {replies}, {tools}")));
        if let Some(record) = doc.target(end) {
            out.push(Line::Head(doc.id(record).to_string()));
        }
        if way.is_empty() {
            out.push(Line::Aside("nothing: the other way goes on from here".to_owned()));
        }
        for &item in way.iter().take(LISTED) {
            match doc.outline.item(item).kind {
                Kind::User | Kind::Assistant => out.push(Line::Text(row(item))),
                _ => out.push(Line::Aside(row(item))),
            }
        }
        if way.len() > LISTED {
            out.push(Line::Aside(format!("and {} more rows", way.len() - LISTED)));
        }
    }
    out
}
