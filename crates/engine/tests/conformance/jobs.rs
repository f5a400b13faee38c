//! The jobs: every kind of source, destination and policy.

use crate::bench::Bench;
use crate::link::{Link, links};
use crate::watch::Watch;
use haul_engine::{Job, JobError, Summary};
use haul_model::{Conflict, Moving, Policy, Remove, Task};
use haul_testkit::{Compare, assert_same_with, nasty, snapshot, tree};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn write(path: impl AsRef<Path>, content: &str, mtime_secs: i64) {
    fs::write(&path, content).expect("written");
    nasty::set_mtime(path, mtime_secs, 5).expect("set");
}

#[test]
fn sizes_around_every_boundary_arrive_whole_and_are_then_skipped() {
    let bench = Bench::new(&["tree"], |source| {
        tree::sizes(source.join("tree"), 1).expect("made");
        for (number, len) in
            [(512 << 10) - 1, 512 << 10, (512 << 10) + 1, (4 << 20) - 1, 4 << 20, (9 << 20) + 1]
                .into_iter()
                .enumerate()
        {
            tree::random_file(source.join(format!("tree/{len}")), len, number as u64)
                .expect("made");
        }
    });
    let made = tree::count(bench.source().join("tree")).expect("counted");
    let came = bench.check();
    let expected = Summary {
        copied: made.files,
        dirs_created: made.dirs,
        bytes: made.bytes,
        bytes_transferred: made.bytes,
        ..Summary::default()
    };
    assert_eq!(came.summary, expected);
    bench.check_copies("tree", "tree");
    let again = bench.check();
    assert_eq!(again.summary, Summary { skipped: made.files, ..Summary::default() });
    bench.check_copies("tree", "tree");
}

#[test]
fn many_small_files_and_some_large_ones() {
    let bench = Bench::new(&["tree"], |source| {
        tree::mixed(source.join("tree"), 2).expect("made");
    });
    assert_eq!(bench.check().summary.copied, 1008);
    bench.check_copies("tree", "tree");
}

#[test]
fn everything_that_is_hard_to_copy() {
    let bench = Bench::new(&["tree"], |source| {
        nasty::nasty(source.join("tree"), 3).expect("made");
    });
    assert_eq!(bench.check().summary.failed, 0);
    bench.check_copies("tree", "tree");
}

#[test]
fn a_move_removes_what_arrived_and_leaves_what_is_not_copied() {
    let mut left_before = None;
    for link in links() {
        let mut bench = Bench::new(&["tree", "file"], |source| {
            nasty::nasty(source.join("tree"), 3).expect("made");
            write(source.join("file"), "content", 1_500_000_000);
            fifo(source.join("tree/that-stays"));
        });
        bench.job.task = Task::Copy(Policy { sync: true, ..Policy::default() });
        let source = snapshot(bench.source()).expect("read");
        bench.run(link);
        bench.job.task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
        bench.run(link);
        for name in ["tree", "file"] {
            let copy = snapshot(bench.dest(link).join(name)).expect("read");
            let files = source.files().filter_map(|(path, file)| {
                let below = path.strip_prefix(name.as_bytes())?;
                Some((below.strip_prefix(b"/").unwrap_or(below), file.digest))
            });
            let copied: BTreeMap<_, _> = copy.files().map(|(p, file)| (p, file.digest)).collect();
            let missing = files.filter(|(path, digest)| copied.get(path) != Some(digest)).count();
            assert_eq!(missing, 0, "{link:?} {name}");
        }
        let left = snapshot(bench.source()).expect("read");
        let left: Vec<Vec<u8>> = left.entries().map(|(path, _)| path.to_vec()).collect();
        assert!(left.contains(&b"tree/that-stays".to_vec()), "{link:?}");
        assert_eq!(*left_before.get_or_insert_with(|| left.clone()), left, "{link:?}");
    }
    let left = left_before.expect("there are links");
    assert!(left.len() < 8, "{left:?}");
}

