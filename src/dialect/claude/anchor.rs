//! The in-place anchor: a system record below the end of the chain that the client builds for the leaf, and an
//! explicit pin that names it, or the user record above it.
//!
//! All released versions that were run go on below it: those without pins because it is the last record of the file
//! and the newest one (cases `a01`, `a03`, and a sweep over versions), the others by the pin, also where the leaf is an
//! ancestor of other work (`x01`, `x03`). To the model it says nothing, and for leaves it is a neutral record. Without
//! subtype, content and level the terminal shows nothing of it either, plain or in detail (2.1.197 and 2.1.332).

use std::io;

use serde_json::{Map, Value, json};

use super::slice::end_in_place;
use crate::{
    dialect::{Anchor, AnchorSpec},
    record::RecordKind,
    transcript::{IdIx, Source, Transcript},
};

/// What a record says of where it was written, carried over from the parent.
const CARRIED: &[&str] = &["userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug"];

/// Two lines. They are for one write: without the pin the anchor may not be looked at.
pub(super) fn anchor(
    t: &Transcript,
    source: &dyn Source,
    leaf: IdIx,
    spec: &AnchorSpec,
) -> io::Result<Anchor> {
    let version = spec.version.clone().or_else(|| t.client_version.clone()).unwrap_or_default();
    let parent = end_in_place(t, leaf, &version);
    let bytes = match t.first(parent) {
        Some(record) => source.bytes(t.record(record).span)?,
        None => Vec::new(),
    };
    // Halves of surrogate pairs are no text for this parser; then the record has what every record needs.
    let like: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    let mut record = json!({
        "parentUuid": t.ids.text(parent),
        "isSidechain": false,
        "type": "system",
        "isMeta": false,
        "uuid": spec.uuid,
        "timestamp": format!("{:.3}", later(t, spec.now)),
    });
    for &key in CARRIED {
        if let Some(value) = like.get(key).filter(|v| v.is_string()) {
            record[key] = value.clone();
        }
    }
    let fallbacks = [
        ("sessionId", t.session_ids.first()),
        ("cwd", t.first_cwd.as_ref()),
        ("version", t.client_version.as_ref()),
    ];
    for (key, value) in fallbacks {
        if let Some(value) = value.filter(|_| record.get(key).is_none()) {
            record[key] = json!(value);
        }
    }
    // Below a user record the client hangs its next one on that, not on us: a pin of ours would then stand beside what it
    // writes, and hide that if the client is stopped before it writes a pin of its own.
    let kind = t.first(parent).map(|record| t.record(record).kind);
    let is_user = matches!(kind, Some(RecordKind::User | RecordKind::ToolResult));
    let target = if is_user { t.ids.text(parent) } else { spec.uuid.clone() };
    let pin = json!({"type": "last-prompt", "leafUuid": target, "explicit": true, "sessionId": record["sessionId"]});
    Ok(Anchor { bytes: format!("{record}\n{pin}\n").into_bytes(), uuid: spec.uuid.clone() })
}

/// Now, or a millisecond behind the newest record, whatever is later.
fn later(t: &Transcript, now: jiff::Timestamp) -> jiff::Timestamp {
    let newest = t.rounds.as_ref().and_then(|rounds| rounds.latest());
    let behind = newest.and_then(|ms| jiff::Timestamp::from_millisecond(ms.saturating_add(1)).ok());
    behind.map_or(now, |behind| behind.max(now))
}
