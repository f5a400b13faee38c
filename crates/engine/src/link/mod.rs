//! The messages between the two roles, as two traits. In one process, each role implements its
//! trait itself ([`MemoryLink`]). Over a wire, a port encodes the messages, and the reader on the
//! other side calls the role ([`wire`]).

pub(crate) mod greeting;
pub(crate) mod wire;

use crate::dirs::DirNode;
use crate::prefetch::{Names, Prefetched};
use haul_model::words::may_be_same_name;
use haul_model::{Fault, FaultKind, FileId, Name, OrFault, Side, Summary};
use haul_proto::{
    Arrived, Extra, Known, Late, ListItem, Named, Offer, OutcomeItem, Prove, Proven, Signature,
    Taken, Want, Warning,
};
use haul_tree::{Meta, MetaKind, SourceFile, TreeDir};
use std::io;
use std::sync::{Arc, OnceLock, Weak};

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

/// An entry of the destination that was found to be the same as a source. It proves, at the moment
/// when the source is removed, that the destination has another copy. File numbers prove nothing:
/// some mounts show the same file with another number, and the compared entry may have been moved
/// since.
pub(crate) struct Proof {
    /// The directory that contains it, on this machine.
    pub(crate) dir: Arc<DirNode>,
    /// Its name in `dir`.
    pub(crate) name: Name,
    /// The name of the source.
    pub(crate) source: Name,
    /// Its metadata when it was compared. Any directory counts as the same.
    pub(crate) meta: Meta,
}

impl Proof {
    /// Checks that the entry still exists, after the source was set aside under the unique name
    /// `parked`. If `parked` appears in this directory, it is the source's own directory, and the
    /// entry is the source itself. Two opposite moves both set aside before they check, so at most
    /// one check succeeds.
    ///
    /// # Errors
    /// The reason why the source must stay.
    pub(crate) fn holds(&self, parked: &Name) -> Result<(), Fault> {
        let looked = self.dir.handle().and_then(|dir| {
            let is_one_name = may_be_same_name(self.source.as_bytes(), self.name.as_bytes());
            if is_one_name && dir.stat(parked, false)?.is_some() {
                return Ok(None);
            }
            let now = dir.stat(&self.name, false)?;
            let is_still = now.is_some_and(|now| self.is_still(&*dir, &now));
            if is_still && !dir.has_known_file_system() {
                self.read_some(&*dir)?;
            }
            Ok(Some(is_still))
        });
        match looked {
            Ok(Some(true)) => Ok(()),
            Ok(None) => Err(same()),
            Ok(Some(false)) => Err(missing()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
            Err(error) => Err(Fault::from_io(
                Side::Destination,
                "read the metadata of the destination",
                &error,
            )),
        }
    }

    /// Reads a byte, so that a mount whose cached metadata is outdated notices that the file is
    /// gone.
    fn read_some(&self, dir: &dyn TreeDir) -> io::Result<()> {
        if let MetaKind::File { size: 1.. } = self.meta.kind {
            let mut first = [0];
            dir.open_file(&self.name, false)?.read_at(&mut first, 0)?;
        }
        Ok(())
    }

    fn is_still(&self, dir: &dyn TreeDir, now: &Meta) -> bool {
        let Meta { kind, ref attributes, id, .. } = self.meta;
        now.kind == kind
            && may_be_same_object(dir, now.id, id)
            && (kind == MetaKind::Dir || now.attributes.mtime == attributes.mtime)
    }
}

/// True if two numbers of an entry of `dir` can belong to one object. File systems in user space
/// may renumber their entries.
pub(crate) fn may_be_same_object(
    dir: &dyn TreeDir,
    one: Option<FileId>,
    other: Option<FileId>,
) -> bool {
    one == other || !dir.has_known_file_system()
}

/// Source and destination are one object.
pub(crate) fn same() -> Fault {
    let message = "source and destination are the same";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}

fn missing() -> Fault {
    let message = "not removed: its copy has changed since";
    Fault::new(Side::Destination, FaultKind::Changed, message)
}

/// The link within a process: a message is a call. The roles are connected once they exist.
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
