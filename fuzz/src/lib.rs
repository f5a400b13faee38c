//! Shared by the targets that run a whole role: jobs, a peer that says given
//! bytes, a place to work in, the tree that the seeds were recorded with, and
//! what an interrupted copy leaves.

#![forbid(unsafe_code)]

pub mod sftp;

use haul_engine::{Event, Job, Monitor, NamedDest, NamedSources, Progress, WireOptions};
use haul_model::{BLOCK_LEN, BlockHash, Compression, Moving, Name, Remove, Task, Timestamp};
use haul_net::Connection;
use haul_proto::{Caps, FrameType, HEADER_LEN, Header, Hello, frame_bytes};
use haul_store::{SourceId, Stage, StagedFile};
use haul_sys::Dir;
use haul_testkit::{Compare, Snapshot, snapshot};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The names of the sources of every job here; see [`make_sources`].
pub const ASKED: [&str; 3] = ["tree", "link", "sparse"];

/// How long there has to be silence before a peer says its next frame, or
/// leaves: the threads that work off what it said stop as soon as it is gone.
const LINGER: Duration = Duration::from_millis(2);

/// Frames before which a peer listens, at most: more are no conversation, and take
/// their time.
const PACED_MAX: usize = 32;

/// A job with those sources.
pub fn job(sources: Vec<Vec<u8>>, dest: &Path) -> Job {
    Job {
        sources: NamedSources { recursive: true, ..NamedSources::at(sources) },
        dest: NamedDest { into_dir: true, ..NamedDest::at(dest.as_os_str().as_bytes()) },
        // Frames as they are have more to change in them.
        wire: WireOptions { compression: Compression::None, ..WireOptions::default() },
        ..Job::default()
    }
}

/// The same job as a comparison of contents.
pub fn comparison(sources: Vec<Vec<u8>>, dest: &Path) -> Job {
    Job {
        task: Task::Check { content: true, keeps: haul_model::Kept::OF_COPIES },
        ..job(sources, dest)
    }
}

/// The same job as the end of a move, which removes the sources.
pub fn removal(sources: Vec<Vec<u8>>, dest: &Path) -> Job {
    let task = Task::Remove { rule: Remove::SameContent, moving: Moving::Lossy };
    Job { task, ..job(sources, dest) }
}

/// A peer that says what it is told to, frame by frame, and leaves. Before each of
/// the first frames it hears what the other side has to say: nobody can ask for or
/// send what has not been listed or asked for yet.
pub struct Script {
    bytes: io::Cursor<Vec<u8>>,
    /// Where the frame that is being said ends.
    frame_end: usize,
    said: usize,
    /// When one of the two has said something.
    last: Arc<Mutex<Instant>>,
}

impl Script {
    /// A peer that greets and then says `stream`.
    pub fn after_welcome(stream: &[u8]) -> Self {
        let mut bytes =
            frame_bytes(FrameType::Welcome, &Hello::ours(Caps::OURS, 60, "fuzz").encode());
        bytes.extend_from_slice(stream);
        let last = Arc::new(Mutex::new(Instant::now()));
        Self { bytes: io::Cursor::new(bytes), frame_end: 0, said: 0, last }
    }

    /// A connection to it.
    pub fn connection(self) -> Connection {
        let ear = Ear(Arc::clone(&self.last));
        Connection::from_parts(self, ear)
    }

    /// Waits until there was silence for a moment.
    fn hear_out(&self) {
        loop {
            let silent = self.last.lock().expect("nobody panicked").elapsed();
            match LINGER.checked_sub(silent) {
                Some(rest) if !rest.is_zero() => std::thread::sleep(rest),
                _ => return,
            }
        }
    }

    /// Where the frame ends that begins at `at`; what is no frame is said at once.
    fn end_of_frame(&self, at: usize) -> usize {
        let all = self.bytes.get_ref();
        let header = all[at..].first_chunk().and_then(|bytes| Header::decode(*bytes).ok());
        let len = header.map(|header| HEADER_LEN + header.payload_len as usize);
        len.map_or(all.len(), |len| all.len().min(at + len))
    }
}

