//! The tree of a host's SFTP server, for hosts that have no haul.
//!
//! There are no handles of directories in that protocol: a directory is a path,
//! and each operation sends one. So what the other tree promises of links that
//! are planted while a job runs can't be kept here, see `docs/sftp.md`. All the
//! rest of the contract is: no link that stands below a destination is followed,
//! nothing appears under a name before it is whole.

mod host;
mod source;
mod stage;

pub(crate) use host::{Lost, SftpHost};

use super::{
    KEPT_MODE, Meta, MetaKind, Outstanding, SourceFile, StagedFile, Tree, TreeDir, TreeEntry,
};
use crate::dirs::lock;
use crate::words;
use haul_model::{BLOCK_LEN, BlockHash, FileId, MAX_NAME_LEN, Name, Timestamp};
use haul_sftp::{
    Attrs, DirEntry, Extension, FileType, Later, OpenFlags, RemoteFile, SftpError, StatusCode,
    Times,
};
use haul_store::{Placement, Publication, SourceId, StaleStages, private_name};
use haul_sys::Dir;
use source::SftpSource;
use stage::SftpStage;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

/// Entries of a directory at the destination that are remembered from one
/// listing; of a larger one each is asked about by itself.
const LISTED_MAX: usize = 1 << 16;

/// Names in a directory around the job that are asked about by themselves before
/// all of it is listed: a listing takes two round trips.
const ASKED_MAX: usize = 4;

/// A path of this length, in bytes, OpenSSH's server can't look at on most systems;
/// it leaves such an entry out of a listing and says nothing.
const LOOKED_AT_LEN: usize = 4096;

/// What a file is made with that is haul's own.
const PRIVATE_FILE_MODE: u32 = 0o600;

/// Directories that are made in one with this bit have it, too.
const SET_GROUP_ID: u32 = 0o2000;

/// The tree of a host.
pub(crate) struct SftpTree {
    host: Arc<SftpHost>,
    /// What the job writes to: what stands in a directory is looked at once, for
    /// all that comes into it.
    is_destination: bool,
}

impl SftpTree {
    /// The tree that a job reads.
    pub(crate) fn source(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: false }
    }

    /// The tree that a job writes to.
    pub(crate) fn destination(host: &Arc<SftpHost>) -> Self {
        Self { host: Arc::clone(host), is_destination: true }
    }
}

impl Tree for SftpTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let host = &self.host;
        let path = match words::without_tilde(path) {
            b"" => b".",
            path => path,
        };
        let (attrs, real) = host.io(host.client().stat_and_real_path(path))?;
        if attrs.file_type() != Some(FileType::Dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(SftpDir::open(host, real.into_vec(), Some(attrs), None, self.is_destination, true))
    }
}

/// A directory of a host, known by its path.
pub(crate) struct SftpDir {
    host: Arc<SftpHost>,
    /// As the server resolved it, below the root without links.
    path: Vec<u8>,
    id: FileId,
    /// What it is, as far as a listing or the server has told.
    attrs: Option<Attrs>,
    /// It was made by this job, and this is how that goes.
    made: Option<Later>,
    /// What came of that, if it was refused: whether somebody else has made it.
    made_by_others: OnceLock<bool>,
    /// Bits of its mode that one that is made gets from the one above.
    inherited: u32,
    is_destination: bool,
    /// It was not made or listed by the job: others than those of the job are in
    /// it.
    is_around: bool,
    known: Mutex<Known>,
}

/// What is known of the entries of a directory.
#[derive(Default)]
struct Known {
    /// At a source: the directories that were listed.
    dirs: HashMap<Name, Attrs>,
    /// At a destination: all that was there when it was first asked.
    there: Option<Arc<There>>,
    /// At a source: files that are worth all sessions.
    large: HashSet<Name>,
    /// How many names were asked about.
    asked: usize,
    /// Directories that this job makes.
    made: HashMap<Name, Later>,
}

/// What stood in a directory of the destination.
enum There {
    All(HashMap<Name, Attrs>),
    /// More than are remembered.
    TooMany,
}

