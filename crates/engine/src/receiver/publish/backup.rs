//! Backups: an entry that a mirror replaces or removes first gets a second name, or a copy, as its
//! backup.

use crate::copy;
use crate::dirs::{DirNode, OpenDirs};
use crate::receiver::dirs::{TakenNames, is_empty};
use crate::receiver::{Chunks, JobContext, Owners, RecvDir};
use haul_model::{Attributes, Backup, Fault, FileId, Kept, Name, NewEntry, Side};
use haul_store::{Mover, OnExisting, Publication};
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE, SealedFile, TreeDir};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// The directory of an entry that is backed up, and the names there that its backup must not take.
pub(crate) type BackedUpDir<'d> = (&'d Arc<DirNode>, &'d TakenNames);

/// The place and names of backups.
pub(crate) struct BackupLocation {
    /// The backup directory, which mirrors the destination. `None` if backups are beside their
    /// originals, or a dry run would create it.
    root: Option<Arc<DirNode>>,
    /// Backups are beside their originals: the job names no backup directory.
    in_same_dir: bool,
    /// The suffix of their names.
    suffix: Vec<u8>,
    /// The directory of the latest backup's original, and the directory for its backups.
    last: Mutex<Option<(Arc<DirNode>, Arc<DirNode>)>>,
}

impl BackupLocation {
    /// The backups of a job, if it makes any: below `root`, or beside their originals.
    ///
    /// # Errors
    /// If the metadata of `root` can't be read.
    pub(crate) fn of(
        backup: Option<&Backup>,
        root: Option<Arc<dyn TreeDir>>,
    ) -> io::Result<Option<Self>> {
        let Some(Backup { suffix, dir }) = backup else { return Ok(None) };
        let in_same_dir = dir.is_none();
        let open = Arc::new(OpenDirs::default());
        let root = root.map(|root| DirNode::root(root, None, &open)).transpose()?;
        Ok(Some(Self { root, in_same_dir, suffix: suffix.clone(), last: Mutex::default() }))
    }

    /// True if `name` in `node` is that of a backup beside its original. As with rsync the suffix
    /// alone is such a name, except in the destination itself.
    fn is_backup_name(&self, node: &DirNode, name: &Name) -> bool {
        let is_more = name.as_bytes().len() > self.suffix.len() || node.place().is_some();
        is_more && self.has_suffix(name)
    }

    /// The name of the backup of `name`.
    fn name_for(&self, name: &Name) -> io::Result<Name> {
        Name::new(&[name.as_bytes(), &self.suffix].concat())
            .map_err(|error| io::Error::other(format!("with its backup suffix, {error}")))
    }

    /// Gives the backup of `name` its name with `publish`. It gets the suffix again while another
    /// entry of the job has that name.
    fn give_name<T>(
        &self,
        taken: &TakenNames,
        name: &Name,
        publish: impl FnOnce(&Name) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut taken = taken.lock();
        let mut new = self.name_for(name)?;
        let mut is_after_backup = self.has_suffix(name);
        while taken.contains(&new) {
            (new, is_after_backup) = (self.name_for(&new)?, true);
        }
        let published = publish(&new)?;
        if is_after_backup {
            taken.insert(new);
        }
        Ok(published)
    }

    /// True if `name` ends as backups beside their originals do. A peer may have sent no suffix.
    fn has_suffix(&self, name: &Name) -> bool {
        let is_beside = self.in_same_dir && !self.suffix.is_empty();
        is_beside && name.as_bytes().ends_with(&self.suffix)
    }

