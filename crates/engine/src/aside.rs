//! Sources that are set aside: in the moment before it is removed a source has a
//! name of its own form, under which nobody else looks for it. What a killed
//! move has left under such a name gets its own back from the next one, which also takes
//! away the marks that it has left (see [`haul_tree::Mark`]).

use haul_model::{Fault, FaultKind, Name, Side, escape_bytes, words};
use haul_sys::Dir;
use haul_tree::{LocalDir, TreeDir, TreeEntry};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An entry of a directory that was set aside.
pub(crate) struct Aside {
    own: Name,
    aside: Name,
}

impl Aside {
    /// Sets the entry `name` of `dir` aside.
    ///
    /// # Errors
    /// Those of renaming.
    pub(crate) fn set(dir: &dyn TreeDir, name: &Name) -> io::Result<Self> {
        let rename = |short| {
            let aside = haul_store::aside_name(name, short);
            dir.rename(name, &aside).map(|()| Self { own: name.clone(), aside })
        };
        match rename(false) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => rename(true),
            set => set,
        }
    }

    /// The name that it has now.
    pub(crate) fn name(&self) -> &Name {
        &self.aside
    }

    /// Gives it its own name back in `dir`, the directory that it is in.
    ///
    /// # Errors
    /// If that can't be done; the fault has its name now.
    pub(crate) fn put_back(self, dir: &dyn TreeDir) -> Result<(), Fault> {
        match dir.rename(&self.aside, &self.own) {
            Ok(()) => Ok(()),
            // Another move took it for a leftover, and put it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.stays(&error)),
        }
    }

    /// It can't get its own name back for this reason.
    pub(crate) fn stays(&self, error: &io::Error) -> Fault {
        let error = Fault::from_io(Side::Source, "rename it back", error);
        let aside = escape_bytes(self.aside.as_bytes());
        let message = format!("{error}; its name is now {aside}");
        Fault::new(Side::Source, FaultKind::Changed, message)
    }
}

/// Gives those of `entries` of `dir` their names back that a killed move has set
/// aside, and removes its marks. Where the name is taken, what was set aside is an entry
/// like any other.
pub(crate) fn restore(dir: &dyn TreeDir, entries: &mut Vec<TreeEntry>) {
    let is_mark =
        |name: &Name| dir.system_handle().is_ok_and(|dir| haul_store::remove_mark(&dir, name));
    entries.retain(|entry| !(haul_store::is_private(&entry.name) && is_mark(&entry.name)));
    let mut is_changed = false;
    for entry in entries.iter_mut() {
        if let Some(name) = haul_store::set_aside(&entry.name)
            && dir.rename(&entry.name, &name).is_ok()
        {
            entry.name = name;
            is_changed = true;
        }
    }
    if is_changed {
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    }
}

/// The same for what had the path `path` of this machine, whose directory is opened.
///
/// # Errors
/// Those of opening it.
pub(crate) fn restore_named(path: &[u8]) -> Result<bool, Fault> {
    let split = words::split(path);
    let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(false) };
    let dir = Dir::open(Path::new(OsStr::from_bytes(split.parent)));
    let dir =
        dir.map_err(|error| Fault::from_io(Side::Source, "open the directory above", &error))?;
    Ok(restore_one(&LocalDir::new(dir), &name))
}

/// Gives the entry `name` of `dir` its name back if a killed move has set it aside,
/// and nothing else has that name; returns whether it did.
pub(crate) fn restore_one(dir: &dyn TreeDir, name: &Name) -> bool {
    let Ok(entries) = dir.entries() else { return false };
    let is_it = |entry: &TreeEntry| haul_store::set_aside(&entry.name).as_ref() == Some(name);
    entries.iter().any(|entry| is_it(entry) && dir.rename(&entry.name, name).is_ok())
}
