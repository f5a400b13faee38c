//! Symbolic links that are followed in a job that does not follow all links.

use crate::dirs::DirNode;
use haul_model::{Fault, FaultKind, FollowedLinks, Name, Side, links};
use haul_tree::{Meta, MetaKind};
use std::io;
use std::sync::Arc;

/// The metadata of the target of the symbolic link `name` of `dir`, if the link is followed.
/// `target` is its target path, if known.
///
/// # Errors
/// The reason why its target can't be inspected.
pub(crate) fn inspect(
    followed_links: FollowedLinks,
    dir: &Arc<DirNode>,
    name: &Name,
    target: Option<&[u8]>,
) -> Result<Option<Meta>, Fault> {
    let failed = |error: io::Error| Fault::from_io(Side::Source, "read its metadata", &error);
    let handle = dir.handle().map_err(failed)?;
    if followed_links.to_dirs
        && let Ok(Some(there)) = handle.stat(name, true)
        && there.kind == MetaKind::Dir
    {
        return Ok(Some(there));
    }
    if !followed_links.out {
        return Ok(None);
    }
    let read;
    let target = match target {
        Some(target) => target,
        None => {
            read = handle.read_link(name).map_err(failed)?;
            &*read
        }
    };
    if !links::leads_out(target, dir.depth()) {
        return Ok(None);
    }
    match handle.stat(name, true).map_err(failed)? {
        Some(there) => Ok(Some(there)),
        None => Err(Fault::new(Side::Source, FaultKind::Link, "the symbolic link is dangling")),
    }
}
