//! The task of a job, and its rules.

use crate::{Kept, Outcome, Skip};
use serde::{Deserialize, Serialize};

/// The task of a job, the same for both roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Copies by these rules.
    Copy(Policy),
    /// Compares the sources with the destination, and changes nothing.
    Check {
        /// Contents are compared, too: each side hashes its own.
        content: bool,
        /// The attributes that are compared.
        keeps: Kept,
    },
    /// Compares, contents included, and removes each source that the destination has:
    /// the end of a move.
    Remove {
        /// The outcomes by which a source is removed.
        rule: Remove,
        /// How much of it has to be at the destination.
        moving: Moving,
    },
    /// Makes the destination like the sources, by the rules of a copy and its own.
    Sync(Policy, Mirror),
}

impl Default for Task {
    fn default() -> Self {
        Self::Copy(Policy::default())
    }
}

impl Task {
    /// The rules by which contents are copied; `None` if none are.
    pub fn copies(&self) -> Option<&Policy> {
        match self {
            Self::Sync(..) if self.ends_mirror() || self.lists() => None,
            Self::Copy(policy) | Self::Sync(policy, _) => Some(policy),
            Self::Check { .. } | Self::Remove { .. } => None,
        }
    }

    /// True if the sources are listed, and no more.
    pub fn lists(&self) -> bool {
        matches!(self, Self::Sync(_, Mirror { part: Part::Lists, .. }))
    }

    /// True if nothing is copied, and sources go that a mirror has.
    pub fn ends_mirror(&self) -> bool {
        matches!(self, Self::Sync(_, Mirror { part: Part::RemovesSources, .. }))
    }

    /// The attributes that are kept, or compared.
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

    /// The rules of a mirror, if the destination is to become one.
    pub fn mirrors(&self) -> Option<&Mirror> {
        match self {
            Self::Sync(_, mirror) => Some(mirror),
            Self::Copy(_) | Self::Check { .. } | Self::Remove { .. } => None,
        }
    }

    /// True if what only the destination has matters: the names of all that a directory
    /// has are told before the first of its directories is listed.
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

    /// True if nothing at the destination is changed.
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

    /// True if contents may be compared with those of files that only the destination has:
    /// they may have got new names.
    pub fn finds_renamed(&self) -> bool {
        self.mirrors().is_some_and(Mirror::finds_renamed)
    }

    /// The outcomes by which a source is removed, if sources are.
    pub fn removes(&self) -> Option<Remove> {
        match self {
            Self::Remove { rule, .. } => Some(*rule),
            Self::Sync(..) if self.ends_mirror() => Some(Remove::SameContent),
            Self::Copy(_) | Self::Check { .. } | Self::Sync(..) => None,
        }
    }

    /// How much of an entry a move needs at the destination, if the job is a part of one.
    pub fn moving(&self) -> Option<Moving> {
        match self {
            Self::Sync(..) if self.ends_mirror() => Some(Moving::Lossy),
            Self::Copy(policy) | Self::Sync(policy, _) => policy.moving,
            Self::Check { .. } => None,
            Self::Remove { moving, .. } => Some(*moving),
        }
    }
}

/// The rule for a file that exists at the destination already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Conflict {
    /// Skipped when size and modification time agree, else replaced.
    #[default]
    ReplaceChanged,
    /// Always replaced (`--force`).
    ReplaceAll,
    /// Never replaced (`--no-clobber`).
    Keep,
    /// Replaced only when it is older than the source (`--update`).
    ReplaceOlder,
}

