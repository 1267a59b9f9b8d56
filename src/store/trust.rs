//! Which policies may steer an unattended run: `trust.json` in the state directory.
//!
//! A policy is trusted as a path *and* a digest: a file that was edited, or copied elsewhere, is not.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{
    private::{self, Clobber, Lock},
    state::unsafe_path,
};
use crate::refusal::{Fault, FaultCode, Result};

const FILE: &str = "trust.json";
const LOCK: &str = "trust.lock";
const SCHEMA: &str = "offshoot.trust/1";

#[derive(Debug, Serialize, Deserialize)]
struct File {
    schema: String,
    policies: Vec<Trusted>,
}

/// A trusted policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trusted {
    /// Its canonical path.
    pub path: String,
    /// `blake3:<hex>` of its text.
    pub digest: String,
}

/// Whether this text was trusted at this place. `path` is canonical.
///
/// # Errors
/// `damaged` if the list cannot be read as one; what [`private::read`] reports.
pub fn is_trusted(root: &Path, path: &Path, digest: &str) -> Result<bool> {
    Ok(load(root)?.iter().any(|t| Path::new(&t.path) == path && t.digest == digest))
}

/// Trusts a policy, in place of what was trusted at this path before. `path` is canonical.
///
/// # Errors
/// `unsafe-path` for a path that is not UTF-8; as for [`is_trusted`]; `io`.
pub fn trust(root: &Path, path: &Path, digest: &str) -> Result<()> {
    let Some(text) = path.to_str() else {
        return Err(unsafe_path(path, "is not UTF-8, so it cannot be recorded"));
    };
    change(root, |policies| {
        policies.retain(|t| t.path != text);
        policies.push(Trusted { path: text.to_owned(), digest: digest.to_owned() });
        true
    })
    .map(drop)
}

/// Takes the trust in a path back; whether there was any.
///
/// # Errors
/// As for [`is_trusted`]; `io`.
pub fn revoke(root: &Path, path: &Path) -> Result<bool> {
    change(root, |policies| {
        let before = policies.len();
        policies.retain(|t| Path::new(&t.path) != path);
        policies.len() != before
    })
}

/// All that is trusted.
///
/// # Errors
/// As for [`is_trusted`].
pub fn load(root: &Path) -> Result<Vec<Trusted>> {
    let path = root.join(FILE);
    let Some(bytes) = private::read(&path)? else { return Ok(Vec::new()) };
    let damaged = |why: String| {
        Fault::new(FaultCode::Damaged, format!("`{}` is no list of trusted policies: {why}", path.display()))
    };
    let file: File = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
    if file.schema != SCHEMA {
        return Err(
            damaged(format!("its schema is `{}`, and this version reads `{SCHEMA}`", file.schema)).into()
        );
    }
    Ok(file.policies)
}

fn change(root: &Path, edit: impl FnOnce(&mut Vec<Trusted>) -> bool) -> Result<bool> {
    private::ensure_dir(root)?;
    let _lock = Lock::short(&root.join(LOCK))?;
    let mut policies = load(root)?;
    if !edit(&mut policies) {
        return Ok(false);
    }
    let file = File { schema: SCHEMA.to_owned(), policies };
    let mut bytes = serde_json::to_vec_pretty(&file).expect("BUG: strings are always JSON");
    bytes.push(b'\n');
    private::publish(&root.join(FILE), &bytes, Clobber::Replace)?;
    Ok(true)
}
