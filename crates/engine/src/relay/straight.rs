//! Direct connections from the host that sends to the one that receives, as far as this
//! process has a part in them: the first has it make a key, which the second lets in; where
//! that is reached is told on only if its name leads there; and the user hears what came of
//! it. Without them contents pass here.

use crate::control::Control;
use crate::job::{Job, JobError};
use crate::link::wire::{OutFrame, ReadEnd, unexpected};
use crate::request::Requests;
use crate::{Event, LinkEvent};
use haul_model::{Via, escape_controls};
use haul_net::{ConnectError, Whereabouts, check_call_between};
use haul_proto::{
    Call, Called, Caps, DirectKey, DirectOffer, DirectWish, FrameType, LANES_MAX, Message,
};
use parking_lot::Mutex;
use std::num::NonZeroU8;
use std::time::Duration;

/// How long a host may take to make a key.
const KEY_MAX: Duration = Duration::from_secs(10);

/// News of calls in one job, at most.
const NEWS_MAX: usize = 2 * LANES_MAX as usize;

/// The wish that one host calls the other.
#[derive(Debug)]
pub struct Straight {
    /// The key of the one that calls, or why it does not.
    key: Result<DirectKey, String>,
    from: Whereabouts,
    to: Whereabouts,
}

impl Straight {
    /// Has the haul that answers `from` make a key, if the contents of `job` may go straight.
    /// Where both hosts are tells `at`.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn prepare(
        job: &Job,
        from: &mut Requests,
        at: [Whereabouts; 2],
    ) -> Result<Option<Self>, JobError> {
        let Some(agent) = from.agent().filter(|_| job.goes_directly()) else { return Ok(None) };
        let key = match agent.caps().has(Caps::CALLS) {
            false => Err("the haul there connects to no other hosts".to_owned()),
            true => {
                let connections = job.direct_connections().map_or(0, NonZeroU8::get);
                let call = Call { is_required: job.via == Via::Tcp, connections };
                // A connection that takes nothing has the answer tell that.
                let _ = agent.say(OutFrame::message(&Message::Call(call)), KEY_MAX);
                match agent.hear_within(KEY_MAX)? {
                    Message::Called(Called::Key(key)) => Ok(key),
                    Message::Called(Called::Failed(reason)) => Err(escape_controls(&reason)),
                    _ => return Err(agent.broken(unexpected(FrameType::Called))),
                }
            }
        };
        let [from, to] = at;
        Ok(Some(Self { key, from, to }))
    }

    /// The same where the haul that is called has these capabilities.
    pub(super) fn calling_one_with(self, caps: Caps) -> Self {
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
pub(super) struct Calls<'a> {
    control: &'a Control<'a>,
    /// The host that is called.
    to: String,
    is_required: bool,
    wish: Option<Straight>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// It has sent its addresses.
    has_offered: bool,
    /// Why it is not called there.
    refused: Option<String>,
    /// News of calls.
    news: usize,
}

impl<'a> Calls<'a> {
    /// Those of `job` to the host `to`, if it is wished that there are any.
    ///
    /// # Errors
    /// When there can be none, and contents must go no other way.
    pub(super) fn new(
        job: &Job,
        control: &'a Control<'a>,
        to: &str,
        wish: Option<Straight>,
    ) -> Result<Self, JobError> {
        let (to, is_required) = (to.to_owned(), job.goes_directly() && job.via == Via::Tcp);
        let reason = match &wish {
            Some(Straight { key: Err(reason), .. }) => Some(reason.clone()),
            None => Some("nobody is called".to_owned()),
            Some(_) => None,
        };
        if let (Some(detail), true) = (reason, is_required) {
            return Err(ConnectError::NotDirect { host: to, detail }.into());
        }
        Ok(Self { control, to, is_required, wish, state: Mutex::default() })
    }

    /// The wish for the host that is called.
    pub(super) fn wish(&self, job: &Job) -> Option<Box<DirectWish>> {
        let key = *self.wish.as_ref()?.key.as_ref().ok()?;
        let ports = job.ports.map(|ports| (ports.0, ports.1));
        Some(Box::new(DirectWish { key, is_required: self.is_required, ports }))
    }

    /// True if one host calls the other.
    pub(super) fn are_made(&self) -> bool {
        matches!(self.wish, Some(Straight { key: Ok(_), .. }))
    }

    /// Why none is made, if one was wished for.
    pub(super) fn unmade(&self) -> Option<&str> {
        match &self.wish {
            Some(Straight { key: Err(reason), .. }) => Some(reason),
            _ => None,
        }
    }

    /// The called host sends its addresses, or why it can't be called. Returns the message for
    /// the other host.
    pub(super) fn offered(&self, offer: Result<DirectOffer, String>) -> Result<Message, ReadEnd> {
        let Some(Straight { key: Ok(_), from, to }) = &self.wish else {
            return Err(unexpected(FrameType::Direct));
        };
        if std::mem::replace(&mut self.state.lock().has_offered, true) {
            return Err(unexpected(FrameType::Direct));
        }
        let Ok(DirectOffer { address, .. }) = offer else { return Ok(Message::Direct(offer)) };
        let Err(reason) = check_call_between(address, from, to) else {
            return Ok(Message::Direct(offer));
        };
        self.state.lock().refused = Some(reason.clone());
        if !self.is_required {
            self.tell_not_direct(&reason);
        }
        Ok(Message::Direct(Err(reason)))
    }

    /// The calling host reports the result.
    pub(super) fn called(&self, called: Called) -> Result<(), ReadEnd> {
        let refused = {
            let mut state = self.state.lock();
            state.news += 1;
            let is_of_turn = self.are_made() && state.has_offered && state.news <= NEWS_MAX;
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
            (Called::Failed(reason), None) => self.tell_not_direct(&escape_controls(&reason)),
            (Called::Connected(connections), None) => {
                let host = &*host;
                self.control.monitor().event(Event::Link(LinkEvent::Direct { host, connections }));
            }
            // That was reported, or can't be.
            (_, Some(_)) | (Called::Key(_), _) => {}
        }
        Ok(())
    }

    /// Tells that contents pass here.
    pub(super) fn tell_not_direct(&self, reason: &str) {
        let (host, reason) = (&*self.to, &*format!("{reason}; they go through this machine"));
        self.control.monitor().event(Event::Link(LinkEvent::NotDirect { host, reason }));
    }
}
