//! Files of several names, and more of them than are kept in mind.

use crate::bench::Bench;
use crate::link::Link;
use haul_engine::Outcome;
use haul_model::{Kept, Policy, Task};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const FILES: usize = 200;

/// So few bytes that some of the files fit in, and not all.
const MEMORY_MAX: u64 = 8 << 10;

fn names(number: usize) -> [String; 2] {
    [format!("tree/{number:03}-first"), format!("tree/{number:03}-other")]
}

/// Files of two names, and others.
fn bench() -> Bench {
    let mut bench = Bench::new(&["tree"], |source| {
        fs::create_dir(source.join("tree")).expect("made");
        for number in 0..FILES {
            let [first, other] = names(number).map(|name| source.join(name));
            fs::write(&first, number.to_string()).expect("written");
            fs::hard_link(first, other).expect("linked");
            fs::write(source.join(format!("tree/{number:03}")), "alone").expect("written");
        }
    });
    bench.job.links_memory_max = NonZeroU64::new(MEMORY_MAX);
    bench
}

/// True if the entry failed as one that is too many.
fn is_too_many(outcomes: &BTreeMap<String, Outcome>, name: &str) -> bool {
    match &outcomes[name] {
        Outcome::Failed(fault) => {
            let expected = "its hard links can't be preserved: those of this job need more than 8192 bytes of memory; copy in parts, or without hard links";
            assert_eq!(fault.message, expected, "{name}");
            true
        }
        _ => false,
    }
}

/// The number of the object that has this name.
fn object(dest: &Path, name: &str) -> Option<u64> {
    Some(fs::metadata(dest.join(name)).ok()?.ino())
}

#[test]
fn more_hard_links_than_are_kept_in_mind_are_faults_and_no_files_of_their_own() {
    let mut bench = bench();
    let policy = Policy { keeps: Kept::LINKS, ..Policy::default() };
    for dry_run in [true, false] {
        bench.job.task = Task::Copy(Policy { dry_run, ..policy });
        for link in [Link::Memory, Link::UploadBySocket, Link::DownloadBySocket] {
            let dest = bench.dest(link);
            let came = bench.run(link);
            let mut refused = 0;
            for number in 0..FILES {
                let [first, other] = names(number);
                let is_refused = is_too_many(&came.outcomes, &first);
                assert_eq!(is_refused, is_too_many(&came.outcomes, &other), "{link:?}: {other}");
                refused += usize::from(is_refused);
                let [first, other] = [first, other].map(|name| object(&dest, &name));
                assert_eq!(first, other, "{link:?}: {number}");
                assert_eq!(first.is_some(), !is_refused && !dry_run, "{link:?}: {number}");
                let alone = format!("tree/{number:03}");
                assert!(!matches!(came.outcomes[&alone], Outcome::Failed(_)), "{link:?}: {alone}");
                assert_eq!(dest.join(alone).exists(), !dry_run, "{link:?}: {number}");
            }
            assert!((1..FILES).contains(&refused), "{link:?}: {refused}");
            assert_eq!(came.summary.failed, 2 * refused as u64, "{link:?}");
        }
    }
    // Without hard links there is nothing to keep in mind.
    bench.job.task = Task::Copy(Policy::default());
    assert_eq!(bench.run(Link::Memory).summary.failed, 0);
}

#[test]
fn a_comparison_says_which_hard_links_it_could_not_compare() {
    let mut bench = bench();
    for link in [Link::Memory, Link::UploadBySocket, Link::DownloadBySocket] {
        let dest = bench.dest(link);
        fs::create_dir(&dest).expect("made");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(bench.source().join("tree")).arg(&dest);
        assert!(copy.status().expect("cp starts").success());
        bench.job.task = Task::Check { content: false, keeps: Kept::LINKS };
        let came = bench.run(link);
        let refused = |number: &usize| {
            let [first, other] = names(*number).map(|name| is_too_many(&came.outcomes, &name));
            assert_eq!(first, other, "{link:?}: {number}");
            first
        };
        let refused = (0..FILES).filter(refused).count();
        assert!((1..FILES).contains(&refused), "{link:?}: {refused}");
        assert_eq!(came.summary.failed, 2 * refused as u64, "{link:?}");
        bench.job.links_memory_max = None;
        let all = bench.run(link);
        assert_eq!(all.summary.failed, 0, "{link:?}");
        bench.job.links_memory_max = NonZeroU64::new(MEMORY_MAX);
    }
}