/// The rules by which a destination becomes like its sources, besides those of the copies
/// that this takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Symbolic links are copied; else they are passed over.
    pub links: bool,
    /// Of these, those that may lead out of the destination are passed over.
    pub safe_links: bool,
    /// Files are left alone that are newer than the source.
    pub skips_newer: bool,
    /// The proof that a file needs no copy.
    pub sameness: Sameness,
    /// Times no further apart are one, in whole seconds; `None` compares all of them.
    pub window: Option<u32>,
    /// Nothing is made that the destination has not.
    pub existing_only: bool,
    /// Files below this many bytes are left alone.
    pub size_min: Option<u64>,
    /// Files above this many bytes are left alone.
    pub size_max: Option<u64>,
    /// Directories above a missing destination are made, too.
    pub makes_path: bool,
    /// A directory makes way for what is none, though it is not empty.
    pub makes_way: bool,
    /// The rules by which what only the destination has is removed.
    pub delete: Option<Delete>,
    /// The most entries that are removed, for whatever reason.
    pub delete_max: Option<u64>,
    /// Of a changed file only the difference goes over a wire.
    pub delta: bool,
    /// The blocks by which that is found have so many bytes, if they can; else about as
    /// many as there are.
    pub block_len: Option<u32>,
    /// The part of the work that this job does.
    pub part: Part,
    /// Where modes are not kept: files can be executed, or can't, as in the source.
    pub executability: bool,
    /// The use of the directories that are looked into for what the destination has not.
    pub bases: Option<Bases>,
    /// A symbolic link to a directory in the destination stands for that, where the sources
    /// have a directory.
    pub keeps_dir_links: bool,
    /// The rules by which the sources are walked.
    pub walking: Walking,
    /// The way in which files that are there get new content.
    pub updating: Updating,
    /// Room for a file is reserved before it is written.
    pub preallocates: bool,
    /// Files wait until all else is done, and get their names one right behind the other.
    pub delays: bool,
    /// Of a missing file only the difference to one with a name like it goes over a wire.
    pub fuzzy: bool,
    /// A large file that is missing, and is one of those that are removed, gets its new name
    /// there. What is removed waits for that.
    pub renames: bool,
    /// The sources have attributes written down that only root can give.
    pub fakes_sources: bool,
    /// So has the destination, and gets them like that.
    pub fakes_dest: bool,
    /// Links of other users lead to the destination, and to the directories beside it, too.
    pub foreign_links: bool,
    /// Runs of zeros in large files become holes.
    pub leaves_zeros: bool,
    /// Reading files leaves the times of their last reading alone, where that can be had.
    pub keeps_atimes: bool,
}

impl Mirror {
    /// True if contents may be asked for after others were compared or copied: it shows
    /// late that they are needed.
    pub fn asks_late(&self) -> bool {
        self.sameness == Sameness::Content || self.bases.is_some() || self.finds_renamed()
    }

    /// See [`Task::finds_renamed`].
    pub fn finds_renamed(&self) -> bool {
        self.renames && self.delete.is_some() && matches!(self.part, Part::All | Part::AllElse)
    }
}

/// The way in which files that are there get new content. But for the first it is written
/// into them, once it is whole: they keep their other names, and show a mixture meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Updating {
    /// Others take their names.
    #[default]
    Replaces,
    /// It is written into them.
    InPlace,
    /// The same, into those alone that are shorter than the source.
    Appends,
}

/// Where what a mirror replaces or removes is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The directory that it is moved to, which stands for the destination; a relative one
    /// starts in that. Without it, it stays where it was.
    pub dir: Option<Vec<u8>>,
    /// The end that its name gets.
    pub suffix: Vec<u8>,
}

impl Backup {
    /// Bytes that it takes in a frame, at most.
    pub fn encoded_len_max(&self) -> usize {
        self.dir.as_ref().map_or(0, Vec::len) + self.suffix.len() + 16
    }
}

/// The use that a mirror makes of directories besides the destination: of what is the
/// same there, by the rules for what is in the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bases {
    /// It is left out of the destination.
    Compare,
    /// The destination gets a copy of it.
    Copy,
    /// The destination gets a hard link to it.
    Link,
}

impl Bases {
    /// The most directories.
    pub const MAX: usize = 20;
}

/// The rules by which the sources of a mirror are walked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walking {
    /// Directories come without anything in them, but for sources without a name.
    pub only_dirs: bool,
    /// Directories in which, at any depth, nothing but directories is are left out.
    pub prunes_empty: bool,
    /// The file systems that are walked.
    pub systems: Systems,
    /// The fate of named sources that are not there.
    pub missing: Missing,
    /// The paths that sources keep at the destination.
    pub relative: Relative,
    /// The symbolic links that stand for what they lead to, where not all do.
    pub led: Led,
}

/// The symbolic links of sources that stand for what they lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Led {
    /// Those to directories.
    pub to_dirs: bool,
    /// Those that may lead out of the sources; see [`crate::links::leads_out`].
    pub out: bool,
}

impl Led {
    /// True if any do.
    pub fn may_be(self) -> bool {
        self.to_dirs || self.out
    }
}

/// The part of a source's path that is made at the destination, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relative {
    /// Its last name.
    #[default]
    No,
    /// All of it, or all behind `/./`, with the attributes that its directories have.
    Yes,
    /// The same. A directory on the way to a source is made if it is missing, and is left as
    /// it is otherwise.
    WithoutWay,
}

