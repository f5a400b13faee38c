//! Holes are found where they are, compared with a reader that knows nothing
//! of holes, and content that the kernel moves is the content that was there.
//! File systems that can share content are made in images where that is allowed.

use haul_sys::{Dir, clone_file, copy_range, has_unwritten_blocks, next_data};
use haul_testkit::content::{Stream, bytes};
use haul_testkit::{FileSystem, Mount, fixture};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

/// Most file systems' block.
const BLOCK: u64 = 4096;

/// A directory on each kind of file system that is at hand.
fn places() -> Vec<TempDir> {
    let mut places = vec![tempfile::tempdir().expect("a temporary directory")];
    if Path::new("/dev/shm").is_dir() {
        places.extend(tempfile::tempdir_in("/dev/shm"));
    }
    places
}

fn file_at(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    options.open(path).expect("created")
}

/// All ranges with data, as a copier asks for them.
fn ranges(file: &File, size: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(range) = next_data(file, at, size) {
        assert!(range.start >= at && range.start < range.end && range.end <= size, "{range:?}");
        at = range.end;
        found.push(range);
    }
    found
}

/// Checks the ranges against the content: whatever is outside of them is zero.
fn check_ranges(path: &Path, file: &File) -> Vec<Range<u64>> {
    let mut content = fs::read(path).expect("read");
    let found = ranges(file, content.len() as u64);
    for range in &found {
        content[range.start as usize..range.end as usize].fill(0);
    }
    assert!(content.iter().all(|byte| *byte == 0), "data outside of {found:?}");
    found
}

#[test]
fn a_file_without_holes_is_one_range_and_an_empty_one_none() {
    for place in places() {
        let path = place.path().join("file");
        for size in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 100_000] {
            fs::write(&path, bytes(size as usize, 1)).expect("written");
            let file = File::open(&path).expect("open");
            let found = check_ranges(&path, &file);
            assert_eq!(found.len(), usize::from(size > 0), "{size}: {found:?}");
            assert_eq!(next_data(&file, size, size), None);
            assert_eq!(next_data(&file, u64::MAX, size), None);
        }
    }
}

#[test]
fn every_layout_of_holes_is_reported_so_that_no_data_is_missed() {
    for place in places() {
        let path = place.path().join("file");
        let mut stream = Stream::new(7);
        for _ in 0..100 {
            let file = file_at(&path);
            let size = stream.below(2 << 20);
            file.set_len(size).expect("extended");
            for _ in 0..stream.below(6) {
                let at = stream.below(size + 1);
                let len = stream.below(3 * BLOCK).min(size - at);
                file.write_all_at(&bytes(len as usize, at), at).expect("written");
            }
            check_ranges(&path, &file);
        }
    }
}

#[test]
fn a_large_hole_costs_nothing_to_step_over() {
    let mut any = false;
    for place in places() {
        let file = file_at(&place.path().join("file"));
        let size = 1 << 40;
        if file.set_len(size).is_err() {
            continue;
        }
        file.write_all_at(b"x", size / 2).expect("written");
        let data: u64 = ranges(&file, size).iter().map(|range| range.end - range.start).sum();
        if data != size {
            assert!(data <= 1 << 20, "{data}");
            any = true;
        }
    }
    if !any {
        fixture::missing("a file system that tells of holes");
    }
}

#[test]
fn a_file_that_grew_is_not_read_past_the_size_that_was_reported() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("file");
    fs::write(&path, bytes(100_000, 3)).expect("written");
    let file = File::open(&path).expect("open");
    assert_eq!(ranges(&file, 10), vec![Range { start: 0, end: 10 }]);
}

#[test]
fn a_range_is_copied_to_the_same_place_and_ends_with_the_file() {
    let mut any = false;
    for place in places() {
        let content = bytes(3 * BLOCK as usize + 5, 4);
        fs::write(place.path().join("from"), &content).expect("written");
        let from = File::open(place.path().join("from")).expect("open");
        let to = file_at(&place.path().join("to"));
        let mut at = BLOCK;
        while let Some(copied) = copy_range(&from, &to, at, 5000) {
            at += copied as u64;
        }
        let is_left_small = Dir::open(place.path()).expect("open").copies_small_files();
        assert!(is_left_small || !place.path().starts_with("/dev/shm"));
        if at == BLOCK {
            assert!(!is_left_small, "{}: the kernel doesn't copy", place.path().display());
            continue;
        }
        assert_eq!(at, content.len() as u64);
        let copy = fs::read(place.path().join("to")).expect("read");
        assert!(copy[..BLOCK as usize].iter().all(|byte| *byte == 0));
        assert_eq!(copy[BLOCK as usize..], content[BLOCK as usize..]);
        assert_eq!(copy_range(&from, &to, 1 << 30, 10), None);
        any = true;
    }
    if !any {
        fixture::missing("a file system on which the kernel copies");
    }
}

