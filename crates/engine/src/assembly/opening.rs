//! Opens or accepts the lanes of a job.
//!
//! The opening side has one loop ([`Opening::open_by`]). It starts the lanes that a [`Schedule`]
//! allows, each on its own thread, and uses each one ([`Opening::take`]) when it is connected. It
//! calls the port that the agent has opened (`calling.rs`). If no call succeeds, it uses further
//! logins (`beside.rs`).
//!
//! The other side accepts lanes: callers that present the client's key (`callers.rs`), and logins
//! that know its secret, whose processes hand over their streams. Others are disconnected without
//! an explanation.
//!
//! `roster.rs` holds the stage of each lane on both sides; `lane.rs` holds its content.

use super::beside::Beside;
use super::calling::Callee;
use super::carrier::Carrier;
use super::lane::LaneRole;
use super::roster::{Roster, Stage};
use super::schedule::{Attempt, Failure, First, Schedule};
use crate::callers::let_in;
use crate::control::{CANCEL_POLL, Control};
use crate::crew::Crew;
use crate::link::wire::ByWire;
use crate::{Event, JobError, LinkEvent};
use crossbeam_channel::{Sender as Giver, select, unbounded};
use haul_model::escape_controls;
use haul_net::{ConnectError, DirectListener};
use haul_proto::LANES_MAX;
use haul_sys::{HandedOver, Handover};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Minimum remaining content, in bytes, to open a lane. Below this the job ends before the lane is
/// ready.
pub(super) const LEFT_MIN: u64 = 2 << 20;

/// The interval at which the remaining content is checked.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Which side opens the lanes of a job.
pub(crate) enum Joining {
    /// This side opens them: by calls, or by logins if no calls are wanted or none succeeds.
    Opens { callee: Option<Callee>, beside: Option<Beside> },
    /// The other side opens them.
    LetsIn {
        direct: Option<DirectListener>,
        /// Receives the streams of further logins from their processes.
        handover: Option<Handover>,
    },
}

impl Joining {
    /// Starts the parts that a confined thread can't start.
    pub(super) fn begin_unconfined(&mut self, crew: Crew<'_, '_>) {
        if let Self::Opens { beside, .. } = self
            && let Some(logins) = beside
            && let Err(error) = logins.begin_starter(crew)
        {
            tracing::debug!(%error, "nobody logs in again");
            *beside = None;
        }
    }
}

/// The way in which lanes are opened.
pub(super) enum Means {
    Calls(Arc<Callee>),
    Logins(Beside),
}

/// The result of an attempt.
pub(super) type Ended = (Attempt, Result<Carrier, Failure>);

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
    pub(super) crew: Crew<'scope, 'env>,
    pub(super) part: LaneRole<'a>,
    pub(super) joins: Joins,
    /// The other side opens the lanes.
    pub(super) lets_in: bool,
    /// Held by all threads that may wait for the peer.
    _at_work: Giver<()>,
}

impl Joins {
    /// Starts the threads that open or accept lanes for this role.
    pub(super) fn begin<'scope, 'a: 'scope>(
        mut self,
        crew: Crew<'scope, '_>,
        part: LaneRole<'a>,
        at_work: &Giver<()>,
    ) {
        let Some(joining) = self.joining.take() else { return };
        let lets_in = matches!(*joining, Joining::LetsIn { .. });
        let (is_required, _at_work) = (self.by_wire == ByWire::Nothing, at_work.clone());
        let opening = Arc::new(Opening { crew, part, joins: self, lets_in, _at_work });
        let begun = match *joining {
            Joining::Opens { callee, beside } => {
                crew.try_begin("lanes", move || opening.open(callee, beside))
            }
            Joining::LetsIn { direct, handover } => {
                let lets_in = Arc::clone(&opening);
                let by_handover = handover.map_or(Ok(()), |handover| {
                    crew.try_begin("lanes", move || lets_in.take_over(&handover))
                });
                let directly = direct.map_or(Ok(()), |listener| {
                    crew.try_begin("lanes", move || opening.let_in(&listener))
                });
                by_handover.and(directly)
            }
        };
        // Otherwise all contents use the first connection.
        if let Err(error) = begun
            && is_required
        {
            crew.control().fail(JobError::Threads(error));
        }
    }
}

