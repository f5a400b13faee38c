//! Sealing: sets the attributes of directories, once everything in them is done.

use crate::dirs::DirNode;
use crate::receiver::decision::kept_or_updated;
use crate::receiver::owners::loss_check;
use crate::receiver::{DirState, JobContext, Owners, RecvDir, Times};
use haul_model::{Attributes, Changes, Entry, Fault, Kept, Outcome, Side, Skip};
use haul_tree::{PendingOperation, TreeDir};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Maximum number of directories whose attributes are being set.
const SEALING_MAX: usize = 256;

/// The mode bits that the owner of a directory needs to reach its entries.
const OWNER_SEARCH: u32 = 0o100;

/// Sets the attributes of directories.
pub(crate) struct Sealing<'a> {
    pub(crate) job: Arc<JobContext<'a>>,
    pub(crate) owners: Arc<Owners<'a>>,
    pub(crate) times: Arc<Times<'a>>,
    /// Directories whose attributes a server is setting.
    pub(crate) queue: Mutex<VecDeque<(Arc<RecvDir>, PendingOperation)>>,
}

impl<'a> Sealing<'a> {
    pub(crate) fn of(times: &Arc<Times<'a>>) -> Arc<Self> {
        let (job, owners) = (Arc::clone(&times.job), Arc::clone(&times.owners));
        Arc::new(Self { job, owners, times: Arc::clone(times), queue: Mutex::default() })
    }
}

