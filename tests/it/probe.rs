//! `probe`, on clients of our own that do what no client should. The released ones are held to it in
//! `tests/real-clients`.

#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Ran, TestEnv};

/// A client: what it does but for `--version`, in bash. `$HERE` is a folder that outlives the probe.
fn client(env: &TestEnv, version: &str, does: &str) -> PathBuf {
    let here = env.path("work").display().to_string();
    let script = format!(
        "#!/bin/bash\nHERE='{here}'\nif [ \"$1\" = --version ]; then {version}; exit; fi\n\
         url=${{ANTHROPIC_BASE_URL:-$OPENAI_BASE_URL}}; port=${{url##*:}}; port=${{port%%/*}}\n\
         ask() {{ exec 3<>/dev/tcp/127.0.0.1/$port\n\
           printf 'POST %s HTTP/1.1\\r\\ncontent-length: %s\\r\\n\\r\\n%s' \"$1\" \"${{#2}}\" \"$2\" >&3; cat <&3; }}\n{does}\n"
    );
    let path = PathBuf::from(env.write("client", script));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

const KNOWN: &str = "echo '2.1.332 (Claude Code)'";

fn probe(env: &TestEnv, client: &std::path::Path, more: &[&str]) -> Ran {
    let args = ["probe", "claude", "--client", client.to_str().unwrap()];
    env.run(&[&args, more].concat())
}

fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let behaviours = report["behaviours"].as_array().unwrap();
    behaviours.iter().map(|f| (f["behaviour"].as_str().unwrap(), f["outcome"].as_str().unwrap())).collect()
}

fn seen<'a>(report: &'a Value, behaviour: &str) -> &'a str {
    let all = report["behaviours"].as_array().unwrap();
    all.iter().find(|f| f["behaviour"] == behaviour).unwrap()["seen"].as_str().unwrap()
}

/// Waits until none of the processes runs any more: what was killed may take a moment to be gone.
#[track_caller]
fn all_gone(pids: &str) {
    let began = std::time::Instant::now();
    let runs = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
    };
    assert!(pids.split_whitespace().count() > 1, "{pids}");
    while pids.split_whitespace().any(runs) {
        assert!(began.elapsed().as_secs() < 20, "some of {pids} still run");
        std::thread::yield_now();
    }
}

fn temporary_homes(env: &TestEnv) -> usize {
    fs::read_dir(env.path("tmp")).unwrap().count()
}

#[test]
fn a_client_that_hangs_is_ended_with_all_that_it_started() {
    let env = TestEnv::new();
    fs::create_dir(env.path("tmp")).unwrap();
    let client = client(&env, KNOWN, "sleep 1000 & echo \"$$ $!\" > $HERE/pids; wait");
    let mut command =
        env.command(&["probe", "claude", "--client", client.to_str().unwrap(), "--timeout", "10s", "--json"]);
    let report = Ran::from(command.env("TMPDIR", env.path("tmp")).output().unwrap()).code(5).json();
    assert_eq!(
        outcomes(&report),
        [
            ("version", "holds"),
            ("pick", "unchecked"),
            ("pick-pinned", "unchecked"),
            ("fork-followed", "unchecked"),
            ("in-place-followed", "unchecked"),
            ("nothing-foreign", "unchecked")
        ]
    );
    assert!(seen(&report, "pick").contains("did not end in 10s"), "{report}");
    assert!(seen(&report, "fork-followed").contains("not started again"), "{report}");
    all_gone(&fs::read_to_string(env.path("work/pids")).unwrap());
    assert_eq!(temporary_homes(&env), 0, "the temporary home is removed");
}

#[test]
fn a_signal_ends_the_client_too() {
    let env = TestEnv::new();
    fs::create_dir(env.path("tmp")).unwrap();
    let pipe = env.path("work/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let client = client(&env, KNOWN, "sleep 1000 & echo \"$$ $!\" > $HERE/pipe; wait");
    let mut command = env.command(&["probe", "claude", "--client", client.to_str().unwrap()]);
    let mut probe = command.env("TMPDIR", env.path("tmp")).stdout(Stdio::null()).spawn().unwrap();
    let pids = fs::read_to_string(pipe).unwrap();
    let term = Command::new("kill").args(["-TERM", &probe.id().to_string()]).status().unwrap();
    assert!(term.success());
    assert_eq!(probe.wait().unwrap().code(), Some(128 + 15));
    all_gone(&pids);
    assert_eq!(temporary_homes(&env), 0, "the temporary home is removed");
}

