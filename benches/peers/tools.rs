//! The peers: what is there, what can be installed, and what is absent and why.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Result, measure::Program};

/// The peers that a machine may have.
pub struct Tools {
    scripts: PathBuf,
    python: Option<PathBuf>,
    packages: Option<PathBuf>,
    /// Name and version of what is there; name and reason of what is not.
    pub present: Vec<(String, String)>,
    pub absent: Vec<(String, String)>,
    pub b3sum: Option<PathBuf>,
}

/// A peer that counts the records of a file.
pub struct Peer {
    pub name: &'static str,
    program: PathBuf,
    before: Vec<String>,
    /// Whether it can count leaves too.
    pub leaves: bool,
    /// What it does, if that is more or less than count records.
    pub note: &'static str,
}

impl Tools {
    /// Looks for them, and installs what can be below `dir`.
    pub fn find(dir: &Path) -> Result<Tools> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/tools");
        let mut tools = Tools {
            scripts,
            python: None,
            packages: None,
            present: Vec::new(),
            absent: Vec::new(),
            b3sum: None,
        };
        fs::create_dir_all(dir)?;
        for name in ["wc", "node", "jq", "python3"] {
            tools.look(name);
        }
        tools.python = tools.has("python3").then(|| PathBuf::from("python3"));
        tools.packages(dir);
        tools.b3sum(dir);
        Ok(tools)
    }

    fn has(&self, name: &str) -> bool {
        self.present.iter().any(|(n, _)| n == name)
    }

    fn look(&mut self, name: &str) {
        match version(Path::new(name)) {
            Ok(version) => self.present.push((name.to_owned(), version)),
            Err(why) => self.absent.push((name.to_owned(), why)),
        }
    }

    /// DuckDB, the vendor's SDK and cctree, in an environment of their own.
    fn packages(&mut self, dir: &Path) {
        let required = self.scripts.join("requirements.txt");
        let python = dir.join("venv/bin/python3");
        let installed = if self.python.is_none() {
            Err("no python3".to_owned())
        } else {
            quiet(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv"))).and_then(|()| {
                quiet(Command::new(&python).args(["-m", "pip", "install", "-q", "-r"]).arg(&required))
            })
        };
        let list = fs::read_to_string(&required).unwrap_or_default();
        for (name, version) in list.lines().filter_map(|line| line.split_once("==")) {
            match &installed {
                Ok(()) => self.present.push((name.to_owned(), version.to_owned())),
                Err(why) => self.absent.push((name.to_owned(), why.clone())),
            }
        }
        self.packages = installed.is_ok().then_some(python);
    }

    /// The reference program of BLAKE3, of the version of the library that we use or near it.
    fn b3sum(&mut self, dir: &Path) {
        let own = dir.join("tools/bin/b3sum");
        if version(Path::new("b3sum")).is_ok() {
            self.b3sum = Some("b3sum".into());
        } else if own.exists()
            || quiet(
                Command::new("cargo")
                    .args(["install", "--quiet", "--locked", "b3sum@1.8.7", "--root"])
                    .arg(dir.join("tools")),
            )
            .is_ok()
        {
            self.b3sum = Some(own);
        }
        match self.b3sum.as_deref().map(version) {
            Some(Ok(version)) => self.present.push(("b3sum".to_owned(), version)),
            Some(Err(why)) => self.absent.push(("b3sum".to_owned(), why)),
            None => self.absent.push(("b3sum".to_owned(), "it could not be installed".to_owned())),
        }
    }

    /// Those that read any JSON lines.
    pub fn readers(&self) -> Vec<Peer> {
        let mut peers = Vec::new();
        let script = |name: &str| vec![self.scripts.join(name).display().to_string()];
        if let Some(python) = &self.python {
            let before = script("loop.py");
            let note = "`json.loads` of each line";
            peers.push(Peer { name: "python3", program: python.clone(), before, leaves: true, note });
        }
        if self.has("node") {
            let before = script("loop.mjs");
            let note = "`JSON.parse` of each line";
            peers.push(Peer { name: "node", program: "node".into(), before, leaves: true, note });
        }
        if self.has("jq") {
            let before = ["-n", "reduce inputs as $r (0; . + 1)"].map(str::to_owned).into();
            peers.push(Peer {
                name: "jq",
                program: "jq".into(),
                before,
                leaves: false,
                note: "counts inputs",
            });
        }
        if let Some(python) = &self.packages {
            let before = script("duck.py");
            let note = "reads two columns, on both cores";
            peers.push(Peer { name: "duckdb", program: python.clone(), before, leaves: true, note });
        }
        peers
    }

    /// Those that read sessions of Claude Code.
    pub fn session_readers(&self) -> Vec<Peer> {
        let Some(python) = &self.packages else { return Vec::new() };
        let script = |name: &str| vec![self.scripts.join(name).display().to_string()];
        vec![
            Peer {
                name: "cctree",
                program: python.clone(),
                before: script("tree.py"),
                leaves: false,
                note: "its events of one session",
            },
            Peer {
                name: "claude-agent-sdk",
                program: python.clone(),
                before: script("sdk.py"),
                leaves: false,
                note: "the messages of the branch that it takes",
            },
        ]
    }
}

impl Peer {
    /// Counts; `leaves` only where it can.
    pub fn count(&self, file: &str, leaves: bool) -> Program {
        let mut words = vec![self.program.display().to_string()];
        words.extend(self.before.clone());
        words.push(file.to_owned());
        words.extend(leaves.then(|| "--leaves".to_owned()));
        Program::new(words)
    }

    /// What it counts: records, and leaves if it was asked for them.
    pub fn counts(program: &Program) -> Result<(u64, Option<u64>)> {
        let text = program.text()?;
        let mut words = text.split_whitespace();
        let records = words.next().ok_or("no count")?.parse()?;
        Ok((records, words.next().and_then(|w| w.parse().ok())))
    }
}

fn version(program: &Path) -> std::result::Result<String, String> {
    let out = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let out = out.map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stdout);
    let number = text.lines().next().and_then(|line| line.split([' ', '-']).next_back()).unwrap_or_default();
    Ok(number.trim_start_matches('v').to_owned())
}

fn quiet(command: &mut Command) -> std::result::Result<(), String> {
    let out = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&out.stderr);
    let last = text.lines().last().unwrap_or_default();
    if out.status.success() { Ok(()) } else { Err(format!("it could not be installed: {last}")) }
}
