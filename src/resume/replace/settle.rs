//! What a crash left of a replacement.

use std::path::Path;

use crate::{
    refusal::Result,
    resume::{Host, pending, settle::Settled},
    store::{
        atomic, faults,
        ledger::{
            Ledger,
            entry::{Body, Reason, ReplaceRecord, State},
        },
        replace,
    },
};

/// Settles it, under the operation's lock and the transcript's lease: it was made if the file begins with the new
/// bytes. The backup is kept in any case.
pub(in crate::resume) fn settle(
    host: &Host<'_>,
    ledger: &Ledger,
    body: &Body,
    r: &ReplaceRecord,
) -> Result<Settled> {
    let path = Path::new(&body.transcript);
    remove_temporaries(r)?;
    // One may be the beginning of the other; then the longer one tells.
    let is_old = || replace::begins_with(path, r.old.bytes, &r.old.digest);
    let is_new = || replace::begins_with(path, r.new.bytes, &r.new.digest);
    let (made, reason) = match r.old.bytes > r.new.bytes {
        true if is_old()? => (false, "the transcript was not replaced"),
        false if !is_new()? && is_old()? => (false, "the transcript was not replaced"),
        _ if is_new()? => (true, "the transcript is the new one"),
        _ => (false, "the transcript is neither the old one nor the new one"),
    };
    if made {
        // Its name may not be durable yet: whoever renamed it was stopped before it could say so.
        atomic::sync_dir(path.parent().expect("BUG: a canonical file has a parent"))?;
    }
    faults::at("settle-found", path)?;
    let mut done = pending::later(body, if made { State::Replaced } else { State::Abandoned });
    done.recovered = Some(true);
    if made {
        done.replace = body.replace.clone();
    } else {
        done.reason = Some(Reason { code: "recovered".to_owned(), message: reason.to_owned() });
    }
    let outcome = done.state.name().to_owned();
    ledger.append(done, host.now())?;
    ledger.take_notes().iter().for_each(|note| host.note(note));
    Ok(Settled {
        operation_id: body.operation_id.clone(),
        transcript: body.transcript.clone(),
        outcome,
        reason: reason.to_owned(),
    })
}

/// Removes what it may have left beside the transcript.
pub(in crate::resume) fn remove_temporaries(r: &ReplaceRecord) -> Result<()> {
    r.temporaries.iter().try_for_each(|temporary| atomic::remove_if_there(Path::new(temporary)))
}