#[test]
fn a_link_in_the_place_of_a_directory_that_was_copied_is_not_followed_to_remove() {
    for link in links() {
        for sources in [&["dir/."], &["dir/"]] {
            let mut bench = Bench::new(sources, |source| {
                fs::create_dir_all(source.join("dir/hollow")).expect("made");
                write(source.join("dir/file"), "content", 1_500_000_000);
                write(source.join("dir/nil"), "", 1_500_000_000);
            });
            bench.job.task = Task::Copy(Policy { sync: true, ..Policy::default() });
            bench.run(link);
            // It leads to what the destination has the same of.
            fs::rename(bench.source().join("dir"), bench.source().join("kept")).expect("renamed");
            symlink("kept", bench.source().join("dir")).expect("linked");
            let before = snapshot(bench.source()).expect("read");
            bench.job.task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
            bench.run(link);
            // Through SFTP a private file is made beside it for a moment, and where it leads.
            let rules = Compare::everything().ignoring_root().ignoring_dir_mtimes();
            assert_same_with(&before, &snapshot(bench.source()).expect("read"), rules);
        }
    }
}

#[test]
fn several_sources_of_every_kind_and_some_that_are_not_there() {
    let bench = Bench::new(&["file", "dir", "link", "fifo", "missing", "no/where"], |source| {
        write(source.join("file"), "content", 100);
        fs::create_dir_all(source.join("dir/empty")).expect("made");
        symlink("file", source.join("link")).expect("linked");
        fifo(source.join("fifo"));
    });
    let summary = bench.check().summary;
    let expected = Summary {
        copied: 2,
        dirs_created: 2,
        bytes: 7,
        bytes_transferred: 7,
        bytes_resumed: 0,
        skipped: 0,
        special: 0,
        failed: 3,
        ..Summary::default()
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_directory_without_leave_to_recurse() {
    let mut bench = Bench::new(&["file", "dir", "dir/."], |source| {
        write(source.join("file"), "content", 100);
        fs::create_dir_all(source.join("dir/empty")).expect("made");
    });
    bench.job.sources.recursive = false;
    let summary = bench.check().summary;
    assert_eq!((summary.copied, summary.failed), (1, 2));
}

#[test]
fn the_content_of_a_directory_goes_straight_into_the_destination() {
    let bench = Bench::new(&["tree/."], |source| {
        tree::sizes(source.join("tree"), 4).expect("made");
    });
    bench.check();
    assert!(bench.dest(Link::Memory).join("one/two").is_dir());
}

#[test]
fn a_source_gets_a_new_name() {
    for (source, dest) in [("file", "new"), ("dir", "new"), ("link", "new"), ("dir/.", "new")] {
        let mut bench = Bench::new(&["x"], |root| {
            write(root.join("file"), "content", 100);
            fs::create_dir(root.join("dir")).expect("made");
            write(root.join("dir/inside"), "content", 100);
            symlink("nowhere", root.join("link")).expect("linked");
        });
        bench.sources = match source {
            "file" => &["file"],
            "dir" => &["dir"],
            "link" => &["link"],
            _ => &["dir/."],
        };
        bench.dest = dest;
        assert_eq!(bench.check().summary.failed, 0, "{source}");
        assert!(bench.dest(Link::Memory).join("new").symlink_metadata().is_ok(), "{source}");
    }
}

#[test]
fn a_destination_that_ends_with_a_slash_is_made() {
    let mut bench = Bench::new(&["file", "other"], |source| {
        write(source.join("file"), "content", 100);
        write(source.join("other"), "content", 100);
    });
    bench.dest = "new/";
    bench.check();
    assert!(bench.dest(Link::Memory).join("new/file").is_file());
}

fn link(target: &str, path: impl AsRef<Path>, mtime_secs: i64) {
    symlink(target, &path).expect("linked");
    nasty::set_mtime(path, mtime_secs, 5).expect("set");
}

fn fifo(path: impl AsRef<Path>) {
    let path = path.as_ref();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
    nasty::set_mtime(path, 1, 5).expect("set");
}

/// Older, newer, the same, of another size, and nothing.
fn furnish(dest: &Path) {
    fs::create_dir(dest.join("tree")).expect("made");
    write(dest.join("tree/older"), "old", 50);
    write(dest.join("tree/newer"), "old", 200);
    write(dest.join("tree/same"), "new", 100);
    write(dest.join("tree/longer"), "longer", 100);
    link("new", dest.join("tree/link-same"), 50);
    link("old", dest.join("tree/link-older"), 50);
    link("old", dest.join("tree/link-newer"), 200);
    link("older", dest.join("tree/was-link"), 50);
}

fn furnished() -> Bench {
    let mut bench = Bench::new(&["tree"], |source| {
        fs::create_dir(source.join("tree")).expect("made");
        for name in ["older", "newer", "same", "longer", "missing", "was-link"] {
            write(source.join("tree").join(name), "new", 100);
        }
        for name in ["link-same", "link-older", "link-newer", "link-missing"] {
            link("new", source.join("tree").join(name), 100);
        }
    });
    bench.before = furnish;
    bench
}

#[test]
fn every_policy_about_what_exists() {
    for (conflict, copied) in [
        (Conflict::ReplaceChanged, 8),
        (Conflict::ReplaceAll, 9),
        (Conflict::Keep, 2),
        (Conflict::ReplaceOlder, 5),
    ] {
        for dry_run in [true, false] {
            let mut bench = furnished();
            bench.job.task = Task::Copy(Policy { conflict, dry_run, ..Policy::default() });
            let summary = bench.check().summary;
            assert_eq!(summary.copied, copied, "{conflict:?} {dry_run}");
            assert_eq!(summary.skipped, 10 - copied, "{conflict:?} {dry_run}");
        }
    }
}

#[test]
fn what_stands_in_the_way_stays_and_is_reported() {
    let mut bench = Bench::new(&["tree"], |source| {
        fs::create_dir_all(source.join("tree/dir/below")).expect("made");
        fs::create_dir(source.join("tree/dir-for-link")).expect("made");
        write(source.join("tree/dir/inside"), "content", 100);
        write(source.join("tree/dir-for-link/inside"), "content", 100);
        write(source.join("tree/file"), "content", 100);
        write(source.join("tree/for-fifo"), "content", 100);
        symlink("x", source.join("tree/link")).expect("linked");
    });
    bench.before = |dest| {
        fs::create_dir_all(dest.join("tree/file/full")).expect("made");
        fs::create_dir_all(dest.join("tree/link")).expect("made");
        write(dest.join("tree/dir"), "old", 1);
        link("..", dest.join("tree/dir-for-link"), 1);
        fifo(dest.join("tree/for-fifo"));
    };
    let summary = bench.check().summary;
    assert_eq!((summary.copied, summary.failed), (0, 8));
}

#[test]
fn links_are_followed_on_demand_and_loops_end() {
    let mut bench = Bench::new(&["tree", "link-to-tree"], |source| {
        fs::create_dir_all(source.join("tree/dir")).expect("made");
        write(source.join("tree/dir/file"), "content", 100);
        for (target, name) in [
            ("dir", "to-dir"),
            ("dir/file", "to-file"),
            ("nowhere", "to-nothing"),
            ("..", "to-parent"),
            (".", "to-itself"),
            ("../outside", "to-outside"),
        ] {
            symlink(target, source.join("tree").join(name)).expect("linked");
        }
        fs::create_dir(source.join("outside")).expect("made");
        write(source.join("outside/file"), "content", 100);
        symlink("tree", source.join("link-to-tree")).expect("linked");
    });
    bench.job.sources.follow = true;
    let summary = bench.check().summary;
    assert_eq!(summary.skipped, 0);
    assert!(summary.failed > 0 && summary.copied > 0, "{summary:?}");
    let followed = bench.dest(Link::Memory).join("tree/to-outside/file");
    assert_eq!(fs::read_to_string(followed).expect("followed"), "content");
}

#[test]
fn a_job_that_was_interrupted_is_finished_by_the_next() {
    let bench = Bench::new(&["tree"], |source| {
        tree::many(source.join("tree"), 100, 5000, 5, 1).expect("made");
    });
    for link in links() {
        let watch = Watch::default();
        watch.cancel();
        let job = Job { wire: link.wire(), ..bench.job_into(&bench.dest(link)) };
        let (placement, agent) = link.placement(&bench.journals());
        let result = haul_engine::run(&job, placement, &watch);
        assert!(matches!(result, Err(JobError::Interrupted)), "{link:?}: {result:?}");
        if let Some(agent) = agent {
            let _ = agent.join().expect("the agent does not panic");
        }
        assert_eq!(bench.run(link).summary.failed, 0);
    }
    bench.check_copies("tree", "tree");
}
