//! README.md shows what the program prints: its console blocks are run.
//!
//! A fence marked `console` holds commands (`$ ...`) and what they print, stdout and stderr together. The blocks of
//! a document run one after another, in one home: the demo's sessions lie where the clients keep them, and their
//! last message was two hours ago. The folder is Qwen Code's project, or the one of `console in=ledger-ui`; the program
//! `claude` is one that does nothing. A fence marked `console keys=DOWN,DOWN` holds one command that is run on a
//! terminal of 80 columns: the block shows the screen after those keys, then what stands there after Enter.
//! Times, temporary paths and ids that differ from run to run are not compared. `UPDATE_DOCS=1` writes the
//! present output into the documents.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    pty::{DOWN, ENTER, Pty, UP},
    support::{TestEnv, fixture},
};

fn document(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Where the documents' commands run: one home, a project in it, and the demo's session where the client keeps it.
struct World {
    env: TestEnv,
    /// Ids of the session's file, which are the same in every run.
    ids: BTreeSet<String>,
    /// (as it is here, as the documents say it)
    names: Vec<(String, String)>,
}

const PROJECT: &str = "/home/ada/parcel-api";
/// Where commands run, below the home, unless a fence says otherwise.
const HERE: &str = "parcel-api";

fn sanitised(path: &str) -> String {
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Moves all times of a transcript so that the last one lies two hours back.
fn two_hours_old(text: &str) -> String {
    let times = |text: &str| -> Vec<(usize, jiff::Timestamp)> {
        text.match_indices('"')
            .filter_map(|(i, _)| Some((i + 1, text.get(i + 1..i + 25)?.parse().ok()?)))
            .collect()
    };
    let found = times(text);
    let last = found.iter().map(|(_, t)| *t).max().unwrap();
    let by = jiff::Timestamp::now().duration_since(last) - jiff::SignedDuration::from_mins(121);
    let mut moved = text.to_owned();
    for (at, time) in found {
        moved.replace_range(at..at + 24, &format!("{:.3}", time + by));
    }
    moved
}

impl World {
    fn new() -> Self {
        let env = TestEnv::new();
        let session = fs::read_to_string(fixture("demo/session.jsonl")).unwrap();
        let claude = fs::read_to_string(fixture("demo/claude.jsonl")).unwrap();
        let words = session.split('"').chain(claude.split('"'));
        let ids: BTreeSet<String> = words.filter(|w| is_uuid(w)).map(str::to_owned).collect();
        let id_of =
            |session: &str| session.split('"').skip_while(|w| *w != "sessionId").nth(2).unwrap().to_owned();
        let id = id_of(&session);
        let project = env.path("home/parcel-api").display().to_string();
        let folder = sanitised(&project);
        fs::create_dir_all(&project).unwrap();
        let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let copied =
            Command::new("cp").args(["-r".as_ref(), policies.as_os_str(), project.as_ref()]).status();
        assert!(copied.unwrap().success());
        env.write(
            &format!("home/.qwen/projects/{folder}/chats/{id}.jsonl"),
            two_hours_old(&session).replace(PROJECT, &project),
        );
        let other = env.path("home/ledger-ui").display().to_string();
        fs::create_dir_all(&other).unwrap();
        env.write(
            &format!("home/.claude/projects/{}/{}.jsonl", sanitised(&other), id_of(&claude)),
            two_hours_old(&claude).replace("/home/ada/ledger-ui", &other),
        );
        fs::create_dir(env.path("bin")).unwrap();
        fs::copy("/bin/true", env.path("bin/claude")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_offshoot"), env.path("bin/offshoot")).unwrap();
        let home = env.path("home").display().to_string();
        let names = vec![
            (folder, sanitised(PROJECT)),
            (sanitised(&other), sanitised("/home/ada/ledger-ui")),
            (home, "/home/ada".to_owned()),
        ];
        World { env, ids, names }
    }

    fn command(&self, project: &str, line: &str) -> Command {
        let mut c = Command::new("/bin/sh");
        c.args(["-c", line])
            .env_clear()
            .env("HOME", self.env.path("home"))
            .env("PATH", format!("{}:/usr/bin:/bin", self.env.path("bin").display()))
            .env("TMPDIR", self.env.path("work"))
            .env("COLUMNS", "80")
            .current_dir(self.env.path("home").join(project));
        if project != HERE {
            // With a state directory of its own: what the documents audit is one session.
            c.env("OFFSHOOT_STATE_DIR", self.env.path("state"));
        }
        c
    }

    fn shown(&self, output: &str) -> String {
        self.names.iter().fold(output.to_owned(), |text, (here, said)| text.replace(here, said))
    }

    /// What a command prints, stdout and stderr in the order they came.
    fn run(&self, project: &str, line: &str) -> String {
        let both = self.env.path("output");
        let file = fs::File::create(&both).unwrap();
        let status = self
            .command(project, line)
            .stdin(std::process::Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        let mut text = self.shown(&fs::read_to_string(&both).unwrap());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        // `$ command; echo $?` shows a status; an unexpected crash is one too.
        assert!(status.code().is_some(), "{line}: {status}");
        text
    }

    /// What stands on a terminal after `keys`, and what stands there after Enter.
    fn press(&self, line: &str, keys: &str) -> String {
        let mut pty = Pty::spawn(&self.command(HERE, line), 80, 24);
        pty.wait_text("Which ");
        for (pressed, key) in keys.split(',').enumerate() {
            let before = crate::pty::marked(pty.screen());
            pty.send(match key {
                "DOWN" => DOWN,
                "UP" => UP,
                other => panic!("no key {other}"),
            });
            pty.wait_for(&format!("the marker moved by key {pressed}"), |s| {
                crate::pty::marked(s).is_some_and(|m| Some(m) != before) && s.contents().contains("\n  leaf ")
            });
        }
        let mut text = pty.screen().contents().trim_end().to_owned();
        pty.send(ENTER);
        let ended = pty.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.screen.contents());
        write!(text, "\n\n{}\n", ended.screen.contents().trim()).unwrap();
        self.shown(&text)
    }

    /// The text without what differs from run to run, and without the widths of columns.
    fn comparable(&self, text: &str) -> Vec<String> {
        text.lines()
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let varies = |i: usize| {
                    let before = |n: usize| i.checked_sub(n).map_or("", |at| words[at]);
                    let sized = words.get(i + 1).is_some_and(|next| next.starts_with("bytes"));
                    before(1) == "pid" || before(1) == "who" || before(3) == "who" || sized
                };
                let said = |i: usize| if varies(i) { "<>".to_owned() } else { self.word(words[i]) };
                (0..words.len()).map(said).collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    fn word(&self, word: &str) -> String {
        let mut out = String::new();
        let mut token = String::new();
        for c in word.chars().chain(['\0']) {
            if c.is_ascii_alphanumeric() || "-:.".contains(c) {
                token.push(c);
                continue;
            }
            out += &self.token(&token);
            token.clear();
            out.extend((c != '\0').then_some(c));
        }
        out
    }

    fn token(&self, token: &str) -> String {
        let core = token.trim_end_matches(['.', ':']);
        let core = core.strip_suffix(".jsonl").unwrap_or(core);
        let rest = &token[core.len()..];
        let hex = |t: &str| t.chars().all(|c| c.is_ascii_hexdigit());
        let age = core.trim_start_matches(|c: char| c.is_ascii_digit());
        let said = if let Some(at) = core.find("offshoot-demo-") {
            format!("{}offshoot-demo-<>", &core[..at])
        } else if let Some(digest) = core.strip_prefix("blake3:")
            && hex(digest)
        {
            "<digest>".to_owned()
        } else if is_uuid(core) && !self.ids.contains(core) {
            "<uuid>".to_owned()
        } else if core.len() == 64 && hex(core) {
            "<digest>".to_owned()
        } else if core.len() >= 8 && hex(core) && !self.ids.iter().any(|id| id.starts_with(core)) {
            "<id>".to_owned()
        } else if core.parse::<jiff::Timestamp>().is_ok()
            || core.parse::<jiff::civil::Date>().is_ok()
            || (core.contains(':') && core.parse::<jiff::civil::Time>().is_ok())
        {
            "<time>".to_owned()
        } else if age.len() < core.len() && ["ms", "s", "m", "h", "d", "w", "y"].contains(&age) {
            "<age>".to_owned()
        } else if !core.is_empty() && core.chars().all(|c| c == '-') {
            "-".to_owned()
        } else {
            core.to_owned()
        };
        said + rest
    }
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word
            .char_indices()
            .all(|(i, c)| if [8, 13, 18, 23].contains(&i) { c == '-' } else { c.is_ascii_hexdigit() })
}

/// Runs the console blocks of a document and returns it with their present output.
fn rerun(world: &World, text: &str, differences: &mut String) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(info) = line.strip_prefix("```console") else { continue };
        let keys = info.trim().strip_prefix("keys=");
        let project = info.trim().strip_prefix("in=").unwrap_or(HERE);
        while let Some(command) = lines.next_if(|l| l.starts_with("$ ")) {
            let mut typed = command[2..].to_owned();
            writeln!(out, "{command}").unwrap();
            while typed.ends_with('\\') {
                let more = lines.next().expect("a command goes on");
                writeln!(out, "{more}").unwrap();
                typed =
                    format!("{}{}", typed.trim_end_matches('\\'), more.trim_start_matches('>').trim_start());
            }
            let mut said = String::new();
            while let Some(line) = lines.next_if(|l| !l.starts_with("$ ") && !l.starts_with("```")) {
                writeln!(said, "{line}").unwrap();
            }
            let present = match keys {
                Some(keys) => world.press(&typed, keys),
                None => world.run(project, &typed),
            };
            if world.comparable(&said) == world.comparable(&present) {
                out += &said;
            } else {
                writeln!(differences, "$ {typed}\n--- the document says\n{said}--- it prints\n{present}")
                    .unwrap();
                out += &present;
            }
        }
    }
    out
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let (path, text) = document("README.md");
    let world = World::new();
    let mut differences = String::new();
    let present = rerun(&world, &text, &mut differences);
    assert!(text.matches("```console").count() >= 6, "the walkthroughs are gone");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, present).unwrap();
    } else {
        assert!(
            differences.is_empty(),
            "{differences}\nUPDATE_DOCS=1 writes the present output into README.md"
        );
    }
}
