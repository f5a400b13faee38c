//! An ssh server for one test: Debian's own sshd, on a free port of loopback or of another address.
//! Its keys are made once for the process, and its configuration for the one server. The user's `~/.ssh` is neither read nor written, on either side.
//!
//! A client finds it with `ssh -F CONFIG haul-test`. `ssh` without `-F` would
//! read the user's configuration, so haul always gets [`Sshd::rsh`].

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub(crate) use self::config::{find, put_key};
use crate::proc::{self, Signal};
use crate::{at, failed};

mod config;

pub use self::config::system_sftp_server;

/// The name by which clients know the server, unless it is given another.
pub const HOST: &str = "haul-test";

/// How long the server may take to answer.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(20);

/// Another process can take a port between finding and using it.
const PORT_ATTEMPTS: u32 = 10;

/// Settings of glibc's allocator: it keeps what was freed. The buffers of a connection grow
/// and go again and again, and each time their pages would be made anew, in a tenth of the
/// processor time of a server that is sent much. Sessions don't get it.
const MALLOC_SETTINGS: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "67108864"), ("MALLOC_MMAP_THRESHOLD_", "67108864")];

/// Every session's environment holds this name with a value of the server's
/// own, so that sessions are found even when they have outlived it.
const ENV_MARKER: &str = "HAUL_TEST_SSHD";

/// A running ssh server. Dropping it ends it and all its sessions.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    host: &'static str,
    port: u16,
    marker: String,
    config: PathBuf,
    dir: TempDir,
}

/// Tests log in thousands of times. The key exchange that OpenSSH prefers takes several times
/// as long as this one.
const CHEAP_KEY_EXCHANGE: &str = "KexAlgorithms ecdh-sha2-nistp256";

/// A place where no chunk cache can be.
const NO_CACHE: &str = "/dev/null/none";

/// A server's settings beyond the defaults.
#[derive(Debug, Clone)]
pub struct SshdBuilder {
    host: &'static str,
    address: Ipv4Addr,
    server_lines: Vec<String>,
    client_lines: Vec<String>,
    env: Vec<(String, String)>,
    sftp: Sftp,
}

/// The program behind a server's subsystem `sftp`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sftp {
    /// The system's sftp-server, or sshd's own where there is none.
    System,
    /// This command.
    Command(String),
    /// Nothing: the server has no such subsystem.
    Nothing,
}

impl Default for SshdBuilder {
    fn default() -> Self {
        SshdBuilder {
            host: HOST,
            address: Ipv4Addr::LOCALHOST,
            server_lines: Vec::new(),
            client_lines: vec![CHEAP_KEY_EXCHANGE.to_owned()],
            // Content of other tests, or of whoever runs them, is not to be known.
            env: vec![("HAUL_CACHE_DIR".to_owned(), NO_CACHE.to_owned())],
            sftp: Sftp::System,
        }
    }
}

impl SshdBuilder {
    /// The name by which clients know the server, instead of [`HOST`].
    #[must_use]
    pub fn host(mut self, name: &'static str) -> Self {
        self.host = name;
        self
    }

    /// Listens on this address instead of loopback. It must be one of the
    /// network namespace of the thread that calls [`Self::start`], where the
    /// server will run.
    #[must_use]
    pub fn listen_on(mut self, address: Ipv4Addr) -> Self {
        self.address = address;
        self
    }

    /// Adds a line to the server's configuration, before the defaults, and the
    /// first value of an option counts. Not `SetEnv`; that is [`Self::env`].
    #[must_use]
    pub fn server_line(mut self, line: impl Into<String>) -> Self {
        self.server_lines.push(line.into());
        self
    }

    /// Adds a line to the client's configuration of this host.
    #[must_use]
    pub fn client_line(mut self, line: impl Into<String>) -> Self {
        self.client_lines.push(line.into());
        self
    }

    /// The user's own choice of ciphers (`Ciphers` in the client's
    /// configuration).
    #[must_use]
    pub fn ciphers(self, list: &str) -> Self {
        self.client_line(format!("Ciphers {list}"))
    }

    /// Sets a variable in every session, such as `PATH` or `HOME`. The value
    /// can't hold a double quote.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.env.retain(|(other, _)| *other != name);
        self.env.push((name, value.into()));
        self
    }

    /// Has keys exchanged as the system does by default, for figures that users will see.
    #[must_use]
    pub fn usual_logins(mut self) -> Self {
        self.client_lines.retain(|line| line != CHEAP_KEY_EXCHANGE);
        self
    }

    /// Serves SFTP with `command`; `internal-sftp` is sshd's own server.
    #[must_use]
    pub fn sftp(mut self, command: impl Into<String>) -> Self {
        self.sftp = Sftp::Command(command.into());
        self
    }

    /// Serves no SFTP.
    #[must_use]
    pub fn without_sftp(mut self) -> Self {
        self.sftp = Sftp::Nothing;
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> io::Result<Sshd> {
        let sshd = find("sshd", &["/usr/sbin", "/usr/local/sbin"])
            .ok_or_else(|| failed("no sshd; `cargo xtask setup` installs it"))?;
        if rustix::process::geteuid().is_root() {
            // sshd gives up its rights in this directory, and won't start without.
            let empty = Path::new("/run/sshd");
            fs::create_dir_all(empty).map_err(|e| at("make", empty, e))?;
        }
        let dir = TempDir::with_prefix("haul-sshd-")?;
        for key in ["host_key", "user_key"] {
            put_key(&dir.path().join(key))?;
        }
        let authorized = dir.path().join("authorized_keys");
        fs::copy(dir.path().join("user_key.pub"), &authorized)
            .map_err(|e| at("write", &authorized, e))?;

        let marker = new_marker();
        let server_config = dir.path().join("sshd_config");
        let mut last = failed("no port was tried");
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port(self.address)?;
            write(&server_config, &self.server_config(dir.path(), port, &marker, &sshd)?)?;
            let mut child = launch(&sshd, &server_config, dir.path())?;
            match wait_until_up(&mut child, (self.address, port), dir.path()) {
                Ok(()) => {
                    let config = dir.path().join("ssh_config");
                    write(&config, &self.client_config(dir.path(), port)?)?;
                    return Ok(Sshd { child, host: self.host, port, marker, config, dir });
                }
                Err(e) => last = e,
            }
            end(&mut child, &marker);
        }
        Err(last)
    }
}

