//! The branch that a project folder is on, and the worktrees of its repository, read from files; git itself is not run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::file::read_small;

/// More than any `HEAD` or `.git` file holds.
const LARGEST: u64 = 64 * 1024;

/// The branch named by `HEAD` of the repository that `dir` lies in. None outside a repository, on a detached head,
/// and where anything cannot be read: a policy that asks for the current branch then keeps nothing.
pub fn current_branch(dir: &Path) -> Option<String> {
    let dot_git = dir.ancestors().map(|d| d.join(".git")).find(|p| p.exists())?;
    let head = text(&git_dir(&dot_git)?.join("HEAD"))?;
    let branch = head.trim_end().strip_prefix("ref: refs/heads/")?;
    (!branch.is_empty()).then(|| branch.to_owned())
}

/// No repository has more worktrees than are looked at here.
const MOST_WORKTREES: usize = 1000;

/// A folder in a repository, seen from all worktrees of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktrees {
    /// The folder, from the root of its worktree.
    pub below: PathBuf,
    /// The roots of all worktrees that the repository knows, this one first. They need not be there any more.
    pub roots: Vec<PathBuf>,
}

impl Worktrees {
    /// Those of the repository that `dir`, a path without symlinks, lies in; none outside of one.
    pub fn of(dir: &Path) -> Option<Worktrees> {
        let root = dir.ancestors().find(|d| d.join(".git").exists())?;
        let git = git_dir(&root.join(".git"))?;
        let common =
            text(&git.join("commondir")).map_or_else(|| git.clone(), |named| git.join(named.trim_end()));
        let common = common.canonicalize().ok()?;
        let mut roots = vec![root.to_owned()];
        let mut add = |found: Option<&Path>| {
            if let Some(found) = found.filter(|f| !roots.iter().any(|r| r == f)) {
                roots.push(found.to_owned());
            }
        };
        add(common.parent().filter(|_| common.ends_with(".git")));
        for entry in
            fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten().take(MOST_WORKTREES)
        {
            let Some(named) = text(&entry.path().join("gitdir")) else { continue };
            let dot_git = entry.path().join(named.trim_end());
            // The file is gone with a worktree that was removed by hand.
            let tree = dot_git.parent().map(|tree| tree.canonicalize().unwrap_or_else(|_| tree.to_owned()));
            add(tree.as_deref());
        }
        Some(Worktrees { below: dir.strip_prefix(root).ok()?.to_owned(), roots })
    }
}

/// A worktree has a file `.git` that names the folder.
fn git_dir(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let file = text(dot_git)?;
    let named = file.trim_end().strip_prefix("gitdir: ")?;
    Some(dot_git.parent()?.join(named))
}

fn text(path: &Path) -> Option<String> {
    String::from_utf8(read_small(path, LARGEST).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn branches_worktrees_and_detached_heads() {
        let dir = tempfile::tempdir().unwrap();
        let (repo, tree) = (dir.path().join("repo"), dir.path().join("tree"));
        for d in [repo.join(".git/worktrees/tree"), repo.join("src/deep"), tree.clone()] {
            fs::create_dir_all(d).unwrap();
        }
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/fix/lock\n").unwrap();
        assert_eq!(current_branch(&repo.join("src/deep")).as_deref(), Some("fix/lock"));
        fs::write(tree.join(".git"), "gitdir: ../repo/.git/worktrees/tree\n").unwrap();
        fs::write(repo.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/other\n").unwrap();
        assert_eq!(current_branch(&tree).as_deref(), Some("other"));
        fs::write(repo.join(".git/HEAD"), "0123456789abcdef0123456789abcdef01234567\n").unwrap();
        assert_eq!(current_branch(&repo), None);
        assert_eq!(current_branch(dir.path()), None);
    }
}
