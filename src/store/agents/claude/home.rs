//! Where Claude Code keeps its sessions: `<config>/projects/<folder>/<session id>.jsonl`.
//!
//! The folder's name comes from the client's working directory, but not in a way that can be turned round (`/a/b` and
//! `/a-b` share one), and long names end in a hash that depends on how the client was built. So no name is ever
//! computed: all folders are looked through, and what a session belongs to is what its own records say.
//!
//! Transcripts of subagents are no sessions: the newer layout has them in `<session id>/subagents/`, the older one beside
//! the sessions as `agent-<hex>.jsonl`, which is no session id.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    dialect,
    record::Agent,
    refusal::{Error, Result},
    store::{
        agents::qwen::home::{entries, entries_in_reach},
        env::Env,
        file::FileSource,
        git::Worktrees,
    },
    transcript::Source,
};

/// How much of a transcript is read until a record says where it was written. The first records are small, but a prompt
/// with a picture is not.
const HEADS: [u64; 3] = [16 * 1024, 256 * 1024, 16 * 1024 * 1024];

/// The folder that everything of Claude Code lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeDirs {
    /// `CLAUDE_CONFIG_DIR`, else `~/.claude`.
    pub config: PathBuf,
}

impl ClaudeDirs {
    /// The folder that the client would use if it were started in `cwd`; none if there is no home either.
    pub fn from_env(env: &Env, cwd: &Path) -> Option<ClaudeDirs> {
        let config = match &env.claude_config_dir {
            Some(dir) => cwd.join(dir),
            None => env.home.clone()?.join(".claude"),
        };
        Some(ClaudeDirs { config })
    }

