//! The state directory: where it is, and when it is refused.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use offshoot::store::{
    agents::{claude::ClaudeDirs, qwen::QwenDirs},
    env::Env,
    sessions::{SessionContext, list},
    state::StateDir,
};

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

/// All commands agree: sessions, state directory and policies are looked for in the home of the user database.
#[test]
fn without_a_home_the_user_database_is_asked() {
    let known = || Some("/known".into());
    for (home, expected) in [(None, "/known"), (Some(""), "/known"), (Some("/said"), "/said")] {
        let pairs: Vec<(&str, &str)> = home.map(|home| ("HOME", home)).into_iter().collect();
        let found = env(&pairs).or_home(known);
        assert_eq!(found.home.as_deref(), Some(Path::new(expected)), "{home:?}");
        let root = StateDir::default_root(&found).unwrap();
        assert_eq!(root, Path::new(expected).join(".local/state/offshoot"));
        let cwd = Path::new("/w");
        assert_eq!(QwenDirs::from_env(&found, cwd).unwrap().home, Path::new(expected).join(".qwen"));
        assert_eq!(ClaudeDirs::from_env(&found, cwd).unwrap().config, Path::new(expected).join(".claude"));
    }
    assert_eq!(env(&[]).or_home(|| Some("relative".into())).home, None);
    assert_eq!(env(&[]).or_home(|| None).home, None);
}

/// A home that is not this user's to look into holds no session of his, and no command fails for it.
#[cfg(unix)]
#[test]
fn a_home_that_cannot_be_looked_into_holds_no_session() {
    use std::os::unix::fs::PermissionsExt;
    let test = TestEnv::new();
    let id = "aaaaaaaa-0000-4000-8000-000000000001";
    for place in [".claude/projects/-w", ".qwen/projects/-w/chats"] {
        test.write(&format!("home/{place}/{id}.jsonl"), "");
    }
    test.write("home/.reasonix/projects/-w/sessions-v4/one/manifest.json", "{}");
    let home = test.path("home");
    let all = || {
        let found = Env { home: Some(home.clone()), ..Env::default() };
        let ctx = SessionContext { env: &found, cwd: Path::new("/w"), agent: None, interactive: false };
        list(&ctx, true).unwrap().len()
    };
    let before = all();
    assert!(before >= 2, "{before}");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
    // Nothing keeps the superuser out.
    let expected = if fs::read_dir(&home).is_ok() { before } else { 0 };
    let found = all();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(found, expected);
}
