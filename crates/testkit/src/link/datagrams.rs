//! The datagrams of a link. Each client has a socket of its own towards the server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Shared;

/// How often a thread without datagrams looks whether the link is over.
const OVER_POLL: Duration = Duration::from_millis(100);

/// The largest datagram, in bytes.
const LEN_MAX: usize = 1 << 16;

/// The addresses from which clients reach the server, before they roam and after.
const NEAR: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ROAMING: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A client.
#[derive(Debug)]
pub(super) struct Flow {
    client: SocketAddr,
    /// The socket that the client's side of the link is.
    front: Arc<UdpSocket>,
    /// Connected to the server.
    back: Arc<UdpSocket>,
    /// Nothing passes any more.
    silent: Arc<AtomicBool>,
}

impl Flow {
    fn new(
        shared: &Arc<Shared>,
        client: SocketAddr,
        front: &Arc<UdpSocket>,
        (from, far): (IpAddr, SocketAddr),
    ) -> io::Result<Self> {
        let back = UdpSocket::bind((from, 0))?;
        back.connect(far)?;
        back.set_read_timeout(Some(OVER_POLL))?;
        let (front, back) = (Arc::clone(front), Arc::new(back));
        let flow = Flow { client, front, back, silent: Arc::default() };
        let (shared, seen) = (Arc::clone(shared), flow.share());
        thread::Builder::new().name("link".into()).spawn(move || seen.answer(&shared))?;
        Ok(flow)
    }

    fn share(&self) -> Self {
        let Self { client, front, back, silent } = self;
        let (front, back, silent) = (Arc::clone(front), Arc::clone(back), Arc::clone(silent));
        Self { client: *client, front, back, silent }
    }

    pub(super) fn silence(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    pub(super) fn roam(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        let far = self.back.peer_addr()?;
        let roaming = Flow::new(shared, self.client, &self.front, (ROAMING.into(), far))?;
        std::mem::replace(self, roaming).silence();
        Ok(())
    }

    fn is_silent(&self, shared: &Shared) -> bool {
        self.silent.load(Ordering::Relaxed) || shared.is_down.load(Ordering::Relaxed)
    }

    /// Carries datagrams from the server.
    fn answer(&self, shared: &Shared) {
        let mut bytes = vec![0; LEN_MAX];
        while !shared.is_over.load(Ordering::Relaxed) {
            // A server that does not listen is one that is silent.
            let Ok(len) = self.back.recv(&mut bytes) else { continue };
            if !self.is_silent(shared) {
                shared.damage_piece(1, &mut bytes[..len]);
                let _ = self.front.send_to(&bytes[..len], self.client);
                shared.count(1, len);
            }
        }
    }
}

/// Carries datagrams between the clients of `front` and the server at `far` until the link is
/// over.
pub(super) fn carry(shared: Arc<Shared>, front: UdpSocket, far: SocketAddr) -> io::Result<()> {
    front.set_read_timeout(Some(OVER_POLL))?;
    let front = Arc::new(front);
    let run = move || {
        let mut bytes = vec![0; LEN_MAX];
        while !shared.is_over.load(Ordering::Relaxed) {
            let Ok((len, client)) = front.recv_from(&mut bytes) else { continue };
            let Ok(flow) = flow_of(&shared, client, &front, far) else { continue };
            if !flow.is_silent(&shared) {
                shared.damage_piece(0, &mut bytes[..len]);
                let _ = flow.back.send(&bytes[..len]);
                shared.count(0, len);
            }
        }
    };
    thread::Builder::new().name("link".into()).spawn(run).map(drop)
}

fn flow_of(
    shared: &Arc<Shared>,
    client: SocketAddr,
    front: &Arc<UdpSocket>,
    far: SocketAddr,
) -> io::Result<Flow> {
    let mut flows = shared.flows();
    if let Some(flow) = flows.iter().find(|flow| flow.client == client) {
        return Ok(flow.share());
    }
    let flow = Flow::new(shared, client, front, (NEAR.into(), far))?;
    let shares = flow.share();
    flows.push(flow);
    shared.connections.fetch_add(1, Ordering::Relaxed);
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;
    use std::time::Instant;

    /// A server that says who has sent what, and a client of it through a link.
    fn echo() -> (UdpSocket, UdpSocket, Link) {
        let socket = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
            socket
        };
        let (server, client) = (socket(), socket());
        let link = Link::to_address(server.local_addr().expect("an address")).expect("a link");
        client.connect(link.address()).expect("connected");
        (server, client, link)
    }

    /// The datagram that arrives at the server, and the one that its answer is.
    fn said(server: &UdpSocket, client: &UdpSocket) -> Option<(IpAddr, Vec<u8>, Vec<u8>)> {
        client.send(b"word").expect("sent");
        let (mut there, mut back) = ([0; 8], [0; 8]);
        let (len, from) = server.recv_from(&mut there).ok()?;
        server.send_to(&there[..len], from).expect("sent");
        let answered = client.recv(&mut back).ok()?;
        Some((from.ip(), there[..len].to_vec(), back[..answered].to_vec()))
    }

    #[test]
    fn datagrams_pass_are_damaged_roam_and_are_lost() {
        let (server, client, link) = echo();
        let whole = || b"word".to_vec();
        assert_eq!(said(&server, &client), Some((NEAR.into(), whole(), whole())));
        link.damage([1, 0]);
        let (_, there, back) = said(&server, &client).expect("both pass");
        assert!(there != whole() && back == there);
        assert!(link.has_damaged());
        // The last one is counted when it has been sent.
        let begun = Instant::now();
        while link.passed() != [8, 8] && begun.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(link.passed(), [8, 8]);
        link.roam().expect("another address");
        assert_eq!(said(&server, &client), Some((ROAMING.into(), whole(), whole())));
        link.silence();
        assert_eq!(said(&server, &client), None);
        let another = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        another.connect(link.address()).expect("connected");
        another.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        assert_eq!(said(&server, &another), Some((NEAR.into(), whole(), whole())));
        assert_eq!(link.connections(), 2);
    }
}
