//! A port that the agent opens for measuring direct connections, until the client leaves or starts
//! a job.

use super::flow::{receive_filler, send_filler};
use crate::callers::accept;
use crate::link::greeting::read_message;
use haul_net::{Direct, Killer, ListenTarget};
use haul_proto::{DirectOffer, DirectWish, Measure, Measured, Message, encode};
use parking_lot::Mutex;
use std::io::{self, PipeWriter, Write};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The longest pause between two measurements before the client is disconnected.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// An open port. It closes when this is dropped.
pub(super) struct DirectPort {
    joined: Arc<Joined>,
    thread: Option<JoinHandle<()>>,
    /// Dropped to end the wait for callers.
    runs: Option<PipeWriter>,
}

/// Accepted connections, and whether the port is closed.
#[derive(Default)]
struct Joined(Mutex<(Vec<Killer>, bool)>);

impl Joined {
    fn is_closed(&self) -> bool {
        self.0.lock().1
    }
}

impl DirectPort {
    /// Opens a port for a client with this `wish`.
    ///
    /// # Errors
    /// A message, when no port can be opened.
    pub(super) fn open(
        wish: &DirectWish,
        way: &ListenTarget,
    ) -> Result<(Self, DirectOffer), String> {
        let open = || {
            let listener = way.open(wish.ports, wish.key)?;
            let offer = DirectOffer { address: listener.address(), key: listener.key() };
            let joined = Arc::<Joined>::default();
            let held = Arc::clone(&joined);
            let (ended, runs) = io::pipe()?;
            let serve = move || {
                let is_running = || !held.is_closed();
                accept(&listener, Some(&ended), &is_running, &|_, direct| serve(direct, &held));
            };
            let thread = Some(Builder::new().name("door".to_owned()).spawn(serve)?);
            Ok((Self { joined, thread, runs: Some(runs) }, offer))
        };
        open().map_err(|error: io::Error| format!("the host can't open a port: {error}"))
    }
}

impl Drop for DirectPort {
    fn drop(&mut self) {
        let killers = {
            let mut joined = self.joined.0.lock();
            joined.1 = true;
            std::mem::take(&mut joined.0)
        };
        killers.iter().for_each(Killer::kill);
        self.runs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers the client's measurements on a direct connection, until it leaves.
fn serve(mut direct: Direct, joined: &Joined) -> io::Result<()> {
    let killer = direct.killer()?;
    {
        let mut joined = joined.0.lock();
        if joined.1 {
            return Ok(());
        }
        joined.0.push(killer);
    }
    direct.set_timeout(Some(IDLE_MAX))?;
    loop {
        let Message::Measure(Measure::Flow(flow)) = read_message(&mut direct)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if flow.to_agent {
            let amount = receive_filler(flow, &mut direct)?;
            direct.write_all(&encode(&Message::Measured(Measured::Flow(amount))))?;
        } else {
            send_filler(flow, |frame| direct.write_all(frame))?;
        }
        direct.flush()?;
    }
}
