//! A directory of the job at the destination. It is created when it is listed, and gets its
//! attributes when all its entries are settled. Its claims are the objects in it that belong to
//! entries of the job.

use crate::dirs::DirNode;
use crate::prefetch::Prefetched;
use haul_model::{Attributes, FileId, Kept, Name, Scope, words};
use haul_store::{RowNumber, StaleStages};
use haul_tree::{Meta, PRIVATE_DIR_MODE, TreeDir};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

/// The permission bits of a mode.
const RIGHTS: u32 = 0o777;

/// The mode bits that allow an owner to read and search a directory.
const SEARCHABLE: u32 = 0o500;

/// A directory of the job.
pub(crate) struct RecvDir {
    /// The parent directory; `None` for the root.
    pub(crate) parent: Option<Arc<RecvDir>>,
    /// The listed name, for reports. `None` for the root, and for a source whose place is the root
    /// itself.
    pub(crate) shown: Option<Name>,
    /// The directory itself, if there is one.
    pub(crate) state: DirState,
    /// This job created it: it holds only entries of the job.
    pub(crate) fresh: bool,
    /// The attributes that it gets at the end, if any.
    pub(crate) attributes: Option<Attributes>,
    /// The number of entries without an outcome, plus one for the listing itself.
    pending: AtomicU64,
    /// See [`LastNames`].
    pub(crate) last_names: Mutex<LastNames>,
    pub(crate) extras: ExtraNames,
    pub(super) taken: TakenNames,
    /// See [`Self::prefetched`].
    pub(super) prefetched: Mutex<Option<Prefetched>>,
    lazy: Lazy,
    flags: Flags,
    /// See [`Self::make_writable`].
    made_writable: Once,
    /// The number of the row of its waiting files, if there were any.
    pub(super) row: OnceLock<RowNumber>,
    /// The number of its files that were made to wait for the end of the job.
    pub(super) waiting: AtomicU64,
}

/// Names in a directory that a backup beside its original must not take: names of listed entries
/// that end with the suffix, and names of backups whose originals end with it. The set is locked
/// while a backup gets its name. An entry that is listed meanwhile is compared after that.
pub(crate) type TakenNames = Mutex<BTreeSet<Name>>;

/// The names in a directory from which extras are found.
#[derive(Default)]
pub(crate) struct ExtraNames {
    /// Existing names that were not listed yet; `None` if extras are not looked for.
    pub(crate) unlisted: Mutex<Option<BTreeSet<Name>>>,
    /// Listed names that no existing entry spelled the same way. `None` unless extras are looked
    /// for and two names may be the same.
    pub(crate) listed: Mutex<Option<Vec<Name>>>,
}

/// Answers about a directory that are found when they are first needed.
#[derive(Default)]
struct Lazy {
    /// The rules from rule files, where something may be removed.
    scope: OnceLock<Scope>,
    /// See [`RecvDir::bases`].
    bases: OnceLock<Vec<Arc<DirNode>>>,
    /// See [`RecvDir::claims`].
    claims: OnceLock<Option<Claims>>,
    /// Leftovers of earlier jobs, looked for when the first file is published.
    stale: OnceLock<StaleStages>,
    /// See [`RecvDir::mode_of_new`].
    mode_of_new: OnceLock<u32>,
}

/// Facts about a directory that become true once and stay true.
struct Flags(AtomicU8);

impl Flags {
    /// See [`RecvDir::touch`].
    const TOUCHED: u8 = 1;
    /// See [`RecvDir::mark_implied`].
    const IMPLIED: u8 = 2;
    /// See [`RecvDir::has_waiting`].
    const HAS_WAITING: u8 = 4;
    /// See [`RecvDir::count_once`].
    const COUNTED: u8 = 8;

    /// The flags of a directory that this job created, if `fresh`.
    fn new(fresh: bool) -> Self {
        Self(AtomicU8::new(if fresh { Self::TOUCHED } else { 0 }))
    }

    /// Sets `flag`. Returns true if it was not set.
    fn set(&self, flag: u8) -> bool {
        self.0.fetch_or(flag, Ordering::AcqRel) & flag == 0
    }

    fn has(&self, flag: u8) -> bool {
        self.0.load(Ordering::Acquire) & flag != 0
    }
}

/// The last names that were listed in a directory. They come in the order of these fields.
#[derive(Default)]
pub(crate) struct LastNames {
    /// Of an entry that is no directory.
    pub(crate) file: Option<Name>,
    /// Of a directory that was announced.
    pub(crate) subdir: Option<Name>,
    /// Of a directory.
    pub(crate) dir: Option<Name>,
}

