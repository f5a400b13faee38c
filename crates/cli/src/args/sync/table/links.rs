//! Options for special treatment of symbolic links.

use super::{Effect, OptionSpec};

pub(super) const OPTIONS: &[OptionSpec] = &[
    flag!("copy-unsafe-links", None, = mirror.walking.followed_links.out),
    flag!("copy-dirlinks", Some('k'), = mirror.walking.followed_links.to_dirs),
    switch!("keep-dirlinks", Some('K'), "", = mirror.keeps_dir_links),
    flag!("safe-links", None, = mirror.safe_links),
    switch!("munge-links", None, "", = munges),
];
