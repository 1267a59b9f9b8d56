//! `find`: which branches hold a text, and at which record.

use std::{fmt::Write as _, process::ExitCode};

use serde::Serialize;

use super::{
    args::{FindArgs, Global},
    leaf::or_missing,
    output::{self, Paint},
    session::{self, Digest},
    text::{fit, wrap},
};
use crate::{
    record::{RecordId, RecordKind},
    refusal::{Code, Error, Refusal, Result},
    topology::{ListMode, MAX_LISTED, Tree},
    transcript::{IdIx, Source},
};

/// `offshoot.find/1`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema: &'static str,
    transcript: String,
    matches: Vec<Match>,
    lists: Lists,
}

/// Whether the matches carry their leaves, or only how many there are.
#[derive(Debug, Serialize)]
struct Lists {
    leaves: ListMode,
}

/// A record that holds the text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Match {
    uuid: RecordId,
    line: u32,
    kind: &'static str,
    leaf_count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leaves: Option<Vec<RecordId>>,
    /// The text around the first place; absent with `--redact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    excerpt: Option<String>,
    #[serde(skip)]
    id: IdIx,
}

/// Searches, ignoring case and how blanks are spelled, what can be seen of each record.
pub fn run(global: &Global, args: &FindArgs) -> Result<ExitCode> {
    let (text, session) = args.words.split_last().expect("BUG: at least one word is required");
    let needle = Needle::new(text);
    if needle.0.is_empty() {
        return Err(Refusal::new(Code::Usage, "there is no text to look for").into());
    }
    let opened = session::open(global, session.first().map(String::as_str), Digest::Skip).map_err(|e| {
        or_missing(e, session, std::slice::from_ref(text), "the text", ["offshoot find", "TEXT"])
    })?;
    let t = &opened.snapshot.transcript;
    let tree = Tree::new(t);
    let mut matches = Vec::new();
    for (ix, record) in (0..).zip(&t.records) {
        let bytes = opened.snapshot.bytes(record.span).map_err(Error::io("read", &opened.path))?;
        let body = opened.dialect.decode(&bytes);
        if let Some(excerpt) = body.texts.iter().find_map(|text| needle.find(text)) {
            matches.push(Match {
                uuid: t.id(record.id),
                line: t.line(ix),
                kind: kind(record.kind),
                leaf_count: tree.count_with(record.id) as u64,
                leaves: None,
                excerpt: (!global.redact).then_some(excerpt),
                id: record.id,
            });
        }
    }
    // All or nothing, decided before anything is listed: one common text could name every leaf once a record.
    let listed: u64 = matches.iter().map(|m| m.leaf_count).sum();
    let leaves = if listed <= MAX_LISTED { ListMode::Full } else { ListMode::Counts };
    if leaves == ListMode::Full {
        for m in &mut matches {
            m.leaves = Some(tree.leaves_with(m.id).into_iter().map(|l| t.id(l)).collect());
        }
    }
    let document = Document {
        schema: "offshoot.find/1",
        transcript: opened.path.display().to_string(),
        matches,
        lists: Lists { leaves },
    };
    if global.json {
        output::json(&document)?;
    } else {
        output::text(&lines(&document, Paint::stdout(global)))?;
        if document.matches.is_empty() {
            output::note(global, "no record holds that text");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn kind(kind: RecordKind) -> &'static str {
    match kind {
        RecordKind::User => "user",
        RecordKind::Assistant => "assistant",
        RecordKind::ToolResult => "tool_result",
        RecordKind::System => "system",
        RecordKind::Other => "other",
    }
}

/// Three lines a match: where, what, and on which branches.
fn lines(document: &Document, paint: Paint) -> String {
    const COLUMNS: usize = 80;
    const SHOWN: usize = 3;
    let mut out = String::new();
    for m in &document.matches {
        let head = fit(&format!("line {}: {} {}", m.line, m.kind, m.uuid), COLUMNS);
        let _ = writeln!(out, "{}", paint.bold(&head));
        if let Some(excerpt) = &m.excerpt {
            let _ = writeln!(out, "  {}", fit(excerpt, COLUMNS - 2));
        }
        let mut on = match m.leaf_count {
            0 => "on no branch".to_owned(),
            1 => "on the branch".to_owned(),
            n => format!("on {n} branches:"),
        };
        let leaves = m.leaves.as_deref().unwrap_or_default();
        for leaf in leaves.iter().take(SHOWN) {
            let _ = write!(on, " {leaf}");
        }
        if leaves.len() > SHOWN {
            let _ = write!(on, " and {} more", leaves.len() - SHOWN);
        }
        let _ = writeln!(out, "  {}", wrap(&on, COLUMNS - 2, "    "));
    }
    out
}

/// The text that is looked for, in the form in which texts are compared.
struct Needle(String);

impl Needle {
    /// Characters of an excerpt before the place that was found, and after its beginning.
    const BEFORE: usize = 24;
    const AFTER: usize = 120;

    fn new(text: &str) -> Self {
        Needle(folded(text).to_lowercase())
    }

    /// The text around the first place where it stands.
    fn find(&self, text: &str) -> Option<String> {
        let text = folded(text);
        let lower = text.to_lowercase();
        let at = lower.find(&self.0)?;
        // Lower case may be longer by a character or two, which only moves the excerpt's edges.
        let at = lower[..at].chars().count();
        let from = at.saturating_sub(Self::BEFORE);
        let mut excerpt: String = text.chars().skip(from).take(Self::BEFORE + Self::AFTER).collect();
        if from > 0 {
            excerpt.insert_str(0, "...");
        }
        if text.chars().nth(from + Self::BEFORE + Self::AFTER).is_some() {
            excerpt.push_str("...");
        }
        Some(excerpt)
    }
}

/// Runs of blanks as one space each.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_case_and_the_spelling_of_blanks() {
        let needle = Needle::new("Zwei\tÄPFEL");
        assert_eq!(needle.find("ich  esse zwei\n\n äpfel").unwrap(), "ich esse zwei äpfel");
        assert_eq!(needle.find("zweiäpfel"), None);
        let long = format!("{} zwei äpfel {}", "x ".repeat(100), "y ".repeat(100));
        let excerpt = needle.find(&long).unwrap();
        assert!(excerpt.starts_with("...x x") && excerpt.ends_with("..."), "{excerpt}");
        assert!(excerpt.contains("zwei äpfel"));
    }
}
