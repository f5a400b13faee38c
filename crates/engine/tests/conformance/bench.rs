//! A source, a destination for each link, and the comparison of what came of
//! one job over all of them.

use crate::watch::Watch;
use haul_engine::{CopyJob, JobError, Outcome, Placement, Summary};
use haul_net::Connection;
use haul_testkit::{Compare, assert_same_with, nasty, snapshot};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tempfile::TempDir;

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
    let mut connection = Connection::from_parts(client_in, client_out);
    connection.pipe = Some(pipe);
    (connection, agent)
}

/// An agent on a thread of its own, which it confines. It may complain only
/// where the client had to.
fn serve(input: impl Read + Send + 'static, output: impl Write + AsFd + Send + 'static) -> Agent {
    thread::spawn(|| haul_engine::serve(input, output))
}

/// A source, and a destination for each link.
pub(crate) struct Bench {
    temp: TempDir,
    /// Furnishes a destination before the job.
    pub(crate) before: fn(&Path),
    /// What is copied, below the source.
    pub(crate) sources: &'static [&'static str],
    /// Appended to the destination's path.
    pub(crate) dest: &'static str,
    pub(crate) job: CopyJob,
}

/// What came of a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) summary: Summary,
    pub(crate) outcomes: BTreeMap<String, Outcome>,
    pub(crate) warnings: Vec<String>,
}

impl Bench {
    /// Copies `sources` recursively into an empty directory.
    pub(crate) fn new(sources: &'static [&'static str], make: impl FnOnce(&Path)) -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(temp.path().join("source")).expect("made");
        make(&temp.path().join("source"));
        let job = CopyJob { into_dir: sources.len() > 1, recursive: true, ..CopyJob::default() };
        Self { temp, before: |_| (), sources, dest: "", job }
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.temp.path().join("source")
    }

    pub(crate) fn dest(&self, link: Link) -> PathBuf {
        self.temp.path().join(format!("{link:?}"))
    }

    /// The job with its destination here, which is furnished unless it is there.
    pub(crate) fn job_into(&self, root: &Path) -> CopyJob {
        if !root.exists() {
            fs::create_dir(root).expect("made");
            (self.before)(root);
        }
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let below = |name: &&str| [&bytes(&self.source())[..], b"/", name.as_bytes()].concat();
        CopyJob {
            sources: self.sources.iter().map(below).collect(),
            dest: [&bytes(root)[..], b"/", self.dest.as_bytes()].concat(),
            ..self.job.clone()
        }
    }

    /// Runs the job over this link.
    pub(crate) fn run(&self, link: Link) -> Came {
        let job = self.job_into(&self.dest(link));
        let watch = Watch::default();
        let (placement, agent) = link.placement();
        let summary = haul_engine::run(&job, placement, &watch)
            .unwrap_or_else(|error| panic!("{link:?}: {error}"));
        if let Some(agent) = agent {
            let served = agent.join().expect("the agent does not panic");
            assert!(served.is_ok(), "{link:?}: {served:?}");
        }
        let mut warnings = watch.warnings();
        warnings.sort();
        Came { summary, outcomes: watch.outcomes(), warnings }
    }

    /// Runs the job over all links, and expects that the same comes of it.
    pub(crate) fn check(&self) -> Came {
        let expected = self.run(Link::Memory);
        let tree = snapshot(self.dest(Link::Memory)).expect("read");
        for link in WIRES {
            let came = self.run(link);
            let came_tree = snapshot(self.dest(link)).expect("read");
            // What stood before keeps its own time, which is that of its making.
            let rules = Compare::everything().ignoring_root();
            let rules = if self.makes_all() { rules } else { rules.ignoring_dir_mtimes() };
            assert_same_with(&tree, &came_tree, rules);
            assert_eq!(came.outcomes, expected.outcomes, "{link:?}");
            // How much is moved for a hole is each link's own affair.
            let moved = expected.summary.moved;
            let came = Came { summary: Summary { moved, ..came.summary }, ..came };
            assert_eq!(came, expected, "{link:?}");
        }
        expected
    }

    /// Whether nothing stood at the destination before the job, and the job was
    /// told to make no part of the destination itself.
    fn makes_all(&self) -> bool {
        let empty = tempfile::tempdir().expect("a temporary directory");
        (self.before)(empty.path());
        self.dest.is_empty() && fs::read_dir(empty.path()).expect("read").next().is_none()
    }

    /// Every copy of `source` is the same as it.
    pub(crate) fn check_copies(&self, source: &str, copy: &str) {
        let source = snapshot(self.source().join(source)).expect("read");
        for link in WIRES.into_iter().chain([Link::Memory]) {
            let copy = snapshot(self.dest(link).join(copy)).expect("read");
            assert_same_with(&source, &copy, Compare::everything());
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = nasty::unlock(self.temp.path());
        // Trees that are deeper than a path can say are too much for a
        // temporary directory to remove by itself.
        let _ = Command::new("rm").arg("-rf").arg(self.temp.path()).status();
    }
}
