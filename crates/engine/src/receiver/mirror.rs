//! The rules of a mirror: about entries that exist at the destination, and about those
//! that only it has.

mod removing;
mod spared;

use self::removing::in_order;
use super::backing::not_backed_up;
use super::check::told_kind;
use super::deciding::is_empty;
use super::{Backups, Bring, Decision, DirState, JobContext, RecvDir, naming};
use crate::dirs::DirNode;
use haul_model::words::{self, may_be_one_name};
use haul_model::{
    Changes, Delete, Fault, FaultKind, FileId, Kind, Name, Outcome, Side, Systems, Walking,
};
use haul_plan::Kinds;
use haul_proto::Extra;
use haul_store::OnExisting;
use haul_tree::{Meta, MetaKind};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The most removals that are reported at once.
const TOLD_MAX: usize = 256;

/// How far the removal of what only the destination has may go.
#[derive(Default)]
pub(super) struct Deleting {
    /// Something of the sources could not be read: what looks extra may be missing there
    /// by that alone.
    withheld: AtomicBool,
    /// That was reported.
    is_told: AtomicBool,
    /// Entries that were removed.
    count: AtomicU64,
}

/// The removal of entries: of those that only the destination has, and of those that a source
/// replaces.
pub(super) struct Removals<'a> {
    job: Arc<JobContext<'a>>,
    backups: Arc<Backups<'a>>,
    deleting: Deleting,
    /// See [`super::Destination::holds_sources`].
    holds_sources: HashSet<FileId>,
}

impl<'a> Removals<'a> {
    pub(super) fn of(backups: &Arc<Backups<'a>>, holds_sources: HashSet<FileId>) -> Arc<Self> {
        let (job, backups) = (Arc::clone(&backups.job), Arc::clone(backups));
        Arc::new(Self { job, backups, deleting: Deleting::default(), holds_sources })
    }
}

