//! Where Qwen Code keeps its sessions: `<runtime base>/projects/<sanitised cwd>/chats/<session id>.jsonl`.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

use crate::{
    refusal::{Code, Fault, Refusal, Result},
    store::{agents::is_in_reach, env::Env, file::read_small, state::unsafe_path},
};

/// More than any settings file holds.
const MAX_SETTINGS_BYTES: u64 = 4 * 1024 * 1024;

/// The two folders that everything of Qwen Code lies in.
#[derive(Clone, Debug)]
pub struct QwenDirs {
    /// Settings, the registry of live sessions, file histories: `QWEN_HOME`, else `~/.qwen`.
    pub home: PathBuf,
    /// Transcripts and writer locks: `QWEN_RUNTIME_DIR`, else the setting `advanced.runtimeOutputDir`, else `home`.
    pub runtime: PathBuf,
    /// What was left out of account, in words.
    pub notes: Vec<String>,
}

impl QwenDirs {
    /// The folders that the client would use if it were started in `cwd`.
    ///
    /// The setting is read from the project's `.qwen/settings.json` and then from the user's. The client's `.env`
    /// files, its system-wide settings and variables inside the setting are left out of account.
    ///
    /// # Errors
    /// `usage` if there is neither `QWEN_HOME` nor any home.
    pub fn from_env(env: &Env, cwd: &Path) -> Result<QwenDirs> {
        let home_dir = env.home.as_deref();
        let home = match (&env.qwen_home, home_dir) {
            (Some(dir), _) => absolute(dir, home_dir, cwd),
            (None, Some(home)) => home.join(".qwen"),
            (None, None) => {
                return Err(Refusal::new(Code::Usage, "there is no Qwen Code home: `HOME` is not set")
                    .hint("set `QWEN_HOME`, or name the transcript by its path")
                    .into());
            }
        };
        let mut notes = Vec::new();
        let runtime = match &env.qwen_runtime_dir {
            Some(dir) => absolute(dir, home_dir, cwd),
            None => [cwd.join(".qwen").join("settings.json"), home.join("settings.json")]
                .iter()
                .find_map(|file| runtime_setting(file, &mut notes))
                .map_or_else(|| home.clone(), |dir| absolute(Path::new(&dir), home_dir, cwd)),
        };
        Ok(QwenDirs { home, runtime, notes })
    }

    /// The folder of all projects.
    pub fn projects(&self) -> PathBuf {
        self.runtime.join("projects")
    }

    /// Where sessions lie that were started in `cwd`, which must be free of symlinks.
    pub fn chats_dir(&self, cwd: &Path) -> PathBuf {
        self.projects().join(sanitise_cwd(&cwd.to_string_lossy())).join("chats")
    }

    /// The registry of live sessions.
    pub fn registry(&self) -> PathBuf {
        self.home.join("sessions")
    }
}

/// A transcript in its place, where the client would look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The runtime base.
    pub base: PathBuf,
    /// `<base>/projects/<sanitised cwd>`.
    pub project_dir: PathBuf,
    /// The session, by the name of the file.
    pub session_id: String,
}

impl Place {
    /// The folder of the project's transcripts.
    pub fn chats(&self) -> PathBuf {
        self.project_dir.join("chats")
    }

    /// The client's writer lock for this session.
    pub fn lock_path(&self) -> PathBuf {
        // An id that matches the pattern stands for itself in the client's `encodeURIComponent`.
        self.base.join("tmp").join("session-writer-locks").join(format!("{}.lock", self.session_id))
    }
}

/// Whether a canonical path is that of a session that the client would find, and which one: a file
/// `<base>/projects/<folder>/chats/<session id>.jsonl`. Archived sessions are not in their place.
pub fn place_of(path: &Path) -> Option<Place> {
    let session_id = session_of_file_name(path.file_name()?.to_str()?)?.to_owned();
    let chats = path.parent().filter(|p| p.ends_with("chats"))?;
    let project_dir = chats.parent()?;
    let projects = project_dir.parent().filter(|p| p.ends_with("projects"))?;
    Some(Place { base: projects.parent()?.to_owned(), project_dir: project_dir.to_owned(), session_id })
}

