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

/// Longest content of one [`crate::FrameType::Data`] frame, in bytes.
pub const DATA_MAX: usize = 4 << 20;

/// A pack is closed when it holds this many bytes of content.
pub const PACK_TARGET: usize = 1 << 20;

/// Files up to this size, in bytes, travel in packs; larger ones in pieces.
pub const PACK_FILE_MAX: u64 = 512 << 10;

/// How much of a listing may be under way: the sum of [`ListItem::cost`] over
/// all items whose outcome the sender has not heard yet. It bounds the memory
/// of both sides.
pub const LIST_WINDOW: u64 = 8 << 20;

/// Names of files with several that the sender of a move has wait outside of the window, until
/// it is known if all of a file go: some 10 MiB. Of those beyond, none goes.
pub const NAMES_WAITING_MAX: usize = 32 << 10;

/// The most sources of one job: more than the words of a command line can be.
pub const SOURCES_MAX: usize = 256 << 10;

/// Which role the agent shall play in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Send these: paths on the agent's machine.
    Sender {
        /// The sources, at most [`SOURCES_MAX`].
        #[serde(deserialize_with = "few::<_, SOURCES_MAX>")]
        sources: Vec<Vec<u8>>,
        /// The directory that they are in and must not lead out of, if they are a list.
        base: Option<Vec<u8>>,
        /// True if directories may be walked.
        recursive: bool,
        /// True if symbolic links are followed.
        follow: bool,
    },
    /// Receive into this place on the agent's machine.
    Receiver {
        /// The destination as the user gave it.
        dest: Vec<u8>,
        /// It must be a directory.
        into_dir: bool,
        /// A number for the source and the destination's name: a directory that a job
        /// with the same number has made is the new name again.
        origin: Option<[u8; 16]>,
        /// The names that entries got when the same job was begun before, and its
        /// connection was lost: they get the same.
        naming: Option<Naming>,
        /// The directories of a mirror's [`Bases`], at most [`Bases::MAX`]; a relative
        /// one starts in the destination.
        #[serde(deserialize_with = "few::<_, { Bases::MAX }>")]
        bases: Vec<Vec<u8>>,
        /// The backups of a mirror, if it makes any.
        backup: Option<Backup>,
        /// The directory in which files are staged, as those of bases; without one each is
        /// where it will appear.
        staging: Option<Vec<u8>>,
        /// The sources that may be listed, where the client has named them to another
        /// agent, which sends them.
        asked: Option<Box<NamedSources>>,
    },
}

/// The sources of a job as the client has named them: a receiver takes nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSources {
    /// Their paths, as far as they say under which names they are listed; at most
    /// [`SOURCES_MAX`].
    #[serde(deserialize_with = "few::<_, SOURCES_MAX>")]
    pub sources: Vec<Vec<u8>>,
    /// The directory that they are in, if they are a list.
    pub base: Option<Vec<u8>>,
    /// True if directories may be listed.
    pub recursive: bool,
    /// True if no symbolic link may be.
    pub follow: bool,
}

/// Bytes of a [`JobRequest::token`].
pub const TOKEN_LEN: usize = 16;

/// Reads at most `MAX` paths one by one: those without a byte would take 24 times the
/// memory of their frame.
fn few<'de, D: Deserializer<'de>, const MAX: usize>(input: D) -> Result<Vec<Vec<u8>>, D::Error> {
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

/// The client starts a job.
///
/// In a comparison the sender answers a [`Want`] with a [`FileEnd`] alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest {
    /// The task of both sides.
    pub task: Task,
    /// The rules that leave out parts of the sources.
    pub filter: Filter,
    /// Attributes that entries get in place of those of the sources.
    pub altered: Altered,
    /// Bytes of content that may be sent in a second.
    pub rate: Option<NonZeroU64>,
    /// The way in which the sender compresses.
    pub compression: Compression,
    /// A secret of the client's, the same each time that it begins this job: an agent that
    /// is still at it, behind a connection that was lost, is ended.
    pub token: Option<[u8; TOKEN_LEN]>,
    /// Contents go over connections past ssh, if there can be any.
    pub direct: Option<Box<DirectWish>>,
    /// Further logins that tell this secret may join the job.
    pub joins: Option<JoinSecret>,
    /// Chunks may be offered, and what the job teaches of them kept.
    pub chunks: bool,
    /// The agent's part in it.
    pub role: Role,
}

/// A source that the sender of a move has set aside, to remove it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prove {
    /// Its number in the listing.
    pub index: u64,
    /// Its name now, which nothing ever had before; `None` if the source stays, and
    /// nothing has to be proven.
    pub aside: Option<Name>,
}

