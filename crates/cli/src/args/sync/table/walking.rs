//! Options for the scan of the sources.

use super::{Turn, Word};
use haul_model::{Missing, Systems};

pub(super) const WORDS: &[Word] = &[
    switch!("dirs", Some('d'), "no-d", |wish, on| wish.dirs = Some(on)),
    switch!("relative", Some('R'), "no-R", |wish, on| wish.relative = Some(on)),
    flag!("no-implied-dirs", None, = leaves_ways),
    flag!("implied-dirs", None, |wish, _| wish.leaves_ways = false),
    value!("files-from", None, &[], "FILE", = files_from),
    switch!("one-file-system", Some('x'), "no-x", |wish, on| {
        let systems = &mut wish.mirror.walking.systems;
        *systems = match (on, *systems) {
            (false, _) => Systems::All,
            (true, Systems::All) => Systems::OfSources,
            (true, _) => Systems::OfSourcesAlone,
        };
    }),
    switch!("prune-empty-dirs", Some('m'), "no-m", = mirror.walking.prunes_empty),
    flag!("ignore-missing-args", None, |wish, _| {
        let missing = &mut wish.mirror.walking.missing;
        if *missing == Missing::Fails {
            *missing = Missing::PassedOver;
        }
    }),
    flag!("delete-missing-args", None, |wish, _| wish.mirror.walking.missing = Missing::Removed),
    switch!("from0", Some('0'), "no-0", = from_zeros),
];
