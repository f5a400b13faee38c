//! The tree of this machine's file systems.

mod file;
mod held;

pub(crate) use self::file::LocalSource;
pub use self::file::written;
use self::file::{creation_error, is_of_unknown_size};
use super::spare_handles::retry_open;
use super::spool::Spooled;
use crate::shared::SharedBlocks;
use crate::{
    Capabilities, Meta, MetaKind, Owner, PendingOperation, SourceFile, StagedFile, Tree, TreeDir,
    TreeEntry, origin,
};
use haul_model::{Attributes, BlockHash, FileId, Kept, Name, NewEntry, Timestamp};
use haul_store::{Earlier, OnExisting, Publication, SourceId, Stage, StaleStages};
use haul_sys::{Dir, Held, Links, Stat, if_found};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A directory of this machine.
#[derive(Debug)]
pub struct LocalDir(Arc<Dir>, OnceLock<(Name, Spooled)>, Option<Arc<SharedBlocks>>);

impl LocalDir {
    /// The tree's directory for an open handle.
    pub fn new(dir: impl Into<Arc<Dir>>) -> Self {
        Self(dir.into(), OnceLock::new(), None)
    }

    /// Like [`Self::new`], for a job that shares `blocks` with others.
    pub(crate) fn sharing(dir: Dir, blocks: &Arc<SharedBlocks>) -> Self {
        Self(Arc::new(dir), OnceLock::new(), Some(Arc::clone(blocks)))
    }
}

/// The metadata of a file of this machine.
pub fn meta_of(stat: Stat) -> Meta {
    let kind = if stat.is_file() {
        MetaKind::File { size: stat.size }
    } else if stat.is_dir() {
        MetaKind::Dir
    } else if stat.is_symlink() {
        MetaKind::Symlink
    } else {
        MetaKind::Special
    };
    let is_thin = stat.is_file() && stat.allocated < stat.size;
    Meta {
        kind,
        attributes: stat.attributes(),
        ctime: Some(stat.ctime),
        id: Some(stat.id),
        is_thin,
        owner: Some(Owner { user: stat.uid, group: stat.gid }),
        links: stat.links,
        special: stat.special(),
    }
}

impl TreeDir for LocalDir {
    fn entries(&self) -> io::Result<Vec<TreeEntry>> {
        let entries = retry_open(|| self.0.entries())?.into_iter();
        let listed = entries.map(|entry| TreeEntry {
            name: entry.name,
            is_dir: entry.is_dir,
            meta: None,
            target: None,
        });
        Ok(listed.collect())
    }

    fn stat(&self, name: &Name, follow: bool) -> io::Result<Option<Meta>> {
        let stat = if follow { self.0.stat_following(name) } else { self.0.stat(name) };
        Ok(if_found(stat)?.map(meta_of))
    }

    fn held(&self) -> Option<&Arc<Dir>> {
        Some(&self.0)
    }

    fn stat_self(&self) -> io::Result<Meta> {
        Ok(meta_of(self.0.stat_self()?))
    }

    fn read_link(&self, name: &Name) -> io::Result<Vec<u8>> {
        self.0.read_link(name)
    }

    fn open_dir(&self, name: &Name, follow: bool) -> io::Result<Arc<dyn TreeDir>> {
        let open = || match follow {
            true => self.0.open_dir_following(name),
            false => self.0.open_dir(name),
        };
        let shared = self.2.clone();
        Ok(Arc::new(Self(Arc::new(retry_open(open)?), OnceLock::new(), shared)))
    }

    fn open_file(&self, name: &Name, follow: bool) -> io::Result<Box<dyn SourceFile>> {
        if let Some((_, spooled)) = self.1.get().filter(|(spooled, _)| spooled == name) {
            return Ok(Box::new(LocalSource::from(spooled.try_clone()?)));
        }
        let (file, stat) = retry_open(|| self.0.open_file(name, follow))?;
        if is_of_unknown_size(&file, &stat)? {
            return Ok(Box::new(LocalSource::from(Spooled::generated(&file, stat)?)));
        }
        Ok(Box::new(LocalSource::of(file, stat, self.2.clone())))
    }

