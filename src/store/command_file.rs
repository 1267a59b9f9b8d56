//! The files that make our slash commands known to an agent. They lie in a folder of the agent's user, among others:
//! none is written over or removed but one that we wrote and that nobody changed since.
//!
//! A file of ours says so in its second line, a comment of the front matter that no client passes on:
//! `# offshoot slash-command <version> made=<n> blake3:<digest>`. The digest covers the version, `n` and all other bytes.
//! `n` counts the folders that were missing when it was installed (the commands' own, the agent's above it, and so on), which
//! go with it again if nothing else lies in them.

use std::{
    fs::{self, Metadata},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::json;

use super::{
    atomic::{PublishOutcome, Staged, remove_if_there, sync_dir},
    faults,
    private::check_dir,
    signals,
    state::unsafe_path,
};
use crate::refusal::{Code, Error, Fault, Refusal, Result};

/// The version of the marker line and of what it means.
pub const VERSION: u32 = 1;

/// What every file begins with, which is where front matter begins.
const OPENING: &str = "---\n";
const MARK: &str = "# offshoot slash-command ";
/// No command file comes near this size.
const MOST_BYTES: u64 = 256 * 1024;

/// A file as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFile {
    /// Its name in the folder.
    pub name: &'static str,
    /// Its text without the marker line; it begins with front matter.
    pub text: String,
}

/// What was done with a file, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// It was not there.
    Created,
    /// An earlier one of ours was.
    Replaced,
    /// It is there as it is to be.
    Unchanged,
    /// It was there, and is not any more.
    Removed,
    /// It is not there.
    Absent,
    /// What has the name is not ours, and stays.
    Left,
}

/// What has the name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Absent,
    /// Ours, as it was written, when so many folders were missing.
    Ours {
        made: u32,
        text: String,
    },
    Edited,
    Newer(u64),
    /// A file that does not say that it is ours.
    Foreign,
    /// No file.
    Special(&'static str),
}

/// Installs the files in `<config>/commands`. All are looked at before one is written, and all are on the disk under
/// temporary names before one has its name. All folders that are missing are made but `home` and what is above it.
///
/// # Errors
/// `command-foreign`, `command-edited`, `command-newer`, `unsafe-path`: nothing was changed. `io`.
pub fn install(
    config: &Path,
    home: Option<&Path>,
    files: &[CommandFile],
    dry_run: bool,
) -> Result<Vec<(PathBuf, Done)>> {
    let mut folder = Folder::find(config)?;
    // Making it would be making a user: the fault of what lies in it says that it is missing.
    folder.missing.retain(|dir| home.is_none_or(|home| !home.starts_with(dir)));
    let states = folder.states(files)?;
    refuse(&folder, files, &states, |state| !matches!(state, State::Absent | State::Ours { .. }))?;
    let done = |file: &CommandFile, state: &State| match state {
        State::Ours { text, .. } if *text == file.text => Done::Unchanged,
        State::Ours { .. } => Done::Replaced,
        _ => Done::Created,
    };
    let report: Vec<_> =
        files.iter().zip(&states).map(|(f, state)| (folder.path.join(f.name), done(f, state))).collect();
    if dry_run || report.iter().all(|(_, done)| *done == Done::Unchanged) {
        return Ok(report);
    }
    // Neither a name of ours nor half of the files is left by a signal.
    let _held = signals::uninterrupted();
    let before = states.iter().map(State::made).max().unwrap_or(0);
    let missing = folder.missing.len() as u32;
    let mut made = MadeFolders::make(&folder.missing)?;
    let mut staged = Vec::new();
    for ((file, state), (path, done)) in files.iter().zip(&states).zip(&report) {
        if *done != Done::Unchanged {
            let bytes = marked(&file.text, before.max(missing));
            staged.push((file, state, path, stage(&folder.path, file, path, &bytes, *done)?));
        }
    }
    faults::at("command-file.staged", &folder.path)?;
    for (file, state, path, staged) in staged {
        publish(file, state, path, staged)?;
        made.keep();
        faults::at("command-file.published", path)?;
    }
    sync_dir(&folder.path)?;
    Ok(report)
}

/// Removes those of the files that are ours, and the folders that were made for them.
///
/// # Errors
/// `command-edited`, `command-newer`, `unsafe-path`: nothing was changed. `io`.
pub fn uninstall(config: &Path, files: &[CommandFile], dry_run: bool) -> Result<Vec<(PathBuf, Done)>> {
    let folder = Folder::find(config)?;
    let states = folder.states(files)?;
    refuse(&folder, files, &states, |state| matches!(state, State::Edited | State::Newer(_)))?;
    let _held = signals::uninterrupted();
    let mut report = Vec::new();
    for (file, state) in files.iter().zip(&states) {
        let path = folder.path.join(file.name);
        let done = match state {
            State::Absent => Done::Absent,
            State::Ours { .. } => {
                if !dry_run {
                    unchanged(&path, state)?;
                    remove_if_there(&path)?;
                    faults::at("command-file.removed", &path)?;
                }
                Done::Removed
            }
            _ => Done::Left,
        };
        report.push((path, done));
    }
    if !dry_run && report.iter().any(|(_, done)| *done == Done::Removed) {
        sync_dir(&folder.path)?;
        let made = states.iter().map(State::made).max().unwrap_or(0);
        remove_made(config, made)?;
    }
    Ok(report)
}

