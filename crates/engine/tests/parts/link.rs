//! The links of a job: in memory, and to a real agent in this process.

use haul_engine::{JobError, Placement};
use haul_net::{Connection, Writer};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
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
}

pub(crate) const WIRES: [Link; 4] =
    [Link::UploadBySocket, Link::DownloadBySocket, Link::UploadByPipe, Link::DownloadByPipe];

impl Link {
    /// The placement of a job, and the agent if there is one.
    pub(crate) fn placement(self) -> (Placement, Option<Agent>) {
        let (connection, agent) = match self {
            Self::Memory => return (Placement::Local, None),
            Self::UploadBySocket | Self::DownloadBySocket => by_socket(),
            Self::UploadByPipe | Self::DownloadByPipe => by_pipe(),
        };
        let placement = match self {
            Self::UploadBySocket | Self::UploadByPipe => Placement::Upload(connection),
            _ => Placement::Download(connection),
        };
        (placement, Some(agent))
    }
}

fn by_socket() -> (Connection, Agent) {
    let (here, there) = UnixStream::pair().expect("a socket pair");
    let agent = serve(there.try_clone().expect("a second handle"), there);
    (Connection::from_parts(here.try_clone().expect("a second handle"), Ending(here)), agent)
}

/// A client's output that tells the agent when it ends, as that of a child
/// process does.
struct Ending(UnixStream);

impl Write for Ending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }
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
fn serve(input: impl Read + Send + 'static, output: impl Write + AsFd + Send + 'static) -> Agent {
    thread::spawn(|| haul_engine::serve(input, output))
}
