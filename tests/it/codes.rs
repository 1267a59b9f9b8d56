//! `docs/codes.md` lists every code and exit status, and none that does not exist.

use std::{collections::BTreeSet, fs, path::Path};

use offshoot::refusal::{Code, FaultCode};

fn text_of(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// `| a | b |` as `[a, b]`, backticks removed.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter(|l| l.starts_with("| "))
        .map(|l| l.trim_matches('|').split('|').map(|c| c.trim().trim_matches('`').to_owned()).collect())
        .collect()
}

#[test]
fn the_tables_hold_every_code_with_its_exit_status() {
    let text = text_of("docs/codes.md");
    let rows = rows(&text);
    let row = |key: &str| rows.iter().find(|r| r[0] == key).unwrap_or_else(|| panic!("no row for `{key}`"));
    for code in Code::ALL {
        assert_eq!(row(code.as_str())[1], code.exit_code().to_string(), "{}", code.as_str());
    }
    for code in FaultCode::ALL {
        assert!(row(code.as_str()).len() == 2, "{}", code.as_str());
    }
    let exits: BTreeSet<u8> = Code::ALL.iter().map(|c| c.exit_code()).chain([0, 1, 5]).collect();
    let readme = self::rows(&text_of("README.md"));
    for exit in exits.iter().map(u8::to_string) {
        assert!(row(&exit).len() == 2, "{exit}");
        assert!(readme.iter().any(|r| r[0] == exit), "{exit} is not in the README's table");
    }
    // And nothing that the program does not know.
    let known = Code::ALL.iter().map(|c| c.as_str()).chain(FaultCode::ALL.iter().map(|c| c.as_str()));
    let known: BTreeSet<String> = known.map(str::to_owned).chain(exits.iter().map(u8::to_string)).collect();
    let headings = ["status", "code", "---"];
    let unknown: Vec<_> =
        rows.iter().filter(|r| !headings.contains(&r[0].as_str()) && !known.contains(&r[0])).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_lists_of_codes_are_complete() {
    let source = text_of("src/refusal.rs");
    let named = |prefix: &str| {
        source.lines().filter(|l| l.trim_start().starts_with(prefix) && l.contains("=> \"")).count()
    };
    assert_eq!(named("Code::"), Code::ALL.len());
    assert_eq!(named("FaultCode::"), FaultCode::ALL.len());
}