/// Where the files lie, or will.
struct Folder {
    /// Without links, as far as it is there.
    path: PathBuf,
    /// What is not there yet, from the top.
    missing: Vec<PathBuf>,
}

impl Folder {
    /// A folder that is reached through a link is the user's own arrangement; what it leads to must be safe.
    fn find(config: &Path) -> Result<Folder> {
        let commands = config.join("commands");
        if let Some(path) = folder(&commands)? {
            return Ok(Folder { path, missing: Vec::new() });
        }
        Ok(match folder(config)? {
            Some(config) => {
                let path = config.join("commands");
                Folder { path: path.clone(), missing: vec![path] }
            }
            None => {
                let mut missing = vec![commands.clone(), config.to_owned()];
                for above in config.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
                    if is_there(above)? {
                        break;
                    }
                    missing.push(above.to_owned());
                }
                missing.reverse();
                Folder { path: commands, missing }
            }
        })
    }

    fn states(&self, files: &[CommandFile]) -> Result<Vec<State>> {
        files.iter().map(|file| look(&self.path.join(file.name))).collect()
    }
}

/// Whether a folder has the name; what else may have it is refused.
fn is_there(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(true),
        Ok(_) => Err(unsafe_path(path, "is not a folder")),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(path) {
            Ok(_) => Err(unsafe_path(path, "is a link that leads nowhere")),
            Err(_) => Ok(false),
        },
        Err(e) => Err(Error::io("look at", path)(e)),
    }
}

/// The real path of a folder; none if nothing has the name.
fn folder(path: &Path) -> Result<Option<PathBuf>> {
    if !is_there(path)? {
        return Ok(None);
    }
    check_dir(path, &fs::metadata(path).map_err(Error::io("look at", path))?)?;
    path.canonicalize().map(Some).map_err(Error::io("resolve", path))
}

impl State {
    fn made(&self) -> u32 {
        match self {
            State::Ours { made, .. } => *made,
            _ => 0,
        }
    }

    fn refusal(&self, path: &Path) -> Refusal {
        let shown = path.display();
        let (code, why, hint) = match self {
            State::Edited => (
                Code::CommandEdited,
                format!("`{shown}` was installed by offshoot and changed since"),
                "keep it, or move it away and try again".to_owned(),
            ),
            State::Newer(version) => (
                Code::CommandNewer,
                format!("`{shown}` was installed by a newer offshoot (version {version} of such files)"),
                "update offshoot, or move the file away".to_owned(),
            ),
            State::Special(why) => (
                Code::UnsafePath,
                format!("`{shown}` {why}"),
                "offshoot writes regular files alone; move it away and try again".to_owned(),
            ),
            _ => (
                Code::CommandForeign,
                format!("`{shown}` is there, and offshoot did not install it"),
                "offshoot overwrites no file of others: rename it (the command follows its name) or move it away"
                    .to_owned(),
            ),
        };
        Refusal::new(code, why).hint(hint)
    }
}

/// Refuses the first of the files that stands in the way; the detail names all of them.
fn refuse(
    folder: &Folder,
    files: &[CommandFile],
    states: &[State],
    stands: impl Fn(&State) -> bool,
) -> Result<()> {
    let paths = files.iter().map(|file| folder.path.join(file.name));
    let all: Vec<(PathBuf, &State)> = paths.zip(states).filter(|(_, state)| stands(state)).collect();
    let Some((path, state)) = all.first() else { return Ok(()) };
    let listed: Vec<_> = all
        .iter()
        .map(|(path, state)| {
            let code = Code::as_str(state.refusal(path).code);
            json!({"path": path.display().to_string(), "code": code})
        })
        .collect();
    Err(state.refusal(path).detail(json!({"files": listed})).into())
}

fn look(path: &Path) -> Result<State> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound) => return Ok(State::Absent),
        Err(e) => return Err(Error::io("look at", path)(e)),
    };
    if let Some(why) = special(&meta) {
        return Ok(State::Special(why));
    }
    if meta.len() > MOST_BYTES {
        return Ok(State::Foreign);
    }
    let bytes = fs::read(path).map_err(Error::io("read", path))?;
    Ok(judge(&bytes))
}

fn special(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    match () {
        () if kind.is_symlink() => Some("is a symlink"),
        () if kind.is_dir() => Some("is a folder"),
        () if !kind.is_file() => Some("is a special file"),
        () => None,
    }
}

