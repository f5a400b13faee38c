//! The loss of an entry of this machine by a move: attributes that are not even sent to the
//! Receiver, which judges the others. Such a source stays where it is, unless the user does
//! without.

use crate::lacks::would_lose;
use haul_model::{Fault, Name};
use haul_tree::{MetaKind, TreeDir};
use std::io;

/// Names of attributes that belong to an entry, and not to the system that it is
/// on: all that begin so.
const OWN_ATTRIBUTES: [&str; 3] = ["user.", "trusted.", "security.capability"];

/// Why the entry `name` of `dir`, or `dir` itself, stays, if it would lose something
/// by being made anew from its listed attributes.
///
/// # Errors
/// When it can't be looked at.
pub(super) fn loss(dir: &dyn TreeDir, name: Option<&Name>) -> io::Result<Option<Fault>> {
    let is_dir = match name {
        Some(name) => dir.stat(name, false)?.ok_or(io::ErrorKind::NotFound)?.kind == MetaKind::Dir,
        None => true,
    };
    let lost = lost(&dir.attribute_names(name)?, haul_sys::is_root());
    Ok(would_lose(is_dir, lost.as_slice()))
}

/// In words.
fn lost(names: &[Vec<u8>], is_root: bool) -> Option<&'static str> {
    let is_own = |name: &&Vec<u8>| **name != haul_tree::ORIGIN_ATTRIBUTE.as_bytes();
    let has =
        |start: &str| names.iter().filter(is_own).any(|name| name.starts_with(start.as_bytes()));
    // Without root only `user.` attributes are listed..
    let is_lost = |start: &str| has(start) && !(is_root || start == OWN_ATTRIBUTES[0]);
    OWN_ATTRIBUTES.into_iter().any(is_lost).then_some("its extended attributes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_named() {
        let lost = |is_root, names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            lost(&names, is_root).unwrap_or_default()
        };
        let all = ["user.a", "trusted.b", "security.capability", "system.posix_acl_access"];
        assert_eq!(lost(true, &all), "");
        assert_eq!(lost(false, &["user.a", "system.posix_acl_default"]), "");
        assert_eq!(lost(false, &["security.capability"]), "its extended attributes");
        assert_eq!(lost(false, &["security.selinux", "system.nfs4_acl"]), "");
        assert_eq!(lost(false, &[haul_tree::ORIGIN_ATTRIBUTE]), "");
    }
}
