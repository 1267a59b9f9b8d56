//! Which program the commands run, as a word of a shell.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    refusal::{Error, Result},
    store::state::unsafe_path,
};

/// The absolute path of this program, quoted for a shell: an agent's shell may have another `PATH`, and a permission should
/// name one program. Where `PATH` leads to this very file the path through it is taken, since that one stays the same
/// when a package manager puts another version behind it.
///
/// # Errors
/// `unsafe-path` where the path holds what the clients would take for a placeholder of theirs; `io`.
pub fn program() -> Result<String> {
    let exe = env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let real = exe.canonicalize().map_err(Error::io("resolve", &exe))?;
    quoted(&on_path(&real).unwrap_or(exe))
}

fn on_path(real: &Path) -> Option<PathBuf> {
    let name = format!("offshoot{}", env::consts::EXE_SUFFIX);
    let dirs = env::var_os("PATH")?;
    let mut named = env::split_paths(&dirs).filter(|dir| dir.is_absolute()).map(|dir| dir.join(&name));
    named.find(|path| path.canonicalize().is_ok_and(|found| found == real))
}

fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| unsafe_path(path, "is not UTF-8"))?;
    // The shell of Claude Code on Windows is Git's, which takes slashes.
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    if text.chars().any(|c| c.is_control() || "`$\\{}".contains(c)) {
        return Err(unsafe_path(path, "has characters that mean something in an agent's command file"));
    }
    match shlex::try_quote(&text) {
        Ok(word) => Ok(word.into_owned()),
        Err(_) => Err(unsafe_path(path, "cannot be written as a word of a shell")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_quotes_are_kept_from_the_shell_and_placeholders_are_refused() {
        for path in
            ["/a b/it's/offshoot", "/a\"b/offshoot", "/a;rm -rf/offshoot", "/usr/bin/offshoot", "/a!b&c/*"]
        {
            let word = quoted(Path::new(path)).unwrap();
            assert_eq!(shlex::split(&word).unwrap(), [path], "{word}");
        }
        assert_eq!(quoted(Path::new("/usr/bin/offshoot")).unwrap(), "/usr/bin/offshoot");
        for path in ["/$ARGUMENTS/x", "/{{args}}/x", "/!`id`/x", "/a\nb/x", "/!{id}/x", "/a\u{1b}b/x"] {
            assert_eq!(quoted(Path::new(path)).unwrap_err().code(), "unsafe-path", "{path}");
        }
    }
}
