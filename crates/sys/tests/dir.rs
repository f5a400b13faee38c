//! Operations below a directory that is held open, and those that are refused:
//! no symbolic link is followed, nothing waits for a FIFO, and a publication
//! replaces only what it may.

use haul_model::{Attributes, Kept, Name, NewEntry, Timestamp};
use haul_sys::Dir;
use haul_testkit::{FileSystem, Mount, fixture};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How long a call that must not wait may take, with much to spare.
const AT_ONCE: Duration = Duration::from_secs(10);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a plain name")
}

fn open(path: &Path) -> Dir {
    Dir::open(path).expect("the directory opens")
}

/// A directory with a file, a directory, and links to both and to nothing.
fn furnished() -> (TempDir, Dir) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    fs::write(temp.path().join("file"), "content").expect("written");
    fs::create_dir_all(temp.path().join("dir/below")).expect("made");
    symlink("file", temp.path().join("to-file")).expect("linked");
    symlink("dir", temp.path().join("to-dir")).expect("linked");
    symlink("nowhere", temp.path().join("to-nothing")).expect("linked");
    let dir = open(temp.path());
    (temp, dir)
}

#[test]
#[cfg(target_os = "linux")]
fn files_are_read_and_keep_the_times_of_their_last_reading() {
    let (_temp, dir) = furnished();
    let is_kept = |dir: &Dir| {
        let (file, _) = dir.open_file(&name("file"), false).expect("opened");
        rustix::fs::fcntl_getfl(file).expect("flags").contains(rustix::fs::OFlags::NOATIME)
    };
    assert!(!is_kept(&dir));
    let dir = dir.keeping_atimes();
    assert!(is_kept(&dir));
    assert!(is_kept(&dir.try_clone().expect("a second handle")));
    let below = dir.open_dir(&name("dir")).expect("opened");
    assert!(is_kept(&below.open_parent().expect("opened")));
}

#[test]
fn a_symbolic_link_is_never_opened_as_what_it_leads_to() {
    let (_temp, dir) = furnished();
    for link in ["to-file", "to-dir", "to-nothing"] {
        assert!(dir.open_dir(&name(link)).is_err(), "{link}");
        assert!(dir.open_file(&name(link), false).is_err(), "{link}");
        assert!(dir.stat(&name(link)).expect("a link").is_symlink(), "{link}");
    }
    assert!(dir.open_dir(&name("dir")).is_ok());
    assert!(dir.open_file(&name("file"), false).is_ok());
}

#[test]
fn a_symbolic_link_is_followed_where_that_was_asked_for() {
    let (_temp, dir) = furnished();
    assert!(dir.open_dir_following(&name("to-dir")).is_ok());
    let (mut file, stat) = dir.open_file(&name("to-file"), true).expect("it leads to a file");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!((text.as_str(), stat.size), ("content", 7));
    assert!(dir.stat_following(&name("to-dir")).expect("there").is_dir());
    let missing = dir.stat_following(&name("to-nothing")).expect_err("it leads to nothing");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(dir.read_link(&name("to-nothing")).expect("a link"), b"nowhere");
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let (temp, dir) = furnished();
    mknodat(CWD, temp.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .expect("a FIFO");
    let (done, answer) = mpsc::channel();
    thread::spawn(move || {
        let kinds = [("fifo", false), ("fifo", true), ("dir", false)]
            .map(|(it, follow)| dir.open_file(&name(it), follow).map(|_| ()).map_err(|e| e.kind()));
        let _ = done.send(kinds);
    });
    let kinds = answer.recv_timeout(AT_ONCE).expect("no call waits for a writer");
    assert_eq!(
        kinds,
        [Err(ErrorKind::InvalidInput), Err(ErrorKind::InvalidInput), Err(ErrorKind::IsADirectory)]
    );
}

#[test]
fn entries_come_in_the_order_of_their_bytes_without_the_dots() {
    let (temp, dir) = furnished();
    fs::write(temp.path().join("\u{fc}"), "").expect("written");
    fs::write(temp.path().join("Z"), "").expect("written");
    let entries = dir.entries().expect("read");
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_bytes()).collect();
    let expected: [&[u8]; 7] =
        [b"Z", b"dir", b"file", b"to-dir", b"to-file", b"to-nothing", b"\xc3\xbc"];
    assert_eq!(names, expected);
    let dirs: Vec<_> = entries.iter().filter(|entry| entry.is_dir == Some(true)).collect();
    assert!(dirs.iter().all(|entry| entry.name == name("dir")), "{dirs:?}");
}

#[test]
fn a_file_without_a_name_gets_a_free_one_and_takes_no_other() {
    let (temp, dir) = furnished();
    let Some(mut file) = dir.create_unnamed() else {
        return fixture::missing("a file system with files that have no name");
    };
    file.write_all(b"new").expect("written");
    for taken in ["file", "dir", "to-file", "to-dir", "to-nothing"] {
        let refused = dir.link_unnamed(&file, taken.as_bytes()).expect_err(taken);
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{taken}");
    }
    dir.link_unnamed(&file, b"new").expect("the name is free");
    assert_eq!(fs::read(temp.path().join("new")).expect("read"), b"new");
    assert_eq!(fs::read(temp.path().join("file")).expect("read"), b"content");
    assert!(!temp.path().join("nowhere").exists(), "it was not made through a link");
}

