//! Tests of the Receiver's stages, one at a time, in a local directory. The Sender only records
//! requests and reports.

use super::*;
use crate::monitor::Silent;
use haul_model::{
    Attributes, Changes, Conflict, ContentHash, Delete, Entry, Kept, Mirror, Outcome, Part, Policy,
    Skip, Summary, Task, Timestamp,
};
use haul_proto::{Extra, Late, NamedDest, NamedSources, OutcomeItem, Want, Warning};
use haul_store::OnExisting;
use haul_tree::LocalTree;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MTIME: Timestamp = Timestamp { secs: 1_000_000_000, nanos: 0 };

/// A Sender that records the messages to it.
#[derive(Default)]
struct RemoverMessage {
    wants: Mutex<Vec<u64>>,
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    extras: Mutex<Vec<String>>,
    late: Mutex<Vec<String>>,
    done: Mutex<Option<Summary>>,
}

impl SenderPort for RemoverMessage {
    fn want(&self, wants: Vec<Want>) {
        self.wants.lock().extend(wants.iter().map(|want| want.index));
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        self.outcomes.lock().extend(outcomes.into_iter().map(|item| (item.index, item.outcome)));
    }

    fn extras(&self, extras: Vec<Extra>) {
        self.extras.lock().extend(extras.into_iter().map(|extra| text(&extra.path)));
    }

    fn warning(&self, _: Warning) {}

    fn late(&self, late: Late) {
        self.late.lock().push(text(&late.path));
    }

    fn done(&self, summary: Summary) {
        *self.done.lock() = Some(summary);
    }
}

/// A Receiver at work in a directory.
struct Bench<'a> {
    receiver: &'a Receiver<'a>,
    heard: &'a RemoverMessage,
    control: &'a Control<'a>,
    path: &'a Path,
    work: &'a crossbeam_channel::Receiver<Work>,
}

/// Runs `test` with a Receiver for `task` in a directory that `prepare` fills.
fn with(task: Task, prepare: impl FnOnce(&Path), test: impl FnOnce(&Bench<'_>)) {
    let dir = tempfile::tempdir().expect("a directory");
    prepare(dir.path());
    let dest = dir.path().as_os_str().as_bytes().to_vec();
    let job = Job {
        sources: NamedSources { recursive: true, ..NamedSources::default() },
        dest: NamedDest::at(dest),
        task,
        ..Job::default()
    };
    let (silent, heard) = (Silent::default(), Arc::new(RemoverMessage::default()));
    let control = Control::new(&silent);
    let destination = Destination::find(&LocalTree::PLAIN, &job).expect("a destination");
    let (tasks, work) = crossbeam_channel::unbounded();
    let sender: Arc<dyn SenderPort> = Arc::<RemoverMessage>::clone(&heard);
    let tasks = Tasks::to_all(tasks);
    let receiver =
        Receiver::new(&control, sender, destination, &job, None, tasks).expect("a receiver");
    let (path, control) = (dir.path(), &control);
    test(&Bench { receiver: &receiver, heard: &heard, control, path, work: &work });
}

fn copy(policy: Policy) -> Task {
    Task::Copy(Policy { keeps: Kept::OF_COPIES, ..policy })
}

fn mirror(mirror: Mirror) -> Task {
    Task::Sync(Policy { keeps: Kept::TIMES, ..Policy::default() }, mirror)
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn name(name: &str) -> Name {
    Name::new(name.as_bytes()).expect("a name")
}

fn file(called: &str, size: u64) -> Entry {
    Entry::new(Some(name(called)), Kind::File { size }, Attributes::new(0o644, MTIME))
}

fn dir(called: Option<&str>) -> Entry {
    Entry::new(called.map(name), Kind::Dir, Attributes::new(0o755, MTIME))
}

/// Writes a file with the time of the entries of [`file`].
fn write(path: &Path, content: &str) {
    fs::write(path, content).expect("written");
    let opened = fs::File::options().write(true).open(path).expect("opened");
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(MTIME.secs as u64);
    opened.set_modified(time).expect("set");
}

impl Bench<'_> {
    /// Lists entries in the directory with this index.
    fn list(&self, dir: u64, entries: impl IntoIterator<Item = Entry>) {
        let items = entries.into_iter().map(|entry| ListItem::Entry { dir, entry }).collect();
        self.receiver.list(items);
    }

    fn end_dir(&self, dir: u64) {
        self.receiver.list(vec![ListItem::DirEnd { dir }]);
    }

    /// Delivers the content of the file with this index.
    fn fill(&self, index: u64, content: &str) {
        let filler = &self.receiver.filler;
        let mut pending = filler.claim(index).expect("it was wanted");
        let hash = Some(ContentHash::of(content.as_bytes()));
        let whole = pending.take_whole(filler, content.as_bytes(), MTIME, hash);
        let settled = self.receiver.publisher.conclude(pending, content.len() as u64, whole);
        filler.linker.report_settled(settled);
    }

    /// Takes the outcomes so far.
    fn outcomes(&self) -> Vec<(u64, Outcome)> {
        std::mem::take(&mut *self.heard.outcomes.lock())
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(name)).ok()
    }

    /// The rule that the Sender broke.
    fn broken(&self) -> String {
        assert!(self.control.stopped());
        self.control.wait().expect_err("it failed").to_string()
    }
}

