//! Each fault over each connection: through ssh, to a server by TCP and by QUIC, and over a
//! connection that an earlier command has kept. What has a name is the old file or the new one.
//! A job that may retry ends well; one that may not has its exit code, and the same command does
//! the rest.

use crate::common::*;
use crate::link::{LONG, told};
use haul_testkit::haul::{Outcome, Running};
use haul_testkit::proc::{self, Signal};
use haul_testkit::served::Served;
use haul_testkit::{Haul, Link, Sshd, holds_within, tree};
use std::fs;

/// The connection of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Ssh,
    /// The same, kept by an earlier command.
    Kept,
    ServerTcp,
    ServerQuic,
}

/// A fault that happens to a job in its middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// haul is killed, with all that it has started here.
    ClientKilled,
    /// haul is stopped with all of that, for longer than the other side waits.
    ClientStopped,
    /// The process that serves it is.
    JobKilled,
    /// All processes of the server are, or all of the login. The server starts again.
    ServerKilled,
    /// The connection ends.
    Cut,
    /// Its direction to the client ends, and nothing passes any more in the other one.
    HalfCut,
    /// Bytes are changed on their way.
    Corrupt,
    /// Nothing passes any more.
    Stalled,
}

const FAULTS: [Fault; 8] = [
    Fault::ClientKilled,
    Fault::ClientStopped,
    Fault::JobKilled,
    Fault::ServerKilled,
    Fault::Cut,
    Fault::HalfCut,
    Fault::Corrupt,
    Fault::Stalled,
];

/// Sizes of the source, in bytes: a file that has a journal and does not fit into the buffers of
/// the connection, and others.
const LARGE: u64 = (24 << 20) + 4321;
const MEDIUM: u64 = 1 << 20;
const SMALL: u8 = 20;

/// Bytes that have passed when a job is in its middle, and the bytes a second that pass from
/// there on until the fault has happened: all of them would take minutes.
const MIDDLE: u64 = 4 << 20;
const HELD: u64 = 64 << 10;

/// Packets of QUIC that are damaged one after the other. Each is dropped, and sent again.
const PACKETS: u64 = 3;

/// Where the other side of a job is.
struct Host<'s> {
    scene: &'s Scene<'s>,
    endpoint: Endpoint,
    link: Link,
    place: Place,
}

enum Place {
    Login(Sshd),
    Server(Served),
}

impl<'s> Host<'s> {
    fn start(scene: &'s Scene<'s>, endpoint: Endpoint) -> Self {
        let (link, place) = match endpoint {
            Endpoint::Ssh | Endpoint::Kept => {
                // Agents are told apart by their servers.
                let sshd = Sshd::builder().start().expect("sshd starts");
                (Link::to(&sshd), Place::Login(sshd))
            }
            Endpoint::ServerTcp | Endpoint::ServerQuic => {
                let root = scene.path("");
                let server = Served::start(HAUL.as_ref(), "haul-test", &root);
                let server = server.expect("the server starts");
                let link = Link::to_address(server.address().expect("an address"));
                (link, Place::Server(server))
            }
        };
        let link = link.expect("a link");
        if let Place::Server(server) = &place {
            server.be_reached_by(link.address()).expect("written");
        }
        Self { scene, endpoint, link, place }
    }

    /// haul with the words of this connection.
    fn haul(&self, command: &str) -> Haul {
        // One connection carries all contents, so each job has the same to lose.
        let haul = self.scene.haul().arg(command).args(["--timeout", "2"]).limit(LONG * 2);
        let haul = haul.env("HAUL_PARALLEL", "1");
        match (&self.place, self.endpoint) {
            (Place::Login(sshd), endpoint) => {
                let rsh = self.link.rsh(sshd);
                let haul = haul.args(["--rsh", &rsh, "--remote-haul", HAUL]).env("HAUL_VIA", "ssh");
                let keep = if endpoint == Endpoint::Kept { "60s" } else { "0" };
                haul.env("HAUL_KEEP", keep).env("XDG_RUNTIME_DIR", self.scene.runtime())
            }
            (Place::Server(server), endpoint) => {
                let via = if endpoint == Endpoint::ServerQuic { "quic" } else { "server-tcp" };
                haul.env("HAUL_VIA", via).env("XDG_STATE_HOME", server.state())
            }
        }
    }

