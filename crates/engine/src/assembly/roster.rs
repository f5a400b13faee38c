//! The lanes of a job on one side: the stage of each, and the handles that end it.
//!
//! | from              | to         | when                                              |
//! |-------------------|------------|---------------------------------------------------|
//! | `Free`            | `Connecting` | this side starts to open it                       |
//! | `Connecting`        | `Free`     | the attempt failed, and the host has not seen it  |
//! | `Connecting`        | `Spent`    | the attempt failed otherwise                      |
//! | `Free`, `Connecting`| `Joined`   | it is connected                                   |
//! | `Joined`          | `Lost`     | its connection ends before the job                |

use crate::link::wire::Outbox;
use crossbeam_channel::{Receiver, Sender, bounded};
use haul_net::{Closer, Killer, SshProcess};
use haul_proto::LANES_MAX;
use parking_lot::{Condvar, Mutex};
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a finished job waits for unfinished logins. Some servers treat an aborted login as an
/// attack: OpenSSH 9.8 and later block an address after many of those (`PerSourcePenalties`).
const LOGIN_WAIT_MAX: Duration = Duration::from_secs(1);

/// The stage of a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Free,
    Connecting,
    Joined,
    Lost,
    Spent,
}

/// The stages of all lanes. Lane numbers start at 1.
#[derive(Debug, Default)]
pub(super) struct Stages([Stage; LANES_MAX as usize]);

impl Stages {
    /// The number of lanes at `stage`.
    pub(super) fn count(&self, stage: Stage) -> usize {
        self.0.iter().filter(|at| **at == stage).count()
    }

    /// Starts a free lane; `None` if there is none.
    pub(super) fn begin(&mut self) -> Option<u8> {
        let free = self.0.iter_mut().zip(1..).find(|(at, _)| **at == Stage::Free);
        free.map(|(at, lane)| {
            *at = Stage::Connecting;
            lane
        })
    }

    /// Puts a lane at `stage`.
    pub(super) fn put(&mut self, lane: u8, stage: Stage) {
        self.0[usize::from(lane) - 1] = stage;
    }

    /// Marks the lane as joined; `false` if it had joined before.
    fn join(&mut self, lane: u8) -> bool {
        let at = &mut self.0[usize::from(lane) - 1];
        let is_new = matches!(at, Stage::Free | Stage::Connecting);
        if is_new {
            *at = Stage::Joined;
        }
        is_new
    }
}

/// The lanes of a job.
pub(super) struct Roster {
    state: Mutex<Lanes>,
    /// Notified when a login has finished.
    changed: Condvar,
    /// Disconnected once the job has ended.
    ended: Receiver<()>,
}

impl Default for Roster {
    fn default() -> Self {
        let (_channel, ended) = bounded(0);
        let end_signal = Some(EndSignal { _channel, pipes: Vec::new() });
        let state = Mutex::new(Lanes { end_signal, ..Lanes::default() });
        Self { state, changed: Condvar::new(), ended }
    }
}

#[derive(Default)]
struct Lanes {
    stages: Stages,
    handles: Vec<LaneHandles>,
    /// The loss of the last lane was reported.
    has_reported_loss: bool,
    /// Dropped, which closes its channels and pipes, when the job ends.
    end_signal: Option<EndSignal>,
}

/// The writing ends of channels and pipes, through which nothing is sent.
struct EndSignal {
    _channel: Sender<()>,
    pipes: Vec<PipeWriter>,
}

/// The handles that end the connection of a lane.
struct LaneHandles {
    lane: u8,
    killer: Killer,
    /// The queue of contents that are sent over it, once it has joined.
    outbox: Option<Arc<Outbox>>,
    /// Set for a login that has not joined; contains its ssh process, if it has one.
    login: Option<Option<SshProcess>>,
}

impl LaneHandles {
    fn end(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
            outbox.cut();
        }
        // The first kill only asks the process to end.
        self.killer.kill();
        self.killer.kill();
    }

    /// True if it is a login that the host has not accepted, as far as that is visible.
    fn is_unaccepted(&self) -> bool {
        let is_accepted = |ssh: &SshProcess| ssh.inspect(haul_sys::has_session) == Some(true);
        self.login.as_ref().is_some_and(|ssh| !ssh.as_ref().is_some_and(is_accepted))
    }
}

impl Roster {
    /// Reads or changes the stages.
    pub(super) fn stages<T>(&self, inspect: impl FnOnce(&mut Stages) -> T) -> T {
        inspect(&mut self.state.lock().stages)
    }

    /// Registers a login that has started.
    pub(super) fn begin_login(&self, lane: u8, closer: &Closer) {
        let login = Some(closer.ssh_process());
        self.add_handles(LaneHandles { lane, killer: closer.killer(), outbox: None, login });
    }