#[test]
fn a_wanted_file_is_published_when_its_content_is_whole() {
    with(
        copy(Policy::default()),
        |_| {},
        |bench| {
            bench.list(0, [file("a", 3)]);
            assert_eq!(*bench.heard.wants.lock(), [1]);
            assert_eq!((bench.read("a"), bench.outcomes()), (None, vec![]));
            bench.fill(1, "one");
            assert_eq!(bench.read("a").as_deref(), Some("one"));
            assert_eq!(bench.outcomes(), [(1, Outcome::Copied)]);
            assert!(bench.receiver.filler.claim(1).is_none(), "its content is wanted once");
            assert_eq!(*bench.heard.done.lock(), None);
            bench.end_dir(0);
            assert_eq!(bench.heard.done.lock().map(|summary| summary.copied), Some(1));
        },
    );
}

#[test]
fn only_files_that_differ_are_wanted() {
    let prepare = |path: &Path| {
        write(&path.join("same"), "one");
        write(&path.join("longer"), "four");
    };
    let cases = [
        (Conflict::ReplaceChanged, vec![1], vec![(2, Outcome::Skipped(Skip::Unchanged))]),
        (Conflict::ReplaceAll, vec![1, 2], vec![]),
        (
            Conflict::Keep,
            vec![],
            vec![(1, Outcome::Skipped(Skip::Exists)), (2, Outcome::Skipped(Skip::Exists))],
        ),
    ];
    for (conflict, wants, outcomes) in cases {
        with(copy(Policy { conflict, ..Policy::default() }), prepare, |bench| {
            bench.list(0, [file("longer", 3), file("same", 3)]);
            assert_eq!(*bench.heard.wants.lock(), wants, "{conflict:?}");
            assert_eq!(bench.outcomes(), outcomes, "{conflict:?}");
        });
    }
}

#[test]
fn with_sync_files_are_held_until_they_are_published_together() {
    with(
        copy(Policy { sync: true, ..Policy::default() }),
        |_| {},
        |bench| {
            bench.list(0, [file("a", 1), file("b", 1)]);
            bench.fill(1, "1");
            bench.fill(2, "2");
            assert!(bench.read("a").is_none() && bench.outcomes().is_empty());
            assert!(!bench.receiver.publisher.holding.is_empty());
            let settled = bench.receiver.publisher.publish_held();
            assert_eq!(settled.len(), 2);
            bench.receiver.linker.report_settled(settled);
            assert_eq!(bench.outcomes(), [(1, Outcome::Copied), (2, Outcome::Copied)]);
            assert_eq!(bench.read("b").as_deref(), Some("2"));
            assert!(bench.receiver.publisher.publish_held().is_empty());
        },
    );
}

#[test]
fn further_names_wait_for_the_first_and_share_its_outcome() {
    let keeps = Kept::TIMES.with(Kept::LINKS);
    let linked = |called| Entry { links: 7, ..file(called, 1) };
    let task = Task::Copy(Policy { keeps, ..Policy::default() });
    with(
        task,
        |_| {},
        |bench| {
            bench.list(0, [linked("a"), linked("b")]);
            assert_eq!(*bench.heard.wants.lock(), [1]);
            bench.fill(1, "1");
            let outcomes = bench.outcomes();
            assert_eq!(outcomes[0], (1, Outcome::Copied));
            assert!(matches!(&outcomes[1], (2, Outcome::Linked { first, .. }) if **first == *b"a"));
            let inode = |name| fs::metadata(bench.path.join(name)).expect("it is there").ino();
            assert_eq!(inode("a"), inode("b"));
        },
    );
    with(
        task,
        |_| {},
        |bench| {
            bench.list(0, [linked("a"), linked("b")]);
            let pending = bench.receiver.filler.claim(1).expect("it was wanted");
            let fault = Fault::new(Side::Source, FaultKind::Io, "can't be read");
            bench.receiver.linker.report_settled(vec![(pending, 0, Outcome::Failed(fault))]);
            let outcomes = bench.outcomes();
            let Outcome::Failed(fault) = &outcomes[1].1 else { panic!("{outcomes:?}") };
            assert_eq!(fault.message, "hard link to a, which was not copied: can't be read");
        },
    );
}

