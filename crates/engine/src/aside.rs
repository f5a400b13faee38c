//! Sources that are set aside: in the moment before it is removed a source has a
//! name that tells what it is, under which nobody else looks for it. What a killed
//! move has left under such a name gets its own back from the next one.

use haul_model::{Fault, FaultKind, Name, Side, escape_bytes};
use haul_tree::{TreeDir, TreeEntry};
use std::io;

/// An entry of a directory that was set aside.
pub(crate) struct Aside<'d> {
    dir: &'d dyn TreeDir,
    name: &'d Name,
    aside: Name,
}

impl<'d> Aside<'d> {
    /// Sets the entry `name` of `dir` aside.
    ///
    /// # Errors
    /// Those of renaming.
    pub(crate) fn set(dir: &'d dyn TreeDir, name: &'d Name) -> io::Result<Self> {
        let rename = |short| {
            let aside = haul_store::aside_name(name, short);
            dir.rename(name, &aside).map(|()| Self { dir, name, aside })
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

    /// Gives it its own name back.
    ///
    /// # Errors
    /// What it is called if that can't be done.
    pub(crate) fn put_back(self) -> Result<(), Fault> {
        match self.dir.rename(&self.aside, self.name) {
            Ok(()) => Ok(()),
            // Another move took it for a leftover, and put it back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                let error = Fault::from_io(Side::Source, "give it its name back", &error);
                let aside = escape_bytes(self.aside.as_bytes());
                let message = format!("{error}; it is called {aside} now");
                Err(Fault::new(Side::Source, FaultKind::Changed, message))
            }
        }
    }
}

/// Gives those of `entries` of `dir` their names back that a killed move has set
/// aside. Where the name is taken, what was set aside is an entry like any other.
pub(crate) fn restore(dir: &dyn TreeDir, entries: &mut [TreeEntry]) {
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

/// Gives the entry `name` of `dir` its name back if a killed move has set it aside,
/// and nothing else has that name; tells whether it did.
pub(crate) fn restore_one(dir: &dyn TreeDir, name: &Name) -> bool {
    let Ok(entries) = dir.entries() else { return false };
    let is_it = |entry: &TreeEntry| haul_store::set_aside(&entry.name).as_ref() == Some(name);
    entries.iter().any(|entry| is_it(entry) && dir.rename(&entry.name, name).is_ok())
}