impl<'scope, 'a: 'scope> Opening<'scope, '_, 'a> {
    /// Opens lanes by calls, or by logins if no call succeeds.
    fn open(self: &Arc<Self>, callee: Option<Callee>, beside: Option<Beside>) {
        if let Some(callee) = callee {
            let schedule = self.when_to_call(&callee, beside.as_ref());
            if self.open_by(schedule, &Means::Calls(Arc::new(callee))) {
                return;
            }
        }
        if let LaneRole::Sends(readers) = &self.part {
            readers.lanes.await_no_more();
        }
        if let Some(beside) = beside {
            self.open_by(self.when_to_log_in(&beside), &Means::Logins(beside));
        }
    }

    /// Opens lanes by these `means` until the job ends or no further lane is possible. Without a
    /// `schedule`, the job has ended or no lane is worthwhile. Returns false if no lane is possible
    /// at all.
    fn open_by(self: &Arc<Self>, schedule: Option<Schedule>, means: &Means) -> bool {
        let Some(mut schedule) = schedule else { return true };
        let (mut has_joined, mut is_told) = (false, false);
        let before = self.transferred();
        // If nothing has changed, calls carry no content. An agent calls only when contents wait to
        // be sent.
        let has_sent = || match means {
            Means::Calls(callee) => callee.is_of_agent() || self.transferred() > before,
            Means::Logins(_) => true,
        };
        let joined = || self.joins.roster.stages(|stages| stages.count(Stage::Joined)) as u8;
        let (tell, told) = unbounded::<Ended>();
        // The user was told that all lanes are lost: no lane may join silently after that.
        let has_lost_all = || matches!(means, Means::Calls(_)) && self.joins.roster.has_lost_all();
        while self.goes_on() && !has_lost_all() {
            while let Some(attempt) = self.next(&mut schedule, means) {
                let begun = match means {
                    Means::Calls(callee) => self.begin_call(callee, attempt, &tell),
                    Means::Logins(beside) => self.begin_login(beside, attempt, &tell),
                };
                if let Err(failure) = begun {
                    self.joins.roster.stages(|stages| schedule.fail(stages, attempt, failure));
                }
            }
            let (on_their_way, is_over) = self
                .joins
                .roster
                .stages(|stages| (stages.count(Stage::OnItsWay), schedule.is_over(stages)));
            let is_settled = match means {
                Means::Calls(_) => on_their_way == 0,
                // If the first login fails, its failure is the one to report.
                Means::Logins(_) => is_over && (has_joined || !self.is_early()),
            };
            if !is_told && is_settled && (has_sent() || !has_joined) {
                self.tell_of(means, &schedule, joined());
                is_told = true;
            }
            if is_over && is_told && schedule.given_up.is_some() {
                break;
            }
            let patience = if is_over && is_told { CANCEL_POLL } else { LOOK_AGAIN };
            let (attempt, stands) = select! {
                recv(told) -> ended => match ended {
                    Ok(ended) => ended,
                    Err(_) => continue,
                },
                // Wakes up at the end of the job.
                recv(self.joins.roster.ended()) -> _ => continue,
                default(patience) => continue,
            };
            let taken = stands.and_then(|carrier| {
                let count = means.count_for(&carrier);
                self.take(attempt.lane, carrier).map(|()| count).map_err(Failure::of_io)
            });
            match taken {
                Ok(count) => {
                    schedule.join(count);
                    has_joined = true;
                }
                Err(failure) => {
                    self.joins.roster.stages(|stages| schedule.fail(stages, attempt, failure));
                }
            }
        }
        if !is_told && joined() > 0 && has_sent() {
            self.tell_of(means, &schedule, joined());
        }
        has_joined || schedule.given_up.is_none()
    }

    /// The next lane to start now, if any.
    fn next(&self, schedule: &mut Schedule, means: &Means) -> Option<Attempt> {
        let is_early = self.is_early();
        let (left, first) = match means {
            // The figures are at the client.
            Means::Calls(callee) if callee.is_of_agent() => (None, First::STANDS),
            // An empty file needs a lane, too.
            Means::Calls(_) => (Some(self.left().saturating_add(1)), First::STANDS),
            Means::Logins(beside) => {
                let needs_nobody = beside.needs_nobody(is_early);
                (self.may_be_left(), First { is_early, needs_nobody })
            }
        };
        self.joins.roster.stages(|stages| schedule.next(stages, left, first))
    }

