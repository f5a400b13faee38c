//! The end of a lane before that of its job, and what becomes of the job by it.

use super::joining::Joined;
use crate::control::Control;
use crate::{Event, LinkEvent};
use haul_model::{escape_controls, os_text};
use haul_net::ConnectError;
use std::io;
use std::sync::Arc;

/// The consequences of a lost lane for the job.
pub(super) struct OnLaneLost {
    pub(super) peer: String,
    pub(super) requires_joined: bool,
    pub(super) lets_in: bool,
    pub(super) is_direct: bool,
    pub(super) joined: Arc<Joined>,
}

impl OnLaneLost {
    /// A lane has ended before the job, and so many are left.
    pub(super) fn tell(self, control: &Control<'_>, left: usize, end: io::Result<()>) {
        let error = end.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        let Self { peer: host, requires_joined, lets_in, is_direct, joined } = self;
        if !is_direct {
            joined.lose_login();
        }
        if left > 0 {
            return;
        }
        if requires_joined {
            // The peer may have said why, or that all is done.
            control.linger();
            // Who has opened them ends the job, and knows what to tell: that the other side
            // has hung up would be no reason.
            if lets_in {
                control.linger();
            }
            return control.fail(match is_direct {
                true => ConnectError::DirectLost { host, detail: os_text(&error) }.into(),
                false => ConnectError::lost(&host, &error).into(),
            });
        }
        if !joined.tells_loss() {
            return;
        }
        let of =
            if is_direct { "the direct connections were" } else { "the open connections were" };
        let (host, reason) =
            (&*host, &*escape_controls(&format!("{of} lost: {}", os_text(&error))));
        control.monitor().event(Event::Link(match is_direct {
            true => LinkEvent::NotDirect { host, reason },
            false => LinkEvent::NotLoggedIn { host, reason },
        }));
    }
}
