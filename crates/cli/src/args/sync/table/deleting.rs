//! The options for removing extras.

use super::{Turn, When, Wish, Word, number};

pub(super) const WORDS: &[Word] = &[
    flag!("delete", None, = deletes),
    flag!("delete-during", None, |wish, _| removes(wish, "during", When::During)),
    flag!("delete-before", None, |wish, _| removes(wish, "before", When::Before)),
    flag!("delete-after", None, |wish, _| removes(wish, "after", When::After)),
    flag!("delete-delay", None, |wish, _| removes(wish, "during", When::After)),
    flag!("del", None, |wish, _| removes(wish, "during", When::During)),
    flag!("delete-excluded", None, |wish, _| {
        wish.deletes = true;
        wish.deletes_excluded = true;
    }),
    value!("max-delete", None, &[], "N", |wish, value| {
        wish.mirror.delete_max = Some(u64::try_from(number::<i64>(value)?).unwrap_or(0));
        Ok(())
    }),
    switch!("force", None, "", = force),
    flag!("ignore-errors", None, = delete.ignore_errors),
    Word {
        aliases: &["remove-sent-files"],
        ..switch!("remove-source-files", None, "", = removes_sources)
    },
    flag!("no-moves", None, = sends_moved),
    flag!("yes", None, = yes),
];

/// Removes extras at the time `when`. Options of the same `group` override each other; different
/// groups exclude each other, as in rsync.
fn removes(wish: &mut Wish, group: &'static str, when: When) {
    (wish.deletes, wish.when) = (true, Some(when));
    wish.mixes_when |= wish.when_group.replace(group).is_some_and(|before| before != group);
}
