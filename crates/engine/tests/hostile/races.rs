//! Someone with a right to write in a directory of the job swaps what is there
//! for symbolic links while the job runs. Nothing is written outside, and
//! nothing outside is read into the copy.

use crate::attack::bytes;
use crate::peer::Peer;
use crate::place::Place;
use crate::watch::Watch;
use haul_engine::{Job, JobError, NamedDest, NamedSources, Placement, Summary};
use haul_model::{Conflict, Policy, Task};
use haul_net::Connection;
use haul_testkit::{campaign, tree};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// How often each job is run against the swapping, in the short form of the campaign.
const ROUNDS: u64 = 3;

const DIRS: u64 = 6;

/// Swaps each of `paths` for a link to `target` and back, until it is told to
/// stop. Leaves everything as it was.
fn swap(paths: &[PathBuf], target: &Path, stop: &AtomicBool, swaps: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        for path in paths {
            let away = path.with_extension("away");
            if fs::rename(path, &away).is_err() {
                thread::yield_now();
                continue;
            }
            if symlink(target, path).is_ok() {
                swaps.fetch_add(1, Ordering::Relaxed);
            }
            thread::yield_now();
            // The job may have replaced the link, or made its own directory.
            let _ = fs::remove_file(path);
            let _ = fs::remove_dir_all(path);
            let _ = fs::rename(&away, path);
        }
    }
}

/// Runs `job` again and again while `paths` are swapped for links to `target`.
fn run_against_swapping(
    paths: &[PathBuf],
    target: &Path,
    mut job: impl FnMut() -> Result<Summary, JobError>,
) {
    let stop = AtomicBool::new(false);
    let swaps = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| swap(paths, target, &stop, &swaps));
        for _ in 0..campaign::rounds(ROUNDS) {
            // Single entries may well fail; the job as a whole has no reason to.
            if let Err(error) = job() {
                stop.store(true, Ordering::Relaxed);
                panic!("{error}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() > 0, "nothing was swapped");
}

fn job(place: &Place) -> Job {
    Job {
        sources: NamedSources {
            recursive: true,
            ..NamedSources::at(vec![bytes(&place.source("tree"))])
        },
        dest: NamedDest { into_dir: true, ..NamedDest::at(bytes(&place.dest(""))) },
        task: Task::Copy(Policy { conflict: Conflict::ReplaceAll, ..Policy::default() }),
        ..Job::default()
    }
}

/// A client's connection to a real agent on a thread of its own.
fn agent() -> Connection {
    let (connection, peer) = Peer::of_client();
    let stream: UnixStream = peer.into_stream();
    thread::spawn(move || {
        let input = stream.try_clone().expect("a second handle");
        haul_engine::serve(input, stream)
    });
    connection
}

/// The three ways in which the roles are placed.
const PLACEMENTS: [fn() -> Placement; 3] =
    [|| Placement::Local, || Placement::upload(agent()), || Placement::download(agent())];

fn dirs_below(root: &Path) -> Vec<PathBuf> {
    (0..DIRS).map(|number| root.join(format!("dir-{number:03}"))).collect()
}

#[test]
fn nothing_is_written_through_a_directory_that_becomes_a_link() {
    for placement in PLACEMENTS {
        let place = Place::new();
        tree::many(place.source("tree"), 120, 3000, DIRS, 1).expect("made");
        // There from the start, so that the swapping begins at once.
        tree::many(place.dest("tree"), 0, 0, DIRS, 1).expect("made");
        let job = job(&place);
        run_against_swapping(&dirs_below(&place.dest("tree")), &place.outside("dir"), || {
            haul_engine::run(&job, placement(), &Watch::default())
        });
        place.check();
    }
}

#[test]
fn nothing_is_written_through_a_file_that_becomes_a_link() {
    for placement in PLACEMENTS {
        let place = Place::new();
        tree::many(place.source("tree"), 30, 3000, 0, 1).expect("made");
        tree::many(place.dest("tree"), 30, 3000, 0, 2).expect("made");
        let mut job = job(&place);
        let files: Vec<_> =
            (0..30).map(|number| place.dest(&format!("tree/file-{number:05}"))).collect();
        let mut round = 0;
        run_against_swapping(&files, &place.outside("secret"), || {
            round += 1;
            // Every other time the files are left as they are, or nearly so.
            let conflict =
                if round % 2 == 0 { Conflict::ReplaceAll } else { Conflict::ReplaceChanged };
            job.task = Task::Copy(Policy { conflict, ..Policy::default() });
            haul_engine::run(&job, placement(), &Watch::default())
        });
        place.check();
    }
}

#[test]
fn nothing_is_read_through_a_directory_that_becomes_a_link() {
    for placement in PLACEMENTS {
        let place = Place::new();
        tree::many(place.source("tree"), 120, 3000, DIRS, 1).expect("made");
        let job = job(&place);
        run_against_swapping(&dirs_below(&place.source("tree")), &place.outside("dir"), || {
            haul_engine::run(&job, placement(), &Watch::default())
        });
        let copied = haul_testkit::snapshot(place.dest("")).expect("read");
        let leaked = copied.entries().find(|(path, _)| path.ends_with(b"inside"));
        assert!(leaked.is_none(), "{leaked:?}");
        place.check();
    }
}

#[test]
fn nothing_is_read_through_a_file_that_becomes_a_link() {
    for placement in PLACEMENTS {
        let place = Place::new();
        tree::many(place.source("tree"), 60, 3000, 0, 1).expect("made");
        // Larger than what travels in a pack, to take the other way as well.
        tree::random_file(place.source("tree/large"), 2 << 20, 3).expect("made");
        let mut files: Vec<_> =
            (0..60).map(|number| place.source(&format!("tree/file-{number:05}"))).collect();
        files.push(place.source("tree/large"));
        let job = job(&place);
        run_against_swapping(&files, &place.outside("secret"), || {
            haul_engine::run(&job, placement(), &Watch::default())
        });
        let copied = haul_testkit::snapshot(place.dest("tree")).expect("read");
        for (path, file) in copied.files() {
            assert!(file.size >= 3000, "{} was read elsewhere", path.escape_ascii());
        }
        place.check();
    }
}
