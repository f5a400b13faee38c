//! Callers at a port that is open for one client. A caller that presents the client's key and names
//! its lane is accepted. Others are disconnected without an explanation.

use crate::control::CANCEL_POLL;
use crate::link::greeting::read_message;
use haul_net::{Direct, DirectCaller, DirectListener, Killer};
use haul_proto::{Join, LANES_MAX, Message};
use parking_lot::Mutex;
use std::io::{self, PipeReader};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time for a caller with the right key to name its lane.
const JOIN_MAX: Duration = Duration::from_secs(5);

/// The most callers whose keys are being checked. A further caller displaces one of them
/// ([`PendingCallers::next_to_displace`]).
const CALLERS_MAX: usize = 16;

/// The most threads, including those of disconnected callers that have not ended yet.
const THREADS_MAX: usize = 2 * CALLERS_MAX;

/// The interval at which it checks for ended threads.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Accepts callers with the client's key, while `is_running` and not all lanes are taken. Each lane
/// is passed to `take` once, on its own thread, and is not disconnected afterwards. When `ended` is
/// closed, `is_running` is checked at once.
pub(crate) fn accept(
    listener: &DirectListener,
    ended: Option<&PipeReader>,
    is_running: &(dyn Fn() -> bool + Sync),
    take: &(dyn Fn(u8, Direct) -> io::Result<()> + Sync),
) {
    let callers: Mutex<PendingCallers<Killer>> = Mutex::default();
    let taken: Mutex<u8> = Mutex::new(0);
    let threads = AtomicUsize::new(0);
    let mut number = 0;
    std::thread::scope(|scope| {
        while is_running() && *taken.lock() != u8::MAX - 1 {
            if threads.load(Ordering::Relaxed) >= THREADS_MAX {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            let caller = match listener.accept_within(CANCEL_POLL, ended) {
                Ok(Some(caller)) => caller,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(%error, "could not read from a caller");
                    std::thread::sleep(CANCEL_POLL);
                    continue;
                }
            };
            let Ok(killer) = caller.killer() else { continue };
            number += 1;
            let from = NetworkPrefix::of(caller.from());
            let has_greeted = caller.has_greeted();
            let displaced = callers.lock().add(PendingCaller { number, from, has_greeted, killer });
            if let Some(killer) = displaced {
                killer.kill();
            }
            let (callers, taken, threads) = (&callers, &taken, &threads);
            let accept = move || {
                let known = identify(caller, is_running, taken);
                callers.lock().0.retain(|caller| caller.number != number);
                if let Err(end) = known.and_then(|(lane, direct)| take(lane, direct)) {
                    tracing::debug!(reason = %end, "refused a caller");
                }
                threads.fetch_sub(1, Ordering::Relaxed);
            };
            threads.fetch_add(1, Ordering::Relaxed);
            let begun =
                std::thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, accept);
            if begun.is_err() {
                threads.fetch_sub(1, Ordering::Relaxed);
            }
        }
        callers.lock().0.iter().for_each(|caller| caller.killer.kill());
    });
}

/// Callers whose keys are not checked yet, in the order of their calls.
struct PendingCallers<K>(Vec<PendingCaller<K>>);

struct PendingCaller<K> {
    number: usize,
    from: NetworkPrefix,
    /// It has sent a valid greeting.
    has_greeted: Arc<AtomicBool>,
    /// Disconnects the caller.
    killer: K,
}

/// The part of an address that its owner can't choose freely.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NetworkPrefix(u128);

impl NetworkPrefix {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_bits().into()),
            // A host has all addresses of its network, which differ in the lower half.
            IpAddr::V6(address) => Self(address.to_bits() & (u128::MAX << 64)),
        }
    }
}

impl<K> Default for PendingCallers<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K> PendingCallers<K> {
    /// Adds a new caller. If there are too many, returns the handle that disconnects one of them,
    /// possibly the new one.
    fn add(&mut self, caller: PendingCaller<K>) -> Option<K> {
        self.0.push(caller);
        let is_full = self.0.len() > CALLERS_MAX;
        let last = is_full.then(|| self.next_to_displace()).flatten();
        last.map(|at| self.0.remove(at).killer)
    }

