//! Calls to another host that a client requests from an agent, and the reports about them to the
//! client.

use crate::link::wire::Outbox;
use crate::{Event, LinkEvent, Monitor, Progress};
use haul_model::{Kind, Outcome};
use haul_net::Identity;
use haul_proto::{Call, Called, Message};
use std::sync::Arc;

/// A call that the client has requested for its next job.
pub(super) struct Asked {
    pub(super) identity: Identity,
    pub(super) call: Call,
}

impl Asked {
    /// Makes a key for the call.
    ///
    /// # Errors
    /// The reason why there is none, for the client.
    pub(super) fn new(call: Call, are_allowed: bool) -> Result<Self, String> {
        if !are_allowed {
            return Err("a login restricted to a directory connects to no other host".to_owned());
        }
        let identity = Identity::new().map_err(|error| error.to_string())?;
        Ok(Self { identity, call })
    }
}

/// Reports calls to the client. The other host reports everything else.
pub(super) struct CallReporter {
    pub(super) progress: Progress,
    pub(super) outbox: Arc<Outbox>,
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
