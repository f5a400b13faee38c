//! Options for the scan of the sources.

use super::{Effect, OptionSpec};
use haul_model::{Missing, Systems};

pub(super) const OPTIONS: &[OptionSpec] = &[
    switch!("dirs", Some('d'), "no-d", |options, on| options.dirs = Some(on)),
    switch!("relative", Some('R'), "no-R", |options, on| options.relative = Some(on)),
    flag!("no-implied-dirs", None, = no_implied_dirs),
    flag!("implied-dirs", None, |options, _| options.no_implied_dirs = false),
    value!("files-from", None, "FILE", = files_from),
    switch!("one-file-system", Some('x'), "no-x", |options, on| {
        let systems = &mut options.mirror.walking.systems;
        *systems = match (on, *systems) {
            (false, _) => Systems::All,
            (true, Systems::All) => Systems::OfSources,
            (true, _) => Systems::OfSourcesAlone,
        };
    }),
    switch!("prune-empty-dirs", Some('m'), "no-m", = mirror.walking.prunes_empty),
    flag!("ignore-missing-args", None, |options, _| {
        let missing = &mut options.mirror.walking.missing;
        if *missing == Missing::Fails {
            *missing = Missing::Ignored;
        }
    }),
    flag!("delete-missing-args", None, |options, _| options.mirror.walking.missing =
        Missing::Removed),
    switch!("from0", Some('0'), "no-0", = from0),
];
