//! Operations on paths.

use crate::servers::{Bench, REPLACE, odd, openssh, with_each};
use haul_sftp::{Attrs, Cause, Existing, Extension, FileType, OpenFlags, StatusCode, Times};
use haul_testkit::{Oddities, nasty};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

#[test]
fn files_and_directories_come_and_go() {
    with_each(|bench| {
        let client = bench.client();
        client.make_dir(&bench.path("d"), 0o700).unwrap();
        assert!(bench.local("d").is_dir());
        fs::write(bench.local("d/a"), "abc").unwrap();
        client.name_file(&bench.path("d/a"), &bench.path("d/b"), &Existing::Keep).unwrap();
        let attrs = client.stat(&bench.path("d/b")).unwrap();
        assert_eq!((attrs.size, attrs.file_type()), (Some(3), Some(FileType::File)));
        let missing = client.stat(&bench.path("d/a")).unwrap_err();
        assert_eq!(missing.status(), Some(StatusCode::NoSuchFile));
        assert!(client.remove_dir(&bench.path("d")).is_err(), "it is not empty");
        client.remove_file(&bench.path("d/b")).unwrap();
        client.remove_dir(&bench.path("d")).unwrap();
        assert!(!bench.local("d").exists());
    });
}

#[test]
fn a_name_that_is_taken_is_replaced_only_where_that_is_asked_for() {
    with_each(|bench| {
        let client = bench.client();
        fs::write(bench.local("old"), "old").unwrap();
        fs::write(bench.local("new"), "new").unwrap();
        let (new, old) = (bench.path("new"), bench.path("old"));
        let taken = client.name_file(&new, &old, &Existing::Keep).unwrap_err();
        assert!(matches!(taken.cause, Cause::NameExists), "{taken}");
        assert_eq!(fs::read(bench.local("old")).unwrap(), b"old");
        client.name_file(&new, &old, &REPLACE).unwrap();
        assert_eq!(fs::read(bench.local("old")).unwrap(), b"new");
        assert!(!bench.local("new").exists());
    });
}

#[test]
fn links_point_where_they_were_reported_to() {
    with_each(|bench| {
        let client = bench.client();
        client.make_symlink(b"some/where", &bench.path("link")).unwrap();
        assert_eq!(fs::read_link(bench.local("link")).unwrap(), Path::new("some/where"));
        assert_eq!(&*client.read_link(&bench.path("link")).unwrap(), b"some/where");
        let attrs = client.lstat(&bench.path("link")).unwrap();
        assert_eq!(attrs.file_type(), Some(FileType::Symlink));
        let dangling = client.stat(&bench.path("link")).unwrap_err();
        assert_eq!(dangling.status(), Some(StatusCode::NoSuchFile));
        assert!(client.make_symlink(b"x", &bench.path("link")).is_err(), "the name is taken");
    });
}

#[test]
fn a_listing_has_every_entry_once() {
    with_each(|bench| {
        assert!(bench.client().list(&bench.path("")).unwrap().is_empty());
        let mut names: Vec<Vec<u8>> = nasty::NAMES.iter().map(|name| name.to_vec()).collect();
        names.extend((0..120).map(|n| format!("plain {n}").into_bytes()));
        for name in &names {
            fs::write(bench.dir.path().join(OsStr::from_bytes(name)), name).unwrap();
        }
        symlink("nowhere", bench.local("a link")).unwrap();
        let listed = bench.client().list(&bench.path("")).unwrap();
        assert_eq!(listed.len(), names.len() + 1);
        for entry in &listed {
            let name = entry.name.as_bytes();
            if name == b"a link" {
                assert_eq!(entry.attrs.file_type(), Some(FileType::Symlink));
            } else {
                assert!(names.iter().any(|known| known == name), "{:?}", entry.name);
                assert_eq!(entry.attrs.size, Some(name.len() as u64));
                let path = [&bench.path("")[..], name].concat();
                assert_eq!(bench.client().lstat(&path).unwrap().size, entry.attrs.size);
            }
        }
        let missing = bench.client().list(&bench.path("none")).unwrap_err();
        assert_eq!(missing.status(), Some(StatusCode::NoSuchFile));
    });
}

