//! The decision about an entry that is not a directory.

use crate::{Kinds, Newer, Plan, changes};
use haul_model::{
    Changes, Entry, Fault, FaultKind, Kind, Meta, MetaKind, OnExisting, Outcome, Sameness, Side,
    Skip, Timestamp, Updating,
};

/// The action for an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Copy it, with this rule for an existing object.
    Copy(OnExisting),
    /// Replace a directory if it is empty. Otherwise [`non_empty_dir_fault`] is the fault.
    ReplaceEmptyDir,
    /// Compare the contents first.
    Compare,
    /// Keep its content, and set the attributes that differ.
    Leave,
    /// Do nothing. This is the outcome.
    Settled(Outcome),
}

/// The existing object at an entry's place in the destination.
#[derive(Debug, Clone, Copy)]
pub struct Existing<'e> {
    /// Its metadata.
    pub meta: &'e Meta,
    /// The target of the link, if both are symbolic links.
    pub target: Option<&'e [u8]>,
    /// It is the source object itself.
    pub is_source: bool,
    /// The entry is a symbolic link that points to it.
    pub is_link_target: bool,
}

/// Decides about `entry`. `mtime` is the time of its source, which the comparison may have
/// replaced. Also returns the differences of the existing object.
pub fn decide(
    plan: &Plan,
    entry: &Entry,
    mtime: Timestamp,
    existing: Option<Existing<'_>>,
) -> (Action, Changes) {
    match screen(plan, entry, mtime, existing) {
        Ok(found) => choose_action(plan, entry, existing.map(|there| there.meta), found),
        Err(action) => (action, Changes::default()),
    }
}

/// The first half of [`decide`]: the rules that skip an entry, whatever content is available
/// elsewhere. Returns the differences of the existing object.
///
/// # Errors
/// The action, if these rules decide it.
pub fn screen(
    plan: &Plan,
    entry: &Entry,
    mtime: Timestamp,
    existing: Option<Existing<'_>>,
) -> Result<Changes, Action> {
    let skip = |skip| Err(Action::Settled(Outcome::Skipped(skip)));
    let fail = |fault| Err(Action::Settled(Outcome::Failed(fault)));
    let is_excluded = matches!(entry.kind, Kind::File { .. }) && plan.excludes(&entry.kind);
    if is_excluded || existing.is_none() && plan.only_existing {
        return skip(Skip::Ruled);
    }
    let Some(Existing { meta, target, is_source, is_link_target }) = existing else {
        return Ok(Changes::MISSING);
    };
    if is_link_target {
        return fail(Fault::of_link_to_itself());
    }
    // A FIFO, socket or device may replace another.
    let are_special = (&entry.kind, meta.kind) == (&Kind::Special, MetaKind::Special);
    if plan.replaces == Kinds::Contents
        && let Some(fault) = refusal(meta, is_source)
        && (is_source || !are_special)
    {
        return fail(fault);
    }
    if plan.keeps_existing {
        return skip(Skip::Exists);
    }
    let found = changes(entry, meta, target, plan.keeps);
    if is_source {
        // Setting the differences would change the source, too. Or the file system has one number
        // for two objects.
        return match found.without(Changes::ATIME).is_empty() {
            true => Err(Action::Leave),
            false => fail(same_file()),
        };
    }
    let is_file = matches!(entry.kind, Kind::File { .. }) && !found.has(Changes::KIND);
    if is_file && plan.newer == Newer::Kept && plan.is_newer(meta.attributes.mtime, mtime, entry) {
        return skip(Skip::NotOlder);
    }
    Ok(found)
}

