//! Files that wait, and those that are staged in another directory.

use super::*;
use haul_model::{Attributes, Kept, Timestamp};
use std::fs;
use std::path::Path;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn open(path: &Path) -> Arc<Dir> {
    Arc::new(Dir::open(path).expect("opened"))
}

/// A whole file in `stage`.
fn sealed(stage: Stage, content: &str) -> Box<dyn SealedFile> {
    let mut into = crate::Mover::new(Box::new(stage));
    into.write(content.as_bytes()).expect("written");
    let moved = into.finish().expect("whole");
    let verified = moved.verify_len(content.len() as u64).map_err(|_| ()).expect("as long");
    let attributes = Attributes::new(0o640, Timestamp { secs: 5, nanos: 0 });
    verified.seal(&attributes, Kept::OF_COPIES).expect("sealed")
}

#[test]
fn what_waits_gets_its_name_at_the_end_and_the_lot_goes() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    fs::write(temp.path().join("old"), "old").expect("written");
    let batch = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    let row = |on_existing| Row { number: RowNumber::of(b"dir"), on_existing };
    let (new, replacing) = (row(OnExisting::Keep), row(OnExisting::Replace));
    let stage = || Stage::create(Arc::clone(&dir)).expect("a stage");
    sealed(stage(), "one").wait(&batch, new, &name("new")).expect("it waits");
    sealed(stage(), "two").wait(&batch, replacing, &name("old")).expect("it waits");
    sealed(stage(), "no").wait(&batch, new, &name("new")).expect_err("the name is taken");
    sealed(stage(), "no").wait(&batch, new, &name("left")).expect("it waits");
    assert_eq!(fs::read_to_string(temp.path().join("old")).expect("read"), "old");
    assert!(!temp.path().join("new").exists());
    assert_eq!(batch.names(replacing).expect("read"), [name("old")]);
    for (row, text) in [(new, "new"), (replacing, "old")] {
        let published = batch.publish(row, &name(text), &dir, row.on_existing);
        assert_eq!(published.expect("published"), Publication::Published);
    }
    drop(batch);
    let mut there: Vec<_> =
        dir.entries().expect("read").into_iter().map(|entry| entry.name).collect();
    there.sort();
    assert_eq!(there, [name("new"), name("old")]);
    assert_eq!(fs::read_to_string(temp.path().join("old")).expect("read"), "two");
}

#[test]
fn a_lot_at_work_stays_and_one_that_is_left_is_taken_over() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    let row = Row { number: RowNumber::of(b"dir"), on_existing: OnExisting::Keep };
    let wait = |batch: &DelayedBatch, text: &str| {
        let stage = Stage::create(Arc::clone(&dir)).expect("a stage");
        sealed(stage, text).wait(batch, row, &name(text)).expect("it waits");
    };
    let before = |batch: &DelayedBatch| {
        let row = batch.previous_row(row).expect("opened");
        let entries = row.map_or_else(Vec::new, |row| row.entries().expect("read"));
        let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    };
    let first = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    wait(&first, "one");
    wait(&first, "two");
    assert!(DelayedBatch::take_over(&dir, || {}).is_none(), "a job is at it");
    assert!(before(&first).is_empty());
    first.abandon();
    drop(first);
    let second = DelayedBatch::take_over(&dir, || {}).expect("it was left");
    assert!(second.names(row).expect("read").is_empty(), "nothing was claimed");
    assert_eq!(before(&second), [name("one"), name("two")]);
    second.claim(row, &name("two"), row).expect("it is there");
    second.claim(row, &name("none"), row).expect_err("it is not");
    wait(&second, "three");
    let there = second.previous_row(row).expect("opened").expect("it is there");
    let in_row = second.row(row).expect("opened");
    there.make_hard_link(&in_row, &name("two"), None, b"two").expect("linked");
    assert_eq!(second.names(row).expect("read").len(), 2);
    second.abandon();
    drop(second);
    let third = DelayedBatch::take_over(&dir, || {}).expect("it was left");
    assert_eq!(before(&third), ["one", "three", "two"].map(name));
    drop(third);
    assert!(dir.entries().expect("read").is_empty(), "the job has ended");
}

