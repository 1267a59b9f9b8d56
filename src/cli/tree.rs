//! `tree`: the navigator, or its page printed once.

use std::{io::IsTerminal, process::ExitCode};

use super::{
    args::{Global, TreeArgs},
    output::{self, Paint},
    tui::{Doc, print},
};
use crate::refusal::{Error, Result};

/// Columns of a page that goes nowhere in particular: an id, a role and a preview fit.
const COLUMNS: usize = 100;

/// Draws the tree.
pub fn run(global: &Global, args: &TreeArgs) -> Result<ExitCode> {
    let doc = Doc::open(global, args.session.as_deref())?;
    warn_of_lines(global, &doc);
    if global.json {
        output::json(&print::document(&doc).map_err(Error::io("read", &doc.opened.path))?)?;
    } else {
        let page = print::page(&doc, columns(), Paint::stdout(global))
            .map_err(Error::io("read", &doc.opened.path))?;
        output::text(&page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn warn_of_lines(global: &Global, doc: &Doc) {
    let lines = match doc.bad_lines() {
        0 => return,
        1 => "1 line holds".to_owned(),
        n => format!("{n} lines hold"),
    };
    output::warn(
        global,
        &format!("{lines} no record and was passed over; `offshoot inspect` says which and why"),
    );
}

/// The terminal's columns where stdout is one, else `COLUMNS`, else a default.
fn columns() -> usize {
    let terminal = std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1));
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(asked).filter(|&c| c > 0).unwrap_or(COLUMNS).clamp(20, 1000)
}