#[test]
fn a_file_without_a_name_leaves_nothing() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = open(temp.path());
    if let Some(mut file) = dir.create_unnamed() {
        file.write_all(&[1; 100_000]).expect("written");
        let mode = file.metadata().expect("there").mode();
        assert_eq!(mode & 0o7777, 0o600, "nobody else may look in");
    }
    assert_eq!(fs::read_dir(temp.path()).expect("read").count(), 0);
}

#[test]
fn a_private_file_is_new_and_nobody_elses() {
    let (temp, dir) = furnished();
    symlink("elsewhere", temp.path().join(".planted")).expect("linked");
    for taken in ["file", ".planted"] {
        let refused = dir.create_private(taken).expect_err("the name is taken");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    }
    assert!(!temp.path().join("elsewhere").exists(), "it was not made through a link");
    let file = dir.create_private(".private").expect("the name is free");
    assert_eq!(file.metadata().expect("there").mode() & 0o7777, 0o600);
    dir.remove_private(".private").expect("removed");
    assert!(!temp.path().join(".private").exists());
}

#[test]
fn publishing_replaces_a_file_or_a_link_itself_but_no_directory() {
    let (temp, dir) = furnished();
    let put = |target: &str| {
        fs::write(temp.path().join(".private"), "new").expect("written");
        dir.publish_replacing(".private", &name(target))
    };
    put("file").expect("a file is replaced");
    put("to-dir").expect("a link is replaced, not followed");
    assert!(put("dir").is_err());
    assert_eq!(fs::read(temp.path().join("file")).expect("read"), b"new");
    assert!(fs::symlink_metadata(temp.path().join("to-dir")).expect("there").is_file());
    assert!(temp.path().join("dir/below").is_dir());
    assert_eq!(fs::read_dir(temp.path().join("dir")).expect("read").count(), 1);
}

#[test]
fn publishing_under_a_new_name_replaces_nothing() {
    let (temp, dir) = furnished();
    fs::write(temp.path().join(".private"), "new").expect("written");
    for taken in ["file", "dir", "to-file", "to-nothing"] {
        let refused = dir.publish_new(".private", &name(taken)).expect_err("taken");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{taken}");
    }
    dir.publish_new(".private", &name("fresh")).expect("the name is free");
    assert_eq!(fs::read(temp.path().join("fresh")).expect("read"), b"new");
    assert!(!temp.path().join(".private").exists());
}

#[test]
fn a_link_gets_its_own_time_and_not_that_of_what_it_leads_to() {
    let (temp, dir) = furnished();
    let before = fs::metadata(temp.path().join("file")).expect("there").modified().expect("told");
    let time = Timestamp { secs: -5, nanos: 7 };
    let make = |target, temp| {
        let attributes = Attributes::new(0o777, time);
        dir.make_entry(NewEntry::Symlink(target), temp, &attributes, Kept::TIMES)
    };
    make(b"file", "fresh").expect("made");
    assert_eq!(dir.stat(&name("fresh")).expect("there").mtime, time);
    let after = fs::metadata(temp.path().join("file")).expect("there").modified().expect("told");
    assert_eq!(before, after);
    let taken = make(b"x", "file").expect_err("taken");
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn metadata_is_set_on_the_object_that_is_open() {
    let (temp, dir) = furnished();
    let (file, _) = dir.open_file(&name("file"), false).expect("a file");
    // The name now leads elsewhere; the handle does not.
    fs::rename(temp.path().join("file"), temp.path().join("moved")).expect("renamed");
    symlink("dir", temp.path().join("file")).expect("linked");
    let time = Timestamp { secs: 1_000_000_000, nanos: 999_999_999 };
    haul_sys::set_mode(&file, 0o640).expect("set");
    haul_sys::set_mtime(&file, time).expect("set");
    let moved = dir.stat(&name("moved")).expect("there");
    assert_eq!((moved.mode, moved.mtime), (0o640, time));
    let other = fs::metadata(temp.path().join("dir")).expect("there").permissions().mode();
    assert_ne!(other & 0o7777, 0o640);
    assert_eq!(haul_sys::file_stat(&file).expect("told"), moved);
}

#[test]
fn a_path_that_the_operator_named_is_looked_at_with_and_without_following() {
    let (temp, _dir) = furnished();
    let path = temp.path().join("to-dir");
    let bytes = path.as_os_str().as_encoded_bytes();
    assert!(haul_sys::path_stat(bytes, false).expect("there").is_symlink());
    assert!(haul_sys::path_stat(bytes, true).expect("there").is_dir());
    assert_eq!(haul_sys::path_link(bytes).expect("a link"), b"dir");
}

/// One that folds case is deprecated, and few kernels mount it.
#[test]
fn an_xfs_reports_that_it_keeps_names_apart() {
    let Some(mount) = Mount::image(FileSystem::Xfs, 300 << 20) else { return };
    assert!(open(mount.path()).has_distinct_names());
}
