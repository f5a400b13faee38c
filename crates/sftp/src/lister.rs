//! Lists directories ahead, so that the listings of different ones overlap. [`plan`] decides their
//! order and bounds.

mod plan;
#[cfg(test)]
mod tests;

use crate::{Client, DirEntry, Result};
use parking_lot::{Condvar, Mutex};
use plan::{DIR_ENTRIES_MAX, DirState, Plan};
use std::sync::Arc;
use std::thread;

/// Most threads of one lister. A directory takes two round trips, so with one of 50 ms it lists 80
/// directories a second.
const THREADS_MAX: usize = 8;

/// Lists directories in the background, in the order of a depth-first walk: those of the latest
/// call of [`Self::ahead`] first.
///
/// Listings that are not taken yet are bounded: 1,024 directories and 131,072 entries in total, and
/// 64 directories per call. Directories that are being listed come on top, with at most 32,768
/// entries each. At a bound the threads wait until a listing is taken. [`Self::list`] never waits
/// for that.
///
/// The threads start when there is work. They end after their current listing when this is dropped.
/// They keep no process alive.
pub struct Lister(Arc<Listings>);

struct Listings {
    client: Client,
    threads_max: usize,
    plan: Mutex<Plan>,
    /// Notified when there is a directory to list, or room for one, and at the end.
    work: Condvar,
    /// Notified when a listing is done.
    listed: Condvar,
}

impl Lister {
    /// A lister with up to `threads` threads, at least 1 and at most 8.
    pub fn new(client: &Client, threads: usize) -> Self {
        Self(Arc::new(Listings {
            client: client.clone(),
            threads_max: threads.clamp(1, THREADS_MAX),
            plan: Mutex::default(),
            work: Condvar::new(),
            listed: Condvar::new(),
        }))
    }

    /// Queues directories in the order in which [`Self::list`] will be called for them, before
    /// those of earlier calls. The paths are kept until they are taken.
    pub fn ahead(&self, paths: impl IntoIterator<Item = Vec<u8>>) {
        let paths: Vec<Arc<[u8]>> = paths.into_iter().map(Arc::from).collect();
        let shared = &self.0;
        let mut plan = shared.plan.lock();
        plan.add(paths);
        let needed = plan.queued().saturating_sub(plan.idle);
        let threads_max = shared.threads_max.min(plan.threads + needed);
        while plan.threads < threads_max {
            let working = Arc::clone(shared);
            let spawned =
                thread::Builder::new().name("sftp-list".into()).spawn(move || working.list_ahead());
            if spawned.is_err() {
                // The callers then list the directories themselves.
                break;
            }
            plan.threads += 1;
        }
        shared.work.notify_all();
    }

    /// The entries of a directory; see [`Client::list`]. A listing made ahead is returned once. It
    /// may be as old as the call of [`Self::ahead`].
    pub fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>> {
        let mut plan = self.0.plan.lock();
        loop {
            match plan.take(path) {
                DirState::Listed(listed) => {
                    self.0.work.notify_all();
                    return listed;
                }
                DirState::InProgress => self.0.listed.wait(&mut plan),
                DirState::Queued => break,
            }
        }
        drop(plan);
        self.0.client.list(path)
    }
}

impl Drop for Lister {
    fn drop(&mut self) {
        *self.0.plan.lock() = Plan::closed();
        self.0.work.notify_all();
    }
}

impl Listings {
    /// The loop of each thread.
    fn list_ahead(&self) {
        let mut plan = self.plan.lock();
        while !plan.is_closed {
            let Some(begun) = plan.begin() else {
                plan.idle += 1;
                self.work.wait(&mut plan);
                // A closed plan has its counts reset.
                plan.idle = plan.idle.saturating_sub(1);
                continue;
            };
            drop(plan);
            let mut work = Work { shared: self, path: begun, listed: None };
            work.listed = self.client.list_up_to(&work.path, DIR_ENTRIES_MAX).transpose();
            drop(work);
            plan = self.plan.lock();
        }
    }
}

/// A directory that is being listed. Dropping it notifies waiting callers, whatever the result.
struct Work<'a> {
    shared: &'a Listings,
    path: Arc<[u8]>,
    listed: Option<Result<Vec<DirEntry>>>,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.shared.plan.lock().finish(&self.path, self.listed.take());
        self.shared.listed.notify_all();
    }
}
