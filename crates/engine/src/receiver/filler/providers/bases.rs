//! Base directories: directories on the receiving machine, beside the destination. A mirror looks
//! in them for files that the destination lacks. A file that is identical there is not sent.

use super::{ProbeResult, Provider};
use crate::dirs::{DirNode, OpenDirs};
use crate::link::{SenderPort, SourceHandle};
use crate::receiver::deciding::{Case, target_of};
use crate::receiver::decision::{Base, BaseMethod};
use crate::receiver::dirs::is_empty;
use crate::receiver::filler::{filling, staging};
use crate::receiver::{Decider, Decision, DirState, Filler, Pending, RecvDir, parent_fault};
use crate::{Event, Monitor};
use haul_model::{
    Bases, Changes, Entry, Fault, FaultKind, Kept, Kind, Name, Outcome, Sameness, Side, Skip, words,
};
use haul_plan::changes;
use haul_proto::{Want, Warning};
use haul_store::{OnExisting, Publication};
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;
use std::sync::Arc;

/// Opens the root of each base directory.
pub(crate) fn roots(bases: Vec<Arc<dyn TreeDir>>) -> io::Result<Vec<Arc<DirNode>>> {
    let open = Arc::new(OpenDirs::default());
    bases.into_iter().map(|base| DirNode::root(base, None, &open)).collect()
}

/// Reports the base directories that can't be opened.
pub(crate) fn report_missing(
    missing: Vec<(Vec<u8>, io::Error)>,
    monitor: &dyn Monitor,
    sender: &dyn SenderPort,
) {
    for (path, error) in missing {
        let why = haul_model::os_text(&error);
        let advice = match FaultKind::of(&error) {
            FaultKind::ForeignLink => {
                "; name the path that it points to, or allow such links if you trust all who can make them"
            }
            _ => "",
        };
        let message = format!("can't open it: {why}: skipping it{advice}");
        monitor.event(Event::Warning {
            side: Some(Side::Destination),
            path: &path,
            message: &message,
        });
        sender.warning(Warning { path: words::shown(path), message });
    }
}

/// Provides a file from the base directory in which it was found.
pub(crate) struct BaseDirs;

impl Provider for BaseDirs {
    fn may_have(&self, _: &Filler<'_>, file: &Pending) -> bool {
        file.base.is_some()
    }

    fn probe(&self, filler: &Filler<'_>, mut file: Box<Pending>, _: &mut Vec<Want>) -> ProbeResult {
        if filler.job.ends.queues_names && matches!(file.base, Some((_, BaseMethod::Link))) {
            file.dir.expect_change();
            file.dir.add_pending();
            filler.job.enqueue(move |receiver, _| {
                BaseDirs.bring_from_base(&receiver.filler, *file, 0, false)
            });
            return ProbeResult::Kept;
        }
        if let Some(outcome) = self.link_if_wanted(filler, &mut file, false) {
            return ProbeResult::Settled(filler.linker.settle_listed(&file, outcome));
        }
        self.copy_from_base(filler, file);
        ProbeResult::Kept
    }
}

