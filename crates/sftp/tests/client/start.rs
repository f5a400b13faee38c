//! How sessions begin, and what is said when they don't.

use crate::servers::{target, through_ssh};
use haul_net::{ConnectError, Connection, Service, connect};
use haul_sftp::codec::PacketError;
use haul_sftp::{Options, Session, SessionError, StartError};
use haul_testkit::Sshd;
use std::io;
use std::sync::Arc;

/// The error of a session with a server that says this and no more.
fn refused(said: &[u8]) -> StartError {
    let said = said.to_vec();
    let connection = Connection::from_parts(io::Cursor::new(said), io::sink());
    Session::start(connection, Options::default()).err().expect("no session")
}

fn session_error(said: &[u8]) -> SessionError {
    match refused(said) {
        StartError::Session { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

#[test]
fn another_version_is_reported() {
    let error = session_error(&[0, 0, 0, 5, 2, 0, 0, 0, 2]);
    assert!(matches!(error, SessionError::Version(2)), "{error}");
    assert!(error.to_string().contains("version 2"));
}

#[test]
fn text_in_place_of_a_greeting_is_shown_escaped() {
    let error = session_error(b"Welcome to\x1b[2J the machine\nmore\n");
    let SessionError::NotSftp { text } = &error else { panic!("{error}") };
    assert!(text.starts_with("Welcome to") && text.ends_with("the machine"), "{text}");
    assert!(!text.contains('\x1b'));
    assert!(error.hint().is_some_and(|hint| hint.contains("startup")));
}

#[test]
fn a_greeting_that_is_none_is_refused() {
    let wrong = session_error(&[0, 0, 0, 5, 101, 0, 0, 0, 3]);
    assert!(matches!(wrong, SessionError::Protocol(PacketError::WrongReply { .. })), "{wrong}");
    let huge = session_error(&[200, 0, 0, 0, 2, 0, 0, 0, 3]);
    assert!(matches!(huge, SessionError::Protocol(PacketError::TooLong { .. })), "{huge}");
    let cut = session_error(&[0, 0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0]);
    assert!(matches!(cut, SessionError::Protocol(PacketError::Truncated)), "{cut}");
    for end in [&[][..], &[0, 0, 0, 5, 2, 0, 0]] {
        let error = refused(end);
        assert!(matches!(error, StartError::Connect(ConnectError::Lost { .. })), "{error}");
    }
}

#[test]
fn why_ssh_has_no_session_is_reported() {
    let refusal = |sshd: Sshd| {
        let connection = connect(&target(&sshd), Service::Sftp, Arc::new(|_| {})).unwrap();
        Session::start(connection, Options::default()).err().expect("no session")
    };
    let error = refusal(Sshd::builder().without_sftp().start().unwrap());
    assert_eq!(error.to_string(), "haul-test offers no sftp");
    let denied = Sshd::builder().server_line("PubkeyAuthentication no").start().unwrap();
    let error = refusal(denied);
    assert!(matches!(error, StartError::Connect(ConnectError::LoginRefused { .. })), "{error}");
}

#[test]
fn a_session_with_sshds_own_server_works() {
    let sshd = Sshd::builder().sftp("internal-sftp").start().unwrap();
    let connection = connect(&target(&sshd), Service::Sftp, Arc::new(|_| {})).unwrap();
    let session = Session::start(connection, Options::default()).unwrap();
    assert!(!session.client().list(b"/").unwrap().is_empty());
    session.finish();
}

#[test]
fn a_connection_that_is_cut_is_explained() {
    let sshd = Sshd::start().unwrap();
    let connection = connect(&target(&sshd), Service::Sftp, Arc::new(|_| {})).unwrap();
    let session = Session::start(connection, Options::default()).unwrap();
    session.client().stat(b"/").unwrap();
    sshd.cut();
    let error = session.client().stat(b"/").unwrap_err();
    assert!(matches!(error.session(), Some(SessionError::Closed)), "{error}");
    let why = session.explain();
    assert!(matches!(why, ConnectError::Lost { .. }) && why.retriable(), "{why}");
}

#[test]
fn a_session_that_is_dropped_ends_ssh() {
    let bench = through_ssh();
    let client = bench.client().clone();
    client.stat(b"/").unwrap();
    drop(bench.session);
    let error = client.stat(b"/").unwrap_err();
    assert!(matches!(error.session(), Some(SessionError::Stopped)), "{error}");
}