    fn make_dir(&self, name: &Name, mode: u32, origin: Option<&[u8; 16]>) -> io::Result<()> {
        let make =
            |name| self.0.make_dir(name, mode).map_err(|error| creation_error(&self.0, error));
        let Some(origin) = origin else { return make(name) };
        // Checked first, so that an existing entry is not touched.
        if if_found(self.0.stat(name))?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if haul_sys::check_renamable(&self.0).is_err() {
            return make(name);
        }
        let private = haul_store::private_name();
        let private = Name::new(private.as_bytes()).expect("it is a short word");
        make(&private)?;
        let named = self.0.open_dir(&private).and_then(|dir| {
            origin::remember(&dir, origin);
            self.0.rename_to(&private, &self.0, name, false)
        });
        if named.is_err() {
            // If it can't be removed, it stays.
            let _ = self.0.remove_dir(&private);
        }
        named
    }

    fn leads_to(&self, target: &[u8], name: &Name) -> bool {
        self.0.leads_to(target, name)
    }

    fn make_entry(
        &self,
        new: NewEntry<'_>,
        name: &Name,
        attributes: &Attributes,
        kept: Kept,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        Publication::create_entry(&self.0, new, name, attributes, kept, on_existing)
    }

    fn make_hard_link(
        &self,
        from: &dyn TreeDir,
        of: &Name,
        id: Option<FileId>,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let from = retry_open(|| from.local_dir())?;
        Publication::create_hard_link(&self.0, &from, of, id, name, on_existing)
    }

    fn stage(&self) -> io::Result<Box<dyn StagedFile>> {
        let stage = retry_open(|| Stage::create(Arc::clone(&self.0)));
        Ok(Box::new(stage.map_err(|error| creation_error(&self.0, error))?))
    }

    fn remove_file(&self, name: &Name) -> io::Result<()> {
        self.0.remove_file(name)
    }

    fn remove_dir(&self, name: &Name) -> io::Result<()> {
        self.0.remove_dir(name)
    }

    fn set_file_attributes(
        &self,
        name: &Name,
        id: Option<FileId>,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<()> {
        let (file, stat) = retry_open(|| Held::file(&self.0, name))?;
        if id.is_some_and(|id| id != stat.id) {
            let message = "another file replaced it";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        file.set_attributes(&self.0, &attributes.over(0, which), which)
    }

    fn set_attributes(
        &self,
        attributes: &Attributes,
        which: Kept,
    ) -> io::Result<Option<PendingOperation>> {
        let mut now = self.0.stat_self()?.attributes();
        if which.has_any(Kept::EXTENDED) {
            now.extended = self.0.extended_of(&*self.0, which)?;
        }
        // An inherited set-group-ID bit stays, unless the source's bit is kept. It decides the
        // group of new entries below.
        let attributes = attributes.over(now.mode, which);
        // Another user's directory that matches already must not fail.
        let found = attributes.changes(&now, which).attributes(which);
        haul_sys::set_attributes(&self.0, &*self.0, &attributes, found)?;
        Ok(None)
    }

    fn sync(&self, name: Option<&Name>) -> io::Result<()> {
        let Some(name) = name else { return self.0.sync() };
        let (file, _) = retry_open(|| self.0.open_file(name, false))?;
        file.sync_all()
    }

    fn spool(
        &self,
        name: &Name,
        into: &Path,
        should_continue: &dyn Fn() -> bool,
    ) -> io::Result<Meta> {
        let spooled = Spooled::read(&self.0, name, true, into, should_continue)?;
        let meta = meta_of(spooled.stat);
        // Only a named source is spooled, and its directory is opened for it alone.
        self.1.set((name.clone(), spooled)).map_err(|_| io::ErrorKind::AlreadyExists)?;
        Ok(meta)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::local(self.0.fakes())
    }

    fn has_spelling(&self, name: &Name) -> io::Result<bool> {
        let is_it = |found: &[u8]| found == name.as_bytes();
        Ok(!self.0.names_where(is_it)?.is_empty())
    }

    fn stored_time(&self, time: Timestamp) -> io::Result<Timestamp> {
        haul_store::stored_time(&self.0, time)
    }

    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier {
        Stage::earlier(&self.0, name, source)
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        let resume = || Stage::resume(Arc::clone(&self.0), name, source);
        let (stage, blocks) = retry_open(resume)?;
        Ok((Box::new(stage), blocks))
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool {
        haul_store::remove_leftovers(&self.0, name, source)
    }

    fn remove_stale(&self, name: &Name, seen: &OnceLock<StaleStages>) {
        seen.get_or_init(|| StaleStages::find(&self.0)).remove(&self.0, name);
    }

    fn has_origin(&self, origin: &[u8; 16]) -> bool {
        origin::is_of(&self.0, origin)
    }

    fn origin_key(&self, name: Option<&Name>) -> Option<Vec<u8>> {
        if haul_sys::supports_attributes(&self.0, origin::ATTRIBUTE) {
            return None;
        }
        let mut path = self.0.path()?;
        path.extend(name.map(|name| OsStr::from_bytes(name.as_bytes())));
        // Another disk may be mounted at the same path.
        let volume = haul_sys::volume_id(&*self.0).to_le_bytes();
        let path = path.as_os_str().as_bytes();
        Some([&*haul_sys::node_name(), b"\0", &volume, path].concat())
    }
}

/// The file systems of this machine.
#[derive(Debug)]
pub struct LocalTree {
    /// Attributes that only root can set are recorded as `rsync --fake-super` does.
    fakes: bool,
    /// Reading does not change access times.
    keeps_atimes: bool,
    /// Which links on the way to a directory that the user names are followed.
    links: Links,
}

impl LocalTree {
    /// Without faked attributes, and with all links on the way followed.
    pub const PLAIN: Self = Self { fakes: false, keeps_atimes: false, links: Links::All };

    fn dir(&self, dir: Dir) -> Arc<dyn TreeDir> {
        let dir = if self.fakes { dir.faking() } else { dir };
        Arc::new(LocalDir::new(if self.keeps_atimes { dir.keeping_atimes() } else { dir }))
    }
}

impl Tree for LocalTree {
    fn open(&self, path: &[u8]) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(retry_open(|| Dir::open_named(path, self.links))?))
    }

    fn open_for_search(&self, path: &[u8], _: Option<&Name>) -> io::Result<Arc<dyn TreeDir>> {
        let path = Path::new(OsStr::from_bytes(path));
        Ok(self.dir(retry_open(|| Dir::open_named_for_search(path, self.links))?))
    }

    fn absolute_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let path = if path.is_empty() { b"." } else { path };
        let whole = haul_sys::absolute(Path::new(OsStr::from_bytes(path)))?;
        let mut clean = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir => drop(clean.pop()),
                part => clean.push(part),
            }
        }
        Ok(clean.into_os_string().into_vec())
    }
}