/// The second half of [`decide`]. The existing object differs from the entry by `found`.
pub fn choose_action(
    plan: &Plan,
    entry: &Entry,
    existing: Option<&Meta>,
    found: Changes,
) -> (Action, Changes) {
    let sent = |on_existing, found: Changes| (Action::Copy(on_existing), found.with(Changes::SENT));
    let skip = |skip| (Action::Settled(Outcome::Skipped(skip)), Changes::default());
    let Some(existing) = existing else { return sent(OnExisting::Keep, found) };
    let appends = plan.updating == Updating::Appends;
    let is_same = is_same(plan, entry, existing, found);
    let mtimes = (existing.attributes.mtime, entry.attributes.mtime);
    if !is_same && plan.newer == Newer::KeptIfNotOlder && mtimes.0 >= mtimes.1 {
        return skip(Skip::NotOlder);
    }
    if existing.kind == MetaKind::Dir && plan.replaces != Kinds::All {
        return (Action::ReplaceEmptyDir, found.with(Changes::SENT));
    }
    if let (Kind::File { size }, MetaKind::File { size: there }) = (&entry.kind, existing.kind) {
        if appends && (there > *size || !is_same && there == *size && !is_by_content(plan)) {
            return skip(Skip::Ruled);
        }
        if is_by_content(plan) && there == *size {
            return (Action::Compare, found);
        }
        if is_by_content(plan) && there != *size {
            // Another length means another content.
            return sent(OnExisting::Replace, found.with(Changes::CONTENT));
        }
    }
    match is_same {
        true => (Action::Leave, found),
        false => sent(OnExisting::Replace, found),
    }
}

fn is_by_content(plan: &Plan) -> bool {
    plan.compare_by == Sameness::Content
}

/// True if the existing object, which differs by `found`, equals `entry` according to its metadata.
fn is_same(plan: &Plan, entry: &Entry, existing: &Meta, found: Changes) -> bool {
    match entry.kind {
        _ if found.has(Changes::KIND) => false,
        Kind::File { .. } => plan.passes_quick_check(entry, existing, found),
        // Its attributes are set only when it is created.
        _ => found.is_empty(),
    }
}

impl Plan {
    /// True if the file `existing`, which differs by `found`, has the content of `entry`, as far as
    /// metadata shows.
    pub fn passes_quick_check(&self, entry: &Entry, existing: &Meta, found: Changes) -> bool {
        !found.has(Changes::SIZE)
            && match self.compare_by {
                Sameness::SizeAndTime => existing.attributes.mtime == entry.attributes.mtime,
                Sameness::Size => true,
                Sameness::Content => entry.size() == 0,
                Sameness::None => false,
            }
    }
}

/// The reason why `existing` must not be replaced by a copy: it may be the source, or be of a kind
/// that only mirrors replace.
pub fn refusal(existing: &Meta, is_source: bool) -> Option<Fault> {
    let fault = |kind, message: &str| Some(Fault::new(Side::Destination, kind, message));
    match existing.kind {
        _ if is_source => Some(same_file()),
        MetaKind::Dir => {
            fault(FaultKind::IsDirectory, "the destination has a directory with this name")
        }
        MetaKind::Special => fault(
            FaultKind::Special,
            "the destination has a device, FIFO or socket with this name, which haul does not replace",
        ),
        MetaKind::File { .. } | MetaKind::Symlink => None,
    }
}

/// The fault of a file or link that is itself the existing object.
fn same_file() -> Fault {
    let message = "source and destination are the same file";
    Fault::new(Side::Destination, FaultKind::SameFile, message)
}