/// The receiver's answer about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proven {
    /// The number of the source in the listing.
    pub index: u64,
    /// The destination still has what was told to be the same, and it is another
    /// object; or why the source has to stay.
    pub result: Result<(), Fault>,
}

/// The fate of a source, as the sender of a move tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Removal {
    /// It was removed, or could not be. Of a directory only the latter is told.
    Source {
        /// Its path, for showing only.
        path: Vec<u8>,
        /// Its kind; a link's target is left out.
        kind: Kind,
        /// Why it stays, if it does.
        result: Result<(), Fault>,
    },
    /// That was all; told after [`Message::Done`] was heard.
    End,
}

/// An entry that only the destination has, in a directory that both have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// Its path, relative to the destination.
    pub path: Vec<u8>,
    /// Its kind; a link's target is left out.
    pub kind: Kind,
}

/// One file in a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PackItem {
    /// A file whose whole content is in the pack.
    File {
        /// Its number in the listing.
        index: u64,
        /// Length of its content, in bytes.
        len: u32,
        /// Its modification time when it was opened.
        mtime: Timestamp,
        /// The hash of its content; none if none was wanted and it has not grown.
        hash: Option<ContentHash>,
        /// It has grown since it was opened; the content is that of then.
        grew: bool,
    },
    /// A file that could not be read.
    Fault {
        /// Its number in the listing.
        index: u64,
        /// The fault.
        fault: Fault,
    },
}

/// The fate of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeItem {
    /// Its number in the listing.
    pub index: u64,
    /// Its fate.
    pub outcome: Outcome,
}