    fn there(&self, path: &str) -> String {
        match self.place {
            Place::Login(_) => format!("haul-test:{}", self.scene.path(path).display()),
            Place::Server(_) => format!("haul-test:/{path}"),
        }
    }

    /// A copy of the source to `dest`.
    fn copy(&self, dest: &str, retries: u32) -> Haul {
        let retries = format!("--retries={retries}");
        let copy = self.haul("copy").args(["-r", "--json", &retries]).env_remove("HAUL_RETRIES");
        match self.scene.way {
            Way::Upload => copy.args(["src/.", &self.there(dest)]),
            _ => copy.args([&*self.there("src/."), dest]),
        }
    }

    /// The processes that serve jobs.
    fn jobs(&self) -> Vec<u32> {
        match &self.place {
            Place::Login(sshd) => sshd.agents(),
            Place::Server(server) => server.jobs().expect("it answers"),
        }
    }

    /// Begins a copy, and returns when it is in its middle, where the link holds it.
    fn begin(&self, dest: &str, retries: u32) -> Running {
        if self.endpoint == Endpoint::Kept {
            self.haul("ls").arg(self.there("src")).run().expect_ok();
        }
        let [to, from] = self.link.passed();
        self.link.limit_behind(0, to.max(from) + MIDDLE, HELD);
        let connections = self.link.connections();
        let running = self.copy(dest, retries).spawn().expect("it starts");
        let moved = || self.link.passed().into_iter().max() >= Some(to.max(from) + MIDDLE);
        let is_amid = running.until(LONG, moved);
        if !is_amid {
            panic!("it does not come to its middle: {}", running.wait().expect("it ends"));
        }
        let has_called = self.link.connections() > connections;
        assert_eq!(has_called, self.endpoint != Endpoint::Kept, "{:?}", self.endpoint);
        running
    }

    fn strike(&mut self, fault: Fault, running: &Running) {
        match fault {
            Fault::ClientKilled => running.kill_group(),
            Fault::ClientStopped => {
                running.signal_group(Signal::STOP);
                self.link.limit(0);
                let is_given_up = holds_within(LONG, || self.jobs().is_empty());
                running.signal_group(Signal::CONT);
                assert!(is_given_up, "it waits for its client");
            }
            Fault::JobKilled => {
                let jobs = self.jobs();
                assert!(!jobs.is_empty(), "nobody serves it");
                jobs.into_iter().for_each(|job| proc::signal(job, Signal::KILL));
            }
            Fault::ServerKilled => match &mut self.place {
                Place::Login(sshd) => sshd.cut(),
                Place::Server(server) => {
                    let address = server.address().expect("an address").to_string();
                    server.kill().expect("killed");
                    server.run_on(&address).expect("it starts again");
                }
            },
            Fault::Cut => self.link.cut(),
            Fault::HalfCut => self.link.cut_half(),
            Fault::Corrupt => {
                let pieces = if self.endpoint == Endpoint::ServerQuic { PACKETS } else { 1 };
                let is_upload = self.scene.way == Way::Upload;
                self.link.damage(if is_upload { [pieces, 0] } else { [0, pieces] });
            }
            Fault::Stalled => self.link.silence(),
        }
        self.link.limit(0);
    }

