//! The task of a job, and its rules.

use crate::{Kept, Outcome, Side, Skip};
use serde::{Deserialize, Serialize};

/// The task of a job, the same for both roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Copies by these rules.
    Copy(Policy),
    /// Compares the sources with the destination, and changes nothing.
    Check {
        /// Contents are compared, too. Each side hashes its own.
        content: bool,
        /// The attributes that are compared.
        keeps: Kept,
    },
    /// Compares with contents, and removes each source that the destination has: the last part of a
    /// move.
    Remove {
        /// The rule for removing a source.
        rule: Remove,
        /// The part of an entry that the destination must have.
        moving: Moving,
    },
    /// Makes the destination like the sources, by the rules of a copy and a mirror.
    Sync(Policy, Mirror),
}

impl Default for Task {
    fn default() -> Self {
        Self::Copy(Policy::default())
    }
}

impl Task {
    /// The rules for copying contents. `None` if nothing is copied.
    pub fn copies(&self) -> Option<&Policy> {
        match self {
            Self::Sync(..) if self.ends_mirror() || self.lists() => None,
            Self::Copy(policy) | Self::Sync(policy, _) => Some(policy),
            Self::Check { .. } | Self::Remove { .. } => None,
        }
    }

    /// True if the sources are only listed.
    pub fn lists(&self) -> bool {
        matches!(self, Self::Sync(_, Mirror { part: Part::Lists, .. }))
    }

    /// True if nothing is copied, and sources are removed that a mirror has.
    pub fn ends_mirror(&self) -> bool {
        matches!(self, Self::Sync(_, Mirror { part: Part::RemovesSources, .. }))
    }

    /// The attributes that are kept or compared.
    pub fn keeps(&self) -> Kept {
        match self {
            Self::Sync(policy, _) if self.ends_mirror() => {
                policy.keeps.and(Moving::Lossy.compares())
            }
            Self::Copy(policy) | Self::Sync(policy, _) => policy.keeps,
            Self::Check { keeps, .. } => *keeps,
            Self::Remove { moving, .. } => moving.compares(),
        }
    }

    /// The rules of a mirror, if the task is one.
    pub fn mirrors(&self) -> Option<&Mirror> {
        match self {
            Self::Sync(_, mirror) => Some(mirror),
            Self::Copy(_) | Self::Check { .. } | Self::Remove { .. } => None,
        }
    }

    /// True if entries that only the destination has matter. Then all names in a directory are sent
    /// before its first subdirectory is listed.
    pub fn finds_extras(&self) -> bool {
        match self {
            Self::Copy(_) => false,
            Self::Check { .. } | Self::Remove { .. } => true,
            Self::Sync(_, mirror) => {
                let has_others = match mirror.part {
                    Part::AllElse => !mirror.renames,
                    part => matches!(part, Part::RemovesSources | Part::Lists),
                };
                mirror.delete.is_some() && !has_others
            }
        }
    }

    /// True if nothing is changed at the destination.
    pub fn keeps_destination(&self) -> bool {
        self.copies().is_none_or(|policy| policy.dry_run)
    }

    /// True if contents are compared by their hashes.
    pub fn compares_content(&self) -> bool {
        match self {
            Self::Check { content, .. } => *content,
            Self::Remove { .. } => true,
            Self::Sync(..) if self.ends_mirror() => true,
            Self::Sync(_, mirror) => mirror.sameness == Sameness::Content && !self.lists(),
            Self::Copy(_) => false,
        }
    }

    /// True if contents may be compared with files that only the destination has, because files may
    /// have been renamed.
    pub fn finds_renamed(&self) -> bool {
        self.mirrors().is_some_and(Mirror::finds_renamed)
    }

    /// The rule for removing sources, if they are removed.
    pub fn removes(&self) -> Option<Remove> {
        match self {
            Self::Remove { rule, .. } => Some(*rule),
            Self::Sync(..) if self.ends_mirror() => Some(Remove::SameContent),
            Self::Copy(_) | Self::Check { .. } | Self::Sync(..) => None,
        }
    }

