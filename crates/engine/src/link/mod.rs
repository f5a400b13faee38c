//! The messages between the two roles, as two traits. In memory each role
//! stands for itself ([`memory`]); over a wire a port encodes what it is told,
//! and the other side's reader calls the role ([`wire`]).

pub(crate) mod greeting;
pub(crate) mod memory;
mod proof;
pub(crate) mod wire;

pub(crate) use proof::{Proof, may_be_one, same};

use crate::dirs::DirNode;
use crate::prefetch::{Names, Prefetched};
use haul_model::{Name, Summary};
use haul_proto::{
    Arrived, Extra, Known, Late, ListItem, Named, Offer, OutcomeItem, Prove, Proven, Signature,
    Taken, Want, Warning,
};
use std::sync::Arc;

/// The messages of a Sender to its Receiver.
pub(crate) trait ReceiverPort: Send + Sync {
    /// The next items of the listing.
    fn list(&self, items: Vec<ListItem>);

    /// Whole files as handles; only between roles on one machine.
    fn files(&self, files: Vec<SourceHandle>);

    /// In a job that removes its sources: by what it can be proven, at the moment of
    /// the removal, that the destination has the entry of that number; only between
    /// roles on one machine. It is given once.
    fn proof(&self, _index: u64) -> Option<Proof> {
        None
    }

    /// Looks ahead at the places of the directory `name` and of its `entries`,
    /// in the order of their names; the directory is in the one that was listed under the
    /// number `above`. `None` where that is not known yet, or is of no use.
    fn prefetch(&self, _above: u64, _name: &Name, _entries: &mut Names<'_>) -> Option<Prefetched> {
        None
    }

    /// Takes the findings of [`Self::prefetch`] for the directory listed under this number.
    fn take_prefetched(&self, _index: u64, _prefetched: Prefetched) {}

    /// Chunks of a file that is wanted; only over a wire.
    fn offer(&self, _offer: Offer) {}

    /// The same over a wire: these were set aside, and can go when the destination still
    /// has them, which [`SenderPort::proven`] answers.
    fn prove(&self, _asked: Vec<Prove>) {}
}

/// The messages of a Receiver to its Sender.
pub(crate) trait SenderPort: Send + Sync {
    /// The place to which entries go; in memory both roles have one monitor.
    fn naming(&self, _named: Named) {}

    /// These contents shall be sent.
    fn want(&self, wants: Vec<Want>);

    /// The sums of a file's old version; only over a wire.
    fn signature(&self, _signature: Signature) {}

    /// The chunks of an offer that this side has; only over a wire.
    fn known(&self, _known: Known) {}

    /// The fate of these.
    fn outcomes(&self, outcomes: Vec<OutcomeItem>);

    /// In a check: only the destination has these.
    fn extras(&self, extras: Vec<Extra>);

    /// Something is worth telling, though nothing failed.
    fn warning(&self, warning: Warning);

    /// A directory that has its outcome has failed after all.
    fn late(&self, late: Late);

    /// The job is done.
    fn done(&self, summary: Summary);

    /// Proof that the destination still has sources that were set aside.
    fn proven(&self, _proven: Vec<Proven>) {}

    /// True if it asks for that, also when the job is done.
    fn asks_for_proof(&self) -> bool {
        false
    }

    /// True if the Receiver knows that nothing more is asked for: it leaves.
    fn has_removed_all(&self) -> bool {
        false
    }

    /// How much of a lane has arrived; only over a wire.
    fn taken(&self, _taken: Taken) {}

    /// This has come by a lane; sent where the side that shows the job does not see it.
    fn arrived(&self, _arrived: Arrived) {}

    /// A file has another length than was listed, in bytes; sent before its outcome.
    fn sized(&self, _index: u64, _size: u64) {}

    /// True if it is at the other end of a wire.
    fn is_far(&self) -> bool {
        false
    }

    /// True if it may be asked for offers of chunks.
    fn offers_chunks(&self) -> bool {
        false
    }
}

/// A source file that the receiver can open itself.
#[derive(Clone)]
pub(crate) struct SourceHandle {
    /// Its number in the listing.
    pub(crate) index: u64,
    /// Where it is.
    pub(crate) dir: Arc<DirNode>,
    /// Its name there.
    pub(crate) name: Name,
    /// Its hash is asked for, and not its content.
    pub(crate) hashes: bool,
    /// How long it was when it was listed, in bytes.
    pub(crate) size: u64,
    /// True if it may be a symbolic link.
    pub(crate) follow: bool,
}