fn judge(bytes: &[u8]) -> State {
    let marked = || {
        let text = std::str::from_utf8(bytes).ok()?;
        text.strip_prefix(OPENING)?.strip_prefix(MARK)?.split_once('\n')
    };
    let Some((mark, rest)) = marked() else { return State::Foreign };
    let mut words = mark.split(' ');
    match words.next().and_then(|version| version.parse::<u64>().ok()) {
        Some(version) if version > u64::from(VERSION) => return State::Newer(version),
        Some(version) if version == u64::from(VERSION) => {}
        _ => return State::Edited,
    }
    let made = words.next().and_then(|word| word.strip_prefix("made=")?.parse().ok());
    let digest = words.next().and_then(|word| word.strip_prefix("blake3:"));
    match (made, digest) {
        (Some(made), Some(found)) if words.next().is_none() && found == digest_of(made, rest) => {
            State::Ours { made, text: format!("{OPENING}{rest}") }
        }
        _ => State::Edited,
    }
}

fn digest_of(made: u32, rest: &str) -> String {
    blake3::hash(format!("{VERSION} made={made}\n{rest}").as_bytes()).to_string()
}

/// The bytes of a file, with its marker line.
fn marked(text: &str, made: u32) -> String {
    let rest = text.strip_prefix(OPENING).expect("BUG: a command file begins with front matter");
    format!("{OPENING}{MARK}{VERSION} made={made} blake3:{}\n{rest}", digest_of(made, rest))
}

fn stage(dir: &Path, file: &CommandFile, path: &Path, text: &str, done: Done) -> Result<Staged> {
    // The names of no client's commands begin with a dot.
    let mut staged = Staged::create(dir, &format!(".offshoot-{}-{}.tmp", file.name, std::process::id()))?;
    staged.write_all(text.as_bytes()).map_err(Error::io("write", staged.path()))?;
    if done == Done::Replaced {
        let mode = fs::symlink_metadata(path).map_err(Error::io("look at", path))?.permissions();
        staged.file().set_permissions(mode).map_err(Error::io("set the mode of", path))?;
    }
    staged.finish()?;
    Ok(staged)
}

fn publish(file: &CommandFile, state: &State, path: &Path, staged: Staged) -> Result<()> {
    if *state == State::Absent {
        return match staged.publish(file.name)? {
            PublishOutcome::Published(_) => Ok(()),
            PublishOutcome::Exists(path) => Err(State::Foreign.refusal(&path).into()),
        };
    }
    unchanged(path, state)?;
    staged.rename_over(path)
}

/// Refuses a file that somebody changed while we were at work.
fn unchanged(path: &Path, state: &State) -> Result<()> {
    let now = look(path)?;
    // One that is gone is nobody's loss.
    if now == *state || now == State::Absent { Ok(()) } else { Err(now.refusal(path).into()) }
}

/// Folders that were made just now, removed again unless something was put there for good.
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    fn make(missing: &[PathBuf]) -> Result<MadeFolders> {
        let mut made = MadeFolders(Vec::new());
        for dir in missing {
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(dir).map_err(Error::io("create folder", dir))?;
            made.0.push(dir.clone());
            dir.parent().map_or(Ok(()), sync_dir)?;
        }
        Ok(made)
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        // Only empty ones go, so whatever somebody else put there stays.
        self.0.iter().rev().for_each(|dir| drop(fs::remove_dir(dir)));
    }
}

/// Removes the folders that were made for the files, the inner one first, as long as nothing is in them.
fn remove_made(config: &Path, made: u32) -> Result<()> {
    let commands = config.join("commands");
    for dir in commands.ancestors().take(made as usize) {
        if !fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) {
            break;
        }
        match fs::remove_dir(dir) {
            Ok(()) => dir.parent().map_or(Ok(()), sync_dir)?,
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => break,
            Err(e) => return Err(Fault::io("remove", dir, e).into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "---\ndescription: x\n---\nbody\n";

    #[test]
    fn ours_is_told_from_ours_that_was_edited_and_from_what_is_not_ours() {
        let ours = marked(TEXT, 2);
        assert_eq!(judge(ours.as_bytes()), State::Ours { made: 2, text: TEXT.to_owned() });
        for edited in [
            ours.replace("body", "bodies"),
            ours.replace("made=2", "made=1"),
            ours.replace("made=2", "made=x"),
            ours.replace("blake3:", "blake3:0"),
            ours.replace(" 1 made", " one made"),
            ours.replace(" 1 made", " 0 made"),
            ours.clone() + "\n",
            format!("{OPENING}{MARK}\n"),
        ] {
            assert_eq!(judge(edited.as_bytes()), State::Edited, "{edited}");
        }
        assert_eq!(judge(ours.replace(" 1 made", " 2 made").as_bytes()), State::Newer(2));
        for foreign in [TEXT.as_bytes(), b"", b"---\n", b"\xff\xfe", &ours.as_bytes()[1..]] {
            assert_eq!(judge(foreign), State::Foreign);
        }
        // A marker that stands elsewhere is text.
        assert_eq!(judge(format!("\n{ours}").as_bytes()), State::Foreign);
    }
}
