//! Modes of entries where the sources' modes are not kept. An existing entry keeps its mode. A new
//! one gets as much of its source's mode as the destination allows.

use super::{DirState, JobContext, RecvDir};
use haul_model::{Attributes, Entry, Kept, Kind, Task};
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE};
use std::borrow::Cow;

/// The bits that allow to execute a file.
const EXECUTES: u32 = 0o111;
/// The bits that allow to read a file.
const READS: u32 = 0o444;
/// The bits that allow the group and others to read and search a directory.
const OTHERS_READ: u32 = 0o055;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes to set if `kept` are kept. A new entry needs a mode, even if it is not its
/// source's.
pub(super) fn given(task: &Task, kept: Kept) -> Kept {
    match ignores_source_modes(task) {
        true => kept.with(Kept::MODE).with(Kept::SET_ID),
        false => kept,
    }
}

/// True if the sources' modes are not kept.
fn ignores_source_modes(task: &Task) -> bool {
    task.copies().is_some_and(|policy| !policy.keeps.has(Kept::MODE))
}

impl JobContext<'_> {
    /// The attributes that directories get.
    pub(super) fn kept_of_dirs(&self) -> Kept {
        let keeps = self.plan.keeps.of_dirs();
        // Reading a directory changes its access time, so a mirror ignores that, as rsync does.
        let keeps = keeps.without(Kept::ATIMES.only_if(self.plan.ignores_dir_atimes));
        // New directories inherit the set-group-ID bit from their parent.
        if self.plan.ignores_source_modes { keeps.without(Kept::SET_ID) } else { keeps }
    }

    /// Sets the mode that `entry` gets in `dir`, where `existing` has its place.
    pub(super) fn set_mode(&self, entry: &mut Entry, dir: &RecvDir, existing: Option<&Meta>) {
        if !self.plan.ignores_source_modes {
            return;
        }
        let is_same_kind = |there: &&Meta| match entry.kind {
            Kind::File { .. } => there.is_file(),
            Kind::Dir => there.kind == MetaKind::Dir,
            Kind::Symlink { .. } => there.kind == MetaKind::Symlink,
            Kind::Special => there.kind == MetaKind::Special,
        };
        let Some(there) = existing.filter(is_same_kind) else {
            entry.attributes.mode &= dir.mode_of_new();
            return;
        };
        let mut mode = there.attributes.mode;
        let is_file = matches!(entry.kind, Kind::File { .. });
        if is_file && self.plan.executability {
            mode = with_executability(mode, entry.attributes.mode);
        }
        entry.attributes.mode = mode;
        if is_file {
            keep_set_id_bits(&mut entry.attributes, &there.attributes, self.plan.keeps);
        }
    }

    /// `entry` with the mode that it would get in `dir` in the place of `there`.
    pub(super) fn with_mode<'e>(
        &self,
        entry: &'e Entry,
        dir: &RecvDir,
        there: &Meta,
    ) -> Cow<'e, Entry> {
        if !self.plan.ignores_source_modes {
            return Cow::Borrowed(entry);
        }
        let mut entry = entry.clone();
        self.set_mode(&mut entry, dir, Some(there));
        Cow::Owned(entry)
    }

    /// The entry of a directory with the mode that it gets in `above`. `state` is its place there,
    /// which was created if `fresh`.
    pub(super) fn with_dir_mode(
        &self,
        entry: &Entry,
        above: &RecvDir,
        state: &DirState,
        fresh: bool,
    ) -> Entry {
        let mut entry = entry.clone();
        let there = match state {
            DirState::Open(node) if !fresh => Some(node.meta()),
            _ => None,
        };
        self.set_mode(&mut entry, above, there);
        if entry.is_implied_dir {
            entry.attributes.mode &= above.mode_of_new();
        }
        entry
    }

    /// The mode with which the directory of `entry` is created in `above`. Its final mode is set
    /// when everything in it is done. Until then, and after a killed job, only users who may read
    /// it in the end can read it. Nobody else can change it.
    pub(super) fn initial_dir_mode(&self, above: &RecvDir, entry: &Entry) -> u32 {
        let keeps = self.kept_of_dirs();
        // An access list, or its absence, may deny what a mode allows. Until it is set, the
        // directory has the default list of its parent.
        if keeps.has(Kept::ACL) {
            return PRIVATE_DIR_MODE;
        }
        let given = self.with_dir_mode(entry, above, &DirState::Absent, true).attributes;
        let gets_owners = keeps.has(Kept::USER) || keeps.has(Kept::GROUP);
        let rights = if gets_owners { common_rights(given.mode) } else { given.mode };
        PRIVATE_DIR_MODE | rights & OTHERS_READ
    }
}

/// The permissions that owner, group and others all have in `mode`, for the group and others. They
/// are right whatever the final owner and group are.
fn common_rights(mode: u32) -> u32 {
    let common = mode >> 6 & mode >> 3 & mode & 0o7;
    common << 3 | common
}

/// Makes `mode` executable for everyone who may read, if `source` is executable and `mode` is not.
/// Makes it not executable if `source` is not.
fn with_executability(mode: u32, source: u32) -> u32 {
    match (source & EXECUTES != 0, mode & EXECUTES != 0) {
        (false, _) => mode & !EXECUTES,
        (true, false) => mode | (mode & READS) >> 2,
        (true, true) => mode,
    }
}

/// Keeps the set-ID bits of an existing file if the new one has the same owner or group.
fn keep_set_id_bits(given: &mut Attributes, there: &Attributes, keeps: Kept) {
    let kinds = [
        (Kept::USER, &mut given.user, there.user, SET_USER_ID),
        (Kept::GROUP, &mut given.group, there.group, SET_GROUP_ID),
    ];
    for (kind, given_id, there, bit) in kinds {
        if !keeps.has(kind) {
            *given_id = there;
        } else if *given_id != there {
            given.mode &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_for_any_owner_are_those_that_all_have() {
        for (mode, expected) in [
            (0o755, 0o055),
            (0o750, 0),
            (0o775, 0o055),
            (0o711, 0o011),
            (0o077, 0),
            (0o1777, 0o077),
        ] {
            assert_eq!(common_rights(mode), expected, "{mode:o}");
        }
    }

    #[test]
    fn readers_may_execute_if_the_source_is_executable() {
        for (mode, source, expected) in [
            (0o644, 0o700, 0o755),
            (0o640, 0o001, 0o750),
            (0o200, 0o755, 0o200),
            (0o710, 0o755, 0o710),
            (0o755, 0o644, 0o644),
            (0o644, 0o644, 0o644),
        ] {
            assert_eq!(with_executability(mode, source), expected, "{mode:o} {source:o}");
        }
    }
}
