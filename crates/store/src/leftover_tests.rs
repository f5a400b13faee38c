//! Tests of what is left, found and removed.

use super::*;
use crate::{
    OnExisting, SourceId, Stage as Begun, StagedFile, StaleStages, Written, old_name,
    remote_stage_name,
};
use haul_model::{Attributes, BlockHash, Kept, NewEntry, Special};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use tempfile::TempDir;

const TIME: Timestamp = Timestamp { secs: 1_234_567_890, nanos: 5 };
const SIZE: u64 = 100 << 20;

fn place() -> (TempDir, Arc<Dir>) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
    (temp, dir)
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn source(inode: u64) -> SourceId {
    SourceId { size: SIZE, mtime: TIME, inode, ctime: Some(TIME) }
}

/// A stage for `to` with one block in it, still held.
fn begin(dir: &Arc<Dir>, to: &str, inode: u64) -> Begun {
    let (stage, _) = Begun::resume(Arc::clone(dir), &name(to), &source(inode)).expect("begun");
    let block = vec![7; BLOCK_LEN as usize];
    stage.write_at(&block, 0).expect("written");
    stage.record(BlockHash::of(0, &block)).expect("recorded");
    stage
}

fn clean(dir: &Dir, all: bool, dry_run: bool) -> Vec<Cleaned> {
    let found = Leftovers::find(dir).expect("read");
    found.iter().filter_map(|one| one.clean(dir, all, dry_run).expect("cleaned")).collect()
}

fn fates(dir: &Dir, all: bool) -> Vec<Fate> {
    clean(dir, all, false).into_iter().map(|cleaned| cleaned.fate).collect()
}

fn count(temp: &TempDir) -> usize {
    fs::read_dir(temp.path()).expect("read").count()
}

#[test]
fn what_is_being_written_is_left() {
    let (temp, dir) = place();
    let stages = (begin(&dir, "a", 1), Begun::create_named(Arc::clone(&dir)).expect("begun"));
    assert_eq!(fates(&dir, true), [Fate::Busy, Fate::Busy]);
    assert_eq!(count(&temp), 3);
    drop(stages);
}

#[test]
fn what_can_be_continued_goes_only_with_all() {
    let (temp, dir) = place();
    drop(begin(&dir, "a", 1));
    let kept = clean(&dir, false, false);
    assert_eq!((kept[0].fate, kept[0].progress), (Fate::Kept, Some((BLOCK_LEN, SIZE))));
    assert!(kept[0].bytes >= BLOCK_LEN && kept[0].name.ends_with(".part"), "{kept:?}");
    assert_eq!(clean(&dir, true, true)[0].fate, Fate::WouldRemove);
    assert_eq!(count(&temp), 2);
    assert_eq!(fates(&dir, true), [Fate::Removed]);
    assert_eq!(count(&temp), 0);
}

#[test]
fn what_nothing_can_continue_goes() {
    let (temp, dir) = place();
    // A stage of a killed process, a part without its journal, one whose journal
    // says nothing, and one whose file is there by now.
    fs::write(temp.path().join(".haul-0123456789abcdef"), "x").expect("written");
    for inode in 1..=3 {
        drop(begin(&dir, &format!("f{inode}"), inode));
    }
    let of = |n: u64| Names::of(&name(&format!("f{n}")), &source(n));
    fs::remove_file(temp.path().join(of(1).journal)).expect("removed");
    fs::write(temp.path().join(of(2).journal), "what is this?").expect("written");
    let file = fs::File::create(temp.path().join("f3")).expect("made");
    file.set_len(SIZE).expect("a length");
    haul_sys::set_mtime(&file, TIME).expect("a time");
    let cleaned = clean(&dir, false, false);
    assert!(cleaned.iter().all(|one| one.fate == Fate::Removed), "{cleaned:?}");
    assert!(cleaned.iter().any(|one| one.target == Some(name("f3"))), "{cleaned:?}");
    assert_eq!((cleaned.len(), count(&temp)), (4, 1));
}

#[test]
fn staged_links_go_and_are_not_followed() {
    let (temp, dir) = place();
    fs::write(temp.path().join("precious"), "x").expect("written");
    symlink("precious", temp.path().join(".haul-0123456789abcdef")).expect("a link");
    symlink("nowhere", temp.path().join(".haul-0123456789abcde0")).expect("a link");
    symlink("precious", temp.path().join(".haul-notes")).expect("a link");
    let dry = clean(&dir, true, true);
    assert!(dry.len() == 2 && dry.iter().all(|one| one.fate == Fate::WouldRemove), "{dry:?}");
    assert_eq!(count(&temp), 4);
    assert_eq!(fates(&dir, false), [Fate::Removed, Fate::Removed]);
    assert_eq!(count(&temp), 2);
    assert_eq!(fs::read(temp.path().join("precious")).expect("read"), b"x");
}

