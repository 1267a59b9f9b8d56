//! `manifest.json`: which format a session is in, and what it was made from.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    gojson,
    record::{CODEC, SCHEMA},
};
use crate::refusal::{Code, Error, Fault, FaultCode, Refusal};

/// The newest storage revision that is known; 0 is a draft that nobody migrated yet.
const REVISION: u64 = 3;

/// Where the content store of a session lies.
pub const CONTENT_ROOT: &str = "../.content-v1";

/// What a manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    /// 4.
    pub schema_version: u64,
    /// The codec of the log.
    pub codec: String,
    /// 0 to 3.
    pub storage_revision: u64,
    /// Where the content store is; anything that is not honoured means the sibling.
    pub content_root: String,
    /// The name of the folder.
    pub session_id: String,
    /// When the session was made.
    pub created_at: String,
    /// How often it was opened for writing.
    pub writer_generation: u64,
    /// The sequence up to which a fork repeats its parent.
    pub inherited_event_count: Option<u64>,
    /// What a fork was made from.
    pub source: Option<Source>,
}

/// What a session was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The parent's folder, for a fork.
    pub path: String,
    /// The length of the child's own log.
    pub size: u64,
    /// SHA-256 of the child's own log, in hex.
    pub sha256: String,
    /// The codec of the source.
    pub version: String,
    /// Which head of a legacy session was imported.
    pub legacy_head_id: Option<String>,
}

impl Manifest {
    /// Reads a manifest; `path` is what errors call it, `session_id` the name of its folder.
    ///
    /// # Errors
    /// The fault `damaged` for what is no manifest, or is one of another session; `unsupported-version` for another
    /// schema, codec or a newer storage revision, by name.
    pub fn parse(bytes: &[u8], path: &str, session_id: &str) -> Result<Manifest, Error> {
        let damaged = |reason: &str| damaged(path, reason);
        let manifest: Manifest = serde_json::from_str(&String::from_utf8_lossy(bytes))
            .map_err(|e| damaged(&format!("no manifest: {}", super::record::place(&e))))?;
        if manifest.schema_version != SCHEMA || manifest.codec != CODEC {
            let what = older(&manifest.codec);
            return Err(unsupported(
                path,
                &format!("is in {what} (schema {}, codec `{}`)", manifest.schema_version, manifest.codec),
                "the client imports an older session when it resumes it; the session that it makes can be read",
            ));
        }
        if manifest.storage_revision > REVISION {
            return Err(unsupported(
                path,
                &format!(
                    "has the storage revision {}, and {REVISION} is the newest known",
                    manifest.storage_revision
                ),
                "a newer client wrote it",
            ));
        }
        if manifest.session_id != session_id {
            return Err(damaged("it names another session than its folder").into());
        }
        Ok(manifest)
    }

    /// The manifest as the client writes it: indented, with a line end.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{\n".to_vec();
        let mut line = |key: &str, value: &[u8]| {
            if out.len() > 2 {
                out.extend_from_slice(b",\n");
            }
            out.extend_from_slice(b"  ");
            gojson::string(&mut out, key);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
        };
        let text = |value: &str| {
            let mut out = Vec::new();
            gojson::string(&mut out, value);
            out
        };
        line("schemaVersion", self.schema_version.to_string().as_bytes());
        line("codec", &text(&self.codec));
        line("storageRevision", self.storage_revision.to_string().as_bytes());
        line("contentRoot", &text(&self.content_root));
        line("sessionId", &text(&self.session_id));
        line("createdAt", &text(&self.created_at));
        line("writerGeneration", self.writer_generation.to_string().as_bytes());
        if let Some(count) = self.inherited_event_count {
            line("inheritedEventCount", count.to_string().as_bytes());
        }
        if let Some(source) = &self.source {
            let mut value = b"{\n    \"path\": ".to_vec();
            value.extend_from_slice(&text(&source.path));
            value.extend_from_slice(format!(",\n    \"size\": {}", source.size).as_bytes());
            value.extend_from_slice(b",\n    \"sha256\": ");
            value.extend_from_slice(&text(&source.sha256));
            value.extend_from_slice(b",\n    \"version\": ");
            value.extend_from_slice(&text(&source.version));
            value.extend_from_slice(b"\n  }");
            line("source", &value);
        }
        out.extend_from_slice(b"\n}\n");
        out
    }

    /// The manifest of a child that nobody has opened yet.
    pub fn of_child(child: &str, created_at: String, inherited: u64, source: Source) -> Manifest {
        Manifest {
            schema_version: SCHEMA,
            codec: CODEC.to_owned(),
            storage_revision: REVISION,
            content_root: CONTENT_ROOT.to_owned(),
            session_id: child.to_owned(),
            created_at,
            writer_generation: 0,
            inherited_event_count: Some(inherited),
            source: Some(source),
        }
    }
}

