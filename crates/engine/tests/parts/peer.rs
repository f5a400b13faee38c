//! The other end of a connection, played by a script that speaks the protocol
//! and need not keep its rules.

use crate::ending::connection;
use haul_model::{
    Altered, Attributes, BLOCK_LEN, BlockHash, BlockRanges, Compression, ContentHash, Entry, Fault,
    Filter, Kind, Name, Naming, Outcome, Task, Timestamp,
};
use haul_net::Connection;
use haul_proto::{
    BlockSeal, Caps, FileEnd, FileSeal, FrameType, HEADER_LEN, Header, Hello, How, JobRequest,
    ListItem, Message, Named, NamedDest, OutcomeItem, PackBuilder, PackItem, Prove, Proven, Role,
    Want, data_head, decode, encode, frame_bytes,
};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the other side may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// The time of every entry here.
pub(crate) const TIME: Timestamp = Timestamp { secs: 1_500_000_000, nanos: 5 };

/// A job that is `task`, with no filter, no limit of its rate and nothing else that a user
/// can ask for.
pub(crate) fn job_for(task: Task, role: Role) -> JobRequest {
    JobRequest {
        task,
        filter: Filter::default(),
        altered: Altered::default(),
        rate: None,
        compression: Compression::None,
        token: None,
        direct: None,
        joins: None,
        chunks: true,
        role,
    }
}

/// The role of who receives into `dest`, with nothing else that a user can ask for.
pub(crate) fn receiving(dest: impl Into<Vec<u8>>, into_dir: bool) -> Role {
    Role::Receiver { dest: NamedDest { into_dir, ..NamedDest::at(dest) }, asked: None }
}

/// The peer, and what it has heard so far.
pub(crate) struct Peer {
    stream: UnixStream,
    /// Files that the other side wants.
    pub(crate) wanted: Vec<u64>,
    /// How many blocks of them it has already.
    pub(crate) blocks: HashMap<u64, u64>,
    /// The fate of entries.
    pub(crate) outcomes: HashMap<u64, Outcome>,
    /// All other messages.
    pub(crate) messages: Vec<Message>,
    /// Content frames.
    pub(crate) contents: Vec<(FrameType, Vec<u8>)>,
    /// How often the other side has said that it is there.
    pub(crate) signs: usize,
    /// The capabilities that it offers.
    pub(crate) caps: Caps,
    /// The answer about a source that the other side has set aside; `None` for no answer.
    pub(crate) proves: fn(u64) -> Option<Result<(), Fault>>,
}

impl Peer {
    /// A peer, and a client's connection to it.
    pub(crate) fn of_client() -> (Connection, Self) {
        let (here, there) = UnixStream::pair().expect("a socket pair");
        (connection(here, Shutdown::Both), Self::at(there))
    }

