//! Names of file-history backups in a transcript. Both agents name them alike.

use super::members::{last, members, string};

/// Adds the backups that a `trackedFileBackups` names: a backup by each file's path.
pub(in crate::dialect) fn tracked(tracked: &[u8], names: &mut Vec<String>) {
    for file in members(tracked).unwrap_or_default() {
        backup(&tracked[file.value], names);
    }
}

/// Adds the name of one backup. Plain file names only: a name with a separator, or a dot folder, is never copied.
pub(in crate::dialect) fn backup(backup: &[u8], names: &mut Vec<String>) {
    let Some(fields) = members(backup) else { return };
    let failed = last(&fields, "failed").is_some_and(|r| &backup[r.clone()] == b"true");
    let name = last(&fields, "backupFileName").and_then(|r| string(backup, r));
    if let Some(name) = name.filter(|n| !failed && is_file_name(n)) {
        names.push(name);
    }
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}
