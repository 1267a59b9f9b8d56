//! Whether the agent went on below the chosen leaf, once a command has ended.

use crate::{
    audit::{self, Follow},
    refusal::Result,
    resume::{Answer, Host, pending},
    store::{
        ledger::{
            Ledger,
            entry::{Observed, State},
        },
        operations,
    },
};

/// Records what was seen after the command of this answer ended, judged as an audit judges it later.
///
/// None where there is nothing to judge: the entry was pruned, or the session is gone.
///
/// # Errors
/// Faults of the transcript and the ledger.
pub fn observe(host: &Host<'_>, answer: &Answer, exit_code: i32) -> Result<Option<Follow>> {
    let Some(claim) = operations::find_claim(host.state.root(), &answer.operation_id)? else {
        return Ok(None);
    };
    let ledger = Ledger::open(host.state.root(), claim.agent, &claim.session_id);
    let read = ledger.read()?;
    let Some(selection) = read.operation(&answer.operation_id) else { return Ok(None) };
    let body = &selection.pending.body;
    let seen = audit::follow(claim.agent, body)?;
    if let Some(seen) = seen {
        let mut later = pending::later(body, State::Observed);
        later.observed = Some(Observed { outcome: seen.name().to_owned(), exit_code });
        ledger.append(later, host.now())?;
    }
    Ok(seen)
}
