//! What the client would refuse, or what it would make of a seed that a person did not choose.

use serde_json::json;

use super::{simulate::View, told::Told, version::Era};
use crate::{
    record::Turn,
    refusal::{Code, Refusal},
    topology::Chain,
    transcript::{IdIx, Transcript},
};

pub(super) fn check(t: &Transcript, chain: &Chain, in_place: bool) -> Result<Vec<String>, Box<Refusal>> {
    let Some(&leaf) = chain.uuids.last() else { return Ok(Vec::new()) };
    let id = t.id(leaf);
    t.require_conversation(leaf).map_err(|refusal| Box::new(refusal.detail(json!({"leafUuid": id}))))?;
    if in_place {
        in_place_refusal(t, chain, leaf).map_or(Ok(()), |refusal| Err(Box::new(refusal)))?;
    }
    Ok(warnings(t, chain))
}

fn in_place_refusal(t: &Transcript, chain: &Chain, leaf: IdIx) -> Option<Refusal> {
    let id = t.id(leaf);
    let rounds = t.rounds.as_ref()?;
    // What is loaded does not depend on the version.
    let view = View::new(t, rounds, Era::of(""));
    let is_hidden = |&id: &IdIx| t.first(id).is_some() && view.record(id).is_none();
    let before = |told: &Told| t.first(leaf).is_some_and(|record| record < told.boundary);
    let why = match &view.told {
        Some(told) if before(told) || chain.uuids.iter().any(is_hidden) => Some(
            "a compaction in it says which messages it keeps, and of what stands before the last compact boundary the \
             client loads nothing else",
        ),
        None if chain.uuids.iter().any(is_hidden) => Some(
            "it is over 5 MiB, and of such a file the client loads nothing that stands before the last compact boundary",
        ),
        _ => None,
    };
    if let Some(why) = why {
        return Some(
            Refusal::new(
                Code::OutOfReach,
                format!("in this file the chain of `{id}` is out of the client's reach: {why}"),
            )
            .hint("fork instead (`offshoot resume --leaf ID --seed fork`)")
            .detail(json!({"leafUuid": id, "bytes": t.bytes + t.torn_bytes})),
        );
    }
    let units = t.units.as_ref()?;
    let unit = units.at_or_above(leaf)?;
    if units.turn[unit.ix()] == Turn::OpenToolCall {
        return Some(
            Refusal::new(
                Code::InsideToolRound,
                format!("`{id}` stands inside a round of tool calls that lacks a result"),
            )
            .hint("fork instead (`offshoot resume --leaf ID --seed fork`), or let the round end first")
            .detail(json!({"leafUuid": id})),
        );
    }
    let message = |id: IdIx| t.first(id).and_then(|record| rounds.message[record as usize]);
    let own = message(leaf)?;
    let is_copy = |id: &IdIx| {
        message(*id) == Some(own)
            && units.of[id.ix()].is_some_and(|of| of != unit)
            && !chain.uuids.contains(id)
    };
    let copy = t.ids.iter().find(is_copy)?;
    Some(
        Refusal::new(
            Code::SeedUnreachable,
            format!(
                "the message of `{id}` also stands at `{}`, on another branch; the client would put both together",
                t.id(copy)
            ),
        )
        .hint("fork instead (`offshoot resume --leaf ID --seed fork`): the child holds one of them")
        .detail(json!({"leafUuid": id, "copyUuid": t.id(copy)})),
    )
}

fn warnings(t: &Transcript, chain: &Chain) -> Vec<String> {
    let Some(rounds) = &t.rounds else { return Vec::new() };
    let on_chain: hashbrown::HashSet<IdIx> = chain.uuids.iter().copied().collect();
    let passes = |&(record, before): &(u32, IdIx)| {
        on_chain.contains(&before) && !on_chain.contains(&t.record(record).id)
    };
    let mut warnings = Vec::new();
    if rounds.logical.iter().any(passes) {
        warnings.push(
            "this branch leaves the conversation before a compaction: its history is the full text and may exceed \
             the context window"
                .to_owned(),
        );
    }
    warnings
}
