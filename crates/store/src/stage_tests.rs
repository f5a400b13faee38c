//! Tests of stages, for files without a name and for private names alike: what
//! is published is whole and has its metadata, and nothing else ever shows.

use super::*;
use crate::{Mismatch, Mover, Written};
use haul_model::{Attributes, ContentHash, Fault, Kept, NewEntry, Side};
use haul_testkit::content::bytes;
use haul_testkit::{FileSystem, Mount};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TIME: Timestamp = Timestamp { secs: 1_234_567_890, nanos: 987_654_321 };

/// How often a link is made while somebody removes those that are staged.
const RACES: usize = 5_000;

/// Both kinds of stage.
const KINDS: [fn(Arc<Dir>) -> io::Result<Stage>; 2] = [Stage::create, Stage::create_named];

struct Place {
    temp: TempDir,
    dir: Arc<Dir>,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
        Self { temp, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The names that are there, in order.
    fn names(&self) -> Vec<String> {
        names_in(self.temp.path())
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("read");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("read").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a plain name")
}

/// Seals a stage whatever is in it.
fn seal(stage: Stage, mode: u32) -> io::Result<Box<dyn SealedFile>> {
    let moved = Mover::new(Box::new(stage)).finish().expect("ended");
    moved
        .verify_len(0)
        .expect("nothing was written by it")
        .seal(&Attributes::new(mode, TIME), Kept::OF_COPIES)
}

fn publish(stage: Stage, to: &str, on_existing: OnExisting) -> io::Result<Publication> {
    seal(stage, 0o640)?.publish(&name(to), on_existing)
}

/// Stages `content` and publishes it as `file`.
fn put(
    place: &Place,
    create: fn(Arc<Dir>) -> io::Result<Stage>,
    content: &[u8],
    on_existing: OnExisting,
) -> io::Result<Publication> {
    let stage = create(Arc::clone(&place.dir)).expect("created");
    stage.write_at(content, 0).expect("written");
    publish(stage, "file", on_existing)
}

#[test]
fn a_new_file_has_content_mode_and_time_and_nothing_else_is_left() {
    for create in KINDS {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            let place = Place::new();
            let published = put(&place, create, b"content", on_existing);
            assert_eq!(published.expect("published"), Publication::Published);
            let meta = fs::metadata(place.path("file")).expect("there");
            assert_eq!(meta.mode() & 0o7777, 0o640);
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (TIME.secs, TIME.nanos.into()));
            assert_eq!(fs::read(place.path("file")).expect("read"), b"content");
            assert_eq!(place.names(), ["file"]);
        }
    }
}

#[test]
fn what_has_the_name_stays_or_goes_as_the_placement_says() {
    for create in KINDS {
        for (on_existing, publication, content) in [
            (OnExisting::Keep, Publication::Kept, "old"),
            (OnExisting::Replace, Publication::Published, "new"),
        ] {
            let place = Place::new();
            fs::write(place.path("file"), "old").expect("written");
            let published = put(&place, create, b"new", on_existing).expect("no error");
            assert_eq!(published, publication, "{on_existing:?}");
            assert_eq!(fs::read_to_string(place.path("file")).expect("read"), content);
            assert_eq!(place.names(), ["file"], "{on_existing:?}");
        }
    }
}

#[test]
fn a_link_of_that_name_is_replaced_and_not_followed() {
    for create in KINDS {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            let place = Place::new();
            fs::write(place.path("target"), "old").expect("written");
            symlink("target", place.path("file")).expect("linked");
            put(&place, create, b"new", on_existing).expect("no error");
            assert_eq!(fs::read(place.path("target")).expect("read"), b"old");
            let meta = fs::symlink_metadata(place.path("file")).expect("there");
            assert_eq!(meta.is_symlink(), on_existing == OnExisting::Keep, "{on_existing:?}");
            assert_eq!(place.names(), ["file", "target"]);
        }
    }
}

#[test]
fn a_directory_of_that_name_is_never_replaced() {
    for create in KINDS {
        for on_existing in [OnExisting::Keep, OnExisting::Replace] {
            let place = Place::new();
            fs::create_dir(place.path("file")).expect("made");
            let published = put(&place, create, b"new", on_existing);
            let is_left = matches!(published, Err(_) | Ok(Publication::Kept));
            assert!(is_left, "{on_existing:?}");
            assert!(place.path("file").is_dir());
            assert_eq!(place.names(), ["file"], "{on_existing:?}");
        }
    }
}

