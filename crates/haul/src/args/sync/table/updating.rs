//! The words about how files get their content.

use super::{Turn, WRITING, Word};

pub(super) const WORDS: &[Word] = &[
    switch!(
        WRITING,
        "preallocate",
        None,
        "",
        "Reserve room for each file before it is written",
        |wish, on| {
            wish.mirror.preallocates = on;
        }
    ),
    switch!(
        WRITING,
        "fuzzy",
        Some('y'),
        "no-y",
        "Of a missing file send what differs from one with a name like it",
        |wish, on| {
            wish.mirror.fuzzy = on;
        }
    ),
    switch!(
        WRITING,
        "inplace",
        None,
        "",
        "Write into files that are there: other names of them change, too",
        |wish, on| {
            wish.in_place = on;
        }
    ),
    switch!(
        WRITING,
        "append",
        None,
        "",
        "Write what is missing to the end of files that are shorter; others stay",
        |wish, on| {
            wish.appends = on;
        }
    ),
    flag!(WRITING, "append-verify", None, "The same", |wish, on| wish.appends = on),
];