#[test]
fn staged_fifos_and_sockets_go() {
    let (temp, dir) = place();
    let attributes = Attributes::new(0o600, TIME);
    for (digit, special) in [('0', Special::Fifo), ('1', Special::Socket)] {
        let name = format!(".haul-0123456789abcde{digit}");
        dir.make_entry(NewEntry::Special(special), &name, &attributes, Kept::NONE).expect("made");
    }
    assert_eq!(fates(&dir, false), [Fate::Removed, Fate::Removed]);
    assert_eq!(count(&temp), 0);
}

#[test]
fn what_no_copy_makes_stays_whatever_its_name() {
    let (temp, dir) = place();
    fs::write(temp.path().join("precious"), "x").expect("written");
    symlink("precious", temp.path().join(".haul-0123456789ab-0123456789ab.part")).expect("made");
    symlink("precious", temp.path().join(".haul-0123456789ab-0123456789ac.journal")).expect("made");
    fs::create_dir(temp.path().join(".haul-0123456789ab-0123456789ad.part")).expect("made");
    fs::create_dir_all(temp.path().join(".haul-0123456789abcdef/precious")).expect("made");
    for one in Leftovers::find(&dir).expect("read").iter() {
        one.clean(&dir, true, false).expect_err("no stage");
    }
    assert_eq!(count(&temp), 5);
    assert_eq!(fs::read(temp.path().join("precious")).expect("read"), b"x");
}

#[test]
fn a_directory_that_was_made_for_a_moment_goes_when_that_has_passed() {
    let (temp, dir) = place();
    fs::create_dir(temp.path().join(".haul-0123456789abcdef")).expect("made");
    assert_eq!(fates(&dir, true), [Fate::Busy]);
    assert_eq!(fates_after(&dir, MARKER_UNCHANGED_MIN, false), [Fate::WouldRemove]);
    let now = SystemTime::now() + MARKER_UNCHANGED_MIN;
    let found = Leftovers::find(&dir).expect("read");
    let cleaned = found.iter().next().expect("one").clean_at(now, &dir, false, false);
    assert_eq!(cleaned.expect("cleaned").expect("it was there").fate, Fate::Removed);
    assert_eq!(count(&temp), 0);
}

#[test]
fn a_mark_goes_if_nobody_holds_it_and_nothing_is_in_it() {
    let (temp, dir) = place();
    let names: Vec<_> = (0..5).map(|n| format!(".haul-0123456789abcde{n}")).collect();
    let path = |n: usize| temp.path().join(&names[n]);
    for (n, content) in [(0, ""), (1, ""), (2, "precious")] {
        fs::write(path(n), content).expect("written");
    }
    let held = File::open(path(1)).expect("opened");
    assert!(haul_sys::try_lock(&held).expect("locked"));
    // It may have been made in this moment.
    fs::create_dir(path(3)).expect("made");
    symlink("nowhere", path(4)).expect("a link");
    fs::write(temp.path().join(".haul-notes"), "").expect("written");
    let gone: Vec<_> = names.iter().map(|one| remove_marker(&dir, &name(one))).collect();
    assert_eq!(gone, [true, false, false, false, false]);
    assert!(!remove_marker(&dir, &name(".haul-notes")));
    assert_eq!(count(&temp), 5);
    drop(held);
    assert!(remove_marker(&dir, &name(&names[1])));
}

#[test]
fn a_link_that_is_published_takes_those_with_it_that_were_staged_for_it() {
    let (temp, dir) = place();
    let staged = |digit: char| format!(".haul-0123456789abcde{digit}");
    for (digit, target) in [('0', "there"), ('1', "there"), ('2', "elsewhere")] {
        symlink(target, temp.path().join(staged(digit))).expect("a link");
    }
    symlink("there", temp.path().join(".haul-notes")).expect("a link");
    fs::write(temp.path().join(staged('3')), "there").expect("written");
    let seen = StaleStages::find(&dir);
    fs::write(temp.path().join("file"), "there").expect("written");
    seen.remove(&dir, &name("file"));
    assert_eq!(count(&temp), 6, "a file is no link");
    // Nor does what was asked for under such a name go by itself.
    seen.remove(&dir, &name(&staged('2')));
    assert_eq!(count(&temp), 6);
    symlink("there", temp.path().join("link")).expect("a link");
    seen.remove(&dir, &name("link"));
    let left = ["2", "3"].map(|digit| format!(".haul-0123456789abcde{digit}"));
    let mut there: Vec<_> = fs::read_dir(temp.path())
        .expect("read")
        .map(|entry| entry.expect("read").file_name().into_string().expect("plain"))
        .collect();
    there.sort();
    assert_eq!(there, [&left[0], &left[1], ".haul-notes", "file", "link"]);
}

