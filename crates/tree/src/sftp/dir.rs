//! A directory of a host, and the operations in it.

use super::attrs::{attrs_for, is_complete, meta_of, times_of};
use super::host::must_stay;
use super::known::{ExistingEntries, Known};
use super::pending_creation::PendingCreation;
use super::source::SftpSource;
use super::stage::SftpStage;
use super::{SftpHost, join};
use crate::{
    Capabilities, Meta, MetaKind, PRIVATE_DIR_MODE, PendingOperation, SourceFile, StagedFile,
    TreeDir, TreeEntry, in_whole_seconds,
};
use haul_model::{
    Attributes, BlockHash, Fault, FileId, KEPT_MODE, Kept, Name, NewEntry, ParentFailed, Timestamp,
    words,
};
use haul_sftp::{Attrs, DirEntry, Extension, FileType, OpenFlags, PendingAnswer, Stored};
use haul_store::{
    Earlier, OnExisting, Publication, RemotePart, SourceId, StaleStages, marker_name,
};
use haul_sys::FreeSpace;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Limit of the link targets of one directory that are read ahead, in bytes.
const TARGETS_LEN_MAX: usize = 16 << 20;

/// Memory of a target besides its content, in bytes.
const TARGET_OVERHEAD_LEN: usize = 64;

/// The mode of haul's own new files.
pub(super) const PRIVATE_FILE_MODE: u32 = 0o600;

/// Attempts to create a link whose temporary link another process removes.
const LINK_ATTEMPTS_MAX: u32 = 8;

/// New directories inherit this bit from their parent.
const SET_GROUP_ID: u32 = 0o2000;

/// A directory of a host, known by its path.
pub struct SftpDir {
    pub(super) host: Arc<SftpHost>,
    /// The path as the server resolved it. Below the root it has no links.
    pub(super) path: Vec<u8>,
    id: FileId,
    /// Its attributes, as far as a listing or the server has reported them.
    pub(super) attrs: Option<Attrs>,
    /// Set if this job has created it.
    pub(super) made: Option<Arc<PendingCreation>>,
    /// The mode bits that it has inherited, if the job created it.
    inherited: u32,
    pub(super) is_destination: bool,
    /// The job has neither created nor listed it, so it may have entries unrelated to the job.
    pub(super) has_foreign_entries: bool,
    /// See `TreeDir::expect_lookups`.
    pub(super) expects_lookups: AtomicBool,
    pub(super) known: Mutex<Known>,
    /// Set once its path has led to itself, without links.
    is_in_place: OnceLock<()>,
}

impl SftpDir {
    pub(super) fn new(
        host: &Arc<SftpHost>,
        path: Vec<u8>,
        attrs: Option<Attrs>,
        made: Option<(PendingAnswer, u32)>,
        is_destination: bool,
        has_foreign_entries: bool,
    ) -> Self {
        let id = host.id_of(&path);
        let (made, inherited) = made.unzip();
        let pending_creation = |pending_answer| PendingCreation::new(host, &path, pending_answer);
        let made = made.map(|pending_answer| Arc::new(pending_creation(pending_answer)));
        let known = Known {
            // It contains only entries that this job has created.
            existing: made
                .as_ref()
                .map(|_| Arc::new(ExistingEntries::All { entries: HashMap::new(), _share: None })),
            ..Known::default()
        };
        let host = Arc::clone(host);
        let known = Mutex::new(known);
        Self {
            host,
            path,
            id,
            attrs,
            made,
            inherited: inherited.unwrap_or(0),
            is_destination,
            has_foreign_entries,
            expects_lookups: AtomicBool::new(false),
            known,
            is_in_place: OnceLock::new(),
        }
    }