impl Decider<'_> {
    /// Decides about an entry that a base may have; `None` if no base has it.
    pub(crate) fn decide_with_bases(
        &self,
        case: &Case<'_>,
        found: Changes,
    ) -> io::Result<Option<(Decision, Changes)>> {
        let is_file = matches!(case.entry.kind, Kind::File { .. });
        match (self.job.plan.bases, case.existing) {
            (None, _) => Ok(None),
            (Some(_), None) => self.decide_by_bases(case.dir, case.name, case.entry),
            (Some(Bases::Link | Bases::Copy), Some(existing))
                if is_file && found.has(Changes::KIND) =>
            {
                self.decide_instead(case, existing)
            }
            (Some(Bases::Link), Some(existing)) if is_file => self.decide_to_link(case, existing),
            _ => Ok(None),
        }
    }

    /// Decides about a file that replaces `existing`, an entry of another kind. As with rsync, the
    /// content comes from a base that has it. `None` if no base has it, or `existing` can't be
    /// replaced.
    fn decide_instead(
        &self,
        case: &Case<'_>,
        existing: &Meta,
    ) -> io::Result<Option<(Decision, Changes)>> {
        let replaces_dirs =
            existing.kind != MetaKind::Dir || self.publisher.removals.replaces_dirs();
        if !replaces_dirs && !is_empty(case.node, case.name)? {
            return Ok(None);
        }
        let decided = self.decide_by_bases(case.dir, case.name, case.entry)?;
        Ok(decided.map(|(decision, found)| (decision.replacing(), found)))
    }

    /// Decides about a file whose place has the file `existing`. As with rsync, it becomes a hard
    /// link to a base's file that is identical.
    fn decide_to_link(
        &self,
        case: &Case<'_>,
        existing: &Meta,
    ) -> io::Result<Option<(Decision, Changes)>> {
        let Case { dir, name, entry, .. } = *case;
        let is_it = |base: &Base| {
            let handle = base.0.handle()?;
            let Some(there) = handle.stat(name, false)? else { return Ok(false) };
            Ok::<_, io::Error>(match handle.capabilities().has_object_ids {
                true => there.id.is_some() && there.id == existing.id,
                // Files that look the same count as the same object.
                false => {
                    let (one, other) = (&there.attributes, &existing.attributes);
                    there.kind == existing.kind && one.changes(other, Kept::OF_COPIES).is_empty()
                }
            })
        };
        match self.decide_by_bases(dir, name, entry)? {
            Some((Decision::Base(base, BaseMethod::Link, _), found)) if !is_it(&base)? => {
                Ok(Some((Decision::Base(base, BaseMethod::Link, OnExisting::Replace), found)))
            }
            Some((Decision::HashBases(bases, otherwise), found)) => {
                // Only a file without other differences can be linked to.
                let bases: Vec<_> =
                    bases.into_iter().filter(|(_, found)| found.is_empty()).collect();
                for (base, _) in &bases {
                    if is_it(base)? {
                        return Ok(None);
                    }
                }
                let is_any = !bases.is_empty();
                Ok(is_any.then_some((Decision::HashBases(bases, otherwise), found)))
            }
            _ => Ok(None),
        }
    }

    /// Decides about an entry that the destination lacks, if a base has it. An identical entry is
    /// preferred; else the first with the same content is used.
    pub(crate) fn decide_by_bases(
        &self,
        dir: &RecvDir,
        name: &Name,
        entry: &Entry,
    ) -> io::Result<Option<(Decision, Changes)>> {
        let Some(how) = self.job.plan.bases else { return Ok(None) };
        let is_file = matches!(entry.kind, Kind::File { .. });
        let (mut best, mut other, mut hashed) = (None, None, Vec::new());
        for base in dir.bases() {
            let handle = base.handle()?;
            let Some(there) = self.job.stat_entry(&*handle, name)? else { continue };
            let target = target_of(&*handle, name, entry, &there)?;
            let entry = &self.job.with_mode(entry, dir, &there);
            let entry = self.publisher.times.as_kept(entry, base, Some(&there));
            let found = changes(&entry, &there, target.as_deref(), self.job.plan.keeps);
            if found.has(Changes::KIND) {
                continue;
            }
            if self.job.plan.compare_by == Sameness::Content && entry.size() > 0 {
                if !found.has(Changes::SIZE) {
                    hashed.push((Base(Arc::clone(base)), found));
                }
                other = other.or(Some(found.with(Changes::CONTENT)));
                continue;
            }
            if !self.is_in_base(base, name, &entry, &there, found)? {
                other = other.or(Some(found.with(Changes::LOCAL.only_if(!is_file))));
                continue;
            }
            if found.is_empty() {
                best = Some((base, found));
                break;
            }
            best = best.or(Some((base, found)));
        }
        let Some((base, found)) = best else {
            // The outcome reports the differences from the first base entry of this kind: it may be
            // an earlier version.
            let copied = match hashed.is_empty() {
                true => Decision::Copy(OnExisting::Keep),
                false => Decision::HashBases(hashed, Box::new(Decision::Copy(OnExisting::Keep))),
            };
            return Ok(other.map(|found| (copied, found.with(Changes::SENT))));
        };
        Ok(Some(by_base(how, Base(Arc::clone(base)), found, is_file)))
    }

    /// True if the base's entry `there` can stand for `entry`, from which it differs by `found`.
    fn is_in_base(
        &self,
        base: &Arc<DirNode>,
        name: &Name,
        entry: &Entry,
        there: &Meta,
        found: Changes,
    ) -> io::Result<bool> {
        if !matches!(entry.kind, Kind::File { .. }) {
            return Ok(found.is_empty());
        }
        let is_same = self.job.plan.passes_quick_check(entry, there, found);
        Ok(is_same && !self.job.has_lost_content(base, name, entry, Some(there))?)
    }

    /// True if a file that could not be copied from a base is requested from the Sender. Faults of
    /// the destination do not lead to that.
    pub(crate) fn falls_back_to_sender(&self, pending: &mut Pending, fault: &Fault) -> bool {
        let is_from_base = pending.base.is_some() && fault.side == Side::Source;
        if is_from_base && !self.job.control.stopped() && fault.kind != FaultKind::NoSpace {
            pending.base = None;
            pending.found = Changes::MISSING.with(Changes::SENT);
            return true;
        }
        false
    }
}

impl BaseDirs {
    /// Settles a file whose content was found in `base`. `differs` is false if the existing file
    /// has that content, too.
    pub(crate) fn take_from_base(
        &self,
        filler: &Filler<'_>,
        pending: Pending,
        base: Base,
        found: Changes,
        (counted, differs): (u64, bool),
    ) {
        let Some(how) = filler.job.plan.bases else { return };
        let (decision, found) = by_base(how, base, found, true);
        let pending = Pending { found, ..pending };
        let outcome = match decision {
            Decision::Settled(outcome) => outcome,
            _ if filler.job.plan.dry_run => Outcome::WouldCopy,
            Decision::Base(base, bring, _) => {
                let pending = Pending { base: Some((base, bring)), ..pending };
                return self.bring_from_base(filler, pending, counted, differs);
            }
            _ => unreachable!("a base has it"),
        };
        filler.linker.report_one(pending, counted, outcome);
    }