#[test]
fn a_stage_that_is_given_up_leaves_nothing() {
    for create in KINDS {
        let place = Place::new();
        let stage = create(Arc::clone(&place.dir)).expect("created");
        stage.write_at(&[1; 10_000], 5).expect("written");
        let mode = stage.file().metadata().expect("there").mode();
        assert_eq!(mode & 0o7777, 0o600, "nobody else may look in");
        assert!(place.names().iter().all(|name| name.starts_with(".haul-")));
        drop(stage);
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn an_extended_stage_ends_with_a_hole() {
    for create in KINDS {
        let place = Place::new();
        let stage = create(Arc::clone(&place.dir)).expect("created");
        stage.write_at(b"head", 0).expect("written");
        stage.set_len(4 << 20).expect("extended");
        publish(stage, "file", OnExisting::Keep).expect("published");
        let content = fs::read(place.path("file")).expect("read");
        assert_eq!(content.len(), 4 << 20);
        assert!(content.starts_with(b"head") && content[4..].iter().all(|byte| *byte == 0));
        assert!(fs::metadata(place.path("file")).expect("there").blocks() * 512 < 1 << 20);
    }
}

#[test]
fn a_reader_sees_the_whole_old_or_the_whole_new_content_at_any_time() {
    const ROUNDS: u8 = 200;
    const LEN: usize = 20_000;
    for create in KINDS {
        let place = Place::new();
        put(&place, create, &[0; LEN], OnExisting::Keep).expect("published");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let content = fs::read(place.path("file")).expect("it is always there");
                    assert_eq!(content.len(), LEN);
                    assert!(content.iter().all(|byte| *byte == content[0]), "a mixture");
                    assert!(content[0] >= last, "the old content came back");
                    last = content[0];
                }
            });
            for round in 1..=ROUNDS {
                put(&place, create, &[round; LEN], OnExisting::Replace).expect("published");
            }
            done.store(true, Ordering::Relaxed);
            reader.join().expect("the reader saw nothing else");
        });
        assert_eq!(place.names(), ["file"]);
    }
}

#[test]
fn a_name_that_appears_while_others_publish_is_kept_by_those_who_keep() {
    for create in KINDS {
        let place = Place::new();
        let published: usize = thread::scope(|scope| {
            let keepers: Vec<_> = (0..8u8)
                .map(|n| {
                    let place = &place;
                    scope.spawn(move || put(place, create, &[n; 100], OnExisting::Keep))
                })
                .collect();
            let publications = keepers.into_iter().map(|k| k.join().expect("no panic"));
            publications.filter(|p| matches!(p, Ok(Publication::Published))).count()
        });
        assert_eq!(published, 1);
        assert_eq!(place.names(), ["file"]);
    }
}

