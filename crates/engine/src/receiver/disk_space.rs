//! Messages about a full destination: the space that a file needs, the free space, and the size of
//! its partial file.

use super::{DirState, JobContext, Pending};
use haul_model::{Fault, escape_bytes, format_size};
use haul_sys::FreeSpace;
use haul_tree::TreeDir;

/// Adds to the fault of a full file system the space that the file needs and, if known, the free
/// space. `moved` bytes of the file have arrived.
pub(super) fn with_space_details(
    job: &JobContext<'_>,
    fault: Fault,
    pending: &Pending,
    moved: u64,
) -> Fault {
    let dir = match &pending.dir.state {
        DirState::Open(node) => node.handle().ok(),
        _ => None,
    };
    let free_space = dir.as_ref().and_then(|dir| dir.free_space());
    let free_space = space_message(pending.entry.size(), free_space);
    let kept = dir.map(|dir| partial_file_message(job, &*dir, pending, moved)).unwrap_or_default();
    let message = format!("{}: {free_space}{kept}", fault.message);
    Fault { message, ..fault }
}

/// The message about the partial file in `dir`; empty if there is none.
fn partial_file_message(
    job: &JobContext<'_>,
    dir: &dyn TreeDir,
    pending: &Pending,
    moved: u64,
) -> String {
    let Some(source) = job.resumable(&pending.entry) else { return String::new() };
    let part = dir.kept(&pending.name, &source);
    let (len, place) = match &part {
        Some(part) => (part.len, format!(" as {}", escape_bytes(&part.path))),
        None => (pending.recorded_len.unwrap_or(moved), String::new()),
    };
    if len == 0 {
        return String::new();
    }
    let kept = format_size(len);
    format!("; {kept} are kept for resuming, and occupy space{place}")
}

/// The message about needed and, if known, free bytes. Without free inodes, it names only these.
fn space_message(needed: u64, free_space: Option<FreeSpace>) -> String {
    let needs = format!("the file needs {}", format_size(needed));
    let free = match free_space {
        None => return needs,
        Some(free_space) if free_space.bytes > needed && free_space.is_out_of_inodes() => {
            let inodes = free_space.inodes.unwrap_or(0);
            return format!("each file needs an inode, but {inodes} are free");
        }
        // A quota is exceeded, or another file took the space.
        Some(free_space) if free_space.bytes > needed => return needs,
        Some(free_space) => free_space.bytes,
    };
    match format_size(needed) == format_size(free) {
        // With units, both numbers would look the same.
        true => format!("the file needs {needed} bytes, but {free} are free"),
        false => format!("{needs}, but {} are free", format_size(free)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_named_in_units_unless_they_hide_the_difference() {
        const GIB: u64 = 1 << 30;
        for (needed, free, words) in [
            (GIB + GIB / 5, None, "the file needs 1.2 GiB"),
            (GIB + GIB / 5, Some(300 << 20), "the file needs 1.2 GiB, but 300.0 MiB are free"),
            (10, Some(0), "the file needs 10 B, but 0 B are free"),
            (GIB, Some(GIB - 1), "the file needs 1073741824 bytes, but 1073741823 are free"),
            (GIB, Some(3 * GIB), "the file needs 1.0 GiB"),
        ] {
            let free_space = free.map(|bytes| FreeSpace { bytes, inodes: Some(1 << 20) });
            assert_eq!(space_message(needed, free_space), words);
        }
    }

    #[test]
    fn missing_inodes_are_named_in_place_of_bytes() {
        let words = space_message(3, Some(FreeSpace::new(900 << 10, 30, 0)));
        assert_eq!(words, "each file needs an inode, but 0 are free");
        // Btrfs counts no inodes.
        let words = space_message(3, Some(FreeSpace::new(0, 0, 0)));
        assert_eq!(words, "the file needs 3 B, but 0 B are free");
    }
}
