//! Gives entries their names, so that none of the job takes the place of another:
//! on many file systems different names are one, by case or by how a character is
//! written. Then the second of two entries fails, and the first stays.
//!
//! Where the file system is known to keep all names apart, a name that is taken by
//! now was given by another program. Elsewhere, in a directory that existed before the
//! job, objects decide: [`Claims`] records those that the job found or put there. In a
//! directory that the job made, the listing must have the very spelling of the name, too.
//! Through SFTP, where objects have no numbers, the listing alone decides.

use super::backing::not_backed_up;
use super::own::is_own;
use super::{Backups, DirState, JobContext, Owners, RecvDir, losing, parent_fault};
use crate::dirs::DirNode;
use crate::originals::Originals;
use haul_model::{Entry, Fault, FaultKind, FileId, Name, Outcome, Side, Skip};
use haul_plan::{changes, refusal};
use haul_store::{OnExisting, Publication};
use haul_tree::{Meta, TreeDir};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The objects of one directory that belong to entries of the job, with how many.
#[derive(Default)]
pub(crate) struct Claims(Mutex<Claimed>);

#[derive(Default)]
struct Claimed {
    entries: HashMap<FileId, Claim>,
    /// The objects with several names in the directory, and how many, once somebody
    /// had to know.
    links: Option<HashMap<FileId, u32>>,
}

/// How entries of the job came to an object.
#[derive(Default, Clone, Copy)]
struct Claim {
    /// Entries of the job whose name led to the object, plus the one that made it.
    entries: u32,
    /// An entry made the object, or put it there.
    is_brought: bool,
}

impl Claims {
    /// An entry's name leads to the object `id` of `dir`; `false` if that is
    /// another entry's.
    pub(crate) fn find(&self, id: FileId, dir: &dyn TreeDir) -> bool {
        let mut claimed = self.0.lock();
        let claim = claimed.entries.entry(id).or_default();
        claim.entries += 1;
        let entries = claim.entries;
        if entries == 1 {
            return true;
        }
        // Or a hard link.
        let links = claimed.links.get_or_insert_with(|| links(dir).unwrap_or_default());
        links.get(&id).is_some_and(|&names| names >= entries)
    }

    /// True if the object `id` is an entry's.
    pub(super) fn has(&self, id: FileId) -> bool {
        self.0.lock().entries.contains_key(&id)
    }

    /// True if an entry has put the object `id` there in this job.
    pub(super) fn has_brought(&self, id: FileId) -> bool {
        self.0.lock().entries.get(&id).is_some_and(|claim| claim.is_brought)
    }

    /// An entry brings the object `id` with it. The object counts once: its number may be
    /// that of a file that was replaced.
    pub(crate) fn bring(&self, id: FileId) {
        self.0.lock().entries.insert(id, Claim { entries: 1, is_brought: true });
    }
}

/// Tells if several sources may meet in one directory, where [`Claims`] of one walk
/// know nothing of what another has brought.
#[derive(Default)]
pub(super) struct Merging {
    sources: AtomicUsize,
    /// One of them goes right into the destination.
    has_nameless: AtomicBool,
}

impl Merging {
    /// A source is listed.
    pub(super) fn list(&self, name: Option<&Name>) {
        self.sources.fetch_add(1, Ordering::Relaxed);
        self.has_nameless.fetch_or(name.is_none(), Ordering::Relaxed);
    }

    fn may_be(&self) -> bool {
        self.sources.load(Ordering::Relaxed) > 1 && self.has_nameless.load(Ordering::Relaxed)
    }
}

/// The objects that have several names in `dir`, and how many. The numbers in a
/// listing are not asked: some file systems make them up.
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

/// The names that entries get, without taking one that another entry of the job has.
pub(super) struct Naming<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) owners: Arc<Owners<'a>>,
    pub(super) backups: Arc<Backups<'a>>,
    /// See [`Merging`].
    pub(super) merging: Merging,
    /// Held while a file with several names is written into.
    pub(super) updating: Mutex<()>,
    /// The sources, if they are on this machine.
    pub(super) originals: Option<Originals>,
}

