//! An entry at the Sender, from its listing to its outcome.

use crate::dirs::DirNode;
use haul_model::{BlockRanges, Fault, FaultKind, FileId, Kind, Name, Side, Timestamp};
use haul_proto::{How, PACK_FILE_MAX, Want};
use haul_tree::SourceFile;
use std::sync::Arc;

/// The state of a content that may be sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It was not sent again.
    #[default]
    No,
    /// The content or its old version changed while it was sent, so the Receiver may request it
    /// again.
    Offered,
    /// The Receiver has requested it again.
    Requested,
}

/// The version of an entry at the time of its listing, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Version {
    pub(super) id: Option<FileId>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) ctime: Option<Timestamp>,
}

/// A listed entry whose outcome is not known yet.
#[derive(Clone)]
pub(crate) struct Item {
    /// Its number in the listing.
    pub(crate) index: u64,
    /// The directory that contains it; `None` for a source that was not found.
    pub(crate) dir: Option<Arc<DirNode>>,
    /// Its name in `dir`; `None` for a root.
    pub(crate) name: Option<Name>,
    /// A symbolic link is followed.
    pub(crate) follow: bool,
    pub(crate) kind: Kind,
    /// The version that was listed.
    pub(super) listed: Version,
    /// The last request for its content.
    pub(super) want: Want,
    /// The path to show, if `dir` and `name` do not give it.
    pub(crate) shown: Option<Vec<u8>>,
    /// The cost in the listing's window.
    pub(super) cost: u64,
    /// The hash was requested.
    pub(super) hashed: bool,
    /// The content was requested.
    pub(super) wanted: bool,
    pub(super) repeat: Repeat,
    /// The content was lost with a lane, and is sent again.
    pub(super) is_repeated: bool,
    /// Bytes that progress counts.
    pub(super) counted: u64,
    /// Bytes of them that the Receiver has in an old version.
    pub(super) matched: u64,
}

impl Item {
    /// An entry `name` of `dir` that was listed now, and whose content is not wanted yet.
    pub(super) fn of(
        index: u64,
        dir: Option<Arc<DirNode>>,
        name: Option<Name>,
        kind: Kind,
    ) -> Self {
        Self {
            index,
            dir,
            name,
            follow: false,
            kind,
            listed: Version::default(),
            want: Want { index, how: How::PLAIN, blocks: BlockRanges::none(), into: None },
            shown: None,
            cost: 0,
            hashed: false,
            wanted: false,
            repeat: Repeat::No,
            is_repeated: false,
            counted: 0,
            matched: 0,
        }
    }

    /// The size of a file, 0 for other kinds.
    pub(super) fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            _ => 0,
        }
    }

    /// True if the Receiver may send checksums of an old version.
    pub(super) fn may_have_signature(&self) -> bool {
        self.size() > PACK_FILE_MAX
    }

    /// Bytes of a file that are not wanted.
    pub(super) fn unwanted_len(&self) -> u64 {
        self.want.blocks.unwanted_len(self.size())
    }

    /// Bytes that are sent again and were already counted.
    pub(super) fn recounted(&self) -> u64 {
        if self.is_repeated { self.counted.saturating_sub(self.unwanted_len()) } else { 0 }
    }

    /// True if the hash at the end covers the whole content.
    pub(super) fn hashes_all(&self) -> bool {
        self.want.how.has(How::WHOLE_HASH) || self.want.blocks.is_all()
    }

    /// True if the blocks are sent unchanged and in any order.
    pub(super) fn is_sent_plainly(&self) -> bool {
        !self.want.how.has_any(How::DELTA.with(How::WHOLE_HASH).with(How::IN_ORDER))
    }

    /// Bytes of a file that are wanted.
    pub(super) fn len_wanted(&self) -> u64 {
        self.size().saturating_sub(self.unwanted_len())
    }

    /// The path to show, not escaped.
    pub(super) fn path(&self) -> Vec<u8> {
        match (&self.shown, &self.dir) {
            (Some(shown), _) => shown.clone(),
            (None, Some(dir)) => dir.path_of(self.name.as_ref()),
            (None, None) => Vec::new(),
        }
    }

    /// True if the wanted blocks can be sent: all exist and, unless the whole file is wanted, the file
    /// is unchanged since the listing.
    pub(super) fn is_still_wanted(&self, source: &dyn SourceFile) -> bool {
        let all_exist = self.want.blocks.begin_within(source.seal().size);
        all_exist && (self.want.blocks.is_all() || self.matches_listing(source))
    }

    /// True if the file is unchanged since the listing.
    fn matches_listing(&self, source: &dyn SourceFile) -> bool {
        let seal = source.seal();
        let is_same = (self.size(), self.listed.mtime) == (seal.size, Some(seal.mtime));
        is_same && self.listed.ctime.is_none_or(|listed| source.ctime() == Some(listed))
    }
}

/// The reason why content was not sent.
pub(super) enum Unsent {
    /// The job ends, or the lane is lost.
    Stopped,
    /// The file can't be sent.
    Failed(Fault),
}

impl From<Fault> for Unsent {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl Unsent {
    /// The result of sending a content, or the fault of its file. `None` if it was stopped.
    pub(super) fn unless_stopped<T>(sent: Result<T, Self>) -> Option<Result<T, Fault>> {
        match sent {
            Ok(sent) => Some(Ok(sent)),
            Err(Self::Failed(fault)) => Some(Err(fault)),
            Err(Self::Stopped) => None,
        }
    }
}

/// The Receiver gave the file up, and has reported the reason itself.
pub(super) fn given_up() -> Fault {
    Fault::new(Side::Destination, FaultKind::Io, "it was given up")
}
