//! Where each agent keeps its sessions, its own lease, and its live owners. One module an agent.

use std::{fs, io, path::Path};

pub mod backups;
pub mod claude;
pub mod qwen;
pub mod reasonix;

/// Whether this user can come to a folder at all. A home that is not his to look into holds no session that he could
/// resume; a folder that is there and does not let itself be listed is another matter.
fn is_in_reach(dir: &Path) -> bool {
    !matches!(fs::symlink_metadata(dir), Err(e) if e.kind() == io::ErrorKind::PermissionDenied)
}
