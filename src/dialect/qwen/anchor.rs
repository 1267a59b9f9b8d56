//! The in-place anchor: a system record without subtype, below the leaf. The client takes it for an ordinary
//! node that says nothing to the model and nothing on the screen (measured: cases `ii-system-no-subtype`, `x5`).

use serde_json::json;

use crate::{
    dialect::{Anchor, AnchorSpec},
    topology::build_ordered_uuid_chain,
    transcript::{IdIx, Transcript},
};

/// One line. Its parent is the leaf, or where the client cannot see the leaf, the last record that it can.
pub(super) fn anchor(t: &Transcript, leaf: IdIx, spec: &AnchorSpec) -> Anchor {
    let chain = build_ordered_uuid_chain(t, leaf);
    let parent = chain.visible(t).last().map(|&id| t.ids.text(id));
    let mut record = json!({
        "uuid": spec.uuid,
        "parentUuid": parent,
        "sessionId": t.session_ids.first(),
        "timestamp": super::timestamp(spec.now),
        "type": "system",
        "provenance": "system",
    });
    for (key, value) in [("cwd", &t.first_cwd), ("version", &t.client_version)] {
        if let Some(value) = value {
            record[key] = json!(value);
        }
    }
    record["systemPayload"] =
        json!({"offshoot": 1, "operationId": spec.operation_id, "leafUuid": t.ids.text(leaf)});
    Anchor { bytes: format!("{record}\n").into_bytes(), uuid: spec.uuid.clone() }
}
