//! Which state may follow which.

use std::path::Path;

use serde_json::json;

use crate::{
    refusal::{Code, Refusal, Result},
    store::ledger::{
        Read,
        entry::{Body, State},
    },
};

/// Whether an operation that stands at `before` (`None`: never seen) may go to `after`.
///
/// `superseded` is derived and never written. A command may be started again on a completed selection, so
/// `observed` may follow itself.
pub fn follows(before: Option<State>, after: State) -> bool {
    use State::{Abandoned, Acknowledged, Completed, Observed, Pending, Replaced};
    match before {
        None | Some(Abandoned) => after == Pending,
        Some(Pending) => matches!(after, Completed | Abandoned | Replaced),
        Some(Completed) => matches!(after, Acknowledged | Observed | Replaced),
        Some(Acknowledged) => matches!(after, Observed | Replaced),
        Some(Observed) => matches!(after, Acknowledged | Observed | Replaced),
        Some(Replaced) => false,
    }
}

/// Checks a new entry against what the ledger says of its operation.
pub(super) fn check(read: &Read, body: &Body, path: &Path) -> Result<()> {
    let before = read.entries.iter().rev().find(|e| e.body.operation_id == body.operation_id);
    let state = before.map(|e| e.body.state);
    let same = || before.is_none_or(|e| e.body.transcript == body.transcript);
    // A retry after an abandoned attempt may ask for something else; whatever closes an attempt may not.
    if follows(state, body.state) && (body.state == State::Pending || same()) {
        return Ok(());
    }
    let stands = state.map_or("unknown", State::name);
    Err(Refusal::new(
        Code::OperationConflict,
        format!("operation `{}` is {stands} and cannot become {}", body.operation_id, body.state.name()),
    )
    .detail(json!({
        "operationId": body.operation_id, "ledger": path.display().to_string(),
        "state": state.map(State::name), "asked": body.state.name(),
    }))
    .into())
}
