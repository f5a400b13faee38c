//! What an entry of this machine would lose by a move: what it has and haul does not
//! keep. Such a source stays where it is, unless the user does without.

use crate::link::Proof;
use haul_model::{Fault, FaultKind, Name, Side};
use haul_sys::{Dir, Stat};
use haul_tree::KEPT_MODE;
use std::io;

/// Who owns what this process makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Names of attributes that belong to an entry, and not to the system that it is
/// on: all that begin so.
const OWN_ATTRIBUTES: [&str; 3] = ["user.", "trusted.", "security.capability"];

const ACL: &str = "system.posix_acl_";

/// Why the entry `name` of `dir`, or `dir` itself, stays, if it would lose something
/// by being made anew for `owner`. That it has other names is not seen here.
///
/// # Errors
/// When it can't be looked at.
pub(super) fn loss(dir: &Dir, name: Option<&Name>, owner: Owner) -> io::Result<Option<Fault>> {
    let stat = match name {
        Some(name) => dir.stat(name)?,
        None => dir.stat_self()?,
    };
    let names = haul_sys::attribute_names(dir, name)?;
    let lost = lost(&stat, &names, owner);
    Ok((!lost.is_empty()).then(|| fault(&stat, &lost)))
}

/// In words.
fn lost(stat: &Stat, names: &[Vec<u8>], owner: Owner) -> Vec<String> {
    let mut lost = Vec::new();
    if stat.uid != owner.user {
        lost.push(format!("its owner ({})", stat.uid));
    }
    if stat.gid != owner.group {
        lost.push(format!("its group ({})", stat.gid));
    }
    if !stat.is_symlink() && stat.mode & !KEPT_MODE & 0o7000 != 0 {
        lost.push("its set-ID bits".to_owned());
    }
    let is_own = |name: &&Vec<u8>| **name != haul_tree::ORIGIN_ATTRIBUTE.as_bytes();
    let has =
        |start: &str| names.iter().filter(is_own).any(|name| name.starts_with(start.as_bytes()));
    if has(ACL) {
        lost.push("its ACL".to_owned());
    }
    if OWN_ATTRIBUTES.into_iter().any(has) {
        lost.push("its extended attributes".to_owned());
    }
    lost
}

fn fault(stat: &Stat, lost: &[String]) -> Fault {
    let all = if stat.is_dir() { " with all that is in it" } else { "" };
    let lost = lost.join(" and ");
    Fault::new(Side::Source, FaultKind::Lossy, format!("it stays{all}: {lost} would be lost"))
}

/// Why the source with the metadata `stat` stays, if the file that the destination
/// has of it belongs to somebody else: it may have been there before.
pub(super) fn other_owner(stat: &Stat, proof: Option<&Proof>) -> Option<Fault> {
    let there = proof?.stat()?;
    if (there.uid, there.gid) == (stat.uid, stat.gid) {
        return None;
    }
    let message = format!(
        "it stays: its owner and group are {}:{}, and those of the destination's are {}:{}",
        stat.uid, stat.gid, there.uid, there.gid
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
    use haul_model::{FileId, Timestamp};

    fn stat(mode: u32) -> Stat {
        let dir = tempfile::tempdir().unwrap();
        let mtime = Timestamp { secs: 0, nanos: 0 };
        let id = FileId { dev: 1, ino: 1 };
        let any = Dir::open(dir.path()).unwrap().stat_self().unwrap();
        Stat { uid: 1, gid: 2, mode, mtime, id, ..any }
    }

    #[test]
    fn what_haul_does_not_keep_is_named() {
        let owner = Owner { user: 1, group: 2 };
        let lost = |mode, names: &[&str], owner| {
            let names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            lost(&stat(mode), &names, owner).join(", ")
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
