//! `audit verify`: what is wrong with what is recorded. Exit status 5 if anything is.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use serde::Serialize;

use super::scope;
use crate::{
    audit,
    cli::{
        args::{AuditVerifyArgs, Global},
        output::{self, Paint},
        text::{clean, counted},
    },
    refusal::{Error, Result},
    store::ledger::{Finding, Heads, verify},
};

/// The exit status of a check that found something.
const FOUND: u8 = 5;

/// `offshoot.audit-verify/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    /// How many ledgers and entries were looked at.
    ledgers: usize,
    entries: usize,
    deep: bool,
    /// Whether heads that were kept elsewhere were compared.
    anchor: bool,
    findings: Vec<Finding>,
    notes: Vec<Finding>,
}

/// Verifies, and prints what was found.
pub fn run(global: &Global, root: &Path, args: &AuditVerifyArgs) -> Result<ExitCode> {
    let scope = scope(global, root, args.session.as_deref())?;
    let anchor = match &args.anchor {
        Some(path) => Some(Heads::parse(&std::fs::read(path).map_err(Error::io("read", path))?)),
        None => None,
    };
    let (mut found, looked) = verify(root, &scope, anchor.as_ref())?;
    if args.deep {
        found.extend(audit::deep(root, &looked, &scope)?);
    }
    let document = Document {
        schema: "offshoot.audit-verify/1",
        ledgers: looked.len(),
        entries: looked.iter().map(|l| l.read.entries.len()).sum(),
        deep: args.deep,
        anchor: anchor.is_some(),
        findings: found.findings,
        notes: found.notes,
    };
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&page(&document, Paint::stdout(global)))?;
    }
    Ok(if document.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) })
}

fn page(d: &Document, paint: Paint) -> String {
    let mut out = String::new();
    let mut lines = |label: String, all: &[Finding]| {
        for f in all {
            let at = f.seq.map(|seq| format!(" entry {seq}")).unwrap_or_default();
            let of = f.operation_id.as_ref().map(|id| format!(" of `{id}`")).unwrap_or_default();
            let place = clean(&format!("{}{at}{of}", f.ledger));
            let _ = writeln!(out, "{label}: {}: {}\n  {place}", f.code, clean(&f.message));
        }
    };
    lines(paint.bold_red("finding"), &d.findings);
    lines(paint.bold_cyan("note"), &d.notes);
    let counted = |n: usize, one: &str, many: &str| counted(n as u64, one, many);
    let _ = writeln!(
        out,
        "{} in {}: {}, {}",
        counted(d.entries, "entry", "entries"),
        counted(d.ledgers, "ledger", "ledgers"),
        counted(d.findings.len(), "finding", "findings"),
        counted(d.notes.len(), "note", "notes"),
    );
    out
}