    /// The part of an entry that a move needs at the destination, if the job belongs to a move.
    pub fn moving(&self) -> Option<Moving> {
        match self {
            Self::Sync(..) if self.ends_mirror() => Some(Moving::Lossy),
            Self::Copy(policy) | Self::Sync(policy, _) => policy.moving,
            Self::Check { .. } => None,
            Self::Remove { moving, .. } => Some(*moving),
        }
    }

    /// True if attributes of root are stored in an extended attribute on `side`.
    pub fn fakes(&self, side: Side) -> bool {
        self.mirrors().is_some_and(|mirror| match side {
            Side::Source => mirror.fakes_sources,
            Side::Destination => mirror.fakes_dest,
        })
    }
}

/// The rule for a file that already exists at the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conflict {
    /// Skip it if size and modification time are equal, otherwise replace it. The default.
    #[default]
    ReplaceChanged,
    /// Always replace it (`--force`).
    ReplaceAll,
    /// Never replace it (`--no-clobber`).
    Keep,
    /// Replace it only if it is older than the source (`--update`).
    ReplaceOlder,
}

/// The rules of a mirror, besides those for copying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Symbolic links are copied. Otherwise they are skipped.
    pub links: bool,
    /// Links that may lead out of the destination are skipped.
    pub safe_links: bool,
    /// Files that are newer than the source are kept.
    pub skips_newer: bool,
    /// The proof that a file needs no copy.
    pub sameness: Sameness,
    /// Times that differ by at most this many seconds count as equal. `None` compares nanoseconds.
    pub window: Option<u32>,
    /// Nothing is created that does not exist at the destination.
    pub existing_only: bool,
    /// Files with fewer bytes are skipped.
    pub size_min: Option<u64>,
    /// Files with more bytes are skipped.
    pub size_max: Option<u64>,
    /// Missing directories above the destination are created, too.
    pub creates_parents: bool,
    /// A non-empty directory may be replaced by another kind of entry.
    pub replaces_dirs: bool,
    /// The rules for removing entries that only the destination has.
    pub delete: Option<Delete>,
    /// Maximum number of entries that are removed, for any reason.
    pub delete_max: Option<u64>,
    /// Only the difference of a changed file is sent.
    pub delta: bool,
    /// The preferred length of the blocks for finding the difference, in bytes. By default it grows
    /// with the file.
    pub block_len: Option<u32>,
    /// The part of the work for this job.
    pub part: Part,
    /// If modes are not kept: the right to execute is taken from the source.
    pub executability: bool,
    /// The use of base directories for files that the destination lacks.
    pub bases: Option<Bases>,
    /// A symbolic link to a directory at the destination is used like a directory, if the source
    /// has one.
    pub keeps_dir_links: bool,
    /// The rules for walking the sources.
    pub walking: Walking,
    /// How existing files get new content.
    pub updating: Updating,
    /// Storage for a file is reserved before it is written.
    pub preallocates: bool,
    /// Files wait until everything else is done, and then get their names in quick succession.
    pub delays_updates: bool,
    /// Only the difference of a missing file to one with a similar name is sent.
    pub fuzzy: bool,
    /// A large missing file that would be removed elsewhere is renamed. Removals wait for that.
    pub renames: bool,
    /// The sources have attributes of root in an extended attribute (`--fake-super`).
    pub fakes_sources: bool,
    /// The destination has attributes of root in an extended attribute.
    pub fakes_dest: bool,
    /// Links of other users are followed in the paths of the destination and the directories
    /// besides it.
    pub foreign_links: bool,
    /// Runs of zeros in large files become holes.
    pub writes_sparse: bool,
    /// Reading files does not change their access times, if the system supports that.
    pub keeps_atimes: bool,
}

impl Mirror {
    /// True if contents may be requested after others were compared or copied, because the need for
    /// them shows late.
    pub fn asks_late(&self) -> bool {
        self.sameness == Sameness::Content || self.bases.is_some() || self.finds_renamed()
    }

    /// See [`Task::finds_renamed`].
    pub fn finds_renamed(&self) -> bool {
        self.renames && self.delete.is_some() && matches!(self.part, Part::All | Part::AllElse)
    }
}

