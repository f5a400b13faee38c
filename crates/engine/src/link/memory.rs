//! The link between two roles in one process: a message is a call.

use super::{Proof, ReceiverPort, SenderPort, SourceHandle};
use crate::prefetch::{Names, Prefetched};
use haul_model::{Name, Summary};
use haul_proto::{Extra, Late, ListItem, OutcomeItem, Want, Warning};
use std::sync::{Arc, OnceLock, Weak};

/// Both directions. The roles are connected once they exist.
#[derive(Default)]
pub(crate) struct MemoryLink<'a> {
    sender: OnceLock<Weak<dyn SenderPort + 'a>>,
    receiver: OnceLock<Weak<dyn ReceiverPort + 'a>>,
}

impl<'a> MemoryLink<'a> {
    pub(crate) fn connect(
        &self,
        sender: &Arc<impl SenderPort + 'a>,
        receiver: &Arc<impl ReceiverPort + 'a>,
    ) {
        let sender: Weak<dyn SenderPort + 'a> = Arc::downgrade(sender) as _;
        let receiver: Weak<dyn ReceiverPort + 'a> = Arc::downgrade(receiver) as _;
        let fresh = self.sender.set(sender).is_ok() && self.receiver.set(receiver).is_ok();
        debug_assert!(fresh, "a link is connected once");
    }

    fn sender(&self) -> Option<Arc<dyn SenderPort + 'a>> {
        self.sender.get()?.upgrade()
    }

    fn receiver(&self) -> Option<Arc<dyn ReceiverPort + 'a>> {
        self.receiver.get()?.upgrade()
    }
}

/// Methods that pass their message to a role, unless the role has left.
macro_rules! pass_to {
    ($role:ident: $($method:ident($($part:ident: $type:ty),+);)+) => {
        $(fn $method(&self, $($part: $type),+) {
            if let Some(role) = self.$role() {
                role.$method($($part),+);
            }
        })+
    };
}

impl ReceiverPort for MemoryLink<'_> {
    pass_to! { receiver:
        list(items: Vec<ListItem>);
        files(files: Vec<SourceHandle>);
        take_prefetched(index: u64, prefetched: Prefetched);
    }

    fn prefetch(&self, above: u64, name: &Name, entries: &mut Names<'_>) -> Option<Prefetched> {
        self.receiver()?.prefetch(above, name, entries)
    }

    fn proof(&self, index: u64) -> Option<Proof> {
        self.receiver()?.proof(index)
    }
}

impl SenderPort for MemoryLink<'_> {
    pass_to! { sender:
        want(wants: Vec<Want>);
        outcomes(outcomes: Vec<OutcomeItem>);
        extras(extras: Vec<Extra>);
        warning(warning: Warning);
        late(late: Late);
        done(summary: Summary);
    }
}
