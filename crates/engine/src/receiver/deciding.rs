//! Decides about listed files, links and special files: reads the existing entry, asks the plan,
//! and considers the base directories.

use super::decision::{Decision, kept_or_updated};
use super::dirs::is_empty;

use super::self_copy::is_same_object;
use super::{DirState, JobContext, Publisher, RecvDir, metadata, parent_fault};
use crate::dirs::DirNode;
use haul_model::{Changes, Entry, Kind, Meta, MetaKind, Name, Outcome, Skip};
use haul_plan::{Action, Existing, choose_action, non_empty_dir_fault, screen};
use haul_store::OnExisting;
use haul_tree::TreeDir;
use std::io;
use std::sync::Arc;

/// An entry to decide about, with the existing entry at its place.
pub(crate) struct Case<'c> {
    pub(super) dir: &'c RecvDir,
    pub(super) node: &'c Arc<DirNode>,
    pub(super) name: &'c Name,
    pub(super) entry: &'c Entry,
    pub(super) existing: Option<&'c Meta>,
}

/// Decides about entries, by the plan and the existing entries.
pub(crate) struct Decider<'a> {
    pub(super) job: Arc<JobContext<'a>>,
    pub(super) publisher: Arc<Publisher<'a>>,
}

impl<'a> Decider<'a> {
    pub(super) fn of(publisher: &Arc<Publisher<'a>>) -> Arc<Self> {
        Arc::new(Self { job: Arc::clone(&publisher.job), publisher: Arc::clone(publisher) })
    }
}

impl Decider<'_> {
    /// Decides about an entry that is no directory. Returns also the differences of the existing
    /// entry, if outcomes report them. Sets the entry's mode for the destination. An existing file
    /// that is left gets missing attributes.
    pub(super) fn decide(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &mut Entry,
    ) -> (Decision, Changes) {
        self.decide_about(dir, name, entry, true)
    }

    /// Like [`Self::decide`], but an entry that is left gets attributes only if it
    /// `updates_attributes` in its place.
    pub(super) fn decide_about(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &mut Entry,
        updates_attributes: bool,
    ) -> (Decision, Changes) {
        let settled = |outcome| (Decision::Settled(outcome), Changes::default());
        let decided = match &dir.state {
            DirState::Open(node) => self.decide_in(dir, node, name, entry, updates_attributes),
            DirState::Failed => return settled(Outcome::Failed(parent_fault())),
            DirState::Absent => self.decide_in_absent(dir, name, entry),
            DirState::Ruled => return settled(Outcome::Skipped(Skip::Ruled)),
        };
        metadata(decided).unwrap_or_else(|fault| settled(Outcome::Failed(fault)))
    }

    fn decide_in(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        entry: &mut Entry,
        updates_attributes: bool,
    ) -> io::Result<(Decision, Changes)> {
        let handle = node.handle()?;
        let existing = self.job.existing_in(dir, &*handle, name)?;
        let existing = existing.as_ref();
        if let Some(existing) = existing
            && let Err(fault) = self.publisher.naming.check_claim(dir, &*handle, name, existing)
        {
            return Ok((Decision::Settled(Outcome::Failed(fault)), Changes::default()));
        }
        self.job.set_mode(entry, dir, existing);
        let mtime = entry.attributes.mtime;
        let entry = &*self.publisher.times.as_kept(entry, node, existing);
        let target = match existing {
            Some(meta) if !self.job.plan.keeps_existing => target_of(&*handle, name, entry, meta)?,
            _ => None,
        };
        let there = existing.map(|meta| Existing {
            meta,
            target: target.as_deref(),
            is_source: is_same_object(entry, meta.id),
            is_link_target: is_link_target(&*handle, name, entry, meta),
        });
        let case = Case { dir, node, name, entry, existing };
        let (decision, found) = match screen(&self.job.plan, entry, mtime, there) {
            Ok(found) => match self.decide_with_bases(&case, found)? {
                Some((Decision::HashBases(bases, _), _)) if existing.is_some_and(Meta::is_file) => {
                    let (otherwise, found) =
                        self.choose_action(&case, found, updates_attributes)?;
                    (Decision::HashBases(bases, Box::new(otherwise)), found)
                }
                Some(decided) => decided,
                None => self.choose_action(&case, found, updates_attributes)?,
            },
            Err(Action::Leave) if updates_attributes => {
                let kept = self.keep_existing(&case, Changes::default())?;
                (Decision::Settled(kept), Changes::default())
            }
            Err(action) => (self.sync_if_skipped(&case, settled(action)), Changes::default()),
        };
        Ok((decision, if self.job.plan.reports_changes { found } else { Changes::default() }))
    }

    /// Applies the plan to an entry whose existing entry differs by `found`.
    fn choose_action(
        &self,
        case: &Case<'_>,
        found: Changes,
        updates_attributes: bool,
    ) -> io::Result<(Decision, Changes)> {
        let Case { node, name, entry, existing, .. } = *case;
        let (action, found) = choose_action(&self.job.plan, entry, existing, found);
        let is_file = matches!(entry.kind, Kind::File { .. });
        let decision = match action {
            Action::Copy(on_existing) => Decision::Copy(on_existing),
            Action::Compare => Decision::Hash,
            Action::ReplaceEmptyDir if is_empty(node, name)? => Decision::Copy(OnExisting::Replace),
            Action::ReplaceEmptyDir => Decision::Settled(Outcome::Failed(non_empty_dir_fault())),
            Action::Leave
                if is_file && self.job.has_lost_content(node, name, entry, existing)? =>
            {
                self.publisher.backups.keep_older(existing.and_then(|existing| existing.id));
                return Ok((Decision::Copy(OnExisting::Replace), found.with(Changes::SENT)));
            }
            Action::Leave if updates_attributes => {
                Decision::Settled(self.keep_existing(case, found)?)
            }
            action => self.sync_if_skipped(case, settled(action)),
        };
        Ok((decision, found))
    }

    /// Decides about an entry whose directory does not exist yet.
    fn decide_in_absent(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> io::Result<(Decision, Changes)> {
        if let Err(action) = screen(&self.job.plan, entry, entry.attributes.mtime, None) {
            return Ok((Decision::Settled(settled(action)), Changes::default()));
        }
        let new = (Decision::Settled(Outcome::WouldCopy), Changes::MISSING.with(Changes::SENT));
        Ok(self.decide_by_bases(dir, name, entry)?.unwrap_or(new))
    }
}

