//! `graph`: what is a node, what is folded, and that no text gets out of its quotes. The page itself is tested in a
//! browser: `tests/graph/`.

use serde_json::{Value, json};

use crate::support::TestEnv;

/// Meant for a shell, a terminal, HTML, DOT and Mermaid.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"];\n x [label=\\N \u{1b}[31m \u{202e} `end` #quot; {a} |b| &lt; \
                       %%{init: {}}%% click n0 call";

fn record(uuid: &str, parent: Option<&str>, kind: &str, text: &str) -> String {
    json!({
        "uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "cwd": "/w", "version": "0.24.4",
        "timestamp": "2026-01-01T10:00:00.000Z", "message": {"parts": [{"text": text}]},
    })
    .to_string()
        + "\n"
}

/// A trunk of 6 records, a branch of 4, one of 1 and a rewind with a reply below it.
fn session() -> String {
    let rewind = json!({"uuid": "w", "parentUuid": "t1", "sessionId": "s", "type": "system", "subtype": "rewind",
        "timestamp": "2026-01-01T10:00:00.000Z", "cwd": "/w", "version": "0.24.4", "systemPayload": {}});
    let kind = |n: usize| if n.is_multiple_of(2) { "user" } else { "assistant" };
    let mut all = record("t0", None, "user", "the root");
    for n in 1..6 {
        all += &record(&format!("t{n}"), Some(&format!("t{}", n - 1)), kind(n), "on");
    }
    all += &record("a0", Some("t5"), "user", HOSTILE);
    for n in 1..4 {
        all += &record(&format!("a{n}"), Some(&format!("a{}", n - 1)), kind(n), HOSTILE);
    }
    all += &record("b0", Some("t5"), "user", "other");
    all += &(rewind.to_string() + "\n");
    all + &record("c0", Some("w"), "user", "after the rewind")
}

#[test]
fn nodes_are_what_the_shape_depends_on() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let graph = env.run(&["graph", &path, "--json"]).code(0).json();
    let uuids: Vec<&Value> = graph["nodes"].as_array().unwrap().iter().map(|n| &n["uuid"]).collect();
    assert_eq!(uuids, ["t0", "t1", "t5", "a3", "b0", "w", "c0"]);
    let edges: Vec<_> = graph["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            (
                uuids[e["from"].as_u64().unwrap() as usize],
                uuids[e["to"].as_u64().unwrap() as usize],
                e["records"].as_u64(),
            )
        })
        .map(|(a, b, n)| (a.as_str().unwrap(), b.as_str().unwrap(), n.unwrap()))
        .collect();
    assert_eq!(
        edges,
        [("t0", "t1", 0), ("t1", "t5", 3), ("t5", "a3", 3), ("t5", "b0", 0), ("t1", "w", 0), ("w", "c0", 0)]
    );
    let with = |flag: &str| -> Vec<&str> {
        let nodes = graph["nodes"].as_array().unwrap().iter();
        nodes.filter(|n| n[flag] == true).map(|n| n["uuid"].as_str().unwrap()).collect()
    };
    assert_eq!(with("leaf"), ["a3", "b0", "c0"]);
    assert_eq!(with("root"), ["t0"]);
    assert_eq!(with("rewind"), ["w"]);
    assert_eq!(with("clientPick"), ["c0"]);
    assert_eq!(
        (&graph["schema"], &graph["branches"], &graph["records"]),
        (&json!("offshoot.graph/1"), &json!(3), &json!(13))
    );
}

#[test]
fn a_recorded_leaf_is_marked_in_every_form() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let _ = env.run(&["resume", &path, "--leaf", "b0", "--seed", "none"]).code(0);
    for format in ["dot", "mermaid"] {
        let text = env.run(&["graph", &path, "--format", format]).code(0).stdout;
        assert_eq!(text.matches("recorded, leaf").count(), 1, "{text}");
        assert_eq!(text.matches("client pick, leaf").count(), 1, "{text}");
        assert_eq!(text.matches("3 records").count(), 2, "{text}");
    }
}

/// What stands between the quotes of DOT or Mermaid, line by line; each line must be of one of the known shapes.
fn labels(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.contains('"'))
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn no_text_gets_out_of_its_quotes() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    for format in ["dot", "mermaid"] {
        let text = env.run(&["graph", &path, "--format", format]).code(0).stdout;
        let plain = env.run(&["graph", &path, "--format", format, "--redact"]).code(0).stdout;
        assert_eq!(text.lines().count(), plain.lines().count(), "no line comes from a text");
        for line in text.lines().filter(|line| line.contains("n3")) {
            assert_eq!(line.matches('"').count() % 2, 0, "{line}");
        }
        let label = labels(&text).into_iter().find(|label| label.contains("onerror")).unwrap();
        let markup = if format == "mermaid" { label.replace("<br/>", "") } else { label };
        assert!(!markup.contains(['<', '>', '\u{1b}', '\u{202e}']), "{markup}");
        assert!(
            markup.contains(if format == "dot" { "&lt;/script&gt;" } else { "#lt;/script#gt;" }),
            "{markup}"
        );
    }
    let page = env.run(&["graph", &path, "--format", "html"]).code(0).stdout;
    assert_eq!(page.matches("</script>").count(), 2, "the data's and the page's own");
    assert!(!page.contains("<img") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert!(
        data["nodes"][3]["text"].as_str().unwrap().starts_with("</script><img src=x onerror=alert(1)>\"];")
    );
}

#[test]
fn the_page_needs_nothing_else_and_lets_nothing_else_run() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let page = env.run(&["graph", &path, "--format", "html"]).code(0).stdout;
    for elsewhere in ["http:", "https:", "src=", "href=", "@import", "url(", "innerHTML", "eval("] {
        let own = page.replace("http://www.w3.org/2000/svg", "").replace("src=x", "");
        assert!(!own.contains(elsewhere), "{elsewhere}");
    }
    let policy =
        page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn a_file_is_never_overwritten() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", session());
    let out = env.path("g.dot").display().to_string();
    let _ = env.run(&["graph", &path, "-o", &out]).code(0);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), env.run(&["graph", &path]).code(0).stdout);
    let again = env.run(&["graph", &path, "-o", &out, "--json"]).code(3);
    assert_eq!(again.json()["refusal"]["code"], "unsafe-path");
}

#[test]
fn an_empty_session_is_an_empty_graph() {
    let env = TestEnv::new();
    let path = env.write("t.jsonl", "{\"type\":\"system\",\"uuid\":\"u\",\"parentUuid\":null,\"sessionId\":\"s\",\"subtype\":\"custom_title\"}\n");
    for format in ["dot", "mermaid", "html"] {
        let _ = env.run(&["graph", &path, "--format", format, "--agent", "qwen"]).code(0);
    }
}
