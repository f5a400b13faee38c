//! The command line by which each tool does the same thing: put the source,
//! under its name, into a directory that exists.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use haul_testkit::Sshd;

use super::server::Servers;
use super::workload::{DESTINATIONS, Direction, Mode, Transport};

/// The programs that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    Haul,
    /// haul, which is told not to compress.
    Plain,
    /// haul, which is told to compress with zstd.
    Zstd,
    /// haul, which is told to send what the host has.
    Uncached,
    /// haul, which is told to reach a server by TLS over TCP, over one connection.
    OverTcp,
    /// haul, which is not told to be fast.
    Hashing,
    /// haul, which copies to one destination after the other.
    OneByOne,
    Cp,
    Scp,
    /// `tar c` piped through ssh into `tar x`.
    Tar,
    /// `cat` of one file, through one connection of ssh with [`AES`].
    Cat,
    Rsync,
    /// rsync to its daemon.
    Daemon,
    /// No copy: a login by ssh that stays for [`LOGIN_SECONDS`].
    Login,
}

/// How long a login stays, in seconds.
const LOGIN_SECONDS: &str = "0.05";

/// The cipher of ssh for content that goes through `cat`: ssh's own first choice takes more
/// time than all the rest.
const AES: &str = "aes256-gcm@openssh.com";

/// One copy to be done.
pub(crate) struct Job<'a> {
    pub(crate) haul: &'a Path,
    pub(crate) sshd: &'a Sshd,
    pub(crate) source: &'a Path,
    pub(crate) into: &'a Path,
    pub(crate) is_tree: bool,
    pub(crate) direction: Direction,
    pub(crate) mode: Mode,
    pub(crate) transport: Transport,
    /// Content that the host has need not be sent. Elsewhere each round sends the same.
    pub(crate) uses_cache: bool,
    /// Set where the way leads through them.
    pub(crate) servers: Option<&'a Servers>,
}

impl Tool {
    /// How the tool is called in file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::Haul => "haul",
            Tool::Plain => "haul-plain",
            Tool::Zstd => "haul-zstd",
            Tool::Uncached => "haul-uncached",
            Tool::OverTcp => "haul-tcp",
            Tool::Hashing => "haul-hashing",
            Tool::OneByOne => "haul-one-by-one",
            Tool::Cp => "cp",
            Tool::Scp => "scp",
            Tool::Tar => "tar",
            Tool::Cat => "cat",
            Tool::Rsync => "rsync",
            Tool::Daemon => "daemon",
            Tool::Login => "login",
        }
    }

    /// How the tool is called in the table.
    pub(crate) fn title(self, is_tree: bool) -> &'static str {
        match self {
            Tool::Cp if is_tree => "cp -r",
            Tool::Scp if is_tree => "scp -r",
            Tool::Tar => "tar through ssh",
            Tool::Cat => "cat, AES-GCM ssh",
            Tool::Plain => "haul --compress none",
            Tool::Zstd => "haul --compress zstd",
            Tool::Uncached => "haul --no-cache",
            Tool::OverTcp => "haul --via server-tcp --parallel 1",
            Tool::Hashing => "haul copy",
            Tool::OneByOne => "haul copy, 4 times",
            Tool::Rsync => "rsync -a",
            Tool::Daemon => "rsync daemon",
            Tool::Login => "a login by ssh, and 50 ms",
            _ => self.name(),
        }
    }

    /// True if this is haul too, with other options.
    pub(crate) fn is_haul(self) -> bool {
        use Tool as T;
        matches!(self, T::Plain | T::Zstd | T::Uncached | T::OverTcp | T::Hashing | T::OneByOne)
    }

    /// The command that does the job.
    pub(crate) fn command(self, job: &Job) -> Command {
        let mut command = match self {
            Tool::Haul
            | Tool::Plain
            | Tool::Zstd
            | Tool::Uncached
            | Tool::OverTcp
            | Tool::Hashing => {
                let mut haul = Command::new(job.haul);
                match job.mode {
                    Mode::Fast if self == Tool::Haul => haul.args(["copy", "-q", "--fast"]),
                    Mode::ToAll => haul.args(["copy", "-q", "--to-all"]),
                    Mode::Copy | Mode::Fast => haul.args(["copy", "-q"]),
                    Mode::Sync(options) => haul.arg("sync").args(options),
                };
                match self {
                    Tool::Plain => haul.args(["--compress", "none"]),
                    Tool::Zstd => haul.args(["--compress", "zstd"]),
                    Tool::OverTcp => haul.args(["--via", "server-tcp", "--parallel", "1"]),
                    Tool::Haul if job.transport == Transport::Quic => {
                        haul.args(["--via", "server-quic"])
                    }
                    _ => &mut haul,
                };
                let is_cached = job.uses_cache && self != Tool::Uncached;
                if job.direction != Direction::Local && !is_cached {
                    haul.arg("--no-cache");
                }
                if let Some(servers) = job.servers {
                    haul.env("XDG_STATE_HOME", servers.state());
                } else if job.direction != Direction::Local {
                    haul.arg("--rsh").arg(job.sshd.rsh());
                    match job.transport {
                        Transport::Kept => haul.args(["--keep=30s", "--remote-haul"]).arg(job.haul),
                        Transport::Haul | Transport::Server | Transport::Quic => {
                            haul.arg("--remote-haul").arg(job.haul)
                        }
                        Transport::HaulBySsh => {
                            haul.args(["--via", "ssh", "--remote-haul"]).arg(job.haul)
                        }
                        Transport::Sftp(connections) => haul
                            .args(["--transport", "sftp", "--parallel"])
                            .arg(connections.to_string()),
                    };
                }
                haul
            }
            Tool::Cp => Command::new("cp"),
            Tool::Scp => {
                let mut scp = Command::new("scp");
                scp.args(["-q", "-F"]).arg(job.sshd.ssh_config());
                scp
            }
            Tool::Rsync | Tool::Daemon => {
                let mut rsync = Command::new("rsync");
                match job.mode {
                    Mode::Copy | Mode::Fast | Mode::ToAll => rsync.arg("-a"),
                    Mode::Sync(options) => rsync.args(options),
                };
                if self == Tool::Rsync {
                    rsync.arg("-e").arg(job.sshd.rsh());
                }
                rsync
            }
            Tool::Tar => return tar(job),
            Tool::Cat => return cat(job),
            Tool::OneByOne => return one_by_one(job),
            Tool::Login => return job.sshd.command(format!("sleep {LOGIN_SECONDS}")),
        };
        if job.is_tree && !matches!(self, Tool::Rsync | Tool::Daemon) && job.mode.is_copy() {
            command.arg("-r");
        }
        command.arg(job.from(self));
        match job.mode {
            Mode::ToAll => {
                command.args(DESTINATIONS.map(|name| job.to(self, &job.into.join(name))))
            }
            _ => command.arg(job.to(self, job.into)),
        };
        command
    }
}

