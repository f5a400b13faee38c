//! The messages between the two roles, as two traits. In one process, each role implements its
//! trait itself ([`memory`]). Over a wire, a port encodes the messages, and the reader on the other
//! side calls the role ([`wire`]).

pub(crate) mod greeting;
pub(crate) mod memory;
mod proof;
pub(crate) mod wire;

pub(crate) use proof::{Proof, may_be_same_object, same};

use crate::dirs::DirNode;
use crate::prefetch::{Names, Prefetched};
use haul_model::{Fault, Name, OrFault, Side, Summary};
use haul_proto::{
    Arrived, Extra, Known, Late, ListItem, Named, Offer, OutcomeItem, Prove, Proven, Signature,
    Taken, Want, Warning,
};
use haul_tree::SourceFile;
use std::sync::Arc;

/// The messages of a Sender to its Receiver.
pub(crate) trait ReceiverPort: Send + Sync {
    /// The next items of the listing.
    fn list(&self, items: Vec<ListItem>);

    /// Source files as handles. Only between roles on one machine.
    fn files(&self, files: Vec<SourceHandle>);

    /// In a job that removes its sources: the means to prove, at the moment of the removal, that
    /// the destination has the entry `_index`. Only between roles on one machine, and only once per
    /// entry.
    fn proof(&self, _index: u64) -> Option<Proof> {
        None
    }

    /// Looks up the directory `_name` and its `_entries`, sorted by name, at the destination. The
    /// directory is in the directory listed as `_above`. `None` if that is not known yet, or if the
    /// lookup is useless.
    fn prefetch(&self, _above: u64, _name: &Name, _entries: &mut Names<'_>) -> Option<Prefetched> {
        None
    }

    /// Takes the findings of [`Self::prefetch`] for the directory listed under this number.
    fn take_prefetched(&self, _index: u64, _prefetched: Prefetched) {}

    /// Offers chunks of a wanted file. Only over a wire.
    fn offer(&self, _offer: Offer) {}

    /// Over a wire: asks whether the destination still has these sources, which were set aside.
    /// [`SenderPort::proven`] answers.
    fn prove(&self, _asked: Vec<Prove>) {}
}

/// The messages of a Receiver to its Sender.
pub(crate) trait SenderPort: Send + Sync {
    /// The names that entries get at the destination. In memory, both roles have one monitor.
    fn naming(&self, _named: Named) {}

    /// Requests these contents.
    fn want(&self, wants: Vec<Want>);

    /// Checksums of a file's old version. Only over a wire.
    fn signature(&self, _signature: Signature) {}

    /// The chunks of an offer that the Receiver has. Only over a wire.
    fn known(&self, _known: Known) {}

    /// The outcomes of these entries.
    fn outcomes(&self, outcomes: Vec<OutcomeItem>);

    /// In a check: entries that only the destination has.
    fn extras(&self, extras: Vec<Extra>);

    /// A warning, without a failure.
    fn warning(&self, warning: Warning);

    /// A directory has failed after its outcome.
    fn late(&self, late: Late);

    /// The job is done.
    fn done(&self, summary: Summary);

    /// Proof that the destination still has sources that were set aside.
    fn proven(&self, _proven: Vec<Proven>) {}

    /// True if it asks for proofs, also after the job is done.
    fn asks_for_proof(&self) -> bool {
        false
    }

    /// True if the Receiver knows that no more proofs are requested, and leaves.
    fn has_removed_all(&self) -> bool {
        false
    }

    /// How much of a lane has arrived; only over a wire.
    fn taken(&self, _taken: Taken) {}

    /// Content has arrived over a lane. Sent if the side that shows the job does not see contents.
    fn arrived(&self, _arrived: Arrived) {}

    /// A file has another length than was listed, in bytes; sent before its outcome.
    fn sized(&self, _index: u64, _size: u64) {}

    /// True if the Sender is at the other end of a wire.
    fn is_wire(&self) -> bool {
        false
    }

    /// True if the Sender may be asked to offer chunks.
    fn offers_chunks(&self) -> bool {
        false
    }
}

/// A source file that the Receiver can open itself.
#[derive(Clone)]
pub(crate) struct SourceHandle {
    /// Its number in the listing.
    pub(crate) index: u64,
    /// The directory that contains it.
    pub(crate) dir: Arc<DirNode>,
    /// Its name in `dir`.
    pub(crate) name: Name,
    /// The hash is requested, not the content.
    pub(crate) hashes: bool,
    /// The length when it was listed, in bytes.
    pub(crate) size: u64,
    /// A symbolic link is followed.
    pub(crate) follow: bool,
}

impl SourceHandle {
    /// Opens the file.
    ///
    /// # Errors
    /// The fault of the source, if it can't be opened.
    pub(crate) fn open(&self) -> Result<Box<dyn SourceFile>, Fault> {
        let opened = self.dir.handle().and_then(|dir| dir.open_file(&self.name, self.follow));
        opened.or_fault(Side::Source, "open")
    }
}