#[test]
fn modes_and_times_are_set() {
    with_each(|bench| {
        fs::write(bench.local("a"), "abc").unwrap();
        let times = Times { accessed: 1_000_000_000, modified: 4_000_000_000 };
        let attrs = Attrs { mode: Some(0o640), times: Some(times), ..Attrs::default() };
        bench.client().set_attrs(&bench.path("a"), attrs).unwrap();
        let meta = fs::metadata(bench.local("a")).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, 4_000_000_000));
        let seen = bench.client().stat(&bench.path("a")).unwrap();
        assert_eq!((seen.times, seen.mode), (Some(times), Some(0o100_640)));
        let cut = Attrs { size: Some(1), ..Attrs::default() };
        bench.client().set_attrs(&bench.path("a"), cut).unwrap();
        assert_eq!(fs::read(bench.local("a")).unwrap(), b"a");
    });
}

#[test]
fn paths_are_resolved() {
    with_each(|bench| {
        fs::create_dir(bench.local("d")).unwrap();
        symlink("d", bench.local("link")).unwrap();
        let real = bench.client().real_path(&bench.path("link/.")).unwrap();
        let expected = bench.local("d").canonicalize().unwrap();
        assert_eq!(&*real, expected.as_os_str().as_bytes());
    });
}

#[test]
fn openssh_has_the_extensions() {
    let bench = openssh();
    let client = bench.client();
    for (extension, ..) in Extension::ALL {
        assert!(client.has(extension), "{extension:?}");
    }
    assert!(client.limits().read_len >= 1 << 15 && client.read_len() > 200_000);

    let stats = client.fs_stats(&bench.path("")).unwrap();
    // Nothing else may be on it.
    assert!(stats.blocks >= stats.blocks_available && stats.block_len > 0, "{stats:?}");
    assert!(!stats.read_only && stats.name_len_max >= 255, "{stats:?}");

    fs::write(bench.local("a"), "abc").unwrap();
    client.make_symlink(b"a", &bench.path("link")).unwrap();
    let times = Some(Times { accessed: 5, modified: 6 });
    let attrs = Attrs { times, ..Attrs::default() };
    client.set_link_attrs(&bench.path("link"), attrs).unwrap();
    assert_eq!(fs::symlink_metadata(bench.local("link")).unwrap().mtime(), 6);
    assert_ne!(fs::metadata(bench.local("link")).unwrap().mtime(), 6);
}

#[test]
fn what_the_server_does_not_announce_is_not_asked() {
    let bench = odd("bare", Oddities { extensions: Vec::new(), ..Oddities::default() });
    let asks: [fn(&Bench) -> haul_sftp::SftpError; 2] = [
        |b| b.client().fs_stats(&b.path("")).unwrap_err(),
        |b| b.client().set_link_attrs(&b.path(""), Attrs::default()).unwrap_err(),
    ];
    for ask in asks {
        let error = ask(&bench);
        assert!(matches!(error.cause, Cause::Missing(_)), "{error}");
        assert_eq!(error.io_kind(), std::io::ErrorKind::Unsupported);
    }
    assert_eq!(bench.odd_server().requests(), 0);
    assert_eq!(bench.client().read_len(), 32 << 10);
}

#[test]
fn paths_that_cannot_be_sent_are_refused_here() {
    let bench = odd("plain", Oddities::default());
    let long = vec![b'x'; 17 << 10];
    for bad in [&b"a\0b"[..], &long] {
        let client = bench.client();
        let errors = [
            client.stat(bad).unwrap_err(),
            client.name_file(b"x", bad, &Existing::Keep).unwrap_err(),
            client.make_symlink(bad, b"x").unwrap_err(),
            client.open(bad, OpenFlags::Read, None).err().unwrap(),
        ];
        for error in errors {
            assert!(matches!(error.cause, Cause::Path(_)), "{error}");
            assert!(!error.to_string().contains('\0'));
        }
    }
    assert_eq!(bench.odd_server().requests(), 0);
}