impl SftpDir {
    fn open(
        host: &Arc<SftpHost>,
        path: Vec<u8>,
        attrs: Option<Attrs>,
        made: Option<(Later, u32)>,
        is_destination: bool,
        is_around: bool,
    ) -> Arc<dyn TreeDir> {
        let id = host.id_of(&path);
        let (made, inherited) = made.unzip();
        let known = Known {
            // Nothing is in it that this job has not put there.
            there: made.as_ref().map(|_| Arc::new(There::All(HashMap::new()))),
            ..Known::default()
        };
        let host = Arc::clone(host);
        let known = Mutex::new(known);
        let made_by_others = OnceLock::new();
        Arc::new(Self {
            host,
            path,
            id,
            attrs,
            made,
            made_by_others,
            inherited: inherited.unwrap_or(0),
            is_destination,
            is_around,
            known,
        })
    }

    /// The path of `name` in it.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path, name)
    }

    /// Whether it is the directory `near` of this machine: what is made in one of
    /// them shows in the other. Through this protocol nothing else tells.
    pub(crate) fn is_also(&self, near: &Dir) -> io::Result<bool> {
        let (client, name) = (self.host.client(), private_name());
        let path = self.path_of(name.as_bytes());
        let made = client.open(&path, OpenFlags::CreateNew, Some(PRIVATE_FILE_MODE));
        // Some servers make it only when it is closed.
        if let Err(error) = made.and_then(RemoteFile::close) {
            self.host.look_at(&error);
            let _ = client.remove_file(&path);
            let time = near.stat_self()?.mtime;
            near.create_private(&name)?;
            let looked = client.lstat(&path);
            near.remove_private(&name)?;
            let _ = haul_sys::set_mtime(near, time);
            return match looked {
                Err(error) if error.status() == Some(StatusCode::NoSuchFile) => Ok(false),
                looked => self.host.io(looked).map(|_| true),
            };
        }
        let shown = near.stat(&Name::new(name.as_bytes()).map_err(io::Error::other)?);
        self.host.io(client.remove_file(&path))?;
        if let (true, Some(Attrs { times: Some(times), .. })) = (self.is_destination, self.attrs) {
            // A directory that was copied has the time of its source. In one of
            // somebody else's, the time is no matter.
            let attrs = Attrs { times: Some(times), ..Attrs::default() };
            if let Err(error) = client.set_attrs(&self.path, attrs) {
                self.host.look_at(&error);
            }
        }
        match shown {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The bits of its mode that are not those of a source.
    fn special_bits(&self) -> u32 {
        let told = self.attrs.and_then(|attrs| attrs.mode);
        told.map_or(self.inherited, |mode| mode & 0o7777 & !KEPT_MODE)
    }

    /// Sessions that the content of a large file goes through.
    pub(crate) fn lanes(&self) -> usize {
        self.host.clients().len()
    }

    /// What is in it. Directories that are found are listed ahead: a walk, or
    /// what follows it at the destination, goes into each.
    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.ready()?;
        if !self.is_destination && self.path.len() + 1 + MAX_NAME_LEN >= LOOKED_AT_LEN {
            let message = "its path is so long that the server may leave out what is in it";
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, message));
        }
        let lister = &self.host.lister;
        let mut listed = self.host.io(lister.list(&self.path))?;
        if listed.is_empty() {
            // A server leaves out what it may not look at, and so all that is in
            // a directory without leave to search it.
            self.host.io(self.host.client().lstat(&self.path_of(b".")))?;
        }
        listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if !self.is_around {
            let is_dir = |entry: &&DirEntry| entry.attrs.file_type() == Some(FileType::Dir);
            let dirs = listed.iter().filter(is_dir);
            lister.ahead(dirs.map(|dir| self.path_of(dir.name.as_bytes())));
        }
        Ok(listed)
    }

    /// What stood in it when it was first asked.
    fn there(&self) -> io::Result<Arc<There>> {
        if let Some(there) = &lock(&self.known).there {
            return Ok(Arc::clone(there));
        }
        let listed = self.list()?;
        let there = if listed.len() > LISTED_MAX {
            There::TooMany
        } else {
            There::All(listed.into_iter().map(|entry| (entry.name, entry.attrs)).collect())
        };
        let there = Arc::new(there);
        lock(&self.known).there = Some(Arc::clone(&there));
        Ok(there)
    }

    /// The attributes of `name` itself; `None` if nothing has that name.
    fn attrs_of(&self, name: &Name) -> io::Result<Option<Attrs>> {
        if self.is_destination
            && !self.asks_by_itself()
            && let There::All(there) = &*self.there()?
        {
            return match there.get(name) {
                Some(attrs) if is_whole(attrs) => Ok(Some(*attrs)),
                Some(_) => self.ask(name, false),
                None => Ok(None),
            };
        }
        if let Some(attrs) = lock(&self.known).dirs.get(name) {
            return Ok(Some(*attrs));
        }
        self.ask(name, false)
    }

    /// Whether a name is asked about by itself. Around the job there may be much
    /// more than it is about, and it is mostly about one name.
    fn asks_by_itself(&self) -> bool {
        let mut known = lock(&self.known);
        known.asked += 1;
        self.is_around && known.there.is_none() && known.asked <= ASKED_MAX
    }

    /// What the server says of `name` now.
    fn ask(&self, name: &Name, follow: bool) -> io::Result<Option<Attrs>> {
        self.ready()?;
        let (client, path) = (self.host.client(), self.path_of(name.as_bytes()));
        let attrs = if follow { client.stat(&path) } else { client.lstat(&path) };
        match attrs {
            Err(error) if error.status() == Some(StatusCode::NoSuchFile) => Ok(None),
            attrs => {
                let attrs = self.host.io(attrs)?;
                if self.is_worth_all(&attrs) {
                    lock(&self.known).large.insert(name.clone());
                }
                Ok(Some(attrs))
            }
        }
    }

    /// Whether a file is large enough to be read through several sessions.
    fn is_worth_all(&self, attrs: &Attrs) -> bool {
        !self.is_destination
            && self.lanes() > 1
            && attrs.file_type() == Some(FileType::File)
            && attrs.size.is_some_and(|size| size > 2 * BLOCK_LEN)
    }

    fn meta(&self, name: &[u8], attrs: &Attrs) -> io::Result<Meta> {
        let mut meta = meta_of(attrs)?;
        meta.id = Some(self.host.id_of(&self.path_of(name)));
        Ok(meta)
    }

    /// Whether the server refuses to make it since another copy, which runs at the
    /// same time, was first. The protocol has no word for a name that is taken.
    fn was_made_by_others(&self, error: &SftpError) -> bool {
        if error.status() != Some(StatusCode::Failure) {
            return false;
        }
        let there = self.host.client().lstat(&self.path);
        there.is_ok_and(|attrs| attrs.file_type() == Some(FileType::Dir))
    }
}

