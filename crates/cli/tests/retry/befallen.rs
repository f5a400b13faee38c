//! Troubles of every kind while contents are on their way, for each way that they can take,
//! over one connection and over several: what has a name is whole at any time, the same
//! command ends well, and what was on record is not sent again.

use crate::common::*;
use crate::link::LONG;
use haul_testkit::content::Stream;
use haul_testkit::haul::Running;
use haul_testkit::proc::{self, Signal};
use haul_testkit::{Haul, Sshd, Tcp, campaign, holds_within, tree};
use std::fs;
use std::time::Duration;

/// How a job is troubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// haul is killed with all that it has started here.
    Killed,
    /// A process of the job is: one of ssh, or one on the host.
    LosesOne,
    /// A connection ends.
    Cut,
    /// Bytes are on it that nobody has sent.
    Corrupt,
    /// Nothing arrives by it any more.
    Silent,
}

const TROUBLES: [Trouble; 5] =
    [Trouble::Killed, Trouble::LosesOne, Trouble::Cut, Trouble::Corrupt, Trouble::Silent];

/// The process or the connection that is troubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// One that is drawn by lot.
    Any,
    /// An agent: of two, the first one receives.
    Agent(usize),
    /// A connection past ssh.
    Direct,
    /// One of ssh.
    Ssh,
}

/// The troubles of jobs between two hosts.
const BETWEEN: [(Trouble, Aim); 8] = [
    (Trouble::Killed, Aim::Any),
    (Trouble::LosesOne, Aim::Agent(0)),
    (Trouble::LosesOne, Aim::Agent(1)),
    (Trouble::Cut, Aim::Direct),
    (Trouble::Cut, Aim::Ssh),
    (Trouble::Silent, Aim::Direct),
    (Trouble::Silent, Aim::Ssh),
    (Trouble::Corrupt, Aim::Any),
];

/// Connections that a job may have.
const CONNECTIONS: [&str; 2] = ["1", "4"];

/// The large file, which has a journal, and one that has none, in bytes.
const LARGE: u64 = (20 << 20) + 4321;
const MEDIUM: u64 = 5 << 20;
const SMALL: u8 = 40;

/// A job goes on for about a second: at some time in this one after content has come it is
/// troubled, and perhaps at some time after that once more.
const RATE: &str = "24m";
const MOMENT_MS: u64 = 400;

/// How often a job is begun that is to be troubled. On a busy machine it can be done first.
const ATTEMPTS: usize = 10;

/// Length of a block, of a journal's header, and of its records, as documented.
const BLOCK: u64 = 4 << 20;
const HEADER: u64 = 256;
const RECORD: u64 = 32;

/// Bytes that may be sent twice: two blocks.
const REPEATED: u64 = 2 * BLOCK;

/// Jobs between this machine and one host.
struct Jobs<'s> {
    scene: &'s Scene<'s>,
    sshd: Sshd,
    via: &'s str,
    lot: Stream,
    begun: usize,
}

