//! Our lease (I8): two live processes, dead owners, a lock file that was deleted, commands that outlive us.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use offshoot::{
    refusal::{Error, Result},
    store::{
        lease::{Lease, LeaseOptions},
        owner::OwnerKind,
        state::StateDir,
    },
};

use crate::{
    child::{self, Child, listen, tell},
    support::TestEnv,
};

struct Place {
    env: TestEnv,
    transcript: PathBuf,
}

impl Place {
    fn new() -> Place {
        let env = TestEnv::new();
        let transcript = PathBuf::from(env.write("work/s.jsonl", "{}\n"));
        Place { env, transcript }
    }

    fn lock(&self) -> PathBuf {
        self.env.path("work/.s.jsonl.offshoot-lock")
    }

    fn acquire(&self) -> Result<Lease> {
        acquire(&self.transcript, &self.env.path("state"), Duration::ZERO)
    }

    fn holder(&self) -> Child {
        let mut child = Child::spawn(
            "hold-lease",
            &[self.transcript.to_str().unwrap(), self.env.path("state").to_str().unwrap()],
        );
        assert_eq!(child.hear(), "held");
        child
    }
}

fn acquire(transcript: &Path, state: &Path, wait: Duration) -> Result<Lease> {
    let state = StateDir::open(state.to_owned())?;
    let now = Timestamp::UNIX_EPOCH;
    Lease::acquire(transcript, &LeaseOptions { state: &state, wait, purpose: "test", now })
}

/// The role `hold-lease`: acquires, says so, then obeys.
pub fn hold(args: &[&str]) {
    let mut lease = match acquire(Path::new(args[0]), Path::new(args[1]), Duration::ZERO) {
        Ok(lease) => lease,
        Err(e) => return tell(&format!("{} {}", e.code(), lease_place(&e))),
    };
    tell(if lease.notes().is_empty() { "held" } else { "held elsewhere" });
    while let Some(line) = listen() {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("writer", _) => lease.set_writer().unwrap(),
            ("command", pid) => lease.set_command(pid.parse().unwrap(), "some-agent").unwrap(),
            ("verify", _) => {
                tell(&lease.verify().map_or_else(|e| e.code().to_owned(), |()| "ours".to_owned()));
                continue;
            }
            ("release", _) => {
                lease.release();
                return tell("released");
            }
            other => panic!("unknown order {other:?}"),
        }
        tell("done");
    }
}

fn lease_place(e: &Error) -> String {
    e.to_json()["refusal"]["detail"]["lock"].to_string()
}

#[test]
fn of_two_live_processes_one_holds_and_the_other_learns_who() {
    let place = Place::new();
    let mut holder = place.holder();
    let error = place.acquire().unwrap_err();
    assert_eq!(error.code(), "lease-held");
    let json = error.to_json();
    let owner = &json["refusal"]["detail"]["owner"];
    assert_eq!(owner["pid"], holder.pid());
    assert_eq!(owner["what"], "test");
    assert_eq!(owner["since"], "1970-01-01T00:00:00Z");
    assert!(error.to_string().contains(&format!("process {}", holder.pid())), "{error}");
    assert_eq!(json["refusal"]["retryable"], true);

    holder.say("release");
    assert_eq!(holder.hear(), "released");
    let lease = place.acquire().unwrap();
    assert!(!lease.previous_writer_died());
    lease.verify().unwrap();
}

#[test]
fn a_killed_holder_frees_the_lease() {
    let place = Place::new();
    let mut holder = place.holder();
    holder.kill();
    assert!(fs::metadata(place.lock()).unwrap().len() > 0, "its record is left over");
    assert!(!place.acquire().unwrap().previous_writer_died());
}

#[test]
fn one_process_cannot_hold_a_lease_twice_and_the_lock_file_stays() {
    let place = Place::new();
    let lease = place.acquire().unwrap();
    assert_eq!(place.acquire().unwrap_err().code(), "lease-held");
    lease.release();
    assert_eq!(fs::metadata(place.lock()).unwrap().len(), 0, "released: no owner");
    place.acquire().unwrap().release();
}

#[test]
fn waiting_ends_with_the_lease_when_the_holder_goes() {
    let place = Place::new();
    let mut holder = place.holder();
    let (transcript, state) = (place.transcript.clone(), place.env.path("state"));
    let waiter = std::thread::spawn(move || acquire(&transcript, &state, Duration::from_secs(600)).map(drop));
    holder.say("release");
    waiter.join().unwrap().unwrap();
}

#[test]
fn waiting_in_vain_says_how_long() {
    let place = Place::new();
    let _lease = place.acquire().unwrap();
    let error = acquire(&place.transcript, &place.env.path("state"), Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.code(), "lease-held");
    assert!(error.to_string().contains("waited 20ms"), "{error}");
}

#[test]
fn a_lock_file_that_was_deleted_or_replaced_is_noticed() {
    let place = Place::new();
    let mut holder = place.holder();
    holder.say("verify");
    assert_eq!(holder.hear(), "ours");
    fs::remove_file(place.lock()).unwrap();
    holder.say("verify");
    assert_eq!(holder.hear(), "lease-lost");
    let second = place.acquire().unwrap();
    holder.say("verify");
    assert_eq!(holder.hear(), "lease-lost");
    second.verify().unwrap();
    drop(second);
    assert_eq!(place.acquire().unwrap().owner().kind, OwnerKind::Process);
}

