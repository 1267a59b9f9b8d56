//! `audit prune`: old entries go, the chain stays.

use std::{path::Path, process::ExitCode};

use jiff::Timestamp;
use serde::Serialize;

use super::{moment, scope};
use crate::{
    cli::{args::Global, output},
    refusal::{Error, Result},
    store::ledger::ledgers,
};

/// `offshoot.audit-prune/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    before: String,
    ledgers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    ledger: String,
    removed: u64,
    kept: u64,
    /// Why it was left alone, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Prunes every ledger in scope. One that cannot be pruned (damaged, or of a newer version) stops none of the others;
/// the first such error is the command's.
pub fn run(global: &Global, root: &Path, before: &str, now: Timestamp) -> Result<ExitCode> {
    let before = moment("--before", before, now)?;
    let scope = scope(global, root, None)?;
    let mut document =
        Document { schema: "offshoot.audit-prune/1", before: before.to_string(), ledgers: Vec::new() };
    let mut first_error: Option<Error> = None;
    for ledger in ledgers(root)? {
        if !scope.has(&ledger, &ledger.scan()?) {
            continue;
        }
        let path = ledger.path().display().to_string();
        let row = match ledger.prune(before) {
            Ok(pruned) => Row { ledger: path, removed: pruned.removed, kept: pruned.kept, refused: None },
            Err(e) => {
                let refused = Some(e.code().to_owned());
                first_error.get_or_insert(e);
                Row { ledger: path, removed: 0, kept: 0, refused }
            }
        };
        ledger.take_notes().iter().for_each(|note| output::note(global, note));
        document.ledgers.push(row);
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    if global.json {
        output::json(&document)?;
    } else {
        let (removed, kept) =
            document.ledgers.iter().fold((0, 0), |(r, k), row| (r + row.removed, k + row.kept));
        output::note(global, &format!("removed {removed} entries, kept {kept}"));
    }
    Ok(ExitCode::SUCCESS)
}
