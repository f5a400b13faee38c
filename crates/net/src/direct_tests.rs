//! Tests of direct connections: which callers are accepted, and that all data arrives.

use super::*;
use std::net::Ipv4Addr;
use std::thread;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(5);

fn caller(listener: &DirectListener) -> DirectCaller {
    listener.accept_within(PATIENCE, None).expect("it listens").expect("somebody calls")
}

#[test]
fn the_wait_ends_once_the_pipe_is_closed() {
    let own = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, own.public()).expect("a port");
    let (ended, runs) = io::pipe().expect("a pipe");
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(runs);
        });
        let begin = Instant::now();
        let nobody = listener.accept_within(Duration::from_secs(60), Some(&ended));
        assert!(nobody.expect("it listens").is_none());
        assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    });
}

/// Both ends of a call by `caller`, which expects the key `host`, to a listener that accepts the
/// key `client`.
fn call(
    identity: &Identity,
    host: Option<[u8; 32]>,
    client: Option<[u8; 32]>,
) -> (io::Result<Direct>, io::Result<Direct>) {
    let own = Identity::new().expect("a key");
    let client = client.unwrap_or(identity.public());
    let listener = DirectListener::bind(HERE, None, &own, client).expect("a port");
    let address = listener.address();
    let host = host.unwrap_or(own.public());
    thread::scope(|scope| {
        let there = scope.spawn(|| caller(&listener).identify(&|| true));
        // The listener reports a wrong key after the caller's handshake.
        let here =
            Direct::connect(address, identity, host, PATIENCE, &|| true).and_then(|mut direct| {
                direct.write_all(b"?")?;
                direct.read_exact(&mut [0]).map(|()| direct)
            });
        let there = there.join().expect("no panic").and_then(|mut direct| {
            direct.read_exact(&mut [0])?;
            direct.write_all(b"!")?;
            Ok(direct)
        });
        (here, there)
    })
}

#[test]
fn bytes_arrive_in_both_directions() {
    let own = Identity::new().expect("a key");
    let identity = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, identity.public()).expect("a port");
    let address = listener.address();
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            let mut direct = caller(&listener).identify(&|| true).expect("the client");
            let mut received = vec![0; 3_000_000];
            direct.read_exact(&mut received).expect("read");
            direct.write_all(&received[..1000]).expect("written");
            received
        });
        let connected = Direct::connect(address, &identity, own.public(), PATIENCE, &|| true);
        let mut direct = connected.expect("the host");
        direct.write_all(&content).expect("written");
        let mut back = vec![0; 1000];
        direct.read_exact(&mut back).expect("read");
        assert_eq!(back, content[..1000]);
        assert!(there.join().expect("no panic") == content);
    });
}

#[test]
fn neither_side_accepts_another_key() {
    let identity = Identity::new().expect("a key");
    let other = Identity::new().expect("a key").public();
    let (_, there) = call(&identity, None, Some(other));
    assert!(there.is_err(), "a stranger is let in");
    let (here, there) = call(&identity, Some(other), None);
    assert!(here.is_err() && there.is_err(), "a stranger is talked to");
}

#[test]
fn silent_callers_and_other_protocols_are_refused() {
    let own = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, own.public()).expect("a port");
    let address = listener.address();
    for said in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]] {
        let mut socket = TcpStream::connect(address).expect("connected");
        socket.write_all(said).expect("written");
        let caller = caller(&listener);
        let begin = Instant::now();
        assert!(caller.identify(&|| true).is_err());
        assert!(begin.elapsed() < HANDSHAKE_MAX * 2);
    }
    // A caller whose connection was closed is not waited for.
    let _socket = TcpStream::connect(address).expect("connected");
    let caller = caller(&listener);
    caller.killer().expect("a killer").kill();
    let begin = Instant::now();
    assert!(caller.identify(&|| true).is_err());
    assert!(begin.elapsed() < HANDSHAKE_MAX / 2);
}

#[test]
fn a_port_is_in_the_given_range() {
    let own = Identity::new().expect("a key");
    let taken = TcpListener::bind((HERE, 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let bind = |ports| DirectListener::bind(HERE, Some(ports), &own, own.public());
    let error = bind((port, port)).err().expect("it is taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().ends_with(": address in use"), "{error}");
    // The peer may set no range.
    let error = bind((port, port - 1)).err().expect("there is none");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    drop(taken);
    let bound = bind((port, port)).expect("it is free");
    assert_eq!(bound.address().port(), port);
}

#[test]
fn content_changed_in_transit_is_refused() {
    let own = Identity::new().expect("a key");
    let identity = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, identity.public()).expect("a port");
    let there = listener.address();
    let between = TcpListener::bind((HERE, 0)).expect("a port");
    let address = between.local_addr().expect("an address");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, _) = between.accept().expect("called");
            let mut host = TcpStream::connect(there).expect("connected");
            let (mut back, mut to) =
                (host.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
            scope.spawn(move || io::copy(&mut back, &mut to));
            let (mut bytes, mut passed) = (vec![0; 16 << 10], 0);
            while let Ok(len @ 1..) = client.read(&mut bytes) {
                // After the handshake.
                if passed + len > 1 << 20 {
                    bytes[0] ^= 1;
                }
                passed += len;
                if host.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }
        });
        let host = scope.spawn(|| {
            let mut direct = caller(&listener).identify(&|| true).expect("the client");
            io::copy(&mut direct, &mut io::sink())
        });
        let connected = Direct::connect(address, &identity, own.public(), PATIENCE, &|| true);
        let mut direct = connected.expect("the host");
        let _ = direct.write_all(&vec![1; 2 << 20]);
        assert!(host.join().expect("no panic").is_err());
        drop(direct);
    });
}