#[test]
fn a_writer_that_died_is_reported_until_its_transcript_is_mended() {
    let place = Place::new();
    let mut holder = place.holder();
    holder.say("writer");
    assert_eq!(holder.hear(), "done");
    holder.kill();
    // Who did not come to mend the transcript leaves that to the next.
    assert!(place.acquire().unwrap().previous_writer_died());
    let lease = place.acquire().unwrap();
    assert!(lease.previous_writer_died());
    lease.mended();
    drop(lease);
    assert!(!place.acquire().unwrap().previous_writer_died());
}

#[test]
#[cfg(target_os = "linux")]
fn a_live_command_keeps_the_lease_of_a_killed_holder() {
    let place = Place::new();
    let mut holder = place.holder();
    let mut command =
        std::process::Command::new("/bin/cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    holder.say(&format!("command {}", command.id()));
    assert_eq!(holder.hear(), "done");
    holder.kill();

    let error = place.acquire().unwrap_err();
    assert_eq!(error.code(), "lease-held");
    let json = error.to_json();
    assert_eq!(json["refusal"]["detail"]["owner"]["pid"], command.id());
    assert_eq!(json["refusal"]["detail"]["owner"]["what"], "some-agent");

    drop(command.stdin.take());
    command.wait().unwrap();
    let _ = place.acquire().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_cannot_be_looked_for_is_not_taken_for_dead() {
    let place = Place::new();
    drop(place.acquire().unwrap());
    let record = |boot: &str, host: &str| {
        serde_json::json!({"kind": "command", "pid": 1, "start": null, "bootId": boot, "pidNamespace": 1,
            "host": host, "since": "2026-01-01T00:00:00Z", "purpose": "agent"})
    };
    fs::write(place.lock(), format!("{}\n", record("another-boot", "another-host"))).unwrap();
    assert_eq!(place.acquire().unwrap_err().code(), "lease-unverifiable");
    fs::write(place.lock(), "{\"kind\":\"comm").unwrap();
    let _ = place.acquire().expect("a torn record names nobody");
}

#[test]
#[cfg(unix)]
fn a_lock_that_is_no_plain_file_is_refused() {
    let place = Place::new();
    std::os::unix::fs::symlink(place.env.path("work/elsewhere"), place.lock()).unwrap();
    assert_eq!(place.acquire().unwrap_err().code(), "unsafe-path");
    assert!(!place.env.path("work/elsewhere").exists());
    fs::remove_file(place.lock()).unwrap();
    fs::create_dir(place.lock()).unwrap();
    assert_eq!(place.acquire().unwrap_err().code(), "unsafe-path");
}

#[test]
#[cfg(unix)]
fn only_a_plain_transcript_has_a_lease_and_its_folders_may_be_symlinks() {
    let place = Place::new();
    let (state, work) = (place.env.path("state"), place.env.path("work"));
    std::os::unix::fs::symlink(&place.transcript, work.join("link.jsonl")).unwrap();
    for bad in [work.join("link.jsonl"), work.clone(), work.join("..")] {
        assert_eq!(acquire(&bad, &state, Duration::ZERO).unwrap_err().code(), "unsafe-path", "{bad:?}");
    }
    assert_eq!(acquire(&work.join("gone"), &state, Duration::ZERO).unwrap_err().code(), "io");
    std::os::unix::fs::symlink(&work, place.env.path("alias")).unwrap();
    let lease = acquire(&place.env.path("alias/s.jsonl"), &state, Duration::ZERO).unwrap();
    assert_eq!(place.acquire().unwrap_err().code(), "lease-held");
    assert_eq!(lease.transcript(), fs::canonicalize(&place.transcript).unwrap());
}

#[test]
#[cfg(unix)]
fn the_lock_has_the_transcripts_mode() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = Place::new();
    for (mode, expected) in [(0o664, 0o664), (0o600, 0o600), (0o444, 0o644)] {
        fs::set_permissions(&place.transcript, fs::Permissions::from_mode(mode)).unwrap();
        let _ = fs::remove_file(place.lock());
        drop(place.acquire().unwrap());
        assert_eq!(fs::metadata(place.lock()).unwrap().mode() & 0o777, expected);
    }
}

/// A holder who may not write the folder.
#[cfg(unix)]
fn powerless(place: &Place) -> Option<Child> {
    use std::os::unix::fs::PermissionsExt;
    let state = place.env.path("nobodys-state");
    fs::create_dir(&state).unwrap();
    let args = [place.transcript.to_str().unwrap(), state.to_str().unwrap()];
    let command = child::powerless(Child::command("hold-lease", &args))?;
    let allow = |p: PathBuf, mode| fs::set_permissions(p, fs::Permissions::from_mode(mode)).unwrap();
    allow(place.env.path(""), 0o755);
    allow(place.env.path("work"), 0o555);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&state, Some(65534), Some(65534)).unwrap();
    }
    Some(Child::start(command))
}

#[test]
#[cfg(unix)]
fn where_the_folder_takes_no_file_the_lock_lies_in_the_state_directory_and_that_is_said() {
    let place = Place::new();
    let Some(mut child) = powerless(&place) else { return };
    assert_eq!(child.hear(), "held elsewhere");
    assert!(!place.lock().exists());
    let locks = fs::read_dir(place.env.path("nobodys-state/locks")).unwrap();
    assert_eq!(locks.count(), 1);
}

#[test]
#[cfg(unix)]
fn a_lock_that_cannot_be_opened_is_unverifiable() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    fs::write(place.lock(), "").unwrap();
    fs::set_permissions(place.lock(), fs::Permissions::from_mode(0o000)).unwrap();
    let Some(mut child) = powerless(&place) else { return };
    let said = child.hear();
    assert!(said.starts_with("lease-unverifiable ") && said.contains(".s.jsonl.offshoot-lock"), "{said}");
}