    /// A peer at this end of a stream.
    pub(crate) fn at(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(SILENCE_MAX)).expect("set");
        Self {
            stream,
            wanted: Vec::new(),
            blocks: HashMap::new(),
            outcomes: HashMap::new(),
            messages: Vec::new(),
            contents: Vec::new(),
            signs: 0,
            caps: Caps::NONE,
            proves: |_| Some(Ok(())),
        }
    }

    /// The bare stream, for another to play the peer.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream.set_read_timeout(None).expect("set");
        self.stream
    }

    /// Says these bytes. The other side may have had enough already.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Says a frame with this payload.
    pub(crate) fn frame(&mut self, kind: FrameType, payload: &[u8]) {
        self.raw(&frame_bytes(kind, payload));
    }

    /// Says a message.
    pub(crate) fn tell(&mut self, message: &Message) {
        self.raw(&encode(message));
    }

    /// Lists these.
    pub(crate) fn list(&mut self, items: Vec<ListItem>) {
        self.tell(&Message::List(items));
    }

    /// Greets as a client, and asks for a copy.
    pub(crate) fn ask(&mut self, role: Role) {
        self.ask_for(Task::default(), role);
    }

    /// Greets as a client, and begins a job.
    pub(crate) fn ask_for(&mut self, task: Task, role: Role) {
        self.frame(FrameType::Hello, &Hello::ours(self.caps, 60, "script").encode());
        self.tell(&Message::Job(job_for(task, role)));
        self.hear_greeting();
    }

    /// Hears a client's greeting and what it asks for, and greets as an agent.
    pub(crate) fn answer(&mut self) -> JobRequest {
        self.hear_greeting();
        self.frame(FrameType::Welcome, &Hello::ours(self.caps, 60, "script").encode());
        assert!(self.hear());
        match self.messages.pop() {
            Some(Message::Job(job)) => job,
            other => panic!("{other:?} where a job is expected"),
        }
    }

    /// Hears a greeting.
    pub(crate) fn hear_greeting(&mut self) -> Hello {
        let (kind, payload) = self.hear_frame().expect("a greeting");
        assert!(matches!(kind, FrameType::Hello | FrameType::Welcome), "{kind:?}");
        Hello::decode(&payload).expect("a greeting")
    }

    /// Hears until these files are wanted.
    #[track_caller]
    pub(crate) fn await_wants(&mut self, indexes: impl IntoIterator<Item = u64>) {
        for index in indexes {
            while !self.wanted.contains(&index) {
                assert!(self.hear(), "file {index} is not wanted; {:?}", self.outcomes);
            }
        }
    }

    /// Hears until the fate of this entry is known.
    #[track_caller]
    pub(crate) fn await_outcome(&mut self, index: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.outcomes.get(&index) {
                return outcome.clone();
            }
            assert!(self.hear(), "entry {index} got no outcome");
        }
    }

    /// Hears until this condition holds.
    #[track_caller]
    pub(crate) fn await_that(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            assert!(self.hear(), "the other side has left before {what}");
        }
    }

    /// The items that the other side has listed.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &ListItem> {
        self.messages.iter().flat_map(|message| match message {
            Message::List(items) => items.as_slice(),
            _ => &[],
        })
    }

    /// Hears until the other side has listed all.
    #[track_caller]
    pub(crate) fn await_listing(&mut self) {
        self.await_that("all is listed", |peer| {
            peer.listed().any(|item| *item == ListItem::DirEnd { dir: 0 })
        });
    }

    /// Hears all until the other side has closed the connection.
    pub(crate) fn hear_out(&mut self) {
        while self.hear() {}
    }

    /// Says no more, and still listens.
    pub(crate) fn end_output(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes the connection.
    pub(crate) fn leave(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Hears one frame; `false` if none comes.
    fn hear(&mut self) -> bool {
        let Some((kind, payload)) = self.hear_frame() else { return false };
        if matches!(kind, FrameType::Pack | FrameType::Data) {
            self.contents.push((kind, payload));
            return true;
        }
        if kind == FrameType::Alive {
            self.signs += 1;
            return true;
        }
        if matches!(kind, FrameType::Hello | FrameType::Welcome) {
            return true;
        }
        match decode(kind, &payload).expect("the other side keeps to the protocol") {
            Message::Want(wants) => {
                self.wanted.extend(wants.iter().map(|want| want.index));
                let first = |want: &Want| want.blocks.iter().next().map_or(0, |range| range.start);
                self.blocks.extend(wants.iter().map(|want| (want.index, first(want))));
            }
            Message::Outcomes(outcomes) => {
                for OutcomeItem { index, outcome } in outcomes {
                    let twice = self.outcomes.insert(index, outcome);
                    assert_eq!(twice, None, "entry {index} got two outcomes");
                }
            }
            Message::Prove(asked) => {
                let answer = |prove: &Prove| {
                    let index = prove.parked.as_ref().map(|_| prove.index)?;
                    Some(Proven { index, result: (self.proves)(index)? })
                };
                let proven: Vec<Proven> = asked.iter().filter_map(answer).collect();
                if !proven.is_empty() {
                    self.tell(&Message::Proven(proven));
                }
                self.messages.push(Message::Prove(asked));
            }
            message => self.messages.push(message),
        }
        true
    }

    fn hear_frame(&mut self) -> Option<(FrameType, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        match self.stream.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("the other side is silent; heard {:?}", self.messages)
            }
            Err(_) => return None,
        }
        let header = Header::decode(header).expect("the other side keeps to the protocol");
        let mut payload = vec![0; header.payload_len as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header.kind, payload))
    }
}

