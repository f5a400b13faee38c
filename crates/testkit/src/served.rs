//! A haul server of this machine, and users who are enrolled at it.

use std::fs::{self, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

use crate::failed;
use crate::wait::holds_within;

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(20);

/// The user that [`Served::start`] enrolls, by the name of the home directory.
const CLIENT: &str = "client";

/// A server, and a directory for all that it and its users have.
#[derive(Debug)]
pub struct Served {
    haul: PathBuf,
    dir: TempDir,
    running: Option<Child>,
}

impl Served {
    /// A directory without a running server.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn prepare(haul: &Path) -> io::Result<Served> {
        let dir = TempDir::with_prefix("haul-served-")?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        fs::create_dir(dir.path().join("home"))?;
        Ok(Served { haul: haul.into(), dir, running: None })
    }

    /// Starts `haul` as a server, and enrolls the user that has [`Self::state`] at it under the
    /// name `host`, with access to `root`.
    ///
    /// # Errors
    /// When the server does not start, or does not enroll the user.
    pub fn start(haul: &Path, host: &str, root: &Path) -> io::Result<Served> {
        Served::start_on("127.0.0.1:0", haul, host, root)
    }

    /// The same with the address that the server listens on.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(address: &str, haul: &Path, host: &str, root: &Path) -> io::Result<Served> {
        let mut served = Served::prepare(haul)?;
        served.run_on(address)?;
        served.enroll(CLIENT, host, root, &[])?;
        Ok(served)
    }

    /// Starts the server. Its messages go to the file `log`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn run_on(&mut self, address: &str) -> io::Result<()> {
        let mut command = self.command(&["run", "--listen", address]);
        self.running = Some(command.stderr(File::create(self.path("log"))?).spawn()?);
        let mut has_ended = false;
        let runs = holds_within(START_MAX, || {
            let ended = self.running.as_mut().map(Child::try_wait);
            has_ended = matches!(ended, Some(Ok(Some(_))));
            has_ended || self.status().is_ok()
        });
        match runs && !has_ended {
            true => Ok(()),
            false => Err(failed(fs::read_to_string(self.path("log"))?)),
        }
    }

    /// Makes this process the server, in place of one that was started here.
    pub fn adopt(&mut self, running: Child) {
        self.running = Some(running);
    }

    /// Kills the server.
    ///
    /// # Errors
    /// When none runs.
    pub fn kill(&mut self) -> io::Result<()> {
        self.running.as_mut().ok_or_else(|| failed("no server runs"))?.kill()?;
        self.wait().map(drop)
    }

    /// Waits for the end of the server.
    ///
    /// # Errors
    /// When none runs.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.running.take().ok_or_else(|| failed("no server runs"))?.wait()
    }

    /// Invites a user, and accepts the invitation as the user of the home directory `home`,
    /// under the name `host`.
    ///
    /// # Errors
    /// When one of the two fails.
    pub fn enroll(&self, home: &str, host: &str, root: &Path, options: &[&str]) -> io::Result<()> {
        let (root, name) = (format!("--root={}", root.display()), format!("--name={home}"));
        let mut invite = vec!["invite", &*root, &name];
        invite.extend(options);
        if geteuid().is_root() {
            invite.push("--run-as=root");
        }
        let invited = succeeded(self.command(&invite).output()?)?;
        let line = invited.lines().last().unwrap_or_default();
        succeeded(self.command_of(home, &["join", line, "--host", host]).output()?).map(drop)
    }

    /// Has the user of the home directory `home` reach the server at another address.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn reach_by(&self, home: &str, address: SocketAddr) -> io::Result<()> {
        let servers = self.path(home).join(".local/state/haul/servers.toml");
        let own = self.address()?.to_string();
        let known = fs::read_to_string(&servers)?;
        fs::write(&servers, known.replace(&own, &address.to_string()))
    }

    /// The directory of the state of the user that [`Self::start`] has enrolled, for haul's
    /// `XDG_STATE_HOME`.
    pub fn state(&self) -> PathBuf {
        self.path(CLIENT).join(".local/state")
    }

    /// The same as [`Self::reach_by`] for that user.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn be_reached_by(&self, address: SocketAddr) -> io::Result<()> {
        self.reach_by(CLIENT, address)
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process of the server; 0 if none runs.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().map_or(0, Child::id)
    }

    /// The state of the server, as `haul server status --json` tells it.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> io::Result<Value> {
        let told = succeeded(self.command(&["status", "--json"]).output()?)?;
        serde_json::from_str(&told).map_err(io::Error::other)
    }

    /// The first address that it listens on.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let status = self.status()?;
        let address = status["listen"][0].as_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| failed("it listens nowhere"))
    }

    /// The processes of the jobs that run.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn jobs(&self) -> io::Result<Vec<u32>> {
        let status = self.status()?;
        let jobs = status["jobs"].as_array().into_iter().flatten();
        let pids = jobs.filter_map(|job| u32::try_from(job["pid"].as_u64()?).ok());
        Ok(pids.collect())
    }

    /// `haul server` with these words, as the user whose server it is.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_of("home", words)
    }

    /// The same as the user of the home directory `home`.
    pub fn command_of(&self, home: &str, words: &[&str]) -> Command {
        self.program_of(home, &[&["server"], words].concat())
    }

    /// haul, as it is run by the user of the home directory `home`.
    pub fn program_of(&self, home: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.haul);
        command.args(words).env("HOME", self.path(home)).stdin(Stdio::null());
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "SSH_CONNECTION"] {
            command.env_remove(variable);
        }
        command
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.running.is_some() {
            let _ = self.kill();
        }
    }
}

/// The output of a command that has succeeded.
fn succeeded(output: Output) -> io::Result<String> {
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(io::Error::other),
        false => Err(failed(String::from_utf8_lossy(&output.stderr))),
    }
}
