//! Threads that handle a peer's words are confined by the system: those of an agent, and the
//! threads of a client that downloads. Here they try, from within, what a peer
//! could make them do if they had a hole.

use crate::attack::{bytes, within};
use crate::peer::{Peer, dir_end, file, pack, packed, receiving, want};
use crate::place::Place;
use haul_engine::{Event, Job, Monitor, Placement, Progress, SftpRoute};
use haul_model::{Moving, Remove, Task};
use haul_net::Connection;
use haul_proto::{NamedDest, NamedSources, Role};
use haul_sys::{Access, confine};
use haul_testkit::{OddSftp, Oddities, fixture};
use parking_lot::Mutex;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A thread's abilities at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Could {
    write_outside: bool,
    read_outside: bool,
    write_at_source: bool,
    write_at_dest: bool,
}

/// The abilities of a thread that is not confined.
const ALL: Could =
    Could { write_outside: true, read_outside: true, write_at_source: true, write_at_dest: true };

/// Tries what it may, from whatever thread calls it, and keeps the last answer.
#[derive(Clone)]
struct Trial {
    outside: PathBuf,
    source: PathBuf,
    dest: PathBuf,
    last: Arc<Mutex<Option<Could>>>,
}

impl Trial {
    fn of(place: &Place) -> Self {
        let [outside, source, dest] = [place.outside(""), place.source(""), place.dest("")];
        Self { outside, source, dest, last: Arc::default() }
    }

    fn run(&self) {
        let can_write = |dir: &PathBuf| {
            // Several threads try at the same time.
            static TRIED: AtomicU64 = AtomicU64::new(0);
            let path = dir.join(format!("tried-{}", TRIED.fetch_add(1, Ordering::Relaxed)));
            let is_made = fs::write(&path, "x").is_ok();
            if is_made {
                fs::remove_file(path).expect("removed");
            }
            is_made
        };
        let mut last = self.last.lock();
        *last = Some(Could {
            write_outside: can_write(&self.outside),
            read_outside: fs::read(self.outside.join("secret")).is_ok(),
            write_at_source: can_write(&self.source),
            write_at_dest: can_write(&self.dest),
        });
    }

    #[track_caller]
    fn came_to(&self) -> Could {
        self.last.lock().expect("it was tried")
    }
}

/// A stream that tries whenever it is used.
struct Trying(UnixStream, Trial);

impl Read for Trying {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(buf)?;
        self.1.run();
        Ok(len)
    }
}

