//! The messages, and the bounds that both sides keep.

use crate::{
    Arrived, Call, Called, DirectOffer, DirectWish, Join, JoinSecret, Known, LaneOver, ListItem,
    Measure, Measured, Offer, Reuse, Signature, Taken, Want,
};
use haul_model::{
    Altered, Backup, Bases, BlockHash, Compression, ContentHash, Entry, Fault, Filter, Kind, Name,
    Naming, Outcome, Summary, Task, Timestamp,
};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::num::NonZeroU64;

/// Maximum content of one [`crate::FrameType::Data`] frame, in bytes.
pub const DATA_MAX: usize = 4 << 20;

/// Number of content bytes at which a pack is closed.
pub const PACK_TARGET: usize = 1 << 20;

/// Maximum size, in bytes, of files that are sent in packs. Larger ones are sent in pieces.
pub const PACK_FILE_MAX: u64 = 512 << 10;

/// Maximum listing in flight: the sum of [`ListItem::cost`] over all items without an outcome at
/// the Sender. It bounds the memory of both sides.
pub const LIST_WINDOW: u64 = 8 << 20;

/// Maximum number of names of hard-linked files that the Sender of a move holds outside of the
/// window: about 10 MiB. A name is held until it is known whether all names of its file are
/// removed. Files beyond that are not removed.
pub const NAMES_WAITING_MAX: usize = 32 << 10;

/// Maximum number of sources of one job, above the maximum of a command line.
pub const SOURCES_MAX: usize = 256 << 10;

/// The agent's role in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Send these sources of the agent's machine.
    Sender(NamedSources),
    /// Receive on the agent's machine.
    Receiver {
        /// The destination.
        dest: NamedDest,
        /// The sources that may be listed, if another agent sends them. Their paths are cut as far
        /// as they still determine the listed names.
        asked: Option<Box<NamedSources>>,
    },
}

/// The sources of a job, as the user named them. A Receiver accepts no others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSources {
    /// Paths on the Sender's machine, at most [`SOURCES_MAX`]. Relative paths start in the working
    /// directory of a command, or in the home directory on a host.
    #[serde(deserialize_with = "bounded_paths::<_, SOURCES_MAX>")]
    pub paths: Vec<Vec<u8>>,
    /// The directory in which the paths of a mirror's list of sources start. None leads out of it,
    /// unless links are followed.
    pub base: Option<Vec<u8>>,
    /// Directories are walked (`-r`).
    pub recursive: bool,
    /// Symbolic links are followed (`-L`, or no `-r`).
    pub follow: bool,
}

impl NamedSources {
    /// The sources at `paths`, without the content of directories.
    pub fn at(paths: Vec<Vec<u8>>) -> Self {
        Self { paths, ..Self::default() }
    }
}

/// The destination of a job, as the user named it. Relative paths of `bases` and `staging` start in
/// the destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedDest {
    /// The destination, a path on the Receiver's machine.
    pub path: Vec<u8>,
    /// The destination must be a directory: the job has several sources, or is one of several jobs
    /// with this destination.
    pub into_dir: bool,
    /// A number for a single source and the destination's name, if the job may create its
    /// destination. A directory created by an earlier job with the same number is the destination
    /// itself, not a directory to copy into.
    pub origin: Option<[u8; 16]>,
    /// The names that entries got in an earlier run of this job, before the connection was lost.
    /// This run uses the same.
    pub naming: Option<Naming>,
    /// The directories of a mirror's [`Bases`], at most [`Bases::MAX`].
    #[serde(deserialize_with = "bounded_paths::<_, { Bases::MAX }>")]
    pub bases: Vec<Vec<u8>>,
    /// The backups of a mirror, if entries that it replaces or removes are kept.
    pub backup: Option<Backup>,
    /// The directory for temporary files. Without one, each temporary file is next to its final
    /// name.
    pub staging: Option<Vec<u8>>,
}