#[test]
fn stale_stages_of_a_name_go_and_no_others() {
    let (temp, dir) = place();
    drop(begin(&dir, "a", 1));
    drop(begin(&dir, "b", 1));
    let held = begin(&dir, "a", 2);
    assert_eq!(count(&temp), 4, "beginning anew has removed the first");
    let seen = StaleStages::find(&dir);
    seen.remove(&dir, &name("a"));
    assert_eq!(count(&temp), 4, "one is locked, one is another's");
    drop(held);
    seen.remove(&dir, &name("a"));
    assert_eq!(count(&temp), 2);
    assert_eq!(Begun::earlier(&dir, &name("b"), &source(1)), crate::Earlier::Partial);
}

#[test]
fn a_stage_is_locked_until_it_has_its_name() {
    let (temp, dir) = place();
    let stage = Begun::create_named(Arc::clone(&dir)).expect("begun");
    let verified =
        Written::of(Box::new(stage), b"").expect("written").verify_len(0).expect("as long");
    assert_eq!(fates(&dir, false), [Fate::Busy]);
    let mut sealed = verified.seal(&Attributes::new(0o400, TIME), Kept::OF_COPIES).expect("sealed");
    sealed.publish(&name("a"), OnExisting::Keep).expect("published");
    assert_eq!(fates(&dir, false), []);
    assert_eq!(count(&temp), 1);
}

/// The fate of the leftovers, `after` the last change.
fn fates_after(dir: &Dir, after: Duration, all: bool) -> Vec<Fate> {
    let found = Leftovers::find(dir).expect("read");
    let now = SystemTime::now() + after;
    let cleaned =
        found.iter().filter_map(|one| one.clean_at(now, dir, all, true).expect("cleaned"));
    cleaned.map(|cleaned| cleaned.fate).collect()
}

#[test]
fn what_a_server_writes_is_left_until_nothing_has_changed_it_for_long() {
    const MARGIN: Duration = Duration::from_secs(60);
    let (temp, dir) = place();
    let part = Names::for_keeper(&name("a"), &source(1), b"keeper");
    fs::write(temp.path().join(&part), "x").expect("written");
    fs::write(temp.path().join(remote_stage_name()), "x").expect("written");
    symlink("nowhere", temp.path().join(remote_stage_name())).expect("linked");
    // It has its source's time by now, which may be any.
    for secs in [0, i64::from(u32::MAX)] {
        let file = fs::File::options().write(true).open(temp.path().join(&part)).expect("opened");
        haul_sys::set_mtime(&file, Timestamp { secs, nanos: 0 }).expect("a time");
        let fates = |after, all| {
            let mut fates = fates_after(&dir, after, all);
            fates.sort_by_key(|fate| *fate as u8);
            fates
        };
        for all in [false, true] {
            assert_eq!(fates(UNCHANGED_MIN_ALL - MARGIN, all), [Fate::Recent; 3]);
        }
        assert_eq!(fates(UNCHANGED_MIN_ALL, true), [Fate::WouldRemove; 3]);
        let some = [Fate::Kept, Fate::Recent, Fate::Recent];
        assert_eq!(fates(UNCHANGED_MIN - MARGIN, false), some);
        let some = [Fate::WouldRemove, Fate::WouldRemove, Fate::Kept];
        assert_eq!(fates(UNCHANGED_MIN, false), some);
    }
    assert_eq!(count(&temp), 3);
    // None is taken for what a copy of this machine could have left.
    let begun = begin(&dir, "a", 1);
    drop(begun);
    StaleStages::find(&dir).remove(&dir, &name("a"));
    assert_eq!(count(&temp), 3);
}

#[test]
fn an_old_file_is_kept_while_nothing_has_its_name() {
    let (temp, dir) = place();
    let old = temp.path().join(old_name(&name("a")));
    fs::write(&old, "old").expect("written");
    assert_eq!(fates(&dir, false), [Fate::OnlyCopy]);
    assert_eq!(fates(&dir, true), [Fate::OnlyCopy]);
    fs::write(temp.path().join("a"), "new").expect("written");
    let cleaned = clean(&dir, false, false);
    assert_eq!((cleaned[0].fate, &cleaned[0].target), (Fate::Removed, &Some(name("a"))));
    assert_eq!(count(&temp), 1);
}

#[test]
fn a_leftover_has_the_name_of_its_own_file() {
    let (temp, dir) = place();
    for text in ["a", "b"] {
        drop(begin(&dir, text, 1));
        fs::write(temp.path().join(text), text).expect("written");
    }
    let mut targets: Vec<_> = clean(&dir, false, true)
        .into_iter()
        .map(|cleaned| {
            let target = cleaned.target.expect("it is there");
            assert_eq!(cleaned.name, Names::of(&target, &source(1)).part);
            target
        })
        .collect();
    targets.sort();
    assert_eq!(targets, ["a", "b"].map(name));
}

