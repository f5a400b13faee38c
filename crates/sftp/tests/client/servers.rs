//! The servers that a test runs against.

use haul_net::{Connection, Service, SshTarget, connect};
use haul_sftp::{Client, Existing, Options, Session};
use haul_testkit::sshd::system_sftp_server;
use haul_testkit::{OddSftp, Oddities, Rclone, Sshd, TempDir};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The entry with the name is replaced, by a server that can do so in one step.
pub(crate) const REPLACE: Existing = Existing::Replace { backup: Vec::new() };

/// A session with a server, and a directory that it may write to.
pub(crate) struct Bench {
    pub(crate) session: Session,
    pub(crate) dir: TempDir,
    pub(crate) name: &'static str,
    /// Ended after the session.
    pub(crate) server: Server,
}

pub(crate) enum Server {
    Program(Child),
    Sshd(#[allow(dead_code, reason = "it lives as long as this")] Sshd),
    Rclone(#[allow(dead_code, reason = "it lives as long as this")] Rclone),
    Odd(OddSftp),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Self::Program(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Bench {
    pub(crate) fn client(&self) -> &Client {
        self.session.client()
    }

    /// The path of a name in the directory, as the server is told it.
    pub(crate) fn path(&self, name: &str) -> Vec<u8> {
        match &self.server {
            // Its paths begin there.
            Server::Rclone(_) => format!("/{name}").into_bytes(),
            _ => self.local(name).into_os_string().into_encoded_bytes(),
        }
    }

    pub(crate) fn local(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn is_openssh(&self) -> bool {
        self.name == "openssh"
    }

    pub(crate) fn odd_server(&self) -> &OddSftp {
        match &self.server {
            Server::Odd(server) => server,
            _ => panic!("it is not odd"),
        }
    }
}

fn dir() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

/// The system's sftp-server, a child of this process.
pub(crate) fn openssh() -> Bench {
    openssh_with(Options::default())
}

pub(crate) fn openssh_with(options: Options) -> Bench {
    let program = system_sftp_server().expect("sftp-server is installed");
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sftp-server starts");
    let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let connection = Connection::from_parts(output, input);
    let session = Session::start(connection, options).expect("greeted");
    Bench { session, dir: dir(), name: "openssh", server: Server::Program(child) }
}

/// The same, at the other end of ssh.
pub(crate) fn through_ssh() -> Bench {
    let sshd = Sshd::start().expect("sshd starts");
    let connection = connect(&target(&sshd), Service::Sftp, Arc::new(|_| {})).expect("ssh starts");
    let session = Session::start(connection, Options::default()).expect("greeted");
    Bench { session, dir: dir(), name: "ssh", server: Server::Sshd(sshd) }
}

pub(crate) fn target(sshd: &Sshd) -> SshTarget {
    SshTarget::new(None, sshd.host()).and_then(|t| t.with_rsh(&sshd.rsh())).expect("a target")
}

/// rclone's server, with a cache or without.
pub(crate) fn rclone(cached: bool) -> Bench {
    let dir = dir();
    let serve = if cached { Rclone::serve_cached } else { Rclone::serve };
    let server = serve(dir.path()).expect("rclone starts");
    let target = SshTarget::new(None, server.host()).and_then(|t| t.with_rsh(&server.rsh()));
    let connection = connect(&target.expect("a target"), Service::Sftp, Arc::new(|_| {}));
    let session = Session::start(connection.expect("ssh starts"), Options::default());
    let name = if cached { "rclone with a cache" } else { "rclone" };
    let session = session.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    Bench { session, dir, name, server: Server::Rclone(server) }
}

/// Runs a test against servers that share no code.
pub(crate) fn with_real(test: impl Fn(&Bench)) {
    for bench in [openssh(), rclone(false), rclone(true)] {
        println!("against {}", bench.name);
        test(&bench);
        bench.session.finish();
    }
}

pub(crate) fn odd(name: &'static str, oddities: Oddities) -> Bench {
    odd_with(name, oddities, Options::default())
}

pub(crate) fn odd_with(name: &'static str, oddities: Oddities, options: Options) -> Bench {
    let dir = dir();
    let (connection, server) = serve_odd(dir.path(), oddities);
    let session = Session::start(connection, options).expect("greeted");
    Bench { session, dir, name, server: Server::Odd(server) }
}

pub(crate) fn serve_odd(dir: &Path, oddities: Oddities) -> (Connection, OddSftp) {
    let (server, from, to) = OddSftp::serve(dir, oddities).expect("served");
    (Connection::from_parts(from, to), server)
}

/// Runs a test against every server that keeps to the protocol.
pub(crate) fn with_each(test: impl Fn(&Bench)) {
    let plain = Oddities::default;
    for bench in [
        openssh(),
        through_ssh(),
        odd("plain", plain()),
        odd("reversed", Oddities { reversed: true, ..plain() }),
        odd("short", Oddities { short_reads: true, ..plain() }),
        odd(
            "tiny",
            Oddities {
                chunk_max: 1000,
                extensions: vec!["limits@openssh.com", "posix-rename@openssh.com"],
                reversed: true,
                short_reads: true,
                ..plain()
            },
        ),
    ] {
        println!("against {}", bench.name);
        test(&bench);
        bench.session.finish();
    }
}
