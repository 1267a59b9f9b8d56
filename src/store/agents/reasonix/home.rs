//! Where sessions of Reasonix lie: `<home>/projects/<slug>/sessions-v4/<id>/` and `<home>/sessions-v4/<id>/`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::is_session_dir;
use crate::{
    dialect::reasonix::ids,
    refusal::{Fault, Result},
    store::{agents::is_in_reach, env::Env},
};

const SESSIONS: &str = "sessions-v4";

/// The client's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonixDirs {
    home: PathBuf,
}

/// A session folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDir {
    /// Its name.
    pub session_id: String,
    /// Where it is.
    pub path: PathBuf,
}

impl ReasonixDirs {
    /// Where the client keeps its state: `REASONIX_STATE_HOME`, else `REASONIX_HOME`, else `~/.reasonix` (on Windows
    /// `%APPDATA%\\reasonix`); none without any of them.
    pub fn from_env(env: &Env) -> Option<ReasonixDirs> {
        let said = env.reasonix_state_home.as_ref().or(env.reasonix_home.as_ref()).cloned();
        let usual = || match &env.app_data {
            Some(data) => Some(data.join("reasonix")),
            None => env.home.as_ref().map(|home| home.join(".reasonix")),
        };
        said.or_else(usual).map(|home| ReasonixDirs { home })
    }

    /// The root of a project's sessions. The client makes the folder's name of the path by writing a hyphen for each
    /// separator; what else it changes is not known, so this is only ever compared with folders that are there.
    pub fn project_root(&self, cwd: &Path) -> PathBuf {
        let slug = cwd.display().to_string().replace(['/', '\\', ':'], "-");
        self.home.join("projects").join(slug).join(SESSIONS)
    }

    /// The sessions of all projects and those of none.
    ///
    /// # Errors
    /// `io`.
    pub fn sessions(&self) -> Result<Vec<SessionDir>> {
        let mut roots = vec![self.home.join(SESSIONS)];
        roots.extend(folders(&self.home.join("projects"))?.into_iter().map(|project| project.join(SESSIONS)));
        let mut found = Vec::new();
        for root in roots {
            found.extend(sessions_in(&root)?);
        }
        Ok(found)
    }
}

/// The sessions of a root.
///
/// # Errors
/// `io`.
pub fn sessions_in(root: &Path) -> Result<Vec<SessionDir>> {
    let named = |path: PathBuf| {
        let session_id = path.file_name()?.to_str().filter(|id| ids::is_session_id(id))?.to_owned();
        is_session_dir(&path).then_some(SessionDir { session_id, path })
    };
    Ok(folders(root)?.into_iter().filter_map(named).collect())
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(_) if !is_in_reach(dir) => return Ok(Vec::new()),
        Err(e) => return Err(Fault::io("list", dir, e).into()),
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
}
