//! Mermaid.

use std::fmt::Write as _;

use super::model::{Graph, Node};

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
    for c in text.chars() {
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
    }
    out
}