#[test]
fn a_directory_is_made_writable_only_to_take_over_a_batch() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    fs::write(temp.path().join("file"), "kept").expect("written");
    let makes_writable = || {
        let asked = std::cell::Cell::new(false);
        let taken = DelayedBatch::take_over(&dir, || asked.set(true));
        assert_eq!(taken.is_some(), asked.get());
        asked.get()
    };
    assert!(!makes_writable(), "there is no batch");
    dir.make_dir(&as_name(&batch_name()), MODE).expect("made");
    assert!(makes_writable(), "there is one");
    assert!(!makes_writable(), "it is gone");
}

#[test]
fn removing_batches_keeps_the_time_of_their_directory() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    for _ in 0..3 {
        dir.make_dir(&as_name(&batch_name()), MODE).expect("made");
    }
    let long_ago = Timestamp { secs: 5, nanos: 0 };
    haul_sys::set_mtime(&*dir, long_ago).expect("set");
    let time = || dir.stat_self().expect("open").mtime;
    let taken = DelayedBatch::take_over(&dir, || {}).expect("one was left");
    assert_eq!((dir.entries().expect("read").len(), time()), (1, long_ago));
    drop(taken);
    assert_eq!((dir.entries().expect("read").len(), time()), (0, long_ago));
}

#[test]
fn the_rows_of_a_directory_go_at_its_end_if_they_are_empty() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    let batch = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    let row = |path: &[u8], on_existing| Row { number: RowNumber::of(path), on_existing };
    let rows = [row(b"a", OnExisting::Keep), row(b"a", OnExisting::Replace)];
    let [full, other] = [row(b"b", OnExisting::Keep), row(b"c", OnExisting::Keep)];
    for row in [rows[0], rows[1], full, other] {
        batch.create_row(row).expect("made");
    }
    let stage = Stage::create(Arc::clone(&dir)).expect("a stage");
    sealed(stage, "one").wait(&batch, full, &name("file")).expect("it waits");
    batch.end(RowNumber::of(b"a"));
    batch.end(RowNumber::of(b"b"));
    let is_there = |row| batch.row(row).is_ok();
    assert_eq!([rows[0], rows[1], full, other].map(is_there), [false, false, true, true]);
    assert_eq!(batch.names(full).expect("read"), [name("file")]);
}

#[test]
fn a_resumable_file_that_waits_is_found_by_the_next_job() {
    let temp = tempfile::tempdir().expect("a directory");
    for place in [Path::new("/dev/shm"), temp.path()] {
        let elsewhere = tempfile::tempdir_in(place).expect("a directory");
        let (dir, parent) = (open(temp.path()), open(elsewhere.path()));
        let batch = DelayedBatch::begin(Arc::clone(&parent)).expect("begun");
        let row = Row { number: RowNumber::of(b"dir"), on_existing: OnExisting::Keep };
        let source = crate::SourceId {
            size: 4,
            mtime: Timestamp { secs: 1, nanos: 0 },
            inode: 7,
            ctime: None,
        };
        let (stage, _) = Stage::resume(Arc::clone(&dir), &name("big"), &source).expect("begun");
        let mut big = sealed(stage, "text");
        big.wait(&batch, row, &name("big")).expect("it waits");
        let again = big.wait(&batch, row, &name("big")).expect_err("the name is taken");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let earlier = Stage::earlier(&dir, &name("big"), &source);
        assert_eq!(earlier, crate::Earlier::Partial, "{place:?}");
        let published = batch.publish(row, &name("big"), &parent, OnExisting::Keep);
        assert_eq!(published.expect("published"), Publication::Published);
        let there = fs::read_to_string(elsewhere.path().join("big"));
        assert_eq!(there.expect("read"), "text");
    }
}

#[test]
fn what_others_may_have_written_is_not_taken_over() {
    use std::os::unix::fs::PermissionsExt;
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    let lots = [(); 3].map(|()| temp.path().join(batch_name()));
    for (batch, mode) in lots.iter().zip([0o770, 0o707, 0o700]) {
        fs::create_dir_all(batch.join("0-new")).expect("made");
        fs::write(batch.join("0-new/file"), "left").expect("written");
        fs::set_permissions(batch, fs::Permissions::from_mode(mode)).expect("set");
    }
    let taken = DelayedBatch::take_over(&dir, || {}).expect("one was left");
    assert_eq!(lots.each_ref().map(|batch| batch.exists()), [false, false, true]);
    drop(taken);
    assert!(dir.entries().expect("read").is_empty());
}

