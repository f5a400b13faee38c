//! Tests of QUIC alone: unknown callers, and data in flight. `gate/tests.rs` tests with both
//! protocols which callers are accepted.

use super::config::{self, TransportSettings, packet_len_of};
use super::driver::{Driver, Rules};
use super::gate::QuicGate;
use super::messages::Setup;
use super::{Congestion, bind_udp};
use crate::gate::KnownKeys;
use crate::gate::{AcceptedKeys, tls_config};
use crate::tls::{accept_only, client_config};
use crate::{
    ConnectOptions, Connection, GateLimits, Identity, PublicKey, ServerVia, connect_server,
};
use haul_testkit::holds_within;
use parking_lot::Mutex;
use quinn_proto::Endpoint;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Held by tests that use or measure much memory, since they share one process.
pub(crate) static MUCH_MEMORY: Mutex<()> = Mutex::new(());

fn identity() -> Identity {
    Identity::new().expect("a key")
}

fn local() -> UdpSocket {
    bind_udp((Ipv4Addr::LOCALHOST, 0).into()).expect("a socket")
}

/// A server on a thread, which passes each caller to `serve`.
struct Server {
    address: SocketAddr,
    key: PublicKey,
}

impl Server {
    fn start(client: PublicKey, limits: GateLimits, serve: fn(Connection)) -> Self {
        let own = [identity()];
        let socket = local();
        let address = socket.local_addr().expect("an address");
        let mut gate = QuicGate::new(vec![socket], Congestion::default());
        let known = KnownKeys::from([(client, None)]);
        let setup = Setup::new(&own, known, limits, gate.congestion, gate.is_open);
        let begun = gate.prepare(setup).expect("descriptors").expect("a socket");
        thread::spawn(move || begun.serve().expect("served"));
        thread::spawn(move || {
            loop {
                rustix::event::poll(
                    &mut [rustix::event::PollFd::from_borrowed_fd(
                        gate.fd().expect("a process"),
                        rustix::event::PollFlags::IN,
                    )],
                    None,
                )
                .expect("polled");
                let caller = gate.next().expect("a caller");
                let connection = caller.into_connection("guest".to_owned(), None);
                thread::spawn(move || connection.map(serve));
            }
        });
        Self { address, key: own[0].key() }
    }

    fn connect(&self, client: &Identity) -> Result<Connection, crate::ConnectError> {
        let options = ConnectOptions { via: ServerVia::Quic, ..ConnectOptions::default() };
        connect_server("box", &[self.address.into()], self.key, client, options, |_| ())
    }

    /// The first packet of an unknown caller.
    fn initial(&self) -> Vec<u8> {
        let tls = client_config(&identity(), accept_only(self.key)).expect("a configuration");
        let settings = TransportSettings {
            congestion: Congestion::Cubic,
            silence_max: None,
            packet_len_max: 1200,
        };
        let config = config::client(tls, settings).expect("a configuration");
        let own = Arc::new(config::endpoint(None).expect("a configuration"));
        let mut endpoint = Endpoint::new(own, None, true, None);
        let now = Instant::now();
        let called = endpoint.connect(now, config, self.address, "a.invalid");
        let (_, mut call) = called.expect("a call");
        let mut packet = Vec::new();
        let _ = call.poll_transmit(now, 1, &mut packet).expect("a packet");
        packet
    }
}

fn echo(connection: Connection) {
    let Connection { mut reader, mut writer, closer } = connection;
    let _ = io::copy(&mut reader, &mut writer);
    drop(writer);
    drop(closer);
}

/// The number of [`echo_counted`] that run.
static ECHOING: AtomicUsize = AtomicUsize::new(0);

fn echo_counted(connection: Connection) {
    ECHOING.fetch_add(1, Ordering::Relaxed);
    echo(connection);
    ECHOING.fetch_sub(1, Ordering::Relaxed);
}

