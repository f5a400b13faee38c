//! The plan of a job, compiled from its task.

use haul_model::{
    Bases, Conflict, Delete, Entry, Kept, Kind, Mirror, Moving, Part, Policy, Relative, Remove,
    Resume, Sameness, Task, Timestamp, Updating, Walking,
};

/// The rules of a job, with one field for each question in a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The attributes that are compared and kept.
    pub keeps: Kept,
    /// The proof that a file needs no copy.
    pub compare_by: Sameness,
    /// Times that differ by at most this many seconds are equal. `None` compares nanoseconds, too.
    pub window: Option<u32>,
    /// No existing object is replaced.
    pub keeps_existing: bool,
    /// The handling of an existing file that is newer than its source.
    pub newer: Newer,
    /// The kinds of existing objects that are replaced.
    pub replaces: Kinds,
    /// Nothing is created that does not exist at the destination.
    pub only_existing: bool,
    /// Minimum length in bytes of the files that take part.
    pub size_min: u64,
    /// Maximum length in bytes of the files that take part, if limited.
    pub size_max: Option<u64>,
    /// Symbolic links take part.
    pub links: bool,
    /// Links that may lead out of the destination do not take part.
    pub safe_links: bool,
    /// How existing files get new content.
    pub updating: Updating,
    /// The use of base directories.
    pub bases: Option<Bases>,
    /// Only the difference of a changed file is sent.
    pub delta: bool,
    /// Only the difference of a missing file from one with a similar name is sent.
    pub fuzzy: bool,
    /// The length in bytes of the blocks for finding differences, if the user sets it.
    pub block_len: Option<u32>,
    /// Storage for a file is reserved before it is written.
    pub preallocates: bool,
    /// Runs of zeros in large files become holes.
    pub writes_sparse: bool,
    /// Files wait for the end of the job, and then get their names in quick succession.
    pub delays_updates: bool,
    /// Copies get the modes of new files. The modes of the sources are ignored.
    pub ignores_source_modes: bool,
    /// If modes are not kept: the right to execute is taken from the source.
    pub executability: bool,
    /// A new symbolic link gets the time of its source.
    pub new_links_get_times: bool,
    /// Directories keep their access times.
    pub ignores_dir_atimes: bool,
    /// An existing symbolic link to a directory is used as that directory.
    pub keeps_dir_links: bool,
    /// An existing symbolic link to a directory above a source is used as that directory, too.
    pub keeps_implied_dir_links: bool,
    /// The destination's own directory becomes like the source's.
    pub updates_root: bool,
    /// The rules for removing extras.
    pub delete: Option<Delete>,
    /// Maximum number of entries that are removed, for any reason.
    pub delete_max: Option<u64>,
    /// The part of the work that the job does.
    pub part: Part,
    /// Sources with the same place are merged, and extras are searched.
    pub is_mirror: bool,
    /// Outcomes report the differences of the existing object.
    pub reports_changes: bool,
    /// Content is copied. In a dry run, it would be.
    pub copies: bool,
    /// Nothing is changed at the destination.
    pub dry_run: bool,
    /// How an interrupted copy of a large file is resumed.
    pub resume: Resume,
    /// Everything that an earlier job left is compared with the source before it is used.
    pub proves_resumed: bool,
    /// Each file is read back from its medium before it is published.
    pub verify: bool,
    /// Everything that is published is flushed before the job ends successfully.
    pub sync: bool,
    /// A file that changes while it is read fails, even if it only grows.
    pub strict_source: bool,
    /// Content is always sent with its hash.
    pub wants_hashes: bool,
    /// The copy is the first part of a move.
    pub moving: Option<Moving>,
    /// The job belongs to a move that must lose nothing.
    pub lossless: bool,
    /// The rule for removing sources, if they are removed.
    pub removes: Option<Remove>,
    /// A removed source must have its hard links at the destination.
    pub proves_links: bool,
    /// How sources are walked.
    pub walking: Walking,
    /// Entries that only the destination has matter.
    pub finds_extras: bool,
    /// Files may have been renamed, so contents are compared with those that only the destination
    /// has.
    pub finds_renamed: bool,
    /// Contents are compared by their hashes.
    pub compares_content: bool,
}