/// How existing files get new content. Except for the first way, the complete content is written
/// into them. They keep their hard links, and are a mixture meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Updating {
    /// New files replace them.
    #[default]
    Replaces,
    /// The content is written into them.
    InPlace,
    /// The content is written into files that are shorter than the source. Others are skipped.
    Appends,
}

/// Where replaced and removed entries are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The backup directory, with the structure of the destination. A relative path starts in the
    /// destination. `None` keeps an entry in its directory.
    pub dir: Option<Vec<u8>>,
    /// The suffix for the names of backups.
    pub suffix: Vec<u8>,
}

impl Backup {
    /// Maximum length in a frame, in bytes.
    pub fn encoded_len_max(&self) -> usize {
        self.dir.as_ref().map_or(0, Vec::len) + self.suffix.len() + 16
    }
}

/// The use of base directories by a mirror, for files that are equal there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bases {
    /// They are not created in the destination.
    Compare,
    /// They are copied from the base.
    Copy,
    /// They become hard links to the file in the base.
    Link,
}

impl Bases {
    /// Maximum number of base directories.
    pub const MAX: usize = 20;
}

/// The rules for walking the sources of a mirror.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walking {
    /// Directories are listed without their content, except for sources without a name.
    pub only_dirs: bool,
    /// Directories that contain only directories, at any depth, are skipped.
    pub prunes_empty: bool,
    /// The file systems that are walked.
    pub systems: Systems,
    /// The handling of named sources that do not exist.
    pub missing: Missing,
    /// The part of the sources' paths that is kept.
    pub relative: Relative,
    /// The symbolic links that are followed, if not all.
    pub followed_links: FollowedLinks,
}

/// The symbolic links in sources that are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedLinks {
    /// Links to directories.
    pub to_dirs: bool,
    /// Links that may lead out of the sources; see [`crate::links::leads_out`].
    pub out: bool,
}

impl FollowedLinks {
    /// True if any links are followed.
    pub fn follows_any(self) -> bool {
        self.to_dirs || self.out
    }
}

/// The part of a source's path that is created at the destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relative {
    /// The last name. The default.
    #[default]
    No,
    /// The whole path, or the part after `/./`, with the attributes of its directories.
    Yes,
    /// The same path. Its directories are created if they are missing, but existing ones are not
    /// changed.
    WithoutImplied,
}

/// The file systems that a walk enters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Systems {
    /// All. The default.
    #[default]
    All,
    /// The file systems of the sources. A mount point is listed without content.
    OfSources,
    /// The file systems of the sources. A mount point is not listed.
    OfSourcesAlone,
}

/// The handling of named sources that do not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// They fail. The default.
    #[default]
    Fails,
    /// They are ignored.
    Ignored,
    /// The destination's entries with their names are removed.
    Removed,
}

/// The part of a mirror's work that one job does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// All of it. The default.
    #[default]
    All,
    /// All but removing entries that only the destination has, which another job does.
    AllElse,
    /// Removing entries that only the destination has, before another job does the rest.
    RemovesFirst,
    /// Removing entries that only the destination has, after another job has done the rest.
    RemovesLast,
    /// Removing sources, except directories, whose content the destination has. After all other
    /// jobs.
    RemovesSources,
    /// Listing the sources. The destination is not read.
    Lists,
    /// Counting the entries that would be removed, and the total. Entries that the sources have are
    /// reported as unchanged.
    Counts,
}

impl Part {
    /// True if the job only removes entries, or counts them.
    pub fn only_removes(self) -> bool {
        matches!(self, Self::RemovesFirst | Self::RemovesLast | Self::Counts)
    }
}

/// The proof that a file at the destination equals the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sameness {
    /// Length and modification time. The default.
    #[default]
    SizeAndTime,
    /// The length.
    Size,
    /// Length and content hash. Both sides read the file.
    Content,
    /// None: no file counts as equal.
    None,
}

/// The rules for removing entries that the sources do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Errors in the sources do not prevent removals.
    pub ignore_errors: bool,
}

