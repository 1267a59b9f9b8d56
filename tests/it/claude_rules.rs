//! The rules of Claude Code's resume one by one, on transcripts as small as they can be. What the clients did with such files
//! was measured; `fixtures/cases/claude` holds some of them.

use offshoot::{
    dialect::{Client, Dialect, Resumed, Simulated, claude::Claude},
    topology::{self, Inspection, Tree, build_ordered_uuid_chain},
    transcript::Transcript,
};
use serde_json::{Value, json};

use crate::random::lines;

const OLD: &str = "2.1.197";
const NEW: &str = "2.1.332";

/// Seconds after some minute, for `timestamp`.
fn at(ms: u64) -> String {
    format!("2026-01-01T00:{:02}:{:02}.{:03}Z", ms / 60_000, ms / 1_000 % 60, ms % 1_000)
}

/// A record: its name, the one it hangs on, its kind (`user`, `assistant`, `use:C`, `res:C`, `turn`, `note`,
/// `boundary`, `progress`, `meta`). An assistant's message is its name up to a dot.
fn rec(name: &str, parent: &str, kind: &str) -> Value {
    let parent = if parent.is_empty() { Value::Null } else { json!(parent) };
    let mut record = json!({"uuid": name, "parentUuid": parent, "sessionId": "s", "cwd": "/w"});
    let message = name.split('.').next();
    let more = match kind.split_once(':').unwrap_or((kind, "")) {
        ("assistant", _) => {
            json!({"type": "assistant", "message": {"id": message, "content": [{"type": "text", "text": name}]}})
        }
        ("use", call) => {
            let block = json!([{"type": "tool_use", "id": call, "name": "t", "input": {}}]);
            json!({"type": "assistant", "message": {"id": message, "content": block}})
        }
        ("res", call) => {
            let block = json!([{"type": "tool_result", "tool_use_id": call, "content": "r"}]);
            json!({"type": "user", "message": {"content": block}})
        }
        ("turn", _) => json!({"type": "system", "subtype": "turn_duration"}),
        ("boundary", _) => {
            json!({"type": "system", "subtype": "compact_boundary", "parentUuid": null, "logicalParentUuid": parent})
        }
        ("note", _) => json!({"type": "attachment", "attachment": {}}),
        ("meta", _) => json!({"type": "user", "isMeta": true, "message": {"content": name}}),
        (kind, _) => json!({"type": kind, "message": {"content": name}}),
    };
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

fn pin(target: &str, explicit: bool) -> Value {
    json!({"type": "last-prompt", "leafUuid": target, "explicit": explicit, "sessionId": "s"})
}

/// Each a minute after the one before, unless it has a time.
fn file(records: &[Value]) -> Vec<u8> {
    let mut records = records.to_vec();
    for (minute, record) in records.iter_mut().enumerate() {
        if record["timestamp"].is_null() && record["uuid"].is_string() {
            record["timestamp"] = json!(at(60_000 * minute as u64));
        }
    }
    lines(&records)
}

fn simulate(bytes: &[u8], version: &str) -> (Transcript, Simulated) {
    let t = Claude.read(&bytes).unwrap();
    let client = Client { version: Some(version.to_owned()), ..Client::default() };
    let simulated = Claude.simulate(&t, &bytes, &client).unwrap();
    (t, simulated)
}

#[track_caller]
fn resumed(bytes: &[u8], version: &str) -> (Transcript, Resumed) {
    match simulate(bytes, version) {
        (t, Simulated::Resumes(r)) => (t, r),
        (_, Simulated::Refuses(why)) => panic!("refuses: {why}"),
    }
}

/// The tails of the two measured clients.
#[track_caller]
fn tails(records: &[Value]) -> (String, String) {
    let tail = |version| {
        let (t, r) = resumed(&file(records), version);
        t.id(r.tail).to_string()
    };
    (tail(OLD), tail(NEW))
}

#[track_caller]
fn both(records: &[Value], expected: &str) {
    assert_eq!(tails(records), (expected.to_owned(), expected.to_owned()));
}

#[track_caller]
fn history(records: &[Value], version: &str) -> Vec<String> {
    let (t, r) = resumed(&file(records), version);
    r.history.iter().map(|&id| t.id(id).to_string()).collect()
}

fn inspected(records: &[Value]) -> Inspection {
    let bytes = file(records);
    let t = Claude.read(&bytes).unwrap();
    topology::inspect(&t, &bytes, &Claude, &Client::default()).unwrap()
}

/// `U A`, and below `A` the branches `Ux Ax` and `Uy Ay`.
fn two() -> Vec<Value> {
    vec![
        rec("U", "", "user"),
        rec("A", "U", "assistant"),
        rec("Ux", "A", "user"),
        rec("Ax", "Ux", "assistant"),
        rec("Uy", "A", "user"),
        rec("Ay", "Uy", "assistant"),
    ]
}

fn with(more: &[Value]) -> Vec<Value> {
    two().into_iter().chain(more.iter().cloned()).collect()
}

#[test]
fn pins() {
    both(&two(), "Ay");
    both(&with(&[pin("Ax", false)]), "Ax");
    both(&with(&[pin("A", false)]), "Ay");
    both(&with(&[pin("A", true)]), "A");
    both(&with(&[pin("Ux", true)]), "Ux");
    both(&with(&[pin("gone", false)]), "Ay");
    // Not an earlier pin.
    both(&with(&[pin("Ax", false), pin("00000000-0000-0000-0000-000000000000", true)]), "Ay");
    // Without a leaf it is no pin.
    both(&with(&[pin("Ax", false), json!({"type": "last-prompt", "sessionId": "s"})]), "Ax");
    // Wherever it stands.
    both(&[&[pin("Ax", false)], &two()[..]].concat(), "Ax");
    both(&with(&[rec("P", "Ax", "progress"), pin("P", true)]), "Ay");
    // Something grew below it since, whatever it is.
    both(&with(&[pin("A", true), rec("T", "Ax", "turn")]), "T");
    both(&with(&[pin("A", true), rec("T", "", "turn")]), "A");
    // On another branch it is followed all the same.
    both(&with(&[pin("Ax", true), rec("Uz", "Ax", "user"), rec("Uy2", "Ay", "user")]), "Ax");
}

#[test]
fn a_boundary_behind_the_pin_voids_it() {
    let compact = [rec("B", "Ay", "boundary"), rec("S", "B", "user"), rec("A5", "S", "assistant")];
    for explicit in [false, true] {
        both(&[&with(&[pin("Ax", explicit)])[..], &compact].concat(), "A5");
        both(&[&with(&compact)[..], &[pin("Ax", explicit)]].concat(), "Ax");
    }
    assert_eq!(history(&with(&compact), NEW), ["B", "S", "A5"], "the walk stops at the boundary");
    let leaves: Vec<String> =
        inspected(&with(&compact)).branches.iter().map(|b| b.leaf_uuid.to_string()).collect();
    assert_eq!(leaves, ["Ax", "A5"], "the boundary continues Ay");
}

#[test]
fn what_is_no_tail() {
    both(&with(&[rec("P", "Ax", "progress")]), "Ay");
    let mut side = rec("S", "Ax", "user");
    side["isSidechain"] = json!(true);
    both(&with(&[side.clone()]), "Ay");
    for version in [OLD, NEW] {
        let (_, simulated) = simulate(&file(&with(&[side.clone(), pin("S", false)])), version);
        assert!(matches!(&simulated, Simulated::Refuses(why) if why.contains("subagent")), "{simulated:?}");
        let (_, simulated) = simulate(&file(&[pin("Ax", false)]), version);
        assert!(matches!(simulated, Simulated::Refuses(_)), "{simulated:?}");
    }
    // Walked through, and sent.
    let through = with(&[side, rec("Az", "S", "assistant")]);
    both(&through, "Az");
    assert_eq!(history(&through, OLD), ["U", "A", "Ux", "Ax", "S", "Az"]);
}

#[test]
fn missing_parents_are_bridged_by_time() {
    let gap = |ms: u64| {
        let mut records = two();
        let mut near = rec("N", "Ux", "assistant");
        near["timestamp"] = json!(at(1_000_000));
        let mut orphan = rec("O", "gone", "user");
        orphan["timestamp"] = json!(at(1_000_000 + ms));
        records.extend([near, orphan]);
        records
    };
    for version in [OLD, NEW] {
        assert_eq!(history(&gap(5_000), version), ["U", "A", "Ux", "N", "O"]);
        assert_eq!(history(&gap(5_001), version), ["O"]);
        let (t, r) = resumed(&file(&gap(5_001)), version);
        assert_eq!(
            r.gap.map(|g| (t.id(g.child).to_string(), t.id(g.missing).to_string())),
            Some(("O".into(), "gone".into()))
        );
        assert!(resumed(&file(&gap(1)), version).1.gap.is_none());
    }
    // Not in the ancestor test: a pin on what the gap is bridged to is on another branch.
    both(&[gap(5_000), vec![pin("N", false)]].concat(), "N");
}

/// One prompt, a message with two calls, and their results, each on its own call.
fn round() -> Vec<Value> {
    vec![
        rec("U", "", "user"),
        rec("P.a", "U", "use:a"),
        rec("P.b", "P.a", "use:b"),
        rec("Ra", "P.a", "res:a"),
        rec("Rb", "P.b", "res:b"),
    ]
}

#[test]
fn rounds_are_whole_wherever_they_are_pinned() {
    let end = [rec("A", "Rb", "assistant")];
    let whole = [&round()[..], &end].concat();
    both(&whole, "A");
    assert_eq!(history(&whole, NEW), ["U", "P.a", "P.b", "Ra", "Rb", "A"]);
    assert_eq!(inspected(&whole).branches.len(), 1);
    // A result beside the chain counts as an ancestor for the newest client only.
    let pinned = [&whole[..], &[pin("Ra", false)]].concat();
    assert_eq!(tails(&pinned), ("Ra".into(), "A".into()));
    assert_eq!(history(&pinned, OLD), ["U", "P.a", "P.b", "Rb", "Ra"]);
    // With the tail on another branch it stays in the round, below its last result.
    let elsewhere = [&whole[..], &[rec("V", "", "user"), pin("Ra", false)]].concat();
    assert_eq!(tails(&elsewhere), ("Ra".into(), "Rb".into()));
    // A pin on a call takes its results along.
    both(&[&whole[..], &[rec("V", "", "user"), pin("P.b", false)]].concat(), "Rb");
}

/// A result beside the chain belongs to the branches that go through its round.
#[test]
fn what_stands_beside_a_chain_is_on_its_branches() {
    let mut records = round();
    records.extend([rec("A", "Rb", "assistant"), rec("V", "A", "user"), rec("W", "A", "user")]);
    let bytes = file(&records);
    let t = Claude.read(&bytes).unwrap();
    let tree = Tree::new(&t);
    let on = |name: &str| {
        let id = t.ids.find(name).unwrap();
        (tree.count_with(id), tree.leaves_with(id).len(), tree.leaf_of(id).is_some())
    };
    assert_eq!(
        [on("Ra"), on("Rb"), on("P.a"), on("V")],
        [(2, 2, false), (2, 2, false), (2, 2, false), (1, 1, true)]
    );
    let chain = build_ordered_uuid_chain(&t, t.ids.find("V").unwrap());
    let attached = Claude.attached(&t, &bytes, &chain).unwrap();
    assert_eq!(attached, [t.ids.find("Ra").unwrap()]);
    let round = file(&round());
    let t = Claude.read(&round).unwrap();
    let tree = Tree::new(&t);
    let leaf = tree.leaves().next().unwrap();
    assert_eq!((tree.leaves().len(), t.id(leaf).as_str()), (1, "Rb"));
    assert_eq!(
        tree.leaf_of(t.ids.find("Ra").unwrap()),
        Some(leaf),
        "a member of the last round names its leaf"
    );
}

#[test]
fn an_open_call_is_dropped_or_answered() {
    let open = [rec("U", "", "user"), rec("P.t", "U", "assistant"), rec("P.a", "P.t", "use:a")];
    assert_eq!(tails(&open), ("P.t".into(), "P.a".into()));
    assert_eq!(tails(&round()[..4]), ("Ra".into(), "P.b".into()));
    let branch = &inspected(&open).branches[0];
    assert_eq!((json!(branch.turn), branch.leaf_uuid.as_str()), (json!("open-tool-call"), "P.a"));
}

#[test]
fn notes_below_the_last_message_are_taken_along() {
    let records = [
        rec("U", "", "user"),
        rec("A", "U", "assistant"),
        rec("T1", "A", "turn"),
        rec("N1", "A", "note"),
        rec("T2", "T1", "turn"),
        rec("M", "N1", "meta"),
        rec("N2", "M", "note"),
        rec("V", "T1", "user"),
        rec("W", "V", "assistant"),
        rec("V2", "A", "user"),
        pin("A", true),
    ];
    // In file order, and depth first: A T1 T2 N1.
    assert_eq!(tails(&records), ("T2".into(), "N1".into()));
}

#[test]
fn below_a_prompt_system_records_do_not_count() {
    let prompt = [rec("U", "", "user"), rec("A", "U", "assistant"), rec("V", "A", "user")];
    let ends = |more: &[Value]| tails(&[&prompt[..], more].concat());
    assert_eq!(ends(&[rec("T", "V", "turn")]), ("V".into(), "V".into()));
    assert_eq!(ends(&[rec("N", "V", "note"), rec("T", "N", "turn")]), ("T".into(), "N".into()));
    assert_eq!(ends(&[rec("T", "V", "turn"), rec("N", "T", "note")]), ("N".into(), "N".into()));
    let result = [&round()[..], &[rec("T", "Rb", "turn")]].concat();
    assert_eq!(tails(&result), ("T".into(), "Rb".into()));
}

#[test]
fn copies_of_a_reply_are_put_behind_it() {
    let records = with(&[rec("Uz", "A", "user"), rec("Ax.copy", "Uz", "assistant")]);
    both(&records, "Ax");
    assert_eq!(history(&records, NEW), ["U", "A", "Uz", "Ax.copy", "Ax"]);
    assert_eq!(inspected(&records).branches.len(), 3, "under another prompt it is another step");
}

#[test]
fn the_last_copy_of_a_uuid_counts() {
    let records = with(&[rec("Ax", "A", "assistant")]);
    both(&records, "Ax");
    assert_eq!(history(&records, NEW), ["U", "A", "Ax"]);
    let found = inspected(&records);
    assert_eq!(
        json!(found.diagnostics),
        json!([{"kind": "conflicting-parent", "uuid": "Ax", "parentUuids": ["Ux", "A"]}])
    );
    // A copy of an inner record in the last place: with a pin both take it.
    let mut copy = rec("A", "U", "assistant");
    copy["timestamp"] = json!(at(60_000));
    assert_eq!(tails(&with(&[copy.clone()])), ("A".into(), "Ay".into()));
    both(&with(&[pin("gone", false), copy]), "A");
}

#[test]
fn over_5_mib_nothing_before_the_last_boundary_is_loaded() {
    let large = |pad: usize, more: &[Value]| {
        let mut records = two();
        records[0]["pad"] = json!("x".repeat(pad));
        records.extend([rec("B", "Ay", "boundary"), rec("S", "B", "user"), rec("A5", "S", "assistant")]);
        records.extend(more.iter().cloned());
        file(&records)
    };
    let tail = |bytes: &[u8], version| {
        let (t, r) = resumed(bytes, version);
        (t.id(r.tail).to_string(), r.history.len(), r.gap.is_some())
    };
    for version in [OLD, NEW] {
        for explicit in [false, true] {
            let pinned = [pin("Ax", explicit)];
            assert_eq!(tail(&large(100, &pinned), version).0, "Ax");
            assert_eq!(
                tail(&large(5 << 20, &pinned), version).0,
                "A5",
                "the pin names nothing that is loaded"
            );
        }
        // A branch that is rooted before the boundary loses what it shares.
        let late = [rec("Uz", "A", "user"), rec("Az", "Uz", "assistant")];
        assert_eq!(tail(&large(100, &late), version), ("Az".into(), 4, false));
        assert_eq!(tail(&large(5 << 20, &late), version), ("Az".into(), 2, true));
    }
    // The threshold is in bytes of the whole file.
    let size = large(0, &[pin("Ax", false)]).len();
    assert_eq!(tail(&large((5 << 20) - size, &[pin("Ax", false)]), NEW).0, "Ax");
    assert_eq!(tail(&large((5 << 20) - size + 1, &[pin("Ax", false)]), NEW).0, "A5");
}

#[test]
fn damaged_lines() {
    let text = String::from_utf8(file(&two())).unwrap();
    let pick = |text: &str, version| match simulate(text.as_bytes(), version) {
        (t, Simulated::Resumes(r)) => Some(t.id(r.tail).to_string()),
        _ => None,
    };
    let ay = Some("Ay".to_owned());
    for version in [OLD, NEW] {
        assert_eq!(pick(&text.replace('\n', "\r\n"), version), ay);
        assert_eq!(pick(&format!("\u{feff}{}", text.trim_end()), version), ay);
        assert_eq!(
            pick(&format!("{}{{\"uuid\":\"glued\",\"type\":\"user\"}}\n", text.trim_end()), version),
            ay
        );
        assert_eq!(pick(&format!("{text}{{\"torn\":"), version), ay);
        let (kept, last) = text.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(pick(&format!("{kept}\n]{last}\n"), version).as_deref(), Some("Uy"));
    }
    assert_eq!(
        (pick(&format!("null\n{text}"), OLD), pick(&format!("null\n{text}"), NEW)),
        (None, ay.clone())
    );
    // A missing time matters only where it is picked, and not to the newest.
    let mut records: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    records[1].as_object_mut().unwrap().remove("timestamp");
    assert_eq!(pick(std::str::from_utf8(&lines(&records)).unwrap(), OLD), ay);
    records[5].as_object_mut().unwrap().remove("timestamp");
    let text = String::from_utf8(lines(&records)).unwrap();
    assert_eq!((pick(&text, OLD), pick(&text, NEW)), (None, ay));
}

#[test]
fn known_lines_without_uuid_are_no_findings_and_others_are() {
    let found = |line: &str| {
        let bytes = [file(&two()), line.as_bytes().to_vec(), b"\n".to_vec()].concat();
        json!(Claude.read(&bytes).unwrap().diagnostics)
    };
    for known in ["last-prompt", "mode", "custom-title", "file-history-snapshot", "cost-state", "api-request"]
    {
        assert_eq!(found(&json!({"type": known}).to_string()), json!([]), "{known}");
    }
    for (line, kind) in [
        (r#"{"type":"user"}"#, "skipped-record"),
        (r#"{"type":"news","uuid":"x"}"#, "skipped-record"),
        ("null", "skipped-record"),
        ("nonsense", "malformed-line"),
        (r#"{"type":"mode"} {"#, "malformed-line"),
    ] {
        let found = found(line);
        assert_eq!((&found[0]["kind"], &found[0]["line"]), (&json!(kind), &json!(7)), "{line}: {found}");
    }
}

#[test]
fn summaries_are_of_people_and_the_model() {
    let mut summary = rec("S", "Ay", "user");
    summary["isCompactSummary"] = json!(true);
    let mut thought = rec("Az.1", "Uz", "assistant");
    thought["message"]["content"] = json!([{"type": "thinking", "thinking": "secret"}]);
    let mut echo = rec("E", "Az.2", "user");
    echo["message"]["content"] = json!(" <command-name>/cost</command-name>");
    let filler = json!({"uuid": "F", "parentUuid": "E", "type": "assistant", "message":
        {"id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "content": [{"type": "text", "text": "No response requested."}]}});
    let records = with(&[
        summary,
        rec("M", "S", "meta"),
        rec("Uz", "M", "user"),
        thought,
        rec("Az.2", "Az.1", "assistant"),
        echo,
        filler,
    ]);
    let found = inspected(&records);
    let b = found.branches.last().unwrap();
    assert_eq!(b.leaf_uuid.as_str(), "Az.2");
    assert_eq!(b.first_user_text_after_branch_point.as_deref(), Some("Uy"));
    assert_eq!(b.last_user_text.as_deref(), Some("Uz"));
    assert_eq!(b.last_assistant_text.as_deref(), Some("Az.2"));
    assert_eq!(b.branch_point_uuid.as_ref().unwrap().as_str(), "A");
    // By type: U, Uy, S, M, Uz; A, Ay, and both parts of Az.
    assert_eq!((b.record_counts.user, b.record_counts.assistant), (5, 4));
    assert_eq!(b.last_message_at.as_deref(), Some(at(60_000 * 10).as_str()));
    assert_eq!(
        found.client_pick.unwrap().leaf_uuid,
        Some(b.leaf_uuid.clone()),
        "the filler hangs below the leaf"
    );
}