impl Read for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let at = self.bytes.position() as usize;
        if at == self.frame_end {
            if self.said < PACED_MAX {
                self.hear_out();
            }
            self.said += 1;
            self.frame_end = self.end_of_frame(at);
        }
        let len = buf.len().min(self.frame_end - at);
        *self.last.lock().expect("nobody panicked") = Instant::now();
        self.bytes.read(&mut buf[..len])
    }
}

/// Notes when something was heard. What it was is lost.
struct Ear(Arc<Mutex<Instant>>);

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.0.lock().expect("nobody panicked") = Instant::now();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

    /// Begins with whole sources again, and nothing else.
    pub fn restore(&mut self) {
        let _ = fs::remove_dir_all(self.temp.path().join("tree"));
        make_sources(self.temp.path()).expect("made");
    }

    /// Begins with a destination that has all that the sources have, but for one
    /// file that differs, one that is missing, and something that is extra.
    pub fn furnish(&mut self) {
        let _ = fs::remove_dir_all(self.dest());
        make_sources(&self.dest()).expect("made");
        fs::write(self.dest().join("tree/sub/file"), "other").expect("written");
        fs::remove_file(self.dest().join("link")).expect("removed");
        std::os::unix::fs::symlink("../../outside", self.dest().join("tree/extra"))
            .expect("linked");
    }

    /// All that is there now.
    pub fn snapshot(&self) -> Snapshot {
        snapshot(self.temp.path()).expect("read")
    }

    /// Nothing is there that was not, or is not as it was, but for the times of
    /// directories that something was removed from; and what is beside the sources
    /// is all there.
    pub fn check_left(&self, before: &Snapshot) {
        let now = self.snapshot();
        let rules = Compare::everything().ignoring_dir_mtimes();
        for difference in before.differences(&now, rules) {
            let is_source = ASKED.iter().any(|name| {
                let below = difference.path.strip_prefix(name.as_bytes());
                below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
            });
            let is_gone = now.get(std::ffi::OsStr::from_bytes(&difference.path)).is_none();
            assert!(is_source && is_gone, "{difference:?}");
        }
    }

    /// Begins with an empty destination that has a link in it to the outside.
    pub fn clear(&mut self) {
        let _ = fs::remove_dir_all(self.dest());
        fs::create_dir(self.dest()).expect("made");
        fs::create_dir(self.dest().join("tree")).expect("made");
        std::os::unix::fs::symlink("../../outside", self.dest().join("tree/sub")).expect("linked");
    }

    /// Nothing was written beside the destination, and no private name is left in it but
    /// those of large files.
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
                // A large file of which a part has come can be continued.
                let is_kept = [&b".part"[..], b".journal"];
                let is_kept = is_kept.iter().any(|end| name.as_bytes().ends_with(end));
                let is_private = name.as_bytes().starts_with(b".haul-");
                assert!(!is_private || is_kept, "{name:?} is left");
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

/// True if the system takes the path as a whole; deeper ones are left alone.
fn path_fits(path: &Path) -> bool {
    path.as_os_str().len() < 4000
}

/// Makes the sources: a small tree with hostile names, a link, and a file that
/// is large by its holes alone, so that it travels in pieces. Files have the same
/// time wherever they are made. What is there already may be whole.
pub fn make_sources(root: &Path) -> io::Result<()> {
    let tree = root.join("tree");
    fs::create_dir_all(tree.join("sub/empty"))?;
    let write = |path: PathBuf, content: &[u8]| -> io::Result<()> {
        fs::write(&path, content)?;
        fs::File::options().write(true).open(path)?.set_modified(SystemTime::UNIX_EPOCH)
    };
    for name in haul_testkit::nasty::NAMES.iter().step_by(4) {
        write(tree.join(std::ffi::OsStr::from_bytes(name)), name)?;
    }
    write(tree.join("sub/file"), &haul_testkit::content::bytes(300, 1))?;
    make_link("sub/file", &tree.join("sub/link"))?;
    make_link("../outside", &root.join("link"))?;
    let sparse = fs::File::create(root.join("sparse"))?;
    // Two whole blocks, which are sealed, and a part of one.
    sparse.set_len(9 << 20)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"data", 1 << 20)?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"more", 8 << 20)?;
    sparse.set_modified(SystemTime::UNIX_EPOCH)
}