impl Sshd {
    /// Starts a server with the defaults.
    pub fn start() -> io::Result<Sshd> {
        SshdBuilder::default().start()
    }

    /// A server that is to be different.
    pub fn builder() -> SshdBuilder {
        SshdBuilder::default()
    }

    /// The client's configuration file, for `ssh -F`, `scp -F` and the like.
    pub fn ssh_config(&self) -> &Path {
        &self.config
    }

    /// The host's name in that file.
    pub fn host(&self) -> &'static str {
        self.host
    }

    /// `HOST:PATH`, a location on this server.
    pub fn location(&self, path: impl AsRef<Path>) -> std::ffi::OsString {
        let mut location = std::ffi::OsString::from(format!("{}:", self.host));
        location.push(path.as_ref());
        location
    }

    /// The value for haul's `--rsh` and for rsync's `-e`.
    pub fn rsh(&self) -> String {
        format!("ssh -F {}", self.config.display())
    }

    /// An `ssh` command that runs words on the server, for tests that need one.
    pub fn command(&self, remote: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(&self.config).arg(self.host).arg(remote.as_ref());
        command
    }

    /// The port, on the address that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process number; every session descends from it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The agents (`haul serve`) that run on this server now.
    pub fn agents(&self) -> Vec<u32> {
        self.sessions().into_iter().filter(|&pid| proc::is_agent(pid)).collect()
    }

    /// All processes of all sessions, the server itself not included.
    pub fn sessions(&self) -> Vec<u32> {
        sessions(self.pid(), &self.marker)
    }

    /// Cuts every connection: kills all sessions and what runs in them, as if
    /// the host had gone away. The server keeps listening.
    pub fn cut(&self) {
        sweep(self.pid(), &self.marker);
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        end(&mut self.child, &self.marker);
    }
}

/// Stops the server, so that it starts nothing new, then kills the sessions
/// (each has a group of its own), then the server.
fn end(child: &mut Child, marker: &str) {
    proc::signal(child.id(), Signal::STOP);
    sweep(child.id(), marker);
    proc::kill_group(child.id());
    let _ = child.wait();
    // One that was between fork and exec had no mark yet.
    sweep(child.id(), marker);
}

fn sweep(server: u32, marker: &str) {
    /// A process can start another while it is being looked for.
    const ROUNDS_MAX: usize = 20;
    for _ in 0..ROUNDS_MAX {
        let alive: Vec<u32> =
            sessions(server, marker).into_iter().filter(|&pid| proc::is_alive(pid)).collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            proc::signal(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn sessions(server: u32, marker: &str) -> Vec<u32> {
    let mut found = proc::descendants_and_marked(server, marker);
    found.retain(|&pid| pid != server && pid != std::process::id());
    found
}

fn launch(sshd: &Path, config: &Path, dir: &Path) -> io::Result<Child> {
    let log = dir.join("log");
    let _ = fs::remove_file(dir.join("pid"));
    let out = fs::OpenOptions::new().create(true).append(true).open(&log);
    let out = out.map_err(|e| at("create", &log, e))?;
    Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(config)
        .envs(MALLOC_SETTINGS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(out)
        .process_group(0)
        .spawn()
        .map_err(|e| at("start", sshd, e))
}

/// Waits for the pid file, which sshd writes when it listens, so that no other
/// server's answer on the same port can be mistaken for ours; then for the
/// greeting.
fn wait_until_up(child: &mut Child, at: (Ipv4Addr, u16), dir: &Path) -> io::Result<()> {
    let end = Instant::now() + START_LIMIT;
    let ours = child.id().to_string();
    let listens = || fs::read_to_string(dir.join("pid")).is_ok_and(|pid| pid.trim() == ours);
    loop {
        if listens() && greets(at) {
            return Ok(());
        }
        if child.try_wait()?.is_some() || Instant::now() > end {
            let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
            return Err(failed(format!("sshd does not answer on {}:{}:\n{log}", at.0, at.1)));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn greets(at: (Ipv4Addr, u16)) -> bool {
    let mut greeting = [0; 4];
    TcpStream::connect(at)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.read_exact(&mut greeting)
        })
        .is_ok_and(|()| &greeting == b"SSH-")
}

fn free_port(address: Ipv4Addr) -> io::Result<u16> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.port())
}

fn new_marker() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{ENV_MARKER}={}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|e| at("write", path, e))
}

#[cfg(test)]
mod tests;
