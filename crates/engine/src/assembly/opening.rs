//! Opens or accepts the lanes of a job.
//!
//! The opening side has one loop ([`Opening::open_by`]). It starts the lanes that a [`Schedule`]
//! allows, each on its own thread, and uses each one ([`Opening::take`]) when it is connected. It
//! calls the port that the agent has opened (`calling.rs`). If no call succeeds, it uses further
//! logins (`further_logins.rs`).
//!
//! The other side accepts lanes: callers that present the client's key (`callers.rs`), and logins
//! that know its secret, whose processes hand over their streams. Others are disconnected without
//! an explanation.
//!
//! `roster.rs` holds the stage of each lane on both sides; `lane.rs` holds its content.

pub(super) mod calling;
pub(super) mod chosen;
pub(super) mod further_logins;
pub(super) mod lane;

use self::calling::Callee;
use self::further_logins::FurtherLogins;
use self::lane::LaneRole;
use super::carrier::Carrier;
use super::roster::{POLL_INTERVAL, Roster, Stage};
use super::schedule::{Attempt, Failure, First, Schedule};
use crate::callers::accept;
use crate::control::{CANCEL_POLL, Control};
use crate::link::wire::{ByWire, FAR_LANE_LEN};
use crate::threads::JobThreads;
use crate::{Event, JobError, LinkEvent};
use crossbeam_channel::{Sender as Giver, select, unbounded};
use haul_model::escape_controls;
use haul_net::{ConnectError, DirectListener};
use haul_proto::LANES_MAX;
use haul_sys::{HandedOver, Handover};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Minimum remaining content, in bytes, to open a lane. Below this the job ends before the lane is
/// ready.
pub(super) const LEFT_MIN: u64 = 2 << 20;

/// Which side opens the lanes of a job.
pub(crate) enum Joining {
    /// This side opens them: by calls, or by logins if no calls are wanted or none succeeds.
    Opens { callee: Option<Callee>, further_logins: Option<FurtherLogins> },
    /// The other side opens them.
    ///
    /// - `handover`: receives the streams of further logins from their processes.
    Accepts { direct: Option<DirectListener>, handover: Option<Handover> },
}

impl Joining {
    /// Starts the parts that a confined thread can't start.
    pub(super) fn begin_unconfined(&mut self, threads: JobThreads<'_, '_>) {
        if let Self::Opens { further_logins, .. } = self
            && let Some(logins) = further_logins
            && let Err(error) = logins.begin_starter(threads)
        {
            tracing::debug!(%error, "no other connections");
            *further_logins = None;
        }
    }
}

/// The way in which lanes are opened.
pub(super) enum LaneOpener {
    Calls(Arc<Callee>),
    Logins(FurtherLogins),
}

/// The result of an attempt.
pub(super) type AttemptResult = (Attempt, Result<Carrier, Failure>);

/// The way in which lanes join a wire, if any may.
pub(super) struct Joins {
    pub(super) joining: Option<Box<Joining>>,
    pub(super) by_wire: ByWire,
    pub(super) roster: Arc<Roster>,
    /// The peer's name in messages.
    pub(super) peer: String,
    /// The longest silence of either side.
    pub(super) silence_max: Option<Duration>,
}

/// A job whose lanes are being opened or accepted.
pub(super) struct Opening<'scope, 'env, 'a> {
    pub(super) threads: JobThreads<'scope, 'env>,
    pub(super) part: LaneRole<'a>,
    pub(super) joins: Joins,
    /// The other side opens the lanes.
    pub(super) accepts: bool,
    /// Held by all threads that may wait for the peer.
    _at_work: Giver<()>,
}

