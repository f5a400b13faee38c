//! Attributes that a move would lose because they are not even sent to the Receiver. The Receiver
//! checks the others. Such a source stays, unless the user accepts the loss.

use crate::dirs::DirNode;
use crate::not_kept::would_lose;
use haul_model::{Fault, Name, Side};
use haul_tree::{MetaKind, TreeDir};
use std::io;
use std::sync::Arc;

/// Prefixes of extended attributes that belong to an entry, and not to its system.
const OWN_ATTRIBUTES: [&str; 3] = ["user.", "trusted.", "security.capability"];

/// The reason why the entry `name` of `node`, or `node` itself, stays: a copy made from the listed
/// attributes would lack some, or it can't be inspected.
pub(super) fn fault(node: &Arc<DirNode>, name: Option<&Name>) -> Option<Fault> {
    let dir = match node.handle() {
        Ok(dir) => dir,
        Err(error) => return Some(Fault::from_io(Side::Source, "open", &error)),
    };
    inspect(&*dir, name)
        .unwrap_or_else(|error| Some(Fault::from_io(Side::Source, "read its attributes", &error)))
}

fn inspect(dir: &dyn TreeDir, name: Option<&Name>) -> io::Result<Option<Fault>> {
    let is_dir = match name {
        Some(name) => dir.stat(name, false)?.ok_or(io::ErrorKind::NotFound)?.kind == MetaKind::Dir,
        None => true,
    };
    let lost_attributes = lost_attributes(&dir.attribute_names(name)?, haul_sys::is_root());
    Ok(would_lose(is_dir, lost_attributes.as_slice()))
}

/// The name of the lost attributes, for messages.
fn lost_attributes(names: &[Vec<u8>], is_root: bool) -> Option<&'static str> {
    let belongs_to_entry = |name: &&Vec<u8>| **name != haul_tree::ORIGIN_ATTRIBUTE.as_bytes();
    let has = |start: &str| {
        names.iter().filter(belongs_to_entry).any(|name| name.starts_with(start.as_bytes()))
    };
    // A job without root lists `user.` attributes only.
    let is_lost = |start: &str| has(start) && !(is_root || start == OWN_ATTRIBUTES[0]);
    OWN_ATTRIBUTES.into_iter().any(is_lost).then_some("its extended attributes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_are_not_sent_are_named() {
        let lost_attributes = |is_root, names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            lost_attributes(&names, is_root).unwrap_or_default()
        };
        let all = ["user.a", "trusted.b", "security.capability", "system.posix_acl_access"];
        assert_eq!(lost_attributes(true, &all), "");
        assert_eq!(lost_attributes(false, &["user.a", "system.posix_acl_default"]), "");
        assert_eq!(lost_attributes(false, &["security.capability"]), "its extended attributes");
        assert_eq!(lost_attributes(false, &["security.selinux", "system.nfs4_acl"]), "");
        assert_eq!(lost_attributes(false, &[haul_tree::ORIGIN_ATTRIBUTE]), "");
    }
}
