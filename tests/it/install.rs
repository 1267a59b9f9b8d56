//! `install` and `uninstall`: the files of the slash commands, whatever has their names already.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    stage::{names, until},
    support::{Ran, TestEnv},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_offshoot");

/// Where the files of an agent lie, from the home.
fn folder(env: &TestEnv, agent: &str) -> PathBuf {
    env.path(&format!("home/.{agent}/commands"))
}

fn install(env: &TestEnv) -> Ran {
    env.run(&["install", "claude"])
}

fn uninstall(env: &TestEnv) -> Ran {
    env.run(&["uninstall", "claude"])
}

/// Every file and folder below a place, with the bytes and the mode of each.
fn everything(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            open.extend(meta.is_dir().then(|| path.clone()));
            found.push((path, meta.permissions().mode(), bytes));
        }
    }
    found.sort();
    found
}

/// What each command's file came to, of a run with `--json`.
fn done(ran: &Ran) -> Vec<String> {
    let commands = ran.json()["commands"].as_array().unwrap().clone();
    commands.iter().map(|c| c["done"].as_str().unwrap().to_owned()).collect()
}

/// A command that is refused, says so about `path` by that code, and changes nothing.
#[track_caller]
fn refused(env: &TestEnv, args: &[&str], code: &str, path: &Path) {
    let before = everything(&env.path("home"));
    let ran = env.run(&[args, &["--json"]].concat()).code(3);
    let refusal = &ran.json()["refusal"];
    assert_eq!(refusal["code"], code, "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains(path.to_str().unwrap()), "{refusal}");
    assert!(!refusal["hint"].is_null() || code == "unsafe-path", "it says what to do: {refusal}");
    assert_eq!(everything(&env.path("home")), before, "nothing was changed");
}

#[test]
fn a_round_leaves_no_trace_and_what_was_installed_names_this_program() {
    for agent in ["claude", "qwen"] {
        let env = TestEnv::new();
        let ran = env.run(&["install", agent]).code(0);
        assert!(
            ran.stdout.contains("/tree  installed") && ran.stdout.contains("/pick  installed"),
            "{}",
            ran.stdout
        );
        assert_eq!(names(&folder(&env, agent)).len(), 2);
        for name in ["tree", "pick"] {
            let path = folder(&env, agent).join(format!("{name}.md"));
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.starts_with("---\n# offshoot slash-command 1 made=2 blake3:"), "{text}");
            assert!(text.contains(&format!("\n    {PROGRAM} slash {name} --agent {agent}")), "{text}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let before = everything(&env.path("home"));
        assert!(env.run(&["install", agent]).code(0).stdout.contains("/tree  already installed"));
        assert_eq!(everything(&env.path("home")), before);
        let ran = env.run(&["uninstall", agent]).code(0);
        assert!(ran.stdout.contains("/pick  removed"), "{}", ran.stdout);
        assert_eq!(everything(&env.path("home")), [], "{agent}");
        assert!(env.run(&["uninstall", agent]).code(0).stdout.contains("/tree  not installed"));
    }
}

#[test]
fn the_folders_are_those_of_the_agents_variables() {
    for (agent, variable) in [("claude", "CLAUDE_CONFIG_DIR"), ("qwen", "QWEN_HOME")] {
        let env = TestEnv::new();
        let run = |verb: &str| {
            Ran::from(
                env.command(&[verb, agent, "--json"]).env(variable, env.path("elsewhere")).output().unwrap(),
            )
        };
        assert_eq!(done(&run("install").code(0)), ["created", "created"]);
        assert_eq!(names(&env.path("elsewhere/commands")).len(), 2);
        assert_eq!(everything(&env.path("home")), []);
        assert_eq!(done(&run("uninstall").code(0)), ["removed", "removed"]);
        assert!(!env.path("elsewhere").exists());
    }
}

#[test]
fn all_folders_that_are_missing_are_made_and_go_again() {
    let env = TestEnv::new();
    for there in [None, Some("home/deep")] {
        if let Some(there) = there {
            fs::create_dir(env.path(there)).unwrap();
        }
        let before = everything(&env.path("home"));
        let run = |verb: &str| {
            let mut command = env.command(&[verb, "claude", "--json"]);
            Ran::from(command.env("CLAUDE_CONFIG_DIR", env.path("home/deep/er/still")).output().unwrap())
        };
        assert_eq!(done(&run("install").code(0)), ["created", "created"]);
        let mode = |path: &str| fs::metadata(env.path(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("home/deep/er"), mode("home/deep/er/still/commands")], [0o700; 2]);
        assert_eq!(done(&run("uninstall").code(0)), ["removed", "removed"]);
        assert_eq!(everything(&env.path("home")), before);
    }
}

#[test]
fn a_file_where_a_folder_should_be_is_refused_wherever_it_stands() {
    for file in ["home/deep", "home/deep/er", "home/deep/er/commands"] {
        let env = TestEnv::new();
        let file = env.write(file, "a file");
        for verb in ["install", "uninstall"] {
            let mut command = env.command(&[verb, "claude", "--json"]);
            let ran = command.env("CLAUDE_CONFIG_DIR", env.path("home/deep/er")).output().unwrap();
            let refusal = Ran::from(ran).code(3).json()["refusal"].clone();
            assert_eq!(refusal["code"], "unsafe-path", "{refusal}");
            assert!(refusal["message"].as_str().unwrap().contains(&format!("`{file}`")), "{refusal}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "a file");
        }
    }
}

#[test]
fn folders_that_were_there_or_hold_something_else_stay() {
    let env = TestEnv::new();
    fs::create_dir(env.path("home/.claude")).unwrap();
    let _ = install(&env).code(0);
    let _ = uninstall(&env).code(0);
    assert_eq!(names(&env.path("home")), [".claude"]);
    assert_eq!(everything(&env.path("home/.claude")), [], "the commands' own folder was made by us");

    let _ = install(&env).code(0);
    env.write("home/.claude/commands/own.md", "mine");
    let _ = uninstall(&env).code(0);
    assert_eq!(names(&folder(&env, "claude")), ["own.md"]);

    // It was there before the next time, so it stays though it is empty.
    let _ = install(&env).code(0);
    fs::remove_file(env.path("home/.claude/commands/own.md")).unwrap();
    let _ = uninstall(&env).code(0);
    assert_eq!(names(&env.path("home/.claude")), ["commands"]);
}

#[test]
fn an_older_one_of_ours_is_replaced_and_keeps_what_is_known_of_the_folders() {
    let env = TestEnv::new();
    let _ = env.run(&["install", "claude", "--redact"]).code(0);
    let pick = folder(&env, "claude").join("pick.md");
    fs::set_permissions(&pick, fs::Permissions::from_mode(0o640)).unwrap();
    let planned = env.run(&["install", "claude", "--json", "--dry-run"]).code(0);
    assert_eq!(done(&planned), ["replaced", "replaced"]);
    assert!(fs::read_to_string(&pick).unwrap().contains("--redact"), "nothing was written yet");
    assert!(install(&env).code(0).stdout.contains("/pick  updated"));
    assert!(!fs::read_to_string(&pick).unwrap().contains("--redact"));
    assert_eq!(fs::metadata(&pick).unwrap().permissions().mode() & 0o777, 0o640);
    let _ = uninstall(&env).code(0);
    assert_eq!(everything(&env.path("home")), []);
}

#[test]
fn a_file_of_somebody_else_is_neither_written_over_nor_removed() {
    for name in ["tree.md", "pick.md"] {
        let env = TestEnv::new();
        let path = folder(&env, "claude").join(name);
        env.write(&format!("home/.claude/commands/{name}"), "---\ndescription: mine\n---\nhello\n");
        refused(&env, &["install", "claude"], "command-foreign", &path);
        refused(&env, &["install", "claude", "--dry-run"], "command-foreign", &path);
        assert_eq!(names(&folder(&env, "claude")), [name], "the other one was not written either");
        let ran = env.run(&["uninstall", "claude", "--json"]).code(0);
        assert!(done(&ran).contains(&"left".to_owned()) && done(&ran).contains(&"absent".to_owned()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "---\ndescription: mine\n---\nhello\n");
    }
}

#[test]
fn one_that_was_edited_or_is_newer_is_refused_in_both_directions() {
    type Edit = fn(&str) -> String;
    let edits: [(&str, Edit); 3] = [
        ("command-edited", |text| text.to_owned() + "and be polite\n"),
        ("command-edited", |text| text.replace("made=2", "made=0")),
        ("command-newer", |text| text.replace("slash-command 1 ", "slash-command 2 ")),
    ];
    for (code, edit) in edits {
        for name in ["tree.md", "pick.md"] {
            let env = TestEnv::new();
            let _ = install(&env).code(0);
            let path = folder(&env, "claude").join(name);
            fs::write(&path, edit(&fs::read_to_string(&path).unwrap())).unwrap();
            refused(&env, &["install", "claude"], code, &path);
            refused(&env, &["install", "claude", "--redact"], code, &path);
            refused(&env, &["uninstall", "claude"], code, &path);
            refused(&env, &["uninstall", "claude", "--dry-run"], code, &path);
        }
    }
}

#[test]
fn what_is_no_plain_file_is_refused_and_left_where_it_is() {
    let env = TestEnv::new();
    let path = folder(&env, "claude").join("pick.md");
    let elsewhere = env.write("work/pick.md", "target");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let kinds: [&dyn Fn(); 4] = [
        &|| symlink(&elsewhere, &path).unwrap(),
        &|| symlink(env.path("work/nowhere"), &path).unwrap(),
        &|| fs::create_dir(&path).unwrap(),
        &|| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        },
    ];
    for make in kinds {
        make();
        refused(&env, &["install", "claude"], "unsafe-path", &path);
        assert_eq!(done(&env.run(&["uninstall", "claude", "--json"]).code(0)), ["absent", "left"]);
        assert_eq!(names(path.parent().unwrap()), ["pick.md"]);
        if path.is_dir() { fs::remove_dir(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "target");
    assert!(!env.path("work/nowhere").exists());
}

#[test]
fn a_linked_folder_is_followed_and_one_that_is_not_safe_is_refused() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("work/dotfiles")).unwrap();
    fs::create_dir(env.path("home/.claude")).unwrap();
    let commands = folder(&env, "claude");
    symlink(env.path("work/dotfiles"), &commands).unwrap();
    let _ = install(&env).code(0);
    assert_eq!(names(&env.path("work/dotfiles")).len(), 2);
    let _ = uninstall(&env).code(0);
    assert_eq!(names(&env.path("work/dotfiles")).len(), 0);
    assert!(fs::symlink_metadata(&commands).unwrap().is_symlink(), "the link is the user's");

    fs::set_permissions(env.path("work/dotfiles"), fs::Permissions::from_mode(0o777)).unwrap();
    refused(&env, &["install", "claude"], "unsafe-path", &commands);
    fs::remove_file(&commands).unwrap();
    symlink(env.path("work/nowhere"), &commands).unwrap();
    refused(&env, &["install", "claude"], "unsafe-path", &commands);
    fs::remove_file(&commands).unwrap();
    env.write("home/.claude/commands", "a file");
    refused(&env, &["install", "claude"], "unsafe-path", &commands);
}

#[test]
fn no_file_is_written_where_the_folder_cannot_be() {
    let env = TestEnv::new();
    fs::remove_dir(env.path("home")).unwrap();
    let ran = env.run(&["install", "claude", "--json"]).code(1);
    let message = ran.json()["fault"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("/home/.claude`"), "{message}");
    assert!(!env.path("home").exists());
}

/// A folder that nobody may write to, not even root: a file system that has no room for a name.
#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_takes_no_file_is_a_fault_that_names_it() {
    let env = TestEnv::new();
    let ran = Ran::from(
        env.command(&["install", "claude", "--json"])
            .env("CLAUDE_CONFIG_DIR", "/proc/self")
            .output()
            .unwrap(),
    );
    let ran = ran.code(1);
    let message = ran.json()["fault"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("/proc/") && message.contains("commands"), "{message}");
}

#[test]
fn a_fault_leaves_neither_half_a_file_nor_a_folder() {
    let env = TestEnv::new();
    let run = |plan: &str, args: &[&str]| {
        Ran::from(env.command(args).env("OFFSHOOT_FAULT_POINT", plan).output().unwrap())
    };
    let _ = run("command-file.staged=error", &["install", "claude"]).code(1);
    assert_eq!(everything(&env.path("home")), []);

    // A disk that is full: neither gets its name.
    let plain = env.command(&["install", "claude"]);
    let mut small = Command::new("/bin/sh");
    small.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    small.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::from(small.current_dir(env.path("work")).output().unwrap());
    let _ = ran.code(1);
    assert_eq!(everything(&env.path("home")), []);

    // Stopped between the two: what is there is whole, and the next run does the rest.
    let ran = run("command-file.published=kill", &["install", "claude"]);
    assert_eq!(ran.code, None);
    let names_now = names(&folder(&env, "claude"));
    assert!(
        names_now.contains(&"tree.md".to_owned()) && !names_now.contains(&"pick.md".to_owned()),
        "{names_now:?}"
    );
    let ran = env.run(&["install", "claude", "--json"]).code(0);
    assert_eq!(done(&ran), ["unchanged", "created"]);

    let ran = run("command-file.removed=kill", &["uninstall", "claude"]);
    assert_eq!(ran.code, None);
    assert_eq!(done(&env.run(&["uninstall", "claude", "--json"]).code(0)), ["absent", "removed"]);
}

#[test]
fn a_file_that_appears_or_changes_meanwhile_is_not_written_over() {
    let env = TestEnv::new();
    let paused = env.path("paused");
    let race = |args: &[&str], meanwhile: &dyn Fn()| {
        let plan = format!("command-file.staged=pause:{}", paused.display());
        let mut command = env.command(args);
        let child = command
            .env("OFFSHOOT_FAULT_POINT", plan)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        until("it to stop", || paused.exists());
        meanwhile();
        fs::remove_file(&paused).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    };
    let tree = folder(&env, "claude").join("tree.md");
    let ran = race(&["install", "claude", "--json"], &|| fs::write(&tree, "mine").unwrap()).code(3);
    assert_eq!(ran.json()["refusal"]["code"], "command-foreign");
    assert_eq!(fs::read_to_string(&tree).unwrap(), "mine");
    assert_eq!(names(&folder(&env, "claude")), ["tree.md"], "no temporary name is left");

    fs::remove_file(&tree).unwrap();
    let _ = install(&env).code(0);
    let edited = fs::read_to_string(&tree).unwrap() + "edited\n";
    let ran =
        race(&["install", "claude", "--redact", "--json"], &|| fs::write(&tree, &edited).unwrap()).code(3);
    assert_eq!(ran.json()["refusal"]["code"], "command-edited");
    assert_eq!(fs::read_to_string(&tree).unwrap(), edited);
}

#[test]
fn a_program_is_named_by_the_path_that_leads_to_it_and_quoted() {
    let env = TestEnv::new();
    let dir = env.path("it's here");
    fs::create_dir(&dir).unwrap();
    symlink(PROGRAM, dir.join("offshoot")).unwrap();
    let ran = Ran::from(
        env.command(&["install", "claude", "--json"])
            .env("PATH", format!("relative:{}:/usr/bin", dir.display()))
            .output()
            .unwrap(),
    );
    let word = ran.code(0).json()["program"].as_str().unwrap().to_owned();
    assert_eq!(shlex::split(&word).unwrap(), [dir.join("offshoot").to_str().unwrap()]);
    let text = fs::read_to_string(folder(&env, "claude").join("tree.md")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("    ")).unwrap();
    assert_eq!(shlex::split(line).unwrap()[..3], [dir.join("offshoot").to_str().unwrap(), "slash", "tree"]);
    assert!(!text.contains("allowed-tools"), "a rule with quotes in it would mean something else");
}

#[test]
fn an_agent_without_commands_of_ours_is_refused() {
    let env = TestEnv::new();
    for verb in ["install", "uninstall"] {
        let ran = env.run(&[verb, "reasonix", "--json"]).code(3);
        assert_eq!(ran.json()["refusal"]["code"], "commands-unsupported");
    }
    let _ = env.run(&["install", "other"]).code(2);
    let schema: Value = env.run(&["install", "qwen", "--json", "--dry-run"]).code(0).json();
    assert_eq!((&schema["schema"], &schema["dryRun"]), (&json!("offshoot.install/1"), &json!(true)));
    assert_eq!(everything(&env.path("home")), []);
}