    /// Removes a login that has finished.
    pub(super) fn end_login(&self, lane: u8) {
        self.state.lock().handles.retain(|handles| handles.lane != lane);
        self.changed.notify_all();
    }

    /// Marks the lane as joined; `false` if it had joined before.
    pub(super) fn join(&self, lane: u8) -> bool {
        let mut lanes = self.state.lock();
        lanes.has_reported_loss = false;
        lanes.stages.join(lane)
    }

    /// Adds the handles that end a joined lane.
    pub(super) fn add(&self, lane: u8, killer: Killer, outbox: Option<Arc<Outbox>>) {
        self.add_handles(LaneHandles { lane, killer, outbox, login: None });
    }

    fn add_handles(&self, handles: LaneHandles) {
        let mut lanes = self.state.lock();
        match lanes.end_signal {
            None => handles.end(),
            Some(_) => lanes.handles.push(handles),
        }
    }

    /// Marks a joined lane as lost.
    pub(super) fn lose(&self, lane: u8) {
        self.stages(|stages| stages.put(lane, Stage::Lost));
    }

    /// True for the first call after a lane has joined. If several lanes are lost together, the
    /// user gets one message.
    pub(super) fn should_report_loss(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().has_reported_loss, true)
    }

    /// True if the loss of all lanes was reported, and no lane has joined since.
    pub(super) fn has_lost_all(&self) -> bool {
        self.state.lock().has_reported_loss
    }

    /// True if the job has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().end_signal.is_none()
    }

    /// A channel that is disconnected once the job has ended.
    pub(super) fn ended(&self) -> &Receiver<()> {
        &self.ended
    }

    /// A pipe that is closed once the job has ended, for use with `poll`.
    ///
    /// # Errors
    /// When no pipe can be created.
    pub(super) fn end_pipe(&self) -> io::Result<PipeReader> {
        let (end, pipe) = io::pipe()?;
        if let Some(end_signal) = &mut self.state.lock().end_signal {
            end_signal.pipes.push(pipe);
        }
        Ok(end)
    }

    /// Disconnects all lanes, and those that join later. If the job is done, it waits up to
    /// [`LOGIN_WAIT_MAX`] for logins that are not accepted yet.
    pub(super) fn hang_up(&self, is_done: bool) {
        let mut lanes = self.state.lock();
        lanes.end_signal = None;
        let deadline = Instant::now() + LOGIN_WAIT_MAX;
        while is_done
            && lanes.handles.iter().any(LaneHandles::is_unaccepted)
            && Instant::now() < deadline
        {
            self.changed.wait_for(&mut lanes, POLL_INTERVAL);
        }
        lanes.handles.iter().for_each(LaneHandles::end);
    }
}

/// The interval at which the remaining content is checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_end_of_a_job_wakes_all_waiters() {
        let roster = Roster::default();
        let wait = |timeout| roster.ended().recv_timeout(timeout).expect_err("nothing comes");
        assert!(wait(Duration::ZERO).is_timeout() && !roster.has_ended());
        let pipes = [(); 2].map(|()| roster.end_pipe().expect("a pipe"));
        roster.hang_up(false);
        assert!(wait(Duration::from_secs(60)).is_disconnected() && roster.has_ended());
        let late = roster.end_pipe().expect("a pipe");
        for mut pipe in pipes.into_iter().chain([late]) {
            assert_eq!(pipe.read(&mut [0]).expect("read"), 0, "it is closed");
        }
    }

    #[test]
    fn lanes_lost_together_are_reported_once() {
        let roster = Roster::default();
        for lanes in [[1, 2], [3, 4]] {
            assert!(lanes.iter().all(|lane| roster.join(*lane)));
            assert_eq!(lanes.map(|_| roster.should_report_loss()), [true, false]);
        }
    }

    #[test]
    fn a_lane_number_joins_only_once() {
        let mut stages = Stages::default();
        assert_eq!([(); 3].map(|()| stages.begin()), [Some(1), Some(2), Some(3)]);
        stages.put(2, Stage::Free);
        stages.put(3, Stage::Spent);
        assert_eq!(stages.begin(), Some(2), "nobody has heard of it");
        assert!(stages.join(1) && !stages.join(1));
        stages.put(1, Stage::Lost);
        assert!(!stages.join(1) && !stages.join(3));
        assert!(stages.join(LANES_MAX), "the other side has begun it");
        let free = std::iter::from_fn(|| stages.begin()).collect::<Vec<_>>();
        assert_eq!(free, [4, 5, 6]);
    }
}
