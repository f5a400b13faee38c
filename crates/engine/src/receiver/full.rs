//! Messages about a full destination: the space that a file needs, the free space, and the size of
//! its partial file.

use super::providers::Provider;
use super::{DirState, Filler, JobContext, Pending};
use haul_model::{BLOCK_LEN, Fault, FaultKind, Side, Updating, escape_bytes, size_words};
use haul_sys::Room;
use haul_tree::TreeDir;

/// The fault of a large file for which there is clearly no space, before any of it is sent. `None`
/// if space may become free, or the file is updated in place or may share an old version.
pub(super) fn lacks_room(filler: &Filler<'_>, file: &Pending) -> Option<Fault> {
    let Pending { dir, entry, resumed, staging, .. } = file;
    let may_take_less = filler.job.plan.delete.is_some()
        || filler.publisher.removals.makes_way()
        || filler.job.plan.updating != Updating::Replaces;
    let is_plain = filler.job.ends.saves_sending
        && filler.job.resumable(entry).is_some()
        && !filler.job.may_have_holes(entry)
        && staging.is_none()
        && !filler.providers.versions.may_have(filler, file)
        && !may_take_less;
    let (true, DirState::Open(node)) = (is_plain, &dir.state) else { return None };
    let there = node.handle().ok()?.system_handle().ok()?;
    let missing = entry.size().saturating_sub(resumed.saturating_mul(BLOCK_LEN));
    haul_sys::has_no_room(&there, missing).then(|| {
        let fault = Fault::new(Side::Destination, FaultKind::NoSpace, "not enough space");
        with_room(&filler.job, fault, file, 0)
    })
}

/// Adds to the fault of a full file system the space that the file needs and, if known, the free
/// space. `moved` bytes of the file have arrived.
pub(super) fn with_room(
    job: &JobContext<'_>,
    fault: Fault,
    pending: &Pending,
    moved: u64,
) -> Fault {
    let dir = match &pending.dir.state {
        DirState::Open(node) => node.handle().ok(),
        _ => None,
    };
    let room = dir.as_ref().and_then(|dir| dir.room());
    let room = room_words(pending.entry.size(), room);
    let kept = dir.map(|dir| kept_of(job, &*dir, pending, moved)).unwrap_or_default();
    let message = format!("{}: {room}{kept}", fault.message);
    Fault { message, ..fault }
}

/// The message about the partial file in `dir`; empty if there is none.
fn kept_of(job: &JobContext<'_>, dir: &dyn TreeDir, pending: &Pending, moved: u64) -> String {
    let Some(source) = job.resumable(&pending.entry) else { return String::new() };
    let part = dir.kept(&pending.name, &source);
    let (len, place) = match &part {
        Some(part) => (part.len, format!(" as {}", escape_bytes(&part.path))),
        None => (pending.on_record.unwrap_or(moved), String::new()),
    };
    if len == 0 {
        return String::new();
    }
    let kept = size_words(len);
    format!("; {kept} are kept for resuming, and occupy space{place}")
}

/// The message about needed and, if known, free bytes. Without free inodes, it names only these.
fn room_words(needed: u64, room: Option<Room>) -> String {
    let needs = format!("the file needs {}", size_words(needed));
    let free = match room {
        None => return needs,
        Some(room) if room.bytes > needed && room.lacks_inodes() => {
            let inodes = room.inodes.unwrap_or(0);
            return format!("each file needs an inode, but {inodes} are free");
        }
        Some(room) => room.bytes,
    };
    match size_words(needed) == size_words(free) {
        // With units, both numbers would look the same.
        true => format!("the file needs {needed} bytes, but {free} are free"),
        false => format!("{needs}, but {} are free", size_words(free)),
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
        ] {
            let room = free.map(|bytes| Room { bytes, inodes: Some(1 << 20) });
            assert_eq!(room_words(needed, room), words);
        }
    }

    #[test]
    fn missing_inodes_are_named_in_place_of_bytes() {
        let words = room_words(3, Some(Room::new(900 << 10, 30, 0)));
        assert_eq!(words, "each file needs an inode, but 0 are free");
        // Btrfs counts no inodes.
        let words = room_words(3, Some(Room::new(0, 0, 0)));
        assert_eq!(words, "the file needs 3 B, but 0 B are free");
    }
}
