//! Decides about a listed entry, given the existing entry at the destination: the
//! one place where that is decided, for every kind of job.

use super::dirs::Base;
use super::providers::Bring;
use super::{of_sender, own};
use haul_model::{
    Changes, Conflict, Entry, Fault, FaultKind, Kept, Kind, Name, Outcome, Side, Skip, Special,
    Timestamp,
};
use haul_proto::Rival;
use haul_store::OnExisting;
use haul_tree::{Meta, MetaKind, TreeDir};
use std::io;

/// The decision about an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Copy it, and put it there like this.
    Copy(OnExisting),
    /// Compare its content first.
    Hash,
    /// Compare its content first with that of the entries of its name in these directories
    /// of bases, each with how it differs otherwise; if it is in none, this is the decision.
    HashBases(Vec<(Base, Changes)>, Box<Decision>),
    /// Bring it like this from the entry of the same name in this directory of a base, and put
    /// it there like this.
    Base(Base, Bring, OnExisting),
    /// Nothing; this is its outcome.
    Settled(Outcome),
}

impl Decision {
    /// The same, where something stands that it replaces.
    pub(super) fn replacing(self) -> Self {
        match self {
            Self::Copy(_) => Self::Copy(OnExisting::Replace),
            Self::Base(base, bring, _) => Self::Base(base, bring, OnExisting::Replace),
            Self::HashBases(bases, otherwise) => {
                Self::HashBases(bases, Box::new(otherwise.replacing()))
            }
            Self::Hash | Self::Settled(_) => self,
        }
    }
}

/// The rules by which an entry is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) conflict: Conflict,
    pub(crate) keeps: Kept,
}

/// Decides about a file, where `existing` stands at its name.
pub(crate) fn file(entry: &Entry, existing: Option<&Meta>, conflict: Conflict) -> Decision {
    let Some(existing) = existing else { return Decision::Copy(OnExisting::Keep) };
    if let Some(refusal) = refusal(entry, existing) {
        return Decision::Settled(Outcome::Failed(refusal));
    }
    // Other attributes alone are no reason to copy the content.
    let unchanged = changes(entry, existing, None, Kept::TIMES).is_empty();
    let skip = match conflict {
        Conflict::Keep => Some(Skip::Exists),
        Conflict::ReplaceAll => None,
        Conflict::ReplaceChanged => unchanged.then_some(Skip::Unchanged),
        Conflict::ReplaceOlder if unchanged => Some(Skip::Unchanged),
        Conflict::ReplaceOlder => {
            is_not_older(existing, entry.attributes.mtime).then_some(Skip::NotOlder)
        }
    };
    skip.map_or(Decision::Copy(OnExisting::Replace), |skip| {
        Decision::Settled(Outcome::Skipped(skip))
    })
}

/// Decides about a symbolic link, where `existing` stands at its `name` in `dir`.
pub(crate) fn link(
    dir: &dyn TreeDir,
    name: &Name,
    entry: &Entry,
    existing: Option<&Meta>,
    rules: Rules,
) -> io::Result<Decision> {
    if let Some(fault) = existing.and_then(|there| leads_there(dir, name, entry, there)) {
        return Ok(Decision::Settled(Outcome::Failed(fault)));
    }
    let target = match existing {
        Some(Meta { kind: MetaKind::Symlink, .. }) => Some(dir.read_link(name)?),
        _ => None,
    };
    Ok(symlink(entry, existing, target.as_deref(), rules))
}

/// The same, where that is known; `existing_target` is where an existing link
/// points.
pub(crate) fn symlink(
    entry: &Entry,
    existing: Option<&Meta>,
    existing_target: Option<&[u8]>,
    rules: Rules,
) -> Decision {
    let Some(existing) = existing else { return Decision::Copy(OnExisting::Keep) };
    if let Some(refusal) = refusal(entry, existing) {
        return Decision::Settled(Outcome::Failed(refusal));
    }
    made_anew(entry, existing, existing_target, rules)
}

/// Decides about a FIFO, socket or device that is made anew.
pub(crate) fn special(entry: &Entry, existing: Option<&Meta>, rules: Rules) -> Decision {
    let Some(existing) = existing else { return Decision::Copy(OnExisting::Keep) };
    let is_one = || one_object(entry, existing);
    let in_the_way = || refusal(entry, existing).filter(|_| existing.kind != MetaKind::Special);
    if let Some(refusal) = is_one().or_else(in_the_way) {
        return Decision::Settled(Outcome::Failed(refusal));
    }
    made_anew(entry, existing, None, rules)
}