/// One thing asked of an agent outside of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Describe the entry at a path.
    Stat {
        /// The path.
        path: Vec<u8>,
        /// True if a symbolic link is followed.
        follow: bool,
    },
    /// List the directory at a path.
    List {
        /// The path.
        path: Vec<u8>,
    },
    /// Hash the file at a path.
    Hash {
        /// The path.
        path: Vec<u8>,
    },
    /// Was the directory at a path made by a job of this origin?
    Made {
        /// The path.
        path: Vec<u8>,
        /// The origin, as in a policy.
        origin: [u8; 16],
    },
    /// Is the directory at a path the one in which the client has made `mark`? It is
    /// if that shows. Where that proves nothing, a mark is made in the directory in
    /// turn, for the client to look for.
    Mark {
        /// The path.
        path: Vec<u8>,
        /// The mark of the client; `None` if it could make none.
        mark: Option<Name>,
        /// One is to be made here even if this file system shows at once what others
        /// make in it.
        both: bool,
    },
    /// The mark that was made here goes.
    Unmark,
    /// Give the entry that had this path its name back, if a killed move has set it aside
    /// and nothing else has the name.
    Restore {
        /// The path.
        path: Vec<u8>,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Stat`.
    Entry(Entry),
    /// To `List`: some of the entries; more follow until `End`.
    Entries(Vec<Listed>),
    /// To `List`: that was all. To `Unmark`: it is gone.
    End,
    /// To `Hash`.
    Hash(ContentHash),
    /// To any: it can't be answered.
    Fault(Fault),
    /// To `Made`. To `Restore`: whether there was something.
    Made(bool),
    /// To `Mark`.
    Mark(Marked),
    /// To `Hash`, any number of times before `Hash`.
    Hashing(Hashing),
}

/// How far the hashing of a file is, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hashing {
    /// The file's length.
    pub size: u64,
    /// Bytes that are hashed.
    pub done: u64,
    /// Those of them that were read; the others are holes.
    pub read: u64,
}

/// The answer to [`Request::Mark`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Marked {
    /// The client's mark shows: it is the same directory.
    Shown,
    /// The client's mark does not show, and it would.
    Hidden,
    /// The client's mark does not show, and this directory was made. It goes when that
    /// is asked for, at the latest with the conversation.
    Made(Name),
}

/// One entry in an answer to `List`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listed {
    /// An entry that could be looked at.
    Entry(Entry),
    /// One that could not.
    Fault {
        /// Its name.
        name: Name,
        /// The fault.
        fault: Fault,
    },
}

/// Every message that travels as one structure. Contents travel in frames of
/// their own shape, see [`crate::PackBuilder`] and [`crate::data_head`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Client to agent: this is to be done.
    Job(JobRequest),
    /// Client to agent: one question.
    Request(Request),
    /// Agent to client: an answer.
    Reply(Reply),
    /// Sender to receiver: what there is.
    List(Vec<ListItem>),
    /// Receiver to sender: what to send.
    Want(Vec<Want>),
    /// Receiver to sender: what it has of a file in another version.
    Signature(Signature),
    /// Sender to receiver: chunks of a file that is wanted.
    Offer(Offer),
    /// Receiver to sender: those of them that it has.
    Known(Known),
    /// Sender to receiver: the receiver has a part of a file.
    Reuse(Reuse),
    /// Sender to receiver: a block of a file was sent.
    BlockSeal(BlockSeal),
    /// Sender to receiver: the whole content of a file was sent in pieces, or
    /// it can't be.
    FileEnd(FileEnd),
    /// Receiver to sender: what became of entries.
    Outcomes(Vec<OutcomeItem>),
    /// Receiver to sender: everything has an outcome and all is in its place.
    Done(Summary),
    /// Receiver to sender: something worth telling, though nothing failed.
    Warning(Warning),
    /// Receiver to sender: an entry that has its outcome failed after all.
    Late(Late),
    /// Receiver to sender, before anything else: the names that entries get.
    Naming(Named),
    /// Receiver to sender, in a comparison: what only the destination has.
    Extras(Vec<Extra>),
    /// Sender to receiver, at the end of a move: what is gone.
    Removed(Vec<Removal>),
    /// Sender to receiver, at the end of a move: what is about to go.
    Prove(Vec<Prove>),
    /// Receiver to sender, at the end of a move: what may go.
    Proven(Vec<Proven>),
    /// Either: the job can't go on.
    Abort(Abort),
    /// Agent to client, if that has wished for it: how it is reached directly, or why it
    /// can't be.
    Direct(Result<DirectOffer, String>),
    /// Client to agent, first of all on a further connection. Agent to client, on one that is
    /// a login: it has joined.
    Join(Join),
    /// Receiver to sender: how much of a lane has arrived.
    Taken(Taken),
    /// Sender to receiver: a lane is lost.
    LaneOver(LaneOver),
    /// Client to agent, before a job: it is to call another host in that.
    Call(Call),
    /// Agent to client: the answer, and news of the call.
    Called(Called),
    /// Receiver to client, if that is not the sender: this has come.
    Arrived(Arrived),
    /// Client to agent: something to be measured.
    Measure(Measure),
    /// Agent to client: the answer to that.
    Measured(Measured),
    /// Client, then agent: all of this visit was sent, and the connection is at rest.
    Rest,
    /// Either: so many bytes that mean nothing, at most [`crate::FILLER_LEN`]. None of them end
    /// a flow.
    Filler(u32),
}

/// The place to which entries go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The names that entries get.
    pub naming: Naming,
    /// Directories that were made for the destination, itself and above it, or would be.
    pub dirs_made: u64,
}

/// The hash of a block of a file that travels in pieces, after its last piece:
/// so a receiver knows what it has even if the file's end never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSeal {
    /// The file's number in the listing.
    pub index: u64,
    /// Which block, from 0. All blocks that were wanted are sealed, in any order. A short last
    /// one is where [`FileEnd::by_blocks`] is set.
    pub block: u64,
    /// Its length in bytes, holes included; 0 if it could not be read: the end of the file says
    /// why.
    pub len: u32,
    /// Its hash, if one was wanted.
    pub hash: Option<BlockHash>,
}

/// The end of a file that travels in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEnd {
    /// Its number in the listing.
    pub index: u64,
    /// The size, time and hash of what was sent, or why it is no good.
    pub result: Result<FileSeal, Fault>,
    /// Blocks of it went over any lanes, and those of a whole file may still be on their way:
    /// it ends when all are there.
    pub by_blocks: bool,
}

/// Size, time and hash of a file, for which its sender vouches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSeal {
    /// Length of the content, in bytes.
    pub size: u64,
    /// Its modification time when it was opened.
    pub mtime: Timestamp,
    /// The hash of the content; of its wanted blocks alone
    /// (`ContentHasher::finish_tail`) if some were not, without the whole hash, and it has
    /// not grown. There is none if none was wanted.
    pub hash: Option<ContentHash>,
    /// It has grown since it was opened. The hash is that of the first `size` bytes,
    /// read again when all was sent.
    pub grew: bool,
}

/// Something worth telling, though nothing failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Its path, relative to the destination.
    pub path: Vec<u8>,
    /// The words.
    pub message: String,
}

/// A directory that failed after its outcome was told: what is set when all in
/// it is done could not be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Its path, relative to the destination.
    pub path: Vec<u8>,
    /// The fault.
    pub fault: Fault,
}

/// Why a job can't go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Abort {
    /// The request makes no sense at the peer.
    Usage(String),
    /// The destination as a whole can't be used.
    Destination {
        /// Its path.
        path: Vec<u8>,
        /// The problem with it.
        fault: Fault,
    },
    /// The peer broke the rules of the protocol.
    Protocol(String),
    /// The user interrupted.
    Cancelled,
}
