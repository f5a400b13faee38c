//! What the targets that run a whole role share: a peer that says given bytes,
//! a place to work in, the tree that the seeds were recorded with, and what an
//! interrupted copy leaves.

#![forbid(unsafe_code)]

pub mod sftp;

use haul_engine::{CopyJob, Event, Monitor, Progress};
use haul_model::{BLOCK_LEN, BlockHash, Name, Timestamp};
use haul_net::Connection;
use haul_proto::{Caps, FrameType, Hello, frame_bytes};
use haul_store::{SourceId, Stage};
use haul_sys::Dir;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The names of the sources of every job here; see [`make_sources`].
pub const ASKED: [&str; 3] = ["tree", "link", "sparse"];

/// How long a peer stays after its last byte: the threads that work off what it
/// said stop as soon as it is gone.
const LINGER: Duration = Duration::from_millis(2);

/// A job with those sources.
pub fn job(sources: Vec<Vec<u8>>, dest: &Path) -> CopyJob {
    CopyJob {
        sources,
        dest: dest.as_os_str().as_bytes().to_vec(),
        into_dir: true,
        recursive: true,
        ..CopyJob::default()
    }
}

/// A peer that says what it is told to, and leaves.
pub struct Script {
    bytes: io::Cursor<Vec<u8>>,
}

impl Script {
    /// A peer that greets and then says `stream`.
    pub fn after_welcome(stream: &[u8]) -> Self {
        let mut bytes = frame_bytes(FrameType::Welcome, &Hello::ours(Caps::OURS, "fuzz").encode());
        bytes.extend_from_slice(stream);
        Self { bytes: io::Cursor::new(bytes) }
    }

    /// A connection to it. What is said to it is lost.
    pub fn connection(self) -> Connection {
        Connection::from_parts(self, io::sink())
    }
}

impl Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(buf)?;
        if len == 0 {
            std::thread::sleep(LINGER);
        }
        Ok(len)
    }
}

/// Nobody watches.
#[derive(Default)]
pub struct Quiet(pub Progress);

impl Monitor for Quiet {
    fn progress(&self) -> &Progress {
        &self.0
    }

    fn event(&self, _: Event<'_>) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// A destination, with something beside it that must stay as it is.
pub struct Place {
    temp: TempDir,
}

impl Place {
    /// An empty one, in memory where that is possible.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let temp = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let place = Self { temp: temp.expect("a temporary directory") };
        fs::create_dir(place.outside()).expect("made");
        fs::write(place.outside().join("sentinel"), "old").expect("written");
        place
    }

    /// One with the sources in it.
    pub fn with_sources() -> Self {
        let place = Self::new();
        make_sources(place.temp.path()).expect("made");
        place
    }

    /// The destination.
    pub fn dest(&self) -> PathBuf {
        self.temp.path().join("dest")
    }

    /// The paths of the sources.
    pub fn sources(&self) -> Vec<Vec<u8>> {
        let path = |name| self.temp.path().join(name).as_os_str().as_bytes().to_vec();
        ASKED.map(path).to_vec()
    }

    /// Begins with an empty destination that has a link in it to the outside.
    pub fn clear(&mut self) {
        let _ = fs::remove_dir_all(self.dest());
        fs::create_dir(self.dest()).expect("made");
        fs::create_dir(self.dest().join("tree")).expect("made");
        std::os::unix::fs::symlink("../../outside", self.dest().join("tree/sub")).expect("linked");
    }

    /// Nothing was written beside the destination, and no private name is left
    /// in it.
    pub fn check(&self) {
        let names = |path: &Path| -> Vec<_> {
            fs::read_dir(path).expect("read").map(|e| e.expect("read").file_name()).collect()
        };
        assert_eq!(names(self.temp.path()).len(), 2, "something new is beside the destination");
        assert_eq!(names(&self.outside()), ["sentinel"]);
        assert_eq!(fs::read(self.outside().join("sentinel")).expect("read"), b"old");
        let mut open = vec![self.dest()];
        while let Some(dir) = open.pop() {
            for name in names(&dir) {
                assert!(!name.as_bytes().starts_with(b".haul-"), "{name:?} is left");
                let path = dir.join(name);
                if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && path_fits(&path) {
                    open.push(path);
                }
            }
        }
    }

    fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the system takes the path as a whole; deeper ones are left alone.
fn path_fits(path: &Path) -> bool {
    path.as_os_str().len() < 4000
}

/// Makes the sources: a small tree with hostile names, a link, and a file that
/// is large by its holes alone, so that it travels in pieces.
pub fn make_sources(root: &Path) -> io::Result<()> {
    let tree = root.join("tree");
    fs::create_dir_all(tree.join("sub/empty"))?;
    for name in haul_testkit::nasty::NAMES.iter().step_by(4) {
        fs::write(tree.join(std::ffi::OsStr::from_bytes(name)), name)?;
    }
    fs::write(tree.join("sub/file"), haul_testkit::content::bytes(300, 1))?;
    std::os::unix::fs::symlink("sub/file", tree.join("sub/link"))?;
    std::os::unix::fs::symlink("../outside", root.join("link"))?;
    let sparse = fs::File::create(root.join("sparse"))?;
    // Two whole blocks, which are sealed, and a part of one.
    sparse.set_len(9 << 20)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 1 << 20)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"more", 8 << 20)
}

