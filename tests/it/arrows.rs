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

/// All paths that a file imports, each in full, with the line of their `use`.
fn imports(text: &str) -> Vec<(usize, String)> {
    let code: String = text
        .lines()
        .map(|line| if line.trim_start().starts_with("//") { "\n".to_owned() } else { format!("{line}\n") })
        .collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let begins = code[..at].rsplit('\n').next().unwrap();
        if begins.trim_start_matches("pub(crate)").trim_start_matches("pub").trim().is_empty() {
            let statement = code[at + 4..].split(';').next().unwrap();
            let number = code[..at].matches('\n').count() + 1;
            let flat: String = statement.chars().filter(|c| !c.is_whitespace()).collect();
            expand("", &flat, &mut |path| found.push((number, path)));
        }
    }
    found
}

/// The paths of `tree`, which is what follows a `use` or stands in its braces.
fn expand(prefix: &str, tree: &str, found: &mut dyn FnMut(String)) {
    let (mut depth, mut from) = (0, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = &tree[from..at];
                from = at + 1;
                match item.split_once('{') {
                    Some((path, rest)) => {
                        expand(&format!("{prefix}{path}"), rest.strip_suffix('}').unwrap(), found);
                    }
                    None if !item.is_empty() => found(format!("{prefix}{item}")),
                    None => {}
                }
            }
            _ => {}
        }
    }
}

#[test]
fn imports_are_seen_however_they_are_grouped() {
    let text = "// use std::a;\nuse std::{\n    fs,\n    io::{self, Read},\n};\npub(crate) use x::y;\n";
    let of: Vec<_> = imports(text);
    let expected = [(2, "std::fs"), (2, "std::io::self"), (2, "std::io::Read"), (6, "x::y")];
    assert_eq!(of, expected.map(|(line, path)| (line, path.to_owned())));
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
        // The tests at the end of a file may read the sources too.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lies_in =
            |places: &[&str]| places.iter().any(|p| name == *p || (p.ends_with('/') && name.starts_with(p)));
        let imported = imports(text);
        let imported = imported.iter().map(|(number, path)| (*number, path.as_str()));
        for (number, line) in code_lines(text).chain(imported) {
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
            // The probe makes a home of its own for a client.
            if line.contains("std::fs") && !lies_in(&["store/", "cli/", "probe/"]) {
                complain("std::fs");
            }
        }
    }
    broken.sort();
    broken.dedup();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
