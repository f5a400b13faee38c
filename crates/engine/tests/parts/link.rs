//! The links of a job: in memory, and to a real agent in this process.

use crate::ending::connection;
use haul_engine::{JobError, Placement, ServeOptions, SftpRoute, WireOptions};
use haul_model::Via;
use haul_net::{Connection, ListenTarget, Writer};
use haul_testkit::sshd::system_sftp_server;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// The thread of an agent.
pub(crate) type Agent = thread::JoinHandle<Result<(), JobError>>;

/// Where the roles run, and what is between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Memory,
    UploadBySocket,
    DownloadBySocket,
    /// Large contents are spliced into a pipe.
    UploadByPipe,
    DownloadByPipe,
    /// Contents go over direct connections alone.
    UploadDirectly,
    DownloadDirectly,
    /// Through the system's own SFTP server, with so many sessions.
    SftpUpload(usize),
    SftpDownload(usize),
}

pub(crate) const WIRES: [Link; 6] = [
    Link::UploadBySocket,
    Link::DownloadBySocket,
    Link::UploadByPipe,
    Link::DownloadByPipe,
    Link::UploadDirectly,
    Link::DownloadDirectly,
];

/// Without an agent: the other end knows nothing of haul.
pub(crate) const SFTP: [Link; 4] =
    [Link::SftpUpload(1), Link::SftpDownload(1), Link::SftpUpload(3), Link::SftpDownload(3)];

/// All links, the one in memory first.
pub(crate) fn links() -> impl Iterator<Item = Link> {
    [Link::Memory].into_iter().chain(WIRES).chain(SFTP)
}

impl Link {
    /// The connections that contents take.
    pub(crate) fn wire(self) -> WireOptions {
        let via = match self {
            Self::UploadDirectly | Self::DownloadDirectly => Via::Tcp,
            _ => Via::Ssh,
        };
        WireOptions { via, ..WireOptions::default() }
    }

    /// The placement of a job, and the agent if there is one, or what stands in
    /// its place. Journals are kept in `journals` where they are not at the
    /// destination.
    pub(crate) fn placement(self, journals: &Path) -> (Placement, Option<Agent>) {
        let (connection, agent) = match self {
            Self::Memory => return (Placement::Local, None),
            Self::UploadBySocket
            | Self::DownloadBySocket
            | Self::UploadDirectly
            | Self::DownloadDirectly => by_socket(),
            Self::UploadByPipe | Self::DownloadByPipe => by_pipe(),
            Self::SftpUpload(sessions) => {
                let (connections, servers) = by_sftp(sessions, sftp_server);
                let journals = Some(journals.to_owned());
                let route =
                    SftpRoute { open_session: None, connections, journals, silence_max: None };
                return (Placement::SftpUpload(route), Some(servers));
            }
            Self::SftpDownload(sessions) => {
                let (connections, servers) = by_sftp(sessions, sftp_server);
                let route = SftpRoute {
                    open_session: None,
                    connections,
                    journals: None,
                    silence_max: None,
                };
                return (Placement::SftpDownload(route), Some(servers));
            }
        };
        let placement = match self {
            Self::UploadBySocket | Self::UploadByPipe | Self::UploadDirectly => {
                Placement::upload(connection)
            }
            _ => Placement::download(connection),
        };
        (placement, Some(agent))
    }
}

fn by_socket() -> (Connection, Agent) {
    let (here, there) = UnixStream::pair().expect("a socket pair");
    let agent = serve(there.try_clone().expect("a second handle"), there);
    (connection(here, Shutdown::Write), agent)
}

fn by_pipe() -> (Connection, Agent) {
    let (agent_in, client_out) = std::io::pipe().expect("a pipe");
    let (client_in, agent_out) = std::io::pipe().expect("a pipe");
    let agent = serve(agent_in, agent_out);
    let pipe: OwnedFd = client_out.as_fd().try_clone_to_owned().expect("a second handle");
    let mut connection = Connection::from_parts(client_in, io::sink());
    connection.writer = Writer::new(client_out, Some(pipe));
    (connection, agent)
}

/// An agent on a thread of its own, which it confines. It may complain only
/// where the client had to.
fn serve(
    input: impl Read + AsFd + Send + 'static,
    output: impl Write + AsFd + Send + 'static,
) -> Agent {
    thread::spawn(move || {
        let listen_target = ListenTarget::Port(Ipv4Addr::LOCALHOST.into());
        let connection = Connection::from_streams(input, output).expect("pipes or sockets");
        haul_engine::serve_with(
            ServeOptions { listen_target: Ok(&listen_target), ..ServeOptions::default() },
            connection,
        )
    })
}

fn sftp_server() -> Command {
    Command::new(system_sftp_server().expect("sftp-server is installed"))
}

/// SFTP servers on pipes, which end when their clients do, and whoever waits for
/// that.
pub(crate) fn by_sftp(sessions: usize, command: impl Fn() -> Command) -> (Vec<Connection>, Agent) {
    let start = |_| {
        let mut server = command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sftp-server starts");
        let to_server = server.stdin.take().expect("piped");
        let from_server = server.stdout.take().expect("piped");
        let pipe: OwnedFd = to_server.as_fd().try_clone_to_owned().expect("a second handle");
        let mut connection = Connection::from_parts(from_server, io::sink());
        connection.writer = Writer::new(to_server, Some(pipe));
        (connection, server)
    };
    let (connections, servers): (Vec<_>, Vec<_>) = (0..sessions).map(start).unzip();
    let wait = move || {
        let mut ended = Ok(());
        for mut server in servers {
            let status = server.wait().expect("waited for");
            if !status.success() {
                ended = Err(JobError::Protocol(format!("sftp-server: {status}")));
            }
        }
        ended
    };
    (connections, thread::spawn(wait))
}