impl Removals<'_> {
    /// Removes the directory `name` in `dir`, if there is one: the
    /// file or link that will have its name is whole.
    pub(super) fn make_way(
        &self,
        dir: &RecvDir,
        name: &Name,
        on_existing: OnExisting,
    ) -> Result<(), Fault> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        if on_existing != OnExisting::Replace {
            return Ok(());
        }
        let makes_way = match self.job.plan.replaces {
            Kinds::Contents => {
                self.backups.chunks.iter().for_each(|chunks| chunks.keep_lost(node, name));
                return Ok(());
            }
            Kinds::AllButFullDirs => false,
            Kinds::All => true,
        };
        let failed = |error: io::Error| Fault::from_io(Side::Destination, "make way", &error);
        let there = node.handle().and_then(|handle| handle.stat(name, false)).map_err(failed)?;
        match there {
            Some(Meta { kind: MetaKind::Dir, id: Some(id), .. })
                if dir.claims().is_some_and(|claims| claims.has_brought(id)) =>
            {
                Err(naming::another())
            }
            // It is empty.
            Some(meta) if meta.kind == MetaKind::Dir && !makes_way && self.job.policy.dry_run => {
                Ok(())
            }
            Some(meta) if meta.kind == MetaKind::Dir && !makes_way => {
                node.handle().and_then(|handle| handle.remove_dir(name)).map_err(failed)
            }
            Some(meta) if meta.kind == MetaKind::Dir => {
                let mut told = Vec::new();
                // The entry that replaces the directory is reported in its place.
                let gone = self.remove_tree(dir, node, name, false, &mut told);
                self.job.tell_deleted(told);
                gone.map_err(failed)
            }
            Some(_) => self.backups.back_up(node, name).map_err(not_backed_up),
            None => Ok(()),
        }
    }

    /// The same of a directory alone.
    pub(super) fn make_way_if_dir(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
    ) -> Result<(), Fault> {
        let there = node.handle().and_then(|handle| handle.stat(name, false));
        match there {
            Ok(Some(Meta { kind: MetaKind::Dir, .. })) => {
                self.make_way(dir, name, OnExisting::Replace)
            }
            // What else is wrong shows when it is replaced.
            _ => Ok(()),
        }
    }

    /// Where each operation takes a round trip, a directory makes way for a file before
    /// that is sent: there files get their names many at a time. In a dry run it is found out
    /// if it would, and reported what would be removed with it.
    pub(super) fn cleared(
        &self,
        dir: &RecvDir,
        name: &Name,
        decision: Decision,
        found: Changes,
    ) -> Decision {
        let on_existing = match &decision {
            Decision::Base(_, Bring::Link, _) if !self.job.policy.dry_run => return decision,
            Decision::Copy(on_existing) | Decision::Base(.., on_existing) => on_existing,
            _ => return decision,
        };
        let is_asked = self.job.costs_round_trips || self.job.policy.dry_run;
        if !is_asked || *on_existing == OnExisting::Keep {
            return decision;
        }
        // Where there are bases, the outcome may say how it differs from what one of them has.
        let cleared = match &dir.state {
            _ if found.has(Changes::KIND) || self.job.policy.dry_run => {
                self.make_way(dir, name, *on_existing)
            }
            DirState::Open(node) if self.job.plan.bases.is_some() => {
                self.make_way_if_dir(dir, node, name)
            }
            _ => Ok(()),
        };
        match cleared {
            Ok(()) => decision,
            Err(fault) => Decision::Settled(Outcome::Failed(fault)),
        }
    }

    /// Nothing more is removed, for something of the sources could not be read. What has
    /// vanished there holds nothing back.
    pub(super) fn withhold_deletions(&self, fault: &Fault) {
        let Some(Delete { ignore_errors: false }) = self.job.deletes() else { return };
        if fault.side == Side::Source && fault.kind != FaultKind::NotFound {
            self.deleting.withheld.store(true, Ordering::Relaxed);
        }
    }

    /// Removes what only the destination has in `dir`, by their `names`.
    pub(super) fn delete_extras(&self, dir: &RecvDir, names: BTreeSet<Name>) {
        let DirState::Open(node) = &dir.state else { return };
        let mut told = Vec::new();
        let scope = dir.scope();
        let is_spared = |name: &Name, meta: &Meta| {
            self.is_spared(&scope, &dir.path_of(Some(name)), name, meta, false)
                || self.is_left_mounted(node, meta)
        };
        let look = |name: Name| {
            let stat = node.handle().and_then(|handle| handle.stat(&name, false));
            let is_dir = matches!(stat, Ok(Some(Meta { kind: MetaKind::Dir, .. })));
            (is_dir, name, stat)
        };
        let mut extras: Vec<_> = names.into_iter().map(look).collect();
        extras.sort_by(|one, other| in_order((one.0, &one.1), (other.0, &other.1)));
        let mut told_apart = HashSet::new();
        for (_, name, stat) in extras.into_iter().rev() {
            if self.job.is_ending() || self.is_withheld(dir) {
                break;
            }
            let removed = match stat {
                // It was removed meanwhile.
                Ok(None) => Ok(()),
                Ok(Some(meta)) if self.is_source(&meta) => Err(a_source()),
                Ok(Some(meta)) if !is_extra(dir, node, &name, &meta, &mut told_apart) => {
                    Err(io::Error::other(
                        "it may be another entry of this job, whose name is the same to the destination",
                    ))
                }
                Ok(Some(meta)) if is_spared(&name, &meta) => Ok(()),
                Ok(Some(meta)) if meta.kind == MetaKind::Dir => {
                    self.remove_tree(dir, node, &name, true, &mut told)
                }
                Ok(Some(meta)) => {
                    let path = dir.path_of(Some(&name));
                    self.remove_one(dir, node, &name, path, told_kind(&meta), &mut told).map(drop)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                self.not_removed(&dir.path_of(Some(&name)), &error);
            }
        }
        self.job.tell_deleted(told);
    }

    /// True if it is a source of the job, or holds one.
    pub(super) fn is_source(&self, meta: &Meta) -> bool {
        meta.id.is_some_and(|id| self.holds_sources.contains(&id))
    }

    /// True if nothing more may be removed.
    pub(super) fn holds_back_removals(&self) -> bool {
        self.deleting.withheld.load(Ordering::Relaxed)
    }

    /// The same; reports it once.
    fn is_withheld(&self, dir: &RecvDir) -> bool {
        let withheld = self.holds_back_removals();
        if withheld && !self.deleting.is_told.swap(true, Ordering::Relaxed) {
            self.job.warn(
                &dir.path_of(None),
                "skipping all further removals: not all of the source could be read",
            );
        }
        withheld
    }

    /// Tells that what is at `path` stays.
    pub(super) fn not_removed(&self, path: &[u8], error: &io::Error) {
        self.job.fail_late(path, Fault::from_io(Side::Destination, "remove it", error));
    }

    /// Removes one entry, which is no directory, or an empty one. False if it stays, since
    /// as many were removed as may be.
    fn remove_one(
        &self,
        dir: &RecvDir,
        node: &Arc<DirNode>,
        name: &Name,
        path: Vec<u8>,
        kind: Kind,
        told: &mut Vec<Extra>,
    ) -> io::Result<bool> {
        if self.deleting.count.fetch_add(1, Ordering::Relaxed) >= self.job.plan.delete_max {
            self.job.reporter.spared();
            return Ok(false);
        }
        if !self.job.policy.dry_run {
            dir.expect_change();
        }
        let is_dir = matches!(kind, Kind::Dir);
        if !is_dir {
            self.backups.back_up_extra(node, name)?;
        }
        if !self.job.policy.dry_run {
            let handle = node.handle()?;
            if is_dir { handle.remove_dir(name)? } else { handle.remove_file(name)? }
        }
        self.job.reporter.deleted(&path, &kind);
        told.push(Extra { path: words::shown(path), kind });
        if told.len() >= TOLD_MAX {
            self.job.sender.extras(std::mem::take(told));
        }
        Ok(true)
    }
}

