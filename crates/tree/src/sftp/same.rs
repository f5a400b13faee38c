//! Finds out whether a host's directory is one of this machine, reached another way: a temporary
//! entry created in one shows in the other.

use super::{SftpDir, join};
use crate::{Marker, PRIVATE_DIR_MODE, TreeDir, Visibility, check_visibility};
use haul_model::Name;
use haul_sftp::Attrs;
use haul_store::private_name;
use haul_sys::Dir;
use std::io;

impl<'d> dyn TreeDir + 'd {
    /// True if this is the directory `near` of this machine, reached another way. A mount may cache
    /// what was in a directory, and a server may delay new entries. So an entry is created on one
    /// side, then on the other.
    ///
    /// # Errors
    /// Errors of looking for the entries, and of removing them.
    pub fn is_same_dir(&self, near: &Dir) -> io::Result<bool> {
        let Some(dir) = self.on_host() else { return Ok(false) };
        Ok(is_visible_in(dir, near)? || sees_entry_of(dir, near)?)
    }
}

/// True if an entry created here shows in `near`. It is a directory, since files may show late
/// through a mount.
fn is_visible_in(dir: &SftpDir, near: &Dir) -> io::Result<bool> {
    let (client, name) = (dir.host.client(), private_name());
    let name = Name::new(name.as_bytes()).map_err(io::Error::other)?;
    let path = dir.path_of(name.as_bytes());
    if let Err(error) = client.make_dir(&path, PRIVATE_DIR_MODE) {
        dir.host.record_loss(&error);
        return Ok(false);
    }
    let shown = is_marker_visible_in(dir, near, &name);
    let removed = dir.host.io(client.remove_dir(&path));
    // It may have been removed through the other directory.
    let removed = removed.or_else(|error| match dir.host.has_name(&path) {
        Ok(false) => Ok(()),
        _ => Err(error),
    });
    if let (true, Some(Attrs { times: Some(times), .. })) = (dir.is_destination, dir.attrs) {
        // A copied directory has the time of its source. The times of other directories don't
        // matter.
        let attrs = Attrs { times: Some(times), ..Attrs::default() };
        if let Err(error) = client.set_attrs(&dir.path, attrs) {
            dir.host.record_loss(&error);
        }
    }
    match shown {
        // It was removed, but the server may still have it cached.
        Ok(true) => shown,
        shown => removed.and(shown),
    }
}

/// True if `near` shows the directory `name`, created here, or if an entry created in it there
/// shows here. A new directory can't be in a cache.
fn is_marker_visible_in(dir: &SftpDir, near: &Dir, name: &Name) -> io::Result<bool> {
    let seen = check_visibility(near, name, |inner| {
        dir.host.has_name(&join(&dir.path_of(name.as_bytes()), inner.as_bytes()))
    })?;
    match seen {
        Visibility::Shown => Ok(true),
        Visibility::Hidden | Visibility::Unsure(_) => Ok(false),
        Visibility::Made(shown) => shown,
    }
}

/// True if an entry created in `near` shows here. False if no entry can be created.
fn sees_entry_of(dir: &SftpDir, near: &Dir) -> io::Result<bool> {
    let Ok(marker) = Marker::make(near) else { return Ok(false) };
    let shown = dir.host.has_name(&dir.path_of(marker.name().as_bytes()));
    marker.remove()?;
    shown
}
