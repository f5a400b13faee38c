//! Progress through holes: they count as done while they are passed, and nothing
//! of them counts as moved.

use crate::bench::Bench;
use crate::link::{Link, links};
use haul_engine::{Event, Job, Monitor, Progress, Summary};
use haul_model::{Policy, Task};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A hole that nobody has to hash.
const UNSEEN_LEN: u64 = 20 << 30;

/// A hole that is hashed.
const HASHED_LEN: u64 = 192 << 20;

/// The most that may be passed before it is told: what is hashed between two
/// looks at whether the job goes on.
const STEP_LEN_MAX: u64 = 64 << 20;

/// A monitor that notes how many bytes are done each time before more are
/// counted, as long as no file's fate is known.
#[derive(Default)]
struct Meter {
    progress: Progress,
    done: Mutex<Vec<u64>>,
}

impl Monitor for Meter {
    fn progress(&self) -> &Progress {
        if self.progress.files_done.load(Ordering::Relaxed) == 0 {
            let mut done = self.done.lock();
            done.push(self.progress.bytes_done.load(Ordering::Relaxed));
        }
        &self.progress
    }

    fn event(&self, _: Event<'_>) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Copies the one file over this link; how many bytes were done at each step before
/// its fate was known, and the figures at the end.
fn copy(bench: &Bench, link: Link) -> (Vec<u64>, Summary) {
    let job = Job { wire: link.wire(), ..bench.job_into(&bench.dest(link)) };
    let meter = Meter::default();
    let (placement, agent) = link.placement(&bench.journals());
    let summary = haul_engine::run(&job, placement, &meter);
    let summary = summary.unwrap_or_else(|error| panic!("{link:?}: {error}"));
    if let Some(agent) = agent {
        agent.join().expect("the agent does not panic").expect("it ends in order");
    }
    let total = meter.progress.bytes_total.load(Ordering::Relaxed);
    assert_eq!(meter.progress.bytes_done.load(Ordering::Relaxed), total, "{link:?}");
    assert_eq!((summary.copied, summary.bytes), (1, total), "{link:?}");
    (meter.done.into_inner(), summary)
}

fn make(path: &Path, len: u64, data: &[(u64, usize)]) {
    let file = std::fs::File::create(path).expect("created");
    file.set_len(len).expect("extended");
    for (at, len) in data {
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![7; *len], *at).expect("written");
    }
}

/// Holes are passed as they come: all is done before the file's fate is known, and
/// never much at once.
#[track_caller]
fn check_steps(link: Link, done: &[u64], len: u64, step_max: u64) {
    assert_eq!(done.last(), Some(&len), "{link:?}: {done:?}");
    let mut steps = done.windows(2).map(|step| step[1].saturating_sub(step[0]));
    assert!(steps.all(|step| step <= step_max), "{link:?}: {done:?}");
}

#[test]
fn a_hole_that_nobody_hashes_is_done_before_its_file_is() {
    let bench = Bench::new(&["sparse"], |source| make(&source.join("sparse"), UNSEEN_LEN, &[]));
    for link in [Link::Memory, Link::SftpUpload(1), Link::SftpUpload(3)] {
        let (done, summary) = copy(&bench, link);
        assert_eq!(done.iter().max(), Some(&UNSEEN_LEN), "{link:?}: {done:?}");
        assert_eq!(summary.bytes_transferred, 0, "{link:?}");
    }
}

#[test]
fn a_hole_counts_while_it_is_hashed() {
    let bench = Bench::new(&["sparse"], |source| {
        make(&source.join("sparse"), HASHED_LEN, &[(100 << 20, 4096)]);
    });
    for link in links() {
        let (done, summary) = copy(&bench, link);
        // What can be passed in one go is passed in one.
        let hashes = link != Link::Memory && !matches!(link, Link::SftpUpload(_));
        check_steps(link, &done, HASHED_LEN, if hashes { STEP_LEN_MAX } else { HASHED_LEN });
        // A download through SFTP is not told where holes are.
        let is_dense = matches!(link, Link::SftpDownload(_));
        let moved_max = if is_dense { HASHED_LEN } else { 1 << 20 };
        assert!(
            (4096..=moved_max).contains(&summary.bytes_transferred),
            "{link:?}: {}",
            summary.bytes_transferred
        );
    }
}

#[test]
fn a_hole_counts_where_all_is_hashed_here() {
    let verify = Policy { verify: true, ..Policy::default() };
    let mut bench = Bench::new(&["sparse"], |source| {
        make(&source.join("sparse"), HASHED_LEN, &[(100 << 20, 4096)]);
    });
    bench.job = Job { task: Task::Copy(verify), ..bench.job.clone() };
    let (done, _) = copy(&bench, Link::Memory);
    check_steps(Link::Memory, &done, HASHED_LEN, STEP_LEN_MAX);
}

#[test]
fn holes_count_where_a_file_is_copied_by_blocks() {
    // More than a quarter is data: it is hashed, so that it can be continued.
    let data = [(1 << 20, 20 << 20), (60 << 20, 20 << 20)];
    let len = 100 << 20;
    let bench = Bench::new(&["sparse"], |source| make(&source.join("sparse"), len, &data));
    for link in [Link::Memory, Link::SftpUpload(3)] {
        let (done, summary) = copy(&bench, link);
        assert_eq!(done.iter().max(), Some(&len), "{link:?}: {done:?}");
        assert!(summary.bytes_transferred < 50 << 20, "{link:?}: {}", summary.bytes_transferred);
    }
}
