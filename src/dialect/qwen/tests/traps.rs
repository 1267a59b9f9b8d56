//! Which bytes are a record.

use super::*;
use crate::transcript::{Flags, Record};

/// The flags of one record of this type, with these further members.
fn flags(kind: &str, more: &str) -> Flags {
    let line = format!(r#"{{"uuid":"a","parentUuid":null,"sessionId":"s","type":"{kind}",{more}}}"#);
    let t = t(&line);
    assert_eq!(t.records.len(), 1, "{line}");
    t.records[0].flags
}

#[test]
fn a_record_takes_24_bytes() {
    assert_eq!(size_of::<Record>(), 24);
}

#[test]
fn a_byte_order_mark_crlf_and_blank_lines_are_no_defects() {
    let text = format!("\u{feff}{}\r\n\r\n \t\n{}\n", record("a", None), record("b", Some("a")));
    let t = t(text);
    assert_eq!((uuids(&t), t.lines, t.line(1)), (vec!["a".into(), "b".into()], 4, 4));
    assert_eq!(t.records[0].span.range().start, 3, "the span begins behind the mark");
    assert!(t.diagnostics.is_empty() && t.ends_in_newline);
}

#[test]
fn a_line_is_trimmed_of_what_javascript_takes_for_white_space() {
    for space in
        ["\u{b}", "\u{c}", "\u{a0}", "\u{1680}", "\u{2003}", "\u{2028}", "\u{202f}", "\u{3000}", "\u{feff}"]
    {
        let t = t(format!("{space}{}{space}\n", record("a", None)));
        assert_eq!((uuids(&t), t.diagnostics.len()), (vec!["a".into()], 0), "{space:?}");
    }
    for other in ["\u{85}", "\u{200b}", "\u{180e}", "\0"] {
        let t = t(format!("{other}{}{other}\n", record("a", None)));
        assert_eq!((uuids(&t), kinds(&t)), (vec!["a".into()], vec![("malformed-line", 1)]), "{other:?}");
    }
}

#[test]
fn a_lone_carriage_return_ends_a_line_but_is_not_counted() {
    let t = t(format!("{}\r{}\n{}\n", record("a", None), record("b", None), record("c", None)));
    assert_eq!(uuids(&t), ["a", "b", "c"]);
    assert_eq!((kinds(&t), t.lines), (vec![("glued-records", 1)], 2));
    let torn = super::t("{\"uuid\":\r\"a\"}\n");
    assert!(reason(&torn).contains("carriage return"), "{}", reason(&torn));
}

#[test]
fn a_raw_line_separator_in_a_string_ends_no_line_and_is_marked() {
    let with = record("a", None).replace("/w", "/\u{2028}\u{2029}");
    let t = t(format!("{}\n{with}\n", record("b", None)));
    assert_eq!((uuids(&t).len(), t.diagnostics.len(), t.separator_line), (2, 0, Some(2)));
    // The same lead bytes, another character.
    assert_eq!(super::t(record("a", None).replace("/w", "/\u{2026}")).separator_line, None);
}

#[test]
fn glued_records_all_count_and_garbage_between_them_is_told() {
    let (a, b) = (record("a", None), record("b", Some("a")));
    let glued = t(format!("{a}{b}\n"));
    assert_eq!((uuids(&glued), kinds(&glued)), (vec!["a".into(), "b".into()], vec![("glued-records", 1)]));
    let spans: Vec<_> = glued.records.iter().map(|r| r.span.range()).collect();
    assert_eq!(spans, [0..a.len() as u64, a.len() as u64..(a.len() + b.len()) as u64]);
    for garbage in ["x", ",", "}", "\0", "[", "{\"uuid\":}"] {
        let t = t(format!("{a}{garbage}{b}\n"));
        assert_eq!(uuids(&t), ["a", "b"], "{garbage}");
        assert_eq!(kinds(&t), [("glued-records", 1), ("malformed-line", 1)], "{garbage}");
    }
}

#[test]
fn a_fragment_that_ends_inside_a_string_hides_the_record_behind_it() {
    let t = t(format!("{{\"text\":\"half{}\n{}\n", record("a", None), record("b", None)));
    assert_eq!((uuids(&t), kinds(&t)), (vec!["b".into()], vec![("malformed-line", 1)]));
}

#[test]
fn an_array_of_records_is_dropped_whole_unless_it_is_broken() {
    let a = record("a", None);
    let whole = t(format!("[{a}]\n7\n\"x\"\nnull\ntrue\n"));
    assert!(whole.records.is_empty());
    assert_eq!(kinds(&whole), (1..=5).map(|n| ("skipped-record", n)).collect::<Vec<_>>());
    let broken = t(format!("[{a},]\n"));
    assert_eq!((uuids(&broken), kinds(&broken)), (vec!["a".into()], vec![("malformed-line", 1)]));
}

#[test]
fn identity_fields_of_a_wrong_type_skip_the_record_with_the_reason() {
    let good = record("a", None);
    for (from, to, why) in [
        (r#""uuid":"a""#, r#""uuid":7"#, "`uuid` is not a string"),
        (r#""uuid":"a""#, r#""uuid":"""#, "`uuid` is empty"),
        (r#""uuid":"a","#, "", "`uuid` is missing"),
        (r#""parentUuid":null,"#, "", "`parentUuid` is missing"),
        (r#""parentUuid":null"#, r#""parentUuid":0"#, "`parentUuid` is neither a string nor null"),
        (r#""sessionId":"s""#, r#""sessionId":"""#, "`sessionId` is empty"),
        (r#""sessionId":"s""#, r#""sessionId":["s"]"#, "`sessionId` is not a string"),
        (r#""type":"user""#, r#""type":"leaf_choice""#, "`type` is none that the client knows"),
        (r#""type":"user""#, r#""type":{}"#, "`type` is not a string"),
        (r#","type":"user""#, "", "`type` is missing"),
    ] {
        let line = good.replace(from, to);
        assert_ne!(line, good);
        let t = t(&line);
        assert_eq!((t.records.len(), t.objects, reason(&t)), (0, 1, why), "{line}");
    }
    // An object, but the client looks at the members themselves, not at those of `__proto__`.
    let t = t(r#"{"__proto__":{"uuid":"a"},"parentUuid":null,"sessionId":"s","type":"user"}"#);
    assert_eq!(reason(&t), "`uuid` is missing");
}

#[test]
fn the_last_of_a_repeated_key_wins_at_every_level() {
    let t = t(
        r#"{"uuid":"x","uuid":"a","parentUuid":7,"parentUuid":"p","type":"x","type":"user","sessionId":"s"}"#,
    );
    assert_eq!(uuids(&t), ["a"]);
    assert_eq!(t.records[0].parent, t.ids.find("p"));
    assert_eq!(t.session_ids, ["s"]);
    let call = r#"{"parts":[{"functionCall":{}}]}"#;
    assert_eq!(flags("assistant", &format!(r#""message":{call},"message":{{}}"#)), Flags::default());
    assert_eq!(flags("assistant", &format!(r#""message":5,"message":{call}"#)), Flags::CALL);
    assert_eq!(
        flags("assistant", r#""message":{"parts":[{"functionCall":{}}],"parts":[]}"#),
        Flags::default()
    );
    assert_eq!(
        flags("assistant", r#""message":{"parts":[{"functionCall":{},"functionCall":1}]}"#),
        Flags::default()
    );
}

#[test]
fn escapes_are_decoded_in_keys_and_values() {
    let t = t(
        r#"{"\u0075uid":"\u0061\/\n","parent\u0055uid":"\ud83d\ude00","sessionId":"s","type":"us\u0065r"}"#,
    );
    assert_eq!(uuids(&t), ["a/\n"]);
    assert_eq!(t.records[0].parent, t.ids.find("\u{1f600}"));
}

#[test]
fn lone_surrogates_and_bytes_that_are_no_utf8_become_one_replacement_each() {
    for (raw, text) in [
        (&br"\ud800"[..], "\u{fffd}"),
        (br"\udc00\ud800", "\u{fffd}\u{fffd}"),
        (br"\ud800\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (br"\ud800\n", "\u{fffd}\n"),
        (b"\xff", "\u{fffd}"),
        (b"\xe2\x80x", "\u{fffd}x"),
        (b"\xf0\x9f\x98x", "\u{fffd}x"),
        (b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
    ] {
        let line = record("@", None).into_bytes();
        let at = line.iter().position(|&b| b == b'@').unwrap();
        let line = [&line[..at], raw, &line[at + 1..], b"\n"].concat();
        let t = t(&line);
        assert_eq!((uuids(&t), t.diagnostics.len()), (vec![text.to_owned()], 0), "{raw:x?}");
    }
}

#[test]
fn numbers_are_judged_by_their_form_and_may_be_of_any_size() {
    for good in ["0", "-0", "1e999", "-1.5E-3", "123456789012345678901234567890"] {
        assert_eq!(t(record("a", None).replace("\"/w\"", good)).records.len(), 1, "{good}");
    }
    for bad in ["01", "1.", ".5", "+1", "-", "1e", "NaN", "Infinity", "0x1", "nul", "'a'", "/**/1"] {
        let t = t(record("a", None).replace("\"/w\"", bad) + "\n");
        assert_eq!((t.records.len(), kinds(&t)), (0, vec![("malformed-line", 1)]), "{bad}");
    }
}

#[test]
fn control_characters_inside_strings_make_a_line_malformed() {
    for bad in ["\0", "\t", "\u{1f}"] {
        let t = t(record("a", None).replace("/w", bad) + "\n");
        assert_eq!((t.records.len(), kinds(&t)), (0, vec![("malformed-line", 1)]), "{bad:?}");
    }
    assert_eq!(t(record("a", None).replace("/w", "\u{7f}")).records.len(), 1);
}

#[test]
fn nesting_of_any_depth_is_stepped_over() {
    let deep = |n| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let objects = |n| format!("{}1{}", r#"{"a":"#.repeat(n), "}".repeat(n));
    for value in [deep(100_000), objects(100_000), format!(r#"{{"parts":[{}]}}"#, deep(100_000))] {
        let line = record("a", None).replace("\"cwd\"", &format!("\"message\":{value},\"cwd\""));
        assert_eq!(t(&line).records.len(), 1);
        assert_eq!(decode::decode(line.as_bytes()).cwd.as_deref(), Some("/w"));
    }
    // Unbalanced, so that the scanner has to go through it.
    assert_eq!(kinds(&t("{".repeat(100_000) + "\n")), [("malformed-line", 1)]);
    assert_eq!(kinds(&t("[".repeat(100_000) + "\n")), [("malformed-line", 1)]);
}

#[test]
fn reasons_never_quote_the_transcript() {
    let t = t("{\"uuid\": \u{1b}[31mred\u{202e}\n\u{1b}]0;title\u{7}\n{\"\u{1b}[0m\":\"a\" \"b\"}\n");
    assert_eq!(t.diagnostics.len(), 3);
    for d in &t.diagnostics {
        let text = format!("{d:?}");
        assert!(!text.contains("[31m") && !text.contains("title") && text.is_ascii(), "{text}");
    }
}

#[test]
fn flags_follow_type_and_subtype() {
    let of = |kind: &str, subtype: &str| flags(kind, &format!(r#""subtype":{subtype}"#));
    assert_eq!(of("system", r#""custom_title""#), Flags::NEUTRAL.with(Flags::TITLE));
    let artifact = Flags::NEUTRAL.with(Flags::ARTIFACT).with(Flags::UNSEEN);
    assert_eq!(of("system", r#""session_artifact_event""#), artifact);
    assert_eq!(of("system", r#""session_artifact_snapshot""#), artifact);
    assert_eq!(of("system", r#""session_sources_snapshot""#), Flags::UNSEEN);
    assert_eq!(of("system", r#""managed_session_event_v1""#), Flags::MANAGED.with(Flags::UNSEEN));
    assert_eq!(of("system", r#""managed_session_event_v9""#), Flags::MANAGED, "the client sees it");
    assert_eq!(of("system", r#""rewind""#), Flags::REWIND);
    assert_eq!(of("system", r#""chat_compression""#), Flags::COMPRESSION);
    assert_eq!(of("system", r#""a_new_one""#), Flags::default());
    for subtype in ["notification", "cron", "mid_turn_user_message"] {
        assert_eq!(of("user", &format!("\"{subtype}\"")), Flags::SYNTHETIC);
        assert_eq!(of("assistant", &format!("\"{subtype}\"")), Flags::default());
    }
    // Only system records are what their subtype says.
    for subtype in ["custom_title", "session_artifact_event", "rewind", "managed_session_header_v1"] {
        assert_eq!(of("user", &format!("\"{subtype}\"")), Flags::default());
    }
    assert_eq!(flags("user", r#""externalInputKind":"notification""#), Flags::SYNTHETIC);
    assert_eq!(flags("user", r#""subtype":"x","externalInputKind":"notification""#), Flags::SYNTHETIC);
    assert_eq!(flags("system", r#""externalInputKind":"notification""#), Flags::default());
}

#[test]
fn only_a_system_record_without_subtype_and_with_an_integer_mark_is_our_anchor() {
    let ours = Flags::ANCHOR.with(Flags::NEUTRAL);
    assert_eq!(flags("system", r#""systemPayload":{"offshoot":1,"operationId":"x"}"#), ours);
    assert_eq!(flags("system", r#""systemPayload":{"offshoot":2},"subtype":7"#), ours, "7 is no subtype");
    for payload in [r#"{"offshoot":"1"}"#, r#"{"offshoot":1.5}"#, r#"{"offshoot":true}"#, "{}", "[1]", "1"] {
        assert_eq!(flags("system", &format!(r#""systemPayload":{payload}"#)), Flags::default(), "{payload}");
    }
    assert_eq!(flags("system", r#""subtype":"x","systemPayload":{"offshoot":1}"#), Flags::default());
    assert_eq!(flags("user", r#""systemPayload":{"offshoot":1}"#), Flags::default());
}

#[test]
fn calls_and_responses_are_parts_that_hold_an_object() {
    let of = |parts: &str| flags("assistant", &format!(r#""message":{{"parts":{parts}}}"#));
    assert_eq!(of(r#"[{"text":"a"},{"functionCall":{"id":"1"}}]"#), Flags::CALL);
    assert_eq!(of(r#"[{"functionResponse":{}},{"functionCall":{}}]"#), Flags::CALL.with(Flags::RESPONSE));
    for none in
        [r#"[{"functionCall":null}]"#, r#"[{"functionCall":"x"}]"#, r#"{"functionCall":{}}"#, "[[]]", "5"]
    {
        assert_eq!(of(none), Flags::default(), "{none}");
    }
}

#[test]
fn the_highest_version_is_found_by_number() {
    let with = |versions: &[&str]| {
        let lines = versions.iter().map(|v| record("a", None).replace("\"0.24.4\"", v) + "\n");
        t(lines.collect::<String>()).client_version
    };
    assert_eq!(with(&["\"0.9.10\"", "\"0.24.4\"", "\"0.24.3\""]).as_deref(), Some("0.24.4"));
    assert_eq!(
        with(&["\"0.25.0-preview.9\"", "\"0.25.0-preview.10\""]).as_deref(),
        Some("0.25.0-preview.10")
    );
    assert_eq!(with(&["\"0.25.0\"", "\"0.25.0-preview.1\""]).as_deref(), Some("0.25.0"));
    assert_eq!(with(&["\"unknown\"", "7", "null", "\"1.\\u001b[0m\""]), None);
    let newer = |version| crate::dialect::Dialect::is_newer_than_known(&super::super::Qwen, version);
    assert!(newer("0.100.0") && !newer("0.24.4"));
    assert!(!newer("unknown") && !newer("0.24.4-rc.1"));
}

#[test]
fn at_most_eight_session_ids_are_kept() {
    let lines =
        |n: usize| (0..n).map(|i| record("a", None).replace("\"s\"", &format!("\"s{}\"", i % 20)) + "\n");
    assert_eq!(t(lines(100).collect::<String>()).session_ids.len(), 8);
    assert_eq!(t(lines(2).collect::<String>()).session_ids, ["s0", "s1"]);
}
