//! Requests that have to work with any real server, against two that share no code:
//! OpenSSH's and rclone's. Where the second differs, that is said here.

use crate::servers::{REPLACE, rclone, with_real};
use crate::small::put;
use haul_sftp::{
    Attrs, Cause, Existing, Extension, FileType, Get, Gets, Lister, OpenFlags, Put, Puts,
    StatusCode, Times,
};
use haul_testkit::content;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

const TIMES: Times = Times { accessed: 1_600_000_000, modified: 1_600_000_001 };

#[test]
fn directories_are_made_listed_set_and_removed() {
    with_real(|bench| {
        let client = bench.client();
        client.make_dir(&bench.path("d"), 0o700).unwrap();
        for n in 0..250 {
            fs::write(bench.local(&format!("d/f{n}")), "x").unwrap();
        }
        client.make_dir_later(&bench.path("d/sub"), 0o700).wait().unwrap();
        let lister = Lister::new(client, 4);
        lister.ahead([bench.path("d"), bench.path("d/sub"), bench.path("none")]);
        let mut entries = lister.list(&bench.path("d")).unwrap();
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        assert_eq!(entries.len(), 251);
        for entry in &entries[..250] {
            assert_eq!(
                (entry.attrs.size, entry.attrs.file_type()),
                (Some(1), Some(FileType::File))
            );
            assert!(entry.attrs.times.is_some());
        }
        assert_eq!(entries[250].name.as_bytes(), b"sub");
        assert_eq!(entries[250].attrs.file_type(), Some(FileType::Dir));
        assert!(lister.list(&bench.path("d/sub")).unwrap().is_empty());
        let error = lister.list(&bench.path("none")).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
        assert!(client.list(&bench.path("d/f1")).is_err());

        let attrs = Attrs { mode: Some(0o750), times: Some(TIMES), ..Attrs::default() };
        client.set_attrs_later(&bench.path("d/sub"), attrs).wait().unwrap();
        let meta = fs::metadata(bench.local("d/sub")).unwrap();
        // rclone says that it works, and keeps neither modes nor directories' times.
        let (mode, is_set) = if bench.is_openssh() { (0o750, true) } else { (0o755, false) };
        assert_eq!(meta.mode() & 0o7777, mode);
        assert_eq!(meta.mtime() == i64::from(TIMES.modified), is_set);

        assert!(client.remove_dir(&bench.path("d")).is_err());
        client.remove_dir(&bench.path("d/sub")).unwrap();
        assert!(!bench.local("d/sub").exists());
        let error = client.make_dir(&bench.path("none/x"), 0o700).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
    });
}

#[test]
fn files_are_looked_at_read_renamed_and_removed() {
    with_real(|bench| {
        let client = bench.client();
        let bytes = content::bytes(700_007, 1);
        fs::write(bench.local("a"), &bytes).unwrap();
        for attrs in [client.stat(&bench.path("a")), client.lstat(&bench.path("a"))] {
            assert_eq!(attrs.unwrap().size, Some(700_007));
        }
        let file = client.open(&bench.path("a"), OpenFlags::Read, None).unwrap();
        let mut buf = vec![0; 800_000];
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), bytes.len());
        assert!(buf[..bytes.len()] == bytes);
        file.close().unwrap();
        let mut gets = Gets::new(client);
        gets.push(Get { key: 1, path: bench.path("a"), len: 700_007 });
        let got = gets.next_done().unwrap().1.unwrap();
        assert!(got.content == bytes && got.before == got.after);

        let attrs = Attrs { times: Some(TIMES), ..Attrs::default() };
        client.set_attrs(&bench.path("a"), attrs).unwrap();
        assert_eq!(fs::metadata(bench.local("a")).unwrap().mtime(), i64::from(TIMES.modified));

        client.name_file(&bench.path("a"), &bench.path("b"), &Existing::Keep).unwrap();
        assert!(!bench.local("a").exists() && fs::read(bench.local("b")).unwrap() == bytes);
        fs::write(bench.local("c"), "old").unwrap();
        client.name_file(&bench.path("b"), &bench.path("c"), &REPLACE).unwrap();
        assert!(!bench.local("b").exists() && fs::read(bench.local("c")).unwrap() == bytes);
        let error =
            client.name_file(&bench.path("none"), &bench.path("d"), &Existing::Keep).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));

        client.remove_file(&bench.path("c")).unwrap();
        assert!(!bench.local("c").exists());
        for error in [
            client.remove_file(&bench.path("c")).unwrap_err(),
            client.stat(&bench.path("c")).unwrap_err(),
            client.lstat(&bench.path("c")).unwrap_err(),
            client.open(&bench.path("c"), OpenFlags::Read, None).err().unwrap(),
        ] {
            assert_eq!(error.status(), Some(StatusCode::NoSuchFile), "{error}");
        }
    });
}

