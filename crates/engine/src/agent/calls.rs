//! Calls to another host that a client requests from an agent, and the reports about them to the
//! client.

use crate::link::wire::Outbox;
use crate::{Event, LinkEvent, Monitor, Progress};
use haul_model::{Kind, Outcome};
use haul_net::Identity;
use haul_proto::{Call, Called, Message};
use std::sync::Arc;

/// The calls of an agent.
pub(super) struct Calls {
    /// Calls are allowed.
    are_allowed: bool,
    asked: Option<Asked>,
}

/// A call that the client has requested for its next job.
pub(super) struct Asked {
    pub(super) identity: Identity,
    pub(super) call: Call,
}

impl Calls {
    /// No call is requested yet.
    pub(super) fn new(are_allowed: bool) -> Self {
        Self { are_allowed, asked: None }
    }

    /// Makes a key for a call. It replaces an earlier one.
    pub(super) fn ask(&mut self, call: Call) -> Called {
        if !self.are_allowed {
            return Called::Failed(
                "a login restricted to a directory connects to no other host".to_owned(),
            );
        }
        match Identity::new() {
            Ok(identity) => {
                let key = identity.public();
                self.asked = Some(Asked { identity, call });
                Called::Key(key)
            }
            Err(error) => Called::Failed(error.to_string()),
        }
    }

    /// True if a call is requested.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Takes the requested call, if any.
    pub(super) fn take(&mut self) -> Option<Asked> {
        self.asked.take()
    }
}

/// Reports calls to the client. The other host reports everything else.
pub(super) struct CallReporter {
    progress: Progress,
    outbox: Arc<Outbox>,
}

impl CallReporter {
    /// A monitor that reports through `outbox`.
    pub(super) fn new(outbox: &Arc<Outbox>) -> Self {
        Self { progress: Progress::default(), outbox: Arc::clone(outbox) }
    }
}

impl Monitor for CallReporter {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        let called = match event {
            Event::Link(LinkEvent::Direct { connections, .. }) => Called::Connected(connections),
            Event::Link(LinkEvent::NotDirect { reason, .. }) => Called::Failed(reason.to_owned()),
            _ => return,
        };
        self.outbox.send_message(&Message::Called(called));
    }

    fn shows(&self, _: &Kind, _: &Outcome) -> bool {
        false
    }

    fn cancelled(&self) -> bool {
        false
    }
}
