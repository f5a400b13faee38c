//! The comparison of an entry with the existing object at its place.

use haul_model::{Changes, Entry, Kept, Kind, Meta, MetaKind, Special};

/// The differences between `existing` and `entry`, without the content. `target` is the target of
/// an existing link. Only attributes in `keeps` count. Checks report the differences, copies decide
/// by them, and differing attributes are set.
pub fn changes(entry: &Entry, existing: &Meta, target: Option<&[u8]>, keeps: Kept) -> Changes {
    let of = |kept| entry.attributes.changes(&existing.attributes, kept);
    match (&entry.kind, existing.kind) {
        (Kind::File { size }, MetaKind::File { size: there }) => {
            of(keeps).with(Changes::SIZE.only_if(*size != there))
        }
        (Kind::Dir, MetaKind::Dir) => of(keeps.of_dirs()),
        (Kind::Symlink { target: to }, MetaKind::Symlink) => {
            of(of_links(keeps)).with(Changes::TARGET.only_if(target != Some(to)))
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

/// The attributes of a link that are kept. Its time counts only with [`Kept::LINK_TIMES`].
const fn of_links(keeps: Kept) -> Kept {
    let times = Kept::TIMES.only_if(keeps.has(Kept::LINK_TIMES) && keeps.has(Kept::TIMES));
    times.with(keeps.and(Kept::OWNER.with(Kept::XATTRS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_model::{Attributes, Device, Timestamp};

    #[test]
    fn directories_and_specials_differ_by_kind() {
        let at = |secs| Timestamp { secs, nanos: 0 };
        let differs = |kind: Kind, there, specials: (Option<Special>, Option<Special>), secs| {
            let entry = Entry::new(None, kind, Attributes::new(0o755, at(7)));
            let meta = Meta::new(there, Attributes::new(0o755, at(secs)));
            let entry = Entry { special: specials.0, ..entry };
            changes(&entry, &Meta { special: specials.1, ..meta }, None, Kept::OF_COPIES)
        };
        let none = (None, None);
        assert_eq!(differs(Kind::Dir, MetaKind::Dir, none, 8), Changes::TIME);
        assert_eq!(differs(Kind::Dir, MetaKind::Dir, none, 7), Changes::default());
        assert_eq!(differs(Kind::Dir, MetaKind::Symlink, none, 7), Changes::KIND);
        let device = |minor| Device { major: 1, minor };
        let (block, other) = (Special::Block(device(2)), Special::Block(device(3)));
        let char = Special::Char(device(2));
        let special = |one, two| {
            let specials = (Some(one), Some(two));
            differs(Kind::Special, MetaKind::Special, specials, 7)
        };
        assert_eq!(special(block, block), Changes::default());
        assert_eq!(special(block, other), Changes::TARGET);
        assert_eq!(special(char, Special::Char(device(3))), Changes::TARGET);
        assert_eq!(special(block, char), Changes::KIND);
        assert_eq!(special(Special::Fifo, Special::Socket), Changes::KIND);
    }
}