/// The client's test for a session id: 32 to 36 hexadecimal digits and dashes.
pub fn is_session_id(id: &str) -> bool {
    (32..=36).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// The session that a file name of the `chats` folder stands for.
pub fn session_of_file_name(name: &str) -> Option<&str> {
    name.strip_suffix(".jsonl").filter(|id| is_session_id(id))
}

/// An id that is safe as a file name.
pub(crate) fn checked(session_id: &str) -> Result<&str> {
    if is_session_id(session_id) {
        return Ok(session_id);
    }
    Err(unsafe_path(Path::new(session_id), "is no session id"))
}

/// The client's name for a project: every UTF-16 unit outside `[A-Za-z0-9]` becomes a dash, so that a character
/// beyond the basic plane gives two.
pub fn sanitise_cwd(cwd: &str) -> String {
    let lowered = if cfg!(windows) { cwd.to_lowercase() } else { cwd.to_owned() };
    lowered
        .chars()
        .flat_map(|c| {
            let (c, n) = if c.is_ascii_alphanumeric() { (c, 1) } else { ('-', c.len_utf16()) };
            std::iter::repeat_n(c, n)
        })
        .collect()
}

/// A transcript file of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// The session.
    pub session_id: String,
    /// The file.
    pub path: PathBuf,
    /// Whether it lies in the archive, where the client does not resume it.
    pub archived: bool,
}

/// The transcripts in a `chats` folder and its archive, by the client's file name pattern, in the order of their
/// names. A folder that is not there holds none; symlinks and other special files are passed over.
///
/// # Errors
/// `io`.
pub fn sessions_in(chats: &Path) -> Result<Vec<SessionFile>> {
    let mut found = Vec::new();
    for (dir, archived) in [(chats.to_owned(), false), (chats.join("archive"), true)] {
        for (name, path) in entries_in_reach(&dir)? {
            let is_file = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
            if let Some(id) = session_of_file_name(&name).filter(|_| is_file) {
                found.push(SessionFile { session_id: id.to_owned(), path, archived });
            }
        }
    }
    found.sort_by(|a, b| (a.archived, &a.session_id).cmp(&(b.archived, &b.session_id)));
    Ok(found)
}

/// The `chats` folders of all projects, in the order of their names.
///
/// # Errors
/// `io`.
pub fn all_chats(projects: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs: Vec<_> = entries_in_reach(projects)?.into_iter().map(|(_, p)| p.join("chats")).collect();
    dirs.retain(|d| d.is_dir());
    dirs.sort();
    Ok(dirs)
}

