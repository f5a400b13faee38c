//! The destination that the user named: a directory to copy into, or the new name of the only
//! source. Finds it, opens it, and creates missing directories.

use super::DestLineage;
use crate::cache::ChunkCache;
use crate::job::Reach;
use crate::link::SenderPort;
use crate::{Job, JobError, Monitor, origin, rules};
use haul_model::{
    Fault, FaultKind, FileId, Kept, Mirror, Name, Naming, OrFault, Scope, Side, Task, escape_bytes,
    is_missing, words,
};
use haul_proto::Named;
use haul_sys::Dir;
use haul_tree::{MetaKind, Tree, TreeDir};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// A destination that was found and opened.
pub(crate) struct Destination {
    /// The path, as the user wrote it.
    pub(crate) path: Vec<u8>,
    /// The directory in which the job works.
    pub(crate) root: Arc<dyn TreeDir>,
    /// The name that the only source gets; `None` if sources keep theirs.
    pub(crate) rename: Option<Name>,
    /// A dry run: the destination would be created, and `root` is its nearest existing parent.
    pub(crate) absent: bool,
    /// The number of directories that this job created, or would create, for it.
    pub(crate) dirs_created: usize,
    /// The directories that were created for it, outermost first.
    pub(crate) made: CreatedDirs,
    /// It exists, and an earlier job may have given its name to the only source. Without a final
    /// slash, the path does not tell.
    pub(crate) may_be_source: bool,
    /// This tree, or that of the sources, keeps times in whole seconds.
    pub(crate) whole_seconds: bool,
    /// The sources show only the attributes that a copy keeps, and no extended ones. In a move, the
    /// others get default values.
    pub(crate) has_basic_attributes: bool,
    /// The sources and the Sender are on this machine.
    pub(crate) sources_are_local: bool,
    /// Directories that hold a source, or are one, as far as known: none is an extra.
    pub(crate) source_lineage: HashSet<FileId>,
    /// The other directories of this machine that the job uses.
    pub(crate) others: OtherDirs,
    /// Directories that no source of a peer may be.
    pub(crate) dest_lineage: DestLineage,
    /// The rules in files above it, where something may be removed.
    pub(crate) scope: Scope,
}

/// Directories that a job uses besides its destination.
#[derive(Default)]
pub(crate) struct OtherDirs {
    /// The base directories of a mirror.
    pub(crate) bases: Vec<Arc<dyn TreeDir>>,
    /// Base directories that could not be opened, and why.
    pub(crate) missing_bases: Vec<(Vec<u8>, io::Error)>,
    /// The backup directory, if there is one.
    pub(crate) backups: Option<Arc<dyn TreeDir>>,
    /// The directory of staged files, if they are not staged beside their final names.
    pub(crate) staging: Option<Arc<Dir>>,
    /// The chunk cache, if the job may use it.
    pub(crate) cache: Option<ChunkCache>,
}

/// The directories that a job created on the way to its destination.
#[derive(Clone, Default)]
pub(crate) struct CreatedDirs(Vec<(Arc<dyn TreeDir>, Name)>);

impl CreatedDirs {
    /// Removes the directories that are still empty: there was no source.
    pub(crate) fn remove_created(self) {
        let removed = self.0.into_iter().rev().map(|(above, name)| above.remove_dir(&name));
        // A directory that stays keeps its parents.
        let _ = removed.collect::<io::Result<()>>();
    }
}

