//! The goals of speed and size, and what other programs take for the same files.
//!
//! ```text
//! cargo bench --bench peers                 all of it: writes the tables of docs/performance.md and its picture
//! cargo bench --bench peers -- --small      a twentieth of the size, for what is counted and not for the times
//! ```
//!
//! It makes its inputs, installs the peers that can be installed below `target/tmp/peers` (what cannot is listed as absent),
//! and holds all to the same counts. Then whole processes run in turns (ours, `wc -l`, a peer, ours, ...) with the files
//! in the page cache and the output thrown away. The least of nine runs counts, of three for peers that take seconds;
//! the median stands beside it. Memory is the peak of the resident set that the system tells of a process when it ends.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its figures")]

use std::{env, error::Error, fs, path::Path, process::ExitCode};

mod curves;
mod inputs;
mod measure;
mod page;
mod peers;
mod rows;
#[path = "../screen/mod.rs"]
mod screen;
#[path = "../shapes/mod.rs"]
mod shapes;
mod shares;
mod tools;

use inputs::Inputs;
use tools::Tools;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What sizes are divided by with `--small`.
const SMALL: usize = 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [flag, file] = &args[..]
        && flag == inputs::COUNT
    {
        println!("{}", inputs::count(file)?);
        return Ok(());
    }
    let small = args.iter().any(|a| a == "--small");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers");
    let step = |what: &str| eprintln!("{what} ...");
    step("tools");
    let tools = Tools::find(&dir)?;
    let inputs = Inputs::new(&dir.join("inputs"), if small { SMALL } else { 1 })?;
    let mut page = page::Page::begin(&tools);
    step("peers");
    let (lines, mut rows) = peers::table(&inputs, &tools)?;
    rows.iter().for_each(page::tell);
    // A run that is stopped half-way has told what it had.
    let mut add = |what: &str, measure: &dyn Fn() -> Result<Vec<rows::Row>>| -> Result<()> {
        step(what);
        let more = measure()?;
        more.iter().for_each(page::tell);
        rows.extend(more);
        Ok(())
    };
    add("sizes", &|| rows::sizes(&inputs))?;
    add("shapes", &|| rows::shapes(&inputs))?;
    add("one line", &|| rows::one_line(&inputs))?;
    add("fork", &|| rows::fork(&inputs, &tools))?;
    add("screens", &|| rows::screens(&inputs))?;
    add("sessions", &|| rows::sessions(&inputs))?;
    step("shares");
    let shares = shares::count(&inputs)?;
    step("curves");
    let curves = curves::measure(&inputs)?;
    fs::remove_dir_all(inputs.dir())?;
    page.end();
    let text = page.text(&rows, &lines, &shares)?;
    println!("{text}");
    let svg = curves::svg(&curves, &page.told())?;
    if small {
        println!("small: all counts agree; the times are of no use, and nothing was written");
        return Ok(());
    }
    page::replace(&root.join("docs/performance.md"), &text)?;
    fs::write(root.join("docs/performance.svg"), svg)?;
    Ok(())
}
