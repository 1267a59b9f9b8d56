//! The `policy` commands through the built binary.

use std::{fs, path::Path};

use crate::support::{TestEnv, fixture};

const POLICY: &str = "version = 1\nreason = 'r'\n[[rule]]\nname = 'one'\nreason = 'b'\n";

#[test]
fn an_invalid_policy_is_exit_2_with_its_words_on_stderr() {
    let env = TestEnv::new();
    let path = fixture("policies/invalid/unknown-key-rule.toml").display().to_string();
    let ran = env.run(&["policy", "check", &path]).code(2);
    assert_eq!(ran.stdout, "");
    let expected = format!(
        "error: {path}:7:1: unknown key in `[[rule]]`: `marginn`, did you mean `margin`?\n\
         7 | marginn = \"10m\"\n  | ^^^^^^^\n  \
         = allowed: `name`, `reason`, `when`, `keep`, `order`, `margin`, `tie`\n"
    );
    assert_eq!(ran.stderr, expected);
    let json = env.run(&["policy", "check", &path, "--json"]).code(2).json();
    assert_eq!(json["refusal"]["code"], "policy-invalid");
    let problem = &json["refusal"]["detail"]["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&7.into(), &1.into()));
}

#[test]
fn the_shipped_policies_are_tested_in_one_call() {
    let env = TestEnv::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    let files: Vec<String> = ["ask.toml", "newest.toml", "strict.toml"]
        .iter()
        .map(|name| folder.join(name).display().to_string())
        .collect();
    let mut args = vec!["policy", "test"];
    args.extend(files.iter().map(String::as_str));
    let ran = env.run(&args).code(0);
    assert_eq!((ran.stdout.matches(" is valid").count(), ran.stderr.as_str()), (3, ""));
    let broken = env.write("broken.toml", format!("{POLICY}[[example]]\ninline = '{{}}'\nleaf = 'x'\n"));
    args.push(&broken);
    let ran = env.run(&args).code(2);
    assert!(ran.stdout.contains("FAILED, expected leaf `x`, found `no-leaf`"), "{}", ran.stdout);
    // Escapes and bidirectional controls of a policy reach nobody's terminal, as text or as JSON.
    let hostile = env.write("hostile.toml", "version = 1\nname = \"\u{202e}\"\nreason = \"\u{9b}2J\"\n");
    for args in [vec!["policy", "test", &hostile], vec!["policy", "test", &hostile, "--json"]] {
        let ran = env.run(&args).code(2);
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!ran.stdout.contains(bad) && !ran.stderr.contains(bad), "{ran:?}");
    }
}

#[test]
fn the_project_s_policy_is_what_trust_means_by_default() {
    let env = TestEnv::new();
    let error = env.run(&["policy", "trust"]).code(1);
    assert!(error.stderr.contains("policy.toml"), "{}", error.stderr);
    env.write("work/.offshoot/policy.toml", POLICY);
    let ran = env.run(&["policy", "trust", "--json"]).code(0).json();
    assert_eq!((&ran["schema"], &ran["trusted"]), (&"offshoot.policy-trust/1".into(), &true.into()));
    let kept = fs::read_to_string(env.path("state/trust.json")).unwrap();
    assert!(kept.contains(ran["digest"].as_str().unwrap()), "{kept}");
    let revoked = env.run(&["policy", "trust", "--revoke"]).code(0);
    assert_eq!(revoked.stdout, "`.offshoot/policy.toml` is no longer trusted\n");
    let again = env.run(&["policy", "trust", "--revoke"]).code(2);
    assert_eq!(again.stderr, "error: `.offshoot/policy.toml` is not trusted\n");
}

/// A shipped session, moved into the folder of this test.
fn session(env: &TestEnv, name: &str) -> String {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/examples").join(name);
    let project = env.path("work").display().to_string();
    let text = fs::read_to_string(shipped).unwrap();
    assert!(text.contains("/home/ada/parcel-api"));
    env.write(&format!("sessions/{name}"), text.replace("/home/ada/parcel-api", &project))
}

