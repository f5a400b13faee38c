//! The comparison of an entry with what exists at its place.

use haul_model::{Changes, Entry, Kept, Kind, Meta, MetaKind, Special};

/// How what exists differs from `entry`, whatever its content. `target` is where an existing link
/// points. Checks report this, copies decide by it, and attributes are set or left alone, as far
/// as `keeps` has them.
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

/// The attributes of a link that are kept up. Its time is one only where that is asked for by
/// itself.
const fn of_links(keeps: Kept) -> Kept {
    let times = Kept::TIMES.only_if(keeps.has(Kept::LINK_TIMES) && keeps.has(Kept::TIMES));
    times.with(keeps.and(Kept::OWNER.with(Kept::XATTRS)))
}
