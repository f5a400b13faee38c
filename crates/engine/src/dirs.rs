//! The directories of a running job: each knows its parent and its name, holds
//! its handle while it is in use, and opens it again when the handle had to
//! make room for others.

use crate::tree::{Meta, MetaKind, TreeDir};
use haul_model::{ContentHash, FileId, Name};
use haul_store::RESUME_LEN_MIN;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Handles that are kept open for directories at rest, in each role. With what
/// is in use at the moment it stays well below the usual limit of 1,024.
pub(crate) const OPEN_DIRS_MAX: usize = 256;

/// One directory.
pub(crate) struct DirNode {
    place: Place,
    /// Which object it was when it was first opened.
    id: Option<FileId>,
    handle: Mutex<Option<Arc<dyn TreeDir>>>,
    open: Arc<OpenDirs>,
}

/// How a directory is reached.
enum Place {
    /// Held open for the whole job, and shown under this name if it has one.
    Root { label: Option<Name> },
    /// By its name in its parent.
    Below { parent: Arc<DirNode>, name: Name, follow: bool },
}

/// The directories whose handles are open, oldest first.
#[derive(Default)]
pub(crate) struct OpenDirs(Mutex<VecDeque<Weak<DirNode>>>);

impl DirNode {
    /// A directory that stays open; shown as `label`.
    pub(crate) fn root(
        handle: Arc<dyn TreeDir>,
        label: Option<Name>,
        open: &Arc<OpenDirs>,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            place: Place::Root { label },
            id: handle.stat_self()?.id,
            handle: Mutex::new(Some(handle)),
            open: Arc::clone(open),
        }))
    }

    /// The directory `name` in `parent`, opened now.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn open(parent: &Arc<Self>, name: Name, follow: bool) -> io::Result<Arc<Self>> {
        let handle = parent.handle()?.open_dir(&name, follow)?;
        let node = Arc::new(Self {
            id: handle.stat_self()?.id,
            handle: Mutex::new(Some(handle)),
            open: Arc::clone(&parent.open),
            place: Place::Below { parent: Arc::clone(parent), name, follow },
        });
        node.open.add(&node);
        Ok(node)
    }

    /// The handle, opened again if need be.
    ///
    /// # Errors
    /// Those of opening it; [`io::ErrorKind::NotFound`] if another directory
    /// stands in its place now.
    pub(crate) fn handle(self: &Arc<Self>) -> io::Result<Arc<dyn TreeDir>> {
        let mut held = lock(&self.handle);
        if let Some(handle) = &*held {
            return Ok(Arc::clone(handle));
        }
        let Place::Below { parent, name, follow } = &self.place else {
            unreachable!("a root's handle is never given up");
        };
        let handle = parent.handle()?.open_dir(name, *follow)?;
        if handle.stat_self()?.id != self.id {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "another directory has taken its place",
            ));
        }
        *held = Some(Arc::clone(&handle));
        drop(held);
        self.open.add(self);
        Ok(handle)
    }

    /// Which object it is.
    pub(crate) fn id(&self) -> Option<FileId> {
        self.id
    }

    /// The number by which an object in this directory is told from one that
    /// takes its place. For a file whose stage is found by it, and for all if
    /// `always` says so, that of the file system is mixed in: another disk may
    /// have the same file under the same number.
    pub(crate) fn number_of(self: &Arc<Self>, meta: &Meta, always: bool) -> u64 {
        let Some(id) = meta.id else { return 0 };
        match meta.kind {
            MetaKind::File { size } if size >= RESUME_LEN_MIN => {}
            _ if !always => return id.ino,
            _ => {}
        }
        let beside = self.id.is_some_and(|dir| dir.dev == id.dev);
        // A file can be mounted by itself, or be what a link leads to.
        let volume = match self.handle() {
            Ok(handle) if beside => handle.volume(),
            _ => id.dev,
        };
        let numbers = [volume.to_le_bytes(), id.ino.to_le_bytes()].concat();
        let hash = ContentHash::of(&numbers);
        let number = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        u64::from_le_bytes(*number).max(1)
    }

    /// Whether it, or a directory above it in the job, is the object `id`.
    pub(crate) fn is_or_is_below(&self, id: FileId) -> bool {
        let mut node = self;
        loop {
            if node.id == Some(id) {
                return true;
            }
            match &node.place {
                Place::Root { .. } => return false,
                Place::Below { parent, .. } => node = parent,
            }
        }
    }

    /// The path to show for `name` in this directory, raw.
    pub(crate) fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        let mut parts: Vec<&[u8]> = Vec::new();
        parts.extend(name.map(Name::as_bytes));
        let mut node = self;
        loop {
            match &node.place {
                Place::Root { label } => {
                    parts.extend(label.as_ref().map(Name::as_bytes));
                    break;
                }
                Place::Below { parent, name, .. } => {
                    parts.push(name.as_bytes());
                    node = parent;
                }
            }
        }
        parts.reverse();
        if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') }
    }
}

impl OpenDirs {
    fn add(&self, node: &Arc<DirNode>) {
        let mut open = lock(&self.0);
        open.push_back(Arc::downgrade(node));
        while open.len() > OPEN_DIRS_MAX {
            let Some(oldest) = open.pop_front().and_then(|node| node.upgrade()) else { continue };
            // Whoever uses the handle at this moment keeps it until done.
            if let Ok(mut handle) = oldest.handle.try_lock() {
                *handle = None;
            }
        }
    }
}

/// A panicking thread leaves these values whole, and ends the job anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
