//! Pipes, devices and huge files where others leave their files: they are looked at by every command, and keep none waiting.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::stage::{OTHER, Process, SESSION, Stage, until};

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

fn zeros(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    std::os::unix::fs::symlink("/dev/zero", path).unwrap();
}

/// A file without end as far as memory is concerned; it takes no room on the disk.
fn huge(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
}

/// Runs a command that must come to an end, and that within a GiB of address space.
#[track_caller]
fn ends(stage: &Stage, args: &[&str], codes: &[i32]) {
    let plain = stage.env.command(args);
    let mut limited = Command::new("/bin/sh");
    limited
        .args(["-c", "ulimit -v 1048576; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args());
    limited.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(&stage.project);
    let mut process = Process::spawn(limited);
    process.close_stdin();
    let mut status = None;
    until(&format!("{args:?} to end"), || {
        status = process.child.try_wait().unwrap();
        status.is_some()
    });
    let code = status.unwrap().code();
    assert!(
        code.is_some_and(|c| codes.contains(&c)),
        "{args:?} ended with {code:?}: {}",
        process.end().stderr
    );
}

#[test]
fn what_is_no_plain_file_keeps_no_command_waiting() {
    let stage = Stage::new();
    let chats = stage.transcript.parent().unwrap().to_owned();
    let policy = stage.env.write(
        "work/p.toml",
        "version = 1\nname = \"p\"\nreason = \"r\"\n[[rule]]\nname = \"n\"\nreason = \"r\"\n\
         keep = { git_branch = \"current\" }\norder = \"newest\"\n",
    );
    let places: [PathBuf; 5] = [
        stage.lock(),
        chats.join(format!("{SESSION}.runtime.json")),
        stage.qwen("settings.json"),
        stage.project.join(".git/HEAD"),
        stage.agent_lock(),
    ];
    for put in [pipe, zeros, huge] {
        for place in &places {
            put(place);
            ends(&stage, &["inspect", stage.path()], &[0]);
            ends(&stage, &["policy", "explain", &policy, stage.path()], &[0]);
            ends(&stage, &["recover"], &[0]);
            ends(&stage, &["sessions"], &[0]);
            ends(&stage, &["resume", stage.path(), "--leaf", OTHER, "--seed", "in-place"], &[0, 3, 4]);
            fs::remove_file(place).unwrap();
        }
    }
    // Nothing of that is left behind: the session can be resumed.
    Process::spawn(stage.resume(&["--leaf", OTHER, "--seed", "in-place"])).done();
}

#[test]
fn what_cannot_be_judged_is_said_once() {
    let stage = Stage::new();
    let registered = stage.qwen(&format!("sessions/{}.json", std::process::id()));
    fs::create_dir_all(registered.parent().unwrap()).unwrap();
    fs::write(&registered, r#"{"ipcToken":"tok-SECRET","pid":"tok-SECRET","#).unwrap();
    let ran = stage.run(&["--leaf", OTHER, "--seed", "in-place"]).code(0);
    assert_eq!(ran.stderr.matches("it may name this session").count(), 1, "{}", ran.stderr);
    assert!(!ran.stderr.contains("SECRET"), "{}", ran.stderr);
}