impl<'a> Naming<'a> {
    pub(super) fn of(backups: &Arc<Backups<'a>>, originals: Option<Originals>) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&backups.job), Arc::clone(&backups.owners));
        let (backups, merging, updating) =
            (Arc::clone(backups), Merging::default(), Mutex::default());
        Arc::new(Self { job, owners, backups, merging, updating, originals })
    }
}

impl Naming<'_> {
    /// Has `publish` give an entry of `dir` its name, which is the `action` that may
    /// fail; `None` if another entry of the job has it.
    pub(super) fn give_name(
        &self,
        action: &str,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
        on_existing: OnExisting,
        mut publish: impl FnMut(OnExisting) -> io::Result<Publication>,
    ) -> Result<Option<Outcome>, Fault> {
        let failed = |error: io::Error| losing::not_kept(self.job.policy.moving, action, &error);
        if publish(on_existing).map_err(failed)? == Publication::Published {
            return Ok(Some(Outcome::Copied));
        }
        let DirState::Open(node) = &dir.state else { return Err(parent_fault()) };
        let handle = node.handle().map_err(failed)?;
        let there = match handle.capabilities().tells_objects {
            // There are spellings.
            false if !handle.spells(name).map_err(failed)? => return Ok(None),
            false => None,
            true => handle.stat(name, false).map_err(failed)?,
        };
        if let Some(there) = &there
            && !self.is_free(dir, &*handle, name, there).map_err(failed)?
        {
            return Ok(None);
        }
        // Another program was faster.
        if self.job.plan.keeps_existing {
            return Ok(Some(Outcome::Skipped(Skip::Exists)));
        }
        if let Some(refusal) = there.and_then(|there| refusal(&there, is_own(entry, there.id))) {
            return Err(refusal);
        }
        self.backups.back_up(node, name).map_err(not_backed_up)?;
        publish(OnExisting::Replace).map_err(failed)?;
        Ok(Some(Outcome::Copied))
    }

    /// False if `name` may lead to what another entry has brought under another spelling,
    /// in a directory that takes the two names for one. In a directory that existed before
    /// the job, only entries of another source are unknown to its [`Claims`].
    pub(super) fn is_spelled(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> io::Result<bool> {
        let asks = dir.fresh || self.merging.may_be();
        Ok(!asks || handle.tells_names_apart() || handle.spells(name)?)
    }

    /// False if `there`, which an entry's name leads to in `dir`, is another entry's.
    pub(super) fn is_free(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
        there: &Meta,
    ) -> io::Result<bool> {
        let is_own = match (dir.claims(), there.id) {
            (Some(claims), Some(id)) => claims.find(id, handle),
            _ => true,
        };
        Ok(is_own && self.is_spelled(dir, handle, name)?)
    }
}

/// The fault of an entry whose name is that of another one of the job.
pub(super) fn another() -> Fault {
    let message = "its name is that of another entry of this job: the destination treats both \
                   names as the same";
    Fault::new(Side::Destination, FaultKind::Taken, message)
}

impl Naming<'_> {
    /// Gives a file whose content is left as it is those attributes of the source that
    /// it lacks.
    pub(super) fn refresh(
        &self,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        existing: Option<&Meta>,
    ) -> Result<(), Fault> {
        // The source keeps what it has.
        let Some(existing) = existing.filter(|there| !is_own(entry, there.id)) else {
            return Ok(());
        };
        let keeps = self.job.policy.keeps;
        let which = changes(entry, existing, None, keeps).attributes(keeps);
        if which.is_empty() || self.job.policy.dry_run {
            return Ok(());
        }
        let attributes = self.owners.with_spared(&entry.attributes, Some(&existing.attributes));
        let set = node
            .handle()
            .and_then(|handle| handle.set_file_attributes(name, existing.id, &attributes, which));
        let action = "set the file's attributes";
        set.map_err(|error| losing::not_kept(self.job.policy.moving, action, &error))
    }
}
