//! Graphviz.

use std::fmt::Write as _;

use super::model::{Graph, Node};

/// The graph in DOT. Texts are quoted, with all that has a meaning in a label as an entity.
pub fn write(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph offshoot {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#ffffff\", \
         color=\"#57606a\", fontname=\"sans-serif\", fontsize=11];\n  edge [color=\"#57606a\", \
         fontname=\"sans-serif\", fontsize=9];\n",
    );
    for (at, node) in graph.nodes.iter().enumerate() {
        let lines: Vec<String> = node.lines().iter().map(|line| escaped(line)).collect();
        let _ = writeln!(out, "  n{at} [label=\"{}\"{}];", lines.join("\\n"), style(node));
    }
    for edge in &graph.edges {
        let label = edge.label().map(|label| format!(" [label=\"{label}\"]")).unwrap_or_default();
        let _ = writeln!(out, "  n{} -> n{}{label};", edge.from, edge.to);
    }
    out + "}\n"
}

fn style(node: &Node) -> &'static str {
    match node {
        Node { client_pick: true, recorded: true, .. } => {
            ", fillcolor=\"#dafbe1\", color=\"#1a7f37\", penwidth=3, peripheries=2"
        }
        Node { client_pick: true, .. } => ", fillcolor=\"#fff8c5\", color=\"#9a6700\", penwidth=3",
        Node { recorded: true, .. } => ", fillcolor=\"#dafbe1\", color=\"#1a7f37\", peripheries=2",
        Node { rewind: true, .. } => {
            ", fillcolor=\"#fbefff\", color=\"#8250df\", style=\"rounded,filled,dashed\""
        }
        Node { branches: 1.., .. } => ", fillcolor=\"#ddf4ff\", color=\"#0969da\"",
        Node { leaf: true, .. } => ", fillcolor=\"#f6f8fa\"",
        _ => "",
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    out
}