/// Sends hello, and reads it back.
fn talk(connection: Connection) {
    let Connection { mut reader, mut writer, closer: _closer } = connection;
    writer.write_all(b"hello").expect("written");
    drop(writer);
    let mut received = Vec::new();
    reader.read_to_end(&mut received).expect("an orderly end");
    assert_eq!(received, b"hello");
}

#[test]
fn an_unknown_caller_gets_at_most_three_times_the_data_it_sent() {
    let server = Server::start(identity().key(), GateLimits::default(), echo);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
    let packet = server.initial();
    assert_eq!(packet.len(), 1200);
    socket.send_to(&packet, server.address).expect("sent");
    let (begin, mut received) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(3) {
        received += socket.recv(&mut [0; 65536]).unwrap_or(0);
    }
    assert!((1..=3 * packet.len()).contains(&received), "{received} bytes");
}

#[test]
fn with_many_open_handshakes_callers_validate_their_address_first() {
    let client = identity();
    let limits = GateLimits { handshakes_max: 8, ..GateLimits::default() };
    let server = Server::start(client.key(), limits, echo);
    // The type bits of a long header: 0 for Initial, 3 for Retry.
    let answers: Vec<u8> = (0..4)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
            socket.send_to(&server.initial(), server.address).expect("sent");
            let mut answer = [0; 65536];
            socket.recv(&mut answer).expect("an answer");
            (answer[0] >> 4) & 3
        })
        .collect();
    assert_eq!(answers, [0, 0, 3, 3]);
    talk(server.connect(&client).expect("connected"));
}

#[test]
fn handshakes_are_bounded_by_number_by_source_and_by_time() {
    let known = AcceptedKeys::default();
    let own = [identity()];
    let settings = TransportSettings {
        congestion: Congestion::Cubic,
        silence_max: None,
        packet_len_max: 1200,
    };
    let rules = |limits| {
        let tls = tls_config(&own, &known).expect("a configuration");
        let config = config::server(&tls, &own[0], settings).expect("a configuration");
        Some(Rules { config: config.into(), settings, limits })
    };
    let brief = Duration::from_millis(300);
    let limits = GateLimits { handshakes_max: 400, per_source_max: 3, handshake_max: brief };
    let endpoint = config::endpoint(own.first()).expect("a configuration");
    let mut driver = Driver::new(endpoint, rules(limits));
    let socket = local();
    let address = socket.local_addr().expect("an address");
    driver.listen(vec![socket]).expect("a socket");
    let server = Server { address, key: own[0].key() };
    let call = |driver: &mut Driver| {
        for _ in 0..6 {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.send_to(&server.initial(), address).expect("sent");
            driver.turn(&[], Some(Duration::from_secs(5))).expect("a turn");
        }
    };
    call(&mut driver);
    assert_eq!(driver.handshakes(), 3, "of one source");
    driver.set_rules(rules(GateLimits { handshakes_max: 2, per_source_max: 100, ..limits }));
    call(&mut driver);
    assert!(driver.handshakes() <= 3, "they have to show their address");
    let begin = Instant::now();
    while driver.handshakes() > 0 {
        assert!(begin.elapsed() < 4 * brief, "{} are late", driver.handshakes());
        driver.turn(&[], Some(brief)).expect("a turn");
    }
    driver.set_rules(None);
    call(&mut driver);
    assert_eq!(driver.handshakes(), 0, "it is closed");
}

