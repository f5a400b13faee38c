//! Tests of the gate and its connections: which callers it accepts, what the others receive, and
//! what many callers cost.

use super::*;
use crate::{ConnectError, ConnectOptions, ServerAddress, ServerVia, bind_udp, connect_server};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A gate that runs on a thread of its own, and echoes its clients' data.
struct Running {
    own: Identity,
    address: ServerAddress,
    ends: Arc<AtomicBool>,
    gate: Arc<Mutex<Gate>>,
    via: ServerVia,
}

/// The protocols that a test runs over.
const BOTH: [ServerVia; 2] = [ServerVia::Tcp, ServerVia::Quic];

const TURN: Duration = Duration::from_millis(5);

/// Timeout for an answer that is sent at once.
const TRY_MAX: Duration = Duration::from_secs(5);

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")
}

fn echo(caller: Caller, new_key: Option<PublicKey>) {
    let connection = caller.into_connection("guest".to_owned(), new_key).expect("connected");
    thread::spawn(move || {
        let crate::Connection { mut reader, mut writer, closer } = connection;
        let _ = io::copy(&mut reader, &mut writer);
        drop(writer);
        drop(closer);
    });
}

/// A gate that runs its QUIC process as a thread.
fn gate(own: &[Identity], clients: &[PublicKey], limits: GateLimits) -> Gate {
    let listener = listener();
    let socket = bind_udp(listener.local_addr().expect("an address")).expect("a socket");
    let gate = Gate::new(vec![listener], own, limits).expect("a gate");
    let mut gate = gate.with_quic(vec![socket], Congestion::default());
    gate.set_known_keys(clients.iter().map(|key| (*key, None)));
    let quic = gate.prepare_quic().expect("descriptors").expect("a socket");
    thread::spawn(move || quic.serve().expect("served"));
    gate
}

impl Running {
    fn start(own: &[Identity], clients: &[PublicKey], limits: GateLimits) -> Self {
        Self::start_by(ServerVia::Tcp, own, clients, limits)
    }

    fn start_by(
        via: ServerVia,
        own: &[Identity],
        clients: &[PublicKey],
        limits: GateLimits,
    ) -> Self {
        let gate = gate(own, clients, limits);
        let address = gate.addresses().expect("an address")[0].into();
        let (gate, ends) = (Arc::new(Mutex::new(gate)), Arc::new(AtomicBool::new(false)));
        let (shared, ended) = (Arc::clone(&gate), Arc::clone(&ends));
        let new_key = (own.len() > 1).then(|| own[0].key());
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let turn = shared.lock().turn(&[], Some(TURN)).expect("a turn");
                turn.callers.into_iter().for_each(|caller| echo(caller, new_key));
                // The lock is not fair.
                thread::sleep(Duration::from_micros(100));
            }
        });
        Self { own: own[0].clone(), address, ends, gate, via }
    }

    fn connect(&self, client: &Identity) -> Result<Connection, ConnectError> {
        self.connect_to(self.own.key(), client, |_| ())
    }

    fn connect_to(
        &self,
        key: PublicKey,
        client: &Identity,
        on_new_key: impl FnOnce(PublicKey) + Send + 'static,
    ) -> Result<Connection, ConnectError> {
        let addresses = [self.address.clone()];
        let options = ConnectOptions { via: self.via, ..ConnectOptions::default() };
        connect_server("box", &addresses, key, client, options, on_new_key)
    }

    fn socket(&self) -> TcpStream {
        TcpStream::connect((self.address.host(), self.address.port())).expect("connected")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn identity() -> Identity {
    Identity::new().expect("a key")
}

/// Sends `content` and reads it back, in both directions at once.
fn talk(connection: Connection, content: &[u8]) -> io::Result<Vec<u8>> {
    let Connection { mut reader, mut writer, closer: _closer } = connection;
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(content));
        let mut received = Vec::new();
        reader.read_to_end(&mut received).map(|_| received)
    })
}