impl Destination {
    /// Finds the destination of `job` in `tree`. A missing one with a final slash is created, with
    /// its parents, unless the job changes nothing. With `sync` the way to it is durable
    /// afterwards.
    ///
    /// # Errors
    /// [`JobError::Usage`] or [`JobError::Destination`].
    pub(crate) fn find(tree: &dyn Tree, job: &Job) -> Result<Self, JobError> {
        let path = &*job.dest.path;
        let dry_run = job.task.keeps_destination();
        // If nothing exists, nothing must be removed: another job creates it, and reports it.
        let removes = job.task.mirrors().is_some_and(|mirror| mirror.part.only_removes());
        let mut destination = Self::find_or_create(tree, job, dry_run || removes)?;
        if job.dest.naming == Some(Naming::Given) && destination.may_be_source {
            destination.treat_as_rename(tree, path)?;
        }
        if let Some(origin) = job.dest.origin.as_ref().filter(|_| job.dest.naming.is_none()) {
            destination.find_origin(tree, job, origin)?;
        }
        destination.whole_seconds = tree.capabilities().keeps_whole_seconds;
        let removes = |mirror: &Mirror| mirror.delete.is_some() || mirror.replaces_dirs;
        if job.task.mirrors().is_some_and(removes) {
            let begun = rules::begin(&job.filter, tree, path, true);
            destination.scope =
                begun.map_err(|unruly| unusable(path, unruly.fault(Side::Destination)))?;
        }
        destination.open_bases(tree, job);
        destination.open_backups(tree, job, dry_run || destination.absent)?;
        destination.open_staging(tree, job)?;
        if job.task.copies().is_some_and(|policy| policy.sync) && !dry_run {
            destination
                .sync_ancestors()
                .or_fault(Side::Destination, "flush the directories above it")
                .map_err(|fault| unusable(path, fault))?;
        }
        Ok(destination)
    }

    /// Reports to both sides which names entries get.
    pub(super) fn report_naming(&self, job: &Job, monitor: &dyn Monitor, sender: &dyn SenderPort) {
        let named = self.named(job);
        monitor.progress().set_naming(named.naming);
        sender.naming(named);
    }

    /// The naming of entries, for the Sender. If a job that only removes lacks a directory, another
    /// job creates and reports it.
    fn named(&self, job: &Job) -> Named {
        let naming = if self.rename.is_some() { Naming::Given } else { Naming::Own };
        let only_removes = job.task.mirrors().is_some_and(|mirror| mirror.part.only_removes());
        Named { naming, dirs_created: if only_removes { 0 } else { self.dirs_created as u64 } }
    }

    /// The destination in the directory `root`, which the user called `path`.
    fn of(path: &[u8], root: Arc<dyn TreeDir>) -> Self {
        Self {
            path: path.to_vec(),
            root,
            rename: None,
            absent: false,
            dirs_created: 0,
            made: CreatedDirs::default(),
            may_be_source: false,
            whole_seconds: false,
            has_basic_attributes: false,
            sources_are_local: false,
            source_lineage: HashSet::new(),
            others: OtherDirs::default(),
            dest_lineage: DestLineage::default(),
            scope: Scope::default(),
        }
    }

    /// Handles `job.dest.origin`: an existing directory is the new name if a job with this origin
    /// created it. A directory that will be created is recorded, where that is needed.
    fn find_origin(
        &mut self,
        tree: &dyn Tree,
        job: &Job,
        origin: &[u8; 16],
    ) -> Result<(), JobError> {
        let state = job.state.as_deref();
        if self.may_be_source && origin::has_origin(state, &*self.root, origin) {
            self.treat_as_rename(tree, &job.dest.path)?;
        }
        if let Some(name) = &self.rename
            && job.sources.recursive
            && !job.task.keeps_destination()
        {
            origin::record_origin(state, &*self.root, name, origin);
        }
        Ok(())
    }