#[test]
fn a_directory_gets_its_time_when_its_entries_are_settled() {
    with(
        copy(Policy::default()),
        |_| {},
        |bench| {
            let mtime = || fs::metadata(bench.path.join("d")).expect("it is there").mtime();
            bench.list(0, [dir(Some("d"))]);
            bench.list(1, [file("a", 1)]);
            bench.end_dir(1);
            bench.end_dir(0);
            assert_ne!(mtime(), MTIME.secs);
            assert_eq!(*bench.heard.done.lock(), None);
            bench.fill(2, "1");
            assert_eq!(mtime(), MTIME.secs);
            assert!(bench.heard.done.lock().is_some() && bench.receiver.completion.is_over());
        },
    );
}

#[test]
fn a_mirror_removes_extras_unless_a_source_could_not_be_read() {
    let prepare = |path: &Path| {
        fs::create_dir(path.join("extra")).expect("made");
        write(&path.join("extra/in"), "");
        write(&path.join("kept"), "one");
    };
    let task = mirror(Mirror { delete: Some(Delete::default()), ..Mirror::default() });
    let list = |bench: &Bench<'_>, fault: Option<Fault>| {
        bench.list(0, [dir(None)]);
        let fault = fault.map(|fault| ListItem::Fault { dir: 1, name: b"x".to_vec(), fault });
        bench.receiver.list(fault.into_iter().collect());
        bench.list(1, [file("kept", 3)]);
        bench.end_dir(1);
        bench.end_dir(0);
        assert!(bench.heard.done.lock().is_some());
    };
    with(task, prepare, |bench| {
        list(bench, None);
        assert_eq!(*bench.heard.extras.lock(), ["extra/in", "extra"]);
        assert!(!bench.path.join("extra").exists());
        assert_eq!(bench.read("kept").as_deref(), Some("one"));
    });
    with(task, prepare, |bench| {
        list(bench, Some(Fault::new(Side::Source, FaultKind::Io, "no")));
        assert!(bench.heard.extras.lock().is_empty());
        assert!(bench.path.join("extra/in").exists());
    });
}

#[test]
fn removals_stop_at_the_maximum() {
    let prepare = |path: &Path| ["a", "b", "c"].iter().for_each(|name| write(&path.join(name), ""));
    let delete = Some(Delete::default());
    let task = mirror(Mirror { delete, delete_max: Some(2), ..Mirror::default() });
    with(task, prepare, |bench| {
        bench.list(0, [dir(None)]);
        bench.end_dir(1);
        bench.end_dir(0);
        assert_eq!(fs::read_dir(bench.path).expect("read").count(), 1);
        assert_eq!(bench.heard.done.lock().map(|summary| summary.spared), Some(1));
    });
}

#[test]
fn a_directory_is_touched_only_if_an_entry_of_its_own_is_removed() {
    let prepare = |path: &Path| {
        fs::create_dir(path.join("extra")).expect("made");
        ["a", "b"].iter().for_each(|name| write(&path.join("extra").join(name), ""));
    };
    for (max, is_touched) in [(1, false), (3, true)] {
        let delete = Some(Delete::default());
        let task = mirror(Mirror { delete, delete_max: Some(max), ..Mirror::default() });
        with(task, prepare, |bench| {
            bench.list(0, [dir(None)]);
            let (_, root) = bench.receiver.listing.lock().open[1].clone();
            bench.end_dir(1);
            assert_eq!(bench.heard.extras.lock().len() as u64, max);
            assert_eq!(root.is_touched(), is_touched);
        });
    }
}

#[test]
fn an_empty_directory_is_removed_only_for_its_replacement() {
    let prepare = |path: &Path| fs::create_dir(path.join("a")).expect("made");
    let task = mirror(Mirror { delete: Some(Delete::default()), ..Mirror::default() });
    with(task, prepare, |bench| {
        let (_, root) = bench.receiver.listing.lock().open[0].clone();
        let removals = &bench.receiver.publisher.removals;
        removals.clear_place(&root, &name("a"), OnExisting::Keep).expect("nothing is done");
        assert!(bench.path.join("a").exists());
        removals.clear_place(&root, &name("a"), OnExisting::Replace).expect("it is removed");
        assert!(!bench.path.join("a").exists());
    });
}

