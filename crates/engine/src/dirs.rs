//! The directories of a running job. Each knows its parent and its name. It keeps its handle open
//! while in use, and reopens it if the handle was closed to bound the number of open files.

use crate::rules::{self, RuleFileError};
use haul_model::{ContentHash, FileId, Filter, FilterSide, Name, Scope, Subject, Timestamp, words};
use haul_proto::Object;
use haul_store::RESUME_LEN_MIN;
use haul_tree::{Meta, MetaKind, Spare, TreeDir, add_spare};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};

/// The most open handles of idle directories in each role; see [`open_dirs_max`].
const OPEN_DIRS_MAX: u64 = 256;

/// The smallest such bound.
const OPEN_DIRS_MIN: u64 = 4;

/// Handles reserved for everything else: workers, connections and the program.
pub(crate) const HANDLES_ELSEWHERE: u64 = 64;

/// The most open handles of idle directories in each role, for a process with a limit of `open_max`
/// open files. As many as both roles use are left for handles in use.
pub(crate) fn open_dirs_max(open_max: Option<u64>) -> u64 {
    let handles = open_max.map_or(u64::MAX, |max| max.saturating_sub(HANDLES_ELSEWHERE));
    (handles / 4).clamp(OPEN_DIRS_MIN, OPEN_DIRS_MAX)
}

/// One directory.
pub(crate) struct DirNode {
    place: DirLocation,
    /// Its metadata when it was first opened.
    meta: Meta,
    handle: Mutex<Option<Arc<dyn TreeDir>>>,
    open: Arc<OpenDirs>,
    /// See [`Self::is_via_link`].
    via_link: OnceLock<bool>,
    /// In a source: the rules of files above a root.
    above: OnceLock<Scope>,
    /// These rules, together with those of rule files in this directory.
    scope: OnceLock<Scope>,
    /// See [`Self::count_once`].
    is_counted: AtomicBool,
}

/// The way in which a directory is opened.
enum DirLocation {
    /// Open for the whole job, and shown under this name if there is one.
    Root { label: Option<Name> },
    /// By its name in its parent.
    Below { parent: Arc<DirNode>, name: Name, follow: bool },
}

/// The filter for one directory of a source: the rules, if there are any, and the directory's path
/// in the job, ending with a slash.
pub(crate) struct Selection<'f>(Option<(&'f Filter, Scope, Vec<u8>)>);

/// The directories whose handles are open.
pub(crate) struct OpenDirs {
    /// The oldest first.
    nodes: Mutex<VecDeque<Weak<DirNode>>>,
    nodes_max: usize,
    /// Registered, so that idle handles can be closed when files run out.
    is_known: Once,
}

impl DirNode {
    /// A directory that stays open, shown as `label`.
    pub(crate) fn root(
        handle: Arc<dyn TreeDir>,
        label: Option<Name>,
        open: &Arc<OpenDirs>,
    ) -> io::Result<Arc<Self>> {
        open.is_known.call_once(|| add_spare(Arc::<OpenDirs>::downgrade(open)));
        Self::at(DirLocation::Root { label }, handle, open)
    }

