//! A directory of the job at the destination: made when it is listed, and given
//! its attributes when everything in it has its outcome.

use super::naming::Claims;
use crate::dirs::DirNode;
use crate::prefetch::Prefetched;
use haul_model::{Attributes, Kept, Name, Scope, words};
use haul_store::{RowNumber, StaleStages};
use haul_tree::PRIVATE_DIR_MODE;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

/// The mode bits by which an owner may read and search a directory.
const SEARCHABLE: u32 = 0o500;

/// One directory.
pub(crate) struct RecvDir {
    /// The directory above it; `None` for the root.
    pub(crate) parent: Option<Arc<RecvDir>>,
    /// The name that it was listed with, for showing; `None` for the root, and
    /// for what goes right into it.
    pub(crate) shown: Option<Name>,
    /// The directory itself, as far as there is one.
    pub(crate) state: DirState,
    /// It was made by this job: nothing is in it that the job didn't put there.
    pub(crate) fresh: bool,
    /// The attributes that it gets at the end, if it gets any.
    pub(crate) attributes: Option<Attributes>,
    /// Entries without an outcome, and one for the listing itself.
    pending: AtomicU64,
    /// See [`LastNames`].
    pub(crate) last_names: Mutex<LastNames>,
    /// In a check: what is there and was not listed yet, where that is to be
    /// told.
    pub(crate) unlisted: Mutex<Option<BTreeSet<Name>>>,
    /// Where what was not listed is to go, and two names may be one: the names that were
    /// listed, and that nothing there had as they are spelled.
    pub(crate) listed: Mutex<Option<Vec<Name>>>,
    /// The rules of files, where something may be removed.
    scope: OnceLock<Scope>,
    /// See [`Self::prefetched`].
    pub(super) prefetched: Mutex<Option<Prefetched>>,
    /// See [`Self::bases`].
    bases: OnceLock<Vec<Arc<DirNode>>>,
    /// See [`Self::claims`].
    claims: OnceLock<Option<Claims>>,
    /// Stages of earlier jobs, looked for when the first file is published.
    stale: OnceLock<StaleStages>,
    /// See [`Self::mode_of_new`].
    mode_of_new: OnceLock<u32>,
    /// See [`Self::open_up`].
    opened_up: Once,
    /// See [`Self::touch`].
    touched: AtomicBool,
    /// See [`Self::become_way`].
    is_way: AtomicBool,
    /// The number under which files wait that will appear in it, if any did.
    pub(super) row: OnceLock<RowNumber>,
    /// See [`Self::has_waiting`].
    has_waiting: AtomicBool,
    /// See [`Self::begin_to_count`].
    is_counted: AtomicBool,
}

/// The last names that were listed in a directory, in the order in which these come.
#[derive(Default)]
pub(crate) struct LastNames {
    /// Of what is no directory.
    pub(crate) file: Option<Name>,
    /// Of the directories that will be listed.
    pub(crate) subdir: Option<Name>,
    /// Of the directories.
    pub(crate) dir: Option<Name>,
}

/// The operations that a directory allows.
pub(crate) enum DirState {
    /// It is there.
    Open(Arc<DirNode>),
    /// It could not be made or opened; that was reported.
    Failed,
    /// It would be made, if this were no dry run.
    Absent,
    /// It is not there, and rules leave it at that.
    Ruled,
}

/// A directory of a base that has the entry that was looked for.
#[derive(Clone)]
pub(crate) struct Base(pub(super) Arc<DirNode>);

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Base")
    }
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Base {}

