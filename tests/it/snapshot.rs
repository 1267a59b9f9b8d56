//! Snapshots: what is read, and whether a change afterwards is noticed.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use offshoot::{
    dialect,
    record::Agent,
    refusal::Result,
    store::snapshot::{Growth, Snapshot},
    transcript::Source,
};

use crate::{
    child::{self, Child, tell},
    support::TestEnv,
};

const LINE: &str = r#"{"uuid":"u1","parentUuid":null,"sessionId":"s","type":"user","timestamp":"2026-01-01T00:00:00Z","cwd":"/p","message":{"role":"user","parts":[{"text":"hi"}]}}"#;

fn take(path: &Path) -> Result<Snapshot> {
    Snapshot::take(path, dialect::of(Agent::Qwen), true)
}

fn transcript(env: &TestEnv, bytes: &str) -> PathBuf {
    PathBuf::from(env.write("work/s.jsonl", bytes))
}

fn append(path: &Path, bytes: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes.as_bytes()).unwrap();
}

/// Moves the file's time into the past, so that times alone prove that nobody wrote.
fn settle(path: &Path) -> SystemTime {
    let then = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    then
}

fn what(result: Result<bool>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.code(), "snapshot-changed", "{error}");
    error.to_json()["refusal"]["detail"]["what"].as_str().unwrap().to_owned()
}

#[test]
fn the_digest_is_of_the_bytes_that_were_read() {
    let env = TestEnv::new();
    for lines in [0, 1, 5, 3000] {
        let text = format!("{LINE}\n").repeat(lines);
        let snapshot = take(&transcript(&env, &text)).unwrap();
        assert_eq!(snapshot.bytes, text.len() as u64);
        assert_eq!(
            snapshot.digest.as_deref(),
            Some(&*format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex()))
        );
        assert_eq!(snapshot.transcript.records.len(), lines);
        assert!(!snapshot.check(Growth::Refuse).unwrap());
    }
}

/// The file is read in chunks, and an unfinished line can go on through any number of them.
#[test]
fn the_digest_ends_where_an_unfinished_line_begins() {
    const CHUNK: usize = 256 << 10;
    let env = TestEnv::new();
    let first = format!("{LINE}\n");
    for agent in [Agent::Qwen, Agent::Claude] {
        for whole in [1, CHUNK / first.len() + 1] {
            let text = first.repeat(whole);
            let to_next = text.len().next_multiple_of(CHUNK) - text.len();
            for torn in [1, to_next - 1, to_next, to_next + 1, to_next + CHUNK, to_next + 3 * CHUNK + 1] {
                for fill in ["x", "\0", "\r"] {
                    let path = transcript(&env, &format!("{text}{{{}", fill.repeat(torn - 1)));
                    let snapshot = Snapshot::take(&path, dialect::of(agent), true).unwrap();
                    let digest = blake3::hash(text.as_bytes()).to_hex();
                    assert_eq!(snapshot.bytes, text.len() as u64, "{agent:?} {whole} {torn} {fill:?}");
                    assert_eq!(snapshot.digest, Some(format!("blake3:{digest}")), "{agent:?} {whole} {torn}");
                    assert_eq!(snapshot.transcript.torn_bytes, torn as u64);
                    assert!(!snapshot.check(Growth::Refuse).unwrap());
                }
            }
        }
    }
}

#[test]
fn growth_is_a_change_only_for_who_writes_here() {
    let env = TestEnv::new();
    let path = transcript(&env, &format!("{LINE}\n"));
    let snapshot = take(&path).unwrap();
    append(&path, "x");
    assert_eq!(what(snapshot.check(Growth::Refuse)), "has grown");
    assert!(snapshot.check(Growth::AllowAtEnd).unwrap());
}

#[test]
fn other_bytes_of_the_same_length_are_noticed_also_right_after_the_read() {
    let env = TestEnv::new();
    let path = transcript(&env, &format!("{LINE}\n"));
    let snapshot = take(&path).unwrap();
    // The same file, the same length, and even the same time.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(LINE.replace("hi", "ho").as_bytes()).unwrap();
    file.set_modified(modified).unwrap();
    for growth in [Growth::Refuse, Growth::AllowAtEnd] {
        assert_eq!(what(snapshot.check(growth)), "was rewritten");
    }
}

