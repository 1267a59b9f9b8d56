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
mod model;

use model::Graph;

/// What Mermaid draws at most unless it is configured otherwise: edges, and characters.
const MERMAID_EDGES: usize = 500;
const MERMAID_TEXT: usize = 50_000;

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
            GraphFormat::Mermaid => mermaid::write(&graph),
            GraphFormat::Html => html::write(&graph).map_err(output::stdout_fault)?,
        }
        .into_bytes()
    };
    let mermaid = !global.json && args.format == GraphFormat::Mermaid;
    if mermaid && (graph.edges.len() > MERMAID_EDGES || text.len() > MERMAID_TEXT) {
        output::warn(
            global,
            "the graph is larger than Mermaid draws by default: raise `maxEdges` and `maxTextSize`, or use another format",
        );
    }
    match &args.output {
        Some(path) => {
            publish_bytes(path, &text)?;
            output::note(global, &format!("written to `{}`", path.display()));
        }
        None => output::bytes(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}