impl Sealing<'_> {
    /// Sets the attributes of `dir`. A directory without changes that already has them is skipped.
    pub(crate) fn seal(&self, dir: &Arc<RecvDir>) {
        let (DirState::Open(node), Some(attributes)) = (&dir.state, &dir.attributes) else {
            return;
        };
        if self.job.plan.dry_run || self.job.control.stopped() {
            return;
        }
        let keeps = dir.attributes_to_set(self.job.kept_of_dirs());
        let was_cleaned = || node.handle().is_ok_and(|handle| handle.was_cleaned());
        let which = match dir.is_touched() || was_cleaned() {
            true => keeps,
            false => match self.changes_of_dir(node, attributes) {
                Ok(found) => found.attributes(keeps),
                Err(error) => return self.not_sealed(dir, &error),
            },
        };
        if which.is_empty() {
            return;
        }
        if attributes.mode & OWNER_SEARCH != OWNER_SEARCH {
            // With this mode, nothing below the directory can be reached.
            self.wait_for_sealing(0);
        }
        let set = node.handle().and_then(|handle| {
            handle.set_attributes(&*self.with_protected_of(&*handle, attributes)?, which)
        });
        match set {
            Ok(None) => {}
            Ok(Some(later)) => self.queue.lock().push_back((Arc::clone(dir), later)),
            Err(error) => self.not_sealed(dir, &error),
        }
        self.wait_for_sealing(SEALING_MAX);
    }

    /// The outcome of a directory that was opened or created. `gets_attributes`: it gets attributes
    /// of the source.
    pub(crate) fn dir_outcome(
        &self,
        parent: &RecvDir,
        entry: &Entry,
        state: &DirState,
        outcome: Outcome,
        gets_attributes: bool,
    ) -> Outcome {
        match (&outcome, state) {
            (Outcome::Copied | Outcome::WouldCopy | Outcome::Skipped(Skip::Unchanged), _)
                if entry.is_implied_dir =>
            {
                Outcome::Skipped(Skip::Unchanged)
            }
            // An earlier source brought the directory, and its outcome was counted then.
            (Outcome::WouldCopy | Outcome::Skipped(Skip::Unchanged), _) if entry.is_repeated => {
                Outcome::Skipped(Skip::Unchanged)
            }
            (Outcome::Skipped(_) | Outcome::Copied | Outcome::WouldCopy, _)
                if self.job.only_removes() =>
            {
                self.job.removal_only_outcome(outcome == Outcome::Skipped(Skip::Unchanged))
            }
            (Outcome::Skipped(Skip::Unchanged), DirState::Open(node)) if gets_attributes => {
                match self.changes_of_dir(node, &entry.attributes) {
                    Ok(found) => match self.probe(node, &entry.attributes, found) {
                        Ok(()) => kept_or_updated(found),
                        Err(error) => Outcome::Failed(self.not_set(&error)),
                    },
                    Err(error) => Outcome::Failed(Fault::from_io(
                        Side::Destination,
                        "read the directory's attributes",
                        &error,
                    )),
                }
            }
            _ => self.job.as_synced(outcome, self.changes_of_new(parent, entry)),
        }
    }

    /// Sets the time of a directory whose time differs. This shows, before the outcome is reported,
    /// whether its attributes can be set. The final ones are set at the end.
    fn probe(
        &self,
        node: &Arc<DirNode>,
        attributes: &Attributes,
        found: Changes,
    ) -> io::Result<()> {
        let is_tried =
            found.has(Changes::TIME) && self.job.ends.tests_dir_times && !self.job.plan.dry_run;
        if is_tried {
            node.handle()?.set_attributes(attributes, Kept::TIMES)?;
        }
        Ok(())
    }

    /// The differences of `node`, as it was opened, from `attributes`.
    pub(crate) fn changes_of_dir(
        &self,
        node: &Arc<DirNode>,
        attributes: &Attributes,
    ) -> io::Result<Changes> {
        let there = self.job.round_mtime(node.meta().clone());
        let there = self.job.with_extended(&*node.handle()?, None, there)?;
        let mtime = self.times.stored_time(attributes.mtime, node, Some(&there));
        let listed = Attributes { mtime, ..attributes.clone() };
        let listed = self.owners.with_protected(&listed, Some(&there.attributes));
        Ok(listed.changes(&there.attributes, self.job.kept_of_dirs()))
    }

    /// Adds to `attributes` the extended attributes of `handle` that the rules protect.
    fn with_protected_of<'a>(
        &self,
        handle: &dyn TreeDir,
        attributes: &'a Attributes,
    ) -> io::Result<Cow<'a, Attributes>> {
        if !self.job.filter.has_rules_of_xattrs() {
            return Ok(Cow::Borrowed(attributes));
        }
        let extended = handle.extended(None, Kept::XATTRS)?;
        let there = Attributes { extended, ..attributes.clone() };
        Ok(self.owners.with_protected(attributes, Some(&there)))
    }

    /// Waits for pending changes of directories' attributes, until at most `left` are pending.
    pub(crate) fn wait_for_sealing(&self, left: usize) {
        loop {
            let next = {
                let mut sealing = self.queue.lock();
                if sealing.len() > left { sealing.pop_front() } else { None }
            };
            let Some((dir, wait)) = next else { return };
            if let Err(error) = wait()
                && !self.job.control.stopped()
            {
                self.not_sealed(&dir, &error);
            }
        }
    }

    fn not_sealed(&self, dir: &RecvDir, error: &io::Error) {
        self.job.fail_late(&dir.path_of(None), self.not_set(error));
    }

    fn not_set(&self, error: &io::Error) -> Fault {
        loss_check::not_kept(self.job.plan.moving, "set the directory's attributes", error)
    }
}

impl Sealing<'_> {
    /// The changes that are reported for a new directory, compared with the base directories.
    pub(crate) fn changes_of_new(&self, parent: &RecvDir, entry: &Entry) -> Changes {
        let open = |base: &Arc<DirNode>| match &entry.name {
            Some(name) => DirNode::open(base, name.clone(), false),
            None => Ok(Arc::clone(base)),
        };
        let mut first = None;
        for base in parent.bases() {
            let opened = open(base);
            let found = opened.and_then(|node| {
                let entry = self.job.with_mode(entry, parent, node.meta());
                self.changes_of_dir(&node, &entry.attributes)
            });
            let Ok(found) = found else { continue };
            if found.is_empty() {
                return Changes::LOCAL;
            }
            first = first.or(Some(found.with(Changes::LOCAL)));
        }
        first.unwrap_or(Changes::MISSING)
    }
}