impl NamedDest {
    /// The destination at `path`: a directory for a source, or its new name.
    pub fn at(path: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }
}

/// Length of a [`JobRequest::token`] in bytes.
pub const TOKEN_LEN: usize = 16;

/// Reads at most `MAX` paths one by one. Empty paths would take 24 times the memory of their frame.
fn bounded_paths<'de, D: Deserializer<'de>, const MAX: usize>(
    input: D,
) -> Result<Vec<Vec<u8>>, D::Error> {
    struct Paths<const MAX: usize>;
    impl<'de, const MAX: usize> Visitor<'de> for Paths<MAX> {
        type Value = Vec<Vec<u8>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX} paths")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut paths = Vec::new();
            while let Some(path) = seq.next_element()? {
                if paths.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                paths.push(path);
            }
            Ok(paths)
        }
    }
    input.deserialize_seq(Paths::<MAX>)
}

/// The client's request for a job.
///
/// In a comparison the Sender answers a [`Want`] with a [`FileEnd`] alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// The task of both sides.
    pub task: Task,
    /// The rules that exclude parts of the sources.
    pub filter: Filter,
    /// Attributes that replace those of the sources.
    pub altered: Altered,
    /// Maximum rate of content, in bytes per second.
    pub rate: Option<NonZeroU64>,
    /// The compression that the Sender uses.
    pub compression: Compression,
    /// A secret of the client, the same for each run of this job. An agent of an earlier run, whose
    /// connection was lost, is ended.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// Contents are sent over direct connections, if possible.
    pub direct: Option<Box<DirectWish>>,
    /// Further logins with this secret may join the job.
    pub joins: Option<JoinSecret>,
    /// Chunks may be offered, and the chunks of published files recorded.
    pub chunks: bool,
    /// The agent's role in the job.
    pub role: Role,
}

/// A source that the Sender of a move has set aside, to remove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prove {
    /// Its number in the listing.
    pub index: u64,
    /// Its new name, which was never used before. `None` if the source is kept, and nothing must be
    /// proven.
    pub parked: Option<Name>,
}

/// The Receiver's answer to a [`Prove`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// The number of the source in the listing.
    pub index: u64,
    /// `Ok` if the destination still has the equal entry, and it is another object. Otherwise the
    /// reason to keep the source.
    pub result: Result<(), Fault>,
}

/// A report by the Sender of a move about a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Removal {
    /// It was removed, or could not be. For a directory only failures are sent.
    ///
    /// - `path`: the path, only for messages.
    /// - `kind`: the kind. The target of a link is left out.
    /// - `result`: the reason if it was not removed.
    Source { path: Vec<u8>, kind: Kind, result: Result<(), Fault> },
    /// The end, sent after [`Message::Done`] was received.
    End,
}

/// An entry that only the destination has, in a directory that both have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// Its path, relative to the destination.
    pub path: Vec<u8>,
    /// The kind. The target of a link is left out.
    pub kind: Kind,
}

/// One file in a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum PackItem {
    /// A file whose whole content is in the pack.
    ///
    /// - `index`: its number in the listing.
    /// - `len`: length of its content, in bytes.
    /// - `mtime`: the modification time when it was opened.
    /// - `hash`: the hash of the content. `None` if none was requested and it has not grown.
    /// - `grew`: it has grown since it was opened. The content ends at the earlier length.
    File { index: u64, len: u32, mtime: Timestamp, hash: Option<ContentHash>, grew: bool },
    /// A file that could not be read.
    ///
    /// - `index`: its number in the listing.
    Fault { index: u64, fault: Fault },
}

/// The outcome of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeItem {
    /// Its number in the listing.
    pub index: u64,
    /// Its fate.
    pub outcome: Outcome,
}

