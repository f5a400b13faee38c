//! Looks at places before the listing comes to them, where somebody has time for that.

use super::Receiver;
use super::dirs::{DirState, RecvDir};
use crate::dirs::DirNode;
use crate::prefetch::{Names, Prefetched};
use haul_model::Name;
use haul_tree::{Meta, TreeDir, lock};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Directories that were looked at ahead and will be listed next, by their numbers.
#[derive(Default)]
pub(super) struct Prefetching(VecDeque<(u64, Prefetched)>);

impl Prefetching {
    /// Keeps the directory of this number.
    pub(super) fn keep(&mut self, index: u64, prefetched: Prefetched) {
        self.0.push_back((index, prefetched));
    }

    /// Takes out the directory of this number. Those before it are not needed any more.
    pub(super) fn take(&mut self, index: u64) -> Option<Prefetched> {
        let passed = self.0.iter().take_while(|(at, _)| *at < index).count();
        self.0.drain(..passed);
        let is_next = self.0.front().is_some_and(|(at, _)| *at == index);
        if is_next { self.0.pop_front().map(|(_, prefetched)| prefetched) } else { None }
    }
}

impl Receiver<'_> {
    /// See [`ReceiverPort::prefetch`](crate::link::ReceiverPort::prefetch).
    pub(super) fn look_ahead(
        &self,
        above: u64,
        name: &Name,
        entries: &mut Names<'_>,
    ) -> Option<Prefetched> {
        // Who removes sources looks at the last moment.
        let is_of_use = !self.checks() && !self.only_removes() && self.policy.moving.is_none();
        if !is_of_use || self.costs_round_trips || (above == 0 && self.rename.is_some()) {
            return None;
        }
        let open = lock(&self.listing).open.iter().find(|(at, _)| *at == above)?.1.clone();
        let DirState::Open(parent) = &open.state else { return None };
        // Nothing is in one that was made by the job but what the job puts there.
        if open.fresh {
            return None;
        }
        let node = DirNode::open(parent, name.clone(), false).ok()?;
        let handle = node.handle().ok()?;
        // An entry of another name may be published in the place of one that was looked at.
        if !handle.tells_names_apart() {
            return None;
        }
        let look = |name: &Name| self.look_at(&*handle, name).ok()?;
        Some(Prefetched::of(Arc::clone(&node), entries, look))
    }

    /// The metadata of what stands under `name` in `dir`, whose handle this is.
    pub(super) fn existing_in(
        &self,
        dir: &RecvDir,
        handle: &dyn TreeDir,
        name: &Name,
    ) -> io::Result<Option<Meta>> {
        match dir.prefetched(name) {
            _ if dir.fresh => Ok(None),
            Some(prefetched) => Ok(Some(prefetched)),
            None => self.look_at(handle, name),
        }
    }
}

impl RecvDir {
    /// The metadata that was found under `name` a moment ago, if somebody looked ahead.
    fn prefetched(&self, name: &Name) -> Option<Meta> {
        lock(&self.prefetched).as_mut()?.take(name)
    }

    /// All entries that were looked up have been listed.
    pub(super) fn forget_prefetched(&self) {
        *lock(&self.prefetched) = None;
    }
}
