//! The branch that a project folder is on, read from its files; git itself is not run.

use std::path::{Path, PathBuf};

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