/// How an interrupted copy of a large file is resumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resume {
    /// Trust the journal, and read back the last block. If the time of the source's last change is
    /// unknown, compare the stage with it: all of it, or samples if reading needs round trips.
    #[default]
    Quick,
    /// Read and hash all partial data again, on both sides (`--strict`).
    Strict,
    /// Do not resume: every copy begins again and leaves nothing (`--no-resume`).
    Never,
}

/// The part of an entry that must be at the destination before a move removes the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moving {
    /// All of it. A source is kept if the destination can't hold everything.
    Whole,
    /// The content, and the attributes that the destination can hold (`--lossy`).
    Lossy,
}

impl Moving {
    /// The attributes that the first part of a move keeps.
    pub const fn keeps(self) -> Kept {
        match self {
            Self::Whole => Kept::OF_ARCHIVES,
            Self::Lossy => Kept::OF_ARCHIVES.without(Kept::LINKS).with(Kept::AS_POSSIBLE),
        }
    }

    /// The attributes that are compared before a source is removed.
    pub const fn compares(self) -> Kept {
        match self {
            Self::Whole => Kept::OF_ARCHIVES,
            Self::Lossy => Kept::OF_COPIES.with(Kept::DEVICES).with(Kept::SPECIALS),
        }
    }
}

/// The rule for removing a source of a move that the destination has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remove {
    /// The content must be equal. A file system may not store times and modes exactly.
    SameContent,
    /// Everything that is compared must be equal.
    Same,
}

impl Remove {
    /// True if `outcome` means that the destination has the source, by this rule. The contents of
    /// files must have been compared.
    pub fn allows(self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Skipped(Skip::Unchanged) => true,
            Outcome::Differs(found) => self == Self::SameContent && found.is_minor(),
            _ => false,
        }
    }
}

/// The rules of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The rule for existing files.
    pub conflict: Conflict,
    /// Compare and report, but change nothing (`--dry-run`).
    pub dry_run: bool,
    /// How an interrupted copy of a large file is resumed.
    pub resume: Resume,
    /// Each file is read back from its medium before it is published (`--verify`).
    pub verify: bool,
    /// Everything that is published is flushed before the job ends successfully (`--sync`).
    pub sync: bool,
    /// The copy is the first part of a move.
    pub moving: Option<Moving>,
    /// A file that changes while it is read fails, even if it only grows (`--strict-source`).
    pub strict_source: bool,
    /// Content that is sent whole over a connection is accepted without a hash: the connection
    /// protects it (`--fast`).
    pub trusts_transit: bool,
    /// The attributes and other properties of the sources that are kept.
    pub keeps: Kept,
    /// Users and groups keep their numbers, regardless of their names at the destination.
    pub numeric_ids: bool,
}

impl Policy {
    /// True if content is always sent with its hash. Reading back needs a hash to compare with.
    pub fn wants_hashes(&self) -> bool {
        !self.trusts_transit || self.verify
    }

