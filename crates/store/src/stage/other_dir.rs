//! Files that are staged in another directory than that of the final name. A file is renamed into
//! that directory, or copied to a second stage there if it is on another file system.

use crate::content::copy_content;
use crate::private::as_name;
use crate::stage::PrivateName;
use crate::{OnExisting, Publication, Stage};
use haul_model::{Kept, Name};
use haul_sys::Dir;
use std::fs::File;
use std::io;
use std::sync::Arc;

impl Stage {
    /// Creates a file in `dir` for a name in `dest`, which may be on another file system.
    ///
    /// # Errors
    /// Errors of creating a file.
    pub fn create_for(dir: Arc<Dir>, dest: Arc<Dir>) -> io::Result<Self> {
        Ok(Self { dest: Some(dest), ..Self::create(dir)? })
    }
}

impl PrivateName {
    /// Renames it to `name` in `dir`. `None` if that is on another file system.
    pub(crate) fn publish_in(
        &mut self,
        dir: &Dir,
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Option<Publication>> {
        let replaces = on_existing == OnExisting::Replace;
        let renamed = self.dir.rename_to(&as_name(&self.name), dir, name, replaces);
        self.published = renamed.is_ok();
        match Publication::of(renamed, on_existing) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Ok(None),
            published => published.map(Some),
        }
    }
}

/// Copies `file`, which can't get a name in `dir`, with its metadata to `stage` in `dir`. The copy
/// is flushed, because the original may have been.
pub(crate) fn copy_to(dir: &Dir, stage: Stage, file: &File) -> io::Result<Stage> {
    let stat = dir.stat_of(file)?;
    haul_sys::read_cached(file);
    copy_content(file, &stage.file, stat.size)?;
    haul_sys::check_by_closing(&stage.file)?;
    let extended = dir.extended_of(file, Kept::EXTENDED)?;
    let (mut attributes, mut kept) = (stat.attributes(), Kept::ALL);
    attributes.extended = extended;
    let same = dir.stat_of(&stage.file)?;
    if (same.uid, same.gid) == (stat.uid, stat.gid) {
        kept = kept.without(Kept::OWNER);
    }
    haul_sys::set_attributes(dir, &stage.file, &attributes, kept)?;
    stage.file.sync_all()?;
    Ok(stage)
}
