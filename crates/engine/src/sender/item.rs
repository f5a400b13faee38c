//! An entry at the Sender, from its listing to its outcome.

use crate::dirs::DirNode;
use haul_model::{BlockRanges, FileId, Kind, Name, Timestamp};
use haul_proto::{How, PACK_FILE_MAX};
use std::sync::Arc;

/// A content that is sent once more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It is not.
    #[default]
    No,
    /// It has changed while it was sent, or its difference was: the Receiver may ask for it
    /// again.
    Offered,
    /// It has asked.
    Asked,
}

/// A listed entry whose outcome is not known yet.
#[derive(Clone)]
pub(crate) struct Item {
    /// Its number in the listing.
    pub(crate) index: u64,
    /// Where it is; `None` for a source that was not found.
    pub(crate) dir: Option<Arc<DirNode>>,
    /// Its name there; `None` for a root.
    pub(crate) name: Option<Name>,
    /// A symbolic link there is followed.
    pub(crate) follow: bool,
    /// Its kind.
    pub(crate) kind: Kind,
    /// Which object it was when it was listed.
    pub(crate) id: Option<FileId>,
    /// Its modification time when it was listed.
    pub(crate) mtime: Option<Timestamp>,
    /// When anything of it had last changed then, where that is known.
    pub(crate) ctime: Option<Timestamp>,
    /// The blocks that are wanted of it, and how.
    pub(crate) blocks: BlockRanges,
    pub(crate) how: How,
    /// The file of this machine into which the Receiver will write it, by its number.
    pub(super) into: Option<u64>,
    /// The path to show where the place does not say it.
    pub(crate) shown: Option<Vec<u8>>,
    /// Its cost in the listing's window.
    pub(super) cost: u64,
    /// Its hash was asked for.
    pub(super) hashed: bool,
    /// Its content was asked for.
    pub(super) wanted: bool,
    pub(super) repeat: Repeat,
    /// It was lost with a lane, and is sent again.
    pub(super) is_repeated: bool,
    /// Bytes of it that progress counts.
    pub(super) counted: u64,
    /// Those of them that the Receiver had in an old version.
    pub(super) matched: u64,
}

impl Item {
    /// The size of a file, 0 for all else.
    pub(super) fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            _ => 0,
        }
    }

    /// True if the Receiver may send the sums of an old version.
    pub(super) fn may_be_signed(&self) -> bool {
        self.size() > PACK_FILE_MAX
    }

    /// Bytes of a file that are not wanted.
    pub(super) fn left_out(&self) -> u64 {
        self.blocks.left_out(self.size())
    }

    /// Bytes that are sent again, and were counted the first time.
    pub(super) fn recounted(&self) -> u64 {
        if self.is_repeated { self.counted.saturating_sub(self.left_out()) } else { 0 }
    }

    /// True if its blocks are sent as they are, and in any order.
    pub(super) fn is_sent_plainly(&self) -> bool {
        !self.how.wants_delta() && !self.how.wants_whole_hash() && !self.how.wants_order()
    }

    /// Bytes of a file that are wanted.
    pub(super) fn len_wanted(&self) -> u64 {
        self.size().saturating_sub(self.left_out())
    }

    /// The path to show, raw.
    pub(super) fn path(&self) -> Vec<u8> {
        match (&self.shown, &self.dir) {
            (Some(shown), _) => shown.clone(),
            (None, Some(dir)) => dir.path_of(self.name.as_ref()),
            (None, None) => Vec::new(),
        }
    }
}