    /// Has `fault` happen to a copy that retries, or does not.
    fn befall(&mut self, fault: Fault, retries: u32) {
        let way = self.scene.way;
        let what = format!("{fault:?}, {:?}, {way:?}, {retries} retries", self.endpoint);
        let dest = format!("dst-{fault:?}");
        make_old(self.scene, &dest);
        let running = self.begin(&dest, retries);
        self.strike(fault, &running);
        assert_old_or_new(self.scene, &dest, &what);
        let run = running.wait().expect("it ends");
        assert_old_or_new(self.scene, &dest, &what);
        check_end(fault, self.endpoint, retries, &run, &what);
        assert!(holds_within(LONG, || self.link.has_damaged()), "{what}");
        // What a lost connection leaves on the host ends soon.
        let is_left = || self.endpoint != Endpoint::Kept || run.code != Some(0);
        assert!(!is_left() || holds_within(LONG, || self.jobs().is_empty()), "{what}: stays");
        assert_old_or_new(self.scene, &dest, &what);
        self.copy(&dest, 0).run().expect_ok();
        // A process that is killed while it gives a name leaves what clean removes.
        self.scene.haul().args(["clean", &dest]).run().expect_ok();
        let [src, there] = ["src", &*dest].map(|name| self.scene.snapshot(name));
        // The destination itself was there.
        let differences = src.differences(&there, self.scene.rules().ignoring_dir_mtimes());
        assert_eq!(differences, [], "{what}");
        assert_no_strays(&self.scene.path(&dest));
        self.scene.clear(&[&dest]);
    }
}

/// Checks the exit code of a run that `fault` has happened to.
fn check_end(fault: Fault, endpoint: Endpoint, retries: u32, run: &Outcome, what: &str) {
    if fault == Fault::ClientKilled {
        assert_eq!(run.signal, Some(9), "{what}: {run}");
    } else if fault == Fault::Corrupt && endpoint == Endpoint::ServerQuic {
        // Nobody but QUIC notices.
        assert_eq!((run.code, told_json(run)), (Some(0), [0, 0]), "{what}: {run}");
    } else if retries > 0 {
        assert_eq!((run.code, told_json(run)), (Some(0), [1, 1]), "{what}: {run}");
    } else {
        assert_eq!((run.code, told_json(run)), (Some(3), [0, 0]), "{what}: {run}");
    }
    assert_eq!(told(run), [0, 0], "{what}: in words and in JSON");
}

/// Lines of JSON about lost connections, and about those that stand again.
fn told_json(run: &Outcome) -> [usize; 2] {
    let out = run.out();
    ["connection_lost", "connection_regained"]
        .map(|kind| out.lines().filter(|line| line.contains(&format!("\"{kind}\""))).count())
}

fn make_sources(scene: &Scene<'_>) {
    scene.mkdir("src");
    for (name, len) in [("a-large", LARGE), ("medium", MEDIUM)] {
        tree::random_file(scene.path("src").join(name), len, len).expect("a file");
    }
    for at in 0..SMALL {
        scene.file(format!("src/small{at}"), vec![at; 10 << 10]);
    }
}

/// Makes a destination that has old files, of other sizes than the new ones.
fn make_old(scene: &Scene<'_>, dest: &str) {
    scene.mkdir(dest);
    for name in ["a-large", "medium", "small7"] {
        fs::write(scene.path(dest).join(name), name).expect("written");
    }
}

fn assert_old_or_new(scene: &Scene<'_>, dest: &str, what: &str) {
    for entry in fs::read_dir(scene.path("src")).expect("read").flatten() {
        let name = entry.file_name();
        let Ok(content) = fs::read(scene.path(dest).join(&name)) else { continue };
        let is_old = content == name.as_encoded_bytes();
        let is_new = || content == fs::read(entry.path()).expect("read");
        assert!(is_old || is_new(), "{what}: {name:?} is wrong");
    }
}

/// Has every fault happen to uploads and downloads, with retries and without by turns.
fn befall_all(endpoint: Endpoint) {
    each_remote_way(|scene| {
        make_sources(scene);
        let mut host = Host::start(scene, endpoint);
        for (nth, fault) in FAULTS.into_iter().enumerate() {
            let retries = if (nth + scene.way as usize).is_multiple_of(2) { 8 } else { 0 };
            host.befall(fault, retries);
        }
    });
}

#[test]
fn no_fault_harms_a_job_through_ssh() {
    befall_all(Endpoint::Ssh);
}

#[test]
fn no_fault_harms_a_job_over_a_kept_connection() {
    befall_all(Endpoint::Kept);
}

#[test]
fn no_fault_harms_a_job_to_a_server_by_tcp() {
    befall_all(Endpoint::ServerTcp);
}

#[test]
fn no_fault_harms_a_job_to_a_server_by_quic() {
    befall_all(Endpoint::ServerQuic);
}