    /// Links or copies a file from its base, and reports the outcome. `counted` bytes were counted
    /// as done while it was compared.
    pub(crate) fn bring_from_base(
        &self,
        filler: &Filler<'_>,
        mut file: Pending,
        counted: u64,
        differs: bool,
    ) {
        if filler.job.control.stopped() {
            return;
        }
        match self.link_if_wanted(filler, &mut file, differs) {
            Some(outcome) => filler.linker.report_one(file, counted, outcome),
            None => {
                filler.job.reporter.restart_file(counted, 0);
                let dir = file.dir();
                self.copy_from_base(filler, Box::new(file));
                // The directory counted the file twice: for the comparison and for the copy.
                filler.completion.settle(dir);
            }
        }
    }

    /// Makes a file a hard link to its base, if the plan wants that and it is possible.
    fn link_if_wanted(
        &self,
        filler: &Filler<'_>,
        file: &mut Pending,
        differs: bool,
    ) -> Option<Outcome> {
        let (base, BaseMethod::Link) = file.base.as_ref()? else { return None };
        let linked =
            self.link_to_base(filler, &file.dir, &file.name, base, (file.on_existing, differs));
        if linked.is_none() {
            file.found = Changes::LOCAL;
        }
        linked
    }

    /// Makes an entry a hard link to that of a base; `None` if that is impossible. `differs`: the
    /// existing entry is known to have other content.
    pub(crate) fn link_to_base(
        &self,
        filler: &Filler<'_>,
        dir: &RecvDir,
        name: &Name,
        base: &Base,
        (on_existing, differs): (OnExisting, bool),
    ) -> Option<Outcome> {
        let DirState::Open(node) = &dir.state else {
            return Some(Outcome::Failed(parent_fault()));
        };
        dir.expect_change();
        if on_existing == OnExisting::Replace
            && let Err(fault) = filler.publisher.removals.clear_dir(dir, node, name)
        {
            return Some(Outcome::Failed(fault));
        }
        let linked = (|| {
            let (handle, from) = (node.handle()?, base.0.handle()?);
            // An existing entry of the same kind and time counts as equal, and needs no backup.
            let probe = |dir: &dyn TreeDir| {
                let there = dir.stat(name, false)?;
                Ok::<_, io::Error>(there.map(|there| (there.kind, there.attributes.mtime)))
            };
            if on_existing == OnExisting::Replace && (differs || probe(&*handle)? != probe(&*from)?)
            {
                filler.publisher.backups.back_up((node, &dir.taken), name)?;
            }
            let linked = handle.make_hard_link(&*from, name, None, name, on_existing)?;
            if linked == Publication::Published {
                dir.claim_new(&*handle, name)?;
                dir.remove_stale(name);
            }
            Ok::<_, io::Error>(linked)
        })();
        match linked {
            Ok(Publication::Published) => {
                let synced = filler.publisher.durability.sync_kept(dir, node, name);
                Some(synced.map_or_else(Outcome::Failed, |()| Outcome::Copied))
            }
            Ok(Publication::Kept) => None,
            Err(error) if staging::affects_all_files(&error) => {
                let action = "hard-link it to the existing file";
                Some(Outcome::Failed(Fault::from_io(Side::Destination, action, &error)))
            }
            Err(_) => None,
        }
    }

    /// Queues the copy of a file from its base.
    fn copy_from_base(&self, filler: &Filler<'_>, pending: Box<Pending>) {
        let Pending { index, dir, name, entry, base, .. } = &*pending;
        let Some((Base(base), _)) = base else { return };
        dir.expect_change();
        if let DirState::Open(node) = &dir.state {
            filler.publisher.durability.register_file_system(node);
        }
        dir.add_pending();
        let file = SourceHandle {
            index: *index,
            hashes: false,
            dir: Arc::clone(base),
            name: name.clone(),
            size: entry.size(),
            follow: false,
        };
        filler.wanted.lock().insert(pending.index, pending);
        filler.job.enqueue(filling::take_files(vec![file]));
    }
}

/// The decision about an entry whose content is that of the base, with the other differences
/// `found`.
fn by_base(how: Bases, base: Base, found: Changes, is_file: bool) -> (Decision, Changes) {
    match how {
        Bases::Compare if found.is_empty() => {
            (Decision::Settled(Outcome::Skipped(Skip::Unchanged)), found)
        }
        Bases::Link if found.is_empty() => {
            let decision = Decision::Base(base, BaseMethod::Link, OnExisting::Keep);
            (decision, Changes::LOCAL.with(Changes::LINKED))
        }
        _ if is_file => {
            let decision = Decision::Base(base, BaseMethod::Copy, OnExisting::Keep);
            (decision, found.with(Changes::LOCAL))
        }
        // Only files have content to copy.
        _ => (Decision::Copy(OnExisting::Keep), found.with(Changes::LOCAL)),
    }
}
