//! Servers that stay up: haul's, and rsync's daemon, which encrypts nothing.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;

/// The name of the host for clients of haul's server.
const HOST: &str = "haul-bench";

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(10);

/// Both servers. Their clients reach the directory `root`.
pub(crate) struct Servers {
    root: PathBuf,
    dir: TempDir,
    haul: Child,
    daemon: Child,
    /// The daemon's port.
    port: u16,
}

impl Servers {
    /// Starts both.
    pub(crate) fn start(haul: &Path, root: &Path) -> Result<Servers> {
        let dir = TempDir::with_prefix("haul-bench-")?;
        let (out, root) = (Stdio::null, root.to_path_buf());
        let run = ["run", "--listen", "127.0.0.1:0"];
        let server = command(haul, dir.path(), &run).stderr(out()).spawn()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = dir.path().join("rsyncd.conf");
        let module = format!(
            "use chroot = no\nuid = root\ngid = root\n[bench]\npath = {}\nread only = no\n",
            root.display()
        );
        fs::write(&config, module)?;
        let mut daemon = Command::new("rsync");
        daemon.args(["--daemon", "--no-detach", "--address=127.0.0.1"]);
        daemon.arg(format!("--port={port}")).arg(format!("--config={}", config.display()));
        let daemon = daemon.stdin(out()).stdout(out()).stderr(out()).spawn()?;
        let servers = Servers { root, dir, haul: server, daemon, port };
        servers.enrol(haul)?;
        Ok(servers)
    }

    fn enrol(&self, haul: &Path) -> Result<()> {
        let begin = Instant::now();
        let home = self.dir.path();
        while !command(haul, home, &["status"]).output()?.status.success() {
            if begin.elapsed() > START_MAX {
                return Err("haul server does not start".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        let root = format!("--root={}", self.root.display());
        let mut invite = vec!["invite", &*root, "--name=bench"];
        if rustix::process::geteuid().is_root() {
            invite.push("--run-as=root");
        }
        let invited = command(haul, home, &invite).output()?;
        let invitation = String::from_utf8(invited.stdout)?;
        let line = invitation.lines().last().ok_or("no invitation")?;
        let mut join = command(haul, home, &["join", line, "--host", HOST]);
        let joined = join.env("XDG_STATE_HOME", self.state()).output()?;
        match joined.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&joined.stderr).into()),
        }
    }

    /// The client's state, for haul's `XDG_STATE_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("client")
    }

    /// `path` at haul's server.
    pub(crate) fn location(&self, path: &Path) -> OsString {
        self.at(&format!("{HOST}:/"), path)
    }

    /// `path` at rsync's daemon.
    pub(crate) fn at_daemon(&self, path: &Path) -> OsString {
        self.at(&format!("rsync://127.0.0.1:{}/bench/", self.port), path)
    }

    fn at(&self, server: &str, path: &Path) -> OsString {
        let mut location = OsString::from(server);
        location.push(path.strip_prefix(&self.root).unwrap_or(path));
        location
    }

    /// The process of haul's server.
    pub(crate) fn pid(&self) -> u32 {
        self.haul.id()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in [&mut self.haul, &mut self.daemon] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn command(haul: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(haul);
    command.arg("server").args(words).env("HOME", home).stdin(Stdio::null());
    command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
    command
}