    /// The path of `name` in it.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path, name)
    }

    /// The targets of the entries at the indices `links`, as far as the server reports them and
    /// they fit the limit. For the others, a later request reports the error.
    fn targets(&self, entries: &[TreeEntry], links: &[usize]) -> Vec<(usize, Box<[u8]>)> {
        let path_of = |number: usize| self.path_of(entries[links[number]].name.as_bytes());
        let (mut found, mut len) = (Vec::new(), 0);
        self.host.client().read_links(links.len(), path_of, |number, target| {
            match target {
                Ok(target) => {
                    len += target.len() + TARGET_OVERHEAD_LEN;
                    found.push((links[number], target));
                }
                Err(error) => self.host.record_loss(&error),
            }
            len < TARGETS_LEN_MAX
        });
        found
    }

    /// The mode bits that do not come from a source.
    fn special_bits(&self) -> u32 {
        let told = self.attrs.and_then(|attrs| attrs.mode);
        told.map_or(self.inherited, |mode| mode & 0o7777 & !KEPT_MODE)
    }

    /// Waits until the directory exists, if it is being created.
    ///
    /// # Errors
    /// [`ParentFailed`]: the cause is reported for the directory itself.
    pub(super) fn ready(&self) -> io::Result<()> {
        let made = self.made.as_ref().map_or(Ok(()), |made| made.wait());
        made.map_err(|_| io::Error::other(ParentFailed))
    }

    /// The copy of `source` to `name`. `None` without a directory for journals.
    pub(super) fn part(&self, name: &Name, source: &SourceId) -> Option<RemotePart> {
        Some(self.host.records.as_ref()?.part(&self.host.place(&self.path), name, source))
    }

    /// The path for removing `name`. The server follows a link that has replaced a directory of the
    /// path, and names would be removed elsewhere. This is checked once for each directory.
    fn path_to_remove(&self, name: &Name) -> io::Result<Vec<u8>> {
        self.known.lock().removed.insert(name.clone());
        if self.is_in_place.get().is_none() {
            let real = self.host.io(self.host.client().real_path(&self.path))?;
            let (real, own) = (words::components(&real), words::components(&self.path));
            let is_same = real.clone().count() == own.clone().count()
                && real.zip(own).all(|(real, own)| words::may_be_same_name(real, own));
            if !is_same {
                return Err(io::Error::other("a link has replaced a directory of its path"));
            }
            let _ = self.is_in_place.set(());
        }
        Ok(self.path_of(name.as_bytes()))
    }

    fn remove_stage(&self, stage: &str) {
        // It may have been removed already.
        let _ = self.host.client().remove_file(&self.path_of(stage.as_bytes()));
    }

    /// Creates a symbolic link `name`, with the time in `attributes`.
    fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        attributes: &Attributes,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let (host, client) = (&self.host, self.host.client());
        let path = self.path_of(name.as_bytes());
        let set_time = |path: &[u8]| {
            if client.has(Extension::Lsetstat) {
                // A link is created even if its time can't be set.
                let attrs = attrs_for(attributes, Kept::TIMES);
                if let Err(error) = client.set_link_attrs(path, attrs) {
                    host.record_loss(&error);
                }
            }
        };
        if on_existing != OnExisting::Replace {
            let made = client.make_symlink(target, &path);
            if made.is_err() && host.has_name(&path)? {
                return Ok(Publication::Kept);
            }
            host.check_write(&self.path, made)?;
            set_time(&path);
            return Ok(Publication::Published);
        }
        if self.leads_to(target, name) {
            return Err(io::Error::other(Fault::of_link_to_itself()));
        }
        let _turn = host.linking.lock();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let temp = join(&self.path, host.stage_name().as_bytes());
            host.check_write(&self.path, client.make_symlink(target, &temp))?;
            set_time(&temp);
            let published = host.publish(&temp, &self.path, name, OnExisting::Replace);
            if published.is_ok() || published.as_ref().is_err_and(must_stay) {
                return published;
            }
            // A link can't be locked, so another process may have removed it as a leftover.
            let is_gone = || matches!(host.has_name(&temp), Ok(false));
            if attempts == LINK_ATTEMPTS_MAX || !is_gone() {
                // The first error has the cause.
                let _ = client.remove_file(&temp);
                return published;
            }
        }
    }
}

impl TreeDir for SftpDir {
    fn entries(&self) -> io::Result<Vec<TreeEntry>> {
        let listed = self.list()?;
        let (mut entries, mut links) = (Vec::with_capacity(listed.len()), Vec::new());
        for DirEntry { name, attrs } in listed {
            let kind = attrs.file_type();
            self.remember(&name, &attrs, false);
            let meta =
                if is_complete(&attrs) { self.meta(name.as_bytes(), &attrs).ok() } else { None };
            let meta = meta.map(Box::new);
            if kind == Some(FileType::Symlink) {
                links.push(entries.len());
            }
            let is_dir = kind.map(|kind| kind == FileType::Dir);
            entries.push(TreeEntry { name, is_dir, meta, target: None });
        }
        for (at, target) in self.targets(&entries, &links) {
            entries[at].target = Some(target.into_vec());
        }
        Ok(entries)
    }

    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>> {
        let attrs = if follow { self.ask(name, true)? } else { self.attrs_of(name)? };
        attrs.map(|attrs| self.meta(name.as_bytes(), &attrs)).transpose()
    }

