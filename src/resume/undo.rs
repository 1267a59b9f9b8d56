//! `undo`: an in-place selection of what the client would have resumed before the last one.

use serde_json::json;

use crate::{
    record::RecordId,
    refusal::{Code, Refusal, Result},
    resume::annotate::Context,
    selection::SeedMode,
    topology::{Tree, grown_from},
    transcript::Transcript,
};

/// The leaf to go back to. Only in-place selections that wrote something count, `undo` itself included: a second
/// one goes back to where the first one came from.
///
/// # Errors
/// `nothing-to-undo`; `stale-source` if the branch is not there any more, or has split since.
pub(super) fn leaf_before(t: &Transcript, context: &Context, transcript: &str) -> Result<RecordId> {
    let selections = context.read.selections(transcript);
    let last = selections.iter().rev().filter(|s| s.is_completed()).find_map(|s| {
        let body = &s.pending.body;
        let seed = body.seed.as_ref()?;
        (seed.mode == SeedMode::InPlace && seed.anchor.is_some()).then_some(body)
    });
    let Some(body) = last else {
        return Err(Refusal::new(
            Code::NothingToUndo,
            format!("no in-place selection of `{transcript}` is recorded"),
        )
        .hint("a fork leaves its source as it was; there is nothing to undo in it")
        .into());
    };
    let Some(pick) = &body.client_pick else {
        return Err(Refusal::new(
            Code::NothingToUndo,
            format!("before operation `{}` the client would have refused the file", body.operation_id),
        )
        .detail(json!({"operationId": body.operation_id}))
        .into());
    };
    let before = pick.leaf_uuid.as_ref().unwrap_or(&pick.tail_uuid);
    grown_from(t, &Tree::new(t), before).ok_or_else(|| {
        Refusal::new(
            Code::StaleSource,
            format!(
                "`{before}`, where the client was before operation `{}`, is no single branch now",
                body.operation_id
            ),
        )
        .hint("choose the branch with `offshoot resume --pick --seed in-place`")
        .detail(json!({"operationId": body.operation_id, "leafUuid": before}))
        .into()
    })
}