impl RecvDir {
    pub(crate) fn new(
        parent: Option<Arc<RecvDir>>,
        shown: Option<Name>,
        state: DirState,
        fresh: bool,
        attributes: Option<Attributes>,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.expect_one();
        }
        Arc::new(Self {
            parent,
            shown,
            state,
            fresh,
            attributes,
            pending: AtomicU64::new(1),
            last_names: Mutex::default(),
            unlisted: Mutex::default(),
            listed: Mutex::default(),
            scope: OnceLock::new(),
            prefetched: Mutex::default(),
            bases: OnceLock::new(),
            claims: OnceLock::new(),
            stale: OnceLock::new(),
            mode_of_new: OnceLock::new(),
            opened_up: Once::new(),
            touched: AtomicBool::new(fresh),
            is_way: AtomicBool::new(false),
            row: OnceLock::new(),
            has_waiting: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
        })
    }

    /// One more entry whose outcome must be awaited.
    pub(crate) fn expect_one(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// One entry has its outcome; `true` if it was the last.
    pub(crate) fn settle_one(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The rules of files for what is in it are these.
    pub(crate) fn begin_with(&self, scope: Scope) {
        let _ = self.scope.set(scope);
    }

    /// The rules for its entries from rule files. Until its own were read, the rules of the
    /// directory above.
    pub(crate) fn scope(&self) -> Scope {
        let mut dir = Some(self);
        while let Some(here) = dir {
            if let Some(scope) = here.scope.get() {
                return scope.clone();
            }
            dir = here.parent.as_deref();
        }
        Scope::default()
    }

    /// The path within the job of what is in it: empty, or with a slash behind.
    pub(crate) fn front(&self) -> Vec<u8> {
        match self.path_of(None) {
            root if root == b"." => Vec::new(),
            path => [&*path, b"/"].concat(),
        }
    }

    /// The name is that of an entry, and of no extra. True if it is known to be there.
    pub(crate) fn has_listed(&self, name: &Name) -> bool {
        let is_there = self.unlisted.lock().as_mut().is_some_and(|names| names.remove(name));
        if !is_there && let Some(listed) = self.listed.lock().as_mut() {
            listed.push(name.clone());
        }
        is_there
    }

    /// True if the destination has something in it that was not listed; false where the job
    /// does not ask for that.
    pub(crate) fn has_extras(&self) -> bool {
        self.unlisted.lock().as_ref().is_some_and(|names| !names.is_empty())
    }

    /// An entry with the path `shown` can't be listed: what the destination has
    /// under its name is no extra. If it is not the name of one, it may be that
    /// not all of the source's directory was read, and nothing is known.
    pub(crate) fn passed_over(&self, shown: &[u8]) {
        let mut unlisted = self.unlisted.lock();
        let Some(names) = unlisted.as_mut() else { return };
        let name = shown.rsplit(|byte| *byte == b'/').next().unwrap_or(shown);
        if !Name::new(name).is_ok_and(|name| names.remove(&name)) {
            *unlisted = None;
        }
    }

    /// Sets the bases of a root.
    pub(crate) fn set_bases(&self, bases: Vec<Arc<DirNode>>) {
        // Nobody has asked yet.
        let _ = self.bases.set(bases);
    }

    /// The directories of a mirror's bases that stand for this one. One that can't be
    /// opened has nothing that could be used.
    pub(crate) fn bases(&self) -> &[Arc<DirNode>] {
        self.bases.get_or_init(|| {
            let above = self.parent.as_ref().map_or(&[][..], |parent| parent.bases());
            let Some(name) = &self.shown else { return above.to_vec() };
            let opened = above.iter().map(|base| {
                let base = DirNode::open(base, name.clone(), false)?;
                base.handle()?.expect_looks();
                Ok(base)
            });
            opened.filter_map(io::Result::ok).collect()
        })
    }

    /// The objects in it that belong to entries of the job, where its file system
    /// may take several names for one.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        let DirState::Open(node) = &self.state else { return None };
        let needed = || {
            let tells_apart = node.handle().is_ok_and(|handle| handle.tells_names_apart());
            (!tells_apart).then(Claims::default)
        };
        self.claims.get_or_init(needed).as_ref()
    }

    /// The most rights that its new entries get where the sources' modes are not kept.
    pub(crate) fn mode_of_new(&self) -> u32 {
        let DirState::Open(node) = &self.state else { return 0 };
        // One that can't be opened gets no entries.
        *self.mode_of_new.get_or_init(|| node.handle().map_or(0, |dir| super::modes::of_new(&*dir)))
    }

    /// False if its owner may not make entries in it.
    pub(crate) fn is_writable(&self) -> bool {
        self.has_bits(PRIVATE_DIR_MODE)
    }

    /// False if its owner may not look at what is in it.
    pub(crate) fn is_searchable(&self) -> bool {
        self.has_bits(SEARCHABLE)
    }

    /// False if these bits are missing in the mode of a directory that stood before.
    fn has_bits(&self, bits: u32) -> bool {
        match &self.state {
            DirState::Open(node) if self.attributes.is_some() && !self.fresh => {
                node.meta().attributes.mode & bits == bits
            }
            _ => true,
        }
    }

    /// The job has made or removed something in it, or is about to, or has set its mode:
    /// it does not have its attributes any more.
    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Release);
    }

    /// False if the job has changed nothing of the directory, and the attributes that it
    /// was opened with are those that it has.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    /// An entry is about to be made here, and the directory to be changed by it.
    pub(crate) fn expect_change(&self) {
        self.touch();
        self.open_up();
    }

    /// An entry is about to be made here: its owner gets the rights for that. It gets its
    /// own mode at the end, and one in which nothing is made keeps it all the time.
    pub(crate) fn open_up(&self) {
        let DirState::Open(node) = &self.state else { return };
        if !self.is_writable() {
            self.touch();
            // A refusal shows itself as soon as something is written.
            self.opened_up.call_once(|| drop(node.handle().and_then(|dir| dir.make_writable())));
        }
    }

    /// `name` was published here: removes what earlier jobs left of it.
    pub(crate) fn remove_stale(&self, name: &Name) {
        let DirState::Open(node) = &self.state else { return };
        if !self.fresh
            && let Ok(handle) = node.handle()
        {
            handle.remove_stale(name, &self.stale);
        }
    }

    /// The names by which it was listed, from the root on.
    pub(crate) fn names(&self) -> Vec<&Name> {
        let mut names: Vec<&Name> = Vec::new();
        let mut dir = Some(self);
        while let Some(here) = dir {
            names.extend(&here.shown);
            dir = here.parent.as_deref();
        }
        names.reverse();
        names
    }

    /// It is on the way to a source: of its attributes it gets a mode, if it was made.
    pub(crate) fn become_way(&self) {
        self.is_way.store(true, Ordering::Relaxed);
    }

    /// Files wait that will appear in it or below.
    pub(super) fn expect_waiting(&self) {
        self.has_waiting.store(true, Ordering::Release);
    }

    /// True if files wait, or did, that will appear in it or below: it gets its attributes
    /// behind them.
    pub(super) fn has_waiting(&self) -> bool {
        self.has_waiting.load(Ordering::Acquire)
    }

    /// It stays in memory, and counts from now on. False if it does already.
    pub(super) fn begin_to_count(&self) -> bool {
        !self.is_counted.swap(true, Ordering::Relaxed)
    }

    /// The kinds of attributes that it gets of those that are kept.
    pub(crate) fn given(&self, kept: Kept) -> Kept {
        if self.is_way.load(Ordering::Relaxed) { Kept::MODE } else { kept }
    }

    /// The path to show for `name` in this directory, raw.
    pub(crate) fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        words::path_upwards(name.into_iter().chain(self.upwards()))
    }

    /// Writes that path to `path`, in place of its content: its memory is used again.
    pub(crate) fn write_path(&self, name: Option<&Name>, path: &mut Vec<u8>) {
        words::join_upwards(name.into_iter().chain(self.upwards()), path);
    }

    /// The names of this directory and of those that it is in, from the lowest up.
    fn upwards(&self) -> impl Iterator<Item = &Name> + Clone {
        let upwards = std::iter::successors(Some(self), |dir| dir.parent.as_deref());
        upwards.filter_map(|dir| dir.shown.as_ref())
    }
}
