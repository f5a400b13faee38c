//! A panic in a thread of a job, which would be a mistake: the job ends with an
//! error, and leaves nobody waiting.

#![forbid(unsafe_code)]

use haul_engine::{Event, Job, JobError, Monitor, NamedDest, NamedSources, Placement, Progress};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Panics when it is told of an entry for that many times.
#[derive(Default)]
struct Panics {
    progress: Progress,
    left: AtomicU64,
}

impl Monitor for Panics {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, _: Event<'_>) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            panic!("as the test wants it");
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

#[test]
fn a_panic_ends_the_job_whatever_others_wait_for() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let src = temp.path().join("src");
    for number in 0..20 {
        let dir = src.join(format!("d{number}"));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("f"), "content").expect("a file");
    }
    for nth in [1, 2, 7, 40] {
        let job = Job {
            sources: NamedSources {
                recursive: true,
                ..NamedSources::at(vec![src.as_os_str().as_bytes().to_vec()])
            },
            dest: NamedDest::at(temp.path().join(format!("to{nth}")).as_os_str().as_bytes()),
            ..Job::default()
        };
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let panics = Panics { left: AtomicU64::new(nth), ..Panics::default() };
            let _ = done.send(haul_engine::run(&job, Placement::Local, &panics));
        });
        let ended = ended.recv_timeout(Duration::from_secs(60)).expect("the job ends");
        assert!(matches!(ended, Err(JobError::Panicked)), "{nth}: {ended:?}");
    }
}
