//! The modes of entries where the sources' modes are not kept: an existing entry keeps
//! its own, and a new one gets as much of its source's as the destination allows.

use super::{DirState, JobContext, RecvDir};
use haul_model::{Attributes, Entry, Kept, Kind, Task};
use haul_tree::{Meta, MetaKind, PRIVATE_DIR_MODE, TreeDir};
use std::borrow::Cow;

/// The bits of a mode that say who may do what.
const RIGHTS: u32 = 0o777;
/// Those by which somebody may execute a file.
const EXECUTES: u32 = 0o111;
/// Those by which somebody may read a file.
const READS: u32 = 0o444;
/// Those by which the group and others may read a directory and what is in it.
const OTHERS_READ: u32 = 0o055;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The attributes that are set where `kept` is to be kept: all that is made needs a mode, also
/// where that is not its source's.
pub(super) fn given(task: &Task, kept: Kept) -> Kept {
    match is_own(task) {
        true => kept.with(Kept::MODE).with(Kept::SET_ID),
        false => kept,
    }
}

/// True if entries get modes of their own, and not the sources' modes.
fn is_own(task: &Task) -> bool {
    task.copies().is_some_and(|policy| !policy.keeps.has(Kept::MODE))
}

/// The most that new entries of `dir` may get: its default access list says it, or else the
/// umask of this process.
pub(super) fn of_new(dir: &dyn TreeDir) -> u32 {
    let extended = dir.extended(None, Kept::ACL).ok().flatten();
    let default = extended.and_then(|extended| extended.default_acl);
    default.map_or(RIGHTS & !haul_sys::umask(), |acl| acl.mode())
}

impl JobContext<'_> {
    /// The attributes that a directory gets, as far as they are kept.
    pub(super) fn kept_of_dirs(&self) -> Kept {
        let keeps = self.policy.keeps.of_dirs();
        // Looking into a directory changes when it was read: as rsync, a mirror leaves that.
        let keeps = keeps.without(Kept::ATIMES.only_if(self.plan.leaves_dir_atimes));
        // It inherits such a bit from the one above.
        if is_own(&self.task) { keeps.without(Kept::SET_ID) } else { keeps }
    }

    /// Gives `entry` the mode that it gets in `dir`, where `existing` has its place.
    pub(super) fn give_mode(&self, entry: &mut Entry, dir: &RecvDir, existing: Option<&Meta>) {
        if !is_own(&self.task) {
            return;
        }
        let is_one_kind = |there: &&Meta| match entry.kind {
            Kind::File { .. } => there.is_file(),
            Kind::Dir => there.kind == MetaKind::Dir,
            Kind::Symlink { .. } => there.kind == MetaKind::Symlink,
            Kind::Special => there.kind == MetaKind::Special,
        };
        let Some(there) = existing.filter(is_one_kind) else {
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
            keep_lent(&mut entry.attributes, &there.attributes, self.policy.keeps);
        }
    }

    /// `entry` with the mode that it would get in `dir` if `there` stood in its place.
    pub(super) fn with_mode<'e>(
        &self,
        entry: &'e Entry,
        dir: &RecvDir,
        there: &Meta,
    ) -> Cow<'e, Entry> {
        if !is_own(&self.task) {
            return Cow::Borrowed(entry);
        }
        let mut entry = entry.clone();
        self.give_mode(&mut entry, dir, Some(there));
        Cow::Owned(entry)
    }

    /// The entry of a directory with the mode that it gets in `above`, where its place has
    /// become `state`, which was made if it is `fresh`.
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
        self.give_mode(&mut entry, above, there);
        if entry.is_way {
            entry.attributes.mode &= above.mode_of_new();
        }
        entry
    }

    /// The mode that the directory of `entry` is made with in `above`. Its own is set when all
    /// in it is done; until then, and after a job that was killed, those may read it who may
    /// in the end, and nobody else can change it.
    pub(super) fn mode_when_made(&self, above: &RecvDir, entry: &Entry) -> u32 {
        let keeps = self.kept_of_dirs();
        // Such a list may close it to some whom a mode lets in, and so may its absence: until
        // then it has the default list of the directory above.
        if keeps.has(Kept::ACL) {
            return PRIVATE_DIR_MODE;
        }
        let given = self.with_dir_mode(entry, above, &DirState::Absent, true).attributes;
        let gets_owners = keeps.has(Kept::USER) || keeps.has(Kept::GROUP);
        let rights = if gets_owners { of_anybody(given.mode) } else { given.mode };
        PRIVATE_DIR_MODE | rights & OTHERS_READ
    }
}

/// The rights by `mode` that are the same for all, as those of the group and of others: so
/// nobody loses any by another owner, or another group.
fn of_anybody(mode: u32) -> u32 {
    let common = mode >> 6 & mode >> 3 & mode & 0o7;
    common << 3 | common
}

/// `mode`, and with it those who may read may execute if those of `source` may, else nobody.
fn with_executability(mode: u32, source: u32) -> u32 {
    match (source & EXECUTES != 0, mode & EXECUTES != 0) {
        (false, _) => mode & !EXECUTES,
        (true, false) => mode | (mode & READS) >> 2,
        (true, true) => mode,
    }
}

/// Set-ID bits of an existing file stay if what replaces it has the same owner.
fn keep_lent(given: &mut Attributes, there: &Attributes, keeps: Kept) {
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
    fn before_the_owner_is_known_a_right_is_that_of_all_or_of_nobody() {
        for (mode, expected) in [
            (0o755, 0o055),
            (0o750, 0),
            (0o775, 0o055),
            (0o711, 0o011),
            (0o077, 0),
            (0o1777, 0o077),
        ] {
            assert_eq!(of_anybody(mode), expected, "{mode:o}");
        }
    }

    #[test]
    fn who_may_read_may_execute_where_the_source_can_be_executed() {
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
