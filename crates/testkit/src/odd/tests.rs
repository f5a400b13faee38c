//! The odd file system itself: it is odd as it was asked to be, and else is not.

use super::*;
use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::SystemTime;

const TIME: Duration = Duration::from_nanos(1_000_000_001_987_654_321);

fn modified(path: &Path) -> Duration {
    let time = fs::metadata(path).expect("there").modified().expect("a time");
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970")
}

fn set_modified(path: &Path) {
    let file = File::open(path).expect("opened");
    file.set_modified(SystemTime::UNIX_EPOCH + TIME).expect("it says that it worked");
}

fn names(mount: &OddMount) -> Vec<String> {
    let entries = fs::read_dir(mount.path()).expect("read");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("read"))).collect();
    names.sort();
    names
}

#[test]
fn without_quirks_it_is_an_ordinary_file_system() {
    let Some(mount) = OddMount::new(Quirks::default()) else { return };
    fs::create_dir(mount.join("dir")).expect("made");
    fs::write(mount.join("dir/file"), "content").expect("written");
    fs::set_permissions(mount.join("dir/file"), fs::Permissions::from_mode(0o640)).expect("set");
    set_modified(&mount.join("dir/file"));
    fs::rename(mount.join("dir"), mount.join("other")).expect("renamed");
    symlink("other/file", mount.join("link")).expect("made");
    fs::hard_link(mount.join("other/file"), mount.join("hard")).expect("made");
    let stat = fs::metadata(mount.join("link")).expect("there");
    assert_eq!((stat.mode() & 0o7777, stat.nlink(), stat.len()), (0o640, 2, 7));
    assert_eq!(modified(&mount.join("hard")), TIME);
    assert_eq!(fs::read(mount.join("link")).expect("read"), b"content");
    assert_eq!(names(&mount), ["hard", "link", "other"]);
    fs::remove_dir_all(mount.join("other")).expect("removed");
    assert_eq!(names(&mount), ["hard", "link"]);
    let mut all = String::new();
    File::open(mount.join("hard")).expect("opened").read_to_string(&mut all).expect("read");
    assert_eq!(all, "content");
}

#[test]
fn what_is_closed_is_lost() {
    let quirks = Quirks { at_close: Some(Errno::DQUOT), ..Quirks::default() };
    let Some(mount) = OddMount::new(quirks) else { return };
    let mut file = File::create(mount.join("file")).expect("created");
    file.write_all(b"content").expect("written");
    drop(file.try_clone().expect("a second handle"));
    assert_eq!(fs::metadata(mount.join("file")).expect("there").len(), 0);
}

#[test]
fn times_are_coarse_or_not_taken() {
    for (times, unit, kept) in [
        (Times::Kept, 1, Some(TIME)),
        (Times::Kept, 100, Some(Duration::from_nanos(1_000_000_001_987_654_300))),
        (Times::Kept, 2_000_000_000, Some(Duration::from_secs(1_000_000_000))),
        (Times::OnlyBoth, 1, None),
        (Times::Never, 1, None),
    ] {
        let quirks = Quirks { times, time_unit: Duration::from_nanos(unit), ..Quirks::default() };
        let Some(mount) = OddMount::new(quirks) else { return };
        let path = mount.join("file");
        fs::write(&path, "").expect("written");
        let before = modified(&path);
        set_modified(&path);
        assert_eq!(modified(&path), kept.unwrap_or(before), "{times:?} {unit}");
        let time = SystemTime::UNIX_EPOCH + TIME;
        let both = FileTimes::new().set_accessed(time).set_modified(time);
        File::open(&path).expect("opened").set_times(both).expect("it says that it worked");
        let kept = if times == Times::OnlyBoth { Some(TIME) } else { kept };
        assert_eq!(modified(&path), kept.unwrap_or(before), "{times:?} {unit}");
    }
}

#[test]
fn names_are_one_and_the_first_spelling_shows() {
    for (kind, first, second) in
        [(Names::FoldCase, "README", "readme"), (Names::Compose, "caf\u{e9}", "cafe\u{301}")]
    {
        let Some(mount) = OddMount::new(Quirks { names: kind, ..Quirks::default() }) else {
            return;
        };
        fs::write(mount.join(first), "one").expect("written");
        assert_eq!(fs::read(mount.join(second)).expect("read"), b"one");
        fs::write(mount.join("other"), "two").expect("written");
        fs::rename(mount.join("other"), mount.join(second)).expect("renamed");
        assert_eq!(fs::read(mount.join(first)).expect("read"), b"two");
        assert_eq!(names(&mount), [first]);
        fs::remove_file(mount.join(second)).expect("removed");
        assert_eq!(names(&mount), [""; 0]);
    }
}

#[test]
fn fast_ways_are_refused() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let refused = Some(Errno::IO);
    let quirks = Quirks { rename_new: refused, link: refused, holes: refused, ..Quirks::default() };
    let Some(mount) = OddMount::new(quirks) else { return };
    let (file, other) = (mount.join("file"), mount.join("other"));
    fs::write(&file, "content").expect("written");
    let renamed = renameat_with(CWD, &file, CWD, &other, RenameFlags::NOREPLACE);
    assert_eq!(renamed, Err(Errno::IO));
    assert!(fs::hard_link(&file, &other).is_err());
    let opened = File::open(&file).expect("opened");
    assert!(rustix::fs::seek(&opened, rustix::fs::SeekFrom::Data(0)).is_err());
    fs::rename(&file, &other).expect("the plain way works");
    assert_eq!(names(&mount), ["other"]);
}