/// The memory of this process, in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a process");
    let pages: usize = text.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    pages * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_attempts_cost_little_and_block_no_client() {
    let _alone = MUCH_MEMORY.lock();
    let client = identity();
    let server = Server::start(client.key(), GateLimits::default(), echo);
    let before = memory();
    let ends = AtomicBool::new(false);
    let attempts = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let sockets: Vec<UdpSocket> = (0..16)
                .map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"))
                .collect();
            let garbage: Vec<u8> = (0..1200_u32).map(|n| ((n * 31) >> 2) as u8).collect();
            let mut sent = 0;
            while sent < 10_000 || !ends.load(Ordering::Relaxed) {
                let socket = &sockets[sent % sockets.len()];
                let _ = socket.send_to(&server.initial(), server.address);
                let _ = socket.send_to(&garbage[sent % 1000..], server.address);
                sent += 1;
            }
            sent
        });
        let strangers = scope.spawn(|| {
            let stranger = identity();
            while !ends.load(Ordering::Relaxed) {
                drop(server.connect(&stranger));
            }
        });
        for _ in 0..10 {
            let begin = Instant::now();
            talk(server.connect(&client).expect("connected"));
            assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
            thread::sleep(Duration::from_millis(20));
        }
        ends.store(true, Ordering::Relaxed);
        strangers.join().expect("no panic");
        flood.join().expect("no panic")
    });
    assert!(attempts >= 10_000);
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

/// Pauses, then reads all data and sends its length.
fn read_late(connection: Connection) {
    let Connection { mut reader, mut writer, closer } = connection;
    thread::sleep(Duration::from_millis(700));
    let mut received = Vec::new();
    let read = reader.read_to_end(&mut received);
    let is_right = received.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8);
    let len = if read.is_ok() && is_right { received.len() as u64 } else { 0 };
    let _ = writer.write_all(&len.to_le_bytes());
    drop(writer);
    drop(closer);
}

#[test]
fn a_peer_that_does_not_read_blocks_the_writer_and_loses_nothing() {
    let _alone = MUCH_MEMORY.lock();
    let client = identity();
    let server = Server::start(client.key(), GateLimits::default(), read_late);
    let content: Vec<u8> = (0..128_usize << 20).map(|at| (at % 251) as u8).collect();
    let begin = Instant::now();
    let connection = server.connect(&client).expect("connected");
    let Connection { mut reader, mut writer, closer } = connection;
    writer.write_all(&content).expect("written");
    assert!(begin.elapsed() > Duration::from_millis(500), "it was buffered somewhere");
    drop(writer);
    let mut len = [0; 8];
    reader.read_exact(&mut len).expect("an answer");
    assert_eq!(u64::from_le_bytes(len), content.len() as u64);
    drop((reader, closer));
}

#[test]
fn callers_that_leave_at_once_leave_no_job_behind() {
    let client = identity();
    let server = Server::start(client.key(), GateLimits::default(), echo_counted);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..15 {
                    let connection = server.connect(&client).expect("connected");
                    let Connection { reader: _reader, mut writer, closer } = connection;
                    writer.write_all(&[7; 50_000]).expect("written");
                    drop(closer);
                }
            });
        }
    });
    // The callers before this one have reached their jobs.
    talk(server.connect(&client).expect("connected"));
    let ends = || ECHOING.load(Ordering::Relaxed) == 0;
    assert!(holds_within(Duration::from_secs(30), ends), "{ECHOING:?} wait for ever");
}

/// Records the number of bytes of the last stream that ended in order.
static ARRIVED: Mutex<Option<usize>> = Mutex::new(None);

fn count(connection: Connection) {
    let Connection { mut reader, writer: _writer, closer: _closer } = connection;
    let mut received = Vec::new();
    let read = reader.read_to_end(&mut received);
    *ARRIVED.lock() = read.ok().map(|_| received.len());
}

#[test]
fn a_connection_closes_after_all_written_data_has_arrived() {
    let client = identity();
    let server = Server::start(client.key(), GateLimits::default(), count);
    let Connection { reader, mut writer, closer } = server.connect(&client).expect("connected");
    writer.write_all(&vec![7; 4 << 20]).expect("written");
    drop((reader, writer));
    drop(closer);
    let begin = Instant::now();
    while ARRIVED.lock().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(5), "it was cut off");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(*ARRIVED.lock(), Some(4 << 20));
}

#[test]
fn packets_on_loopback_may_be_as_long_as_its_mtu() {
    let mtu = haul_sys::mtu_to((Ipv4Addr::LOCALHOST, 9).into());
    assert!(packet_len_of(mtu, false) > 1200);
}
