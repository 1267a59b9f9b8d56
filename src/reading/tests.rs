use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{compare::compare, markdown::text_of, *};

fn entry(uuid: &str, kind: RecordKind, parts: Vec<Part>, calls: &[&str], responses: &[&str]) -> Entry {
    let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
    Entry {
        uuid: RecordId::new(uuid),
        kind,
        synthetic: false,
        view: View { timestamp: Some(format!("at {uuid}")), parts, note: None },
        decoded: Decoded { calls: ids(calls), responses: ids(responses), ..Decoded::default() },
    }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn call(name: &str, input: &str) -> Part {
    Part::Call { name: name.to_owned(), input: input.to_owned() }
}

fn turns(entries: Vec<Entry>) -> Vec<Turn> {
    let mut made = Turns::default();
    let mut turns: Vec<Turn> = entries.into_iter().filter_map(|e| made.push(e)).collect();
    turns.extend(made.end());
    turns
}

fn result(name: &str, text: &str) -> Part {
    Part::Result { name: name.into(), text: text.into() }
}

fn two_calls() -> Vec<Entry> {
    vec![
        entry("u", RecordKind::User, vec![text("go"), Part::Image], &[], &[]),
        entry(
            "a",
            RecordKind::Assistant,
            vec![
                text("I go"),
                call("Read", r#"{"file_path":"/a"}"#),
                call("Many", r#"{"paths":["/b","/a"],"path":3}"#),
            ],
            &["1", "2"],
            &[],
        ),
        entry("r", RecordKind::ToolResult, vec![result("", "two"), result("", "one")], &[], &["2", "1"]),
        entry("v", RecordKind::User, vec![text("on")], &[], &[]),
        entry("s", RecordKind::ToolResult, vec![result("", "lost")], &[], &["9"]),
    ]
}

#[test]
fn results_go_to_their_calls_and_prompts_begin_turns() {
    let turns = turns(two_calls());
    assert_eq!(turns.iter().map(|t| t.records).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(turns[0].prompt, [Item::Text { text: "go".into() }, Item::Image]);
    let tools: Vec<_> =
        turns[0].tools().map(|t| (t.name.as_str(), t.result.as_deref(), t.files.clone())).collect();
    assert_eq!(
        tools,
        [("Read", Some("one"), vec!["/a".into()]), ("Many", Some("two"), vec!["/a".into(), "/b".into()])]
    );
    let lost: Vec<_> = turns[1].tools().map(|t| (t.name.as_str(), t.result.as_deref())).collect();
    assert_eq!(lost, [("", Some("lost"))]);
}

/// The format's own word goes before what an earlier turn called; neither makes a run of it.
#[test]
fn a_result_whose_call_is_elsewhere_has_a_name_and_is_no_run() {
    let late = |parts, answers: &[&str]| entry("late", RecordKind::ToolResult, parts, &[], answers);
    let mut entries = two_calls();
    entries.push(late(vec![result("Own", "a"), result("", "b"), result("", "c")], &["1", "2", "never"]));
    let turns = turns(entries);
    let told: Vec<_> = turns[1].tools().map(|t| (t.name.as_str(), t.called, t.unnamed())).collect();
    assert_eq!(
        told,
        [("", false, Some("9")), ("Own", false, None), ("Many", false, None), ("", false, Some("never"))]
    );
    let [side, _] = compare(turns, Vec::new());
    let count =
        |tools: &BTreeMap<String, u64>| tools.iter().map(|(n, c)| format!("{n} {c}")).collect::<Vec<_>>();
    assert_eq!(count(&side.tools), ["Many 1", "Read 1"]);
    assert_eq!(count(&side.results_without_call), [" 2", "Many 1", "Own 1"]);
}

#[test]
fn each_side_has_what_the_other_lacks() {
    let other = vec![
        entry("w", RecordKind::User, vec![text("go  "), text("elsewhere")], &[], &[]),
        entry("b", RecordKind::Assistant, vec![call("Edit", r#"{"notebook_path":"/a"}"#)], &["1"], &[]),
    ];
    let [one, other] = compare(turns(two_calls()), turns(other));
    assert_eq!((one.records, other.records), (5, 2));
    let files =
        |side: &compare::Side| side.files.iter().map(|f| (f.path.clone(), f.on_both)).collect::<Vec<_>>();
    assert_eq!(files(&one), [("/a".into(), true), ("/b".into(), false)]);
    assert_eq!(files(&other), [("/a".into(), true)]);
    assert_eq!((one.shared_texts, other.shared_texts), (vec![0], vec![0]), "`go` stands on both");
    assert_eq!(other.tools.into_iter().collect::<Vec<_>>(), [("Edit".to_owned(), 1)]);
}

#[test]
fn nothing_of_the_conversation_is_left_when_it_is_redacted() {
    let mut entries = two_calls();
    entries.push(Entry {
        view: View { timestamp: None, parts: vec![text("on")], note: Some("title: go on".into()) },
        ..entry("t", RecordKind::System, Vec::new(), &[], &[])
    });
    let mut turns = turns(entries);
    turns.iter_mut().for_each(Turn::redact);
    let json = serde_json::to_string(&turns).unwrap();
    for word in ["go", "on\"", "Read", "/a", "one", "two"] {
        assert!(!json.contains(word), "{word}: {json}");
    }
    assert!(json.contains("4 characters") && json.contains("\"name\":\"title\""), "{json}");
}

#[test]
fn texts_cannot_leave_their_place() {
    let cases = [
        ("plain\ntext", "plain\ntext"),
        ("# head\n  ###### six\n#hash ####### seven", "\\# head\n  \\###### six\n#hash ####### seven"),
        ("under\n===\nline\n---", "under\n\\===\nline\n\\---"),
        ("a <b> `Vec<u8>` ``x`<y`` <c>", "a &lt;b> `Vec<u8>` ``x`<y`` &lt;c>"),
        ("open `\n`<script>` x", "open `\n`&lt;script>` x"),
        ("open `\n\n`<ok>`", "open `\n\n`<ok>`"),
        ("\\`<script>`", "\\`&lt;script>`"),
        ("\\<script>", "\\&lt;script>"),
        ("| `a | <b>` |", "| `a | &lt;b>` |"),
        ("![p](http://x/)", "\\![p](http://x/)"),
        ("```rust\n<b>\n# x\n```\n<b>", "```rust\n<b>\n# x\n```\n&lt;b>"),
        ("````\n```\n<b>", "````\n```\n<b>\n````"),
        ("``` a`b\n<b>", "``` a`b\n&lt;b>"),
        ("- x\n  ```\n<script>\n  ```", "- x\n  ```\n  ```\n&lt;script>\n  ```\n  ```"),
        ("- x\n  ```\n  <b>\n     ```\n<b>", "- x\n  ```\n  <b>\n  ```\n&lt;b>"),
        ("a\u{1b}[31mb\u{202e}c\rd\u{2028}e", "a\u{fffd}[31mb\u{fffd}c\nd\ne"),
        ("~~~\n```\n<b>\n   ~~~~ \n<b>", "~~~\n```\n<b>\n~~~\n&lt;b>"),
        ("> # a\n- ## b\n1. > # c\n2) #d", "> \\# a\n- \\## b\n1. > \\# c\n2) #d"),
        ("> a\n> ===\n- > b\n  > --\n---", "> a\n> \\===\n- > b\n  > \\--\n\\---"),
        ("- ~~~\n  ```\n  ~~~\n  <b>", "- \\~\\~\\~\n  ```\n  ~~~\n  <b>\n  ```"),
        ("> ```\n> <b>\n> ```\n```\n<b>", "> \\`\\`\\`\n> &lt;b>\n> \\`\\`\\`\n```\n<b>\n```"),
        ("1. a\n\n    ```\n    x\n    ```\n\nb", "1. a\n\n    ```\n    x\n    ```\n\nb"),
        ("1. a\n\n    ```\n   ```\n   <b>", "1. a\n\n    ```\n   \\`\\`\\`\n   &lt;b>"),
        ("- a\n\n\t```\n   ```\n   <b>", "- a\n\n\t```\n   \\`\\`\\`\n   &lt;b>"),
        ("[a]: http://x\n> [b]: /y", "[a]\\: http://x\n> [b]\\: /y"),
        ("- [a `]:`\n\n`x[1]: y`", "- [a `]\\:`\n\n`x[1]: y`"),
        ("[a](HTTPS://x) [b](src/m.rs:3) [c](#d)", "[a](HTTPS://x) [b](src/m.rs:3) [c](#d)"),
        (
            "[a](javascript:b) [c](java&#115;cript:b) [d](\njavascript:b) [e](data:x)",
            "[a]\\(javascript:b) [c]\\(java&#115;cript:b) [d]\\(\njavascript:b) [e]\\(data:x)",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(text_of(text), expected, "{text:?}");
    }
}

#[test]
fn a_turn_reads_well() {
    let mut entries = two_calls();
    entries[2] = entry(
        "r",
        RecordKind::ToolResult,
        vec![result("", "```\n# not a heading\n1\n2\n3\n4\n5\n6\n")],
        &[],
        &["1"],
    );
    let turns = turns(entries);
    let expected = "## 1. User (at u)\n\ngo\n\n[image]\n\n### Assistant\n\nI go\n\n````text\nRead /a\n  ```\n  # not a heading\n  1\n  \
                    2\n  3\n  4\n  ... 2 more lines\nMany {\"paths\":[\"/b\",\"/a\"],\"path\":3}\n  (no result)\n````\n\n";
    assert_eq!(markdown::turn(&turns[0], 1), expected);
}

/// What a reader of Markdown (CommonMark with tables) makes of a text: markup that must not come from one.
fn markup(text: &str) -> Vec<String> {
    use pulldown_cmark::{Event, Options, Parser, Tag};
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let parser = Parser::new_ext(text, options);
    let defined = parser.reference_definitions().iter().map(|(name, _)| format!("definition of {name:?}"));
    let mut found: Vec<String> = defined.collect();
    found.extend(
        parser
            .filter(|event| match event {
                Event::Html(_) | Event::InlineHtml(_) => true,
                Event::Start(Tag::Link { dest_url, .. }) => dest_url.trim_start().starts_with("javascript:"),
                Event::Start(tag) => matches!(tag, Tag::HtmlBlock | Tag::Heading { .. } | Tag::Image { .. }),
                _ => false,
            })
            .map(|event| format!("{event:?}")),
    );
    found
}

fn harmless(text: &str) -> Result<(), TestCaseError> {
    let made = text_of(text);
    prop_assert!(!made.chars().any(|c| crate::record::is_hazard(c) && c != '\n' && c != '\t'), "{made:?}");
    let found = markup(&made);
    prop_assert!(found.is_empty(), "{text:?} became {made:?}: {found:?}");
    // Whatever follows stands by itself again: a heading of ours is one.
    let after = format!("{made}\n\n## ours\n");
    prop_assert!(markup(&after).last().is_some_and(|e| e.contains("H2")), "{after:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn no_text_opens_a_heading_html_or_a_picture(
        text in "([ `~<>#=|\\\\!\\[\n\t]|---|```|    |a|b>|\\]\\(x\\)|<b>|- |> |1\\. |\u{1b}|[|]a[|]\n[|]-[|]\n){0,30}",
    ) {
        harmless(&text)?;
    }

    #[test]
    fn no_line_of_blocks_does(
        lines in prop::collection::vec(
            "( {0,6}|\t)(|- |> |1\\. |- - |> - |10\\. )(|`{3,4}|~{3,4}|a|# a|===|--|<b>|`<b>`|\\[a\\]: /x|\\[a\\]\\(javascript:b\\)|\\[a `\\]:`)",
            0..9,
        ),
    ) {
        harmless(&lines.join("\n"))?;
    }

    #[test]
    fn results_stay_in_their_fence(text in "([`~\n# <]|```|</b>){0,40}") {
        let turn = Turn {
            items: vec![Item::Tool(Tool { name: text.clone(), result: Some(text.clone()), ..Tool::default() })],
            records: 1,
            ..Turn::default()
        };
        let found = markup(&markdown::turn(&turn, 1));
        prop_assert_eq!(found.len(), 1, "{:?}", found);
    }
}
