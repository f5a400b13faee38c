//! Options for special treatment of symbolic links.

use super::{Turn, Word};

pub(super) const WORDS: &[Word] = &[
    flag!("copy-unsafe-links", None, = mirror.walking.led.out),
    flag!("copy-dirlinks", Some('k'), = mirror.walking.led.to_dirs),
    switch!("keep-dirlinks", Some('K'), "", = mirror.keeps_dir_links),
    flag!("safe-links", None, = mirror.safe_links),
    switch!("munge-links", None, "", = munges),
];