impl TreeDir for SftpDir {
    fn entries(&self) -> io::Result<Vec<TreeEntry>> {
        let listed = self.list()?;
        let is_link = |entry: &DirEntry| entry.attrs.file_type() == Some(FileType::Symlink);
        let links = listed.iter().filter(|entry| is_link(entry));
        let links: Vec<Vec<u8>> = links.map(|link| self.path_of(link.name.as_bytes())).collect();
        let mut targets = self.host.client().read_links(&links).into_iter();
        let mut known = lock(&self.known);
        let mut entries = Vec::with_capacity(listed.len());
        for entry in listed {
            let target = if is_link(&entry) { targets.next() } else { None };
            let DirEntry { name, attrs } = entry;
            let kind = attrs.file_type();
            if kind == Some(FileType::Dir) && !self.is_destination {
                known.dirs.insert(name.clone(), attrs);
            }
            if self.is_worth_all(&attrs) {
                known.large.insert(name.clone());
            }
            let meta =
                if is_whole(&attrs) { self.meta(name.as_bytes(), &attrs).ok() } else { None };
            let target = match target {
                // Whoever needs it asks again, and is told what is wrong.
                Some(Err(error)) => {
                    self.host.look_at(&error);
                    None
                }
                Some(Ok(target)) => Some(target.into_vec()),
                None => None,
            };
            let is_dir = kind.map(|kind| kind == FileType::Dir);
            entries.push(TreeEntry { name, is_dir, meta, target });
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
            None if self.made.is_some() => Meta {
                kind: MetaKind::Dir,
                mode: super::PRIVATE_DIR_MODE,
                mtime: Timestamp { secs: 0, nanos: 0 },
                id: None,
            },
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
        if let Some(made) = lock(&self.known).made.get(name) {
            let inherited = self.special_bits() & SET_GROUP_ID;
            let made = Some((made.clone(), inherited));
            return Ok(Self::open(&self.host, path, None, made, self.is_destination, false));
        }
        let mut attrs = self.attrs_of(name)?.ok_or(io::ErrorKind::NotFound)?;
        let mut real = path;
        if follow && attrs.file_type() == Some(FileType::Symlink) {
            attrs = self.ask(name, true)?.ok_or(io::ErrorKind::NotFound)?;
            real = self.host.io(self.host.client().real_path(&real))?.into_vec();
        }
        if attrs.file_type() != Some(FileType::Dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self::open(&self.host, real, Some(attrs), None, self.is_destination, false))
    }

    fn open_file(&self, name: &Name, _follow: bool) -> io::Result<Box<dyn SourceFile>> {
        let path = self.path_of(name.as_bytes());
        let large = lock(&self.known).large.remove(name);
        Ok(Box::new(SftpSource::open(&self.host, &path, large)?))
    }

    fn make_dir(&self, name: &Name, mode: u32) -> io::Result<()> {
        // There are servers to which making what is there already is no error.
        if self.attrs_of(name)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.ready()?;
        let path = self.path_of(name.as_bytes());
        let made = self.host.client().make_dir_later(&path, mode);
        lock(&self.known).made.insert(name.clone(), made);
        Ok(())
    }

    fn make_symlink(
        &self,
        target: &[u8],
        name: &Name,
        mtime: Timestamp,
        placement: Placement,
    ) -> io::Result<Publication> {
        self.ready()?;
        let client = self.host.client();
        let path = self.path_of(name.as_bytes());
        let set_time = |path: &[u8]| {
            if client.has(Extension::Lsetstat) {
                // A time that can't be set is no reason to have no link.
                let attrs = Attrs { times: Some(times_of(mtime)), ..Attrs::default() };
                if let Err(error) = client.set_link_attrs(path, attrs) {
                    self.host.look_at(&error);
                }
            }
        };
        if placement != Placement::Replace {
            let made = client.make_symlink(target, &path);
            match made {
                Ok(()) => {
                    set_time(&path);
                    return Ok(Publication::Published);
                }
                Err(error) => {
                    self.host.look_at(&error);
                    if self.ask(name, false)?.is_none() {
                        return self.host.wrote(&self.path, Err(error));
                    }
                    if placement == Placement::Keep {
                        return Ok(Publication::Kept);
                    }
                }
            }
        }
        let temp = self.path_of(private_name().as_bytes());
        self.host.wrote(&self.path, client.make_symlink(target, &temp))?;
        set_time(&temp);
        let published = self.host.publish(&temp, &path, Placement::Replace);
        if published.is_err() {
            // What is wrong was told by the first error.
            let _ = client.remove_file(&temp);
        }
        published
    }

    fn stage(&self) -> io::Result<Box<dyn StagedFile>> {
        self.ready()?;
        Ok(Box::new(SftpStage::create(&self.host, &self.path)?))
    }

    fn can_resume(&self, name: &Name, source: &SourceId) -> bool {
        stage::can_resume(&self.host, &self.path, name, source)
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        self.ready()?;
        let (stage, blocks) = SftpStage::resume(&self.host, &self.path, name, source)?;
        Ok((Box::new(stage), blocks))
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) {
        stage::remove_leftovers(&self.host, &self.path, name, source);
    }

    fn remove_stale(&self, name: &Name, _seen: &OnceLock<StaleStages>) {
        stage::remove_stale(&self.host, &self.path, name);
    }

    fn remove_file(&self, name: &Name) -> io::Result<()> {
        self.host.io(self.host.client().remove_file(&self.path_of(name.as_bytes())))
    }

    fn remove_dir(&self, name: &Name) -> io::Result<()> {
        self.host.io(self.host.client().remove_dir(&self.path_of(name.as_bytes())))
    }

    fn set_file_mode(&self, name: &Name, mode: u32) -> io::Result<()> {
        let attrs = Attrs::with_mode(mode & KEPT_MODE);
        self.host.io(self.host.client().set_attrs(&self.path_of(name.as_bytes()), attrs))
    }

    fn sync_file(&self, name: &Name) -> io::Result<()> {
        let client = self.host.client();
        if !client.has(Extension::Fsync) {
            return Ok(());
        }
        let path = self.path_of(name.as_bytes());
        self.host.io(client.open(&path, haul_sftp::OpenFlags::Write, None).and_then(|f| f.sync()))
    }

    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()> {
        let set = self.set_meta_later(mode, mtime);
        set.map_or(Err(io::ErrorKind::Unsupported.into()), |wait| wait())
    }

    fn set_meta_later(&self, mode: u32, mtime: Timestamp) -> Option<Outstanding> {
        // What is wrong with it is told by the answer.
        let _ = self.ready();
        // As on this machine: it decides about the group of what is made below.
        let mode = (mode & KEPT_MODE) | self.special_bits();
        let times = Some(times_of(mtime));
        let attrs = Attrs { mode: Some(mode), times, ..Attrs::default() };
        let set = self.host.client().set_attrs_later(&self.path, attrs);
        let host = Arc::clone(&self.host);
        Some(Box::new(move || host.io(set.wait())))
    }

    fn make_writable(&self) -> io::Result<()> {
        let Some(mode) = self.attrs.and_then(|attrs| attrs.mode) else { return Ok(()) };
        let needed = super::PRIVATE_DIR_MODE;
        if mode & needed == needed {
            return Ok(());
        }
        let attrs = Attrs::with_mode((mode & 0o7777) | needed);
        self.host.io(self.host.client().set_attrs(&self.path, attrs))
    }

    /// The names can't be made durable through this protocol; what `--sync`
    /// promises less by that is told when the job begins.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn syncs_as_a_whole(&self) -> bool {
        false
    }