    /// Makes the directory the new name of the only source, given by an earlier job.
    fn treat_as_rename(&mut self, tree: &dyn Tree, path: &[u8]) -> Result<(), JobError> {
        let split = words::split(path);
        let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(()) };
        self.root = tree.open(split.parent).map_err(|error| JobError::unusable(path, &error))?;
        self.rename = Some(name);
        self.may_be_source = false;
        Ok(())
    }

    fn find_or_create(tree: &dyn Tree, job: &Job, dry_run: bool) -> Result<Self, JobError> {
        let (path, into_dir) = (&*job.dest.path, job.dest.into_dir);
        let open_fault = |part: &[u8], error| cant_open(tree, path, part, error);
        let split = words::split(path);
        match tree.open(split.whole) {
            Ok(root) => {
                let may_be_source = !into_dir && !split.slash && split.name.is_some();
                return Ok(Self { may_be_source, ..Self::of(path, root) });
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && !split.slash => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A link that leads to no directory is replaced, whoever made it.
            Err(error)
                if FaultKind::of(&error) == FaultKind::ForeignLink
                    && !split.slash
                    && resolves_to_non_dir(tree, path) => {}
            Err(error) => return Err(open_fault(split.whole, error)),
        }
        let Some(name) = split.name else {
            return Err(open_fault(split.whole, not_found()));
        };
        let creates_parents = job.task.mirrors().map(|mirror| mirror.creates_parents);
        if split.slash {
            let with_parents = creates_parents.unwrap_or(true);
            return Self::create(tree, path, with_parents, dry_run);
        }
        let name = name_in(path, name)?;
        if into_dir {
            return Err(JobError::needs_directory(path));
        }
        let above = match tree.open(split.parent) {
            Err(error)
                if creates_parents == Some(true) && error.kind() == io::ErrorKind::NotFound =>
            {
                Self::create(tree, split.parent, true, dry_run)?
            }
            parent => Self::of(path, parent.map_err(|error| open_fault(split.parent, error))?),
        };
        Ok(Self { path: path.to_vec(), rename: Some(name), ..above })
    }

    /// Creates the directory at `path`, with its missing parents if `with_parents`. In a dry run
    /// the nearest existing directory stands for it.
    fn create(
        tree: &dyn Tree,
        path: &[u8],
        with_parents: bool,
        dry_run: bool,
    ) -> Result<Self, JobError> {
        let open_fault = |part: &[u8], error| cant_open(tree, path, part, error);
        let (mut missing, mut rest) = (Vec::new(), path);
        let mut dir = loop {
            let split = words::split(rest);
            let Some(name) = split.name else {
                return Err(open_fault(split.whole, not_found()));
            };
            missing.push((name_in(path, name)?, split.whole));
            match tree.open(split.parent) {
                Ok(dir) => break dir,
                Err(error)
                    if with_parents
                        && error.kind() == io::ErrorKind::NotFound
                        && missing.len() < ANCESTORS_MAX =>
                {
                    rest = split.parent;
                }
                Err(error) => return Err(open_fault(split.parent, error)),
            }
        };
        if dry_run {
            return Ok(Self { absent: true, dirs_created: missing.len(), ..Self::of(path, dir) });
        }
        let (mut made, dirs_created) = (CreatedDirs::default(), missing.len());
        for (name, part) in missing.into_iter().rev() {
            let below = create(&*dir, &name);
            let below = below.map_err(|error| unusable(path, create_fault(path, part, &error)))?;
            made.0.push((std::mem::replace(&mut dir, below), name));
        }
        Ok(Self { dirs_created, made, ..Self::of(path, dir) })
    }

    /// Flushes the names on the way to the root, on its file system. Otherwise a directory that was
    /// created a moment ago could be lost with all its content. Stops at a directory that can't be
    /// opened, and at another file system. Does nothing if the file system is flushed as a whole at
    /// the job's end.
    fn sync_ancestors(&self) -> io::Result<()> {
        let Ok(root) = self.root.local_dir() else { return Ok(()) };
        if self.root.supports_sync_all() {
            return Ok(());
        }
        let mut below = root.stat_self()?.id;
        let mut dir = root.open_parent();
        for _ in 0..ANCESTORS_MAX {
            let Ok(above) = dir else { break };
            let id = above.stat_self()?.id;
            if id == below || id.dev != below.dev {
                break;
            }
            above.sync()?;
            below = id;
            dir = above.open_parent();
        }
        Ok(())
    }

    /// Opens the base directories of a mirror. Those that can't be opened are recorded.
    fn open_bases(&mut self, tree: &dyn Tree, job: &Job) {
        for base in &job.dest.bases {
            let path = self.path_from_destination(tree, job, base);
            match tree.open(&path) {
                Ok(dir) => self.others.bases.push(dir),
                Err(error) => self.others.missing_bases.push((path, error)),
            }
        }
    }

    /// The path of a directory besides the destination. A relative one starts in the destination,
    /// even if that is missing: then none of the missing names is a link.
    fn path_from_destination(&self, tree: &dyn Tree, job: &Job, mut path: &[u8]) -> Vec<u8> {
        let split = words::split(&job.dest.path);
        let mut start = if self.rename.is_some() { split.parent } else { &*job.dest.path };
        while self.absent
            && let Some(rest) = path.strip_prefix(b"../")
            && tree.open(start).is_err()
        {
            (start, path) = (words::split(start).parent, rest);
        }
        if path.starts_with(b"/") { path.to_vec() } else { words::join(start, path) }
    }

    /// Opens the backup directory of a mirror. Creates it, except in a dry run.
    fn open_backups(&mut self, tree: &dyn Tree, job: &Job, dry_run: bool) -> Result<(), JobError> {
        let Some(dir) = job.dest.backup.as_ref().and_then(|backup| backup.dir.as_ref()) else {
            return Ok(());
        };
        let path = [&*self.path_from_destination(tree, job, dir), b"/"].concat();
        self.others.backups = match tree.open(&path) {
            Ok(dir) => Some(dir),
            Err(error) if FaultKind::of(&error) == FaultKind::ForeignLink => {
                return Err(cant_open(tree, &path, words::split(&path).whole, error));
            }
            Err(_) if dry_run => None,
            Err(_) => Some(Self::create(tree, &path, true, dry_run)?.root),
        };
        Ok(())
    }

    /// Opens the directory of staged files.
    fn open_staging(&mut self, tree: &dyn Tree, job: &Job) -> Result<(), JobError> {
        let Some(staging) = &job.dest.staging else { return Ok(()) };
        let path = self.path_from_destination(tree, job, staging);
        let opened = tree.open(&path).and_then(|dir| dir.local_dir());
        let opened = opened.map_err(|error| match FaultKind::of(&error) {
            FaultKind::ForeignLink => cant_open(tree, &path, words::split(&path).whole, error),
            _ => {
                let why = Fault::from_io(Side::Destination, "open the directory", &error).message;
                let path = escape_bytes(&path);
                JobError::Usage(format!("{path}: can't create temporary files there: {why}"))
            }
        })?;
        self.others.staging = Some(Arc::new(opened));
        Ok(())
    }

    /// Handles of the directories in which the Receiver works.
    ///
    /// # Errors
    /// If one can't be opened.
    pub(crate) fn handles(&self) -> io::Result<Reach> {
        let OtherDirs { bases, backups, staging, cache, .. } = &self.others;
        let dirs = [&self.root].into_iter().chain(backups).chain(bases);
        let handles = dirs.map(|dir| dir.local_dir());
        let others = staging.iter().map(|dir| dir.try_clone());
        let below = handles.chain(others).chain(cache.iter().map(ChunkCache::dir));
        let root = cache.as_ref().map(|_| self.root.local_dir()).transpose()?;
        let reads = cache.iter().zip(&root).flat_map(|(it, root)| it.destinations(root));
        let reads = reads.collect();
        Ok(Reach { below: below.collect::<io::Result<_>>()?, reads })
    }

    /// The attributes that entries of `task` can have here.
    pub(crate) fn supported_attributes(&self, task: &Task) -> Kept {
        let keeps = self.root.capabilities().keeps;
        let is_move = task.mirrors().is_none() && task.moving().is_some();
        match (self.has_basic_attributes, is_move) {
            (true, true) => keeps.and(Kept::OF_COPIES),
            // A source may have extended attributes that it does not show.
            (true, false) => keeps.without(Kept::EXTENDED),
            (false, _) => keeps,
        }
    }

    /// Prepares for a peer's listing: the peer may be on this machine.
    pub(crate) fn expect_peer(&mut self) {
        self.dest_lineage = DestLineage::of(&self.lineage());
    }

    /// The destination and all its parents: none of them can be copied into it. Empty if it is not
    /// on this machine.
    pub(crate) fn lineage(&self) -> Vec<FileId> {
        lineage(&*self.root)
    }

    /// Records that the sources of `job` are in this `tree`, too: directories that hold one are not
    /// removed.
    pub(crate) fn expect_sources(&mut self, tree: &dyn Tree, job: &Job) {
        self.sources_are_local = true;
        let removes = |mirror: &Mirror| mirror.delete.is_some() || mirror.replaces_dirs;
        if !job.task.mirrors().is_some_and(removes) {
            return;
        }
        for source in job.source_paths() {
            let split = words::split(&source);
            // A source that can't be opened is reported.
            let Ok(dir) = tree.open(&source).or_else(|_| tree.open(split.parent)) else { continue };
            self.source_lineage.extend(lineage(&*dir));
            let file = split.name.and_then(|name| Name::new(name).ok());
            let file =
                file.and_then(|name| tree.open(split.parent).ok()?.stat(&name, false).ok()?);
            self.source_lineage.extend(file.and_then(|file| file.id));
        }
    }
}