    /// The caller to disconnect. Candidates are silent callers, and callers from a neighbourhood
    /// with more callers than a client has lanes. Among these, the largest neighbourhood counts
    /// first, then silence, then the order of the calls. So silent callers never displace a client
    /// that has greeted. Callers from elsewhere displace a silent client only if they come from
    /// many places.
    fn next_to_displace(&self) -> Option<usize> {
        let rank = |caller: &PendingCaller<K>| {
            let crowd = self.0.iter().filter(|other| other.from == caller.from).count();
            let is_silent = !caller.has_greeted.load(Ordering::Relaxed);
            (is_silent || crowd > LANES_MAX.into(), crowd, is_silent)
        };
        let ranks: Vec<_> = self.0.iter().map(rank).collect();
        let last = ranks.iter().max()?;
        ranks.iter().position(|rank| rank == last)
    }
}

/// Finds the lane of a caller, if it is the client.
fn identify(
    caller: DirectCaller,
    is_running: &dyn Fn() -> bool,
    taken: &Mutex<u8>,
) -> io::Result<(u8, Direct)> {
    let mut direct = caller.identify(is_running)?;
    direct.set_timeout(Some(JOIN_MAX))?;
    let joins = read_message(&mut direct);
    direct.set_timeout(None)?;
    let Message::Join(Join { lane: lane @ 1..=LANES_MAX, .. }) = joins? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut taken = taken.lock();
    if *taken & (1 << lane) != 0 {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    *taken |= 1 << lane;
    Ok((lane, direct))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: usize = 0;

    fn call(
        callers: &mut PendingCallers<usize>,
        number: usize,
        from: &str,
        greets: bool,
    ) -> Option<usize> {
        let from = NetworkPrefix::of(from.parse().expect("an address"));
        let has_greeted = Arc::new(AtomicBool::new(greets));
        callers.add(PendingCaller { number, from, has_greeted, killer: number })
    }

    /// Lets the client call from 192.0.2.1, then many strangers from these addresses. Returns true
    /// if the client is displaced.
    fn is_displaced(client_greets: bool, strangers: &[(&str, bool)]) -> bool {
        let mut callers = PendingCallers::default();
        assert_eq!(call(&mut callers, CLIENT, "192.0.2.1", client_greets), None);
        let all = (1..1000).zip(strangers.iter().cycle());
        let mut displaced = all.filter_map(|(number, (from, greets))| {
            let displaced = call(&mut callers, number, from, *greets);
            assert!(callers.0.len() <= CALLERS_MAX);
            displaced
        });
        displaced.any(|number| number == CLIENT)
    }

    #[test]
    fn silent_strangers_do_not_displace_a_client_that_has_greeted() {
        assert!(!is_displaced(true, &[("192.0.2.1", false)]));
        assert!(!is_displaced(true, &[("192.0.2.1", false), ("192.0.2.2", false)]));
        assert!(is_displaced(false, &[("192.0.2.1", false)]), "nothing tells it from them");
    }

    #[test]
    fn strangers_from_elsewhere_displace_each_other() {
        assert!(!is_displaced(false, &[("192.0.2.2", false)]));
        assert!(!is_displaced(false, &[("192.0.2.2", true)]));
        assert!(!is_displaced(true, &[("192.0.2.2", true)]));
        assert!(!is_displaced(true, &[("192.0.2.2", true), ("192.0.2.3", false)]));
        // One host has all of these addresses.
        assert!(!is_displaced(false, &[("2001:db8::1", false), ("2001:db8::2", false)]));
        assert!(!is_displaced(false, &[("::ffff:192.0.2.2", false), ("192.0.2.2", false)]));
    }

    #[test]
    fn a_client_gets_a_place_although_one_neighbour_has_taken_all() {
        let mut callers = PendingCallers::default();
        for number in 1..100 {
            call(&mut callers, number, "192.0.2.2", true);
        }
        let displaced = call(&mut callers, CLIENT, "192.0.2.1", false);
        assert!(displaced.is_some_and(|number| number != CLIENT), "{displaced:?}");
    }

    #[test]
    fn silent_strangers_displace_no_lane_of_a_client() {
        let mut callers = PendingCallers::default();
        for lane in 0..usize::from(LANES_MAX) {
            call(&mut callers, lane, "192.0.2.1", true);
        }
        for number in 100..200 {
            let displaced = call(&mut callers, number, &format!("198.51.100.{number}"), false);
            assert!(displaced.is_none_or(|number| number >= 100), "{displaced:?}");
        }
    }

    #[test]
    fn among_equal_callers_the_first_is_displaced() {
        let mut callers = PendingCallers::default();
        let displaced =
            (0..2 * CALLERS_MAX).filter_map(|number| call(&mut callers, number, "192.0.2.1", true));
        assert_eq!(displaced.collect::<Vec<_>>(), Vec::from_iter(0..CALLERS_MAX));
    }
}