/// The handling of an existing file that is newer than its source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Newer {
    /// It is replaced like any other.
    #[default]
    Replaced,
    /// It is kept, as with `rsync -u`: if it is a newer file, whatever its content.
    Kept,
    /// It is kept if it is not older, as with `cp -u`: whatever its kind.
    KeptIfNotOlder,
}

/// The kinds of existing objects that an entry of another kind replaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Files and symbolic links, as with `cp`: not directories, devices, FIFOs or sockets.
    #[default]
    Contents,
    /// All kinds, as with rsync, except non-empty directories.
    AllButFullDirs,
    /// All kinds.
    All,
}

impl Plan {
    /// The plan of a job with this task, which compares and keeps the attributes in `keeps`.
    pub fn of(task: &Task, keeps: Kept) -> Self {
        let compares = Policy { dry_run: true, ..Policy::default() };
        let policy = Policy { keeps, ..task.copies().copied().unwrap_or(compares) };
        let plan = match task.mirrors() {
            Some(mirror) => Self::of_mirror(&policy, mirror),
            None => Self::of_copy(&policy),
        };
        Self {
            copies: task.copies().is_some(),
            ignores_source_modes: task.copies().is_some_and(|policy| !policy.keeps.has(Kept::MODE)),
            lossless: task.moving() == Some(Moving::Whole),
            removes: task.removes(),
            proves_links: task.removes().is_some() && task.keeps().has(Kept::LINKS),
            finds_extras: task.finds_extras(),
            compares_content: task.compares_content(),
            ..plan
        }
    }

    /// The plan of a copy.
    pub fn of_copy(policy: &Policy) -> Self {
        Self {
            keeps: policy.keeps,
            compare_by: match policy.conflict {
                Conflict::ReplaceAll => Sameness::None,
                Conflict::ReplaceChanged | Conflict::Keep | Conflict::ReplaceOlder => {
                    Sameness::SizeAndTime
                }
            },
            keeps_existing: policy.conflict == Conflict::Keep,
            newer: match policy.conflict {
                Conflict::ReplaceOlder => Newer::KeptIfNotOlder,
                _ => Newer::Replaced,
            },
            links: true,
            new_links_get_times: true,
            ignores_source_modes: !policy.keeps.has(Kept::MODE),
            copies: true,
            dry_run: policy.dry_run,
            resume: policy.resume,
            proves_resumed: policy.proves_resumed(),
            verify: policy.verify,
            sync: policy.sync,
            strict_source: policy.strict_source,
            wants_hashes: policy.wants_hashes(),
            moving: policy.moving,
            lossless: policy.moving == Some(Moving::Whole),
            ..Self::default()
        }
    }

    /// The plan of a mirror, which has the rules of a copy and its own.
    pub fn of_mirror(policy: &Policy, mirror: &Mirror) -> Self {
        Self {
            compare_by: mirror.sameness,
            window: mirror.window,
            newer: if mirror.skips_newer { Newer::Kept } else { Newer::Replaced },
            replaces: if mirror.replaces_dirs { Kinds::All } else { Kinds::AllButFullDirs },
            only_existing: mirror.existing_only,
            size_min: mirror.size_min.unwrap_or(0),
            size_max: mirror.size_max,
            links: mirror.links,
            safe_links: mirror.safe_links,
            updating: mirror.updating,
            bases: mirror.bases,
            delta: mirror.delta,
            fuzzy: mirror.fuzzy,
            block_len: mirror.block_len,
            preallocates: mirror.preallocates,
            writes_sparse: mirror.writes_sparse,
            delays_updates: mirror.delays_updates,
            executability: mirror.executability,
            new_links_get_times: policy.keeps.has(Kept::LINK_TIMES),
            ignores_dir_atimes: true,
            keeps_dir_links: mirror.keeps_dir_links,
            keeps_implied_dir_links: mirror.walking.relative == Relative::WithoutImplied,
            updates_root: true,
            delete: mirror.delete,
            delete_max: mirror.delete_max,
            part: mirror.part,
            is_mirror: true,
            reports_changes: true,
            walking: mirror.walking,
            finds_renamed: mirror.finds_renamed(),
            ..Self::of_copy(policy)
        }
    }

