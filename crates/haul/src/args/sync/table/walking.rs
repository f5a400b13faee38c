//! The words about the walk through the sources.

use super::{SELECTING, Turn, Word};
use haul_model::{Missing, Systems};

pub(super) const WORDS: &[Word] = &[
    switch!(
        SELECTING,
        "dirs",
        Some('d'),
        "no-d",
        "Directories without what is in them",
        |wish, on| {
            wish.dirs = Some(on);
        }
    ),
    switch!(
        SELECTING,
        "relative",
        Some('R'),
        "no-R",
        "Sources keep their paths below DEST; a/./b/c keeps b/c",
        |wish, on| {
            wish.relative = Some(on);
        }
    ),
    flag!(
        SELECTING,
        "no-implied-dirs",
        None,
        "Of such a path only the end gets attributes; what leads to it is made if need be",
        |wish, _| {
            wish.leaves_ways = true;
        }
    ),
    flag!(SELECTING, "implied-dirs", None, "", |wish, _| {
        wish.leaves_ways = false;
    }),
    value!(
        SELECTING,
        "files-from",
        None,
        &[],
        "FILE",
        "Only the paths in FILE, one a line, below SOURCE; - is standard input. With it come -R and -d, and -a is without -r",
        |wish, value| {
            wish.files_from = Some(value.to_owned());
            Ok(())
        }
    ),
    switch!(
        SELECTING,
        "one-file-system",
        Some('x'),
        "no-x",
        "Not what is mounted below a source; twice: nor where it is mounted",
        |wish, on| {
            let systems = &mut wish.mirror.walking.systems;
            *systems = match (on, *systems) {
                (false, _) => Systems::All,
                (true, Systems::All) => Systems::OfSources,
                (true, _) => Systems::OfSourcesAlone,
            };
        }
    ),
    switch!(
        SELECTING,
        "prune-empty-dirs",
        Some('m'),
        "no-m",
        "No directories with nothing but directories in them",
        |wish, on| {
            wish.mirror.walking.prunes_empty = on;
        }
    ),
    flag!(
        SELECTING,
        "ignore-missing-args",
        None,
        "A source that is not there is no error",
        |wish, _| {
            let missing = &mut wish.mirror.walking.missing;
            if *missing == Missing::Fails {
                *missing = Missing::PassedOver;
            }
        }
    ),
    flag!(
        SELECTING,
        "delete-missing-args",
        None,
        "A source that is not there is removed from DEST",
        |wish, _| {
            wish.mirror.walking.missing = Missing::Removed;
        }
    ),
    switch!(
        SELECTING,
        "from0",
        Some('0'),
        "no-0",
        "Rules and paths in files end with a byte 0, not with their line",
        |wish, on| {
            wish.from_zeros = on;
        }
    ),
];