/// The fault of an entry at whose place a non-empty directory exists.
pub fn non_empty_dir_fault() -> Fault {
    let message = "the destination has a non-empty directory with this name";
    Fault::new(Side::Destination, FaultKind::IsDirectory, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Conflict, Kept, Mirror, Policy, Special};

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, nanos: 5 }
    }

    fn file(size: u64, secs: i64) -> Entry {
        Entry::new(None, Kind::File { size }, Attributes::new(0o644, at(secs)))
    }

    fn link(target: &[u8], secs: i64) -> Entry {
        Entry { kind: Kind::Symlink { target: target.into() }, ..file(0, secs) }
    }

    fn fifo(secs: i64) -> Entry {
        Entry { kind: Kind::Special, special: Some(Special::Fifo), ..file(0, secs) }
    }

    fn meta(kind: MetaKind, secs: i64) -> Meta {
        Meta::new(kind, Attributes::new(0o644, at(secs)))
    }

    fn existing<'e>(meta: &'e Meta, target: Option<&'e [u8]>) -> Existing<'e> {
        Existing { meta, target, is_source: false, is_link_target: false }
    }

    fn copy(conflict: Conflict) -> Plan {
        Plan::of_copy(&Policy { conflict, keeps: Kept::OF_COPIES, ..Policy::default() })
    }

    fn mirror() -> Plan {
        Plan::of_mirror(&Policy::default(), &Mirror { links: true, ..Mirror::default() })
    }

    fn word(action: &Action) -> String {
        match action {
            Action::Copy(OnExisting::Keep) => "create".into(),
            Action::Copy(OnExisting::Replace) => "replace".into(),
            Action::Settled(Outcome::Skipped(skip)) => format!("{skip:?}"),
            Action::Settled(Outcome::Failed(fault)) => format!("fails: {:?}", fault.kind),
            other => format!("{other:?}"),
        }
    }

    const CONFLICTS: [Conflict; 4] =
        [Conflict::ReplaceChanged, Conflict::ReplaceAll, Conflict::Keep, Conflict::ReplaceOlder];

    /// The source has 10 bytes and the time 7. Each row has a column for each of [`CONFLICTS`].
    #[test]
    fn copies_of_files() {
        const FILE: MetaKind = MetaKind::File { size: 10 };
        for (kind, secs, expected) in [
            (FILE, 7, ["Leave", "replace", "Exists", "Leave"]),
            (FILE, 6, ["replace", "replace", "Exists", "replace"]),
            (FILE, 8, ["replace", "replace", "Exists", "NotOlder"]),
            (MetaKind::File { size: 11 }, 6, ["replace", "replace", "Exists", "replace"]),
            (MetaKind::File { size: 11 }, 7, ["replace", "replace", "Exists", "NotOlder"]),
            (MetaKind::Symlink, 6, ["replace", "replace", "Exists", "replace"]),
            (MetaKind::Symlink, 8, ["replace", "replace", "Exists", "NotOlder"]),
            (MetaKind::Dir, 6, ["fails: IsDirectory"; 4]),
            (MetaKind::Special, 6, ["fails: Special"; 4]),
        ] {
            let meta = meta(kind, secs);
            let decided = CONFLICTS.map(|conflict| {
                let there = Some(existing(&meta, None));
                word(&decide(&copy(conflict), &file(10, 7), at(7), there).0)
            });
            assert_eq!(decided, expected, "{kind:?} of the time {secs}");
        }
        let none = CONFLICTS.map(|it| word(&decide(&copy(it), &file(10, 7), at(7), None).0));
        assert_eq!(none, ["create"; 4]);
    }

    /// The same with links to `a` and FIFOs, of which a copy keeps no time.
    #[test]
    fn copies_of_links_and_fifos() {
        let (a, b): (Option<&[u8]>, Option<&[u8]>) = (Some(b"a"), Some(b"b"));
        for (entry, kind, target, secs, expected) in [
            (link(b"a", 7), MetaKind::Symlink, a, 6, ["Leave", "Leave", "Exists", "Leave"]),
            (link(b"a", 7), MetaKind::Symlink, b, 6, ["replace", "replace", "Exists", "replace"]),
            (link(b"a", 7), MetaKind::Symlink, b, 7, ["replace", "replace", "Exists", "NotOlder"]),
            (
                link(b"a", 7),
                MetaKind::File { size: 1 },
                None,
                6,
                ["replace", "replace", "Exists", "replace"],
            ),
            (link(b"a", 7), MetaKind::Special, None, 6, ["fails: Special"; 4]),
            (link(b"a", 7), MetaKind::Dir, None, 6, ["fails: IsDirectory"; 4]),
            (fifo(7), MetaKind::Special, None, 7, ["Leave", "Leave", "Exists", "Leave"]),
            (fifo(7), MetaKind::Dir, None, 6, ["fails: IsDirectory"; 4]),
            (
                fifo(7),
                MetaKind::File { size: 1 },
                None,
                6,
                ["replace", "replace", "Exists", "replace"],
            ),
        ] {
            let special = (kind == MetaKind::Special).then_some(Special::Fifo);
            let meta = Meta { special, ..meta(kind, secs) };
            let decided = CONFLICTS.map(|conflict| {
                let there = Some(existing(&meta, target));
                word(&decide(&copy(conflict), &entry, at(7), there).0)
            });
            assert_eq!(decided, expected, "{entry:?} over {kind:?} of the time {secs}");
        }
    }

    #[test]
    fn nothing_is_replaced_by_itself() {
        let itself = meta(MetaKind::File { size: 10 }, 7);
        let there = Existing { is_source: true, ..existing(&itself, None) };
        let decided = |plan: &Plan, entry: &Entry| word(&decide(plan, entry, at(7), Some(there)).0);
        for conflict in CONFLICTS {
            assert_eq!(decided(&copy(conflict), &file(10, 7)), "fails: SameFile");
        }
        assert_eq!(decided(&mirror(), &file(10, 7)), "Leave");
        // One number for two objects.
        assert_eq!(decided(&mirror(), &file(11, 7)), "fails: SameFile");
        let never = Plan { compare_by: Sameness::None, ..mirror() };
        assert_eq!(decided(&never, &file(10, 7)), "Leave");
    }

    #[test]
    fn a_link_does_not_replace_its_target() {
        let meta = meta(MetaKind::File { size: 10 }, 7);
        let there = Existing { is_link_target: true, ..existing(&meta, None) };
        for plan in [mirror(), copy(Conflict::ReplaceAll), copy(Conflict::Keep)] {
            let (action, _) = decide(&plan, &link(b"a", 7), at(7), Some(there));
            assert_eq!(action, Action::Settled(Outcome::Failed(Fault::of_link_to_itself())));
        }
    }

    #[test]
    fn differences_of_existing_objects_are_reported() {
        let meta = meta(MetaKind::File { size: 11 }, 6);
        let (_, found) = decide(&mirror(), &file(10, 7), at(7), Some(existing(&meta, None)));
        assert_eq!(found, Changes::SIZE.with(Changes::TIME).with(Changes::SENT));
        let (_, found) = decide(&mirror(), &file(10, 7), at(7), None);
        assert_eq!(found, Changes::MISSING.with(Changes::SENT));
    }

    #[test]
    fn nanoseconds_count_without_a_window() {
        let there = Meta::new(
            MetaKind::File { size: 10 },
            Attributes::new(0o644, Timestamp { secs: 7, nanos: 6 }),
        );
        let decided =
            |plan: &Plan| decide(plan, &file(10, 7), at(7), Some(existing(&there, None))).0;
        assert_eq!(decided(&mirror()), Action::Copy(OnExisting::Replace));
        let later = Plan { newer: Newer::Kept, ..mirror() };
        assert_eq!(word(&decided(&later)), "NotOlder");
        let in_window = |plan: &Plan| plan.in_window(at(7), there.attributes.mtime);
        assert_eq!(in_window(&mirror()), None);
        let window = Plan { window: Some(0), ..mirror() };
        assert_eq!(in_window(&window), Some(there.attributes.mtime));
        assert_eq!(window.in_window(at(8), there.attributes.mtime), None);
    }

    #[test]
    fn files_of_no_size_are_compared() {
        let plan = Plan { compare_by: Sameness::Content, ..mirror() };
        let decided = |size| {
            let meta = meta(MetaKind::File { size }, 7);
            decide(&plan, &file(size, 7), at(7), Some(existing(&meta, None))).0
        };
        // The files of /proc have content, too.
        assert_eq!((decided(0), decided(1)), (Action::Compare, Action::Compare));
    }

    #[test]
    fn refusals_name_the_existing_kind() {
        let fault = |kind, is_source| refusal(&meta(kind, 7), is_source).map(|fault| fault.kind);
        assert_eq!(fault(MetaKind::File { size: 1 }, false), None);
        assert_eq!(fault(MetaKind::Symlink, false), None);
        assert_eq!(fault(MetaKind::Dir, false), Some(FaultKind::IsDirectory));
        assert_eq!(fault(MetaKind::Special, false), Some(FaultKind::Special));
        assert_eq!(fault(MetaKind::File { size: 1 }, true), Some(FaultKind::SameFile));
        assert_eq!(non_empty_dir_fault().kind, FaultKind::IsDirectory);
    }
}
