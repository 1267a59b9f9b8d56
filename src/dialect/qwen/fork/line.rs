//! What changes in the line of one record.

use std::ops::Range;

use serde_json::json;
use smallvec::SmallVec;

use super::Parent;
use crate::{
    dialect::{
        ForkSpec,
        jsonl::{
            json::{Cursor, Field},
            members::{range, string},
        },
    },
    transcript::{IdIx, Transcript},
};

/// What the lines of a child have in common.
pub(super) struct Lines<'a> {
    pub t: &'a Transcript,
    /// The session ids of the child and of its source, and the folder of the first record, as JSON.
    child: String,
    source: String,
    project: String,
}

/// A line, and what changes in it. Nothing is put into memory of its own for it: there are millions, and threads that make
/// them side by side would wait for each other.
pub(super) struct Changed<'a> {
    lines: &'a Lines<'a>,
    line: &'a [u8],
    id: IdIx,
    parent: Option<IdIx>,
    /// By place, and what stands there then.
    values: SmallVec<[(Range<usize>, Value); 4]>,
    /// What is added behind the other members, and where.
    adds_project: bool,
    adds_from: bool,
    end: usize,
    /// Of a system record. Its payload may change too, by what the records before it hold.
    pub subtype: Option<String>,
}

#[derive(Clone, Copy)]
enum Value {
    Session,
    Parent,
    From,
    Project,
    /// As it is.
    Payload,
}

impl<'a> Lines<'a> {
    pub fn new(t: &'a Transcript, spec: &ForkSpec) -> Self {
        let quoted = |text: Option<&String>| json!(text).to_string();
        Lines {
            t,
            child: quoted(Some(&spec.session_id)),
            source: quoted(t.session_ids.first()),
            project: quoted(t.first_cwd.as_ref()),
        }
    }

    /// What changes in the line of a record, of which the `first` is that by which the client finds the child; none if it
    /// is no object.
    pub fn changed<'l>(
        &'l self,
        line: &'l [u8],
        id: IdIx,
        parent: Parent,
        first: bool,
    ) -> Option<Changed<'l>> {
        let mut values: SmallVec<[_; 4]> = SmallVec::new();
        let mut folders: SmallVec<[Range<usize>; 1]> = SmallVec::new();
        let (mut kind, mut subtype) = (Field::Absent, Field::Absent);
        let mut adds_from = true;
        Cursor::new(line)
            .members(|key, value| {
                let with = match key.name().as_ref() {
                    b"sessionId" => Value::Session,
                    b"parentUuid" if matches!(parent, Parent::Linear(_)) => Value::Parent,
                    b"forkedFrom" => {
                        adds_from = false;
                        Value::From
                    }
                    b"cwd" if first => return range(value).map(|at| folders.push(at)),
                    b"systemPayload" => Value::Payload,
                    b"type" => return value.field().map(|field| kind = field),
                    b"subtype" => return value.field().map(|field| subtype = field),
                    _ => return value.skip().map(drop),
                };
                values.push((range(value)?, with));
                Ok(())
            })
            .ok()?;
        // The client looks the child up by the first record's folder.
        let folder = || folders.last().and_then(|at| string(line, at));
        let moves =
            first && self.t.first_cwd.as_ref().is_some_and(|project| folder().as_ref() != Some(project));
        let adds_project = moves && folders.is_empty();
        if moves {
            values.extend(folders.into_iter().map(|at| (at, Value::Project)));
            values.sort_by_key(|(at, _)| at.start);
        }
        let is_system = matches!(kind, Field::Str(kind) if kind.is("system"));
        let subtype = subtype.text().filter(|_| is_system).map(|text| text.into_owned());
        let parent = match parent {
            Parent::Linear(to) => to,
            Parent::Verbatim => None,
        };
        let end = memchr::memrchr(b'}', line)?;
        Some(Changed { lines: self, line, id, parent, values, adds_project, adds_from, end, subtype })
    }
}

impl Changed<'_> {
    /// Adds the line as it is then; returns where its payload stands in `out`, the last one if there are several.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<Range<usize>> {
        let (mut done, mut payload) = (0, None);
        for (at, value) in &self.values {
            out.extend_from_slice(&self.line[done..at.start]);
            let from = out.len();
            match value {
                Value::Session => out.extend_from_slice(self.lines.child.as_bytes()),
                Value::Project => out.extend_from_slice(self.lines.project.as_bytes()),
                Value::Parent => match self.parent {
                    Some(parent) => self.lines.t.ids.quote(parent, out),
                    None => out.extend_from_slice(b"null"),
                },
                Value::From => self.from(out),
                Value::Payload => {
                    out.extend_from_slice(&self.line[at.clone()]);
                    payload = Some(from..out.len());
                }
            }
            done = at.end;
        }
        if self.adds_project || self.adds_from {
            out.extend_from_slice(&self.line[done..self.end]);
            self.added(out);
            done = self.end;
        }
        out.extend_from_slice(&self.line[done..]);
        payload
    }

    fn added(&self, out: &mut Vec<u8>) {
        if self.adds_project {
            out.extend_from_slice(b",\"cwd\":");
            out.extend_from_slice(self.lines.project.as_bytes());
        }
        if self.adds_from {
            out.extend_from_slice(b",\"forkedFrom\":");
            self.from(out);
        }
    }

    fn from(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sessionId\":");
        out.extend_from_slice(self.lines.source.as_bytes());
        out.extend_from_slice(b",\"messageUuid\":");
        self.lines.t.ids.quote(self.id, out);
        out.push(b'}');
    }
}
