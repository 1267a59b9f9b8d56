//! What is written to the ledger around a seed.

use std::io;

use crate::{
    dialect::Dialect,
    record::{RecordId, RecordKind, Turn, is_hazard},
    refusal::{Refusal, Result},
    resume::{Answer, Host, operation::Operation, pipeline::Decided, seed::Plan},
    store::{
        faults,
        ledger::{
            Ledger,
            entry::{Body, OfferedLeaf, Reason, State, VerdictRecord},
            keep_policy, offered_for,
        },
        operations::{self, Claim},
        signals,
    },
    topology::Inspection,
    transcript::{Flags, PrefixDigest, Record, Source, Transcript},
};

/// `blake3:<hex>` of the first `bytes` bytes; none if there are not so many.
pub(super) fn prefix_digest(source: &dyn Source, bytes: u64) -> io::Result<Option<String>> {
    if source.len() < bytes {
        return Ok(None);
    }
    Ok(Some(PrefixDigest::of(source, bytes)?.stated()))
}

/// Claims the operation id for this request and this session's ledger.
pub(super) fn claim(
    host: &Host<'_>,
    operation: &Operation,
    decided: &Decided,
    session_id: &str,
) -> Result<()> {
    let claim = Claim {
        operation_id: operation.id.clone(),
        request_digest: operation.request_digest.clone(),
        agent: decided.session.target.agent,
        session_id: session_id.to_owned(),
        ledger: decided.session.context.ledger.path().display().to_string(),
        transcript: decided.session.snapshot.path.display().to_string(),
    };
    make_claim(host, &claim)?;
    faults::at("claimed", &decided.session.snapshot.path)
}

/// Claims an operation id. A claim that is there belongs to an operation that counts as never made, or is ours already.
pub(super) fn make_claim(host: &Host<'_>, claim: &Claim) -> Result<()> {
    match operations::claim(host.state.root(), &claim.operation_id, claim)? {
        operations::Claimed::New | operations::Claimed::Same => Ok(()),
        operations::Claimed::Other(_) => {
            operations::replace_claim(host.state.root(), &claim.operation_id, claim)
        }
    }
}

/// The pending entry: everything that is needed to finish or to disown the seed.
pub(super) fn body(host: &Host<'_>, operation: &Operation, decided: &Decided, plan: &Plan) -> Result<Body> {
    let session = &decided.session;
    let choice = &decided.choice;
    let offered = session.inspection.branches.iter().map(OfferedLeaf::from).collect();
    let digest = choice.decided_by.policy.as_ref().map(|p| p.digest.clone());
    if let (Some(digest), Some(text)) = (&digest, plan.policy_text.as_ref()) {
        let kept = keep_policy(host.state.root(), text)?;
        assert!(digest.ends_with(kept.trim_start_matches("blake3:")), "BUG: two digests of one policy");
    }
    Ok(Body {
        operation_id: operation.id.clone(),
        request_digest: operation.request_digest.clone(),
        state: State::Pending,
        transcript: session.snapshot.path.display().to_string(),
        snapshot: Some(session.snapshot.identity()),
        offered: Some(offered_for(&session.context.read, offered)),
        verdict: Some(VerdictRecord {
            leaf_uuid: choice.leaf.clone(),
            decided_by: choice.decided_by.clone(),
            trace: choice.trace.clone(),
            inputs: choice.inputs.clone(),
        }),
        client_pick: session.inspection.client_pick.clone(),
        who: Some(host.who.clone()),
        seed: Some(plan.record.clone()),
        cut: None,
        followed: decided.followed.clone(),
        replace: None,
        result: None,
        reason: None,
        observed: None,
        recovered: None,
    })
}

/// A later entry of the same operation: what identifies it, and nothing that the pending entry has.
pub(super) fn later(pending: &Body, state: State) -> Body {
    empty(&pending.operation_id, &pending.request_digest, state, &pending.transcript)
}

/// What every entry has.
pub(super) fn empty(operation_id: &str, request_digest: &str, state: State, transcript: &str) -> Body {
    Body {
        operation_id: operation_id.to_owned(),
        request_digest: request_digest.to_owned(),
        state,
        transcript: transcript.to_owned(),
        snapshot: None,
        offered: None,
        verdict: None,
        client_pick: None,
        who: None,
        seed: None,
        cut: None,
        followed: Vec::new(),
        replace: None,
        result: None,
        reason: None,
        observed: None,
        recovered: None,
    }
}

/// The completed entry, durable before success is reported.
pub(super) fn complete(host: &Host<'_>, ledger: &Ledger, pending: &Body, answer: &Answer) -> Result<()> {
    let mut body = later(pending, State::Completed);
    body.result = Some(serde_json::to_value(answer).expect("BUG: an answer is always JSON"));
    // A selection that writes nothing is done by being recorded.
    signals::finish_first();
    ledger.append(body, host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    Ok(())
}

/// Closes an entry after a refusal and frees the operation id: a retry decides afresh.
pub(super) fn abandon(
    host: &Host<'_>,
    ledger: &Ledger,
    operation_id: &str,
    pending: &Body,
    refusal: &Refusal,
) -> Result<()> {
    let mut body = later(pending, State::Abandoned);
    body.reason = Some(Reason { code: refusal.code.as_str().to_owned(), message: refusal.message.clone() });
    ledger.append(body, host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    faults::at("abandoned", ledger.path())?;
    operations::release_claim(host.state.root(), operation_id)
}

/// What a person should know of a leaf whose last turn is not finished.
pub(super) fn turn_warning(inspection: &Inspection, leaf: &RecordId) -> Option<String> {
    match inspection.branch(leaf)?.turn {
        Turn::OpenToolCall => Some(
            "the branch ends inside a tool call without result; the client will tell the model that it failed"
                .to_owned(),
        ),
        Turn::AwaitingReply => Some(
            "the branch ends with a message that was never answered; the next prompt is added to it".to_owned(),
        ),
        Turn::Complete | Turn::None => None,
    }
}

/// A title that tells a twin from its parent: the parent's title or first prompt, and the leaf.
pub(super) fn twin_title(
    dialect: &dyn Dialect,
    t: &Transcript,
    source: &dyn Source,
    session_id: &str,
    leaf: &RecordId,
) -> io::Result<String> {
    let decode = |record: &Record| -> io::Result<_> { Ok(dialect.decode(&source.bytes(record.span)?)) };
    let mut base = dialect.title(t, source)?;
    if base.is_none() {
        let first = t.records.iter().find(|r| r.kind == RecordKind::User && !r.flags.has(Flags::SYNTHETIC));
        base = match first {
            Some(record) => decode(record)?.texts.into_iter().next(),
            None => None,
        };
    }
    let base = base.unwrap_or_else(|| session_id.to_owned());
    // It goes to the client's list of sessions, which may print it as it is.
    let base: String = base.chars().map(|c| if is_hazard(c) { ' ' } else { c }).collect();
    let base = base.split_whitespace().collect::<Vec<_>>().join(" ");
    // A twin of a twin does not pile up suffixes.
    let base = match base.rfind(" (branch ") {
        Some(at) if base.ends_with(')') => &base[..at],
        _ => base.as_str(),
    };
    let short: String = leaf.as_str().chars().take(8).collect();
    let base: String = base.chars().take(80).collect();
    Ok(format!("{base} (branch {short})"))
}
