//! What the navigator costs on a large session: how long until the first frame, and how long a key takes.
//!
//! ```text
//! cargo bench --bench tree                 200 MB, 100,000 records, 50 leaves
//! cargo bench --bench tree -- --small      a tenth of that
//! ```
//!
//! `read` to `outline` is what is done before the tree stands; a key is what it changes and the frame that shows it, on
//! a screen of 120 columns and 40 rows in memory. The last figures are of the program itself on a pseudo-terminal:
//! from its start to the first frame of any kind, and to the one with the tree.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{BufWriter, Write},
    path::Path,
    time::{Duration, Instant},
};

use clap::Parser;
use offshoot::{
    cli::{
        args::Cli,
        tui::{App, Doc, Options, SLICE, draw},
    },
    dialect::qwen::Qwen,
    store::snapshot::Snapshot,
    topology::Tree,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[path = "screen/mod.rs"]
mod screen;

use screen::{COLUMNS, NO_STATE, ROWS};

fn main() -> Result<()> {
    let small = std::env::args().any(|a| a == "--small");
    let records = if small { 10_000 } else { 100_000 };
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("0c0ffee0-0000-4000-8000-000000000001.jsonl");
    generate(&path, records, 50)?;
    println!("{} records, {} MB", records, fs::metadata(&path)?.len() / 1_000_000);

    let start = Instant::now();
    let snapshot = Snapshot::take(&path, &Qwen, false)?;
    println!("read                {}", ms(start.elapsed()));
    let start = Instant::now();
    std::hint::black_box(Tree::new(&snapshot.transcript));
    println!("leaves              {}", ms(start.elapsed()));
    drop(snapshot);

    let name = path.display().to_string();
    let cli = Cli::try_parse_from(["offshoot", "--state-dir", NO_STATE, "tree", &name])?;
    let start = Instant::now();
    let doc = Doc::open(&cli.global, Some(&name))?;
    println!("read to outline     {}", ms(start.elapsed()));
    let start = Instant::now();
    let mut app = App::new(doc, Options::default());
    let mut terminal = Terminal::new(TestBackend::new(COLUMNS, ROWS))?;
    terminal.draw(|frame| draw(frame, &mut app))?;
    println!("first frame         {}", ms(start.elapsed()));

    for (what, keys) in walks() {
        let (mut times, mut slices) = (Vec::new(), Vec::new());
        for key in keys {
            let start = Instant::now();
            app.key(key);
            terminal.draw(|frame| draw(frame, &mut app))?;
            times.push(start.elapsed());
            // What the loop does between keys: a slice of work and a frame, which a key may have to wait for.
            while app.is_busy() {
                let start = Instant::now();
                app.work(Instant::now() + SLICE);
                terminal.draw(|frame| draw(frame, &mut app))?;
                slices.push(start.elapsed());
            }
        }
        told(what, "keys", &mut times);
        told(what, "slices between them", &mut slices);
    }
    let (first, tree) = screen::first_frames(&["tree"], &path, "[A]")?;
    println!("program, first      {}", ms(first));
    println!("program, tree       {}", ms(tree));
    Ok(())
}

fn told(what: &str, of: &str, times: &mut [Duration]) {
    times.sort_unstable();
    if times.is_empty() {
        return;
    }
    let at = |share: f64| ms(times[((times.len() - 1) as f64 * share) as usize]);
    println!("{what:19} {} {of}: median {}, 99th {}, worst {}", times.len(), at(0.5), at(0.99), at(1.0));
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn typed(text: &str) -> Vec<KeyEvent> {
    text.chars().map(|c| key(KeyCode::Char(c))).collect()
}

/// Keys by what they do.
fn walks() -> Vec<(&'static str, Vec<KeyEvent>)> {
    let times = |text: &str, n: usize| typed(&text.repeat(n));
    let mut search = typed("/");
    search.extend(typed("snapshot policy"));
    search.push(key(KeyCode::Enter));
    search.extend(times("n", 100));
    let mut leaves = vec![key(KeyCode::Tab); 120];
    leaves.extend(times("[]", 50));
    vec![
        ("one row", times("k", 1000)),
        ("pages", vec![key(KeyCode::PageUp); 1000]),
        ("first and last", times("gG", 200)),
        ("leaves, branches", leaves),
        // Each hides all of the branch and shows it again, or opens a group and closes it.
        ("fold and open", [times("hhl", 60), times("kl", 200)].concat()),
        ("search", search),
    ]
}

/// A trunk from which branches leave at even distances, of 2 KB a record.
fn generate(path: &Path, records: usize, leaves: usize) -> Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    let words = "the parser retries when a branch has no parent and the lock is held by another process; ";
    let branch = 200;
    let trunk = records - (leaves - 1) * branch;
    let id = |n: usize| {
        uuid::Builder::from_custom_bytes((n as u128 * 0x9e37_79b9_7f4a_7c15).to_be_bytes()).into_uuid()
    };
    let mut line = String::new();
    let mut put = |n: usize, parent: Option<usize>| -> Result<()> {
        let text = words.repeat(19 + n % 5);
        let (kind, part) = match n % 6 {
            0 => ("user", format!(r#"{{"text":"Prompt {n}: {text}"}}"#)),
            1 | 3 => (
                "assistant",
                format!(
                    r#"{{"functionCall":{{"id":"c{n}","name":"read_file","args":{{"path":"src/{n}.rs","why":"{text}"}}}}}}"#
                ),
            ),
            2 | 4 => (
                "tool_result",
                format!(
                    r#"{{"functionResponse":{{"id":"c{}","name":"read_file","response":{{"output":"{text}"}}}}}}"#,
                    n - 1
                ),
            ),
            _ => ("assistant", format!(r#"{{"text":"Reply {n}: snapshot, policy, ledger. {text}"}}"#)),
        };
        let parent = parent.map_or("null".to_owned(), |p| format!(r#""{}""#, id(p)));
        line.clear();
        writeln!(
            line,
            r#"{{"uuid":"{}","parentUuid":{parent},"sessionId":"0c0ffee0-0000-4000-8000-000000000001","timestamp":"2026-01-01T{:02}:{:02}:{:02}.000Z","type":"{kind}","cwd":"/workspace","version":"0.24.4","gitBranch":"main","message":{{"role":"user","parts":[{part}]}}}}"#,
            id(n),
            n / 3600 % 24,
            n / 60 % 60,
            n % 60
        )?;
        Ok(out.write_all(line.as_bytes())?)
    };
    let mut next = trunk;
    for n in 0..trunk {
        put(n, n.checked_sub(1))?;
        let begun = |at: usize| at * (leaves - 1) / trunk;
        for _ in begun(n)..begun(n + 1) {
            for step in 0..branch {
                put(next, Some(if step == 0 { n } else { next - 1 }))?;
                next += 1;
            }
        }
    }
    Ok(out.flush()?)
}