/// A plain name.
pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a plain name")
}

/// A listed entry.
pub(crate) fn entry(dir: u64, text: &str, kind: Kind) -> ListItem {
    let entry = Entry::new(Some(name(text)), kind, Attributes::new(0o644, TIME));
    ListItem::Entry { dir, entry: Entry { inode: 7, ctime: Some(TIME), ..entry } }
}

/// A listed file of `size` bytes.
pub(crate) fn file(dir: u64, text: &str, size: u64) -> ListItem {
    entry(dir, text, Kind::File { size })
}

/// A listed directory.
pub(crate) fn dir(dir: u64, text: &str) -> ListItem {
    let attributes = Attributes::new(0o755, TIME);
    ListItem::Entry { dir, entry: Entry::new(Some(name(text)), Kind::Dir, attributes) }
}

/// A listed symbolic link.
pub(crate) fn link(dir: u64, text: &str, target: &str) -> ListItem {
    entry(dir, text, Kind::Symlink { target: target.as_bytes().into() })
}

/// The first message of a Receiver whose destination was there.
pub(crate) fn named(naming: Naming) -> Message {
    Message::Naming(Named { naming, dirs_created: 0 })
}

/// The end of a listed directory.
pub(crate) fn dir_end(dir: u64) -> ListItem {
    ListItem::DirEnd { dir }
}

/// The item of a pack for a file with this content.
pub(crate) fn packed(index: u64, content: &[u8]) -> PackItem {
    let hash = ContentHash::of(content);
    PackItem::File { index, len: content.len() as u32, mtime: TIME, hash: Some(hash), grew: false }
}

/// A pack of files, with their contents as they follow.
pub(crate) fn pack(items: impl IntoIterator<Item = PackItem>, contents: &[u8]) -> Vec<u8> {
    let mut pack = PackBuilder::default();
    items.into_iter().for_each(|item| pack.push(item));
    let mut frame = pack.head();
    frame.extend_from_slice(contents);
    frame
}

/// A piece of a file.
pub(crate) fn data(index: u64, offset: u64, content: &[u8]) -> Vec<u8> {
    let mut frame = data_head(index, offset, content.len());
    frame.extend_from_slice(content);
    frame
}

/// The end of a file in pieces, of this size and content.
pub(crate) fn file_end(index: u64, size: u64, content: &[u8]) -> Message {
    let seal = FileSeal { size, mtime: TIME, hash: Some(ContentHash::of(content)), grew: false };
    Message::FileEnd(FileEnd { index, result: Ok(seal), by_blocks: false })
}

/// The seal of a block of a file; for content that can be no block, some hash.
pub(crate) fn block_seal(index: u64, block: u64, content: &[u8]) -> Message {
    let hash = if content.len() as u64 == BLOCK_LEN && block < u64::MAX / BLOCK_LEN {
        BlockHash::of(block, content)
    } else {
        BlockHash::from(*ContentHash::of(content).as_bytes())
    };
    Message::BlockSeal(BlockSeal { index, block, len: BLOCK_LEN as u32, hash: Some(hash) })
}

/// A wish for the hashes of these, in a comparison.
pub(crate) fn want_hashes(indexes: impl IntoIterator<Item = u64>) -> Message {
    let hash =
        |index| Want { index, how: How::WHOLE_HASH, blocks: BlockRanges::none(), into: None };
    Message::Want(indexes.into_iter().map(hash).collect())
}

/// A wish for the contents of these.
pub(crate) fn want(indexes: impl IntoIterator<Item = u64>) -> Message {
    let whole = |index| Want { index, how: How::PLAIN, blocks: BlockRanges::all(), into: None };
    Message::Want(indexes.into_iter().map(whole).collect())
}