/// A request to an agent outside of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Request {
    /// Describe the entry at a path.
    ///
    /// - `follow`: true if a symbolic link is followed.
    Stat { path: Vec<u8>, follow: bool },
    /// List the directory at a path.
    List { path: Vec<u8> },
    /// Hash the file at a path.
    Hash { path: Vec<u8> },
    /// Check if a job of this origin created the directory at a path.
    ///
    /// - `origin`: the origin, as in a job.
    Made { path: Vec<u8>, origin: [u8; 16] },
    /// Check if the directory at a path is the one in which the client created `marker`. It is if the
    /// mark is visible. If its absence proves nothing, the agent creates a mark for the client to
    /// look for.
    ///
    /// - `marker`: the client's mark. `None` if it could create none.
    /// - `both`: create a mark even if this file system shows the files of others at once.
    Marker { path: Vec<u8>, marker: Option<Name>, both: bool },
    /// Remove the agent's mark.
    RemoveMarker,
    /// Restore the entry that had this path if a killed move has set it aside. Another entry with
    /// the name is kept.
    Restore { path: Vec<u8> },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to `Stat`.
    Entry(Entry),
    /// The answer to `List`: some of the entries. `End` follows the last.
    Entries(Vec<Listed>),
    /// The end of the answer to `List`. The answer to `RemoveMarker`: it is removed.
    End,
    /// The answer to `Hash`.
    Hash(ContentHash),
    /// The answer to any: it failed.
    Fault(Fault),
    /// The answer to `Made`. To `Restore`: whether there was such an entry.
    Made(bool),
    /// The answer to `Marker`.
    Marker(Marked),
    /// The progress of `Hash`, any number of times before its answer.
    Hashing(Hashing),
}

/// The progress of hashing a file, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashing {
    /// The file's length.
    pub size: u64,
    /// Bytes that were hashed.
    pub done: u64,
    /// Hashed bytes that were read. The others are holes.
    pub read: u64,
}

/// The answer to [`Request::Marker`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Marked {
    /// The client's mark is visible: it is the same directory.
    Shown,
    /// The client's mark is not visible, so it is another directory.
    Hidden,
    /// The client's mark is not visible, and this one was created. It is removed on request, or at
    /// the end of the connection.
    Made(Name),
}

/// One entry in the answer to `List`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Listed {
    /// An entry that could be read.
    Entry(Entry),
    /// An entry that could not be read.
    ///
    /// - `name`: its name.
    Fault { name: Name, fault: Fault },
}

