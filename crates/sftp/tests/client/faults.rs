//! Servers that do what no server does, and servers that go away: everyone who
//! waits is told why, and nobody waits for ever.

use crate::servers::{Bench, odd, odd_with, openssh};
use haul_net::{Connection, Timeouts};
use haul_sftp::codec::PacketError;
use haul_sftp::{
    Cause, Gets, OpenFlags, Options, RemoteFile, SLOW_FACTOR, Session, SessionError, SftpError,
};
use haul_testkit::{Fault, OddSftp, Oddities, TempDir, content};
use std::fs;
use std::time::{Duration, Instant};

/// The session with a server that fails at the given request; request 0 opens
/// the file.
fn failing(after: usize, fault: Fault) -> Bench {
    let bench = odd("failing", Oddities { fault: Some((after, fault)), ..Oddities::default() });
    fs::write(bench.local("file"), content::bytes(300_000, 1)).unwrap();
    bench
}

/// Reads the file whole.
fn read(bench: &Bench) -> Result<Vec<u8>, SftpError> {
    let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None)?;
    let mut buf = vec![0; 400_000];
    let len = file.read_at(&mut buf, 0)?;
    buf.truncate(len);
    Ok(buf)
}

/// Why the session is over.
fn end(error: &SftpError) -> &SessionError {
    error.session().unwrap_or_else(|| panic!("the session goes on after: {error}"))
}

#[test]
fn what_no_server_may_send_ends_the_session() {
    type Is = fn(&PacketError) -> bool;
    let cases: [(Fault, Is); 11] = [
        (Fault::Claim(u32::MAX), |e| matches!(e, PacketError::TooLong { len: u32::MAX, .. })),
        (Fault::Claim((256 << 10) + 1), |e| matches!(e, PacketError::TooLong { .. })),
        (Fault::Claim(4), |e| matches!(e, PacketError::Truncated)),
        (Fault::Claim(100), |e| matches!(e, PacketError::Truncated)),
        (Fault::UnknownId, |e| matches!(e, PacketError::UnknownId(_))),
        (Fault::Twice, |e| matches!(e, PacketError::UnknownId(_))),
        (Fault::WrongKind, |e| matches!(e, PacketError::WrongReply { request: "read", .. })),
        (Fault::UnknownType, |e| matches!(e, PacketError::UnknownType(99))),
        (Fault::EmptySuccess, |e| matches!(e, PacketError::EmptySuccess("read"))),
        (Fault::TooMuch, |e| matches!(e, PacketError::TooLong { .. })),
        (Fault::Nothing, |e| matches!(e, PacketError::EmptyData)),
    ];
    for (fault, is_expected) in cases {
        let bench = failing(3, fault);
        let error = read(&bench).unwrap_err();
        let SessionError::Protocol(why) = end(&error) else { panic!("{fault:?}: {error}") };
        assert!(is_expected(why), "{fault:?}: {error}");
        assert!(!end(&error).retriable() && end(&error).hint().is_some());
        // Whoever asks later hears the same.
        let later = bench.client().stat(&bench.path("file")).unwrap_err();
        assert_eq!(end(&later).to_string(), end(&error).to_string());
    }
}

#[test]
fn wrong_answers_to_other_requests_end_the_session_too() {
    for fault in [Fault::WrongKind, Fault::EmptySuccess, Fault::UnknownId] {
        let bench = failing(0, fault);
        let error = read(&bench).unwrap_err();
        assert!(matches!(end(&error), SessionError::Protocol(_)), "{fault:?}: {error}");
    }
    let bench = failing(0, Fault::WrongKind);
    let error = bench.client().stat(&bench.path("file")).unwrap_err();
    let wrong = matches!(end(&error), SessionError::Protocol(PacketError::WrongReply { .. }));
    assert!(wrong, "{error}");
}

#[test]
fn a_server_that_dies_is_reported() {
    for (after, fault) in [(0, Fault::Die), (4, Fault::Die), (4, Fault::DieInAnswer)] {
        let bench = failing(after, fault);
        let error = read(&bench).unwrap_err();
        assert!(matches!(end(&error), SessionError::Closed), "{error}");
        assert!(end(&error).retriable());
        assert_eq!(error.io_kind(), std::io::ErrorKind::ConnectionAborted);
    }
}