fn make_link(target: &str, path: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(target, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
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
const IDENTITY_LEN: usize = 112;

impl Journal {
    /// A copy that was interrupted after its first block.
    pub fn new() -> Self {
        let temp = TempDir::new().expect("a temporary directory");
        let name = Name::new(b"name").expect("a plain name");
        let mtime = Timestamp { secs: 1, nanos: 2 };
        let source = SourceId { size: 9 << 20, mtime, inode: 3, ctime: None };
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

    /// The bytes behind the journal's identity.
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
        let (len, blocks) = (stage.file().metadata().expect("there").len(), blocks.len() as u64);
        assert!(len <= blocks * BLOCK_LEN, "what is not on record is cut off");
        blocks
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

/// A file or directory in whose attributes those of root are written down, as somebody may
/// have left it.
pub struct Faked {
    temp: TempDir,
}

impl Faked {
    /// Its name.
    pub const NAME: &[u8] = b"one";
    /// The name of another one of its kind, of which nothing is written down.
    pub const COPY: &[u8] = b"other";
    /// The attributes that a part of the bytes is given to, by its number. The content of a
    /// file comes behind them; others have names that they bring.
    const NAMES: [&str; 5] = [
        "user.rsync.%stat",
        "user.rsync.%aacl",
        "user.rsync.%dacl",
        "user.rsync.trusted.a",
        "user.rsync.security.capability",
    ];

    /// A place for one.
    pub fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let temp = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self { temp: temp.expect("a temporary directory") }
    }

    /// The directory that it is in, in which attributes are written down.
    pub fn open(&self) -> Dir {
        Dir::open(self.temp.path()).expect("opened").faking()
    }

    /// One of both, a file or a directory, open as it really is.
    pub fn held(&self, name: &[u8]) -> fs::File {
        let path = self.temp.path().join(std::ffi::OsStr::from_bytes(name));
        fs::File::open(path).expect("it is there")
    }

    /// Makes both anew; tells if they are directories. The first byte says that, and then
    /// come attributes: the number of each, the length of its value in two bytes, and that;
    /// of one with a name of its own the name, too, with a zero byte behind it. `None` where
    /// the bytes have one that there can't be.
    pub fn make(&mut self, bytes: &[u8]) -> Option<bool> {
        let (first, mut rest) = bytes.split_first()?;
        let is_dir = first & 1 != 0;
        for name in [Self::NAME, Self::COPY] {
            let path = self.temp.path().join(std::ffi::OsStr::from_bytes(name));
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir(&path);
            if is_dir { fs::create_dir(path) } else { fs::write(path, "") }.expect("made");
        }
        let path = self.temp.path().join(std::ffi::OsStr::from_bytes(Self::NAME));
        while let Some(([number, low, high], behind)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
            let (value, behind) = behind.split_at(len);
            rest = behind;
            match Self::NAMES.get(usize::from(*number)) {
                Some(name) => haul_testkit::nasty::set_attribute(&path, name, value).ok()?,
                None if usize::from(*number) == Self::NAMES.len() => {
                    if !is_dir {
                        fs::write(&path, value).expect("written");
                    }
                }
                None => {
                    let at = value.iter().position(|byte| *byte == 0)?;
                    let name = std::str::from_utf8(&value[..at]).ok()?;
                    let name = format!("user.{name}");
                    haul_testkit::nasty::set_attribute(&path, &name, &value[at + 1..]).ok()?;
                }
            }
        }
        Some(is_dir)
    }

    /// Bytes of which [`Self::make`] makes one with these attributes.
    pub fn bytes(is_dir: bool, attributes: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![u8::from(is_dir)];
        for (number, value) in attributes {
            bytes.push(*number);
            bytes.extend((value.len() as u16).to_le_bytes());
            bytes.extend_from_slice(value);
        }
        bytes
    }
}

impl Default for Faked {
    fn default() -> Self {
        Self::new()
    }
}
