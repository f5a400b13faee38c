//! The loss of an entry of this machine by a move: attributes that this user, or the
//! destination, can't keep. Such a source stays where it is, unless the user does without.

use crate::link::Proof;
use haul_model::{Fault, FaultKind, Kept, Name, Side};
use haul_tree::{Meta, MetaKind, Owner, TreeDir};
use std::io;

/// Names of attributes that belong to an entry, and not to the system that it is
/// on: all that begin so.
const OWN_ATTRIBUTES: [&str; 3] = ["user.", "trusted.", "security.capability"];

/// The number of the user who sees all attributes, and can give them.
const ROOT: u32 = 0;

const ACL: &str = "system.posix_acl_";

/// Why the entry `name` of `dir`, or `dir` itself, stays, if it would lose something
/// by being made anew for `owner` where all that is `kept` is set afterwards. Other names that it has are not seen here, and a tree
/// that tells no owners has nothing to lose.
///
/// # Errors
/// When it can't be looked at.
pub(super) fn loss(
    dir: &dyn TreeDir,
    name: Option<&Name>,
    owner: Owner,
    kept: Kept,
) -> io::Result<Option<Fault>> {
    let meta = match name {
        Some(name) => dir.stat(name, false)?.ok_or(io::ErrorKind::NotFound)?,
        None => dir.stat_self()?,
    };
    let Some(own) = meta.owner else { return Ok(None) };
    let lost = lost(&meta, own, &dir.attribute_names(name)?, owner, kept);
    Ok((!lost.is_empty()).then(|| fault(&meta, &lost)))
}

/// In words.
fn lost(meta: &Meta, own: Owner, names: &[Vec<u8>], owner: Owner, kept: Kept) -> Vec<String> {
    let mut lost = Vec::new();
    if own.user != owner.user && !kept.has(Kept::USER) {
        lost.push(format!("its owner ({})", own.user));
    }
    let gives_group = kept.has(Kept::GROUP) && haul_sys::is_of_group(own.group);
    if own.group != owner.group && !gives_group {
        lost.push(format!("its group ({})", own.group));
    }
    if meta.kind != MetaKind::Symlink && meta.attributes.mode & !kept.mode_bits() & 0o7000 != 0 {
        lost.push("its set-ID bits".to_owned());
    }
    let is_own = |name: &&Vec<u8>| **name != haul_tree::ORIGIN_ATTRIBUTE.as_bytes();
    let has =
        |start: &str| names.iter().filter(is_own).any(|name| name.starts_with(start.as_bytes()));
    if has(ACL) && !kept.has(Kept::ACL) {
        lost.push("its ACL".to_owned());
    }
    let keeps = |start: &str| {
        let is_of_user = start == OWN_ATTRIBUTES[0] || haul_sys::effective_user() == ROOT;
        meta.kind != MetaKind::Symlink && kept.has(Kept::XATTRS) && is_of_user
    };
    if OWN_ATTRIBUTES.into_iter().any(|start| has(start) && !keeps(start)) {
        lost.push("its extended attributes".to_owned());
    }
    lost
}

fn fault(meta: &Meta, lost: &[String]) -> Fault {
    let all = if meta.kind == MetaKind::Dir { " with all that is in it" } else { "" };
    let lost = lost.join(" and ");
    Fault::new(Side::Source, FaultKind::Lossy, format!("it stays{all}: {lost} would be lost"))
}

/// Why the source that is `own` stays, if the file that the destination has of it belongs
/// to somebody else: it may have been there before.
pub(super) fn other_owner(own: Owner, proof: Option<&Proof>) -> Option<Fault> {
    let there = proof?.owner()?;
    if there == own {
        return None;
    }
    let message = format!(
        "it stays: its owner and group are {}:{}, and those of the destination's are {}:{}",
        own.user, own.group, there.user, there.group
    );
    Some(Fault::new(Side::Source, FaultKind::Lossy, message))
}

/// The fault of an entry that has several names in what is moved.
pub(super) fn linked() -> Fault {
    let message =
        "it stays: it is one file under several names here, which would become files of their own";
    Fault::new(Side::Source, FaultKind::Lossy, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_tree::{LocalTree, Tree};

    fn meta(mode: u32) -> Meta {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().as_os_str().as_encoded_bytes();
        let mut meta = LocalTree.open(path).unwrap().stat_self().unwrap();
        meta.attributes.mode = mode;
        meta
    }

    #[test]
    fn what_haul_does_not_keep_is_named() {
        let owner = Owner { user: 1, group: 2 };
        let lost = |mode, names: &[&str], owner| {
            let names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            lost(&meta(mode), Owner { user: 1, group: 2 }, &names, owner, Kept::OF_COPIES)
                .join(", ")
        };
        assert_eq!(lost(0o1777, &["security.selinux", "system.nfs4_acl"], owner), "");
        assert_eq!(lost(0o755, &[], Owner { user: 0, ..owner }), "its owner (1)");
        assert_eq!(lost(0o755, &[], Owner { group: 0, ..owner }), "its group (2)");
        assert_eq!(lost(0o2755, &[], owner), "its set-ID bits");
        assert_eq!(lost(0o4755, &["user.a"], owner), "its set-ID bits, its extended attributes");
        assert_eq!(lost(0o755, &["system.posix_acl_default"], owner), "its ACL");
        assert_eq!(lost(0o755, &["security.capability"], owner), "its extended attributes");
        assert_eq!(lost(0o755, &["trusted.overlay.opaque"], owner), "its extended attributes");
    }
}
