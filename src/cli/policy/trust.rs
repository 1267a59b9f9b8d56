//! `policy trust`.

use std::path::Path;

use serde_json::{Value, json};

use super::{Report, Stdout};
use crate::{
    cli::text::clean,
    policy,
    refusal::{Code, Refusal, Result},
    store::{policy_file, trust as store},
};

/// `policy trust [FILE] [--revoke]`; `root` is the state directory.
///
/// # Errors
/// `policy-invalid` for a policy that could not steer anything; `usage` where there is no trust to revoke; what
/// reading it and changing the list report.
pub fn trust(root: &Path, file: &Path, revoke: bool, json: bool) -> Result<Report> {
    let shown = clean(&file.display().to_string());
    if revoke {
        // The file may be gone: then its path is taken as it was recorded.
        let path =
            policy_file::canonical(file).or_else(|_| std::path::absolute(file)).unwrap_or(file.to_owned());
        if !store::revoke(root, &path)? {
            return Err(Refusal::new(Code::Usage, format!("`{shown}` is not trusted")).into());
        }
        let document = json!({"schema": "offshoot.policy-trust/1", "path": path.display().to_string(),
            "trusted": false});
        return Ok(report(json, document, format!("`{shown}` is no longer trusted")));
    }
    let path = policy_file::canonical(file)?;
    let (text, digest) = policy_file::read(&path)?;
    policy::parse(&text, &file.display().to_string())?;
    store::trust(root, &path, &digest)?;
    let document = json!({"schema": "offshoot.policy-trust/1", "path": path.display().to_string(),
        "digest": digest, "trusted": true});
    let words = format!("`{shown}` is trusted as it is now ({digest}); after a change it is not");
    Ok(report(json, document, words))
}

fn report(json: bool, document: Value, words: String) -> Report {
    let stdout = if json { Stdout::Json(document) } else { Stdout::Text(format!("{words}\n")) };
    Report { stdout, code: 0 }
}
