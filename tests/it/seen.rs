//! What was decided by looking at a snapshot is done on that snapshot, and on nothing else.

use std::{fs, path::Path, time::Duration};

use offshoot::{
    dialect::{self, Client},
    record::Agent,
    refusal::{Error, Result},
    resume::{self, ForkAt, ForkRequest, Request, Selector, Target, TruncateRequest},
    selection::SeedMode,
    store::snapshot::{Change, Seen, Snapshot},
};
use serde_json::json;

use crate::{reasonix_cli::Home, support::TestEnv, truncate_random::with_host};

fn record(uuid: &str, parent: Option<&str>, kind: &str, text: &str) -> String {
    let role = if kind == "user" { "user" } else { "model" };
    let record = json!({"uuid": uuid, "parentUuid": parent, "sessionId": "s", "type": kind, "cwd": "/w",
        "version": "0.24.4", "timestamp": "2026-01-01T10:00:00.000Z",
        "message": {"role": role, "parts": [{"text": text}]}});
    format!("{record}\n")
}

fn shown() -> String {
    record("u1", None, "user", "one")
        + &record("a1", Some("u1"), "assistant", "two")
        + &record("u2", Some("a1"), "user", "three")
        + &record("a2", Some("u2"), "assistant", "four")
}

fn snapshot(path: &Path) -> Snapshot {
    Snapshot::take(path, dialect::of(Agent::Qwen), true).unwrap()
}

fn target(path: &Path) -> Target {
    Target { agent: Agent::Qwen, path: path.to_owned() }
}

fn truncate(dir: &Path, path: &Path, after: &str, seen: Seen) -> Result<()> {
    let request = TruncateRequest {
        target: target(path),
        after: after.to_owned(),
        operation_id: None,
        wait: Duration::ZERO,
        dry_run: false,
        client: Client::default(),
        seen: Some(seen),
    };
    with_host(dir, |host| resume::truncate(&request, host, &mut |_| Ok(()))).map(drop)
}

fn anchor(dir: &Path, path: &Path, leaf: &str, seen: Seen) -> Result<()> {
    let request = Request {
        target: target(path),
        selector: Selector::Leaf(leaf.to_owned()),
        seed: Some(SeedMode::InPlace),
        write: false,
        hold: false,
        operation_id: None,
        wait: Duration::ZERO,
        dry_run: false,
        allow_gap: false,
        no_follow: true,
        client: Client::default(),
        seen: Some(seen),
    };
    with_host(dir, |host| resume::resume(&request, host)).map(drop)
}

fn fork_request(target: Target, at: ForkAt, seen: Seen) -> ForkRequest {
    ForkRequest {
        target,
        at,
        expect: None,
        operation_id: None,
        new: false,
        wait: Duration::ZERO,
        client: Client::default(),
        seen: Some(seen),
    }
}

/// The ids of the records that a child has.
fn fork(dir: &Path, path: &Path, at: &str, seen: Seen) -> Result<Vec<String>> {
    let request = fork_request(target(path), ForkAt::Record(at.to_owned()), seen);
    let forked = with_host(dir, |host| resume::fork(&request, host))?;
    let t = snapshot(Path::new(&forked.transcript)).transcript;
    // The child's title is a record of its own.
    Ok(t.ids.iter().map(|id| t.ids.text(id)).filter(|id| id.len() == 2).collect())
}

#[track_caller]
fn changed(done: Result<impl std::fmt::Debug>, what: &str) {
    match done {
        Err(Error::Refusal(refusal)) => {
            assert_eq!(refusal.code.as_str(), "snapshot-changed");
            assert!(refusal.message.contains(what), "{what}: {}", refusal.message);
        }
        done => panic!("{what}: {done:?}"),
    }
}

/// A file, what was seen of it, and what it became.
fn became(change: impl FnOnce(&Path)) -> (TestEnv, std::path::PathBuf, Seen) {
    let env = TestEnv::new();
    let path = Path::new(&env.write("t.jsonl", shown())).canonicalize().unwrap();
    let seen = snapshot(&path).seen().unwrap();
    change(&path);
    (env, path, seen)
}

type Became<'a> = (&'a str, Box<dyn Fn(&Path)>);

fn every_change() -> Vec<Became<'static>> {
    let with = |what: &'static str, text: String| -> Became<'static> {
        (what, Box::new(move |path: &Path| fs::write(path, &text).unwrap()))
    };
    vec![
        with("has grown", shown() + &record("a3", Some("a2"), "assistant", "unseen")),
        with("has grown", shown() + "{\"half"),
        with("was cut", shown().lines().take(3).map(|l| l.to_owned() + "\n").collect()),
        with("was cut", String::new()),
        with("was rewritten", shown().replace("four", "FOUR")),
        // Longer as well, so that length alone would tell of growth.
        with("was rewritten", shown().replace("one", "ONE") + &record("a3", Some("a2"), "assistant", "x")),
    ]
}

