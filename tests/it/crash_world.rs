//! What the crash tests share: a session of Qwen Code in its place, ways to stop the built binary at a point, and
//! what must hold of whatever a stop leaves.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use offshoot::{
    audit,
    dialect::{Client, Dialect, Simulated, qwen::Qwen},
    record::Agent,
    store::ledger::{
        Ledger, Scope,
        entry::{Entry, State},
        verify,
    },
};
use serde_json::{Value, json};

use crate::support::TestEnv;

pub const SESSION: &str = "5e551011-1111-4222-8333-444455556666";
pub const OPERATION: &str = "op";

/// A session with two branches, `a2` and `a3`, of which the client resumes `a3`; with file backups on both.
pub struct World {
    pub env: TestEnv,
    pub transcript: PathBuf,
    /// The transcript as it was before the run that is stopped.
    pub before: Vec<u8>,
    kept: Option<tempfile::TempDir>,
}

fn record(uuid: &str, parent: Option<&str>, more: Value, cwd: &Path) -> String {
    let mut line = json!({"uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "timestamp": "2026-01-01T00:00:00.000Z", "cwd": cwd, "version": "0.24.4"});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

impl World {
    pub fn new() -> World {
        let env = TestEnv::new();
        // A folder that exists and has the same name in every world.
        let cwd = PathBuf::from("/");
        let user =
            |text: &str| json!({"type": "user", "message": {"role": "user", "parts": [{"text": text}]}});
        let model = |text: &str| json!({"type": "assistant", "message": {"role": "model", "parts": [{"text": text}]}});
        let history = json!({"type": "system", "subtype": "file_history_snapshot", "systemPayload": {"snapshots": [
            {"promptId": "p", "timestamp": "x", "trackedFileBackups":
                {"/a": {"backupFileName": "0123@v1"}, "/b": {"backupFileName": "4567@v1"}}}]}});
        let lines = [
            record("u1", None, user("begin"), &cwd),
            record("a1", Some("u1"), model("began"), &cwd),
            record("f1", Some("a1"), history, &cwd),
            record("u2", Some("f1"), user("one way"), &cwd),
            record("a2", Some("u2"), model("went one way"), &cwd),
            record("u3", Some("f1"), user("another way"), &cwd),
            record("a3", Some("u3"), model("went another way"), &cwd),
        ];
        let path = env.write(&format!("home/.qwen/projects/-/chats/{SESSION}.jsonl"), lines.concat());
        for name in ["0123@v1", "4567@v1"] {
            env.write(&format!("home/.qwen/file-history/{SESSION}/{name}"), name);
        }
        let transcript = fs::canonicalize(path).unwrap();
        let before = fs::read(&transcript).unwrap();
        World { env, transcript, before, kept: None }
    }

    pub fn chats(&self) -> &Path {
        self.transcript.parent().unwrap()
    }

    /// `resume` or `undo` of the session, with the operation id of the tests.
    pub fn call(&self, verb: &str, args: &[&str]) -> Command {
        let mut all = vec![verb, self.transcript.to_str().unwrap(), "--json", "--wait", "10s"];
        if !args.contains(&"--operation-id") {
            all.extend(["--operation-id", OPERATION]);
        }
        all.extend(args);
        let mut command = self.env.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::open(&self.env.path("state"), Agent::Qwen, SESSION)
    }

    /// The entries of an operation, as they stand.
    pub fn entries(&self, operation: &str) -> Vec<Entry> {
        let read = self.ledger().scan().unwrap();
        read.entries.into_iter().filter(|e| e.body.operation_id == operation).collect()
    }

    pub fn states(&self, operation: &str) -> Vec<State> {
        self.entries(operation).iter().map(|e| e.body.state).collect()
    }

    /// What any stop must leave: a source that only grew, by whole lines and at most one fragment; no half child;
    /// a ledger that is sound; a selection recorded once or not at all (I5 to I7).
    #[track_caller]
    pub fn assert_sound(&self, at: &str) {
        let now = fs::read(&self.transcript).unwrap();
        assert!(now.starts_with(&self.before), "{at}: the source lost bytes");
        let t = Qwen.read(&now).unwrap();
        let malformed = t.diagnostics.len();
        assert!(malformed <= 1, "{at}: {:?}", t.diagnostics);
        let fork = self.entries(OPERATION).iter().any(|e| {
            e.body.seed.as_ref().is_some_and(|s| s.mode == offshoot::selection::SeedMode::Fork && !s.write)
        });
        if fork {
            assert_eq!(now, self.before, "{at}: a fork touched its source");
        }
        for child in self.children() {
            let bytes = fs::read(&child).unwrap();
            let t = Qwen.read(&bytes).unwrap();
            assert!(t.diagnostics.is_empty() && t.ends_in_newline, "{at}: `{}` is half", child.display());
            let Simulated::Resumes(resumed) = Qwen.simulate(&t, &bytes, &Client::default()).unwrap() else {
                panic!("{at}: the client refuses `{}`", child.display())
            };
            let ids: Vec<String> = resumed.history.iter().map(|id| t.ids.text(*id)).collect();
            assert_eq!(ids[..5], ["u1", "a1", "f1", "u2", "a2"], "{at}");
        }
        let (found, _) = verify(&self.env.path("state"), &Scope::default(), None).unwrap();
        assert!(found.findings.is_empty(), "{at}: {:?}", found.findings);
        let states = self.states(OPERATION);
        let count = |state| states.iter().filter(|s| **s == state).count();
        assert!(count(State::Completed) <= 1, "{at}: {states:?}");
        assert!(count(State::Pending) <= 1 + count(State::Abandoned), "{at}: {states:?}");
    }

    /// Transcripts beside the source, by their final names.
    pub fn children(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.chats())
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "jsonl") && *p != self.transcript)
            .filter(|p| !p.file_name().unwrap().to_str().unwrap().starts_with('.'))
            .collect();
        found.sort();
        found
    }

    /// Nothing is pending, and nothing lies about that a run or `recover` should have removed.
    #[track_caller]
    pub fn assert_settled(&self, at: &str) {
        self.assert_sound(at);
        let pending = self.ledger().read().unwrap().pending().len();
        assert_eq!(pending, 0, "{at}: something is pending");
        assert_eq!(self.litter(), Vec::<String>::new(), "{at}");
        let bytes = fs::read(&self.transcript).unwrap();
        let theirs = bytes == self.before;
        assert!(theirs || bytes.ends_with(b"\n"), "{at}: an unfinished line was not ended");
        let (found, looked) = verify(&self.env.path("state"), &Scope::default(), None).unwrap();
        assert!(found.findings.is_empty() && found.notes.is_empty(), "{at}: {found:?}");
        let deep = audit::deep(&self.env.path("state"), &looked, &Scope::default()).unwrap();
        assert!(deep.findings.is_empty(), "{at}: {:?}", deep.findings);
    }

    /// Files that only a run in progress may have: a staged child, the agent's lock and what goes with it.
    pub fn litter(&self) -> Vec<String> {
        let ours = |f: &String| f.contains("offshoot.tmp") || f.contains("writer-locks");
        self.files().into_iter().filter(ours).collect()
    }

    /// All files below the home, relative to it.
    fn files(&self) -> Vec<String> {
        let home = fs::canonicalize(self.env.path("home")).unwrap();
        let mut found = Vec::new();
        let mut dirs = vec![home.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    found.push(path.strip_prefix(&home).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    /// What the agent's folders hold: of transcripts which record hangs on which, of other files their content. A
    /// fragment that was ended is no record.
    pub fn picture(&self) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        for name in self.files() {
            if name.ends_with(".offshoot-lock") {
                continue;
            }
            let bytes = fs::read(self.env.path("home").join(&name)).unwrap();
            let content = if name.ends_with(".jsonl") {
                let t = Qwen.read(&bytes).unwrap();
                let parent = |r: &offshoot::transcript::Record| r.parent.map(|p| t.ids.text(p));
                let records = t.records.iter().map(|r| format!("{}<{:?}", t.ids.text(r.id), parent(r)));
                records.collect::<Vec<_>>().join(" ")
            } else {
                String::from_utf8(bytes).unwrap()
            };
            picture.insert(name, content);
        }
        picture
    }

    /// Where the client would go on in the source or the one child.
    pub fn client_history(&self, transcript: &Path) -> Vec<String> {
        let bytes = fs::read(transcript).unwrap();
        let t = Qwen.read(&bytes).unwrap();
        match Qwen.simulate(&t, &bytes, &Client::default()).unwrap() {
            Simulated::Resumes(resumed) => resumed.history.iter().map(|id| t.ids.text(*id)).collect(),
            Simulated::Refuses(why) => panic!("the client refuses: {why}"),
        }
    }

    /// Keeps everything as it stands, to be brought back as often as wanted, under the same paths.
    pub fn keep(&mut self) {
        let kept = tempfile::tempdir().unwrap();
        copy(&self.env.path(""), kept.path());
        self.kept = Some(kept);
    }

    pub fn bring_back(&self) {
        for sub in ["home", "state", "work"] {
            fs::remove_dir_all(self.env.path(sub)).unwrap();
        }
        copy(self.kept.as_ref().expect("`keep` came first").path(), &self.env.path(""));
    }
}

/// With modes, links and pipes as they are.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

/// Runs a command with a plan, with `stdin` as its input.
pub fn run(mut command: Command, plan: Option<&str>, stdin: &str) -> Output {
    if let Some(plan) = plan {
        command.env("OFFSHOOT_FAULT_POINT", plan);
    }
    let mut child = command.spawn().unwrap();
    // A process that was stopped does not read to the end.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// Gives the visits of points their names in a plan.
#[derive(Default)]
pub struct Visits(BTreeMap<String, u32>);

impl Visits {
    pub fn name(&mut self, point: &str) -> String {
        let n = self.0.entry(point.to_owned()).or_default();
        *n += 1;
        if *n == 1 { point.to_owned() } else { format!("{point}#{n}") }
    }
}

/// The points that a run reaches, in order, `name#n` from the second visit on.
pub fn trace(world: &World, command: Command, stdin: &str) -> (Vec<String>, Output) {
    let file = world.env.path("trace");
    let output = run(command, Some(&format!("*=trace:{}", file.display())), stdin);
    let mut visits = Visits::default();
    let text = fs::read_to_string(&file).unwrap_or_default();
    let points = text.lines().map(|name| visits.name(name)).collect();
    let _ = fs::remove_file(&file);
    (points, output)
}

/// The result that a run reported, on whichever stream it belongs, without the paths of this place.
#[track_caller]
pub fn result(world: &World, output: &Output) -> Value {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let found = [&out, &err]
        .into_iter()
        .flat_map(|text| {
            text.match_indices('{')
                .filter_map(|(at, _)| {
                    serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok()
                })
                .filter(|v| v["schema"] == "offshoot.resume/1" || v["schema"] == "offshoot.fork/1")
                .collect::<Vec<_>>()
        })
        .next();
    let found = found.unwrap_or_else(|| panic!("no result: {out}\n{err}"));
    let root = fs::canonicalize(world.env.path("")).unwrap();
    serde_json::from_str(&found.to_string().replace(root.to_str().unwrap(), "")).unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
