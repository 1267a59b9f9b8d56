//! The client simulation where no measured case goes.

use super::*;

fn system(uuid: &str, parent: Option<&str>, subtype: &str) -> String {
    record(uuid, parent).replace(r#""type":"user""#, &format!(r#""type":"system","subtype":"{subtype}""#))
}

fn lines(records: &[String]) -> String {
    records.iter().map(|r| format!("{r}\n")).collect()
}

#[track_caller]
fn refuses(bytes: impl AsRef<[u8]>, client: &Client, word: &str) {
    match simulate::simulate(&t(bytes), client) {
        Simulated::Refuses(why) => assert!(why.contains(word), "{why}"),
        Simulated::Resumes(r) => panic!("resumes: {r:?}"),
    }
}

fn resumed(bytes: impl AsRef<[u8]>, client: &Client) -> crate::dialect::Resumed {
    match simulate::simulate(&t(bytes), client) {
        Simulated::Resumes(r) => r,
        Simulated::Refuses(why) => panic!("refuses: {why}"),
    }
}

#[test]
fn the_last_conversation_record_is_the_tail_whatever_its_time() {
    let text = lines(&[
        record("a", None),
        record("b", Some("a")),
        record("c", Some("a")),
        system("x", Some("b"), "session_artifact_event"),
        system("y", Some("b"), "session_sources_snapshot"),
    ]);
    assert_eq!(pick(text), ("c".into(), vec!["a".into(), "c".into()]));
}

#[test]
fn the_first_record_of_a_uuid_that_the_client_sees_gives_the_parent() {
    // The artifact of the same uuid stands first, but not for the client.
    let text = lines(&[
        record("a", None),
        record("b", None),
        system("c", Some("a"), "session_artifact_event"),
        record("c", Some("b")),
        record("c", Some("a")),
    ]);
    assert_eq!(pick(text), ("c".into(), vec!["b".into(), "c".into()]));
}

#[test]
fn a_record_below_an_unseen_one_is_an_orphan() {
    let text = lines(&[
        record("a", None),
        system("b", Some("a"), "session_artifact_snapshot"),
        record("c", Some("b")),
    ]);
    let (t, r) = (t(&text), resumed(&text, &Client::default()));
    assert_eq!(r.history.len(), 1);
    let gap = r.gap.unwrap();
    assert_eq!((t.id(gap.child).as_str(), t.id(gap.missing).as_str()), ("c", "b"));
}

#[test]
fn an_empty_parent_is_a_root_for_the_client() {
    let text = lines(&[record("a", None), record("b", Some(""))]);
    let r = resumed(&text, &Client::default());
    assert_eq!((r.history.len(), r.gap), (1, None));
}

#[test]
fn a_cycle_is_cut_where_the_walk_meets_itself() {
    for (parents, history) in [(["b", "a"], 2), (["a", "b"], 1)] {
        let text = lines(&[record("a", Some(parents[0])), record("b", Some(parents[1]))]);
        let r = resumed(&text, &Client::default());
        assert_eq!((r.history.len(), r.cycle, r.gap), (history, true, None));
    }
}

#[test]
fn what_the_client_does_not_load_is_refused() {
    let any = Client::default();
    refuses("", &any, "no JSON object");
    refuses("garbage\n[1]\n", &any, "no JSON object");
    refuses(lines(&[system("a", None, "session_artifact_event")]), &any, "no conversation record");
    refuses(r#"{"cwd":"/w"}"#, &any, "no conversation record");
    refuses(
        lines(&[record("a", None), record("b", None).replace("\"s\"", "\"z\"")]),
        &any,
        "more than one session",
    );
    refuses(lines(&[record("a", None), system("b", None, "managed_session_header_v1")]), &any, "managed");
    for cwd in ["7", "null", "[\"/w\"]"] {
        refuses(lines(&[record("a", None).replace("\"/w\"", cwd)]), &any, "TypeError");
    }
}

#[test]
fn the_first_object_decides_whose_session_it_is_even_if_it_is_no_record() {
    refuses(lines(&[r#"{"a":1}"#.into(), record("a", None)]), &Client::default(), "TypeError");
    let text = lines(&["[1]".into(), r#"{"cwd":"/other"}"#.into(), record("a", None)]);
    refuses(&text, &Client { project: Some("/w".into()), ..Client::default() }, "another project");
    assert_eq!(
        resumed(&text, &Client { project: Some("/other".into()), ..Client::default() }).history.len(),
        1
    );
}

#[test]
fn a_worktree_of_the_project_and_a_sidecar_that_names_it_own_the_session_too() {
    let at = |cwd: &str| lines(&[record("a", None).replace("\"/w\"", &format!("\"{cwd}\""))]);
    let client = |project: &str, runtime: Option<&str>| Client {
        project: Some(project.into()),
        runtime_dir: runtime.map(str::to_owned),
        ..Client::default()
    };
    resumed(at("/w/.qwen/worktrees/x"), &client("/w", None));
    resumed(at("/w/.qwen/worktrees/x/.qwen/worktrees/y"), &client("/w/.qwen/worktrees/x", None));
    refuses(at("/w/.qwen/worktrees/x/.qwen/worktrees/y"), &client("/w", None), "another project");
    refuses(at("/.qwen/worktrees/x"), &client("", None), "another project");
    refuses(at("/v"), &client("/w", None), "another project");
    refuses(at("/v"), &client("/w", Some("/u")), "another project");
    resumed(at("/v"), &client("/w", Some("/w")));
}

#[test]
fn the_version_is_the_callers_else_the_highest_of_the_file() {
    let text = lines(&[record("a", None)]);
    assert_eq!(resumed(&text, &Client::default()).version, "0.24.4");
    let client = Client { version: Some("0.30.0".into()), ..Client::default() };
    assert_eq!(resumed(&text, &client).version, "0.30.0");
    assert_eq!(resumed(text.replace("0.24.4", "dev"), &Client::default()).version, "");
}
