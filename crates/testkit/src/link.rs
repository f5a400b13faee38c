//! A link to an ssh server or a haul server that can be slow, silent, cut, or damage what it
//! carries: a proxy on loopback, for TCP and UDP on one port. What passes is counted.

mod datagrams;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::datagrams::Flow;
use crate::{Sshd, failed};

/// Ports that are tried until one is free for TCP and UDP.
const PORTS_MAX: usize = 100;

/// How often a piece that waits for its turn is looked at: the rate may be another by then.
const PACE_POLL: Duration = Duration::from_millis(10);

/// A proxy in front of a server. Dropping it refuses further connections and cuts those
/// that stand.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The connections that stand.
    open: Mutex<Vec<Pair>>,
    /// The clients that send datagrams.
    flows: Mutex<Vec<Flow>>,
    /// Bytes that have passed towards the server, and from it.
    passed: [AtomicU64; 2],
    connections: AtomicU64,
    /// The pieces that are still to be damaged, towards the server and from it.
    damage: [AtomicU64; 2],
    is_down: AtomicBool,
    is_over: AtomicBool,
    pace: Mutex<Pace>,
}

/// Bytes a second in each direction; 0 is as fast as it can.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    rate: u64,
    /// How many bytes have passed in a direction when the rate is another, and that one.
    then: Option<(u64, u64)>,
}

/// The two ends of a connection.
#[derive(Debug)]
struct Pair {
    ends: [TcpStream; 2],
    /// Nothing passes any more.
    silent: Arc<AtomicBool>,
}

impl Link {
    /// A link to `server`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn to(server: &Sshd) -> io::Result<Link> {
        Link::to_address((Ipv4Addr::LOCALHOST, server.port()).into())
    }

    /// A link to the server at `far`, by TCP and UDP.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn to_address(far: SocketAddr) -> io::Result<Link> {
        let (listener, datagrams) = one_port()?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        thread::Builder::new().name("link".into()).spawn(move || {
            for near in listener.incoming().flatten() {
                if seen.is_over.load(Ordering::Relaxed) {
                    return;
                }
                if !seen.is_down.load(Ordering::Relaxed) {
                    let _ = seen.join(near, far);
                }
            }
        })?;
        datagrams::carry(Arc::clone(&shared), datagrams, far)?;
        Ok(Link { address, shared })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The options with which `ssh` goes through it, behind those of [`Sshd::rsh`].
    pub fn rsh(&self, server: &Sshd) -> String {
        // The server's key is known by the port that it listens on itself.
        let alias = format!("[127.0.0.1]:{}", server.port());
        let port = self.address.port();
        format!("{} -oPort={port} -oHostKeyAlias={alias} -oCheckHostIP=no", server.rsh())
    }

    /// Lets so many bytes through in a second, in each direction.
    pub fn limit(&self, rate: u64) {
        *self.shared.pace() = Pace { rate, then: None };
    }

    /// The same, and another number of them in a direction in which `bytes` have passed:
    /// whoever waits for that comes in time, however late.
    pub fn limit_behind(&self, rate: u64, bytes: u64, then: u64) {
        *self.shared.pace() = Pace { rate, then: Some((bytes, then)) };
    }

    /// Ends every connection: both sides see it. What sends datagrams has no connection to be
    /// ended, and falls silent.
    pub fn cut(&self) {
        for pair in self.shared.open().drain(..) {
            pair.silent.store(true, Ordering::Relaxed);
            for end in &pair.ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.shared.flows().iter().for_each(Flow::silence);
    }

    /// Ends every connection for the client alone: the server notices nothing.
    pub fn cut_client_side(&self) {
        for pair in self.shared.open().iter() {
            pair.silent.store(true, Ordering::Relaxed);
            let _ = pair.ends[0].shutdown(Shutdown::Both);
        }
        self.shared.flows().iter().for_each(Flow::silence);
    }

    /// Ends the direction to the client of every connection, and lets nothing more through the
    /// other one: only the client notices.
    pub fn cut_half(&self) {
        for pair in self.shared.open().iter() {
            pair.silent.store(true, Ordering::Relaxed);
            let _ = pair.ends[0].shutdown(Shutdown::Write);
        }
        self.shared.flows().iter().for_each(Flow::silence);
    }

    /// Lets nothing more through the connections that stand; neither side sees why. New
    /// ones work.
    pub fn silence(&self) {
        self.shared.open().iter().for_each(|pair| pair.silent.store(true, Ordering::Relaxed));
        self.shared.flows().iter().for_each(Flow::silence);
    }

    /// Changes a byte in each of the next pieces that pass: so many towards the server, and so
    /// many from it. A datagram is a piece.
    pub fn damage(&self, pieces: [u64; 2]) {
        for (left, pieces) in self.shared.damage.iter().zip(pieces) {
            left.store(pieces, Ordering::Relaxed);
        }
    }

    /// True once all pieces are damaged that were to be.
    pub fn has_damaged(&self) -> bool {
        self.shared.damage.iter().all(|left| left.load(Ordering::Relaxed) == 0)
    }

    /// Sends the datagrams of all clients from another address from now on, as if these had
    /// gone to another network. Answers to the old address are lost.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn roam(&self) -> io::Result<()> {
        self.shared.flows().iter_mut().try_for_each(|flow| flow.roam(&self.shared))
    }

    /// Takes no connections, or takes them again. Those that come meanwhile are closed.
    pub fn take_down(&self, down: bool) {
        self.shared.is_down.store(down, Ordering::Relaxed);
    }

    /// Bytes that have passed towards the server, and from it.
    pub fn passed(&self) -> [u64; 2] {
        [0, 1].map(|direction| self.shared.passed[direction].load(Ordering::Relaxed))
    }

    /// Connections that were made through it; of datagrams, the addresses that have sent some.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the one who takes connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// A port for TCP and for UDP.