/// The state of a directory, which decides what can be done in it.
pub(crate) enum DirState {
    /// It exists.
    Open(Arc<DirNode>),
    /// It could not be created or opened, which was reported.
    Failed,
    /// A dry run: it would be created.
    Absent,
    /// It does not exist, and the rules forbid to create it.
    Ruled,
}

impl RecvDir {
    pub(crate) fn new(
        parent: Option<Arc<RecvDir>>,
        shown: Option<Name>,
        state: DirState,
        fresh: bool,
        attributes: Option<Attributes>,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.add_pending();
        }
        Arc::new(Self {
            parent,
            shown,
            state,
            fresh,
            attributes,
            pending: AtomicU64::new(1),
            last_names: Mutex::default(),
            extras: ExtraNames::default(),
            taken: TakenNames::default(),
            prefetched: Mutex::default(),
            lazy: Lazy::default(),
            flags: Flags::new(fresh),
            made_writable: Once::new(),
            row: OnceLock::new(),
            waiting: AtomicU64::new(0),
        })
    }

    /// Counts one more entry that must be settled.
    pub(crate) fn add_pending(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Settles one entry; `true` if it was the last.
    pub(crate) fn settle_one(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Sets the rules from rule files for its entries.
    pub(crate) fn set_rules(&self, scope: Scope) {
        let _ = self.lazy.scope.set(scope);
    }

    /// The rules from rule files for its entries. Until its own files were read, these are the
    /// rules of the parent.
    pub(crate) fn scope(&self) -> Scope {
        let mut dir = Some(self);
        while let Some(here) = dir {
            if let Some(scope) = here.lazy.scope.get() {
                return scope.clone();
            }
            dir = here.parent.as_deref();
        }
        Scope::default()
    }

    /// The path of its entries within the job, up to and with the last slash.
    pub(crate) fn path_prefix(&self) -> Vec<u8> {
        match self.path_of(None) {
            root if root == b"." => Vec::new(),
            path => [&*path, b"/"].concat(),
        }
    }

    /// Records that the name was listed, so it is no extra. True if it is known to exist.
    pub(crate) fn record_listed(&self, name: &Name) -> bool {
        let exists = self.extras.unlisted.lock().as_mut().is_some_and(|names| names.remove(name));
        if !exists && let Some(listed) = self.extras.listed.lock().as_mut() {
            listed.push(name.clone());
        }
        exists
    }

    /// True if it has entries that were not listed; false if extras are not looked for.
    pub(crate) fn has_extras(&self) -> bool {
        self.extras.unlisted.lock().as_ref().is_some_and(|names| !names.is_empty())
    }

    /// Records that the entry with the path `shown` can't be listed: its name is no extra. If no
    /// such name exists, or the path is that of the directory itself, the Sender may have read only
    /// a part of the directory. Then nothing counts as an extra.
    pub(crate) fn record_unlistable(&self, shown: &[u8]) {
        let mut unlisted = self.extras.unlisted.lock();
        let Some(names) = unlisted.as_mut() else { return };
        let name = shown.rsplit(|byte| *byte == b'/').next().unwrap_or(shown);
        let is_itself = self.parent.is_some() && shown == words::shown(self.path_of(None));
        if is_itself || !Name::new(name).is_ok_and(|name| names.remove(&name)) {
            *unlisted = None;
        }
    }

    /// Sets the bases of a root.
    pub(crate) fn set_bases(&self, bases: Vec<Arc<DirNode>>) {
        // Nobody has asked for them before.
        let _ = self.lazy.bases.set(bases);
    }

    /// The directories of a mirror's bases that correspond to this one. Those that can't be opened
    /// are left out.
    pub(crate) fn bases(&self) -> &[Arc<DirNode>] {
        self.lazy.bases.get_or_init(|| {
            let above = self.parent.as_ref().map_or(&[][..], |parent| parent.bases());
            let Some(name) = &self.shown else { return above.to_vec() };
            let opened = above.iter().map(|base| {
                let base = DirNode::open(base, name.clone(), false)?;
                base.handle()?.expect_lookups();
                Ok(base)
            });
            opened.filter_map(io::Result::ok).collect()
        })
    }

    /// The objects in it that belong to entries of the job. `None` if its file system keeps all
    /// names apart.
    pub(crate) fn claims(&self) -> Option<&Claims> {
        let DirState::Open(node) = &self.state else { return None };
        let needed = || {
            let tells_apart = node.handle().is_ok_and(|handle| handle.has_distinct_names());
            (!tells_apart).then(Claims::default)
        };
        self.lazy.claims.get_or_init(needed).as_ref()
    }

    /// Claims the entry `name`, which this job has just created in it.
    pub(crate) fn claim_new(&self, handle: &dyn TreeDir, name: &Name) -> io::Result<()> {
        if let Some(claims) = self.claims()
            && let Some(Meta { id: Some(id), .. }) = handle.stat(name, false)?
        {
            claims.bring(id);
        }
        Ok(())
    }

    /// The maximum permissions of its new entries, if the sources' modes are not kept.
    pub(crate) fn mode_of_new(&self) -> u32 {
        let DirState::Open(node) = &self.state else { return 0 };
        // A directory that can't be opened gets no entries.
        let mode = || node.handle().map_or(0, |dir| of_new(&*dir));
        *self.lazy.mode_of_new.get_or_init(mode)
    }

    /// False if its owner may not create entries in it.
    pub(crate) fn is_writable(&self) -> bool {
        self.has_bits(PRIVATE_DIR_MODE)
    }

    /// False if its owner may not read or search it.
    pub(crate) fn is_searchable(&self) -> bool {
        self.has_bits(SEARCHABLE)
    }

    /// False if the mode of a directory that existed before lacks these bits.
    fn has_bits(&self, bits: u32) -> bool {
        match &self.state {
            DirState::Open(node) if self.attributes.is_some() && !self.fresh => {
                node.meta().attributes.mode & bits == bits
            }
            _ => true,
        }
    }

    /// Records that the job changes its entries or mode, so its attributes must be set again.
    pub(crate) fn touch(&self) {
        self.flags.set(Flags::TOUCHED);
    }

    /// False if the job has not changed it, so it has the attributes with which it was opened.
    pub(crate) fn is_touched(&self) -> bool {
        self.flags.has(Flags::TOUCHED)
    }

    /// Prepares it for a new entry.
    pub(crate) fn expect_change(&self) {
        self.touch();
        self.make_writable();
    }

    /// Gives its owner the permissions to create entries. It gets its own mode at the end. A
    /// directory without new entries keeps its mode all the time.
    pub(crate) fn make_writable(&self) {
        let DirState::Open(node) = &self.state else { return };
        if !self.is_writable() {
            self.touch();
            // If that is refused, the first write reports it.
            self.made_writable
                .call_once(|| drop(node.handle().and_then(|dir| dir.make_writable())));
        }
    }

    /// Removes what earlier jobs left of `name`, which was published here.
    pub(crate) fn remove_stale(&self, name: &Name) {
        let DirState::Open(node) = &self.state else { return };
        if !self.fresh
            && let Ok(handle) = node.handle()
        {
            handle.remove_stale(name, &self.lazy.stale);
        }
    }

    /// The listed names on the path from the root to it.
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

    /// Marks it as a directory on the way to a source: it gets only a mode, if it was created.
    pub(crate) fn mark_implied(&self) {
        self.flags.set(Flags::IMPLIED);
    }

    pub(crate) fn is_implied(&self) -> bool {
        self.flags.has(Flags::IMPLIED)
    }

    /// Records that files wait that will appear in it or below.
    pub(super) fn record_waiting(&self) {
        self.flags.set(Flags::HAS_WAITING);
    }

    /// True if files wait, or waited, that will appear in it or below. It gets its attributes after
    /// them.
    pub(super) fn has_waiting(&self) -> bool {
        self.flags.has(Flags::HAS_WAITING)
    }

    /// Counts it as kept in memory. False if it was counted before.
    pub(super) fn count_once(&self) -> bool {
        self.flags.set(Flags::COUNTED)
    }

    /// Which of the `kept` attributes it gets.
    pub(crate) fn attributes_to_set(&self, kept: Kept) -> Kept {
        if self.is_implied() { Kept::MODE } else { kept }
    }

    /// The path of `name` in this directory for reports, not escaped.
    pub(crate) fn path_of(&self, name: Option<&Name>) -> Vec<u8> {
        words::path_upwards(name.into_iter().chain(self.upwards()))
    }

    /// Like [`Self::path_of`], into `path`, whose memory is reused.
    pub(crate) fn write_path(&self, name: Option<&Name>, path: &mut Vec<u8>) {
        words::join_upwards(name.into_iter().chain(self.upwards()), path);
    }

    /// The names of this directory and its parents, innermost first.
    fn upwards(&self) -> impl Iterator<Item = &Name> + Clone {
        let upwards = std::iter::successors(Some(self), |dir| dir.parent.as_deref());
        upwards.filter_map(|dir| dir.shown.as_ref())
    }
}

/// The maximum permissions of new entries in `dir`: from its default access list, or else from the
/// umask of this process.
pub(super) fn of_new(dir: &dyn TreeDir) -> u32 {
    let extended = dir.extended(None, Kept::ACL).ok().flatten();
    let default = extended.and_then(|extended| extended.default_acl);
    default.map_or(RIGHTS & !haul_sys::umask(), |acl| acl.mode())
}

pub(super) fn names_in(node: &Arc<DirNode>) -> io::Result<BTreeSet<Name>> {
    Ok(node.handle()?.entries()?.into_iter().map(|entry| entry.name).collect())
}

pub(super) fn is_empty(node: &Arc<DirNode>, name: &Name) -> io::Result<bool> {
    Ok(node.handle()?.open_dir(name, false)?.entries()?.is_empty())
}

/// The objects of one directory that belong to entries of the job. On a file system where two names
/// may be the same, they show that a name is taken.
#[derive(Default)]
pub(crate) struct Claims(Mutex<Claimed>);

#[derive(Default)]
struct Claimed {
    entries: HashMap<FileId, Claim>,
    /// The number of names of each object with several names in the directory. Read when first
    /// needed.
    links: Option<HashMap<FileId, u32>>,
}

/// The job's use of an object.
#[derive(Default, Clone, Copy)]
struct Claim {
    /// The number of entries whose name led to the object, plus the one that brought it.
    entries: u32,
    /// An entry created the object, or renamed it into the directory.
    is_brought: bool,
}

impl Claims {
    /// Records that an entry's name leads to the object `id` of `dir`; `false` if the object
    /// belongs to another entry.
    pub(crate) fn find(&self, id: FileId, dir: &dyn TreeDir) -> bool {
        let mut claimed = self.0.lock();
        let claim = claimed.entries.entry(id).or_default();
        claim.entries += 1;
        let entries = claim.entries;
        if entries == 1 {
            return true;
        }
        // Several entries may be hard links to the object.
        let links = claimed.links.get_or_insert_with(|| links(dir).unwrap_or_default());
        links.get(&id).is_some_and(|&names| names >= entries)
    }

    /// True if the object `id` belongs to an entry.
    pub(super) fn has(&self, id: FileId) -> bool {
        self.0.lock().entries.contains_key(&id)
    }

    /// True if an entry brought the object `id` in this job.
    pub(super) fn has_brought(&self, id: FileId) -> bool {
        self.0.lock().entries.get(&id).is_some_and(|claim| claim.is_brought)
    }

    /// Records that an entry brings the object `id`. The count restarts: the number may be that of
    /// a replaced file.
    pub(crate) fn bring(&self, id: FileId) {
        self.0.lock().entries.insert(id, Claim { entries: 1, is_brought: true });
    }
}

/// The objects with several names in `dir`, and the number of names. Uses `stat`, since some file
/// systems make up the object numbers in listings.
fn links(dir: &dyn TreeDir) -> io::Result<HashMap<FileId, u32>> {
    let mut links = HashMap::new();
    for entry in dir.entries()? {
        if haul_store::is_private(&entry.name) {
            continue;
        }
        if let Some(Meta { id: Some(id), .. }) = dir.stat(&entry.name, false)? {
            *links.entry(id).or_insert(0) += 1;
        }
    }
    links.retain(|_, names| *names > 1);
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_an_extra_in_a_directory_that_was_not_read() {
        let name = |name: &[u8]| Name::new(name).expect("a name");
        // The path of the fault, and the extras that are left in the directory `top/sub`.
        for (shown, extras) in [
            (&b"top/sub/sub"[..], Some(1)),
            (b"top/sub/other", Some(1)),
            (b"top/sub/none", None),
            (b"top/sub", None),
        ] {
            let new = |above, name| RecvDir::new(above, name, DirState::Ruled, false, None);
            let top = new(Some(new(None, None)), Some(name(b"top")));
            let dir = new(Some(top), Some(name(b"sub")));
            let names = BTreeSet::from([name(b"sub"), name(b"other")]);
            *dir.extras.unlisted.lock() = Some(names);
            dir.record_unlistable(shown);
            let left = dir.extras.unlisted.lock().as_ref().map(BTreeSet::len);
            assert_eq!(left, extras, "{shown:?}");
        }
    }
}
