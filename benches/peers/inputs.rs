//! Transcripts to measure with, and what is in them.

use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    Result,
    measure::Program,
    shapes::{Form, LINE, Lines, Tree, tree},
};

pub const SESSION: &str = "0c0ffee0-0000-4000-8000-000000000001";

/// Where inputs are made, and how large they are.
pub struct Inputs {
    dir: PathBuf,
    /// 1, or what all sizes are divided by.
    scale: usize,
}

/// A transcript.
pub struct Input {
    pub path: PathBuf,
    pub bytes: u64,
}

/// What ours counts in a transcript.
pub struct Counted {
    pub records: u64,
    pub leaves: u64,
    /// Of the client's own pick.
    pub history: u64,
    pub longest_leaf: String,
    /// Bytes of the answer.
    pub answer: u64,
}

impl Inputs {
    pub fn new(dir: &Path, scale: usize) -> Result<Inputs> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
        Ok(Inputs { dir: dir.to_owned(), scale })
    }

    /// A number of records, leaves or bytes, in the size of this run.
    pub fn scaled(&self, n: usize) -> usize {
        (n / self.scale).max(100)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes a transcript; a name with folders is one in a home of its own.
    pub fn file(
        &self,
        name: &str,
        form: Form,
        line: usize,
        write: impl FnOnce(&mut Lines<'_>) -> std::io::Result<()>,
    ) -> Result<Input> {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        let session = path.file_stem().and_then(|s| s.to_str()).filter(|s| s.len() == 36).unwrap_or(SESSION);
        let mut out = BufWriter::with_capacity(1 << 20, fs::File::create(&path)?);
        write(&mut Lines::new(&mut out, form, line, session))?;
        out.flush()?;
        Ok(Input { bytes: fs::metadata(&path)?.len(), path })
    }

    /// An ordinary session of so many bytes: 50 leaves, five of them by a rewind.
    pub fn session(&self, name: &str, form: Form, bytes: usize) -> Result<Input> {
        let records = self.scaled(bytes) / LINE;
        self.file(name, form, LINE, |lines| {
            tree(lines, &Tree { records, leaves: 50.min(records / 20).max(2), rewinds: 5 })
        })
    }

    /// Whatever is still on its way to the disk would be written while something is measured.
    pub fn settle(&self) -> Result<()> {
        Program::new(["sync"]).output().map(|_| ())
    }
}

impl Input {
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub fn mb(&self) -> f64 {
        self.bytes as f64 / 1e6
    }

    /// `inspect --json` of it.
    pub fn inspect(&self) -> Program {
        ours(["inspect", "--json", &self.name()])
    }

    /// What ours counts. A process that is started looks, to the system, as large as the one that starts it was, so
    /// this one stays small and leaves the answer, which may be long, to another.
    pub fn counted(&self) -> Result<Counted> {
        let text = Program::new([std::env::current_exe()?.as_os_str(), COUNT.as_ref(), self.path.as_ref()])
            .text()?;
        let mut words = text.split_whitespace();
        let mut number = || -> Result<u64> { Ok(words.next().ok_or("a count is missing")?.parse()?) };
        let (records, leaves, history, answer) = (number()?, number()?, number()?, number()?);
        let longest_leaf = words.next().unwrap_or_default().to_owned();
        Ok(Counted { records, leaves, history, longest_leaf, answer })
    }
}

/// The argument that makes of this program the other one.
pub const COUNT: &str = "--count";

/// Counts what `inspect` says of a file, as words.
pub fn count(file: &str) -> Result<String> {
    let answer = ours(["inspect", "--json", file]).output()?;
    let value: Value = serde_json::from_slice(&answer)?;
    let branches = value["branches"].as_array().ok_or("no branches")?;
    let sum = |b: &Value| -> u64 {
        b["recordCounts"].as_object().into_iter().flat_map(|c| c.values()).filter_map(Value::as_u64).sum()
    };
    let longest = branches.iter().max_by_key(|b| sum(b));
    let longest = longest.and_then(|b| b["leafUuid"].as_str()).unwrap_or_default();
    let records = value["snapshot"]["records"].as_u64().ok_or("no records")?;
    let history = value["clientPick"]["records"].as_u64().unwrap_or(0);
    Ok(format!("{records} {} {history} {} {longest}", branches.len(), answer.len()))
}

/// The program, without a state directory.
pub fn ours<'a>(args: impl IntoIterator<Item = &'a str>) -> Program {
    let fixed = [env!("CARGO_BIN_EXE_offshoot"), "--state-dir", crate::screen::NO_STATE];
    Program::new(fixed.into_iter().chain(args))
}