fn one_port() -> io::Result<(TcpListener, UdpSocket)> {
    for _ in 0..PORTS_MAX {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(failed("no port is free for TCP and UDP"))
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<Pair>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flows(&self) -> std::sync::MutexGuard<'_, Vec<Flow>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>, near: TcpStream, far: SocketAddr) -> io::Result<()> {
        let far = TcpStream::connect(far)?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let silent = Arc::new(AtomicBool::new(false));
        for direction in 0..2 {
            let (from, to) = match direction {
                0 => (near.try_clone()?, far.try_clone()?),
                _ => (far.try_clone()?, near.try_clone()?),
            };
            let (shared, silent) = (Arc::clone(self), Arc::clone(&silent));
            thread::spawn(move || shared.carry(from, to, direction, &silent));
        }
        self.open().push(Pair { ends: [near, far], silent });
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, direction: usize, silent: &AtomicBool) {
        let mut buffer = vec![0; 16 << 10];
        let mut carry = || -> io::Result<()> {
            loop {
                let len = from.read(&mut buffer)?;
                if silent.load(Ordering::Relaxed) {
                    // What is read is lost, and nobody hears of an end, either.
                    return Err(failed("silent"));
                }
                if len == 0 {
                    return Ok(());
                }
                self.damage_piece(direction, &mut buffer[..len]);
                to.write_all(&buffer[..len])?;
                self.count(direction, len);
            }
        };
        let _ = carry();
        if !silent.load(Ordering::Relaxed) {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        }
    }

    /// Damages a piece, if one is to be damaged.
    fn damage_piece(&self, direction: usize, piece: &mut [u8]) {
        let (left, relaxed) = (&self.damage[direction], Ordering::Relaxed);
        let is_due = left.fetch_update(relaxed, relaxed, |left| left.checked_sub(1)).is_ok();
        let middle = piece.len() / 2;
        if let Some(byte) = piece.get_mut(middle).filter(|_| is_due) {
            *byte ^= 0x55;
        }
    }

    /// Counts a piece of `len` bytes that has passed, and waits until the next one may.
    fn count(&self, direction: usize, len: usize) {
        let len = len as u64;
        let passed = self.passed[direction].fetch_add(len, Ordering::Relaxed) + len;
        let begin = Instant::now();
        loop {
            let pace = *self.pace();
            let rate = match pace.then {
                Some((bytes, then)) if passed >= bytes => then,
                _ => pace.rate,
            };
            if rate == 0 || self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let wait = Duration::from_secs_f64(len as f64 / rate as f64);
            let left = wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(PACE_POLL));
        }
    }
}
