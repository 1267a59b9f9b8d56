//! Where each agent keeps its sessions, its own lease, and its live owners. One module an agent.

use std::{fs, io, path::Path};

use crate::record::Agent;

pub mod backups;
pub mod claude;
pub mod qwen;
pub mod reasonix;

/// Whose transcript a file is by where it lies, by its canonical path; none if that is no agent's place.
pub fn agent_of_place(path: &Path) -> Option<Agent> {
    let is_archived = || {
        let chats = path.parent().filter(|dir| dir.ends_with("archive"))?.parent()?;
        qwen::place_of(&chats.join(path.file_name()?))
    };
    if qwen::place_of(path).or_else(is_archived).is_some() {
        return Some(Agent::Qwen);
    }
    claude::place_of(path).map(|_| Agent::Claude)
}

/// Whether this user can come to a folder at all. A home that is not his to look into holds no session that he could
/// resume; a folder that is there and does not let itself be listed is another matter.
fn is_in_reach(dir: &Path) -> bool {
    !matches!(fs::symlink_metadata(dir), Err(e) if e.kind() == io::ErrorKind::PermissionDenied)
}
