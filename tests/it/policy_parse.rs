//! Policies as text: valid ones in full, invalid ones with the exact words that a person sees.
//!
//! `UPDATE_GOLDEN=1 cargo test --test it policy_parse` rewrites the expected texts.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use offshoot::{
    policy::{self, Continued, Expected, Fallback, Filter, Margin, Order, Tie, Transcript},
    record::RecordId,
    refusal::{Code, Refusal},
    selection::SeedMode,
};

use crate::support::fixture;

fn policies(folder: &str) -> Vec<(String, PathBuf)> {
    let mut found: Vec<_> = fs::read_dir(fixture(folder))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "toml"))
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), p))
        .collect();
    found.sort();
    found
}

#[test]
fn every_invalid_policy_is_refused_with_its_words() {
    let files = policies("policies/invalid");
    assert!(files.len() >= 50, "the fixtures were not found");
    let mut wrong = Vec::new();
    for (name, path) in files {
        let text = fs::read_to_string(&path).unwrap();
        let Err(errors) = policy::parse(&text, &name) else {
            wrong.push(format!("{name}: accepted"));
            continue;
        };
        let found = format!("{errors}\n");
        assert!(!found.chars().any(|c| c.is_control() && c != '\n'), "{name}: {found:?}");
        let expected = path.with_extension("stderr");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if expected != found {
            wrong.push(format!("{name}:\n--- expected\n{expected}--- found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_refusal_carries_every_problem() {
    let text = fs::read_to_string(fixture("policies/invalid/several-mistakes.toml")).unwrap();
    let refusal = Refusal::from(policy::parse(&text, "p.toml").unwrap_err());
    assert_eq!(refusal.code, Code::PolicyInvalid);
    assert_eq!(refusal.code.exit_code(), 2);
    let problems = refusal.detail["problems"].as_array().unwrap();
    assert!(problems.len() >= 5, "{problems:?}");
    let key = problems.iter().find(|p| p["message"].as_str().unwrap().contains("ordre")).unwrap();
    assert_eq!((&key["line"], &key["column"]), (&6.into(), &1.into()));
    assert!(key["allowed"].as_array().unwrap().contains(&"order".into()));
}

/// Each mistake costs a look at the text before it, so their number is bounded.
#[test]
fn of_very_many_mistakes_the_first_are_shown_and_the_rest_counted() {
    for text in [
        (0..50_000).map(|n| format!("k{n}=1\n")).collect::<String>(),
        "[[rule]]\nname='r'\n".repeat(20_000),
        "= 1\n".repeat(50_000),
    ] {
        let errors = policy::parse(&text, "p.toml").unwrap_err();
        assert_eq!(errors.problems().len(), 100);
        let shown = errors.to_string();
        assert_eq!(shown.matches("p.toml:").count(), 20);
        let more = shown.rsplit_once("\n\nand ").unwrap().1.strip_suffix(" more").unwrap();
        assert!(more.parse::<usize>().unwrap() > 10_000, "{more}");
    }
}

#[test]
fn every_valid_policy_is_accepted() {
    let files = policies("policies/valid");
    assert!(files.len() >= 3, "the fixtures were not found");
    for (name, path) in files {
        let text = fs::read_to_string(&path).unwrap();
        for text in [text.clone(), format!("\u{feff}{text}"), text.replace('\n', "\r\n")] {
            policy::parse(&text, &name).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn every_key_arrives() {
    let text = fs::read_to_string(fixture("policies/valid/everything.toml")).unwrap();
    let p = policy::parse(&text, "x").unwrap();
    assert_eq!((p.version, p.name.as_str()), (1, "everything"));
    assert_eq!(p.reason, "Shows every key.\nOver two lines.");
    assert_eq!((p.seed.mode, p.seed.continued), (Some(SeedMode::None), Continued::ForkAgain));
    assert_eq!(p.fallback, Fallback::Prompt);
    let [full, rest] = &p.rules[..] else { panic!("{:?}", p.rules) };
    assert_eq!((full.order, full.margin), (Order::Newest, Some(Margin::Time(Duration::from_secs(600)))));
    assert_eq!((rest.order, rest.margin), (Order::Deepest, Some(Margin::Count(2))));
    assert_eq!((full.tie, rest.tie), (Tie::Next, Tie::Prompt));
    assert_eq!((full.when.min_leaves, full.when.max_leaves), (Some(0), Some(20)));
    assert_eq!(full.when.agent, ["qwen", "claude"]);
    assert_eq!((full.when.session.len(), full.when.cwd.len()), (1, 2));
    let names: Vec<&str> = full.keep.iter().map(Filter::name).collect();
    assert_eq!(
        names,
        [
            "recorded",
            "client_pick",
            "classification",
            "turn",
            "max_age",
            "min_age",
            "min_user",
            "min_messages",
            "distinct_messages",
            "interleaved",
            "diagnostics",
            "git_branch",
            "label",
            "contains",
            "leaf"
        ]
    );
    assert!(matches!(full.keep[6], Filter::MinUser(10)) && matches!(full.keep[7], Filter::MinMessages(16)));
    assert!(matches!(&full.keep[13], Filter::Contains(c) if c == &["parser"]));
    assert!(rest.keep.is_empty());
    let [first, second] = &p.examples[..] else { panic!("{:?}", p.examples) };
    assert_eq!(first.transcript, Transcript::Inline("{}".into()));
    assert_eq!(first.now.unwrap().to_string(), "2026-03-01T11:00:00Z");
    assert_eq!(first.recorded, Some(RecordId::from("a")));
    let labels = BTreeMap::from([("a".into(), "good".to_owned()), ("b c".into(), "bad".to_owned())]);
    assert_eq!(first.labels, labels);
    assert_eq!((first.cwd.as_deref(), first.git_branch.as_deref()), (Some("/workspace"), Some("main")));
    assert_eq!(first.expected, Expected::Refusal("no-leaf".into()));
    assert_eq!(second.transcript, Transcript::File("x.jsonl".into()));
    assert_eq!(second.expected, Expected::Leaf("a".into()));
    assert_eq!(text.lines().nth(first.line - 1), Some("[[example]]"));
}

#[test]
fn defaults_are_those_of_the_reference() {
    let text = fs::read_to_string(fixture("policies/valid/minimal.toml")).unwrap();
    let p = policy::parse(&text, "/some/where/my.policy.toml").unwrap();
    assert_eq!(p.name, "my.policy");
    assert_eq!((p.seed.mode, p.seed.continued, p.fallback), (None, Continued::Follow, Fallback::Refuse));
    let rule = &p.rules[0];
    assert_eq!((rule.order, rule.margin, rule.tie), (Order::Only, None, Tie::Refuse));
    assert!(rule.keep.is_empty() && p.examples.is_empty());
}

/// Mutated texts: an answer or an error, never a panic, and no error without a place.
#[test]
fn mutated_text_never_panics() {
    let seed = 0x5eed_0001_u64;
    let mut state = seed;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut texts: Vec<String> = Vec::new();
    for folder in ["policies/valid", "policies/invalid"] {
        for (name, path) in policies(folder) {
            if name != "very-long-line.toml" {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let pieces =
        ["[", "]", "{", "}", "\"", "'", "\n", "=", ".", "\u{1b}", "漢", "\r", "[[rule]]", "-", "0x", "\\u"];
    for round in 0..3_000 {
        let text = &texts[next(texts.len())];
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + next(3) {
            let at = next(chars.len() + 1);
            match next(3) {
                0 => drop(chars.splice(at..at, pieces[next(pieces.len())].chars())),
                1 if at < chars.len() => drop(chars.remove(at)),
                _ => {
                    let to = (at + next(20)).min(chars.len());
                    let moved: Vec<char> = chars.drain(at..to).collect();
                    let back = next(chars.len() + 1);
                    drop(chars.splice(back..back, moved));
                }
            }
        }
        let text: String = chars.into_iter().collect();
        if let Err(errors) = policy::parse(&text, "m.toml") {
            assert!(!errors.problems().is_empty(), "seed {seed:#x} round {round}: {text}");
            let shown = errors.to_string();
            assert!(
                !shown.chars().any(|c| c.is_control() && c != '\n'),
                "seed {seed:#x} round {round}: {shown:?}"
            );
        }
    }
}
