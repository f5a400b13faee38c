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
        "delay-updates",
        None,
        "",
        "Files get their names at the end, one right behind the other",
        |wish, on| {
            wish.mirror.delays = on;
        }
    ),
    value!(
        WRITING,
        "temp-dir",
        Some('T'),
        &[],
        "DIR",
        "Write new files in DIR, on DEST's machine, until they are whole",
        |wish, value| {
            wish.temp_dir = Some(value.to_owned());
            Ok(())
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
