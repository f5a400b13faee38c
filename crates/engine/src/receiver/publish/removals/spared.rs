//! Protected entries: those that a mirror does not remove. Rules protect them, including rules in
//! files of the destination's own directories.

use super::reported_kind;
use crate::receiver::dirs::names_in;
use crate::receiver::{DirState, RecvDir, Removals, is_stage};
use crate::rules;
use crate::rules::RuleFileError;
use haul_model::{Fault, FilterSide, Name, OrFault, Scope, Side, Subject};
use haul_plan::Kinds;
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;

impl Removals<'_> {
    /// True if the entry `name` at `path` is no extra: rules protect it, it holds backups, or it is
    /// a temporary entry of haul. `is_being_removed`: its directory will be removed.
    pub(in crate::receiver) fn is_protected(
        &self,
        scope: &Scope,
        path: &[u8],
        name: &Name,
        meta: &Meta,
        is_being_removed: bool,
    ) -> bool {
        let is_dir = meta.kind == MetaKind::Dir;
        let subject = Subject { path, is_dir, side: FilterSide::Receiver, is_being_removed };
        self.job.filter.excludes(&subject, scope)
            || is_stage(&reported_kind(meta), Some(name))
            || self.backups.location.as_ref().is_some_and(|location| location.is_root(meta))
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
        path_prefix: &[u8],
    ) -> io::Result<Scope> {
        let scope = self.partial_scope(dir, above, path_prefix)?;
        RuleFileError::skipped_files(&scope).map_or(Ok(scope), |unruly| Err(unusable(&unruly)))
    }

    fn partial_scope(
        &self,
        dir: &dyn TreeDir,
        above: &Scope,
        path_prefix: &[u8],
    ) -> io::Result<Scope> {
        match self.job.filter.needs_whole_paths() {
            true => rules::enter(&self.job.filter, above, dir, path_prefix)
                .map_err(|error| unusable(&error)),
            false => Ok(Scope::default()),
        }
    }

    /// True if directories that are not empty may be replaced.
    pub(in crate::receiver) fn replaces_dirs(&self) -> bool {
        self.job.plan.replaces == Kinds::All
    }

    /// Records the entries of `dir`, if the job looks for extras. If a rule file was skipped,
    /// reports that; then nothing in `dir` is removed.
    ///
    /// # Errors
    /// If the rules of the directory are unknown: then nothing can be done in it.
    pub(in crate::receiver) fn record_existing_names(&self, dir: &RecvDir) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let (finds, replaces_dirs) = (self.job.plan.finds_extras, self.replaces_dirs());
        if dir.fresh || !(finds || replaces_dirs) || self.is_on_other_file_system(dir) {
            return Ok(());
        }
        // The rules as they are before anything is copied.
        let above = dir.parent.as_ref().map(|above| above.scope()).unwrap_or_default();
        let path_prefix = dir.path_prefix();
        let scope = node
            .handle()
            .and_then(|handle| self.partial_scope(&*handle, &above, &path_prefix))
            .or_fault(Side::Destination, "read the directory")?;
        if let Some(unruly) = RuleFileError::skipped_files(&scope)
            && (self.job.removes_extras() || !finds)
        {
            self.job.fail_late(&dir.path_of(None), unruly.fault(Side::Destination));
        }
        dir.set_rules(scope);
        if !finds {
            return Ok(());
        }
        match names_in(node) {
            Ok(names) => {
                let tells_apart = node.handle().is_ok_and(|handle| {
                    handle.capabilities().has_object_ids && handle.has_distinct_names()
                });
                *dir.extras.listed.lock() = (!tells_apart).then(Vec::new);
                *dir.extras.unlisted.lock() = Some(names);
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

fn unusable(unruly: &RuleFileError) -> io::Error {
    io::Error::other(unruly.fault(Side::Destination).message)
}