    /// All sessions of this user, in the order of their paths. Symlinks and other special files are passed over, and a
    /// folder that two names lead to counts once.
    ///
    /// # Errors
    /// `io`. A project folder that this user may not read holds nothing that he could resume: it is passed over.
    pub fn sessions(&self) -> Result<Vec<SessionFile>> {
        let folders = entries_in_reach(&self.config.join("projects"))?;
        let folders: BTreeSet<PathBuf> =
            folders.into_iter().filter_map(|(_, path)| path.canonicalize().ok()).collect();
        let mut found = Vec::new();
        for folder in folders {
            let files = match entries(&folder) {
                Err(Error::Fault(f))
                    if f.source.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied) =>
                {
                    continue;
                }
                files => files?,
            };
            for (name, path) in files {
                let is_file = || fs::symlink_metadata(&path).is_ok_and(|m| m.is_file());
                if let Some(id) = session_of_file_name(&name).filter(|_| is_file()) {
                    found.push(SessionFile { session_id: id.to_owned(), path });
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

/// A transcript file of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile {
    /// The session, by the name of the file.
    pub session_id: String,
    /// The file.
    pub path: PathBuf,
}

/// A transcript in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `$CLAUDE_CONFIG_DIR`, by default `~/.claude`: whatever the variable says here, a client that has this file open
    /// registers there.
    pub config: PathBuf,
    /// The session, by the name of the file: that is how the client looks it up.
    pub session_id: String,
}

/// Whether a canonical path is that of a session that the client would find, and which one.
pub fn place_of(path: &Path) -> Option<Place> {
    let session_id = session_of_file_name(path.file_name()?.to_str()?)?;
    let projects = path.parent()?.parent().filter(|p| p.ends_with("projects"))?;
    Some(Place { config: projects.parent()?.to_owned(), session_id: session_id.to_owned() })
}

/// The session that a file name of a project folder stands for.
pub fn session_of_file_name(name: &str) -> Option<&str> {
    let id = name.strip_suffix(".jsonl")?;
    (id.len() == 36 && uuid::Uuid::try_parse(id).is_ok()).then_some(id)
}

/// The current project: which working directories of sessions belong to it.
#[derive(Debug)]
pub struct Project {
    cwd: PathBuf,
    worktrees: Option<Worktrees>,
}

impl Project {
    /// The project of a working directory, which must be free of symlinks.
    pub fn of(cwd: &Path) -> Project {
        Project { cwd: cwd.to_owned(), worktrees: Worktrees::of(cwd) }
    }

    /// Whether a session that was started in `dir` belongs to it: that is the working directory itself, the same folder
    /// in another worktree of its repository, or in one of those that the client makes under `.claude/worktrees/` and
    /// that may be gone by now.
    pub fn has(&self, dir: &Path) -> bool {
        let Some(trees) = &self.worktrees else { return dir == self.cwd };
        let in_tree =
            |root: &PathBuf| dir.strip_prefix(root).is_ok_and(|below| in_worktree(below) == trees.below);
        dir == self.cwd || trees.roots.iter().any(in_tree)
    }

    /// Whether a session belongs to it, by the first of its records that has a working directory. One of which none
    /// has, or that cannot be read, belongs to no project.
    pub fn has_session(&self, transcript: &Path) -> bool {
        first_cwd(transcript).is_some_and(|dir| self.has(Path::new(&dir)))
    }
}

/// The part of a path below a repository that is below one of the client's worktrees there, if it is in one.
fn in_worktree(below: &Path) -> &Path {
    let Ok(named) = below.strip_prefix(".claude/worktrees") else { return below };
    let mut parts = named.components();
    if parts.next().is_some() { parts.as_path() } else { below }
}

/// The working directory of the first record that has one.
fn first_cwd(transcript: &Path) -> Option<String> {
    let dialect = dialect::of(Agent::Claude);
    for head in HEADS {
        let mut source = FileSource::open(transcript).ok()?;
        let whole = source.len();
        source.truncate_to(head);
        let read = dialect.read(&source).ok()?;
        if read.first_cwd.is_some() || whole <= head {
            return read.first_cwd;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f6f1f2e-1111-4222-8333-444455556666";

    #[test]
    fn a_session_is_in_its_place_only_two_folders_below_the_configuration() {
        let place = place_of(Path::new(&format!("/c/projects/-p/{ID}.jsonl"))).unwrap();
        assert_eq!((place.config.as_path(), place.session_id.as_str()), (Path::new("/c"), ID));
        for other in [
            format!("/c/projects/-p/chats/{ID}.jsonl"),
            format!("/c/projects/-p/{ID}/subagents/agent-0123456789abcdef0.jsonl"),
            "/c/projects/-p/agent-01234567.jsonl".to_owned(),
            format!("/c/other/-p/{ID}.jsonl"),
            format!("/c/projects/-p/{}.jsonl", ID.replace('-', "")),
        ] {
            assert_eq!(place_of(Path::new(&other)), None, "{other}");
        }
    }

    #[test]
    fn the_folder_is_that_of_the_variable_else_of_the_home() {
        let env = |config: Option<&str>, home: Option<&str>| Env {
            claude_config_dir: config.map(PathBuf::from),
            home: home.map(PathBuf::from),
            ..Env::default()
        };
        let dirs = |env: &Env| ClaudeDirs::from_env(env, Path::new("/w")).unwrap().config;
        assert_eq!(dirs(&env(None, Some("/h"))), Path::new("/h/.claude"));
        assert_eq!(dirs(&env(Some("/c"), Some("/h"))), Path::new("/c"));
        assert_eq!(dirs(&env(Some("c"), None)), Path::new("/w/c"));
    }

    #[test]
    fn worktrees_of_one_repository_are_one_project() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (repo, tree) = (root.join("repo"), root.join("tree"));
        for d in [repo.join(".git/worktrees/tree"), repo.join("sub"), tree.join("sub")] {
            fs::create_dir_all(d).unwrap();
        }
        fs::write(tree.join(".git"), format!("gitdir: {}/.git/worktrees/tree\n", repo.display())).unwrap();
        fs::write(repo.join(".git/worktrees/tree/commondir"), "../..\n").unwrap();
        fs::write(repo.join(".git/worktrees/tree/gitdir"), format!("{}/.git\n", tree.display())).unwrap();
        for here in [&repo, &tree] {
            let project = Project::of(here);
            let gone = repo.join(".claude/worktrees/gone");
            for dir in [&repo, &tree, &gone] {
                assert!(project.has(dir), "{} in {}", dir.display(), here.display());
            }
            for dir in [
                &root,
                &repo.join("sub"),
                &gone.join("sub"),
                &root.join("repo2"),
                &repo.join(".claude/worktrees"),
            ] {
                assert!(!project.has(dir), "{} in {}", dir.display(), here.display());
            }
        }
        let sub = Project::of(&repo.join("sub"));
        assert!(
            sub.has(&tree.join("sub")) && !sub.has(&tree) && sub.has(&repo.join(".claude/worktrees/x/sub"))
        );
        let outside = Project::of(&root);
        assert!(outside.has(&root) && !outside.has(&repo));
    }
}