#[test]
fn a_client_that_ends_at_once_cannot_be_checked() {
    let env = TestEnv::new();
    let client = client(&env, KNOWN, "echo 'no key' >&2; exit 3");
    let report = probe(&env, &client, &["--json"]).code(5).json();
    assert_eq!(
        (&report["schema"], &report["clientVersion"]),
        (&"offshoot.probe/1".into(), &"2.1.332".into())
    );
    assert!(outcomes(&report)[1..].iter().all(|(_, outcome)| *outcome == "unchecked"), "{report}");
    let why = seen(&report, "pick");
    assert!(why.contains("exit status: 3") && why.contains("no key"), "{report}");
    let text = probe(&env, &client, &[]).code(5).stdout;
    assert!(text.lines().next().unwrap().starts_with("holds: its version"), "{text}");
    assert!(text.lines().skip(1).all(|l| l.starts_with("could not be checked: ")), "{text}");
}

#[test]
fn a_client_that_sends_another_history_is_found_out() {
    let env = TestEnv::new();
    // Always both branches, whatever it is told to resume.
    let all = "m() { printf '{\"role\":\"%s\",\"content\":\"%s\"}' $1 $2; }\n\
        body='{\"model\":\"m\",\"messages\":['$(m user PROBE-ROOT-Q),$(m assistant PROBE-ROOT-A),$(m user PROBE-ONE-Q),\
$(m assistant PROBE-ONE-A),$(m user PROBE-TWO-Q),$(m assistant PROBE-TWO-A),$(m user PROBE-NEXT)']}'\n\
        ask /v1/messages \"$body\" > $HERE/reply";
    let client = client(&env, KNOWN, all);
    let report = probe(&env, &client, &["--json"]).code(5).json();
    assert_eq!(
        outcomes(&report)[1..],
        [
            ("pick", "does-not-hold"),
            ("pick-pinned", "does-not-hold"),
            ("fork-followed", "does-not-hold"),
            ("in-place-followed", "does-not-hold"),
            ("nothing-foreign", "does-not-hold")
        ],
        "{report}"
    );
    assert!(
        seen(&report, "pick").contains("user: PROBE-ONE-Q, assistant: PROBE-ONE-A, user: PROBE-TWO-Q"),
        "{report}"
    );
    assert!(seen(&report, "nothing-foreign").contains("`PROBE-TWO-Q` in a request after a fork"), "{report}");
    let reply = fs::read_to_string(env.path("work/reply")).unwrap();
    assert!(reply.contains("event: message_stop") && reply.contains("PROBE-REPLY"), "{reply}");
}

#[test]
fn a_client_that_goes_on_elsewhere_is_found_out() {
    let env = TestEnv::new();
    // The right history for the first session, but its record hangs on nothing that is there.
    let right = right_history_only()
        + "\necho '{\"type\":\"user\",\"uuid\":\"new\",\"parentUuid\":\"elsewhere\",\"message\":{\"content\":\"x\"}}' \
        >> $CLAUDE_CONFIG_DIR/projects/*/$2.jsonl";
    let client = client(&env, KNOWN, &right);
    let report = probe(&env, &client, &["--json"]).code(5).json();
    assert_eq!(outcomes(&report)[1], ("pick", "does-not-hold"), "{report}");
    assert!(seen(&report, "pick").contains("hangs on `elsewhere`"), "{report}");
    // Here it never adds a record.
    let silent = right_history_only();
    let client = self::client(&env, KNOWN, &silent);
    let report = probe(&env, &client, &["--json"]).code(5).json();
    assert!(seen(&report, "pick").contains("not in the session"), "{report}");
}