#[test]
fn an_unanswered_call_ends_once_it_is_not_needed() {
    let own = Identity::new().expect("a key");
    // A listener that never does the handshake.
    let silent = TcpListener::bind((HERE, 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    let begin = Instant::now();
    let should_continue = || begin.elapsed() < Duration::from_millis(200);
    assert!(Direct::connect(address, &own, own.public(), PATIENCE, &should_continue).is_err());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    // An address without a listener.
    drop(silent);
    let begin = Instant::now();
    assert!(Direct::connect(address, &own, own.public(), PATIENCE, &|| true).is_err());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

/// The bytes that a caller sends, recorded by an eavesdropper.
fn overheard(listener: &DirectListener, identity: &Identity, host: [u8; 32]) -> Vec<u8> {
    let there = listener.address();
    let between = TcpListener::bind((HERE, 0)).expect("a port");
    let address = between.local_addr().expect("an address");
    thread::scope(|scope| {
        let overheard = scope.spawn(|| {
            let (mut client, _) = between.accept().expect("called");
            let mut host = TcpStream::connect(there).expect("connected");
            let (mut back, mut to) =
                (host.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
            scope.spawn(move || io::copy(&mut back, &mut to));
            let (mut said, mut bytes) = (Vec::new(), vec![0; 16 << 10]);
            while let Ok(len @ 1..) = client.read(&mut bytes) {
                said.extend_from_slice(&bytes[..len]);
                host.write_all(&bytes[..len]).expect("passed on");
            }
            let _ = host.shutdown(std::net::Shutdown::Both);
            said
        });
        let known = scope.spawn(|| {
            let mut direct = caller(listener).identify(&|| true).expect("the client");
            direct.read_exact(&mut [0; 5]).expect("read");
        });
        let connected = Direct::connect(address, identity, host, PATIENCE, &|| true);
        let mut direct = connected.expect("the host");
        direct.write_all(b"hello").expect("written");
        known.join().expect("no panic");
        drop(direct);
        overheard.join().expect("no panic")
    })
}

/// A client's port, and the bytes recorded there.
fn known_port() -> (DirectListener, SocketAddr, Vec<u8>) {
    let own = Identity::new().expect("a key");
    let identity = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, identity.public()).expect("a port");
    let address = listener.address();
    let said = overheard(&listener, &identity, own.public());
    (listener, address, said)
}

#[test]
fn a_replayed_handshake_is_refused() {
    let (listener, address, said) = known_port();
    assert!(said.len() > 300, "{}", said.len());
    // All bytes at once; then those after the first message once that was answered.
    let first = 5 + usize::from(said[3]) * 256 + usize::from(said[4]);
    for parts in [vec![&said[..]], vec![&said[..first], &said[first..]]] {
        thread::scope(|scope| {
            let there = scope.spawn(|| caller(&listener).identify(&|| true));
            let mut socket = TcpStream::connect(address).expect("connected");
            for (nth, part) in parts.iter().enumerate() {
                if nth > 0 {
                    socket.read_exact(&mut [0; 100]).expect("an answer to the first");
                }
                let _ = socket.write_all(part);
            }
            assert!(there.join().expect("no panic").is_err(), "a recording is let in");
        });
    }
}

#[test]
fn a_slow_replay_times_out() {
    let (listener, address, said) = known_port();
    thread::scope(|scope| {
        let begin = Instant::now();
        let there = scope.spawn(|| caller(&listener).identify(&|| true));
        let mut socket = TcpStream::connect(address).expect("connected");
        for byte in said {
            if socket.write_all(&[byte]).is_err() || there.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert!(there.join().expect("no panic").is_err());
        assert!(begin.elapsed() < HANDSHAKE_MAX + Duration::from_secs(2), "{:?}", begin.elapsed());
    });
}

#[test]
fn a_caller_without_a_key_is_refused() {
    let own = Identity::new().expect("a key");
    let listener = DirectListener::bind(HERE, None, &own, own.public()).expect("a port");
    let address = listener.address();
    let verifier = crate::tls::verifier_of(own.key());
    let config = rustls::ClientConfig::builder_with_provider(crate::tls::algorithms())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    thread::scope(|scope| {
        let there = scope.spawn(|| caller(&listener).identify(&|| true));
        let name = ServerName::IpAddress(address.ip().into());
        let tls = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
        let socket = TcpStream::connect(address).expect("connected");
        let here = Direct::begin(socket, tls.into(), &|| true, &AtomicBool::default())
            .and_then(|mut direct| direct.read_exact(&mut [0]));
        assert!(here.is_err(), "one without a key hears something");
        assert!(there.join().expect("no panic").is_err(), "one without a key is let in");
    });
}