    /// Reports to the user how many lanes have joined, or why none or no more have.
    fn tell_of(&self, means: &Means, schedule: &Schedule, joined: u8) {
        let host = &*self.joins.peer;
        let reason = schedule.given_up.as_ref().filter(|_| self.goes_on());
        match (means, reason) {
            (Means::Calls(callee), _) if joined > 0 => {
                let connections = joined + u8::from(callee.is_server());
                self.tell(LinkEvent::Direct { host, connections });
            }
            (Means::Calls(callee), Some(reason)) if callee.is_required => {
                // The agent may have ended its job regularly.
                self.control().linger();
                let (host, detail) = (host.to_owned(), reason.clone());
                self.control().fail(ConnectError::NotDirect { host, detail }.into());
            }
            (Means::Calls(_), Some(reason)) => {
                self.tell(LinkEvent::NotDirect { host, reason: &escape_controls(reason) });
            }
            (Means::Calls(_), None) => {}
            (Means::Logins(beside), _) => {
                if joined > 0 {
                    self.tell(LinkEvent::LoggedIn { host, connections: joined + 1 });
                }
                if let Some(reason) = reason.filter(|_| beside.is_wished()) {
                    self.tell(LinkEvent::NotLoggedIn { host, reason: &escape_controls(reason) });
                }
            }
        }
    }

    pub(super) fn control(&self) -> &'scope Control<'scope> {
        self.crew.control()
    }

    /// Reports an event about lanes to the user.
    pub(super) fn tell(&self, news: LinkEvent<'_>) {
        self.control().monitor().event(Event::Link(news));
    }

    /// Bytes of the listed files that are not done yet.
    pub(super) fn left(&self) -> u64 {
        let progress = self.control().monitor().progress();
        let total = progress.bytes_total.load(Ordering::Relaxed);
        total.saturating_sub(progress.bytes_done.load(Ordering::Relaxed))
    }

    /// The same; `None` while only the agent knows it.
    pub(super) fn may_be_left(&self) -> Option<u64> {
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

    /// Polls `look` until it returns something or the job ends.
    pub(super) fn wait_for<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        while self.goes_on() {
            if let Some(found) = look() {
                return Some(found);
            }
            // Wakes up at the end of the job.
            let _ = self.joins.roster.ended().recv_timeout(LOOK_AGAIN);
        }
        None
    }

    /// True while lanes may still join.
    pub(super) fn goes_on(&self) -> bool {
        !self.control().stopped() && !self.joins.roster.has_ended()
    }

    /// Accepts callers that present the client's key, until the job ends or all lanes are taken.
    fn let_in(self: &Arc<Self>, listener: &DirectListener) {
        let take = |lane, direct| self.take(lane, Carrier::Direct(Box::new(direct)));
        // Without a pipe, the end of the job is noticed a little later.
        let ended = self.joins.roster.end_pipe().ok();
        let_in(listener, ended.as_ref(), &|| self.goes_on(), &take);
    }

    /// Accepts the streams of logins that know the client's secret, until the job ends.
    fn take_over(self: &Arc<Self>, handover: &Handover) {
        let ended = self.joins.roster.end_pipe().ok();
        while self.goes_on() {
            let taken = match handover.take_within(CANCEL_POLL, ended.as_ref()) {
                Ok(None) => continue,
                Ok(Some(given)) => self.take_given(given),
                Err(error) => {
                    std::thread::sleep(CANCEL_POLL);
                    Err(error)
                }
            };
            if let Err(error) = taken {
                tracing::debug!(%error, "a login does not join");
            }
        }
    }

    /// Uses a login as a lane, and confirms that to the client.
    fn take_given(self: &Arc<Self>, given: HandedOver) -> io::Result<()> {
        let lane = given.number;
        if !(1..=LANES_MAX).contains(&lane) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.take(lane, Carrier::given(given, self.joins.silence_max)?)
    }
}

impl Means {
    /// The number of useful lanes if each is like this one.
    fn count_for(&self, carrier: &Carrier) -> u8 {
        match (self, carrier.round_trip()) {
            (Self::Calls(callee), Some(round_trip)) => callee.count_for(round_trip),
            _ => LANES_MAX,
        }
    }
}
