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
    pub(crate) outbox: Arc<Outbox>,
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
        self.outbox.send_parts(&asked, ANSWERS_PER_FRAME_MAX, Message::Prove);
    }
}

/// The Sender at the other end.
pub(crate) struct RemoteSender {
    pub(crate) outbox: Arc<Outbox>,
    /// Reports the lengths of files, because the side that shows the job does not see contents.
    pub(crate) reports_sizes: bool,
}

/// Methods that send their argument as one message.
macro_rules! send {
    ($($method:ident($type:ty) as $message:ident;)+) => {
        $(fn $method(&self, content: $type) {
            self.outbox.send_message(&Message::$message(content));
        })+
    };
}

impl SenderPort for RemoteSender {
    send! {
        naming(Named) as Naming;
        signature(Signature) as Signature;
        known(Known) as Known;
        warning(Warning) as Warning;
        late(Late) as Late;
        done(Summary) as Done;
        taken(Taken) as Taken;
        arrived(Arrived) as Arrived;
    }

    fn want(&self, wants: Vec<Want>) {
        self.outbox.send_parts(&wants, ANSWERS_PER_FRAME_MAX, Message::Want);
    }

    fn outcomes(&self, outcomes: Vec<OutcomeItem>) {
        let has_paths = outcomes.iter().any(|one| matches!(one.outcome, Outcome::Linked { .. }));
        let max = if has_paths { EXTRAS_PER_FRAME_MAX } else { ANSWERS_PER_FRAME_MAX };
        self.outbox.send_parts(&outcomes, max, Message::Outcomes);
    }

    fn extras(&self, extras: Vec<Extra>) {
        self.outbox.send_parts(&extras, EXTRAS_PER_FRAME_MAX, Message::Extras);
    }

    fn proven(&self, proven: Vec<Proven>) {
        self.outbox.send_parts(&proven, ANSWERS_PER_FRAME_MAX, Message::Proven);
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
