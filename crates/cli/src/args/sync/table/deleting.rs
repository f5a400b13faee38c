//! The options for removing extras.

use super::{DeleteTiming, Effect, OptionSpec, SyncOptions, number};

pub(super) const OPTIONS: &[OptionSpec] = &[
    flag!("delete", None, = deletes),
    flag!("delete-during", None, |options, _| removes(options, "during", DeleteTiming::During)),
    flag!("delete-before", None, |options, _| removes(options, "before", DeleteTiming::Before)),
    flag!("delete-after", None, |options, _| removes(options, "after", DeleteTiming::After)),
    flag!("delete-delay", None, |options, _| removes(options, "during", DeleteTiming::After)),
    flag!("del", None, |options, _| removes(options, "during", DeleteTiming::During)),
    flag!("delete-excluded", None, |options, _| {
        options.deletes = true;
        options.deletes_excluded = true;
    }),
    value!("max-delete", None, "N", |options, value| {
        options.mirror.delete_max = Some(u64::try_from(number::<i64>(value)?).unwrap_or(0));
        Ok(())
    }),
    switch!("force", None, "", = force),
    flag!("ignore-errors", None, = delete.ignore_errors),
    OptionSpec {
        negated: &["no-remove-source-files"],
        ..flag!("remove-source-files remove-sent-files", None, = removes_sources)
    },
    flag!("no-moves", None, = no_moves),
    flag!("yes", None, = yes),
];

/// Removes extras at the time `when`. Options of the same `group` override each other; different
/// groups exclude each other, as in rsync.
fn removes(options: &mut SyncOptions, group: &'static str, when: DeleteTiming) {
    (options.deletes, options.when) = (true, Some(when));
    options.has_conflicting_when |=
        options.when_group.replace(group).is_some_and(|before| before != group);
}