    fn stat_self(&self) -> io::Result<Meta> {
        let mut meta = match &self.attrs {
            Some(attrs) => meta_of(attrs)?,
            None if self.made.is_some() => {
                let never = Timestamp { secs: 0, nanos: 0 };
                Meta::new(MetaKind::Dir, Attributes::new(PRIVATE_DIR_MODE, never))
            }
            None => meta_of(&self.host.io(self.host.client().stat(&self.path))?)?,
        };
        meta.id = Some(self.id);
        Ok(meta)
    }

    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        let target = self.host.client().read_link(&self.path_of(name.as_bytes()));
        self.host.io(target).map(<[u8]>::into_vec)
    }

    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>> {
        let path = self.path_of(name.as_bytes());
        // The creation is taken once. A directory that is reopened, after it was closed to make
        // room, is not empty any more.
        let made = self.known.lock().made.remove(name);
        if let Some(made) = made {
            let inherited = self.special_bits() & SET_GROUP_ID;
            let made = Some((made, inherited));
            let dir = Self::new(&self.host, path, None, made, self.is_destination, false);
            return Ok(Arc::new(dir));
        }
        // Otherwise a single name would cause a listing.
        let is_listed = self.has_foreign_entries || self.known.lock().existing.is_some();
        let found = match self.is_destination && !is_listed {
            true => self.ask(name, false)?,
            false => self.attrs_of(name)?,
        };
        let mut attrs = found.ok_or(io::ErrorKind::NotFound)?;
        let mut real = path;
        if follow && attrs.file_type() == Some(FileType::Symlink) {
            attrs = self.ask(name, true)?.ok_or(io::ErrorKind::NotFound)?;
            real = self.host.io(self.host.client().real_path(&real))?.into_vec();
        }
        if attrs.file_type() != Some(FileType::Dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let dir = Self::new(&self.host, real, Some(attrs), None, self.is_destination, false);
        Ok(Arc::new(dir))
    }

    fn open_file(&self, name: &Name, _follow: bool) -> io::Result<Box<dyn SourceFile>> {
        let path = self.path_of(name.as_bytes());
        let large = self.known.lock().large.remove(name);
        Ok(Box::new(SftpSource::open_settled(&self.host, &path, large)?))
    }

    /// The record of the origin is added later.
    fn make_dir(&self, name: &Name, mode: u32, _: Option<&[u8; 16]>) -> io::Result<()> {
        // Some servers report success for a directory that exists.
        if self.attrs_of(name)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.ready()?;
        let path = self.path_of(name.as_bytes());
        let made = self.host.client().make_dir_later(&path, mode);
        self.known.lock().made.insert(name.clone(), made);
        Ok(())
    }

    fn leads_to(&self, target: &[u8], name: &Name) -> bool {
        let real = |path: &[u8]| self.host.client().real_path(path);
        let led = if target.starts_with(b"/") { real(target) } else { real(&self.path_of(target)) };
        led.is_ok_and(|led| real(&self.path).is_ok_and(|dir| *led == *join(&dir, name.as_bytes())))
    }

    fn make_entry(
        &self,
        new: NewEntry<'_>,
        name: &Name,
        attributes: &Attributes,
        _kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let NewEntry::Symlink(target) = new else { return Err(io::ErrorKind::Unsupported.into()) };
        self.ready()?;
        self.make_symlink(target, name, attributes, on_existing)
    }

    fn make_hard_link(
        &self,
        from: &dyn TreeDir,
        of: &Name,
        _id: Option<FileId>,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        self.ready()?;
        let from = from.remote_path().ok_or(io::ErrorKind::Unsupported)?;
        let (host, client) = (&self.host, self.host.client());
        let temp = self.path_of(host.stage_name().as_bytes());
        let made = client.make_hard_link(&join(from, of.as_bytes()), &temp);
        host.check_write(&self.path, made)?;
        let published = host.publish(&temp, &self.path, name, on_existing);
        let may_be_left = match &published {
            // If `name` was a link to the same file, the rename does nothing and reports success.
            Ok(Publication::Published) => on_existing == OnExisting::Replace,
            Ok(Publication::Kept) => true,
            Err(error) => !must_stay(error),
        };
        if may_be_left {
            let _ = client.remove_file(&temp);
        }
        published
    }

    fn stage(&self) -> io::Result<Box<dyn StagedFile>> {
        self.ready()?;
        self.host.stage(&self.path, &self.host.stage_name())
    }

    fn remove_file(&self, name: &Name) -> io::Result<()> {
        self.host.io(self.host.client().remove_file(&self.path_to_remove(name)?))
    }

    fn remove_dir(&self, name: &Name) -> io::Result<()> {
        self.host.io(self.host.client().remove_dir(&self.path_to_remove(name)?))
    }

    fn set_file_attributes(
        &self,
        name: &Name,
        _id: Option<FileId>,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let attrs = attrs_for(attributes, which);
        self.host.io(self.host.client().set_attrs(&self.path_of(name.as_bytes()), attrs))
    }

    fn set_attributes(
        &self,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<Option<PendingOperation>> {
        if self.ready().is_err() {
            // Its creation has failed, which is reported for it.
            return Ok(None);
        }
        // As on this machine: the bit decides the group of new entries below.
        let attrs = attrs_for(attributes, which);
        let mode = attrs.mode.map(|mode| mode | self.special_bits());
        let attrs = Attrs { mode, ..attrs };
        let set = self.host.client().set_attrs_later(&self.path, attrs);
        let (host, is_own) = (Arc::clone(&self.host), self.made.is_some());
        Ok(Some(Box::new(move || match set.wait() {
            // A loss of attributes is reported once for the whole job.
            Err(error) if error.is_refusal() && (is_own || host.results.has_lost_attributes()) => {
                host.results.record(Stored { has_lost_attributes: true, ..Stored::default() });
                Ok(())
            }
            set => host.io(set),
        })))
    }

    /// The protocol can't make names durable. The job's start reports that `--sync` does not cover
    /// them.
    fn sync(&self, name: Option<&Name>) -> io::Result<()> {
        let client = self.host.client();
        let Some(name) = name.filter(|_| client.has(Extension::Fsync)) else { return Ok(()) };
        let path = self.path_of(name.as_bytes());
        let opened = match self.host.io(client.open(&path, OpenFlags::Write, None)) {
            // Some servers also sync a file that is open for reading.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.host.io(client.open(&path, OpenFlags::Read, None))
            }
            opened => opened,
        };
        let file = opened?;
        self.host.io(file.sync())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn capabilities(&self) -> Capabilities {
        self.host.capabilities(self.is_destination)
    }

    fn stored_time(&self, time: Timestamp) -> io::Result<Timestamp> {
        let times = times_of(time);
        let kept = |modified: u32| Timestamp { secs: modified.into(), nanos: 0 };
        if kept(times.modified) != in_whole_seconds(time) {
            return Ok(kept(times.modified));
        }
        self.ready()?;
        let (client, host) = (self.host.client(), &self.host);
        let before = host.io(client.stat(&self.path))?.times;
        let path = self.path_of(host.stage_name().as_bytes());
        let file = host.io(client.open(&path, OpenFlags::CreateNew, Some(PRIVATE_FILE_MODE)))?;
        let set = Attrs { times: Some(times), ..Attrs::default() };
        let found = file.set_stat_and_close(set);
        let removed = host.io(client.remove_file(&path));
        // The file is gone again, so the directory's times are restored.
        let _ = client.set_attrs(&self.path, Attrs { times: before, ..Attrs::default() });
        removed?;
        let found = host.io(found)?.found.times.ok_or(io::ErrorKind::Unsupported)?;
        Ok(kept(found.modified))
    }

    fn has_spelling(&self, name: &Name) -> io::Result<bool> {
        self.host.has_spelling(&self.path, name.as_bytes())
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.host.free_space(&self.path)
    }

    fn has_origin(&self, origin: &[u8; 16]) -> bool {
        self.host.has_name(&self.path_of(marker_name(origin).as_bytes())).unwrap_or(false)
    }

    fn origin_key(&self, name: Option<&Name>) -> Option<Vec<u8>> {
        let path = name.map_or_else(|| self.path.clone(), |name| self.path_of(name.as_bytes()));
        Some(self.host.place(&path))
    }

    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier {
        self.part(name, source).map_or(Earlier::Nothing, |part| part.earlier())
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        self.ready()?;
        let part = self.part(name, source).ok_or(io::ErrorKind::Unsupported)?;
        let (stage, blocks) = SftpStage::resume(&self.host, &self.path, &part, source.size)?;
        Ok((Box::new(stage), blocks))
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool {
        let part = self.part(name, source).filter(|part| part.earlier() != Earlier::Nothing);
        if let Some(part) = &part {
            self.remove_stage(&part.stage);
            part.remove_journal();
        }
        part.is_some()
    }

    fn remove_stale(&self, name: &Name, _seen: &OnceLock<StaleStages>) {
        if let Some(records) = &self.host.records {
            let place = self.host.place(&self.path);
            records.remove_stale(&place, name, |stage| self.remove_stage(stage));
        }
    }
}