impl Jobs<'_> {
    /// Makes the sources: no copy has their sizes and times but one of them.
    fn make_sources(&self) {
        self.scene.mkdir("src");
        for (name, len) in [("a-large", LARGE), ("medium", MEDIUM)] {
            let path = self.scene.path("src").join(name);
            tree::random_file(path, len, len).expect("a file");
        }
        for at in 0..SMALL {
            self.scene.file(format!("src/small{at}"), vec![at; 40 << 10]);
        }
    }

    /// Another destination, which has old versions of some files.
    fn next_dest(&mut self) -> String {
        self.begun += 1;
        let dest = format!("dst{}", self.begun);
        self.scene.mkdir(&dest);
        fs::write(self.scene.path(&dest).join("medium"), self.old("medium")).expect("written");
        fs::write(self.scene.path(&dest).join("small7"), self.old("small7")).expect("written");
        dest
    }

    /// The old version of a file: the second half of it is another, and shorter.
    fn old(&self, name: &str) -> Vec<u8> {
        let mut old = fs::read(self.scene.path("src").join(name)).expect("read");
        let half = old.len() / 2;
        old[half..].fill(9);
        old.truncate(half + half / 3);
        old
    }

    fn job(&self, connections: &str, dest: &str) -> Haul {
        let flags = ["-a", "--json", "--bwlimit", RATE, "--timeout", "2", "--retries", "8"];
        let flags = [&flags[..], &["--via", self.via, "--parallel", connections]].concat();
        let job = self.scene.transfer("sync", &self.scene.route(), &flags, &["src/"], dest);
        job.env_remove("HAUL_RETRIES").limit(LONG * 2)
    }

    /// Runs a job that this befalls.
    fn befall(&mut self, (trouble, aim): (Trouble, Aim), connections: &str) {
        for _ in 0..ATTEMPTS {
            let dest = self.next_dest();
            let is_befallen = self.try_befall((trouble, aim), connections, &dest);
            self.scene.clear(&[&dest]);
            if is_befallen {
                return;
            }
        }
        panic!("{trouble:?} over {connections}: it was done too soon, {ATTEMPTS} times");
    }

    fn try_befall(
        &mut self,
        (trouble, aim): (Trouble, Aim),
        connections: &str,
        dest: &str,
    ) -> bool {
        let job = self.job(connections, dest);
        let running = job.spawn().expect("it starts");
        let begins = || self.on_record(dest) > 0 || self.is_there(dest, "a-large");
        assert!(running.until(LONG, begins), "{trouble:?} over {connections}: nothing comes");
        self.wait_a_moment();
        let is_befallen = self.strike(trouble, aim, &running) && !self.is_done(trouble, &running);
        self.assert_whole(dest);
        if trouble == Trouble::Killed {
            running.wait().expect("it ends");
            self.go_on(&job, dest);
        } else {
            self.wait_a_moment();
            let another = TROUBLES[1 + self.lot.below(TROUBLES.len() as u64 - 1) as usize];
            self.strike(another, Aim::Any, &running);
            self.assert_whole(dest);
            running.wait().expect("it ends").expect_ok();
        }
        let [src, there] = ["src", dest].map(|name| self.scene.snapshot(name));
        let differences = src.differences(&there, self.scene.rules());
        assert_eq!(differences, [], "{trouble:?} over {connections}");
        assert_no_strays(&self.scene.path(dest));
        is_befallen
    }

    /// Runs a job again that was killed: it sends what is missing, but for what is on record.
    fn go_on(&self, job: &Haul, dest: &str) {
        assert!(holds_within(LONG, || self.sshd.agents().is_empty()), "somebody stays");
        self.assert_whole(dest);
        let all = fs::read_dir(self.scene.path("src")).expect("read").flatten();
        let missing = all.filter(|file| {
            let there = self.scene.path(dest).join(file.file_name());
            fs::read(there).ok() != fs::read(file.path()).ok()
        });
        let missing: u64 = missing.map(|file| file.metadata().expect("it is there").len()).sum();
        let recorded = self.on_record(dest) * BLOCK;
        let run = job.run().expect_ok();
        let (sent, resumed) = (moved(&run), figure(&run, "resumed"));
        assert!(resumed >= recorded, "{resumed} of {recorded} are resumed: {run}");
        // On a busy machine a lane that seems to stand still loses its block to another.
        assert!(sent <= missing - recorded + REPEATED, "{sent} of {missing} but {recorded}: {run}");
    }

    /// True if it has ended before it was troubled.
    fn is_done(&self, trouble: Trouble, running: &Running) -> bool {
        trouble != Trouble::Killed && !running.is_running()
    }

    fn wait_a_moment(&mut self) {
        std::thread::sleep(Duration::from_millis(self.lot.below(MOMENT_MS)));
    }

    /// Troubles a job now; `false` if there is nothing to be troubled.
    fn strike(&mut self, trouble: Trouble, aim: Aim, running: &Running) -> bool {
        let (here, agents) = (proc::descendants(running.pid()), self.sshd.agents());
        let drawn = self.lot.next_u64() as usize;
        if trouble == Trouble::Killed {
            let was_running = running.is_running();
            running.kill_group();
            return was_running;
        }
        if trouble == Trouble::LosesOne {
            let processes = if aim == Aim::Any { [&here[..], &agents].concat() } else { agents };
            let nth = if let Aim::Agent(nth) = aim { nth } else { drawn % processes.len().max(1) };
            let process = processes.get(nth);
            process.into_iter().for_each(|process| proc::signal(*process, Signal::KILL));
            return process.is_some();
        }
        let own = [running.pid()];
        let processes = match aim {
            Aim::Direct => [&own[..], &agents].concat(),
            Aim::Ssh => here,
            Aim::Any | Aim::Agent(_) => [&own[..], &here, &agents].concat(),
        };
        let connections: Vec<Tcp> = processes.into_iter().flat_map(Tcp::of).collect();
        let connection = connections.get(drawn % connections.len().max(1));
        connection.is_some_and(|connection| match trouble {
            Trouble::Cut => connection.cut().is_ok(),
            Trouble::Silent => connection.silence().is_ok(),
            // There is room at some time, unless the connection ends before.
            _ => running.until(LONG, || connection.corrupt().unwrap_or(true)),
        })
    }

    fn is_there(&self, dest: &str, name: &str) -> bool {
        self.scene.path(dest).join(name).exists()
    }

    /// Blocks that the journal claims.
    fn on_record(&self, dest: &str) -> u64 {
        let entries = fs::read_dir(self.scene.path(dest)).into_iter().flatten().flatten();
        let journals =
            entries.filter(|it| it.file_name().as_encoded_bytes().ends_with(b".journal"));
        let lens = journals.filter_map(|journal| journal.metadata().ok()).map(|it| it.len());
        lens.max().unwrap_or(0).saturating_sub(HEADER) / RECORD
    }

    /// Files that have their names are those of the source, or the old ones.
    fn assert_whole(&self, dest: &str) {
        for entry in fs::read_dir(self.scene.path("src")).expect("read").flatten() {
            let name = entry.file_name();
            let Ok(content) = fs::read(self.scene.path(dest).join(&name)) else { continue };
            let is_new = content == fs::read(entry.path()).expect("read");
            let is_whole = is_new || content == self.old(&name.to_string_lossy());
            assert!(is_whole, "{name:?} is wrong");
        }
    }
}

