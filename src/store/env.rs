//! The environment as it is passed in: nothing below `cli` reads a variable by itself.

use std::{ffi::OsString, path::PathBuf};

/// Values of the environment variables that the program honours. An empty variable counts as unset.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// `OFFSHOOT_STATE_DIR`.
    pub state_dir: Option<PathBuf>,
    /// `XDG_STATE_HOME`, if it is absolute (the XDG rule: a relative one is ignored).
    pub xdg_state_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, if it is absolute.
    pub xdg_config_home: Option<PathBuf>,
    /// `HOME` (on Windows `USERPROFILE`), else the user's home by the system's user database.
    pub home: Option<PathBuf>,
    /// `QWEN_RUNTIME_DIR`.
    pub qwen_runtime_dir: Option<PathBuf>,
    /// `QWEN_HOME`.
    pub qwen_home: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`.
    pub claude_config_dir: Option<PathBuf>,
    /// `REASONIX_STATE_HOME`.
    pub reasonix_state_home: Option<PathBuf>,
    /// `REASONIX_HOME`.
    pub reasonix_home: Option<PathBuf>,
    /// `APPDATA`, on Windows.
    pub app_data: Option<PathBuf>,
    /// `CLAUDE_CODE_SESSION_ID`, which Claude Code gives to what it starts.
    pub claude_session: Option<String>,
    /// `QWEN_CODE_SESSION_ID`, which Qwen Code gives to what it starts.
    pub qwen_session: Option<String>,
    /// Whether `TMUX` says that there is a tmux around us.
    pub in_tmux: bool,
    /// `TMUX_PANE`.
    pub tmux_pane: Option<String>,
    /// `OFFSHOOT_POLICY`.
    pub policy: Option<PathBuf>,
    /// Whether `NO_COLOR` is set to anything.
    pub no_color: bool,
    /// `OFFSHOOT_FAULT_POINT`, a hook of the crash tests (see [`crate::store::faults`]).
    pub fault_point: Option<String>,
}

impl Env {
    /// Reads every variable through `get`, which the caller makes of the process environment or of a test's map.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Env {
        let get = |name: &str| get(name).filter(|v| !v.is_empty());
        let path = |name: &str| get(name).map(PathBuf::from);
        let text = |name: &str| get(name).and_then(|v| v.into_string().ok());
        let absolute = |name: &str| path(name).filter(|p| p.is_absolute());
        Env {
            state_dir: path("OFFSHOOT_STATE_DIR"),
            xdg_state_home: absolute("XDG_STATE_HOME"),
            xdg_config_home: absolute("XDG_CONFIG_HOME"),
            home: path("HOME").or_else(|| if cfg!(windows) { path("USERPROFILE") } else { None }),
            qwen_runtime_dir: path("QWEN_RUNTIME_DIR"),
            qwen_home: path("QWEN_HOME"),
            claude_config_dir: path("CLAUDE_CONFIG_DIR"),
            reasonix_state_home: path("REASONIX_STATE_HOME"),
            reasonix_home: path("REASONIX_HOME"),
            app_data: if cfg!(windows) { path("APPDATA") } else { None },
            claude_session: text("CLAUDE_CODE_SESSION_ID"),
            qwen_session: text("QWEN_CODE_SESSION_ID"),
            in_tmux: get("TMUX").is_some(),
            tmux_pane: text("TMUX_PANE"),
            policy: path("OFFSHOOT_POLICY"),
            no_color: get("NO_COLOR").is_some(),
            fault_point: text("OFFSHOOT_FAULT_POINT"),
        }
    }

    /// The same with the home that `known` gives, where no variable names one: the clients, too, ask the user database
    /// then. Relative homes are none.
    pub fn or_home(self, known: impl FnOnce() -> Option<PathBuf>) -> Env {
        let home = self.home.clone().or_else(|| known().filter(|home| home.is_absolute()));
        Env { home, ..self }
    }

    /// Where configuration lies: `$XDG_CONFIG_HOME/offshoot`, else `~/.config/offshoot`.
    pub fn config_dir(&self) -> Option<PathBuf> {
        let base = self.xdg_config_home.clone().or_else(|| self.home.as_ref().map(|h| h.join(".config")));
        base.map(|b| b.join("offshoot"))
    }
}