#[test]
fn a_range_is_copied_between_file_systems_or_refused_without_a_trace() {
    let [here, there] = &places()[..] else {
        return fixture::missing("a second file system, /dev/shm");
    };
    let content = bytes(50_000, 5);
    fs::write(here.path().join("from"), &content).expect("written");
    let from = File::open(here.path().join("from")).expect("open");
    let to = file_at(&there.path().join("to"));
    match copy_range(&from, &to, 0, content.len()) {
        Some(copied) => {
            let copy = fs::read(there.path().join("to")).expect("read");
            assert_eq!(copy[..copied], content[..copied]);
        }
        None => assert_eq!(to.metadata().expect("there").len(), 0),
    }
}

#[test]
fn a_clone_is_the_whole_content_or_nothing() {
    for place in places() {
        let content = bytes(100_003, 6);
        fs::write(place.path().join("from"), &content).expect("written");
        let from = File::open(place.path().join("from")).expect("open");
        let to = file_at(&place.path().join("to"));
        let cloned = clone_file(&from, &to);
        let copy = fs::read(place.path().join("to")).expect("read");
        assert_eq!(copy, if cloned { content } else { Vec::new() });
    }
}

#[test]
fn a_file_system_that_can_share_content_does_so() {
    let Some(image) = Mount::image(FileSystem::Xfs, 300 << 20) else { return };
    let content = bytes(3_000_001, 8);
    fs::write(image.path().join("from"), &content).expect("written");
    let from = File::open(image.path().join("from")).expect("open");
    let to = file_at(&image.path().join("to"));
    assert!(clone_file(&from, &to));
    assert_eq!(fs::read(image.path().join("to")).expect("read"), content);
    // What is shared stays each one's own.
    to.write_all_at(b"changed", 0).expect("written");
    assert_eq!(fs::read(image.path().join("from")).expect("read"), content);
    // It would do so for small files, too, whose content may not be on the medium yet.
    assert!(!Dir::open(image.path()).expect("open").copies_small_files());
    // Another file system's file can't be shared, and is not touched.
    let elsewhere = tempfile::tempfile().expect("a temporary file");
    assert!(!clone_file(&from, &elsewhere));
    assert_eq!(elsewhere.metadata().expect("there").len(), 0);
}

/// Lengths of what is written by the tests of blocks that are missing.
const PARTS: [u64; 3] = [1 << 20, 3 * BLOCK, 1 << 20];

#[test]
fn blocks_that_were_never_written_are_missed_also_when_they_were_read() {
    use rustix::fs::{FallocateFlags, fallocate};
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let Some(image) = Mount::image(kind, 320 << 20) else { return };
        let path = image.join("file");
        let size = PARTS.iter().sum::<u64>() - 5;
        let lacks = || has_unwritten_blocks(&File::open(&path).expect("opened"), size);
        let [before, missing, _] = PARTS;
        for (at, len) in [(before, missing), (0, size), (0, before), (before + missing, before)] {
            let file = file_at(&path);
            file.write_all_at(&bytes(size as usize, 3), 0).expect("written");
            file.set_len(at).expect("cut");
            fallocate(&file, FallocateFlags::empty(), at, len.min(size - at)).expect("allocated");
            let end = at + len;
            if end < size {
                file.write_all_at(&bytes((size - end) as usize, 4), end).expect("written");
            }
            file.sync_all().expect("synced");
            assert!(lacks(), "{kind:?} {at}");
            fs::read(&path).expect("read");
            assert!(lacks(), "{kind:?} {at}, after it was read");
        }
    }
}

#[test]
fn what_was_just_written_misses_no_blocks() {
    use rustix::fs::{FallocateFlags, fallocate};
    for kind in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let Some(image) = Mount::image(kind, 320 << 20) else { return };
        let path = image.join("file");
        for (size, allocated) in [(1, 0), (3 << 20, 0), (3 << 20, 3 << 20), (5 << 20, 9 << 20)] {
            let file = file_at(&path);
            if allocated > 0 {
                let flags = FallocateFlags::KEEP_SIZE;
                fallocate(&file, flags, 0, allocated).expect("allocated");
            }
            file.write_all_at(&bytes(size as usize, 3), 0).expect("written");
            assert!(!has_unwritten_blocks(&file, size), "{kind:?} {size} {allocated}");
            file.sync_all().expect("synced");
            assert!(!has_unwritten_blocks(&file, size), "{kind:?} {size} {allocated}, durable");
        }
        // More extents than are asked for at once.
        let file = file_at(&path);
        let extents = 200;
        for extent in 0..extents {
            let at = extent * 2 * BLOCK;
            file.write_all_at(&[7; BLOCK as usize], at).expect("written");
            file.sync_data().expect("synced");
        }
        let size = (extents * 2 - 1) * BLOCK;
        assert!(has_unwritten_blocks(&file, size), "{kind:?}");
        for extent in 0..extents {
            file.write_all_at(&[7; BLOCK as usize], (extent * 2 + 1) * BLOCK).expect("written");
        }
        assert!(!has_unwritten_blocks(&file, size), "{kind:?}");
    }
}
