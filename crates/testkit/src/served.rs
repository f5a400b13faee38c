//! A haul server of this machine, at which a user is enrolled.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::wait::holds_within;

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// A running server.
#[derive(Debug)]
pub struct Served {
    haul: PathBuf,
    dir: TempDir,
    server: Child,
}

impl Served {
    /// Starts `haul` as a server, and enrolls the user that has [`Self::state`] at it under the
    /// name `host`, with access to `root`.
    ///
    /// # Errors
    /// When the server does not start, or does not enroll the user.
    pub fn start(haul: &Path, host: &str, root: &Path) -> io::Result<Served> {
        let dir = TempDir::with_prefix("haul-served-")?;
        let run = ["run", "--listen", "127.0.0.1:0"];
        let server = command(haul, dir.path(), &run).stderr(Stdio::null()).spawn()?;
        let served = Served { haul: haul.into(), dir, server };
        let runs = || served.command(&["status"]).output().is_ok_and(|it| it.status.success());
        if !holds_within(START_MAX, runs) {
            return Err(io::Error::other("the server does not start"));
        }
        let root = format!("--root={}", root.display());
        let mut invite = vec!["invite", &*root, "--name=test"];
        if geteuid().is_root() {
            invite.push("--run-as=root");
        }
        let invited = succeeded(served.command(&invite).output()?)?;
        let line = invited.lines().last().unwrap_or_default();
        let mut join = served.command(&["join", line, "--host", host]);
        succeeded(join.env("XDG_STATE_HOME", served.state()).output()?)?;
        Ok(served)
    }

    /// The directory of the client's state, for haul's `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("client")
    }

    /// The process of the server.
    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    fn command(&self, words: &[&str]) -> Command {
        command(&self.haul, self.dir.path(), words)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The output of a command that has succeeded.
fn succeeded(output: Output) -> io::Result<String> {
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(io::Error::other),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn command(haul: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(haul);
    command.arg("server").args(words).env("HOME", home).stdin(Stdio::null());
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "SSH_CONNECTION"] {
        command.env_remove(variable);
    }
    command
}
