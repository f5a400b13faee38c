//! The model of a disk: what is there for a reader, what is durable, and the
//! operations between the two.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The inode of the root directory.
pub(super) const ROOT: u64 = 1;

/// When names, modes and times are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As little as POSIX promises: a name when its directory was synced, and
    /// until then each change of a name survives or is lost for itself.
    Posix,
    /// As file systems with a journal do it: changes of names, modes and times
    /// survive in the order in which they were made, and syncing anything makes
    /// all that went before durable.
    Journaled,
}

/// A disk. Clones are handles of the same one.
#[derive(Debug, Clone)]
pub struct Disk(pub(super) Arc<Mutex<DiskState>>);

/// Why an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The power is off, or the medium failed.
    Io,
    NotFound,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    CrossDevice,
}

/// All that there is.
#[derive(Debug)]
pub(super) struct DiskState {
    pub(super) names: Names,
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) next_ino: u64,
    /// Changes of names and metadata that are not durable, in their order.
    pub(super) log: Vec<Change>,
    /// The power is off.
    pub(super) off: bool,
    /// How often it was lost.
    pub(super) boot: u64,
    /// Whoever asks now had the disk mounted before it was lost.
    is_stale: bool,
    /// Modifying operations so far.
    steps: u64,
    /// The power goes off when that many operations were done.
    off_at: Option<u64>,
    /// Syncs until one fails; that one is 1.
    sync_fails_in: Option<u64>,
    syncs: u64,
    /// Bytes that are written in a second.
    pub(super) rate: Option<u64>,
    /// How long a sync takes.
    pub(super) sync_duration: Duration,
    /// Where the medium damages what is written to it.
    damages: Option<usize>,
}

/// One object.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) meta: Meta,
    /// The metadata that a cut leaves.
    pub(super) durable: Meta,
    pub(super) body: Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: SystemTime,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    File(FileBody),
    Dir(DirBody),
    Link(OsString),
}

/// A file's content.
#[derive(Debug, Clone, Default)]
pub(super) struct FileBody {
    pub(super) now: Vec<u8>,
    pub(super) durable: Vec<u8>,
    /// Changes to `durable` since then.
    pub(super) pending: Vec<Data>,
}

/// A change of a file's content.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Write { at: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A directory's names.
#[derive(Debug, Clone, Default)]
pub(super) struct DirBody {
    pub(super) now: BTreeMap<OsString, u64>,
    pub(super) durable: BTreeMap<OsString, u64>,
}

/// A change of names or of metadata.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Put { dir: u64, name: OsString, ino: u64 },
    Remove { dir: u64, name: OsString, ino: u64 },
    Rename { dir: u64, from: OsString, to: OsString, ino: u64 },
    Meta { ino: u64, meta: Meta },
}

impl Change {
    /// The object that has to be synced for the change to be durable.
    pub(super) fn object(&self) -> u64 {
        match self {
            Change::Put { dir, .. } | Change::Remove { dir, .. } | Change::Rename { dir, .. } => {
                *dir
            }
            Change::Meta { ino, .. } => *ino,
        }
    }
}

