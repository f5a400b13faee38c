//! Backups: what a mirror replaces or removes gets another name, and has both until the
//! first is replaced in its turn.

use super::deciding::is_empty;
use super::{Chunks, JobContext, Owners};
use crate::copy;
use crate::dirs::{DirNode, OpenDirs};
use haul_model::{Attributes, Backup, Fault, FileId, Kept, Name, Side};
use haul_store::{Moved, Mover, OnExisting, Publication};
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE, TreeDir};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// Where backups go.
pub(super) struct Backing {
    /// The directory that mirrors the destination; without one they are beside what
    /// they are of.
    root: Option<Arc<DirNode>>,
    /// They are beside what they are of: there is no such directory, also none that this dry
    /// run does not make.
    is_beside: bool,
    /// The end of their names.
    suffix: Vec<u8>,
    /// The directory that was needed last, and the one for its backups.
    last: Mutex<Option<(Arc<DirNode>, Arc<DirNode>)>>,
}

impl Backing {
    /// The backups of a job, if it makes any: below `root`, or beside what they are of.
    ///
    /// # Errors
    /// Those of looking at `root`.
    pub(super) fn of(
        backup: Option<&Backup>,
        root: Option<Arc<dyn TreeDir>>,
    ) -> io::Result<Option<Self>> {
        let Some(Backup { suffix, dir }) = backup else { return Ok(None) };
        let is_beside = dir.is_none();
        let open = Arc::new(OpenDirs::default());
        let root = root.map(|root| DirNode::root(root, None, &open)).transpose()?;
        Ok(Some(Self { root, is_beside, suffix: suffix.clone(), last: Mutex::default() }))
    }

    /// True if that object is the directory of the backups. Those that are beside what they are
    /// of are kept by a rule.
    pub(super) fn is_root(&self, meta: &Meta) -> bool {
        self.root.as_ref().is_some_and(|root| meta.id.is_some() && meta.id == root.id())
    }

    /// True if `name` in `node` is that of a backup beside what it is of. As with rsync it may
    /// be the suffix alone, but not in the destination itself.
    fn is_named(&self, node: &DirNode, name: &Name) -> bool {
        let name = name.as_bytes();
        let is_more = name.len() > self.suffix.len() || node.place().is_some();
        self.is_beside && is_more && name.ends_with(&self.suffix)
    }

    /// The directory for the backups of what is in `node`. One that is missing is made like
    /// that if `makes`.
    fn dir_for(&self, node: &Arc<DirNode>, makes: bool) -> io::Result<Option<Arc<DirNode>>> {
        let Some(root) = &self.root else { return Ok(self.is_beside.then(|| Arc::clone(node))) };
        let mut last = self.last.lock();
        if let Some((of, dir)) = &*last
            && Arc::ptr_eq(of, node)
        {
            return Ok(Some(Arc::clone(dir)));
        }
        let mut way = Vec::new();
        let mut here = node;
        while let Some((above, name)) = here.place() {
            way.push((name, here));
            here = above;
        }
        let mut dir = Arc::clone(root);
        for (name, like) in way.into_iter().rev() {
            dir = match DirNode::open(&dir, name.clone(), false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && makes => {
                    make(&dir, name, like)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
        }
        *last = Some((Arc::clone(node), Arc::clone(&dir)));
        Ok(Some(dir))
    }
}

/// Makes the directory `name` of `above` with the rights that `like` gives, and with its owner
/// where that can be done.
fn make(above: &Arc<DirNode>, name: &Name, like: &Arc<DirNode>) -> io::Result<Arc<DirNode>> {
    /// The rights of the owner that it takes to make backups in it.
    const USABLE: u32 = 0o700;
    let made = above.handle()?.make_dir(name, PRIVATE_DIR_MODE);
    let dir = DirNode::open(above, name.clone(), false)?;
    if made.is_ok() {
        let mut attributes = like.meta().attributes.clone();
        attributes.mode |= USABLE;
        attributes.extended = like.handle()?.extended(None, Kept::ACL)?;
        let owner = Kept::OWNER.only_if(dir.handle()?.capabilities().acts_as_root);
        let acl = Kept::ACL.only_if(attributes.extended.is_some());
        let kept = Kept::MODE.with(Kept::SET_ID).with(owner).with(acl);
        dir.handle()?.set_attributes(&attributes, kept)?;
    }
    Ok(dir)
}

/// The fault of an entry that has to have a backup, and can't.
pub(super) fn not_backed_up(error: io::Error) -> Fault {
    Fault::from_io(Side::Destination, "back it up", &error)
}

/// The backups of a job.
pub(super) struct Backups<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) owners: Arc<Owners<'a>>,
    pub(super) chunks: Option<Arc<Chunks>>,
    /// `None` where nothing is backed up.
    pub(super) backing: Option<Backing>,
}

