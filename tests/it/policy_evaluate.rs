//! Policies applied to inspections made by hand: each filter, order, margin, tie and fallback.

use std::collections::BTreeMap;

use offshoot::{
    policy::{self, Inputs, Outcome, Policy, RuleResult, Verdict},
    record::{Agent, Classification, RecordId, Turn},
    refusal::Code,
    topology::{Branch, Counts, Inspection, ListMode, Lists, SnapshotInfo},
};

fn branch(id: &str) -> Branch {
    Branch {
        leaf_uuid: id.into(),
        branch_point_uuid: None,
        classification: Classification::Ordinary,
        contains_rewind_uuids: None,
        sibling_rewind_uuids: None,
        first_user_text_after_branch_point: None,
        last_user_text: None,
        last_assistant_text: None,
        record_counts: Counts::default(),
        started_at: String::new(),
        updated_at: String::new(),
        last_message_at: None,
        distinct_counts: Counts::default(),
        turn: Turn::None,
        component_uuid: id.into(),
        contains_rewind_count: 0,
        sibling_rewind_count: 0,
        interleaved_count: 0,
        interleaved_with: None,
        client_pick: false,
        recorded: false,
        label: None,
        continued_in: None,
        git_branch: None,
        cwd: None,
        chain_diagnostics: Vec::new(),
        chain_len: 0,
        position: 0,
    }
}

fn inspection(branches: Vec<Branch>) -> Inspection {
    Inspection {
        schema: "offshoot.inspection/1",
        agent: Agent::Qwen,
        session_id: "s-1".into(),
        transcript: String::new(),
        snapshot: SnapshotInfo::default(),
        client_pick: None,
        branches,
        diagnostics: Vec::new(),
        lists: Lists { rewinds: ListMode::Full, interleaved: ListMode::Full },
        rewinds: None,
    }
}

fn inputs() -> Inputs {
    Inputs {
        now: "2026-03-01T12:00:00Z".parse().unwrap(),
        agent: Agent::Qwen,
        session_id: "s-1".into(),
        cwd: Some("/home/me/src".into()),
        git_branch: Some("main".into()),
        recorded: None,
        labels: BTreeMap::new(),
        client_version: None,
    }
}

