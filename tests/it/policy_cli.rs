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