/// False if `name` may lead to what an entry of the job has brought or found under
/// another name, in a directory that takes both for one. Listed names that can't be such
/// another name are `told_apart`, each once.
fn is_extra(
    dir: &RecvDir,
    node: &Arc<DirNode>,
    name: &Name,
    meta: &Meta,
    told_apart: &mut HashSet<Name>,
) -> bool {
    let Ok(handle) = node.handle() else { return false };
    let listed = dir.listed.lock();
    if handle.capabilities().tells_objects {
        let is_claimed = |id| dir.claims().is_some_and(|claims| claims.has(id));
        let leads_to_it = |listed: &Name| {
            let found = handle.stat(listed, false);
            found.is_ok_and(|found| found.is_some_and(|found| found.id == meta.id))
        };
        let may_be_listed = listed.iter().flatten().any(leads_to_it);
        return !may_be_listed && !meta.id.is_some_and(is_claimed);
    }
    let is_like = |listed: &&Name| may_be_one_name(listed.as_bytes(), name.as_bytes());
    // Two that are both spelled there are two, and one that is not there is no other.
    let is_apart = |listed: &Name| {
        handle.has(listed).is_ok_and(|has| !has) || handle.spells(listed).unwrap_or(false)
    };
    let mut alike = listed.iter().flatten().filter(is_like);
    alike.all(|listed| {
        told_apart.contains(listed) || is_apart(listed) && told_apart.insert(listed.clone())
    })
}

fn a_source() -> io::Error {
    io::Error::other("it is a source of this command, or contains one")
}

impl Removals<'_> {
    pub(super) fn walking(&self) -> Walking {
        self.job.task.mirrors().map(|mirror| mirror.walking).unwrap_or_default()
    }

    /// True if the walk does not go into the directory at this place of the destination,
    /// since another file system is mounted there, or above.
    pub(super) fn is_elsewhere(&self, dir: &RecvDir) -> bool {
        if self.walking().systems == Systems::All {
            return false;
        }
        let system = |dir: &RecvDir| match &dir.state {
            DirState::Open(node) => node.id().map(|id| id.dev),
            _ => None,
        };
        let mut top = dir;
        while let Some(above) = top.parent.as_deref().filter(|above| above.parent.is_some()) {
            top = above;
        }
        system(top).zip(system(dir)).is_some_and(|(first, here)| first != here)
    }

    /// True if an entry of `node` is the root of another file system, where the job takes no
    /// part in such ones.
    pub(super) fn is_left_mounted(&self, node: &DirNode, meta: &Meta) -> bool {
        let is_other = |here: FileId| meta.id.is_some_and(|there| there.dev != here.dev);
        self.walking().systems != Systems::All
            && meta.kind == MetaKind::Dir
            && node.id().is_some_and(is_other)
    }

    pub(super) fn remove_missing(
        &self,
        dir: &RecvDir,
        name: &Name,
        told: &mut Vec<Extra>,
    ) -> io::Result<()> {
        let DirState::Open(node) = &dir.state else { return Ok(()) };
        let Some(meta) = node.handle()?.stat(name, false)? else { return Ok(()) };
        if self.is_source(&meta) {
            return Err(a_source());
        }
        if self.is_spared(&dir.scope(), &dir.path_of(Some(name)), name, &meta, false) {
            return Ok(());
        }
        if meta.kind != MetaKind::Dir {
            let path = dir.path_of(Some(name));
            return self.remove_one(dir, node, name, path, told_kind(&meta), told).map(drop);
        }
        if !self.makes_way() && !is_empty(node, name)? {
            let message = "keeping the directory: it is not empty";
            self.job.warn(&dir.path_of(Some(name)), message);
            return Ok(());
        }
        self.remove_tree(dir, node, name, true, told)
    }
}
