//! How jobs end when they can't be done: what was published is whole, what was
//! there before stays until then, and nothing private is left.

#![forbid(unsafe_code)]

#[path = "parts/ending.rs"]
mod ending;
#[path = "parts/link.rs"]
mod link;
#[path = "parts/watch.rs"]
mod watch;

use haul_engine::{Job, JobError, NamedDest, NamedSources, Placement, Summary};
use haul_model::{Conflict, Policy, Task};
use haul_net::Connection;
use haul_testkit::campaign;
use haul_testkit::content::Stream;
use haul_testkit::snapshot::Kind;
use haul_testkit::{Snapshot, snapshot, tree};
use link::links;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use watch::Watch;

/// Places at which each direction of a conversation is disturbed.
const DISTURBANCES: u64 = 25;

/// How long the user of a disturbed job waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// A disturbance of one direction of a conversation, at a byte of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    None,
    /// The connection ends there.
    Cut(u64),
    /// A bit of that byte is turned over.
    Flip(u64),
}

/// One end of a conversation that is disturbed, with the bytes that passed.
struct Disturbed {
    stream: UnixStream,
    disturbance: Disturbance,
    passed: Arc<AtomicU64>,
}

impl Disturbed {
    /// How much of `len` may pass, and which of it is to be turned over.
    fn admit(&self, len: usize) -> io::Result<(usize, Option<usize>)> {
        let passed = self.passed.load(Ordering::Relaxed);
        match self.disturbance {
            Disturbance::None => Ok((len, None)),
            Disturbance::Cut(at) => {
                let left = at.saturating_sub(passed).min(len as u64) as usize;
                if left == 0 {
                    let _ = self.stream.shutdown(Shutdown::Both);
                }
                Ok((left, None))
            }
            Disturbance::Flip(at) => {
                let here = at.checked_sub(passed).filter(|at| *at < len as u64);
                Ok((len, here.map(|at| at as usize)))
            }
        }
    }

    fn pass(&self, len: usize) {
        self.passed.fetch_add(len as u64, Ordering::Relaxed);
    }
}

impl Read for Disturbed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (len, _) = self.admit(buf.len())?;
        let len = self.stream.read(&mut buf[..len])?;
        if let (_, Some(at)) = self.admit(len)? {
            buf[at] ^= 0x10;
        }
        self.pass(len);
        Ok(len)
    }
}

impl Write for Disturbed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (len, flipped) = self.admit(bytes.len())?;
        if len == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut bytes = bytes[..len].to_vec();
        if let Some(at) = flipped {
            bytes[at] ^= 0x10;
        }
        self.stream.write_all(&bytes)?;
        self.pass(len);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Ends the conversation as a whole, as the end of a child process does.
impl Drop for Disturbed {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Runs the job into `dest`, disturbed on the way to the agent and
/// back. Returns how it ended, and how many bytes passed.
fn run_disturbed(
    work: &Work,
    dest: &Path,
    placement: fn(Connection) -> Placement,
    [there, back]: [Disturbance; 2],
) -> (Result<Summary, JobError>, [u64; 2]) {
    let (client, agent) = UnixStream::pair().expect("a socket pair");
    let input = agent.try_clone().expect("a second handle");
    let served = thread::spawn(move || {
        let last = agent.try_clone().expect("a third handle");
        let served = haul_engine::serve(input, agent);
        // The agent's process ends here.
        let _ = last.shutdown(Shutdown::Both);
        served
    });
    let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let half = |disturbance, count| Disturbed {
        stream: client.try_clone().expect("a second handle"),
        disturbance,
        passed: Arc::clone(count),
    };
    let connection = Connection::from_parts(half(back, &counts[1]), half(there, &counts[0]));
    let job = work.job(dest);
    let watch = Watch::default();
    let (ended, waits) = mpsc::channel::<()>();
    let result = thread::scope(|scope| {
        let watch = &watch;
        scope.spawn(move || {
            // A length that was made longer has both sides wait for ever.
            if waits.recv_timeout(PATIENCE).is_err_and(|e| e == RecvTimeoutError::Timeout) {
                watch.cancel();
            }
        });
        let result = haul_engine::run(&job, placement(connection), watch);
        drop(ended);
        result
    });
    let _ = served.join().expect("the agent does not panic");
    (result, counts.map(|count| count.load(Ordering::Relaxed)))
}

/// A tree of which each destination has an older version.
struct Work {
    temp: TempDir,
}

impl Work {
    fn new() -> Self {
        let work = Self { temp: tempfile::tempdir().expect("a temporary directory") };
        let tree = work.source().join("tree");
        tree::many(&tree, 60, 3000, 5, 1).expect("made");
        tree::random_file(tree.join("large"), (2 << 20) + 5, 2).expect("made");
        for number in 0..20 {
            let link = tree.join(format!("link-{number:02}"));
            std::os::unix::fs::symlink("large", link).expect("linked");
        }
        work
    }

    fn source(&self) -> PathBuf {
        self.temp.path().join("source")
    }

    /// A destination as it is before the job.
    fn dest(&self) -> PathBuf {
        let dest = self.temp.path().join("dest");
        if dest.exists() {
            fs::remove_dir_all(&dest).expect("nobody writes to it any more");
        }
        tree::many(dest.join("tree"), 60, 2000, 5, 3).expect("made");
        tree::random_file(dest.join("tree/large"), 1 << 20, 4).expect("made");
        dest
    }

