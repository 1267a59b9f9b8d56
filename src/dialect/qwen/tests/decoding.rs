//! What a summary gets of a record.

use super::*;
use crate::dialect::Decoded;

fn of_parts(parts: &str) -> Decoded {
    decode::decode(format!(r#"{{"message":{{"role":"user","parts":{parts}}}}}"#).as_bytes())
}

#[test]
fn only_true_itself_hides_a_text() {
    let d = of_parts(
        r#"[{"text":"a"},{"text":"b","thought":true},{"text":"c","thought":1},{"text":"d","thought":"true"},
            {"text":"e","thought":true,"thought":false},{"text":5},{"text":null},{},7,null,["text"]]"#,
    );
    assert_eq!(d.texts, ["a", "c", "d", "e"]);
}

#[test]
fn texts_inside_calls_and_other_parts_are_not_texts() {
    let d =
        of_parts(r#"[{"functionCall":{"args":{"text":"no"}}},{"inlineData":{"text":"no"}},{"text":"yes"}]"#);
    assert_eq!((d.texts, d.calls), (vec!["yes".into()], vec![String::new()]));
}

#[test]
fn ids_of_calls_and_responses_come_in_order() {
    let d = of_parts(
        r#"[{"functionCall":{"id":"1"}},{"functionCall":{"id":7}},{"functionCall":null},
            {"functionResponse":{"id":"x","id":"2"}},{"functionResponse":[]}]"#,
    );
    assert_eq!(d.calls, ["1", ""]);
    assert_eq!(d.responses, ["2"]);
}

#[test]
fn fields_of_the_wrong_type_are_absent_and_the_last_one_wins() {
    let d = decode::decode(
        br#"{"timestamp":"t","gitBranch":5,"cwd":"/a","cwd":"/b","timestamp":7,"message":{"parts":[{"text":"x"}],"parts":3}}"#,
    );
    assert_eq!(d, Decoded { cwd: Some("/b".into()), ..Decoded::default() });
}

#[test]
fn only_a_title_record_sets_a_title() {
    let of = |kind: &str, subtype: &str, payload: &str| {
        let text = format!(r#"{{"systemPayload":{payload},"type":"{kind}","subtype":"{subtype}"}}"#);
        decode::decode(text.as_bytes()).title
    };
    assert_eq!(of("system", "custom_title", r#"{"customTitle":"a\u0062"}"#).as_deref(), Some("ab"));
    assert_eq!(of("system", "custom_title", r#"{"customTitle":5}"#), None);
    assert_eq!(of("system", "custom_title", r#""x""#), None);
    assert_eq!(of("system", "rewind", r#"{"customTitle":"a"}"#), None);
    assert_eq!(of("user", "custom_title", r#"{"customTitle":"a"}"#), None);
}

#[test]
fn bytes_that_are_no_object_decode_to_nothing() {
    for bytes in [&b""[..], b"[]", b"{", b"{\"cwd\":\"/a\",}", b"\xff", b"null"] {
        assert_eq!(decode::decode(bytes), Decoded::default(), "{bytes:?}");
    }
}