#[test]
fn explain_judges_a_session_by_what_resume_would_read() {
    let env = TestEnv::new();
    let file = session(&env, "two-branches.jsonl");
    let before = fs::read(&file).unwrap();
    env.write("work/.git/HEAD", "ref: refs/heads/main\n");
    let policy = env.write(
        "p.toml",
        "version = 1\nreason = 'r'\n[[rule]]\nname = 'here'\nreason = 'b'\n\
         keep = { git_branch = 'current' }\norder = 'oldest'\n",
    );
    let ran = env.run(&["policy", "explain", &policy, &file]).code(0);
    let chosen = "verdict: leaf `a3000000-0000-4000-8000-000000000000` by rule `here`: b\n";
    assert!(ran.stdout.contains(chosen), "{}", ran.stdout);
    let json = env.run(&["policy", "explain", &policy, &file, "--json"]).code(0).json();
    assert_eq!(json["schema"], "offshoot.policy-explain/1");
    assert_eq!(json["inputs"]["gitBranch"], "main");
    assert_eq!(json["inputs"]["clientVersion"], "0.24.4");
    let hidden = env.run(&["policy", "explain", &policy, &file, "--json", "--redact"]).code(0).json();
    assert_eq!((&hidden["inputs"]["gitBranch"], &hidden["inputs"]["cwd"]), (&().into(), &().into()));
    assert_eq!(hidden["outcome"], json["outcome"]);
    // On another branch the leaves are not those of the checked-out one.
    env.write("work/.git/HEAD", "ref: refs/heads/other\n");
    let ran = env.run(&["policy", "explain", &policy, &file]).code(0);
    assert!(ran.stdout.contains("verdict: `policy-no-match`"), "{}", ran.stdout);
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(!env.path("state/ledger").exists(), "nothing is recorded");
}

#[test]
fn resume_refuses_by_policy_with_its_trace() {
    let env = TestEnv::new();
    let shipped =
        |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("policies").join(name).display().to_string();
    for (policy, name, code) in [
        ("strict.toml", "two-branches.jsonl", "policy-no-match"),
        ("newest.toml", "two-writers.jsonl", "policy-ambiguous"),
        ("ask.toml", "two-branches.jsonl", "not-a-terminal"),
    ] {
        let file = session(&env, name);
        let args = ["resume", &file, "--policy", &shipped(policy), "--json"];
        let json = env.run(&args).code(3).json();
        assert_eq!(json["refusal"]["code"], code, "{json}");
        assert_eq!(json["refusal"]["detail"]["trace"].as_array().unwrap().len(), 1, "{json}");
    }
    let file = session(&env, "two-branches.jsonl");
    let json = env.run(&["resume", &file, "--policy", &shipped("most-work.toml"), "--json"]).code(0).json();
    assert_eq!(json["leafUuid"], "a3000000-0000-4000-8000-000000000000");
    assert_eq!(json["decidedBy"]["policy"]["rule"], "most-messages");
}

#[test]
fn a_cloned_repository_does_not_steer_an_unattended_resume() {
    let env = TestEnv::new();
    let file = session(&env, "two-branches.jsonl");
    let policy = env.write(
        "work/.offshoot/policy.toml",
        "version = 1\nreason = 'r'\n[[rule]]\nname = 'last'\nreason = 'b'\norder = 'file-last'\n",
    );
    let ran = env.run(&["resume", &file, "--seed", "none"]).code(3);
    assert!(ran.stderr.contains("is not trusted and was not used"), "{}", ran.stderr);
    assert!(ran.stderr.contains("error: the session has 2 leaves"), "{}", ran.stderr);
    let trusted = env.run(&["policy", "trust"]).code(0);
    assert!(trusted.stdout.contains("is trusted as it is now"), "{}", trusted.stdout);
    let json = env.run(&["resume", &file, "--seed", "none", "--json"]).code(0).json();
    assert_eq!(json["decidedBy"]["policy"]["rule"], "last");
    fs::write(&policy, fs::read_to_string(&policy).unwrap() + "# edited\n").unwrap();
    let ran = env.run(&["resume", &file, "--seed", "none"]).code(3);
    assert!(ran.stderr.contains("is not trusted and was not used"), "{}", ran.stderr);
}
