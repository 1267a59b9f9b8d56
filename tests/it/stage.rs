//! A Qwen Code session in its place, and processes of the built binary that are held at chosen points.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Ran, TestEnv};

pub const SESSION: &str = "11111111-2222-4333-8444-555555555555";
/// The leaf that the client would not take by itself.
pub const OTHER: &str = "other-reply";
/// The last record of the file: the client's own pick.
pub const PICK: &str = "pick-reply";
/// Where the two part.
pub const FORK: &str = "root-reply";

/// Reached by failures alone.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct Stage {
    pub env: TestEnv,
    pub project: PathBuf,
    pub transcript: PathBuf,
}

impl Stage {
    /// Two leaves under `~/.qwen/projects/<project>/chats`.
    pub fn new() -> Self {
        let env = TestEnv::new();
        fs::create_dir(env.path("work/project")).unwrap();
        let project = fs::canonicalize(env.path("work/project")).unwrap();
        let chats = fs::canonicalize(env.path("home"))
            .unwrap()
            .join(".qwen/projects")
            .join(folder_of(&project))
            .join("chats");
        fs::create_dir_all(&chats).unwrap();
        let stage = Stage { env, project, transcript: chats.join(format!("{SESSION}.jsonl")) };
        let records = [
            stage.record("root-prompt", None, "user", "hello"),
            stage.record(FORK, Some("root-prompt"), "assistant", "hi"),
            stage.record("other-prompt", Some(FORK), "user", "one way"),
            stage.record(OTHER, Some("other-prompt"), "assistant", "went one way"),
            stage.record("pick-prompt", Some(FORK), "user", "another way"),
            stage.record(PICK, Some("pick-prompt"), "assistant", "went another way"),
        ];
        fs::write(&stage.transcript, records.concat()).unwrap();
        stage
    }

    /// One line.
    pub fn record(&self, uuid: &str, parent: Option<&str>, kind: &str, text: &str) -> String {
        let role = if kind == "user" { "user" } else { "model" };
        let record = json!({
            "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "timestamp": "2026-01-02T03:04:05.000Z",
            "type": kind, "cwd": self.project.display().to_string(),
            "message": {"role": role, "parts": [{"text": text}]},
        });
        format!("{record}\n")
    }

    pub fn path(&self) -> &str {
        self.transcript.to_str().unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.transcript).unwrap()
    }

    /// The records of a transcript; each line must be one.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        records_of(&self.transcript)
    }

    /// As somebody who takes no lock.
    pub fn append(&self, bytes: impl AsRef<[u8]>) {
        let mut file = fs::File::options().append(true).open(&self.transcript).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// `offshoot resume <transcript> <args>`.
    pub fn resume(&self, args: &[&str]) -> Command {
        self.env.command(&[&["resume", self.path()], args].concat())
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.resume(args).output().unwrap())
    }

    pub fn lock(&self) -> PathBuf {
        lock_of(&self.transcript)
    }

    /// The client's own lock.
    pub fn agent_lock(&self) -> PathBuf {
        self.qwen("tmp/session-writer-locks").join(format!("{SESSION}.lock"))
    }

    pub fn qwen(&self, relative: &str) -> PathBuf {
        fs::canonicalize(self.env.path("home")).unwrap().join(".qwen").join(relative)
    }

    /// Sessions of the project.
    pub fn sessions(&self) -> Vec<String> {
        let mut names: Vec<String> = names(self.transcript.parent().unwrap())
            .into_iter()
            .filter_map(|n| n.strip_suffix(".jsonl").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// What the ledger of a session says, oldest first.
    pub fn ledger(&self) -> Vec<Value> {
        records_of(&self.env.path(&format!("state/ledger/qwen/{SESSION}.jsonl")))
    }

    pub fn states(&self) -> Vec<String> {
        self.ledger().iter().map(|e| e["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Where the client would go on.
    #[track_caller]
    pub fn tail(&self, path: &Path) -> Value {
        let seen = self.env.run(&["inspect", path.to_str().unwrap(), "--json"]).code(0).json();
        seen["clientPick"]["tailUuid"].clone()
    }

    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.env.write(name, format!("#!/bin/sh\n{text}\n"));
        let mut mode = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        fs::set_permissions(&path, mode).unwrap();
        path
    }
}

/// The client's name for a project's folder.
fn folder_of(project: &Path) -> String {
    let path = project.to_str().unwrap();
    path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[track_caller]
pub fn records_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(text.ends_with('\n'), "{} ends in an unfinished line", path.display());
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

pub fn lock_of(transcript: &Path) -> PathBuf {
    let name = transcript.file_name().unwrap().to_str().unwrap();
    transcript.with_file_name(format!(".{name}.offshoot-lock"))
}

pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// Looks until it is so.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that is killed if the test forgets it.
pub struct Process {
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it with pipes.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Process { child, stdin, stdout }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        // A process that has ended already says why by itself.
        let _ = stdin.write_all(bytes.as_ref()).and_then(|()| stdin.flush());
    }

    /// The next line of stdout; empty at its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a record body and waits for its acknowledgement.
    #[track_caller]
    pub fn acked(&mut self, body: &Value) -> Value {
        self.send(format!("{body}\n"));
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Closes stdin and waits for the end.
    pub fn end(mut self) -> Ran {
        self.stdin = None;
        let mut stdout = String::new();
        if let Some(out) = &mut self.stdout {
            out.read_to_string(&mut stdout).unwrap();
        }
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        Ran { code: status.code(), stdout, stderr }
    }

    /// Closes stdin and waits for its good end.
    #[track_caller]
    pub fn done(self) {
        drop(self.end().code(0));
    }

    /// As by `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that waits at a fault point.
pub struct Paused {
    pub process: Process,
    file: PathBuf,
}

impl Paused {
    /// Starts it and waits until it is there.
    #[track_caller]
    pub fn at(stage: &Stage, point: &str, mut command: Command) -> Self {
        let file = stage.env.path(&format!("pause-{point}"));
        command.env("OFFSHOOT_FAULT_POINT", format!("{point}=pause:{}", file.display()));
        let mut process = Process::spawn(command);
        until(point, || file.exists() || process.child.try_wait().unwrap().is_some());
        assert!(file.exists(), "it ended before {point}: {:?}", process.end());
        Paused { process, file }
    }

    /// Lets it go on.
    pub fn go(self) -> Process {
        fs::remove_file(&self.file).unwrap();
        self.process
    }
}

/// The last JSON document of a stderr that also holds notes.
#[track_caller]
pub fn json_of(stderr: &str) -> Value {
    let line = stderr.lines().rev().find(|l| l.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no JSON in {stderr}"));
    serde_json::from_str(line).unwrap()
}
