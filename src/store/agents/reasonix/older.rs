//! Sessions of clients before the folders, where they lie.

use std::path::Path;

use serde_json::json;

use crate::{
    dialect::reasonix::older::{Older, older},
    refusal::{Code, Error, Refusal, Result},
    store::file::{self, FileSource},
};

/// What such a client keeps beside a session, behind the session's name.
const BESIDE: [&str; 7] =
    [".jsonl.meta", ".jsonl.bak", ".events.jsonl", ".meta.json", ".pending.json", ".plan.json", ".ckpt"];

/// The refusal of a session of an older client, by name; none if the file is nothing of the kind.
///
/// # Errors
/// `unsafe-path` for anything but a regular file; `io`.
pub fn refuse_older(path: &Path) -> Result<Option<Error>> {
    let source = FileSource::open_file(path)?;
    let found = older(&source).map_err(Error::io("read", path))?;
    let ours = match found {
        None => false,
        Some(Older::Certain) => true,
        Some(Older::Messages) => lies_as_one(path),
    };
    let what = "is a session of Reasonix from before its session folders (one message or event a line)";
    Ok(ours.then(|| {
        Refusal::new(Code::UnsupportedVersion, format!("`{}` {what}", path.display()))
            .hint("the client imports an older session when it resumes it; the session that it makes can be read")
            .detail(json!({"path": path.display().to_string(), "what": what}))
            .into()
    }))
}

/// Whether a file lies as a session did: in a folder `sessions` of the client's home, or with its files beside it.
fn lies_as_one(path: &Path) -> bool {
    let Some(stem) =
        path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".jsonl"))
    else {
        return false;
    };
    let named = |folder: &Path, name: &str| folder.file_name().is_some_and(|n| n == name);
    let home = |folder: &Path| named(folder, ".reasonix") || named(folder, "reasonix");
    let in_home =
        path.parent().is_some_and(|folder| named(folder, "sessions") && folder.ancestors().any(home));
    in_home || BESIDE.iter().any(|end| file::exists(&path.with_file_name(format!("{stem}{end}"))))
}