/// The file systems of this machine. `links` are the links that are followed on the way to
/// directories that the user names. With `fakes`, attributes that only root can set are recorded as
/// `rsync --fake-super` does. With `keeps_atimes`, reading does not change access times.
pub fn local_tree(fakes: bool, keeps_atimes: bool, links: Links) -> &'static dyn Tree {
    static TREES: [LocalTree; 8] =
        [tree(0), tree(1), tree(2), tree(3), tree(4), tree(5), tree(6), tree(7)];
    &TREES[usize::from(fakes)
        | usize::from(keeps_atimes) << 1
        | usize::from(links == Links::Own) << 2]
}

/// The tree with these bits.
const fn tree(bits: u8) -> LocalTree {
    let links = if bits & 4 == 0 { Links::All } else { Links::Own };
    LocalTree { fakes: bits & 1 != 0, keeps_atimes: bits & 2 != 0, links }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_replaced_another_keeps_its_mode() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = LocalDir::new(Dir::open(temp.path()).expect("opened"));
        let name = Name::new(b"file").expect("a plain name");
        let path = temp.path().join("file");
        let attributes = |mode| Attributes::new(mode, haul_model::Timestamp { secs: 5, nanos: 0 });
        let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o7777;
        std::fs::write(&path, "one").expect("written");
        let seen = dir.stat(&name, false).expect("looked").expect("there");
        dir.set_file_attributes(&name, seen.id, &attributes(0o640), Kept::MODE).expect("set");
        assert_eq!(mode(), 0o640);
        std::fs::write(temp.path().join("other"), "two").expect("written");
        std::fs::rename(temp.path().join("other"), &path).expect("renamed");
        let before = mode();
        assert!(dir.set_file_attributes(&name, seen.id, &attributes(0o777), Kept::MODE).is_err());
        assert_eq!(mode(), before);
    }
}
