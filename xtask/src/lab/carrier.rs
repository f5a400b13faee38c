//! Carries packets between two tun devices, as a [`Shaper`] says: for each
//! direction a thread that reads and one that waits and writes.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tun::Device;

use super::link::Link;
use super::shaper::{Fate, Shaper};

/// How often a thread without packets looks whether it is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The niceness of the threads. What they measure is time, and the hosts' own
/// work must not keep them from it.
const NICENESS: i32 = -15;

/// A link at work. Dropping it ends the threads and closes the devices, which
/// are gone then.
pub(crate) struct Carrier {
    stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A packet on its way, and when it arrives.
type InFlight = (Instant, Vec<u8>);

impl Carrier {
    /// Begins to carry, both ways.
    pub(crate) fn start(link: &Link, one: Device, other: Device) -> Carrier {
        let (one, other) = (Arc::new(one), Arc::new(other));
        let stopped = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (seed, (from, to)) in
            [(Arc::clone(&one), Arc::clone(&other)), (other, one)].into_iter().enumerate()
        {
            let shaper = Shaper::new(link, seed as u64);
            // Bounded by the shaper: what its queue holds and what is on its way.
            let (sender, receiver) = mpsc::channel();
            let (mtu, is_stopped) = (link.mtu, Arc::clone(&stopped));
            threads.push(thread::spawn(move || read(&from, mtu, shaper, &sender, &is_stopped)));
            let is_stopped = Arc::clone(&stopped);
            threads.push(thread::spawn(move || write(&to, &receiver, &is_stopped)));
        }
        Carrier { stopped, threads }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Reads packets as they come and sends those on their way that arrive.
fn read(
    from: &Device,
    mtu: u16,
    mut shaper: Shaper,
    sent: &Sender<InFlight>,
    stopped: &AtomicBool,
) {
    raise_priority();
    let begin = Instant::now();
    let mut packet = vec![0; usize::from(mtu)];
    while !stopped.load(Ordering::Relaxed) {
        let len = match from.recv_timeout(&mut packet, POLL_INTERVAL) {
            Ok(len) => len,
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::Interrupted) => continue,
            // The device is gone, and the link with it.
            Err(_) => return,
        };
        if let Fate::Arrives(at) = shaper.send(begin.elapsed(), len)
            && sent.send((begin + at, packet[..len].to_vec())).is_err()
        {
            return;
        }
    }
}

/// Waits for each packet's time and hands it over.
fn write(to: &Device, sent: &Receiver<InFlight>, stopped: &AtomicBool) {
    raise_priority();
    for (at, packet) in sent {
        while let Some(remaining) = at.checked_duration_since(Instant::now())
            && !stopped.load(Ordering::Relaxed)
        {
            thread::sleep(remaining.min(POLL_INTERVAL));
        }
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        // A host that does not take it has lost it, as hosts may.
        let _ = to.send(&packet);
    }
}

/// On Linux each thread has a niceness of its own. Where it can't be lowered,
/// the link is as punctual as the machine lets it be.
fn raise_priority() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
