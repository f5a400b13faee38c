//! Looks at places before the listing comes to them, where somebody has time for that.

use super::Receiver;
use super::dirs::{DirState, RecvDir};
use crate::dirs::DirNode;
use crate::prefetch::Prefetched;
use haul_model::Name;
use haul_tree::{Meta, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What was found for directories that will be listed, by their numbers.
#[derive(Default)]
pub(super) struct Prefetching(Mutex<VecDeque<(u64, Prefetched)>>);

impl Prefetching {
    /// Keeps what was found for the directory of this number.
    pub(super) fn keep(&self, index: u64, prefetched: Prefetched) {
        lock(&self.0).push_back((index, prefetched));
    }

    /// What was found for the directory of this number. Those before it are not needed
    /// any more.
    pub(super) fn take(&self, index: u64) -> Option<Prefetched> {
        let mut kept = lock(&self.0);
        while kept.front().is_some_and(|(at, _)| *at < index) {
            kept.pop_front();
        }
        let is_there = kept.front().is_some_and(|(at, _)| *at == index);
        if is_there { kept.pop_front().map(|(_, prefetched)| prefetched) } else { None }
    }
}

impl Receiver<'_> {
    /// See [`ReceiverPort::prefetch`](crate::link::ReceiverPort::prefetch).
    pub(super) fn look_ahead(
        &self,
        above: u64,
        name: &Name,
        entries: &mut dyn Iterator<Item = &Name>,
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
}

impl RecvDir {
    /// The metadata that was found under `name` a moment ago, if somebody looked ahead.
    pub(super) fn prefetched(&self, name: &Name) -> Option<Meta> {
        lock(&self.prefetched).as_mut()?.take(name)
    }

    /// All entries that were looked up have been listed.
    pub(super) fn forget_prefetched(&self) {
        *lock(&self.prefetched) = None;
    }
}