#[track_caller]
fn parsed(rules: &str) -> Policy {
    let text = format!("version = 1\nname = \"p\"\nreason = \"test\"\n{rules}");
    policy::parse(&text, "test.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// One rule with this body.
#[track_caller]
fn rule(body: &str) -> Policy {
    parsed(&format!("[[rule]]\nname = \"r\"\nreason = \"because\"\n{body}"))
}

/// What the filters keep, of branches that are told apart by name.
#[track_caller]
fn kept(keep: &str, branches: &[Branch], inputs: &Inputs) -> Vec<String> {
    let p = rule(&format!("keep = {{ {keep} }}"));
    let v = policy::evaluate(&p, &inspection(branches.to_vec()), inputs);
    let kept = v.trace[0].kept.clone().unwrap();
    assert_eq!(kept.count as usize, kept.leaves.len());
    kept.leaves.iter().map(|l| l.to_string()).collect()
}

fn chosen(v: &Verdict) -> Option<&str> {
    match &v.outcome {
        Outcome::Leaf { leaf_uuid, .. } => Some(leaf_uuid.as_str()),
        _ => None,
    }
}

fn at(id: &str, time: &str) -> Branch {
    Branch { last_message_at: Some(time.into()).filter(|t: &String| !t.is_empty()), ..branch(id) }
}

#[test]
fn filters_of_state() {
    let branches = [
        Branch { client_pick: true, turn: Turn::Complete, ..branch("a") },
        Branch {
            classification: Classification::RewindSibling,
            turn: Turn::OpenToolCall,
            interleaved_count: 1,
            ..branch("b")
        },
        Branch {
            classification: Classification::MixedRewind,
            turn: Turn::AwaitingReply,
            chain_diagnostics: vec!["missing-parent"],
            recorded: true, // for show: evaluation reads the inputs
            label: Some("good".into()),
            ..branch("c")
        },
        Branch {
            classification: Classification::RewindDescendant,
            chain_diagnostics: vec!["conflicting-parent", "parent-cycle"],
            ..branch("d")
        },
    ];
    let mut inputs = inputs();
    inputs.recorded = Some("b".into());
    inputs.labels.insert("d".into(), "good".into());
    inputs.labels.insert("gone".into(), "other".into());
    for (keep, expected) in [
        ("", "a b c d"),
        ("recorded = true", "b"),
        ("recorded = false", "a c d"),
        ("client_pick = true", "a"),
        ("client_pick = false", "b c d"),
        ("classification = 'ordinary'", "a"),
        ("classification = ['rewind-sibling', 'mixed-rewind']", "b c"),
        ("classification = 'rewind-descendant'", "d"),
        ("turn = ['complete', 'none']", "a d"),
        ("turn = 'open-tool-call'", "b"),
        ("turn = 'awaiting-reply'", "c"),
        ("interleaved = true", "b"),
        ("interleaved = false", "a c d"),
        ("diagnostics = 'none'", "a b"),
        ("diagnostics = ['missing-parent']", "a b d"),
        ("diagnostics = ['parent-cycle', 'missing-parent']", "a b"),
        ("diagnostics = 'conflicting-parent'", "a b c"),
        ("label = 'good'", "d"),
        ("label = ['Good', 'other']", ""),
        ("leaf = ['d', 'a', 'x']", "a d"),
        ("leaf = 'A'", ""),
        ("recorded = false, turn = 'none', classification = 'ordinary'", ""),
    ] {
        assert_eq!(kept(keep, &branches, &inputs).join(" "), expected, "{keep}");
    }
}

#[test]
fn filters_of_counts() {
    let counts = |user, assistant| Counts { user, assistant, tool_result: 50, system: 50 };
    let branches = [
        Branch { record_counts: counts(0, 1), distinct_counts: counts(0, 0), ..branch("a") },
        Branch { record_counts: counts(1, 1), distinct_counts: counts(1, 0), ..branch("b") },
        Branch { record_counts: counts(3, 0), distinct_counts: counts(1, 1), ..branch("c") },
    ];
    for (keep, expected) in [
        ("min_user = 0", "a b c"),
        ("min_user = 1", "b c"),
        ("min_user = 4", ""),
        ("min_messages = 1", "a b c"),
        ("min_messages = 2", "b c"),
        ("min_messages = 3", "c"),
        ("distinct_messages = 1", "b c"),
        ("distinct_messages = 2", "c"),
        ("distinct_messages = 3", ""),
    ] {
        assert_eq!(kept(keep, &branches, &inputs()).join(" "), expected, "{keep}");
    }
}

#[test]
fn filters_of_age() {
    let branches = [
        at("exact", "2026-03-01T11:00:00Z"),
        at("older", "2026-03-01T10:59:59.999Z"),
        at("younger", "2026-03-01T12:00:00.001+01:00"),
        at("future", "2026-03-02T00:00:00Z"),
        at("none", ""),
        at("unreadable", "last week"),
    ];
    for (keep, expected) in [
        ("max_age = '1h'", "exact younger future"),
        ("min_age = '1h'", "exact older"),
        ("max_age = '0'", "future"),
        ("min_age = '0'", "exact older younger future"),
        ("max_age = '1h', min_age = '1h'", "exact"),
        ("max_age = '18446744073709551615ms'", "exact older younger future"),
    ] {
        assert_eq!(kept(keep, &branches, &inputs()).join(" "), expected, "{keep}");
    }
}

#[test]
fn filters_of_branch_and_text() {
    let on = |id: &str, git: &str| Branch { git_branch: Some(git.to_owned()), ..branch(id) };
    let branches = [on("a", "main"), on("b", "feature/x"), on("c", "current"), branch("d")];
    for (keep, expected) in [
        ("git_branch = 'current'", "a"),
        ("git_branch = '[c]urrent'", "c"),
        ("git_branch = ['current', 'feature/*']", "a b"),
        ("git_branch = '*'", "a c"),
        ("git_branch = '**'", "a b c"),
    ] {
        assert_eq!(kept(keep, &branches, &inputs()).join(" "), expected, "{keep}");
    }
    let detached = Inputs { git_branch: None, ..inputs() };
    assert!(kept("git_branch = 'current'", &branches, &detached).is_empty());

    let text = |s: &str| Some(s.to_owned());
    let branches = [
        Branch { first_user_text_after_branch_point: text("Fix the PARSER"), ..branch("a") },
        Branch { last_user_text: text("the parser again"), ..branch("b") },
        Branch { last_assistant_text: text("ÄRGER"), ..branch("c") },
        branch("d"),
    ];
    for (keep, expected) in [
        ("contains = 'Parser'", "a b"),
        ("contains = ['ärger', 'fix']", "a c"),
        ("contains = 'parser the'", ""),
    ] {
        assert_eq!(kept(keep, &branches, &inputs()).join(" "), expected, "{keep}");
    }
}

#[test]
fn a_rule_applies_only_when_its_conditions_hold() {
    let two = inspection(vec![branch("a"), branch("b")]);
    for (when, holds) in [
        ("", true),
        ("agent = 'qwen'", true),
        ("agent = ['claude', 'reasonix']", false),
        ("min_leaves = 2", true),
        ("min_leaves = 3", false),
        ("max_leaves = 2", true),
        ("max_leaves = 1", false),
        ("session = 's-*'", true),
        ("session = ['x', 't-?']", false),
        ("cwd = '/home/*/src'", true),
        ("cwd = '/home/*'", false),
        ("cwd = '/home/**'", true),
        ("min_leaves = 2, cwd = '/tmp'", false),
    ] {
        let p = rule(&format!("when = {{ {when} }}"));
        let v = policy::evaluate(&p, &two, &inputs());
        let trace = &v.trace[0];
        assert_eq!(trace.result == RuleResult::Tie, holds, "{when}");
        assert_eq!(trace.result == RuleResult::NotApplied, !holds, "{when}");
        assert_eq!(trace.not_applied.is_none(), holds, "{when}");
        assert_eq!(trace.kept.is_some(), holds, "{when}");
        assert_eq!(matches!(v.outcome, Outcome::NoMatch), !holds, "{when}");
    }
    let nowhere = Inputs { cwd: None, ..inputs() };
    let v = policy::evaluate(&rule("when = { cwd = '**' }"), &two, &nowhere);
    assert_eq!(v.trace[0].result, RuleResult::NotApplied);
}

#[test]
fn orders_by_time() {
    let i = inspection(vec![
        at("mid", "2026-03-01T11:00:00Z"),
        at("none", ""),
        at("new", "2026-03-01T11:10:00.000Z"),
        at("old", "2026-03-01T09:00:00Z"),
    ]);
    for (order, expected) in [
        ("order = 'newest'", Some("new")),
        ("order = 'newest'\nmargin = '10m'", Some("new")),
        ("order = 'newest'\nmargin = '601s'", None),
        ("order = 'oldest'", Some("old")),
        ("order = 'oldest'\nmargin = '2h'", Some("old")),
        ("order = 'oldest'\nmargin = '3h'", None),
        ("order = 'only'", None),
    ] {
        let v = policy::evaluate(&rule(order), &i, &inputs());
        assert_eq!(chosen(&v), expected, "{order}");
    }
    let v = policy::evaluate(&rule("order = 'newest'\nmargin = '601s'"), &i, &inputs());
    let t = &v.trace[0];
    assert_eq!(t.tied.as_ref().unwrap().leaves, [RecordId::from("mid"), "new".into()]);
    assert_eq!((t.margin.as_deref(), t.lead.as_deref()), (Some("601s"), Some("10m")));
    let ranked: Vec<_> = t.ranking.iter().map(|r| (r.leaf_uuid.as_str(), r.value.as_deref())).collect();
    assert_eq!(
        ranked,
        [
            ("new", Some("2026-03-01T11:10:00Z")),
            ("mid", Some("2026-03-01T11:00:00Z")),
            ("old", Some("2026-03-01T09:00:00Z")),
            ("none", None)
        ]
    );

    // One instant in two spellings is a tie; a leaf without a time trails by any margin; two are equal.
    let same = inspection(vec![at("a", "2026-03-01T11:00:00Z"), at("b", "2026-03-01T12:00:00+01:00")]);
    assert_eq!(chosen(&policy::evaluate(&rule("order = 'newest'"), &same, &inputs())), None);
    let one = inspection(vec![at("none", ""), at("a", "2026-03-01T11:00:00Z"), at("bad", "?")]);
    for order in ["newest", "oldest"] {
        let p = rule(&format!("order = '{order}'\nmargin = '1000w'"));
        assert_eq!(chosen(&policy::evaluate(&p, &one, &inputs())), Some("a"));
    }
    let none = inspection(vec![at("a", ""), at("b", "?")]);
    assert_eq!(chosen(&policy::evaluate(&rule("order = 'oldest'"), &none, &inputs())), None);
}

#[test]
fn orders_by_count_position_and_client() {
    let sized = |id: &str, user, assistant, chain_len, position| Branch {
        record_counts: Counts { user, assistant, tool_result: 9, system: 9 },
        chain_len,
        position,
        ..branch(id)
    };
    let mut branches = vec![sized("a", 1, 4, 9, 3), sized("b", 3, 3, 9, 2), sized("c", 2, 2, 8, 7)];
    let i = inspection(branches.clone());
    for (order, expected) in [
        ("order = 'most-messages'", Some("b")),
        ("order = 'most-messages'\nmargin = 1", Some("b")),
        ("order = 'most-messages'\nmargin = 2", None),
        ("order = 'deepest'", None),
        ("order = 'file-last'", Some("c")),
        ("order = 'client-pick'", None),
    ] {
        assert_eq!(chosen(&policy::evaluate(&rule(order), &i, &inputs())), expected, "{order}");
    }
    branches[1].client_pick = true;
    let i = inspection(branches);
    assert_eq!(chosen(&policy::evaluate(&rule("order = 'client-pick'"), &i, &inputs())), Some("b"));
    let p = rule("keep = { leaf = ['a', 'c'] }\norder = 'client-pick'");
    assert_eq!(chosen(&policy::evaluate(&p, &i, &inputs())), None, "a pick that was not kept");
}

#[test]
fn ties_and_fallbacks() {
    let i = inspection(vec![branch("a"), branch("b"), branch("c")]);
    let two = |tie: &str, second: &str, fallback: &str| {
        parsed(&format!(
            "[[rule]]\nname='one'\nreason='1'\nkeep={{leaf=['a','b']}}\ntie='{tie}'\n\
             [[rule]]\nname='two'\nreason='2'\nkeep={{{second}}}\n[fallback]\ndo='{fallback}'\n"
        ))
    };
    let run = |p: &Policy| policy::evaluate(p, &i, &inputs());

    // refuse: at once, though the next rule and the fallback would know an answer.
    let v = run(&two("refuse", "leaf='c'", "prompt"));
    let Outcome::Ambiguous { rule: by, leaves } = &v.outcome else { panic!("{v:?}") };
    assert_eq!((by.as_str(), leaves.count, leaves.leaves.len()), ("one", 2, 2));
    assert_eq!(v.trace[1].result, RuleResult::NotReached);

    // next: the next rule decides.
    let p = two("next", "leaf='c'", "refuse");
    let v = run(&p);
    assert_eq!(v.outcome, Outcome::Leaf { leaf_uuid: "c".into(), rule: "two".into(), reason: "2".into() });
    assert!(policy::verdict_refusal(&p, &v).is_none());

    // prompt: what the rule kept, and only that.
    let p = two("prompt", "leaf='c'", "refuse");
    let v = run(&p);
    let both = vec![RecordId::from("a"), "b".into()];
    assert_eq!(v.outcome, Outcome::Prompt { rule: Some("one".into()), leaves: both });
    assert_eq!(policy::verdict_refusal(&p, &v).unwrap().code, Code::NotATerminal);

    // After the last rule: a tie that was passed on is ambiguous, else there was no match.
    let p = two("next", "leaf='x'", "refuse");
    let v = run(&p);
    let refusal = policy::verdict_refusal(&p, &v).unwrap();
    assert_eq!(refusal.code, Code::PolicyAmbiguous);
    assert_eq!(refusal.detail["rule"], "one");
    assert_eq!(refusal.detail["trace"].as_array().unwrap().len(), 2);
    assert!(refusal.message.contains("rule `one` left 2 leaves"), "{}", refusal.message);
    let p = rule("keep = { leaf = 'x' }");
    let refusal = policy::verdict_refusal(&p, &run(&p)).unwrap();
    assert_eq!(refusal.code, Code::PolicyNoMatch);
    assert!(refusal.message.contains("the last fell to `leaf`"), "{}", refusal.message);

    // The fallback's prompt offers every leaf, also where there is no rule at all.
    for p in [two("next", "leaf='x'", "prompt"), parsed("fallback.do = 'prompt'")] {
        let Outcome::Prompt { rule, leaves } = run(&p).outcome else { panic!() };
        assert_eq!((rule, leaves.len()), (None, 3));
    }
}

#[test]
fn a_single_leaf_is_judged_too() {
    let one = inspection(vec![branch("a")]);
    let keep = rule("keep = { turn = 'complete' }");
    assert_eq!(policy::evaluate(&keep, &one, &inputs()).outcome, Outcome::NoMatch);
    for order in ["only", "newest", "client-pick", "deepest"] {
        let v = policy::evaluate(&rule(&format!("order = '{order}'")), &one, &inputs());
        assert_eq!(chosen(&v), Some("a"), "{order}");
        assert!(v.trace[0].order.is_none(), "one leaf needs no order");
    }
    let none = inspection(Vec::new());
    assert_eq!(policy::evaluate(&rule(""), &none, &inputs()).outcome, Outcome::NoMatch);
}

#[test]
fn the_trace_is_bounded_and_the_outcome_is_not_touched_by_it() {
    let many: Vec<Branch> =
        (0..200).map(|n| Branch { chain_len: n, ..branch(&format!("leaf-{n}")) }).collect();
    let i = inspection(many);
    let p = parsed(
        "[[rule]]\nname='one'\nreason='1'\nkeep={leaf='x'}\n\
         [[rule]]\nname='two'\nreason='2'\norder='deepest'\nmargin=500\n",
    );
    let v = policy::evaluate(&p, &i, &inputs());
    let removed = &v.trace[0].filters[0].removed;
    assert_eq!((removed.count, removed.leaves.len()), (200, 50));
    assert_eq!(v.trace[1].ranking.len(), 10);
    assert_eq!(v.trace[1].ranking[0].value.as_deref(), Some("199"));
    let tied = v.trace[1].tied.as_ref().unwrap();
    assert_eq!((tied.count, tied.leaves.len()), (200, 50));
    let whole = policy::evaluate_listing(&p, &i, &inputs(), usize::MAX);
    assert_eq!(whole.outcome, v.outcome);
    assert_eq!(whole.trace[0].filters[0].removed.leaves.len(), 200);
    let refusal = policy::verdict_refusal(&p, &v).unwrap();
    assert_eq!(refusal.detail["leavesNotListed"], 150);
}

#[test]
fn verdict_and_inputs_survive_the_ledger() {
    let i = inspection(vec![at("a", "2026-03-01T11:00:00.123456789Z"), at("b", "2026-03-01T10:00:00Z")]);
    let inputs = Inputs {
        recorded: Some("b".into()),
        labels: BTreeMap::from([("a".into(), "x".to_owned())]),
        now: "2026-03-01T12:00:00.123456789Z".parse().unwrap(),
        ..inputs()
    };
    let written = serde_json::to_string(&inputs).unwrap();
    assert_eq!(serde_json::from_str::<Inputs>(&written).unwrap(), inputs, "{written}");
    for p in
        [rule("order = 'newest'"), rule("order = 'newest'\nmargin = '2h'"), rule("keep = {recorded = true}")]
    {
        let v = policy::evaluate(&p, &i, &inputs);
        let written = serde_json::to_value(&v).unwrap();
        assert_eq!(serde_json::from_value::<Verdict>(written).unwrap(), v);
    }
}

/// Random policies on random inspections: the same answer twice, never a leaf that a filter removed, and the
/// ordering agrees with an oracle that compares each pair.
#[test]
fn random_policies_agree_with_an_oracle() {
    let seed = 0x0ff5_0071_u64;
    let mut state = seed;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let orders = ["newest", "oldest", "most-messages", "deepest", "file-last", "client-pick", "only"];
    let mut decided = 0;
    for round in 0..3_000 {
        let leaves = 1 + next(30);
        let mut branches = Vec::new();
        for n in 0..leaves {
            let time = match next(6) {
                0 => String::new(),
                _ => format!("2026-03-01T11:{:02}:00Z", next(60)),
            };
            branches.push(Branch {
                record_counts: Counts { user: next(8), assistant: next(8), ..Counts::default() },
                chain_len: next(20),
                position: n * 3,
                client_pick: false,
                turn: if next(2) == 0 { Turn::Complete } else { Turn::OpenToolCall },
                ..at(&format!("l{n}"), &time)
            });
        }
        let pick = next(leaves + 1) as usize;
        if let Some(b) = branches.get_mut(pick) {
            b.client_pick = true;
        }
        let order = orders[next(orders.len() as u64) as usize];
        let margin = next(4);
        let margin_text = match order {
            "newest" | "oldest" => format!("margin = '{margin}m'"),
            "most-messages" | "deepest" => format!("margin = {margin}"),
            _ => String::new(),
        };
        let (min_user, want) = (next(4), next(2) == 0);
        let keep = if want { format!("turn = 'complete', min_user = {min_user}") } else { String::new() };
        let p = rule(&format!("keep = {{ {keep} }}\norder = '{order}'\n{margin_text}"));
        let i = inspection(branches.clone());
        let v = policy::evaluate(&p, &i, &inputs());
        let context = format!("seed {seed:#x} round {round}: {p:?}\n{v:?}");
        assert_eq!(v, policy::evaluate(&p, &i, &inputs()), "{context}");

        let kept: Vec<&Branch> = branches
            .iter()
            .filter(|b| !want || (b.turn == Turn::Complete && b.record_counts.user >= min_user))
            .collect();
        // A beats B if it comes before it in the order, by the margin at least.
        let beats = |a: &Branch, b: &Branch| -> bool {
            let minutes = |b: &Branch| b.last_message_at.as_ref().map(|t| t[14..16].parse::<i64>().unwrap());
            let lead = match order {
                "newest" | "oldest" => match (minutes(a), minutes(b)) {
                    (Some(a), Some(b)) => {
                        if order == "newest" {
                            a - b
                        } else {
                            b - a
                        }
                    }
                    (Some(_), None) => i64::MAX,
                    _ => return false,
                },
                "most-messages" => {
                    let n = |b: &Branch| (b.record_counts.user + b.record_counts.assistant) as i64;
                    n(a) - n(b)
                }
                "deepest" => a.chain_len as i64 - b.chain_len as i64,
                "file-last" => a.position as i64 - b.position as i64,
                "client-pick" => i64::from(a.client_pick) - i64::from(b.client_pick),
                _ => return false,
            };
            lead > 0 && (margin_text.is_empty() || lead >= margin as i64)
        };
        let winners: Vec<&str> = kept
            .iter()
            .filter(|a| kept.iter().all(|b| a.leaf_uuid == b.leaf_uuid || beats(a, b)))
            .map(|a| a.leaf_uuid.as_str())
            .collect();
        assert!(winners.len() <= 1, "{context}");
        assert_eq!(chosen(&v), winners.first().copied(), "{context}");
        assert_eq!(matches!(v.outcome, Outcome::NoMatch), kept.is_empty(), "{context}");
        if let Some(leaf) = chosen(&v) {
            decided += 1;
            let removed = v.trace[0].filters.iter().flat_map(|f| &f.removed.leaves);
            assert!(!removed.into_iter().any(|l| l.as_str() == leaf), "{context}");
        }
        let counted: u64 = v.trace[0].filters.iter().map(|f| f.removed.count).sum();
        assert_eq!(counted + kept.len() as u64, leaves, "{context}");
    }
    assert!(decided > 500, "only {decided} rounds had a winner");
}
