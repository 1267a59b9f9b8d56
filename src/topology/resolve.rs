//! Leaf ids as they are typed: an exact id, else an unambiguous prefix of 4 or more characters.

use serde_json::json;

use crate::{
    record::{RecordId, may_abbreviate},
    refusal::{Code, Error, Refusal, Result},
    topology::Tree,
    transcript::{IdIx, Transcript},
};

/// The most ids that a refusal lists.
const MOST_LISTED: usize = 50;

/// The leaf that was named, or the only one.
///
/// A neutral record below a leaf (a title, an anchor) stands for the leaf. Prefixes are of leaves first, then of any
/// record.
///
/// # Errors
/// `no-leaf`, `several-leaves` without a name; `leaf-unknown`, `id-ambiguous`, `leaf-not-terminal`, `sidechain-leaf` with one.
pub fn resolve_leaf(t: &Transcript, tree: &Tree<'_>, name: Option<&str>) -> Result<IdIx> {
    let Some(name) = name else { return only(t, tree) };
    let exact = t.ids.find(name).filter(|&id| t.first(id).is_some());
    let id = match exact {
        Some(id) => id,
        None => by_prefix(t, tree, name)?,
    };
    t.require_conversation(id)?;
    tree.leaf_of(id).ok_or_else(|| {
        let id = t.id(id);
        Refusal::new(Code::LeafNotTerminal, format!("`{id}` is a record, but no branch ends there"))
            .hint("`offshoot inspect` lists the leaves")
            .detail(json!({"uuid": id}))
            .into()
    })
}

/// The record that was named: an exact id, else an unambiguous prefix of one.
///
/// # Errors
/// `leaf-unknown`, `id-ambiguous`.
pub fn resolve_record(t: &Transcript, name: &str) -> Result<IdIx> {
    if let Some(id) = t.ids.find(name).filter(|&id| t.first(id).is_some()) {
        return Ok(id);
    }
    if !may_abbreviate(name) {
        return Err(not_found(name, "; a prefix needs 4 characters or more"));
    }
    of_all(t, name)
}

fn only(t: &Transcript, tree: &Tree<'_>) -> Result<IdIx> {
    let mut leaves = tree.leaves();
    let count = leaves.len();
    match (leaves.next(), count) {
        (Some(leaf), 1) => Ok(leaf),
        (None, _) => Err(Refusal::new(Code::NoLeaf, "the transcript has no leaf").into()),
        (Some(_), _) => Err(Refusal::new(
            Code::SeveralLeaves,
            format!("the transcript has {count} leaves, and none was named"),
        )
        .hint("name one with `--leaf ID`; `offshoot inspect` lists them")
        .detail(listed("leaves", t, tree.leaves()))
        .into()),
    }
}

fn by_prefix(t: &Transcript, tree: &Tree<'_>, name: &str) -> Result<IdIx> {
    if !may_abbreviate(name) {
        return Err(not_found(name, "; a prefix needs 4 characters or more"));
    }
    let begins = |id: &IdIx| t.ids.text(*id).starts_with(name);
    let found: Vec<IdIx> = tree.leaves().filter(begins).collect();
    if found.is_empty() { of_all(t, name) } else { one_of(t, name, &found) }
}

/// The one record whose id begins so.
fn of_all(t: &Transcript, name: &str) -> Result<IdIx> {
    let begins = |id: &IdIx| t.first(*id).is_some() && t.ids.text(*id).starts_with(name);
    one_of(t, name, &t.ids.iter().filter(begins).collect::<Vec<_>>())
}

fn one_of(t: &Transcript, name: &str, found: &[IdIx]) -> Result<IdIx> {
    match *found {
        [] => Err(not_found(name, "")),
        [id] => Ok(id),
        _ => Err(Refusal::new(Code::IdAmbiguous, format!("{} ids begin with `{name}`", found.len()))
            .hint("give more characters")
            .detail(listed("ids", t, found.iter().copied()))
            .into()),
    }
}

fn not_found(name: &str, why: &str) -> Error {
    Refusal::new(Code::LeafUnknown, format!("no record has the id `{name}`{why}"))
        .hint("`offshoot inspect` lists the leaves, `offshoot tree --print` the records")
        .detail(json!({"leaf": name}))
        .into()
}

fn listed(what: &str, t: &Transcript, ids: impl ExactSizeIterator<Item = IdIx>) -> serde_json::Value {
    let more = ids.len().saturating_sub(MOST_LISTED);
    let ids: Vec<_> = ids.take(MOST_LISTED).map(|id| t.id(id)).collect();
    json!({what: ids, "more": more})
}

/// `leaf` itself if it is reported, else the one reported leaf that has grown from it. None if there is no such
/// record, or if several leaves have.
pub fn grown_from(t: &Transcript, tree: &Tree<'_>, leaf: &RecordId) -> Option<RecordId> {
    let id = t.ids.find(leaf.as_str()).filter(|&id| t.first(id).is_some())?;
    if let Some(leaf) = tree.leaf_of(id) {
        return Some(t.id(leaf));
    }
    match tree.leaves_with(id)[..] {
        [only] => Some(t.id(only)),
        _ => None,
    }
}