/// Names and paths in a folder; none if it is not there. Names that are not Unicode are none of the client's.
pub(in crate::store::agents) fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let list = match fs::read_dir(dir) {
        Ok(list) => list,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(Fault::io("list", dir, e).into()),
    };
    let mut found = Vec::new();
    for entry in list {
        let entry = entry.map_err(|e| Fault::io("list", dir, e))?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

/// [`entries`] of a folder of sessions: none where this user cannot come to it.
pub(in crate::store::agents) fn entries_in_reach(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    if is_in_reach(dir) { entries(dir) } else { Ok(Vec::new()) }
}

/// The client's `resolvePath`: a leading `~`, then relative to the working directory; `.` and `..` taken out.
fn absolute(dir: &Path, home: Option<&Path>, cwd: &Path) -> PathBuf {
    let expanded = match (dir.to_str(), home) {
        (Some("~"), Some(home)) => home.to_owned(),
        (Some(text), Some(home)) if text.starts_with("~/") => home.join(text[2..].trim_start_matches('/')),
        _ => dir.to_owned(),
    };
    let mut path = PathBuf::new();
    for part in cwd.join(expanded).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path
}

fn runtime_setting(file: &Path, notes: &mut Vec<String>) -> Option<String> {
    let text = read_small(file, MAX_SETTINGS_BYTES).ok()?;
    let text = strip_comments(&String::from_utf8_lossy(&text));
    let Ok(settings) = serde_json::from_str::<Value>(&text) else {
        notes.push(format!("`{}` is no JSON; its settings are not used", file.display()));
        return None;
    };
    let dir = settings.get("advanced")?.get("runtimeOutputDir")?.as_str().filter(|d| !d.is_empty())?;
    if dir.contains('$') {
        notes.push(format!(
            "`advanced.runtimeOutputDir` of `{}` holds a variable; it is not used",
            file.display()
        ));
        return None;
    }
    Some(dir.to_owned())
}

/// JSON without its `//` and `/* */` comments, which the client allows in settings.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match (in_string, c, chars.peek()) {
            (true, '\\', _) => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            (false, '/', Some('/')) => {
                while chars.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            (false, '/', Some('*')) => {
                let mut last = ' ';
                chars.next();
                for c in chars.by_ref() {
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
                continue;
            }
            (_, '"', _) => in_string = !in_string,
            _ => {}
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f6f1f2e-1111-4222-8333-444455556666";

    #[test]
    fn a_project_is_named_by_its_sanitised_path() {
        assert_eq!(sanitise_cwd("/q/wörk d_1.2 😀"), "-q-w-rk-d-1-2---");
        assert_eq!(sanitise_cwd("/A/b"), if cfg!(windows) { "-a-b" } else { "-A-b" });
    }

    #[test]
    fn a_session_is_in_its_place_only_under_projects_and_chats() {
        let place = place_of(Path::new(&format!("/b/projects/-p/chats/{ID}.jsonl"))).unwrap();
        assert_eq!(place.base, Path::new("/b"));
        assert_eq!(place.project_dir, Path::new("/b/projects/-p"));
        assert_eq!(place.session_id, ID);
        assert_eq!(place.lock_path(), Path::new(&format!("/b/tmp/session-writer-locks/{ID}.lock")));
        for other in [
            format!("/b/projects/-p/chats/archive/{ID}.jsonl"),
            format!("/b/projects/-p/{ID}.jsonl"),
            format!("/b/other/-p/chats/{ID}.jsonl"),
            format!("/b/projects/-p/chats/{ID}.json"),
            "/b/projects/-p/chats/short.jsonl".to_owned(),
            format!("/b/projects/-p/chats/{}.jsonl", "g".repeat(36)),
        ] {
            assert_eq!(place_of(Path::new(&other)), None, "{other}");
        }
    }

    #[test]
    fn ids_that_could_lead_elsewhere_are_no_ids() {
        assert!(is_session_id(ID));
        for bad in ["", "..", "../../../../../../../../../../etc/x", &"a".repeat(31), &"a".repeat(37)] {
            assert!(!is_session_id(bad), "{bad}");
            assert_eq!(checked(bad).unwrap_err().code(), "unsafe-path");
        }
    }

    #[test]
    fn comments_are_taken_out_of_settings_and_strings_are_left_alone() {
        let text = "{ // one\n \"a\": \"x//y /* \\\" */\", /* two\n*/ \"b\": 1 }";
        let value: Value = serde_json::from_str(&strip_comments(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a": "x//y /* \" */", "b": 1}));
    }

    #[test]
    fn the_folders_follow_variables_then_settings_then_home() {
        let dir = tempfile::tempdir().unwrap();
        let (home, cwd) = (dir.path().join("h"), dir.path().join("p"));
        fs::create_dir_all(home.join(".qwen")).unwrap();
        fs::create_dir_all(cwd.join(".qwen")).unwrap();
        let env = |pairs: &[(&str, &str)]| {
            let mut env = Env { home: Some(home.clone()), ..Env::default() };
            for (name, value) in pairs {
                match *name {
                    "home" => env.qwen_home = Some(value.into()),
                    _ => env.qwen_runtime_dir = Some(value.into()),
                }
            }
            env
        };
        let dirs = |pairs: &[(&str, &str)]| {
            let d = QwenDirs::from_env(&env(pairs), &cwd).unwrap();
            (d.home, d.runtime)
        };
        let qwen = home.join(".qwen");
        assert_eq!(dirs(&[]), (qwen.clone(), qwen.clone()));
        assert_eq!(dirs(&[("home", "/x/../qh")]), ("/qh".into(), "/qh".into()));
        assert_eq!(dirs(&[("runtime", "~/rt")]), (qwen.clone(), home.join("rt")));
        let set = |file: PathBuf, value: &str| {
            fs::write(file, format!("{{\"advanced\":{{\"runtimeOutputDir\":\"{value}\"}}}} // end")).unwrap();
        };
        set(qwen.join("settings.json"), "user");
        assert_eq!(dirs(&[]), (qwen.clone(), cwd.join("user")));
        set(cwd.join(".qwen/settings.json"), "./ws");
        assert_eq!(dirs(&[]), (qwen.clone(), cwd.join("ws")));
        assert_eq!(dirs(&[("runtime", "/rt")]), (qwen.clone(), "/rt".into()));
        set(cwd.join(".qwen/settings.json"), "$HOME/x");
        let found = QwenDirs::from_env(&env(&[]), &cwd).unwrap();
        assert_eq!((found.runtime, found.notes.len()), (cwd.join("user"), 1));
        let without = QwenDirs::from_env(&Env::default(), &cwd).map(|d| d.home);
        assert_eq!(without.unwrap_err().code(), "usage");
    }
}