/// The error of a job whose destination `path` can't be used.
fn unusable(path: &[u8], fault: Fault) -> JobError {
    JobError::Destination { path: escape_bytes(path), fault }
}

/// The error of a job that can't open `part` of `path`.
fn cant_open(tree: &dyn Tree, path: &[u8], part: &[u8], error: io::Error) -> JobError {
    unusable(path, open_fault(tree, path, part, error))
}

/// The name `name` in `path`, if it is not too long.
fn name_in(path: &[u8], name: &[u8]) -> Result<Name, JobError> {
    Name::new(name).map_err(|error| {
        unusable(path, Fault::new(Side::Destination, FaultKind::TooLong, error.to_string()))
    })
}

/// A directory and all its parents; empty if it is not on this machine.
fn lineage(dir: &dyn TreeDir) -> Vec<FileId> {
    let mut lineage = Vec::new();
    let mut dir = dir.local_dir();
    while let Ok(here) = dir {
        let Ok(stat) = here.stat_self() else { break };
        if lineage.last() == Some(&stat.id) || lineage.len() >= ANCESTORS_MAX {
            break;
        }
        lineage.push(stat.id);
        dir = here.open_parent();
    }
    lineage
}

/// Maximum number of directories above a destination that are examined.
pub(super) const ANCESTORS_MAX: usize = haul_model::MAX_DEPTH * 2;

