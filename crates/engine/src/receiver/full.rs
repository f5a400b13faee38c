//! The words about a destination that is full: what a file needs, what there is, and what
//! is kept of it.

use super::dirs::DirState;
use super::{Pending, Receiver};
use haul_model::{Fault, escape_bytes};
use haul_tree::TreeDir;
use std::fmt::Write;

impl Receiver<'_> {
    /// The fault of a full file system, with what a file needs and, as far as the tree
    /// tells, what there is. Of the file `moved` bytes have come.
    pub(super) fn with_room(&self, fault: Fault, pending: &Pending, moved: u64) -> Fault {
        let mut message =
            format!("{}: the file needs {} bytes", fault.message, pending.entry.size());
        let DirState::Open(node) = &pending.dir.state else { return Fault { message, ..fault } };
        let dir = node.handle().ok();
        if let Some(free) = dir.as_ref().and_then(|dir| dir.free_bytes()) {
            // Writing to a string can't fail.
            let _ = write!(message, ", and {free} are free");
        }
        message += &dir.map(|dir| self.kept_of(&*dir, pending, moved)).unwrap_or_default();
        Fault { message, ..fault }
    }

    /// The words about what is kept of a file in `dir`; empty if that is nothing.
    fn kept_of(&self, dir: &dyn TreeDir, pending: &Pending, moved: u64) -> String {
        let Some(source) = self.resumable(&pending.entry) else { return String::new() };
        let part = dir.kept(&pending.name, &source);
        let (len, place) = match &part {
            Some(part) => (part.len, format!(" as {}", escape_bytes(&part.path))),
            None => (moved, String::new()),
        };
        if len == 0 {
            return String::new();
        }
        format!(
            "; {len} bytes of it are kept for the next run to go on from, and occupy space{place}"
        )
    }
}
