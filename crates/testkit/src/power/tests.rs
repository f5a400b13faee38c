//! The disk itself: what it keeps, and what it forgets.

use super::*;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Cuts, loses, and mounts again.
fn after_cut(disk: &Disk, mount: Powered, loss: Loss, seed: u64) -> Powered {
    disk.cut();
    drop(mount);
    disk.lose(loss, seed);
    disk.mount().expect("it was mounted before")
}

fn sync_dir(mount: &Powered) {
    File::open(mount.path()).expect("opened").sync_all().expect("synced");
}

/// An empty disk, mounted; None where that is not allowed.
#[track_caller]
fn mounted(names: Names) -> Option<(Disk, Powered)> {
    let disk = Disk::new(names);
    let mount = disk.mount()?;
    Some((disk, mount))
}

#[test]
fn a_file_that_was_synced_stays_and_what_came_later_is_forgotten() {
    let Some((disk, mount)) = mounted(Names::Posix) else { return };
    let file = File::create(mount.join("file")).expect("created");
    file.write_all_at(b"durable", 0).expect("written");
    file.sync_data().expect("synced");
    sync_dir(&mount);
    file.write_all_at(b"later", 0).expect("written");
    fs::write(mount.join("other"), "other").expect("written");
    assert_eq!(fs::read(mount.join("file")).expect("read"), b"laterle");
    drop(file);
    let mount = after_cut(&disk, mount, Loss::Everything, 0);
    assert_eq!(fs::read(mount.join("file")).expect("read"), b"durable");
    assert_eq!(fs::read_dir(mount.path()).expect("read").count(), 1);
}

#[test]
fn a_name_is_durable_with_its_directory_or_with_the_journal() {
    for (names, left) in [(Names::Posix, 0), (Names::Journaled, 1)] {
        let Some((disk, mount)) = mounted(names) else { return };
        let file = File::create(mount.join("file")).expect("created");
        file.sync_all().expect("synced");
        drop(file);
        fs::rename(mount.join("file"), mount.join("later")).expect("renamed");
        let mount = after_cut(&disk, mount, Loss::Everything, 0);
        assert_eq!(fs::read_dir(mount.path()).expect("read").count(), left, "{names:?}");
        assert_eq!(mount.join("file").exists(), left == 1);
    }
}