    fn job(&self, dest: &Path) -> Job {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        Job {
            sources: NamedSources {
                recursive: true,
                ..NamedSources::at(vec![bytes(&self.source().join("tree"))])
            },
            dest: NamedDest::at(bytes(dest)),
            task: Task::Copy(Policy { conflict: Conflict::ReplaceAll, ..Policy::default() }),
            ..Job::default()
        }
    }
}

/// The contents of all files in a tree.
fn contents(tree: &Snapshot) -> BTreeSet<(u64, [u64; 2])> {
    tree.files().map(|(_, file)| (file.size, file.digest)).collect()
}

/// Every file is the old one or the new one, and nothing private is left.
#[track_caller]
fn check_whole(before: &Snapshot, source: &Snapshot, dest: &Path) {
    let now = snapshot(dest).expect("read");
    for (path, entry) in now.entries() {
        let shown = path.escape_ascii();
        assert!(!path.split(|b| *b == b'/').any(|n| n.starts_with(b".haul-")), "{shown} is left");
        if !matches!(entry.kind, Kind::File(_)) {
            continue;
        }
        let name = std::ffi::OsStr::from_bytes(path);
        let kind = |tree: &Snapshot| match tree.get(name).map(|entry| entry.kind.clone()) {
            Some(Kind::File(file)) => Some((file.size, file.digest)),
            _ => None,
        };
        let now = kind(&now);
        assert!(now == kind(before) || now == kind(source), "{shown} is neither old nor new");
    }
}

const PLACEMENTS: [fn(Connection) -> Placement; 2] = [Placement::upload, Placement::download];

#[test]
fn a_connection_that_is_cut_leaves_whole_files() {
    let work = Work::new();
    let source = snapshot(work.source()).expect("read");
    let mut stream = Stream::new(campaign::seed(1));
    let none = Disturbance::None;
    for placement in PLACEMENTS {
        let (whole, passed) = run_disturbed(&work, &work.dest(), placement, [none; 2]);
        assert_eq!(whole.expect("nothing is cut").failed, 0);
        for direction in 0..2 {
            for number in 0..DISTURBANCES {
                let part = passed[direction] / DISTURBANCES;
                let at = number * part + stream.below(part.max(1));
                let dest = work.dest();
                let before = snapshot(&dest).expect("read");
                let mut cut = [none; 2];
                cut[direction] = Disturbance::Cut(at);
                let (result, _) = run_disturbed(&work, &dest, placement, cut);
                let lost = matches!(result, Err(JobError::Connection(_)));
                assert!(lost || result.is_ok(), "{cut:?}: {result:?}");
                check_whole(&before, &source, &dest);
            }
        }
    }
}

#[test]
fn a_bit_that_is_turned_over_never_shows_in_a_content() {
    let work = Work::new();
    let source = snapshot(work.source()).expect("read");
    let mut stream = Stream::new(campaign::seed(2));
    let none = Disturbance::None;
    for placement in PLACEMENTS {
        let (_, passed) = run_disturbed(&work, &work.dest(), placement, [none; 2]);
        for direction in 0..2 {
            for _ in 0..DISTURBANCES {
                let dest = work.dest();
                let mut known = contents(&snapshot(&dest).expect("read"));
                known.extend(contents(&source));
                let mut flip = [none; 2];
                flip[direction] = Disturbance::Flip(stream.below(passed[direction]));
                // The job may end in any way; a name may be another one.
                let _ = run_disturbed(&work, &dest, placement, flip);
                let now = contents(&snapshot(&dest).expect("read"));
                assert!(now.is_subset(&known), "{flip:?}");
            }
        }
    }
}

#[test]
fn an_interrupted_job_leaves_whole_files() {
    let work = Work::new();
    let source = snapshot(work.source()).expect("read");
    let mut stream = Stream::new(campaign::seed(3));
    for link in links() {
        for round in 0..10 {
            let dest = work.dest();
            let before = snapshot(&dest).expect("read");
            let watch = Watch::default();
            let pause = Duration::from_micros(stream.below(15_000));
            let (placement, agent) = link.placement(work.temp.path());
            let result = thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(pause);
                    watch.cancel();
                });
                haul_engine::run(&Job { wire: link.wire(), ..work.job(&dest) }, placement, &watch)
            });
            if let Some(agent) = agent {
                let _ = agent.join().expect("the agent does not panic");
            }
            let ended = matches!(result, Ok(_) | Err(JobError::Interrupted));
            assert!(ended, "{link:?} {round}: {result:?}");
            check_whole(&before, &source, &dest);
        }
    }
}

#[test]
fn an_unusable_destination_is_reported_whatever_is_under_way() {
    let work = Work::new();
    let nowhere = work.temp.path().join("no/such/place");
    for link in links() {
        for round in 0..10 {
            let (placement, agent) = link.placement(work.temp.path());
            let watch = Watch::default();
            let result = haul_engine::run(
                &Job { wire: link.wire(), ..work.job(&nowhere) },
                placement,
                &watch,
            );
            let told = matches!(result, Err(JobError::Destination { .. }));
            assert!(told, "{link:?} {round}: {result:?}");
            assert!(watch.outcomes().is_empty() && watch.warnings().is_empty());
            if let Some(agent) = agent {
                let _ = agent.join().expect("the agent does not panic");
            }
        }
    }
}