    /// The directory for the backups of entries in `node`. A missing one is created like `node` if
    /// `creates`.
    fn dir_for(&self, node: &Arc<DirNode>, creates: bool) -> io::Result<Option<Arc<DirNode>>> {
        let Some(root) = &self.root else { return Ok(self.in_same_dir.then(|| Arc::clone(node))) };
        let mut last = self.last.lock();
        if let Some((of, dir)) = &*last
            && Arc::ptr_eq(of, node)
        {
            return Ok(Some(Arc::clone(dir)));
        }
        let mut ancestors = Vec::new();
        let mut here = node;
        while let Some((above, name)) = here.place() {
            ancestors.push((name, here));
            here = above;
        }
        let mut dir = Arc::clone(root);
        for (name, template) in ancestors.into_iter().rev() {
            dir = match DirNode::open(&dir, name.clone(), false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && creates => {
                    create_dir_like(&dir, name, template)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
        }
        if dir.id().is_some() && dir.id() == here.id() && !Arc::ptr_eq(&dir, root) {
            return Err(io::Error::other("it would be in the destination, not beside it"));
        }
        *last = Some((Arc::clone(node), Arc::clone(&dir)));
        Ok(Some(dir))
    }
}

/// Creates the directory `name` of `above` with the permissions of `template`, and with its owner
/// if possible.
fn create_dir_like(
    above: &Arc<DirNode>,
    name: &Name,
    template: &Arc<DirNode>,
) -> io::Result<Arc<DirNode>> {
    /// The owner's permissions that backups in it require.
    const USABLE: u32 = 0o700;
    let created = above.handle()?.make_dir(name, PRIVATE_DIR_MODE, None);
    let dir = DirNode::open(above, name.clone(), false)?;
    if created.is_ok() {
        let mut attributes = template.meta().attributes.clone();
        attributes.mode |= USABLE;
        attributes.extended = template.handle()?.extended(None, Kept::ACL)?;
        let owner = Kept::OWNER.only_if(dir.handle()?.capabilities().acts_as_root);
        let acl = Kept::ACL.only_if(attributes.extended.is_some());
        let kept = Kept::MODE.with(Kept::SET_ID).with(owner).with(acl);
        dir.handle()?.set_attributes(&attributes, kept)?;
    }
    Ok(dir)
}

/// The fault of an entry that could not be backed up.
pub(crate) fn not_backed_up(error: io::Error) -> Fault {
    Fault::from_io(Side::Destination, "back it up", &error)
}

/// Makes the backups of a job.
pub(crate) struct Backups<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    pub(crate) owners: Arc<Owners<'a>>,
    pub(crate) chunks: Option<Arc<Chunks>>,
    /// `None` if nothing is backed up.
    pub(crate) location: Option<BackupLocation>,
    /// See [`Self::keep_older`].
    damaged: Mutex<HashSet<FileId>>,
}

impl<'a> Backups<'a> {
    pub(crate) fn of(
        owners: &Arc<Owners<'a>>,
        chunks: Option<Arc<Chunks>>,
        location: Option<BackupLocation>,
    ) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&owners.job), Arc::clone(owners));
        Arc::new(Self { job, owners, chunks, location, damaged: Mutex::default() })
    }
}

