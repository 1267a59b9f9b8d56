//! The reference says what the parser accepts: its policies are valid, and no key or value is missing.

use std::{collections::BTreeSet, fs, path::Path};

use offshoot::policy;

fn reference() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/policy.md")).unwrap()
}

#[test]
fn the_policies_in_the_reference_are_valid() {
    let text = reference();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        policy::parse(block, "docs/policy.md").unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn every_allowed_name_is_in_the_reference() {
    // A policy with one unknown name in each place; the errors list what is allowed there.
    let wrong = "version = 1\nreason = 'r'\nx = 1\nseed = { mode = 'x', continued = 'x', x = 1 }\n\
        fallback = { do = 'x', x = 1 }\n[[rule]]\nname = 'r'\nreason = 'r'\nx = 1\norder = 'x'\ntie = 'x'\n\
        when = { agent = 'x', x = 1 }\n\
        keep = { classification = 'x', turn = 'x', diagnostics = 'x', x = 1 }\n\
        [[example]]\nx = 1\ninline = 'x'\nrefusal = 'x'\n";
    let errors = policy::parse(wrong, "p.toml").unwrap_err();
    let allowed: BTreeSet<&String> = errors.problems().iter().flat_map(|p| &p.allowed).collect();
    assert!(allowed.len() > 60, "{allowed:?}");
    let text = reference();
    let missing: Vec<_> = allowed
        .into_iter()
        .filter(|name| {
            let forms =
                [format!("`{name}`"), format!("`[{name}]`"), format!("`[[{name}]]`"), format!("`{name} =")];
            // `"none"` of `diagnostics` stands there with its quotes.
            !forms.iter().any(|form| text.contains(form.as_str())) && !text.contains(&format!("`\"{name}\"`"))
        })
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