#[test]
fn what_was_given_the_name_of_a_lot_stays() {
    use std::os::unix::fs::PermissionsExt;
    for other in ["Mail", "0-old", "-new", "g-new", "before-", "before-before-0-new"] {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = open(temp.path());
        let name = batch_name();
        let given = temp.path().join(&name);
        for row in ["0123456789abcdef-new", other] {
            fs::create_dir_all(given.join(row)).expect("made");
            fs::write(given.join(row).join("file"), "kept").expect("written");
        }
        fs::set_permissions(&given, fs::Permissions::from_mode(0o700)).expect("set");
        assert!(DelayedBatch::take_over(&dir, || {}).is_none(), "{other}");
        let refused = remove(&dir, &as_name(&name)).expect_err("it is none");
        assert!(refused.to_string().contains(other), "{refused}");
        for row in ["0123456789abcdef-new", other] {
            assert!(given.join(row).join("file").exists(), "{other}: {row}");
        }
    }
}

#[test]
fn a_stage_elsewhere_is_published_whole() {
    let temp = tempfile::tempdir().expect("a directory");
    let places = [Path::new("/dev/shm"), temp.path()];
    for place in places {
        let scratch = tempfile::tempdir_in(place).expect("a directory");
        let (from, to) = (open(scratch.path()), open(temp.path()));
        let target = temp.path().join("file");
        for named in [false, true] {
            for on_existing in [OnExisting::Keep, OnExisting::Replace] {
                let stage = match named {
                    true => Stage {
                        dest: Some(Arc::clone(&to)),
                        ..Stage::create_named(Arc::clone(&from)).expect("a stage")
                    },
                    false => {
                        Stage::create_for(Arc::clone(&from), Arc::clone(&to)).expect("a stage")
                    }
                };
                let text = format!("{named} {on_existing:?}");
                let mut sealed = sealed(stage, &text);
                let done = sealed.publish(&name("file"), on_existing).expect("published");
                assert_eq!(done, Publication::Published);
                drop(sealed);
                assert_eq!(fs::read_to_string(&target).expect("read"), text);
                if on_existing == OnExisting::Replace {
                    fs::remove_file(&target).expect("removed");
                }
            }
            assert!(from.entries().expect("read").is_empty());
        }
    }
}

#[test]
fn a_lot_is_left_when_its_job_is_gone() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    let batch = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    let name = as_name(&batch.name);
    fs::create_dir(temp.path().join(&batch.name).join("0-new")).expect("made");
    assert!(!is_abandoned(&dir, &name).expect("opened"));
    assert!(!remove(&dir, &name).expect("opened"));
    batch.abandon();
    drop(batch);
    assert!(is_abandoned(&dir, &name).expect("opened"));
    assert!(remove(&dir, &name).expect("removed"));
}

#[test]
fn a_waiting_file_can_get_a_second_name() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = open(temp.path());
    let batch = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    let [row, other] = [&b"dir"[..], b"other"]
        .map(|path| Row { number: RowNumber::of(path), on_existing: OnExisting::Keep });
    let stage = Stage::create(Arc::clone(&dir)).expect("a stage");
    sealed(stage, "one").wait(&batch, row, &name("first")).expect("it waits");
    assert_eq!(batch.id(row, &name("none")), None);
    let id = batch.id(row, &name("first")).expect("it waits");
    batch.link(row, &name("first"), id, other, &name("second")).expect("linked");
    assert_eq!(batch.id(other, &name("second")), Some(id));
}

#[test]
fn a_waiting_file_is_published_on_any_file_system() {
    let temp = tempfile::tempdir().expect("a directory");
    for place in [Path::new("/dev/shm"), temp.path()] {
        let elsewhere = tempfile::tempdir_in(place).expect("a directory");
        let (dir, to) = (open(temp.path()), open(elsewhere.path()));
        let batch = DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
        for (on_existing, content, published) in [
            (OnExisting::Keep, "one", Publication::Published),
            (OnExisting::Keep, "one", Publication::Kept),
            (OnExisting::Replace, "two", Publication::Published),
        ] {
            let row = Row { number: RowNumber::of(b"dir"), on_existing };
            let stage = Stage::create(Arc::clone(&dir)).expect("a stage");
            sealed(stage, content).wait(&batch, row, &name("file")).expect("it waits");
            let done = batch.publish(row, &name("file"), &to, on_existing);
            assert_eq!(done.expect("tried"), published, "{on_existing:?}");
            let there = fs::read_to_string(elsewhere.path().join("file"));
            assert_eq!(there.expect("read"), content);
            let left = batch.names(row).expect("read");
            assert_eq!(left.is_empty(), published == Publication::Published);
        }
    }
}