#[test]
fn large_files_are_written_in_order() {
    with_real(|bench| {
        let bytes = content::bytes(3_000_001, 2);
        let path = bench.path("large");
        let file = bench.client().open(&path, OpenFlags::CreateNew, Some(0o600)).unwrap();
        let mut writer = file.writer();
        for (n, piece) in bytes.chunks(100_000).enumerate() {
            writer.write_at(piece, n as u64 * 100_000).unwrap();
        }
        writer.drain().unwrap();
        file.set_attrs(Attrs { times: Some(TIMES), ..Attrs::default() }).unwrap();
        assert_eq!(file.attrs().unwrap().size, Some(3_000_001));
        file.close().unwrap();
        bench.client().name_file(&path, &bench.path("named"), &Existing::Keep).unwrap();
        let found = bench.client().open(&bench.path("named"), OpenFlags::Read, None).unwrap();
        let mut buf = vec![0; bytes.len()];
        assert_eq!(found.read_at(&mut buf, 0).unwrap(), bytes.len());
        assert!(buf == bytes);
    });
}

#[test]
fn small_files_are_put() {
    with_real(|bench| {
        let client = bench.client();
        fs::write(bench.local("file-0"), "old").unwrap();
        fs::write(bench.local("file-1"), "old").unwrap();
        let mut puts = Puts::new(client);
        let bytes = |key: u64| content::bytes(key as usize * 10_001, key);
        for key in 0..40 {
            let file = put(bench, key, bytes(key));
            let existing = if key % 2 == 0 { file.existing.clone() } else { Existing::Keep };
            puts.push(Put { existing, verify: key % 3 == 0, ..file });
        }
        while let Some((key, result)) = puts.next_done() {
            match result {
                Err(error) if key == 1 => {
                    assert!(matches!(error.cause, Cause::NameExists), "{error}")
                }
                result => drop(result.unwrap_or_else(|error| panic!("{key}: {error}"))),
            }
        }
        for key in (0..40).filter(|key| *key != 1) {
            let path = bench.path(&format!("file-{key}"));
            let attrs = client.stat(&path).unwrap();
            let modified = attrs.times.map(|times| times.modified);
            assert_eq!(modified, Some(1_700_000_000 + key as u32), "{key}");
            let file = client.open(&path, OpenFlags::Read, None).unwrap();
            let mut buf = vec![0; 500_000];
            let len = file.read_at(&mut buf, 0).unwrap();
            assert!(buf[..len] == bytes(key), "{key}");
        }
        assert_eq!(fs::read(bench.local("file-1")).unwrap(), b"old");
        assert_eq!(client.list(&bench.path("")).unwrap().len(), 40);
    });
}

#[test]
fn what_cannot_be_made_is_reported() {
    with_real(|bench| {
        let mut puts = Puts::new(bench.client());
        let nowhere = put(bench, 1, vec![7]);
        puts.push(Put { stage: bench.path("none/s"), path: bench.path("none/x"), ..nowhere });
        fs::create_dir(bench.local("file-2")).unwrap();
        puts.push(put(bench, 2, vec![7]));
        while let Some((_, result)) = puts.next_done() {
            result.unwrap_err();
        }
        // The directory was not removed for a file.
        let names: Vec<_> = fs::read_dir(bench.dir.path()).unwrap().collect();
        assert!(names.len() == 1 && bench.local("file-2").is_dir(), "{names:?}");
    });
}

