//! Which project a client would have to run in to find a transcript where it lies.

use std::path::Path;

use serde::Deserialize;

use super::{
    home::{place_of, sanitise_cwd},
    live::MAX_RECORD_BYTES,
};
use crate::{dialect::Client, store::file::read_small, transcript::Transcript};

/// Where the folder's name is that of no directory we know of: no record's `cwd` is equal to it.
const NOBODYS: &str = "";

#[derive(Deserialize)]
struct RuntimeStatus {
    session_id: String,
    work_dir: String,
}

/// The client to simulate for a transcript.
///
/// In its place, a session is looked up by the folder's name, and then belongs to the client's project by its first
/// `cwd`, by that of the project whose worktree it is, or by its `runtime.json` (0.24.4). Of these the one counts
/// whose name the folder has; if none has it, the client does not find the session there (case `g10`). Elsewhere
/// the first `cwd` is taken for the project.
pub fn client_of(path: &Path, t: &Transcript, version: Option<String>) -> Client {
    let mut client = Client { version, ..Client::default() };
    let (Some(place), Some(cwd)) = (place_of(path), &t.first_cwd) else { return client };
    let Some(folder) = place.project_dir.file_name().and_then(|n| n.to_str()) else { return client };
    let sidecar = place.chats().join(format!("{}.runtime.json", place.session_id));
    client.runtime_dir = read_small(&sidecar, MAX_RECORD_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<RuntimeStatus>(&bytes).ok())
        .filter(|status| t.session_ids.first() == Some(&status.session_id))
        .map(|status| status.work_dir);
    let worktree_root = cwd.rfind("/.qwen/worktrees/").filter(|&at| at > 0).map(|at| cwd[..at].to_owned());
    let known = [Some(cwd.clone()), worktree_root, client.runtime_dir.clone()];
    let project = known.into_iter().flatten().find(|dir| sanitise_cwd(dir) == folder);
    client.project = Some(project.unwrap_or_else(|| NOBODYS.to_owned()));
    client
}
