//! Sets sources aside: just before a source is removed, it gets a temporary name of a special form.
//! If a killed move has left such a name, the next move restores it, and also removes the marks
//! left by the killed move (see [`haul_tree::Marker`]).

use haul_model::{Fault, FaultKind, Name, OrFault, Side, escape_bytes, words};
use haul_sys::Dir;
use haul_tree::{LocalDir, TreeDir, TreeEntry};
use std::io;

/// An entry of a directory that was set aside.
pub(crate) struct Parked {
    own: Name,
    parked: Name,
}

impl Parked {
    /// Sets the entry `name` of `dir` aside.
    ///
    /// # Errors
    /// The errors of renaming.
    pub(crate) fn set(dir: &dyn TreeDir, name: &Name) -> io::Result<Self> {
        let rename = |short| {
            let parked = haul_store::aside_name(name, short);
            dir.rename(name, &parked).map(|()| Self { own: name.clone(), parked })
        };
        match rename(false) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => rename(true),
            set => set,
        }
    }

    /// The temporary name.
    pub(crate) fn name(&self) -> &Name {
        &self.parked
    }

    /// Restores its name in `dir`, the directory that contains it.
    ///
    /// # Errors
    /// When that fails. The fault contains the temporary name.
    pub(crate) fn restore_name(self, dir: &dyn TreeDir) -> Result<(), Fault> {
        match dir.rename(&self.parked, &self.own) {
            Ok(()) => Ok(()),
            // Another move took it for a leftover, and restored its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.name_not_restored(&error)),
        }
    }

    /// The fault of an entry whose name can't be restored.
    pub(crate) fn name_not_restored(&self, error: &io::Error) -> Fault {
        let error = Fault::from_io(Side::Source, "rename it back", error);
        let parked = escape_bytes(self.parked.as_bytes());
        let message = format!("{error}; its name is now {parked}");
        Fault::new(Side::Source, FaultKind::Changed, message)
    }
}

/// Restores the names of `entries` of `dir` that a killed move has set aside, and removes its
/// marks. If a name is taken, the entry keeps its temporary name and is treated like any other.
pub(crate) fn restore(dir: &dyn TreeDir, entries: &mut Vec<TreeEntry>) {
    let is_mark =
        |name: &Name| dir.local_dir().is_ok_and(|dir| haul_store::remove_marker(&dir, name));
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

/// The same for the entry that had the local path `path`.
///
/// # Errors
/// The errors of opening its directory.
pub(crate) fn restore_named(path: &[u8]) -> Result<bool, Fault> {
    let split = words::split(path);
    let Some(Ok(name)) = split.name.map(Name::new) else { return Ok(false) };
    let dir = Dir::open_raw(split.parent).or_fault(Side::Source, "open the directory above")?;
    Ok(restore_one(&LocalDir::new(dir), &name))
}

/// Restores the name `name` in `dir` if a killed move has set the entry aside and the name is free.
/// Returns whether it did.
pub(crate) fn restore_one(dir: &dyn TreeDir, name: &Name) -> bool {
    let Ok(entries) = dir.entries() else { return false };
    let is_it = |entry: &TreeEntry| haul_store::set_aside(&entry.name).as_ref() == Some(name);
    entries.iter().any(|entry| is_it(entry) && dir.rename(&entry.name, name).is_ok())
}