/// Decides about what is made anew if anything of it differs.
fn made_anew(
    entry: &Entry,
    existing: &Meta,
    existing_target: Option<&[u8]>,
    Rules { conflict, keeps }: Rules,
) -> Decision {
    let skip = match conflict {
        Conflict::Keep => Some(Skip::Exists),
        _ if changes(entry, existing, existing_target, keeps).is_empty() => Some(Skip::Unchanged),
        Conflict::ReplaceOlder if is_not_older(existing, entry.attributes.mtime) => {
            Some(Skip::NotOlder)
        }
        _ => None,
    };
    skip.map_or(Decision::Copy(OnExisting::Replace), |skip| {
        Decision::Settled(Outcome::Skipped(skip))
    })
}

/// The fate of an entry whose place an earlier source of the job has: nothing that
/// this job has brought is replaced by it.
pub(crate) fn rival(rival: &Rival, conflict: Conflict) -> Outcome {
    // Nothing of it would be kept.
    let rules = Rules { conflict, keeps: Kept::NONE };
    let Rival { entry, first, is_same, fault, .. } = rival;
    if *is_same {
        return Outcome::Skipped(Skip::Unchanged);
    }
    let failed = || Outcome::Failed(of_sender(fault.clone()));
    let (kind, target) = match &first.kind {
        Kind::File { size } => (MetaKind::File { size: *size }, None),
        Kind::Dir => (MetaKind::Dir, None),
        Kind::Symlink { target } => (MetaKind::Symlink, Some(&**target)),
        Kind::Special => return failed(),
    };
    let there = Meta::new(kind, first.attributes.clone());
    let decision = match &entry.kind {
        Kind::Symlink { .. } => symlink(entry, Some(&there), target, rules),
        _ => file(entry, Some(&there), conflict),
    };
    match decision {
        Decision::Settled(outcome @ Outcome::Skipped(_)) => outcome,
        _ => failed(),
    }
}

/// How what exists differs from `entry`, whatever its content; `existing_target`
/// is where an existing link points. By this checks tell, copies decide, and
/// attributes are set or left alone, as far as they are kept.
pub(crate) fn changes(
    entry: &Entry,
    existing: &Meta,
    existing_target: Option<&[u8]>,
    keeps: Kept,
) -> Changes {
    let of = |kept| entry.attributes.changes(&existing.attributes, kept);
    match (&entry.kind, existing.kind) {
        (Kind::File { size }, MetaKind::File { size: there }) => {
            of(keeps).with(Changes::SIZE.only_if(*size != there))
        }
        (Kind::Dir, MetaKind::Dir) => of(keeps.of_dirs()),
        (Kind::Symlink { target }, MetaKind::Symlink) => {
            let target = Changes::TARGET.only_if(existing_target != Some(target));
            target.with(of(of_links(keeps)))
        }
        (Kind::Special, MetaKind::Special) => match (entry.special, existing.special) {
            (one, other) if one == other => of(keeps),
            (Some(Special::Block(_)), Some(Special::Block(_)))
            | (Some(Special::Char(_)), Some(Special::Char(_))) => of(keeps).with(Changes::TARGET),
            _ => Changes::KIND,
        },
        _ => Changes::KIND,
    }
}

/// The attributes of a link that are kept up. Its time is one only where that is asked for
/// by itself.
const fn of_links(keeps: Kept) -> Kept {
    let times = Kept::TIMES.only_if(keeps.has(Kept::LINK_TIMES) && keeps.has(Kept::TIMES));
    times.with(keeps.and(Kept::OWNER.with(Kept::XATTRS)))
}

fn is_not_older(existing: &Meta, than: Timestamp) -> bool {
    existing.attributes.mtime >= than
}