/// Has every trouble befall jobs to a host, from one, and between two, in each way with the
/// other number of connections.
fn befall_all(via: &str) {
    each_of(
        &[Way::Upload, Way::Download, Way::Between],
        |_| {},
        |scene| {
            // Agents are told apart by their servers.
            let sshd = Sshd::builder().start().expect("sshd starts");
            let ssh = script(&scene.path("ssh"), &format!("exec {} \"$@\"", sshd.rsh()));
            let mut reached = scene.another(&format!("{:?}-reached", scene.way));
            reached.reach_by(ssh);
            let way = scene.way as u64;
            let lot = Stream::new(campaign::seed(0xbefa + way + 16 * via.len() as u64));
            let mut jobs = Jobs { scene: &reached, sshd, via, lot, begun: 0 };
            jobs.make_sources();
            for round in 0..campaign::rounds(1) {
                for (nth, trouble) in troubles(scene.way, via).into_iter().enumerate() {
                    let odd = (nth as u64 + way + round) % CONNECTIONS.len() as u64;
                    jobs.befall(trouble, CONNECTIONS[odd as usize]);
                }
            }
        },
    );
}

/// The troubles of jobs in that way.
fn troubles(way: Way, via: &str) -> Vec<(Trouble, Aim)> {
    let has_direct = via != "ssh";
    match way {
        Way::Between => {
            BETWEEN.into_iter().filter(|(_, aim)| has_direct || *aim != Aim::Direct).collect()
        }
        _ => TROUBLES.map(|trouble| (trouble, Aim::Any)).into(),
    }
}

#[test]
fn whatever_befalls_a_job_through_ssh_changes_nothing() {
    befall_all("ssh");
}

#[test]
fn whatever_befalls_a_job_over_direct_connections_changes_nothing() {
    befall_all("tcp");
}

#[test]
fn whatever_befalls_a_job_that_takes_either_way_changes_nothing() {
    befall_all("auto");
}
