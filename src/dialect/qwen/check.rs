//! What the client would refuse, or lose without a word.

use serde_json::json;

use super::artifacts::side_artifacts;
use crate::{
    refusal::{Code, Refusal},
    topology::Chain,
    transcript::{Flags, Transcript},
};

/// Refusals first; else the warnings that a person should read before the seed is used.
pub(super) fn check(t: &Transcript, chain: &Chain) -> Result<Vec<String>, Box<Refusal>> {
    if t.session_ids.len() > 1 {
        return Err(Box::new(
            Refusal::new(
                Code::MixedSessionIds,
                format!(
                    "the transcript mixes {} session ids; the client refuses such a file",
                    t.session_ids.len()
                ),
            )
            .hint("separate the sessions first; `offshoot inspect` shows where they begin")
            .detail(json!({"sessionIds": t.session_ids})),
        ));
    }
    if t.records.iter().any(|r| r.flags.has(Flags::MANAGED)) {
        return Err(Box::new(Refusal::new(
            Code::ManagedLog,
            "this is a managed session log, another format in the same directory",
        )));
    }
    Ok(warnings(t, chain))
}

fn warnings(t: &Transcript, chain: &Chain) -> Vec<String> {
    let mut on_chain = vec![false; t.ids.len()];
    for id in &chain.uuids {
        on_chain[id.ix()] = true;
    }
    let mut kept = vec![false; t.ids.len()];
    for a in side_artifacts(t, &chain.visible(t)) {
        kept[t.record(a.record).id.ix()] = true;
    }
    let hangs_here = |r: &&crate::transcript::Record| {
        !on_chain[r.id.ix()] && r.parent.is_some_and(|parent| on_chain[parent.ix()])
    };
    let mut warnings = Vec::new();
    if let Some(line) = t.separator_line {
        warnings.push(format!(
            "line {line} holds U+2028 or U+2029 unescaped; a client that runs on Node 24 or later loses that record"
        ));
    }
    if t.records.iter().filter(hangs_here).any(|r| r.flags.has(Flags::COMPRESSION)) {
        warnings.push(
            "this branch leaves the conversation before a compression: its history is the uncompressed text and \
             may exceed the context window"
                .to_owned(),
        );
    }
    let dropped = t
        .records
        .iter()
        .filter(hangs_here)
        .filter(|r| r.flags.has(Flags::ARTIFACT) && !kept[r.id.ix()])
        .count();
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} artifact record{} of this branch stand{} behind records of another one; the client does \
             not count such artifacts",
            if dropped == 1 { "" } else { "s" },
            if dropped == 1 { "s" } else { "" },
        ));
    }
    warnings
}