    /// True if entries of this kind do not take part, whatever exists at their place.
    pub fn excludes(&self, kind: &Kind) -> bool {
        match *kind {
            Kind::Symlink { .. } => !self.links,
            Kind::File { size } => {
                size < self.size_min || self.size_max.is_some_and(|max| size > max)
            }
            Kind::Dir | Kind::Special => false,
        }
    }

    /// Returns `there` if it counts as equal to `mtime`, the time of an entry.
    pub fn in_window(&self, mtime: Timestamp, there: Timestamp) -> Option<Timestamp> {
        let window = self.window?;
        (mtime.secs.abs_diff(there.secs) <= u64::from(window)).then_some(there)
    }

    /// True if a file with the time `there` is newer than its source. `mtime` is the time of the
    /// source, and `entry` has the time to compare with. With a window, a file that is older by
    /// less also counts as newer, as in rsync.
    pub(crate) fn is_newer(&self, there: Timestamp, mtime: Timestamp, entry: &Entry) -> bool {
        match self.window {
            Some(window @ 1..) => mtime.secs.saturating_sub(there.secs) < i64::from(window),
            _ => there > entry.attributes.mtime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mirror with a value of its own in each field.
    fn full_mirror() -> Mirror {
        Mirror {
            links: true,
            safe_links: true,
            skips_newer: true,
            sameness: Sameness::Size,
            window: Some(3),
            existing_only: true,
            size_min: Some(1),
            size_max: Some(2),
            replaces_dirs: true,
            delete: Some(Delete { ignore_errors: true }),
            delete_max: Some(4),
            delta: true,
            block_len: Some(5),
            part: Part::AllElse,
            executability: true,
            bases: Some(Bases::Copy),
            keeps_dir_links: true,
            walking: Walking { relative: Relative::WithoutImplied, ..Walking::default() },
            updating: Updating::InPlace,
            preallocates: true,
            delays_updates: true,
            fuzzy: true,
            writes_sparse: true,
            ..Mirror::default()
        }
    }

    /// Each rule of a mirror is one of its plan, and none is one of a copy's.
    #[test]
    fn a_plan_has_each_rule_of_its_mirror() {
        let mirror = full_mirror();
        let policy = Policy {
            keeps: Kept::LINK_TIMES,
            resume: Resume::Strict,
            verify: true,
            sync: true,
            strict_source: true,
            trusts_transit: true,
            moving: Some(Moving::Lossy),
            ..Policy::default()
        };
        let plan = Plan::of(&Task::Sync(policy, mirror), policy.keeps);
        let expected = Plan {
            keeps: Kept::LINK_TIMES,
            compare_by: Sameness::Size,
            window: Some(3),
            keeps_existing: false,
            newer: Newer::Kept,
            replaces: Kinds::All,
            only_existing: true,
            size_min: 1,
            size_max: Some(2),
            links: true,
            safe_links: true,
            updating: Updating::InPlace,
            bases: Some(Bases::Copy),
            delta: true,
            fuzzy: true,
            block_len: Some(5),
            preallocates: true,
            writes_sparse: true,
            delays_updates: true,
            executability: true,
            new_links_get_times: true,
            ignores_dir_atimes: true,
            keeps_dir_links: true,
            keeps_implied_dir_links: true,
            updates_root: true,
            delete: Some(Delete { ignore_errors: true }),
            delete_max: Some(4),
            part: Part::AllElse,
            is_mirror: true,
            reports_changes: true,
            ignores_source_modes: true,
            copies: true,
            dry_run: false,
            resume: Resume::Strict,
            proves_resumed: true,
            verify: true,
            sync: true,
            strict_source: true,
            wants_hashes: true,
            moving: Some(Moving::Lossy),
            lossless: false,
            removes: None,
            proves_links: false,
            walking: mirror.walking,
            finds_extras: false,
            finds_renamed: false,
            compares_content: false,
        };
        assert_eq!(plan, expected);
        let plain = Policy { keeps: Kept::NONE, ..policy };
        let relative = Walking { relative: Relative::Yes, ..Walking::default() };
        let few = Plan::of_mirror(&plain, &Mirror { walking: relative, ..Mirror::default() });
        assert!(!few.keeps_implied_dir_links && !few.new_links_get_times && !few.links);
        assert_eq!((few.newer, few.replaces), (Newer::Replaced, Kinds::AllButFullDirs));
        assert_eq!((few.size_min, few.size_max, few.delete_max), (0, None, None));
        let copy = Plan::of(&Task::Copy(policy), policy.keeps);
        let is_like_mirror = copy.is_mirror || copy.reports_changes || copy.updates_root;
        assert!(!is_like_mirror && copy.links && copy.new_links_get_times);
        assert_eq!((copy.replaces, copy.part, copy.delete), (Kinds::Contents, Part::All, None));
        assert_eq!((copy.size_min, copy.size_max, copy.delete_max), (0, None, None));
    }

    /// A task without a copy has the rules of a dry run, and its own for removals.
    #[test]
    fn a_plan_answers_for_each_kind_of_task() {
        let of = |task: Task| Plan::of(&task, task.keeps());
        let check = of(Task::Check { content: true, keeps: Kept::MODE });
        assert!(!check.copies && check.dry_run && check.finds_extras && check.compares_content);
        assert!(check.removes.is_none() && !check.lossless && !check.proves_links);
        assert!(!check.ignores_source_modes && check.keeps == Kept::MODE);
        assert!(!of(Task::Check { content: false, keeps: Kept::NONE }).compares_content);
        let rule = Remove::Same;
        let remove = of(Task::Remove { rule, moving: Moving::Whole });
        assert!(!remove.copies && remove.dry_run && remove.removes == Some(rule));
        assert!(remove.lossless && remove.moving.is_none() && remove.finds_extras);
        assert_eq!(remove.proves_links, Moving::Whole.compares().has(Kept::LINKS));
        let moving = Moving::Whole;
        let moving = Policy { moving: Some(moving), keeps: Kept::NONE, ..Policy::default() };
        let copy = of(Task::Copy(moving));
        assert!(copy.copies && copy.lossless && copy.moving == moving.moving);
        assert!(copy.removes.is_none() && !copy.finds_extras && copy.ignores_source_modes);
        let modes = Policy { keeps: Kept::MODE, ..moving };
        assert!(!of(Task::Copy(modes)).ignores_source_modes);
        // What is kept may be less than the task asks for. Modes are then not those of new files.
        assert!(!Plan::of(&Task::Copy(modes), Kept::NONE).ignores_source_modes);
        let deletes = |part| Mirror { delete: Some(Delete::default()), part, ..Mirror::default() };
        let mirror = |part| of(Task::Sync(Policy::default(), deletes(part)));
        assert!(mirror(Part::All).finds_extras && mirror(Part::All).copies);
        let ends = mirror(Part::RemovesSources);
        assert!(!ends.copies && ends.dry_run && ends.compares_content && !ends.finds_extras);
        assert_eq!(ends.removes, Some(Remove::SameContent));
        let lists = mirror(Part::Lists);
        assert!(!lists.copies && lists.dry_run && !lists.finds_extras && lists.removes.is_none());
        let fast = Policy { trusts_transit: true, dry_run: true, ..Policy::default() };
        let fast = of(Task::Copy(fast));
        assert!(!fast.wants_hashes && fast.dry_run && fast.copies && !fast.proves_resumed);
        let links = Policy { keeps: Kept::LINKS, ..moving };
        assert!(!of(Task::Copy(links)).proves_links);
        // The rules of a copy alone are those of its task.
        for policy in [links, modes, Policy { moving: None, ..modes }] {
            assert_eq!(Plan::of_copy(&policy), of(Task::Copy(policy)));
        }
        let renames = Mirror { renames: true, ..deletes(Part::All) };
        assert_eq!(of(Task::Sync(modes, renames)).finds_renamed, renames.finds_renamed());
        assert!(renames.finds_renamed());
        let contents = Mirror { sameness: Sameness::Content, ..Mirror::default() };
        assert!(of(Task::Sync(Policy::default(), contents)).compares_content);
    }
}