impl Write for Trying {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.run();
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Trying {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A monitor that tries whenever it is told something.
struct TryingMonitor(Progress, Trial);

impl Monitor for TryingMonitor {
    fn progress(&self) -> &Progress {
        &self.0
    }

    fn event(&self, _: Event<'_>) {
        self.1.run();
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// True if this kernel confines at all, asked beside the code that is tested.
fn has_landlock() -> bool {
    let confined = thread::spawn(|| confine(Access::ReadOnly)).join().expect("it does not panic");
    if !confined {
        fixture::missing("Landlock in the kernel");
    }
    confined
}

/// The abilities of an agent's threads while it served `script`: of those that read and of
/// those that write.
fn serve(place: &Place, script: impl FnOnce(&mut Peer)) -> [Could; 2] {
    let (here, there) = UnixStream::pair().expect("a socket pair");
    let [reading, writing] = [Trial::of(place), Trial::of(place)];
    let input = Trying(there.try_clone().expect("a second handle"), reading.clone());
    let output = Trying(there.try_clone().expect("a third handle"), writing.clone());
    reading.run();
    assert_eq!(reading.came_to(), ALL, "it could not without confinement either");
    let agent = within(move || {
        let served = haul_engine::serve(input, output);
        // Its process would end here, and the connection with it.
        let _ = there.shutdown(std::net::Shutdown::Both);
        served
    });
    let mut peer = Peer::at(here);
    script(&mut peer);
    peer.hear_out();
    let _ = agent.end();
    [reading.came_to(), writing.came_to()]
}

#[test]
fn an_agent_that_receives_works_at_the_destination_alone() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let dest = bytes(&place.dest(""));
    let could = serve(&place, |peer| {
        peer.ask(receiving(dest, true));
        peer.list(vec![file(0, "a", 4), dir_end(0)]);
        peer.await_wants([1]);
        peer.raw(&pack([packed(1, b"text")], b"text"));
        peer.await_outcome(1);
    });
    let only_dest = Could {
        write_outside: false,
        read_outside: false,
        write_at_source: false,
        write_at_dest: true,
    };
    assert_eq!(could, [only_dest; 2]);
    assert_eq!(place.read("a"), "text");
}

/// The abilities of a thread that may read everywhere, and write nowhere.
const READS: Could = Could {
    write_outside: false,
    read_outside: true,
    write_at_source: false,
    write_at_dest: false,
};

#[test]
fn an_agent_that_sends_writes_nowhere() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    fs::write(place.source("a"), "text").expect("written");
    let sources = vec![bytes(&place.source("a"))];
    let could = serve(&place, |peer| {
        peer.ask(Role::Sender(NamedSources::at(sources)));
        peer.await_listing();
        peer.tell(&want([1]));
        peer.await_that("it is sent", |peer| !peer.contents.is_empty());
        peer.leave();
    });
    assert_eq!(could, [READS; 2]);
}

#[test]
fn an_agent_that_removes_makes_nothing() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    fs::write(place.source("a"), "text").expect("written");
    let sources = vec![bytes(&place.source("a"))];
    let could = serve(&place, |peer| {
        let task = Task::Remove { rule: Remove::SameContent, moving: Moving::Whole };
        peer.ask_for(
            task,
            Role::Sender(NamedSources { recursive: true, ..NamedSources::at(sources) }),
        );
        peer.await_listing();
        peer.leave();
    });
    assert_eq!(could, [READS; 2]);
}

#[test]
fn a_client_that_downloads_works_at_the_destination_alone() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let trial = Trial::of(&place);
    let job = Job {
        sources: NamedSources::at(vec![b"there/a".to_vec()]),
        dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
        ..Job::default()
    };
    let (connection, mut peer) = Peer::of_client();
    let monitor = TryingMonitor(Progress::default(), trial.clone());
    let client = within(move || haul_engine::run(&job, Placement::download(connection), &monitor));
    peer.answer();
    peer.list(vec![file(0, "a", 4), dir_end(0)]);
    peer.await_wants([1]);
    peer.raw(&pack([packed(1, b"text")], b"text"));
    peer.hear_out();
    client.end().expect("it is copied");
    let only_dest = Could {
        write_outside: false,
        read_outside: false,
        write_at_source: false,
        write_at_dest: true,
    };
    assert_eq!(trial.came_to(), only_dest);
    assert_eq!(place.read("a"), "text");
}

/// The abilities of a client's threads that has `job` done through the SFTP server
/// of a host, where the source is.
fn through_sftp(place: &Place, job: Job) -> Could {
    let trial = Trial::of(place);
    trial.run();
    assert_eq!(trial.came_to(), ALL, "it could not without confinement either");
    let (server, from, to) =
        OddSftp::serve(&place.source(""), Oddities::default()).expect("served");
    let connections = vec![Connection::from_parts(from, to)];
    let route = SftpRoute { open_session: None, connections, journals: None, silence_max: None };
    let monitor = TryingMonitor(Progress::default(), trial.clone());
    let client = within(move || haul_engine::run(&job, Placement::SftpDownload(route), &monitor));
    client.end().expect("it is done");
    drop(server);
    trial.came_to()
}

#[test]
fn a_client_that_downloads_through_sftp_works_at_the_destination_alone() {
    if !has_landlock() {
        return;
    }
    // Each length has threads of its own.
    for len in [4, 3 << 20] {
        let place = Place::new();
        let content = "x".repeat(len);
        fs::write(place.source("a"), &content).expect("written");
        let job = Job {
            sources: NamedSources::at(vec![bytes(&place.source("a"))]),
            dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
            ..Job::default()
        };
        let only_dest = Could {
            write_outside: false,
            read_outside: false,
            write_at_source: false,
            write_at_dest: true,
        };
        assert_eq!(through_sftp(&place, job.clone()), only_dest, "{len}");
        assert_eq!(place.read("a"), content);
        let task = Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES };
        assert_eq!(through_sftp(&place, Job { task, ..job }), READS, "{len}");
    }
}
