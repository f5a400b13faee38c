//! Calls to another host that a client may ask an agent for: which of them are made, and
//! the reports about them to the client.

use crate::link::wire::Outbox;
use crate::{Event, LinkEvent, Monitor, Progress};
use haul_model::{Kind, Outcome};
use haul_net::Identity;
use haul_proto::{Call, Called, Message};
use std::sync::Arc;

/// The calls of an agent.
pub(super) struct Calls {
    /// It may call others at all.
    are_allowed: bool,
    asked: Option<Asked>,
}

/// A call that the client has asked for, in the job that comes.
pub(super) struct Asked {
    pub(super) identity: Identity,
    pub(super) call: Call,
}

impl Calls {
    /// None was asked for.
    pub(super) fn new(are_allowed: bool) -> Self {
        Self { are_allowed, asked: None }
    }

    /// Makes a key for a call, in place of one that was made before.
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

    /// True if there is to be one.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Takes the call, if one was asked for.
    pub(super) fn take(&mut self) -> Option<Asked> {
        self.asked.take()
    }
}

/// Reports calls to the client; the other host reports the rest.
pub(super) struct Telling {
    progress: Progress,
    outbox: Arc<Outbox>,
}

impl Telling {
    /// A monitor that reports through `outbox`.
    pub(super) fn new(outbox: &Arc<Outbox>) -> Self {
        Self { progress: Progress::default(), outbox: Arc::clone(outbox) }
    }
}

impl Monitor for Telling {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn event(&self, event: Event<'_>) {
        let called = match event {
            Event::Link(LinkEvent::Direct { connections, .. }) => Called::Connected(connections),
            Event::Link(LinkEvent::NotDirect { reason, .. }) => Called::Failed(reason.to_owned()),
            _ => return,
        };
        self.outbox.tell(&Message::Called(called));
    }

    fn shows(&self, _: &Kind, _: &Outcome) -> bool {
        false
    }

    fn cancelled(&self) -> bool {
        false
    }
}
