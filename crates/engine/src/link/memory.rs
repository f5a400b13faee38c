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

impl ReceiverPort for MemoryLink<'_> {
    fn list(&self, items: Vec<ListItem>) {
        if let Some(receiver) = self.receiver() {
            receiver.list(items);
        }
    }

    fn files(&self, files: Vec<SourceHandle>) {
        if let Some(receiver) = self.receiver() {
            receiver.files(files);
        }
    }

    fn prefetch(&self, above: u64, name: &Name, entries: &mut Names<'_>) -> Option<Prefetched> {
        self.receiver()?.prefetch(above, name, entries)
    }

    fn take_prefetched(&self, index: u64, prefetched: Prefetched) {
        if let Some(receiver) = self.receiver() {
            receiver.take_prefetched(index, prefetched);
        }
    }

    fn proof(&self, index: u64) -> Option<Proof> {
        self.receiver()?.proof(index)
    }
}

impl SenderPort for MemoryLink<'_> {
    fn want(&self, wants: Vec<Want>) {
        if let Some(sender) = self.sender() {
            sender.want(wants);
        }
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        if let Some(sender) = self.sender() {
            sender.outcomes(outcomes);
        }
    }

    fn extras(&self, extras: Vec<Extra>) {
        if let Some(sender) = self.sender() {
            sender.extras(extras);
        }
    }

    fn warning(&self, warning: Warning) {
        if let Some(sender) = self.sender() {
            sender.warning(warning);
        }
    }

    fn late(&self, late: Late) {
        if let Some(sender) = self.sender() {
            sender.late(late);
        }
    }

    fn done(&self, summary: Summary) {
        if let Some(sender) = self.sender() {
            sender.done(summary);
        }
    }
}