    /// True if everything that an earlier job left is compared with the source before it is used.
    pub fn proves_resumed(&self) -> bool {
        match self.resume {
            Resume::Strict => true,
            Resume::Quick => self.verify,
            Resume::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, Fault, FaultKind, Side};

    const PARTS: [Part; 7] = [
        Part::All,
        Part::AllElse,
        Part::RemovesFirst,
        Part::RemovesLast,
        Part::RemovesSources,
        Part::Lists,
        Part::Counts,
    ];

    fn sync(mirror: Mirror) -> Task {
        let policy = Policy { moving: Some(Moving::Whole), keeps: Kept::ALL, ..Policy::default() };
        Task::Sync(policy, mirror)
    }

    fn check(content: bool) -> Task {
        Task::Check { content, keeps: Kept::MODE }
    }

    fn remove(moving: Moving) -> Task {
        Task::Remove { rule: Remove::Same, moving }
    }

    /// Each row has a column for each of [`PARTS`].
    #[test]
    fn the_part_of_a_mirror_decides_what_its_job_does() {
        let mirror = |part| Mirror {
            part,
            sameness: Sameness::Content,
            delete: Some(Delete::default()),
            ..Mirror::default()
        };
        let of = |told: fn(&Task) -> bool| PARTS.map(|part| u8::from(told(&sync(mirror(part)))));
        assert_eq!(of(|task| task.copies().is_some()), [1, 1, 1, 1, 0, 0, 1]);
        assert_eq!(of(Task::lists), [0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(of(Task::ends_mirror), [0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(of(Task::keeps_destination), [0, 0, 0, 0, 1, 1, 0]);
        assert_eq!(of(Task::finds_extras), [1, 0, 1, 1, 0, 0, 1]);
        assert_eq!(of(Task::compares_content), [1, 1, 1, 1, 1, 0, 1]);
        assert_eq!(of(Task::finds_renamed), [0; 7]);
        assert_eq!(of(|task| task.removes().is_some()), [0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(of(|task| task.moving() == Some(Moving::Lossy)), [0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(of(|task| task.moving() == Some(Moving::Whole)), [1, 1, 1, 1, 0, 1, 1]);
        assert_eq!(of(|task| task.keeps() == Kept::ALL), [1, 1, 1, 1, 0, 1, 1]);
        assert_eq!(of(|task| task.mirrors().is_some()), [1; 7]);
        assert_eq!(PARTS.map(|part| u8::from(part.only_removes())), [0, 0, 1, 1, 0, 0, 1]);
        let renames = |part| sync(Mirror { renames: true, ..mirror(part) });
        assert_eq!(
            PARTS.map(|part| renames(part).finds_extras()),
            [true, true, true, true, false, false, true]
        );
        assert_eq!(
            PARTS.map(|part| renames(part).finds_renamed()),
            [true, true, false, false, false, false, false]
        );
        assert_eq!(sync(mirror(Part::RemovesSources)).removes(), Some(Remove::SameContent));
        let keeps = Moving::Lossy.compares().and(Kept::ALL);
        assert_eq!(sync(mirror(Part::RemovesSources)).keeps(), keeps);
        for part in PARTS {
            let task = sync(Mirror { delete: None, renames: true, ..mirror(part) });
            assert!(!task.finds_extras() && !task.finds_renamed(), "{part:?}");
            let task = sync(Mirror { sameness: Sameness::Size, ..mirror(part) });
            assert_eq!(task.compares_content(), part == Part::RemovesSources, "{part:?}");
        }
    }

    #[test]
    fn a_task_reports_its_rules() {
        let policy =
            Policy { moving: Some(Moving::Lossy), keeps: Kept::XATTRS, ..Policy::default() };
        let copy = Task::Copy(policy);
        let dry = Task::Copy(Policy { dry_run: true, ..policy });
        let all = [copy, check(true), check(false), remove(Moving::Whole)];
        assert_eq!(all.map(|task| task.copies().copied()), [Some(policy), None, None, None]);
        let compared = Moving::Whole.compares();
        assert_eq!(all.map(|task| task.keeps()), [Kept::XATTRS, Kept::MODE, Kept::MODE, compared]);
        assert!(all.iter().all(|task| task.mirrors().is_none() && !task.lists()));
        assert!(all.iter().all(|task| !task.ends_mirror() && !task.finds_renamed()));
        assert_eq!(all.map(|task| task.finds_extras()), [false, true, true, true]);
        assert_eq!(all.map(|task| task.keeps_destination()), [false, true, true, true]);
        assert!(dry.keeps_destination());
        assert_eq!(all.map(|task| task.compares_content()), [false, true, false, true]);
        assert_eq!(all.map(|task| task.removes()), [None, None, None, Some(Remove::Same)]);
        let moving = [Some(Moving::Lossy), None, None, Some(Moving::Whole)];
        assert_eq!(all.map(|task| task.moving()), moving);
    }

    #[test]
    fn a_mirror_asks_late_for_what_it_compares_or_finds_elsewhere() {
        let none = Mirror::default();
        let delete = Some(Delete::default());
        for (mirror, is_late) in [
            (none, false),
            (Mirror { sameness: Sameness::Content, ..none }, true),
            (Mirror { sameness: Sameness::None, ..none }, false),
            (Mirror { bases: Some(Bases::Link), ..none }, true),
            (Mirror { renames: true, ..none }, false),
            (Mirror { delete, ..none }, false),
            (Mirror { renames: true, delete, ..none }, true),
        ] {
            assert_eq!(mirror.asks_late(), is_late, "{mirror:?}");
        }
    }

    #[test]
    fn links_may_be_led_by_either_rule() {
        for (to_dirs, out) in [(false, false), (false, true), (true, false)] {
            assert_eq!(FollowedLinks { to_dirs, out }.follows_any(), to_dirs || out);
        }
    }

    #[test]
    fn a_backup_is_no_longer_than_its_words_and_their_lengths() {
        let backup =
            |dir: Option<&[u8]>| Backup { dir: dir.map(Vec::from), suffix: b"~old".to_vec() };
        assert_eq!(backup(None).encoded_len_max(), 20);
        assert_eq!(backup(Some(b"a/b")).encoded_len_max(), 23);
    }

    #[test]
    fn a_lossy_move_keeps_and_compares_less() {
        assert_eq!(Moving::Whole.keeps(), Kept::OF_ARCHIVES);
        assert_eq!(Moving::Whole.compares(), Kept::OF_ARCHIVES);
        let lossy = Moving::Lossy.keeps();
        assert!(lossy.has(Kept::AS_POSSIBLE.with(Kept::OWNER)) && !lossy.has(Kept::LINKS));
        let compared = Moving::Lossy.compares();
        assert!(compared.has(Kept::OF_COPIES.with(Kept::DEVICES).with(Kept::SPECIALS)));
        assert!(!compared.has_any(Kept::OWNER.with(Kept::ACL)));
    }

    /// Each row has the answer of [`Remove::SameContent`] and that of [`Remove::Same`].
    #[test]
    fn a_source_goes_only_if_the_destination_has_it() {
        let minor = Changes::TIME.with(Changes::MODE);
        let fault = Fault::new(Side::Source, FaultKind::Io, "no");
        for (outcome, expected) in [
            (Outcome::Skipped(Skip::Unchanged), [true, true]),
            (Outcome::Skipped(Skip::Exists), [false, false]),
            (Outcome::Differs(minor), [true, false]),
            (Outcome::Differs(minor.with(Changes::SIZE)), [false, false]),
            (Outcome::Differs(Changes::MISSING), [false, false]),
            (Outcome::Copied, [false, false]),
            (Outcome::Failed(fault), [false, false]),
        ] {
            let allowed = [Remove::SameContent, Remove::Same].map(|rule| rule.allows(&outcome));
            assert_eq!(allowed, expected, "{outcome:?}");
        }
    }

    #[test]
    fn hashes_are_wanted_unless_nothing_is_compared_with_them() {
        for (trusts_transit, verify, wanted) in
            [(false, false, true), (true, false, false), (true, true, true), (false, true, true)]
        {
            let policy = Policy { trusts_transit, verify, ..Policy::default() };
            assert_eq!(policy.wants_hashes(), wanted, "{trusts_transit} {verify}");
        }
        for (resume, verify, proves) in [
            (Resume::Strict, false, true),
            (Resume::Quick, false, false),
            (Resume::Quick, true, true),
            (Resume::Never, true, false),
        ] {
            let policy = Policy { resume, verify, ..Policy::default() };
            assert_eq!(policy.proves_resumed(), proves, "{resume:?} {verify}");
        }
    }

    #[test]
    fn each_side_fakes_by_itself() {
        let of = |fakes_sources, fakes_dest| {
            let mirror = Mirror { fakes_sources, fakes_dest, ..Mirror::default() };
            let task = Task::Sync(Policy::default(), mirror);
            [Side::Source, Side::Destination].map(|side| task.fakes(side))
        };
        assert_eq!(of(true, false), [true, false]);
        assert_eq!(of(false, true), [false, true]);
        assert!(!Task::default().fakes(Side::Source));
    }
}