/// The file systems that a walk goes through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Systems {
    /// All.
    #[default]
    All,
    /// Those of the sources. A directory where another is mounted comes without anything
    /// in it.
    OfSources,
    /// Those of the sources, without such directories.
    OfSourcesAlone,
}

/// The fate of named sources that are not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Missing {
    /// They fail.
    #[default]
    Fails,
    /// Nothing is told of them.
    PassedOver,
    /// The destination's entries of their names are removed.
    Removed,
}

/// The part of a mirror's work that one job does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// All of it.
    #[default]
    All,
    /// All but removing what only the destination has, which another job does.
    AllElse,
    /// Removing what only the destination has, before another job does all else.
    RemovesFirst,
    /// The same, behind another job that has done all else.
    RemovesLast,
    /// Removing sources that are no directories, of which the destination has the content:
    /// behind all other jobs.
    RemovesSources,
    /// Telling what the sources have. The destination is not looked at.
    Lists,
    /// Telling what would be removed that only the destination has, and of how much: what
    /// is there of the sources is told as unchanged.
    Counts,
}

impl Part {
    /// True if something is removed, or would be, and nothing else is done.
    pub fn only_removes(self) -> bool {
        matches!(self, Self::RemovesFirst | Self::RemovesLast | Self::Counts)
    }
}

/// The proof that a file at the destination is that of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sameness {
    /// Its length and its time.
    #[default]
    SizeAndTime,
    /// Its length.
    Size,
    /// Its length and the hash of its content: both sides read it.
    Content,
    /// There is none: no file is taken for another.
    None,
}

/// The rules by which a mirror removes what the sources do not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// Errors of the sources hold nothing back.
    pub ignore_errors: bool,
}

/// How an interrupted copy of a large file is continued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resume {
    /// The journal is believed, and the last block read back. If the source has no time
    /// of its last change, the stage is compared with it: all of it, or samples where
    /// reading takes round trips.
    #[default]
    Quick,
    /// All that is there is read and hashed again, on both sides (`--strict`).
    Strict,
    /// It is not: every copy begins anew and leaves nothing behind
    /// (`--no-resume`).
    Never,
}

/// How much of an entry has to be at the destination before a move removes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moving {
    /// All of it: what has something that the destination can't hold stays where it is.
    Whole,
    /// Its content, and of the rest what the destination holds (`--lossy`).
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

    /// Those that are compared before a source is removed.
    pub const fn compares(self) -> Kept {
        match self {
            Self::Whole => Kept::OF_ARCHIVES,
            Self::Lossy => Kept::OF_COPIES.with(Kept::DEVICES).with(Kept::SPECIALS),
        }
    }
}

/// The rule by which a source of a move is removed, once the destination has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Remove {
    /// Whatever is there with the same content: a file system may not keep times
    /// and modes as exactly.
    SameContent,
    /// Only what is the same in all that is compared.
    Same,
}

impl Remove {
    /// True if by this rule `outcome` says that the destination has what the source
    /// has. The contents of files were compared.
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
    /// How an interrupted copy of a large file is continued.
    pub resume: Resume,
    /// Each file is read back from its medium before it is published
    /// (`--verify`).
    pub verify: bool,
    /// All that is published is durable when the job has ended well (`--sync`).
    pub sync: bool,
    /// The copy is the first part of a move.
    pub moving: Option<Moving>,
    /// A file that changes in any way while it is read fails, also if it only grows
    /// (`--strict-source`).
    pub strict_source: bool,
    /// Content that comes whole over a connection is believed without a hash: the connection
    /// protects it (`--fast`).
    pub trusts_transit: bool,
    /// The attributes that are kept, and what else of the sources.
    pub keeps: Kept,
    /// Users and groups keep their numbers, whatever their names are at the destination.
    pub numeric_ids: bool,
}

impl Policy {
    /// True if no content goes over a connection without its hash. Where what was written is
    /// read back, there must be one to compare it with.
    pub fn wants_hashes(&self) -> bool {
        !self.trusts_transit || self.verify
    }

    /// True if all that an earlier job has left is compared with the source
    /// before it is believed.
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
    fn a_task_tells_its_rules() {
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
            assert_eq!(Led { to_dirs, out }.may_be(), to_dirs || out);
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
}
