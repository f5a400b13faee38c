//! The ports of both roles over a wire. They encode messages and queue them.

use super::outgoing::Outbox;
use crate::link::{ReceiverPort, SenderPort, SourceHandle};
use haul_model::{Outcome, Summary};
use haul_proto::{
    Arrived, Extra, Known, Late, ListItem, Message, Named, Offer, OutcomeItem, Prove, Proven,
    Signature, Taken, Want, Warning, encode,
};
use std::sync::Arc;

/// The most wants, outcomes or proofs in one frame. It stays far below its bound even if every
/// outcome has a long message.
const ANSWERS_PER_FRAME_MAX: usize = 128;

/// The most extras in one frame. With the longest paths, it stays below its bound.
const EXTRAS_PER_FRAME_MAX: usize = 32;

/// The Receiver at the other end.
pub(crate) struct RemoteReceiver {
    outbox: Arc<Outbox>,
}

impl RemoteReceiver {
    /// The Receiver that is reached through `outbox`.
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox }
    }
}

impl ReceiverPort for RemoteReceiver {
    fn list(&self, items: Vec<ListItem>) {
        self.outbox.list(encode(&Message::List(items)));
    }

    fn files(&self, _: Vec<SourceHandle>) {
        unreachable!("a Sender with a queue sends contents, not handles");
    }

    fn offer(&self, offer: Offer) {
        // Before contents, like the listing.
        self.outbox.list(encode(&Message::Offer(offer)));
    }

    fn prove(&self, asked: Vec<Prove>) {
        for part in asked.chunks(ANSWERS_PER_FRAME_MAX) {
            self.outbox.send_message(&Message::Prove(part.to_vec()));
        }
    }
}

/// The Sender at the other end.
pub(crate) struct RemoteSender {
    pub(crate) outbox: Arc<Outbox>,
    /// Reports the lengths of files, because the side that shows the job does not see contents.
    pub(crate) reports_sizes: bool,
}

impl SenderPort for RemoteSender {
    fn naming(&self, named: Named) {
        self.outbox.send_message(&Message::Naming(named));
    }

    fn want(&self, wants: Vec<Want>) {
        for part in wants.chunks(ANSWERS_PER_FRAME_MAX) {
            self.outbox.send_message(&Message::Want(part.to_vec()));
        }
    }

    fn signature(&self, signature: Signature) {
        self.outbox.send_message(&Message::Signature(signature));
    }

    fn known(&self, known: Known) {
        self.outbox.send_message(&Message::Known(known));
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        let has_paths = outcomes.iter().any(|one| matches!(one.outcome, Outcome::Linked { .. }));
        let max = if has_paths { EXTRAS_PER_FRAME_MAX } else { ANSWERS_PER_FRAME_MAX };
        for part in outcomes.chunks(max) {
            self.outbox.send_message(&Message::Outcomes(part.to_vec()));
        }
    }

    fn extras(&self, extras: Vec<Extra>) {
        for part in extras.chunks(EXTRAS_PER_FRAME_MAX) {
            self.outbox.send_message(&Message::Extras(part.to_vec()));
        }
    }

    fn warning(&self, warning: Warning) {
        self.outbox.send_message(&Message::Warning(warning));
    }

    fn late(&self, late: Late) {
        self.outbox.send_message(&Message::Late(late));
    }

    fn done(&self, summary: Summary) {
        self.outbox.send_message(&Message::Done(summary));
    }

    fn proven(&self, proven: Vec<Proven>) {
        for part in proven.chunks(ANSWERS_PER_FRAME_MAX) {
            self.outbox.send_message(&Message::Proven(part.to_vec()));
        }
    }

    fn taken(&self, taken: Taken) {
        self.outbox.send_message(&Message::Taken(taken));
    }

    fn arrived(&self, arrived: Arrived) {
        self.outbox.send_message(&Message::Arrived(arrived));
    }

    fn sized(&self, index: u64, size: u64) {
        if self.reports_sizes {
            let (bytes, blocks) = (0, 0);
            self.arrived(Arrived { bytes, index: Some(index), blocks, size: Some(size) });
        }
    }

    fn is_wire(&self) -> bool {
        true
    }

    fn offers_chunks(&self) -> bool {
        self.outbox.dedups()
    }
}
