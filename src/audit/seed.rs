//! The seed: whether it is there, and is the chosen chain.

use std::path::Path;

use crate::{
    audit::source::{Then, chain_of, open},
    dialect::{self, Client, derived_uuid},
    record::{Agent, RecordId},
    refusal::{Error, Result},
    selection::SeedMode,
    store::ledger::{
        Ledger,
        entry::{AnchorRecord, Body, SeedRecord},
    },
    topology::{build_ordered_uuid_chain, end_of_seed},
    transcript::Source,
};

/// What is wrong with a seed: a code and words.
pub(super) type Wrong = (&'static str, String);

/// Checks the seed of a completed selection against the chain of its leaf, as the transcript was.
pub(super) fn check(ledger: &Ledger, body: &Body, then: &Then) -> Result<Option<Wrong>> {
    let (Some(seed), Some(leaf)) = (&body.seed, body.leaf()) else {
        return Ok(Some(("seed-differs", "the entry names no seed".to_owned())));
    };
    match seed.mode {
        SeedMode::None => Ok(None),
        SeedMode::Fork => fork(ledger, body, seed, leaf, then),
        SeedMode::InPlace => match &seed.anchor {
            None => Ok(None),
            Some(anchor) => in_place(ledger, body, anchor, leaf, then),
        },
    }
}

fn differs(why: impl Into<String>) -> Result<Option<Wrong>> {
    Ok(Some(("seed-differs", why.into())))
}

fn fork(
    ledger: &Ledger,
    body: &Body,
    seed: &SeedRecord,
    leaf: &RecordId,
    then: &Then,
) -> Result<Option<Wrong>> {
    let path = Path::new(&seed.transcript);
    if seed.session_id != derived_uuid("fork", ledger.agent(), ledger.session_id(), &body.operation_id) {
        return differs("the child is not the one that this operation makes");
    }
    if path.file_stem().is_none_or(|stem| stem != seed.session_id.as_str()) {
        return differs("the child's file does not have the child's name");
    }
    let Some(source) = open(path)? else {
        return Ok(Some(("seed-gone", format!("the child `{}` is not there", seed.session_id))));
    };
    let dialect = dialect::of(ledger.agent());
    let t = dialect.read(&source).map_err(Error::io("read", path))?;
    let Some(chain) = then.chain(leaf) else { return differs("the chosen chain has no record to seed") };
    let client = Client { version: then.t.client_version.clone(), ..Client::default() };
    let expected = dialect.expected(&then.t, &chain, &client);
    // The record that stands for the end of a session of Reasonix is not in its child.
    let last = match ledger.agent() {
        Agent::Reasonix => expected.tail.clone(),
        Agent::Claude | Agent::Qwen => chain.history(&then.t).last().cloned(),
    };
    let Some(last) = last else {
        return match ledger.agent() {
            // Its turns need not have a message, and then there is none to be missing.
            Agent::Reasonix => Ok(None),
            Agent::Claude | Agent::Qwen => differs("the chosen chain has no record to seed"),
        };
    };
    // What the client appended cannot stand before them.
    let Some(end) = end_of_seed(&t, &expected.begins) else {
        return differs("the child does not begin with the chosen chain");
    };
    let mut seeded = source;
    seeded.truncate_to(end);
    let t = dialect.read(&seeded).map_err(Error::io("read", path))?;
    let seeded = chain_of(&t, &last).map(|chain| dialect.expected(&t, &chain, &client).history);
    let seeded = seeded.unwrap_or_default();
    if seeded != expected.history {
        return differs(format!(
            "the child holds {} records of the {} of the chosen chain",
            seeded.iter().zip(&expected.history).take_while(|(a, b)| a == b).count(),
            expected.history.len()
        ));
    }
    Ok(None)
}

fn in_place(
    ledger: &Ledger,
    body: &Body,
    anchor: &AnchorRecord,
    leaf: &RecordId,
    then: &Then,
) -> Result<Option<Wrong>> {
    let path = then.file();
    if anchor.uuid != derived_uuid("anchor", ledger.agent(), ledger.session_id(), &body.operation_id) {
        return differs("the anchor is not the one that this operation makes");
    }
    if body.snapshot.as_ref().is_none_or(|s| anchor.offset < s.bytes) {
        return differs("the anchor stands within the bytes that the choice was made from");
    }
    let gone = || Ok(Some(("seed-gone", "the anchor's bytes are not at their place".to_owned())));
    let Some(mut source) = open(path)? else { return gone() };
    let end = anchor.offset.saturating_add(anchor.bytes.len() as u64);
    let mut there = vec![0; anchor.bytes.len()];
    if source.len() < end || source.read_exact_at(anchor.offset, &mut there).is_err() {
        return gone();
    }
    if there != anchor.bytes.as_bytes() {
        return gone();
    }
    source.truncate_to(end);
    let t = dialect::of(ledger.agent()).read(&source).map_err(Error::io("read", path))?;
    let record = t.ids.find(&anchor.uuid).and_then(|ix| t.first(ix)).map(|ix| t.record(ix));
    // Where the client cannot see the leaf, the anchor hangs below the last record of the chain that it can. There may be
    // notes between.
    let below = then.chain(leaf).and_then(|chain| chain.visible(&then.t).last().map(|&id| then.t.id(id)));
    let hangs_there = record.filter(|r| r.span.offset >= anchor.offset).is_some_and(|r| {
        let above = below.and_then(|id| t.ids.find(id.as_str()));
        build_ordered_uuid_chain(&t, r.id).uuids.iter().any(|&id| Some(id) == above)
    });
    match hangs_there {
        true => Ok(None),
        false => differs("the anchor does not hang below the chosen leaf"),
    }
}