    fn at(
        place: DirLocation,
        handle: Arc<dyn TreeDir>,
        open: &Arc<OpenDirs>,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            place,
            meta: handle.stat_self()?,
            handle: Mutex::new(Some(handle)),
            open: Arc::clone(open),
            via_link: OnceLock::new(),
            above: OnceLock::new(),
            scope: OnceLock::new(),
            is_counted: AtomicBool::new(false),
        }))
    }

    /// Opens the directory `name` in `parent`.
    ///
    /// # Errors
    /// The errors of opening it.
    pub(crate) fn open(parent: &Arc<Self>, name: Name, follow: bool) -> io::Result<Arc<Self>> {
        let handle = parent.handle()?.open_dir(&name, follow)?;
        let place = DirLocation::Below { parent: Arc::clone(parent), name, follow };
        let node = Self::at(place, handle, &parent.open)?;
        node.open.add(&node);
        Ok(node)
    }

    /// The handle, reopened if necessary.
    ///
    /// # Errors
    /// The errors of opening it; [`io::ErrorKind::NotFound`] if it was replaced by another
    /// directory.
    pub(crate) fn handle(self: &Arc<Self>) -> io::Result<Arc<dyn TreeDir>> {
        let mut held = self.handle.lock();
        if let Some(handle) = &*held {
            return Ok(Arc::clone(handle));
        }
        let DirLocation::Below { parent, name, follow } = &self.place else {
            unreachable!("a root's handle is never given up");
        };
        let handle = parent.handle()?.open_dir(name, *follow)?;
        if handle.stat_self()?.id != self.meta.id {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "it was replaced by another directory",
            ));
        }
        *held = Some(Arc::clone(&handle));
        drop(held);
        self.open.add(self);
        Ok(handle)
    }

    /// Closes the handle, if it can be reopened. Current users keep it until they are done.
    fn close(&self) {
        if let Some(mut held) = self.handle.try_lock() {
            held.take_if(|handle| handle.can_reopen());
        }
    }

    /// Marks the directory as counted in memory. Returns false if it already was.
    pub(crate) fn count_once(&self) -> bool {
        !self.is_counted.swap(true, Ordering::Relaxed)
    }

    /// The object that it is.
    pub(crate) fn id(&self) -> Option<FileId> {
        self.meta.id
    }

    /// The parent directory, and the name in it; `None` for a root.
    pub(crate) fn place(&self) -> Option<(&Arc<Self>, &Name)> {
        match &self.place {
            DirLocation::Root { .. } => None,
            DirLocation::Below { parent, name, .. } => Some((parent, name)),
        }
    }

    /// True if a symbolic link on its path from a root was followed.
    ///
    /// # Errors
    /// The errors of inspecting the path.
    pub(crate) fn is_via_link(self: &Arc<Self>) -> io::Result<bool> {
        if let Some(is_via_link) = self.via_link.get() {
            return Ok(*is_via_link);
        }
        let is_via_link = match &self.place {
            DirLocation::Root { .. } => false,
            DirLocation::Below { parent, name, follow } => {
                let is_link = || {
                    let there = parent.handle()?.stat(name, false)?;
                    Ok::<_, io::Error>(there.is_none_or(|there| there.kind == MetaKind::Symlink))
                };
                parent.is_via_link()? || (*follow && is_link()?)
            }
        };
        Ok(*self.via_link.get_or_init(|| is_via_link))
    }

    /// True if it still has its name, and is unchanged since it was first opened. Creating,
    /// removing or renaming an entry in it, or setting one of its attributes, is a change.
    pub(crate) fn is_as_opened(&self) -> bool {
        let Some((parent, name)) = self.place() else { return false };
        let there = parent.handle().and_then(|handle| handle.stat(name, false));
        there.is_ok_and(|there| {
            there.is_some_and(|there| there.id == self.meta.id && there.ctime == self.meta.ctime)
        })
    }

    /// The number of directories on its path below the root of the job, including itself.
    pub(crate) fn depth(&self) -> usize {
        let mut depth = 0;
        let mut place = self.place();
        while let Some((above, _)) = place {
            depth += 1;
            place = above.place();
        }
        depth
    }

    /// Its metadata when it was first opened.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The number that distinguishes an object in this directory from one that replaces it. Another
    /// disk may have the same file number. So the file system's number is included for files whose
    /// temporary file is found by it, and for all objects if `always` is set.
    pub(crate) fn number_of(self: &Arc<Self>, meta: &Meta, always: bool) -> u64 {
        let Some(id) = meta.id else { return 0 };
        match meta.kind {
            MetaKind::File { size } if size >= RESUME_LEN_MIN => {}
            _ if !always => return id.ino,
            _ => {}
        }
        let has_same_device = self.meta.id.is_some_and(|dir| dir.dev == id.dev);
        // A file can be a mount point, or the target of a link.
        let volume = match self.handle() {
            Ok(handle) if has_same_device => handle.volume(),
            _ => id.dev,
        };
        number(&[volume.to_le_bytes(), id.ino.to_le_bytes()].concat())
    }

    /// The change time of a file in this directory of at least `min` bytes, if its file system
    /// reports it reliably.
    pub(crate) fn ctime_of(
        self: &Arc<Self>,
        name: &Name,
        follow: bool,
        meta: &Meta,
        min: u64,
    ) -> Option<Timestamp> {
        if !matches!(meta.kind, MetaKind::File { size } if size >= min) {
            return None;
        }
        let ctime = meta.ctime?;
        let handle = self.handle().ok()?;
        if self.meta.id.zip(meta.id).is_some_and(|(dir, file)| dir.dev == file.dev) {
            return handle.keeps_ctime(meta).then_some(ctime);
        }
        // The file is on another file system: a mount point, or the target of a link.
        handle.open_file(name, follow).ok()?.ctime().filter(|there| *there == ctime)
    }

    /// True if it, or one of its parent directories in the job, is the object `id`.
    pub(crate) fn is_or_is_below(&self, id: FileId) -> bool {
        let mut node = self;
        loop {
            if node.meta.id == Some(id) {
                return true;
            }
            match &node.place {
                DirLocation::Root { .. } => return false,
                DirLocation::Below { parent, .. } => node = parent,
            }
        }
    }

    /// The path to show for `name` in this directory, raw.
    pub(crate) fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        words::path_upwards(name.into_iter().chain(self.upwards()))
    }

    /// Writes that path into `path`, whose memory is reused.
    pub(crate) fn write_path(&self, name: Option<&Name>, path: &mut Vec<u8>) {
        words::join_upwards(name.into_iter().chain(self.upwards()), path);
    }

    /// The names of this directory and its parents, from the bottom up.
    fn upwards(&self) -> impl Iterator<Item = &Name> + Clone {
        let upwards = std::iter::successors(Some(self), |node| match &node.place {
            DirLocation::Root { .. } => None,
            DirLocation::Below { parent, .. } => Some(&**parent),
        });
        upwards.filter_map(|node| match &node.place {
            DirLocation::Root { label } => label.as_ref(),
            DirLocation::Below { name, .. } => Some(name),
        })
    }

    /// The prefix of the paths of its entries in the job: empty, or ending with a slash.
    pub(crate) fn path_prefix(&self) -> Vec<u8> {
        let mut path = match self.path_of(None) {
            // The root itself has no name.
            root if root == b"." => return Vec::new(),
            path => path,
        };
        path.push(b'/');
        path
    }

    /// Sets the rules above this root.
    pub(crate) fn set_rules_above(&self, above: Scope) {
        let _ = self.above.set(above);
    }

    /// Sets the rules for this root's entries. Its own rule files are not read.
    pub(crate) fn set_rules(&self, scope: Scope) {
        let _ = self.scope.set(scope);
    }

    fn scope(self: &Arc<Self>, filter: &Filter) -> Result<Scope, RuleFileError> {
        if let Some(scope) = self.scope.get() {
            return Ok(scope.clone());
        }
        let above = match &self.place {
            DirLocation::Root { .. } => self.above.get().cloned().unwrap_or_default(),
            DirLocation::Below { parent, .. } => parent.scope(filter)?,
        };
        let handle = self.handle().map_err(|error| RuleFileError::of_dir(&error))?;
        let scope = rules::enter(filter, &above, &*handle, &self.path_prefix())?;
        Ok(self.scope.get_or_init(|| scope).clone())
    }

    /// The `filter` for its entries, with the rule files in it and above.
    ///
    /// # Errors
    /// When a rule file can't be used.
    pub(crate) fn select<'f>(
        self: &Arc<Self>,
        filter: &'f Filter,
    ) -> Result<Selection<'f>, RuleFileError> {
        if filter.is_empty() {
            return Ok(Selection(None));
        }
        let scope = if filter.needs_whole_paths() { self.scope(filter)? } else { Scope::default() };
        Ok(Selection(Some((filter, scope, self.path_prefix()))))
    }
}

