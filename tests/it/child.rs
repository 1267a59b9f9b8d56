//! A second live process for contention tests: the test binary runs itself, as one of a few roles.
//!
//! Parent and child talk in lines over pipes, so nothing waits for time to pass.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, ExitStatus, Stdio},
};

const ROLE: &str = "OFFSHOOT_TEST_ROLE";
const ARGS: &str = "OFFSHOOT_TEST_ARGS";
const MARK: &str = "@@ ";

/// A child in some role. Killed when it is dropped.
pub struct Child {
    process: std::process::Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Child {
    /// The command that runs a role, for tests that change something about it.
    pub fn command(role: &str, args: &[&str]) -> Command {
        let mut c = Command::new(std::env::current_exe().unwrap());
        c.args(["child::plays_a_role", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(ARGS, args.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        c
    }

    pub fn spawn(role: &str, args: &[&str]) -> Child {
        Child::start(Child::command(role, args))
    }

    pub fn start(mut command: Command) -> Child {
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Child { process, lines }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends the child one line.
    pub fn say(&mut self, line: &str) {
        let stdin = self.process.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).unwrap();
    }

    /// The next line that the child sent; panics if it ended instead.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the child ended without a word");
            if let Some((_, said)) = line.trim_end().split_once(MARK) {
                return said.to_owned();
            }
        }
    }

    /// Ends the child as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Sends the child a signal by number.
    #[cfg(unix)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, which something else brings about. (The standard library's `wait` would close the pipe that
    /// the child listens to.)
    pub fn wait(&mut self) -> ExitStatus {
        let _open = self.process.stdin.take();
        self.process.wait().unwrap()
    }

    /// Closes the child's stdin and waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        drop(self.process.stdin.take());
        self.process.wait().unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a command run as a user who may not override permissions: as root, `nobody`. None if the test binary lies
/// where that user cannot run it.
#[cfg(unix)]
pub fn powerless(mut command: Command) -> Option<Command> {
    use std::os::unix::process::CommandExt;
    if rustix::process::geteuid().is_root() {
        let mut probe = Command::new(std::env::current_exe().unwrap());
        probe.arg("--list").stdout(Stdio::null()).uid(65534).gid(65534).current_dir("/");
        if !probe.status().is_ok_and(|s| s.success()) {
            return None;
        }
        command.uid(65534).gid(65534).current_dir("/");
    }
    Some(command)
}

/// Within a role: one line to the parent.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // The test harness leaves its own line open; the mark is looked for anywhere in a line.
    writeln!(out, "{MARK}{line}").and_then(|()| out.flush()).unwrap();
}

/// Within a role: waits for a line of the parent; none when it closed the pipe.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    (std::io::stdin().read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
}

/// Does nothing, unless the binary was started by [`Child::spawn`].
#[test]
fn plays_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let args = std::env::var(ARGS).unwrap_or_default();
    let args: Vec<&str> = args.split('\n').collect();
    match role.as_str() {
        #[cfg(unix)]
        "forward" => crate::signals::forward(&args),
        "hold-agent-lease" => crate::qwen_lease::hold(&args),
        "hold-lease" => crate::lease::hold(&args),
        "take-snapshot" => crate::snapshot::report(&args),
        other => panic!("no role `{other}`"),
    }
}