impl Joins {
    /// Starts the threads that open or accept lanes for this role.
    pub(super) fn begin<'scope, 'a: 'scope>(
        mut self,
        threads: JobThreads<'scope, '_>,
        part: LaneRole<'a>,
        at_work: &Giver<()>,
    ) {
        let Some(joining) = self.joining.take() else { return };
        let accepts = matches!(*joining, Joining::Accepts { .. });
        let (is_required, _at_work) = (self.by_wire == ByWire::Nothing, at_work.clone());
        let opening = Arc::new(Opening { threads, part, joins: self, accepts, _at_work });
        let begun = match *joining {
            Joining::Opens { callee, further_logins } => {
                threads.try_spawn("lanes", move || opening.open(callee, further_logins))
            }
            Joining::Accepts { direct, handover } => {
                let accepts = Arc::clone(&opening);
                let by_handover = handover.map_or(Ok(()), |handover| {
                    threads.try_spawn("lanes", move || accepts.accept_handovers(&handover))
                });
                let directly = direct.map_or(Ok(()), |listener| {
                    threads.try_spawn("lanes", move || opening.accept(&listener))
                });
                by_handover.and(directly)
            }
        };
        // Otherwise all contents use the first connection.
        if let Err(error) = begun
            && is_required
        {
            threads.control().fail(JobError::Threads(error));
        }
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Opens lanes by calls, or by logins if no call succeeds.
    fn open(self: &Arc<Self>, callee: Option<Callee>, further_logins: Option<FurtherLogins>) {
        if let Some(callee) = callee {
            let schedule = callee.wait(self, further_logins.as_ref());
            if self.open_by(schedule, &LaneOpener::Calls(Arc::new(callee))) {
                return;
            }
        }
        if let LaneRole::Sends(readers) = &self.part {
            readers.lanes.stop_waiting();
        }
        if let Some(further_logins) = further_logins {
            self.open_by(further_logins.wait(self), &LaneOpener::Logins(further_logins));
        }
    }

    /// Opens lanes by these `opener` until the job ends or no further lane is possible. Without a
    /// `schedule`, the job has ended or no lane is worthwhile. Returns false if no lane is possible
    /// at all.
    fn open_by(self: &Arc<Self>, schedule: Option<Schedule>, opener: &LaneOpener) -> bool {
        let Some(mut schedule) = schedule else { return true };
        let (mut has_joined, mut is_reported) = (false, false);
        let before = self.transferred();
        // If nothing has changed, calls carry no content. An agent calls only when contents wait to
        // be sent.
        let has_sent = || match opener {
            LaneOpener::Calls(callee) => callee.is_of_agent() || self.transferred() > before,
            LaneOpener::Logins(_) => true,
        };
        let roster = &*self.joins.roster;
        let joined = || roster.stages(|stages| stages.count(Stage::Joined)) as u8;
        let (report, finished) = unbounded::<AttemptResult>();
        // The user was told that all lanes are lost: no lane may join silently after that.
        let has_lost_all = || matches!(opener, LaneOpener::Calls(_)) && roster.has_lost_all();
        while self.may_join() && !has_lost_all() {
            while let Some(attempt) = self.next(&mut schedule, opener) {
                let begun = match opener {
                    LaneOpener::Calls(callee) => callee.begin(self, attempt, &report),
                    LaneOpener::Logins(logins) => logins.begin(self, attempt, &report),
                };
                if let Err(failure) = begun {
                    roster.stages(|stages| schedule.fail(stages, attempt, failure));
                }
            }
            let (connecting, is_over) =
                roster.stages(|stages| (stages.count(Stage::Connecting), schedule.is_over(stages)));
            let is_settled = match opener {
                LaneOpener::Calls(_) => connecting == 0,
                // If the first login fails, its failure is the one to report.
                LaneOpener::Logins(_) => is_over && (has_joined || !self.is_early()),
            };
            if !is_reported && is_settled && (has_sent() || !has_joined) {
                self.report_lanes(opener, &schedule, joined());
                is_reported = true;
            }
            if is_over && is_reported && schedule.given_up.is_some() {
                break;
            }
            let timeout = if is_over && is_reported { CANCEL_POLL } else { POLL_INTERVAL };
            let (attempt, result) = select! {
                recv(finished) -> ended => match ended {
                    Ok(ended) => ended,
                    Err(_) => continue,
                },
                // Wakes up at the end of the job.
                recv(roster.ended()) -> _ => continue,
                default(timeout) => continue,
            };
            let taken = result.and_then(|carrier| {
                let count = opener.count_for(&carrier);
                self.take(attempt.lane, carrier).map(|()| count).map_err(Failure::of_io)
            });
            match taken {
                Ok(count) => {
                    schedule.join(count);
                    has_joined = true;
                }
                Err(failure) => roster.stages(|stages| schedule.fail(stages, attempt, failure)),
            }
        }
        if !is_reported && joined() > 0 && has_sent() {
            self.report_lanes(opener, &schedule, joined());
        }
        has_joined || schedule.given_up.is_none()
    }

    /// Accepts callers that present the client's key, until the job ends or all lanes are taken.
    fn accept(self: &Arc<Self>, listener: &DirectListener) {
        let take = |lane, direct| self.take(lane, Carrier::Direct(Box::new(direct)));
        // Without a pipe, the end of the job is noticed a little later.
        let ended = self.joins.roster.end_pipe().ok();
        accept(listener, ended.as_ref(), &|| self.may_join(), &take);
    }

    /// Accepts the streams of logins that know the client's secret, until the job ends.
    fn accept_handovers(self: &Arc<Self>, handover: &Handover) {
        let ended = self.joins.roster.end_pipe().ok();
        while self.may_join() {
            let taken = match handover.accept_within(CANCEL_POLL, ended.as_ref()) {
                Ok(None) => continue,
                Ok(Some(given)) => self.use_handover(given),
                Err(error) => {
                    std::thread::sleep(CANCEL_POLL);
                    Err(error)
                }
            };
            if let Err(error) = taken {
                tracing::debug!(%error, "the login did not join");
            }
        }
    }

    /// Uses a login as a lane, and confirms that to the client.
    fn use_handover(self: &Arc<Self>, given: HandedOver) -> io::Result<()> {
        let lane = given.number;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.take(lane, Carrier::given(given, self.joins.silence_max)?)
    }
}

