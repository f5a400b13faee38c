//! The lanes of a job on one side: the stage of each, and what hangs up on it.
//!
//! | from              | to         | when                                                |
//! |-------------------|------------|-----------------------------------------------------|
//! | `Free`            | `OnItsWay` | this side begins to open it                         |
//! | `OnItsWay`        | `Free`     | it came to nothing, and the host has not heard of it |
//! | `OnItsWay`        | `Spent`    | it came to nothing otherwise                        |
//! | `Free`, `OnItsWay`| `Joined`   | it is connected                                     |
//! | `Joined`          | `Lost`     | its connection ends before the job                  |

use super::opening::LOOK_AGAIN;
use crate::link::wire::Outbox;
use crossbeam_channel::{Receiver, Sender, bounded};
use haul_net::{Closer, Killer, Onlooker};
use haul_proto::LANES_MAX;
use parking_lot::{Condvar, Mutex};
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a job that is done waits for logins that have not finished. Some servers treat a
/// login that is cut off as an attack: OpenSSH 9.8 and later refuse an address after many of
/// those (`PerSourcePenalties`).
const LOGIN_WAIT_MAX: Duration = Duration::from_secs(1);

/// How far a lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Free,
    OnItsWay,
    Joined,
    Lost,
    Spent,
}

/// The stages of all lanes, by their numbers from 1 on.
#[derive(Debug, Default)]
pub(super) struct Stages([Stage; LANES_MAX as usize]);

impl Stages {
    /// The number of lanes at `stage`.
    pub(super) fn count(&self, stage: Stage) -> usize {
        self.0.iter().filter(|at| **at == stage).count()
    }

    /// Begins a free lane; `None` if there is none.
    pub(super) fn begin(&mut self) -> Option<u8> {
        let free = self.0.iter_mut().zip(1..).find(|(at, _)| **at == Stage::Free);
        free.map(|(at, lane)| {
            *at = Stage::OnItsWay;
            lane
        })
    }

    /// Puts a lane at `stage`.
    pub(super) fn put(&mut self, lane: u8, stage: Stage) {
        self.0[usize::from(lane) - 1] = stage;
    }

    /// The lane joins; `false` if it had joined before.
    fn join(&mut self, lane: u8) -> bool {
        let at = &mut self.0[usize::from(lane) - 1];
        let is_new = matches!(at, Stage::Free | Stage::OnItsWay);
        if is_new {
            *at = Stage::Joined;
        }
        is_new
    }
}

/// The lanes of a job.
pub(super) struct Roster {
    state: Mutex<Lanes>,
    /// A login is on its way no more.
    changed: Condvar,
    /// Disconnected once the job has ended.
    ended: Receiver<()>,
}

impl Default for Roster {
    fn default() -> Self {
        let (_channel, ended) = bounded(0);
        let runs = Some(Runs { _channel, pipes: Vec::new() });
        let state = Mutex::new(Lanes { runs, ..Lanes::default() });
        Self { state, changed: Condvar::new(), ended }
    }
}

#[derive(Default)]
struct Lanes {
    stages: Stages,
    ends: Vec<Ends>,
    /// The loss of the last lane was reported.
    has_told: bool,
    /// The ends that are closed with the job; `None` once it has ended.
    runs: Option<Runs>,
}

/// The writing ends of channels and pipes, through which nothing is sent.
struct Runs {
    _channel: Sender<()>,
    pipes: Vec<PipeWriter>,
}

/// The ways to end the connection of a lane.
struct Ends {
    lane: u8,
    killer: Killer,
    /// The queue of contents that leave by it, once it has joined.
    outbox: Option<Arc<Outbox>>,
    /// A login that has not joined, and its ssh, if it is one.
    login: Option<Option<Onlooker>>,
}

