//! The lease of the session that a command is going to write.

use crate::{
    refusal::{Code, Error, Fault, FaultCode, Result},
    resume::{Host, Request, Resumed, settle},
    selection::SeedMode,
    store::lease::Lease,
};

/// Takes what the pipeline still holds, else the lease of the session that it answered with: a fork's child, or
/// whatever a replayed answer names.
///
/// # Errors
/// `lease-held` and the like for a replay, which has written nothing. Behind a fork that was just made a refusal
/// would say that nothing was written, so there it is the fault `command-failed-to-start`.
pub fn hold(request: &Request, host: &Host<'_>, resumed: &mut Resumed) -> Result<Lease> {
    if let Some(lease) = resumed.lease.take() {
        return Ok(lease);
    }
    match settle::take_over(host, &resumed.session, request.wait) {
        Err(Error::Refusal(r)) if !resumed.answer.replayed && resumed.answer.seed.mode == SeedMode::Fork => {
            let code = Code::as_str(r.code);
            let message = format!("the command was not started: {}", r.message);
            Err(Fault::new(FaultCode::CommandFailedToStart, message)
                .detail(serde_json::json!({"refusal": code, "detail": r.detail}))
                .into())
        }
        other => other,
    }
}
