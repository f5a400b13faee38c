//! The part of this process in direct connections between two hosts. The sending host makes a key,
//! which the receiving host accepts. This process forwards the receiving host's address only if it
//! is an address of that host's name, and reports the result to the user. Without direct
//! connections, contents pass through this process.

use crate::control::Control;
use crate::job::{Job, JobError};
use crate::link::wire::{OutFrame, ReadEnd, unexpected};
use crate::request::Requests;
use crate::{Event, LinkEvent};
use haul_model::{Via, escape_controls};
use haul_net::{ConnectError, HostAddresses, check_route_between};
use haul_proto::{
    Call, Called, Caps, DirectKey, DirectOffer, DirectWish, FrameType, LANES_MAX, Message,
};
use parking_lot::Mutex;
use std::num::NonZeroU8;
use std::time::Duration;

/// The longest time for a host to make a key.
const KEY_MAX: Duration = Duration::from_secs(10);

/// The most reports about calls in one job.
const REPORTS_MAX: usize = 2 * LANES_MAX as usize;

/// The plan that one host calls the other.
pub struct DirectPlan {
    /// The key of the calling host, or the reason why it does not call.
    key: Result<DirectKey, String>,
    from: HostAddresses,
    to: HostAddresses,
}

impl DirectPlan {
    /// Asks the host `from` for a key, if the contents of `job` may be sent directly. `at` are the
    /// addresses of both hosts.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn prepare(
        job: &Job,
        from: &mut Requests,
        at: [HostAddresses; 2],
    ) -> Result<Option<Self>, JobError> {
        let Some(agent) = from.agent().filter(|_| job.uses_direct()) else { return Ok(None) };
        let key = match agent.caps.has(Caps::CALLS) {
            false => Err("the haul there connects to no other hosts".to_owned()),
            true => {
                let connections = job.direct_connections().map_or(0, NonZeroU8::get);
                let call = Call { is_required: job.wire.via == Via::Tcp, connections };
                // If the connection is broken, the answer below reports that.
                let _ = agent.send_frame(OutFrame::message(&Message::Call(call)), KEY_MAX);
                match agent.receive_within(KEY_MAX)? {
                    Message::Called(Called::Key(key)) => Ok(key),
                    Message::Called(Called::Failed(reason)) => Err(escape_controls(&reason)),
                    _ => return Err(agent.broken(unexpected(FrameType::Called))),
                }
            }
        };
        let [from, to] = at;
        Ok(Some(Self { key, from, to }))
    }

    /// Checks the capabilities of the called host.
    pub(super) fn check_caps(self, caps: Caps) -> Self {
        match caps.has(Caps::CALLS) {
            true => self,
            false => {
                let called_by_none =
                    || Err("the haul there accepts no connections from other hosts".to_owned());
                Self { key: self.key.and_then(|_| called_by_none()), ..self }
            }
        }
    }
}

/// The direct connections of a job.
pub(super) struct DirectCalls<'a> {
    control: &'a Control<'a>,
    /// The host that is called.
    to: String,
    is_required: bool,
    wish: Option<DirectPlan>,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    /// The called host has sent its address.
    has_offered: bool,
    /// The reason why that address is not called.
    refused: Option<String>,
    /// The number of reports about calls.
    reports: usize,
}

impl<'a> DirectCalls<'a> {
    /// The direct connections of `job` to the host `to`.
    ///
    /// # Errors
    /// When none is possible, but contents must not pass through this machine.
    pub(super) fn new(
        job: &Job,
        control: &'a Control<'a>,
        to: &str,
        wish: Option<DirectPlan>,
    ) -> Result<Self, JobError> {
        let (to, is_required) = (to.to_owned(), job.uses_direct() && job.wire.via == Via::Tcp);
        let reason = match &wish {
            Some(DirectPlan { key: Err(reason), .. }) => Some(reason.clone()),
            None => Some("nobody is called".to_owned()),
            Some(_) => None,
        };
        if let (Some(detail), true) = (reason, is_required) {
            return Err(ConnectError::NotDirect { host: to, detail }.into());
        }
        Ok(Self { control, to, is_required, wish, state: Mutex::default() })
    }

    /// The request for the called host.
    pub(super) fn wish(&self, job: &Job) -> Option<Box<DirectWish>> {
        let key = *self.wish.as_ref()?.key.as_ref().ok()?;
        let ports = job.wire.ports.map(|ports| (ports.0, ports.1));
        Some(Box::new(DirectWish { key, is_required: self.is_required, ports }))
    }

    /// True if one host calls the other.
    pub(super) fn is_enabled(&self) -> bool {
        matches!(self.wish, Some(DirectPlan { key: Ok(_), .. }))
    }

    /// The reason why no call is made although one was wanted.
    pub(super) fn refusal(&self) -> Option<&str> {
        match &self.wish {
            Some(DirectPlan { key: Err(reason), .. }) => Some(reason),
            _ => None,
        }
    }

    /// Processes the called host's address, or its reason against calls. Returns the message for
    /// the other host.
    pub(super) fn offered(&self, offer: Result<DirectOffer, String>) -> Result<Message, ReadEnd> {
        let Some(DirectPlan { key: Ok(_), from, to }) = &self.wish else {
            return Err(unexpected(FrameType::Direct));
        };
        if std::mem::replace(&mut self.state.lock().has_offered, true) {
            return Err(unexpected(FrameType::Direct));
        }
        let Ok(DirectOffer { address, .. }) = offer else { return Ok(Message::Direct(offer)) };
        let Err(reason) = check_route_between(address, from, to) else {
            return Ok(Message::Direct(offer));
        };
        self.state.lock().refused = Some(reason.clone());
        if !self.is_required {
            self.report_not_direct(&reason);
        }
        Ok(Message::Direct(Err(reason)))
    }

    /// Processes the calling host's report.
    pub(super) fn called(&self, called: Called) -> Result<(), ReadEnd> {
        let refused = {
            let mut state = self.state.lock();
            state.reports += 1;
            let is_of_turn = self.is_enabled() && state.has_offered && state.reports <= REPORTS_MAX;
            if !is_of_turn || matches!(called, Called::Key(_)) {
                return Err(unexpected(FrameType::Called));
            }
            state.refused.clone()
        };
        let host = self.to.clone();
        match (called, refused) {
            (Called::Failed(reason), refused) if self.is_required => {
                let detail = refused.unwrap_or_else(|| escape_controls(&reason));
                let error = ConnectError::NotDirect { host, detail };
                return Err(ReadEnd::Refused(error.into()));
            }
            (Called::Lost(reason), None) if self.is_required => {
                let error = ConnectError::DirectLost { host, detail: escape_controls(&reason) };
                return Err(ReadEnd::Refused(error.into()));
            }
            (Called::Lost(_), _) => return Err(unexpected(FrameType::Called)),
            (Called::Failed(reason), None) => self.report_not_direct(&escape_controls(&reason)),
            (Called::Connected(connections), None) => {
                let host = &*host;
                self.control.monitor().event(Event::Link(LinkEvent::Direct { host, connections }));
            }
            // It was already reported, or is impossible.
            (_, Some(_)) | (Called::Key(_), _) => {}
        }
        Ok(())
    }

    /// Reports that contents pass through this machine.
    pub(super) fn report_not_direct(&self, reason: &str) {
        let (host, reason) = (&*self.to, &*format!("{reason}; they go through this machine"));
        self.control.monitor().event(Event::Link(LinkEvent::NotDirect { host, reason }));
    }
}