/// The error of a path that does not exist.
pub(super) fn not_found() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no such file or directory")
}

/// Creates the directory `name` in `dir`, waits for it, and opens it.
///
/// # Errors
/// If it can't be created or opened.
pub(super) fn create(dir: &dyn TreeDir, name: &Name) -> io::Result<Arc<dyn TreeDir>> {
    dir.make_dir(name, 0o777, None)?;
    let created = dir.open_dir(name, false)?;
    created.pending_creation().map_or(Ok(()), |wait| wait())?;
    Ok(created)
}

/// True if `path` leads to something that is no directory, or to nothing.
pub(super) fn resolves_to_non_dir(tree: &dyn Tree, path: &[u8]) -> bool {
    let split = words::split(path);
    let Some(Ok(name)) = split.name.map(Name::new) else { return false };
    let there = tree.open(split.parent).and_then(|dir| dir.stat(&name, true));
    there.is_ok_and(|there| there.is_none_or(|meta| meta.kind != MetaKind::Dir))
}

/// The fault of a directory that could not be created: `part` of the user's `path`.
pub(super) fn create_fault(path: &[u8], part: &[u8], error: &io::Error) -> Fault {
    let action = match part == words::split(path).whole {
        true => "create the directory".to_owned(),
        false => format!("create {} above it", escape_bytes(part)),
    };
    let mut fault = Fault::from_io(Side::Destination, &action, error);
    // The directory above exists, but accepts no entry.
    if fault.kind == FaultKind::NotFound {
        fault.kind = FaultKind::Io;
    }
    fault
}

/// The fault of `part` of the user's `path`, which could not be opened because of `error`. It names
/// the first directory on the way that can't be opened.
pub(super) fn open_fault(tree: &dyn Tree, path: &[u8], part: &[u8], error: io::Error) -> Fault {
    let (part, error) = first_missing(tree, part, error);
    let whole = words::split(path);
    let action = match part {
        part if part == whole.whole => "open the directory".to_owned(),
        part if part == whole.parent => "open the directory above it".to_owned(),
        part => format!("open {} above it", escape_bytes(part)),
    };
    Fault::from_io(Side::Destination, &action, &error)
}

/// The first directory on the way to `part`, or `part` itself, that does not exist, and its error.
/// A directory that may not be read can still be passed, so the search for an earlier one stops
/// there.
fn first_missing<'p>(
    tree: &dyn Tree,
    mut part: &'p [u8],
    mut error: io::Error,
) -> (&'p [u8], io::Error) {
    for _ in 0..ANCESTORS_MAX {
        let split = words::split(part);
        if split.name.is_none() || !is_missing(&error) {
            break;
        }
        match tree.open(split.parent) {
            Err(above) if is_missing(&above) => (part, error) = (split.parent, above),
            _ => break,
        }
    }
    (part, error)
}
