//! Files that are opened and looked at in one round trip.

use crate::servers::{odd, with_each};
use haul_sftp::{Cause, FileType, OpenFlags, StatusCode};
use haul_testkit::{Fault, Oddities};
use std::fs;

/// A request, as the draft numbers it.
const CLOSE: u8 = 4;

#[test]
fn files_are_opened_and_looked_at_together() {
    with_each(|bench| {
        let client = bench.client();
        fs::write(bench.local("file"), "four").unwrap();
        let (file, found) = client.open_and_stat(&bench.path("file"), OpenFlags::Read).unwrap();
        assert_eq!(found.size, Some(4));
        let mut content = [0; 32];
        assert_eq!(file.read_at(&mut content, 0).unwrap(), 4);
        let (file, _) = client.open_and_stat(&bench.path("file"), OpenFlags::Write).unwrap();
        let mut writer = file.writer();
        writer.write_at(b"new+", 0).unwrap();
        writer.drain().unwrap();
        assert_eq!(file.attrs().unwrap().size, Some(4));
        file.close().unwrap();
        // A file to be written is looked at itself, and one to be read behind a link.
        std::os::unix::fs::symlink("file", bench.local("link")).unwrap();
        for (flags, kind) in
            [(OpenFlags::Read, FileType::File), (OpenFlags::Write, FileType::Symlink)]
        {
            let (_, found) = client.open_and_stat(&bench.path("link"), flags).unwrap();
            assert_eq!(found.file_type(), Some(kind));
        }
        assert_eq!(fs::read(bench.local("file")).unwrap(), b"new+");
        if bench.name == "reversed" {
            assert!(bench.odd_server().max_pending() >= 2);
        }
    });
}

#[test]
fn what_fails_says_which_of_both() {
    with_each(|bench| {
        let missing = bench.client().open_and_stat(&bench.path("no"), OpenFlags::Read);
        let error = missing.err().expect("it is missing");
        assert_eq!(error.status(), Some(StatusCode::NoSuchFile));
        assert!(error.to_string().starts_with("can't open '"), "{error}");
        let unsent = bench.client().open_and_stat(b"a\0b", OpenFlags::Read);
        assert!(matches!(unsent.err().expect("no path").cause, Cause::Path(_)));
    });
    let denied = Oddities { fault: Some((1, Fault::Deny)), ..Oddities::default() };
    let bench = odd("denying", denied);
    fs::write(bench.local("a"), "abc").unwrap();
    let error = bench.client().open_and_stat(&bench.path("a"), OpenFlags::Read);
    let error = error.err().expect("denied").to_string();
    assert!(error.starts_with("can't read the metadata of '"), "{error}");
    // The file was opened, and closed again.
    bench.client().stat(&bench.path("a")).unwrap();
    assert_eq!(bench.odd_server().asked().iter().filter(|kind| **kind == CLOSE).count(), 1);
}