/// Every message that is sent as one structure. Contents have frames of their own: see
/// [`crate::PackBuilder`] and [`crate::data_head`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Client to agent: run a job.
    Job(JobRequest),
    /// Client to agent: a request.
    Request(Request),
    /// Agent to client: an answer to a request, or a part of it.
    Reply(Reply),
    /// Sender to Receiver: entries of the sources.
    List(Vec<ListItem>),
    /// Receiver to Sender: requests for contents.
    Want(Vec<Want>),
    /// Receiver to Sender: the sums of a file's old version.
    Signature(Signature),
    /// Sender to Receiver: the chunks of a wanted file.
    Offer(Offer),
    /// Receiver to Sender: the offered chunks that it has.
    Known(Known),
    /// Sender to Receiver: a reference to a part that the Receiver has.
    Reuse(Reuse),
    /// Sender to Receiver: a block of a file was sent.
    BlockSeal(BlockSeal),
    /// Sender to Receiver: the whole content of a file was sent in pieces, or can't be sent.
    FileEnd(FileEnd),
    /// Receiver to Sender: the outcomes of entries.
    Outcomes(Vec<OutcomeItem>),
    /// Receiver to Sender: every entry has an outcome, and everything is published.
    Done(Summary),
    /// Receiver to Sender: a warning. Nothing failed.
    Warning(Warning),
    /// Receiver to Sender: an entry failed after its outcome was sent.
    Late(Late),
    /// Receiver to Sender, before anything else: the names that entries get.
    Naming(Named),
    /// Receiver to Sender, in a comparison: entries that only the destination has.
    Extras(Vec<Extra>),
    /// Sender to Receiver, at the end of a move: the removed sources.
    Removed(Vec<Removal>),
    /// Sender to Receiver, at the end of a move: the sources that will be removed.
    Prove(Vec<Prove>),
    /// Receiver to Sender, at the end of a move: the sources that may be removed.
    Proven(Vec<Proven>),
    /// Either side: the job can't continue.
    Abort(Abort),
    /// Agent to client, on request: the address and key for direct connections, or why there are
    /// none.
    Direct(Result<DirectOffer, String>),
    /// Client to agent, as the first message on a further connection. Agent to client, if that is a
    /// login: the lane has joined.
    Join(Join),
    /// Receiver to Sender: the amount that arrived over a lane.
    Taken(Taken),
    /// Sender to Receiver: a lane is lost.
    LaneOver(LaneOver),
    /// Client to agent, before a job: call another host.
    Call(Call),
    /// Agent to client: the answer to a call, and later reports.
    Called(Called),
    /// Receiver to client, if that is not the Sender: content that arrived.
    Arrived(Arrived),
    /// Client to agent: a request for a measurement.
    Measure(Measure),
    /// Agent to client: the result of a measurement.
    Measured(Measured),
    /// Client, then agent: all messages of this visit were sent, and the connection is at rest.
    Rest,
    /// Either side: meaningless bytes, at most [`crate::FILLER_LEN`]. 0 bytes end a flow.
    Filler(u32),
}

/// The names that entries get, and the directories that were created for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The names that entries get.
    pub naming: Naming,
    /// Number of directories that were created for the destination, or would be: itself and those
    /// above it.
    pub dirs_created: u64,
}

/// The hash of a block, after its last piece. A Receiver can verify the block even if the end of
/// the file never arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSeal {
    /// The file's number in the listing.
    pub index: u64,
    /// The number of the block, from 0. All requested blocks are sealed, in any order. A short
    /// last one is sealed if [`FileEnd::by_blocks`] is set.
    pub block: u64,
    /// The length in bytes with holes. 0 if the block could not be read: the end of the file has
    /// the reason.
    pub len: u32,
    /// The hash, if one was requested.
    pub hash: Option<BlockHash>,
}

/// The end of a file that is sent in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEnd {
    /// Its number in the listing.
    pub index: u64,
    /// The size, time and hash of what was sent, or why the content is invalid.
    pub result: Result<FileSeal, Fault>,
    /// Blocks were sent over any lanes, and may arrive later than this message. The file ends when
    /// all have arrived.
    pub by_blocks: bool,
}

/// Size, time and hash of a file, as stated by its Sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    /// Length of the content, in bytes.
    pub size: u64,
    /// The modification time when it was opened.
    pub mtime: Timestamp,
    /// The hash of the content. It covers only the requested blocks (`ContentHasher::finish_tail`)
    /// if they are not all, the whole hash was not requested, and the file has not grown. `None` if
    /// no hash was requested.
    pub hash: Option<ContentHash>,
    /// It has grown since it was opened. The hash is that of the first `size` bytes, read again
    /// after everything was sent.
    pub grew: bool,
}

/// A warning. Nothing failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The path, relative to the destination.
    pub path: Vec<u8>,
    /// The message.
    pub message: String,
}

/// A directory that failed after its outcome was sent: attributes that are set last could not be
/// set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// The path, relative to the destination.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: Fault,
}

/// The reason why a job can't continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Abort {
    /// The request is invalid for the peer.
    Usage(String),
    /// The destination as a whole can't be used.
    ///
    /// - `path`: its path.
    /// - `fault`: the fault of the destination.
    Destination { path: Vec<u8>, fault: Fault },
    /// The peer violated the protocol.
    Protocol(String),
    /// The user cancelled.
    Cancelled,
}
