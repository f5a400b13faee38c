//! Messages about attributes that are not kept, or that a move would lose. Both sides use them.

use haul_model::{Fault, FaultKind, Kept, Side, Task};
use haul_sys::ROOT;
use haul_tree::Owner;
use std::borrow::Borrow;

/// True if root is warned that owners are not kept: in a copy that does not keep them. A mirror has
/// rsync's options, which state this.
pub(crate) fn warns_about_owners(task: &Task) -> bool {
    match task {
        Task::Copy(policy) => policy.moving.is_none() && !policy.keeps.has_any(Kept::OWNER),
        Task::Sync(..) | Task::Check { .. } | Task::Remove { .. } => false,
    }
}

/// True if a copy that root makes would have another owner.
pub(crate) fn has_other_owner(owner: Owner) -> bool {
    (owner.user, owner.group) != (ROOT, ROOT)
}

/// The message about a copy by root that does not keep the `owner`.
pub(crate) fn owner_not_kept(Owner { user, group }: Owner) -> String {
    format!(
        "owner {user} and group {group} are not preserved: the copy belongs to root, like later ones"
    )
}

/// The message about a tree that keeps, or reports, less than `asked`.
pub(crate) fn not_kept_message(asked: Kept, kept: Kept) -> Option<&'static str> {
    let not_kept = asked.without(kept).without(Kept::LINK_TIMES);
    if not_kept == Kept::LINKS {
        return Some("hard links can't be preserved there: copying each name as a separate file");
    }
    let message = match not_kept.has(Kept::LINKS) {
        true => {
            "owners, groups, access control lists, extended attributes and hard links can't be preserved there: copying without them"
        }
        false => {
            "owners, groups, access control lists and extended attributes can't be preserved there: copying without them"
        }
    };
    (!not_kept.is_empty()).then_some(message)
}

/// The fault of a source that stays because a move would lose the attributes `lost`; `None` if
/// there are none.
pub(crate) fn would_lose<W: Borrow<str>>(is_dir: bool, lost: &[W]) -> Option<Fault> {
    if lost.is_empty() {
        return None;
    }
    let all = if is_dir { ", with its content" } else { "" };
    let message = format!("not moved{all}: {} would be lost", lost.join(" and "));
    Some(Fault::new(Side::Source, FaultKind::Lossy, message))
}