impl Backups<'_> {
    /// Records that the entry `name` of `dir` was listed: no backup beside its original replaces
    /// it.
    pub(crate) fn record_listed(&self, dir: &RecvDir, name: &Name) {
        if self.location.as_ref().is_some_and(|location| location.has_suffix(name)) {
            dir.taken.lock().insert(name.clone());
            // A backup may have replaced the entry since.
            drop(dir.prefetched(name));
        }
    }

    /// Backs up the entry `name` of `dir`, which is no directory and will be replaced or removed.
    /// The backup is a hard link if possible. A dry run only checks that it could be made.
    ///
    /// # Errors
    /// If the backup can't be made: the entry must stay then.
    pub(crate) fn back_up(&self, dir: BackedUpDir<'_>, name: &Name) -> io::Result<()> {
        self.back_up_by(dir, name, true)
    }

    /// Like [`Self::back_up`], for an extra that is removed. An extra that is itself a backup gets
    /// none.
    ///
    /// # Errors
    /// As for [`Self::back_up`].
    pub(crate) fn back_up_extra(&self, dir: BackedUpDir<'_>, name: &Name) -> io::Result<()> {
        match self.location.as_ref().is_some_and(|location| location.is_backup_name(dir.0, name)) {
            true => Ok(()),
            false => self.back_up(dir, name),
        }
    }

    /// True if removing the extra `name` leaves a backup in the same directory.
    pub(crate) fn leaves_backup_in_dir(&self, node: &DirNode, name: &Name) -> bool {
        let location = self.location.as_ref();
        location
            .is_some_and(|location| location.in_same_dir && !location.is_backup_name(node, name))
    }

    /// Like [`Self::back_up`], for a file that will be updated in place: the backup is a copy.
    ///
    /// # Errors
    /// As for [`Self::back_up`].
    pub(crate) fn back_up_as_copy(&self, dir: BackedUpDir<'_>, name: &Name) -> io::Result<()> {
        self.back_up_by(dir, name, false)
    }

    fn back_up_by(
        &self,
        (node, taken): BackedUpDir<'_>,
        name: &Name,
        links: bool,
    ) -> io::Result<()> {
        let Some(location) = &self.location else {
            self.chunks.iter().for_each(|chunks| chunks.save_content(node, name));
            return Ok(());
        };
        let is_dry = self.job.plan.dry_run;
        let new = location.name_for(name)?;
        let Some(into) = location.dir_for(node, !is_dry)? else { return Ok(()) };
        let (from, to) = (node.handle()?, into.handle()?);
        let is_same_object = |there: Option<FileId>, id| there.is_some() && there == id;
        let Some(meta) = from.stat(name, false)? else { return Ok(()) };
        if meta.kind == MetaKind::Symlink
            && self.job.is_unsafe(node.depth(), &from.read_link(name)?)
        {
            return Ok(());
        }
        if is_same_object(into.id(), node.id()) && new == *name {
            return Err(io::Error::other("its backup would have the same name"));
        }
        if meta.id.is_some_and(|id| self.damaged.lock().contains(&id))
            && to.stat(&new, false)?.is_some()
        {
            return Ok(());
        }
        // As with rsync, a backup replaces a directory, but only an empty one. Beside the original
        // it does not: the source may have that directory.
        let replaces_empty_dir = !location.in_same_dir && self.job.ends.backups_replace_dirs;
        if (replaces_empty_dir || is_dry)
            && to.stat(&new, false)?.is_some_and(|there| there.kind == MetaKind::Dir)
        {
            match (replaces_empty_dir, is_dry) {
                (true, false) => to.remove_dir(&new)?,
                (true, true) if is_empty(&into, &new)? => {}
                (true, true) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
                (false, _) => return Err(io::ErrorKind::IsADirectory.into()),
            }
        }
        if is_dry {
            return Ok(());
        }
        let linked = match links {
            true => location.give_name(taken, name, |new| {
                to.make_hard_link(&*from, name, None, new, OnExisting::Replace)
            }),
            false => Err(io::ErrorKind::Unsupported.into()),
        };
        match linked {
            Ok(Publication::Published | Publication::Kept) => {}
            Err(error) if should_copy_instead(&error) => match meta.kind {
                MetaKind::File { .. } => {
                    // A file that only may not be linked could have kept everything, so its copy
                    // does.
                    let whole = error.kind() == io::ErrorKind::PermissionDenied;
                    let copied = self.copy_backup((&*from, name), meta, &*to, whole);
                    let mut copy = copied.map_err(io::Error::other)?;
                    location
                        .give_name(taken, name, |new| copy.publish(new, OnExisting::Replace))?;
                }
                _ => location.give_name(taken, name, |new| {
                    self.recreate(&*from, name, &meta, &*to, new, error)
                })?,
            },
            Err(error) => return Err(error),
        }
        if self.job.plan.sync {
            to.sync(None)?;
        }
        Ok(())
    }

    /// The backup directory. `None` if backups are beside their originals, which a rule protects.
    pub(crate) fn root(&self) -> Option<FileId> {
        self.location.as_ref()?.root.as_ref()?.id()
    }

    /// True if the object `id` is the backup directory.
    pub(crate) fn is_root(&self, id: Option<FileId>) -> bool {
        id.is_some() && id == self.root()
    }

    /// Records that the file `id` has lost content, or was only written in part: it replaces no
    /// older backup.
    pub(crate) fn keep_older(&self, id: Option<FileId>) {
        self.damaged.lock().extend(id.filter(|_| self.is_enabled()));
    }

    /// True if replaced and removed entries are backed up.
    pub(crate) fn is_enabled(&self) -> bool {
        self.location.is_some()
    }

    /// The attributes that a backup gets if it is another object than the original.
    fn kept_of_backups(&self, meta: &Meta) -> Kept {
        let keeps = self.job.plan.keeps.with(Kept::MODE).with(Kept::TIMES);
        if self.owners.acts_as_root() {
            return keeps;
        }
        // The copy of another user's file belongs to this user. It must not lend anybody's rights.
        let is_given = meta.attributes.group.is_some_and(haul_sys::is_in_group);
        let given = Kept::GROUP.only_if(keeps.has(Kept::GROUP) && is_given);
        keeps.without(Kept::OWNER).without(Kept::LENT).with(given)
    }

    /// Creates a link, FIFO, socket or device again, where it can't be hard-linked because of
    /// `error`.
    fn recreate(
        &self,
        from: &dyn TreeDir,
        name: &Name,
        meta: &Meta,
        to: &dyn TreeDir,
        new: &Name,
        error: io::Error,
    ) -> io::Result<()> {
        let keeps = self.kept_of_backups(meta);
        let (attributes, keeps) = self.extended_of_backup(from, name, meta, keeps, false)?;
        let target;
        let entry = match (meta.kind, meta.special) {
            (MetaKind::Symlink, _) => {
                target = from.read_link(name)?;
                NewEntry::Symlink(&target)
            }
            (_, Some(special)) => NewEntry::Special(special),
            (_, None) => return Err(error),
        };
        to.make_entry(entry, new, &attributes, keeps, OnExisting::Replace).map(drop)
    }

    /// The attributes of `name` for its backup, and which of them to set. `whole`: with all
    /// extended attributes.
    fn extended_of_backup(
        &self,
        from: &dyn TreeDir,
        name: &Name,
        meta: &Meta,
        keeps: Kept,
        whole: bool,
    ) -> io::Result<(Attributes, Kept)> {
        // An access list defines the rights of the group: the mode alone would give more.
        let which = keeps.and(Kept::EXTENDED).with(Kept::ACL);
        let which = if whole { Kept::EXTENDED } else { which };
        let mut extended = from.extended(Some((name, false)), which)?;
        if let Some(extended) = &mut extended {
            self.owners.drop_root_xattrs(extended);
        }
        let keeps = keeps.with(which.only_if(extended.is_some()));
        Ok((Attributes { extended, ..meta.attributes.clone() }, keeps))
    }

    /// Copies a file that can't be linked. `whole`: with its extended attributes, even if the job
    /// does not keep them.
    fn copy_backup(
        &self,
        (from, name): (&dyn TreeDir, &Name),
        meta: Meta,
        to: &dyn TreeDir,
        whole: bool,
    ) -> Result<Box<dyn SealedFile>, Fault> {
        let keeps = self.kept_of_backups(&meta);
        let (attributes, keeps) =
            self.extended_of_backup(from, name, &meta, keeps, whole).map_err(not_backed_up)?;
        let source = from.open_file(name, false).map_err(not_backed_up)?;
        let mut into = Mover::new(to.stage().map_err(not_backed_up)?);
        let scratch = &mut copy::Scratch::default();
        let copied = copy::content(&*source, &mut into, scratch, self.job.control, &mut |_| {});
        if let Err(fault) = copied {
            into.into_stage().discard();
            return Err(Fault { side: Side::Destination, ..fault });
        }
        let moved = into.finish().map_err(not_backed_up)?;
        let verified = moved.verify_len(source.seal().size).map_err(|(stage, _)| {
            stage.discard();
            not_backed_up(io::Error::other("it changed while it was copied"))
        })?;
        let sealed = verified.seal(&attributes, keeps).map_err(not_backed_up)?;
        if self.job.plan.sync {
            sealed.sync().map_err(not_backed_up)?;
        }
        Ok(sealed)
    }
}

/// True if a hard link is impossible, but a copy may succeed.
fn should_copy_instead(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}
