//! Payload fields that name the session, and what a fork puts in their place (format notes, section 5; read in
//! the bundle of 0.24.4).

use hashbrown::HashMap;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::dialect::jsonl::{
    backups,
    members::{Edit, elements, last, members, string},
};

/// Rewrites the payloads of one fork; artifact ids that were met are remembered.
pub(super) struct Remap<'a> {
    from: &'a str,
    to: &'a str,
    artifacts: HashMap<String, String>,
}

impl<'a> Remap<'a> {
    pub(super) fn new(from: &'a str, to: &'a str) -> Self {
        Remap { from, to, artifacts: HashMap::new() }
    }

    /// The edits within `payload`. Names of file-history backups that it refers to are added to `names`.
    /// `dropped`: of a uuid that the child lacks so far, the record before it.
    pub(super) fn rewrite(
        &mut self,
        subtype: &str,
        payload: &[u8],
        dropped: &dyn Fn(&str) -> Option<Option<String>>,
        names: &mut Vec<String>,
    ) -> Vec<Edit> {
        match subtype {
            "file_history_snapshot" => self.file_history(payload, names).unwrap_or_default(),
            "ui_telemetry" => self.telemetry(payload).unwrap_or_default(),
            "branch_checkpoint" => checkpoint(payload, dropped).unwrap_or_default(),
            "session_artifact_event" | "session_artifact_snapshot" => {
                self.artifact_payload(payload).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// A prompt id `<session><separator>...` of the parent, as the child's.
    fn prompt_id(&self, json: &[u8], at: &std::ops::Range<usize>, separator: &str) -> Option<Edit> {
        let id = string(json, at)?;
        let rest = id.strip_prefix(self.from).filter(|rest| rest.starts_with(separator))?;
        Some(Edit {
            at: at.clone(),
            with: Value::String(format!("{}{rest}", self.to)).to_string().into_bytes(),
        })
    }

    fn telemetry(&self, payload: &[u8]) -> Option<Vec<Edit>> {
        let found = members(payload)?;
        let event = last(&found, "uiEvent")?;
        let inner = members(&payload[event.clone()])?;
        let at = last(&inner, "prompt_id")?;
        let at = event.start + at.start..event.start + at.end;
        Some(self.prompt_id(payload, &at, "#").into_iter().collect())
    }

    fn file_history(&self, payload: &[u8], names: &mut Vec<String>) -> Option<Vec<Edit>> {
        let found = members(payload)?;
        let list = last(&found, "snapshots")?;
        let mut edits = Vec::new();
        for element in elements(&payload[list.clone()])? {
            let element = list.start + element.start..list.start + element.end;
            let Some(fields) = members(&payload[element.clone()]) else { continue };
            let absolute = |r: &std::ops::Range<usize>| element.start + r.start..element.start + r.end;
            if let Some(at) = last(&fields, "promptId") {
                edits.extend(self.prompt_id(payload, &absolute(at), "########"));
            }
            if let Some(tracked) = last(&fields, "trackedFileBackups") {
                backups::tracked(&payload[absolute(tracked)], names);
            }
        }
        Some(edits)
    }

    /// Artifact ids are hashes over the session id. The payload is written anew here; one that is nested too
    /// deeply to be decoded, or is none, stays as it is.
    fn artifact_payload(&mut self, payload: &[u8]) -> Option<Edit> {
        let mut value: Value = serde_json::from_slice(payload).ok()?;
        let object = value.as_object_mut()?;
        if object.get("v") != Some(&Value::from(2)) {
            return None;
        }
        if object.get("sessionId").is_some_and(Value::is_string) {
            object.insert("sessionId".into(), self.to.into());
        }
        for list in ["artifacts", "markerArtifacts"] {
            for artifact in object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                self.artifact(artifact);
            }
        }
        for change in object.get_mut("changes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(artifact) = change.get_mut("artifact") {
                self.artifact(artifact);
            }
            self.reference(change.get_mut("artifactId"));
        }
        for list in ["tombstonedIds", "stickyEphemeralIds"] {
            for id in object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                self.reference(Some(id));
            }
        }
        Some(Edit { at: 0..payload.len(), with: value.to_string().into_bytes() })
    }

    /// The child's own copy: its id, and no claim on the parent's stored content (the client drops the same).
    fn artifact(&mut self, artifact: &mut Value) {
        let Some(fields) = artifact.as_object_mut() else { return };
        let Some(old) = fields.get("id").and_then(Value::as_str).map(str::to_owned) else { return };
        let key = [("workspacePath", "workspace"), ("managedId", "managed"), ("url", "url")]
            .into_iter()
            .find_map(|(field, kind)| {
                let text = fields.get(field)?.as_str().filter(|s| !s.is_empty())?;
                Some(format!("{kind}:{text}"))
            })
            .unwrap_or_else(|| format!("fork:{}:{old}", self.from));
        let new = self.stable_id(&key);
        self.artifacts.insert(old, new.clone());
        fields.insert("id".into(), new.into());
        for gone in ["contentRef", "expiresAt", "clientId"] {
            fields.shift_remove(gone);
        }
        if fields.get("retention").and_then(Value::as_str) == Some("pinned") {
            fields.insert("retention".into(), "restorable".into());
        }
    }

    fn reference(&mut self, id: Option<&mut Value>) {
        if let Some(id) = id
            && let Some(old) = id.as_str()
        {
            let new = match self.artifacts.get(old) {
                Some(new) => new.clone(),
                None => self.stable_id(&format!("fork:{}:{old}", self.from)),
            };
            *id = new.into();
        }
    }

    fn stable_id(&self, key: &str) -> String {
        let digest = Sha256::digest(format!("{}:{key}", self.to));
        digest[..8].iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A checkpoint that starts behind a record which the child lacks starts behind the one before it.
fn checkpoint(payload: &[u8], dropped: &dyn Fn(&str) -> Option<Option<String>>) -> Option<Vec<Edit>> {
    let found = members(payload)?;
    let at = last(&found, "startExclusiveRecordUuid")?;
    let before = dropped(&string(payload, at)?)?;
    let with = before.map_or(Value::Null, Value::String).to_string().into_bytes();
    Some(vec![Edit { at: at.clone(), with }])
}