/// `header.json`: who owns a session of the desktop application. Its schema is 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Header {
    /// 1.
    pub schema_version: u64,
    /// The session.
    pub session_id: String,
    /// When it was made.
    pub created_at: String,
    /// Its working directory.
    pub cwd: String,
    /// What it was forked from.
    pub parent_session_id: Option<String>,
    /// How it came to be.
    pub origin: String,
}

impl Header {
    /// Reads a header; `path` is what errors call it.
    ///
    /// # Errors
    /// The fault `damaged` for what the client would not open; `unsupported-version` for another schema.
    pub fn parse(bytes: &[u8], path: &str, session_id: &str) -> Result<Header, Error> {
        let damaged = |reason: &str| damaged(path, reason);
        let header: Header = serde_json::from_str(&String::from_utf8_lossy(bytes))
            .map_err(|e| damaged(&format!("no header: {}", super::record::place(&e))))?;
        if header.schema_version != 1 {
            return Err(unsupported(
                path,
                &format!("has the schema {}", header.schema_version),
                "a newer client wrote it",
            ));
        }
        let origins = ["new", "fork", "canonical-v4-import", "legacy-import"];
        if header.session_id != session_id || !origins.contains(&header.origin.as_str()) {
            return Err(damaged("it is that of another session, or of no known origin").into());
        }
        Ok(header)
    }

    /// The header as the client writes it.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = b"{\n  \"schemaVersion\": 1".to_vec();
        let parent = self.parent_session_id.as_deref();
        let pairs = [
            ("sessionId", Some(self.session_id.as_str())),
            ("createdAt", Some(&self.created_at)),
            ("cwd", Some(&self.cwd)),
            ("parentSessionId", parent),
            ("origin", Some(&self.origin)),
        ];
        for (key, value) in pairs {
            let Some(value) = value else { continue };
            out.extend_from_slice(format!(",\n  \"{key}\": ").as_bytes());
            gojson::string(&mut out, value);
        }
        out.extend_from_slice(b"\n}\n");
        out
    }

    /// The header of a fork.
    pub fn of_child(&self, child: &str, created_at: &str) -> Header {
        Header {
            schema_version: 1,
            session_id: child.to_owned(),
            created_at: created_at.to_owned(),
            cwd: self.cwd.clone(),
            parent_session_id: Some(self.session_id.clone()),
            origin: "fork".to_owned(),
        }
    }
}

fn unsupported(path: &str, what: &str, hint: &str) -> Error {
    Refusal::new(Code::UnsupportedVersion, format!("`{path}` {what}"))
        .hint(hint)
        .detail(json!({"path": path, "what": what}))
        .into()
}

fn damaged(path: &str, reason: &str) -> Fault {
    Fault::new(FaultCode::Damaged, format!("`{path}` is damaged: {reason}"))
        .detail(json!({"path": path, "offset": 0, "reason": reason}))
}

/// What a codec is called.
fn older(codec: &str) -> &'static str {
    match codec {
        "reasonix.session.linear/v3" | "reasonix.session.linear/v3.1" => "the older line format of Reasonix",
        "reasonix.session.events/v3" => "the prototype event format of Reasonix",
        CODEC => "another schema of Reasonix's format",
        _ => "no format of Reasonix that is known",
    }
}

/// Whether bytes are a manifest of any of Reasonix's formats. One that lost its codec is told by the other members, and is
/// damaged.
pub fn is_manifest(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Seen {
        codec: Value,
        schema_version: Option<Value>,
        session_id: Option<Value>,
    }
    serde_json::from_slice::<Seen>(bytes).is_ok_and(|m| match m.codec.as_str() {
        Some(codec) => codec.starts_with("reasonix.session."),
        None => m.schema_version.is_some() && m.session_id.is_some_and(|id| id.is_string()),
    })
}
