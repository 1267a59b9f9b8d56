use super::*;
use crate::refusal::Error;

fn turn(id: &str, boundary: u64, available: Result<u64, Code>) -> Turn {
    Turn {
        id: id.to_owned(),
        start: 1,
        end: boundary,
        boundary,
        status: Status::Completed,
        message_id: None,
        available: available.map(|prefix| Cut { record: RecordId::new(format!("r{boundary}")), prefix }),
    }
}

fn targets(turns: Vec<Turn>, bytes: &[u8]) -> Targets {
    Targets::of(Turns { verifiable: true, turns, hidden: vec!["hidden-1".to_owned()] }, "s:1", &bytes)
        .unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().refusal().unwrap()
}

#[test]
fn each_target_is_bound_to_the_bytes_before_its_boundary_and_to_no_other() {
    // Out of order on purpose: in a tree a later turn can end before an earlier one.
    let t = targets(
        vec![turn("a", 2, Ok(8)), turn("b", 1, Ok(4)), turn("c", 0, Err(Code::TurnOpen))],
        b"01234567",
    );
    let anchors: Vec<_> = t.targets.iter().map(|t| t.anchor.as_ref().map(|a| a.digest.clone())).collect();
    let of = |bytes: &[u8]| Some(blake3::hash(bytes).to_hex().to_string());
    assert_eq!(anchors, [of(b"01234567"), of(b"0123"), None]);
    assert_eq!(t.targets.iter().map(|t| t.number).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_source_that_is_shorter_than_a_boundary_is_an_error_of_reading() {
    let turns = Turns { verifiable: true, turns: vec![turn("a", 1, Ok(9))], hidden: Vec::new() };
    assert_eq!(Targets::of(turns, "s", &b"12".as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn an_anchor_is_read_back_and_has_one_spelling() {
    let t = targets(vec![turn("tu:rn %\u{202e}é", 7, Ok(3))], b"abcdef");
    let anchor = t.targets[0].anchor.clone().unwrap();
    let text = anchor.to_string();
    assert!(text.starts_with("ot1:7:") && text.is_ascii(), "{text}");
    assert_eq!(Anchor::parse(&text).unwrap(), anchor);
    let bad = [
        String::new(),
        "ot1".to_owned(),
        text.replace("ot1", "ot2"),
        text.replace("ot1:7", "ot1:07"),
        text.replace("ot1:7", "ot1:-7"),
        format!("{text}:"),
        text.to_uppercase(),
        text.replace("tu%3Arn", "tu:rn"),
        text.replace("tu%3Arn", "t%75%3Arn"),
        text.replace(&anchor.digest, &anchor.digest[1..]),
    ];
    for bad in bad {
        assert_eq!(code(Anchor::parse(&bad)), Code::Usage, "{bad}");
    }
}

#[test]
fn an_anchor_tells_a_source_that_was_replaced_from_one_that_grew() {
    let then = targets(vec![turn("a", 2, Ok(4))], b"0123");
    let anchor = then.targets[0].anchor.clone().unwrap();
    let grown = targets(vec![turn("a", 2, Ok(4)), turn("b", 4, Ok(8))], b"01234567");
    anchor.check(&grown).unwrap();
    let replaced = targets(vec![turn("a", 2, Ok(4))], b"0124");
    assert_eq!(code(anchor.check(&replaced)), Code::StaleSource);
    let moved = targets(vec![turn("a", 3, Ok(4))], b"0123");
    assert_eq!(code(anchor.check(&moved)), Code::StaleSource);
    let gone = targets(vec![turn("b", 2, Ok(4))], b"0123");
    assert_eq!(code(anchor.check(&gone)), Code::StaleSource);
    // A child inherits the turn ids of its parent, and the same bytes may stand in both.
    let mut child = then.clone();
    child.session_id = "child".to_owned();
    assert_eq!(code(anchor.check(&child)), Code::StaleSource);
}

#[test]
fn a_turn_is_found_by_id_or_prefix_and_never_by_number() {
    let t =
        targets(vec![turn("turn-aa", 1, Ok(1)), turn("turn-ab", 2, Ok(2)), turn("tu", 3, Ok(3))], b"0123");
    let found = |name: &str| t.find(name).map(|t| t.number);
    assert_eq!(found("turn-aa").unwrap(), 1);
    assert_eq!(found("turn-ab").unwrap(), 2);
    assert_eq!(found("tu").unwrap(), 3);
    assert_eq!(code(found("turn")), Code::IdAmbiguous);
    for name in ["t", "1", "2", "turn-ac", ""] {
        assert_eq!(code(found(name)), Code::UnknownTurn, "{name}");
    }
}

#[test]
fn of_two_turns_with_one_id_the_available_one_is_meant() {
    let t = targets(vec![turn("same", 2, Err(Code::BoundaryShared)), turn("same", 2, Ok(2))], b"0123");
    assert_eq!(t.find("same").unwrap().number, 2);
    assert_eq!(t.find("same").unwrap().cut().unwrap().prefix, 2);
    assert_eq!(code(t.targets[0].cut()), Code::BoundaryShared);
}

#[test]
fn every_reason_refuses_with_its_own_code_and_message() {
    let reasons = [
        Code::TurnOpen,
        Code::TurnUnclosed,
        Code::ActiveAuthority,
        Code::BoundaryShared,
        Code::HistoryUnverifiable,
    ];
    let mut said = Vec::new();
    for reason in reasons {
        let t = targets(vec![turn("a", 2, Err(reason))], b"0123");
        let Error::Refusal(refusal) = t.targets[0].cut().unwrap_err() else { panic!("{reason:?}") };
        assert_eq!(refusal.code, reason);
        assert_eq!(refusal.code.exit_code(), 3);
        assert!(refusal.message.contains("`a`") && !said.contains(&refusal.message));
        said.push(refusal.message);
        let json = t.to_json();
        assert_eq!(json[0]["available"], false);
        assert_eq!(json[0]["reason"], reason.as_str());
        assert_eq!(json[0]["anchor"], Value::Null);
    }
}

#[test]
fn a_history_without_proof_has_no_targets_and_says_so() {
    let t = Targets::of(Turns::default(), "s", &b"".as_slice()).unwrap();
    assert_eq!((t.verifiable, t.to_json()), (false, json!([])));
    assert_eq!(code(t.find("turn-aa")), Code::HistoryUnverifiable);
}

#[test]
fn a_hidden_turn_is_known_and_refused_as_such() {
    let t = targets(vec![turn("hidden-2", 2, Ok(4))], b"01234567");
    assert_eq!(code(t.find("hidden-1")), Code::HistoryUnverifiable);
    assert_eq!(code(t.find("hidden-")), Code::IdAmbiguous);
    assert_eq!(code(t.find("hidden-3")), Code::UnknownTurn);
    assert_eq!(code(t.find("hid")), Code::UnknownTurn);
    assert_eq!(t.find("hidden-2").unwrap().number, 1);
    // A listed turn wins over a hidden one of the same id.
    let t = targets(vec![turn("hidden-1", 2, Ok(4))], b"01234567");
    assert!(t.find("hidden-1").is_ok());
}
