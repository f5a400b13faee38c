//! A server of this machine, at which the user of a test is enrolled.

use super::{HAUL, is_root};
use haul_testkit::TempDir;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Served {
    dir: TempDir,
    server: Child,
}

impl Served {
    /// Starts one, and enrols the user that has [`Self::state`] at it under the name `host`,
    /// with access to `root`.
    pub(crate) fn start(host: &str, root: &Path) -> Served {
        let dir = TempDir::with_prefix("haul-served-").expect("a temporary directory");
        let run = ["run", "--listen", "127.0.0.1:0"];
        let server = command(dir.path(), &run).stderr(Stdio::null()).spawn().expect("it starts");
        let served = Served { dir, server };
        let begin = Instant::now();
        while !served.output(&["status"]).status.success() {
            assert!(begin.elapsed() < PATIENCE, "the server does not start");
            thread::sleep(Duration::from_millis(5));
        }
        let root = format!("--root={}", root.display());
        let mut invite = vec!["invite", &*root, "--name=test"];
        if is_root() {
            invite.push("--run-as=root");
        }
        let invitation = served.ok(&invite);
        let invitation = invitation.lines().last().expect("a line").to_owned();
        let join = ["join", &*invitation, "--host", host];
        let mut join = command(served.dir.path(), &join);
        let joined = join.env("XDG_STATE_HOME", served.state()).output().expect("it runs");
        assert!(joined.status.success(), "{joined:?}");
        served
    }

    /// The directory of the client's state.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("client")
    }

    fn output(&self, words: &[&str]) -> Output {
        command(self.dir.path(), words).output().expect("it runs")
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(HAUL);
    command.arg("server").args(words).env("HOME", home).stdin(Stdio::null());
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "SSH_CONNECTION"] {
        command.env_remove(variable);
    }
    command
}
