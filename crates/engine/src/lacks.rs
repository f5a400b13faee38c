//! The words about attributes that are not kept.

use haul_model::{Kept, Task};
use haul_sys::ROOT;
use haul_tree::Owner;

/// True if root is told that owners are not kept: by a copy that was not asked to keep
/// them. A mirror has the words of rsync, which say it.
pub(crate) fn forgets_owners(task: &Task) -> bool {
    match task {
        Task::Copy(policy) => policy.moving.is_none() && !policy.keeps.has_any(Kept::OWNER),
        Task::Sync(..) | Task::Check { .. } | Task::Remove { .. } => false,
    }
}

/// True if a copy that root makes would have another owner.
pub(crate) fn is_of_others(owner: Owner) -> bool {
    (owner.user, owner.group) != (ROOT, ROOT)
}

/// The words about a copy of which root does not keep the `owner`.
pub(crate) fn owner_not_kept(Owner { user, group }: Owner) -> String {
    format!(
        "it belongs to user {user} and group {group}: owners and groups are not kept, here and in what follows"
    )
}

/// The words about a tree that keeps, or tells, less than is `asked` for.
pub(crate) fn lacking(asked: Kept, kept: Kept) -> Option<&'static str> {
    let lacks = asked.without(kept).without(Kept::LINK_TIMES);
    if lacks == Kept::LINKS {
        return Some(
            "hard links are neither told nor kept there: each name gets a file of its own",
        );
    }
    let message = match lacks.has(Kept::LINKS) {
        true => {
            "owners, groups, access control lists, extended attributes and hard links are neither told nor kept there"
        }
        false => {
            "owners, groups, access control lists and extended attributes are neither told nor kept there"
        }
    };
    (!lacks.is_empty()).then_some(message)
}