    fn sync_all(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remote(&self) -> Option<&SftpDir> {
        Some(self)
    }

    fn is_being_made(&self) -> bool {
        self.made.is_some()
    }

    fn ready(&self) -> io::Result<()> {
        let Some(Err(error)) = self.made.as_ref().map(Later::wait) else { return Ok(()) };
        if *self.made_by_others.get_or_init(|| self.was_made_by_others(&error)) {
            return Ok(());
        }
        let above = self.path.rsplitn(2, |&byte| byte == b'/').nth(1);
        let above = above.filter(|above| !above.is_empty());
        self.host.wrote(above.unwrap_or(b"/"), Err(error))
    }
}

/// `below` in the directory `dir`, both as the server reads them.
pub(crate) fn join(dir: &[u8], below: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, below].concat()
}

/// Whether a listing has told all that is needed.
fn is_whole(attrs: &Attrs) -> bool {
    attrs.times.is_some()
        && attrs.file_type().is_some_and(|kind| kind != FileType::File || attrs.size.is_some())
}

fn meta_of(attrs: &Attrs) -> io::Result<Meta> {
    let untold = |what| io::Error::other(format!("the server does not tell {what}"));
    let kind = match attrs.file_type().ok_or_else(|| untold("what it is"))? {
        FileType::File => MetaKind::File { size: attrs.size.ok_or_else(|| untold("its size"))? },
        FileType::Dir => MetaKind::Dir,
        FileType::Symlink => MetaKind::Symlink,
        FileType::Special => MetaKind::Special,
    };
    let times = attrs.times.ok_or_else(|| untold("when it was modified"))?;
    let mtime = Timestamp { secs: times.modified.into(), nanos: 0 };
    Ok(Meta { kind, mode: attrs.mode.unwrap_or(0) & 0o7777, mtime, id: None })
}

/// `mtime` as far as the protocol takes it: whole seconds from 1970 to 2106.
pub(crate) fn kept(mtime: Timestamp) -> Timestamp {
    Timestamp { secs: mtime.secs.clamp(0, u32::MAX.into()), nanos: 0 }
}

/// The times that a file with `mtime` gets.
pub(crate) fn times_of(mtime: Timestamp) -> Times {
    let secs = u32::try_from(kept(mtime).secs).unwrap_or(0);
    Times { accessed: secs, modified: secs }
}