impl<'a> Backups<'a> {
    pub(super) fn of(
        owners: &Arc<Owners<'a>>,
        chunks: Option<Arc<Chunks>>,
        backing: Option<Backing>,
    ) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&owners.job), Arc::clone(owners));
        Arc::new(Self { job, owners, chunks, backing })
    }
}

impl Backups<'_> {
    /// Gives the entry `name` of `node`, which is no directory and will be replaced or
    /// removed, the name of its backup, too, if there are to be backups. A dry run looks only
    /// if it could.
    ///
    /// # Errors
    /// Why it has none: it must stay then.
    pub(super) fn back_up(&self, node: &Arc<DirNode>, name: &Name) -> io::Result<()> {
        self.back_up_by(node, name, true)
    }

    /// The same of what only the destination has, and is removed: of a backup none is made.
    ///
    /// # Errors
    /// As above.
    pub(super) fn back_up_extra(&self, node: &Arc<DirNode>, name: &Name) -> io::Result<()> {
        match self.backing.as_ref().is_some_and(|backing| backing.is_named(node, name)) {
            true => Ok(()),
            false => self.back_up(node, name),
        }
    }

    /// True if what only the destination has leaves a backup beside it when it is removed.
    pub(super) fn leaves_backup_beside(&self, node: &DirNode, name: &Name) -> bool {
        let backing = self.backing.as_ref();
        backing.is_some_and(|backing| backing.is_beside && !backing.is_named(node, name))
    }

    /// The same of a file that will be written into: its backup is a copy.
    ///
    /// # Errors
    /// As above.
    pub(super) fn back_up_apart(&self, node: &Arc<DirNode>, name: &Name) -> io::Result<()> {
        self.back_up_by(node, name, false)
    }

    fn back_up_by(&self, node: &Arc<DirNode>, name: &Name, links: bool) -> io::Result<()> {
        let Some(backing) = &self.backing else {
            self.chunks.iter().for_each(|chunks| chunks.keep_lost(node, name));
            return Ok(());
        };
        let is_dry = self.job.policy.dry_run;
        let new = [name.as_bytes(), &backing.suffix].concat();
        let new = Name::new(&new)
            .map_err(|error| io::Error::other(format!("with its backup suffix, {error}")))?;
        let Some(into) = backing.dir_for(node, !is_dry)? else { return Ok(()) };
        let (from, to) = (node.handle()?, into.handle()?);
        let is_itself = |there: Option<FileId>, id| there.is_some() && there == id;
        let Some(meta) = from.stat(name, false)? else { return Ok(()) };
        if meta.kind == MetaKind::Symlink
            && self.job.is_unsafe(node.depth(), &from.read_link(name)?)
        {
            return Ok(());
        }
        if is_itself(into.id(), node.id()) && new == *name {
            return Err(io::Error::other("its backup would have the same name"));
        }
        // As with rsync, a directory makes way for a backup; but only an empty one.
        // Beside what it is of, the source may have that directory.
        let makes_way = !backing.is_beside && !self.job.costs_round_trips;
        if (makes_way || is_dry)
            && to.stat(&new, false)?.is_some_and(|there| there.kind == MetaKind::Dir)
        {
            match (makes_way, is_dry) {
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
            true => to.make_hard_link(&*from, name, None, &new, OnExisting::Replace),
            false => Err(io::ErrorKind::Unsupported.into()),
        };
        match linked {
            Ok(Publication::Published | Publication::Kept) => {}
            Err(error) if is_refused(&error) => match meta.kind {
                MetaKind::File { .. } => {
                    // What only may not be linked could stay where it is with all that it has.
                    let whole = error.kind() == io::ErrorKind::PermissionDenied;
                    let copied = self.copy_backup((&*from, name), meta, (&*to, &new), whole);
                    copied.map_err(io::Error::other)?;
                }
                _ => self.remake(&*from, name, &meta, &*to, &new, error)?,
            },
            Err(error) => return Err(error),
        }
        if self.job.policy.sync {
            to.sync(None)?;
        }
        Ok(())
    }

    /// True if what is replaced or removed is kept.
    pub(super) fn backs_up(&self) -> bool {
        self.backing.is_some()
    }

    /// The attributes that the backup of an entry has, where that is another object.
    fn kept_of_backups(&self, meta: &Meta) -> Kept {
        let keeps = self.job.policy.keeps.with(Kept::MODE).with(Kept::TIMES);
        if self.owners.acts_as_root() {
            return keeps;
        }
        // A file of another user, of which nobody else may make links, has become one of
        // this user: it lends no rights of anybody.
        let is_given = meta.attributes.group.is_some_and(haul_sys::is_of_group);
        let given = Kept::GROUP.only_if(keeps.has(Kept::GROUP) && is_given);
        keeps.without(Kept::OWNER).without(Kept::LENT).with(given)
    }

    /// Makes a link, FIFO, socket or device once more where it can't be linked, which has
    /// failed by `error`.
    fn remake(
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
        match (meta.kind, meta.special) {
            (MetaKind::Symlink, _) => {
                let target = from.read_link(name)?;
                to.make_symlink(&target, new, &attributes, keeps, OnExisting::Replace)?;
            }
            (_, Some(special)) => {
                to.make_special(special, new, &attributes, keeps, OnExisting::Replace)?;
            }
            (_, None) => return Err(error),
        }
        Ok(())
    }

    /// The attributes of `name`, with the extended ones that its backup gets, or all of them,
    /// and those that are given.
    fn extended_of_backup(
        &self,
        from: &dyn TreeDir,
        name: &Name,
        meta: &Meta,
        keeps: Kept,
        whole: bool,
    ) -> io::Result<(Attributes, Kept)> {
        // With an access list it is that which says what the group may: the mode alone would
        // give it more.
        let which = keeps.and(Kept::EXTENDED).with(Kept::ACL);
        let which = if whole { Kept::EXTENDED } else { which };
        let mut extended = from.extended(Some((name, false)), which)?;
        if let Some(extended) = &mut extended {
            self.owners.leave_to_root(extended);
        }
        let keeps = keeps.with(which.only_if(extended.is_some()));
        Ok((Attributes { extended, ..meta.attributes.clone() }, keeps))
    }

    /// Copies a file to where it can't be linked; `whole` is with its extended attributes, also
    /// if the job does not keep those.
    fn copy_backup(
        &self,
        (from, name): (&dyn TreeDir, &Name),
        meta: Meta,
        (to, new): (&dyn TreeDir, &Name),
        whole: bool,
    ) -> Result<(), Fault> {
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
        let moved: Moved<_> = into.finish().map_err(not_backed_up)?;
        let verified = moved.is_whole(source.seal().size).map_err(|(stage, _)| {
            stage.discard();
            not_backed_up(io::Error::other("it changed while it was copied"))
        })?;
        let mut sealed = verified.seal(&attributes, keeps).map_err(not_backed_up)?;
        if self.job.policy.sync {
            sealed.sync().map_err(not_backed_up)?;
        }
        sealed.publish(new, OnExisting::Replace).map_err(not_backed_up)?;
        Ok(())
    }
}

/// True if a hard link is what can't be had, and a copy may be.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}