impl Job<'_> {
    fn from(&self, tool: Tool) -> OsString {
        match self.direction {
            Direction::Download => self.on_host(tool, self.source),
            _ => self.source.into(),
        }
    }

    /// `path` on the host.
    fn on_host(&self, tool: Tool, path: &Path) -> OsString {
        match (self.servers, tool) {
            (Some(servers), Tool::Daemon) => servers.at_daemon(path),
            (Some(servers), Tool::Haul | Tool::OverTcp) => servers.location(path),
            _ => self.sshd.location(path),
        }
    }

    /// The place of the directory `into`.
    fn to(&self, tool: Tool, into: &Path) -> OsString {
        let mut to = match self.direction {
            Direction::Upload => self.on_host(tool, into),
            _ => into.into(),
        };
        to.push("/");
        to
    }
}

/// A copy for each destination, in a shell.
fn one_by_one(job: &Job) -> Command {
    let mut command = Command::new("sh");
    let script = r#"haul=$1 rsh=$2 source=$3; shift 3
for dest; do "$haul" copy -q --no-cache --rsh "$rsh" --remote-haul "$haul" "$source" "$dest" || exit; done"#;
    command
        .args(["-c", script, "sh"])
        .arg(job.haul)
        .arg(job.sshd.rsh())
        .arg(job.from(Tool::OneByOne));
    let to = |name| job.to(Tool::OneByOne, &job.into.join(name));
    command.args(DESTINATIONS.map(to));
    command
}

/// Both directions as one pipe. The paths are those of our own scratch space
/// and need no quoting on the server.
fn tar(job: &Job) -> Command {
    let ssh = format!("{} {}", job.sshd.rsh(), job.sshd.host());
    let parent = job.source.parent().unwrap_or(Path::new("/")).display();
    let name = job.source.file_name().unwrap_or_default().display();
    let into = job.into.display();
    let line = match job.direction {
        Direction::Local => format!("tar -C {parent} -cf - {name} | tar -C {into} -xf -"),
        Direction::Upload => format!("tar -C {parent} -cf - {name} | {ssh} 'tar -C {into} -xf -'"),
        Direction::Download => {
            format!("{ssh} 'tar -C {parent} -cf - {name}' | tar -C {into} -xf -")
        }
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command
}

/// A file through `cat` on the host, and a shell's redirection here. The paths need no
/// quoting, as above.
fn cat(job: &Job) -> Command {
    let ssh = format!("{} -c {AES} {}", job.sshd.rsh(), job.sshd.host());
    let source = job.source.display();
    let copy = job.into.join(job.source.file_name().unwrap_or_default());
    let copy = copy.display();
    let line = match job.direction {
        Direction::Local => format!("cat {source} > {copy}"),
        Direction::Upload => format!("{ssh} 'cat > {copy}' < {source}"),
        Direction::Download => format!("{ssh} 'cat {source}' > {copy}"),
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command
}
