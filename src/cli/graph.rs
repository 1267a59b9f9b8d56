//! `graph`: the tree of branches as DOT, Mermaid, one HTML page, or JSON.

use std::process::ExitCode;

use super::{
    args::{Global, GraphArgs, GraphFormat},
    output,
    tui::Doc,
};
use crate::{
    refusal::{Error, Result},
    store::redact::publish_bytes,
};

mod dot;
mod html;
mod mermaid;
pub(super) mod model;

use model::Graph;

/// Writes the graph to stdout, or to a file that must be new.
pub fn run(global: &Global, args: &GraphArgs) -> Result<ExitCode> {
    let doc = Doc::open(global, args.session.as_deref())?;
    let graph = Graph::new(&doc).map_err(Error::io("read", &doc.opened.path))?;
    let text = if global.json {
        let mut bytes = Vec::new();
        output::write_json(&mut bytes, &graph).map_err(output::stdout_fault)?;
        bytes.push(b'\n');
        bytes
    } else {
        match args.format {
            GraphFormat::Dot => dot::write(&graph),
            GraphFormat::Mermaid => diagram(global, &graph),
            GraphFormat::Html => html::write(&graph).map_err(output::stdout_fault)?,
        }
        .into_bytes()
    };
    match &args.output {
        Some(path) => {
            publish_bytes(path, &text)?;
            output::note(global, &format!("written to `{}`", path.display()));
        }
        None => output::bytes(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The Mermaid diagram, with a word if it is one that Mermaid would not draw.
fn diagram(global: &Global, graph: &Graph) -> String {
    let text = mermaid::write(graph);
    if let Some(excess) = mermaid::excess(graph, &text) {
        let hint = "raise `maxEdges` and `maxTextSize` where it is drawn, or use another format";
        output::warn(global, &format!("the diagram has {excess}: {hint}"));
    }
    text
}