impl<'scope> Opening<'scope, '_, '_> {
    /// The next lane to start now, if any.
    fn next(&self, schedule: &mut Schedule, opener: &LaneOpener) -> Option<Attempt> {
        let is_early = self.is_early();
        let (left, first) = match opener {
            // The figures are at the client.
            LaneOpener::Calls(callee) if callee.is_of_agent() => (None, First::CONNECTED),
            // An empty file needs a lane, too.
            LaneOpener::Calls(_) => (Some(self.left().saturating_add(1)), First::CONNECTED),
            LaneOpener::Logins(further_logins) => {
                let is_unattended = further_logins.is_unattended(is_early);
                (self.left_if_known(), First { is_early, is_unattended })
            }
        };
        self.joins.roster.stages(|stages| schedule.next(stages, left, first))
    }

    /// Reports to the user how many lanes have joined, or why none or no more have.
    fn report_lanes(&self, opener: &LaneOpener, schedule: &Schedule, joined: u8) {
        let host = &*self.joins.peer;
        let reason = schedule.given_up.as_ref().filter(|_| self.may_join());
        match (opener, reason) {
            (LaneOpener::Calls(callee), _) if joined > 0 => {
                let connections = joined + u8::from(callee.is_server());
                self.report(LinkEvent::Direct { host, connections });
            }
            (LaneOpener::Calls(callee), Some(reason)) if callee.is_required => {
                // The agent may have ended its job regularly.
                self.control().linger();
                let (host, detail) = (host.to_owned(), reason.clone());
                self.control().fail(ConnectError::NotDirect { host, detail }.into());
            }
            (LaneOpener::Calls(_), Some(reason)) => {
                self.report(LinkEvent::NotDirect { host, reason: &escape_controls(reason) });
            }
            (LaneOpener::Calls(_), None) => {}
            (LaneOpener::Logins(further_logins), _) => {
                if joined > 0 {
                    self.report(LinkEvent::LoggedIn { host, connections: joined + 1 });
                }
                if let Some(reason) = reason.filter(|_| further_logins.is_requested()) {
                    self.report(LinkEvent::NotLoggedIn { host, reason: &escape_controls(reason) });
                }
            }
        }
    }

    pub(super) fn control(&self) -> &'scope Control<'scope> {
        self.threads.control()
    }

    /// Reports an event about lanes to the user.
    pub(super) fn report(&self, event: LinkEvent<'_>) {
        self.control().monitor().event(Event::Link(event));
    }

    /// Bytes of the listed files that are not done yet.
    pub(super) fn left(&self) -> u64 {
        let progress = self.control().monitor().progress();
        let total = progress.bytes_total.load(Ordering::Relaxed);
        total.saturating_sub(progress.bytes_done.load(Ordering::Relaxed))
    }

    /// The same; `None` while only the agent knows it.
    pub(super) fn left_if_known(&self) -> Option<u64> {
        match (&self.part, self.is_early()) {
            (LaneRole::Receives(..), true) => None,
            _ => Some(self.left()),
        }
    }

    /// True if the agent has not greeted yet.
    pub(super) fn is_early(&self) -> bool {
        !self.control().monitor().progress().reached()
    }

    /// Bytes of content that were transferred.
    fn transferred(&self) -> u64 {
        self.control().monitor().progress().bytes_transferred.load(Ordering::Relaxed)
    }

    /// Polls `poll` until it returns something or the job ends.
    pub(super) fn wait_for<T>(&self, poll: impl Fn() -> Option<T>) -> Option<T> {
        while self.may_join() {
            if let Some(found) = poll() {
                return Some(found);
            }
            // Wakes up at the end of the job.
            let _ = self.joins.roster.ended().recv_timeout(POLL_INTERVAL);
        }
        None
    }

    /// Waits up to `timeout` for more of the listing: its beginning says little about how many
    /// lanes are useful.
    fn wait_for_listing(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let is_plain = || {
            let left = self.left();
            let is_all = self.has_listed_all();
            is_all || left >= u64::from(LANES_MAX) * FAR_LANE_LEN || Instant::now() >= until
        };
        self.wait_for(|| is_plain().then_some(()));
    }

    /// True if the listing is complete.
    fn has_listed_all(&self) -> bool {
        self.control().monitor().progress().listed_all.load(Ordering::Relaxed)
    }

    /// True if some listed files are not done.
    fn has_files_left(&self) -> bool {
        let progress = self.control().monitor().progress();
        let done = progress.files_done.load(Ordering::Relaxed);
        progress.files_total.load(Ordering::Relaxed) > done
    }

    /// True while lanes may still join.
    pub(super) fn may_join(&self) -> bool {
        !self.control().stopped() && !self.joins.roster.has_ended()
    }
}

impl LaneOpener {
    /// The number of useful lanes if each is like this one.
    fn count_for(&self, carrier: &Carrier) -> u8 {
        match (self, carrier.round_trip()) {
            (Self::Calls(callee), Some(round_trip)) => callee.count_for(round_trip),
            _ => LANES_MAX,
        }
    }
}
