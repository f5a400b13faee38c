//! Protected entries: those that a mirror does not remove. Rules protect them, including rules in
//! files of the destination's own directories.

use crate::receiver::check::told_kind;
use crate::receiver::{DirState, RecvDir, Removals, check, is_stage};
use crate::rules::{self, Unruly};
use haul_model::{Asking, Fault, Name, Scope, Side, Subject};
use haul_plan::Kinds;
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;

impl Removals<'_> {
    /// True if the entry `name` at `path` is no extra: rules protect it, it holds backups, or it is
    /// a temporary entry of haul. `is_going`: its directory will be removed.
    pub(in crate::receiver) fn is_spared(
        &self,
        scope: &Scope,
        path: &[u8],
        name: &Name,
        meta: &Meta,
        is_going: bool,
    ) -> bool {
        let is_dir = meta.kind == MetaKind::Dir;
        let subject = Subject { path, is_dir, asking: Asking::Receiver, is_going };
        self.job.filter.leaves_out(&subject, scope)
            || is_stage(&told_kind(meta), Some(name))
            || self.backups.backing.as_ref().is_some_and(|backing| backing.is_root(meta))
    }

    /// The rules for the entries of `dir`, including those of rule files in `dir`.
    ///
    /// # Errors
    /// If `dir` can't be read or a rule file in it was skipped: then nothing in `dir` may be
    /// removed.
    pub(in crate::receiver) fn scope_of(
        &self,
        dir: &dyn TreeDir,
        above: &Scope,
        front: &[u8],
    ) -> io::Result<Scope> {
        let scope = self.scope_as_far_as_read(dir, above, front)?;
        Unruly::passed_over(&scope).map_or(Ok(scope), |unruly| Err(unusable(&unruly)))
    }

    fn scope_as_far_as_read(
        &self,
        dir: &dyn TreeDir,
        above: &Scope,
        front: &[u8],
    ) -> io::Result<Scope> {
        match self.job.filter.needs_whole_paths() {
            true => {
                rules::enter(&self.job.filter, above, dir, front).map_err(|error| unusable(&error))
            }
            false => Ok(Scope::default()),
        }
    }

    /// True if directories that are not empty may be replaced.
    pub(in crate::receiver) fn makes_way(&self) -> bool {
        self.job.plan.replaces == Kinds::All
    }

    /// Records the entries of `dir`, if the job looks for extras. If a rule file was skipped,
    /// reports that; then nothing in `dir` is removed.
    ///
    /// # Errors
    /// If the rules of the directory are unknown: then nothing can be done in it.
    pub(in crate::receiver) fn expect_extras(&self, dir: &RecvDir) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let (finds, makes_way) = (self.job.task.finds_extras(), self.makes_way());
        if dir.fresh || !(finds || makes_way) || self.is_elsewhere(dir) {
            return Ok(());
        }
        // The rules as they are before anything is copied.
        let above = dir.parent.as_ref().map(|above| above.scope()).unwrap_or_default();
        let front = dir.front();
        let scope = node
            .handle()
            .and_then(|handle| self.scope_as_far_as_read(&*handle, &above, &front))
            .map_err(|error| Fault::from_io(Side::Destination, "read the directory", &error))?;
        if let Some(unruly) = Unruly::passed_over(&scope)
            && (self.job.removes_extras() || !finds)
        {
            self.job.fail_late(&dir.path_of(None), unruly.fault(Side::Destination));
        }
        dir.begin_with(scope);
        if !finds {
            return Ok(());
        }
        match check::names_in(node) {
            Ok(names) => {
                let tells_apart = node.handle().is_ok_and(|handle| {
                    handle.capabilities().tells_objects && handle.tells_names_apart()
                });
                *dir.listed.lock() = (!tells_apart).then(Vec::new);
                *dir.unlisted.lock() = Some(names);
            }
            // The job that removes extras reports it.
            Err(_) if !self.job.removes_extras() => {}
            Err(error) => {
                let fault = Fault::from_io(Side::Destination, "read the directory", &error);
                self.job.fail_late(&dir.path_of(None), fault);
            }
        }
        Ok(())
    }
}

fn unusable(unruly: &Unruly) -> io::Error {
    io::Error::other(unruly.fault(Side::Destination).message)
}