#[test]
fn a_replaced_directory_is_a_change_of_the_one_above() {
    let prepare = |path: &Path| {
        fs::create_dir_all(path.join("a/b")).expect("made");
        write(&path.join("a/b/c"), "");
    };
    let task = mirror(Mirror { replaces_dirs: true, ..Mirror::default() });
    with(task, prepare, |bench| {
        let (_, root) = bench.receiver.listing.lock().open[0].clone();
        let removals = &bench.receiver.publisher.removals;
        removals.clear_place(&root, &name("a"), OnExisting::Replace).expect("it is removed");
        assert!(root.is_touched() && !bench.path.join("a").exists());
    });
}

#[test]
fn a_check_reports_differences_and_extras_and_changes_nothing() {
    let prepare = |path: &Path| {
        write(&path.join("longer"), "four");
        write(&path.join("same"), "one");
        write(&path.join("extra"), "");
    };
    let task = Task::Check { content: false, keeps: Kept::TIMES };
    with(task, prepare, |bench| {
        bench.list(0, [dir(None)]);
        bench.list(1, [file("longer", 3), file("missing", 1), file("same", 3)]);
        bench.end_dir(1);
        bench.end_dir(0);
        let outcomes: Vec<_> = bench.outcomes().into_iter().filter(|(at, _)| *at > 1).collect();
        let differs = |changes| Outcome::Differs(changes);
        assert_eq!(
            outcomes,
            [
                (2, differs(Changes::SIZE)),
                (3, differs(Changes::MISSING)),
                (4, Outcome::Skipped(Skip::Unchanged)),
            ]
        );
        assert_eq!(*bench.heard.extras.lock(), ["extra"]);
        assert_eq!(fs::read_dir(bench.path).expect("read").count(), 3);
        assert!(bench.heard.wants.lock().is_empty());
    });
}

#[test]
fn delayed_files_are_published_at_the_end() {
    let prepare = |path: &Path| write(&path.join("a"), "old!");
    with(mirror(Mirror { delays_updates: true, ..Mirror::default() }), prepare, |bench| {
        bench.list(0, [dir(None)]);
        bench.list(1, [file("a", 3)]);
        bench.fill(2, "new");
        assert_eq!(bench.read("a").as_deref(), Some("old!"));
        bench.end_dir(1);
        bench.end_dir(0);
        assert_eq!(bench.read("a").as_deref(), Some("new"));
        assert!(bench.heard.done.lock().is_some());
    });
}

#[test]
fn a_job_that_only_removes_takes_no_content() {
    let delete = Some(Delete::default());
    let first = Mirror { delete, part: Part::RemovesFirst, ..Mirror::default() };
    with(
        mirror(first),
        |path| write(&path.join("extra"), ""),
        |bench| {
            bench.list(0, [dir(None)]);
            bench.list(1, [file("a", 3)]);
            bench.end_dir(1);
            bench.end_dir(0);
            assert!(bench.heard.wants.lock().is_empty());
            assert_eq!(*bench.heard.extras.lock(), ["extra"]);
            assert!(bench.heard.done.lock().is_some());
        },
    );
}

#[test]
fn a_dry_run_reports_what_it_would_do_and_does_nothing() {
    let policy = Policy { dry_run: true, ..Policy::default() };
    with(
        copy(policy),
        |_| {},
        |bench| {
            bench.list(0, [dir(Some("d"))]);
            bench.list(1, [file("a", 3)]);
            bench.end_dir(1);
            bench.end_dir(0);
            assert_eq!(bench.outcomes(), [(1, Outcome::WouldCopy), (2, Outcome::WouldCopy)]);
            assert_eq!(fs::read_dir(bench.path).expect("read").count(), 0);
            assert!(bench.heard.done.lock().is_some() && bench.work.is_empty());
        },
    );
}

#[test]
fn a_broken_rule_ends_the_job() {
    let task = || copy(Policy::default());
    with(
        task(),
        |_| {},
        |bench| {
            bench.list(9, [file("a", 1)]);
            assert!(bench.broken().ends_with("it listed into a directory that is not open"));
        },
    );
    with(
        task(),
        |_| {},
        |bench| {
            bench.list(0, [dir(Some("d"))]);
            bench.list(0, [file("a", 1)]);
            assert!(bench.broken().ends_with("it listed into a directory that is not open"));
        },
    );
    with(
        task(),
        |_| {},
        |bench| {
            bench.receiver.completion.take_removals(vec![haul_proto::Removal::End]);
            assert!(bench.broken().ends_with("it removed sources before all were compared"));
        },
    );
}

#[test]
fn tasks_are_dropped_once_the_queue_is_closed() {
    with(
        copy(Policy::default()),
        |_| {},
        |bench| {
            let job = &bench.receiver.job;
            job.enqueue(|_, _| {});
            assert_eq!(bench.work.len(), 1);
            job.close_tasks();
            job.enqueue(|_, _| {});
            assert_eq!(bench.work.len(), 1);
        },
    );
}
