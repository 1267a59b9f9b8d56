//! One page that needs nothing else: no network, no other file. The data is a JSON block that is never run, and its
//! texts reach the page as text alone. A content security policy lets nothing run or load but the page's own script and
//! style, by their digests.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use super::model::Graph;
use crate::cli::output;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
///
/// # Errors
/// None of its own.
pub fn write(graph: &Graph) -> io::Result<String> {
    let mut data = Vec::new();
    output::write_json(&mut data, graph)?;
    let data = String::from_utf8_lossy(&data)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        source(SCRIPT),
        source(STYLE)
    );
    // The data comes last: nothing is replaced in it.
    Ok(PAGE
        .replace("@POLICY@", &policy)
        .replace("@STYLE@", STYLE)
        .replace("@SCRIPT@", SCRIPT)
        .replace("@DATA@", &data))
}

/// A digest of an inline text, as a policy names it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}