fn right_history_only() -> String {
    "m() { printf '{\"role\":\"%s\",\"content\":\"%s\"}' $1 $2; }\n\
        body='{\"model\":\"m\",\"messages\":['$(m user PROBE-ROOT-Q),$(m assistant PROBE-ROOT-A),$(m user PROBE-TWO-Q),\
$(m assistant PROBE-TWO-A),$(m user PROBE-NEXT)']}'\n\
        ask /v1/messages \"$body\" > /dev/null"
        .to_owned()
}

#[test]
fn a_client_that_talks_garbage_harms_nothing() {
    let env = TestEnv::new();
    let garbage = "exec 3<>/dev/tcp/127.0.0.1/$port; head -c 100000 /dev/urandom >&3; exec 3>&-\n\
        ask /v1/messages 'no JSON' > /dev/null; ask /elsewhere '{\"messages\":[]}' > /dev/null\n\
        printf '\\033]0;owned\\007 \\xff\\xfe'";
    let client = client(&env, "printf '\\033[31mgarbage'", garbage);
    let ran = probe(&env, &client, &[]).code(5);
    assert!(ran.stdout.lines().all(|l| l.starts_with("could not be checked: ")), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{7}'), "{:?}", ran.stdout);
    let report = probe(&env, &client, &["--json"]).code(5);
    assert!(!report.stdout.contains('\u{1b}'), "{}", report.stdout);
    assert_eq!(report.json()["clientVersion"], Value::Null);
}

#[test]
fn a_version_that_is_not_known_is_said() {
    let env = TestEnv::new();
    let client = client(&env, "echo 99.1.2", "exit 1");
    let report = probe(&env, &client, &["--json"]).code(5).json();
    assert_eq!(outcomes(&report)[0], ("version", "does-not-hold"));
    assert!(seen(&report, "version").contains("99.1.2 is newer"), "{report}");
}

#[test]
fn a_client_that_cannot_be_started_is_a_fault() {
    let env = TestEnv::new();
    let failed = |ran: Ran| {
        let document = ran.code(1).json();
        assert_eq!(document["fault"]["code"], "command-failed-to-start", "{document}");
    };
    failed(probe(&env, &env.path("nothing"), &["--json"]));
    let mut command = env.command(&["probe", "qwen", "--json"]);
    failed(Ran::from(command.env("PATH", env.path("home")).output().unwrap()));
    let plain = PathBuf::from(env.write("plain", "no program"));
    failed(probe(&env, &plain, &["--json"]));
    let client = client(&env, "exit 127", "true");
    failed(probe(&env, &client, &["--json"]));
    // It is found on `PATH` by its name.
    fs::rename(&client, env.path("work/claude")).unwrap();
    fs::write(env.path("work/claude"), "#!/bin/bash\necho 2.1.332\n").unwrap();
    let path = format!("{}:/usr/bin:/bin", env.path("work").display());
    let ran = Ran::from(env.command(&["probe", "claude", "--json"]).env("PATH", path).output().unwrap());
    assert_eq!(ran.code(5).json()["client"], env.path("work/claude").display().to_string());
    let _ = env.run(&["probe", "reasonix"]).code(2);
}

#[test]
fn the_client_gets_nothing_of_the_callers_environment() {
    let env = TestEnv::new();
    let client = client(&env, KNOWN, "env > $HERE/env; pwd >> $HERE/env");
    let mut command = env.command(&["probe", "claude", "--client", client.to_str().unwrap()]);
    let secret = "sk-secret";
    for name in [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "HTTPS_PROXY",
    ] {
        command.env(name, secret);
    }
    let _ = Ran::from(command.output().unwrap()).code(5);
    let found = fs::read_to_string(env.path("work/env")).unwrap();
    assert!(!found.contains(secret) && !found.contains("AUTH_TOKEN"), "{found}");
    assert!(!found.contains(env.path("home").to_str().unwrap()), "{found}");
    assert!(
        found.contains("HTTPS_PROXY=http://127.0.0.1:9\n") && found.contains("ANTHROPIC_API_KEY=dummy\n"),
        "{found}"
    );
}
