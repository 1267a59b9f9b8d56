//! The state directory: where it is, and when it is refused.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use offshoot::store::{env::Env, state::StateDir};

use crate::support::TestEnv;

fn env(pairs: &[(&str, &str)]) -> Env {
    Env::read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v)))
}

#[test]
fn the_default_place_follows_the_environment() {
    let root = |pairs: &[(&str, &str)]| StateDir::default_root(&env(pairs));
    let all = [("OFFSHOOT_STATE_DIR", "/a"), ("XDG_STATE_HOME", "/b"), ("HOME", "/c")];
    assert_eq!(root(&all).unwrap(), PathBuf::from("/a"));
    assert_eq!(root(&all[1..]).unwrap(), PathBuf::from("/b/offshoot"));
    assert_eq!(root(&all[2..]).unwrap(), PathBuf::from("/c/.local/state/offshoot"));
    assert_eq!(
        root(&[("OFFSHOOT_STATE_DIR", ""), ("XDG_STATE_HOME", "relative"), ("HOME", "/c")]).unwrap(),
        PathBuf::from("/c/.local/state/offshoot"),
        "empty counts as unset, and a relative XDG path is ignored"
    );
    assert_eq!(root(&[]).unwrap_err().code(), "usage");
}

#[test]
#[cfg(unix)]
fn what_is_created_is_private_and_what_others_can_change_is_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let test = TestEnv::new();
    let root = test.path("deep/er/state");
    let state = StateDir::open(root.clone()).unwrap();
    let mode = |p: PathBuf| fs::metadata(p).unwrap().mode() & 0o777;
    assert_eq!(mode(test.path("deep/er")), 0o700);
    assert_eq!(mode(root.clone()), 0o700);
    assert_eq!(mode(state.folder("ledger/qwen").unwrap()), 0o700);
    assert_eq!(state.path("heads.jsonl"), fs::canonicalize(&root).unwrap().join("heads.jsonl"));

    symlink(&root, test.path("mine")).unwrap();
    assert_eq!(StateDir::open(test.path("mine")).unwrap().root(), state.root());

    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    for path in [root.clone(), test.path("mine")] {
        assert_eq!(StateDir::open(path).unwrap_err().code(), "unsafe-path");
    }
    let file = PathBuf::from(test.write("file", ""));
    assert_eq!(StateDir::open(file).unwrap_err().code(), "unsafe-path");
    if rustix::process::geteuid().is_root() {
        let foreign = test.path("foreign");
        StateDir::open(foreign.clone()).unwrap();
        std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
        assert_eq!(StateDir::open(foreign).unwrap_err().code(), "unsafe-path");
        std::os::unix::fs::lchown(test.path("mine"), Some(65534), None).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(StateDir::open(test.path("mine")).unwrap_err().code(), "unsafe-path");
    } else {
        assert_eq!(StateDir::open("/".into()).unwrap_err().code(), "unsafe-path");
    }
}

#[test]
#[cfg(unix)]
fn no_folder_on_the_way_to_what_is_recorded_may_be_anybody_elses() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use crate::stage::{OTHER, Stage};
    let everybodys = |dir: &Path| fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let linked = |dir: &Path| {
        let moved = dir.with_extension("elsewhere");
        fs::rename(dir, &moved).unwrap();
        symlink(moved, dir).unwrap();
    };
    for spoil in [&everybodys as &dyn Fn(&Path), &linked] {
        for folder in ["ledger", "ledger/qwen", "labels", "labels/qwen", "ops", "run"] {
            let stage = Stage::new();
            drop(stage.run(&["--leaf", OTHER, "--", "true"]).code(0));
            drop(stage.env.run(&["label", stage.path(), OTHER, "one way"]).code(0));
            spoil(&stage.env.path("state").join(folder));
            let ran = if folder.starts_with("labels") {
                stage.env.run(&["label", stage.path(), OTHER, "another"])
            } else {
                stage.run(&["--leaf", OTHER, "--", "true"])
            };
            let ran = ran.code(3);
            assert!(ran.stderr.contains(&format!("state/{folder}`")), "{folder}: {}", ran.stderr);
        }
    }
}
