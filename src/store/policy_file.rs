//! Policy files: reading one, and finding the one that counts where the command line names none.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde_json::json;

use super::{state::unsafe_path, trust};
use crate::refusal::{Code, Error, Refusal, Result};

/// The largest policy, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a policy: its text, and `blake3:<hex>` of it.
///
/// A link is followed, so that a policy may be kept elsewhere; what it leads to must be a regular file.
///
/// # Errors
/// `policy-invalid` for more than 1 MiB or for what is not UTF-8; `unsafe-path` for a folder, a pipe or a
/// device; `io`.
pub fn read(path: &Path) -> Result<(String, String)> {
    let mut options = OpenOptions::new();
    options.read(true);
    // A pipe must not keep us waiting for its other end.
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path).map_err(Error::io("open", path))?;
    if !file.metadata().map_err(Error::io("look at", path))?.is_file() {
        return Err(unsafe_path(path, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > LARGEST {
        return Err(invalid(path, 1, 1, &format!("larger than {LARGEST} bytes, which no policy is")));
    }
    let digest = format!("blake3:{}", blake3::hash(&bytes));
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, digest)),
        Err(e) => Err(not_utf8(path, e.as_bytes(), e.utf8_error().valid_up_to())),
    }
}

fn not_utf8(path: &Path, bytes: &[u8], at: usize) -> Error {
    let before = &bytes[..at];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let what = if utf16 {
        "this looks like UTF-16; a policy is UTF-8".to_owned()
    } else {
        format!("byte 0x{:02x} is not UTF-8", bytes.get(at).copied().unwrap_or_default())
    };
    invalid(path, line, column, &what)
}

/// In the shape of the parser's own refusals, but for the line, which cannot be shown.
fn invalid(path: &Path, line: usize, column: usize, message: &str) -> Error {
    let path = path.display().to_string();
    Refusal::new(Code::PolicyInvalid, format!("{path}:{line}:{column}: {message}"))
        .detail(json!({"path": path,
            "problems": [{"line": line, "column": column, "message": message, "allowed": []}], "more": 0}))
        .into()
}

/// Where a policy is looked for.
#[derive(Clone, Debug, Default)]
pub struct Places<'a> {
    /// `OFFSHOOT_POLICY`: this file, which must then exist.
    pub environment: Option<&'a Path>,
    /// The project's folder, for its `.offshoot/policy.toml`.
    pub project: Option<&'a Path>,
    /// The user's configuration of this program, for its `policy.toml`.
    pub config: Option<&'a Path>,
    /// Whether a person is there; then the project's policy needs no trust.
    pub interactive: bool,
}

/// Which place a policy was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `OFFSHOOT_POLICY`.
    Environment,
    /// `.offshoot/policy.toml` of the project.
    Project,
    /// `policy.toml` of the user's configuration.
    Config,
}

impl Origin {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Environment => "OFFSHOOT_POLICY",
            Origin::Project => "the project",
            Origin::Config => "the configuration",
        }
    }
}

/// A policy that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// `blake3:<hex>` of the text.
    pub digest: String,
    /// By which of the places.
    pub origin: Origin,
}

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The policy that counts.
    pub found: Option<Found>,
    /// The project's policy, where it was passed over because nobody trusted it; the caller says so.
    pub skipped_untrusted: Option<PathBuf>,
}

/// Where the policy of a project lies.
pub fn of_project(project: &Path) -> PathBuf {
    project.join(".offshoot").join("policy.toml")
}

/// Finds the policy that counts where the command line names none; the first place that has one wins, and
/// policies are never merged. `root` is the state directory.
///
/// Without a person the project's policy needs `policy trust`: a cloned repository must not steer an
/// unattended agent.
///
/// # Errors
/// As for [`read`] and [`trust::is_trusted`]. A file that is there and cannot be read is an error, not passed
/// over: another policy than the intended one must not decide. (An untrusted one is passed over anyway.)
pub fn lookup(places: &Places<'_>, root: &Path) -> Result<Search> {
    let mut search = Search::default();
    if let Some(path) = places.environment {
        search.found = Some(found(path, Origin::Environment)?);
        return Ok(search);
    }
    if let Some(path) = places.project.map(of_project).filter(|p| exists(p)) {
        if places.interactive {
            search.found = Some(found(&path, Origin::Project)?);
            return Ok(search);
        }
        // An untrusted file is not even judged: neither its mistakes nor its size may stop an unattended run.
        match found(&path, Origin::Project) {
            Ok(policy) if trust::is_trusted(root, &canonical(&path)?, &policy.digest)? => {
                search.found = Some(policy);
                return Ok(search);
            }
            _ => search.skipped_untrusted = Some(path),
        }
    }
    if let Some(path) = places.config.map(|c| c.join("policy.toml")).filter(|p| exists(p)) {
        search.found = Some(found(&path, Origin::Config)?);
    }
    Ok(search)
}

/// The path that trust is recorded for.
///
/// # Errors
/// `io`.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(Error::io("resolve", path))
}

fn found(path: &Path, origin: Origin) -> Result<Found> {
    let (text, digest) = read(path)?;
    Ok(Found { path: path.to_owned(), text, digest, origin })
}

/// Whether something has the name, a dangling link included.
fn exists(path: &Path) -> bool {
    !matches!(fs::symlink_metadata(path), Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}
