//! Policy files on disk: reading, trusting, and which of them counts.

use std::{fs, path::Path};

use offshoot::{
    cli::policy,
    refusal::Code,
    store::{
        policy_file::{self, Origin, Places, lookup, of_project},
        trust,
    },
};

const POLICY: &str = "version = 1\nreason = 'r'\n[[rule]]\nname = 'one'\nreason = 'b'\n";

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn reading_gives_text_and_digest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    write(&path, POLICY);
    let (text, digest) = policy_file::read(&path).unwrap();
    assert_eq!((text.as_str(), digest), (POLICY, format!("blake3:{}", blake3::hash(POLICY.as_bytes()))));
    assert_eq!(policy_file::read(&dir.path().join("none")).unwrap_err().code(), "io");
    assert_eq!(policy_file::read(dir.path()).unwrap_err().refusal(), Some(Code::UnsafePath));
    #[cfg(unix)]
    {
        let link = dir.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(policy_file::read(&link).unwrap().0, POLICY, "a link to a file is followed");
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(
            policy_file::read(&pipe).unwrap_err().refusal(),
            Some(Code::UnsafePath),
            "nor does it hang"
        );
    }
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let refused = |bytes: &[u8]| {
        write(&path, bytes);
        let error = policy_file::read(&path).unwrap_err();
        assert_eq!(error.refusal(), Some(Code::PolicyInvalid));
        error.to_string().replace(&path.display().to_string(), "p.toml")
    };
    assert_eq!(
        refused("version = 1\n# ü \u{e9}".as_bytes().strip_suffix(&[0xa9]).unwrap()),
        "p.toml:2:5: byte 0xc3 is not UTF-8"
    );
    assert_eq!(refused(b"\xff\xfev\0"), "p.toml:1:1: this looks like UTF-16; a policy is UTF-8");
    let large = refused(&vec![b' '; (1 << 20) + 1]);
    assert_eq!(large, "p.toml:1:1: larger than 1048576 bytes, which no policy is");
    write(&path, vec![b' '; 1 << 20]);
    assert!(policy_file::read(&path).is_ok());
}

#[test]
fn the_first_place_that_has_a_policy_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (project, config, root) =
        (dir.path().join("project"), dir.path().join("config"), dir.path().join("state"));
    let named = dir.path().join("named.toml");
    let places = |environment, interactive| Places {
        environment,
        project: Some(project.as_path()),
        config: Some(config.as_path()),
        interactive,
    };
    let none = lookup(&places(None, true), &root).unwrap();
    assert_eq!((none.found, none.skipped_untrusted), (None, None));
    assert!(!root.exists(), "looking makes nothing");

    write(&config.join("policy.toml"), POLICY);
    let found = lookup(&places(None, false), &root).unwrap().found.unwrap();
    assert_eq!((found.origin, found.path), (Origin::Config, config.join("policy.toml")));

    // On a terminal the project's own; without one it is passed over, and that is said.
    let own = of_project(&project);
    write(&own, POLICY);
    let found = lookup(&places(None, true), &root).unwrap().found.unwrap();
    assert_eq!((found.origin, &found.path), (Origin::Project, &own));
    let search = lookup(&places(None, false), &root).unwrap();
    assert_eq!(search.found.unwrap().origin, Origin::Config);
    assert_eq!(search.skipped_untrusted.as_ref(), Some(&own));

    // Once trusted it counts, and no longer when it was edited.
    policy::trust(&root, &own, false, false).unwrap();
    let search = lookup(&places(None, false), &root).unwrap();
    assert_eq!((search.found.unwrap().origin, search.skipped_untrusted), (Origin::Project, None));
    write(&own, format!("{POLICY}# edited\n"));
    let search = lookup(&places(None, false), &root).unwrap();
    assert_eq!(search.found.unwrap().origin, Origin::Config);
    assert_eq!(search.skipped_untrusted.as_ref(), Some(&own));
    // An untrusted file cannot stop an unattended run either, whatever is in it; a person is told.
    write(&own, b"\xff");
    assert_eq!(lookup(&places(None, false), &root).unwrap().found.unwrap().origin, Origin::Config);
    assert_eq!(lookup(&places(None, true), &root).unwrap_err().refusal(), Some(Code::PolicyInvalid));

    // The environment names a file, which must be there.
    assert_eq!(lookup(&places(Some(&named), false), &root).unwrap_err().code(), "io");
    write(&named, POLICY);
    assert_eq!(
        lookup(&places(Some(&named), false), &root).unwrap().found.unwrap().origin,
        Origin::Environment
    );
}

#[test]
fn trust_is_a_path_and_a_digest() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let (a, b) = (Path::new("/p/a.toml"), Path::new("/p/b.toml"));
    let trusted = |path: &Path, digest: &str| trust::is_trusted(&root, path, digest).unwrap();
    assert!(!trusted(a, "blake3:1"));
    trust::trust(&root, a, "blake3:1").unwrap();
    trust::trust(&root, b, "blake3:2").unwrap();
    assert!(trusted(a, "blake3:1") && trusted(b, "blake3:2"));
    assert!(!trusted(a, "blake3:2") && !trusted(b, "blake3:1"), "neither moves to another file");
    trust::trust(&root, a, "blake3:3").unwrap();
    assert!(trusted(a, "blake3:3") && !trusted(a, "blake3:1"), "the newer text takes the place of the older");
    assert_eq!(trust::load(&root).unwrap().len(), 2);
    assert!(trust::revoke(&root, a).unwrap());
    assert!(!trust::revoke(&root, a).unwrap());
    assert!(!trusted(a, "blake3:3") && trusted(b, "blake3:2"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(root.join("trust.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    for text in ["", "[]", "{\"schema\":\"offshoot.trust/2\",\"policies\":[]}"] {
        fs::write(root.join("trust.json"), text).unwrap();
        assert_eq!(trust::is_trusted(&root, b, "blake3:2").unwrap_err().code(), "damaged", "{text}");
    }
}

#[test]
fn trusting_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("state");
    let file = dir.path().join("p.toml");
    write(&file, "version = 1\n");
    assert_eq!(policy::trust(&root, &file, false, false).unwrap_err().refusal(), Some(Code::PolicyInvalid));
    assert!(!root.exists(), "an invalid policy is not trusted");
    write(&file, POLICY);
    let digest = format!("blake3:{}", blake3::hash(POLICY.as_bytes()));
    let report = policy::trust(&root, &file, false, true).unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.stdout.to_string()).unwrap();
    assert_eq!((&json["trusted"], &json["digest"]), (&true.into(), &digest.as_str().into()));
    let canonical = policy_file::canonical(&file).unwrap();
    assert!(trust::is_trusted(&root, &canonical, &digest).unwrap());
    // Also after the file is gone.
    fs::remove_file(&file).unwrap();
    policy::trust(&root, &file, true, false).unwrap();
    assert!(!trust::is_trusted(&root, &canonical, &digest).unwrap());
    assert_eq!(policy::trust(&root, &file, true, false).unwrap_err().refusal(), Some(Code::Usage));
}
