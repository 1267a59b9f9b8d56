//! What the client would refuse, or what it would make of a seed that a person did not choose.

use std::io;

use memchr::memmem;
use serde_json::json;

use super::simulate::first_loaded;
use crate::{
    dialect::jsonl::members::{last, members},
    record::Turn,
    refusal::{Code, Refusal},
    topology::Chain,
    transcript::{Flags, IdIx, Source, Transcript},
};

/// The first line with a compaction that keeps messages: the client puts those between the summary and what follows,
/// whatever their parents are, and loads nothing else that stands before (measured with 2.1.197 and 2.1.332). Our
/// rules do not have that yet, and a seed made without it would lose messages without a word.
pub(super) fn keeping_compaction(t: &Transcript, source: &dyn Source) -> io::Result<Option<u32>> {
    for record in t.records.iter().filter(|r| r.flags.has(Flags::COMPRESSION)) {
        let line = source.bytes(record.span)?;
        if memmem::find(&line, b"preserved").is_some() && keeps_messages(&line) {
            return Ok(Some(record.line));
        }
    }
    Ok(None)
}

fn keeps_messages(line: &[u8]) -> bool {
    let Some(found) = members(line) else { return false };
    let Some(metadata) = last(&found, "compactMetadata") else { return false };
    let inner = members(&line[metadata.clone()]).unwrap_or_default();
    inner.iter().any(|m| m.key == "preservedMessages" || m.key == "preservedSegment")
}

/// The refusal for such a session.
pub(super) fn keeps(line: u32) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            Code::SeedUnsupported,
            format!("line {line} is a compaction that keeps messages; seeds of such a session are not known yet"),
        )
        .hint("what `inspect` says of the client's own pick does not hold there either; use the client's own `/branch` or `/rewind`")
        .detail(json!({"line": line})),
    )
}

pub(super) fn check(t: &Transcript, chain: &Chain, in_place: bool) -> Result<Vec<String>, Box<Refusal>> {
    let Some(&leaf) = chain.uuids.last() else { return Ok(Vec::new()) };
    let id = t.id(leaf);
    if t.first(leaf).is_some_and(|record| t.record(record).flags.has(Flags::SIDECHAIN)) {
        return Err(Box::new(
            Refusal::new(
                Code::SidechainLeaf,
                format!("`{id}` belongs to a subagent; the client resumes no such record"),
            )
            .hint("`offshoot inspect` lists the branches of the conversation")
            .detail(json!({"leafUuid": id})),
        ));
    }
    if in_place {
        in_place_refusal(t, chain, leaf).map_or(Ok(()), |refusal| Err(Box::new(refusal)))?;
    }
    Ok(warnings(t, chain))
}

fn in_place_refusal(t: &Transcript, chain: &Chain, leaf: IdIx) -> Option<Refusal> {
    let id = t.id(leaf);
    let from = first_loaded(t);
    if chain.uuids.iter().any(|&id| t.first(id).is_some_and(|record| record < from)) {
        return Some(
            Refusal::new(
                Code::OutOfReach,
                format!(
                    "the file is over 5 MiB, and of such a file the client loads nothing that stands before the last \
                     compact boundary, as a part of the chain of `{id}` does"
                ),
            )
            .hint("fork instead (`--seed fork`)")
            .detail(json!({"leafUuid": id, "bytes": t.bytes + t.torn_bytes})),
        );
    }
    let units = t.units.as_ref()?;
    let unit = units.at_or_above(leaf)?;
    if units.turn[unit as usize] == Turn::OpenToolCall {
        return Some(
            Refusal::new(
                Code::InsideToolRound,
                format!("`{id}` stands inside a round of tool calls that lacks a result"),
            )
            .hint("fork instead (`--seed fork`), or let the round end first")
            .detail(json!({"leafUuid": id})),
        );
    }
    let rounds = t.rounds.as_ref()?;
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
        .hint("fork instead (`--seed fork`): the child holds one of them")
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