/// The journal of an interrupted copy, as a disk or a neighbour may have left
/// it.
pub struct Journal {
    temp: TempDir,
    name: Name,
    source: SourceId,
    /// The journal as it was written, and where.
    bytes: Vec<u8>,
    path: PathBuf,
}

/// Length of the part of a journal that is its identity: without it, nothing
/// else is looked at.
const IDENTITY_LEN: usize = 96;

impl Journal {
    /// A copy that was interrupted after its first block.
    pub fn new() -> Self {
        let temp = TempDir::new().expect("a temporary directory");
        let name = Name::new(b"name").expect("a plain name");
        let mtime = Timestamp { secs: 1, nanos: 2 };
        let source = SourceId { size: 9 << 20, mtime, inode: 3 };
        let dir = Arc::new(Dir::open(temp.path()).expect("opened"));
        let (stage, blocks) = Stage::resume(dir, &name, &source).expect("begun");
        assert!(blocks.is_empty());
        stage.record(BlockHash::of(0, &[0; BLOCK_LEN as usize])).expect("recorded");
        drop(stage);
        let entries = fs::read_dir(temp.path()).expect("read");
        let mut paths = entries.map(|entry| entry.expect("read").path());
        let path = paths.find(|path| path.extension().is_some_and(|it| it == "journal"));
        let path = path.expect("a journal");
        let bytes = fs::read(&path).expect("read");
        Self { temp, name, source, bytes, path }
    }

    /// What follows the journal's identity.
    pub fn after_header(&self) -> &[u8] {
        &self.bytes[IDENTITY_LEN..]
    }

    /// Continues the copy with this after the journal's identity; or with this
    /// alone, if the identity is to be another too. Returns how many blocks are
    /// believed to be there.
    pub fn resume(&self, bytes: &[u8], whole: bool) -> u64 {
        let identity = if whole { &[] } else { &self.bytes[..IDENTITY_LEN] };
        fs::write(&self.path, [identity, bytes].concat()).expect("written");
        let dir = Arc::new(Dir::open(self.temp.path()).expect("opened"));
        let (stage, blocks) =
            Stage::resume(dir, &self.name, &self.source).expect("no journal is an error");
        assert_eq!(stage.file().metadata().expect("there").len(), self.source.size);
        blocks.len() as u64
    }

    /// The most blocks that can be there.
    pub fn blocks_max(&self) -> u64 {
        self.source.size.div_ceil(BLOCK_LEN)
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new()
    }
}
