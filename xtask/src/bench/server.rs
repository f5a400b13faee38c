//! Servers that stay up: haul's, and rsync's daemon, which encrypts nothing.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use haul_testkit::served::Served;
use tempfile::TempDir;

use crate::Result;

/// The name of the host for clients of haul's server.
const HOST: &str = "haul-bench";

/// Both servers. Their clients reach the directory `root`.
pub(crate) struct Servers {
    root: PathBuf,
    address: Ipv4Addr,
    haul: Served,
    daemon: Child,
    /// The daemon's port.
    port: u16,
    /// The daemon's configuration.
    _dir: TempDir,
}

impl Servers {
    /// Starts both at an address of this machine.
    pub(crate) fn start(haul: &Path, root: &Path, address: Ipv4Addr) -> Result<Servers> {
        let haul = Served::start_on(&format!("{address}:0"), haul, HOST, root)?;
        let dir = TempDir::with_prefix("haul-bench-")?;
        let port = TcpListener::bind((address, 0))?.local_addr()?.port();
        let config = dir.path().join("rsyncd.conf");
        let module = format!(
            "use chroot = no\nuid = root\ngid = root\n[bench]\npath = {}\nread only = no\n",
            root.display()
        );
        fs::write(&config, module)?;
        let mut daemon = Command::new("rsync");
        daemon.args(["--daemon", "--no-detach"]).arg(format!("--address={address}"));
        daemon.arg(format!("--port={port}")).arg(format!("--config={}", config.display()));
        let none = Stdio::null;
        let daemon = daemon.stdin(none()).stdout(none()).stderr(none()).spawn()?;
        Ok(Servers { root: root.to_path_buf(), address, haul, daemon, port, _dir: dir })
    }

    /// The client's state, for haul's `XDG_STATE_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.haul.state()
    }

    /// `path` at haul's server.
    pub(crate) fn location(&self, path: &Path) -> OsString {
        self.at(&format!("{HOST}:/"), path)
    }

    /// `path` at rsync's daemon.
    pub(crate) fn at_daemon(&self, path: &Path) -> OsString {
        self.at(&format!("rsync://{}:{}/bench/", self.address, self.port), path)
    }

    fn at(&self, server: &str, path: &Path) -> OsString {
        let mut location = OsString::from(server);
        location.push(path.strip_prefix(&self.root).unwrap_or(path));
        location
    }

    /// The process of haul's server.
    pub(crate) fn pid(&self) -> u32 {
        self.haul.pid()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
