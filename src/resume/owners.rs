//! Who has a session open, or may append to it.

use std::path::Path;

use serde_json::json;

use crate::{
    refusal::{Code, Refusal, Result},
    resume::Host,
    store::{
        agents::{
            claude,
            qwen::{self, LiveCheck},
        },
        lease::Lease,
        owner::{OwnerDesc, OwnerKind},
        process::may_descend,
    },
};

/// Who has a session open, by its agent's own marks; none where the transcript is in no agent's place. The places of
/// the agents differ by their folders.
///
/// # Errors
/// `io`, where the marks cannot be looked at.
pub fn live_owner(host: &Host<'_>, path: &Path) -> Result<Option<(String, LiveCheck)>> {
    if let Some(place) = qwen::place_of(path) {
        let live = qwen::live_owner(&place, host.qwen)?;
        return Ok(Some((place.session_id, live)));
    }
    let Some(place) = claude::place_of(path) else { return Ok(None) };
    let live = claude::live_owner(&place)?;
    Ok(Some((place.session_id, live)))
}

/// Everybody who may append to a session now, by their own marks and by our lock file. A command that we started is the
/// agent that it runs, or the one that it starts.
///
/// # Errors
/// As for [`live_owner`].
pub fn live_owners(host: &Host<'_>, path: &Path) -> Result<Vec<OwnerDesc>> {
    let mut check = live_owner(host, path)?.map(|(_, check)| check).unwrap_or_default();
    check.notes.iter().for_each(|note| host.note(note));
    let mut owners: Vec<OwnerDesc> = check.owner.take().into_iter().chain(check.others).collect();
    let lock = qwen::place_of(path).and_then(|place| qwen::lock_owner(&place)).map(|owner| (None, owner));
    let ours = Lease::appends(path, host.state).map(|(kind, owner)| (Some(kind), owner));
    for (kind, owner) in lock.into_iter().chain(ours) {
        let is_or_started = |other: &OwnerDesc| {
            other.is_process_of(&owner)
                || kind == Some(OwnerKind::Command)
                    && matches!((other.pid, owner.pid), (Some(pid), Some(from)) if may_descend(pid, from))
        };
        if !owners.iter().any(is_or_started) {
            owners.push(owner);
        }
    }
    Ok(owners)
}

/// A live owner stands in the way of every write to a transcript in its place.
pub(super) fn refuse_live_owner(host: &Host<'_>, path: &Path) -> Result<()> {
    let Some((session_id, live)) = live_owner(host, path)? else { return Ok(()) };
    live.notes.iter().for_each(|note| host.note(note));
    let Some(owner) = live.owner else { return Ok(()) };
    Err(Refusal::new(
        Code::LeaseHeld,
        format!("session `{session_id}` is open in a live agent: {}", owner.what),
    )
    .hint("end it first, or fork (`offshoot fork`, `offshoot resume --seed fork`), which works while the agent runs")
    .detail(json!({"owner": owner.to_json()}))
    .into())
}