/// Why `existing` must not be replaced by `entry`, whatever the policy.
pub(super) fn refusal(entry: &Entry, existing: &Meta) -> Option<Fault> {
    if let Some(fault) = one_object(entry, existing) {
        return Some(fault);
    }
    let fault = |kind, message: &str| Some(Fault::new(Side::Destination, kind, message));
    match existing.kind {
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

/// The fault of an entry that would replace itself.
pub(super) fn one_object(entry: &Entry, existing: &Meta) -> Option<Fault> {
    own::is_own(entry, existing.id).then(own::same_file)
}

/// The fault of a link that would replace what it leads to, at its source or from its new
/// place in `dir`. Before that, a directory would have been removed.
pub(super) fn leads_there(
    dir: &dyn TreeDir,
    name: &Name,
    entry: &Entry,
    existing: &Meta,
) -> Option<Fault> {
    let Kind::Symlink { target } = &entry.kind else { return None };
    let leads_there = existing.kind != MetaKind::Symlink
        && (entry.leads_to.is_some() && entry.leads_to == existing.id
            || dir.leads_to(target, name));
    leads_there.then(Fault::of_link_to_itself)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, FileId};

    fn at(secs: i64) -> Timestamp {
        Timestamp { secs, nanos: 5 }
    }

    fn source(size: u64, mtime: Timestamp) -> Entry {
        Entry::new(None, Kind::File { size }, Attributes::new(0o644, mtime))
    }

    fn there(kind: MetaKind, mtime: Timestamp) -> Meta {
        Meta::new(kind, Attributes::new(0o644, mtime))
    }

    fn skipped(skip: Skip) -> Decision {
        Decision::Settled(Outcome::Skipped(skip))
    }

    #[test]
    fn a_file_is_skipped_only_when_size_and_time_agree_to_the_nanosecond() {
        let entry = source(10, at(7));
        let same = there(MetaKind::File { size: 10 }, at(7));
        let longer = there(MetaKind::File { size: 11 }, at(7));
        let later = there(MetaKind::File { size: 10 }, Timestamp { secs: 7, nanos: 6 });
        let decide = |meta: &Meta| file(&entry, Some(meta), Conflict::ReplaceChanged);
        assert_eq!(decide(&same), skipped(Skip::Unchanged));
        assert_eq!(decide(&longer), Decision::Copy(OnExisting::Replace));
        assert_eq!(decide(&later), Decision::Copy(OnExisting::Replace));
    }

    #[test]
    fn each_policy_replaces_what_it_says() {
        let entry = source(10, at(7));
        let older = there(MetaKind::File { size: 9 }, at(6));
        let newer = there(MetaKind::File { size: 9 }, at(8));
        let same = there(MetaKind::File { size: 10 }, at(7));
        let replace = Decision::Copy(OnExisting::Replace);
        assert_eq!(file(&entry, Some(&older), Conflict::ReplaceOlder), replace);
        assert_eq!(file(&entry, Some(&newer), Conflict::ReplaceOlder), skipped(Skip::NotOlder));
        assert_eq!(file(&entry, Some(&same), Conflict::ReplaceAll), replace);
        assert_eq!(file(&entry, Some(&older), Conflict::Keep), skipped(Skip::Exists));
        assert_eq!(file(&entry, None, Conflict::Keep), Decision::Copy(OnExisting::Keep));
        assert_eq!(file(&entry, None, Conflict::ReplaceAll), Decision::Copy(OnExisting::Keep));
    }

    #[test]
    fn directories_devices_and_the_file_itself_are_never_replaced() {
        let mut entry = source(10, at(7));
        entry.id = Some(FileId { dev: 1, ino: 2 });
        let mut itself = there(MetaKind::File { size: 10 }, at(7));
        itself.id = entry.id;
        for (meta, kind) in [
            (there(MetaKind::Dir, at(1)), FaultKind::IsDirectory),
            (there(MetaKind::Special, at(1)), FaultKind::Special),
            (itself, FaultKind::SameFile),
        ] {
            let Decision::Settled(Outcome::Failed(fault)) =
                file(&entry, Some(&meta), Conflict::ReplaceAll)
            else {
                panic!("{meta:?} was to be replaced");
            };
            assert_eq!(fault.kind, kind);
        }
    }

    #[test]
    fn a_link_with_the_same_target_is_left() {
        let kind = Kind::Symlink { target: (*b"a").into() };
        let entry = Entry { kind, ..source(0, at(7)) };
        let link = there(MetaKind::Symlink, at(1));
        let rules = Rules { conflict: Conflict::default(), keeps: Kept::OF_COPIES };
        let decide = |target| symlink(&entry, Some(&link), Some(target), rules);
        assert_eq!(decide(b"a"), skipped(Skip::Unchanged));
        assert_eq!(decide(b"b"), Decision::Copy(OnExisting::Replace));
    }
}