impl Ends {
    fn end(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
            outbox.cut();
        }
        // The first time only asks a process to end.
        self.killer.kill();
        self.killer.kill();
    }

    /// True if it is a login that the host has not accepted, as far as that can be seen.
    fn is_at_the_door(&self) -> bool {
        let is_let_in = |ssh: &Onlooker| ssh.look(haul_sys::has_session) == Some(true);
        self.login.as_ref().is_some_and(|ssh| !ssh.as_ref().is_some_and(is_let_in))
    }
}

impl Roster {
    /// Looks at the stages, or changes them.
    pub(super) fn stages<T>(&self, look: impl FnOnce(&mut Stages) -> T) -> T {
        look(&mut self.state.lock().stages)
    }

    /// The login of a lane is on its way.
    pub(super) fn begin_login(&self, lane: u8, closer: &Closer) {
        let login = Some(closer.onlooker());
        self.add_ends(Ends { lane, killer: closer.killer(), outbox: None, login });
    }

    /// It is no more.
    pub(super) fn end_login(&self, lane: u8) {
        self.state.lock().ends.retain(|ends| ends.lane != lane);
        self.changed.notify_all();
    }

    /// The lane has a connection; `false` if it had one before.
    pub(super) fn join(&self, lane: u8) -> bool {
        let mut lanes = self.state.lock();
        lanes.has_told = false;
        lanes.stages.join(lane)
    }

    /// Adds the ways to end a lane that has joined.
    pub(super) fn add(&self, lane: u8, killer: Killer, outbox: Option<Arc<Outbox>>) {
        self.add_ends(Ends { lane, killer, outbox, login: None });
    }

    fn add_ends(&self, ends: Ends) {
        let mut lanes = self.state.lock();
        match lanes.runs {
            None => ends.end(),
            Some(_) => lanes.ends.push(ends),
        }
    }

    /// A lane that had joined was lost.
    pub(super) fn lose(&self, lane: u8) {
        self.stages(|stages| stages.put(lane, Stage::Lost));
    }

    /// True for the first call after a lane has joined. If several lanes are lost together, the
    /// user gets one message.
    pub(super) fn tells_loss(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().has_told, true)
    }

    /// True if the loss of all lanes was reported, and none has joined since.
    pub(super) fn has_lost_all(&self) -> bool {
        self.state.lock().has_told
    }

    /// True if the job has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().runs.is_none()
    }

    /// Disconnected once the job has ended, for those that wait.
    pub(super) fn ended(&self) -> &Receiver<()> {
        &self.ended
    }

    /// A pipe that is closed once the job has ended, for those that wait in `poll`.
    ///
    /// # Errors
    /// When no descriptors can be had.
    pub(super) fn end_pipe(&self) -> io::Result<PipeReader> {
        let (end, pipe) = io::pipe()?;
        if let Some(runs) = &mut self.state.lock().runs {
            runs.pipes.push(pipe);
        }
        Ok(end)
    }

    /// Hangs up on all that have joined, and on those that still do. Where the job is done,
    /// logins on their way get a moment before.
    pub(super) fn hang_up(&self, is_done: bool) {
        let mut lanes = self.state.lock();
        lanes.runs = None;
        let deadline = Instant::now() + LOGIN_WAIT_MAX;
        while is_done && lanes.ends.iter().any(Ends::is_at_the_door) && Instant::now() < deadline {
            self.changed.wait_for(&mut lanes, LOOK_AGAIN);
        }
        lanes.ends.iter().for_each(Ends::end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_end_of_a_job_is_waited_for_by_nobody() {
        let roster = Roster::default();
        let wait = |patience| roster.ended().recv_timeout(patience).expect_err("nothing comes");
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
    fn of_lanes_that_are_lost_together_one_is_told() {
        let roster = Roster::default();
        for lanes in [[1, 2], [3, 4]] {
            assert!(lanes.iter().all(|lane| roster.join(*lane)));
            assert_eq!(lanes.map(|_| roster.tells_loss()), [true, false]);
        }
    }

    #[test]
    fn a_number_is_of_one_lane_that_has_joined() {
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
