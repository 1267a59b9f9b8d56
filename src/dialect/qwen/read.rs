//! Lines to records. (First form: whole-file, through `serde_json::Value`.)

use std::io;

use serde_json::Value;

use crate::{
    record::RecordKind,
    transcript::{Flags, LineDiagnostic, Record, Source, Span, Transcript},
};

pub(super) fn read(source: &dyn Source) -> io::Result<Transcript> {
    let all = source.bytes(Span { offset: 0, len: source.len() as u32 })?;
    let mut t =
        Transcript { ends_in_newline: all.last().is_none_or(|&b| b == b'\n'), ..Transcript::default() };
    let mut offset = 0u64;
    for line in all.split_inclusive(|&b| b == b'\n') {
        t.lines += 1;
        let body = line.trim_ascii();
        if !body.is_empty() {
            match serde_json::from_slice::<Value>(body) {
                Ok(v) => push(&mut t, &v, Span { offset, len: body.len() as u32 }),
                Err(e) => {
                    t.diagnostics.push(LineDiagnostic::MalformedLine { line: t.lines, reason: e.to_string() })
                }
            }
        }
        offset += line.len() as u64;
    }
    t.bytes = offset;
    Ok(t)
}

fn push(t: &mut Transcript, v: &Value, span: Span) {
    let s = |k: &str| v.get(k).and_then(Value::as_str);
    let (Some(uuid), Some(parent), Some(session)) = (s("uuid"), v.get("parentUuid"), s("sessionId")) else {
        t.diagnostics.push(LineDiagnostic::SkippedRecord { line: t.lines, reason: "identity fields".into() });
        return;
    };
    if t.session_ids.is_empty() {
        t.session_ids.push(session.to_owned());
        t.first_cwd = s("cwd").map(str::to_owned);
        t.client_version = s("version").map(str::to_owned);
    }
    let kind = match s("type") {
        Some("user") => RecordKind::User,
        Some("assistant") => RecordKind::Assistant,
        Some("tool_result") => RecordKind::ToolResult,
        Some("system") => RecordKind::System,
        _ => RecordKind::Other,
    };
    let mut flags = Flags::default();
    match s("subtype") {
        Some("custom_title") => flags = flags.with(Flags::NEUTRAL).with(Flags::TITLE),
        Some("session_artifact_event" | "session_artifact_snapshot") => {
            flags = flags.with(Flags::NEUTRAL).with(Flags::ARTIFACT).with(Flags::UNSEEN);
        }
        Some("rewind") => flags = flags.with(Flags::REWIND),
        _ => {}
    }
    let (id, parent) = (t.ids.intern(uuid), parent.as_str().map(|p| t.ids.intern(p)));
    let line = t.lines as u32;
    t.push(Record { id, parent, span, line, kind, flags });
}