#[test]
fn a_directory_that_is_gone_is_an_error_and_no_more() {
    for create in KINDS {
        let place = Place::new();
        fs::create_dir(place.path("dir")).expect("made");
        let dir = Arc::new(Dir::open(&place.path("dir")).expect("opened"));
        let stage = create(Arc::clone(&dir)).expect("created");
        fs::remove_dir_all(place.path("dir")).expect("removed");
        assert!(publish(stage, "file", OnExisting::Keep).is_err());
        assert!(create(dir).is_err());
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn a_symbolic_link_appears_in_one_step_and_keeps_to_the_placement() {
    let place = Place::new();
    let link = |to: &str, target: &[u8], on_existing| {
        Publication::create_entry(
            &place.dir,
            NewEntry::Symlink(target),
            &name(to),
            &Attributes::new(0o777, TIME),
            Kept::TIMES,
            on_existing,
        )
    };
    fs::write(place.path("file"), "old").expect("written");
    fs::create_dir(place.path("dir")).expect("made");
    assert_eq!(link("a", b"b", OnExisting::Keep).expect("made"), Publication::Published);
    assert_eq!(link("file", b"b", OnExisting::Keep).expect("no error"), Publication::Kept);
    assert_eq!(fs::read(place.path("file")).expect("read"), b"old");
    assert_eq!(link("file", b"b", OnExisting::Replace).expect("made"), Publication::Published);
    assert_eq!(link("a", b"c", OnExisting::Replace).expect("made"), Publication::Published);
    assert!(link("dir", b"b", OnExisting::Replace).is_err());
    assert!(link("b", b"", OnExisting::Keep).is_err(), "a link leads somewhere");
    assert!(link("b", b"x\0y", OnExisting::Keep).is_err(), "no target holds a NUL byte");
    assert!(link("b", &[b'x'; 5000], OnExisting::Keep).is_err(), "no target is as long as this");
    assert_eq!(fs::read_link(place.path("a")).expect("a link"), Path::new("c"));
    assert_eq!(place.dir.stat(&name("a")).expect("there").mtime, TIME);
    assert_eq!(place.names(), ["a", "dir", "file"]);
}

#[test]
fn a_symbolic_link_does_not_replace_the_file_that_it_leads_to() {
    let place = Place::new();
    let attributes = Attributes::new(0o777, TIME);
    let link = |target: &[u8]| {
        let (name, replace) = (name("file"), OnExisting::Replace);
        Publication::create_entry(
            &place.dir,
            NewEntry::Symlink(target),
            &name,
            &attributes,
            Kept::TIMES,
            replace,
        )
    };
    fs::write(place.path("file"), "precious").expect("written");
    let absolute = place.path("file");
    for target in [&b"file"[..], b"./file", absolute.as_os_str().as_bytes()] {
        let error = link(target).expect_err("it would lead to itself");
        assert_eq!(Fault::from_io(Side::Destination, "", &error), Fault::of_link_to_itself());
        assert_eq!(fs::read(place.path("file")).expect("read"), b"precious");
        assert_eq!(place.names(), ["file"]);
    }
    // A link at the other name could take the place of that, too.
    fs::hard_link(place.path("file"), place.path("other")).expect("linked");
    link(b"other").expect_err("it would lead to itself");
}

#[test]
fn a_stage_that_was_removed_before_it_was_locked_is_made_again() {
    let place = Place::new();
    let made = AtomicUsize::new(0);
    let stage = Stage::with_name(&place.dir, |name| {
        let file = place.dir.create_private(name)?;
        if made.fetch_add(1, Ordering::Relaxed) < 2 {
            place.dir.remove_private(name)?;
        }
        Ok(file)
    });
    let stage = stage.expect("the third one stays");
    assert_eq!(made.into_inner(), 3);
    let Home::Private(private) = &stage.home else { panic!("it has a name") };
    assert!(place.dir.is_private_file(&private.name, &stage.file).expect("looked at"));
}

#[test]
fn a_link_whose_stage_is_removed_by_others_is_made_again() {
    let place = Place::new();
    fs::write(place.path("file"), "content").expect("a file");
    let is_over = AtomicBool::new(false);
    let symlink = || {
        let (to, attributes) = (NewEntry::Symlink(b"b"), Attributes::new(0o777, TIME));
        let (link, keep) = (name("link"), OnExisting::Keep);
        Publication::create_entry(&place.dir, to, &link, &attributes, Kept::TIMES, keep)
    };
    let hard_link = || {
        let (dir, of, replace) = (&place.dir, name("file"), OnExisting::Replace);
        Publication::create_hard_link(dir, dir, &of, None, &name("link"), replace)
    };
    // Who removes each of them would win.
    let (to_remove, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for one in crate::Leftovers::find(&place.dir).expect("read").iter() {
                    if to_remove.load(Ordering::Relaxed) > 0
                        && matches!(one.clean(&place.dir, false, false), Ok(Some(_)))
                    {
                        to_remove.fetch_sub(1, Ordering::Relaxed);
                        removed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let failed = (0..2 * RACES).find_map(|race| {
            to_remove.store(NAME_ATTEMPTS_MAX - 2, Ordering::Relaxed);
            let made = if race % 2 == 0 { symlink() } else { hard_link() };
            let removed = fs::remove_file(place.path("link"));
            made.and(removed).err()
        });
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    assert!(failed.is_none(), "{failed:?}");
    assert!(removed.into_inner() > 0, "nothing was removed in time");
    assert_eq!(place.names(), ["file"]);
}

#[test]
fn a_private_name_that_is_taken_is_drawn_again_but_not_for_ever() {
    let place = Place::new();
    let tries = std::cell::Cell::new(0);
    let taken_until = |free_at: usize| {
        tries.set(0);
        with_private_name(&place.dir, |temp| {
            tries.set(tries.get() + 1);
            assert!(temp.starts_with(".haul-") && temp.len() == 22, "{temp}");
            match tries.get() < free_at {
                true => Err(io::ErrorKind::AlreadyExists.into()),
                false => Ok(()),
            }
        })
        .map(|_| tries.get())
    };
    assert_eq!(taken_until(3).expect("the third is free"), 3);
    let gave_up = taken_until(usize::MAX).expect_err("all are taken");
    assert_eq!(gave_up.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(tries.get(), NAME_ATTEMPTS_MAX);
}

#[test]
fn a_private_name_is_removed_if_its_entry_fails() {
    let place = Place::new();
    let made = with_private_name(&place.dir, |temp| {
        place.dir.create_private(temp)?;
        Err::<(), _>(io::ErrorKind::StorageFull.into())
    });
    assert_eq!(made.expect_err("it fails").kind(), io::ErrorKind::StorageFull);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_link_in_a_directory_that_is_gone_is_an_error() {
    haul_testkit::ends_within(Duration::from_secs(10), || {
        let place = Place::new();
        fs::create_dir(place.path("dir")).expect("made");
        let dir = Arc::new(Dir::open(&place.path("dir")).expect("opened"));
        fs::remove_dir(place.path("dir")).expect("removed");
        let made = Publication::create_entry(
            &dir,
            NewEntry::Symlink(b"b"),
            &name("link"),
            &Attributes::new(0o777, TIME),
            Kept::TIMES,
            OnExisting::Keep,
        );
        assert_eq!(made.expect_err("it is gone").kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn measuring_a_directory_does_not_change_it() {
    let place = Place::new();
    let long_ago = Timestamp { secs: 1, nanos: 0 };
    haul_sys::set_mtime(&*place.dir, long_ago).expect("set");
    assert_eq!(stored_time(&place.dir, TIME).expect("measured"), TIME);
    assert_eq!(place.dir.stat_self().expect("open").mtime, long_ago);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn a_hole_at_the_end_counts_even_if_nothing_follows_it() {
    let place = Place::new();
    let stage = Stage::create(Arc::clone(&place.dir)).expect("created");
    let mut mover = Mover::new(Box::new(stage));
    mover.write(b"data").expect("written");
    mover.skip_hole(5);
    mover.put(|_, _| Ok::<_, io::Error>(0)).expect("nothing");
    let moved = mover.finish().expect("ended").verify_len(9).expect("as long");
    let file = moved.stage().handle().expect("open");
    assert_eq!(file.metadata().expect("looked at").len(), 9);
}

#[test]
fn a_stage_shares_the_whole_of_its_source_or_is_empty() {
    let plain = Mount::image(FileSystem::Ext4, 16 << 20);
    let sharing = Mount::image(FileSystem::Xfs, 300 << 20);
    let content = bytes(3_000_001, 5);
    for (mount, is_to_share) in [(plain, false), (sharing, true)] {
        let Some(mount) = mount else { continue };
        let dir = Arc::new(Dir::open(mount.path()).expect("opened"));
        fs::write(mount.path().join("from"), &content).expect("written");
        let source = File::open(mount.path().join("from")).expect("opened");
        let (stage, shares) = Stage::create_sharing(dir, &source).expect("begun");
        assert_eq!(shares, is_to_share);
        let part = Stage::create(Arc::clone(&stage.dir)).expect("a stage");
        let part: Box<dyn StagedFile> = Box::new(part);
        assert_eq!(part.begin_with(&source, 0..1 << 20), is_to_share);
        let len = part.handle().expect("open").metadata().expect("looked at").len();
        assert_eq!(len, if is_to_share { 1 << 20 } else { 0 });
        drop(part);
        publish(stage, "to", OnExisting::Keep).expect("published");
        let copy = fs::read(mount.path().join("to")).expect("read");
        assert_eq!(copy, if shares { content.as_slice() } else { &[] });
        let names = names_in(mount.path());
        assert!(!names.iter().any(|name| name.starts_with(".haul-")), "{names:?}");
    }
}

#[test]
fn private_names_differ() {
    let mut names: Vec<_> = (0..1000).map(|_| private_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1000);
}

#[test]
fn content_is_proven_by_its_hash_or_by_its_length() {
    let content = bytes(1000, 1);
    let place = Place::new();
    let stage = || Box::new(Stage::create(Arc::clone(&place.dir)).expect("created"));
    let written = || Written::of(stage(), &content).expect("written");
    let verified = written().verify_hash(&ContentHash::of(&content)).expect("the same");
    assert_eq!(verified.hash(), Some(ContentHash::of(&content)));
    assert_eq!(written().verify_len(1000).expect("as long").hash(), verified.hash());
    let mut there = vec![0; 2000];
    let file = verified.stage().handle().expect("open");
    assert_eq!(file.read_at(&mut there, 0).expect("read"), content.len());
    assert!(there.starts_with(&content));
    let (_, mismatch) = written().verify_hash(&ContentHash::of(&content[1..])).unwrap_err();
    assert!(matches!(mismatch, Mismatch::Hash { .. }));
    let moved = || {
        let mut mover = Mover::new(stage());
        mover.write(&content).expect("written");
        mover.skip_hole(5);
        mover.finish().expect("ended")
    };
    let verified = moved().verify_len(1005).expect("as long");
    assert_eq!(verified.stage().handle().expect("open").metadata().expect("looked at").len(), 1005);
    for len in [1000, 1004, 1006] {
        let (_, mismatch) = moved().verify_len(len).unwrap_err();
        assert_eq!(mismatch, Mismatch::Length { expected: len, actual: 1005 });
    }
}

#[test]
fn a_file_staged_elsewhere_has_no_other_name_where_it_appears() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let long_ago = Timestamp { secs: 1, nanos: 0 };
    haul_sys::set_mtime(&*elsewhere.dir, long_ago).expect("set");
    fs::write(place.path("file"), "old").expect("written");
    let (at, dest) = (Arc::clone(&elsewhere.dir), Arc::clone(&place.dir));
    let stage = Stage::create_for(at, dest).expect("created");
    stage.write_at(b"new", 0).expect("written");
    let mut sealed = seal(stage, 0o640).expect("sealed");
    let publication = sealed.publish(&name("file"), OnExisting::Replace).expect("published");
    assert_eq!(publication, Publication::Published);
    assert_eq!(fs::read(place.path("file")).expect("read"), b"new");
    // The name that replaced the old one was there.
    assert_ne!(elsewhere.dir.stat_self().expect("looked at").mtime, long_ago);
    assert_eq!((place.names(), elsewhere.names().len()), (vec!["file".to_owned()], 0));
}

#[test]
fn a_file_that_can_be_given_no_name_is_copied_to_one_that_has_one() {
    let Some(other) = Mount::tmpfs(16 << 20) else { return };
    for (on_existing, content) in [(OnExisting::Keep, "old"), (OnExisting::Replace, "new")] {
        let place = Place::new();
        let elsewhere = Dir::open(other.path()).expect("opened");
        let file = elsewhere.create_unnamed().expect("tmpfs has such files");
        // No name in this directory can be that of a file of another file system.
        let dir = Arc::clone(&place.dir);
        let stage = Stage {
            dir,
            dest: None,
            file,
            home: Home::Unnamed,
            writes_out: false,
            writes_sparse: false,
        };
        stage.write_at(b"new", 0).expect("written");
        stage.set_len(5 << 20).expect("extended");
        fs::write(place.path("file"), "old").expect("written");
        let mut sealed = seal(stage, 0o640).expect("sealed");
        // As after it was read back.
        sealed.forget_cached();
        let publication = sealed.publish(&name("file"), on_existing).expect("published");
        let stat = fs::metadata(place.path("file")).expect("there");
        if on_existing == OnExisting::Keep {
            assert_eq!(publication, Publication::Kept);
            assert_eq!(fs::read_to_string(place.path("file")).expect("read"), content);
            sealed.publish(&name("file"), OnExisting::Replace).expect("published");
        } else {
            assert_eq!((stat.mode() & 0o7777, stat.len()), (0o640, 5 << 20));
            assert_eq!((stat.mtime(), stat.mtime_nsec()), (TIME.secs, TIME.nanos.into()));
            assert!(stat.blocks() * 512 < 1 << 20, "its hole is filled");
        }
        drop(sealed);
        assert!(fs::read(place.path("file")).expect("read").starts_with(b"new"));
        assert_eq!(place.names(), ["file"]);
        // The next one has a name from the start, and the same is not done again.
        put(&place, Stage::create, b"next", OnExisting::Replace).expect("published");
        assert_eq!(fs::read(place.path("file")).expect("read"), b"next");
    }
}

#[test]
fn a_hard_link_keeps_to_the_placement() {
    let place = Place::new();
    for text in ["a", "b"] {
        fs::write(place.path(text), text).expect("written");
    }
    let (dir, of, to) = (&place.dir, name("a"), name("b"));
    for (on_existing, publication, content) in [
        (OnExisting::Keep, Publication::Kept, "b"),
        (OnExisting::Replace, Publication::Published, "a"),
    ] {
        let done = Publication::create_hard_link(dir, dir, &of, None, &to, on_existing);
        assert_eq!(done.expect("tried"), publication);
        assert_eq!(fs::read_to_string(place.path("b")).expect("read"), content);
    }
    assert_eq!(place.names(), ["a", "b"]);
    // Both are the same file by now.
    let done = Publication::create_hard_link(dir, dir, &of, None, &to, OnExisting::Replace);
    assert_eq!(done.expect("tried"), Publication::Published);
    assert_eq!(place.names(), ["a", "b"]);
}
