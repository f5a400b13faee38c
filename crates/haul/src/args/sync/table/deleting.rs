//! The words about what is removed.

use super::{DELETING, Turn, When, Wish, Word, number};

pub(super) const WORDS: &[Word] = &[
    flag!(
        DELETING,
        "delete",
        None,
        "Remove what the sources have not from DEST's directories",
        |wish, _| {
            wish.deletes = true;
        }
    ),
    flag!(DELETING, "delete-during", None, "The same", |wish, _| {
        removes(wish, "during", When::During);
    }),
    flag!(DELETING, "delete-before", None, "The same, before anything is copied", |wish, _| {
        removes(wish, "before", When::Before);
    }),
    flag!(DELETING, "delete-after", None, "The same, when all is copied", |wish, _| {
        removes(wish, "after", When::After);
    }),
    flag!(DELETING, "delete-delay", None, "The same", |wish, _| {
        removes(wish, "during", When::After);
    }),
    flag!(DELETING, "del", None, "", |wish, _| {
        removes(wish, "during", When::During);
    }),
    flag!(DELETING, "delete-excluded", None, "And what is left out of the sources", |wish, _| {
        wish.deletes = true;
        wish.deletes_excluded = true;
    }),
    value!(
        DELETING,
        "max-delete",
        None,
        &[],
        "N",
        "Remove no more than N entries",
        |wish, value| {
            wish.mirror.delete_max = Some(u64::try_from(number::<i64>(value)?).unwrap_or(0));
            Ok(())
        }
    ),
    switch!(
        DELETING,
        "force",
        None,
        "",
        "A directory that is not empty makes way for what is none",
        |wish, on| {
            wish.force = on;
        }
    ),
    flag!(
        DELETING,
        "ignore-errors",
        None,
        "Remove even if not all of the sources could be read",
        |wish, on| {
            wish.delete.ignore_errors = on;
        }
    ),
    switch!(
        DELETING,
        "remove-source-files",
        None,
        "",
        "Remove from the sources what is no directory and has arrived",
        |wish, on| {
            wish.removes_sources = on;
        }
    ),
    flag!(
        DELETING,
        "no-moves",
        None,
        "Send large files that have only another name now, too",
        |wish, _| {
            wish.sends_moved = true;
        }
    ),
    flag!(
        DELETING,
        "yes",
        None,
        "Don't ask on a terminal before most of DEST is removed",
        |wish, _| {
            wish.yes = true;
        }
    ),
];

/// Has what only DEST has removed at that time. Words of the same `group` replace each other,
/// others are refused beside it, as with rsync.
fn removes(wish: &mut Wish, group: &'static str, when: When) {
    (wish.deletes, wish.when) = (true, Some(when));
    wish.mixes_when |= wish.when_group.replace(group).is_some_and(|before| before != group);
}