#[test]
fn a_file_that_was_quiet_is_checked_too() {
    let env = TestEnv::new();
    let path = transcript(&env, &format!("{LINE}\n"));
    settle(&path);
    let snapshot = take(&path).unwrap();
    assert!(!snapshot.check(Growth::Refuse).unwrap());
    let then = settle(&path);
    assert!(!snapshot.check(Growth::Refuse).unwrap(), "touched, with the same bytes");
    fs::write(&path, format!("{}\n", LINE.replace("hi", "ho"))).unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
    assert_eq!(what(snapshot.check(Growth::Refuse)), "was rewritten");
}

#[test]
fn a_file_that_was_cut_replaced_or_removed_is_another_one() {
    let env = TestEnv::new();
    let text = format!("{LINE}\n{LINE}\n");
    let path = transcript(&env, &text);
    let snapshot = take(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(LINE.len() as u64 + 1).unwrap();
    assert_eq!(what(snapshot.check(Growth::AllowAtEnd)), "was cut");

    let path = transcript(&env, &text);
    let snapshot = take(&path).unwrap();
    let copy = env.write("work/copy", &text);
    fs::rename(copy, &path).unwrap();
    assert_eq!(what(snapshot.check(Growth::AllowAtEnd)), "was replaced by another file");

    let snapshot = take(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(what(snapshot.check(Growth::AllowAtEnd)), "is gone");
    fs::create_dir(&path).unwrap();
    assert_eq!(what(snapshot.check(Growth::AllowAtEnd)), "was replaced by another file");
}

#[test]
#[cfg(unix)]
fn only_plain_files_are_read() {
    let env = TestEnv::new();
    let path = transcript(&env, "");
    let work = env.path("work");
    let status = std::process::Command::new("mkfifo").arg(work.join("fifo")).status().unwrap();
    assert!(status.success());
    std::os::unix::fs::symlink(&path, work.join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(work.join("socket")).unwrap();
    let bad = [work.join("fifo"), work.join("link"), work.join("socket"), work, "/dev/null".into()];
    for path in bad {
        assert_eq!(take(&path).unwrap_err().code(), "unsafe-path", "{path:?}");
    }
    let error = take(&env.path("work/gone")).unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("work/gone")), ("io", true));
}

#[test]
fn quiet_time_is_counted_from_the_last_write() {
    let env = TestEnv::new();
    let path = transcript(&env, "");
    settle(&path);
    let snapshot = take(&path).unwrap();
    let later = snapshot.mtime + Duration::from_secs(90);
    assert_eq!(snapshot.quiet_for(later), Duration::from_secs(90));
    assert_eq!(snapshot.quiet_for(Timestamp::UNIX_EPOCH), Duration::ZERO, "written in the future");
}

#[test]
fn a_torn_line_is_in_the_file_and_not_in_the_snapshot() {
    let env = TestEnv::new();
    let whole = format!("{LINE}\n");
    let path = transcript(&env, &format!("{whole}{}", &LINE[..40]));
    let snapshot = take(&path).unwrap();
    assert_eq!((snapshot.bytes, snapshot.file_len()), (whole.len() as u64, whole.len() as u64 + 40));
    assert_eq!(
        snapshot.digest.as_deref(),
        Some(&*format!("blake3:{}", blake3::hash(whole.as_bytes()).to_hex()))
    );
    assert_eq!(Source::len(&snapshot), whole.len() as u64);
    assert!(snapshot.read_exact_at(whole.len() as u64, &mut [0]).is_err(), "it ends where the snapshot ends");
    assert!(!snapshot.check(Growth::Refuse).unwrap());
    append(&path, &format!("{}\n", &LINE[40..]));
    assert_eq!(what(snapshot.check(Growth::Refuse)), "has grown");
    assert!(snapshot.check(Growth::AllowAtEnd).unwrap());
}

/// The role `take-snapshot`: says what comes of it.
pub fn report(args: &[&str]) {
    let taken = take(Path::new(args[0]));
    tell(&taken.map_or_else(|e| format!("{} {e}", e.code()), |s| s.bytes.to_string()));
}

#[test]
#[cfg(unix)]
fn a_file_that_may_not_be_read_is_a_fault_that_names_it() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    let path = transcript(&env, "");
    let allow = |p: &Path, mode| fs::set_permissions(p, fs::Permissions::from_mode(mode)).unwrap();
    allow(&env.path(""), 0o755);
    let role = || child::powerless(Child::command("take-snapshot", &[path.to_str().unwrap()]));
    allow(&path, 0o000);
    let Some(command) = role() else { return };
    let said = Child::start(command).hear();
    assert!(said.starts_with("io cannot open") && said.contains("s.jsonl"), "{said}");
    allow(&path, 0o444);
    assert_eq!(Child::start(role().unwrap()).hear(), "0");
}