#[test]
fn what_writes_to_the_source_is_done_on_what_was_seen_alone() {
    for (what, change) in every_change() {
        for (act, record) in [(truncate as fn(&Path, &Path, &str, Seen) -> Result<()>, "a1"), (anchor, "a2")]
        {
            let (env, path, seen) = became(&change);
            let before = fs::read(&path).unwrap();
            changed(act(&env.path("."), &path, record, seen), what);
            assert_eq!(fs::read(&path).unwrap(), before, "{what}");
            assert_eq!(fs::read_dir(env.path("state/ledger")).map_or(0, Iterator::count), 0, "{what}");
        }
    }
    let (env, path, seen) = became(|_| ());
    truncate(&env.path("."), &path, "a1", seen.clone()).unwrap();
    // And on what was written by itself no second time.
    changed(truncate(&env.path("."), &path, "u1", seen), "was cut");
    let (env, path, seen) = became(|path| fs::write(path, shown()).unwrap());
    anchor(&env.path("."), &path, "a2", seen).unwrap();
}

#[test]
fn a_fork_is_made_of_what_was_seen_however_much_came_behind_it() {
    let all = ["u1", "a1", "u2", "a2"];
    for (what, change) in every_change() {
        let (env, path, seen) = became(&change);
        let forked = fork(&env.path("."), &path, "a1", seen);
        match what {
            "has grown" => assert_eq!(forked.unwrap(), all[..2], "{what}"),
            _ => changed(forked, what),
        }
    }
    // A record that nobody saw is none that can be forked at.
    let (env, path, seen) =
        became(|path| fs::write(path, shown() + &record("a3", Some("a2"), "assistant", "unseen")).unwrap());
    let unseen = fork(&env.path("."), &path, "a3", seen.clone()).unwrap_err();
    assert_eq!(unseen.code(), "leaf-unknown");
    assert_eq!(fork(&env.path("."), &path, "a2", seen).unwrap(), all);
}

/// A session of several files is known by its log.
#[test]
fn a_turn_is_forked_of_the_log_that_was_seen() {
    let fork = |home: &Home, seen: Seen| {
        let path = home.root.join("mini-parent").canonicalize().unwrap();
        let turns = home.env.run(&["targets", "--json", path.to_str().unwrap()]).code(0).json();
        let turns = turns["targets"].as_array().unwrap();
        let turn = turns.iter().find(|t| t["available"] == true).unwrap()["turnId"].as_str().unwrap();
        let at = ForkAt::Turn(turn.to_owned());
        let request = fork_request(Target { agent: Agent::Reasonix, path }, at, seen);
        with_host(&home.env.path("."), |host| resume::fork(&request, host))
    };
    let seen = |home: &Home| {
        let path = home.root.join("mini-parent").canonicalize().unwrap();
        Snapshot::take(&path, dialect::of(Agent::Reasonix), true).unwrap().seen().unwrap()
    };
    let home = Home::with(&["mini-parent", "mini-child"]);
    fork(&home, seen(&home)).unwrap();
    // Of a log that was longer when the turn was chosen than when it was looked at, nothing is forked.
    let home = Home::with(&["mini-parent"]);
    let log = home.root.join("mini-parent/events.frames");
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() / 3]).unwrap();
    let early = seen(&home);
    fs::write(&log, &whole).unwrap();
    changed(fork(&home, early), "has grown");
}

#[test]
fn what_has_become_of_a_file_is_told_without_reading_it() {
    let told = |change: &dyn Fn(&Path)| {
        let env = TestEnv::new();
        let path = env.write("t.jsonl", shown());
        let taken = snapshot(Path::new(&path));
        change(Path::new(&path));
        taken.change()
    };
    let append = |path: &Path| fs::write(path, shown() + "{}").unwrap();
    assert_eq!(told(&|_| ()), None);
    assert_eq!(told(&append), Some(Change::Grew(2)));
    assert_eq!(told(&|path| fs::write(path, "").unwrap()), Some(Change::Cut));
    assert_eq!(told(&|path| fs::remove_file(path).unwrap()), Some(Change::Gone));
    assert_eq!(
        told(&|path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        Some(Change::Replaced)
    );
    let touched = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    assert_eq!(told(&touched), Some(Change::Touched));
}