impl Selection<'_> {
    /// The same without rule files, which do not apply to named sources.
    pub(crate) fn without_files(mut self) -> Self {
        if let Some((_, scope, _)) = &mut self.0 {
            *scope = Scope::at(scope.root());
        }
        self
    }

    /// The reason why a rule file of the directory was skipped.
    pub(crate) fn skipped_files(&self) -> Option<RuleFileError> {
        self.0.as_ref().and_then(|(_, scope, _)| RuleFileError::skipped_files(scope))
    }

    /// True if the entry `name` is excluded.
    pub(crate) fn excludes(&mut self, name: &Name, is_dir: bool) -> bool {
        let Some((filter, scope, path)) = &mut self.0 else { return false };
        let dir_len = path.len();
        path.extend_from_slice(name.as_bytes());
        let subject = Subject { path, is_dir, side: FilterSide::Sender, is_being_removed: false };
        let is_out = filter.excludes(&subject, scope);
        path.truncate(dir_len);
        is_out
    }
}

impl Default for OpenDirs {
    fn default() -> Self {
        let nodes_max = open_dirs_max(haul_sys::open_files_max()) as usize;
        Self { nodes: Mutex::default(), nodes_max, is_known: Once::new() }
    }
}

impl OpenDirs {
    fn add(&self, node: &Arc<DirNode>) {
        let mut nodes = self.nodes.lock();
        nodes.push_back(Arc::downgrade(node));
        while nodes.len() > self.nodes_max {
            let Some(oldest) = nodes.pop_front().and_then(|node| node.upgrade()) else { continue };
            oldest.close();
        }
    }
}

impl Spare for OpenDirs {
    fn close_idle(&self) {
        let nodes = std::mem::take(&mut *self.nodes.lock());
        nodes.iter().filter_map(Weak::upgrade).for_each(|node| node.close());
    }
}

/// A number for the object `id`, until this machine restarts. It includes the secret boot number,
/// so it reveals nothing to other machines, and no object there has it.
pub(crate) fn local_number(id: FileId) -> u64 {
    let boot = haul_sys::boot_id();
    number(&[&boot[..], &id.dev.to_le_bytes(), &id.ino.to_le_bytes()].concat())
}

/// A number for this machine until it restarts. It reveals nothing to other machines.
fn local_machine() -> u64 {
    number(&haul_sys::boot_id())
}

/// A hash that identifies the object `id` of this machine to a peer.
pub(crate) fn local_object(id: FileId) -> Object {
    Object { machine: local_machine(), number: local_number(id) }
}

/// The number of an object that a peer has sent, if the object is on this machine.
pub(crate) fn number_if_local(object: Object) -> Option<u64> {
    (object.machine == local_machine()).then_some(object.number)
}

/// A number derived from `of`, never 0.
fn number(of: &[u8]) -> u64 {
    let hash = ContentHash::of(of);
    let number = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*number).max(1)
}
