//! Claims: the objects of a directory that belong to entries of the job. On a file system where two
//! names may be the same, they show that a name is taken.

use haul_model::FileId;
use haul_tree::{Meta, TreeDir};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;

/// The objects of one directory that belong to entries of the job.
#[derive(Default)]
pub(crate) struct Claims(Mutex<Claimed>);

#[derive(Default)]
struct Claimed {
    entries: HashMap<FileId, Claim>,
    /// The number of names of each object with several names in the directory. Read when first
    /// needed.
    links: Option<HashMap<FileId, u32>>,
}

/// The job's use of an object.
#[derive(Default, Clone, Copy)]
struct Claim {
    /// The number of entries whose name led to the object, plus the one that brought it.
    entries: u32,
    /// An entry created the object, or renamed it into the directory.
    is_brought: bool,
}

impl Claims {
    /// Records that an entry's name leads to the object `id` of `dir`; `false` if the object
    /// belongs to another entry.
    pub(crate) fn find(&self, id: FileId, dir: &dyn TreeDir) -> bool {
        let mut claimed = self.0.lock();
        let claim = claimed.entries.entry(id).or_default();
        claim.entries += 1;
        let entries = claim.entries;
        if entries == 1 {
            return true;
        }
        // Several entries may be hard links to the object.
        let links = claimed.links.get_or_insert_with(|| links(dir).unwrap_or_default());
        links.get(&id).is_some_and(|&names| names >= entries)
    }

    /// True if the object `id` belongs to an entry.
    pub(super) fn has(&self, id: FileId) -> bool {
        self.0.lock().entries.contains_key(&id)
    }

    /// True if an entry brought the object `id` in this job.
    pub(super) fn has_brought(&self, id: FileId) -> bool {
        self.0.lock().entries.get(&id).is_some_and(|claim| claim.is_brought)
    }

    /// Records that an entry brings the object `id`. The count restarts: the number may be that of
    /// a replaced file.
    pub(crate) fn bring(&self, id: FileId) {
        self.0.lock().entries.insert(id, Claim { entries: 1, is_brought: true });
    }
}

/// The objects with several names in `dir`, and the number of names. Uses `stat`, since some file
/// systems make up the object numbers in listings.
fn links(dir: &dyn TreeDir) -> io::Result<HashMap<FileId, u32>> {
    let mut links = HashMap::new();
    for entry in dir.entries()? {
        if haul_store::is_private(&entry.name) {
            continue;
        }
        if let Some(Meta { id: Some(id), .. }) = dir.stat(&entry.name, false)? {
            *links.entry(id).or_insert(0) += 1;
        }
    }
    links.retain(|_, names| *names > 1);
    Ok(links)
}
