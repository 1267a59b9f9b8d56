//! Forks that are killed at moments that nobody chose: none is half made, and each is one child in the end.
//!
//! `OFFSHOOT_FORK_KILLS` says how many (40); the seed is in every message, `OFFSHOOT_TEST_SEED` sets it.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use offshoot::{
    dialect::{self, Client, Simulated},
    record::Agent,
    topology::trim_neutral,
};

use crate::fork::Source;

/// A source is used for so many forks.
const FORKS: usize = 50;

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }
}

/// Every session beside the source that has a final name. Each must be whole: the client resumes all of the turn.
#[track_caller]
fn children(source: &Source, agent: Agent, at: &str) -> Vec<PathBuf> {
    let folder = source.path.parent().unwrap();
    let mut found: Vec<PathBuf> = source
        .sessions()
        .iter()
        .filter(|name| !name.starts_with('.') && name.ends_with(".jsonl"))
        .map(|name| folder.join(name))
        .filter(|path| *path != source.path)
        .collect();
    found.sort();
    for child in &found {
        let bytes = fs::read(child).unwrap();
        let d = dialect::of(agent);
        let t = d.read(&bytes).unwrap();
        assert!(t.diagnostics.is_empty() && t.ends_in_newline, "{at}: `{}` is half", child.display());
        let Simulated::Resumes(resumed) = d.simulate(&t, &bytes, &Client::default()).unwrap() else {
            panic!("{at}: the client refuses `{}`", child.display())
        };
        let mut history = resumed.history;
        trim_neutral(&t, &mut history);
        let ids: Vec<String> = history.iter().map(|id| t.ids.text(*id)).collect();
        let whole: &[&str] = match agent {
            Agent::Claude => &["u1", "a1", "d1", "u2", "a2"],
            _ => &["u1", "a1", "d1", "u2", "a2", "d2"],
        };
        assert_eq!(ids, whole, "{at}: `{}`", child.display());
    }
    found
}

fn temporaries(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("offshoot.tmp")).count()
}

#[test]
fn forks_killed_at_random_moments_are_never_half_made() {
    let rounds = env("OFFSHOOT_FORK_KILLS").unwrap_or(40) as usize;
    let seed = env("OFFSHOOT_TEST_SEED")
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos().into());
    let mut random = Random(seed);
    let began = Instant::now();
    let (mut killed, mut published, mut recovered) = (0, 0, 0);
    let mut done = 0;
    while done < rounds {
        let agent = if (done / FORKS).is_multiple_of(2) { Agent::Qwen } else { Agent::Claude };
        let source = Source::new(agent);
        let before = fs::read(&source.path).unwrap();
        let timed = Instant::now();
        source.fork(&["--turn", "u2", "--operation-id", "first"]);
        let span = timed.elapsed().as_micros() as u64;
        let mut operations = vec!["first".to_owned()];
        while done < rounds && operations.len() <= FORKS {
            let id = format!("kill-{done}");
            let at = format!("seed {seed}, fork {done}");
            let known = children(&source, agent, &at).len();
            let mut child = source
                .command("fork", &["--turn", "u2", "--operation-id", &id])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(random.below(span)));
            let _ = child.kill();
            killed += usize::from(child.wait().unwrap().signal() == Some(9));
            let now = children(&source, agent, &at).len();
            assert!(now == known || now == known + 1, "{at}: {known} children, then {now}");
            published += now - known;
            assert_eq!(fs::read(&source.path).unwrap(), before, "{at}: the source was touched");
            if random.below(2) == 0 {
                let settled = source.env.run(&["recover", "--json"]).code(0).json();
                recovered += settled["settled"].as_array().unwrap().len();
                assert_eq!(temporaries(source.path.parent().unwrap()), 0, "{at}");
            }
            let answer = source.fork(&["--turn", "u2", "--operation-id", &id]);
            let again = source.fork(&["--turn", "u2", "--operation-id", &id]);
            assert_eq!(again["sessionId"], answer["sessionId"], "{at}");
            assert_eq!(again["replayed"], true, "{at}");
            assert_eq!(children(&source, agent, &at).len(), known + 1, "{at}: one operation, one child");
            operations.push(id);
            done += 1;
        }
        assert_eq!(children(&source, agent, "the end").len(), operations.len());
        assert_eq!(temporaries(source.path.parent().unwrap()), 0, "seed {seed}");
        source.sound();
    }
    assert!(killed > 0, "seed {seed}: none of {rounds} was killed in time");
    let figures = format!(
        "seed {seed}: {rounds} forks in {} s, {killed} killed while they ran, {published} of these children were there \
         after the kill, {recovered} operations settled by recover; none half made\n",
        began.elapsed().as_secs()
    );
    if let Some(file) = std::env::var_os("OFFSHOOT_FORK_KILLS_REPORT") {
        fs::write(file, figures).unwrap();
    }
}
