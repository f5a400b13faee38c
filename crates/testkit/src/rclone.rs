//! A server of SFTP that shares no code with OpenSSH: `rclone serve sftp`, on
//! loopback and a free port, with keys made for it. The system's ssh connects to
//! it (`ssh -F CONFIG -s haul-test sftp`). Its user's own configuration of rclone
//! is neither read nor written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::sshd::{START_LIMIT, SshdBuilder, find, put_key, write};
use crate::{at, failed};

/// The words in the server's log in front of its port.
const LISTEN_MESSAGE: &str = "listening on 127.0.0.1:";

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Rclone {
    child: Child,
    dir: TempDir,
}

impl Rclone {
    /// Serves a directory, as rclone does if it is told nothing else: a file can
    /// only be written from its beginning to its end. Paths begin there.
    pub fn serve(root: &Path) -> io::Result<Self> {
        Self::serve_with(root, &[])
    }

    /// The same with a cache, in which files are until they are closed.
    pub fn serve_cached(root: &Path) -> io::Result<Self> {
        Self::serve_with(root, &["--vfs-cache-mode", "writes", "--vfs-write-back", "0s"])
    }

    fn serve_with(root: &Path, flags: &[&str]) -> io::Result<Self> {
        let rclone = find("rclone", &["/usr/bin", "/usr/local/bin"])
            .ok_or_else(|| failed("no rclone; `cargo xtask setup` installs it"))?;
        let dir = TempDir::with_prefix("haul-rclone-")?;
        for key in ["host_key", "user_key"] {
            put_key(&dir.path().join(key))?;
        }
        let mut server = Self { child: launch(&rclone, root, dir.path(), flags)?, dir };
        let port = server.wait_until_up()?;
        let dir = server.dir.path();
        write(&server.ssh_config(), &SshdBuilder::default().client_config(dir, port)?)?;
        Ok(server)
    }

    /// Waits until the server says on which port it listens.
    fn wait_until_up(&mut self) -> io::Result<u16> {
        let end = Instant::now() + START_LIMIT;
        loop {
            let log = self.log();
            let port = log.split_once(LISTEN_MESSAGE).and_then(|(_, rest)| rest.split_once('\n'));
            if let Some(port) = port.and_then(|(port, _)| port.trim().parse().ok()) {
                return Ok(port);
            }
            if self.child.try_wait()?.is_some() || Instant::now() > end {
                return Err(failed(format!("rclone does not listen:\n{log}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ssh_config(&self) -> PathBuf {
        self.dir.path().join("ssh_config")
    }

    /// The host's name for the client.
    pub fn host(&self) -> &'static str {
        crate::sshd::HOST
    }

    /// The value for haul's `--rsh`.
    pub fn rsh(&self) -> String {
        format!("ssh -F {}", self.ssh_config().display())
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(rclone: &Path, root: &Path, dir: &Path, flags: &[&str]) -> io::Result<Child> {
    let log = dir.join("log");
    let out = fs::File::create(&log).map_err(|error| at("create", &log, error))?;
    Command::new(rclone)
        .args(["serve", "sftp", "--addr", "127.0.0.1:0", "--key"])
        .arg(dir.join("host_key"))
        .arg("--authorized-keys")
        .arg(dir.join("user_key.pub"))
        .arg("--cache-dir")
        .arg(dir.join("cache"))
        // There is none, and none is made.
        .args(["--config", ""])
        // What changes behind its back shows.
        .args(["--dir-cache-time", "0s"])
        .args(flags)
        .arg(root)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(out)
        .spawn()
        .map_err(|error| at("start", rclone, error))
}