impl Disk {
    /// An empty disk.
    pub fn new(names: Names) -> Disk {
        let meta = Meta { mode: 0o755, uid: 0, gid: 0, mtime: SystemTime::now() };
        let root = Node { meta, durable: meta, body: Body::Dir(DirBody::default()) };
        Disk(Arc::new(Mutex::new(DiskState {
            names,
            nodes: BTreeMap::from([(ROOT, root)]),
            next_ino: ROOT + 1,
            log: Vec::new(),
            off: false,
            boot: 0,
            is_stale: false,
            steps: 0,
            off_at: None,
            sync_fails_in: None,
            syncs: 0,
            rate: None,
            sync_duration: Duration::ZERO,
            damages: None,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DiskState> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stale = false;
        state
    }

    /// The state for one who mounted the disk in `boot`: after a loss, what a
    /// thread that is about to end still asks for is refused.
    pub(super) fn state_in(&self, boot: u64) -> MutexGuard<'_, DiskState> {
        let mut state = self.state();
        state.is_stale = state.boot != boot;
        state
    }

    /// Cuts the power after `steps` more operations that change or sync
    /// something; the next one fails.
    pub fn cut_after(&self, steps: u64) {
        let mut state = self.state();
        state.off_at = Some(state.steps + steps);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state().off = true;
    }

    /// Ends a cut that has cost nothing: all is as it was, and whoever has it
    /// mounted may go on.
    pub fn reconnect(&self) {
        self.state().power_on();
    }

    /// True if the power is off.
    pub fn is_off(&self) -> bool {
        self.state().off
    }

    /// Operations so far that changed or synced something.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Lets the `nth` sync from now on, of a file or of a directory, fail with
    /// EIO. It is reported once: what was to be synced is taken for clean from
    /// then on, as on Linux, and never gets to the medium.
    pub fn fail_sync(&self, nth: u64) {
        let mut state = self.state();
        state.sync_fails_in = Some(nth);
    }

    /// Syncs so far, those that failed included.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Writes no faster than this from now on.
    pub fn throttle(&self, bytes_per_second: u64) {
        self.state().rate = Some(bytes_per_second);
    }

    /// Lets each sync take that long from now on. It covers what was there when
    /// it began, and no more.
    pub fn slow_syncs(&self, each: Duration) {
        self.state().sync_duration = each;
    }

    /// From now on the medium turns over the byte at `at` of each file when that byte, which was
    /// written, is synced. What is in the page cache stays right.
    pub fn damage_at(&self, at: usize) {
        self.state().damages = Some(at);
    }

    /// Damages nothing any more.
    pub fn heal(&self) {
        self.state().damages = None;
    }

    /// Makes everything durable, as a clean unmount does.
    pub fn sync_all(&self) {
        let mut state = self.state();
        let all: Vec<u64> = state.nodes.keys().copied().collect();
        for ino in all {
            state.settle(ino, false);
        }
    }
}

impl DiskState {
    /// The object `ino`.
    pub(super) fn node(&self, ino: u64) -> Result<&Node, Refusal> {
        if self.off || self.is_stale {
            return Err(Refusal::Io);
        }
        self.nodes.get(&ino).ok_or(Refusal::NotFound)
    }

    /// The object called `name` in `dir`.
    pub(super) fn lookup(&self, dir: u64, name: &OsStr) -> Result<u64, Refusal> {
        match &self.node(dir)?.body {
            Body::Dir(body) => body.now.get(name).copied().ok_or(Refusal::NotFound),
            _ => Err(Refusal::NotDirectory),
        }
    }

    /// How many names an object has.
    pub(super) fn names_of(&self, ino: u64) -> u32 {
        let dirs = self.nodes.values().filter_map(|node| match &node.body {
            Body::Dir(body) => Some(body),
            _ => None,
        });
        let names: usize =
            dirs.map(|dir| dir.now.values().filter(|&&found| found == ino).count()).sum();
        u32::try_from(names).unwrap_or(u32::MAX)
    }

    /// Counts an operation that changes something, and cuts the power when its
    /// time has come.
    fn step(&mut self) -> Result<(), Refusal> {
        if self.is_stale {
            return Err(Refusal::Io);
        }
        self.off |= self.off_at.is_some_and(|at| self.steps >= at);
        if self.off {
            return Err(Refusal::Io);
        }
        self.steps += 1;
        Ok(())
    }

    /// The power is on again, and nothing is planned.
    pub(super) fn power_on(&mut self) {
        self.off = false;
        self.off_at = None;
        self.sync_fails_in = None;
    }

    /// Makes an object under `name`.
    pub(super) fn create(
        &mut self,
        dir: u64,
        name: &OsStr,
        meta: Meta,
        body: Body,
    ) -> Result<u64, Refusal> {
        if self.lookup(dir, name) != Err(Refusal::NotFound) {
            return Err(Refusal::Exists);
        }
        self.step()?;
        let ino = self.next_ino;
        self.next_ino += 1;
        self.nodes.insert(ino, Node { meta, durable: meta, body });
        self.change(Change::Put { dir, name: name.to_owned(), ino });
        Ok(ino)
    }

    /// Gives an object one more name.
    pub(super) fn link(&mut self, ino: u64, dir: u64, name: &OsStr) -> Result<(), Refusal> {
        if self.lookup(dir, name) != Err(Refusal::NotFound) {
            return Err(Refusal::Exists);
        }
        self.step()?;
        self.change(Change::Put { dir, name: name.to_owned(), ino });
        Ok(())
    }

    /// Takes a name away.
    pub(super) fn remove(&mut self, dir: u64, name: &OsStr) -> Result<(), Refusal> {
        let ino = self.lookup(dir, name)?;
        if let Body::Dir(body) = &self.node(ino)?.body
            && !body.now.is_empty()
        {
            return Err(Refusal::NotEmpty);
        }
        self.step()?;
        self.change(Change::Remove { dir, name: name.to_owned(), ino });
        Ok(())
    }

    /// Renames in one step; replaces what has the name if `replace`.
    pub(super) fn rename(
        &mut self,
        dir: u64,
        from: &OsStr,
        to_dir: u64,
        to: &OsStr,
        replace: bool,
    ) -> Result<(), Refusal> {
        let ino = self.lookup(dir, from)?;
        if dir != to_dir {
            return Err(Refusal::CrossDevice);
        }
        if let Ok(there) = self.lookup(dir, to) {
            if !replace {
                return Err(Refusal::Exists);
            }
            if matches!(self.node(there)?.body, Body::Dir(_)) {
                return Err(Refusal::IsDirectory);
            }
        }
        self.step()?;
        self.change(Change::Rename { dir, from: from.to_owned(), to: to.to_owned(), ino });
        Ok(())
    }

    /// Sets metadata.
    pub(super) fn set_meta(&mut self, ino: u64, meta: Meta) -> Result<(), Refusal> {
        self.node(ino)?;
        self.step()?;
        self.change(Change::Meta { ino, meta });
        Ok(())
    }

    /// Writes into a file.
    pub(super) fn write(&mut self, ino: u64, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.data(ino, Data::Write { at, bytes: bytes.to_vec() })
    }

    /// Cuts or extends a file.
    pub(super) fn set_len(&mut self, ino: u64, len: u64) -> Result<(), Refusal> {
        self.data(ino, Data::SetLen(len))
    }

    fn data(&mut self, ino: u64, data: Data) -> Result<(), Refusal> {
        self.node(ino)?;
        self.step()?;
        let node = self.nodes.get_mut(&ino).expect("just looked");
        let Body::File(body) = &mut node.body else { return Err(Refusal::IsDirectory) };
        data.apply(&mut body.now);
        body.pending.push(data);
        // It is a part of the metadata that fdatasync need not care for.
        let meta = Meta { mtime: SystemTime::now(), ..node.meta };
        self.change(Change::Meta { ino, meta });
        Ok(())
    }

    /// Makes an object durable; without its metadata if `data_only`.
    pub(super) fn sync(&mut self, ino: u64, data_only: bool) -> Result<(), Refusal> {
        self.node(ino)?;
        self.step()?;
        self.syncs += 1;
        let left = self.sync_fails_in.map(|left| left - 1);
        self.sync_fails_in = left.filter(|&left| left > 0);
        if left == Some(0) {
            let node = self.nodes.get_mut(&ino).expect("just looked");
            match &mut node.body {
                Body::File(body) => body.pending.clear(),
                _ => self.log.retain(|change| change.object() != ino),
            }
            return Err(Refusal::Io);
        }
        self.settle(ino, data_only);
        Ok(())
    }

    fn settle(&mut self, ino: u64, data_only: bool) {
        let all = self.names == Names::Journaled;
        let damaged = self.damages;
        let mut is_file = false;
        if let Body::File(body) = &mut self.nodes.get_mut(&ino).expect("it exists").body {
            is_file = true;
            let mut is_written = false;
            for data in body.pending.drain(..) {
                is_written |= damaged.is_some_and(|at| data.writes(at));
                data.apply(&mut body.durable);
            }
            if let Some(at) = damaged.filter(|at| is_written && *at < body.now.len()) {
                body.durable[at] ^= 0xff;
                body.now[at] = body.durable[at];
            }
        }
        if is_file && data_only && !all {
            return;
        }
        let log = std::mem::take(&mut self.log);
        let links = self.links_in(ino);
        let (settled, left) =
            log.into_iter().partition(|c| all || c.object() == ino || links.contains(&c.object()));
        self.log = left;
        self.make_durable(settled);
    }

    /// The symbolic links in a directory.
    fn links_in(&self, dir: u64) -> Vec<u64> {
        let Some(Node { body: Body::Dir(body), .. }) = self.nodes.get(&dir) else {
            return Vec::new();
        };
        let is_link = |ino: &u64| matches!(self.nodes[ino].body, Body::Link(_));
        body.now.values().copied().filter(is_link).collect()
    }

    /// Does to the medium what was done before its eyes.
    pub(super) fn make_durable(&mut self, changes: Vec<Change>) {
        for change in changes {
            let node = self.nodes.get_mut(&change.object()).expect("objects stay until a cut");
            match (change, &mut node.body) {
                (Change::Meta { meta, .. }, _) => node.durable = meta,
                (change, Body::Dir(body)) => change.apply(&mut body.durable),
                (change, _) => unreachable!("{change:?} of what is no directory"),
            }
        }
    }

    fn change(&mut self, change: Change) {
        let node = self.nodes.get_mut(&change.object()).expect("checked by the caller");
        match (&change, &mut node.body) {
            (Change::Meta { meta, .. }, _) => node.meta = *meta,
            (_, Body::Dir(body)) => {
                change.clone().apply(&mut body.now);
                node.meta.mtime = SystemTime::now();
            }
            _ => unreachable!("{change:?} of what is no directory"),
        }
        // What is overwritten before anything else happens needs no record.
        if let (Change::Meta { ino, .. }, Some(Change::Meta { ino: last, .. })) =
            (&change, self.log.last())
            && ino == last
        {
            self.log.pop();
        }
        self.log.push(change);
    }

    /// How long a write of `len` bytes takes.
    pub(super) fn pause(&self, len: usize) -> Option<Duration> {
        self.rate.map(|rate| Duration::from_secs_f64(len as f64 / rate as f64))
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<OsString, u64>) {
        match self {
            Change::Put { name, ino, .. } => {
                names.insert(name, ino);
            }
            Change::Remove { name, ino, .. } => {
                if names.get(&name) == Some(&ino) {
                    names.remove(&name);
                }
            }
            Change::Rename { from, to, ino, .. } => {
                if names.get(&from) == Some(&ino) {
                    names.remove(&from);
                }
                names.insert(to, ino);
            }
            Change::Meta { .. } => {}
        }
    }
}

impl Data {
    /// True if it writes the byte at `place`.
    fn writes(&self, place: usize) -> bool {
        match self {
            Data::SetLen(_) => false,
            Data::Write { at, bytes } => (index(*at)..index(*at) + bytes.len()).contains(&place),
        }
    }

    /// Does it to `content`.
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Data::SetLen(len) => content.resize(index(*len), 0),
            Data::Write { at, bytes } => write_at(content, *at, bytes),
        }
    }
}

/// Writes `bytes` into `content`, which grows as needed.
pub(super) fn write_at(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = index(at) + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[index(at)..end].copy_from_slice(bytes);
}

fn index(at: u64) -> usize {
    usize::try_from(at).expect("a test's file fits into memory")
}
