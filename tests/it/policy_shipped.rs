//! The policies that are shipped keep the promises of their own examples, and say what they are for.

use std::{
    fs,
    path::{Path, PathBuf},
};

use offshoot::{
    cli::policy::{check, test},
    policy::{self, Expected},
};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .collect();
    found.sort_by_key(|p| p.file_stem().map(ToOwned::to_owned));
    found
}

#[test]
fn every_shipped_policy_passes_its_examples() {
    let report = test(&shipped(), false).unwrap();
    assert_eq!(report.code, 0, "{}", report.stdout);
    assert!(!report.stdout.to_string().contains("FAILED"), "{}", report.stdout);
}

#[test]
fn every_shipped_policy_explains_itself() {
    let files = shipped();
    let names: Vec<&str> = files.iter().map(|f| f.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "after-rewind",
            "ask",
            "client-pick",
            "most-work",
            "newest",
            "sticky",
            "sticky-then-newest-finished",
            "strict"
        ]
    );
    for (path, name) in files.iter().zip(names) {
        let text = fs::read_to_string(path).unwrap();
        let p = policy::parse(&text, name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(p.name, name);
        assert!(p.seed.mode.is_some(), "{name} says how it seeds");
        let header: String = text.lines().take_while(|l| l.starts_with('#')).collect();
        assert!(header.contains("# For ") && header.contains("# Seeds "), "{name}: {header}");
        let chooses = p.examples.iter().filter(|e| matches!(e.expected, Expected::Leaf(_))).count();
        assert!(chooses >= 1 && p.examples.len() > chooses, "{name} shows a choice and a refusal");
    }
}

/// What the runner says of a promise that is not kept, so that the test above can fail.
#[test]
fn a_broken_promise_is_found_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("examples")).unwrap();
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    fs::copy(policies.join("examples/two-writers.jsonl"), dir.path().join("examples/two-writers.jsonl"))
        .unwrap();
    let file = dir.path().join("p.toml");
    let rule =
        "version = 1\nname = 'p'\nreason = 'r'\n[[rule]]\nname = 'one'\nreason = 'b'\norder = 'newest'\n";
    let example = |what: &str| {
        fs::write(&file, format!("{rule}margin = '1m'\n[[example]]\n{what}\n")).unwrap();
        check(&file, false).unwrap()
    };
    let wrong = example("transcript = 'examples/two-writers.jsonl'\nleaf = 'x'");
    assert_eq!(wrong.code, 2);
    let path = file.display().to_string();
    assert_eq!(
        wrong.stdout.to_string(),
        format!(
            "{path}: `p` is valid, 1 rule, 1 example\n  \
             {path}:9: FAILED, expected leaf `x`, found `policy-ambiguous`\n    \
             `leaf` = `x` is no leaf of its transcript\n    \
             rule `one`: kept 2, order `newest` with a lead of 15s (margin 1m), 2 tie: refused\n"
        )
    );
    let right = example("transcript = 'examples/two-writers.jsonl'\nrefusal = 'policy-ambiguous'");
    assert_eq!(right.code, 0, "{}", right.stdout);
    for (what, words) in [
        ("transcript = 'examples/missing.jsonl'\nrefusal = 'no-leaf'", "cannot read `"),
        ("transcript = 'examples'\nrefusal = 'no-leaf'", "not a regular file"),
        ("inline = '''\n{\"uuid\":\"a\"\n'''\nleaf = 'a'", "line 1 of its transcript is no record"),
    ] {
        let report = example(what);
        assert_eq!(report.code, 2, "{what}");
        assert!(report.stdout.to_string().contains(words), "{}", report.stdout);
    }
}

#[test]
fn the_reports_have_a_schema() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.toml");
    fs::write(&bad, "version = 1\nreason = ''\n").unwrap();
    let files = [shipped()[0].clone(), bad.clone()];
    let report = test(&files, true).unwrap();
    assert_eq!(report.code, 2);
    let json: serde_json::Value = serde_json::from_str(&report.stdout.to_string()).unwrap();
    assert_eq!((&json["schema"], &json["passed"]), (&"offshoot.policy-test/1".into(), &false.into()));
    assert_eq!(json["policies"][0]["valid"], true);
    assert_eq!(json["policies"][0]["examples"][0]["passed"], true);
    assert_eq!(json["policies"][1]["valid"], false);
    assert_eq!(json["policies"][1]["refusal"]["code"], "policy-invalid");
    let text = test(&files, false).unwrap().stdout.to_string();
    assert!(
        text.contains("bad.toml:2:10: `reason` must not be blank\n2 | reason = ''\n  |          ^^\n"),
        "{text}"
    );
    assert!(text.contains("bad.toml: not valid\n"), "{text}");
    assert_eq!(check(&bad, true).unwrap_err().code(), "policy-invalid");
}