/// The outcome of an entry that is left alone.
fn settled(action: Action) -> Outcome {
    match action {
        Action::Settled(outcome) => outcome,
        _ => Outcome::Skipped(Skip::Unchanged),
    }
}

/// The target of the existing symbolic link, if `entry` is a link, too.
pub(super) fn target_of(
    dir: &dyn TreeDir,
    name: &Name,
    entry: &Entry,
    existing: &Meta,
) -> io::Result<Option<Vec<u8>>> {
    match (&entry.kind, existing.kind) {
        (Kind::Symlink { .. }, MetaKind::Symlink) => dir.read_link(name).map(Some),
        _ => Ok(None),
    }
}

/// True if `entry` is a link that leads to `existing`, which it would replace: from its source, or
/// from its new place in `dir`. Replacing would remove the link's own target.
fn is_link_target(dir: &dyn TreeDir, name: &Name, entry: &Entry, existing: &Meta) -> bool {
    let Kind::Symlink { target } = &entry.kind else { return false };
    existing.kind != MetaKind::Symlink
        && (entry.leads_to.is_some() && entry.leads_to == existing.id || dir.leads_to(target, name))
}

impl Decider<'_> {
    /// In a move, flushes a file before it is skipped, since its source may be removed as
    /// identical. The decision has this `outcome`, or the failure to flush.
    fn sync_if_skipped(&self, case: &Case<'_>, outcome: Outcome) -> Decision {
        let is_kept =
            matches!(outcome, Outcome::Skipped(_)) && case.existing.is_some_and(Meta::is_file);
        let synced = match is_kept && self.job.plan.moving.is_some() {
            true => self.publisher.durability.sync_kept(case.dir, case.node, case.name),
            false => Ok(()),
        };
        Decision::Settled(synced.map_or_else(Outcome::Failed, |()| outcome))
    }

    /// Keeps the content of an entry. A file gets the source's attributes that it lacks, and the
    /// leftovers of an earlier job are removed.
    pub(super) fn keep_existing(&self, case: &Case<'_>, found: Changes) -> io::Result<Outcome> {
        let Case { dir, node, name, entry, existing } = *case;
        let left = kept_or_updated(found);
        if !matches!(entry.kind, Kind::File { .. }) {
            return Ok(left);
        }
        let (naming, durability) = (&self.publisher.naming, &self.publisher.durability);
        let kept = naming.update_attributes(node, name, entry, existing);
        if let Err(fault) = kept.and_then(|()| durability.sync_kept(dir, node, name)) {
            return Ok(Outcome::Failed(fault));
        }
        if let (Some(source), false) = (self.job.resumable(entry), self.job.plan.dry_run)
            && node.handle()?.remove_leftovers(name, &source)
        {
            dir.touch();
        }
        Ok(left)
    }
}