#[test]
fn bytes_go_in_both_directions_at_once() {
    use crate::quic::tests::MUCH_MEMORY;
    let _alone = MUCH_MEMORY.lock();
    for via in BOTH {
        let client = identity();
        let server = Running::start_by(via, &[identity()], &[client.key()], GateLimits::default());
        let content: Vec<u8> = (0..9_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let connection = server.connect(&client).expect("connected");
        assert_eq!(connection.closer.peer(), "box");
        assert!(talk(connection, &content).expect("an orderly end") == content);
    }
}

/// The error and the explanation for a client that is not known.
fn refusal(server: &Running, client: &Identity) -> (String, String) {
    let Connection { mut reader, writer, closer } = server.connect(client).expect("connected");
    let error = reader.read(&mut [0; 1]).expect_err("nothing is said to it");
    drop((reader, writer));
    (error.to_string(), closer.explain().to_string())
}

#[test]
fn unknown_revoked_and_expired_keys_get_the_same_refusal() {
    for via in BOTH {
        let [unknown, revoked, expired, known] = [(); 4].map(|()| identity());
        let server = Running::start_by(via, &[identity()], &[revoked.key()], GateLimits::default());
        talk(server.connect(&revoked).expect("connected"), b"hello").expect("let in");
        let past = SystemTime::now() - Duration::from_secs(1);
        let future = SystemTime::now() + Duration::from_secs(600);
        let keys = [(expired.key(), Some(past)), (known.key(), Some(future))];
        server.gate.lock().set_known_keys(keys);
        let refusals = [&unknown, &revoked, &expired].map(|client| refusal(&server, client));
        assert_eq!(refusals[0].1, "the server at box does not accept this client's key");
        assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
        talk(server.connect(&known).expect("connected"), b"hello").expect("let in");
    }
}

#[test]
fn a_server_with_another_key_is_refused() {
    for via in BOTH {
        let client = identity();
        let server = Running::start_by(via, &[identity()], &[client.key()], GateLimits::default());
        let stored = identity().key();
        let error = server.connect_to(stored, &client, |_| ()).expect_err("it is another");
        assert!(!error.retriable());
        assert!(matches!(error, ConnectError::ServerKey { stored: told, .. }
            if told == stored.fingerprint()));
    }
}

#[test]
fn a_server_with_another_key_that_disconnects_at_once_is_not_silent() {
    let (own, client) = (identity(), identity());
    let server = Running::start(&[own], &[client.key()], GateLimits::default());
    let between = listener();
    let address = between.local_addr().expect("an address").into();
    let upstream = server.socket();
    thread::spawn(move || {
        let (mut caller, _) = between.accept().expect("a caller");
        let mut upstream = upstream;
        let mut bytes = [0; 8192];
        let greeting = caller.read(&mut bytes).expect("a greeting");
        upstream.write_all(&bytes[..greeting]).expect("sent");
        let answer = upstream.read(&mut bytes).expect("an answer");
        caller.write_all(&bytes[..answer]).expect("sent");
        socket2::SockRef::from(&caller).set_linger(Some(Duration::ZERO)).expect("set");
    });
    let other = identity().key();
    let options = ConnectOptions { via: ServerVia::Tcp, ..ConnectOptions::default() };
    let refused = connect_server("box", &[address], other, &client, options, |_| ());
    assert!(matches!(refused, Err(ConnectError::ServerKey { .. })), "{:?}", refused.err());
}

#[test]
fn a_closed_port_differs_from_a_refusing_server() {
    for via in BOTH {
        let address = ServerAddress::from(listener().local_addr().expect("an address"));
        let (server, options) =
            (identity().key(), ConnectOptions { via, ..ConnectOptions::default() });
        let connected = connect_server("box", &[address], server, &identity(), options, |_| ());
        let error = connected.expect_err("nobody listens");
        assert!(matches!(error, ConnectError::NoServer { .. }), "{error}");
        assert!(error.retriable());
    }
}

#[test]
fn a_client_with_an_old_key_gets_the_new_one() {
    for via in BOTH {
        let (client, new, old) = (identity(), identity(), identity());
        let server = Running::start_by(
            via,
            &[new.clone(), old.clone()],
            &[client.key()],
            GateLimits::default(),
        );
        for key in [&old, &new] {
            let (tell, told) = std::sync::mpsc::channel();
            let connected = server.connect_to(key.key(), &client, move |key| {
                let _ = tell.send(key);
            });
            let received = talk(connected.expect("connected"), b"hello").expect("let in");
            assert_eq!(received, b"hello");
            assert_eq!(told.recv(), Ok(new.key()));
        }
    }
}

#[test]
fn a_stream_that_was_cut_off_does_not_end_in_order() {
    for via in BOTH {
        let client = identity();
        let own = identity();
        let mut gate = gate(std::slice::from_ref(&own), &[client.key()], GateLimits::default());
        let address = gate.addresses().expect("an address")[0].into();
        let own = own.key();
        let connected = thread::spawn(move || {
            let options = ConnectOptions { via, ..ConnectOptions::default() };
            connect_server("box", &[address], own, &client, options, |_| ())
        });
        let caller = loop {
            let mut turn = gate.turn(&[], Some(TURN)).expect("a turn");
            if let Some(caller) = turn.callers.pop() {
                break caller;
            }
        };
        let mut connection = connected.join().expect("no panic").expect("connected");
        let there = caller.into_connection("guest".to_owned(), None).expect("connected");
        let mut writer = there.writer;
        writer.write_all(b"half").expect("written");
        let mut half = [0; 4];
        connection.reader.read_exact(&mut half).expect("read");
        // The socket is closed before the writer can end the stream.
        there.closer.killer().kill();
        drop(writer);
        let mut received = Vec::new();
        let error = connection.reader.read_to_end(&mut received).expect_err("it was cut off");
        assert_eq!((error.kind(), &received[..]), (io::ErrorKind::UnexpectedEof, &b""[..]));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn many_callers_without_keys_cost_little_and_block_no_client() {
    use crate::quic::tests::{MUCH_MEMORY, memory};
    let _alone = MUCH_MEMORY.lock();
    let client = identity();
    let server = Running::start(&[identity()], &[client.key()], GateLimits::default());
    let before = memory();
    // Callers that send nothing, and callers that send half a greeting.
    let idle: Vec<_> = (0..500).map(|_| server.socket()).collect();
    for socket in &idle[..250] {
        let mut socket = socket;
        let _ = socket.write_all(&[22, 3, 1, 1, 0, 1]);
    }
    let stranger = identity();
    thread::scope(|scope| {
        for nth in 0..2 {
            let (server, stranger) = (&server, &stranger);
            scope.spawn(move || {
                for _ in 0..1000 {
                    match nth {
                        0 => drop(server.connect(stranger)),
                        _ => drop(server.socket().write_all(b"GET / HTTP/1.1\r\n\r\n")),
                    }
                }
            });
        }
        for _ in 0..10 {
            let begin = Instant::now();
            let received = talk(server.connect(&client).expect("connected"), b"hello");
            assert_eq!(received.expect("let in"), b"hello");
            assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
            thread::sleep(Duration::from_millis(20));
        }
    });
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    assert!(server.gate.lock().waiting() <= 256);
}

#[test]
fn a_silent_caller_is_dropped_in_time() {
    let limits = GateLimits { handshake_max: Duration::from_millis(200), ..GateLimits::default() };
    let server = Running::start(&[identity()], &[], limits);
    let mut socket = server.socket();
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let begin = Instant::now();
    assert_eq!(socket.read(&mut [0]).expect("closed"), 0);
    assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
}

#[test]
fn callers_that_name_the_key_of_a_job_are_forwarded_to_it() {
    let (own, client) = (identity(), identity());
    let server = Running::start(&[own], &[], GateLimits::default());
    let address = server.socket().peer_addr().expect("an address");
    let (forwarder, forwarded) = crate::Forwarder::new(address).expect("sockets");
    let forwarder = Arc::new(forwarder);
    server.gate.lock().forward_to(&forwarder);
    let listen_target = crate::ListenTarget::Server(forwarded);
    let listener = listen_target.open(None, client.public()).expect("a listener");
    assert_eq!(listener.address(), address);
    let key = listener.key();
    let call = |identity: Identity| {
        thread::spawn(move || {
            let call = crate::Direct::connect(address, &identity, key, TRY_MAX, &|| true);
            let mut direct = call?;
            direct.write_all(b"ping")?;
            io::Result::Ok(())
        })
    };
    let accept = || listener.accept_within(TRY_MAX, None).expect("accepted").expect("a caller");
    let calls = call(client);
    let mut direct = accept().identify(&|| true).expect("the client");
    let mut received = [0; 4];
    direct.read_exact(&mut received).expect("read");
    assert_eq!(&received, b"ping");
    calls.join().expect("no panic").expect("forwarded");
    // An eavesdropper that knows the name has no key.
    let calls = call(identity());
    assert!(accept().identify(&|| true).is_err());
    assert_eq!(server.gate.lock().waiting(), 0);
    drop(calls.join());
    // The job ends. The server then answers itself, with its own key.
    drop((listener, forwarder, listen_target));
    assert!(call(identity()).join().expect("no panic").is_err());
}

#[test]
fn handshakes_per_source_are_bounded() {
    let limits = GateLimits { per_source_max: 3, ..GateLimits::default() };
    let mut gate = Gate::new(vec![listener()], &[identity()], limits).expect("a gate");
    let address = gate.addresses().expect("an address")[0];
    let sockets: Vec<_> = (0..5).map(|_| TcpStream::connect(address).expect("called")).collect();
    for _ in 0..5 {
        gate.turn(&[], Some(TURN)).expect("a turn");
    }
    assert_eq!(gate.waiting(), 3);
    // The oldest handshake was dropped first.
    let mut oldest = &sockets[0];
    assert!(matches!(oldest.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn both_families_are_listened_to_on_one_port() {
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let four = listen_on(SocketAddr::new(any, 0)).expect("a port");
    let port = four.local_addr().expect("an address").port();
    match listen_on(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
        Ok(six) => assert!(six.local_addr().expect("an address").is_ipv6()),
        // A machine without IPv6.
        Err(error) => assert_ne!(error.kind(), io::ErrorKind::AddrInUse, "{error}"),
    }
    let error = listen_on(SocketAddr::new(any, port)).expect_err("it is taken");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_subscriber_is_identified_by_half_an_ipv6_address() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(source(ip("2001:db8::1:2:3:4")), source(ip("2001:db8::5:6:7:8")));
    assert_ne!(source(ip("2001:db8:0:1::1")), source(ip("2001:db8:0:2::1")));
    assert_eq!(source(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
    assert_ne!(source(ip("192.0.2.1")), source(ip("192.0.2.2")));
}
