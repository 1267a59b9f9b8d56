//! The module arrows of the design: `cli -> resume -> {store, policy, topology} -> dialect -> record`.

use std::{
    fs,
    path::{Path, PathBuf},
};

const PURE: &[&str] = &[
    "record.rs",
    "refusal.rs",
    "selection.rs",
    "transcript.rs",
    "transcript/",
    "dialect/",
    "topology/",
    "policy/",
    "reading.rs",
    "reading/",
    "turns.rs",
    "turns/",
];

/// (where, what may not be named there)
const FORBIDDEN: &[(&[&str], &[&str])] = &[
    (
        PURE,
        &[
            "std::fs",
            "std::env",
            "std::process",
            "std::net",
            "std::thread",
            "SystemTime",
            "Timestamp::now",
            "Zoned::now",
            "clap",
            "dialoguer",
            "ratatui",
            "crossterm",
            "fs4",
            "tempfile",
            "rustix",
            "crate::store",
            "crate::cli",
            "crate::resume",
        ],
    ),
    (&["store/"], &["crate::policy", "crate::cli", "crate::resume", "dialoguer", "ratatui", "clap::"]),
    (&["dialect/"], &["crate::policy"]),
    (&["topology/"], &["crate::policy"]),
    (&["audit/"], &["crate::cli", "crate::resume", "dialoguer", "ratatui", "clap::", "std::fs"]),
    (&["resume.rs", "resume/"], &["crate::cli", "dialoguer", "ratatui", "clap::", "std::fs"]),
    (&["probe/"], &["crate::cli", "dialoguer", "ratatui", "clap::"]),
    (&["record.rs", "transcript.rs", "transcript/"], &["crate::dialect", "crate::topology"]),
];

/// Names that one file alone may use.
const ONLY: &[(&str, &[&str])] = &[
    ("crate::probe", &["cli/probe.rs"]),
    ("crossterm", &["cli/tui/"]),
    ("dialoguer", &["cli/prompt.rs", "cli/prompt/"]),
    ("nucleo_matcher", &["cli/tui/"]),
    ("ratatui", &["cli/tui/"]),
    ("std::net", &["probe/model.rs"]),
];

/// Only `cli` (and the binary's `main.rs`) prints.
const PRINTS: &[&str] = &["println!", "eprintln!", "print!(", "eprint!("];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")).map(|(i, l)| (i + 1, l))
}

#[test]
fn modules_name_only_what_their_arrows_allow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 10, "the sources were not found");
    let mut broken = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        let text = fs::read_to_string(&file).unwrap();
        let lies_in =
            |places: &[&str]| places.iter().any(|p| name == *p || (p.ends_with('/') && name.starts_with(p)));
        for (number, line) in code_lines(&text) {
            let mut complain = |what: &str| broken.push(format!("src/{name}:{number}: names `{what}`"));
            for (places, names) in FORBIDDEN {
                if lies_in(places) {
                    names.iter().filter(|n| line.contains(**n)).for_each(|n| complain(n));
                }
            }
            for (what, places) in ONLY {
                if line.contains(&format!("{what}::")) && !lies_in(places) {
                    complain(what);
                }
            }
            if !lies_in(&["cli/", "main.rs"]) {
                PRINTS.iter().filter(|p| line.contains(**p)).for_each(|p| complain(p));
            }
            if line.contains("std::fs") && !lies_in(&["store/", "cli/"]) {
                complain("std::fs");
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
