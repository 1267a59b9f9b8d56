//! Mermaid.

use std::fmt::Write as _;

use super::model::{Graph, Node};

/// What Mermaid draws at most unless its own configuration says otherwise, which a diagram cannot.
const EDGES: usize = 500;
const TEXT: usize = 50_000;

/// What a diagram has more of than Mermaid draws, in words.
pub fn excess(graph: &Graph, text: &str) -> Option<String> {
    // As JavaScript counts.
    let (edges, length) = (graph.edges.len(), text.encode_utf16().count());
    let found = match (edges > EDGES, length > TEXT) {
        (false, false) => return None,
        (true, false) => format!("{edges} edges"),
        (false, true) => format!("{length} characters"),
        (true, true) => format!("{edges} edges and {length} characters"),
    };
    Some(format!("{found}, where Mermaid draws {EDGES} edges and {TEXT} characters at most by default"))
}

/// The graph as a Mermaid flowchart. Of a text only letters, digits, spaces and a little punctuation stand as they are;
/// all else is an entity of Mermaid's (`#lt;`, `#35;`).
pub fn write(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    for (at, node) in graph.nodes.iter().enumerate() {
        let lines: Vec<String> = node.lines().iter().map(|line| escaped(line)).collect();
        let class = class(node).map(|class| format!(":::{class}")).unwrap_or_default();
        let _ = writeln!(out, "  n{at}[\"{}\"]{class}", lines.join("<br/>"));
    }
    for edge in &graph.edges {
        let label = edge.label().map(|label| format!("|\"{label}\"|")).unwrap_or_default();
        let _ = writeln!(out, "  n{} -->{label} n{}", edge.from, edge.to);
    }
    out + "  classDef pick fill:#fff8c5,stroke:#9a6700,stroke-width:3px,color:#1f2328\n  \
           classDef recorded fill:#dafbe1,stroke:#1a7f37,stroke-width:3px,color:#1f2328\n  \
           classDef rewind fill:#fbefff,stroke:#8250df,stroke-dasharray:4,color:#1f2328\n  \
           classDef point fill:#ddf4ff,stroke:#0969da,color:#1f2328\n"
}

fn class(node: &Node) -> Option<&'static str> {
    match node {
        Node { recorded: true, .. } => Some("recorded"),
        Node { client_pick: true, .. } => Some("pick"),
        Node { rewind: true, .. } => Some("rewind"),
        Node { branches: 1.., .. } => Some("point"),
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        match c {
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '"' => out.push_str("#quot;"),
            c if c.is_alphanumeric() || " .,:-/'?!".contains(c) || c > '\u{bf}' => out.push(c),
            c => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
        if means_something(&text[..at + c.len_utf8()], &text[at + c.len_utf8()..]) {
            out.push(JOINER);
        }
    }
    out
}

/// Nothing to see, and nothing to break a line at.
const JOINER: char = '\u{2060}';

/// Whether two parts of a text mean something together. Entities are no help there: Mermaid looks for formulas, line
/// ends and icons when they are letters again.
fn means_something(before: &str, behind: &str) -> bool {
    let formula = before.ends_with('$') && behind.starts_with('$');
    let line_end = before.ends_with('\\') && behind.starts_with(['n', 'N']);
    let icons = ["fa:", "fab:", "fak:", "fal:", "far:", "fas:"];
    let icon = behind.starts_with("fa-") && icons.iter().any(|prefix| before.ends_with(prefix));
    formula || line_end || icon
}
