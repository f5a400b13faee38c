//! Callers at a port that is open for one client: who has its key, and says which lane he
//! is, is let in. The others are hung up on, and learn nothing.

use crate::control::CANCEL_POLL;
use crate::link::greeting::read_message;
use crate::link::wire::ReadEnd;
use haul_net::{Direct, DirectCaller, DirectListener, Killer};
use haul_proto::{Join, LANES_MAX, Message};
use haul_tree::lock;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a caller who is known may take to say which lane it is.
const JOIN_MAX: Duration = Duration::from_secs(5);

/// Callers whose keys are being looked at; a further one takes the place of the first.
const CALLERS_MAX: usize = 16;

/// The same with those that were hung up on, and whose threads have not noticed yet.
const THREADS_MAX: usize = 2 * CALLERS_MAX;

/// How often is looked whether they have.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Lets in who has the client's key, as long as that `goes_on` and not all lanes are taken.
/// Each lane is given to `take` once, on a thread of its own, and nobody hangs up on it any
/// more.
pub(crate) fn let_in(
    listener: &DirectListener,
    goes_on: &(dyn Fn() -> bool + Sync),
    take: &(dyn Fn(u8, Direct) -> io::Result<()> + Sync),
) {
    let callers: Mutex<Vec<(usize, Killer)>> = Mutex::default();
    let taken: Mutex<u8> = Mutex::new(0);
    let threads = AtomicUsize::new(0);
    let mut number = 0;
    std::thread::scope(|scope| {
        while goes_on() && *lock(&taken) != u8::MAX - 1 {
            if threads.load(Ordering::Relaxed) >= THREADS_MAX {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            let caller = match listener.accept_within(CANCEL_POLL) {
                Ok(Some(caller)) => caller,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(%error, "a caller is not heard");
                    std::thread::sleep(CANCEL_POLL);
                    continue;
                }
            };
            let Ok(killer) = caller.killer() else { continue };
            number += 1;
            {
                let mut callers = lock(&callers);
                if callers.len() >= CALLERS_MAX {
                    callers.remove(0).1.kill();
                }
                callers.push((number, killer));
            }
            let (callers, taken, threads) = (&callers, &taken, &threads);
            let let_in = move || {
                let known = identify(caller, goes_on, taken);
                lock(callers).retain(|(other, _)| *other != number);
                if let Err(end) = known.and_then(|(lane, direct)| take(lane, direct)) {
                    tracing::debug!(reason = %end, "a caller is not let in");
                }
                threads.fetch_sub(1, Ordering::Relaxed);
            };
            threads.fetch_add(1, Ordering::Relaxed);
            let begun =
                std::thread::Builder::new().name("caller".to_owned()).spawn_scoped(scope, let_in);
            if begun.is_err() {
                threads.fetch_sub(1, Ordering::Relaxed);
            }
        }
        lock(&callers).iter().for_each(|(_, killer)| killer.kill());
    });
}

/// Finds out which lane a caller is, if it is the client.
fn identify(
    caller: DirectCaller,
    goes_on: &dyn Fn() -> bool,
    taken: &Mutex<u8>,
) -> io::Result<(u8, Direct)> {
    let mut direct = caller.identify(goes_on)?;
    direct.set_patience(Some(JOIN_MAX))?;
    let joins = read_message(&mut direct);
    direct.set_patience(None)?;
    let lane = match joins {
        Ok(Message::Join(Join { lane: lane @ 1..=LANES_MAX, .. })) => lane,
        Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
        Err(ReadEnd::Lost(error)) => return Err(error),
        Err(ReadEnd::Refused(error)) => return Err(io::Error::other(error.to_string())),
    };
    let mut taken = lock(taken);
    if *taken & (1 << lane) != 0 {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    *taken |= 1 << lane;
    Ok((lane, direct))
}