#[test]
fn names_are_bytes_where_the_server_lets_them_be() {
    with_real(|bench| {
        let client = bench.client();
        let names: [&[u8]; 5] = [b" a b ", b"\xc3\xa4", b"-rf", b"back\\slash", b"\xff\n\x01"];
        for name in names {
            fs::write(bench.dir.path().join(OsStr::from_bytes(name)), "x").unwrap();
        }
        let listed = client.list(&bench.path("")).unwrap();
        assert_eq!(listed.len(), names.len());
        for name in names {
            let path = [&*bench.path(""), b"/", name].concat();
            let is_there = listed.iter().any(|entry| entry.name.as_bytes() == name);
            if bench.is_openssh() || name != b"\xff\n\x01" {
                assert!(is_there && client.stat(&path).unwrap().size == Some(1), "{name:?}");
            } else {
                // It shows other characters in place of control characters.
                assert!(!is_there && client.stat(&path).is_err());
            }
        }
        // Each can be read under the name that is told.
        for entry in listed {
            let path = [&*bench.path(""), b"/", entry.name.as_bytes()].concat();
            let file = client.open(&path, OpenFlags::Read, None).unwrap();
            assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 1);
        }
    });
}

#[test]
fn where_rclone_differs() {
    for cached in [false, true] {
        let bench = rclone(cached);
        let client = bench.client();
        let all = Extension::ALL.into_iter().map(|(extension, ..)| extension);
        let has: Vec<_> = all.filter(|e| client.has(*e)).collect();
        assert_eq!(has, [Extension::PosixRename, Extension::Statvfs, Extension::HardLink]);
        assert_eq!((client.read_len(), client.limits().open_handles), (32 << 10, 0));

        // Announced, and not there.
        let error = client.fs_stats(&bench.path("")).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::Unsupported));
        fs::write(bench.local("a"), "abc").unwrap();
        let attrs = Attrs { size: Some(1), ..Attrs::with_mode(0o600) };
        client.set_attrs(&bench.path("a"), attrs).unwrap();
        let meta = fs::metadata(bench.local("a")).unwrap();
        assert_eq!((meta.len(), meta.mode() & 0o777), (3, 0o644));

        // No links, neither listed nor looked at nor made.
        symlink("a", bench.local("link")).unwrap();
        assert_eq!(client.list(&bench.path("")).unwrap().len(), 1);
        let error = client.lstat(&bench.path("link")).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
        let error = client.read_link(&bench.path("link")).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::Unsupported));
        let error = client.make_symlink(b"a", &bench.path("link-2")).unwrap_err();
        assert_eq!(error.status(), Some(StatusCode::Unsupported));

        // A name that is taken is no error to open and to mkdir; nor to rename, so that it
        // is looked for first.
        drop(client.open(&bench.path("a"), OpenFlags::CreateNew, None).unwrap());
        client.make_dir(&bench.path("d"), 0o700).unwrap();
        client.make_dir(&bench.path("d"), 0o700).unwrap();
        fs::write(bench.local("b"), "b").unwrap();
        let (a, b) = (bench.path("a"), bench.path("b"));
        let taken = client.name_file(&b, &a, &Existing::Keep).unwrap_err();
        assert!(matches!(taken.cause, Cause::NameExists) && bench.local("b").exists(), "{taken}");
        client.name_file(&b, &a, &REPLACE).unwrap();
        assert_eq!(fs::read(bench.local("a")).unwrap(), b"b");
        // Files and directories are removed alike.
        client.remove_dir(&bench.path("a")).unwrap();
        client.remove_file(&bench.path("d")).unwrap();
        assert!(!bench.local("a").exists() && !bench.local("d").exists());
    }
}