#[test]
fn metadata_needs_more_than_fdatasync() {
    for (whole, mode) in [(false, 0o644), (true, 0o600)] {
        let Some((disk, mount)) = mounted(Names::Posix) else { return };
        let path = mount.join("file");
        fs::write(&path, "content").expect("written");
        let file = File::open(&path).expect("opened");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        file.sync_all().expect("synced");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        if whole { file.sync_all() } else { file.sync_data() }.expect("synced");
        sync_dir(&mount);
        drop(file);
        let mount = after_cut(&disk, mount, Loss::Everything, 0);
        let meta = fs::metadata(mount.join("file")).expect("there");
        assert_eq!(meta.permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_part_of_what_was_not_synced_survives_and_a_seed_repeats_it() {
    const LEN: usize = 1 << 20;
    // By the model alone: how the kernel cuts up a write differs between runs.
    let survived = |loss, seed| {
        let disk = Disk::new(Names::Journaled);
        let meta = disk.state().node(disk::ROOT).expect("there").meta;
        let body = disk::Body::File(disk::FileBody::default());
        let name = std::ffi::OsStr::new("file");
        let ino = disk.state().create(disk::ROOT, name, meta, body).expect("created");
        disk.sync_all();
        disk.state().write(ino, 0, &[1; LEN]).expect("written");
        disk.cut();
        disk.lose(loss, seed);
        let state = disk.state();
        let disk::Body::File(body) = &state.node(ino).expect("there").body else { panic!() };
        body.now.clone()
    };
    let ones = |content: Vec<u8>| content.iter().filter(|byte| **byte == 1).count();
    let some: Vec<usize> = (0..30).map(|seed| ones(survived(Loss::Some, seed))).collect();
    assert!(some.iter().any(|ones| (1..LEN).contains(ones)), "{some:?}");
    assert!(some.iter().all(|ones| ones % 4096 == 0), "{some:?}");
    let torn: Vec<usize> = (0..30).map(|seed| ones(survived(Loss::Torn, seed))).collect();
    assert!(torn.iter().any(|ones| ones % 4096 != 0), "{torn:?}");
    assert_eq!(survived(Loss::Everything, 1).len(), 0);
    for seed in 0..30 {
        assert!(survived(Loss::Some, seed) == survived(Loss::Some, seed), "seed {seed}");
    }
}

#[test]
fn the_power_goes_off_when_it_was_planned_and_nothing_works_then() {
    let Some((disk, mount)) = mounted(Names::Posix) else { return };
    let file = File::create(mount.join("file")).expect("created");
    disk.cut_after(2);
    file.write_all_at(b"one", 0).expect("written");
    file.sync_all().expect("synced");
    let refused = file.write_all_at(b"two", 0).expect_err("it is off");
    assert_eq!(refused.raw_os_error(), Some(5), "{refused}");
    assert!(disk.is_off());
    assert!(file.sync_all().is_err() && fs::read_dir(mount.path()).is_err());
}

#[test]
fn a_sync_that_failed_is_reported_once_and_its_data_is_lost() {
    let Some((disk, mount)) = mounted(Names::Journaled) else { return };
    let file = File::create(mount.join("file")).expect("created");
    file.write_all_at(b"lost", 0).expect("written");
    disk.fail_sync(1);
    assert_eq!(file.sync_data().expect_err("it fails").raw_os_error(), Some(5));
    file.sync_data().expect("once");
    assert_eq!(disk.syncs(), 2);
    assert_eq!(fs::read(mount.join("file")).expect("read"), b"lost", "the cache still has it");
    drop(file);
    let mount = after_cut(&disk, mount, Loss::Everything, 0);
    assert_eq!(fs::read(mount.join("file")).expect("read"), b"");
}

#[test]
fn it_is_an_ordinary_file_system_otherwise() {
    let Some((disk, mount)) = mounted(Names::Posix) else { return };
    fs::create_dir(mount.join("dir")).expect("made");
    fs::write(mount.join("dir/a"), "a").expect("written");
    fs::write(mount.join("dir/b"), "b").expect("written");
    let exists = fs::File::create_new(mount.join("dir/a")).expect_err("it is there");
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    fs::rename(mount.join("dir/a"), mount.join("dir/b")).expect("renamed");
    assert_eq!(fs::read(mount.join("dir/b")).expect("read"), b"a");
    let other = fs::rename(mount.join("dir/b"), mount.join("b")).expect_err("another directory");
    assert_eq!(other.kind(), ErrorKind::CrossesDevices);
    std::os::unix::fs::symlink("dir/b", mount.join("link")).expect("linked");
    assert_eq!(fs::read(mount.join("link")).expect("read"), b"a");
    let full = fs::remove_dir(mount.join("dir")).expect_err("it is not empty");
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_file(mount.join("dir/b")).expect("removed");
    fs::remove_dir(mount.join("dir")).expect("removed");
    disk.sync_all();
    let mount = after_cut(&disk, mount, Loss::Everything, 0);
    let names: Vec<_> = fs::read_dir(mount.path()).expect("read").collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn who_had_it_mounted_before_it_was_lost_reaches_it_no_more() {
    let Some((disk, mount)) = mounted(Names::Posix) else { return };
    let file = File::create(mount.join("file")).expect("created");
    file.sync_all().expect("synced");
    sync_dir(&mount);
    let mount = after_cut(&disk, mount, Loss::Everything, 0);
    assert!(file.write_all_at(b"late", 0).is_err() && file.set_len(1).is_err());
    assert!(file.sync_all().is_err());
    assert_eq!(fs::read(mount.join("file")).expect("read"), b"");
}
