//! Where the snapshot ends, and chunks.

use super::*;

#[derive(Debug, PartialEq)]
struct End {
    bytes: u64,
    torn: u64,
    newline: bool,
    lines: u64,
    records: usize,
}

fn end(t: &Transcript) -> End {
    End {
        bytes: t.bytes,
        torn: t.torn_bytes,
        newline: t.ends_in_newline,
        lines: t.lines,
        records: t.records.len(),
    }
}

#[test]
fn an_empty_file_ends_at_its_start() {
    assert_eq!(end(&t("")), End { bytes: 0, torn: 0, newline: true, lines: 0, records: 0 });
}

#[test]
fn a_last_line_without_newline_is_whole_if_it_is_one_record() {
    let text = format!("{}\n{}", record("a", None), record("b", None));
    let n = text.len() as u64;
    assert_eq!(end(&t(&text)), End { bytes: n, torn: 0, newline: false, lines: 2, records: 2 });
    assert!(t(&text).diagnostics.is_empty());
    // White space behind it, and the CR of a line end whose LF is still to come, belong to it.
    let spaced = format!("{text} \r");
    assert_eq!(end(&t(&spaced)), End { bytes: n + 2, torn: 0, newline: false, lines: 2, records: 2 });
}

#[test]
fn a_torn_last_line_is_not_part_of_the_snapshot() {
    let a = record("a", None) + "\n";
    for torn in [r#"{"uuid":"b","parentU"#, "[1,2]", "12", "x", "\u{1b}"] {
        let t = t(format!("{a}{torn}"));
        let n = a.len() as u64;
        assert_eq!(end(&t), End { bytes: n, torn: torn.len() as u64, newline: true, lines: 1, records: 1 });
        assert_eq!(kinds(&t), [("torn-tail", 2)], "{torn}");
    }
}

#[test]
fn records_of_an_unfinished_line_count_and_the_snapshot_ends_behind_them() {
    let (a, b) = (record("a", None), record("b", None));
    let t = t(format!("{a}\nx{b}{a}{{\"uu"));
    let kept = (2 * a.len() + 2 + b.len()) as u64;
    assert_eq!(end(&t), End { bytes: kept, torn: 4, newline: false, lines: 2, records: 3 });
    assert_eq!(kinds(&t), [("glued-records", 2), ("malformed-line", 2), ("torn-tail", 2)]);
}

#[test]
fn an_object_that_the_client_skips_is_not_torn() {
    let t = t(r#"{"a":1}"#);
    assert_eq!(end(&t), End { bytes: 7, torn: 0, newline: false, lines: 1, records: 0 });
    assert_eq!(kinds(&t), [("skipped-record", 1)]);
}

#[test]
fn a_character_cut_off_by_the_end_of_the_file_is_torn_alone() {
    let a = record("a", None);
    for cut in [&b"\xe2"[..], b"\xe2\x80", b"\xf0\x9f\x98"] {
        let t = t([a.as_bytes(), cut].concat());
        assert_eq!((t.records.len(), t.torn_bytes), (1, cut.len() as u64));
        assert_eq!(kinds(&t), [("torn-tail", 1)]);
    }
    // Not a character that has begun well.
    assert_eq!(kinds(&t([a.as_bytes(), b"\xff"].concat())), [("torn-tail", 1)]);
}

#[test]
fn what_was_salvaged_stays_when_the_line_is_finished_later() {
    let (a, b) = (record("a", None), record("b", None));
    let before = t(format!("{a}{}", &b[..20]));
    let after = t(format!("{a}{b}\n"));
    assert_eq!(before.bytes, a.len() as u64);
    assert_eq!(before.records[0].span, after.records[0].span);
}

#[test]
fn lines_longer_than_the_limit_are_told_and_stepped_over() {
    let (a, b) = (record("a", None), record("b", None));
    for (tail, expect) in [("\n", ("malformed-line", 2)), ("", ("torn-tail", 2))] {
        let long = "x".repeat(1000);
        let after = if tail.is_empty() { String::new() } else { format!("{b}\n") };
        let text = format!("{a}\n{long}{tail}{after}").into_bytes();
        for chunk in [1, 7, 300, 5000] {
            let t = read_with(&text, Limits { chunk, line: 200, workers: 3 }).unwrap();
            let records: Vec<String> =
                if tail.is_empty() { vec![a.clone()] } else { vec![a.clone(), b.clone()] };
            let read: Vec<_> =
                t.records.iter().map(|r| String::from_utf8(text.bytes(r.span).unwrap()).unwrap()).collect();
            assert_eq!((read, kinds(&t)), (records, vec![expect]), "chunk {chunk}");
            assert_eq!(t.bytes + t.torn_bytes, text.len() as u64);
        }
    }
}

#[test]
fn a_line_of_many_megabytes_is_one_record() {
    let big = record("a", None).replace("/w", &"\u{e9}\\n".repeat(3 << 20));
    let t = t(format!("{big}\n{}\n", record("b", None)));
    assert_eq!((uuids(&t), t.records[0].span.len as usize), (vec!["a".into(), "b".into()], big.len()));
}

#[test]
fn a_source_that_shrinks_while_it_is_read_is_an_error() {
    struct Shrunk;
    impl Source for Shrunk {
        fn len(&self) -> u64 {
            10
        }
        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            b"12345".as_slice().read_exact_at(offset, buf)
        }
    }
    assert_eq!(read::read(&Shrunk).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}