#[test]
fn a_partial_file_is_kept_until_its_file_is_complete() {
    for (size, time, fate) in [
        (SIZE, TIME, Fate::Removed),
        (SIZE - 1, TIME, Fate::Kept),
        (SIZE, Timestamp { secs: TIME.secs, nanos: 6 }, Fate::Kept),
    ] {
        let (temp, dir) = place();
        drop(begin(&dir, "a", 1));
        let file = fs::File::create(temp.path().join("a")).expect("made");
        file.set_len(size).expect("a length");
        haul_sys::set_mtime(&file, time).expect("a time");
        assert_eq!(fates(&dir, false), [fate], "{size} {time:?}");
    }
}

#[test]
fn a_leftover_is_reported_by_its_private_name() {
    let (temp, dir) = place();
    drop(begin(&dir, "a", 1));
    let random = ".haul-0123456789abcdef";
    fs::write(temp.path().join(random), "x").expect("written");
    let found = Leftovers::find(&dir).expect("read");
    let mut names: Vec<_> = found.iter().map(|one| one.name()).collect();
    names.sort();
    let mut expected = [Names::of(&name("a"), &source(1)).part, random.to_owned()];
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn a_dry_run_makes_no_journal() {
    let (temp, dir) = place();
    drop(begin(&dir, "a", 1));
    let journal = Names::of(&name("a"), &source(1)).journal;
    fs::remove_file(temp.path().join(journal)).expect("removed");
    assert_eq!(clean(&dir, false, true)[0].fate, Fate::WouldRemove);
    assert_eq!(count(&temp), 1);
}

#[test]
fn a_batch_goes_with_its_files_when_its_job_is_gone() {
    const LEN: u64 = 100_000;
    let (temp, dir) = place();
    let batch = batch::DelayedBatch::begin(Arc::clone(&dir)).expect("begun");
    let batch_name = dir.entries().expect("read").remove(0).name;
    let row = temp.path().join(OsStr::from_bytes(batch_name.as_bytes())).join("0-new");
    fs::create_dir(&row).expect("made");
    fs::write(row.join("file"), vec![7; LEN as usize]).expect("written");
    assert_eq!(fates(&dir, true), [Fate::Busy]);
    batch.abandon();
    drop(batch);
    let dry = clean(&dir, false, true);
    assert_eq!(dry[0].fate, Fate::WouldRemove);
    assert!((LEN..2 * LEN).contains(&dry[0].bytes), "{dry:?}");
    assert_eq!(fates(&dir, false), [Fate::Removed]);
    assert_eq!(count(&temp), 0);
}

#[test]
fn a_partial_file_is_kept_only_if_it_can_be_resumed() {
    for (is_recorded, is_given_up, left) in
        [(true, false, 2), (true, true, 0), (false, false, 0), (false, true, 0)]
    {
        let (temp, dir) = place();
        let stage = if is_recorded {
            begin(&dir, "a", 1)
        } else {
            Begun::resume(Arc::clone(&dir), &name("a"), &source(1)).expect("begun").0
        };
        match is_given_up {
            true => Box::new(stage).discard(),
            false => drop(stage),
        }
        assert_eq!(count(&temp), left, "{is_recorded} {is_given_up}");
    }
}

#[test]
fn a_partial_file_is_resumed_without_what_is_not_recorded() {
    let (_temp, dir) = place();
    begin(&dir, "a", 1).write_at(b"more", BLOCK_LEN).expect("written");
    let (stage, blocks) = Begun::resume(dir, &name("a"), &source(1)).expect("resumed");
    assert_eq!(blocks.len(), 1);
    assert_eq!(stage.file().metadata().expect("open").len(), BLOCK_LEN);
}

#[test]
fn a_published_partial_file_leaves_no_journal() {
    let (temp, dir) = place();
    let written = Written::of(Box::new(begin(&dir, "a", 1)), b"").expect("written");
    let verified = written.verify_len(0).expect("as long");
    let mut sealed = verified.seal(&Attributes::new(0o600, TIME), Kept::OF_COPIES).expect("sealed");
    sealed.publish(&name("a"), OnExisting::Keep).expect("published");
    drop(sealed);
    assert_eq!(count(&temp), 1);
    assert!(temp.path().join("a").exists());
}

#[test]
fn leftovers_of_one_name_are_removed_if_there_are_any() {
    let (temp, dir) = place();
    drop(begin(&dir, "a", 1));
    let remove = |text| partial::remove_leftovers(&dir, &name(text), &source(1));
    assert_eq!(["b", "a", "a"].map(remove), [false, true, false]);
    assert_eq!(count(&temp), 0);
}
