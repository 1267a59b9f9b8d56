//! A hermetic place to run the built binary in.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A temporary home with nothing in it, and the binary to run there.
pub struct TestEnv {
    dir: tempfile::TempDir,
}

/// A finished run. Assert on its status or its output.
#[must_use = "assert the exit status or the output"]
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl TestEnv {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["home", "state", "work"] {
            std::fs::create_dir(dir.path().join(sub)).unwrap();
        }
        TestEnv { dir }
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// The binary with a cleared environment: HOME, state directory and working directory are this test's.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_offshoot"));
        c.args(args)
            .env_clear()
            .env("HOME", self.path("home"))
            .env("OFFSHOOT_STATE_DIR", self.path("state"))
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        c
    }

    /// Runs to the end. Whatever is run, its hints name no option that it lacks.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::from(self.command(args).output().unwrap());
        self.hints_fit(args, &ran);
        ran
    }

    /// An option that a hint names without its command is one of the command that was run.
    #[track_caller]
    fn hints_fit(&self, args: &[&str], ran: &Ran) {
        let refused: Option<serde_json::Value> = serde_json::from_str(&ran.stdout).ok();
        let hint = refused.as_ref().and_then(|refused| refused["refusal"]["hint"].as_str());
        let said = ran.stderr.lines().filter_map(|line| line.strip_prefix("hint: "));
        for hint in hint.into_iter().chain(said) {
            for option in hint.split("`--").skip(1) {
                let name = option.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
                let groups = ["audit", "policy"];
                let words = if groups.contains(&args[0]) { &args[..2] } else { &args[..1] };
                let help = self.command(&[words, &["--help"]].concat()).output().unwrap().stdout;
                let help = String::from_utf8_lossy(&help).into_owned();
                assert!(help.contains(&format!("--{name}")), "{words:?} has no `--{name}`: {hint}");
            }
        }
    }

    /// Writes a file below the test's folder and returns its path as text.
    pub fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

impl From<Output> for Ran {
    fn from(o: Output) -> Self {
        Ran {
            code: o.status.code(),
            stdout: String::from_utf8(o.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8_lossy(&o.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Asserts the exit status and gives the run back.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }
}

/// A file shipped with the project.
pub fn fixture(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(relative)
}