#[test]
fn a_server_that_dies_is_reported_to_who_writes() {
    let bench = failing(10, Fault::Die);
    let file = bench.client().open(&bench.path("new"), OpenFlags::CreateNew, None).unwrap();
    let mut writer = file.writer();
    let piece = vec![7; 1 << 20];
    let mut offset = 0;
    // More than any pipe holds.
    let error = loop {
        match writer.write_at(&piece, offset) {
            Ok(()) if offset > 100 << 20 => panic!("nobody reads that"),
            Ok(()) => offset += piece.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(end(&error), SessionError::Closed), "{error}");
    assert!(writer.drain().is_err());
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let silence_max = Duration::from_millis(400);
    let options = Options { silence_max: Some(silence_max), ..Options::default() };
    let stalled = Oddities { fault: Some((4, Fault::Stall)), ..Oddities::default() };
    let start = Instant::now();
    let bench = odd_with("stalling", stalled.clone(), options);
    fs::write(bench.local("file"), content::bytes(300_000, 1)).unwrap();
    let error = read(&bench).unwrap_err();
    assert!(matches!(end(&error), SessionError::Silent { .. }), "{error}");

    // One that is asked nothing may be silent for as long as it likes.
    let idle = odd_with("idle", Oddities::default(), options);
    std::thread::sleep(silence_max * 2);
    idle.client().stat(&idle.path("")).unwrap();
    assert!(start.elapsed() >= silence_max * 3 && start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_server_that_waits_for_its_medium_is_given_more_time() {
    let silence_max = Duration::from_millis(100);
    let options = Options { silence_max: Some(silence_max), ..Options::default() };
    let extensions = vec!["fsync@openssh.com"];
    // The open is the first request.
    let stalled = Oddities { extensions, fault: Some((1, Fault::Stall)), ..Oddities::default() };
    for (is_slow, ask) in [
        (true, RemoteFile::sync as fn(&RemoteFile) -> Result<(), SftpError>),
        (false, |file| file.attrs().map(drop)),
    ] {
        let bench = odd_with("stalling", stalled.clone(), options);
        let path = bench.path("file");
        let file = bench.client().open(&path, OpenFlags::CreateNew, None).unwrap();
        let start = Instant::now();
        let error = ask(&file).unwrap_err();
        assert!(matches!(end(&error), SessionError::Silent { .. }), "{error}");
        assert_eq!(start.elapsed() >= silence_max * SLOW_FACTOR, is_slow, "{error}");
    }
}

#[test]
fn a_server_is_waited_for_as_long_as_the_connection_says() {
    let stalled = Oddities { fault: Some((0, Fault::Stall)), ..Oddities::default() };
    let dir = TempDir::new().unwrap();
    let (_server, from, to) = OddSftp::serve(dir.path(), stalled).unwrap();
    let timeout = Timeouts { silence_max: Some(Duration::from_millis(200)), login_max: None };
    let connection = Connection::from_parts(from, to).with_timeouts(timeout);
    let session = Session::start(connection, Options::default()).unwrap();
    let error = session.client().lstat(b".").unwrap_err();
    assert!(matches!(end(&error), SessionError::Silent { .. }), "{error}");
}

#[test]
fn who_waits_for_room_is_reported_too() {
    let silence_max = Duration::from_millis(300);
    let options = Options { silence_max: Some(silence_max), requests_max: 4, ..Options::default() };
    let stalled = Oddities { fault: Some((1, Fault::Stall)), ..Oddities::default() };
    let bench = odd_with("stalling", stalled, options);
    fs::write(bench.local("file"), content::bytes(300_000, 1)).unwrap();
    let file = bench.client().open(&bench.path("file"), OpenFlags::Read, None).unwrap();
    std::thread::scope(|scope| {
        let ask = || file.read_at(&mut vec![0; 300_000], 0).unwrap_err();
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for error in asking {
            let error = error.join().unwrap();
            assert!(matches!(end(&error), SessionError::Silent { .. }), "{error}");
        }
    });
}

#[test]
fn dropping_the_session_wakes_who_waits_in_it() {
    let stalled = Oddities { fault: Some((1, Fault::Stall)), ..Oddities::default() };
    let Bench { session, dir, server: _stays, .. } = odd("stalling", stalled);
    fs::write(dir.path().join("file"), content::bytes(300_000, 1)).unwrap();
    let client = session.client().clone();
    let file = client.open(b"file", OpenFlags::Read, None).unwrap();
    let waiting = std::thread::spawn(move || file.read_at(&mut [0; 100], 0).unwrap_err());
    std::thread::sleep(Duration::from_millis(50));
    drop(session);
    let error = waiting.join().unwrap();
    assert!(matches!(end(&error), SessionError::Stopped), "{error}");
    assert!(client.stat(b"file").is_err());
}

#[test]
fn a_refusal_concerns_one_request() {
    let bench = failing(1, Fault::Refuse);
    let error = read(&bench).unwrap_err();
    assert!(matches!(error.cause, Cause::Status(_)), "{error}");
    assert!(error.to_string().ends_with("as it is"), "{error}");
    assert_eq!(read(&bench).unwrap().len(), 300_000);
}

#[test]
fn small_files_are_reported_the_end_as_well() {
    let bench = failing(20, Fault::Die);
    let mut gets = Gets::new(bench.client());
    for key in 0..100 {
        gets.push(haul_sftp::Get { key, path: bench.path("file"), len: 1000 });
    }
    let mut failed = 0;
    while let Some((_, result)) = gets.next_done() {
        failed += usize::from(result.is_err());
    }
    assert!(failed > 50);
}

#[test]
fn a_session_outlives_failures_of_its_requests() {
    let bench = openssh();
    for _ in 0..3000 {
        assert!(bench.client().open(&bench.path("none"), OpenFlags::Read, None).is_err());
    }
    bench.session.finish();
}
