//! Texts of the policies that decided, kept under their digest.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    refusal::{Fault, FaultCode, Result},
    store::{
        ledger::hash,
        private::{self, Clobber},
    },
};

fn path_of(root: &Path, hex: &str) -> PathBuf {
    root.join("policies").join(format!("{hex}.toml"))
}

/// Keeps the text of a policy and returns its digest, `blake3:<hex>`.
///
/// # Errors
/// `io`, `unsafe-path`; `damaged` if another text is kept under that digest.
pub fn keep_policy(root: &Path, text: &str) -> Result<String> {
    let hex = hash::hex(text.as_bytes());
    let path = path_of(root, &hex);
    private::ensure_dir(&root.join("policies"))?;
    if !private::publish(&path, text.as_bytes(), Clobber::Keep)? {
        kept_policy(root, &hex)?;
    }
    Ok(format!("blake3:{hex}"))
}

/// The text of a policy by its digest (`blake3:<hex>` or the hex alone); `None` if it was never kept.
///
/// # Errors
/// `io`, `unsafe-path`; `damaged` if the text does not have that digest.
pub fn kept_policy(root: &Path, digest: &str) -> Result<Option<String>> {
    let hex = digest.strip_prefix("blake3:").unwrap_or(digest);
    // The digest comes out of a ledger: anything else must not become a path.
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return Ok(None);
    }
    let path = path_of(root, hex);
    let Some(bytes) = private::read(&path)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        Ok(text) if hash::hex(text.as_bytes()) == hex => Ok(Some(text)),
        _ => Err(Fault::new(
            FaultCode::Damaged,
            format!("`{}` does not hold the policy of that digest", path.display()),
        )
        .detail(json!({"path": path.display().to_string()}))
        .into()),
    }
}
